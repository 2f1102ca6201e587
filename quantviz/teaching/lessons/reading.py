"""From a lesson's file to a `Lesson`, with the line of each mistake."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from quantviz.lab.picture_parts import RULER_PARTS, RULER_STAGES
from quantviz.lab.state import LabState
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons.blocks import LessonBlock
from quantviz.teaching.lessons.dials import DIALS, DialState
from quantviz.teaching.lessons.drags import HANDLES
from quantviz.teaching.lessons.formulas import HAND, HERE, SOLUTION, START, Formula, Words
from quantviz.teaching.lessons.model import Lesson, LessonStep, StateTable
from quantviz.teaching.lessons.questions import QuestionReader

BLOCKS = ("lab", "table", "question", "note")
#: The stage of the ruler that a handle needs beyond dots.
_NEEDS = {"bits": "slider", "group": "slider", "zero": "codes", "held_zero": "codes", "tooth": "codes"}
_FENCE = re.compile(r"```\s*(\w*)\s*$")
#: Fields above the title, and their values.
_FRONT = {"format": (1, 2), "course": (1, 2)}


def read_lesson(text: str, file: str) -> Lesson:
    """Return the lesson written as `text`.

    >>> read_lesson("# Title\\n\\nAbout.\\n\\n## Step\\n\\nWords.\\n", "en/01_x.md")
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: en/01_x.md, line 5: This step has no ```lab block. Add one with the link of
    the state that it shows.
    """
    return _LessonReader(file).lesson(text.splitlines())


class _LessonReader(QuestionReader):
    """Reads one file."""

    # ---- the file ----

    def lesson(self, lines: list[str]) -> Lesson:
        heads = [i for i, line in enumerate(lines) if line.startswith("## ") and not _fenced(lines, i)]
        front, after = self.front(lines)
        start = next((i for i, line in enumerate(lines) if i >= after and line.strip()), after)
        if start >= len(lines) or not lines[start].startswith("# "):
            raise self.wrong(start + 1, "lessons.no_title")
        if not heads:
            raise self.wrong(start + 1, "lessons.no_steps")
        summary = " ".join(line.strip() for line in lines[start + 1 : heads[0]] if line.strip())
        if not summary:
            raise self.wrong(start + 1, "lessons.no_summary")
        steps = tuple(
            self.step(lines, begin, end, front["format"])
            for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True)
        )
        ids = [(question.id, step.line) for step in steps for question in step.questions]
        for i, (name, line) in enumerate(ids):
            if isinstance(name, str) and name in [other for other, _ in ids[:i]]:
                raise self.wrong(line, "lessons.id_twice", got=name)
        return Lesson(lines[start][2:].strip(), summary, steps, front["format"], front["course"])

    def front(self, lines: list[str]) -> tuple[dict[str, int], int]:
        """Return the fields above the title, and the index of the line after them."""
        fields = {"format": 1, "course": 1}
        if not lines or lines[0].strip() != "---":
            return fields, 0
        end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
        if end is None:
            raise self.wrong(1, "lessons.open_front")
        for i, line in enumerate(lines[1:end], 2):
            name, _, value = (part.strip() for part in line.partition(":"))
            if name not in _FRONT or value not in map(str, _FRONT[name]):
                raise self.wrong(i, "lessons.bad_front", got=line.strip()[:60])
            fields[name] = int(value)
        return fields, end + 1

    def step(self, lines: list[str], begin: int, end: int, form: int) -> LessonStep:
        words, rule, blocks = self.blocks(lines, begin + 1, end)
        labs = [block for block in blocks if block.kind == "lab"]
        if len(labs) != 1:
            raise self.wrong(
                begin + 1 if not labs else labs[1].line, "lessons.no_lab" if not labs else "lessons.two_labs"
            )
        state, again, show, states, move, ruler = self.lab(labs[0])
        names = (HERE, *states)
        notes = [block for block in blocks if block.kind == "note"]
        if len(notes) > 1:
            raise self.wrong(notes[1].line, "lessons.two_notes")
        tables = [self.table(block, names) for block in blocks if block.kind == "table"]
        question_blocks = [block for block in blocks if block.kind == "question"]
        questions = tuple(
            self.question(block, names, state, show, move, i if form == 1 else None)
            for i, block in enumerate(question_blocks)
        )
        if questions and rule is None:
            raise self.wrong(begin + 1, "lessons.no_rule")
        if questions and again is None and not hasattr(state.source, "seed"):
            raise self.wrong(labs[0].line, "lessons.no_again")
        return LessonStep(
            title=lines[begin][3:].strip(),
            words=self.words(words, (*names, HAND)),
            state=state,
            again=again,
            show=show | ({"table"} if tables else set()),
            states=MappingProxyType(states),
            table=tables[0] if tables else None,
            questions=questions,
            rule=self.words(rule, names) if rule else None,
            move=move,
            ruler=ruler,
            note=self.words(notes[0], names) if notes else None,
            line=begin + 1,
        )

    def blocks(
        self, lines: list[str], begin: int, end: int
    ) -> tuple[LessonBlock, LessonBlock | None, list[LessonBlock]]:
        """Return the step's words, its rule (a quotation), and its fenced blocks."""
        words: list[str] = []
        rule: list[str] = []
        rule_line = 0
        fenced = []
        i = begin
        while i < end:
            fence = _FENCE.match(lines[i])
            if fence:
                close = next((j for j in range(i + 1, end) if lines[j].startswith("```")), None)
                if close is None:
                    raise self.wrong(i + 1, "lessons.open_fence")
                if fence[1] not in BLOCKS:
                    raise self.wrong(i + 1, "lessons.unknown_block", got=fence[1], known=", ".join(BLOCKS))
                fenced.append(LessonBlock(fence[1], i + 2, tuple(lines[i + 1 : close])))
                i = close
                words.append("")
            elif lines[i].startswith(">"):
                rule_line = rule_line or i + 1
                rule.append(lines[i][1:].strip())
                words.append("")
            else:
                words.append(lines[i])
            i += 1
        return (
            LessonBlock("words", begin + 1, tuple(words)),
            LessonBlock("rule", rule_line, (" ".join(rule),)) if rule else None,
            fenced,
        )

    def words(self, block: LessonBlock, states: Collection[str]) -> Words:
        for i, line in enumerate(block.lines):
            self.at(block.line + i, lambda line=line: Words.read(line, states))  # type: ignore[misc]
        return Words(re.sub(r"\n{3,}", "\n\n", "\n".join(block.lines)).strip())

    # ---- lab ----

    def lab(
        self, block: LessonBlock
    ) -> tuple[LabState, LabState | None, frozenset[str], dict[str, LabState], tuple[str, ...], str]:
        raw = self.fields(
            block,
            self.toml(block),
            {
                "link": str,
                "values": list,
                "show": list,
                "move": list,
                "ruler": str,
                "dial": str,
                "again": str,
                "states": dict,
            },
            required=("link", "show"),
        )
        state = self.at(block.line_of("link"), lambda: _state(raw["link"]))
        if "values" in raw:
            state = self.at(block.line_of("values"), lambda: _with_values(state, raw["values"], raw["link"]))
        dial = self.one_of(block, "dial", raw.get("dial", ""), ("", *DIALS))
        at = _query(raw["link"]).get("d", "")
        state = _with_dial(state, dial, at)
        again = None
        if "again" in raw:
            again = self.at(block.line_of("again"), lambda: _state(raw["again"], raw["link"]))
            again = _with_dial(again, dial, at)
            if not hasattr(again.source, "seed"):
                raise self.wrong(block.line_of("again"), "lessons.again_without_seed")
        show = self.parts(block, "show", raw["show"])
        states = {}
        for name, link in raw.get("states", {}).items():
            line = block.line_of(name, "states")
            reserved = name in (HERE, HAND, START, SOLUTION)
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or reserved or not isinstance(link, str):
                raise self.wrong(line, "lessons.bad_state_name", got=name)
            states[name] = self.at(line, lambda link=link: _changed(state, link))  # type: ignore[misc]
        move = tuple(raw.get("move", ()))
        for name in move:
            if name not in HANDLES:
                known = ", ".join(HANDLES)
                raise self.wrong(block.line_of("move"), "lessons.unknown_handle", got=name, known=known)
        needs = {"move": bool({*move} - {"dial"}), "show": bool(show & set(RULER_PARTS))}
        for field, needed in needs.items():
            if needed and "number_line" not in show:
                raise self.wrong(block.line_of(field), "lessons.needs_ruler")
        ruler = self.one_of(block, "ruler", raw.get("ruler", RULER_STAGES[-1]), RULER_STAGES)
        least = max((RULER_STAGES.index(_NEEDS.get(name, "dots")) for name in move), default=0)
        if RULER_STAGES.index(ruler) < least:
            raise self.wrong(block.line_of("ruler"), "lessons.ruler_too_plain", least=RULER_STAGES[least])
        return state, again, show, states, move, ruler

    # ---- table ----

    def table(self, block: LessonBlock, states: Collection[str]) -> StateTable:
        raw = self.fields(
            block, self.toml(block), {"rows": list, "columns": list}, required=("rows", "columns")
        )
        rows = []
        columns = []
        for pair in raw["rows"]:
            text, name = self.pair(block, "rows", pair)
            if name not in states:
                raise self.wrong(
                    block.line_of("rows"), "formulas.unknown_state", got=name, known=", ".join(states)
                )
            rows.append((self.at(block.line_of("rows"), lambda text=text: Words.read(text, states)), name))  # type: ignore[misc]
        for pair in raw["columns"]:
            heading, formula = self.pair(block, "columns", pair)
            read = partial(Formula.read, formula, states)
            columns.append((heading, self.at(block.line_of("columns"), read)))
        return StateTable(tuple(rows), tuple(columns))

    def pair(self, block: LessonBlock, key: str, pair: Any) -> tuple[str, str]:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)):
            raise self.wrong(block.line_of(key), "lessons.pair_wanted", key=key)
        return pair[0], pair[1]


def _fenced(lines: list[str], place: int) -> bool:
    return sum(line.startswith("```") for line in lines[:place]) % 2 == 1


def _query(link: str) -> dict[str, str]:
    # The text after the question mark, or all of it.
    # A plus is a plus: the forms in a link have no spaces.
    return dict(parse_qsl(link.strip().rpartition("?")[2].replace("+", "%2B")))


def _state(link: str, base: str = "") -> LabState:
    state, problems = LabState.read(_query(base) | _query(link))
    for problem in problems:
        raise problem
    return state


def _with_dial(state: LabState, dial: str, at: str) -> LabState:
    # At its first stop.
    if not dial:
        return state
    return DialState(**{each.name: getattr(state, each.name) for each in fields(state)}, dial=dial, at=at)


def _changed(state: LabState, link: str) -> LabState:
    # Parts of the link replace the state's.
    changes = _query(link)
    given, problems = LabState.read(({} if "t" in changes else {"t": state.written()["t"]}) | changes)
    for problem in problems:
        raise problem
    if "d" in changes:
        state = state.replace(at=changes["d"])
    names = {"s": "scheme", "c": "cell", "b": "baseline"}
    if "t" in changes:
        return given if "s" in changes else given.replace(scheme=state.scheme.fitted(given.source.shape))
    return state.replace(**{field: getattr(given, field) for part, field in names.items() if part in changes})


def _with_values(state: LabState, values: list[Any], link: str) -> LabState:
    source = Typed.of(values)
    parts = _query(link)
    form = state.replace(source=source, cell=(0,) * len(source.shape)).written()["t"]
    return _state("&".join(f"{name}={value}" for name, value in {**parts, "t": form}.items()))
