"""How loud the input channels are, under a hand: the data with which the browser computes the layer while the
ceiling of its scale moves, or a weight or a channel of a small one.

The browser runs the schemes' own arithmetic and sums in the server's order, so that picture and numbers
follow in the same frame. When the hand lets go, one message goes to the server: see
`quantviz.lab.layer_moves`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES
from quantviz.lab.layer_moves import fits_ceiling, fits_layer_hand, moved_layer
from quantviz.lab.layer_state import LayerState
from quantviz.live.hand_payload import program_of
from quantviz.schemes.calibration import ManualRange
from quantviz.text import templates
from quantviz.ui.components.component import component
from quantviz.ui.layers.picture import PICTURE
from quantviz.ui.layers.state import OWNER
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    from quantviz.compiled.javascript import JavaScriptProgram
    from quantviz.layers.layer_result import LayerResult
    from quantviz.layers.operands import Operand
    from quantviz.ui.layers.state import SeenLayer

_KEY = "layers_hand"
_SCRIPT = "layer_hand_component"
#: Bars of the skyline at most; of more channels each shows the loudest of some.
_BARS = 512


def show_hand(seen: SeenLayer, state: LayerState, selected: tuple[int, int, int]) -> bool:
    """Show how loud each input channel is, with the ceiling that the one scale of X reaches; of a small layer
    the size of an input channel and a weight can be moved too. Return whether they can.

    Args:
        seen: The layer under the schemes of the state.
        state: The state.
        selected: Token, output and input channel.
    """
    shape = seen.result.shape
    written = all(
        each.study is None or _program(each) is not None for each in (seen.result.weights, seen.result.inputs)
    )
    small = written and fits_layer_hand(state)
    ceiling = written and fits_ceiling(state)

    def fits(message: dict[str, Any]) -> bool:
        channel = message["channel"]
        return (channel is None or channel < shape[1]) and bool(message.get("output", 0) < shape[2])

    # A larger layer sends the same whatever is selected.
    header, arrays = _skyline(seen, state, (*selected[:2], selected[2] if small else None))
    if small or ceiling:
        more, values = _payload(seen, state, selected[2] if small else None)
        header |= more
        arrays |= values
    with st.container(key="layers_knobs" if small else "layers_skyline"):
        component("quantviz_layer_hand", _SCRIPT)(
            key=_KEY,
            data=pack({**header, "small": small}, arrays),
            on_release_change=(lambda message: OWNER.put(moved_layer(OWNER.state, message)), fits),
        )
    return small


def _skyline(
    seen: SeenLayer, state: LayerState, selected: tuple[int, int, int | None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of what is seen of every layer: the largest |x| of each channel."""
    sizes = seen.channels.x_max.float().numpy()
    starts = np.arange(min(len(sizes), _BARS)) * len(sizes) // min(len(sizes), _BARS)
    loud = next(iter(seen.channels.loud_inputs), None)
    header = {
        "chart": PICTURE,
        "cell": selected if selected[2] is not None else None,
        "channels": len(sizes),
        "loud": loud,
        "words": _words(*selected[1:]),
        **_looks(state),
    }
    return header, {"sizes": np.maximum.reduceat(sizes, starts)}


def _payload(
    seen: SeenLayer, state: LayerState, channel: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays with which the browser computes the layer: a small one has a `channel`
    that can be moved.
    """
    from quantviz.compiled.javascript import packed_together, write_metrics
    from quantviz.layers.layer_picture import NOISE

    result = seen.result
    operands = {"x": result.inputs, "w": result.weights}
    programs = {name: program for name, each in operands.items() if (program := _program(each))}
    sides = {
        name: {"program": list(programs).index(name), **_layout(operands[name], seen)} for name in programs
    }
    integers, more = _integers(seen, state) if channel is not None else (None, {})
    programs |= more
    scheme = result.inputs.scheme
    calibration = None if scheme is None else scheme.calibration
    by_hand = (calibration.lo, calibration.hi) if isinstance(calibration, ManualRange) else None
    header = {
        "shape": result.shape,
        "shown": state.shown,
        "sides": {"x": None, "w": None, **sides},
        **packed_together(programs.values()),
        "integers": integers and {**integers, **{name: list(programs).index(name) for name in more}},
        "metrics": write_metrics().packed(),
        "symmetric": scheme is not None and scheme.mode == "symmetric",
        "range": by_hand,
        "reach": by_hand or _reach(result) if fits_ceiling(state) else None,
        "ends": state.held if state.shown == "error" else None,
        "noise": NOISE if state.shown == "error" else 0.0,
        "refusals": dict(templates("hand.refusals", language())),
    }
    arrays = {
        "x": result.inputs.values(slice(None)).flatten().numpy(),
        "w": result.weights.values(slice(None)).flatten().numpy(),
        "bias": result.bias.numpy(),
        "held": result.held_back.byte().numpy(),
    }
    if channel is not None:
        weight, base = seen.unchanged.whole()
        header["largest"] = float(weight.abs().max())
        arrays["base"] = base[:, channel].contiguous().numpy()
    return header, arrays


def _reach(result: LayerResult) -> tuple[float, float]:
    """Return the range that the one scale of X is chosen for."""
    study = result.inputs.study
    if study is not None and study.range is not None:
        return float(study.range.lo), float(study.range.hi)
    x = result.inputs.values(slice(None))
    used = x[~result.held_back] if result.static else x
    return float(used.min()), float(used.max())


def _integers(
    seen: SeenLayer, state: LayerState
) -> tuple[dict[str, Any] | None, dict[str, JavaScriptProgram]]:
    """Return the data and the programs for the steps of the selected output in integers; none where the tab
    is not open, or the schemes have no integer layer.
    """
    from quantviz.layers.integer_explanation import SYMBOLS
    from quantviz.layers.integer_javascript import write_steps

    if state.open_tab != "integer":
        return None, {}
    try:
        layer = seen.integers(state.engine, state.output_format, state.activation)
    except QuantVizError:
        return None, {}
    if layer.inputs.scale.dim():
        # The server alone has each token's own multiplier.
        return None, {}
    facts, programs = write_steps(seen.result, layer)
    keys = [step["key"] for step in programs["program"].facts["steps"]]
    answers = templates("layers.integer", language())
    words = {
        "symbols": dict(SYMBOLS),
        "words": {key: say(f"steps.{key}") for key in keys},
        "products": answers["products"],
        "answers": {name: answers[name] for name in ("rounded", "clamped")},
        "value": say("layers.integer.value"),
    }
    return {**facts, **words}, programs


def _program(operand: Operand) -> JavaScriptProgram | None:
    """Return the arithmetic of a side as JavaScript; None where it is not quantized or cannot be written."""
    if operand.scheme is None:
        return None
    return program_of(operand.scheme.on_input(operand.stored.dtype))


def _layout(operand: Operand, seen: SeenLayer) -> dict[str, Any]:
    """Return the layout of a side's blocks, and whether scales are chosen without the lines held back."""
    from quantviz.compiled.javascript import layout_spec

    assert operand.scheme is not None
    layout = layout_spec(operand.scheme.layout(operand.shape), operand.shape)
    return {"layout": layout, "is_static": operand is seen.result.inputs and seen.result.static}


def _words(output: int, channel: int | None) -> dict[str, str]:
    """Return the words and the templates of what the browser writes."""
    hand = templates("layers.hand", language())
    return {
        **{name: hand[name] for name in ("skyline", "ceiling", "drag")},
        "channel": say("layers.hand.channel", channel=channel),
        "weight": say("layers.hand.weight", output=output, channel=channel),
        "used": templates("layers.numbers", language())["used"],
        "values": templates("layers.cell", language())["values"],
    }


def _looks(state: LayerState) -> dict[str, Any]:
    from quantviz.figures.layer_plots import part_colours

    colours = THEMES[theme()]
    ramp = colours.errors if state.shown == "error" else colours.values
    reach = templates("layer_picture", language())
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
            "over": part_colours(theme())["inputs"],
        },
    }
