"""What the app gains by reaching into Python's garbage collection and the server's sockets: with and without
each part, by turns.

    python -m tests.bench.private_parts [--rounds 3]

- frozen: what the server imports is left out of each garbage collection (`gc.freeze`). Processor time of the
  first run of the Lab, and the longest collection while bits are changed;
- own value: a widget reads its own value without a copy of all (`look_up_own_value`). Processor time of a
  change of the bits;
- at once: the server's connections do not wait for acknowledgements (`send_at_once`). Time until ninety of a
  page's scripts have come, six at a time.

Prints the least of each, and the ratio of without to with: above 1 the part pays.
"""

import argparse
import gc
import http.client
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import streamlit
from streamlit.testing.v1 import AppTest

from quantviz.ui.shell import streamlit_private
from tests.bench.servers import ROOT, serving

#: Changes of the bits that are measured, after some that warm everything up.
CHANGES, WARM = 100, 4
#: Scripts of a page, and the connections that a browser opens for them.
SCRIPTS, CONNECTIONS = 90, 6
_WAITING = "import quantviz.ui.shell.server as server\nserver.send_at_once = lambda: True\n"


def lab_ms(without: str) -> dict[str, float]:
    """Milliseconds of the processor of the first run of the Lab, of a change in it, and of its longest
    garbage collection, in this process.
    """
    if without == "frozen":
        gc.freeze = lambda: None
    if without == "own value":
        streamlit_private.look_up_own_value = lambda: True
    collections = [0.0]
    began = 0.0

    def watch(phase: str, _: object) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        else:
            collections.append(time.thread_time() - began)

    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300).run()
    start = time.process_time()
    app.switch_page("pages/lab/playground.py").run()
    first = time.process_time() - start
    changes = []
    for change in range(WARM + CHANGES):
        if change == WARM:
            gc.callbacks.append(watch)
        start = time.process_time()
        app.segmented_control(key="bits").set_value(4 if change % 2 else 8).run()
        changes.append(time.process_time() - start)
    assert not app.exception
    return {
        "first run": 1000 * first,
        "change": 1000 * sorted(changes[WARM:])[CHANGES // 2],
        "longest collection": 1000 * max(collections),
    }


def in_a_process(without: str) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.private_parts", "--without", without]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def scripts_ms(folder: str | None) -> float:
    """Milliseconds until a page's scripts have come: the least of three times."""
    files = sorted((Path(streamlit.__file__).parent / "static" / "static" / "js").glob("*.js"))[:SCRIPTS]
    with serving(ROOT / "app.py", cwd=ROOT, extra_path=folder) as url:
        host = url.removeprefix("http://")
        time.sleep(10)  # until the server has imported everything

        def fetch(names: queue.SimpleQueue[str]) -> None:
            connection = http.client.HTTPConnection(host, timeout=60)
            while not names.empty():
                connection.request("GET", f"/static/js/{names.get()}")
                connection.getresponse().read()
            connection.close()

        seconds = []
        for _ in range(3):
            names: queue.SimpleQueue[str] = queue.SimpleQueue()
            for file in files:
                names.put(file.name)
            threads = [threading.Thread(target=fetch, args=(names,), daemon=True) for _ in range(CONNECTIONS)]
            start = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            seconds.append(time.monotonic() - start)
    return 1000 * min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", default=None)
    arguments = parser.parse_args()
    if arguments.without is not None:
        print(json.dumps(lab_ms(arguments.without)))
        return
    rounds = range(arguments.rounds)
    runs = [{part: in_a_process(part) for part in ("nothing", "frozen", "own value")} for _ in rounds]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(_WAITING, encoding="utf-8")
        fetched = [(scripts_ms(None), scripts_ms(folder)) for _ in rounds]

    def show(part: str, what: str, with_it: float, without: float) -> None:
        print(
            f"{part:9}  {what:18}  {with_it:6.0f} ms   without {without:6.0f} ms   × {without / with_it:.2f}"
        )

    def least(part: str, what: str) -> float:
        return min(run[part][what] for run in runs)

    for what in ("first run", "change", "longest collection"):
        show("frozen", what, least("nothing", what), least("frozen", what))
    show("own value", "change", least("nothing", "change"), least("own value", "change"))
    show("at once", "ninety scripts", *(min(each) for each in zip(*fetched, strict=True)))


if __name__ == "__main__":
    main()
