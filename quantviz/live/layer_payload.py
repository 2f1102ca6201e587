"""The loudness of a layer's input channels, and its multiplication, under a hand: data with which the browser
computes the layer while the ceiling of its scale moves, or a weight or a channel of a small one.

The browser runs the schemes' own arithmetic and sums in the server's order: picture and numbers follow in the
same frame. When the hand lets go, one message goes to the server: see `quantviz.lab.layer_moves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES
from quantviz.lab.layer_moves import fits_ceiling, fits_layer_hand, without_search
from quantviz.lab.layer_state import LayerState
from quantviz.live.hand_payload import Arrays, program_of
from quantviz.live.hand_words import Looks
from quantviz.schemes.calibration import ManualRange
from quantviz.text import templates, text

if TYPE_CHECKING:
    from quantviz.compiled.javascript import JavaScriptProgram
    from quantviz.figures.multiplication import ColourEnds
    from quantviz.layers.captures import Captured
    from quantviz.layers.causes import Channels
    from quantviz.layers.integer_result import IntegerResult
    from quantviz.layers.layer_picture import LayerPicture
    from quantviz.layers.layer_result import LayerResult
    from quantviz.layers.operands import Operand

#: Bars of the skyline at most; of more channels each shows the loudest of some.
_BARS = 512


@dataclass(frozen=True, eq=False)
class Multiplication:
    picture: LayerPicture
    ends: ColourEnds
    #: Rows, products of a cell, and columns of the whole.
    shape: tuple[int, ...]
    #: The selected row and column, and the place of a product if one is chosen.
    selected: tuple[int, int, int | None]
    #: The product's place that is loud.
    loud: int | None = None
    #: Rows that are held back.
    held: Any = field(default_factory=partial(np.arange, 0))
    #: Whether both factors of the product can be dragged.
    hand: bool = False

    def payload(self, chart: str, height: int, looks: Looks) -> tuple[dict[str, Any], Arrays]:
        """Return the header and the arrays that tie a `chart` of `height` CSS pixels to the page."""
        picture, words = self.picture, self.picture.words
        colours = THEMES[looks.theme]
        say = partial(text, language=looks.language)
        header = {
            "chart": chart,
            "selected": list(self.selected),
            "edges": {},
            "held": None,
            "hand": self.hand,
            "ends": [self.ends.x, self.ends.w, self.ends.y],
            "loud": self.loud,
            "channels": self.shape[1],
            "height": height,
            "labels": [say(f"{words}.axes.{name}") for name in ("token", "input", "output")],
            "whats": {name: say(f"{words}.{picture.shown}.{name}") for name in ("x", "w", "y")},
            "largest": say("layers.card.largest"),
            "writing": asdict(WRITING),
            "colors": {
                **colours.named("text", "surface", "line", "mark", "font"),
                "halo": colours.mark_halo,
                "held": colours.accent,
            },
        }
        edges = (picture.x.row_edges, picture.x.col_edges, picture.y.col_edges)
        return header, {"held": self.held, **{f"edges.{axis}": each for axis, each in enumerate(edges)}}


@dataclass(frozen=True, eq=False)
class LayerHand:
    """A layer under the schemes of a state, as a hand moves it."""

    result: LayerResult
    channels: Channels
    state: LayerState
    #: The layer before changes by hand.
    unchanged: Callable[[], Captured]
    looks: Looks

    @property
    def small(self) -> bool:
        return self._written and fits_layer_hand(self.state)

    @property
    def ceiling(self) -> bool:
        return self._written and fits_ceiling(self.state)

    @property
    def reach(self) -> str:
        """Return "small" where all of it moves, "large" where the ceiling does, else "settled"."""
        if self.small:
            return "small"
        return "large" if self.ceiling else "settled"

    @property
    def settled(self) -> bool:
        """Return whether both sides have values that a browser cannot compute: a method or a search chose
        them, or it lacks the scheme's arithmetic.
        """
        return not (self._written and without_search(self.state))

    @property
    def _written(self) -> bool:
        sides = (self.result.weights, self.result.inputs)
        return all(each.study is None or _program(each) is not None for each in sides)

    @property
    def loud(self) -> int | None:
        return next(iter(self.channels.loud_inputs), None)

    def payload(
        self,
        chart: str,
        cell: tuple[int, int, int],
        integers: IntegerResult | None = None,
        *,
        alone: bool = False,
    ) -> tuple[dict[str, Any], Arrays]:
        """Return the header and the arrays for the browser; what cannot be moved comes without its numbers.

        `cell` is the selected token, output and input channel; `integers` the layer whose steps follow the
        hand; with `alone` no server computes it where nothing can be moved.
        """
        sizes = self.channels.x_max.float().numpy()
        starts = np.arange(min(len(sizes), _BARS)) * len(sizes) // min(len(sizes), _BARS)
        small = self.small
        header = {
            "chart": chart,
            # A larger layer sends the same whatever is selected.
            "cell": cell if small else None,
            "channels": len(sizes),
            "loud": self.loud,
            "words": self._words(),
            "small": small,
            **_looks(self.state, self.looks),
        }
        arrays: Arrays = {"sizes": np.maximum.reduceat(sizes, starts)}
        if small or self.ceiling or alone:
            more, values = self._computed(cell[2] if small else None, integers)
            header |= more
            arrays |= values
        return header, arrays

    def _computed(self, channel: int | None, integers: IntegerResult | None) -> tuple[dict[str, Any], Arrays]:
        """Return the header and the arrays with which the browser computes the layer; with a `channel` of a
        small one that can be moved.
        """
        from quantviz.compiled.javascript import packed_together, write_metrics
        from quantviz.layers.layer_picture import NOISE

        result, state = self.result, self.state
        operands = {"x": result.inputs, "w": result.weights}
        settled = self.settled
        computed = {} if settled else operands
        programs = {name: program for name, each in computed.items() if (program := _program(each))}
        sides: dict[str, Any] = {
            name: {"program": list(programs).index(name), **self._layout(operands[name])} for name in programs
        }
        if settled:
            sides = {name: {"settled": True} for name, each in operands.items() if not each.unrounded}
        steps, more = (None, {}) if integers is None else self._integers(integers)
        programs |= more
        scheme = result.inputs.scheme
        calibration = None if scheme is None else scheme.calibration
        by_hand = (calibration.lo, calibration.hi) if isinstance(calibration, ManualRange) else None
        header = {
            "shape": result.shape,
            "shown": state.shown,
            "sides": {"x": None, "w": None, **sides},
            **packed_together(programs.values()),
            "integers": steps and {**steps, **{name: list(programs).index(name) for name in more}},
            "metrics": write_metrics().packed(),
            "symmetric": scheme is not None and scheme.mode == "symmetric",
            "range": by_hand,
            "reach": by_hand or _reach(result) if fits_ceiling(state) else None,
            "ends": state.held if state.shown == "error" else None,
            "noise": NOISE if state.shown == "error" else 0.0,
            "refusals": dict(templates("hand.refusals", self.looks.language)),
        }
        arrays = {
            "x": result.inputs.values(slice(None)).flatten().numpy(),
            "w": result.weights.values(slice(None)).flatten().numpy(),
            "bias": result.bias.numpy(),
            "held": result.held_back.byte().numpy(),
        }
        if settled:
            sqnr_db = result.weights.sqnr_db
            header["weight_db"] = None if sqnr_db is None or math.isinf(sqnr_db) else sqnr_db
            arrays |= self._values_of(operands)
        if channel is not None:
            weight, base = self.unchanged().whole()
            header["largest"] = float(weight.abs().max())
            arrays["base"] = base[:, channel].contiguous().numpy()
        return header, arrays

    def _values_of(self, operands: Mapping[str, Operand]) -> Arrays:
        whole = slice(None)
        arrays = {f"{name}_hat": each.quantized(whole).flatten().numpy() for name, each in operands.items()}
        if self.state.shown == "codes":
            codes = {name: each.codes(whole).flatten().float() for name, each in operands.items()}
            arrays |= {f"{name}_codes": values.numpy() for name, values in codes.items()}
        if self.result.applied.bias_change is not None:
            arrays["bias_change"] = self.result.applied.bias_change.numpy()
        return arrays

    def _integers(self, layer: IntegerResult) -> tuple[dict[str, Any], dict[str, JavaScriptProgram]]:
        from quantviz.layers.integer_explanation import SYMBOLS
        from quantviz.layers.integer_javascript import write_steps

        language = self.looks.language
        facts, programs = write_steps(self.result, layer)
        keys = [step["key"] for step in programs["program"].facts["steps"]]
        answers = templates("layers.integer", language)
        words = {
            "symbols": dict(SYMBOLS),
            "words": {key: text(f"steps.{key}", language) for key in keys},
            "products": answers["products"],
            "answers": {name: answers[name] for name in ("rounded", "clamped")},
            "value": text("layers.integer.value", language),
        }
        return {**facts, **words}, programs

    def _layout(self, operand: Operand) -> dict[str, Any]:
        """Return the layout of a side's blocks, and whether scales are chosen without the lines held back."""
        from quantviz.compiled.javascript import layout_spec

        assert operand.scheme is not None
        layout = layout_spec(operand.scheme.layout(operand.shape), operand.shape)
        return {"layout": layout, "is_static": operand is self.result.inputs and self.result.static}

    def _words(self) -> dict[str, str]:
        language = self.looks.language
        hand = templates("layers.hand", language)
        return {
            **{name: hand[name] for name in ("skyline", "ceiling", "drag", "channel", "weight")},
            "used": templates("layers.numbers", language)["used"],
            "values": templates("layers.cell", language)["values"],
        }


def _program(operand: Operand) -> JavaScriptProgram | None:
    if operand.scheme is None:
        return None
    return program_of(operand.scheme.on_input(operand.stored.dtype))


def _reach(result: LayerResult) -> tuple[float, float]:
    """Return the range for which the one scale of X is chosen."""
    study = result.inputs.study
    if study is not None and study.range is not None:
        return float(study.range.lo), float(study.range.hi)
    x = result.inputs.values(slice(None))
    used = x[~result.held_back] if result.static else x
    return float(used.min()), float(used.max())


def _looks(state: LayerState, looks: Looks) -> dict[str, Any]:
    from quantviz.figures.layer_plots import part_colours

    colours = THEMES[looks.theme]
    ramp = colours.errors if state.shown == "error" else colours.values
    reach = templates("layer_picture", looks.language)
    return {
        "writing": asdict(WRITING),
        "look": {
            "ramp": ramp,
            "words": {"fixed": reach["fixed"], "fixed_left": reach["fixed_left"]},
            "writing": asdict(WRITING),
            "fixed": state.shown == "error",
        },
        "colors": {
            **colours.named("text", "muted", "line", "font"),
            "handle": colours.accent,
            "bar": colours.muted,
            "over": part_colours(looks.theme)["inputs"],
        },
    }
