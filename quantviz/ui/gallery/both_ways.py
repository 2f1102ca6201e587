"""A bug's tensor, run through the correct and the broken program, and the panels of both."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from quantviz.ui.gallery.state import GalleryState, bug_of, case_of, own_seed

if TYPE_CHECKING:
    import torch

    from quantviz.figures.panels_data import PanelsData
    from quantviz.teaching.gallery import Bug, Case, Outcome


@dataclass(frozen=True, eq=False)
class Shown:
    """A bug on a tensor, both ways."""

    bug: Bug
    case: Case
    correct: Outcome
    broken: Outcome
    #: The cells that differ, as (rows, columns).
    lit: torch.Tensor
    #: The cell looked at.
    cell: tuple[int, int]

    @property
    def place(self) -> tuple[int, ...]:
        """Return the cell's place in the tensor."""
        return self.cell if self.correct.x.dim() > 1 else self.cell[1:]


def run_both_ways(state: GalleryState) -> Shown:
    from quantviz.teaching.gallery import differing, run_bug

    bug = bug_of(state)
    case = case_of(state, bug)
    source = case.source
    if own_seed(case) is not None and state.seed is not None and not state.spotting:
        source = dataclasses.replace(cast(Any, source), seed=state.seed)
    x = source.tensor()
    correct, broken = (run_bug(bug, x, broken, case) for broken in (False, True))
    lit = _matrix(differing(correct, broken))
    cell = state.cell
    if cell is None or not (cell[0] < lit.shape[0] and cell[1] < lit.shape[1]):
        cell = _farthest(correct, broken, lit)
    return Shown(bug, case, correct, broken, lit, cell)


def _matrix(cells: torch.Tensor) -> torch.Tensor:
    return cells if cells.dim() > 1 else cells[None]


def _farthest(correct: Outcome, broken: Outcome, lit: torch.Tensor) -> tuple[int, int]:
    """Return the cell where the two values lie farthest apart; NaN is farther than any number."""
    apart = _matrix((broken.x_hat - correct.x_hat).abs()).nan_to_num(nan=float("inf"))
    place = int(apart.where(lit, -1.0).argmax() if bool(lit.any()) else _matrix(correct.x).abs().argmax())
    return divmod(place, lit.shape[1])


def panels_of_both(shown: Shown) -> tuple[PanelsData, PanelsData]:
    """Return what both rows show, in the same colours."""
    from quantviz.figures.panels_data import panels_data

    codes = _code_range(shown)
    rows = [
        panels_data(outcome.x, outcome.q, outcome.x_hat, code_range=codes)
        for outcome in (shown.correct, shown.broken)
    ]
    # An error that is all NaN or 0 has made-up ends, which must not set those of the other.
    ends = [data.error_range[1] for data in rows if bool((abs(data.error) > 0).any())]
    end = max(ends, default=1.0)
    lit = shown.lit.numpy()
    correct, broken = (dataclasses.replace(data, error_range=(-end, end), lit=lit) for data in rows)
    return correct, broken


def _code_range(shown: Shown) -> tuple[float, float]:
    """Return all codes that the two programs' dtypes have; of int4 held in int8 only those of int4."""
    import torch

    if shown.bug.bits < 8:
        half = float(1 << (shown.bug.bits - 1))
        return -half, half - 1
    dtypes = [
        torch.int8 if outcome.q.is_floating_point() else outcome.q.dtype
        for outcome in (shown.correct, shown.broken)
    ]
    return float(min(torch.iinfo(dtype).min for dtype in dtypes)), float(
        max(torch.iinfo(dtype).max for dtype in dtypes)
    )
