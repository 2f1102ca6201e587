"""Hand-written pieces of LLVM, and the switch to plain numba in their place: see README.md."""

from __future__ import annotations

import os
from functools import cache

from quantviz.errors import QuantVizError

#: Names of pieces to turn off, with commas between, or 1 for all.
PLAIN_VARIABLE = "QUANTVIZ_PLAIN_NUMBA"
#: Plain numba takes more than 1.5 times as long, but for "prefetch": see README.md. `tests.bench.numbers
#: llvm` prints the ratios.
PIECES = ("sums", "prefetch", "addresses")


@cache
def plain_pieces() -> frozenset[str]:
    setting = os.environ.get(PLAIN_VARIABLE, "")
    if setting == "1":
        return frozenset(PIECES)
    named = [name.strip() for name in setting.split(",") if name.strip() not in ("", "0")]
    for name in named:
        if name not in PIECES:
            raise QuantVizError("plain_setting", variable=PLAIN_VARIABLE, got=name, known=", ".join(PIECES))
    return frozenset(named)


def by_hand(piece: str) -> bool:
    """Return whether a piece is the hand-written one."""
    return piece not in plain_pieces()
