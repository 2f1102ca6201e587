"""A layer of one's own: the Lab's tensor or a drawn one as the weight, with drawn inputs."""

from __future__ import annotations

import math

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_sources import LayerSource, OwnLayer
from quantviz.sources import SOURCES, Source
from quantviz.ui.components.choice import show_button, switch
from quantviz.ui.layers.state import current_state, put_state
from quantviz.ui.shell import session
from quantviz.ui.shell.words import say, shape_text

#: Multiplications of a layer that the page takes: about two seconds of one core.
MOST_WORK = 2**29
#: The weight that is the tensor open in the Lab.
_LAB = "lab"
#: Weights and inputs that can be drawn, by the ids of their sources.
_WEIGHTS = ("normal", "student_t", "loud_channels")
_INPUTS = ("normal", "loud_channels", "after_gelu")
#: Sizes that the controls begin with, and the most that can be asked for.
_USUAL = 64
_MOST = 1_000_000


def show_own_layer() -> None:
    """Show the choices of a layer of one's own, and the button that opens it."""
    st.markdown(f"**{say('layers.own.title')}**")
    tensor = session.opened_tensor()
    weights = {name: say(f"layers.own.drawn.{name}") for name in _WEIGHTS}
    if tensor is not None:
        weights = {_LAB: say("layers.own.lab", shape=shape_text(tensor.shape)), **weights}
    weight = switch("layers_own_weight", say("layers.own.weight"), weights, look="visible")
    inputs = {name: say(f"layers.own.drawn.{name}") for name in _INPUTS}
    drawn = switch("layers_own_inputs", say("layers.own.inputs"), inputs, look="visible")
    sizes = {}
    with st.container(key="layers_own_sizes", horizontal=True, gap="small"):
        for name in ("tokens", "channels", "outputs"):
            sizes[name] = int(
                st.number_input(
                    say(f"layers.own.{name}"),
                    1,
                    _MOST,
                    _USUAL,
                    key=f"layers_own_{name}",
                    disabled=weight == _LAB and name != "tokens",
                )
            )
    show_button(say("layers.own.open"), "layers_own_open", _open, weight, drawn, sizes, type="primary")


def _open(weight: str, drawn: str, sizes: dict[str, int]) -> None:
    """Take the layer of these sources.

    Raises:
        QuantVizError: They are not those of a layer, or it is too large.
    """
    tensor = session.opened_tensor()
    if weight == _LAB and tensor is not None:
        own = tensor
        channels = tensor.shape[-1]
    else:
        channels = sizes["channels"]
        own = _drawn(weight, sizes["outputs"], channels, 0)
    layer = OwnLayer(own, _drawn(drawn, sizes["tokens"], channels, 1))
    for problem in layer.problems():
        raise problem
    refuse_large(layer)
    put_state(current_state().of_layer(layer))


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
