"""Names and numbers of a layer as people read them: schemes, pairs of these, and the line of numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import (
    AS_IT_IS,
    ASYMMETRIC,
    INPUTS,
    PAIRS,
    WEIGHTS,
    SchemePair,
    name_of_pair,
)
from quantviz.schemes.calibration import ManualRange
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import ALL_RECIPES, as_scheme
from quantviz.text import text
from quantviz.ui.components.controls import Control, choice_control
from quantviz.ui.components.small_parts import term
from quantviz.ui.shell.words import language, plain, say, share, unbroken

#: The axis that a recipe's row is of, for each side; a column is an input channel of both.
_LINES = {"weights": "output", "inputs": "token"}


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


def choice(page: str, name: str, names: Mapping[str, str], now: str, take: Callable[[str], None]) -> Control:
    """Return the list of a choice about a layer on a page, with its help."""
    words = f"layers.choice.{name}"
    about = say(f"{words}_help")
    return choice_control(f"{page}_{name}", "list", say(words), names, now, take, help=about)


def pair_controls(
    page: str, now: Callable[[], SchemePair], take: Callable[[SchemePair], None], shape: Shape | None = None
) -> Iterator[Control]:
    """Yield the choices of the pairs that have a name, and of each side's scheme, on a page: those that fit a
    layer of `shape`, if given, and the present ones, which a link may have. `now` returns the present pair.
    """

    def fits(other: SchemePair) -> bool:
        return shape is None or not other.problem(shape)

    pair = now()
    known = name_of_pair(pair)
    named = {name: say(f"layers.pairs.{name}") for name, each in PAIRS.items() if fits(each)}
    own = {} if known in named else {"": say("layers.own_pair")}
    shown = known if known in named else ""
    yield choice(page, "pair", own | named, shown or "", lambda name: take(PAIRS.get(name, now())))
    plain = SchemePair(AS_IT_IS, AS_IT_IS)
    for side, offered in (("weights", WEIGHTS), ("inputs", INPUTS)):
        present = getattr(pair, side)
        forms = (AS_IT_IS, *(form for form in offered if fits(plain.with_side(side, form))), present)
        names = {form: scheme_name(form, side) for form in forms}
        yield choice(page, side, names, present, partial(_take_side, now, take, side))


def _take_side(
    now: Callable[[], SchemePair], take: Callable[[SchemePair], None], side: str, form: str
) -> None:
    take(now().with_side(side, form))


def stacked_bar(values: Sequence[float], colours: Sequence[str], low: float, high: float) -> str:
    """Return the CSS of a bar from `low` to `high` that stacks values from 0 on, negative ones to the left.

    >>> stacked_bar((2.0, -1.0), ("#aaa", "#bbb"), -1.0, 3.0)
    'linear-gradient(90deg,#0000 0%,#bbb 0% 25%,#aaa 25% 75%,#0000 75%)'
    """
    width = (high - low) or 1.0
    left = right = 0.0
    parts = []
    for value, colour in zip(values, colours, strict=True):
        if value < 0:
            parts.append((left + value, left, colour))
            left += value
        elif value:
            parts.append((right, right + value, colour))
            right += value

    def place(value: float) -> str:
        return f"{100 * (value - low) / width:.3g}%"

    inner = "".join(f"{colour} {place(start)} {place(end)}," for start, end, colour in sorted(parts))
    return f"linear-gradient(90deg,#0000 {place(left)},{inner}#0000 {place(right)})"


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
