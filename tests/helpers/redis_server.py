"""A Redis for tests and benchmarks: Debian's `redis-server`."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.ports import free_port

#: Where it is set, tests fail where there is no Redis; elsewhere they skip.
REQUIRED = "QUANTVIZ_REQUIRE_REDIS"


@contextlib.contextmanager
def redis_server(
    folder: Path | None = None, port: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a Redis on a free port or another, which keeps what it has in a folder, if one is given; give its
    address and its process.
    """
    program = shutil.which("redis-server")
    if program is None:
        words = "there is no redis-server: apt-get install redis-server"
        pytest.fail(words) if os.environ.get(REQUIRED) else pytest.skip(words)
    port = port or free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", "always", "--dir", str(folder)] if folder else []
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0", process
    finally:
        process.kill()
        process.wait()
