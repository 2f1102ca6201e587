"""How long a slowed phone is busy with each page, against a bare Streamlit page with one Plotly figure.

    python -m tests.bench.first_idle [--rounds 3] [--slowed 4] [page …]

Each round opens the bare page and then each page in a browser that has nothing of either, on a screen of
390×844 pixels with the processor slowed; the servers are warm. Counted is the time from the navigation to the
end of the last task of over 50 ms, and the time of the processor that the page's thread has taken by then,
which other programs disturb less; a page that moves by itself goes on. Prints the least of the rounds, and
its ratio to the bare page's. A browser that is driven looks up where a script's errors were made: of Plotly's
that takes 0.4 s, four times as much when slowed, and is in all figures of pages that draw.
"""

import argparse
import os
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks

#: The most seconds until a page is idle.
BAR = 5.0
PAGES = ("", "lab", "checkpoints", "layers", "lessons", "lessons?l=range_to_grid&p=3")
#: Milliseconds without a task of over 50 ms after which a page is idle, and the most that is waited.
QUIET, MOST = 2500, 60_000
_NOTE_TASKS = """window.lastTask = 0;
new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) window.lastTask = startTime + duration;
}).observe({ type: "longtask", buffered: true });"""
_QUIET = """([idle, quiet]) => document.querySelector(idle)
    && performance.now() - Math.max(window.lastTask, 1) > quiet"""


def until_idle(browser: Browser, address: str, slowed: float) -> tuple[float, float]:
    """Return the seconds until a page is idle, and those of the processor that its thread takes."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.add_init_script(_NOTE_TASKS)
    driven = context.new_cdp_session(page)
    driven.send("Emulation.setCPUThrottlingRate", {"rate": slowed})
    driven.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address, wait_until="commit")
    page.wait_for_function(_QUIET, arg=[IDLE, QUIET], polling=200, timeout=MOST)
    idle = page.evaluate("window.lastTask") / 1000
    metrics = {each["name"]: each["value"] for each in driven.send("Performance.getMetrics")["metrics"]}
    context.close()
    return idle, metrics["TaskDuration"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slowed", type=float, default=4)
    args = parser.parse_args()
    print("load before:", *(f"{each:.1f}" for each in os.getloadavg()))
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(__file__).with_name("bare_page.py"), Path(folder)) as bare,
        serving(ROOT / "app.py", ROOT) as app,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium_of_benchmarks(), args=list(FLAGS))
        addresses = {"a bare page": bare} | {f"/{page}": f"{app}/{page}" for page in args.pages}
        for address in addresses.values():
            until_idle(browser, address, 1)
        measured = [
            {name: until_idle(browser, address, args.slowed) for name, address in addresses.items()}
            for _ in range(args.rounds)
        ]
        browser.close()
    least = {name: [min(each[name][i] for each in measured) for i in range(2)] for name in addresses}
    for name, (clock, own) in least.items():
        ratios = [each / of_bare for each, of_bare in zip((clock, own), least["a bare page"], strict=True)]
        missed = " (missed)" if clock > BAR else ""
        print(f"{name:<30} idle {clock:.1f} s{missed}, {ratios[0]:.2f} ×;", end=" ")
        print(f"of the processor {own:.1f} s, {ratios[1]:.2f} ×")
    print("load after:", *(f"{each:.1f}" for each in os.getloadavg()))


if __name__ == "__main__":
    main()
