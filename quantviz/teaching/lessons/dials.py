"""Dials of lessons: a knob with stops, and the pictures and numbers that the core computes at each of them.

A dial is added here: one entry in `DIALS`, its words under `[lessons.dials.<id>]` in each language, and its
numbers among the names that formulas know. The browser gets all stops at once, so that a hand is answered in
the same frame with the core's own numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import field
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source

#: A tensor and its scheme.
Tensor = tuple[Source, Scheme]


@dataclass(frozen=True, eq=False)
class Marks:
    """One layer of a picture: marks at places, the same at all stops or others at each."""

    #: What is drawn: a "line" through the places, a disc at each ("dots"), bars up from 0 ("bars") or to the
    #: right of it ("rows"), or "words".
    draw: str
    #: Places in the picture's frame, (places,) or (stops, places); a line is broken at nan.
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    #: One of the names that `show_dial` has colours for.
    color: str = "first"
    #: The width of a line and the radius of a disc in pixels, the thickness of a bar in the frame's unit.
    size: float = 2.0
    dashed: bool = False
    #: Whether discs are rings.
    hollow: bool = False
    #: The words at the places.
    labels: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Dial:
    """A kind of dial."""

    #: Its function in this folder, as "module.function": it returns a `Series` of the step's tensor, of those
    #: beside it, and of the place of the hand where stops depend on it.
    maker: str
    #: The names of its numbers, besides `dial`, the number of a stop.
    numbers: tuple[str, ...]
    #: The states of the step that it reads besides the step's own.
    beside: tuple[str, ...] = ()
    #: Whether its stops are buttons that lead on from the hand's place, as an order that is chosen piece by
    #: piece, and not places of a slider.
    presses: bool = False


_ATTENTION = ("key_error", "centred_error", "value_error")
_GRADIENT = ("zeroed_e4m3", "zeroed_e5m2", "clipped_e4m3", "clipped_e5m2", "wrong_e4m3", "wrong_e5m2")
DIALS: Mapping[str, Dial] = MappingProxyType(
    {
        "smoothquant": Dial(
            "dial_smoothing.series",
            ("output_error", "weight_error", "plain_error", "best_alpha", "loudest_input", "loudest_weight"),
            ("inputs",),
        ),
        "kv_cut": Dial("cache_dials.cut", _ATTENTION, ("values", "queries")),
        "kv_mean": Dial("cache_dials.mean", _ATTENTION, ("values", "queries")),
        "kv_length": Dial(
            "cache_dials.length", ("cache_16", "cache_rounded", "weights_16", "weights_rounded")
        ),
        "learn": Dial(
            "learning_dials.stairs",
            ("updates", "w_straight", "rounded_straight", "loss_straight", "loss_true"),
            presses=True,
        ),
        "rate": Dial("learning_dials.rates", ("swing", "upper_share", "mean_rounded")),
        "lost": Dial("learning_dials.lost", ("wanted", "nearest_moved", "chance_moved")),
        "gradient": Dial("training_dials.step", _GRADIENT),
        "loss_scale": Dial("training_dials.loss_scale", _GRADIENT),
        "packing": Dial("cost_dials.packing", ("time_16", "time_packed", "codes_a_word")),
        "texts": Dial("cost_dials.texts", ("seen_error", "other_error", "nearest_error")),
        "budget": Dial("cost_dials.budget", ("sums_right", "adder_bits")),
    }
)
#: The names that formulas have for numbers of dials.
DIAL_NUMBERS = ("dial", *dict.fromkeys(name for dial in DIALS.values() for name in dial.numbers))


@dataclass(frozen=True)
class DialState(LabState):
    """The state of a step whose hand is on a dial."""

    #: The dial, one of `DIALS`, and the stop of the hand.
    dial: str = field("")
    at: str = field("")
    #: The other tensors that it reads.
    beside: tuple[Tensor, ...] = field(())

    @property
    def series(self) -> Series:
        """Return the dial's stops with their pictures and numbers.

        Raises:
            QuantVizError: The stop is none of the dial's.
        """
        at = self.at if DIALS[self.dial].presses else ""
        found = _series(self.dial, ((self.source, self.scheme), *self.beside), at)
        if self.at not in found.stops:
            raise QuantVizError("lessons.no_stop", got=self.at[:40], known=", ".join(found.stops))
        return found

    def number(self, name: str) -> float:
        """Return a number of the dial at its stop; `ValueError` where it has none of this name."""
        series = self.series
        numbers = series.numbers[series.stops.index(self.at)]
        if name != "dial" and name not in numbers:
            raise ValueError(name)
        return float(self.at) if name == "dial" else numbers[name]

    def nearest(self, value: float) -> DialState:
        """Return the state at the stop next to a number."""
        stops = self.series.stops
        return replace(self, at=min(stops, key=lambda stop: abs(float(stop) - value)))


@lru_cache(maxsize=16)
def _series(dial: str, tensors: tuple[Tensor, ...], at: str) -> Series:
    made: Series = _maker(DIALS[dial].maker)(*tensors, *([at] if DIALS[dial].presses else []))
    return made


@cache
def _maker(name: str) -> Callable[..., Series]:
    module, _, function = name.partition(".")
    maker: Callable[..., Series] = getattr(import_module(f"quantviz.teaching.lessons.{module}"), function)
    return maker
