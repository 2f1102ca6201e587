"""The bits of a code as buttons, and how they make its value."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator

import streamlit as st

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.components.controls import as_html
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.shell.words import number, say


def show_bit_row(
    fmt: NumberFormat, code: int, title: str, on_flip: Callable[[int], None], *, numbers_only: bool = False
) -> None:
    """Show a button for each bit of a code, and how the bits make its value.

    Args:
        fmt: The code's format.
        code: The code.
        title: The line above the bits, as HTML.
        on_flip: Called with the number of a bit to flip, from the lowest: by then the code may be another.
        numbers_only: Whether bits that lead to NaN or Inf are locked.
    """
    from quantviz.quantization.format_facts import flipped

    names = "".join(
        f'<span class="qv-{role}" style="flex:{len(bits)}"{term_title(role)}>'
        f"{html.escape(role_name(role))}</span>"
        for role, bits in code_parts(fmt, code)
    )
    st.html(
        f'<div class="qv-bits-title">{title}</div>'
        f'<div class="qv-roles" style="--bits:{fmt.bits}">{names}</div>'
    )
    with st.container(key=f"formats_bits_{fmt.bits}", horizontal=True, gap=None, wrap=False):
        bit = fmt.bits
        for role, bits in code_parts(fmt, code):
            for value in bits:
                bit -= 1
                turned = flipped(fmt, code, bit)
                if turned is not None and numbers_only and not math.isfinite(fmt.value(turned)):
                    turned = None
                words = say("formats.page.bit", bit=bit, value=value)
                if turned is None:
                    words = say("formats.page.bit_invalid")
                show_button(
                    value,
                    f"formats_bit_{role}_{bit}",
                    on_flip,
                    bit,
                    disabled=turned is None,
                    help=words,
                    width="stretch",
                )
    st.html(f'<p class="qv-reading">{as_html(reading(fmt, code))}</p>')


def code_parts(fmt: NumberFormat, code: int) -> Iterator[tuple[str, str]]:
    """Yield the parts of a code that have bits, from the highest down, each with its name."""
    if fmt.kind == "integer":
        whole = "integer"
    elif fmt.kind == "codebook":
        whole = "index"
    else:
        whole = "mantissa"
    yield from (
        (role, bits) for role, bits in zip(("sign", "exponent", whole), fmt.split(code), strict=True) if bits
    )


def role_name(role: str) -> str:
    return say(f"formats.page.{role}")


def term_title(name: str) -> str:
    """Return the HTML attribute that explains a term on hover; empty where it needs no words."""
    if name in ("integer", "index"):
        return ""
    return f' title="{html.escape(say(f"formats.terms.{name}"))}"'


def reading(fmt: NumberFormat, code: int) -> str:
    """Return the formula of the value from the bits."""
    from quantviz.quantization.format_facts import code_kind, word

    value = number(fmt.value(code), 9)
    kind = code_kind(fmt, code)
    if fmt.kind == "codebook":
        return say("formats.reading.codebook", code=code, value=value)
    if not fmt.float_bits:
        bits = word(fmt, code)
        weights = [
            (1 << (len(bits) - 1 - i)) * (-1 if fmt.signed and i == 0 else 1) for i in range(len(bits))
        ]
        terms = [
            str(weight).replace("-", "−") for bit, weight in zip(bits, weights, strict=True) if bit == "1"
        ]
        return say("formats.reading.integer", sum=" + ".join(terms) or "0", value=value)
    if kind == "nan":
        return say("formats.reading.nan")
    sign, exponent, mantissa = fmt.split(code)
    layout = fmt.float_bits
    minus = sign == "1"
    if kind in ("inf", "zero"):
        signed = "−0" if kind == "zero" and minus else value
        return say(f"formats.reading.{kind}", value=signed)
    said = {"sign": "−1" if minus else "+1", "bias": layout.bias, "value": value}
    part = {"mantissa": int(mantissa or "0", 2), "steps": 1 << layout.mantissa}
    if kind == "subnormal":
        return say("formats.reading.subnormal", **said, **part, first=1)
    said["field"] = int(exponent, 2)
    if not mantissa:
        return say("formats.reading.normal_plain", **said)
    return say("formats.reading.normal", **said, **part)
