"""The page of a model that runs: its schemes, its loss, the text it writes, and what each layer costs."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import AS_IT_IS, NEAREST, LayerState, SchemePair
from quantviz.models.model_layer import ModelLayer
from quantviz.schemes.recipes import RECIPES
from quantviz.schemes.scheme import Scheme
from quantviz.ui.checkpoints.model_inside import show_attention, show_mix, show_salient
from quantviz.ui.checkpoints.model_state import (
    ADDERS,
    BITS,
    CACHES,
    COLOURS,
    FORMATS,
    INPUTS,
    RUNNING,
    SHARED,
    ModelState,
    effects_of,
    layer_words,
    layers_of,
    named,
    ran,
    shown_parts,
    state_words,
    tried,
    working,
)
from quantviz.ui.checkpoints.model_sums import show_field, show_predictors, sums_html
from quantviz.ui.checkpoints.state import MODEL_OWNER, OWNER, CheckpointsState
from quantviz.ui.components.controls import choose_field, field_control, show_controls
from quantviz.ui.components.small_parts import (
    legend_html,
    problem_instead,
    show_button,
    show_folded,
    show_page_errors,
    show_plot,
    table_html,
    term,
)
from quantviz.ui.shell.address import go_on, turn_to
from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language, method_name, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.figures.payload import UncheckedFigure
    from quantviz.models.layer_effects import LayerEffect
    from quantviz.models.running import Ran, Texts

_LAYERS = "pages/explore/layers.py"
_MAP = "models_map"
_HEIGHT = 215


def show_layers(model: str, state: ModelState) -> None:
    """Show the map of the layers, and the dots of both cheap numbers."""
    if state.is_stored and state.inputs == "float":
        st.caption(plain(say("models.nothing_rounded")))
        return
    from quantviz.figures.model_run_plots import coloured, effects_figure, kinds_of, predictions_figure
    from quantviz.models.layer_effects import CHEAP, predictions

    effects = effects_of(model, state)
    found = predictions(effects)
    colours = _colours(model)
    with st.container(key="models_layers"):
        left, right = st.columns([5, 7], gap="medium")
    with left:
        names = {name: say(f"models.colours.{name}") for name in colours}
        choose_field(MODEL_OWNER, "colour", "list", say("models.colour"), names, look="qv-unnamed")
        figure = effects_figure(effects, state.colour, language=language(), theme=theme())
        words = say("models.map_alt", colour=say(f"models.colours.{state.colour}"))
        _show_clickable(figure, _MAP, words, model, effects)
        st.caption(plain(sentences(say(f"models.colours_about.{state.colour}"), say("models.map_opens"))))
    with right:
        st.markdown(plain(_sentence(found)))
        _show_legend(coloured(kinds_of(effects).values(), theme()))
        for column, cheap in zip(st.columns(2, gap="small"), CHEAP, strict=True):
            with column:
                figure = predictions_figure(
                    effects, cheap, height=_HEIGHT, language=language(), theme=theme()
                )
                words = say("models.predicts_alt", number=say(f"models.colours.{cheap}"))
                _show_clickable(figure, f"models_predicts_{cheap}", words, model, effects)
    show_folded(say("models.table"), "models_table", _show_table, model, state, effects)


def _colours(model: str) -> Sequence[str]:
    return COLOURS if model in ADDERS else COLOURS[1:]


def _show_table(model: str, state: ModelState, effects: Sequence[LayerEffect]) -> None:
    """Show the numbers of each layer, whose name leads to its page."""
    from quantviz.figures.model_run_plots import written

    colours = _colours(model)
    heads = [say("models.choice.layer"), *(say(f"models.colours.{name}") for name in colours)]
    rows = []
    for effect in effects:
        link = state_of_layer(model, effect.name, state).written()
        place = html.escape(urlencode({**link, "lang": language(), **parameters()}))
        name = html.escape(effect.name.removeprefix("model."))
        numbers = "".join(f"<td>{written(getattr(effect, each), each)}</td>" for each in colours)
        rows.append(f'<tr><th><a href="layers?{place}" target="_self">{name}</a></th>{numbers}</tr>')
    st.html(f'<div class="qv-mixes">{table_html(heads, rows)}</div>')


def _show_clickable(
    figure: UncheckedFigure, key: str, alt: str, model: str, effects: Sequence[LayerEffect]
) -> None:
    """Show a plot in which a click on the mark of an effect opens its layer."""

    def open_clicked(at: float) -> None:
        found = state_of_layer(model, effects[int(at)].name, OWNER.state.model)
        turn_to(_LAYERS, found.written())

    show_plot(figure, key, alt, take=open_clicked, fits=lambda number: number in range(len(effects)))


def state_of_layer(model: str, name: str, state: ModelState) -> LayerState:
    """Return the state of the page of layers with a layer of a model under the schemes of a state."""
    schemes = state.layer_schemes()
    weights = AS_IT_IS
    if isinstance(schemes.weights, Scheme) and not state.is_stored:
        named = (name for name, recipe in RECIPES.items() if recipe == schemes.weights)
        weights = next(named, str(schemes.weights))
    pair = SchemePair(weights, INPUTS[state.inputs] or AS_IT_IS)
    return LayerState(ModelLayer(model, name), pair, method=schemes.method).fitting()


def show_depth(chosen: str, state: ModelState) -> None:
    """Show the error of the residual stream through depth, a line for each of the last schemes tried."""
    from quantviz.figures.model_run_plots import coloured, depth_figure, place_words
    from quantviz.models.running import first_jump

    runs = {state_words(each): ran(RUNNING[chosen], each).depth for each in tried(chosen, state)}
    jump = first_jump(list(runs.values())[-1])
    words = say("models.no_jump")
    if jump is not None:
        place = place_words(jump[0], language())
        words = say("models.jump", place=place, factor=short_number(jump[1], 2))
    st.markdown(plain(words))
    _show_legend(coloured(runs, theme()))
    figure = depth_figure(runs, height=_HEIGHT, language=language(), theme=theme())
    show_plot(figure, "models_depth", say("models.depth_alt"))
    st.caption(plain(say("models.tries")))


def _show_legend(colours: Iterable[tuple[str, str]]) -> None:
    """Show names and their colours above a plot, where they wrap and leave the plot its room."""
    st.html(f'<p class="qv-small qv-legend">{legend_html(colours)}</p>')


def _sentence(found: Mapping[str, float]) -> str:
    return say(
        "models.predicts",
        weight=f"{found['weight_db']:.2f}".replace("-", "−"),
        output=f"{found['rel_out']:.2f}".replace("-", "−"),
    )


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
    with problem_instead():
        with working("sums" if model in ADDERS else "run"):
            found = ran(model, state)
        _show_numbers(model, found, state)
        if found.texts:
            _show_texts(found.texts)
        if found.sums:
            show_field(found.sums, state)
        _show_part(chosen, state)


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
        field_control(
            MODEL_OWNER,
            field,
            kind,
            say("models.bits" if field == "bits" else f"models.choice.{field}"),
            names,
            now=getattr(state, field),
        )
        for field, (kind, names) in fields.items()
    )
    show_controls("models_choices", None, *controls, look="qv-inside")


def _show_part(chosen: str, state: ModelState) -> None:
    """Show the tabs, and the part of the model that is open."""
    with st.container(key="models_parts"):
        names = {name: say(f"models.part.{name}") for name in shown_parts(RUNNING[chosen])}
        label = say("models.parts")
        choose_field(MODEL_OWNER, "part", "row", label, names, now=state.part, look="qv-unnamed qv-tabs")
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
            show_button(say("models.save"), "models_save", lambda: MODEL_OWNER.change(method="gptq"))


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
