"""The title line: the place in the tensor, down to the cell, the hint, and Share, undo, redo and the rest."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import streamlit as st

from quantviz.checkpoints.offered import as_link
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import ALL_RECIPES, recipe_name
from quantviz.text import visible as spelled_out
from quantviz.ui.components.cell import show_cell_inputs
from quantviz.ui.components.controls import show_undo
from quantviz.ui.components.lesson_place import go
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lab.bars.scheme_bar import further_changes
from quantviz.ui.lab.from_map import open_place
from quantviz.ui.lab.learning import learn, terms_of
from quantviz.ui.lab.picture.tensor_panels import block_words, show_error_choices, show_value_choices
from quantviz.ui.shell import origin, session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.classroom import classroom, visible
from quantviz.ui.shell.origin import MapPlace, StepOrigin
from quantviz.ui.shell.words import language, number, plain, say

#: Characters of a tensor's name that the line has room for; the sidebar shows all of it.
_LONGEST_NAME = 40


def tensor_name(state: LabState) -> str:
    """Return the tensor's name: in the model, of the scenario it began as, or of its source."""
    edits = len(state.source.edits)
    place = origin.map_place(state)
    if place:
        name = spelled_out(place.tensor.name)
        key = "sources.edited.title_one" if edits == 1 else "sources.edited.title"
        return say(key, name=name, count=edits) if edits else name
    scenario = origin.scenario(session.state())
    if scenario and not edits:
        return say(f"scenarios.{scenario}.name")
    return state.source.title(language())


def show_title(state: LabState) -> Any:
    """Show the line; return the place for *Share*, None where a teacher has hidden all of it."""
    share = None
    with st.container(key="title", horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(key="crumbs", horizontal=True, vertical_alignment="center", gap="xxsmall"):
            _model_crumb(state)
            _crumbs(state)
        with st.container(key="cell_place"):
            show_cell_inputs(state)
        _show_worst(state)
        # Further changes of a choice take the hint's place, so that nothing below moves.
        changes = further_changes(state)
        if changes:
            st.caption(plain(changes), width="stretch")
        else:
            st.markdown(plain(_hint(state)), width="stretch")
        with st.container(
            key="title_actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        ):
            way_back = session.way_back(state)
            if way_back:
                _back_to_the_lesson(way_back)
            if visible("actions") or visible("below"):
                share = st.popover(say("lab.share"), key="share", type="primary", on_change="rerun")
            if visible("actions"):
                show_undo(session.OWNER)
            if visible("actions") or visible("x") or visible("x_hat") or visible("error"):
                words = say("lab.more")
                icon = ":material/more_horiz:"
                more = st.popover(words, key="more", icon=icon, help=words, on_change="rerun")
                if more.open:
                    with more:
                        _more(state)
    return share


#: The controls whose links are in their help, and those of *More*.
_HELPED = ("format", "bits", "mode", "granularity", "convention", "value_scale", "error")


def _more(state: LabState) -> None:
    """Show the controls that are rarely needed."""
    if visible("actions"):
        show_button(say("lab.reset"), "reset", session.reset, help=say("lab.reset_help"))
    if visible("x") or visible("x_hat"):
        show_value_choices(state)
    if visible("error"):
        show_error_choices(state)
    # For users of the keyboard, who cannot reach the text of a help.
    st.caption(learn(*(term for control in _HELPED for term in terms_of(control))))


def _model_crumb(state: LabState) -> None:
    """Lead back to the map of the model that the tensor is of."""
    file = state.source.original.checkpoint
    if classroom().hidden or classroom().locked or not (origin.map_place(state) or file):
        return
    st.page_link(
        "pages/explore/checkpoints.py",
        label=say("lab.model"),
        query_params={"f": as_link(file)} if file else None,
        help=say("lab.model_help"),
    )


def _show_worst(state: LabState) -> None:
    """Show the tensor's place among the worst of its model, and the ways to those beside it."""
    place = origin.map_place(state)
    if place is None or len(place.walk.tensors) < 2 or classroom().hidden or classroom().locked:
        return
    st.html(Path(__file__).with_name("map_walk.css"))
    with st.container(
        key="map_walk", horizontal=True, gap=None, width="content", vertical_alignment="center"
    ):
        _beside_button(place, "worse", -1)
        words = say("lab.worst.place", place=place.at + 1, count=len(place.walk.tensors))
        st.html(f'<span class="qv-worst">{html.escape(words)}</span>', width="content")
        _beside_button(place, "next", 1)


def _beside_button(place: MapPlace, name: str, by: int) -> None:
    """Show the button that opens the tensor so many places further among the worst."""
    beside = place.beside(by)
    about = None
    if beside is not None:
        recipe = place.walk.recipe
        about = say(
            f"lab.worst.{name}_help",
            tensor=plain(beside.tensor.name),
            db=number(beside.tensor.sqnr_db, 3),
            recipe=recipe_name(recipe, language(), short=True) if recipe in ALL_RECIPES else plain(recipe),
        )
    icon = ":material/chevron_left:" if by < 0 else ":material/chevron_right:"
    label = say(f"lab.worst.{name}")
    show_button(label, f"walk_{name}", open_place, beside, icon=icon, disabled=beside is None, help=about)


def _shortened(state: LabState, name: str) -> str:
    """Return a name as the line has room for it: tensors of a file differ at the ends of their names."""
    if len(name) <= _LONGEST_NAME:
        return name
    if origin.map_place(state) or state.source.original.checkpoint:
        return f"…{name[1 - _LONGEST_NAME :]}"
    return f"{name[: _LONGEST_NAME - 1]}…"


def _crumbs(state: LabState) -> None:
    """Show the way from the page to the block; the cell's own place follows as inputs."""
    name = tensor_name(state)
    short = _shortened(state, name)
    # As HTML: a file's name is untrusted text, and Markdown would make links of texts that look like one.
    st.html(
        f'<h1 class="qv-crumbs"><span class="qv-page">{html.escape(say("pages.lab"))}</span>'
        f'<bdi title="{html.escape(name)}"><b>{html.escape(short)}</b></bdi>'
        f'<span class="qv-block">{html.escape(_block(state))}</span></h1>'
    )


def _block(state: LabState) -> str:
    """Return the place of the cell's block in words, by the axes in view."""
    shape = state.source.shape
    if state.scheme.problems(shape):
        return ""
    layout = state.scheme.layout(shape)
    if layout.block_count == 1:
        return say("lab.one_block")
    block = layout.block_of(state.cell, shape)
    if layout.view_shape != shape:  # a run of the flattened tensor
        return say("lab.run", number=", ".join(map(str, block)))
    return block_words(layout, shape, state.view, block)


def _hint(state: LabState) -> str:
    """Return the hint on what to look for, or the lesson's step that led here; empty in a teacher's link."""
    if classroom().hidden or classroom().locked:
        return ""
    step = session.lesson_step(state)
    if step:
        return say("lab.from_lesson", step=step.step + 1, lesson=_lesson_title(step.lesson))
    name = origin.scenario(session.state())
    if name is None:
        return say("lab.hint")
    look = say(f"scenarios.{name}.look")
    if state.source.edits:
        return say("lab.edited", look=look)
    return look if state.scheme == SCENARIOS[name].scheme else say("lab.at_the_start", look=look)


def _lesson_title(name: str) -> str:
    from quantviz.teaching.lessons import lessons
    from quantviz.teaching.lessons.model import Lesson

    found = lessons(language()).get(name)
    return found.title if isinstance(found, Lesson) else name


def _back_to_the_lesson(step: StepOrigin) -> None:
    about = say("lab.back_to_lesson_help", step=step.step + 1)
    show_button(say("lab.back_to_lesson"), "back_to_lesson", _go_back, step, help=about)


def _go_back(step: StepOrigin) -> None:
    go(step.lesson, step.step)
    turn_to("pages/learn/lessons.py")
