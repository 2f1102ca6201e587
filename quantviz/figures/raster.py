"""Panels of many cells as colour-mapped PNG images, in an eighth of the time of the browser's own heatmaps.

One byte a cell and a palette. The picture is for the eye; exact values reach the hover card another way.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

from quantviz.figures.theme import Ramp, rgb

#: The palette's last entry is transparent, for cells without a value.
_COLOURS = 255
#: From here on a range has an inverse in float32, times the colours.
_NARROWEST = 1e-35


def data_uri(values: npt.NDArray[np.generic], lo: float, hi: float, ramp: Ramp, middle: float = 0.5) -> str:
    """Return the data URI of a PNG of an array, lo..hi along the ramp; NaN and Inf are transparent."""
    shades = rgb(ramp, _COLOURS, middle)
    palette = shades.tobytes() + b"\0\0\0"
    return "data:image/png;base64," + base64.b64encode(_png(_indices(values, lo, hi), palette)).decode(
        "ascii"
    )


def coloured(
    values: npt.NDArray[np.generic],
    lo: float,
    hi: float,
    ramp: Ramp,
    middle: float = 0.5,
    missing: str = "#ffffff",
) -> npt.NDArray[np.uint8]:
    """Return an array in the colours of `data_uri`, (rows, columns, 3); NaN and Inf are `missing`."""
    colours = np.vstack([rgb(ramp, _COLOURS, middle), rgb((missing,) * 3, 1)])
    return colours[_indices(values, lo, hi)]


def _indices(values: npt.NDArray[np.generic], lo: float, hi: float) -> npt.NDArray[np.uint8]:
    # A range as wide as float32 has no width there, one as narrow as its smallest numbers no inverse.
    scaled: npt.NDArray[np.floating] = values.astype(
        np.float32 if _NARROWEST <= hi - lo <= float(np.finfo(np.float32).max) else np.float64
    )
    with np.errstate(over="ignore"):  # values far beyond the range become Inf, and the last colour
        scaled -= lo
        scaled *= (_COLOURS - 1) / (hi - lo)
    missing = ~np.isfinite(values)
    np.clip(scaled, 0, _COLOURS - 1, out=scaled)
    np.rint(scaled, out=scaled)
    scaled[missing] = _COLOURS
    return scaled.astype(np.uint8)


def _png(indices: npt.NDArray[np.uint8], palette: bytes) -> bytes:
    rows, cols = indices.shape
    lines = np.zeros((rows, cols + 1), dtype=np.uint8)  # each line begins with its filter: 0, none
    lines[:, 1:] = indices
    # Level 1: noise does not get smaller by trying harder, and the codes' panel is small anyway.
    packed = zlib.compress(lines.tobytes(), 1)
    header = struct.pack(">IIBBBBB", cols, rows, 8, 3, 0, 0, 0)
    opacity = b"\xff" * _COLOURS + b"\0"
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"tRNS", opacity), (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
