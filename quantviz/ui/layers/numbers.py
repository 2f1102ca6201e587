"""The numbers of a layer in one line: its output error on both sides of the split, and who brings it."""

from __future__ import annotations

import html
import math

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.ui.components.term import term
from quantviz.ui.layers.reading import SeenLayer
from quantviz.ui.shell.words import say, share


def show_numbers(seen: SeenLayer) -> None:
    """Show the error on the tokens held back and on those used, SQNR, the parts' shares, and bits."""
    used, held_back = seen.result.rel_out
    parts = seen.result.parts
    numbers = [
        _number("rel_out", percent(held_back), say("layers.numbers.used", used=percent(used))),
        _number("output_db", decibels(-10 * math.log10(held_back) if held_back else math.inf)),
        _number("weight_db", decibels(seen.weight_db)),
        *(
            _number(f"part_{name}", share_of(parts[name].share.held_back))
            for name in ("weights", "inputs", "cross")
        ),
        _number("bits", f"W {bits_text(seen, 'weights')} · A {bits_text(seen, 'inputs')}"),
    ]
    st.html(f'<div class="qv-layer-numbers">{"".join(numbers)}</div>')


def _number(name: str, value: str, line: str = "") -> str:
    words = term(say(f"layers.numbers.{name}"), say(f"layers.numbers.{name}_help"), key=f"layer_{name}")
    small = f" <small>{html.escape(line)}</small>" if line else ""
    return f'<span class="qv-number">{words} <b>{html.escape(value)}</b>{small}</span>'


def percent(value: float) -> str:
    """Return an error as a share of the outputs, in per cent to three digits.

    >>> percent(0.0123456), percent(4.9e-7), percent(0.0)
    ('1.23 %', '0.000049 %', '0 %')
    """
    if not math.isfinite(value):
        return "∞"
    places = max(0, 2 - math.floor(math.log10(100 * value))) if value else 0
    return f"{100 * value:.{min(places, 9)}f} %".replace("-", "−") if value >= 1e-6 else _small(value)


def _small(value: float) -> str:
    if value == 0:
        return "0 %"
    return f"{float(f'{100 * value:.1e}'):.9f}".rstrip("0") + " %"


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


def bits_of(seen: SeenLayer, side: str) -> float | None:
    """Return the bits of a value of a side, with its scales; None where it is not quantized."""
    from quantviz.evaluation.metric_formulas import bits_per_element

    operand = getattr(seen.result, side)
    return None if operand.scheme is None else bits_per_element(operand.scheme, operand.shape)


def bits_text(seen: SeenLayer, side: str) -> str:
    """Return the bits of a value of a side as text."""
    bits = bits_of(seen, side)
    return say("layers.not_rounded") if bits is None else short_number(bits)
