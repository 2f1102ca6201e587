"""How long after its address a lesson's first handle moves, against the list of lessons of the same server.

    python -m tests.bench.first_move [--rounds 5]

Each round opens the list, then the first step of each lesson, on a phone's screen of 390×844 pixels; the
server and the browser's cache are warm. Counted is the time from the navigation until a key has moved the
step's first handle, and of the list until its first card is there. Prints the least of the rounds as ratios,
because other programs only add to a time, and the load of the machine, on which even these depend.
"""

import argparse
import itertools
import os
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from quantviz.teaching.lessons import lessons
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, chromium_of_benchmarks

HANDLE = ".st-key-lesson_hand [data-handle]"
#: How often a key is pressed at most, and how many milliseconds lie between.
MOST_TRIES, BETWEEN_TRIES = 200, 40


def until_listed(page: Page, url: str) -> float:
    """Return the seconds until the list's first card is there."""
    began = time.perf_counter()
    page.goto(f"{url}/lessons?lang=en")
    page.locator(".st-key-lesson_list_1 .qv-card-facts").first.wait_for()
    return time.perf_counter() - began


def until_moved(page: Page, url: str, name: str) -> float:
    """Return the seconds until a key has moved the first handle of a lesson."""
    began = time.perf_counter()
    page.goto(f"{url}/lessons?l={name}&p=1&lang=en")
    handle = page.locator(HANDLE).first
    handle.wait_for()
    before = handle.get_attribute("aria-valuenow")
    # A learner who comes before the handle listens tries once more; one at the end of its line goes back.
    for key in itertools.islice(itertools.cycle(("ArrowLeft", "ArrowRight")), MOST_TRIES):
        handle.focus()
        page.keyboard.press(key)
        page.wait_for_timeout(BETWEEN_TRIES)
        if handle.get_attribute("aria-valuenow") != before:
            return time.perf_counter() - began
    raise SystemExit(f"nothing moves in the first step of {name}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    listed: list[float] = []
    moved: dict[str, list[float]] = {name: [] for name in lessons()}
    print("load before:", *(f"{each:.1f}" for each in os.getloadavg()))
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(ROOT / "app.py", Path(folder)) as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium_of_benchmarks(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
        for name in moved:
            until_moved(page, url, name)
        for _ in range(rounds):
            listed.append(until_listed(page, url))
            for name, taken in moved.items():
                taken.append(until_moved(page, url, name))
        browser.close()
    for name, taken in moved.items():
        print(f"{name:<28} {min(taken) / min(listed):.2f}")
    print("load after:", *(f"{each:.1f}" for each in os.getloadavg()))


if __name__ == "__main__":
    main()
