"""A bug's tensor run through the correct and the broken program: on one of its cases, or along its handle."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from quantviz.ui.gallery.state import GalleryState, bug_of, case_of, own_seed

if TYPE_CHECKING:
    import torch

    from quantviz.teaching.bug_handles import HandleFrame
    from quantviz.teaching.gallery import Bug, ProgramCase, ProgramResult


@dataclass(frozen=True, eq=False)
class BugComparison:
    """A bug on a tensor, both ways."""

    #: The bug at each value of its handle; a single one where it is shown on a case.
    frames: tuple[HandleFrame, ...]
    #: Number of the one that is looked at.
    at: int
    #: The cell looked at, as row and column.
    cell: tuple[int, int]
    #: The seed of a random tensor; none for the case's own.
    seed: int | None

    @property
    def key(self) -> Hashable:
        """Return the cache key: all values that the results depend on."""
        return self.bug.id, self.case.id, self.seed, len(self.frames), self.at, self.cell

    @property
    def now(self) -> HandleFrame:
        """Return the bug as it is looked at."""
        return self.frames[self.at]

    @property
    def bug(self) -> Bug:
        return self.now.bug

    @property
    def case(self) -> ProgramCase:
        return self.now.case

    @property
    def correct(self) -> ProgramResult:
        return self.now.correct

    @property
    def broken(self) -> ProgramResult:
        return self.now.broken

    @property
    def lit(self) -> torch.Tensor:
        """Return the cells that differ, as (rows, columns)."""
        return as_matrix(self.now.hit)

    @property
    def place(self) -> tuple[int, ...]:
        """Return the cell's place in the tensor."""
        return self.cell if self.correct.x.dim() > 1 else self.cell[1:]


def run_both_ways(state: GalleryState) -> BugComparison:
    from quantviz.teaching.bug_handles import HANDLES, first_shown, frames

    bug = bug_of(state)
    if state.at is not None and not state.spotting:
        runs = frames(bug.id)
        at = HANDLES[bug.id].values.index(state.at)
        # The cell stays while a hand drags: the one that is hit worst where the bug first shows.
        cell = farthest(first_shown(bug.id))
        if runs[at].shows and not bool(as_matrix(runs[at].hit)[cell]):
            cell = farthest(runs[at])
    else:
        runs = (_on_case(state, bug),)
        at = 0
        cell = farthest(runs[0])
    rows, cols = as_matrix(runs[at].hit).shape
    if state.cell is not None and state.cell[0] < rows and state.cell[1] < cols:
        cell = state.cell
    return BugComparison(runs, at, cell, None if state.spotting else state.seed)


def _on_case(state: GalleryState, bug: Bug) -> HandleFrame:
    from quantviz.teaching.bug_handles import HandleFrame
    from quantviz.teaching.gallery import differing, run_bug

    case = case_of(state, bug)
    source = case.source
    if own_seed(case) is not None and state.seed is not None and not state.spotting:
        source = dataclasses.replace(cast(Any, source), seed=state.seed)
    x = source.tensor()
    correct, broken = (run_bug(bug, x, broken, case) for broken in (False, True))
    return HandleFrame(0.0, bug, case, correct, broken, differing(correct, broken))


def as_matrix(cells: torch.Tensor) -> torch.Tensor:
    return cells if cells.dim() > 1 else cells[None]


def farthest(frame: HandleFrame) -> tuple[int, int]:
    """Return the cell where the two values lie farthest apart; NaN is farther than any number."""
    hit = as_matrix(frame.hit)
    apart = as_matrix((frame.broken.x_hat - frame.correct.x_hat).abs()).nan_to_num(nan=float("inf"))
    place = int(apart.where(hit, -1.0).argmax() if frame.shows else as_matrix(frame.correct.x).abs().argmax())
    return divmod(place, hit.shape[1])
