"""A Chromium, a server of the app, and pages that have come to rest."""

import contextlib
import importlib.resources
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.helpers import ROOT

#: Streamlit is waiting for a person.
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
#: Chromium by its names: as people have it, and without windows, which has a tenth less to do.
WITH_WINDOWS = ("chromium", "chromium-browser", "google-chrome")
WITHOUT_WINDOWS = "chromium-headless-shell"
NO_CHROMIUM = "no Chromium found; set CHROMIUM to its path, or install Debian's chromium"
#: Set where a browser must be there: then its absence fails instead of skipping.
REQUIRED = "QUANTVIZ_REQUIRE_BROWSER"
#: Of a Chromium for tests.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_path(names):
    """The path in CHROMIUM, else of the first of these names that is installed; None without any."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, names)), None)
    return found if found and Path(found).exists() else None


def chromium_of_tests():
    """The path of a Chromium; without one the test is skipped, or fails where a browser must be there."""
    path = chromium_path((WITHOUT_WINDOWS, *WITH_WINDOWS))
    if path is None:
        pytest.fail(NO_CHROMIUM) if os.environ.get(REQUIRED) == "1" else pytest.skip(NO_CHROMIUM)
    return path


def chromium_of_benchmarks():
    """The path of a Chromium, preferably as people have it; without one the run ends with that sentence."""
    return chromium_path((*WITH_WINDOWS, WITHOUT_WINDOWS)) or sys.exit(NO_CHROMIUM)


@contextlib.contextmanager
def server(app, log, host="127.0.0.1"):
    """A Streamlit server of its own for an app; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(app),
        "--server.port",
        str(port),
        "--server.address",
        host,
        "--server.headless",
        "true",
    ]
    options = [
        "--browser.gatherUsageStats",
        "false",
        "--server.fileWatcherType",
        "none",
        "--runner.magicEnabled",
        "false",
        "--client.toolbarMode",
        "viewer",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_healthy(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def _wait_until_healthy(process, port, log):
    for _ in range(300):
        if process.poll() is not None:
            break
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1),
        ):
            return
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(encoding='utf-8')}")


def wait_idle(page):
    """Until the script has run and stays still."""
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(250)
    page.wait_for_selector(IDLE)


def violations(page):
    page.evaluate(
        (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    )
    rules = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"
    found = page.evaluate(
        f"""axe.run(document, {rules}).then(r => r.violations.map(v => [v.id, v.nodes.map(
            n => [n.html, !!document.querySelector(n.target[0])?.closest("[data-testid=stSidebarNav]")])]))"""
    )
    # Streamlit puts the sections of its navigation into one list, between whose items stand their headings.
    own = {"list", "listitem"}
    return [
        (rule, node[:160]) for rule, nodes in found for node, in_nav in nodes if not (in_nav and rule in own)
    ]
