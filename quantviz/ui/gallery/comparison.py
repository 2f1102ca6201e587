"""A bug compared: the two lines that differ, and what each makes of the tensor."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.sources.random import LARGEST_SEED
from quantviz.ui.components.choice import choose
from quantviz.ui.gallery.both_ways import Shown, panels_of_both, run_both_ways
from quantviz.ui.gallery.chart import ROWS, SIGNS, chart_key, row_name, show_chart
from quantviz.ui.gallery.program import given_words, mse_words, show_program
from quantviz.ui.gallery.state import GalleryState, change_state, own_seed, showing
from quantviz.ui.shell import session
from quantviz.ui.shell.words import plain, say

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug, Case


def _choices(state: GalleryState, bug: Bug, case: Case) -> None:
    """Show the choice of the bug, the tensor and its seed."""
    from quantviz.teaching.gallery import BUGS

    with st.container(key="gallery_choices", horizontal=True, gap="small", vertical_alignment="center"):
        choose(
            st.selectbox,
            say("bugs.page.bug"),
            tuple(BUGS),
            key=showing("gallery_bug", bug.id),
            on_change=session.safely(
                lambda: change_state(bug=st.session_state["gallery_bug"], case="", seed=None, cell=None)
            ),
            format_func=lambda name: f"{tuple(BUGS).index(name) + 1} · {say(f'bugs.{name}.name')}",
            label_visibility="collapsed",
        )
        cases = tuple(each.id for each in bug.cases)
        choose(
            st.segmented_control,
            say("bugs.page.tensor"),
            cases,
            # Its own key for each bug: the cases have other names.
            key=showing(f"gallery_case_{bug.id}", case.id),
            required=True,
            on_change=session.safely(
                lambda: change_state(case=st.session_state[f"gallery_case_{bug.id}"], seed=None, cell=None)
            ),
            format_func=lambda name: _case_name(bug, name),
            label_visibility="collapsed",
            width="content",
        )
        own = own_seed(case)
        if own is not None:
            st.markdown(say("bugs.page.seed"), width="content")
            st.number_input(
                say("bugs.page.seed"),
                0,
                LARGEST_SEED,
                key=showing("gallery_seed", own if state.seed is None else state.seed),
                step=1,
                on_change=session.safely(
                    lambda: change_state(seed=int(st.session_state["gallery_seed"]), cell=None)
                ),
                label_visibility="collapsed",
                width=130,
            )


def _case_name(bug: Bug, name: str) -> str:
    return say("bugs.page.random") if name == "random" else say(f"bugs.{bug.id}.cases.{name}")


def show_comparison(state: GalleryState) -> None:
    """Show the chosen bug: what people expect, the two lines, the two rows, the whole program."""
    shown = run_both_ways(state)
    _choices(state, shown.bug, shown.case)
    name = shown.bug.id
    note = _note(shown)
    with st.container(key="gallery_words"):
        st.markdown(f"{told_of_bug('belief', name)} &nbsp; {told_of_bug('happens', name)} {plain(note)}")
    show_both(shown)
    st.markdown(told_of_bug("practice", shown.bug.id))
    show_program(shown)


def _note(shown: Shown) -> str:
    if shown.case.id == "random":
        return say("bugs.page.random_bites") if bool(shown.lit.any()) else say("bugs.page.random_hides")
    return say(f"bugs.{shown.bug.id}.notes.{shown.case.id}")


def show_both(shown: Shown) -> None:
    """Show the two lines and the two rows of panels."""
    _two_lines(shown)
    for row, data in zip(ROWS, panels_of_both(shown), strict=True):
        show_chart(row, data, shown.cell, group=chart_key("correct"))
    st.caption(plain(say("bugs.page.colours")))


def _two_lines(shown: Shown) -> None:
    """Show the line that differs, both ways: what each gives at the cell, and what becomes of the tensor."""
    count, cells = int(shown.lit.sum()), shown.lit.numel()
    differ = say("bugs.page.differ", count=count, all=cells) if count else say("bugs.page.differ_none")
    rows = []
    for row, outcome, line in (
        ("correct", shown.correct, shown.bug.fixed),
        ("broken", shown.broken, shown.bug.broken),
    ):
        at = outcome.lines.index(line)
        mark = f'<b class="qv-{row}">{SIGNS[row]} {html.escape(row_name(row))}</b>'
        mse = html.escape(say("bugs.page.mse", mse=mse_words(outcome.mse))) + (
            f" · <b>{html.escape(differ)}</b>" if row == "broken" else ""
        )
        code = f"<code>{html.escape(line.code)}</code> → {html.escape(given_words(outcome, at, shown.place))}"
        rows.append(
            f"<tr><td>{mark}</td><td>{html.escape(say('bugs.page.line_number', line=at + 1))}</td>"
            f"<td>{code}</td><td>{mse}</td></tr>"
        )
    st.html(f'<div class="qv-steps qv-two"><table>{"".join(rows)}</table></div>')


def told_of_bug(what: str, bug: str) -> str:
    head = {
        "belief": say("bugs.page.belief"),
        "happens": say("bugs.page.happens"),
        "practice": say("bugs.page.practice"),
    }[what]
    return f"**{head}** {plain(say(f'bugs.{bug}.{what}'))}"
