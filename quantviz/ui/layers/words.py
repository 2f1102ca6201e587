"""Names and numbers of a layer as people read them: schemes, pairs of these, and the line of numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

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
from quantviz.ui.components.small_parts import show_button, term
from quantviz.ui.layers.state import OWNER, SeenLayer
from quantviz.ui.shell.words import language, method_name, plain, say, sentences, share, theme, unbroken

if TYPE_CHECKING:
    from quantviz.layers.operands import Operand

#: The parts of the output error, in the order of their bar.
PARTS = ("inputs", "cross", "weights")

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


def pair_names() -> dict[str, str]:
    """Return the names of the pairs that have one, by their ids."""
    return {name: say(f"layers.pairs.{name}") for name in PAIRS}


def show_finding(seen: SeenLayer, look: str) -> None:
    """Show what is loud in the layer and what that does, in one sentence; `look` unfolds behind it."""
    more = f" <small>{term(say('layers.more_on_it'), look, key='layers_look')}</small>" if look else ""
    st.html(f'<p class="qv-finding">{html.escape(unbroken(_finding(seen)))}{more}</p>')


def _finding(seen: SeenLayer) -> str:
    """Return the sentence on the side of most of the error: its loudest channel, and who shares its scale."""
    parts = seen.result.parts
    if not seen.result.rel_out.held_back:
        return say("layers.finding.none")
    side = max(("inputs", "weights"), key=lambda each: parts[each].share.held_back)
    loud, sizes, letter = {
        "inputs": (seen.channels.loud_inputs, seen.channels.x_max, "X"),
        "weights": (seen.channels.loud_weights, seen.channels.w_max, "W"),
    }[side]
    if not loud:
        return say("layers.finding.even", side=letter)
    times = short_number(float(sizes[loud[0]] / sizes.median()), 2)
    sharing = _sharing(getattr(seen.result, side), float(sizes[loud[0]]))
    reach = say(f"layers.finding.reach_{sharing}", side=letter)
    return sentences(say(f"layers.finding.loud_{side}", channel=loud[0], times=times), reach)


def _sharing(operand: Operand, size: float) -> str:
    """Return the values that share a scale with a channel's own, the largest of which is `size`: "all"
    others, "some" of them, or "none"; "cut" where the range was set by hand and ends below them.
    """
    if operand.study is None:
        return "none"
    by_hand = operand.study.scheme.calibration
    if isinstance(by_hand, ManualRange) and max(-by_hand.lo, by_hand.hi) < size:
        return "cut"
    layout = operand.study.layout
    if layout.block_count == 1:
        return "all"
    by_column = layout.block_count == operand.shape[1] and layout.block_size == operand.shape[0]
    return "none" if by_column else "some"


def show_numbers(seen: SeenLayer) -> None:
    """Show the output error, large, the shares of X and W in it as a bar, and the other numbers."""
    from quantviz.figures.layer_plots import part_colours

    used, held_back = seen.result.rel_out
    shades = part_colours(theme())
    shares = {name: seen.result.parts[name].share.held_back for name in PARTS}
    # A part that cancels others has no place in the bar.
    sizes = [max(share, 0.0) for share in shares.values()]
    bar = stacked_bar(sizes, [shades[name] for name in PARTS], 0.0, sum(sizes))
    told = (
        f'<span><span class="qv-swatch" style="background:{shades[name]}"></span> '
        f"{number_html(f'layers.numbers.part_{name}', share_of(shares[name]))}</span>"
        for name in PARTS
    )
    others = (
        number_html("layers.numbers.output_db", decibels(seen.output_db)),
        number_html("layers.numbers.weight_db", decibels(seen.weight_db)),
        number_html("layers.numbers.bits", both_bits(seen)),
    )
    error = number_html(
        "layers.numbers.rel_out", percent(held_back), say("layers.numbers.used", used=percent(used))
    )
    st.html(
        f'<div class="qv-layer-numbers"><p class="qv-large">{error}</p>'
        f'<p class="qv-parts">{"".join(told)}</p>'
        f'<i class="qv-share" style="background:{bar}"></i>'
        f'<p class="qv-others">{"".join(others)}</p></div>'
    )


def show_remedy(seen: SeenLayer, state: LayerState) -> None:
    """Show the remedy that leaves the layer the least error, with a button that takes it; nothing where none
    is known.
    """
    from quantviz.lab.layer_remedy import best_remedy

    if state.method != NEAREST:
        return
    found = seen.found("remedy", partial(best_remedy, pair=state.pair))
    if found is None:
        return
    taken = method_name(found.method)
    if found.method == NEAREST:
        side = "weights" if found.pair.weights != state.pair.weights else "inputs"
        taken = say(f"layers.remedy.finer_{side}", scheme=scheme_name(getattr(found.pair, side), side))
    less = short_number(found.before / found.after, 2) if found.after else "∞"
    fix = say("layers.remedy.fix", remedy=taken, after=percent(found.after), less=less)
    some = say("layers.remedy.some", count=found.outputs, all=seen.result.shape[2])
    words = sentences(fix, some if found.outputs < seen.result.shape[2] else "")
    with st.container(key="layers_fix", horizontal=True, wrap=False, vertical_alignment="center"):
        st.html(f"<p>{html.escape(unbroken(words))}</p>", width="stretch")
        take = partial(OWNER.change, pair=found.pair, method=found.method)
        show_button(say("layers.remedy.take"), "layers_remedy", take)


def number_html(key: str, value: str, line: str = "") -> str:
    """Return a number as HTML, named and explained by the words under a key, with a small line below it."""
    name = key.rpartition(".")[2]
    words = term(say(key), say(f"{key}_help"), key=f"layer_{name}")
    small = f" <small>{html.escape(line)}</small>" if line else ""
    return f'<span class="qv-number" data-qv-layer="{name}">{words} <b>{html.escape(value)}</b>{small}</span>'


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


def both_bits(seen: SeenLayer) -> str:
    """Return the bits of a weight and of an input, with their scales; "–" where nothing is quantized."""
    from quantviz.evaluation.metric_formulas import bits_per_element

    operands = (seen.result.weights, seen.result.inputs)
    return " · ".join(
        "–" if each.scheme is None else short_number(bits_per_element(each.scheme, each.shape))
        for each in operands
    )
