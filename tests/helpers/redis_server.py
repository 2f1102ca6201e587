"""A Redis for tests and benchmarks: Debian's `redis-server`, on a free port, with nothing on the disk."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.helpers.ports import free_port

#: Where it is set, tests fail where there is no Redis; elsewhere they skip.
REQUIRED = "QUANTVIZ_REQUIRE_REDIS"


@contextlib.contextmanager
def redis_server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a Redis; give its address and its process."""
    program = shutil.which("redis-server")
    if program is None:
        words = "there is no redis-server: apt-get install redis-server"
        pytest.fail(words) if os.environ.get(REQUIRED) else pytest.skip(words)
    port = free_port()
    options = f"--port {port} --bind 127.0.0.1 --save --appendonly no".split()
    options[options.index("--save") + 1 : options.index("--save") + 1] = [""]
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
