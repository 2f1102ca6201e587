"""The page of a model that runs: its schemes, its loss, the text it writes, and what each layer costs."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST
from quantviz.ui.checkpoints.model_inside import show_attention, show_mix, show_salient
from quantviz.ui.checkpoints.model_layers import show_depth, show_layers
from quantviz.ui.checkpoints.model_state import (
    BITS,
    CACHES,
    INPUTS,
    PARTS,
    RUNNING,
    SHARED,
    ModelState,
    ran,
    working,
)
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState, change_model
from quantviz.ui.components.buttons import show_button
from quantviz.ui.components.controls import choice_control, choose_among, show_controls
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.components.small_parts import term
from quantviz.ui.shell.address import go_on
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import method_name, say, say_error

if TYPE_CHECKING:
    from quantviz.models.running import Ran


def show_model(chosen: str) -> None:
    """Show one of `RUNNING` under the schemes of the state."""
    st.html(Path(__file__).with_name("models.css"))
    with st.container(key="models_room"):
        fragment(_show_answer)(chosen)


def _show_answer(chosen: str) -> None:
    """Show the model, or the error in its place; this part of the page runs by itself."""
    go_on()
    state = OWNER.state.model
    show_page_errors(*OWNER.problems)
    # Before the run, which may be long: a link that is copied meanwhile has the choices that it runs.
    OWNER.show_link(CheckpointsState(chosen, model=state))
    _show_choices(state)
    try:
        with working("run"):
            found = ran(RUNNING[chosen], state)
        _show_numbers(found, state)
        _show_texts(found)
        _show_part(chosen, state)
    except QuantVizError as problem:
        st.error(say_error(problem))


def _show_choices(state: ModelState) -> None:
    """Show the bits under the thumb, and the other schemes."""
    from quantviz.layers.methods.chain import fitting_chains

    layers = dataclasses.replace(state, method=NEAREST).schemes().layers
    fitting = dict.fromkeys((*fitting_chains(layers.weights, layers.inputs), state.method))
    fields: Mapping[str, tuple[str, Mapping[Any, str]]] = {
        "bits": ("range", {each: str(each) for each in BITS}),
        "shared": ("row", _named("shared", SHARED)),
        "method": ("list", {form: method_name(form) for form in fitting}),
        "inputs": ("list", _named("inputs", INPUTS)),
        "cache": ("list", _named("cache", CACHES)),
    }
    controls = (
        choice_control(
            f"models_{field}",
            kind,
            say("models.bits" if field == "bits" else f"models.choice.{field}"),
            names,
            getattr(state, field),
            partial(_change, field),
        )
        for field, (kind, names) in fields.items()
    )
    show_controls("models_choices", None, *controls, look="qv-inside")


def _named(field: str, known: Iterable[str]) -> dict[str, str]:
    return {name: say(f"models.{field}.{name}") for name in known}


def _change(field: str, chosen: Any) -> None:
    change_model(**{field: chosen})


def _show_part(chosen: str, state: ModelState) -> None:
    """Show the tabs, and the part of the model that is open."""
    with st.container(key="models_parts"):
        choose_among(
            "models_part",
            "row",
            say("models.parts"),
            {name: say(f"models.part.{name}") for name in PARTS},
            state.part,
            lambda name: change_model(part=name),
            look="qv-unnamed qv-tabs",
        )
    if state.part == "layers":
        show_layers(RUNNING[chosen], state)
    elif state.part == "depth":
        show_depth(chosen, state)
    elif state.part == "attention":
        show_attention(chosen, state)
    elif state.part == "salient":
        show_salient(chosen, state)
    else:
        show_mix(chosen, state)


def _show_numbers(found: Ran, state: ModelState) -> None:
    """Show one sentence that answers, and the loss, the KL divergence and the bits."""
    key = "models.other_choices" if found.changed else "models.same_choices"
    sentence = say(key, bits=state.bits, changed=short_number(1000 * found.changed, 2))
    numbers = [
        _number(
            "loss",
            short_number(found.loss),
            say("models.numbers.of_original", loss=short_number(found.original_loss)),
        ),
        _number("kl", short_number(found.kl), say("models.numbers.of_kl")),
        _number("bits", short_number(found.bits)),
    ]
    with st.container(key="models_answer", horizontal=True, gap="small", vertical_alignment="center"):
        st.html(f'<p class="qv-finding">{html.escape(sentence)}</p>', width="content")
        st.html(f'<div class="qv-model-numbers">{"".join(numbers)}</div>', width="content")
        if found.changed and state.method == NEAREST:
            show_button(say("models.save"), "models_save", lambda: change_model(method="gptq"))


def _number(name: str, value: str, line: str = "") -> str:
    words = term(say(f"models.numbers.{name}"), say(f"models.numbers.{name}_help"), key=f"model_{name}")
    small = f" <small>{html.escape(line)}</small>" if line else ""
    return f'<span class="qv-number">{words} <b>{html.escape(value)}</b>{small}</span>'


def _show_texts(found: Ran) -> None:
    """Show the original's text, and the model's with each character that is due to rounding underlined."""
    title = term(say("models.its_text"), say("models.about_text"), key="model_text")
    parts = [
        _text_html(html.escape(say("models.original_text")), found.seed_text, found.original, found.original),
        _text_html(title, found.seed_text, found.written, found.choices),
    ]
    st.html(f'<div class="qv-texts">{"".join(parts)}</div>')


def _text_html(title: str, before: str, text: str, choices: str) -> str:
    """Return a text as HTML, its title being HTML: the text before it, and its characters; those that differ
    from the original's choices are underlined, each with that choice.
    """
    seed = f'<span class="qv-seed">{html.escape(before)}</span>'
    body = ""
    for here, there in zip(text, choices, strict=True):
        shown = html.escape(here)
        if here != there:
            shown = shown.replace("\n", "↵\n")
            words = say("models.instead", other=there.replace("\n", "↵").replace(" ", "␣"))
            shown = f'<mark title="{html.escape(words)}">{shown}</mark>'
        body += shown
    return f'<figure><figcaption>{title}</figcaption><pre tabindex="0">{seed}{body}</pre></figure>'
