"""Spelling of formats, values and the parts of a code on the formats page."""

from __future__ import annotations

import math

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.shell.words import number, say, theme


def format_name(fmt: NumberFormat) -> str:
    return say(f"formats.{fmt.id}.name")


def colour_swatch(row: int) -> str:
    from quantviz.figures.format_line import row_colour

    return f'<span class="qv-swatch" style="color:{row_colour(theme(), row)}">{"▼" if row else "▲"}</span>'


def value_words(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "−0" if math.copysign(1, value) < 0 else "0"
    rounded = math.isfinite(value) and float(f"{value:.9g}") != value
    return ("≈ " if rounded else "") + number(value, 9)
