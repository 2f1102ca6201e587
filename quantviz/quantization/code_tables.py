"""Sigmoid, tanh and softmax of 16-bit codes by tables with lines between their entries, as LiteRT's kernels
and CMSIS-NN compute them: zero points are 0, and outputs have the scale 2⁻¹⁵.

They read `q_x`, `s_x` and `z_x`, softmax also `q_row`, the codes along the last axis, and leave the code in
`q`, as the operators in `code_functions` do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from quantviz.quantization.code_functions import CLAMP
from quantviz.quantization.operations import NamedTensors, Operation, Operations, run_operations
from quantviz.quantization.requantizing import FACTOR, rounded_away, scaled_twice

#: A table of sigmoid ends at its 256th entry; cells of an entry of softmax's tables.
_LAST, _CELL = 255, 128


@cache
def _sigmoids() -> torch.Tensor:
    """Return 2¹⁶ · sigmoid(i / 24), int64, less half the error that a line has midway to the next entry."""
    sizes = 2.0**16 * torch.sigmoid(torch.arange(2 * _LAST + 3, dtype=torch.float64) / 48)
    at, midway, after = sizes[:-2:2], sizes[1::2], sizes[2::2]
    table = rounded_away(at - ((at + after) / 2 - midway) / 2).to(torch.int64)
    table[_LAST] = 2**16 - 1
    return table


def _on_line(bits: int, most: int) -> Callable[[NamedTensors], torch.Tensor]:
    """Return the line between entries of the table of sigmoid, in units of 2⁻¹⁶⁻ᵇⁱᵗˢ, `most` beyond it."""

    def value(values: NamedTensors) -> torch.Tensor:
        x = values["x"].abs()
        at, table = (x >> bits).clamp(max=_LAST - 1), _sigmoids()
        line = (table[at] << bits) + (x & (2**bits - 1)) * (table[at + 1] - table[at])
        return torch.where(x >> bits >= _LAST, most, line)

    return value


#: From a code to its place in the table, whose entries are 1/24 apart.
_PLACE = (
    Operation("table_multiplier", "m = float64(s_x) * 12288"),
    Operation(
        "table_shift",
        "shift = count(m * 2**k <= 16383.5 for k in 0 … 30)",
        lambda v: (v["m"] * 2.0 ** torch.arange(31, dtype=torch.float64) <= 16383.5).sum(),
    ),
    Operation(
        "table_factor", "m0 = int32(m * 2**shift)", lambda v: (v["m"] * 2.0 ** v["shift"]).to(torch.int64)
    ),
    Operation("integer_half", "half = (1 << shift) >> 1"),
    Operation(
        "table_place",
        "x = (q_x * m0 + half) >> shift",
        lambda v: (v["q_x"].to(torch.int64) * v["m0"] + v["half"]) >> v["shift"],
    ),
)
SIGMOID_16: Operations = (
    *_PLACE,
    Operation("table_line", "y = line(sigmoids, abs(x) / 2**9)", _on_line(9, (2**15 - 1) << 10)),
    Operation("table_mirrored", "y = where(x >= 0, y, 2**25 - 1 - y)"),
    Operation("table_code", "q = (y + 2**9) >> 10"),
)
#: tanh(x) = 2 · sigmoid(2x) − 1.
TANH_16: Operations = (
    *_PLACE,
    Operation("table_line", "y = line(sigmoids, abs(x) / 2**8)", _on_line(8, (2**16 - 1) << 8)),
    Operation("table_mirrored", "y = where(x >= 0, y - 2**23, 2**23 - 1 - y)"),
    Operation("table_code", "q = (y + 2**7) >> 8"),
)


@cache
def _softmax_table(name: str) -> torch.Tensor:
    """Return the 513 entries of exp from −10 to 0, or of 1 / (1 + x) from 0 to 1, in units of 2⁻¹⁵, int64;
    less half of that error, each part of it rounded.
    """
    places = torch.arange(1025, dtype=torch.float64) / 1024
    sizes = 2.0**15 * (torch.exp(10 * places - 10) if name == "exp" else 1 / (1 + places))
    table, midway = rounded_away(sizes[::2]), rounded_away(sizes[1::2])
    line = rounded_away((sizes[2::2] + table[:-1]) / 2)
    table[:-1] -= rounded_away((line - midway) / 2)
    return table.clamp(max=2**15 - 1).to(torch.int64)


def _looked_up(name: str, x: torch.Tensor) -> torch.Tensor:
    """Return the line between entries of a table of softmax for places from −2¹⁵ to 2¹⁵ − 1."""
    at, table = 2 * _CELL + (x >> 7), _softmax_table(name)
    return table[at] + (((table[at + 1] - table[at]) * (x & _CELL - 1) + _CELL // 2) >> 7)


def _raised(values: NamedTensors, name: str) -> torch.Tensor:
    """Return the exponentials of codes less the largest of their row, in units of 2⁻¹⁵."""
    below = {**values, "diff": values[name] - values["q_row"].amax(-1, keepdim=True)}
    diff = run_operations(scaled_twice("diff", "diff", away=True), below)["diff"]
    return _looked_up("exp", (diff.to(torch.int64) + 2**15 - 1).clamp(-(2**15), 2**15 - 1))


SOFTMAX_16: Operations = (
    Operation("table_softmax_multiplier", "m = float64(s_x) / (10 / 65535)"),
    *FACTOR,
    Operation(
        "table_sum",
        "total = sum(line(exponentials, scaled(q_row - max_of(q_row))))",
        lambda v: _raised(v, "q_row").sum(-1, keepdim=True),
    ),
    Operation(
        "table_exponential",
        "y = line(exponentials, scaled(q_x - max_of(q_row)))",
        lambda v: _raised(v, "q_x"),
    ),
    Operation(
        "table_zeros",
        "zeros = leading_zeros(total)",
        lambda v: 32 - torch.frexp(v["total"].double()).exponent.to(torch.int64),
    ),
    Operation(
        "table_sum_place",
        "x = ((total << (zeros - 1)) + 2**13 >> 14) - 3 * 2**15",
        lambda v: ((((v["total"] << (v["zeros"] - 1)) + 2**13) >> 14) - 3 * 2**15).clamp(-(2**15), 2**15 - 1),
    ),
    Operation("table_inverse", "inverse = line(inverses, x)", lambda v: _looked_up("inverse", v["x"])),
    Operation(
        "table_share",
        "q = (y * inverse + 2**(30 - zeros)) >> (31 - zeros)",
        lambda v: (v["y"] * v["inverse"] + (1 << (30 - v["zeros"]))) >> (31 - v["zeros"]),
    ),
    CLAMP,
)
