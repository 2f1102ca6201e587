"""The table of a format's codes, the bits of a code as buttons, and the spelling of formats and values."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

import streamlit as st

from quantviz.schemes.formats import NumberFormat, entry_of
from quantviz.ui.components.code_bits import as_html, code_parts, show_bit_row
from quantviz.ui.components.small_parts import table_html
from quantviz.ui.formats.state import flip_bit
from quantviz.ui.shell.words import number, plain, say

#: Codes around the chosen one and at each end that are listed where not all are.
_AROUND = 12
_AT_ENDS = 2


def format_name(fmt: NumberFormat) -> str:
    return say(f"formats.{entry_of(fmt.id)}.name")


def value_words(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "−0" if math.copysign(1, value) < 0 else "0"
    rounded = math.isfinite(value) and float(f"{value:.9g}") != value
    return ("≈ " if rounded else "") + number(value, 9)


def show_codes(fmt: NumberFormat, code: int) -> None:
    """Show the table of codes, the chosen one marked."""
    from quantviz.quantization.format_facts import LISTED_BITS, code_name

    codes = listed_codes(fmt, code)
    if fmt.bits <= LISTED_BITS:
        title = say("formats.page.table_title", count=len(codes), name=format_name(fmt))
    else:
        title = say(
            "formats.page.table_title_part",
            name=format_name(fmt),
            code=code_name(fmt, code),
            shown=len(codes),
            count=f"{fmt.levels:,}",
        )
    with st.container(key="formats_table", gap="xsmall"):
        st.markdown(f"## {plain(title)}", help=say("formats.page.table_help"))
        heads = [say(f"formats.page.{name}") for name in ("code", "hex", "bits", "kind", "value")]
        heads += [say("formats.page.exactly")] if fmt.kind != "integer" else []
        table = table_html(heads, _rows(fmt, codes, code, len(heads)))
        st.html(f'<div class="qv-codes" tabindex="0">{table}</div>')


def listed_codes(fmt: NumberFormat, code: int) -> tuple[int, ...]:
    """Return the codes in the table: all of them, or those around `code` and at the ends, in the order of
    their numbers.

    >>> from quantviz.schemes.formats import FORMATS
    >>> listed_codes(FORMATS["int4"], 3) == tuple(FORMATS["int4"].codes)
    True
    >>> from quantviz.quantization.format_facts import code_name
    >>> [code_name(FORMATS["float16"], each) for each in listed_codes(FORMATS["float16"], 3)[-8:]]
    ['0x8000', '0x8001', '0xFBFE', '0xFBFF', '0xFC00', '0xFC01', '0xFFFE', '0xFFFF']
    """
    from quantviz.quantization.format_facts import LISTED_BITS, format_facts

    if fmt.bits <= LISTED_BITS:
        return tuple(fmt.codes)
    wanted = {*range(code - _AROUND, code + _AROUND + 1)}
    # Where one kind of code ends and the next begins, for each sign.
    half = 1 << (fmt.bits - 1)
    edges = [fmt.code_min, fmt.code_max + 1, *((0, half) if fmt.float_bits else (0,))]
    edges += list(format_facts(fmt).inf_codes)
    for edge in edges:
        wanted |= {*range(edge - _AT_ENDS, edge + _AT_ENDS)}
    return tuple(sorted(each for each in wanted if each in fmt.codes))


def _rows(fmt: NumberFormat, codes: tuple[int, ...], chosen: int, columns: int) -> Iterator[str]:
    before = None
    group = ""
    for code in codes:
        if before is not None and code != before + 1:
            left_out = say("formats.page.left_out", count=f"{code - before - 1:,}")
            yield f'<tr class="qv-group"><td colspan="{columns}">{html.escape(left_out)}</td></tr>'
        elif _group(fmt, code) != group:
            group = _group(fmt, code)
            yield f'<tr class="qv-group"><td colspan="{columns}">{html.escape(group)}</td></tr>'
        before = code
        yield _row(fmt, code, code == chosen)


def _group(fmt: NumberFormat, code: int) -> str:
    """Return the sentence on the codes of one exponent; "" where codes are not grouped."""
    from quantviz.quantization.format_facts import LISTED_BITS

    layout = fmt.float_bits
    if not layout or not layout.mantissa or fmt.bits > LISTED_BITS:
        return ""
    sign, exponent, _ = fmt.split(code)
    field = int(exponent, 2)
    minus = sign == "1"
    step = math.ldexp(1.0, max(field - layout.bias, layout.smallest_exponent) - layout.mantissa)
    shown = "−" if minus else "+"
    if field == 0:
        return say("formats.page.group_subnormal", sign=shown, step=number(step, 9))
    start = step * (1 << layout.mantissa) * (-1 if minus else 1)
    return say(
        "formats.page.group_normal", sign=shown, field=field, start=number(start, 9), step=number(step, 9)
    )


def _row(fmt: NumberFormat, code: int, chosen: bool) -> str:
    from quantviz.quantization.format_facts import code_kind, code_name

    bits = "".join(f'<i class="qv-{role}">{part}</i>' for role, part in code_parts(fmt, code))
    kind = code_kind(fmt, code)
    cells = [
        str(code).replace("-", "−"),
        code_name(fmt, code),
        bits,
        html.escape(say(f"formats.kinds.{kind}")),
        value_words(fmt.value(code)),
    ]
    if fmt.kind != "integer":
        cells.append(_exactly(fmt.value(code)))
    marked = ' class="qv-selected" aria-selected="true"' if chosen else ""
    return f'<tr data-code="{code}"{marked}>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _exactly(value: float) -> str:
    """Return a value as an odd number times a power of two, and as a fraction where that is short."""
    from quantviz.quantization.format_facts import odd_times_power

    if not value or not math.isfinite(value):
        return ""
    odd, power = odd_times_power(value)
    sign = "−" if odd < 0 else ""
    size = abs(odd)
    powers = f"{sign}{'' if size == 1 else f'{size} · '}2<sup>{str(power).replace('-', '−')}</sup>"
    return f"{powers} = {sign}{size}/{1 << -power}" if -12 <= power < 0 and size < 10000 else powers


def show_bits(fmt: NumberFormat, code: int) -> None:
    """Show a button for each bit, and the meaning of the bits."""
    from quantviz.quantization.format_facts import code_name

    title = as_html(f"**{say('formats.page.bits_title', code=code_name(fmt, code), name=format_name(fmt))}**")
    help_ = as_html(say("formats.page.bits_help"))
    show_bit_row(fmt, code, f"{title} <small>{help_}</small>", flip_bit)
