"""The questions of a lesson's file, with the line of each mistake."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quantviz.lab.state import LabState
from quantviz.teaching.lessons.blocks import BlockReader, LessonBlock
from quantviz.teaching.lessons.close_enough import CellRule, Tolerance
from quantviz.teaching.lessons.drags import SNAPS, SOLVED_BY
from quantviz.teaching.lessons.formulas import SOLUTION, START, Formula, Words
from quantviz.teaching.lessons.model import (
    DIRECTIONS,
    DRAWN,
    MOST_ASKED,
    QUESTIONS,
    CellQuestion,
    DragQuestion,
    Mistake,
    Option,
    OrderItem,
    Question,
)

_SHARED_FIELDS: Mapping[str, type] = MappingProxyType(
    {
        "kind": str,
        "id": str,
        "ask": str,
        "hidden": list,
        "was": list,
        "hint": str,
        "why": str,
        "mistakes": list,
    }
)
_FIELDS: Mapping[str, Mapping[str, type]] = MappingProxyType(
    {
        "drag": {"right": str, "solution": dict, "tolerance": str, "snap": list},
        "direction": {"before": str, "after": str},
        "number": {"answer": str, "within": str, "unit": str, "draw": str},
        "cell": {"answer": str},
        "choice": {"options": list},
        "order": {"items": list},
    }
)
_OPTIONAL = ("unit", "draw", "snap")
#: The field by which a mistake is recognized, and its type.
_MISTAKE_KEYS: Mapping[str, tuple[str, type]] = MappingProxyType(
    {
        "drag": ("when", str),
        "direction": ("given", str),
        "number": ("value", str),
        "cell": ("cells", str),
        "order": ("values", list),
    }
)


@dataclass(frozen=True)
class _Fields:
    """The checked fields of a question's block, and the states that its formulas may name."""

    reader: BlockReader
    block: LessonBlock
    raw: Mapping[str, Any]
    states: Collection[str]

    def words(self, key: str) -> Words:
        return self.reader.read((self.raw[key], self.block.line_of(key)), Words.read, self.states)

    def formula(self, key: str) -> Formula:
        return self.reader.read((self.raw[key], self.block.line_of(key)), Formula.read, self.states)


class QuestionReader(BlockReader):
    """Reads the questions of one file."""

    def question(
        self,
        block: LessonBlock,
        states: Collection[str],
        state: LabState,
        show: frozenset[str],
        move: tuple[str, ...],
        number: int | None,
    ) -> Question:
        # `number` is its number in the step, in a format without ids.
        raw = self.toml(block)
        kind = str(raw.get("kind"))
        if kind not in QUESTIONS:
            raise self.wrong(
                block.line_of("kind"), "lessons.unknown_kind", got=raw.get("kind"), known=", ".join(QUESTIONS)
            )
        own = _FIELDS[kind]
        required = ("ask", "hidden", *(name for name in own if name not in _OPTIONAL))
        required = required if number is not None else ("id", *required)
        raw = self.fields(block, raw, {**_SHARED_FIELDS, **own}, required)
        hidden = self.parts(block, "hidden", raw["hidden"])
        if move and "number_line" in hidden:
            raise self.wrong(block.line_of("hidden"), "lessons.ruler_hidden")
        if "id" in raw and not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", raw["id"]):
            raise self.wrong(block.line_of("id"), "lessons.bad_id", got=raw["id"])
        if kind == CellQuestion.kind:
            self.can_be_clicked(block, state, show - hidden)
        # A drag names two more states.
        inner = (*states, START, SOLUTION) if kind == DragQuestion.kind else states
        fields = _Fields(self, block, raw, inner)
        shared: dict[str, Any] = {
            "id": raw["id"] if number is None else number,
            "was": self.was(block, raw["was"]) if "was" in raw else None,
            "hint": _Fields(self, block, raw, states).words("hint") if "hint" in raw else None,
            "ask": fields.words("ask"),
            "hidden": hidden,
            "why": fields.words("why") if "why" in raw else None,
            "mistakes": tuple(
                self.mistake(block, i, each, kind, raw, inner)
                for i, each in enumerate(raw.get("mistakes", []))
            ),
        }
        return QUESTIONS[kind](**shared, **self.of_kind(kind, fields, states, move))

    def of_kind(
        self, kind: str, fields: _Fields, states: Collection[str], move: tuple[str, ...]
    ) -> dict[str, Any]:
        # The fields that only this kind has.
        block = fields.block
        raw = fields.raw
        match kind:
            case "drag":
                if not move:
                    raise self.wrong(block.line_of("kind"), "lessons.drag_needs_move")
                return {
                    "right": fields.formula("right"),
                    "solution": self.solution(block, raw["solution"], states, move),
                    "tolerance": fields.words("tolerance"),
                    "moves": move,
                    "snap": tuple(self.one_of(block, "snap", name, SNAPS) for name in raw.get("snap", ())),
                }
            case "direction":
                return {"before": fields.formula("before"), "after": fields.formula("after")}
            case "number":
                return {
                    "within": self.at(block.line_of("within"), lambda: Tolerance.read(raw["within"])),
                    "answer": fields.formula("answer"),
                    "unit": raw.get("unit", ""),
                    "draw": self.one_of(block, "draw", raw.get("draw", ""), ("", *DRAWN)),
                }
            case "cell":
                return {"answer": self.at(block.line_of("answer"), lambda: CellRule.read(raw["answer"]))}
            case "choice":
                return {"options": tuple(self.options(block, raw["options"], fields.states))}
        return {"items": tuple(self.items(block, raw["items"], fields.states))}

    def was(self, block: LessonBlock, raw: list[Any]) -> tuple[int, int]:
        if len(raw) != 2 or not all(type(each) is int and each > 0 for each in raw):
            raise self.wrong(block.line_of("was"), "lessons.bad_was")
        return raw[0] - 1, raw[1] - 1

    def solution(
        self, block: LessonBlock, raw: Mapping[str, Any], states: Collection[str], move: tuple[str, ...]
    ) -> Mapping[str, Formula]:
        line = block.line_of("solution")
        values = {}
        for name, formula in raw.items():
            handles = SOLVED_BY.get(name, frozenset())
            if not handles & set(move) or not isinstance(formula, str):
                known = ", ".join(each for each, by in SOLVED_BY.items() if by & set(move))
                raise self.wrong(line, "lessons.bad_solution", got=name, known=known)
            values[name] = self.read((formula, line), Formula.read, states)
        if not values or ("lo" in values and "hi" not in values):
            raise self.wrong(line, "lessons.no_solution")
        return MappingProxyType(values)

    def can_be_clicked(self, block: LessonBlock, state: LabState, seen: frozenset[str]) -> None:
        if len(state.source.shape) != 2 or max(state.source.shape) > MOST_ASKED:
            raise self.wrong(
                block.line_of("kind"), "lessons.cell_too_large", shape=state.source.shape, most=MOST_ASKED
            )
        if "x" not in seen:
            raise self.wrong(block.line_of("kind"), "lessons.cell_needs_x")

    def options(self, block: LessonBlock, raw: list[Any], states: Collection[str]) -> Iterator[Option]:
        entries = self.entries(block, raw, "options", ("text", "when", "says"), 2, ("state",))
        for (text, when, says), entry in zip(entries, raw, strict=True):
            yield Option(
                self.read(text, Words.read, states),
                self.read(when, Formula.read, states),
                self.read(says, Words.read, states),
                self.one_of(block, "state", entry.get("state", ""), ("", *states)),
            )

    def items(self, block: LessonBlock, raw: list[Any], states: Collection[str]) -> Iterator[OrderItem]:
        for text, value in self.entries(block, raw, "items", ("text", "value"), 3):
            yield OrderItem(self.read(text, Words.read, states), self.read(value, Formula.read, states))

    def mistake(
        self,
        block: LessonBlock,
        i: int,
        raw: Any,
        kind: str,
        question: Mapping[str, Any],
        states: Collection[str],
    ) -> Mistake:
        if kind not in _MISTAKE_KEYS:
            raise self.wrong(block.line_of("", "mistakes", i), "lessons.choice_mistakes")
        key, wanted = _MISTAKE_KEYS[kind]
        raw = self.fields(block, raw, {key: wanted, "says": str}, (key, "says"), "mistakes", i)
        says = self.read((raw["says"], block.line_of("says", "mistakes", i)), Words.read, states)
        line = block.line_of(key, "mistakes", i)
        value = raw[key]
        match kind:
            case "direction":
                if value not in DIRECTIONS:
                    raise self.wrong(line, "lessons.bad_direction", got=value, known=", ".join(DIRECTIONS))
                return Mistake(value, says)
            case "cell":
                return Mistake(self.at(line, lambda: CellRule.read(value)), says)
            case "order":
                if len(value) != len(question["items"]) or not all(isinstance(one, str) for one in value):
                    raise self.wrong(
                        line, "lessons.order_values", got=len(value), wanted=len(question["items"])
                    )
                return Mistake(self.at(line, lambda: tuple(Formula.read(one, states) for one in value)), says)
        return Mistake(self.at(line, lambda: Formula.read(value, states)), says)
