"""The plan of a class on paper: its questions with their pictures, and on a last page the answers."""

from __future__ import annotations

import html
import re

import streamlit as st

from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.rooms.plan import Plan, Stop
from quantviz.teaching.lessons.formulas import HERE, Scenes
from quantviz.teaching.lessons.model import LessonStep
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lessons.questions import lettered, option_texts, truth_told
from quantviz.ui.shell.words import language, say

#: In the session: whether the paper is shown.
_PAPER = "teacher_paper_shown"
_PRINT = """<script data-turn="{turn}">
setTimeout(() => window.print(), 600);
</script>"""


def show_print() -> None:
    """Show the button that shows the paper and prints it."""
    turn = st.session_state.get(_PAPER, 0) + 1
    show_button(
        say("teacher.paper.print"),
        "teacher_print",
        lambda: st.session_state.update({_PAPER: turn}),
        help=say("teacher.paper.help"),
    )


def show_paper(plan: Plan) -> None:
    """Show the paper below the page once it was asked for, and have the browser print it."""
    turn = st.session_state.get(_PAPER)
    if not turn:
        return
    with st.container(key="teacher_paper"):
        st.html(paper_html(plan))
        st.html(_PRINT.format(turn=turn), unsafe_allow_javascript=True)


def paper_html(plan: Plan) -> str:
    """Return the questions of a plan as HTML, several on a page, and their answers on one of their own."""
    asked, answers = [], []
    for number, stop in enumerate(plan.stops, 1):
        parts, answer = _stop_on_paper(stop)
        if parts:
            asked.append(f'<section class="qv-asked"><h3>{number} · {parts}</section>')
        if answer:
            answers.append(f"<li><b>{number}</b> {answer}</li>")
    head = html.escape(say("teacher.paper.answers"))
    last = f'<section class="qv-paper-answers"><h2>{head}</h2><ul>{"".join(answers)}</ul></section>'
    return f'<div class="qv-paper">{"".join(asked)}{last if answers else ""}</div>'


def _stop_on_paper(stop: Stop) -> tuple[str, str]:
    """Return the words and the picture of a stop that asks something, and its answer; both as HTML."""
    if stop.kind != "lesson":
        return (_asked(stop.ask, "", stop.options), "") if stop.ask else ("", "")
    step, question = stop.step(language())
    if question is None:
        return "", ""
    scenes = step.scenes()
    ask = question.ask.say(question.named_scenes(scenes))
    parts = _asked(ask, _picture(step, scenes), option_texts(question, scenes))
    rule = step.rule.say(scenes) if step.rule else ""
    return parts, " · ".join(filter(None, (_inline(truth_told(question, scenes)), html.escape(rule))))


def _asked(ask: str, picture: str, options: tuple[str, ...] | list[str]) -> str:
    items = "".join(f"<li>▢ {_inline(text)}</li>" for text in lettered(options))
    sure, guess = (html.escape(say(f"teacher.paper.{name}")) for name in ("sure", "guess"))
    line = f'<p class="qv-line">▢ {sure} &emsp; ▢ {guess}</p>'
    return f"{_inline(ask)}</h3>{picture}<ul>{items}</ul>{line}"


def _inline(words: str) -> str:
    """Return a lesson's words, Markdown of one line, as HTML."""
    return re.sub(r"\*\*(.+?)\*\*|`(.+?)`|\*(.+?)\*", r"\1\2\3", html.escape(words).replace("\\", ""))


def _picture(step: LessonStep, scenes: Scenes) -> str:
    """Return the parts of a step's picture that are seen before its answer."""
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import as_picture, result_panels
    from quantviz.figures.paper import panels_on_paper, ruler_on_paper
    from quantviz.figures.ruler_data import ruler_of_cell

    scene = scenes[HERE]
    shown = step.show - step.hidden
    parts = ""
    panels = [name for name in PANEL_PARTS if name in shown]
    if panels:
        data = result_panels(scene.result, view=scene.state.view).only(panels)
        if scene.state.source.picture:
            data = as_picture(data, symmetric=scene.state.scheme.mode == "symmetric")
        parts += panels_on_paper(data, {name: say(f"panels.field.{name}") for name in panels})
    if "number_line" in shown and step.ruler != "slider" and scene.why.cause != "left_out":
        study = Study.of_result(scene.result)
        parts += ruler_on_paper(ruler_of_cell(study, scene.why))
    return parts
