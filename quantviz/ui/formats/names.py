"""How formats, values and the parts of a code are written on the formats page."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.shell.words import number, say, theme


def format_name(fmt: NumberFormat) -> str:
    return say(f"formats.{fmt.id}.name")


def colour_swatch(row: int) -> str:
    from quantviz.figures.format_line import row_colour

    return f'<span class="qv-swatch" style="color:{row_colour(theme(), row)}">{"▼" if row else "▲"}</span>'


def as_html(sentence: str) -> str:
    """Return a sentence as HTML: **strong**, and 2^(…) as a power."""
    safe = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(sentence, quote=False))
    return re.sub(r"\^\(([^()]*)\)", r"<sup>\1</sup>", safe)


def code_parts(fmt: NumberFormat, code: int) -> Iterator[tuple[str, str]]:
    """Yield the parts of a code that have bits, from the highest down, each with what it is."""
    whole = "integer" if fmt.kind == "integer" else "index" if fmt.kind == "codebook" else "mantissa"
    yield from (
        (role, bits) for role, bits in zip(("sign", "exponent", whole), fmt.split(code), strict=True) if bits
    )


def role_name(role: str) -> str:
    return {
        "sign": say("formats.page.sign"),
        "exponent": say("formats.page.exponent"),
        "mantissa": say("formats.page.mantissa"),
        "integer": say("formats.page.integer"),
        "index": say("formats.page.index"),
    }[role]


def term_title(name: str) -> str:
    """Return the HTML attribute that explains a term on hover; empty where it needs no words."""
    if name in ("integer", "index"):
        return ""
    return f' title="{html.escape(say(f"formats.terms.{name}"))}"'


def value_words(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "−0" if math.copysign(1, value) < 0 else "0"
    rounded = math.isfinite(value) and float(f"{value:.9g}") != value
    return ("≈ " if rounded else "") + number(value, 9)
