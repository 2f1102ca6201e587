"""Eight ratios that a change to the shape of the app must not make worse, in one run.

    python -m tests.bench.eight [--seconds 3] [--rounds 3]

- frames of a drag in the Lab, over those of an empty page (`frames`);
- from a click on bits to the paint, over the same on an empty page: at 1366 px, and at 390 px with the
  processor slowed four times (`controls`);
- the first panels on a cold server, over the imports alone (`first_paint`);
- calls of a click on bits, over those of a bare page (`click`);
- processor's time of a run of the Lab, of the layers and of the formats, over that of a bare page (`click`).
"""

import argparse
import statistics
from contextlib import ExitStack

from playwright.sync_api import Browser, sync_playwright

from quantviz.lab.state import opening
from tests.bench import click, controls, frames
from tests.bench.first_paint import import_ms, paint_ms
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, chromium_of_benchmarks
from tests.helpers.session import opened


def dragged(browser: Browser, url: str, seconds: float) -> float:
    """Return the rate of frames that show the pointer's value, over an empty page's."""
    page = frames.opened(browser, url, opening(), 1366, 625)
    record = frames.dragged(page, seconds)
    page.close()
    good = [frame for frame in record["frames"] if frames.agrees(frame, record, opening(), {})]
    return len(good) / record["seconds"] / frames.empty_rate(browser, seconds)


def clicked(browser: Browser, url: str, width: int, rounds: int) -> float:
    """Return the time from a click on bits to the paint, over an empty page's; nan where it waits."""
    slowed = 4 if width == 390 else 1
    page = controls.opened(browser, url, width, touch=False)
    press = controls.presses(page, "mouse")
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowed})
    choices = controls.CONTROLS["bits"] or ()
    took = [controls.clicked(page, press, "bits", words)[0] for words in choices * (rounds + 1)]
    page.close()
    known = [each for each in took[len(choices) :] if each is not None]
    empty = controls.on_empty_page(browser, "mouse", rounds, slowed)
    return statistics.median(known) / empty if known else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with ExitStack() as stack:
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        with serving(ROOT / "app.py", cwd=ROOT) as url:
            print(f"drag: {dragged(browser, url, given.seconds):.2f}", flush=True)
            for width in (1366, 390):
                print(f"click, {width} px: {clicked(browser, url, width, given.rounds):.1f}", flush=True)
        painted = [((paint_ms(browser, None)[1] or 0) / import_ms()) for _ in range(given.rounds)]
        print(f"first panels: {statistics.median(painted):.2f}", flush=True)
    bare = click.bare_page()
    least = min(click.seconds_of(bare, choice) for choice in (4, 5) * given.rounds)
    calls = click.calls_of(bare, 6).total()
    for name, (page, params, change, choices) in list(click.CLICKS.items())[:3]:
        at = opened(page, lang="en", **params)
        if page is None:
            change(at, choices[0])
            found = click.calls_of(change, at, choices[1]).total()
            print(f"calls, {name}: {found / calls:.1f}", flush=True)
        took = [click.seconds_of(change, at, choice) for choice in choices * (given.rounds + 1)]
        print(f"run, {name}: {min(took) / least:.1f}", flush=True)


if __name__ == "__main__":
    main()
