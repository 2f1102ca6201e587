"""Moves of the user's hand in the picture of a layer: each message of the browser leads to another state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantviz.lab.layer_sources import ChangedLayer
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.lab.moves import range_counts
from quantviz.layers.changes import SMALL, Changes
from quantviz.schemes.calibration import Given, ManualRange
from quantviz.schemes.recipes import as_scheme

#: The work of a frame in which the ceiling moves: inputs that are quantized anew, and multiplications.
_MOST_INPUTS = 2**17
_MOST_PRODUCTS = 2**23
#: As `operands.HELD_BACK`, which needs torch.
HELD_BACK = 1 / 4


def fits_layer_hand(state: LayerState) -> bool:
    """Return whether the browser multiplies the state's layer by itself: a small one that no method rounds,
    whose schemes search no ranges.

    >>> fits_layer_hand(LayerState.opening())
    False
    """
    return max(state.source.shape) <= SMALL and without_search(state)


def fits_ceiling(state: LayerState) -> bool:
    """Return whether the browser computes the error of the state's layer as the one range of its inputs
    moves: at most `_MOST_INPUTS` of these, and `_MOST_PRODUCTS` of the tokens held back.

    >>> fits_ceiling(LayerState.opening())
    True
    """
    scheme = state.pair.schemes()[1]
    tokens, width, outputs = state.source.shape
    few = tokens * width <= _MOST_INPUTS and int(tokens * HELD_BACK) * width * outputs <= _MOST_PRODUCTS
    if scheme is None or not range_counts(scheme) or not few or not without_search(state):
        return False
    return scheme.layout((tokens, width)).block_count == 1


def without_search(state: LayerState) -> bool:
    """Return whether neither a method nor a search chooses codes or ranges."""
    return state.method == NEAREST and all(
        each.search is None and (each.calibration.of_values or isinstance(each.calibration, Given))
        for each in state.pair.schemes()
        if each is not None
    )


def moved_layer(state: LayerState, message: Mapping[str, Any]) -> LayerState:
    """Return the state after a move; its input channel stays selected.

    Args:
        state: The state before.
        message: `{"kind": "range", "lo": f, "hi": f}` for the range of the inputs, `{"kind": "channel",
            "size": f}` for the largest magnitude of an input channel, or `{"kind": "weight", "output": o,
            "value": f}`, each with its `channel`; that of a range may be None.

    Raises:
        QuantVizError: The move is not possible.

    >>> from quantviz.lab.layer_state import SchemePair
    >>> from quantviz.layers.built_in import BuiltInLayer
    >>> state = LayerState(BuiltInLayer("loud_input"), SchemePair("int8_per_row", "int4_per_tensor"))
    >>> link = moved_layer(state, {"kind": "channel", "channel": 2, "size": 1.5}).written()
    >>> link["l"], link["j"]
    ('changed(builtin(name=loud_input),x2=1.5)', '2')
    """
    channel = message["channel"]
    if message["kind"] == "range":
        scheme = as_scheme(state.pair.inputs)
        ranged = scheme.replace(calibration=ManualRange(message["lo"], message["hi"]))
        return state.replace(pair=state.pair.with_side("inputs", str(ranged)), channel=channel)
    changes = state.source.changes if isinstance(state.source, ChangedLayer) else Changes()
    if message["kind"] == "channel":
        changes = changes.with_channel(channel, message["size"])
    else:
        changes = changes.with_weight(message["output"], channel, message["value"])
    return state.replace(source=ChangedLayer.of(state.source, changes), channel=channel)
