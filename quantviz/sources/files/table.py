""".csv, .tsv, .txt: one table of numbers, or one tensor in any form that can be typed."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from quantviz.errors import Note, QuantVizError
from quantviz.granularity import Window
from quantviz.sources.files.catalog import Catalog, FileData, TensorInfo
from quantviz.sources.typed import is_number, parse_tensor

if TYPE_CHECKING:
    import torch

#: Characters that are parsed at once. The parser keeps every word of them, which takes a hundred times their size.
_BLOCK = 2**20

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BETWEEN_CELLS = re.compile(r"[\s,;]+")


class TableCatalog(Catalog):
    """The one table of a text file, named after the file. A first line of column names is left out with a note.

    Decimals become the nearest float32; that this rounds them is no news and is not counted.
    """

    kind = "text table"
    suffixes = (".csv", ".tsv", ".txt")
    snippet = 'import pandas\nx = pandas.read_csv({file!r}, nrows=512)\nx.to_csv("cut_out.csv", index=False)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        head = bytes(data.view[:4096])
        return b"\0" not in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))

    def _list(self) -> Mapping[str, TensorInfo]:
        if self._data.size > self._limits.table_bytes:
            raise self._data.error("too_large", got=self._data.size, most=self._limits.table_bytes)
        text, notes = _without_names(self._text())
        self._table, more = self._read_text(text)
        return {self._data.stem: self._info(self._data.stem, "decimal", tuple(self._table.shape), (*notes, *more))}

    def _text(self) -> str:
        raw = bytes(self._data.view)
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS if raw.startswith(mark)), "utf-8")
        try:
            return raw.decode(encoding).removeprefix("\ufeff").replace('"', " ").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise self._data.error("not_text") from None

    def _read_text(self, text: str) -> tuple[torch.Tensor, tuple[Note, ...]]:
        if len(text) > _BLOCK and (table := _fast(text)) is not None:
            return table, ()
        try:
            return self._parsed(text, None), ()
        except QuantVizError as error:
            # A spreadsheet that separates cells by ; or tab is one that writes decimals with a comma.
            if error.key != "typed.comma_ambiguous" or not (";" in text or "\t" in text):
                raise
            return self._parsed(text, True), (Note.of("source.decimal_commas"),)

    def _parsed(self, text: str, decimal_comma: bool | None) -> torch.Tensor:
        """By the parser that names places; a long table a block of lines at a time."""
        import torch

        if len(text) <= _BLOCK:
            return parse_tensor(text, decimal_comma=decimal_comma).tensor()
        parts: list[torch.Tensor] = []
        for line, block in _blocks(text):
            if len(block) > 2 * _BLOCK or "[" in block or "(" in block:
                raise self._data.error("too_large", got=len(text), most=_BLOCK)
            try:
                part = parse_tensor(block, decimal_comma=decimal_comma, most=2 * _BLOCK).tensor()
            except QuantVizError as error:
                raise _lower(error, line) from None
            parts.append(part if part.dim() == 2 else part[None])
            if parts[-1].shape[1] != parts[0].shape[1]:
                raise QuantVizError("typed.ragged", line=line, row=line, got=parts[-1].shape[1], expected=parts[0].shape[1])
        return torch.cat(parts)

    def _window(self, name: str, window: Window) -> torch.Tensor:
        return self._table[window].clone()


def _without_names(text: str) -> tuple[str, tuple[Note, ...]]:
    """The text without a first line of column names: some letters, and no number."""
    first, _, rest = text.lstrip().partition("\n")
    cells = [cell for cell in _BETWEEN_CELLS.split(first[:100_000]) if cell]
    names = rest.strip() and any(map(str.isalpha, first)) and not any(map(is_number, cells))
    if not names or "[" in first or "(" in first:
        return text, ()
    # An empty line in its place keeps the line numbers in errors true.
    return "\n" + rest, (Note.of("source.header_skipped"),)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Runs of whole lines of about `_BLOCK` characters, each with the number of lines before it."""
    start = line = 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK) + 1 or len(text)
        block = text[start:end]
        if block.strip():
            yield line, block
        line += text.count("\n", start, end)
        start = end


def _lower(error: QuantVizError, lines: int) -> QuantVizError:
    """The same error so many lines further down."""
    line = error.params.get("line")
    return QuantVizError(error.key, **{**error.params, "line": line + lines}) if isinstance(line, int) else error


def _fast(text: str) -> torch.Tensor | None:
    """A plain table by numpy's reader; None where it is not plain."""
    import numpy
    import torch

    line = text.lstrip()[:100_000].partition("\n")[0]
    delimiter = next((mark for mark in "\t;," if mark in line), None)
    if "," in line and delimiter != ",":
        return None
    try:
        values = numpy.loadtxt(io.StringIO(text), delimiter=delimiter, dtype=numpy.float64, ndmin=2, comments=None)
    except Exception:
        return None
    with numpy.errstate(over="ignore"):
        table = torch.from_numpy(values.astype(numpy.float32))
    # Infinity may be what the file says or what float32 made of it: the other parser knows.
    if bool(torch.isinf(table).any()) or not table.numel():
        return None
    return table[0] if len(table) == 1 else table
