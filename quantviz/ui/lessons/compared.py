"""The numbers that a revealed question compares, side by side on the wall, with their errors in one colour
scale.
"""

from __future__ import annotations

import html

import streamlit as st

from quantviz.figures.raster import data_uri
from quantviz.figures.theme import THEMES
from quantviz.teaching.lessons.formulas import Scene
from quantviz.teaching.lessons.model import ComparedNumber, Question
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.lessons.now import Now
from quantviz.ui.shell.words import count_text, number, say, theme

#: From so many times the least on a number has words for it, and from so many these are whole.
_TIMES = 1.5
_WHOLE = 10


def asked_last(now: Now) -> Question | None:
    """Return the step's last question, which the wall shows once the answers are revealed."""
    return now.step.questions[-1] if now.step.questions else None


def compared_now(now: Now) -> tuple[ComparedNumber, ...]:
    """Return the numbers that the revealed question compares; none before that, and for another question."""
    question = asked_last(now)
    return question.compared(now.scenes) if question and now.revealed else ()


def show_compared(now: Now, compared: tuple[ComparedNumber, ...]) -> None:
    """Show each number with its name, how many times the least it is, and the errors behind it."""
    values = [each.number.value(now.scenes) for each in compared]
    least = min(values)
    # A difference in dB is a factor already, and codes have none.
    measured = least > 0 and not any("sqnr_db" in each.number.text for each in compared)
    scenes = [now.scenes[each.state] for each in compared]
    pictures, most = _errors(scenes) if "error" in now.step.show else ([""] * len(scenes), 0.0)
    parts = []
    for name, value, picture in zip(_names(now, compared), values, pictures, strict=True):
        more = f"<small>{html.escape(_times(value, least) if measured else '')}</small>"
        shown = f"<span>{html.escape(name)}</span><b>{number(value, 3)}</b>"
        parts.append(f"<figure>{shown}{more}{picture}</figure>")
    line = f"<p>{html.escape(say('lessons.one_scale', most=number(most, 3)))}</p>" if most else ""
    st.html(f'<div class="qv-compared">{"".join(parts)}</div>{line}')


def _times(value: float, least: float) -> str:
    """Return how many times the least a number is in words, from twice on."""
    times = value / least
    if times < _TIMES:
        return ""
    return say("lessons.times_least", times=count_text(round(times)) if times >= _WHOLE else number(times, 2))


def _errors(scenes: list[Scene]) -> tuple[list[str], float]:
    """Return the errors of each state as images in one colour scale, and its end; none of unlike tensors."""
    if len({(scene.state.source.shape, scene.state.view) for scene in scenes}) > 1 or scenes[0] is scenes[-1]:
        return [""] * len(scenes), 0.0
    shape = scenes[0].state.view.matrix(scenes[0].state.source.shape)
    errors = [scene.result.error.reshape(shape).numpy() for scene in scenes]
    most = max(float(abs(error).max()) for error in errors)
    if not most:
        return [""] * len(scenes), 0.0
    ramp = THEMES[theme()].errors
    return [f'<img alt="" src="{data_uri(error, -most, most, ramp)}">' for error in errors], most


def _names(now: Now, compared: tuple[ComparedNumber, ...]) -> list[str]:
    """Return the name of each: its own, else that of its state in the table, else what differs between the
    schemes.
    """
    if all(each.text for each in compared):
        return [each.text.say(now.scenes) for each in compared if each.text]
    if len({each.state for each in compared}) < len(compared):
        return [say("lessons.rows.before"), say("lessons.rows.after")]
    rows = {state: words for words, state in now.step.table.rows} if now.step.table else {}
    if all(each.state in rows for each in compared):
        return [rows[each.state].say(now.scenes) for each in compared]
    states = [now.scenes[each.state].state for each in compared]
    parts = [scheme_words(state.scheme, state.source).split(" · ") for state in states]
    common = set(parts[0]).intersection(*parts)
    names = [" · ".join(part for part in of_one if part not in common) for of_one in parts]
    return names if all(names) else [say("lessons.rows.before"), say("lessons.rows.after")]
