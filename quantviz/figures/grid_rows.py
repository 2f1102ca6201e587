"""Grids that a ruler shows below its comb: the one before, a learner's, the right one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GridRow:
    """A grid in a row of its own, with a value marked on it, or one value in the place of a grid."""

    #: Its name.
    words: str
    #: Its colour: `before`, `wrong` or `right`.
    tone: str
    #: The value of each code.
    levels: tuple[float, ...] = ()
    #: The ends of its range; none where there is none.
    range: tuple[float, float] | None = None
    #: The marked value; none where none is.
    at: float | None = None
