"""Layers of marks in one frame, which the browser paints: `quantviz/browser/dial_component.js`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Marks:
    """One layer of a picture: marks at places, the same at all stops or others at each."""

    #: The kind of mark: a "line" through the places, a disc at each ("dots"), bars up from `base` ("bars") or
    #: to the right of it ("rows"), or "words".
    draw: str
    #: Places in the picture's frame, (places,) or (stops, places); a line is broken at nan.
    x: Numbers
    y: Numbers
    #: One of the names that `show_dial` has colours for.
    color: str = "first"
    #: The width of a line and the radius of a disc in pixels, the thickness of a bar in the frame's unit.
    size: float = 2.0
    dashed: bool = False
    #: Whether discs are rings.
    hollow: bool = False
    #: The words at the places; as many for each stop where they change.
    labels: tuple[str, ...] = ()
    #: On which side of its place a word ends: "left", "center" or "right"; and how many pixels it is moved to
    #: the right and down.
    align: str = "center"
    nudge: tuple[float, float] = (0.0, 0.0)
    #: Where bars begin.
    base: float = 0.0
