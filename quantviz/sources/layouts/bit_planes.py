"""Codes of a few bits whose rows lie above one another: a byte, or word, has those of rows far apart.

Row `k · lines + i` is the k-th field of line i.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from quantviz.sources.layouts.forms import Claim


def rows_of_planes(
    claim: Claim, attribute: str, shifts: Sequence[int], bits: int, start: int, stop: int
) -> torch.Tensor:
    """Return the codes of some rows, int32.

    Args:
        claim: The tensors.
        attribute: That of the codes, of `(lines, columns)`.
        shifts: By how many bits the field of each plane lies above the lowest.
        bits: Bits of a field.
        start: The first row.
        stop: The row after the last.
    """
    lines = claim.shape(attribute)[0]
    parts = []
    for plane in range(start // lines, -(-stop // lines)):
        window = slice(max(start - plane * lines, 0), min(stop - plane * lines, lines))
        raw = claim.cut(attribute, window).to(torch.int32)
        parts.append((raw >> shifts[plane]) & ((1 << bits) - 1))
    return torch.cat(parts)
