"""The page of a model that runs: its schemes, its loss, the text or the sums that it writes, what each layer
costs, its attention, bits for each layer within the same size, and its salient channels.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import AttentionState
from quantviz.lab.layer_state import AS_IT_IS, NEAREST, LayerState, SchemePair
from quantviz.models.model_layer import ModelLayer
from quantviz.schemes.recipes import RECIPES
from quantviz.schemes.scheme import Scheme
from quantviz.ui.checkpoints.model_state import (
    ADDERS,
    BITS,
    CACHES,
    COLOURS,
    FORMATS,
    HEADS,
    INPUTS,
    KINDS,
    ORDERS,
    PREDICTORS,
    RUNNING,
    SHARED,
    ModelState,
    effects_of,
    job_of,
    layer_words,
    layers_of,
    named,
    ran,
    shown_parts,
    state_of,
    state_words,
    tried,
    working,
)
from quantviz.ui.checkpoints.state import MODEL_OWNER, OWNER, CheckpointsState
from quantviz.ui.components.controls import choose_field, field_control, show_controls
from quantviz.ui.components.small_parts import (
    legend_html,
    number_html,
    problem_instead,
    show_button,
    show_figure,
    show_folded,
    show_page_errors,
    table_html,
    term,
)
from quantviz.ui.shell.address import go_on, turn_to
from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language, method_name, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.models.attention import AttentionView
    from quantviz.models.layer_effects import LayerEffect
    from quantviz.models.mixed_precision import Mix
    from quantviz.models.predicting import SchemeNumbers
    from quantviz.models.running import Ran, Texts
    from quantviz.models.salient_channels import SalientCost
    from quantviz.models.sums import Sum, Sums


_ATTENTION = "pages/explore/attention.py"
_MATRIX_HEIGHT = 200
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
            alt = say("models.part_alt", part=say(f"models.{part}"), count=len(values), words=words)
            draw = partial(matrix_figure, height=_MATRIX_HEIGHT, parts=view.heads)
            show_figure(draw, f"models_{part}", alt, values, ("channel", "token"))
    for column, part in zip(pictures[2:], ("before", "after"), strict=True):
        with column:
            moved = short_number(100 * view.moved()[state.head], 2)
            words = say(f"models.attention_{part}", head=state.head, share=moved)
            st.html(f'<p class="qv-small">{words}</p>')
            values = getattr(view, part)[state.head].numpy()
            draw = partial(matrix_figure, height=_MATRIX_HEIGHT, most=1.0)
            show_figure(draw, f"models_attention_{part}", words, values, ("seen", "token"))


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
            show_figure(bits_figure, f"models_mix_{name}", words, mix.bits)
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


_SCATTER = "models_schemes"
_TAKEN = "models_dot_taken"
_DOTS_HEIGHT = 300
#: Schemes whose dots come at once.
_TOGETHER = 6
#: Wrong sums that are written out below the field.
_TOLD = 12


def sums_html(model: str, found: Sums, state: ModelState) -> str:
    """Return the number of right sums as HTML, with the interval that so many draws allow; and how many they
    were before a method.
    """
    low, high = (100 * bound for bound in found.interval)
    count = f"{len(found.every):,}"
    bounds = say("models.sums_bounds", low=f"{low:.1f}", high=f"{high:.1f}")
    words = html.escape(say("models.sums_right", count=count, right="\0"))
    words = words.replace("\0", f"<b>{found.right:,}</b>")
    before = ""
    if state.method != NEAREST and not state.is_stored:
        nearest = ran(model, state.replace(method=NEAREST)).sums
        assert nearest
        name = method_name(NEAREST)
        before = f" <small>{html.escape(say('models.sums_before', method=name, right=nearest.right))}</small>"
    about = term(bounds, say("models.about_sums"), key="model_sums")
    return f'<p class="qv-finding qv-sums">{words} {about}{before}</p>'


def show_field(found: Sums, state: ModelState) -> None:
    """Show a hundred sums, the wrong ones red, and how many are right by their carries."""
    sums = found.field(by_carries=state.order == ORDERS[1])
    right = sum(each.is_right for each in sums)
    cells = []
    before = sums[0].carries
    for each in sums:
        kind = "" if each.is_right else "qv-wrong"
        if state.order == ORDERS[1] and each.carries != before:
            kind += " qv-next"
        before = each.carries
        cells.append(
            f'<span class="{kind}" title="{html.escape(_written(each))}">'
            f"<small>{each.left:03}+{each.right:03}</small>{_answer(each)}</span>"
        )
    alt = html.escape(say("models.field_alt", right=right, count=len(sums)))
    field = f'<div class="qv-sum-field" role="img" aria-label="{alt}">{"".join(cells)}</div>'
    wrong = [_written(each) for each in sums if not each.is_right]
    told = say("models.no_wrong")
    if wrong:
        told = say("models.wrong_sums", sums=" · ".join(wrong[:_TOLD]) + " …" * (len(wrong) > _TOLD))
    with st.container(key="models_sums"):
        st.html(f'{field}<p class="qv-small qv-wrong-sums" tabindex="0">{html.escape(told)}</p>')
    with st.container(key="models_orders", horizontal=True, gap="small", vertical_alignment="center"):
        names = {name: say(f"models.orders.{name}") for name in ORDERS}
        choose_field(MODEL_OWNER, "order", "row", say("models.order"), names, look="qv-beside")
        shares = " · ".join(
            say("models.of_carries", carries=carries, right=good, count=every)
            for carries, (good, every) in found.by_carries.items()
        )
        st.html(f'<p class="qv-small">{html.escape(say("models.by_carries", shares=shares))}</p>')


def _written(one: Sum) -> str:
    """Return a sum in words, with the right answer beside a wrong one."""
    line = f"{one.left}+{one.right}={one.answer.lstrip('0') or '0'}"
    return line if one.is_right else say("models.right_one", sum=line, truth=int(one.truth))


def _answer(one: Sum) -> str:
    """Return the digits of an answer as HTML; a wrong one is underlined, with the right one beside it."""
    digits = (
        f"<u>{html.escape(digit)}<sup>{truth}</sup></u>" if wrong else html.escape(digit)
        for digit, truth, wrong in zip(one.answer, one.truth, one.wrong, strict=True)
    )
    return f"<b>{''.join(digits)}</b>"


# ---- which number predicts -----------------------------------------------------------------------


def show_predictors(model: str, state: ModelState) -> None:
    """Show many schemes by a number that may predict their sums, and the rank correlations of all three: the
    first visitor sees the dots come.
    """
    from quantviz.models.predicting import predict_sums, scheme_numbers, tried_schemes

    tried = tried_schemes()
    states = [state_of(each) for each in tried.values()]
    cards = [state_words(each) for each in states]
    rows: list[SchemeNumbers] = []
    place = st.empty()
    for done, name in enumerate(tried):
        if done % _TOGETHER == 0:
            with place.container():
                st.progress(done / len(tried), text=say("models.trying", done=done, count=len(tried)))
                _show_dots(rows, cards, state, f"{_SCATTER}_{done}")
        rows.append(job_of(f"{model} under {name}", partial(scheme_numbers, model, name)))
    place.empty()
    found = predict_sums(rows)
    names = {
        name: say("models.predictor", number=say(f"models.predictors.{name}"), rank=f"{found[name]:.2f}")
        for name in PREDICTORS
    }
    choose_field(MODEL_OWNER, "predictor", "row", say("models.which_predicts"), names, look="qv-beside")

    def take(own: ModelState) -> None:
        fields = ("bits", "shared", "method", "inputs", "cache")
        st.session_state[_TAKEN] = True
        MODEL_OWNER.change(only="", **{name: getattr(own, name) for name in fields})

    _show_dots(rows, cards, state, _SCATTER, take=take, marks=states)
    if st.session_state.pop(_TAKEN, False):
        st.rerun()  # A dot was clicked: the whole page follows.
    st.caption(
        plain(sentences(say("models.predictors_about"), _orders(rows, dict(zip(tried, cards, strict=True)))))
    )


def _show_dots(
    rows: list[SchemeNumbers], cards: list[str], state: ModelState, key: str, **clicks: Any
) -> None:
    """Show a dot for each scheme, with its card and its kind's colour; `clicks` go to `show_figure`."""
    from quantviz.figures.model_run_plots import coloured, schemes_figure

    kinds = {kind: say(f"models.kinds.{kind}") for kind in dict.fromkeys(each.kind for each in rows)}
    _show_legend(coloured(kinds.values(), theme()))
    alt = say("models.schemes_alt", number=say(f"models.predictors.{state.predictor}"))
    of = rows, state.predictor, cards[: len(rows)], kinds  # some are not tried yet
    show_figure(schemes_figure, key, alt, *of, height=_DOTS_HEIGHT, **clicks)


def _orders(rows: list[SchemeNumbers], words: dict[str, str]) -> str:
    """Return the sentences on the pairs of schemes that KL orders otherwise than their sums, and why."""
    from quantviz.models.predicting import pair_orders

    orders = pair_orders(rows)
    told = say(
        "models.pairs",
        alike=f"{orders.alike:,}",
        undecided=f"{orders.undecided:,}",
        against=len(orders.against),
    )
    if not orders.against:
        return told
    one, other = orders.against[0]
    why = say(
        "models.pairs_against",
        one=words[one.name],
        other=words[other.name],
        one_kl=short_number(one.kl),
        other_kl=short_number(other.kl),
        one_right=one.right,
        other_right=other.right,
        least=short_number(min(each.kl for each, _ in orders.against), 2),
    )
    return sentences(told, why)


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

    def open_layer(effect: LayerEffect) -> None:
        turn_to(_LAYERS, state_of_layer(model, effect.name, OWNER.state.model).written())

    with st.container(key="models_layers"):
        left, right = st.columns([5, 7], gap="medium")
    with left:
        names = {name: say(f"models.colours.{name}") for name in colours}
        choose_field(MODEL_OWNER, "colour", "list", say("models.colour"), names, look="qv-unnamed")
        words = say("models.map_alt", colour=say(f"models.colours.{state.colour}"))
        show_figure(effects_figure, _MAP, words, effects, state.colour, take=open_layer, marks=effects)
        st.caption(plain(sentences(say(f"models.colours_about.{state.colour}"), say("models.map_opens"))))
    with right:
        st.markdown(plain(_sentence(found)))
        _show_legend(coloured(kinds_of(effects).values(), theme()))
        for column, cheap in zip(st.columns(2, gap="small"), CHEAP, strict=True):
            with column:
                words = say("models.predicts_alt", number=say(f"models.colours.{cheap}"))
                key, draw = f"models_predicts_{cheap}", partial(predictions_figure, height=_HEIGHT)
                show_figure(draw, key, words, effects, cheap, take=open_layer, marks=effects)
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
    show_figure(depth_figure, "models_depth", say("models.depth_alt"), runs, height=_HEIGHT)
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
        number_html(
            "models.numbers.loss",
            short_number(found.loss),
            say("models.numbers.of_original", loss=short_number(found.original_loss)),
            characters=sizes_of(model).characters,
            guess=short_number(math.log2(sizes_of(model).characters)),
        ),
        number_html("models.numbers.kl", short_number(found.kl), say("models.numbers.of_kl")),
        number_html("models.numbers.bits", short_number(found.bits)),
    ]
    with st.container(key="models_answer", horizontal=True, gap="small", vertical_alignment="center"):
        st.html(sentence, width="content")
        st.html(f'<div class="qv-model-numbers">{"".join(numbers)}</div>', width="content")
        if is_worse and state.method == NEAREST:
            show_button(say("models.save"), "models_save", lambda: MODEL_OWNER.change(method="gptq"))


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
