"""GPTQ (Frantar et al. 2022, arXiv 2210.17323): round column by column, and let later columns compensate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.methods.column_sweep import SweepTrace, Swept, sweep
from quantviz.layers.methods.contract import (
    Rounded,
    RoundingMethod,
    Task,
    as_quantized,
    between,
    one_of,
)
from quantviz.quantization.cells import cell_index
from quantviz.quantization.operations import NamedTensors
from quantviz.quantization.quantizer import choose_qparams, quantize
from quantviz.quantization.result import QParams, QuantResult, block_values
from quantviz.schemes.granularity import BlockLayout, PerGroup
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks

#: Input channels up to which the sweep computes in float64, and keeps all that its picture shows.
EXACT = 2048
#: Bits of an index of a column's group, as files of GPTQ store it.
_INDEX_BITS = 32


@dataclass(frozen=True)
class GPTQ(RoundingMethod):
    """Column by column: round it, and move the columns that are still to come so that outputs stay.

    H = 2XᵀX / N, with `damping` times its mean diagonal added to the diagonal; U is the upper Cholesky factor
    of H⁻¹. The error of column j over U_jj is pushed onto later columns by row U_j.
    """

    #: When a group's scale is chosen: from the weights as they were, or once the sweep reaches it.
    groups: Literal["static", "dynamic"] = "static"
    #: The order of columns: as they are, or by falling H_jj.
    order: Literal["natural", "activation"] = "natural"
    #: The share of the mean of H's diagonal that is added to it.
    damping: float = 0.01
    #: Columns beyond a block of so many are corrected at its end; scales of dynamic groups are taken from
    #: weights that are not corrected inside of a block.
    block: int = 128
    id: ClassVar[str] = "gptq"
    cost: ClassVar[str] = "N n² + n³ + m n²"

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "groups", ("static", "dynamic"))
        yield from one_of(self, "order", ("natural", "activation"))
        yield from between(self, "damping", 0, 1)
        yield from between(self, "block", 1, 2**20)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is None or self.groups == "static":
            return
        granularity = weights.granularity
        along = isinstance(granularity, PerGroup) and granularity.axis in (-1, 1)
        if not along or weights.arithmetic.scale.depends_on_tensor or weights.search is not None:
            yield QuantVizError("method.dynamic_groups", scheme=str(weights))

    def round(self, task: Task) -> Rounded:
        hessian = 2 * task.hessian
        dead = hessian.diagonal() == 0
        w = task.w.masked_fill(dead, 0)
        hessian = hessian + torch.diag(dead.to(torch.float64))
        channels = torch.arange(len(dead))
        if self.order == "activation":
            channels = hessian.diagonal().argsort(descending=True, stable=True)
        factor = _factor(hessian[channels][:, channels], self.damping)
        start = quantize(as_quantized(w, task.scheme), task.scheme)
        scales = _Static(start, channels) if self.groups == "static" else _Dynamic(task.scheme, channels)
        exact = len(dead) <= EXACT
        dtype = torch.float64 if exact else torch.float32
        moved = w[:, channels].to(dtype)
        swept = sweep(moved, factor.to(dtype), task.scheme, scales.of_column, self.block)
        trace = None
        if exact:
            nearest = task.nearest.x_hat[:, channels].to(torch.float64)
            plain = task.hessian[channels][:, channels]
            trace = SweepTrace(channels, moved, nearest, plain, factor, swept.pushed)
        result = _result(task, start, scales, swept, channels)
        indices = _INDEX_BITS / len(task.w) if scales.scattered else 0.0
        return Rounded(result, trace, indices, _notes(task, dead))


class _Static:
    """The scales of a result, the same before and after."""

    scattered = False

    def __init__(self, start: QuantResult, channels: torch.Tensor) -> None:
        self._start = start
        expanded = {
            name: blocks.expand(grid, start.layout, start.shape)
            for name, grid in block_values(start.qparams).items()
        }
        expanded |= cell_index(start.scheme, start.shape)
        self._cells = {
            name: grid[:, channels] if grid.dim() == 2 and grid.shape[1] > 1 else grid
            for name, grid in expanded.items()
        }

    def of_column(self, column: int, w: torch.Tensor) -> NamedTensors:
        """Return the values of a column's cells."""
        return {
            name: grid[:, column : column + 1] if grid.dim() == 2 and grid.shape[1] > 1 else grid
            for name, grid in self._cells.items()
        }

    def stored(self) -> tuple[QParams, BlockLayout]:
        """Return the scales with the blocks that share them."""
        return self._start.qparams, self._start.layout


class _Dynamic:
    """Scales that are chosen for a group of columns when the sweep reaches its first one."""

    def __init__(self, scheme: Scheme, channels: torch.Tensor) -> None:
        granularity = scheme.granularity
        assert isinstance(granularity, PerGroup)
        self._scheme = scheme
        self._size = granularity.size
        self._channels = channels
        self._found: list[QParams] = []
        #: Whether the columns of a group lie apart in the weight.
        self.scattered = not bool((channels.diff() == 1).all())

    def of_column(self, column: int, w: torch.Tensor) -> NamedTensors:
        """Return the values of a column's cells, from weights (outputs, inputs) in the order of the sweep."""
        if column % self._size == 0:
            group = as_quantized(w[:, column : column + self._size], self._scheme)
            self._found.append(choose_qparams(group, self._scheme))
        return block_values(self._found[-1])

    def stored(self) -> tuple[QParams, BlockLayout]:
        """Return the scales with the blocks that share them; each cell is one where groups lie apart."""
        first = self._found[0]

        def joined(name: str) -> torch.Tensor:
            grids = [getattr(each, name) for each in self._found]
            return self._placed(torch.cat(grids, 1))

        others = {
            name: self._placed(torch.cat([each.others[name] for each in self._found], 1))
            for name in first.others
        }
        params = dataclasses.replace(
            first,
            scale=joined("scale"),
            zero_point=joined("zero_point"),
            scale_codes=None if first.scale_codes is None else joined("scale_codes"),
            others=MappingProxyType(others),
        )
        shape = (len(params.scale), len(self._channels))
        if self.scattered:
            return params, BlockLayout(shape, (1, 1), shape)
        return params, self._scheme.layout(shape)

    def _placed(self, grid: torch.Tensor) -> torch.Tensor:
        """Return one number a group, or one a cell in the weight's own order where groups lie apart."""
        if not self.scattered:
            return grid
        groups = torch.empty_like(self._channels)
        groups[self._channels] = torch.arange(len(groups)) // self._size
        return grid[:, groups]


def _factor(hessian: torch.Tensor, damping: float) -> torch.Tensor:
    """Return the upper Cholesky factor of the inverse of a damped H.

    Raises:
        QuantVizError: It is not positive definite.
    """
    damped = hessian.clone()
    damped.diagonal().add_(damping * hessian.diagonal().mean())
    lower, failed = torch.linalg.cholesky_ex(damped)
    upper: torch.Tensor
    upper, failed_again = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower), upper=True)
    if failed or failed_again or not bool(torch.isfinite(upper).all()):
        raise QuantVizError("method.not_positive_definite", damping=damping, inputs=len(hessian))
    return upper


def _result(
    task: Task, start: QuantResult, scales: _Static | _Dynamic, swept: Swept, channels: torch.Tensor
) -> QuantResult:
    """Return the codes of a sweep in the order of the weight."""
    place = channels.argsort()
    x_hat = swept.x_hat[:, place]
    params, layout = scales.stored()
    return dataclasses.replace(
        start,
        qparams=params,
        x=task.values,
        q=swept.q[:, place],
        x_hat=x_hat,
        error=x_hat - task.values,
        clipped=swept.clipped[:, place],
        layout=layout,
        range=start.range if isinstance(scales, _Static) else None,
        own_codes=True,
    )


def _notes(task: Task, dead: torch.Tensor) -> tuple[Note, ...]:
    tokens, inputs, _ = task.shape
    notes = []
    if tokens < inputs:
        notes.append(Note.of("method_few_tokens", tokens=tokens, inputs=inputs))
    if bool(dead.any()):
        notes.append(Note.of("method_dead_channels", count=int(dead.sum())))
    return tuple(notes)
