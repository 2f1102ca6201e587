"""llama.cpp's importance matrix: the mean square of each input of each weight, from running a model on text.

Source: llama.cpp, tools/imatrix/imatrix.cpp, which writes both formats, and tools/quantize/quantize.cpp,
which reads them. The older one is binary; the newer one is a GGUF file with two tensors for each weight.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import numpy as np

from quantviz.errors import QuantVizError

#: The two tensors of a weight in a GGUF file: sums of squares of each input, and over how many they were
#: taken.
_SUMS, _COUNTS = ".in_sum2", ".counts"


def mean_squares(path: Path) -> dict[str, float]:
    """Return the mean square of the inputs of each weight, over its inputs and its experts.

    Raises:
        QuantVizError: The file cannot be read, or is no importance matrix.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4)
        found = _of_gguf(path) if start == b"GGUF" else _of_binary(path.read_bytes())
    except OSError as error:
        raise QuantVizError("allocate.cannot_read", file=os.fspath(path), reason=str(error)) from None
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, QuantVizError):
            raise
        raise QuantVizError("allocate.no_importance", file=os.fspath(path)) from None
    usable = {name: value for name, value in found.items() if math.isfinite(value) and value >= 0}
    if not usable:
        raise QuantVizError("allocate.no_importance", file=os.fspath(path))
    return usable


def _of_gguf(path: Path) -> dict[str, float]:
    from quantviz.sources.files import open_tensors

    found = {}
    with open_tensors(path) as tensors:
        there = set(tensors.names)
        for name in tensors.names:
            weight = name.removesuffix(_SUMS)
            if weight == name or f"{weight}{_COUNTS}" not in there:
                continue
            counts = np.asarray(tensors.read(f"{weight}{_COUNTS}").tensor, np.float64).ravel()
            sums = np.asarray(tensors.read(name).tensor, np.float64).ravel()
            # A row of sums for each expert; one that no text came to says nothing.
            each = np.array_split(sums, len(counts))
            means = [row.mean() / count for row, count in zip(each, counts, strict=True) if count > 0]
            if means:
                found[weight] = float(np.mean(means))
    return found


def _of_binary(raw: bytes) -> dict[str, float]:
    """Read the older format: how many weights, and for each its name, how many chunks, and its sums."""
    (entries,) = struct.unpack_from("<i", raw)
    at, found = 4, {}
    for _ in range(entries):
        (length,) = struct.unpack_from("<i", raw, at)
        name = raw[at + 4 : at + 4 + length].decode("utf-8")
        chunks, count = struct.unpack_from("<2i", raw, at + 4 + length)
        at += 12 + length
        if length < 0 or count <= 0 or at + 4 * count > len(raw):
            raise ValueError
        sums = np.frombuffer(raw, "<f4", count, at).astype(np.float64)
        found[name] = float(sums.mean()) / max(chunks, 1)
        at += 4 * count
    return found
