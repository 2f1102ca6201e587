"""The whole program line by line, with the result of each line at the chosen cell."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.ui.components.small_parts import table_html
from quantviz.ui.gallery.both_ways import BugComparison
from quantviz.ui.shell.words import number, plain, say

if TYPE_CHECKING:
    import torch

    from quantviz.teaching.gallery import ProgramResult


def show_program(shown: BugComparison) -> None:
    """Show all lines of both programs, with the result of each at the cell."""
    st.markdown(
        f"## {plain(say('bugs.page.program', place=place_words(shown)))}\n\n"
        f"{plain(say('bugs.page.program_help'))}"
    )
    heads = ("", say("bugs.page.line"), say("bugs.page.given_correct"), say("bugs.page.given_broken"))
    rows = []
    for at, (good, bad) in enumerate(zip(shown.correct.lines, shown.broken.lines, strict=True)):
        codes = f"<code>{html.escape(good.code)}</code>"
        if good is not bad:
            codes = f'<b class="qv-correct">✓</b> {codes}<br>'
            codes += f'<b class="qv-broken">✗</b> <code>{html.escape(bad.code)}</code>'
        gives = [given_words(outcome, at, shown.place) for outcome in (shown.correct, shown.broken)]
        other = ' class="qv-broken"' if gives[0] != gives[1] else ""
        rows.append(
            f"<tr><td>{at + 1}</td><td>{codes}</td><td>{html.escape(gives[0])}</td>"
            f"<td{other}>{html.escape(gives[1])}</td></tr>"
        )
    st.html(f'<div class="qv-steps qv-program">{table_html(heads, rows)}</div>')


def place_words(shown: BugComparison) -> str:
    return ", ".join(map(str, shown.place))


def given_words(outcome: ProgramResult, at: int, place: tuple[int, ...]) -> str:
    """Return the result of a line in words, at the cell where it is a tensor."""
    return "; ".join(
        f"{name} = {_at_cell(value, outcome.x, place)}" for name, value in outcome.steps[at].items()
    )


def _at_cell(value: Any, x: torch.Tensor, place: tuple[int, ...]) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return _said(value.expand(x.shape)[place].item())
    return _said(value) if isinstance(value, int | float) else str(value)


def mse_words(value: float) -> str:
    # Two of them are compared: 186,443 against 1.573 is seen at once, 1.864e5 is not.
    return f"{value:,.0f}" if 1e4 <= value < 1e7 else _said(float(f"{value:.4g}"))


def _said(value: float) -> str:
    return "NaN" if value != value else number(value, 5)
