"""The tab Channels: how loud each input channel and its weights are, and what a weight error costs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_sources import LayerWeight
from quantviz.lab.layer_state import LayerState
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.views import View
from quantviz.ui.components.controls import switch
from quantviz.ui.components.small_parts import show_button, show_plot
from quantviz.ui.components.tensor_cache import loudness_of
from quantviz.ui.layers.state import OWNER
from quantviz.ui.layers.words import share_of
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.words import language, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.layers.causes import Channels
    from quantviz.ui.layers.state import SeenLayer

_LAB = "pages/lab/playground.py"
_HEIGHT = 256
_CURVE_HEIGHT = 200
#: Loud channels that are named.
_MOST_NAMED = 4


def show_channels(seen: SeenLayer, state: LayerState) -> None:
    """Show the channels as mirrored bars."""
    from quantviz.figures.layer_plots import MIRRORED, channels_figure

    with st.container(key="layers_channels_look", horizontal=True, gap="small"):
        views = {name: say(f"layers.channels.{name}") for name in MIRRORED}
        mirrored = switch("layers_mirrored", say("layers.channels.view"), views)
        orders = {name: say(f"layers.channels.{name}") for name in ("ranked", "in_place")}
        order = switch("layers_order", say("layers.channels.order"), orders)
    channels = seen.channels
    st.markdown(_loud_words(channels) if mirrored == "size" else _cost_words(channels))
    figure = channels_figure(
        channels,
        mirrored,
        ranked=order == "ranked",
        height=_HEIGHT,
        language=language(),
        theme=theme(),
    )
    show_plot(figure, "layers_channels", say(f"layers.channels.{mirrored}_alt"))
    st.caption(say(f"layers.channels.{mirrored}_help"))
    show_button(say("layers.channels.in_lab"), "layers_in_lab", _open_in_lab, channels)
    _show_batches(seen)


def _show_batches(seen: SeenLayer) -> None:
    """Show how the one static scale of X grows with the tokens that it is chosen on, once that is opened."""
    from quantviz.figures.range_curve import range_curve
    from quantviz.layers.layer_numbers import ranges_over_tokens

    opened = st.expander(say("layers.channels.batches"), key="layers_batches", on_change="rerun")
    if not opened.open:
        return
    found = seen.found("ranges over tokens", ranges_over_tokens)
    with opened:
        if found is None:
            st.caption(say("layers.channels.no_batches"))
            return
        count = len(found.scale)
        st.markdown(say("layers.channels.settled", settled=min(found.settled, count), count=count))
        alt = say("range_curve.alt", count=count, scale=short_number(float(found.scale[-1])))
        figure = range_curve(found, height=_CURVE_HEIGHT, language=language(), theme=theme())
        show_plot(figure, "layers_batches_curve", alt)


def _open_in_lab(channels: Channels) -> None:
    """Open the weight in the Lab, where its error is weighted by what the layer sees, at the worst cell."""
    state = OWNER.state
    scheme, _ = state.pair.schemes()
    weight = LayerWeight(state.source)
    view = View.of(weight.shape)
    cell = channels.worst_weight(loudness_of(weight))
    session.put_in_lab(LabState(weight, scheme or Scheme("int8"), view, cell, error_view="seen"))
    turn_to(_LAB)


def _loud_words(channels: Channels) -> str:
    """Return the sentence that names the loud channels of the inputs and of the weight."""
    found = []
    sides = {"x": (channels.loud_inputs, channels.x_max), "w": (channels.loud_weights, channels.w_max)}
    for side, (loud, sizes) in sides.items():
        if not loud:
            found.append(say(f"layers.channels.none_loud_{side}"))
            continue
        named = say("layers.channels.between").join(
            say("layers.channels.one", channel=each, size=short_number(float(sizes[each])))
            for each in loud[:_MOST_NAMED]
        )
        key = "many" if len(loud) > _MOST_NAMED else "few"
        median = short_number(float(sizes.median()))
        found.append(say(f"layers.channels.loud_{side}_{key}", named=named, count=len(loud), median=median))
    return plain(sentences(*found))


def _cost_words(channels: Channels) -> str:
    """Return the sentence on the channel whose weight error costs most, beside its share of that error."""
    cost = channels.cost
    total = float(cost.sum())
    if not total:
        return say("layers.channels.no_cost")
    channel = int(cost.argmax())
    return plain(
        say(
            "layers.channels.costs",
            channel=channel,
            cost=share_of(float(cost[channel]) / total),
            error=share_of(float(channels.weight_error[channel] / channels.weight_error.sum())),
        )
    )
