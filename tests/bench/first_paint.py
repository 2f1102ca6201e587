"""First paint on a cold server: the Lab against the same page where torch cannot be imported.

    python -m tests.bench.first_paint [--rounds 7]

Each round starts two fresh servers, one after the other, and opens /lab: one as it is, one where
`import torch` fails at once. Counted is the time from the navigation until the title and the controls are on
the screen and, where the panels belong, a skeleton, the panels or what says why there are none. Then the time
until the panels are there, beside that of a bare Python process which imports streamlit, torch, pandas and
plotly: what the panels cannot be shown without. A server begins these imports when it starts, a moment before
the browser comes. Then the front door, until its slider first moves by itself: on a server that has the
programs from a process before, and on the first one ever. Prints the medians and their ratios.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, chromium_of_benchmarks

#: The most that the Lab may take, as a multiple of the page without torch.
BAR = 1.1
#: The most that the panels may take, as a multiple of the imports.
PANELS_BAR = 1.4
#: The most milliseconds until something on the front door moves.
MOVES_BAR = 3000

_NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("left out for the benchmark")

sys.meta_path.insert(0, NoTorch())
"""

_PAINTED = """
() => document.querySelector(".st-key-title")
  && document.querySelector("[data-field=bits] input")
  && document.querySelector("[data-field=granularity] [value=block]")
  && document.querySelector(
    ".st-key-panels [data-testid=stSkeletonElement], .st-key-panels .hm image, [data-testid=stAlert]")
"""
_MOVED = """
() => {
  const track = document.querySelector(".st-key-home_play .qv-track") ?? [...document.querySelectorAll(
    ".st-key-home_play *")].map((each) => each.shadowRoot?.querySelector(".qv-track")).find(Boolean);
  if (!track) return false;
  window.firstPlace ??= track.style.cssText;
  return track.style.cssText !== window.firstPlace;
}
"""
_PANELS = "() => document.querySelectorAll('.st-key-panels .hm image').length === 4"


def paint_ms(browser: Browser, folder: str | None) -> tuple[float, float | None]:
    """Milliseconds to the frame, and to the panels where torch is there."""
    with serving(ROOT / "app.py", cwd=ROOT, extra_path=folder) as url:
        page = browser.new_page(viewport={"width": 1366, "height": 625})
        page.goto("about:blank")
        start = page.evaluate("Date.now()")
        page.goto(f"{url}/lab")
        page.wait_for_function(_PAINTED, polling="raf", timeout=60000)
        frame = page.evaluate("Date.now()") - start
        panels = None
        if folder is None:
            page.wait_for_function(_PANELS, polling="raf", timeout=60000)
            panels = page.evaluate("Date.now()") - start
        page.close()
    return float(frame), panels


def moves_ms(browser: Browser, cache: str) -> float:
    """Milliseconds until something on the front door moves; programs are kept in the folder `cache`."""
    with serving(ROOT / "app.py", cwd=ROOT, env={"QUANTVIZ_CACHE_DIR": cache}) as url:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto("about:blank")
        start = page.evaluate("Date.now()")
        page.goto(f"{url}/")
        page.wait_for_function(_MOVED, polling="raf", timeout=60000)
        moved = page.evaluate("Date.now()") - start
        page.close()
    return float(moved)


def import_ms() -> float:
    """Milliseconds of a process that imports what the panels need."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import streamlit, torch, pandas, plotly.graph_objects"], check=True
    )
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        (Path(folder) / "sitecustomize.py").write_text(_NO_TORCH, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium_of_benchmarks(), args=list(FLAGS))
        paint_ms(browser, None)  # files into the disk cache
        doors = []
        for turn in range(rounds):
            cache = str(Path(folder) / f"cache{turn}")
            doors.append((moves_ms(browser, cache), moves_ms(browser, cache)))
        measured = [(paint_ms(browser, None), paint_ms(browser, folder), import_ms()) for _ in range(rounds)]
    with_torch = statistics.median(lab[0] for lab, _, _ in measured)
    without = statistics.median(bare[0] for _, bare, _ in measured)
    panels = statistics.median(lab[1] for lab, _, _ in measured if lab[1] is not None)
    imports = statistics.median(each for _, _, each in measured)
    # Of each round by itself: what else the machine does in it hinders both.
    ratio = statistics.median(lab[1] / each for lab, _, each in measured if lab[1] is not None)
    print(
        f"first paint: lab {with_torch:.0f} ms   without torch {without:.0f} ms   "
        f"ratio {with_torch / without:.2f}   bar {BAR}"
    )
    ever, kept = (statistics.median(each) for each in zip(*doors, strict=True))
    print(f"front door moves: after {kept:.0f} ms   bar {MOVES_BAR}   on the first server ever {ever:.0f} ms")
    print(
        f"first panels: after {panels:.0f} ms   imports alone {imports:.0f} ms   "
        f"ratio {ratio:.2f}   bar {PANELS_BAR}"
    )


if __name__ == "__main__":
    main()
