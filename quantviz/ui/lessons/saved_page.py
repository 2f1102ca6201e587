"""A step of a lesson as a page that works without a server: as its question finds it, without the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st
from markupsafe import Markup

from quantviz.figures.ruler_detail import RulerDetail
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.live.hand_words import Looks
from quantviz.teaching.lessons.formulas import HAND, HERE
from quantviz.ui.components.controls import as_html
from quantviz.ui.lessons.moving import TOLD, bell_of, curve_in_hand, ruler_of_step
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.picture import panels_of_step
from quantviz.ui.lessons.questions import lettered, option_texts
from quantviz.ui.shell.words import language, say, say_error, theme

if TYPE_CHECKING:
    from quantviz.live.standalone import LivePage


def offer_page(now: Now) -> None:
    """Show a button that saves a step as a page; its picture is a tensor's, no dial's."""
    page = page_of(now)
    st.download_button(
        say("below.page"),
        page.html,
        f"{now.place.lesson}_{now.place.step + 1}.html",
        key="lesson_to_page",
        on_click="ignore",
        disabled=page.problem is not None,
        help=say("lessons.page_help") if page.problem is None else say_error(page.problem),
    )


def page_of(now: Now) -> LivePage:
    """Return the page of a step whose picture is a tensor's, as long as its questions are open."""
    from quantviz.analysis.study import Study
    from quantviz.live.standalone import LivePage, LiveStep

    start = now.scenes[HERE]
    step = now.step
    # While its questions are open, and what a mark opens is seen.
    shown = step.show - step.hidden.difference(*map(step.opened_by_mark, step.questions))
    panels = [name for name in PANEL_PARTS if name in shown]
    detail = RulerDetail((), bell_of(now) if "bell" in shown else None, step.ruler)
    said = [step.words.say({**now.scenes, HAND: start})]
    for question in step.questions:
        answers = lettered(option_texts(question, now.scenes))
        said.append("\n".join((question.ask.say(now.scenes), *answers)))
    live = LiveStep(
        ruler_of_step(now, detail, bool(panels)),
        curve_in_hand(now, shown),
        step.show & TOLD <= shown and step.ruler != "slider",
        panels_of_step(now, start.state, panels, step.show - shown),
        shown,
        tuple(Markup(as_html(each)) for each in said),
    )
    study = Study.of_result(start.result)
    title = f"{now.lesson.title} · {step.title}"
    looks = Looks(language(), theme())
    return LivePage(study, title, start.state.cell, looks, bool(panels), step=live)
