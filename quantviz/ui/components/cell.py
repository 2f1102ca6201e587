"""The selected cell: one sentence with its numbers, its ruler, and every step."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.export.cell_words import derivation, sentence
from quantviz.figures.ruler_detail import RulerDetail
from quantviz.lab.state import LabState
from quantviz.schemes.granularity import Shape
from quantviz.sources import Source
from quantviz.ui.components.controls import place_controls, show_controls
from quantviz.ui.components.hand import show_ruler
from quantviz.ui.components.small_parts import table_html
from quantviz.ui.shell import session
from quantviz.ui.shell.words import language, say, shape_text

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.analysis.study import Study
    from quantviz.quantization.explanation import Explanation

#: The values alone, in all detail.
_PLAIN = RulerDetail()


def show_cell_inputs(state: LabState) -> None:
    """Show the cell's place as words in which row and column can be typed over."""
    place = state.view.place(state.cell) or (0, 0)
    with st.container(
        key="cell_inputs", horizontal=True, gap=None, wrap=False, width="content", vertical_alignment="center"
    ):
        st.markdown(say("cell.name"), width="content")
        names = {"cell_row": say("cell.row"), "cell_col": say("cell.column")}
        controls = place_controls(names, place, state.view.matrix(state.source.shape), _move)
        show_controls("cell_numbers", None, *controls, look="qv-unnamed")


def _move(axis: int, to: int) -> None:
    now = session.state()
    row, col = now.view.place(now.cell) or (0, 0)
    select(*((to, col) if axis == 0 else (row, to)))


def select(row: int, col: int) -> None:
    """Select the cell at `row`, `col` of the matrix in view, and move the window to show it."""
    now = session.state()
    shape = now.source.shape
    rows, cols = now.view.matrix(shape)
    if 0 <= row < rows and 0 <= col < cols:
        cell = now.view.index(row, col)
        session.look(now.view.showing(cell, shape), cell)


def show_sentence(why: Explanation, source: Source) -> None:
    """Show the sentence of a cell of the tensor of `source`; the browser writes it while a hand drags."""
    place = ",".join(map(str, why.index))
    st.html(
        f'<p class="qv-sentence" data-qv-sentence="{place}"><b>{html.escape(_place(why.index, source))}</b> '
        f"{html.escape(sentence(why, say))}</p>"
    )


def _place(index: Shape, source: Source) -> str:
    """Return the place of the cell in words; of a tensor seen as a matrix also the place in the tensor."""
    place = ", ".join(map(str, index))
    if source.original is source:
        return say("cell.place", place=place)
    return say(
        "cell.place_in",
        place=place,
        inner=", ".join(map(str, source.place_of(index))),
        shape=shape_text(source.original.shape),
    )


def show_cell_ruler(
    why: Explanation,
    study: Study,
    *,
    key: str,
    alone: bool = False,
    larger: float | None = None,
    detail: RulerDetail = _PLAIN,
    curve: RangeCurve | None = None,
) -> None:
    """Show the cell's block over the comb of its codes, the cell among its values; nothing of a cell that is
    left out. `alone` shows no other value, for where their codes are hidden. `larger` is as for `show_ruler`.
    `detail` are the parts besides the values, and `curve` is the error against the range.
    """
    if why.cause == "left_out":
        return
    from quantviz.figures.ruler_data import ruler_of_cell, ruler_sentence

    picture = replace(
        ruler_of_cell(study, why), rows=detail.rows, bell=detail.bell, stage=detail.stage, curve=curve
    )
    label = ruler_sentence(why, picture, study.qparams, language())
    show_ruler(picture.alone() if alone else picture, key=key, label=label, larger=larger)


def show_steps(why: Explanation) -> None:
    """Show every step, from the block's range to the error, with facts of block, grid and code."""
    with st.expander(say("cell.steps"), key="cell_steps"):
        st.html(steps_html(why))


def steps_html(why: Explanation, *, scrolls: bool = False) -> str:
    """Return every step as a table; one that `scrolls` in its own place is reached by the keyboard."""
    heads = [say(f"cell.{name}") for name in ("step", "line", "numbers", "gives")]
    focus = ' tabindex="0"' if scrolls else ""
    return f'<div class="qv-steps"{focus}>{table_html(heads, _rows(why))}</div>'


def _rows(why: Explanation) -> Iterator[str]:
    for line in derivation(why, say):
        words = html.escape(line.words)
        numbers = html.escape(line.numbers)
        if line.step is None:
            yield f'<tr class="qv-fact"><td>{words}</td><td colspan="3">{numbers}</td></tr>'
        else:
            code = html.escape(line.step.code_line)
            gives = f"<b>{line.gives}</b>"
            yield (
                f"<tr><td>{words}</td><td><code>{code}</code></td><td>{numbers}</td>"
                f"<td>{gives} <small>{line.step.dtype}</small></td></tr>"
            )
