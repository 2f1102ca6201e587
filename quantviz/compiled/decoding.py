"""Kernels that make float32 of the dtypes weights are stored in, and look at the values in passing."""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, select
from quantviz.compiled.machine_code import f4, i4, jit
from quantviz.compiled.run_kernels import TOGETHER, add_powers, look

#: Made and then looked at while a core's first cache has them.
_AT_HAND = 4 * TOGETHER
#: float32, bfloat16, float16.
SINGLE, BRAIN, HALF = range(3)


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
        # The exponent moved; a number below the smallest normal one is a whole multiple of 2^-24.
        moved = (rest << i4(13)) + select(rest >= i4(0x7C00), i4(0x70000000), i4(0x38000000))
        small = bits(f4(rest) * f4(2.0**-24))
        out[i] = np.uint32(select(rest < i4(0x400), small, moved) | ((word & i4(0x8000)) << i4(16)))


@jit
def take(words, stored, made, out, flat, state, sums):
    """Add the facts and powers of a run to a state and to sums; decode it first from `words` into `made`, the
    bits of `out`, where it is stored as `BRAIN` or `HALF`.
    """
    for start in range(0, out.size, _AT_HAND):
        stop = min(start + _AT_HAND, out.size)
        if stored == BRAIN:
            decode_brain(words[start:stop], made[start:stop])
        elif stored == HALF:
            decode_half(words[start:stop], made[start:stop])
        look(out[start:stop], flat + start, state)
        add_powers(out[start:stop], sums)
