"""Streamlit servers and a Chromium for the benchmarks."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.bench.runner import ROOT
from tests.helpers.browser import FLAGS, chromium_of_benchmarks
from tests.helpers.ports import free_port

LAPTOP, PHONE = (1366, 625), (390, 844)


@contextlib.contextmanager
def bare_page() -> Iterator[str]:
    """A server of the bare page, with default settings: away from the project's own config.toml."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(__file__).with_name("bare_page.py")
        with server_process(page, Path(folder)) as (address, _):
            yield address


@contextlib.contextmanager
def server_process(
    app: Path = ROOT / "app.py",
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    by_command: bool = False,
) -> Iterator[tuple[str, int]]:
    """A server of its own for `app`, started in `cwd` with `env` added to its environment, on a free port or
    another, or by `quantviz serve`; gives its address and its process id.
    """
    port = port or free_port()
    options = f"--server.port {port} --server.address 127.0.0.1 --server.headless true".split()
    verb = ["quantviz", "serve"] if by_command else ["streamlit", "run", str(app)]
    process = subprocess.Popen(
        [sys.executable, "-m", *verb, *options],
        cwd=cwd,
        env={**os.environ, **(env or {}), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(900):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=1):
                break
            time.sleep(0.1)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium_of_benchmarks(), args=list(FLAGS))


def new_page(
    browser: Browser, size: tuple[int, int] = LAPTOP, slowed: float = 1, touch: bool = False
) -> Page:
    """A page of that size, with the processor slowed so many times."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="light", has_touch=touch
    )
    page = context.new_page()
    slow(page, slowed)
    return page


def slow(page: Page, times: float) -> None:
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": times})


def link(**params: str) -> str:
    return "&".join(f"{name}={value}" for name, value in {**params, "lang": "en"}.items())
