"""The dials of lessons: knobs with the core's pictures and numbers at each stop.

A dial is added here: one entry in `DIALS`, a module that computes its `Series`, and its words under
`[lessons.dials.<id>]` in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import field
from quantviz.lab.state import LabState
from quantviz.teaching.lessons.dial_series import Series, Tensor


@dataclass(frozen=True)
class Dial:
    """A kind of dial."""

    #: Its `function` makes a `Series` of the step's tensor, those beside it, and for presses the place.
    module: str
    #: Its numbers, besides `dial`, the number of a stop.
    numbers: tuple[str, ...]
    #: Other states of the step that it reads.
    beside: tuple[str, ...] = ()
    #: Whether stops are buttons that lead on from the hand's place, as for an order chosen piece by piece.
    presses: bool = False
    function: str = "series"


_CACHE = "quantviz.teaching.lessons.cache_dials"
_LEARNING = "quantviz.teaching.lessons.learning_dials"
_TRAINING = "quantviz.teaching.lessons.training_dials"
_COST = "quantviz.teaching.lessons.cost_dials"
_ATTENTION = ("key_error", "centred_error", "value_error")
_GRADIENT = ("zeroed_e4m3", "zeroed_e5m2", "clipped_e4m3", "clipped_e5m2", "wrong_e4m3", "wrong_e5m2")
DIALS: Mapping[str, Dial] = MappingProxyType(
    {
        "smoothing": Dial(
            "quantviz.teaching.lessons.dial_smoothing",
            ("output_error", "weight_error", "plain_error", "best_alpha", "loudest_input", "loudest_weight"),
            ("inputs",),
        ),
        "turning": Dial(
            "quantviz.teaching.lessons.dial_turning",
            (
                *("squares", "peak", "turned_mse", "turned_sqnr", "turned_step", "gain_db"),
                *("best_angle", "goal_angle"),
            ),
            ("weights",),
        ),
        "sliding": Dial(
            "quantviz.teaching.lessons.dial_rounding",
            (
                *("rounded", "wrong_ways", "gptq_error", "gptq_weight_error", "nearest_error"),
                *("nearest_weight_error", "loudest_order", "wrong_order", "together"),
                *("one_of_pair", "other_of_pair"),
            ),
            ("inputs",),
            presses=True,
        ),
        "kv_cut": Dial(_CACHE, _ATTENTION, ("values", "queries"), function="cut"),
        "kv_mean": Dial(_CACHE, _ATTENTION, ("values", "queries"), function="mean"),
        "kv_length": Dial(
            _CACHE, ("cache_16", "cache_rounded", "weights_16", "weights_rounded"), function="length"
        ),
        "learn": Dial(
            _LEARNING,
            ("updates", "w_straight", "rounded_straight", "loss_straight", "loss_true"),
            presses=True,
            function="stairs",
        ),
        "rate": Dial(_LEARNING, ("swing", "upper_share", "mean_rounded"), function="rates"),
        "lost": Dial(_LEARNING, ("wanted", "nearest_moved", "chance_moved"), function="lost"),
        "gradient": Dial(_TRAINING, _GRADIENT, function="step"),
        "loss_scale": Dial(_TRAINING, (*_GRADIENT, "best_power"), function="loss_scale"),
        "packing": Dial(_COST, ("time_16", "time_packed", "codes_a_word"), function="packing"),
        "texts": Dial(_COST, ("seen_error", "other_error", "nearest_error", "halving"), function="texts"),
        "budget": Dial(_COST, ("sums_right", "adder_bits"), function="budget"),
    }
)
DIAL_NUMBERS = ("dial", *dict.fromkeys(name for dial in DIALS.values() for name in dial.numbers))


@dataclass(frozen=True)
class DialState(LabState):
    """The state of a step whose hand is on a dial."""

    #: One of `DIALS`, and the stop of the hand.
    dial: str = field("")
    at: str = field("")
    beside: tuple[Tensor, ...] = field(())

    @property
    def series(self) -> Series:
        """The dial's stops; `QuantVizError` where the hand's is none of them."""
        at = self.at if DIALS[self.dial].presses else ""
        found = _series(self.dial, ((self.source, self.scheme), *self.beside), at)
        if self.at not in found.stops:
            raise QuantVizError("lessons.no_stop", got=self.at[:40], known=", ".join(found.stops))
        return found

    def nearest(self, value: float) -> DialState:
        """Return the state at the next stop."""
        if DIALS[self.dial].presses:
            return replace(self, at=f"{value:.0f}")
        stops = self.series.stops
        return replace(self, at=min(stops, key=lambda stop: abs(float(stop) - value)))


@lru_cache(maxsize=64)
def _series(dial: str, tensors: tuple[Tensor, ...], at: str) -> Series:
    presses = DIALS[dial].presses
    made: Series = getattr(import_module(DIALS[dial].module), DIALS[dial].function)(
        *tensors, *([at] if presses else [])
    )
    return made


def dial_number(state: LabState, name: str) -> float:
    """Return a number of the dial at its stop; `ValueError` for none."""
    if not isinstance(state, DialState):
        raise ValueError(name)
    series = state.series
    numbers = {"dial": float(state.at or 0), **series.numbers[series.stops.index(state.at)]}
    if name not in numbers:
        raise ValueError(name)
    return numbers[name]
