"""Streamlit servers and a Chromium for the benchmarks."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def serving(
    app: Path, cwd: Path, extra_path: str | None = None, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A server of its own for `app`, started in `cwd`, with `extra_path` first on its import path and `env`
    added to its environment; gives its address.
    """
    with server_process(app, cwd, extra_path, env) as (address, _):
        yield address


@contextlib.contextmanager
def server_process(
    app: Path, cwd: Path, extra_path: str | None = None, env: Mapping[str, str] | None = None
) -> Iterator[tuple[str, int]]:
    """The same; gives its address and its process id."""
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
        "127.0.0.1",
        "--server.headless",
        "true",
    ]
    path = os.pathsep.join(filter(None, (extra_path, str(ROOT))))
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {}), "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1),
            ):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(20)
