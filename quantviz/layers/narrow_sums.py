"""Sums of FP8 products in registers of few bits, as tensor cores of Hopper keep them.

DeepSeek-V3 (arXiv 2412.19437, section 3.5.2) describes them: 32 products are shifted to the exponent of the
largest and cut to 14 bits before they are added up, and the register that collects these sums has as many.
SageAttention2 (2411.10958) calls the same register FP22: 1 bit of sign, 8 of exponent and 13 of the fraction.
"""

from __future__ import annotations

from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.integer_explanation import steps_of_cell
from quantviz.public_calls import public
from quantviz.quantization.explanation import Step
from quantviz.quantization.operations import NamedTensors, Operation, Operations, run_operations
from quantviz.streaming.threads import runs_between
from quantviz.tensors.conversion import as_input

#: Products that an instruction adds up at once.
_TOGETHER = 32
_PRODUCTS_PER_CHUNK = 2**23


@public
def narrow_products(x: Any, w: Any, *, bits: int = 14, promoted: int = 128) -> torch.Tensor:
    """Return X Wᵀ as sums in registers of few bits, float32 (tokens, outputs).

    Args:
        x: The values of inputs as FP8 has them, without their scales, (tokens, inputs).
        w: Those of weights, (outputs, inputs).
        bits: Bits of a product and of a sum, the leading 1 included: 14 on Hopper; what is beyond is cut off.
        promoted: After so many inputs, a multiple of 32, a sum is added to a float32 register: 128 in
            DeepSeek's kernels; 0 adds once, at the end.

    Raises:
        QuantVizError: The matrices do not fit each other, or a number is out of its range.

    4,096 · 1 + 1 loses the 1 where sums have 12 bits:

    >>> ones = [[1.0] * 32 + [4096.0] + [0.0] * 31 + [1.0]]
    >>> [narrow_products(ones, [[1.0] * 65], bits=bits, promoted=0).item() for bits in (12, 14)]
    [4128.0, 4129.0]
    """
    inputs, weights = _sides(x, w)
    operations = narrow_operations(inputs.shape[1], bits, promoted)
    found = torch.empty(len(inputs), len(weights))
    for start, stop in runs_between(len(weights), max(1, _PRODUCTS_PER_CHUNK // inputs.numel())):
        products = inputs.unsqueeze(1) * weights[start:stop]
        found[:, start:stop] = run_operations(operations, _started(products))["y"]
    return found


@public
def explain_products(x: Any, w: Any, *, bits: int = 14, promoted: int = 128) -> tuple[Step, ...]:
    """Return the lines that `narrow_products` runs on one token and one output; its arguments are those.

    Args:
        x: The values of one token's inputs, (1, inputs).
        w: Those of one output's weights, (1, inputs).
        bits: Bits of a product and of a sum.
        promoted: The inputs after which a sum is added to a float32 register; 0 adds once, at the end.

    Raises:
        QuantVizError: An argument is not as described.

    >>> steps = explain_products([[448.0, 0.03125]], [[448.0, 1.0]])
    >>> [(step.code_line, step.output) for step in steps[:2]]
    [('e = exponent_of_largest(p[0:2])', 17), ('part = sum(cut(p[0:2], e - 13))', 200704.0)]
    """
    inputs, weights = _sides(x, w)
    if len(inputs) != 1 or len(weights) != 1:
        raise QuantVizError("narrow.shapes", x=tuple(inputs.shape), w=tuple(weights.shape))
    operations = narrow_operations(inputs.shape[1], bits, promoted)
    return steps_of_cell(operations, _started(inputs * weights), "y")[0]


def _sides(x: Any, w: Any) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, weights = (as_input(side, "refuse")[0].to(torch.float64) for side in (x, w))
    fits = inputs.dim() == weights.dim() == 2 and inputs.shape[1] == weights.shape[1]
    if not fits or not inputs.numel() * weights.numel():
        raise QuantVizError("narrow.shapes", x=tuple(inputs.shape), w=tuple(weights.shape))
    return inputs, weights


def _started(products: torch.Tensor) -> NamedTensors:
    empty = torch.zeros(products.shape[:-1], dtype=torch.float64)
    return {"p": products, "acc": empty, "y": empty.to(torch.float32)}


def narrow_operations(inputs: int, bits: int, promoted: int) -> Operations:
    if not 2 <= bits <= 24 or promoted < 0 or promoted % _TOGETHER:
        raise QuantVizError("narrow.numbers", bits=bits, promoted=promoted, together=_TOGETHER)
    operations: list[Operation] = []
    for start, stop in runs_between(inputs, _TOGETHER):
        operations += _of_run(start, stop, bits - 1)
        if stop == inputs or (promoted and stop % promoted == 0):
            operations += _PROMOTED
    return tuple(operations)


_PROMOTED = (
    Operation("narrow_promoted", "y = float32(y + float32(acc))"),
    Operation("narrow_emptied", "acc = 0 * acc"),
)


def _of_run(start: int, stop: int, below: int) -> Operations:
    """`below` are bits of a product below its first."""
    run = f"p[{start}:{stop}]"
    return (
        Operation(
            "narrow_exponent",
            f"e = exponent_of_largest({run})",
            lambda v: torch.frexp(v["p"][..., start:stop].abs().amax(-1)).exponent - 1,
        ),
        Operation(
            "narrow_part",
            f"part = sum(cut({run}, e - {below}))",
            lambda v: _cut(v["p"][..., start:stop], (v["e"] - below).unsqueeze(-1)).sum(-1),
        ),
        Operation("narrow_added", "acc = acc + part"),
        Operation(
            "narrow_kept",
            f"acc = cut(acc, exponent(acc) - {below})",
            lambda v: _cut(v["acc"], torch.frexp(v["acc"]).exponent - 1 - below),
        ),
    )


def _cut(values: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Return values without their bits below 2^exponent."""
    return torch.ldexp(torch.trunc(torch.ldexp(values, -exponent)), exponent)
