"""GPTQ's sweep: columns are rounded one after the other, and the error of each is pushed onto later ones."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from quantviz.budget import StepCounter
from quantviz.layers.methods.contract import as_quantized
from quantviz.quantization.cells import quantize_with
from quantviz.quantization.operations import NamedTensors
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.threads import runs_between

#: From the place of a column and the weights as they are outside of the present block, the values of the
#: column's cells, as `quantize_with` takes them, each (outputs, 1) or (1, 1).
CellsOfColumn = Callable[[int, torch.Tensor], NamedTensors]


#: Columns that are corrected one by one; the others of a block get the errors of such a run at once.
_RUN = 16


@dataclass(frozen=True, eq=False)
class Swept:
    """The columns after a sweep as rows, in its order, so that each lies together; (inputs, outputs) each."""

    q: torch.Tensor
    x_hat: torch.Tensor
    clipped: torch.Tensor
    #: The rounding error of each column over the factor's diagonal: (w_j − ŵ_j) / F_jj.
    pushed: torch.Tensor


@dataclass(frozen=True, eq=False)
class SweepTrace:
    """A sweep, from which any moment of it is computed. Columns are in its order; all values are float64."""

    #: The input channel of each column, int64 (inputs,).
    order: torch.Tensor
    #: W before, and with each weight rounded to nearest, (outputs, inputs).
    w: torch.Tensor
    nearest: torch.Tensor
    #: H = XᵀX / N without damping, (inputs, inputs).
    hessian: torch.Tensor
    #: The factor whose row j spreads the error of column j, upper triangular (inputs, inputs).
    factor: torch.Tensor
    #: The error of each column over the factor's diagonal, (outputs, inputs).
    pushed: torch.Tensor

    def at(self, column: int) -> torch.Tensor:
        """Return W when so many columns are rounded: these and, moved by them, the others."""
        return self.w - self.pushed[:, :column] @ self.factor[:column]

    def errors(self, column: int) -> torch.Tensor:
        """Return the rounding error of a column, ŵ − w as w was when it was rounded, (outputs,)."""
        return -self.pushed[:, column] * self.factor[column, column]

    @cached_property
    def output_errors(self) -> torch.Tensor:
        """Return ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖² when 0, 1, … all columns are rounded, (inputs + 1,)."""
        return self._of_pushes(self.hessian) / self._signal

    @cached_property
    def weight_errors(self) -> torch.Tensor:
        """Return ‖Ŵ − W‖² / ‖W‖² when 0, 1, … all columns are rounded, (inputs + 1,)."""
        return self._of_pushes(None) / self._squares

    @cached_property
    def nearest_output_errors(self) -> torch.Tensor:
        change = self.nearest - self.w
        return _corners((change.T @ change) * self.hessian) / self._signal

    @cached_property
    def nearest_weight_errors(self) -> torch.Tensor:
        squares = (self.nearest - self.w).square().sum(0).cumsum(0)
        return torch.cat((torch.zeros(1, dtype=torch.float64), squares)) / self._squares

    @property
    def _signal(self) -> torch.Tensor:
        return ((self.w @ self.hessian) * self.w).sum()

    @property
    def _squares(self) -> torch.Tensor:
        return self.w.square().sum()

    def _of_pushes(self, metric: torch.Tensor | None) -> torch.Tensor:
        """Return the squares of the change of W when 0, 1, … columns are rounded, under a metric H or 1."""
        turned = self.factor if metric is None else self.factor @ metric
        return _corners((self.pushed.T @ self.pushed) * (turned @ self.factor.T))


def _corners(products: torch.Tensor) -> torch.Tensor:
    """Return the sums of the first 0, 1, … rows and columns of a symmetric matrix."""
    diagonal = products.diagonal()
    # Each row adds its own product, and those with the rows before it twice.
    steps = diagonal + 2 * (products.tril(-1).sum(1))
    return torch.cat((torch.zeros(1, dtype=products.dtype), steps.cumsum(0)))


@dataclass(frozen=True, eq=False)
class Columns:
    #: The weights, (outputs, inputs), in the order of the sweep.
    w: torch.Tensor
    #: Row j spreads the error of column j: upper triangular (inputs, inputs), in the dtype of `w`.
    factor: torch.Tensor
    cells_of: CellsOfColumn


def sweep(layers: Sequence[Columns], scheme: Scheme, block: int) -> list[Swept]:
    """Round columns one after the other, and push the error of each onto those at its right.

    Each layer is swept by itself. Columns at one place are rounded together: of small layers that takes
    hardly longer than of one. Columns beyond a `block` are corrected when it is done, all at once.
    """
    progress = StepCounter(sum(-(-layer.w.shape[1] // block) for layer in layers), is_whole=True)
    sweeps = [_swept(layer, block, progress) for layer in layers]
    swept: dict[int, Swept] = {}
    asked = {number: next(running) for number, running in enumerate(sweeps)}
    while asked:
        for number, answer in zip(tuple(asked), _rounded(tuple(asked.values()), scheme), strict=True):
            try:
                asked[number] = sweeps[number].send(answer)
            except StopIteration as end:
                swept[number] = end.value
                del asked[number]
    return [swept[number] for number in range(len(layers))]


_Answer = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
_Asked = tuple[torch.Tensor, NamedTensors]


def _rounded(asked: Sequence[_Asked], scheme: Scheme) -> Iterator[_Answer]:
    if len(asked) > 1 and all(grid.dim() == 2 for _, cells in asked for grid in cells.values()):
        counts = [len(column) for column, _ in asked]
        cells = {
            name: torch.cat([cell_values[name].expand(len(column), 1) for column, cell_values in asked])
            for name in asked[0][1]
        }
        joined = next(_rounded([(torch.cat([column for column, _ in asked]), cells)], scheme))
        yield from zip(*(torch.split(column_values, counts) for column_values in joined), strict=True)
        return
    for column, cells in asked:
        values = as_quantized(column, scheme, known=True).unsqueeze(1)
        q, x_hat, _, clipped = quantize_with(values, scheme, cells)
        yield q[:, 0], x_hat[:, 0], clipped[:, 0]


def _swept(layer: Columns, block: int, progress: StepCounter) -> Generator[_Asked, _Answer, Swept]:
    factor = layer.factor
    diagonal = factor.diagonal().unbind()
    # Columns are rows here, so that each lies together in memory.
    columns = layer.w.T.contiguous()
    pushed = torch.empty_like(columns)
    pushes = pushed.unbind()
    rounded = []
    for start, stop in runs_between(len(columns), block):
        progress.step()
        # `columns` is not corrected inside of a block: dynamic groups take their scales from it.
        here = columns[start:stop].clone()
        for first, last in runs_between(stop, _RUN, start):
            for at in range(first, last):
                column = here[at - start]
                answer = yield column, layer.cells_of(at, columns.T)
                rounded.append(answer)
                torch.div(column - answer[1], diagonal[at], out=pushes[at])
                here[at + 1 - start : last - start].addr_(factor[at, at + 1 : last], pushes[at], alpha=-1)
            later = here[last - start :]
            later.addmm_(factor[first:last, last:stop].T, pushed[first:last], alpha=-1)
        columns[stop:].addmm_(factor[start:stop, stop:].T, pushed[start:stop], alpha=-1)
    q, x_hat, clipped = (torch.stack(per_column) for per_column in zip(*rounded, strict=True))
    return Swept(q, x_hat, clipped, pushed)
