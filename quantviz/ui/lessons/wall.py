"""Places and heights of the parts of a step's picture on a projector.

Heights are in pixels before the picture is enlarged, for a wall of 1280×720; a larger one is the same in
proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from quantviz.figures.arrangement import arrange
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.teaching.lessons.formulas import HERE
from quantviz.teaching.lessons.model import (
    CellQuestion,
    ChoiceQuestion,
    DirectionQuestion,
    DragQuestion,
    OrderQuestion,
)
from quantviz.ui.components.class_wall import running
from quantviz.ui.lessons.now import Now
from quantviz.ui.shell.classroom import LEAST_DIGIT, LESSON_WIDTH, classroom, enlarge_ruler

#: The parts of a picture, from top to bottom.
PARTS = ("scheme", "tiles", "panels", "ruler", "plot", "table")
#: The shares of the two columns, by the number of panels in the first.
_COLUMNS = {2: (7, 5)}
_EVEN = (1, 1)
#: How many times as wide as high panels are that take all the width, in pixels of a projector of 1280×720.
_FLAT = 8
_WALL_WIDTH = 1240
#: The height of tiles and a slider with a class's answers below such panels.
_BELOW_FLAT = 110
#: Factor of enlargement of a ruler with the whole width and no curve below it.
_ALONE = 1.25
#: The height of the picture of a step that asks nothing, and of one whose answers are bars below its question
#: of one line; and what a second line takes of it, a control in place of the bars, one of two lines, and what
#: commits a drag.
_BELOW_WORDS = 150
_BELOW_QUESTION = 178
_SECOND_LINE = 20
_CONTROL = 33
_TWO_LINES = 57
_COMMITTED = 8
#: The height that a class that is led leaves besides: no buttons below the answers, and no bars for a number
#: or a drag.
_LED = 30
_BARS_OF_CLASS = 30
#: The height of the figure of a class's answers.
_CLASS = 105
#: The height of two lines below it.
_SAID = 34
#: The heights of the parts that may stand with the panels: the switch between them, a line of the table, the
#: plot.
_SWITCH = 23
_LINE = 13
_PLOT = 86
#: Letters of a question that stand on one line; a letter from this code on is two wide.
_LETTERS = 58
_WIDE = 0x2E80
#: The heights of the panels' titles with the columns' numbers, and of colour bars; of a row of cells with
#: digits and all such rows at most, and of cells without digits at least.
_AROUND_CELLS = 43
_BARS = 24
_ROW_OF_DIGITS = 20
_MOST_OF_DIGITS = 80
_CELLS_WITHOUT_DIGITS = 30


def part_places(now: Now, panels: int) -> Mapping[str, Any]:
    """Return the container of each of `PARTS`: below each other, on a projector in two columns."""
    one = st.container(key="lesson_parts")
    if not classroom().projector or _is_alone(now) or _is_flat(now):
        return dict.fromkeys(PARTS, one)
    left, right = one.columns(_COLUMNS.get(panels, _EVEN), gap="small")
    # Beside panels stands the ruler; beside a ruler alone its numbers, and the sentences on its states.
    first: tuple[str, ...] = ("ruler",)
    if panels:
        first = ("panels", "table" if "table" in _shown(now) else "plot")
    return dict.fromkeys(PARTS, right) | dict.fromkeys(first, left)


def _shown(now: Now) -> frozenset[str]:
    return frozenset(now.step.show) - now.covered


def has_room_for_plot(now: Now) -> bool:
    """Return whether there is room for the plot: not on a projector with panels and a table."""
    both = "table" in _shown(now) and bool(now.step.show & set(PANEL_PARTS))
    return not (classroom().projector and both)


def _is_alone(now: Now) -> bool:
    return not now.step.show & set(PANEL_PARTS) and not _shown(now) & {"bits_plot", "table"}


def _is_flat(now: Now) -> bool:
    """Return whether the panels are far wider than high: they stand above all else at the full width."""
    state = now.scenes[HERE].state
    rows, cols = state.view.matrix(state.source.shape)
    return cols >= _FLAT * rows and bool(now.step.show & set(PANEL_PARTS))


def panels_width(now: Now) -> int:
    """Return the pixels of the panels' width on a projector of 1280×720."""
    return _WALL_WIDTH if _is_flat(now) else LESSON_WIDTH


def ruler_larger(now: Now) -> float | None:
    """Return the ruler's enlargement on a projector: more where it has all the room; else None."""
    roomy = _is_alone(now) and "curve" not in now.step.show and _height(now) >= _BELOW_WORDS
    return enlarge_ruler(LEAST_DIGIT * (_ALONE if roomy else 1))


def height_on_wall(now: Now, width: float, shape: tuple[int, int], panels: int) -> tuple[float, bool]:
    """Return the height of the panels in pixels, and whether there is room for colour bars: the height that
    the other parts leave, and never more than panels take elsewhere.
    """
    shown = _shown(now)
    others: list[float] = [_SWITCH if arrange(width, shape, panels=panels).name == "single" else 0]
    if "table" in shown and now.step.table:
        # A heading may take two lines, and there is a gap.
        others.append(_LINE * (len(now.step.table.rows) + 2.5))
    elif "bits_plot" in shown:
        others.append(_PLOT)
    if _is_flat(now):
        others.append(_BELOW_FLAT)
    room = _height(now) - sum(others)
    digits = _ROW_OF_DIGITS * shape[0]
    least = digits if digits <= _MOST_OF_DIGITS else _CELLS_WITHOUT_DIGITS
    # Where even cells without bars are too much, the lowest part is scrolled to.
    bars = room >= least + _AROUND_CELLS + _BARS
    least += _AROUND_CELLS + _BARS * bars
    return min(max(room, least), arrange(width, shape, panels=panels, bars=bars).height), bars


def asked_on_wall(now: Now) -> int | None:
    """Return the place of the question on the wall: the open one, else the last; None without any."""
    if there := running():
        id = there.stop.at.partition(".")[2]
        asked = [str(question.id) == id for question in now.step.questions]
        return asked.index(True) if any(asked) else None
    last = len(now.step.questions) - 1
    still_open = now.answers.index(None) if None in now.answers and not now.revealed else last
    return still_open if now.step.questions else None


def _height(now: Now) -> float:
    at = asked_on_wall(now)
    if at is None:
        return _BELOW_WORDS
    question = now.step.questions[at]
    letters = sum(2 if ord(sign) >= _WIDE else 1 for sign in question.ask.say(now.scenes))
    height = _BELOW_QUESTION - _SECOND_LINE * (letters > _LETTERS)
    if there := running():
        height += _LED - _SAID // 2 * there.few
        if isinstance(question, ChoiceQuestion | DirectionQuestion):
            return height
        height += _BARS_OF_CLASS
        if isinstance(question, DragQuestion) and (there.on_ruler or not there.rows):
            return height - _SAID // 2 * now.revealed
        return height - _CLASS * bool(there.rows) - _SAID * now.revealed
    if now.revealed:
        return height
    if isinstance(question, OrderQuestion | CellQuestion):
        return height - _TWO_LINES
    if isinstance(question, DragQuestion):
        return height - _COMMITTED
    if not isinstance(question, ChoiceQuestion | DirectionQuestion):
        # After a first try there is a line with the verdict on it.
        height -= _CONTROL + _SECOND_LINE * bool(now.tries[at])
    return height
