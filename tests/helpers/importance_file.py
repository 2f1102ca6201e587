"""Importance matrices as llama.cpp writes them."""

import struct

import numpy as np


def write_dat(path, weights, chunks=4):
    """Write mean squares in llama.cpp's older form: how many weights, and for each its name and its sums."""
    raw = struct.pack("<i", len(weights))
    for name, own in weights.items():
        sums = np.asarray(own, "<f4").ravel() * chunks
        raw += struct.pack("<i", len(name)) + name.encode() + struct.pack("<2i", chunks, sums.size)
        raw += sums.tobytes()
    path.write_bytes(raw + struct.pack("<2i", 7, 4) + b"wiki")
    return path
