"""The plan of an hour: stops, each a place of the app with a question; in an address and in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import parse_qsl

from quantviz.browser.messages import Items, Number, Shape, Text, Whole
from quantviz.errors import QuantVizError
from quantviz.lab.classroom import read_prompt
from quantviz.lab.state import LabState
from quantviz.teaching.golf import HOLES
from quantviz.teaching.lessons import sound_lessons
from quantviz.teaching.lessons.answer_words import answer_words, drag_words, lettered, option_texts
from quantviz.teaching.lessons.drags import dragged
from quantviz.teaching.lessons.formulas import Scenes
from quantviz.teaching.lessons.model import DIRECTIONS, DirectionQuestion, LessonStep, Question
from quantviz.text import DEFAULT_LANGUAGE, languages, text

#: Kinds of questions of one's own, which stand over the Lab.
OWN = ("choice", "number", "drag")
#: Kinds of stops, with the page of each.
PAGES: Mapping[str, str] = MappingProxyType(
    {"lesson": "lessons", "lab": "lab", "layer": "layers", "bug": "bugs", "hole": "golf"}
    | dict.fromkeys(OWN, "lab")
)
#: A class looks at the wall alone, or each at its own phone.
WHERE = ("phones", "wall")
MOST_OPTIONS = 8
LONGEST_OPTION = 80
LONGEST = 4000
#: Characters of an answer that is a text: a scheme, or a state that was dragged.
LONGEST_ANSWER = 300
MOST_STOPS = 60
MOST_MINUTES = 90
_FILE = MappingProxyType({"quantviz": "plan", "version": 1})
#: Between stops, between the parts of one, and the sign before either where it is part of a word.
_BETWEEN, _WITHIN, _MARK = "~:!"
_ESCAPED = MappingProxyType({_MARK: "!m", _BETWEEN: "!s", _WITHIN: "!p"})
_MEANT = {form: sign for sign, form in _ESCAPED.items()}


@dataclass(frozen=True)
class Asked:
    #: A kind of `quantviz.teaching.lessons.model`, "scheme" of golf, or "" where nothing is asked.
    kind: str = ""
    options: int = 0
    #: Pairs of a language and the text in it.
    words: tuple[tuple[str, str], ...] = ()

    @property
    def answers(self) -> Shape | None:
        """Return the shape of an answer. Options count from 0."""
        shapes: Mapping[str, Shape] = {
            "choice": Whole(0, self.options - 1),
            "number": Number(),
            "cell": Items(Whole(0, 2**31), 1, 4),
            "order": Items(Whole(0, MOST_OPTIONS - 1), self.options, self.options),
            "drag": Text(LONGEST_ANSWER),
            "scheme": Text(LONGEST_ANSWER),
        }
        return shapes.get(self.kind)


@dataclass(frozen=True)
class Stop:
    #: A kind of `PAGES`.
    kind: str
    #: A lesson's id and, after a dot, its question's id or the number of a step; a bug's or a hole's id; else
    #: the query of the page's link.
    at: str = ""
    minutes: int = 5
    where: str = WHERE[0]
    #: A question of one's own, and its options where it is a choice.
    ask: str = ""
    options: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `QuantVizError` where there is no such stop. Reads the lessons."""
        if self.kind not in PAGES or self.where not in WHERE:
            known = ", ".join((*PAGES, *WHERE))
            raise QuantVizError("rooms.kind", got=f"{self.kind} {self.where}", known=known)
        if self.kind == "lesson" and not self._place:
            raise QuantVizError("rooms.lesson", got=self.at)
        if self.kind == "hole" and self.at not in HOLES:
            raise QuantVizError("golf.unknown_hole", got=self.at, known=", ".join(HOLES))
        if self.kind == "bug":
            from quantviz.teaching.gallery import find_bug  # needs torch

            find_bug(self.at)
        if not 1 <= self.minutes <= MOST_MINUTES:
            raise QuantVizError("rooms.minutes", got=self.minutes, most=MOST_MINUTES)
        if bool(read_prompt(self.ask)) is not (self.kind in OWN):
            raise QuantVizError("rooms.words", got=self.ask, kind=self.kind, known=", ".join(OWN))
        fits = all(0 < len(option) <= LONGEST_OPTION for option in self.options)
        wanted = range(2, MOST_OPTIONS + 1) if self.kind == "choice" else (0,)
        if not fits or len(self.options) not in wanted:
            got = len(self.options)
            raise QuantVizError("rooms.options", got=got, most=MOST_OPTIONS, longest=LONGEST_OPTION)

    @cached_property
    def _place(self) -> tuple[str, int, str] | None:
        """Return the lesson, the step from 0 and the id of the question, "" for none."""
        name, _, at = self.at.partition(".")
        lesson = sound_lessons().get(name)
        if lesson is None:
            return None
        if at.isascii() and at.isdigit() and len(at) < 4:
            return (name, int(at) - 1, "") if 1 <= int(at) <= len(lesson.steps) else None
        steps = (i for i, step in enumerate(lesson.steps) if at in [each.id for each in step.questions])
        return next(((name, i, at) for i in steps), None)

    @property
    def address(self) -> tuple[str, dict[str, str]]:
        query = {"bug": self.at} if self.kind == "bug" else dict(parse_qsl(self.at))
        if self.kind == "hole":
            query = {"hole": self.at}
        elif self.kind == "lesson" and self._place:
            query = {"l": self._place[0], "p": str(self._place[1] + 1)}
        elif self.ask:
            query["ask"] = self.ask
        return PAGES[self.kind], query

    @property
    def asked(self) -> Asked:
        """Return the question in each language: one of a lesson with its numbers."""
        if self.kind == "hole":
            names = ((each, text(f"golf.holes.{self.at}.name", each)) for each in languages())
            return Asked("scheme", 0, tuple(names))
        if self.kind != "lesson" or not self.step(DEFAULT_LANGUAGE)[1]:
            kind = self.kind if self.kind in OWN else ""
            return Asked(kind, len(self.options), tuple((each, self.ask) for each in languages()))
        words = []
        for language in languages():
            step, question = self.step(language)
            assert question
            words.append((language, question.ask.say(question.named_scenes(step.scenes()))))
        assert question
        if isinstance(question, DirectionQuestion):
            return Asked("choice", len(DIRECTIONS), tuple(words))
        options = len(getattr(question, "options", getattr(question, "items", ())))
        return Asked(question.kind, options, tuple(words))

    def step(self, language: str) -> tuple[LessonStep, Question | None]:
        """Return the step of a lesson and its question; `QuantVizError` where the stop is at none."""
        if self.kind != "lesson" or not self._place:
            raise QuantVizError("rooms.lesson", got=self.at)
        name, number, id = self._place
        lesson = sound_lessons(language)[name]
        return lesson.steps[number], lesson.question(number, id)


@lru_cache(maxsize=16)
def _asked_at(stop: Stop, language: str) -> tuple[Question, Scenes]:
    step, question = stop.step(language)
    assert question
    return question, step.scenes()


@lru_cache(maxsize=512)
def say_answer(stop: Stop, answer: Any, language: str) -> str:
    """Return an answer in words; "" for a text that is none."""
    with suppress(QuantVizError, ValueError, IndexError):
        if stop.kind == "lesson":
            question, scenes = _asked_at(stop, language)
            if stop.asked.kind == "choice":
                return lettered(option_texts(question, scenes, language))[int(answer)]
            return answer_words(question, answer, scenes, language)
        if stop.kind == "drag":
            start = LabState.read(stop.address[1])[0]
            return drag_words(dragged(start, answer), ("hi",), start.cell, language)
        return lettered(stop.options)[int(answer)] if stop.options else str(answer)
    return ""


@dataclass(frozen=True)
class Plan:
    """The stops of a class in their order.

    >>> plan = Plan((Stop("hole", "bell", 6, "wall"), Stop("number", "", 3, ask="1:1 or 2:1?")))
    >>> str(plan)
    'hole:bell:6:wall~number::3:phones:1!p1 or 2!p1?'
    """

    stops: tuple[Stop, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.stops) <= MOST_STOPS:
            raise QuantVizError("rooms.stops", got=len(self.stops), most=MOST_STOPS)

    def checked(self) -> Self:
        """Raise `QuantVizError` where a stop is none. Reads the lessons."""
        for number, stop in enumerate(self.stops, 1):
            try:
                stop.check()
            except QuantVizError as problem:
                raise QuantVizError("rooms.stop_of_plan", number=number, reason=problem) from None
        return self

    @property
    def minutes(self) -> int:
        return sum(stop.minutes for stop in self.stops)

    def __str__(self) -> str:
        return _BETWEEN.join(map(_write_stop, self.stops))

    @classmethod
    def read(cls, form: str) -> Self:
        """Return the plan of `str`; `QuantVizError` for any other text. Stops are not checked."""
        if len(form) > LONGEST:
            raise QuantVizError("link.too_long", longest=LONGEST)
        return cls(tuple(map(_read_stop, form.split(_BETWEEN))))

    @classmethod
    def parse(cls, form: str) -> Self:
        """Return the plan that somebody wrote: its stops are checked."""
        return cls.read(form).checked()

    def as_file(self) -> bytes:
        return json.dumps({**_FILE, "plan": str(self)}, ensure_ascii=False, indent=1).encode()

    @classmethod
    def of_file(cls, content: bytes) -> Self:
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            said = None
        form = said.get("plan") if isinstance(said, dict) and _FILE.items() <= said.items() else None
        if not isinstance(form, str):
            raise QuantVizError("rooms.file")
        return cls.parse(form)


def _write_stop(stop: Stop) -> str:
    parts = [stop.kind, stop.at, str(stop.minutes), stop.where, stop.ask, *stop.options]
    form = _WITHIN.join("".join(_ESCAPED.get(sign, sign) for sign in part) for part in parts)
    return form.rstrip(_WITHIN)


def _read_stop(form: str) -> Stop:
    parts = [re.sub(r"!.", lambda mark: _MEANT.get(mark[0], mark[0]), part) for part in form.split(_WITHIN)]
    kind, at, minutes, where, ask = (*parts[:5], *[""] * (5 - len(parts)))
    usual = Stop(kind)
    if minutes and not re.fullmatch(r"\d{1,3}", minutes, re.ASCII):
        raise QuantVizError("rooms.minutes", got=minutes, most=MOST_MINUTES)
    return Stop(kind, at, int(minutes or usual.minutes), where or usual.where, ask, tuple(parts[5:]))


def _of_lessons(*stops: tuple[str, int, str]) -> tuple[Stop, ...]:
    return tuple(Stop("lesson", at, minutes, where) for at, minutes, where in stops)


_FIRST_HOUR = _of_lessons(
    ("fewer_bits.half_are_left", 7, "phones"),
    ("range_to_grid.scale", 7, "wall"),
    ("symmetric.cost", 7, "wall"),
    ("rounding_against_clipping.least_error_int4", 8, "phones"),
    ("per_channel.which_axis", 8, "wall"),
    ("outliers.groups_against_bits", 8, "wall"),
)
#: The plans that come with the app, of 45 and of 90 minutes, by id.
PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        "single_hour": Plan(_FIRST_HOUR),
        "double_hour": Plan(
            (
                *_FIRST_HOUR,
                *_of_lessons(
                    ("per_group.a_quarter_of_the_error", 8, "phones"),
                    ("per_group.three_bits_or_four", 7, "wall"),
                    ("bits_and_sqnr.twenty_db", 6, "phones"),
                    ("four_bits.bell_winner", 6, "wall"),
                ),
                Stop("bug", "int8_difference_wraps", 6, "wall"),
                Stop("hole", "tails", 12, "phones"),
            )
        ),
    }
)
