"""GPTQ (Frantar et al. 2022, arXiv 2210.17323): round column by column, and let later columns compensate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.methods.column_sweep import Columns, SweepTrace, Swept, sweep
from quantviz.layers.methods.contract import (
    MethodTask,
    RoundedWeight,
    RoundingMethod,
    as_quantized,
    between,
    one_of,
)
from quantviz.quantization.cells import cell_index
from quantviz.quantization.operations import NamedTensors
from quantviz.quantization.quantizer import choose_qparams, quantize, values_of_codes
from quantviz.quantization.result import QParams, QuantResult, block_values
from quantviz.schemes.granularity import BlockLayout, Flat, PerGroup, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.threads import runs_between
from quantviz.tensors import blocks

#: Input channels up to which the sweep computes in float64, and keeps all that its picture shows.
EXACT = 2048
#: The paper's algorithm, and those of engines that differ from it. "full_inverse", ai-edge-quantizer: errors
#: are spread by the rows of H⁻¹ itself, which no step corrects. "last_scale", neural-compressor with
#: static groups: only the scale of each row's last group is stored, and all codes are decoded with it.
#: "sliced_scale", brevitas with its usual scaling: a column that is cut out for the sweep gets a scale of its
#: own, so it has no error to push, and the result is rounding to nearest.
VARIANTS = ("paper", "full_inverse", "last_scale", "sliced_scale")
#: A pivot of H counts as 0 up to so many times the last bit of its diagonal.
_NONE = 16
_COLUMNS_PER_CHUNK = 512
#: Multiplications that take as long as what a column asks torch for, besides its work.
_COLUMN = 1.5e6
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
    #: The order of columns: as they are; by falling H_jj; or groups by their largest H_jj, and columns inside
    #: of a group by their own, so that groups stay whole (GPTQModel).
    order: Literal["natural", "activation", "group_aware"] = "natural"
    #: The share of the mean of H's diagonal that is added to it.
    damping: float = 0.01
    #: Columns beyond a block of so many are corrected at its end; scales of dynamic groups are taken from
    #: weights that are not corrected inside of a block.
    block: int = 128
    #: Whether the weights of dead channels become 0 before scales are chosen (the paper's code) or after
    #: (llm-compressor).
    cleared: Literal["before", "after"] = "before"
    #: The paper's algorithm, or an engine's variant, see `VARIANTS`.
    variant: Literal["paper", "full_inverse", "last_scale", "sliced_scale"] = "paper"
    id: ClassVar[str] = "gptq"
    cost: ClassVar[str] = "N n² + n³ + m n²"
    work: ClassVar[float] = 700.0
    variants: ClassVar[tuple[str, ...]] = ("gptq(order=activation)", "gptq(groups=dynamic,order=activation)")

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        matrices = (tokens + inputs + outputs / 2) * inputs**2
        exact = 1 if inputs <= EXACT else 2
        column = _COLUMN if self.groups == "static" else 1.5 * _COLUMN
        return super().products(shape) + matrices / exact + column * inputs

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "groups", ("static", "dynamic"))
        yield from one_of(self, "order", ("natural", "activation", "group_aware"))
        yield from one_of(self, "cleared", ("before", "after"))
        yield from one_of(self, "variant", VARIANTS)
        yield from between(self, "damping", 0, 1)
        yield from between(self, "block", 1, 2**20)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is None:
            return
        if self.variant == "last_scale" and isinstance(weights.granularity, Flat):
            yield QuantVizError("method.last_scale", scheme=str(weights))
        if self.groups == "static":
            return
        granularity = weights.granularity
        along = isinstance(granularity, PerGroup) and granularity.axis in (-1, 1)
        if not along or weights.arithmetic.scale.depends_on_tensor or weights.search is not None:
            yield QuantVizError("method.dynamic_groups", scheme=str(weights))

    def round(self, task: MethodTask) -> RoundedWeight:
        return self.round_together([task])[0]

    def round_together(self, tasks: Sequence[MethodTask]) -> list[RoundedWeight]:
        if self.variant == "sliced_scale":
            return [RoundedWeight(task.nearest) for task in tasks]
        begun = [self._begun(task) for task in tasks]
        swept = sweep([layer.columns for layer in begun], tasks[0].scheme, self.block)
        return [self._ended(layer, columns) for layer, columns in zip(begun, swept, strict=True)]

    def _begun(self, task: MethodTask) -> _Begun:
        exact = task.w.shape[1] <= EXACT
        dtype = torch.float64 if exact else torch.float32
        x = task.x.to(dtype)
        hessian = 2 * (task.hessian if exact else _squares(x) / len(x))
        dead = hessian.diagonal() == 0
        w = task.w.masked_fill(dead, 0)
        hessian.diagonal().add_(dead)
        channels = _order(hessian.diagonal(), self.order, task.scheme)
        if self.order != "natural":
            hessian = hessian[channels][:, channels]
        factor = _factor(hessian, self.damping, whole=self.variant == "full_inverse")
        start = task.nearest
        if self.cleared == "before" and bool(dead.any()):
            start = quantize(as_quantized(w, task.scheme), task.scheme)
        scales = _Static(start, channels) if self.groups == "static" else _Dynamic(task.scheme, channels)
        columns = Columns(w[:, channels].to(dtype), factor, scales.of_column)
        return _Begun(task, start, scales, columns, channels, dead)

    def _ended(self, begun: _Begun, swept: Swept) -> RoundedWeight:
        task = begun.task
        channels = begun.channels
        trace = None
        if task.traced and len(channels) <= EXACT:
            nearest = task.nearest.x_hat[:, channels].to(torch.float64)
            # A copy of a large H takes as long as many columns.
            plain = task.hessian if self.order == "natural" else task.hessian[channels][:, channels]
            columns = begun.columns
            trace = SweepTrace(channels, columns.w, nearest, plain, columns.factor, swept.pushed.T)
        result = _result(task, begun.start, begun.scales, swept, channels)
        if self.variant == "last_scale":
            result = _with_last_scale(result)
        indices = _INDEX_BITS / len(task.w) if begun.scales.scattered else 0.0
        return RoundedWeight(result, trace, indices, _notes(task, begun.dead))


@dataclass(frozen=True, eq=False)
class _Begun:
    task: MethodTask
    #: Its codes rounded to nearest, whose scales static groups have.
    start: QuantResult
    scales: _Static | _Dynamic
    columns: Columns
    #: The input channel of each column, and whether each channel is dead, (inputs,).
    channels: torch.Tensor
    dead: torch.Tensor


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
            name: grid.T[channels].unsqueeze(2) if grid.dim() == 2 and grid.shape[1] > 1 else grid
            for name, grid in expanded.items()
        }

    def of_column(self, column: int, w: torch.Tensor) -> NamedTensors:
        return {name: grid[column] if grid.dim() == 3 else grid for name, grid in self._cells.items()}

    def stored(self) -> tuple[QParams, BlockLayout]:
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
        self._groups = channels // granularity.size
        firsts = self._groups[:: granularity.size]
        #: Whether the columns of a group lie apart in the weight.
        self.scattered = not torch.equal(
            firsts[torch.arange(len(channels)) // granularity.size], self._groups
        )

    def of_column(self, column: int, w: torch.Tensor) -> NamedTensors:
        """Return the values of a column's cells, from weights (outputs, inputs) in the order of the sweep."""
        if column % self._size == 0:
            group = as_quantized(w[:, column : column + self._size].contiguous(), self._scheme)
            self._found.append(choose_qparams(group, self._scheme))
        return block_values(self._found[-1])

    def stored(self) -> tuple[QParams, BlockLayout]:
        """Return the scales with the blocks that share them; each cell is one where groups lie apart."""
        first = self._found[0]

        def joined(name: str) -> torch.Tensor:
            grids = [getattr(grid, name) for grid in self._found]
            return self._placed(torch.cat(grids, 1))

        others = {
            name: self._placed(torch.cat([grid.others[name] for grid in self._found], 1))
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
            return grid[:, self._groups[:: self._size].argsort()]
        groups = torch.empty_like(self._channels)
        groups[self._channels] = torch.arange(len(groups)) // self._size
        return grid[:, groups]


def _order(loudness: torch.Tensor, order: str, scheme: Scheme) -> torch.Tensor:
    if order == "natural":
        return torch.arange(len(loudness))
    falling = loudness.argsort(descending=True, stable=True)
    if order == "activation" or not isinstance(scheme.granularity, PerGroup):
        return falling
    groups = torch.arange(len(loudness)) // scheme.granularity.size
    loudest = torch.zeros(int(groups[-1]) + 1, dtype=loudness.dtype)
    loudest.scatter_reduce_(0, groups, loudness, "amax")
    rank = loudest.argsort(descending=True, stable=True).argsort()
    return falling[rank[groups[falling]].argsort(stable=True)]


def _squares(x: torch.Tensor) -> torch.Tensor:
    """Return XᵀX, of which only the upper half is multiplied."""
    products = x.new_empty(x.shape[1], x.shape[1])
    for start, stop in runs_between(len(products), _COLUMNS_PER_CHUNK):
        torch.mm(x[:, start:stop].T, x[:, start:], out=products[start:stop, start:])
        products[stop:, start:stop] = products[start:stop, stop:].T
    return products


def _factor(hessian: torch.Tensor, damping: float, *, whole: bool) -> torch.Tensor:
    """Return the upper Cholesky factor of the inverse of a damped H, or the upper half of the inverse itself.

    Raises:
        QuantVizError: It is not positive definite.
    """
    # From the last row on: H = RRᵀ with R upper triangular, so H⁻¹ = R⁻ᵀR⁻¹, and R⁻¹ is the factor.
    damped = hessian.flip(0, 1)
    damped.diagonal().add_(damping * hessian.diagonal().mean())
    lower, failed = torch.linalg.cholesky_ex(damped)
    root = lower.flip(0, 1)
    least = _NONE * torch.finfo(hessian.dtype).eps * damped.diagonal().flip(0)
    if failed or not bool((root.diagonal().square() > least).all()):
        raise QuantVizError("method.not_positive_definite", damping=damping, inputs=len(hessian))
    upper = _inverse_of_upper(root)
    return _squares(upper).triu() if whole else upper


def _inverse_of_upper(root: torch.Tensor) -> torch.Tensor:
    """Return the inverse of an upper triangular matrix, by halves: of its zeros nothing is computed."""
    size = len(root)
    if size <= _COLUMNS_PER_CHUNK:
        inverse: torch.Tensor = torch.linalg.solve_triangular(
            root, torch.eye(size, dtype=root.dtype), upper=True
        )
        return inverse
    half = size // 2
    inverse = torch.zeros_like(root)
    inverse[:half, :half] = _inverse_of_upper(root[:half, :half])
    inverse[half:, half:] = _inverse_of_upper(root[half:, half:])
    beside = torch.linalg.solve_triangular(root[:half, :half], root[:half, half:], upper=True)
    torch.mm(beside, inverse[half:, half:], out=inverse[:half, half:]).neg_()
    return inverse


def _with_last_scale(result: QuantResult) -> QuantResult:
    """Return codes as they are decoded with the scale and zero point of each row's last group alone."""
    last = {
        name: grid[:, -1:].expand(grid.shape).contiguous()
        for name, grid in (("scale", result.qparams.scale), ("zero_point", result.qparams.zero_point))
    }
    params = dataclasses.replace(result.qparams, **last)
    x_hat = values_of_codes(result.q, result.scheme, params)
    return dataclasses.replace(result, qparams=params, x_hat=x_hat, error=x_hat - result.x, range=None)


def _result(
    task: MethodTask, start: QuantResult, scales: _Static | _Dynamic, swept: Swept, channels: torch.Tensor
) -> QuantResult:
    place = channels.argsort()
    q, x_hat, clipped = (cells[place].T.contiguous() for cells in (swept.q, swept.x_hat, swept.clipped))
    params, layout = scales.stored()
    return dataclasses.replace(
        start,
        qparams=params,
        x=task.values,
        q=q,
        x_hat=x_hat,
        error=x_hat - task.values,
        clipped=clipped,
        layout=layout,
        range=start.range if isinstance(scales, _Static) else None,
        own_codes=True,
    )


def _notes(task: MethodTask, dead: torch.Tensor) -> tuple[Note, ...]:
    notes = list(task.few_tokens)
    if bool(dead.any()):
        notes.append(Note.of("method_dead_channels", count=int(dead.sum())))
    return tuple(notes)
