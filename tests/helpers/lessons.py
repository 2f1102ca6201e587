"""Answers to the questions of lessons, and the words that a learner reads in them."""

import contextlib
import itertools
import re

from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError
from quantviz.figures.ruler_data import ruler_of_cell
from quantviz.teaching.lessons.drags import drag_answer, moved_by
from quantviz.teaching.lessons.finger import AXES, NEAR, axis_of
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, quantities
from quantviz.teaching.lessons.model import CellQuestion, DragQuestion


def right_answer(question, scenes):
    """The right answer, as it is kept."""
    truth = question.truth(scenes)
    if isinstance(question, CellQuestion):
        return min(truth)
    return drag_answer(scenes[HERE].state, truth) if isinstance(question, DragQuestion) else truth


def words_of(step):
    """All words of a step but for the folded remark: its own, its rule's, its table's and its questions'."""
    yield from filter(None, (step.words, step.rule))
    yield from (words for words, _ in step.table.rows) if step.table else ()
    for question in step.questions:
        yield from words_of_question(question)


def words_of_question(question):
    """All words of a question: asked, hinted at, and told after an answer."""
    words = [question.ask, question.hint, question.why, getattr(question, "tolerance", None)]
    words += [each.says for each in question.mistakes]
    words += [each for option in getattr(question, "options", ()) for each in (option.text, option.says)]
    words += [item.text for item in getattr(question, "items", ())]
    return [each for each in words if each and each.text]


def read_plainly(words):
    """Words without their marks, with a 1 in place of each number.

    >>> from quantviz.teaching.lessons.formulas import Words
    >>> read_plainly(Words("**[[scale|scales]]** of a [[zero_point]]: {scale|3}"))
    'scales of a zero point: 1'
    """
    text = re.sub(r"\{[^{}]*\}", "1", words.text)
    found = re.sub(r"\[\[(\w+)(?:\|([^\]]+))?\]\]", lambda m: m[2] or m[1].replace("_", " "), text)
    return found.replace("**", "")


def goal_moved(step, question, scenes, end, by):
    """The answer of a hand that stands `by` pixels of a phone from the goal with one end of what it holds."""
    start, goal = scenes[HERE], question.named_scenes(scenes)[SOLUTION]
    lo, hi = axis_of(start, step.move)
    # A float32 is not exactly where a pixel is.
    by *= (1 - 1e-5) * (hi - lo) / AXES[390]
    if "value" in question.solution:
        message = {"kind": "cell", "cell": list(start.state.cell), "value": goal.why.x + by}
    elif "scale" in question.solution:
        # By its last tooth, which takes the scale along least for a pixel.
        last = float(ruler_of_cell(Study.of_result(goal.result), goal.why).levels[-1]) / goal.why.scale
        message = {"kind": "given", "scale": goal.why.scale + by / last, "zero_point": 0}
    else:
        ends = {name: quantities()[f"range_{name}"](goal) for name in ("lo", "hi")}
        ends[end] += by
        if start.state.scheme.mode == "symmetric":
            ends["lo"] = -ends["hi"]
        message = {"kind": "range", **ends}
    return drag_answer(start.state, moved_by(start.state, message, step.move))


def judged_around(step, question):
    """The verdicts by their pixels of a phone from a place on the axis that a drag is to find, for each side
    of it and each end that a hand can hold; none for a drag of another kind.
    """
    if question.pulled or not question.solution.keys() & {"lo", "hi", "value", "scale"}:
        return []
    scenes, found = step.scenes(), []
    for end, side in itertools.product(("lo", "hi") if "lo" in question.solution else ("hi",), (-1, 1)):
        verdicts = {}
        with contextlib.suppress(QuantVizError):  # beyond where a hand can go
            for by in range(2, NEAR + 1, 2):
                given = goal_moved(step, question, scenes, end, side * by)
                verdicts[by] = question.judge(given, scenes)
        found.append(verdicts)
    return found
