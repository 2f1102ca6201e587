"""The stops of a lesson's dial: their numbers, and their pictures, which are made of marks.

The browser gets all stops at once (`quantviz/browser/dial_component.js`), so that a hand is answered in the
same frame, with the core's own numbers.
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

#: A tensor and its scheme.
Tensor: TypeAlias = tuple[Source, Scheme]


@dataclass(frozen=True, eq=False)
class MarksPicture:
    """A picture of marks in a frame."""

    #: The key of its caption and its description under `[lessons.dials]`.
    words: str
    #: The ends of both axes: left, right, bottom, top.
    frame: tuple[float, float, float, float]
    #: From back to front.
    marks: tuple[Marks, ...]
    #: The keys of names of its parts under `[lessons.dials]`, each with its colour.
    names: tuple[tuple[str, str], ...] = ()
    #: Whether both axes have one unit.
    equal: bool = False
    #: CSS pixels.
    height: int = 200


@dataclass(frozen=True, eq=False)
class Series:
    """Everything that the hand on a dial goes through, one of each at every stop."""

    #: The stops as answers and links have them, such as "0.5".
    stops: tuple[str, ...]
    #: The numbers of formulas, and of the dial's sentence, by their names.
    numbers: tuple[Mapping[str, float], ...]
    #: The pictures `dial.picture` and `dial.beside` of a step.
    pictures: tuple[MarksPicture, ...]
    #: The page's script, and the link's parameters with which it shows the same.
    app: Callable[[str], tuple[str, Mapping[str, str]]]
    #: The words of the stops' buttons, "" for one without; none where the stops name themselves.
    labels: tuple[str, ...] = ()


def layer_address(
    weights: Tensor, inputs: Tensor, method: str, rounded: tuple[str, ...] = ("weights", "inputs")
) -> Callable[[str], tuple[str, Mapping[str, str]]]:
    """Return the function from a stop to the page of layers with this layer under a method.

    Args:
        weights: The weights.
        inputs: The inputs.
        method: The chain of methods, with `{}` for the stop.
        rounded: The sides that are rounded; the others stay as they are.
    """
    pair = SchemePair(AS_IT_IS, AS_IT_IS)
    for side in rounded:
        pair = pair.with_side(side, str(weights[1] if side == "weights" else inputs[1]))
    layer = OwnLayer(weights[0], inputs[0])
    return lambda at: ("pages/explore/layers.py", LayerState(layer, pair, method.format(at)).written())
