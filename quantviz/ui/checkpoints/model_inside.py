"""The attention of a model that runs, bits for each of its layers within the same size, and its salient
channels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import AttentionState
from quantviz.schemes.scheme import Scheme
from quantviz.ui.checkpoints.model_state import (
    ADDERS,
    CACHES,
    FORMATS,
    HEADS,
    KINDS,
    RUNNING,
    ModelState,
    effects_of,
    job_of,
    layers_of,
    working,
)
from quantviz.ui.checkpoints.state import MODEL_OWNER
from quantviz.ui.components.controls import field_control, show_controls
from quantviz.ui.components.small_parts import show_button, show_plot, table_html
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.words import language, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.models.attention import AttentionView
    from quantviz.models.mixed_precision import Mix
    from quantviz.models.salient_channels import SalientCost

_ATTENTION = "pages/explore/attention.py"
_HEIGHT = 200
#: How many times the cost of the scheme alone the bars of salient channels reach.
_REACH = 3


def show_attention(chosen: str, state: ModelState) -> None:
    """Show keys and values with their loud channels, and a head's attention before and after rounding."""
    from quantviz.figures.model_run_plots import matrix_figure

    model = RUNNING[chosen]
    view = _view(model, state)
    why = say("models.keys_loud") if view.loud("keys") else ""
    with st.container(key="models_places", horizontal=True, gap="small", vertical_alignment="center"):
        counts = {"layer": (len(layers_of(model)) - 1) // KINDS, "head": HEADS}
        controls = (
            field_control(
                MODEL_OWNER,
                field,
                "row",
                say(f"models.choice.{field}"),
                {number: str(number) for number in range(count)},
                now=getattr(state, field),
            )
            for field, count in counts.items()
        )
        show_controls("models_place", None, *controls, look="qv-beside")
        st.markdown(plain(sentences(*_costs_of_keys(model), why)))
        opens = state_of_head(model, state).written()
        show_button(say("models.open_head"), "models_open_head", turn_to, _ATTENTION, opens, type="tertiary")
        pictures = st.columns([3, 3, 2, 2], gap="small", vertical_alignment="bottom")
    for column, part in zip(pictures[:2], ("keys", "values"), strict=True):
        with column:
            loud = view.loud(part)
            values = getattr(view, part).abs().numpy()
            key = "models.loud" if loud else "models.not_loud"
            words = say(key, most=short_number(float(values.max())), channels=", ".join(map(str, loud)))
            st.html(f'<p class="qv-small"><b>{say(f"models.{part}")}</b> {words}</p>')
            figure = matrix_figure(
                values,
                ("channel", "token"),
                height=_HEIGHT,
                parts=view.heads,
                language=language(),
                theme=theme(),
            )
            show_plot(
                figure,
                f"models_{part}",
                say("models.part_alt", part=say(f"models.{part}"), count=len(values), words=words),
            )
    for column, part in zip(pictures[2:], ("before", "after"), strict=True):
        with column:
            moved = short_number(100 * view.moved()[state.head], 2)
            words = say(f"models.attention_{part}", head=state.head, share=moved)
            st.html(f'<p class="qv-small">{words}</p>')
            figure = matrix_figure(
                getattr(view, part)[state.head].numpy(),
                ("seen", "token"),
                height=_HEIGHT,
                most=1.0,
                language=language(),
                theme=theme(),
            )
            show_plot(figure, f"models_attention_{part}", words)


def state_of_head(model: str, state: ModelState) -> AttentionState:
    """Return the state of the page of attention with the head of a state, and its keys' and values' schemes,
    if they have any.
    """
    seen = AttentionState(heads=model, layer=state.layer, head=state.head)
    keys, values = CACHES[state.cache]
    return dataclasses.replace(seen, keys=keys or seen.keys, values=values or seen.values)


def _costs_of_keys(model: str) -> Iterator[str]:
    """Yield the sentences on the cost of keys at int4, with and without QK-norm."""
    from quantviz.models.attention import key_costs
    from quantviz.models.character_model import CHARACTER, QK_NORM

    other, norm = (CHARACTER, "keys_without_norm") if model == QK_NORM else (QK_NORM, "keys_with_norm")
    beside = () if model in ADDERS else ((other, norm),)
    for name, key in ((model, "keys_cost"), *beside):
        costs = job_of(f"keys of {name}", partial(key_costs, name))
        yield say(f"models.{key}", **{axis: short_number(kl) for axis, kl in costs.items()})


def show_mix(chosen: str, state: ModelState) -> None:
    """Show three choices of bits of the same size: uniform, by the weights' errors, by the measured loss."""
    if state.bits not in (3, 4, 5, 6) or state.shared in FORMATS:
        st.caption(plain(say("models.mix_bits")))
        return
    from quantviz.figures.model_run_plots import bits_figure

    found = _mixes(RUNNING[chosen], state)
    kl = {name: mix.kl for name, mix in found.items()}
    saved = short_number(100 * (1 - kl["measured"] / kl["proxy"]), 2)
    st.markdown(plain(say("models.mix_answer", saved=saved, bits=short_number(found["uniform"].mean_bits))))
    for column, (name, mix) in zip(st.columns(3, gap="small"), found.items(), strict=True):
        with column:
            words = say("models.mix_of", choice=say(f"models.mix.{name}"), kl=short_number(mix.kl))
            st.html(f'<p class="qv-small">{words}</p>')
            figure = bits_figure(mix.bits, language=language(), theme=theme())
            show_plot(figure, f"models_mix_{name}", words)
    st.caption(plain(say("models.mix_about")))


def show_salient(chosen: str, state: ModelState) -> None:
    """Show the cost of the model with 1 % of its input channels kept as they are, or scaled up."""
    if state.is_stored:
        st.caption(plain(say("models.nothing_rounded")))
        return
    found = _salient(RUNNING[chosen], state)
    kl = {name: short_number(cost.kl) for name, cost in found.items()}
    answer = say(
        "models.salient_answer",
        nothing=kl["nothing"],
        activation=kl["activation"],
        weight=kl["weight"],
        random=kl["random"],
    )
    st.markdown(plain(answer))
    choice, *others = (say(f"models.salient_column.{name}") for name in ("choice", "kl", "bits"))
    # One that is far worse would leave the others no room: its bar fades at the end.
    most = min(max(cost.kl for cost in found.values()), _REACH * found["nothing"].kl) or 1.0
    rows = []
    for name, cost in found.items():
        treatment, _, factor = name.partition(" ")
        words = say(f"models.salient.{treatment}", factor=factor)
        fades = ' class="qv-fades"' if cost.kl > most else ""
        bar = f'<i{fades} style="width:{100 * min(max(cost.kl / most, 0.0), 1.0):.4g}%"></i>'
        rows.append(
            f'<tr><th>{words}</th><td class="qv-bar-cell">{bar}</td>'
            f"<td>{kl[name]}</td><td>{short_number(cost.bits)}</td></tr>"
        )
    st.html(f'<div class="qv-mixes">{table_html([choice, "", *others], rows)}</div>')
    st.caption(plain(say("models.salient_about")))


def _view(model: str, state: ModelState) -> AttentionView:
    from quantviz.models.attention import attention_of

    schemes = state.schemes()
    key = f"attention {state.layer} of {model} {schemes}"
    return job_of(key, partial(attention_of, model, schemes, state.layer))


def _salient(model: str, state: ModelState) -> Mapping[str, SalientCost]:
    from quantviz.models.salient_channels import salient_costs

    weights = state.layer_schemes().weights
    assert isinstance(weights, Scheme)
    key = f"salient channels of {model} {weights}"
    with working("choices"):
        return job_of(key, partial(salient_costs, model, weights))


def _mixes(model: str, state: ModelState) -> Mapping[str, Mix]:
    from quantviz.models.mixed_precision import mixes
    from quantviz.models.model_schemes import LayerSchemes

    schemes = LayerSchemes(state.layer_schemes().weights)
    effects = effects_of(model, state.plain())
    key = f"mixes of {model} {schemes}"
    with working("choices"):
        return job_of(key, partial(mixes, model, schemes, effects))
