"""The fenced blocks of a lesson's file: their fields, checked, and the line of each mistake."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from quantviz.errors import QuantVizError
from quantviz.lab.picture_parts import PICTURE_PARTS, TILE_PARTS

_T = TypeVar("_T")
#: Short for all five tiles.
_ALL_TILES = "tiles"


@dataclass(frozen=True)
class LessonBlock:
    """A fenced block, or the words between two."""

    kind: str
    #: The line its content begins at, counted from 1.
    line: int
    lines: tuple[str, ...]

    def line_of(self, key: str, table: str = "", index: int = 0) -> int:
        """Return the line on which `key` is set, below the `index`-th heading of `table` if one is named."""
        place = self.line
        seen = -1
        inside = not table
        for i, content in enumerate(self.lines):
            if re.match(r"\s*\[", content):
                heading = content.strip().strip("[]").strip()
                seen += heading == table
                inside = heading == table and seen == index
                place = self.line + i if inside else place
            elif inside and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", content):
                return self.line + i
        return place


class BlockReader:
    """Reads the blocks of one file."""

    def __init__(self, file: str) -> None:
        self.file = file

    def wrong(self, line: int, key: str, /, **params: object) -> QuantVizError:
        return self._at_line(line, QuantVizError(key, **params))

    def _at_line(self, line: int, problem: QuantVizError) -> QuantVizError:
        return QuantVizError("lessons.at", file=self.file, line=line, problem=problem)

    def at(self, line: int, read: Callable[[], _T]) -> _T:
        """Return the result of `read`; its error names the file and `line`."""
        try:
            return read()
        except QuantVizError as problem:
            if problem.key == "lessons.at":
                raise
            raise self._at_line(line, problem) from None

    def toml(self, block: LessonBlock) -> dict[str, Any]:
        try:
            return tomllib.loads("\n".join(block.lines) + "\n")
        except tomllib.TOMLDecodeError as problem:
            place = re.search(r"at line (\d+)", str(problem))
            line = block.line + int(place[1]) - 1 if place else block.line + len(block.lines) - 1
            raise self.wrong(line, "lessons.not_toml") from None

    def parts(self, block: LessonBlock, key: str, names: list[Any]) -> frozenset[str]:
        for name in names:
            if name not in (*PICTURE_PARTS, _ALL_TILES):
                raise self.wrong(
                    block.line_of(key),
                    "lessons.unknown_part",
                    got=name,
                    known=", ".join((*PICTURE_PARTS, _ALL_TILES)),
                )
        return frozenset(part for name in names for part in (TILE_PARTS if name == _ALL_TILES else (name,)))

    def one_of(self, block: LessonBlock, key: str, got: str, known: tuple[str, ...]) -> str:
        if got not in known:
            names = ", ".join(filter(None, known))
            raise self.wrong(block.line_of(key), "lessons.not_one_of", field=key, got=got, known=names)
        return got

    def entries(
        self,
        block: LessonBlock,
        raw: list[Any],
        table: str,
        names: tuple[str, ...],
        least: int,
        optional: tuple[str, ...] = (),
    ) -> Iterator[tuple[tuple[str, int], ...]]:
        # Each field has its line.
        if len(raw) < least:
            raise self.wrong(
                block.line_of("", table), "lessons.too_few", key=table, got=len(raw), least=least
            )
        for i, one in enumerate(raw):
            known = dict.fromkeys((*names, *optional), str)
            entry = self.fields(block, one, known, names, table, i)
            yield tuple((entry[name], block.line_of(name, table, i)) for name in names)

    def read(
        self, field: tuple[str, int], reader: Callable[[str, Collection[str]], _T], states: Collection[str]
    ) -> _T:
        return self.at(field[1], lambda: reader(field[0], states))

    def fields(
        self,
        block: LessonBlock,
        raw: Any,
        known: Mapping[str, type],
        required: Collection[str] = (),
        table: str = "",
        index: int = 0,
    ) -> dict[str, Any]:
        # Checked: known, present and of the right type.
        if not isinstance(raw, dict):
            raise self.wrong(block.line_of("", table, index), "lessons.table_wanted", key=table)
        for name, value in raw.items():
            if name not in known:
                raise self.wrong(
                    block.line_of(name, table, index),
                    "lessons.unknown_field",
                    got=name,
                    known=", ".join(known),
                )
            if not isinstance(value, known[name]):
                kind = QuantVizError(f"lessons.kinds.{known[name].__name__}")
                raise self.wrong(
                    block.line_of(name, table, index), "lessons.wrong_type", field=name, kind=kind
                )
        for name in required:
            if name not in raw:
                raise self.wrong(block.line_of("", table, index), "lessons.missing_field", field=name)
        return raw
