"""The product of a tensor's runs with a Hadamard matrix, by additions: n log n of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from quantviz.errors import QuantVizError
from quantviz.streaming import kernel_access
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.blocks import viewed
from quantviz.tensors.hadamard import base_factor, base_matrix, largest_block

#: Values from which the kernel is used: importing it takes half a second.
_LARGE = 2**22
#: The least 2^k of a kernel's block: it computes as many values side by side.
_SIDE_BY_SIDE = 16
_VALUES_PER_CHUNK = 2**18


def hadamard_transform(x: torch.Tensor, block: int, *, back: bool = False) -> torch.Tensor:
    """Return each run of `block` neighbours along the last axis times `hadamard(block)` / √block.

    The matrix is orthogonal: lengths stay, and `back` multiplies by its transpose, which undoes it. `x` is
    float32 or float64.

    Raises:
        QuantVizError: There is no matrix of this order here, or it does not divide the last axis.

    >>> hadamard_transform(torch.tensor([8.0, 0.0, 0.0, 0.0]), 4).tolist()
    [4.0, 4.0, 4.0, 4.0]
    >>> x = torch.arange(24.0)
    >>> torch.allclose(hadamard_transform(hadamard_transform(x, 12), 12, back=True), x, atol=1e-5)
    True
    """
    factor = base_factor(block)
    if factor is None:
        raise QuantVizError("method.rotation.order", got=block, block=largest_block(max(block, 1)))
    if x.shape[-1] % block:
        raise QuantVizError(
            "method.rotation.block", got=block, width=x.shape[-1], block=largest_block(x.shape[-1])
        )
    outer = base_matrix(factor).to(x.dtype)
    if back:
        outer = outer.T.contiguous()
    found = torch.empty_like(x, memory_format=torch.contiguous_format)
    given, written = viewed(x.contiguous(), (-1,)), viewed(found, (-1,))
    if x.numel() < _LARGE:
        _by_additions(given, written, outer, block)
        return found
    turn = _by_additions
    if block // factor >= _SIDE_BY_SIDE and kernel_access.waits() and kernel_access.has_kernels():
        turn = _by_kernel

    def work(runs: Iterator[tuple[int, int]]) -> None:
        for start, stop in runs:
            turn(given[start:stop], written[start:stop], outer, block)

    shared_out(work, runs_between(x.numel(), max(_VALUES_PER_CHUNK // block, 1) * block))
    return found


def _by_additions(x: torch.Tensor, out: torch.Tensor, outer: torch.Tensor, block: int) -> None:
    """Write the transform of flat values to `out`."""
    size = block // len(outer)
    values = viewed(x, (-1, len(outer), size)) / math.sqrt(block)
    # New memory takes longer than the sums: the values go to and fro between two tensors.
    other = torch.empty_like(values)
    half = 1
    while half < size:
        pairs = viewed(values, (-1, 2, half))
        mixed = viewed(other, (-1, 2, half))
        torch.add(pairs[:, 0], pairs[:, 1], out=mixed[:, 0])
        torch.sub(pairs[:, 0], pairs[:, 1], out=mixed[:, 1])
        values, other = other, values
        half *= 2
    if len(outer) > 1:
        values = outer.T @ viewed(values, (-1, len(outer), size))
    out.copy_(viewed(values, (-1,)))


def _by_kernel(x: torch.Tensor, out: torch.Tensor, outer: torch.Tensor, block: int) -> None:
    from quantviz.compiled import butterflies

    matrix = outer.numpy()
    factor = matrix.dtype.type(1 / math.sqrt(block))
    butterflies.transform(x.numpy(), out.numpy(), matrix, block // len(matrix), factor)
