"""From a widget's change to four panels repainted: the Lab against a bare Streamlit page, side by side.

    python -m tests.bench.repaint [--rounds 15]

Both servers run at once and are clicked in turn, in the same Chromium. A change counts from the click
on another bit width until the pixels of two of the four heatmaps have changed and the browser has
shown them: x stays, and x̂ may. Prints the medians and their ratio for 8×8, 32×32 and 128×128.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks

#: The most that the Lab may take, as a multiple of the bare page.
BAR = 1.2
SIDES = (8, 32, 128)

#: The pictures of heatmaps and of image traces; the cell out of sight that brings an image its colour bar is
#: none.
_PICTURES = ".js-plotly-plot .heatmaplayer image, .js-plotly-plot .imagelayer image"
#: Clicks a button and resolves with the milliseconds until two of the four pictures have changed and were
#: shown: x stays, and x̂ may.
_CHANGE = f"""
async (selector) => {{
  const pictures = () => [...document.querySelectorAll("{_PICTURES}")]
    .filter((image) => image.getBoundingClientRect().width > 20)
    .map((image) => image.getAttribute("href") ?? image.getAttribute("xlink:href"));
  const before = new Set(pictures());
  const start = performance.now();
  document.querySelector(selector).click();
  for (;;) {{
    await new Promise(requestAnimationFrame);
    const now = pictures();
    if (now.length === 4 && now.filter((picture) => !before.has(picture)).length >= 2) break;
    if (performance.now() - start > 20000) throw new Error("not repainted in 20 s");
  }}
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}}
"""
#: Whether all four are there.
DRAWN = f"document.querySelectorAll('{_PICTURES}').length >= 4"


def change_ms(page: Page, bits: int) -> float:
    """Milliseconds from the click on `bits` to the changed picture."""
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(150)
    button = page.locator(f"[data-field=bits] label:has-text('{bits}')").first
    button.evaluate("node => node.setAttribute('data-bench', '1')")
    elapsed = page.evaluate(_CHANGE, "[data-bench='1']")
    page.evaluate(
        "document.querySelectorAll('[data-bench]').forEach(node => node.removeAttribute('data-bench'))"
    )
    return float(elapsed)


def print_ratio(
    label: str, pages: Mapping[str, Page], change: Callable[[str, Page, int], float], rounds: int
) -> None:
    """Print the medians of a change on a bare page and on another, made in turns, and their ratio.

    `change` makes the change of a turn on a page, by its name, and returns its milliseconds; the first two
    turns are warm-up.
    """
    times: dict[str, list[float]] = {name: [] for name in pages}
    for turn in range(rounds + 2):
        for name, page in pages.items():
            page.bring_to_front()
            elapsed = change(name, page, turn)
            if turn >= 2:
                times[name].append(elapsed)
    bare, other = (statistics.median(each) for each in times.values())
    print(
        f"{label} bare {bare:6.0f} ms   page {other:6.0f} ms   ratio {other / bare:.2f}   bar {BAR}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        bare_folder = stack.enter_context(tempfile.TemporaryDirectory())
        # Default settings: away from the project's own .streamlit/config.toml.
        (Path(bare_folder) / "bare_page.py").write_text(
            (Path(__file__).parent / "bare_page.py").read_text(encoding="utf-8"), encoding="utf-8"
        )
        bare = stack.enter_context(serving(Path(bare_folder) / "bare_page.py", cwd=Path(bare_folder)))
        lab = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        for side in SIDES:
            pages = {}
            for name, address in {
                "bare": f"{bare}/?side={side}",
                "lab": f"{lab}/lab?t=normal(rows={side},cols={side})&lang=en",
            }.items():
                pages[name] = browser.new_page(viewport={"width": 1366, "height": 625})
                pages[name].goto(address)
                pages[name].wait_for_function(DRAWN, timeout=60000)
            print_ratio(
                f"{side:>4} × {side:<4}",
                pages,
                lambda _, page, turn: change_ms(page, 3 + turn % 3),
                rounds,
            )
            for page in pages.values():
                page.close()


if __name__ == "__main__":
    main()
