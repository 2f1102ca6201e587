"""A layer of one's own: the Lab's tensor or a drawn one with inputs of any origin, or a captured layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_sources import LayerSource, OwnLayer
from quantviz.lab.layer_state import NEAREST
from quantviz.sources import SOURCES, Source
from quantviz.ui.components.controls import switch
from quantviz.ui.components.small_parts import show_button, show_page_errors
from quantviz.ui.components.tensor_cache import keep_uploads
from quantviz.ui.layers.given_inputs import (
    GIVEN,
    captured_layer,
    show_capture,
    show_weight_file,
    weight_in_file,
)
from quantviz.ui.layers.state import OWNER, seen_layer
from quantviz.ui.shell import session
from quantviz.ui.shell.words import say, shape_text

if TYPE_CHECKING:
    from quantviz.tensors.lazy import Stored

#: The popover in which these choices stand.
MORE = "layers_more"
#: Multiplications of a layer that the page takes: about two seconds of one core.
MOST_WORK = 2**29
#: The weight that is the tensor open in the Lab.
_LAB = "lab"
#: The weight from an uploaded file, and the layer that is one of an uploaded capture.
_FILE = "file"
_CAPTURE = "capture"
#: Weights and inputs that can be drawn, by the ids of their sources.
_WEIGHTS = ("normal", "student_t", "loud_channels")
_INPUTS = ("normal", "loud_channels", "after_gelu")
#: The sizes of a layer, the number that each control begins with, and the most that can be asked for.
_SIZES = ("tokens", "channels", "outputs")
_USUAL = 64
_MOST = 1_000_000


def show_own_layer() -> None:
    """Show the choices of a layer of one's own, and the button that opens it."""
    st.markdown(f"**{say('layers.own.title')}**")
    tensor = session.opened_tensor()
    weights = {name: say(f"layers.own.drawn.{name}") for name in _WEIGHTS}
    if tensor is not None:
        weights = {_LAB: say("layers.own.lab", shape=shape_text(tensor.shape)), **weights}
    weights |= {name: say(f"layers.own.given.{name}") for name in (_FILE, _CAPTURE)}
    weight = switch("layers_own_weight", say("layers.own.weight"), weights, look="")
    if weight == _CAPTURE:
        show_capture()
        _show_open(lambda: _take(*captured_layer()))
        return
    if weight == _FILE:
        show_weight_file()
    inputs = {name: say(f"layers.own.drawn.{name}") for name in _INPUTS}
    inputs |= {name: say(f"layers.own.given.{name}") for name in GIVEN}
    chosen = switch("layers_own_inputs", say("layers.own.inputs"), inputs, look="")
    if chosen in GIVEN:
        GIVEN[chosen].show()
    sizes = _ask_sizes(weight, chosen)
    _show_open(lambda: _open(weight, chosen, sizes))


def _show_open(open_layer: Callable[[], None]) -> None:
    """Show the button that opens the layer, and the errors above the page, which the choices may cover."""
    show_button(say("layers.own.open"), "layers_own_open", open_layer, type="primary")
    show_page_errors()


def _ask_sizes(weight: str, inputs: str) -> dict[str, int]:
    """Show the sizes of a layer but for those that follow from W or X, and return them."""
    of_weight = {"channels", "outputs"} if weight in (_LAB, _FILE) else set()
    of_inputs = GIVEN[inputs].sizes if inputs in GIVEN else frozenset()
    sizes = dict.fromkeys(_SIZES, _USUAL)
    with st.container(key="layers_own_sizes", horizontal=True, gap="small"):
        for name in _SIZES:
            if name not in of_weight | of_inputs:
                label = say(f"layers.own.{name}")
                sizes[name] = int(st.number_input(label, 1, _MOST, _USUAL, key=f"layers_own_{name}"))
    return sizes


def _open(weight: str, inputs: str, sizes: dict[str, int]) -> None:
    """Take the layer of these sources.

    Raises:
        QuantVizError: They are not those of a layer, or it is too large.
    """
    own = session.opened_tensor() if weight == _LAB else None
    uploads: dict[Source, Stored] = {}
    if weight == _FILE:
        own, values = weight_in_file()
        uploads |= values
    # A tensor without axes is no weight, and says so below.
    channels = sizes["channels"] if own is None else math.prod(own.shape[-1:])
    if inputs in GIVEN:
        x, values = GIVEN[inputs].read(sizes["tokens"])
        uploads |= values
        channels = x.shape[-1]
    else:
        x = _drawn(inputs, sizes["tokens"], channels, 1)
    _take(OwnLayer(own or _drawn(weight, sizes["outputs"], channels, 0), x), uploads)


def _take(layer: OwnLayer, uploads: Mapping[Source, Stored]) -> None:
    keep_layer(layer, uploads)
    new = OWNER.state.of_layer(layer)
    # With NaN or Inf in it, it raises an error while the layer before is still open.
    seen_layer(new, method=NEAREST)
    OWNER.put(new)
    # Its choices lie over the layer.
    st.session_state[MORE] = False


def keep_layer(layer: OwnLayer, uploads: Mapping[Source, Stored]) -> None:
    """Keep the values of those parts of a layer that were uploaded, once it is known to be one.

    Raises:
        QuantVizError: Its parts are not those of a layer, or it is too large.
    """
    for problem in layer.problems():
        raise problem
    refuse_large(layer)
    opened = session.opened_tensor()
    keep_uploads(uploads, *layer.parts, *([] if opened is None else [opened]))


def _drawn(name: str, rows: int, cols: int, seed: int) -> Source:
    source: Source = SOURCES[name](rows=rows, cols=cols, seed=seed)
    return source


def refuse_large(layer: LayerSource) -> None:
    """Raise an error for a layer that would keep others waiting.

    Raises:
        QuantVizError: It has more than `MOST_WORK` multiplications.
    """
    work = math.prod(layer.shape)
    if work > MOST_WORK:
        raise QuantVizError("layer.too_large", shape=layer.shape, got=work, most=MOST_WORK)
