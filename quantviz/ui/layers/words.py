"""Names and numbers of a layer as people read them: schemes, pairs of these, and the line of numbers."""

from __future__ import annotations

import html
import math
import re
from functools import lru_cache, partial

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import (
    AS_IT_IS,
    ASYMMETRIC,
    INPUTS,
    NEAREST,
    PAIRS,
    WEIGHTS,
    LayerState,
    SchemePair,
    name_of_pair,
)
from quantviz.schemes.calibration import ManualRange
from quantviz.schemes.recipes import ALL_RECIPES, as_scheme
from quantviz.text import text
from quantviz.ui.components.buttons import show_button
from quantviz.ui.components.small_parts import term
from quantviz.ui.layers.state import OWNER, SeenLayer
from quantviz.ui.shell.words import language, method_name, plain, say, sentences, share, unbroken

#: The axis that a recipe's row is of, for each side; a column is an input channel of both.
_LINES = {"weights": "output", "inputs": "token"}

#: The first sentence of a text and the others, in both languages.
_FIRST = re.compile(r"(.+?(?:\.(?= )|。|$))\s*(.*)")


def scheme_name(form: str, side: str) -> str:
    """Return the name of the scheme of a side, "weights" or "inputs"; its text form where it has none."""
    return _scheme_name(form, side, language())


@lru_cache(maxsize=256)  # each run asks for all that both sides offer
def _scheme_name(form: str, side: str, language: str) -> str:
    if form == AS_IT_IS:
        return text("layers.as_it_is", language)
    if form == ASYMMETRIC:
        return text("layers.asymmetric", language)
    if form not in ALL_RECIPES:
        by_hand = _recipe_by_hand(form)
        if by_hand is None:
            return form
        named, calibration = by_hand
        ends = f"{short_number(calibration.lo)} … {short_number(calibration.hi)}"
        if calibration.lo == -calibration.hi:
            ends = f"±{short_number(calibration.hi)}"
        return f"{_scheme_name(named, side, language)}, {ends}"
    axis = "input" if form.endswith("_per_column") else _LINES[side]
    return text(f"recipe_plot.name.{form}", language, channel=text(f"layers.axes.{axis}", language))


def _recipe_by_hand(form: str) -> tuple[str, ManualRange] | None:
    """Return the name of the scheme that a form is but for a range set by hand, and this range."""
    scheme = as_scheme(form)
    if not isinstance(scheme.calibration, ManualRange):
        return None
    for named in (*INPUTS, *WEIGHTS):
        if as_scheme(named).replace(calibration=scheme.calibration) == scheme:
            return named, scheme.calibration
    return None


def pair_name(pair: SchemePair) -> str:
    """Return the name of a pair: its own, or those of its sides."""
    known = name_of_pair(pair)
    if known:
        return say(f"layers.pairs.{known}")
    dynamic = "" if pair.static else f" ({say('layers.dynamic')})"
    return f"{scheme_name(pair.weights, 'weights')} · {scheme_name(pair.inputs, 'inputs')}{dynamic}"


def pair_names() -> dict[str, str]:
    """Return the names of the pairs that have one, by their ids."""
    return {name: say(f"layers.pairs.{name}") for name in PAIRS}


def show_numbers(seen: SeenLayer) -> None:
    """Show the error on the tokens held back and on those used, SQNR, the parts' shares, and bits."""
    used, held_back = seen.result.rel_out
    parts = seen.result.parts
    numbers = [
        _number("rel_out", percent(held_back), say("layers.numbers.used", used=percent(used))),
        _number("output_db", decibels(seen.output_db)),
        _number("weight_db", decibels(seen.weight_db)),
        *(
            _number(f"part_{name}", share_of(parts[name].share.held_back))
            for name in ("weights", "inputs", "cross")
        ),
        _number("bits", both_bits(seen)),
    ]
    st.html(f'<div class="qv-layer-numbers">{"".join(numbers)}</div>')


def show_look(words: str) -> None:
    """Show what a built-in layer shows: its first sentence large, the others unfolded by a word."""
    first, rest = _FIRST.fullmatch(words).groups()  # type: ignore[union-attr]
    more = term(say("layers.more_on_it"), rest, key="layers_look") if rest else ""
    with st.container(key="layers_look"):
        st.html(f'<p class="qv-finding">{html.escape(first)} <small>{more}</small></p>')


def show_remedy(seen: SeenLayer, state: LayerState) -> None:
    """Show what most of the layer's error comes from and the remedy to try first, with a button that takes
    it; nothing where none is known.
    """
    from quantviz.lab.layer_remedy import first_remedy

    if state.method != NEAREST:
        return
    found = seen.found("remedy", partial(first_remedy, pair=state.pair))
    if found is None:
        return
    cause = say(f"layers.remedy.{found.cause}", channel=found.channel, times=short_number(found.times))
    taken = method_name(found.method)
    if found.method == NEAREST:
        side = "weights" if found.pair.weights != state.pair.weights else "inputs"
        taken = say(f"layers.remedy.finer_{side}", scheme=scheme_name(getattr(found.pair, side), side))
    numbers = {"before": percent(found.before), "after": percent(found.after)}
    fix = say("layers.remedy.fix", remedy=taken, **numbers)
    some = say("layers.remedy.some", count=found.outputs, all=seen.result.shape[2])
    words = sentences(cause, fix, some if found.outputs < seen.result.shape[2] else "")
    with st.container(key="layers_look", horizontal=True, wrap=False, vertical_alignment="center"):
        st.html(f'<p class="qv-finding">{html.escape(unbroken(words))}</p>', width="stretch")
        take = partial(OWNER.change, pair=found.pair, method=found.method)
        show_button(say("layers.remedy.take"), "layers_remedy", take)


def _number(name: str, value: str, line: str = "") -> str:
    words = term(say(f"layers.numbers.{name}"), say(f"layers.numbers.{name}_help"), key=f"layer_{name}")
    small = f" <small>{html.escape(line)}</small>" if line else ""
    return f'<span class="qv-number" data-qv-layer="{name}">{words} <b>{html.escape(value)}</b>{small}</span>'


def show_terms(*names: str) -> None:
    """Show words of a picture that explain themselves when they are pointed at or touched."""
    words = (
        term(say(f"layers.terms.{name}"), say(f"layers.terms.{name}_help"), key=f"layers_{name}")
        for name in names
    )
    st.html(f'<p class="qv-small">{html.escape(say("layers.terms.lead"))} {" · ".join(words)}</p>')


def show_sentence(words: str) -> None:
    """Show a sentence, in which no line ends between a number and its unit."""
    st.markdown(plain(unbroken(words)))


def percent(value: float) -> str:
    """Return an error as a share of the outputs, in per cent to three digits.

    >>> percent(0.0123456), percent(4.9e-7), percent(0.0)
    ('1.23 %', '0.000049 %', '0 %')
    """
    if not math.isfinite(value):
        return "∞"
    if value < 1e-6:
        return f"{100 * value:.7f}".rstrip("0").rstrip(".") + " %"
    places = max(0, 2 - math.floor(math.log10(100 * value)))
    return f"{100 * value:.{places}f} %"


def compared(now: float, before: float) -> str:
    """Return "less", "alike" or "more": how an error compares with one before, in the digits shown.

    >>> compared(0.869, 0.87), compared(0.86961, 0.86962), compared(0.25, 0.2)
    ('less', 'alike', 'more')
    """
    if percent(now) == percent(before):
        return "alike"
    return "less" if now < before else "more"


def decibels(value: float) -> str:
    """Return decibels to three digits.

    >>> decibels(21.987), decibels(float("inf"))
    ('22 dB', '∞ dB')
    """
    return f"{short_number(value)} dB"


def share_of(value: float) -> str:
    """Return a part's share, which may lie below 0 or above 1 where parts cancel each other."""
    sign = "−" if value <= -0.001 else ""
    return sign + share(abs(value))


def both_bits(seen: SeenLayer) -> str:
    """Return the bits of a weight and of an input, with their scales; "–" where nothing is quantized."""
    from quantviz.evaluation.metric_formulas import bits_per_element

    operands = (seen.result.weights, seen.result.inputs)
    return " · ".join(
        "–" if each.scheme is None else short_number(bits_per_element(each.scheme, each.shape))
        for each in operands
    )
