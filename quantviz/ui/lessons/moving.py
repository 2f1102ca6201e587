"""The step's state after a learner's drags, and the ruler that shows it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.ruler_detail import GridRow, RulerDetail
from quantviz.lab.picture_parts import RULER_STAGES
from quantviz.lab.state import LabState
from quantviz.live.hand_payload import HandCurve, HandRuler, LessonRuler, Mark
from quantviz.teaching.lessons.drags import dragged, moved_by
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Scene
from quantviz.teaching.lessons.model import (
    CellQuestion,
    ChoiceQuestion,
    DragQuestion,
    NumberQuestion,
    Question,
)
from quantviz.teaching.lessons.progress import LearnerAnswer
from quantviz.ui.components import hand
from quantviz.ui.components.code_bits import show_bit_row
from quantviz.ui.components.controls import as_html
from quantviz.ui.lessons.now import Now
from quantviz.ui.shell import errors
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.words import language, say

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.quantization.explanation import Explanation

_MOVED = "lesson_in_hand"
_HAND = "lesson_hand"
#: Parts in the sentence of a ruler.
TOLD = frozenset({"q", "x_hat", "error"})
#: Most rows below the comb.
_MOST_ROWS = 3


def in_hand(now: Now) -> LabState:
    """Return the step's state after the learner's drags: from this session, else from the last answer."""
    start = now.scenes[HERE].state
    state = st.session_state.get(_MOVED, {}).get((now.id, now.attempt))
    if state is not None:
        return cast(LabState, state)
    of_questions = zip(now.step.questions, now.tries, strict=True)
    drags = [
        answer for question, tries in of_questions if isinstance(question, DragQuestion) for answer in tries
    ]
    return dragged(start, drags[-1].given) if drags else start


def has_moved(now: Now) -> bool:
    """Return whether the learner has moved something in this step; its questions come after that."""
    moved = (now.id, now.attempt) in st.session_state.get(_MOVED, {})
    return moved or any(now.tries)


def scene_in_hand(now: Now) -> Scene:
    """Return the state in hand with its computed results."""
    start = now.scenes[HERE]
    state = in_hand(now)
    if state == start.state:
        return start
    kept = start.kept.get("in hand")
    if not isinstance(kept, Scene) or kept.state != state:
        kept = start.kept["in hand"] = Scene(state)
    return kept


def show_hand_ruler(
    now: Now,
    study: Study,
    state: LabState,
    why: Explanation,
    *,
    chart: str,
    stamp: int,
    panels: bool,
    larger: float | None,
) -> None:
    """Show the ruler of a step whose learner can move something. `state` is the one in hand; `chart` and
    `stamp` are those of its panels; `larger` is as for `show_ruler`.
    """
    from quantviz.figures.ruler_data import ruler_of_cell, ruler_sentence

    shown = now.step.show - now.covered
    label = ""
    # Of sliders alone nothing is drawn on an axis.
    if not now.covered & TOLD and why.cause != "left_out" and now.step.ruler != "slider":
        picture = replace(ruler_of_cell(study, why), stage=now.step.ruler)
        label = ruler_sentence(why, picture, study.qparams, language())
    comes = "curve" in now.step.show & now.covered and not classroom().projector
    hand.show_hand(
        HandRuler(study, state, chart, stamp, label, curve_in_hand(now, shown)),
        key=_HAND,
        on_release=partial(_let_go, now),
        lesson=replace(
            ruler_of_step(now, ruler_detail(now, shown), panels),
            enlarge=larger,
            mark=_mark(now),
            curve_comes=comes,
        ),
    )


def ruler_of_step(now: Now, detail: RulerDetail, panels: bool) -> LessonRuler:
    """Return the options of the step's ruler below its `panels`, if it shows any."""
    drags = (each for each in now.step.questions if isinstance(each, DragQuestion))
    snaps = tuple(snap for each in drags for snap in each.snap)
    return LessonRuler(now.step.move, detail, panels, None, snap=snaps)


def curve_in_hand(now: Now, shown: Collection[str]) -> HandCurve | None:
    """Return the error against the range below the ruler, where it is among the parts `shown`."""
    return HandCurve(lower=_of_lower_end(now)) if "curve" in shown else None


def _of_lower_end(now: Now) -> bool:
    """Return whether a step's drag is about the lower end of a range whose ends move by themselves."""
    solutions = (question.solution for question in now.step.questions if isinstance(question, DragQuestion))
    return now.step.state.scheme.mode != "symmetric" and any("lo" in solution for solution in solutions)


def _mark(now: Now) -> Mark | None:
    """Return the mark of the open question, or of the last one that was marked."""
    last = now.open_question
    for i in reversed(range(len(now.tries)) if last is None else range(last + 1)):
        question = now.step.questions[i]
        blind = now.is_blind(i)
        if isinstance(question, DragQuestion) and (blind or now.mark(i) is not None):
            return Mark(question.marked_on, now.mark(i), asked=blind)
    return None


def _let_go(now: Now, message: Mapping[str, object]) -> None:
    if message.get("kind") == "mark" or (now.marks_now and not _is_free(now, message)):
        _keep_mark(now, message)
    else:
        _keep(now, message)


def _is_free(now: Now, message: Mapping[str, object]) -> bool:
    """Return whether a message is about a slider, which is independent of a mark on the axis."""
    mark = _mark(now)
    return mark is not None and mark.on == "axis" and message.get("kind") in ("format", "group")


def _keep_mark(now: Now, message: Mapping[str, object]) -> None:
    """Keep the place where the learner expects the answer. Before that the handle cannot be moved."""
    i = now.open_question
    at = message.get("at")
    fits = message.get("kind") == "mark" and isinstance(at, int | float) and math.isfinite(at)
    if fits and i is not None and now.mark(i) is not None:
        # A second tap, made before the page could show that the first one counts.
        return
    if i is None or not now.is_blind(i) or not fits:
        raise QuantVizError("hand.kind", got=str(message.get("kind"))[:40], known="mark")
    now.keep_mark(i, float(cast(float, at)))
    errors.clear()


def _keep(now: Now, message: Mapping[str, object]) -> None:
    state = moved_by(in_hand(now), message, now.step.move)
    st.session_state.setdefault(_MOVED, {})[(now.id, now.attempt)] = state
    errors.clear()


def turn_dial(now: Now, at: str) -> None:
    """Take the stop at which a hand has let go of the step's dial."""
    _keep(now, {"kind": "dial", "at": at})


def show_bits_in_hand(now: Now, state: LabState, why: Explanation) -> None:
    """Show the bits of the selected value's code: a flipped bit moves the value to the tooth of the new code.

    `state` is the one in hand. The bits reveal a code: they wait for the answer where that is the question.
    """
    if now.covered & TOLD or why.cause == "left_out":
        return
    from quantviz.quantization.format_facts import flipped

    fmt = state.scheme.number_format

    def flip(bit: int) -> None:
        present = scene_in_hand(now).why
        code = flipped(fmt, int(present.q), bit)
        if code is not None and math.isfinite(fmt.value(code)):
            value = fmt.value(code) * present.scale
            _keep(now, {"kind": "cell", "cell": list(state.cell), "value": value})

    show_bit_row(fmt, int(why.q), as_html(say("lessons.flip")), flip, numbers_only=True)


def bell_of(now: Now) -> tuple[float, float]:
    """Return mean and deviation of the step's values."""
    x = now.scenes[HERE].result.x.double()
    return float(x.mean()), float(x.std(correction=0))


# ---- other grids --------------------------------------------------------------------------------


def ruler_detail(now: Now, shown: Collection[str]) -> RulerDetail:
    """Return the parts of the step's ruler besides the values, of those that are `shown`."""
    return RulerDetail(_grid_rows(now), bell_of(now) if "bell" in shown else None, now.step.ruler)


def _grid_rows(now: Now) -> tuple[GridRow, ...]:
    """Return the rows below the ruler's comb: the grid from before, a wrong answer, and the right one."""
    rows = tuple(_rows(now))
    if RULER_STAGES.index(now.step.ruler) < RULER_STAGES.index("codes"):
        # Before the lessons on codes the rows show the range alone, without teeth.
        rows = tuple(replace(row, levels=()) for row in rows)
    if not classroom().projector:
        return rows[-_MOST_ROWS:]
    # A wall has room for the right grid, once it is revealed, but not with a curve or a slider.
    high = "curve" in now.step.show or {"bits", "group"} & set(now.step.move)
    return () if high else rows[-1:]


def _rows(now: Now) -> Iterator[GridRow]:
    start = now.scenes[HERE]
    own = scene_in_hand(now)
    # A dragged value changes the grid too, where it is the largest of its block.
    if own is not start and (start.state.scheme != own.state.scheme or _differ(start, own)):
        yield _grid(start, "before")
    for question, tries, settled in zip(now.step.questions, now.tries, now.settled, strict=True):
        shown = now.revealed or not (settled or now.once)
        if tries and shown and not question.judge(tries[-1].given, now.scenes).right:
            yield from _answered(now, question, tries[-1].given, own)
        if isinstance(question, DragQuestion) and now.revealed:
            yield _right(now, question, tries, own)


def _right(now: Now, question: DragQuestion, tries: Sequence[LearnerAnswer], own: Scene) -> GridRow:
    """Return the row of the right answer: the learner's own if it was right, since several may be right."""
    solution = question.named_scenes(now.scenes)[SOLUTION]
    if tries and question.judge(tries[-1].given, now.scenes).right:
        solution = Scene(dragged(now.scenes[HERE].state, tries[-1].given))
    if "value" in question.solution:
        return _value(solution, "right", own)
    return _grid(solution, "right")


def _answered(now: Now, question: Question, given: object, own: Scene) -> Iterator[GridRow]:
    words = say("lessons.rows.wrong")
    here = now.scenes[HERE]
    if isinstance(question, DragQuestion):
        state = dragged(here.state, str(given))
        if state.source != here.state.source:
            yield _value(Scene(state), "wrong", own)
        elif state.scheme != own.state.scheme:
            yield _grid(Scene(state), "wrong")
    elif isinstance(question, NumberQuestion) and question.draw:
        yield _number(here, question.draw, float(cast(float, given)), words)
    elif isinstance(question, ChoiceQuestion) and question.options[cast(int, given)].state:
        yield _grid(now.scenes[question.options[cast(int, given)].state], "wrong")
    elif isinstance(question, CellQuestion):
        place = cast("tuple[int, ...]", tuple(cast("tuple[int, ...]", given)))
        yield GridRow(words, "wrong", at=float(here.result.x[place]))


def _number(here: Scene, draw: str, given: float, words: str) -> GridRow:
    scale = here.why.scale
    zero_point = here.why.zero_point
    if draw == "value":
        return GridRow(words, "wrong", at=given)
    if draw == "code":
        return GridRow(words, "wrong", at=scale * (given - zero_point))
    scale, zero_point = (given, zero_point) if draw == "scale" else (scale, given)
    scheme = here.state.scheme
    codes = range(scheme.code_min, scheme.code_max + 1)
    return GridRow(words, "wrong", tuple(scale * (code - zero_point) for code in codes))


def _value(scene: Scene, tone: str, own: Scene) -> GridRow:
    """Return the row of a dragged value, on its own grid where the one in hand is another."""
    row = _grid(scene, tone)
    if _differ(scene, own):
        return replace(row, at=scene.why.x)
    return GridRow(row.words, tone, at=scene.why.x)


def _differ(one: Scene, other: Scene) -> bool:
    """Return whether two states have different grids in the selected cell's block."""
    return _grid(one, "before") != _grid(other, "before")


def _grid(scene: Scene, tone: str) -> GridRow:
    from quantviz.analysis.study import Study
    from quantviz.figures.ruler_data import ruler_of_cell

    picture = ruler_of_cell(Study.of_result(scene.result), scene.why)
    return GridRow(say(f"lessons.rows.{tone}"), tone, tuple(picture.levels.tolist()), picture.range)
