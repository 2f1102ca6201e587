"""The bits of a code as buttons, and how they make its value."""

from __future__ import annotations

import html

import streamlit as st

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.formats.names import as_html, code_parts, format_name, role_name, term_title
from quantviz.ui.formats.state import choose_code
from quantviz.ui.shell import session
from quantviz.ui.shell.words import number, say


def show_bits(fmt: NumberFormat, code: int) -> None:
    """Show a button for each bit, and what the bits say."""
    from quantviz.quantization.format_facts import code_name, flipped

    title = as_html(f"**{say('formats.page.bits_title', code=code_name(fmt, code), name=format_name(fmt))}**")
    names = "".join(
        f'<span class="qv-{role}" style="flex:{len(bits)}"{term_title(role)}>'
        f"{html.escape(role_name(role))}</span>"
        for role, bits in code_parts(fmt, code)
    )
    st.html(
        f'<div class="qv-bits-title">{title} '
        f"<small>{html.escape(say('formats.page.bits_help'))}</small></div>"
        f'<div class="qv-roles" style="--bits:{fmt.bits}">{names}</div>'
    )
    with st.container(key=f"formats_bits_{fmt.bits}", horizontal=True, gap=None, wrap=False):
        bit = fmt.bits
        for role, bits in code_parts(fmt, code):
            for value in bits:
                bit -= 1
                turned = flipped(fmt, code, bit)
                words = (
                    say("formats.page.bit", bit=bit, value=value)
                    if turned is not None
                    else say("formats.page.bit_invalid")
                )
                st.button(
                    value,
                    key=f"formats_bit_{role}_{bit}",
                    on_click=session.safely(choose_code),
                    args=(turned,),
                    disabled=turned is None,
                    help=words,
                    width="stretch",
                )
    st.html(f'<p class="qv-reading">{as_html(_reading(fmt, code))}</p>')


def _reading(fmt: NumberFormat, code: int) -> str:
    """Return how the bits make the value."""
    from quantviz.quantization.format_facts import code_kind, word

    value, kind = number(fmt.value(code), 9), code_kind(fmt, code)
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
    layout, minus = fmt.float_bits, sign == "1"
    if kind in ("inf", "zero"):
        signed = "−0" if kind == "zero" and minus else value
        return (
            say("formats.reading.inf", value=signed)
            if kind == "inf"
            else say("formats.reading.zero", value=signed)
        )
    said = {"sign": "−1" if minus else "+1", "bias": layout.bias, "value": value}
    part = {"mantissa": int(mantissa or "0", 2), "steps": 1 << layout.mantissa}
    if kind == "subnormal":
        return say("formats.reading.subnormal", **said, **part, first=1)
    said["field"] = int(exponent, 2)
    return (
        say("formats.reading.normal", **said, **part)
        if mantissa
        else say("formats.reading.normal_plain", **said)
    )
