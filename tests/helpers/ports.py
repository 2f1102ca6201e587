"""Ports for servers that a test starts."""

import contextlib
import random
import socket

#: Below those that a system gives to outgoing connections, of which one could take it before the server does.
_PORTS = range(10_000, 32_000)
#: Hypothesis sets the seed of all others: two workers would be given the same ports.
_chance = random.SystemRandom()


def free_port() -> int:
    """Return a port of this machine at which nothing listens."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port := _chance.choice(_PORTS)))
            return port
