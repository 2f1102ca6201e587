"""Readers of files as no sound one is: for processes that bound them."""

import ctypes
import os
from pathlib import Path


def eating():
    held = []
    while True:
        held.append(bytearray(2**26))
        held[-1][:: 2**12] = b"x" * 2**14


def spinning():
    while True:
        pass


def writes(path):
    Path(path).write_text("x")


def writes_past_python(path):
    return os.write(ctypes.CDLL(None).open(os.fsencode(path), os.O_CREAT | os.O_RDWR, 0o600), b"x")


def networks():
    return Path("/proc/net/dev").read_text().count(":")


class Calls:
    def __reduce__(self):
        return os.system, ("true",)
