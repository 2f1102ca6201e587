"""The parts of a ruler besides the block's values: other grids below its comb, a density, the detail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GridRow:
    """A grid in a row of its own, with a value marked on it, or one value in the place of a grid."""

    words: str
    #: Its colour: `before`, `wrong` or `right`.
    tone: str
    #: The value of each code.
    levels: tuple[float, ...] = ()
    #: The ends of its range; none where there is none.
    range: tuple[float, float] | None = None
    #: The marked value; none where none is.
    at: float | None = None


@dataclass(frozen=True)
class RulerDetail:
    """The parts of a lesson's ruler besides the block's values."""

    #: Other grids below the comb: the one before, a learner's, the right one.
    rows: tuple[GridRow, ...] = ()
    #: Mean and deviation of the normal density behind the dots; none where it is not shown.
    bell: tuple[float, float] | None = None
    #: Amount of detail, of `quantviz.lab.picture_parts.RULER_STAGES`.
    stage: str = "all"
