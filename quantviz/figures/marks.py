"""Layers of marks that `quantviz/browser/dial_component.js` paints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Marks:
    """One layer: marks at places, the same at all stops or others at each."""

    #: A "line" through the places, discs ("dots"), bars up from `base` ("bars") or right of it ("rows"), or
    #: "words".
    draw: str
    #: (places,) or (stops, places); a line is broken at nan.
    x: Numbers
    y: Numbers
    #: A colour's name for `show_dial`.
    color: str = "first"
    #: A line's width and a disc's radius in pixels, a bar's thickness in the frame's unit.
    size: float = 2.0
    dashed: bool = False
    hollow: bool = False
    #: At the places; for each stop where they change.
    labels: tuple[str, ...] = ()
    #: The side on which words end: "left", "center" or "right"; and pixels to the right and down.
    align: str = "center"
    nudge: tuple[float, float] = (0.0, 0.0)
    base: float = 0.0
