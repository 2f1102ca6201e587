"""Codes of a few bits: packed into words, the first in the lowest bits, or in planes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from quantviz.sources.layouts.forms import Claim


def unpacked(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """Return the first `count` fields of each row: int32 `(rows, words)` → int32 `(rows, count)`.

    A field that does not end with its word continues in the next one, as those of 3 bits do.

    >>> unpacked(torch.tensor([[0x76543210]]), 4, 8).tolist()
    [[0, 1, 2, 3, 4, 5, 6, 7]]
    >>> unpacked(torch.tensor([[-(2**31) + 2**30, 1]], dtype=torch.int32), 3, 11)[0, -1].item()  # 0b1_11
    7
    """
    if 8 % bits == 0 and words.dtype == torch.int32:
        return unpacked_bytes(words, bits, count).to(torch.int32)
    whole = math.lcm(bits, 32) // 32  # words after which a field begins at a word again
    filled = -(-words.shape[1] // whole) * whole
    wide = torch.nn.functional.pad(words.to(torch.int64) & 0xFFFFFFFF, (0, filled + 1 - words.shape[1]))
    starts = torch.arange(count, dtype=torch.int64) * bits
    at = starts // 32
    shift = starts % 32
    both = wide[:, at] | (wide[:, at + 1] << 32)
    # The upper word's top bit is the sign of int64; the mask removes its copies from the shift.
    return ((both >> shift) & ((1 << bits) - 1)).to(torch.int32)


def unpacked_bytes(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """Do the same for bits that divide 8, as uint8.

    >>> unpacked_bytes(torch.tensor([[0x76543210]], dtype=torch.int32), 2, 5).tolist()
    [[0, 0, 1, 0, 2]]
    """
    # The lowest byte of a word comes first, and no field continues in the next byte.
    fields = words.contiguous().view(torch.uint8)
    for width in (8 // 2**halving for halving in range(1, 4)):
        if width < bits:
            break
        # Each byte becomes two, the lower half of its bits first: of all of them at once, as those of words.
        wide = fields.view(-1).to(torch.int16)
        both = (wide << (8 - width)).bitwise_or_(wide).bitwise_and_(((1 << width) - 1) * 0x0101)
        fields = both.view(torch.uint8).view(len(words), -1)
    return fields[:, :count]


def nibbles(raw: torch.Tensor, *, high_first: bool = False) -> torch.Tensor:
    """Return the two codes of each byte as neighbours, by default the one in the low bits first.

    >>> nibbles(torch.tensor([[0x21, 0x43]], dtype=torch.uint8)).tolist()
    [[1, 2, 3, 4]]
    """
    halves = (raw >> 4, raw & 15) if high_first else (raw & 15, raw >> 4)
    return torch.stack(halves, dim=-1).flatten(-2)


def words_of(count: int, bits: int) -> int:
    return -(-count * bits // 32)


def rows_of_planes(
    claim: Claim, attribute: str, shifts: Sequence[int], bits: int, start: int, stop: int
) -> torch.Tensor:
    """Return the codes of some rows, int32: row `k · lines + i` is the k-th field of line i.

    `attribute` names codes of `(lines, columns)`, and `shifts` says by how many bits the field of each plane
    lies above the lowest.
    """
    lines = claim.shape(attribute)[0]
    parts = []
    for plane in range(start // lines, -(-stop // lines)):
        window = slice(max(start - plane * lines, 0), min(stop - plane * lines, lines))
        raw = claim.cut(attribute, window).to(torch.int32)
        parts.append((raw >> shifts[plane]) & ((1 << bits) - 1))
    return torch.cat(parts)
