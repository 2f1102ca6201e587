"""The bits of the first format's code as buttons."""

from __future__ import annotations

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.components.code_bits import as_html, show_bit_row
from quantviz.ui.formats.names import format_name
from quantviz.ui.formats.state import choose_code
from quantviz.ui.shell.words import say


def show_bits(fmt: NumberFormat, code: int) -> None:
    """Show a button for each bit, and the meaning of the bits."""
    from quantviz.quantization.format_facts import code_name

    title = as_html(f"**{say('formats.page.bits_title', code=code_name(fmt, code), name=format_name(fmt))}**")
    help_ = as_html(say("formats.page.bits_help"))
    show_bit_row(fmt, code, f"{title} <small>{help_}</small>", choose_code)
