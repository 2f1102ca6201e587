"""A server begins its imports when it starts, and its connections send what they have at once."""

import contextlib
import http.client
import os
import socket
import time
from pathlib import Path

import pytest

from quantviz.ui.shell.server import send_at_once
from tests.bench.servers import ROOT, server_process


def waits(connection):
    return not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_all_connections_of_the_process_send_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert waits(listening)
        before, (accepted, _) = socket.create_connection(listening.getsockname()), listening.accept()
        send_at_once.clear()
        send_at_once()
        after, (later, _) = socket.create_connection(listening.getsockname()), listening.accept()
        with before, accepted, after, later:
            assert not any(map(waits, (listening, before, accepted, later)))


@pytest.fixture(scope="module")
def started():
    """Give the address and the process of a server that nobody has come to."""
    with server_process(ROOT / "app.py", cwd=ROOT) as server:
        yield server


def test_a_file_arrives_without_a_pause_before_anybody_has_come(started):
    """Each of a page's ninety scripts took 43 ms, six at a time; so did a part of each answer."""
    host = started[0].removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=120)) as connection:

        def seconds():
            start = time.monotonic()
            connection.request("GET", "/static/index.html")
            connection.getresponse().read()
            return time.monotonic() - start

        # Each with a pause took 43 ms; without one, some do on a busy machine too.
        assert any(seconds() < 0.02 for _ in range(100))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux what a process has open")
def test_nothing_else_is_held_open():
    """A pipe ends when its writer closes it: no duplicate of its descriptor stays open."""
    ours, theirs = os.pipe()
    send_at_once.clear()
    send_at_once()
    os.close(theirs)
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b"", "the pipe has ended"
    os.close(ours)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux what a process has loaded")
def test_the_imports_begin_before_anybody_has_come(started):
    """The first visitor waited for all of them."""
    until = time.monotonic() + 120
    while "libtorch" not in Path(f"/proc/{started[1]}/maps").read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.1)
