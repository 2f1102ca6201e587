"""The knobs of a small layer: the data with which the browser multiplies it while a hand moves something.

The browser runs the schemes' own arithmetic and sums in the server's order, so that picture and numbers
follow in the same frame. When the hand lets go, one message goes to the server: see
`quantviz.lab.layer_moves`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES
from quantviz.lab.layer_moves import fits_layer_hand, moved_layer, range_can_move
from quantviz.lab.layer_state import LayerState
from quantviz.schemes.calibration import ManualRange
from quantviz.text import templates
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.hand import program_of
from quantviz.ui.layers.state import OWNER
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    from quantviz.compiled.javascript import JavaScriptProgram
    from quantviz.layers.operands import Operand
    from quantviz.ui.layers.state import SeenLayer

_KEY = "layers_hand"
_SCRIPT = "layer_hand_component"


def has_hand(seen: SeenLayer, state: LayerState) -> bool:
    """Return whether the browser multiplies the layer by itself."""
    return fits_layer_hand(state) and all(
        each.study is None or _program(each) is not None for each in (seen.result.weights, seen.result.inputs)
    )


def show_hand(seen: SeenLayer, state: LayerState, selected: tuple[int, int, int], chart: str) -> None:
    """Show the knobs: the range of the inputs, the size of an input channel, and a weight.

    Args:
        seen: The layer under the schemes of the state.
        state: The state.
        selected: Token, output and input channel.
        chart: The key of the picture's container.
    """
    shape = seen.result.shape

    def fits(message: dict[str, Any]) -> bool:
        return bool(message["channel"] < shape[1] and message.get("output", 0) < shape[2])

    def take() -> None:
        message = last_message(_KEY, _SCRIPT, "release", fits)
        if message is not None:
            OWNER.put(moved_layer(OWNER.state, message))

    with st.container(key="layers_knobs"):
        component("quantviz_layer_hand", _SCRIPT)(
            key=_KEY,
            data=pack(*_payload(seen, state, selected, chart)),
            on_release_change=errors.safely(take),
        )


def _payload(
    seen: SeenLayer, state: LayerState, selected: tuple[int, int, int], chart: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays for the browser."""
    from quantviz.compiled.javascript import packed_together, write_metrics
    from quantviz.layers.layer_picture import NOISE

    result = seen.result
    _, output, channel = selected
    operands = {"x": result.inputs, "w": result.weights}
    programs = {name: program for name, each in operands.items() if (program := _program(each))}
    sides = {
        name: {"program": list(programs).index(name), **_layout(operands[name], seen)} for name in programs
    }
    if "x" in sides:
        sides["x"]["moves"] = range_can_move(state)
    integers, more = _integers(seen, state)
    programs |= more
    scheme = result.inputs.scheme
    calibration = None if scheme is None else scheme.calibration
    by_hand = (calibration.lo, calibration.hi) if isinstance(calibration, ManualRange) else None
    weight, base = seen.unchanged.whole()
    header = {
        "chart": chart,
        "shape": result.shape,
        "shown": state.shown,
        "cell": selected,
        "sides": {"x": None, "w": None, **sides},
        **packed_together(programs.values()),
        "integers": integers and {**integers, **{name: list(programs).index(name) for name in more}},
        "metrics": write_metrics().packed(),
        "symmetric": scheme is not None and scheme.mode == "symmetric",
        "range": by_hand,
        "ends": state.held if state.shown == "error" else None,
        "noise": NOISE if state.shown == "error" else 0.0,
        "largest": {"x": float(base.abs().max()), "w": float(weight.abs().max())},
        "words": _words(output, channel),
        "refusals": dict(templates("hand.refusals", language())),
        **_looks(state),
    }
    arrays = {
        "x": result.inputs.values(slice(None)).flatten().numpy(),
        "w": result.weights.values(slice(None)).flatten().numpy(),
        "base": base[:, channel].contiguous().numpy(),
        "bias": result.bias.numpy(),
        "held": result.held_back.byte().numpy(),
    }
    return header, arrays


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


def _words(output: int, channel: int) -> dict[str, str]:
    """Return the words and the templates of what the browser writes."""
    return {
        **{name: say(f"layers.hand.{name}") for name in ("range", "range_lo", "range_hi")},
        "channel": say("layers.hand.channel", channel=channel),
        "weight": say("layers.hand.weight", output=output, channel=channel),
        "used": templates("layers.numbers", language())["used"],
        "values": templates("layers.cell", language())["values"],
    }


def _looks(state: LayerState) -> dict[str, Any]:
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
        "colors": {**colours.named("text", "muted", "line", "font"), "handle": colours.accent},
    }
