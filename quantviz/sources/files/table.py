""".csv, .tsv, .txt: one table of numbers, or one tensor in any form that can be typed."""

from __future__ import annotations

import codecs
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Window
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData
from quantviz.sources.tensor_text import is_number, parse_tensor

if TYPE_CHECKING:
    import torch

#: Characters that are parsed at once. The parser keeps every word of them, which takes forty times their
#: size.
_BLOCK = 2**20

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Characters of a table that the slower parser reads in all: it takes half a second for a million.
_SLOW = 3 * 2**19
_INFINITY = re.compile("inf", re.IGNORECASE)
_LOOSE_COMMA = re.compile(r",(?!\d)|(?<!\d),")
#: A cell of a line of names, in quotes or not.
_CELL = re.compile(r'"((?:[^"\n]|"")*)"|[^\s,;]+')
#: Text that other programs take for a number, if not this one: a mistake in the data, and not a name.
_LIKE_A_NUMBER = re.compile(
    r"[+-]?(?:0[xob][\da-f_]+|[_.,' ]*\d[\d_.,' ]*(?:e[+-]?\d+)?)", re.ASCII | re.IGNORECASE
)
#: A quoted cell with nothing in it that separates; and where commas mark decimals.
_PLAIN_CELL = re.compile(r'(?<![^\s,;])"([^"\s,;\[\]()]+)"(?![^\s,;])')
_DECIMAL_CELL = re.compile(r'(?<![^\s;])"([^"\s;\[\]()]+)"(?![^\s;])')
#: The beginning of a file of numbers, for files of any name.
_FIRST_NUMBER = re.compile(rb"(tensor|array)?[\s(\[]*[-+]?(\d|\.\d)")
_POINT = re.compile(r"\d\.|\.\d", re.ASCII)


def looks_like_numbers(data: FileData) -> bool:
    """Return whether a file begins with a number, as no prose does."""
    return bool(_FIRST_NUMBER.match(bytes(data.part(0, 64)).removeprefix(codecs.BOM_UTF8)))


class TableCatalog(Catalog):
    """A first line of column names is left out with a note.

    Decimals become the nearest float32; a note on that rounding would be no news, so there is none.
    """

    kind = "text table"
    suffixes = (".csv", ".tsv", ".txt")
    of_models = False
    snippet = 'import pandas\nx = pandas.read_csv({file!r}, nrows=512)\nx.to_csv("cut_out.csv", index=False)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        head = bytes(data.view[:4096])
        two_bytes = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not head.startswith(
            codecs.BOM_UTF32_LE
        )
        return b"\0" not in head or two_bytes

    def _list(self) -> Mapping[str, TensorInfo]:
        if self._data.size > self._limits.table_bytes:
            raise self._data.beyond("too_large", self._limits, "table_bytes", self._data.size)
        try:
            self._table, notes = self._read(None)
        except UnicodeDecodeError:
            raise self._data.error("not_text") from None
        except QuantVizError as error:
            # A spreadsheet that separates cells by ; or tab is one that writes decimals with a comma.
            unclear = error.key in ("typed.comma_ambiguous", "typed.separator_in_cell")
            if not unclear or not self._marks_decimals_with_commas():
                raise
            self._table, notes = self._read(True)
            notes = (*notes, Note.of("source.decimal_commas"))
        return {self._data.stem: self._info(self._data.stem, "decimal", tuple(self._table.shape), notes)}

    def _blocks(self) -> Iterator[str]:
        """Yield some whole lines at a time."""
        head = bytes(self._data.view[:4])
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS if head.startswith(mark)), "utf-8")
        with self._data.stream() as stream, io.TextIOWrapper(stream, encoding) as text:
            while block := text.read(_BLOCK):
                whole = block if block.endswith("\n") else block + text.readline()
                yield whole.replace("\ufeff", " ")

    def _marks_decimals_with_commas(self) -> bool:
        """Return whether something else separates cells, and no number has a point."""
        apart = False
        for number, block in enumerate(self._blocks()):
            cells = _CELL.sub(" ", block) if '"' in block else block
            apart = apart or ";" in cells or "\t" in cells
            if _POINT.search(_without_names(block)[0] if number == 0 else block):
                return False
        return apart

    def _read(self, decimal_comma: bool | None) -> tuple[torch.Tensor, tuple[Note, ...]]:
        blocks = self._blocks()
        first, notes = _without_names(next(blocks, ""))
        second = next(blocks, None)
        if second is None and len(first) <= _BLOCK:
            return parse_tensor(first, decimal_comma=decimal_comma).tensor(), notes
        parts = self._parts_of(
            itertools.chain((first,), () if second is None else (second,), blocks), decimal_comma
        )
        return _stacked(list(parts)), notes

    def _parts_of(self, blocks: Iterable[str], decimal_comma: bool | None) -> Iterator[torch.Tensor]:
        """Yield the rows of a long table, a block of lines at a time.

        A block that is not plain goes to the slower parser, whose errors name the place.
        """
        line = slow = columns = 0
        for block in blocks:
            if block.strip():
                part = _fast(block, decimal_comma)
                if part is None:
                    slow += len(block)
                    if slow > _SLOW or "[" in block or "(" in block:
                        raise self._data.error("slow_table", most=_SLOW if slow > _SLOW else _BLOCK)
                    part = _slow(block, decimal_comma, line)
                columns = columns or part.shape[1]
                if part.shape[1] != columns:
                    raise QuantVizError(
                        "typed.ragged", line=line + 1, row=line + 1, got=part.shape[1], expected=columns
                    )
                yield part
            line += block.count("\n")

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        return lambda window: self._table[window].clone()


def _without_names(text: str) -> tuple[str, tuple[Note, ...]]:
    """Return the text without a first line that has letters, and nothing that may be meant as a number."""
    first, _, rest = text.lstrip().partition("\n")
    cells = [
        (match[0] if match[1] is None else match[1]).strip() for match in _CELL.finditer(first[:100_000])
    ]
    names = (
        rest.strip()
        and any(map(str.isalpha, first))
        and not any(is_number(cell) or _LIKE_A_NUMBER.fullmatch(cell) for cell in cells)
    )
    # A quote that is not closed in its line is for the parser to name.
    if not names or "[" in first or "(" in first or first.count('"') % 2:
        return text, ()
    # An empty line in its place keeps the line numbers in errors true.
    return "\n" + rest, (Note.of("source.header_skipped"),)


def _stacked(parts: list[torch.Tensor]) -> torch.Tensor:
    """One row is a vector."""
    import torch

    if not parts:
        raise QuantVizError("typed.nothing")
    table = torch.cat(parts)
    return table[0] if len(table) == 1 else table


def _slow(block: str, decimal_comma: bool | None, line: int) -> torch.Tensor:
    """Return the rows of a block that begins so many lines down."""
    try:
        part = parse_tensor(block, decimal_comma=decimal_comma, most=_SLOW).tensor()
    except QuantVizError as error:
        here = error.params.get("line")
        raise QuantVizError(
            error.key, **{**error.params, **({"line": here + line} if isinstance(here, int) else {})}
        ) from None
    return part if part.dim() == 2 else part[None]


def _fast(block: str, decimal_comma: bool | None) -> torch.Tensor | None:
    """Return the rows of a plain block by numpy's reader; None for any other."""
    import torch

    if '"' in block:
        block = (_DECIMAL_CELL if decimal_comma else _PLAIN_CELL).sub(r" \1 ", block)
        if '"' in block:
            return None
    line = block.lstrip()[:100_000].partition("\n")[0]
    delimiter = next((mark for mark in "\t;," if mark in line), None)
    if decimal_comma and delimiter == ",":
        return None
    if "," in line and delimiter != ",":
        # Only commas between two digits are decimal ones.
        if not decimal_comma or "." in block or _LOOSE_COMMA.search(block):
            return None
        block = block.replace(",", ".")
    if len(block) <= 2 * _BLOCK or "\n" in block.strip():
        return _loaded(block, delimiter)
    # One long line: numpy takes four bytes for each of its characters.
    pieces = []
    start = 0
    while start < len(block):
        end = len(block)
        if start + _BLOCK < end:
            end = block.rfind(delimiter or " ", start, start + _BLOCK)
        piece = _loaded(block[start:end], delimiter) if end > start else None
        if piece is None:
            return None
        pieces.append(piece)
        start = end + 1
    return torch.cat(pieces, dim=1)


def _loaded(text: str, delimiter: str | None) -> torch.Tensor | None:
    import numpy
    import torch

    try:
        values = numpy.loadtxt(
            io.StringIO(text), delimiter=delimiter, dtype=numpy.float64, ndmin=2, comments=None
        )
    except Exception:
        return None
    with numpy.errstate(over="ignore"):
        table = torch.from_numpy(values.astype(numpy.float32))
    # Infinity may come from a number too large: the other parser raises an error with its place.
    infinite = int(torch.isinf(table).sum())
    if infinite and infinite != len(_INFINITY.findall(text)):
        return None
    return table if table.numel() else None
