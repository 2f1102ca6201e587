"""The sums of an adder that runs: how many are right, a field of them, and which number predicts them."""

from __future__ import annotations

import html
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST
from quantviz.ui.checkpoints.model_state import (
    ORDERS,
    PREDICTORS,
    ModelState,
    job_of,
    kind_words,
    ran,
    state_of,
    state_words,
)
from quantviz.ui.checkpoints.state import change_model
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.small_parts import legend_html, show_plot, term
from quantviz.ui.shell.words import language, method_name, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.models.predicting import SchemeNumbers
    from quantviz.models.sums import Sum, Sums

_SCATTER = "models_schemes"
_TAKEN = "models_dot_taken"
_HEIGHT = 300
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
        choose_among(
            "models_order",
            "row",
            say("models.order"),
            {name: say(f"models.orders.{name}") for name in ORDERS},
            state.order,
            lambda name: change_model(order=name),
            look="qv-beside",
        )
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
    choose_among(
        "models_predictor",
        "row",
        say("models.which_predicts"),
        names,
        state.predictor,
        lambda name: change_model(predictor=name),
        look="qv-beside",
    )

    def take(at: float) -> None:
        own = states[int(at)]
        fields = ("bits", "shared", "method", "inputs", "cache")
        st.session_state[_TAKEN] = True
        change_model(only="", **{name: getattr(own, name) for name in fields})

    _show_dots(rows, cards, state, _SCATTER, take=take, fits=lambda number: number in range(len(rows)))
    if st.session_state.pop(_TAKEN, False):
        st.rerun()  # A dot was clicked: the whole page follows.
    st.caption(
        plain(sentences(say("models.predictors_about"), _orders(rows, dict(zip(tried, cards, strict=True)))))
    )


def _show_dots(
    rows: list[SchemeNumbers], cards: list[str], state: ModelState, key: str, **clicks: Any
) -> None:
    """Show a dot for each scheme, with its card and its kind's colour; `clicks` go to `show_plot`."""
    from quantviz.figures.model_run_plots import coloured, schemes_figure

    kinds = {kind: kind_words(kind) for kind in dict.fromkeys(each.kind for each in rows)}
    st.html(f'<p class="qv-small qv-legend">{legend_html(coloured(kinds.values(), theme()))}</p>')
    figure = schemes_figure(
        rows, state.predictor, cards, kinds, height=_HEIGHT, language=language(), theme=theme()
    )
    show_plot(
        figure, key, say("models.schemes_alt", number=say(f"models.predictors.{state.predictor}")), **clicks
    )


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
