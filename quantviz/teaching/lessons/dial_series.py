"""The stops of a lesson's dial: numbers, and pictures of marks.

The browser gets all stops at once (`quantviz/browser/dial_component.js`), to answer a hand in the same frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from quantviz.figures.marks import Marks
from quantviz.lab.layer_sources import OwnLayer
from quantviz.lab.layer_state import AS_IT_IS, LayerState, SchemePair
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source

Tensor: TypeAlias = tuple[Source, Scheme]


@dataclass(frozen=True, eq=False)
class MarksPicture:
    """A picture of marks in a frame."""

    #: Key of its caption and description under `[lessons.dials]`.
    words: str
    #: Left, right, bottom, top.
    frame: tuple[float, float, float, float]
    #: From back to front.
    marks: tuple[Marks, ...]
    #: Its parts, as keys under `[lessons.dials]`, with colours.
    names: tuple[tuple[str, str], ...] = ()
    #: Whether both axes have one unit.
    equal: bool = False
    height: int = 200


@dataclass(frozen=True, eq=False)
class Series:
    """A dial at each of its stops."""

    #: As answers and links have them, such as "0.5".
    #: The stops as answers and links have them, such as "0.5".
    stops: tuple[str, ...]
    #: By names that formulas know.
    numbers: tuple[Mapping[str, float], ...]
    #: `dial.picture` and `dial.beside` of a step.
    pictures: tuple[MarksPicture, ...]
    #: Page and link that show the same at a stop.
    app: Callable[[str], tuple[str, Mapping[str, str]]]
    #: Words of the stops' buttons; none where stops name themselves.
    labels: tuple[str, ...] = ()


def layer_address(
    weights: Tensor, inputs: Tensor, method: str, rounded: tuple[str, ...] = ("weights", "inputs")
) -> Callable[[str], tuple[str, Mapping[str, str]]]:
    """Return a function from a stop to the page of layers with this layer.

    `method` has `{}` for the stop; sides that are not `rounded` stay as they are.
    """
    pair = SchemePair(AS_IT_IS, AS_IT_IS)
    for side in rounded:
        pair = pair.with_side(side, str(weights[1] if side == "weights" else inputs[1]))
    layer = OwnLayer(weights[0], inputs[0])
    return lambda at: ("pages/explore/layers.py", LayerState(layer, pair, method.format(at)).written())
