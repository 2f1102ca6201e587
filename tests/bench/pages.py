"""Benchmarks of pages in Chromium and of their runs on the server: `python -m tests.bench.pages CASE`."""

from __future__ import annotations

import base64
import gc
import http.client
import itertools
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page
from streamlit.testing.v1 import AppTest

from tests.bench.runner import ROOT, case, head, in_turns, judged, main, process, ratio, row, timed
from tests.bench.servers import LAPTOP, PHONE, bare_page, chromium, new_page, server_process, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks
from tests.helpers.controls import choose
from tests.helpers.session import opened as opened_without_browser

#: The pictures of heatmaps and of image traces.
HEATMAPS = ".js-plotly-plot .heatmaplayer image, .js-plotly-plot .imagelayer image"
#: Clicks a button, and resolves with the milliseconds until two of four pictures have changed and were shown:
#: x stays, and x̂ may.
CHANGE = """
async ([pictures, button]) => {
  const shown = () => [...document.querySelectorAll(pictures)]
    .filter((image) => image.getBoundingClientRect().width > 20)
    .map((image) => image.getAttribute("href") ?? image.getAttribute("xlink:href"));
  const before = shown();
  const start = performance.now();
  button.click();
  for (;;) {
    await new Promise(requestAnimationFrame);
    const now = shown();
    if (now.length === 4 && now.filter((each) => !before.includes(each)).length >= 2) break;
    if (performance.now() - start > 20000) throw new Error("not repainted in 20 s");
  }
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}
"""


def ready(page: Page, address: str) -> Page:
    page.goto(address)
    page.wait_for_function(f"document.querySelectorAll('{HEATMAPS}').length >= 4", timeout=120_000)
    return page


#: The choice of some bits in the Lab, and on a bare page.
BITS = "[data-field=bits] label:has-text('{0}'), .st-key-bits button:has-text('{0}')"


def bits_ms(page: Page, bits: int) -> float:
    """Milliseconds from the click on another bit width until the pictures have changed."""
    page.bring_to_front()
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(150)
    pressed = page.locator(BITS.format(bits)).first.element_handle()
    return float(page.evaluate(CHANGE, [HEATMAPS, pressed]))


def bits_of(page: Page) -> Callable[[], float]:
    choices = itertools.cycle((3, 4, 5))
    return lambda: bits_ms(page, next(choices))


@case
def repaint(rounds: int = 15) -> None:
    """From a widget's change to four panels repainted: the Lab against a bare Streamlit page (bar 1.2).

    Both servers run at once and are clicked in turn, in the same Chromium. A change counts from the click on
    another bit width until two of the four heatmaps have changed and were shown.
    """
    with bare_page() as bare, serving() as app, chromium() as browser:
        head("cells", "bare, ms", "Lab, ms", "ratio")
        for side in (8, 32, 128):
            addresses = f"{bare}/?side={side}", f"{app}/lab?t=normal(rows={side},cols={side})&lang=en"
            pages = [ready(new_page(browser), address) for address in addresses]
            times = in_turns({page: bits_of(page) for page in pages}, rounds, warm=2).values()
            own, other = map(statistics.median, times)
            row(f"{side}×{side}", f"{own:.0f}", f"{other:.0f}", judged(other / own, 1.2))
            for page in pages:
                page.close()


def chromium_bytes(address: str) -> int:
    """Proportional set size of a Chromium with that page open, all its processes, after a few changes."""
    from playwright.sync_api import sync_playwright

    def pss(pid: str) -> int:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        except OSError:  # a process that has just ended
            return 0
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        window = {"width": LAPTOP[0], "height": LAPTOP[1]}
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path=chromium_of_benchmarks(), args=list(FLAGS), viewport=window
        )
        page = ready(context.pages[0], address)
        for bits in (3, 5, 4):
            bits_ms(page, bits)
        page.wait_for_timeout(2000)
        found = subprocess.run(["pgrep", "-f", folder], capture_output=True, text=True, check=True).stdout
        total = sum(map(pss, found.split()))
        context.close()
    return total


@case
def large() -> None:
    """4096×11008 from a folder of the server against 32×32, clicked in turn on one server.

    Time until two of four pictures have changed (bar 1.5 ×), bytes that the server sent for it (1.5 MB), and
    memory of a Chromium of its own (1.3 ×). Each width is asked for once, so that nothing was found out about
    it before.
    """
    import torch
    from safetensors.torch import save_file

    from quantviz.sources import LocalTensor, write_source

    x = 0.02 * torch.randn(4096, 11008, generator=torch.Generator().manual_seed(0))
    x[:, 777] *= 8
    x[1234, 5678], x[4000, 17], x[3, 11000] = 3.0, -2.5, 1.7
    sources = "normal(rows=32,cols=32)", write_source(LocalTensor("large.safetensors", "weight", x.shape))
    with tempfile.TemporaryDirectory() as folder:
        save_file({"weight": x}, Path(folder) / "large.safetensors")
        with serving(env={"QUANTVIZ_DATA_DIR": folder}) as app:
            with chromium() as browser:
                head("one scale for", "32×32, ms", "large, ms", "ratio", "sent, MB, small", "large")
                for forms in (
                    ["per_tensor"] * 2,
                    ["per_channel(axis=0)"] * 2,
                    ["per_group(size=32)", "per_group(size=128)"],
                ):
                    sent: Counter[str] = Counter()
                    works = {}
                    for source, form in zip(sources, forms, strict=True):
                        page, bits = new_page(browser), iter((3, 5, 6, 2, 7, 8, 16))
                        count_bytes(page, source, sent)
                        ready(page, f"{app}/lab?t={source}&lang=en&s=int4,symmetric,{form},min_max,course")
                        page.wait_for_selector(IDLE)
                        page.wait_for_timeout(3000)
                        works[source] = partial(ms_and_bytes, page, bits, source, sent)
                    small, big = ([*zip(*each, strict=True)] for each in in_turns(works, 6).values())
                    times, most = [statistics.median(each[0]) for each in (small, big)], max(big[1])
                    told = judged(times[1] / times[0], 1.5), f"{max(small[1]):.2f}", judged(most, 1.5)
                    row(forms[1], *(f"{each:.0f}" for each in times), *told)
            one, other = (chromium_bytes(f"{app}/lab?t={source}&lang=en") for source in sources)
            print(f"Chromium: {one / 2**20:.0f} MB, {other / 2**20:.0f} MB, ratio {judged(other / one, 1.3)}")


def count_bytes(page: Page, name: str, sent: Counter[str]) -> None:
    """Add to `sent` what the page's web sockets receive."""

    def add(event: dict[str, Any]) -> None:
        frame = event["response"]
        data = frame["payloadData"]
        sent[name] += len(base64.b64decode(data)) if frame["opcode"] == 2 else len(data)

    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.webSocketFrameReceived", add)


def ms_and_bytes(page, bits, name, sent):
    before = sent[name]
    elapsed = bits_ms(page, next(bits))
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(300)
    return elapsed, (sent[name] - before) / 1e6


NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("left out for the benchmark")
sys.meta_path.insert(0, NoTorch())
"""
PAINTED = """() => document.querySelector(".st-key-title")
  && document.querySelector("[data-field=bits] input")
  && document.querySelector("[data-field=granularity] [value=block]") && document.querySelector(
    ".st-key-panels [data-testid=stSkeletonElement], .st-key-panels .hm image, [data-testid=stAlert]")"""
PANELS = "() => document.querySelectorAll('.st-key-panels .hm image').length === 4"
MOVED = """() => {
  const track = document.querySelector(".st-key-home_play .qv-track") ?? [...document.querySelectorAll(
    ".st-key-home_play *")].map((each) => each.shadowRoot?.querySelector(".qv-track")).find(Boolean);
  if (!track) return false;
  window.firstPlace ??= track.style.cssText;
  return track.style.cssText !== window.firstPlace;
}"""


def cold_ms(browser: Browser, path: str, size: tuple[int, int], *wanted: str, **server: Any) -> list[float]:
    """Milliseconds from the navigation until each that is wanted is there, on a fresh server."""
    with serving(**server) as app:
        page = new_page(browser, size)
        page.goto("about:blank")
        start = page.evaluate("Date.now()")
        page.goto(f"{app}/{path}")
        found = []
        for each in wanted:
            page.wait_for_function(each, polling="raf", timeout=60_000)
            found.append(float(page.evaluate("Date.now()") - start))
        page.close()
    return found


def import_ms() -> float:
    """Milliseconds of a process that imports what the panels need."""
    code = "import streamlit, torch, pandas, plotly.graph_objects"
    return 1000 * timed(partial(subprocess.run, [sys.executable, "-c", code], check=True))()


@case
def first_paint(rounds: int = 7) -> None:
    """First paint on a cold server, against the same page where torch cannot be imported (bar 1.1).

    It counts when the title and the controls are there and, where the panels belong, a skeleton, the panels
    or what says why there are none. Then the panels, against a bare process that imports streamlit, torch,
    pandas and plotly (1.4); and the front door until its slider moves by itself (3 s), on a server that has
    the programs from a process before, and on the first one ever.
    """
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        (Path(folder) / "sitecustomize.py").write_text(NO_TORCH, encoding="utf-8")
        caches = itertools.count()

        def door() -> list[float]:
            own = {"env": {"QUANTVIZ_CACHE_DIR": f"{folder}/cache{next(caches)}"}}
            return [cold_ms(browser, "", PHONE, MOVED, **own)[0] for _ in range(2)]

        took = in_turns(
            {
                "lab": lambda: cold_ms(browser, "lab", LAPTOP, PAINTED, PANELS),
                "bare": lambda: cold_ms(browser, "lab", LAPTOP, PAINTED, extra_path=folder)[0],
                "imports": import_ms,
                "door": door,
            },
            rounds,
        )
    painted, panels = zip(*took["lab"], strict=True)
    ever, kept = (statistics.median(each) for each in zip(*took["door"], strict=True))
    print(f"first paint: {statistics.median(painted):.0f} ms, {judged(ratio(painted, took['bare']), 1.1)} ×")
    print(
        f"first panels: {statistics.median(panels):.0f} ms, {judged(ratio(panels, took['imports']), 1.4)} ×"
    )
    print(f"front door moves: after {judged(kept, 3000, 0)} ms, on the first server ever {ever:.0f} ms")


@case
def first_visit(rounds: int = 5) -> None:
    """The first visitor of `quantviz serve` until the four panels are there (bar 2 s), beside a bare page.

    Each round has a fresh server and a browser that knows nothing of it. The server answers once it is ready:
    so many seconds after its start.
    """
    drawn = "() => document.querySelector('.js-plotly-plot .main-svg')"
    with chromium() as browser, bare_page() as bare:

        def visit(address: str, wanted: str) -> float:
            page = new_page(browser)
            page.goto("about:blank")
            start = time.monotonic()
            page.goto(address, wait_until="commit")
            page.wait_for_function(wanted, polling="raf", timeout=60_000)
            took = time.monotonic() - start
            page.context.close()
            return took

        def served() -> tuple[float, float]:
            start = time.monotonic()
            with server_process(by_command=True) as (address, _):
                ready = time.monotonic() - start
                return ready, visit(f"{address}/lab", PANELS)

        visit(bare, drawn)
        took = in_turns({"lab": served, "bare": lambda: visit(bare, drawn)}, rounds)
    ready, panels = map(statistics.median, zip(*took["lab"], strict=True))
    beside = statistics.median(took["bare"])
    print(f"answers {ready:.1f} s after its start")
    print(f"first panels: {judged(panels, 2)} s, a bare page {beside:.2f} s")


NOTE_TASKS = """window.lastTask = 0;
new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) window.lastTask = startTime + duration;
}).observe({ type: "longtask", buffered: true });"""
QUIET = "([idle, ms]) => document.querySelector(idle) && performance.now() - Math.max(lastTask, 1) > ms"
IDLE_PAGES = "", "lab", "checkpoints", "layers", "lessons", "lessons?l=range_to_grid&p=3"


@case
def first_idle(rounds: int = 3, slowed: float = 4.0, page: tuple[str, ...] = IDLE_PAGES) -> None:
    """How long a slowed phone is busy with each page (bar 5 s), against a bare page with one Plotly figure.

    From the navigation to the end of the last task of over 50 ms, in a browser that has nothing of the page;
    the servers are warm. Beside it the time of the processor that the page's thread has taken by then. The
    least counts.
    """

    def until_idle(address: str, times: float) -> tuple[float, float]:
        opened = new_page(browser, PHONE, times, touch=True)
        opened.add_init_script(NOTE_TASKS)
        driven = opened.context.new_cdp_session(opened)
        driven.send("Performance.enable", {"timeDomain": "threadTicks"})
        opened.goto(address, wait_until="commit")
        opened.wait_for_function(QUIET, arg=[IDLE, 2500], polling=200, timeout=60_000)
        told = {each["name"]: each["value"] for each in driven.send("Performance.getMetrics")["metrics"]}
        idle = opened.evaluate("window.lastTask") / 1000
        opened.context.close()
        return idle, told["TaskDuration"]

    with bare_page() as bare, serving() as app, chromium() as browser:
        addresses = {"a bare page": bare} | {f"/{each}": f"{app}/{each}" for each in page}
        for address in addresses.values():
            until_idle(address, 1)
        works = {name: partial(until_idle, address, slowed) for name, address in addresses.items()}
        took = in_turns(works, rounds, warm=0)
    least = {name: [min(each) for each in zip(*pairs, strict=True)] for name, pairs in took.items()}
    head("page", "idle, s", "× bare", "of the processor, s", "× bare")
    for name, (clock, own) in least.items():
        ratios = [f"{one / two:.2f}" for one, two in zip((clock, own), least["a bare page"], strict=True)]
        row(name, judged(clock, 5, 1), ratios[0], f"{own:.1f}", ratios[1])


def lab_ms(without: str) -> dict[str, float]:
    """Milliseconds of the processor of the first run of the Lab, of a change in it, and of its longest
    garbage collection, in this process.
    """
    from quantviz.ui.shell import streamlit_private

    if without == "frozen":
        gc.freeze = lambda: None
    if without == "own value":
        streamlit_private.look_up_own_value = lambda: True
    collections, began = [0.0], [0.0]

    def watch(phase: str, _: object) -> None:
        if phase == "start":
            began[0] = time.thread_time()
        else:
            collections.append(time.thread_time() - began[0])

    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300).run()
    first = timed(app.switch_page("pages/lab/playground.py").run, time.process_time)()
    choices = itertools.cycle((8, 4))
    change = timed(lambda: choose(app, ("bits", next(choices))), time.process_time)
    in_turns({"": change}, 0, warm=4)
    gc.callbacks.append(watch)
    changes = in_turns({"": change}, 100, warm=0)[""]
    assert not app.exception
    return {"first run": first, "change": statistics.median(changes), "longest collection": max(collections)}


def scripts_s(folder: str | None) -> float:
    """Seconds until ninety of a page's scripts have come on six connections: the least of three times."""
    import streamlit

    files = sorted((Path(streamlit.__file__).parent / "static" / "static" / "js").glob("*.js"))[:90]
    with serving(extra_path=folder) as app:
        time.sleep(10)  # until the server has imported everything

        def fetch(names: queue.SimpleQueue[str]) -> None:
            connection = http.client.HTTPConnection(app.removeprefix("http://"), timeout=60)
            while not names.empty():
                connection.request("GET", f"/static/js/{names.get()}")
                connection.getresponse().read()
            connection.close()

        def fetch_all() -> None:
            names: queue.SimpleQueue[str] = queue.SimpleQueue()
            for file in files:
                names.put(file.name)
            threads = [threading.Thread(target=fetch, args=(names,), daemon=True) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)

        return min(in_turns({"": timed(fetch_all)}, 3, warm=0)[""])


@case
def private_parts(rounds: int = 3) -> None:
    """What the app gains by reaching into garbage collection, widgets and sockets: without each part over
    with it.

    Frozen: what is imported is left out of collections. Own value: a widget reads its own value without a
    copy of all. At once: connections do not wait for acknowledgements. The least of the rounds counts; above
    1 the part pays.
    """

    def aside(without: str) -> dict[str, float]:
        with process() as own:
            return own.submit(lab_ms, without).result()

    runs = in_turns({each: partial(aside, each) for each in ("", "frozen", "own value")}, rounds, warm=0)
    with tempfile.TemporaryDirectory() as folder:
        waiting = "import quantviz.ui.shell.server as server\nserver.send_at_once = lambda: True\n"
        (Path(folder) / "sitecustomize.py").write_text(waiting, encoding="utf-8")
        scripts = in_turns({each: partial(scripts_s, each) for each in (None, folder)}, rounds, warm=0)
    head("part", "what", "with, ms", "without, ms", "ratio")
    found = [("at once", "ninety scripts", *map(min, scripts.values()))]
    for part, what in [("frozen", each) for each in runs[""][0]] + [("own value", "change")]:
        found.append((part, what, *(min(each[what] for each in runs[without]) for without in ("", part))))
    for part, what, with_it, without in found:
        row(part, what, f"{1000 * with_it:.0f}", f"{1000 * without:.0f}", f"{without / with_it:.2f}")


BARE = """
import streamlit as st
for number in range(40):
    st.write(st.selectbox("bits", [3, 4, 5, 6], key=f"bits_{number}"))
"""


def chosen(kind: str, key: str, at: AppTest, choice: object) -> None:
    if kind == "drawn":  # by the browser
        choose(at, (key, choice))
    else:
        getattr(at, kind)(key=key).set_value(choice).run()


#: By its name: the page, its address, the control that is changed, and the choices that are made in turn.
CLICKS: dict[str, tuple[str | None, dict[str, str], str, str, tuple[Any, Any]]] = {
    "lab, bits": (None, {}, "drawn", "bits", (3, 5)),
    "layers, scheme of the inputs": (
        "pages/explore/layers.py",
        {"l": "builtin(name=loud_input)"},
        "drawn",
        "layers_inputs",
        ("int8_per_row", "int8_per_column"),
    ),
    "formats, ties": ("pages/learn/formats.py", {}, "drawn", "ties", ("up", "down")),
    "golf, bits": ("pages/learn/golf.py", {}, "drawn", "bits", (3, 5)),
}


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """Return how often functions of each module are called in the script's thread."""
    found: Counter[str] = Counter()

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_globals.get("__name__", "")] += 1

    def begin(frame: Any, event: str, _: object) -> None:
        ours = threading.current_thread().name == "ScriptRunner.scriptThread"
        sys.setprofile(watch if ours else None)
        if ours:
            watch(frame, event, None)

    threading.setprofile(begin)
    try:
        work()
    finally:
        threading.setprofile(None)
    return found


def told(calls: Counter[str]) -> list[object]:
    """Return the cells of a table: all calls, ours, modules and rooms of ours."""
    ours = {name: count for name, count in calls.items() if name.partition(".")[0] == "quantviz"}
    rooms = {name.split(".")[1] for name in ours if "." in name}
    folders = [room for room in rooms if (ROOT / "quantviz" / room).is_dir()]
    return [f"{calls.total():,}", f"{sum(ours.values()):,}", len(ours), len(folders)]


def seconds_of(change: Callable[[object], object], choices: tuple[Any, ...], rounds: int) -> float:
    """Return the least processor time of a change."""
    works = {choice: timed(partial(change, choice), time.process_time) for choice in choices}
    return min(itertools.chain(*in_turns(works, rounds, warm=0).values()))


@case
def click(rounds: int = 5, modules: int = 0) -> None:
    """Work of one choice on a page: calls of Python, our modules and folders, and the processor's time.

    Each page is opened without a browser; counted is the script's thread. The first time is that of a choice
    that nobody has made before, later ones find its results. Time is the least of the rounds, as a multiple
    of the same on a bare page of forty controls. With `--modules`, so many modules with the most calls of the
    first.
    """
    bare = partial(chosen, "selectbox", "bits_7", AppTest.from_string(BARE).run())
    least = seconds_of(bare, (4, 5), rounds)
    print(f"bare page: {calls_of(partial(bare, 6)).total():,} calls, {1000 * least:.0f} ms\n")
    head(
        "click",
        *("first: calls", "ours", "modules", "rooms", "again: calls", "ours", "modules", "rooms", "time"),
    )
    for name, (page, params, kind, key, choices) in CLICKS.items():
        change = partial(chosen, kind, key, opened_without_browser(page, lang="en", **params))
        counted = [calls_of(partial(change, choice)) for choice in choices * 2]
        times = seconds_of(change, choices, rounds) / least
        row(name, *told(counted[1]), *told(counted[3]), f"{times:.1f} ×")
        for module, count in counted[1].most_common(modules):
            print(f"  {count:>7,} {module}")


if __name__ == "__main__":
    main()
