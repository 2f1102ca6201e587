"""A 4096×11008 matrix on the screen, against a 32×32 one: the same server, the same Chromium, clicked in
turn.

    python -m tests.bench.large

The large one lies in a .safetensors in a folder of the server. Counted is, from the click on another bit
width, the time until two of the four pictures have changed and were shown (x stays), and the bytes that the
server sent; then the memory of a Chromium of its own with either page open, all its processes. Prints medians
and their ratios. Each width is asked for once, so that nothing was found out about it before.
"""

import argparse
import base64
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import torch
from playwright.sync_api import Page, Playwright, sync_playwright
from safetensors.torch import save_file

from quantviz.sources import LocalTensor, write_source
from tests.bench.repaint import DRAWN, change_ms
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks

SHAPE = (4096, 11008)
#: The most that the large page may take: of the small one's time and memory, and bytes.
TIME_BAR, MEMORY_BAR, BYTES_BAR = 1.5, 1.3, 1_500_000
#: Bit widths in the order they are asked for; the pages open with another.
BITS = (3, 5, 6, 2, 7, 8, 16)
SCHEMES = ("per_tensor", "per_channel(axis=0)", "per_group(size=128)")


class Sent:
    """Bytes that a page's web sockets received."""

    def __init__(self, page: Page) -> None:
        self.bytes = 0
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.webSocketFrameReceived", self._add)

    def _add(self, event: dict) -> None:
        frame = event["response"]
        self.bytes += (
            len(base64.b64decode(frame["payloadData"])) if frame["opcode"] == 2 else len(frame["payloadData"])
        )


def opened(page: Page, address: str) -> Page:
    """The page once it is drawn and rests."""
    page.goto(address)
    page.wait_for_function(DRAWN, timeout=120_000)
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(3000)
    return page


def browser_bytes(playwright: Playwright, address: str) -> int:
    """Proportional set size of a Chromium with that page open, all its processes, after a few changes."""
    with tempfile.TemporaryDirectory() as folder:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=chromium_of_benchmarks(),
            args=list(FLAGS),
            viewport={"width": 1366, "height": 625},
        )
        page = opened(context.pages[0], address)
        for bits in (3, 5, 4):
            change_ms(page, bits)
        page.wait_for_timeout(2000)
        found = subprocess.run(
            ["pgrep", "-f", folder], capture_output=True, text=True, check=True
        ).stdout.split()
        total = sum(_pss(int(pid)) for pid in found)
        context.close()
    return total


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # a process that has just ended
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def matrix() -> torch.Tensor:
    """What weights look like, with a loud column and some outliers."""
    x = 0.02 * torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    x[:, 777] *= 8
    for row, col, value in ((1234, 5678, 3.0), (4000, 17, -2.5), (3, 11000, 1.7)):
        x[row, col] = value
    return x


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        save_file({"weight": matrix()}, folder / "large.safetensors")
        lab = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT, env={"QUANTVIZ_DATA_DIR": str(folder)}))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium_of_benchmarks(), args=list(FLAGS))
        sources = {
            "small": "normal(rows=32,cols=32)",
            "large": write_source(LocalTensor("large.safetensors", "weight", SHAPE)),
        }
        for granularity in SCHEMES:
            usual = granularity.replace("128", "32")
            address = {
                name: f"{lab}/lab?t={source}&lang=en"
                f"&s=int4,symmetric,{usual if name == 'small' else granularity},min_max,course"
                for name, source in sources.items()
            }
            pages = {
                name: opened(browser.new_page(viewport={"width": 1366, "height": 625}), address[name])
                for name in sources
            }
            sent = {name: Sent(page) for name, page in pages.items()}
            times: dict[str, list[float]] = {name: [] for name in pages}
            weights: dict[str, list[int]] = {name: [] for name in pages}
            for turn, bits in enumerate(BITS):
                for name, page in pages.items():
                    before = sent[name].bytes
                    page.bring_to_front()
                    elapsed = change_ms(page, bits)
                    page.wait_for_selector(IDLE)
                    page.wait_for_timeout(300)
                    if turn:  # the first is warm-up
                        times[name].append(elapsed)
                        weights[name].append(sent[name].bytes - before)
            small, large = (statistics.median(times[name]) for name in ("small", "large"))
            most = max(weights["large"])
            print(
                f"{granularity:<22} 32 × 32 {small:5.0f} ms   4096 × 11008 {large:5.0f} ms"
                f"   ratio {large / small:.2f} (bar {TIME_BAR})"
                f"   sent {max(weights['small']) / 1e6:.2f} and {most / 1e6:.2f} MB (bar {BYTES_BAR / 1e6})",
                flush=True,
            )
            for page in pages.values():
                page.close()
        browser.close()
        memory = {
            name: browser_bytes(playwright, f"{lab}/lab?t={source}&lang=en")
            for name, source in sources.items()
        }
        print(
            f"Chromium: 32 × 32 {memory['small'] / 2**20:.0f} MB,"
            f" 4096 × 11008 {memory['large'] / 2**20:.0f} MB,"
            f" ratio {memory['large'] / memory['small']:.2f} (bar {MEMORY_BAR})"
        )


if __name__ == "__main__":
    main()
