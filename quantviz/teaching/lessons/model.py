"""A lesson as data: steps with words, a state of the Lab, a table, and questions that formulas judge."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.teaching.lessons.close_enough import CellRule, Tolerance
from quantviz.teaching.lessons.dials import DIALS, DialState
from quantviz.teaching.lessons.drags import SOLVED_BY, can_be_dragged, dragged, solved
from quantviz.teaching.lessons.finger import FINGER, NEAR, pixels_off
from quantviz.teaching.lessons.formulas import (
    HAND,
    HERE,
    SOLUTION,
    START,
    Formula,
    Scene,
    Scenes,
    Words,
    quantities,
)

#: Most cells a side of a tensor whose cells a question can be about.
MOST_ASKED = 6
#: Parts of the picture that follow a hand and show how far it is from its goal.
READOUTS = frozenset({*TILE_PARTS, "q", "x_hat", "error", "scale", "curve"})
#: Changes of a number, in the order the answers stand.
DIRECTIONS = ("rises", "falls", "same")
#: Ways to go for a drag that misses its goal by little.
NEAR_WAYS = ("left", "right", "narrower", "wider")


# ---- questions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer and its feedback."""

    #: The wrong answer; its type depends on the kind of question.
    formula: Formula | CellRule | tuple[Formula, ...] | str
    says: Words


@dataclass(frozen=True)
class Verdict:
    """The judgement of an answer."""

    right: bool
    #: The feedback to a known mistake of the lesson; None for any other answer.
    diagnosis: str | None = None
    #: Of a drag, whether it is right only because a finger does not point more finely.
    by_finger: bool = False
    #: Of a drag that misses by little, the way to go, of `NEAR_WAYS`; else empty.
    near: str = ""


@dataclass(frozen=True)
class ComparedNumber:
    """One of the numbers that a question compares."""

    state: str
    number: Formula
    #: Its name in the question; None where it is called by its state.
    text: Words | None = None


def _of_state(state: str, name: str, text: Words | None = None) -> ComparedNumber:
    return ComparedNumber(state, Formula(name if state == HERE else f"{state}.{name}"), text)


def _same_quantity(formula: Formula) -> tuple[ComparedNumber, ...]:
    """Return the states of which a formula names the same quantity, the first that it names."""
    first = formula.named[0][1] if formula.named else ""
    every = tuple(
        _of_state(state, name) for state, name in formula.named if name == first and name in quantities()
    )
    return every if len(every) > 1 else ()


def _own_state(formula: Formula, *others: Formula) -> str:
    """Return the one state that a formula names and the `others` do not; `HERE` where it is not one."""
    states = {state for state, _ in formula.named}
    only = states.difference(*({state for state, _ in other.named} for other in others))
    return only.pop() if len(only) == 1 else HERE


@dataclass(frozen=True)
class Question:
    """The base of all kinds of question. A kind is added here: one class in `QUESTIONS`, its control in
    `ui/lessons/answering.py` and its words.
    """

    kind: ClassVar[str]
    #: Key of the kept answers: its permanent name in the lesson; in the old format its number in the step.
    id: str | int
    #: The step and the place in it where it stood before it had an id, from 0: kept answers are found by it.
    was: tuple[int, int] | None
    ask: Words
    #: The parts of the picture that are not shown before the answer.
    hidden: frozenset[str]
    mistakes: tuple[Mistake, ...]
    #: Words after a first wrong answer, before the second try; None if there is no second try.
    hint: Words | None
    #: Words after the answer, right or wrong.
    why: Words | None

    def truth(self, scenes: Scenes) -> Any:
        raise NotImplementedError

    def judge(self, answer: Any, scenes: Scenes) -> Verdict:
        raise NotImplementedError

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        """Return whether `answer`, which may come from anywhere, can be one to this question."""
        raise NotImplementedError

    def named_scenes(self, scenes: Scenes) -> Scenes:
        """Return the states that its words may name."""
        return scenes

    def compared(self, scenes: Scenes) -> tuple[ComparedNumber, ...]:
        """Return the two or more numbers that it compares, each of one state; else none."""
        return ()

    def state_told(self, scenes: Scenes) -> str:
        """Return the state that the right answer is about."""
        return HERE


@dataclass(frozen=True)
class DirectionQuestion(Question):
    """Does a number rise, fall or stay? Answers are of `DIRECTIONS`."""

    kind = "direction"
    before: Formula
    after: Formula

    def truth(self, scenes: Scenes) -> str:
        before = self.before.value(scenes)
        after = self.after.value(scenes)
        if math.isclose(before, after, rel_tol=1e-9):
            return "same"
        return "rises" if after > before else "falls"

    def compared(self, scenes: Scenes) -> tuple[ComparedNumber, ...]:
        pairs = ((self.before, self.after), (self.after, self.before))
        return tuple(ComparedNumber(_own_state(one, other), one) for one, other in pairs)

    def state_told(self, scenes: Scenes) -> str:
        return _own_state(self.after, self.before)

    def judge(self, answer: str, scenes: Scenes) -> Verdict:
        if answer == self.truth(scenes):
            return Verdict(True)
        for mistake in self.mistakes:
            if mistake.formula == answer:
                return Verdict(False, mistake.says.say(scenes))
        return Verdict(False)

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        return isinstance(answer, str) and answer in DIRECTIONS


#: Kinds of a number that can be drawn on the ruler.
DRAWN = ("value", "code", "scale", "zero_point")


@dataclass(frozen=True)
class NumberQuestion(Question):
    """How large? Answers are floats."""

    kind = "number"
    answer: Formula
    within: Tolerance
    unit: str
    #: The kind as which a wrong number is drawn on the ruler, one of `DRAWN`; empty to draw nothing.
    draw: str = ""

    def truth(self, scenes: Scenes) -> float:
        return float(self.answer.value(scenes))

    def compared(self, scenes: Scenes) -> tuple[ComparedNumber, ...]:
        return _same_quantity(self.answer)

    def judge(self, answer: float, scenes: Scenes) -> Verdict:
        if self.within.accepts(answer, self.truth(scenes)):
            return Verdict(True)
        near = [
            (abs(answer - value), i)
            for i, value in enumerate(self.mistaken(scenes))
            if self.within.accepts(answer, value)
        ]
        return Verdict(False, self.mistakes[min(near)[1]].says.say(scenes) if near else None)

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        return isinstance(answer, float) and math.isfinite(answer)

    def mistaken(self, scenes: Scenes) -> tuple[float, ...]:
        return tuple(
            float(mistake.formula.value(scenes))
            for mistake in self.mistakes
            if isinstance(mistake.formula, Formula)
        )


@dataclass(frozen=True)
class CellQuestion(Question):
    """Which cell? Answers are places, one number an axis."""

    kind = "cell"
    answer: CellRule

    def truth(self, scenes: Scenes) -> frozenset[tuple[int, ...]]:
        return self.answer.cells(scenes[HERE])

    def judge(self, answer: tuple[int, ...], scenes: Scenes) -> Verdict:
        if tuple(answer) in self.truth(scenes):
            return Verdict(True)
        for mistake in self.mistakes:
            assert isinstance(mistake.formula, CellRule)
            if tuple(answer) in mistake.formula.cells(scenes[HERE]):
                return Verdict(False, mistake.says.say(scenes))
        return Verdict(False)

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        shape = scenes[HERE].state.source.shape
        return (
            isinstance(answer, tuple)
            and len(answer) == len(shape)
            and all(type(i) is int and 0 <= i < n for i, n in zip(answer, shape, strict=True))
        )


@dataclass(frozen=True)
class Option:
    """One of the answers to choose from, and when it is the right one."""

    text: Words
    when: Formula
    says: Words
    #: The state whose grid is drawn on the ruler after this wrong choice; empty for none.
    state: str = ""


@dataclass(frozen=True)
class ChoiceQuestion(Question):
    """Which of these? Answers are numbers of options."""

    kind = "choice"
    options: tuple[Option, ...]

    def truth(self, scenes: Scenes) -> int:
        """Return the option that holds; `QuantVizError` unless it is exactly one."""
        holding = [i for i, option in enumerate(self.options) if option.when.holds(scenes)]
        if len(holding) != 1:
            raise QuantVizError("lessons.not_one_option", count=len(holding), ask=self.ask.text)
        return holding[0]

    def compared(self, scenes: Scenes) -> tuple[ComparedNumber, ...]:
        """Return each option's own number, else those of the right one."""
        by_subject = dict[tuple[str, str], ComparedNumber]()
        for option in self.options:
            if subject := option.when.subject:
                by_subject.setdefault(subject, _of_state(*subject, option.text))
        return (
            tuple(by_subject.values())
            if len(by_subject) > 1
            else _same_quantity(self.options[self.truth(scenes)].when)
        )

    def state_told(self, scenes: Scenes) -> str:
        right = self.options[self.truth(scenes)].when
        shared = all(option.when.subject == right.subject for option in self.options)
        return HERE if shared or not right.subject else right.subject[0]

    def judge(self, answer: int, scenes: Scenes) -> Verdict:
        right = answer == self.truth(scenes)
        return Verdict(right, None if right else self.options[answer].says.say(scenes))

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        return type(answer) is int and 0 <= answer < len(self.options)


@dataclass(frozen=True)
class OrderItem:
    """One of the things to put in order."""

    text: Words
    value: Formula


@dataclass(frozen=True)
class OrderQuestion(Question):
    """From the smallest to the largest. Answers are the items' numbers in that order."""

    kind = "order"
    items: tuple[OrderItem, ...]

    def truth(self, scenes: Scenes) -> tuple[int, ...]:
        return _sorted(tuple(item.value for item in self.items), scenes)

    def compared(self, scenes: Scenes) -> tuple[ComparedNumber, ...]:
        return tuple(ComparedNumber(_own_state(item.value), item.value, item.text) for item in self.items)

    def state_told(self, scenes: Scenes) -> str:
        return _own_state(self.items[self.truth(scenes)[0]].value)

    def judge(self, answer: tuple[int, ...], scenes: Scenes) -> Verdict:
        values = [self.items[i].value.value(scenes) for i in answer]
        if values == sorted(values):
            return Verdict(True)
        for mistake in self.mistakes:
            if isinstance(mistake.formula, tuple) and _sorted(mistake.formula, scenes) == tuple(answer):
                return Verdict(False, mistake.says.say(scenes))
        return Verdict(False)

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        return (
            isinstance(answer, tuple)
            and all(type(i) is int for i in answer)
            and sorted(answer) == list(range(len(self.items)))
        )


def _sorted(values: tuple[Formula, ...], scenes: Scenes) -> tuple[int, ...]:
    return tuple(sorted(range(len(values)), key=lambda i: values[i].value(scenes)))


@dataclass(frozen=True)
class DragQuestion(Question):
    """Drag it there. Answers are the learner's changes to the step's state: see `drags.drag_answer`."""

    kind = "drag"
    #: The condition of a right answer; bare names are quantities of the answer's state.
    right: Formula
    #: The right values, by the names of `drags.SOLVED_BY`.
    solution: Mapping[str, Formula]
    tolerance: Words
    #: The handles that can be moved, of `drags.HANDLES`.
    moves: tuple[str, ...]
    #: The places that the knobs snap to, of `drags.SNAPS`, if the question is about these.
    snap: tuple[str, ...] = ()

    @property
    def marked_on(self) -> str:
        """Where a learner marks the expected place: on a slider, or on the ruler's axis."""
        sliders = {"bits": "bits", "size": "group"}
        return next((sliders[name] for name in self.solution if name in sliders), "axis")

    def truth(self, scenes: Scenes) -> LabState:
        return self.named_scenes(scenes)[SOLUTION].state

    def judge(self, answer: str, scenes: Scenes) -> Verdict:
        tried = {**self.named_scenes(scenes), HERE: Scene(dragged(scenes[HERE].state, answer))}
        if self.right.holds_as_shown(tried):
            return Verdict(True)
        off = math.inf if self.pulled else pixels_off(tried[START], tried[HERE], tried[SOLUTION], self.moves)
        if abs(off) <= FINGER:
            return Verdict(True, by_finger=True)
        ways = NEAR_WAYS[:2] if "value" in self.solution else NEAR_WAYS[2:]
        near = ways[off > 0] if abs(off) <= NEAR else ""
        for mistake in self.mistakes:
            assert isinstance(mistake.formula, Formula)
            if mistake.formula.holds_as_shown(tried):
                return Verdict(False, mistake.says.say(tried), near=near)
        return Verdict(False, near=near)

    @property
    def pulled(self) -> bool:
        """Whether the browser pulls the value to the places that the question is about."""
        return "value" in self.solution and bool(self.snap)

    def takes(self, answer: Any, scenes: Scenes) -> bool:
        start = scenes[HERE].state
        try:
            names_scheme = isinstance(answer, str) and answer.startswith("s=")
            return names_scheme and can_be_dragged(start, dragged(start, answer), self.moves)
        except QuantVizError:
            return False

    def named_scenes(self, scenes: Scenes) -> Scenes:
        """Return the step's states, its own as `START` too, and the right one as `SOLUTION`."""
        start = scenes[HERE]
        if self.id not in start.kept:
            values = {name: float(formula.value(scenes)) for name, formula in self.solution.items()}
            by_hand = values.keys() & {"scale", "zero_point"}
            scale, zero = (start.why.scale, start.why.zero_point) if by_hand else (0.0, 0.0)
            start.kept[self.id] = Scene(solved(start.state, values, scale, zero))
        return {**scenes, START: start, SOLUTION: start.kept[self.id]}


QUESTIONS: Mapping[str, type[Question]] = MappingProxyType(
    {
        each.kind: each
        for each in (
            DragQuestion,
            DirectionQuestion,
            NumberQuestion,
            CellQuestion,
            ChoiceQuestion,
            OrderQuestion,
        )
    }
)


#: A formula in words that is about the selected cell.
_OF_CELL = re.compile(r"\{[^{}]*(?<![\w.])(?:x|q|x_hat|error|abs_error|error_share|zeroed|clipped)\b[^{}]*\}")
#: Words about its frame, in each language.
_OF_FRAME = re.compile(r"\bframed\b|带框")


# ---- steps and lessons --------------------------------------------------------------------------


@dataclass(frozen=True)
class StateTable:
    """States one below the other, and the numbers of each."""

    #: A row's name, and the state it is about.
    rows: tuple[tuple[Words, str], ...]
    #: A column's heading, and the formula, in which a bare name is the row's.
    columns: tuple[tuple[str, Formula], ...]


@dataclass(frozen=True)
class LessonStep:
    """One screen of a lesson."""

    title: str
    words: Words
    state: LabState
    #: The state in the picture when a question is put once more; its seed counts on.
    again: LabState | None
    show: frozenset[str]
    #: Other states that formulas and the table name.
    states: Mapping[str, LabState]
    table: StateTable | None
    questions: tuple[Question, ...]
    rule: Words | None
    #: Handles that can be moved, of `drags.HANDLES`.
    move: tuple[str, ...]
    #: How much of the ruler is drawn, of `quantviz.lab.picture_parts.RULER_STAGES`.
    ruler: str
    #: A remark on the notebooks, folded away.
    note: Words | None
    line: int

    def scenes(self, attempt: int = 0) -> dict[str, Scene]:
        """Return the step's states by name, computed at first use; at another `attempt` on other seeds."""
        base = self.again if attempt and self.again else self.state
        by_name = {HERE: Scene(_reseeded(base, attempt))}
        by_name[HAND] = by_name[HERE]
        for name, state in self.states.items():
            # A state with the step's own tensor goes along where that becomes another.
            along = base is not self.state and state.source == self.state.source
            start = state.replace(source=base.source, cell=base.cell, view=base.view) if along else state
            by_name[name] = Scene(_reseeded(start, attempt))
        for scene in by_name.values():
            if isinstance(scene.state, DialState):
                read = (by_name[name].state for name in DIALS[scene.state.dial].beside)
                beside = tuple((state.source, state.scheme) for state in read)
                scene.state = scene.state.replace(beside=beside)
        return by_name

    @property
    def speaks_of_cell(self) -> bool:
        """Whether its words are about the selected cell, or it can be moved."""
        texts = [(question.ask, question.why) for question in self.questions]
        every = [self.words, self.rule, *(words for pair in texts for words in pair)]
        return bool({"value", "flip"} & set(self.move)) or any(
            _OF_CELL.search(words.text) or _OF_FRAME.search(words.text) for words in every if words
        )

    @property
    def terms(self) -> tuple[tuple[str, bool], ...]:
        """The terms that its words and its remark mark, as `Words.terms`."""
        return self.words.terms + (self.note.terms if self.note else ())

    @property
    def hidden(self) -> frozenset[str]:
        """The parts not shown before the last answer, except those that a mark opens."""
        return frozenset().union(*(question.hidden for question in self.questions))

    def handle_of(self, question: Question) -> str:
        """Return the handle that messages on a question name: one that answers it, the first, or a dial."""
        answering = frozenset[str]()
        if isinstance(question, DragQuestion):
            answering = answering.union(*(SOLVED_BY[name] for name in question.solution))
        handle = next((name for name in self.move if name in answering), self.move[0])
        return self.state.dial if isinstance(self.state, DialState) else handle

    def opened_by_mark(self, question: Question) -> frozenset[str]:
        """Return the parts that a drag hides until the learner has marked the expected place."""
        if not isinstance(question, DragQuestion):
            return frozenset()
        others = (other.hidden for other in self.questions if other is not question)
        return (question.hidden & self.show & READOUTS).difference(*others)


def _reseeded(state: LabState, attempt: int) -> LabState:
    source: Any = state.source
    if not attempt or not hasattr(source, "seed"):
        return state
    return state.replace(source=dataclasses.replace(source, seed=source.seed + attempt))


@dataclass(frozen=True)
class Lesson:
    """A lesson in one language."""

    title: str
    summary: str
    steps: tuple[LessonStep, ...]
    format: int
    course: int

    def question(self, step: int, id: str | int) -> Question | None:
        """Return the question of this id, if there is one."""
        questions = self.steps[step].questions if step < len(self.steps) else ()
        return next((question for question in questions if question.id == id), None)

    def place_now(self, step: int, id: str | int) -> tuple[int, str | int]:
        """Return where a question kept as `id` of a step stands today."""
        for i, each in enumerate(self.steps):
            for question in each.questions:
                if question.id == id if isinstance(id, str) else question.was == (step, id):
                    return i, question.id
        return step, id
