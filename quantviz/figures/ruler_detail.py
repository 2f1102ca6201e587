"""A ruler's parts besides the block's values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GridRow:
    """A grid in a row of its own, or one value in its place."""

    words: str
    #: `before`, `wrong` or `right`.
    tone: str
    #: Of each code.
    levels: tuple[float, ...] = ()
    range: tuple[float, float] | None = None
    #: The marked value.
    at: float | None = None


@dataclass(frozen=True)
class RulerDetail:
    #: Below the comb: the grid before, a learner's, the right one.
    rows: tuple[GridRow, ...] = ()
    #: Mean and deviation of a normal density behind the dots.
    bell: tuple[float, float] | None = None
    #: One of `quantviz.lab.picture_parts.RULER_STAGES`.
    stage: str = "all"
