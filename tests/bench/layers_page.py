"""From a change of schemes to a repainted layer: the page of layers against a bare Streamlit page.

    python -m tests.bench.layers_page [--rounds 15]

Both servers run at once and are clicked in turn, in the same Chromium. A change of the page counts from the
click that undoes a choice of schemes, or does it again, until the picture of Y has changed and the browser
has shown it; both pairs of schemes were seen before. The bare page is that of `tests.bench.repaint`, with
heatmaps of 32×32. Prints the medians and their ratio.
"""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.bench.repaint import DRAWN, change_ms, print_ratio
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks

LAYERS = ("loud_input", "minilm_1_intermediate", "minilm_0_output")
#: The picture of Y is the last of three.
_CHANGE = """
async (selector) => {
  const pictures = () => [
    ...document.querySelectorAll(".st-key-layers_picture .js-plotly-plot .heatmaplayer image"),
  ];
  const last = () => pictures().at(-1)?.getAttribute("href") ?? pictures().at(-1)?.getAttribute("xlink:href");
  const before = last();
  const start = performance.now();
  document.querySelector(selector).click();
  for (;;) {
    await new Promise(requestAnimationFrame);
    if (pictures().length === 3 && last() !== before) break;
    if (performance.now() - start > 20000) throw new Error("not repainted in 20 s");
  }
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}
"""
_PICTURES = "document.querySelectorAll('.st-key-layers_picture .heatmaplayer image').length === 3"


def turn_ms(page: Page, name: str) -> float:
    """Milliseconds from the click on undo or redo to the changed picture."""
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(150)
    return float(page.evaluate(_CHANGE, f"[data-field={name}] button:not(:disabled)"))


def choose(page: Page, side: str, words: str) -> None:
    """Choose a scheme of a side by its name."""
    box = page.locator(f".st-key-layers_{side} input")
    box.click()
    page.get_by_role("option", name=words, exact=True).click()
    page.wait_for_selector("[data-field=undo] button:not(:disabled)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        source = (Path(__file__).parent / "bare_page.py").read_text(encoding="utf-8")
        (folder / "bare_page.py").write_text(source, encoding="utf-8")
        bare = stack.enter_context(serving(folder / "bare_page.py", cwd=folder))
        app = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        for layer in LAYERS:
            pages = {
                name: browser.new_page(viewport={"width": 1366, "height": 625}) for name in ("bare", "layers")
            }
            pages["bare"].goto(f"{bare}/?side=32")
            pages["bare"].wait_for_function(DRAWN, timeout=60000)
            pages["layers"].goto(f"{app}/layers?l=builtin(name={layer})&w=int8_per_row&a=none&lang=en")
            pages["layers"].wait_for_function(_PICTURES, timeout=60000)
            choose(pages["layers"], "weights", "int4 per output")
            print_ratio(
                f"{layer:24}",
                pages,
                lambda name, page, turn: (
                    change_ms(page, 3 + turn % 3)
                    if name == "bare"
                    else turn_ms(page, "redo" if turn % 2 else "undo")
                ),
                rounds,
            )
            for page in pages.values():
                page.close()


if __name__ == "__main__":
    main()
