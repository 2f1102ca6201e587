"""Read typed and pasted tensors: lists, tables, spreadsheets' cells, prints of NumPy and torch.

The text is never evaluated. It is scanned a constant number of times from front to back, so a long paste
takes time in proportion to its length. Places in it are computed for errors alone.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.nested_numbers import BEYOND_FLOAT32, MOST_TYPED_AXES, clipped_word
from quantviz.sources.typed import MOST_ELEMENTS, Typed

#: Characters an element may take on average before the text is refused unread.
_CHARACTERS_AN_ELEMENT = 64
#: More separators than this are no tensor: `[[[[1]]]],` has nine for its one number.
_SEPARATORS_A_WORD = 12
_SEPARATORS_AT_ALL = 10_000
#: Longest number. All digits of a float64 fit; converting endless ones would take more than linear time.
_LONGEST_NUMBER = 1000


def parse_tensor(text: str, *, decimal_comma: bool | None = None, most: int = MOST_ELEMENTS) -> Typed:
    """Return the tensor that `text` holds: a list, a table, a spreadsheet's cells, a printed array or tensor.

    `decimal_comma` decides whether `1,5` is one number; left at None it is decided from the text, and where
    both readings are possible the `QuantVizError` `typed.comma_ambiguous` shows them. Not more than `most`
    elements are read. NaN and Inf are kept, because their treatment is a choice of the scheme.

    >>> parse_tensor("1\\t2\\n3\\t4").values
    (1.0, 2.0, 3.0, 4.0)
    """
    if len(text) > _CHARACTERS_AN_ELEMENT * most:
        raise QuantVizError("typed.too_long", got=len(text), most=_CHARACTERS_AN_ELEMENT * most)
    # One character stays one character, so that places in the text stay true.
    page = _SourceText(text.replace("\r\n", "\n").translate(_PLAIN))
    if ellipsis := _ELLIPSIS.search(page.text):
        raise page.error("typed.cut_off", ellipsis.start(), got=ellipsis[0])
    start, end = _inside(page)
    if '"' in page.text:
        page.text = _unquoted(page, start, end, decimal_comma is True)
    if decimal_comma is None:
        decimal_comma = _commas_are_decimal(page, start, end, most)
    line = _KindLine(page, start, end, decimal_comma, most)
    # Words first: an error on "abc" helps more than one on the brackets around it.
    values = tuple(_number(line, word, place) for place, word in enumerate(line.words()))
    if not values:
        raise QuantVizError("typed.nothing")
    return Typed(values, (_nested_shape if line.is_nested else _table_shape)(line))


#: Full-width forms, minus signs, other spaces and line ends.
_PLAIN = str.maketrans(
    "０１２３４５６７８９．＋－−﹣–ｅＥ；［］（）｛｝{}【】\u3000\u00a0\u2007\u2009\u202f\ufeff\u200b\x0b\x0c\r\u2028\u2029\x85",
    "0123456789.+----eE;[]()[][][]       " + "  " + "\n\n\n\n",
)
_WIDE_COMMAS = "，、"
_BRACKETS = {"[": "]", "(": ")"}
_CLOSING = {"]", ")"}

#: The marks in a cut-off print for the numbers that it leaves out.
_ELLIPSIS = re.compile(r"\.\.\.|…+|⋯+")
_LETTER = r"[^\s,，、;\[\]()]"
_WORD = re.compile(rf"{_LETTER}+")
#: The same with a comma between digits taken as part of the number.
_WORD_DECIMAL = re.compile(rf"{_LETTER}+(?:(?<=\d),(?=\d){_LETTER}*)*")
_SPACE = re.compile(r"[^\S\t\n]+")
_BETWEEN_WORDS = re.compile("[^w]+")
#: Two words, and no `;` or end of a line between them.
_WORDS_BESIDE = re.compile(r"w[^;\n]*w")
_NUMBER = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity|∞)", re.ASCII | re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_QUOTED = re.compile(r'"(?:[^"\n]|"")*("?)')
_BESIDE_A_CELL = frozenset("\n\t ,;[]()") | frozenset(_WIDE_COMMAS)
#: Digits with more between them than a number has: `1,234.5`, `1 000`.
_SEPARATED_DIGITS = re.compile(r"[+-]?\d[\d\s.,，'’_]*", re.ASCII)
_POINT = re.compile(r"\d\.|\.\d", re.ASCII)
_PRINT_HEAD = re.compile(
    r"\s*(?:[A-Za-z_]\w*\s*=(?!=)\s*)?(?:Parameter\s+containing:\s*)?"
    r"(?P<call>(?:(?:torch|np|numpy|jnp)\.)?(?:tensor|as_tensor|Tensor|FloatTensor|array|asarray|Array)\s*\()?",
    re.ASCII,
)
_PRINT_TAIL = re.compile(
    r"""(?:,\s*[A-Za-z_]\w*\s*=\s*(?:<[^<>]*>|\([^()]*\)|'[^']*'|"[^"]*"|[\w.:]+)\s*+)*,?\s*\)\s*;?\s*""",
    re.ASCII,
)
_ARGUMENT = re.compile(r",\s*[A-Za-z_]\w*\s*=", re.ASCII)


class _SourceText:
    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, key: str, position: int, **params: object) -> QuantVizError:
        line = self.text.count("\n", 0, position) + 1
        return QuantVizError(key, line=line, column=position - self.text.rfind("\n", 0, position), **params)


class _KindLine:
    """The text as a line of kinds: "w" for a word, a separator for itself, "," for every comma.

    A million words take a few bytes each in it, where one object for each took a hundred.
    """

    def __init__(self, page: _SourceText, start: int, end: int, decimal_comma: bool, most: int) -> None:
        self._page = page
        self._start = start
        self._end = end
        self.decimal_comma = decimal_comma
        self._word = _WORD_DECIMAL if decimal_comma else _WORD
        kinds = _SPACE.sub("", self._word.sub("w", page.text[start:end]))
        for comma in _WIDE_COMMAS:
            kinds = kinds.replace(comma, ",")
        self.kinds = kinds
        self._refuse_too_much(most)

    @property
    def is_nested(self) -> bool:
        return any(bracket in self.kinds for bracket in "[]()")

    def words(self) -> list[str]:
        return self._word.findall(self._page.text, self._start, self._end)

    def error(self, key: str, place: int, **params: object) -> QuantVizError:
        token = re.compile(rf"{self._word.pattern}|\S|\t|\n")
        return self._error_at(token, key, place, **params)

    def word_error(self, key: str, place: int, **params: object) -> QuantVizError:
        return self._error_at(self._word, key, place, **params)

    # Places are counted in words and separators, or in words alone.

    def _error_at(self, what: re.Pattern[str], key: str, place: int, **params: object) -> QuantVizError:
        places = what.finditer(self._page.text, self._start, self._end)
        return self._page.error(key, next(itertools.islice(places, place, None)).start(), **params)

    def _refuse_too_much(self, most: int) -> None:
        """Refuse too many words, or too many separators for the words before them."""
        separators = 0
        if len(self.kinds) > _SEPARATORS_AT_ALL:
            for between in _BETWEEN_WORDS.finditer(self.kinds):
                words = between.start() - separators
                separators += between.end() - between.start()
                if words > most:
                    break
                if between.end() > _SEPARATORS_A_WORD * words + _SEPARATORS_AT_ALL:
                    raise QuantVizError("typed.only_separators")
        if self.kinds.count("w") > most:
            raise QuantVizError("typed.too_many", most=most)


def is_number(word: str) -> bool:
    """Return whether a word is a typed number, nan and inf among them."""
    return len(word) <= _LONGEST_NUMBER and _NUMBER.fullmatch(word) is not None


def _inside(page: _SourceText) -> tuple[int, int]:
    """Return start and stop of the numbers in `x = tensor(…, dtype=…)`."""
    head = _PRINT_HEAD.match(page.text)
    assert head
    if not head["call"]:
        return head.end(), len(page.text)
    argument = _ARGUMENT.search(page.text, head.end())
    end = argument.start() if argument else page.text.rstrip(" \t\n;").rfind(")")
    if end < head.end():
        raise page.error("typed.unclosed", head.end("call") - 1, bracket="(")
    tail = _PRINT_TAIL.match(page.text, end)
    if not tail:
        raise page.error("typed.unclosed", head.end("call") - 1, bracket="(")
    if tail.end() != len(page.text):
        raise page.error("typed.after_end", tail.end())
    return head.end(), end


def _unquoted(page: _SourceText, start: int, end: int, decimal_comma: bool) -> str:
    """Return the text with spaces for the quotes around cells, each of which must hold one number."""

    def cell(match: re.Match[str]) -> str:
        first = start + match.start()
        after = start + match.end()
        if not match[1]:
            raise page.error("typed.unclosed_quote", first)
        content = match[0][1:-1].strip()
        beside = {*page.text[max(start, first - 1) : first], *page.text[after : min(end, after + 1)]}
        plain = is_number(content) or (decimal_comma and _DECIMAL_COMMA.fullmatch(content))
        if plain and beside <= _BESIDE_A_CELL:
            return f" {match[0][1:-1]} "
        separated = _SEPARATED_DIGITS.fullmatch(content) and not plain
        raise page.error(
            "typed.separator_in_cell" if separated else "typed.no_number", first, got=clipped_word(match[0])
        )

    return page.text[:start] + _QUOTED.sub(cell, page.text[start:end]) + page.text[end:]


def _commas_are_decimal(page: _SourceText, start: int, end: int, most: int) -> bool:
    """Return whether commas mark decimals; where both readings are possible the person has to say.

    That is only where no number has a point, no word has two commas (`1,5,2`), and something else already
    separates numbers of a row: `1,5 2,5`.
    """
    if "," not in page.text[start:end] or _POINT.search(page.text, start, end):
        return False
    line = _KindLine(page, start, end, True, most)
    # Inside brackets a new line is only space.
    kinds = line.kinds.translate(_NO_LINES if line.is_nested else _NO_TABS)
    # A comma at the end of a line marks no decimal.
    if ",\n" in kinds or not ("ww" in kinds or "w;w" in kinds or "w,w" in kinds):
        return False
    words = line.words()
    marked = [word for word in words if "," in word]
    if not marked or not all(map(_DECIMAL_COMMA.fullmatch, marked)):
        return False
    # `1, 2,3` is only typed in haste.
    if "w,w" in kinds and len(marked) < len(words):
        return False
    shown = [clipped_word(word) for word in words[:3]]
    raise QuantVizError(
        "typed.comma_ambiguous",
        apart=", ".join(word.replace(",", ", ") for word in shown),
        decimal=", ".join(word.replace(",", ".") for word in shown),
    )


_NO_TABS = str.maketrans("", "", "\t")
_NO_LINES = str.maketrans("", "", "\t\n")


def _number(line: _KindLine, word: str, place: int) -> float:
    text = word.replace(",", ".", 1) if line.decimal_comma else word
    if not is_number(text):
        raise line.word_error("typed.no_number", place, got=clipped_word(word))
    if text[-1] in "yYfFnN∞":  # infinity, inf, nan
        return float(text.replace("∞", "inf"))
    value = float(text)
    if abs(value) >= BEYOND_FLOAT32:
        raise line.word_error("typed.beyond_float32", place, got=clipped_word(word))
    return value


# ---- tables: a line is a row --------------------------------------------------------------------


def _table_shape(line: _KindLine) -> Shape:
    """Return the shape of a table; one row is a vector.

    A `;` ends a row where words stand beside each other, as in `1 2; 3 4`. Else it separates cells, as in
    the `1;2;3` that spreadsheets export.
    """
    ends_row = "\n;" if _WORDS_BESIDE.search(line.kinds) else "\n"
    rows = 0
    length = 0
    before = ""
    cells = 0
    for row in re.finditer(f"[^{ends_row}]+", line.kinds):
        # Most rows are like the one before.
        if row[0] != before:
            before = row[0]
            cells = _cells(line, row[0], row.start())
        if not cells:
            continue
        rows += 1
        length = length or cells
        if cells != length:
            first = row.start() + row[0].index("w")
            raise line.error("typed.ragged", first, row=rows, got=cells, expected=length)
    return (length,) if rows == 1 else (rows, length)


def _cells(line: _KindLine, row: str, start: int) -> int:
    cells = 0
    pending = ""
    for place, kind in enumerate(row, start):
        if kind == "w":
            cells += 1
            pending = ""
        elif kind == "\t" and pending != "\t":
            # A tab beside a comma, or before the first cell, is only space.
            pending = pending or (kind if cells else "")
        elif pending or not cells:
            raise line.error("typed.empty_cell", place)
        else:
            pending = kind
    return cells


# ---- brackets: as Python, numpy and torch write them --------------------------------------------


@dataclass
class _OpenBracket:
    opened: int | None
    count: int = 0
    #: () for numbers; None while empty.
    item_shape: Shape | None = None
    #: Lengths of the rows that `;` ended.
    row_length: int | None = None
    rows: int = 0
    after_comma: bool = False


def _nested_shape(line: _KindLine) -> Shape:
    """Return the shape of nested brackets; several lists side by side are stacked."""
    open_lists = [_OpenBracket(None)]
    for place, kind in enumerate(line.kinds):
        here = open_lists[-1]
        if kind == "w":
            _add_item(line, here, (), place)
        elif kind in _BRACKETS:
            if len(open_lists) > MOST_TYPED_AXES:
                raise line.error("typed.too_deep", place, most=MOST_TYPED_AXES)
            open_lists.append(_OpenBracket(place))
        elif kind in _CLOSING:
            if here.opened is None or _BRACKETS[line.kinds[here.opened]] != kind:
                raise line.error("typed.unopened", place, bracket=kind)
            open_lists.pop()
            _add_item(line, open_lists[-1], _shape_of(line, here, place), here.opened)
        elif kind == ",":
            if here.after_comma or not here.count:
                raise line.error("typed.empty_cell", place)
            here.after_comma = True
        elif kind == ";" and here.item_shape == () and here.opened is not None:
            _end_row(line, here, place)
    unclosed = open_lists[-1].opened
    if unclosed is not None:
        raise line.error("typed.unclosed", unclosed, bracket=line.kinds[unclosed])
    outside = open_lists[0]
    assert outside.item_shape is not None
    shape = outside.item_shape if outside.count == 1 else (outside.count, *outside.item_shape)
    if len(shape) > MOST_TYPED_AXES:
        raise QuantVizError("typed.axes", got=len(shape), most=MOST_TYPED_AXES)
    return shape


def _add_item(line: _KindLine, here: _OpenBracket, item_shape: Shape, place: int) -> None:
    here.count += 1
    here.after_comma = False
    if here.item_shape is None:
        here.item_shape = item_shape
    elif here.item_shape != item_shape:
        if () in (here.item_shape, item_shape):
            raise line.error("typed.mixed", place)
        got, expected = (" × ".join(map(str, shape)) for shape in (item_shape, here.item_shape))
        raise line.error("typed.ragged", place, row=here.count, got=got, expected=expected)


def _end_row(line: _KindLine, here: _OpenBracket, place: int) -> None:
    """End a row at `;` inside a list of numbers, as in `[1 2; 3 4]`."""
    length = here.count
    here.count = 0
    here.after_comma = False
    if not length:
        raise line.error("typed.empty_cell", place)
    here.rows += 1
    if here.row_length not in (None, length):
        raise line.error("typed.ragged", place, row=here.rows, got=length, expected=here.row_length)
    here.row_length = length


def _shape_of(line: _KindLine, here: _OpenBracket, closing: int) -> Shape:
    assert here.opened is not None
    if here.item_shape is None:
        raise line.error("typed.empty_list", here.opened)
    if here.row_length is None:
        return (here.count, *here.item_shape)
    if here.count:
        _end_row(line, here, closing)
    return (here.rows, here.row_length)
