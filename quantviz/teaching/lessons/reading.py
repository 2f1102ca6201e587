"""From a lesson's file to a `Lesson`, with the line of each mistake.

`FORMAT.md` says what a file looks like.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from quantviz.errors import QuantVizError
from quantviz.lab.picture_parts import PICTURE_PARTS, TILE_PARTS
from quantviz.lab.state import LabState, read_link, write_link
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons.formulas import HERE, Formula, Words
from quantviz.teaching.lessons.model import (
    DIRECTIONS,
    MOST_ASKED,
    QUESTIONS,
    Cell,
    CellRule,
    Choice,
    Direction,
    Item,
    Lesson,
    LessonStep,
    Mistake,
    Number,
    Option,
    Order,
    Question,
    Table,
    Within,
)

_T = TypeVar("_T")
#: The fenced blocks a step can have.
BLOCKS = ("lab", "table", "question")
_FENCE = re.compile(r"```\s*(\w*)\s*$")
#: Short for all five tiles.
_ALL_TILES = "tiles"


def read_lesson(text: str, file: str) -> Lesson:
    """Return the lesson written as `text`. `QuantVizError` names the file, the line and the rule.

    >>> read_lesson("# Title\\n\\nAbout.\\n\\n## Step\\n\\nWords.\\n", "en/01_x.md")
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: en/01_x.md, line 5: This step has no ```lab block. Add one with the link of
    the state that it shows.
    """
    return _Reader(file).lesson(text.splitlines())


@dataclass(frozen=True)
class _Block:
    """A fenced block, or the words between two."""

    kind: str
    #: The line its content begins at, counted from 1.
    line: int
    lines: tuple[str, ...]

    def line_of(self, key: str, table: str = "", index: int = 0) -> int:
        """Return the line on which `key` is set.

        Where `table` is named, the search is below its `index`-th heading.
        """
        found, seen = self.line, -1
        inside = not table
        for i, content in enumerate(self.lines):
            if re.match(r"\s*\[", content):
                heading = content.strip().strip("[]").strip()
                seen += heading == table
                inside = heading == table and seen == index
                found = self.line + i if inside else found
            elif inside and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", content):
                return self.line + i
        return found


#: The fields that every question can have.
_SHARED_FIELDS: Mapping[str, type] = MappingProxyType(
    {"kind": str, "ask": str, "hidden": list, "why": str, "mistakes": list}
)
#: Those of each kind.
_FIELDS: Mapping[str, Mapping[str, type]] = MappingProxyType(
    {
        "direction": {"before": str, "after": str},
        "number": {"answer": str, "within": str, "unit": str},
        "cell": {"answer": str},
        "choice": {"options": list},
        "order": {"items": list},
    }
)
#: What a mistake is told by in each kind of question that has any.
_MISTAKE_KEYS: Mapping[str, tuple[str, type]] = MappingProxyType(
    {"direction": ("given", str), "number": ("value", str), "cell": ("cells", str), "order": ("values", list)}
)


class _Reader:
    """Reads one file and knows where it is."""

    def __init__(self, file: str) -> None:
        self.file = file

    def wrong(self, line: int, problem: QuantVizError) -> QuantVizError:
        return QuantVizError("lessons.at", file=self.file, line=line, problem=problem)

    def at(self, line: int, read: Callable[[], _T]) -> _T:
        """Return what `read` returns; report a mistake in it on `line`."""
        try:
            return read()
        except QuantVizError as problem:
            raise problem if problem.key == "lessons.at" else self.wrong(line, problem) from None

    # ---- the file ----

    def lesson(self, lines: list[str]) -> Lesson:
        heads = [i for i, line in enumerate(lines) if line.startswith("## ") and not _fenced(lines, i)]
        start = next((i for i, line in enumerate(lines) if line.strip()), 0)
        if not lines or not lines[start].startswith("# "):
            raise self.wrong(start + 1, QuantVizError("lessons.no_title"))
        if not heads:
            raise self.wrong(start + 1, QuantVizError("lessons.no_steps"))
        summary = " ".join(line.strip() for line in lines[start + 1 : heads[0]] if line.strip())
        if not summary:
            raise self.wrong(start + 1, QuantVizError("lessons.no_summary"))
        steps = tuple(
            self.step(lines, begin, end) for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True)
        )
        return Lesson(lines[start][2:].strip(), summary, steps)

    def step(self, lines: list[str], begin: int, end: int) -> LessonStep:
        words, rule, blocks = self.blocks(lines, begin + 1, end)
        labs = [block for block in blocks if block.kind == "lab"]
        if len(labs) != 1:
            raise self.wrong(
                begin + 1 if not labs else labs[1].line,
                QuantVizError("lessons.no_lab" if not labs else "lessons.two_labs"),
            )
        state, again, show, states = self.lab(labs[0])
        names = (HERE, *states)
        tables = [self.table(block, names) for block in blocks if block.kind == "table"]
        questions = tuple(
            self.question(block, names, state, show) for block in blocks if block.kind == "question"
        )
        if questions and rule is None:
            raise self.wrong(begin + 1, QuantVizError("lessons.no_rule"))
        if questions and again is None and not hasattr(state.source, "seed"):
            raise self.wrong(labs[0].line, QuantVizError("lessons.no_again"))
        return LessonStep(
            title=lines[begin][3:].strip(),
            words=self.words(words, names),
            state=state,
            again=again,
            show=show | ({"table"} if tables else set()),
            states=MappingProxyType(states),
            table=tables[0] if tables else None,
            questions=questions,
            rule=self.words(rule, names) if rule else None,
            line=begin + 1,
        )

    def blocks(self, lines: list[str], begin: int, end: int) -> tuple[_Block, _Block | None, list[_Block]]:
        """Return the step's words, its rule (a quotation), and its fenced blocks."""
        words: list[str] = []
        rule: list[str] = []
        rule_line, found, i = 0, [], begin
        while i < end:
            fence = _FENCE.match(lines[i])
            if fence:
                close = next((j for j in range(i + 1, end) if lines[j].startswith("```")), None)
                if close is None:
                    raise self.wrong(i + 1, QuantVizError("lessons.open_fence"))
                if fence[1] not in BLOCKS:
                    raise self.wrong(
                        i + 1, QuantVizError("lessons.unknown_block", got=fence[1], known=", ".join(BLOCKS))
                    )
                found.append(_Block(fence[1], i + 2, tuple(lines[i + 1 : close])))
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
            _Block("words", begin + 1, tuple(words)),
            _Block("rule", rule_line, (" ".join(rule),)) if rule else None,
            found,
        )

    def words(self, block: _Block, states: Collection[str]) -> Words:
        for i, line in enumerate(block.lines):
            self.at(block.line + i, lambda line=line: Words.read(line, states))  # type: ignore[misc]
        return Words(re.sub(r"\n{3,}", "\n\n", "\n".join(block.lines)).strip())

    def toml(self, block: _Block) -> dict[str, Any]:
        try:
            return tomllib.loads("\n".join(block.lines) + "\n")
        except tomllib.TOMLDecodeError as problem:
            place = re.search(r"at line (\d+)", str(problem))
            line = block.line + int(place[1]) - 1 if place else block.line + len(block.lines) - 1
            raise self.wrong(line, QuantVizError("lessons.not_toml")) from None

    # ---- lab ----

    def lab(self, block: _Block) -> tuple[LabState, LabState | None, frozenset[str], dict[str, LabState]]:
        raw = self.fields(
            block,
            self.toml(block),
            {"link": str, "values": list, "show": list, "again": str, "states": dict},
            required=("link", "show"),
        )
        state = self.at(block.line_of("link"), lambda: _state(raw["link"]))
        if "values" in raw:
            state = self.at(block.line_of("values"), lambda: _with_values(state, raw["values"], raw["link"]))
        again = (
            self.at(block.line_of("again"), lambda: _state(raw["again"], raw["link"]))
            if "again" in raw
            else None
        )
        if again and not hasattr(again.source, "seed"):
            raise self.wrong(block.line_of("again"), QuantVizError("lessons.again_without_seed"))
        show = self.parts(block, "show", raw["show"])
        states = {}
        for name, link in raw.get("states", {}).items():
            line = block.line_of(name, "states")
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == HERE or not isinstance(link, str):
                raise self.wrong(line, QuantVizError("lessons.bad_state_name", got=name))
            states[name] = self.at(line, lambda link=link: _changed(state, link))  # type: ignore[misc]
        return state, again, show, states

    def parts(self, block: _Block, key: str, names: list[Any]) -> frozenset[str]:
        for name in names:
            if name not in (*PICTURE_PARTS, _ALL_TILES):
                raise self.wrong(
                    block.line_of(key),
                    QuantVizError(
                        "lessons.unknown_part", got=name, known=", ".join((*PICTURE_PARTS, _ALL_TILES))
                    ),
                )
        return frozenset(part for name in names for part in (TILE_PARTS if name == _ALL_TILES else (name,)))

    # ---- table ----

    def table(self, block: _Block, states: Collection[str]) -> Table:
        raw = self.fields(
            block, self.toml(block), {"rows": list, "columns": list}, required=("rows", "columns")
        )
        rows, columns = [], []
        for pair in raw["rows"]:
            text, name = self.pair(block, "rows", pair)
            if name not in states:
                raise self.wrong(
                    block.line_of("rows"),
                    QuantVizError("formulas.unknown_state", got=name, known=", ".join(states)),
                )
            rows.append((self.at(block.line_of("rows"), lambda text=text: Words.read(text, states)), name))  # type: ignore[misc]
        for pair in raw["columns"]:
            heading, formula = self.pair(block, "columns", pair)
            read = partial(Formula.read, formula, states)
            columns.append((heading, self.at(block.line_of("columns"), read)))
        return Table(tuple(rows), tuple(columns))

    def pair(self, block: _Block, key: str, pair: Any) -> tuple[str, str]:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)):
            raise self.wrong(block.line_of(key), QuantVizError("lessons.pair_wanted", key=key))
        return pair[0], pair[1]

    # ---- questions ----

    def question(
        self, block: _Block, states: Collection[str], state: LabState, show: frozenset[str]
    ) -> Question:
        raw = self.toml(block)
        kind = str(raw.get("kind"))
        if kind not in QUESTIONS:
            raise self.wrong(
                block.line_of("kind"),
                QuantVizError("lessons.unknown_kind", got=raw.get("kind"), known=", ".join(QUESTIONS)),
            )
        own = _FIELDS[kind]
        raw = self.fields(
            block,
            raw,
            {**_SHARED_FIELDS, **own},
            ("ask", "hidden", *(name for name in own if name != "unit")),
        )
        hidden = self.parts(block, "hidden", raw["hidden"])
        if kind == Cell.kind:
            self.can_be_clicked(block, state, show - hidden)

        def field(key: str) -> tuple[str, int]:
            return raw[key], block.line_of(key)

        shared: dict[str, Any] = {
            "ask": self.read(field("ask"), Words.read, states),
            "hidden": hidden,
            "why": self.read(field("why"), Words.read, states) if "why" in raw else None,
            "mistakes": tuple(
                self.mistake(block, i, each, kind, raw, states)
                for i, each in enumerate(raw.get("mistakes", []))
            ),
        }
        match kind:
            case "direction":
                before, after = (self.read(field(name), Formula.read, states) for name in ("before", "after"))
                return Direction(**shared, before=before, after=after)
            case "number":
                within = self.at(block.line_of("within"), lambda: Within.read(raw["within"]))
                return Number(
                    **shared,
                    answer=self.read(field("answer"), Formula.read, states),
                    within=within,
                    unit=raw.get("unit", ""),
                )
            case "cell":
                return Cell(
                    **shared, answer=self.at(block.line_of("answer"), lambda: CellRule.read(raw["answer"]))
                )
            case "choice":
                return Choice(**shared, options=tuple(self.options(block, raw["options"], states)))
        return Order(**shared, items=tuple(self.items(block, raw["items"], states)))

    def can_be_clicked(self, block: _Block, state: LabState, seen: frozenset[str]) -> None:
        if len(state.source.shape) != 2 or max(state.source.shape) > MOST_ASKED:
            raise self.wrong(
                block.line_of("kind"),
                QuantVizError("lessons.cell_too_large", shape=state.source.shape, most=MOST_ASKED),
            )
        if "x" not in seen:
            raise self.wrong(block.line_of("kind"), QuantVizError("lessons.cell_needs_x"))

    def options(self, block: _Block, raw: list[Any], states: Collection[str]) -> Iterator[Option]:
        for text, when, says in self.entries(block, raw, "options", ("text", "when", "says"), 2):
            yield Option(
                self.read(text, Words.read, states),
                self.read(when, Formula.read, states),
                self.read(says, Words.read, states),
            )

    def items(self, block: _Block, raw: list[Any], states: Collection[str]) -> Iterator[Item]:
        for text, value in self.entries(block, raw, "items", ("text", "value"), 3):
            yield Item(self.read(text, Words.read, states), self.read(value, Formula.read, states))

    def entries(
        self, block: _Block, raw: list[Any], table: str, names: tuple[str, ...], least: int
    ) -> Iterator[tuple[tuple[str, int], ...]]:
        """Yield the fields called `names` of each entry, each with its line."""
        if len(raw) < least:
            raise self.wrong(
                block.line_of("", table),
                QuantVizError("lessons.too_few", key=table, got=len(raw), least=least),
            )
        for i, one in enumerate(raw):
            entry = self.fields(block, one, dict.fromkeys(names, str), names, table, i)
            yield tuple((entry[name], block.line_of(name, table, i)) for name in names)

    def read(
        self, field: tuple[str, int], reader: Callable[[str, Collection[str]], _T], states: Collection[str]
    ) -> _T:
        return self.at(field[1], lambda: reader(field[0], states))

    def mistake(
        self, block: _Block, i: int, raw: Any, kind: str, question: Mapping[str, Any], states: Collection[str]
    ) -> Mistake:
        if kind not in _MISTAKE_KEYS:
            raise self.wrong(block.line_of("", "mistakes", i), QuantVizError("lessons.choice_mistakes"))
        key, wanted = _MISTAKE_KEYS[kind]
        raw = self.fields(block, raw, {key: wanted, "says": str}, (key, "says"), "mistakes", i)
        says = self.read((raw["says"], block.line_of("says", "mistakes", i)), Words.read, states)
        line, value = block.line_of(key, "mistakes", i), raw[key]
        match kind:
            case "direction":
                if value not in DIRECTIONS:
                    raise self.wrong(
                        line, QuantVizError("lessons.bad_direction", got=value, known=", ".join(DIRECTIONS))
                    )
                return Mistake(value, says)
            case "cell":
                return Mistake(self.at(line, lambda: CellRule.read(value)), says)
            case "order":
                if len(value) != len(question["items"]) or not all(isinstance(one, str) for one in value):
                    raise self.wrong(
                        line,
                        QuantVizError("lessons.order_values", got=len(value), wanted=len(question["items"])),
                    )
                return Mistake(self.at(line, lambda: tuple(Formula.read(one, states) for one in value)), says)
        return Mistake(self.at(line, lambda: Formula.read(value, states)), says)

    def fields(
        self,
        block: _Block,
        raw: Any,
        known: Mapping[str, type],
        required: Collection[str] = (),
        table: str = "",
        index: int = 0,
    ) -> dict[str, Any]:
        """Return `raw` after a check that its fields are known, present and of the right type."""
        if not isinstance(raw, dict):
            raise self.wrong(
                block.line_of("", table, index), QuantVizError("lessons.table_wanted", key=table)
            )
        for name, value in raw.items():
            if name not in known:
                raise self.wrong(
                    block.line_of(name, table, index),
                    QuantVizError("lessons.unknown_field", got=name, known=", ".join(known)),
                )
            if not isinstance(value, known[name]):
                kind = QuantVizError(f"lessons.kinds.{known[name].__name__}")
                raise self.wrong(
                    block.line_of(name, table, index),
                    QuantVizError("lessons.wrong_type", field=name, kind=kind),
                )
        for name in required:
            if name not in raw:
                raise self.wrong(
                    block.line_of("", table, index), QuantVizError("lessons.missing_field", field=name)
                )
        return raw


def _fenced(lines: list[str], place: int) -> bool:
    return sum(line.startswith("```") for line in lines[:place]) % 2 == 1


def _query(link: str) -> dict[str, str]:
    """Return a link's parts: what stands after its question mark, or all of it."""
    # A plus is a plus: the forms in a link have no spaces.
    return dict(parse_qsl(link.strip().rpartition("?")[2].replace("+", "%2B")))


def _state(link: str, base: str = "") -> LabState:
    """Return the state of a link; parts it leaves out are those of `base`."""
    state, problems = read_link(_query(base) | _query(link))
    for problem in problems:
        raise problem
    return state


def _changed(state: LabState, link: str) -> LabState:
    """Return the state with what the link names in place of its own."""
    changes = _query(link)
    given, problems = read_link(({} if "t" in changes else {"t": _source_form(state)}) | changes)
    for problem in problems:
        raise problem
    names = {"s": "scheme", "c": "cell", "b": "baseline"}
    if "t" in changes:
        return given if "s" in changes else given.replace(scheme=state.scheme.fitted(given.source.shape))
    return state.replace(**{field: getattr(given, field) for part, field in names.items() if part in changes})


def _source_form(state: LabState) -> str:
    return write_link(state)["t"]


def _with_values(state: LabState, values: list[Any], link: str) -> LabState:
    """Return the state on a tensor whose values the lesson writes out."""
    source = Typed.of(values)
    parts = _query(link)
    form = write_link(state.replace(source=source, cell=(0,) * len(source.shape)))["t"]
    return _state("&".join(f"{name}={value}" for name, value in {**parts, "t": form}.items()))
