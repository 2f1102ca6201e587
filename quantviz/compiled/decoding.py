"""Kernels that make float32 of the dtypes weights are stored in."""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, select
from quantviz.compiled.machine_code import f4, i4, jit


@jit
def decode_brain(words, out):
    """Put bfloat16, given as uint16, into `out` as the bits of float32."""
    for i in range(words.size):
        out[i] = np.uint32(words[i]) << np.uint32(16)


@jit
def decode_half(words, out):
    """Put float16, given as uint16, into `out` as the bits of float32."""
    for i in range(words.size):
        word = i4(words[i])
        rest = word & i4(0x7FFF)
        # The exponent moved; what is below the smallest normal number is a whole number of 2^-24.
        moved = (rest << i4(13)) + select(rest >= i4(0x7C00), i4(0x70000000), i4(0x38000000))
        small = bits(f4(rest) * f4(2.0**-24))
        out[i] = np.uint32(select(rest < i4(0x400), small, moved) | ((word & i4(0x8000)) << i4(16)))
