"""Raised hands: the boxes for counting them, and their bars.

The session keeps the counts of every step, and the address those of the step on the screen: there they
survive a reload.
"""

from __future__ import annotations

import html
import re
from functools import partial
from operator import setitem
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.answer_words import lettered, option_texts
from quantviz.teaching.lessons.formulas import Scenes
from quantviz.teaching.lessons.model import DIRECTIONS, ChoiceQuestion, DirectionQuestion, Question
from quantviz.ui.components.controls import Control, number_control, show_controls
from quantviz.ui.shell.words import language, say

#: The parameter of the address, and a count in it: question, attempt, kind of box, its number, and the hands.
PARAMETER = "hands"
_COUNT = re.compile(r"(\d{1,2}_\d{1,4}_(?:hands|sure)_\d)_(\d{1,3})")
_COUNTS = "hands_counted"


def _counts() -> dict[str, int]:
    return cast("dict[str, int]", st.session_state.setdefault(_COUNTS, {}))


def box(name: str, key: str) -> Control:
    """Return a box for the hands that are raised for the answer `name`."""
    now = _counts().get(key, 0)
    return number_control(key, name, now, partial(setitem, _counts(), key), lowest=0, highest=999)


def written(lesson: str | None, step: int) -> dict[str, str]:
    """Return the counts of a step as parameters of its address; empty without any."""
    of_step = f"answer_{lesson}_{step}_"
    parts = [
        f"{key.removeprefix(of_step)}_{count}"
        for key, count in _counts().items()
        if key.startswith(of_step) and count
    ]
    return {PARAMETER: "-".join(parts)} if parts else {}


def read(text: str, lesson: str | None, step: int) -> tuple[QuantVizError, ...]:
    """Take the counts of a step from its address, and return the error of one that is not readable."""
    parts = [_COUNT.fullmatch(part) for part in text.split("-")] if text else []
    if not all(parts):
        return (QuantVizError("lessons.hands", got=text[:40]),)
    _counts().update({f"answer_{lesson}_{step}_{part[1]}": int(part[2]) for part in parts if part})
    return ()


def show_hands(question: Question, scenes: Scenes, key: str, revealed: bool) -> None:
    """Show boxes for counting hands, and the counts as bars, the right one marked once revealed."""
    names = hand_names(question, scenes, revealed)
    with st.container(key=f"{key}_hands", gap="small"):
        if not names:
            st.caption(say("lessons.hands_later"))
            return
        boxes = [box(name, f"{key}_hands_{i}") for i, (name, _) in enumerate(names)]
        counts = [int(each.value) for each in boxes]
        letters = lettered(name for name, _ in names)
        for each, name, (_, right), count in zip(boxes, letters, names, counts, strict=True):
            label, beside = st.columns([3, 1], gap="small", vertical_alignment="center")
            label.html(_bar(name, right, count, sum(counts)))
            with beside:
                show_controls(f"{each.field}_box", None, each, look="qv-unnamed")


def hand_names(question: Question, scenes: Scenes, revealed: bool) -> list[tuple[str, bool]]:
    """Return the answers that hands can be raised for, and whether each is right, once that is revealed."""
    if isinstance(question, DirectionQuestion | ChoiceQuestion):
        truth = question.truth(scenes)
        right = DIRECTIONS.index(truth) if isinstance(truth, str) else truth
        return [
            (text, revealed and i == right)
            for i, text in enumerate(option_texts(question, scenes, language()))
        ]
    return [(say("lessons.hands_right"), True), (say("lessons.hands_wrong"), False)] if revealed else []


def _bar(name: str, right: bool, count: int, total: int) -> str:
    width = 100 * count / total if total else 0
    mark = " ✓" if right else ""
    text = f"{html.escape(name)}{mark}"
    return (
        f'<div class="qv-hands{" qv-right" if right else ""}">'
        f'<span style="width: {width:.1f}%"></span><b>{text}</b></div>'
    )
