"""The selected cell: one sentence with its numbers, a number line, and every step."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.numbers import digits_for
from quantviz.link import LabState
from quantviz.ui import session
from quantviz.ui.room import classroom, enlarge
from quantviz.ui.words import language, number, say, theme

if TYPE_CHECKING:
    from quantviz.explanation import Explanation, Step
    from quantviz.quantizer import QuantResult

#: The number line's text is smaller than the panels': on a projector it is enlarged once more.
_LINE_PROJECTED = 1.25


def show_cell_inputs(state: LabState) -> None:
    """Row and column by keyboard, for who does not click."""
    rows, cols = state.view.size(state.source.shape)
    row, col = state.view.seen(state.cell, state.source.shape) or (0, 0)
    with st.container(key="cell_inputs", horizontal=True, gap="small", wrap=False):
        st.number_input(say("cell.row"), 0, rows - 1, key=session.show("cell_row", row), on_change=session.safely(_move))
        st.number_input(say("cell.column"), 0, cols - 1, key=session.show("cell_col", col), on_change=session.safely(_move))


def _move() -> None:
    select(int(st.session_state["cell_row"]), int(st.session_state["cell_col"]))


def select(row: int, col: int) -> None:
    """Select the cell seen at `row`, `col`."""
    now = session.state()
    rows, cols = now.view.size(now.source.shape)
    if 0 <= row < rows and 0 <= col < cols:
        session.change(cell=now.view.index(row, col))


def sentence(why: Explanation) -> str:
    """The cell in one line: what its value went through, and what became of it.

    Numbers are rounded for reading; the steps below show them in full.
    """
    divide, shift = why.step("divide"), why.step("shift")
    rounded = why.step("round")
    assert divide
    assert rounded
    last = shift or divide
    before = _telling(divide.output, why, divide is last)
    parts = [say("cell.divide", x=number(why.x, digits_for(why.x, why.scale)), scale=number(why.scale), y=before)]
    if shift and why.zero_point:
        sign = "+" if why.zero_point > 0 else "−"
        parts[0] += say("cell.shift", y=before, sign=sign, zero_point=abs(why.zero_point), shifted=_telling(shift.output, why, True))
    parts.append(say("cell.tie" if why.tie else "cell.round", code=number(rounded.output, 8)))
    if why.cause == "clipped":
        parts.append(say("cell.clamp", code=why.q))
    parts.append(say("cell.value", x_hat=number(why.x_hat, digits_for(why.x_hat, why.scale))))
    told = " ".join(parts) + say("cell.error", error=number(why.error, signed=True), cause=say(f"causes.{why.cause}"))
    moved = why.step("zero_point_clamp")
    if moved:
        told += say("cell.zero_point_clamped", wanted=number(moved.inputs["zero_point"], 8), zero_point=number(why.zero_point, 8))
    return told


def _telling(y: float, why: Explanation, rounds: bool) -> str:
    """`y` with as many digits as it takes to round, as read, to the code that it became."""
    code = why.step("round")
    if not rounds or code is None or not math.isfinite(y):
        return number(y)
    digits = next((d for d in range(4, 10) if round(float(f"{y:.{d}g}")) == code.output and (float(f"{y:.{d}g}") % 1 == 0.5) == why.tie), 10)
    return number(y, digits) if abs(y) < 10**digits else number(y, 8)


def show_sentence(why: Explanation) -> None:
    """The sentence."""
    place = ", ".join(map(str, why.index))
    st.html(f'<p class="qv-sentence"><b>{html.escape(say("cell.place", place=place))}</b> {html.escape(sentence(why))}</p>')


def show_number_line(r: QuantResult, why: Explanation, width: float = 0) -> None:
    """The grid, x, and where it lands; `width` is the page's in pixels, where it is known."""
    from quantviz.figures.number_line import number_line_data, number_line_html

    st.html(
        number_line_html(
            number_line_data(r, why), language=language(), theme=theme(), enlarge=enlarge(width) * (_LINE_PROJECTED if classroom().projector else 1)
        )
    )


def show_steps(why: Explanation) -> None:
    """Every step, from the block's range to the error."""
    with st.expander(say("cell.steps"), key="cell_steps"):
        head = "".join(f"<th>{html.escape(say(f'cell.{name}'))}</th>" for name in ("step", "line", "numbers", "gives"))
        rows = "".join(_row(step) for step in why.steps)
        st.html(f'<div class="qv-steps"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>')


def _row(step: Step) -> str:
    words = say(f"steps.{step.key}")
    numbers = ", ".join(f"{name} = {number(value, 8)}" for name, value in step.inputs.items())
    cells = (words, f"<code>{html.escape(step.code_line)}</code>", html.escape(numbers), f"<b>{number(step.output, 8)}</b> <small>{step.dtype}</small>")
    return f"<tr><td>{html.escape(cells[0])}</td>" + "".join(f"<td>{cell}</td>" for cell in cells[1:]) + "</tr>"
