"""The page of a model that runs: its schemes, its loss, the text it writes, and what each layer costs."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST
from quantviz.schemes.scheme import Scheme
from quantviz.ui.checkpoints.model_inside import show_attention, show_mix, show_salient
from quantviz.ui.checkpoints.model_layers import show_depth, show_layers
from quantviz.ui.checkpoints.model_state import (
    ADDERS,
    BITS,
    CACHES,
    FORMATS,
    INPUTS,
    RUNNING,
    SHARED,
    ModelState,
    layer_words,
    layers_of,
    named,
    ran,
    shown_parts,
    working,
)
from quantviz.ui.checkpoints.model_sums import show_field, show_predictors, sums_html
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState, change_model
from quantviz.ui.components.controls import choice_control, choose_among, show_controls
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.components.small_parts import show_button, term
from quantviz.ui.shell.address import go_on
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import method_name, say, say_error

if TYPE_CHECKING:
    from quantviz.models.running import Ran, Texts


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
    model = RUNNING[chosen]
    state = state.fitting(model)
    _show_choices(model, state)
    try:
        with working("sums" if model in ADDERS else "run"):
            found = ran(model, state)
        _show_numbers(model, found, state)
        if found.texts:
            _show_texts(found.texts)
        if found.sums:
            show_field(found.sums, state)
        _show_part(chosen, state)
    except QuantVizError as problem:
        st.error(say_error(problem))


def _show_choices(model: str, state: ModelState) -> None:
    """Show the bits under the thumb, and the other schemes."""
    from quantviz.layers.methods.chain import fitting_chains

    layers = state.replace(method=NEAREST).layer_schemes()
    fitting = dict.fromkeys((*fitting_chains(layers.weights, layers.inputs), state.method))
    fields: Mapping[str, tuple[str, Mapping[Any, str]]] = {
        "bits": ("range", {each: str(each) for each in BITS}),
        "shared": ("list", named("shared", SHARED)),
        "method": ("list", {form: method_name(form) for form in fitting}),
        "inputs": ("list", named("inputs", INPUTS)),
        "cache": ("list", named("cache", CACHES)),
        "only": ("list", {name: layer_words(name) for name in ("", *layers_of(model))}),
    }
    if state.shared in FORMATS:
        fields = {name: each for name, each in fields.items() if name != "bits"}
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


def _change(field: str, chosen: Any) -> None:
    change_model(**{field: chosen})


def _show_part(chosen: str, state: ModelState) -> None:
    """Show the tabs, and the part of the model that is open."""
    with st.container(key="models_parts"):
        choose_among(
            "models_part",
            "row",
            say("models.parts"),
            {name: say(f"models.part.{name}") for name in shown_parts(RUNNING[chosen])},
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
    elif state.part == "predict":
        show_predictors(RUNNING[chosen], state)
    else:
        show_mix(chosen, state)


def _show_numbers(model: str, found: Ran, state: ModelState) -> None:
    """Show one sentence that answers, and the loss, the KL divergence and the bits."""
    from quantviz.models.character_model import sizes_of

    if found.sums:
        sentence = sums_html(model, found.sums, state)
        is_worse = found.sums.right < len(found.sums.every)
    else:
        is_worse = found.changed > 0
        key = "models.other_choices" if is_worse else "models.same_choices"
        weights = state.layer_schemes().weights
        assert isinstance(weights, Scheme)
        changed = short_number(1000 * found.changed, 2)
        words = say(key, bits=weights.number_format.bits, changed=changed)
        sentence = f'<p class="qv-finding">{html.escape(words)}</p>'
    numbers = [
        _number(
            "loss",
            short_number(found.loss),
            say("models.numbers.of_original", loss=short_number(found.original_loss)),
            characters=sizes_of(model).characters,
            guess=short_number(math.log2(sizes_of(model).characters)),
        ),
        _number("kl", short_number(found.kl), say("models.numbers.of_kl")),
        _number("bits", short_number(found.bits)),
    ]
    with st.container(key="models_answer", horizontal=True, gap="small", vertical_alignment="center"):
        st.html(sentence, width="content")
        st.html(f'<div class="qv-model-numbers">{"".join(numbers)}</div>', width="content")
        if is_worse and state.method == NEAREST:
            show_button(say("models.save"), "models_save", lambda: change_model(method="gptq"))


def _number(name: str, value: str, line: str = "", **told: object) -> str:
    about = say(f"models.numbers.{name}_help", **told)
    words = term(say(f"models.numbers.{name}"), about, key=f"model_{name}")
    small = f" <small>{html.escape(line)}</small>" if line else ""
    return f'<span class="qv-number">{words} <b>{html.escape(value)}</b>{small}</span>'


def _show_texts(found: Texts) -> None:
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
