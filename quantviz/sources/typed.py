"""Typed and pasted tensors: reading them as people write them, and carrying them in a link.

Pure Python, no torch, no evaluation of what was typed. The text is looked at a constant number of
times from front to back, so a long paste takes time in proportion to its length.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import math
import re
import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import Source
from quantviz.text import text

if TYPE_CHECKING:
    import torch

#: Most elements a typed tensor may have.
MOST_ELEMENTS = 512 * 512
#: Most elements that travel in a link: 16 × 16.
MOST_IN_LINK = 256
#: Most elements that are written out in a script; more are read back from the .npz that the page offers.
MOST_WRITTEN_OUT = 4096
#: Most axes.
MOST_AXES = 4

#: Characters an element may take on average before the text is refused unread.
_CHARACTERS_AN_ELEMENT = 64
#: More separators than this are no tensor: `[[[[1]]]],` has nine for its one number.
_SEPARATORS_A_WORD, _SEPARATORS_AT_ALL = 12, 10_000
#: Longest number. All digits of a float64 fit; converting endless ones would take more than linear time.
_LONGEST_NUMBER = 1000
#: From here on float32 rounds to infinity.
_BEYOND_FLOAT32 = 2.0**128 - 2.0**103


# ---- the value ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Typed(Source):
    """A tensor as values: hashable, equal bit for bit (so 0.0 is not -0.0, and NaN is itself).

    >>> typed = Typed.of([[1, 2.5], [-0.0, 3]])
    >>> typed.shape, typed.values
    ((2, 2), (1.0, 2.5, -0.0, 3.0))
    >>> Typed.from_payload(typed.to_payload()) == typed
    True
    >>> print(typed.to_text())
    [[1.0, 2.5],
     [-0.0, 3.0]]
    """

    #: The elements, last axis fastest; kept as the nearest float32.
    values: tuple[float, ...] = field(repr=False)
    #: 1 to 4 lengths.
    shape: Shape
    id: ClassVar[str] = "typed"
    kind: ClassVar[str] = "typed"
    #: What a person typed stays in the session, or travels in a link.
    shared: ClassVar[bool] = False

    def __post_init__(self) -> None:
        assert math.prod(self.shape) == len(self.values)
        rounded = array("f", self.values)
        object.__setattr__(self, "values", tuple(rounded))
        object.__setattr__(self, "_bits", rounded.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Shape, bytes]:
        return self.shape, self.__dict__["_bits"]

    def problems(self) -> Iterator[QuantVizError]:
        """Too many elements or axes."""
        if not 1 <= len(self.shape) <= MOST_AXES:
            yield QuantVizError("typed.axes", got=len(self.shape), most=MOST_AXES)
        if len(self.values) > MOST_ELEMENTS:
            yield QuantVizError("typed.too_many", most=MOST_ELEMENTS)

    def tensor(self) -> torch.Tensor:
        """Return the tensor, float32 of `shape`; a fresh one at each call."""
        import torch

        return torch.frombuffer(bytearray(self.__dict__["_bits"]), dtype=torch.float32).reshape(self.shape)

    def title(self, language: str) -> str:
        """What it is called, for want of a name."""
        return text("sidebar.typed_name", language)

    @property
    def key(self) -> str:
        """What tells this tensor from any other of the session."""
        return f"{self.id} {hash(self)}"

    @cached_property
    def finite(self) -> bool:
        """Whether no value is NaN or Inf."""
        return all(map(math.isfinite, self.values))

    def link_text(self) -> str:
        """What a link says of it: the values themselves."""
        return f"{self.id}.{self.to_payload()}"

    def link_problem(self) -> QuantVizError | None:
        """Return a link has room for few values."""
        return (
            QuantVizError("link.typed_too_large", count=len(self.values))
            if len(self.values) > MOST_IN_LINK
            else None
        )

    def code(self, large: bool, language: str) -> list[str] | None:
        """Return the values as nested lists, unless there are too many."""
        if len(self.values) > MOST_WRITTEN_OUT:
            return None
        # NaN and Inf are no words of Python's own.
        return [*([] if self.finite else ["from math import inf, nan"]), f"x = {self.to_text()}"]

    @classmethod
    def of(cls, nested: Any, *, most: int = MOST_ELEMENTS) -> Typed:
        """Return the tensor in nested lists or tuples of numbers, or in anything that has `tolist()`.

        `QuantVizError` for rows of unequal length, more than 4 axes, and what is no number.

        >>> Typed.of([[[1, 2]], [[3, 4]]]).shape
        (2, 1, 2)
        >>> Typed.of([[1, 2], [3]])
        Traceback (most recent call last):
            ...
        quantviz.errors.QuantVizError: All rows must have the same length: row 2 has 1 numbers, the rows
        before it have 2. \
Add the missing numbers or remove the extra ones.
        """
        values, shape = flattened(nested, most)
        return cls(tuple(values), shape)

    def to_payload(self) -> str:
        """Return the tensor for a link, bit for bit, in `[A-Za-z0-9._=-]`: the shape, a dot, and its float32
        values deflated.

        At most 256 elements, which stay under 2,000 characters; `QuantVizError` above.
        """
        if len(self.values) > MOST_IN_LINK:
            raise QuantVizError("typed.too_large_for_link", got=len(self.values), most=MOST_IN_LINK)
        packed = zlib.compress(struct.pack(f"<{len(self.values)}f", *self.values), 9)
        return (
            "x".join(map(str, self.shape))
            + "."
            + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")
        )

    @classmethod
    def from_payload(cls, payload: str) -> Typed:
        """Return the tensor of a link; `QuantVizError` for anything that `to_payload` does not write."""
        match = _PAYLOAD.fullmatch(payload)
        shape = tuple(map(int, match[1].split("x"))) if match else ()
        count = math.prod(shape)
        if not match or not 0 < count <= MOST_IN_LINK:
            raise QuantVizError("typed.payload_damaged")
        try:
            packed = base64.b64decode(match[2] + "=" * (-len(match[2]) % 4), altchars=b"-_", validate=True)
            inflate = zlib.decompressobj()
            # One byte more than belongs there is enough to see that there is too much.
            raw = inflate.decompress(packed, 4 * count + 1)
        except (binascii.Error, zlib.error):
            raise QuantVizError("typed.payload_damaged") from None
        if len(raw) != 4 * count or not inflate.eof or inflate.unused_data:
            raise QuantVizError("typed.payload_damaged")
        return cls(struct.unpack(f"<{count}f", raw), shape)

    def to_text(self) -> str:
        """Return the tensor in brackets, each value as short as float32 allows; `parse_tensor` reads it back
        bit for bit.
        """
        rows = [f"[{', '.join(map(shortest, row))}]" for row in _cut(self.values, self.shape[-1])]
        for depth in range(len(self.shape) - 2, -1, -1):
            # Rows of a block are aligned under its first, as torch prints them.
            between = ",\n" + " " * (depth + 1)
            rows = [f"[{between.join(group)}]" for group in _cut(rows, self.shape[depth])]
        return rows[0]


_PAYLOAD = re.compile(r"([1-9]\d{0,2}(?:x[1-9]\d{0,2}){0,3})\.([A-Za-z0-9_-]{1,2000})", re.ASCII)


def shortest(value: float) -> str:
    """Return a float32 in the fewest digits that read back as the same float32.

    >>> shortest(191.60000610351562), shortest(-0.0), shortest(1e-45), shortest(728.0)
    ('191.6', '-0.0', '1e-45', '728.0')
    """
    for digits in (1, 3, 6, 7, 8):
        written = f"{value:.{digits}g}"
        if array("f", [float(written)])[0] == value:
            # float() puts it the usual way: 7e+02 is 700.0.
            return repr(float(written))
    return repr(float(f"{value:.9g}"))


def _cut(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def flattened(nested: Any, most: int) -> tuple[array[float], Shape]:
    """Return the numbers in nested lists or tuples, or in anything that has `tolist()`, last axis fastest,
    and their shape; errors as from `Typed.of`.

    >>> flattened([[1, 2], [3, 4]], most=4)
    (array('d', [1.0, 2.0, 3.0, 4.0]), (2, 2))
    """
    shape: Shape = ()
    items = [nested.tolist() if hasattr(nested, "tolist") else nested]
    while items and isinstance(items[0], list | tuple):
        length = len(items[0])
        _check_growth(shape, length, most)
        for number, item in enumerate(items, start=1):
            if not isinstance(item, list | tuple):
                raise QuantVizError("typed.not_number", index=_index_of(number - 1, shape), got=_shown(item))
            if len(item) != length:
                raise QuantVizError("typed.ragged_rows", row=number, got=len(item), expected=length)
        shape = (*shape, length)
        items = list(itertools.chain.from_iterable(items))
    if not shape:
        raise QuantVizError("input_not_tensor", got=type(nested).__name__)
    return array("d", (_as_float(item, position, shape) for position, item in enumerate(items))), shape


def _shown(item: Any) -> Any:
    """What stands where a number should: short, and of a list only what it is."""
    return (
        _clipped(item)
        if isinstance(item, str)
        else item
        if item is None or isinstance(item, bool | int | float)
        else type(item).__name__
    )


def _check_growth(shape: Shape, length: int, most: int) -> None:
    if length == 0:
        raise QuantVizError("input_empty", shape=(*shape, 0))
    if len(shape) == MOST_AXES:
        raise QuantVizError("typed.axes", got=MOST_AXES + 1, most=MOST_AXES)
    if math.prod(shape) * length > most:
        raise QuantVizError("typed.too_many", most=most)


def _index_of(position: int, shape: Shape) -> Shape:
    index: list[int] = []
    for length in reversed(shape):
        position, here = divmod(position, length)
        index.append(here)
    return tuple(reversed(index))


def _as_float(item: Any, position: int, shape: Shape) -> float:
    if isinstance(item, bool) or not isinstance(item, int | float):
        raise QuantVizError("typed.not_number", index=_index_of(position, shape), got=_shown(item))
    try:
        value = float(item)
    except OverflowError:
        value = math.inf
    if abs(value) >= _BEYOND_FLOAT32 and not (type(item) is float and math.isinf(item)):
        raise QuantVizError(
            "typed.not_number_beyond", index=_index_of(position, shape), got=_clipped(str(item)[:50])
        )
    return value


# ---- reading ------------------------------------------------------------------------------------


def parse_tensor(text: str, *, decimal_comma: bool | None = None, most: int = MOST_ELEMENTS) -> Typed:
    """Return the tensor that `text` holds: a list, a table, a spreadsheet's cells, a printed array or tensor.

    `decimal_comma` says what `1,5` means; left at None it is decided from the text, and where both
    readings are possible the `QuantVizError` `typed.comma_ambiguous` shows them. Not more than `most`
    elements are read. NaN and Inf are kept, because what is done with them is a choice of the scheme.

    >>> parse_tensor("1 2 3").shape
    (3,)
    >>> parse_tensor("1\\t2\\n3\\t4").values
    (1.0, 2.0, 3.0, 4.0)
    >>> parse_tensor("tensor([[1., -2.],\\n        [3., 4.]], requires_grad=True)").shape
    (2, 2)
    >>> parse_tensor("1,5 2,5", decimal_comma=True).values
    (1.5, 2.5)
    >>> parse_tensor("1,5 2,5")
    Traceback (most recent call last):
        ...
    quantviz.errors.QuantVizError: The commas can be read in two ways: 1, 5, 2, 5 or 1.5, 2.5. Say whether a
    comma separates numbers or marks decimals.
    """
    if len(text) > _CHARACTERS_AN_ELEMENT * most:
        raise QuantVizError("typed.too_long", got=len(text), most=_CHARACTERS_AN_ELEMENT * most)
    # One character stays one character, so that places in the text stay true.
    page = _Page(text.replace("\r\n", "\n").translate(_PLAIN))
    if ellipsis := _ELLIPSIS.search(page.text):
        raise page.error("typed.cut_off", ellipsis.start(), got=ellipsis[0])
    start, end = _inside(page)
    if '"' in page.text:
        page.text = _unquoted(page, start, end, decimal_comma is True)
    if decimal_comma is None:
        decimal_comma = _commas_are_decimal(page, start, end, most)
    tokens = _tokens(page, start, end, decimal_comma, most)
    # Words first: that "abc" is no number says more than that the brackets around it do not match.
    values = tuple(_number(page, token, decimal_comma) for token in tokens if token.kind == "word")
    if not values:
        raise QuantVizError("typed.nothing")
    return Typed(values, (_nested_shape if _is_nested(tokens) else _table_shape)(page, tokens))


#: What people type and paste for the plain sign: full-width forms, minus signs, other spaces and line ends.
_PLAIN = str.maketrans(
    "０１２３４５６７８９．＋－−﹣–ｅＥ；［］（）｛｝{}【】\u3000\u00a0\u2007\u2009\u202f\ufeff\u200b\x0b\x0c\r\u2028\u2029\x85",
    "0123456789.+----eE;[]()[][][]       " + "  " + "\n\n\n\n",
)
#: Commas that separate and never mark a decimal.
_WIDE_COMMAS = "，、"
_BRACKETS = {"[": "]", "(": ")"}
_CLOSING = {"]", ")"}

#: What a cut-off print shows for the numbers it leaves out.
_ELLIPSIS = re.compile(r"\.\.\.|…+|⋯+")
_WORD = r"[^\s,，、;\[\]()]"
_TOKEN = re.compile(rf"{_WORD}+|\S|\t|\n")
#: The same with a comma between digits taken as part of the number.
_TOKEN_DECIMAL = re.compile(rf"{_WORD}+(?:(?<=\d),(?=\d){_WORD}*)*|\S|\t|\n")
_NUMBER = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity|∞)", re.ASCII | re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", re.ASCII)
#: A quoted cell on one line, to its end where it has one.
_QUOTED = re.compile(r'"(?:[^"\n]|"")*("?)')
#: What may stand beside one.
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
    r"""(?:,\s*[A-Za-z_]\w*\s*=\s*(?:<[^<>]*>|\([^()]*\)|'[^']*'|"[^"]*"|[\w.:]+)\s*)*,?\s*\)\s*;?\s*""",
    re.ASCII,
)
_ARGUMENT = re.compile(r",\s*[A-Za-z_]\w*\s*=", re.ASCII)


class _Token(NamedTuple):
    """A word or a separator. `kind` is "word" or the separator itself, "," for every comma."""

    kind: str
    text: str
    start: int


class _Page:
    """The text being read, and errors that name places in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, key: str, position: int, **params: object) -> QuantVizError:
        """Return an error at `position`, with line and column counted from 1."""
        line = self.text.count("\n", 0, position) + 1
        return QuantVizError(key, line=line, column=position - self.text.rfind("\n", 0, position), **params)


def is_number(word: str) -> bool:
    """Return whether a word is a number as it is typed, nan and inf among them.

    >>> is_number("-1e3"), is_number("inf"), is_number("width")
    (True, True, False)
    """
    return len(word) <= _LONGEST_NUMBER and _NUMBER.fullmatch(word) is not None


def _clipped(word: str) -> str:
    return word if len(word) <= 24 else word[:23] + "…"


def _inside(page: _Page) -> tuple[int, int]:
    """Return where the numbers of `x = tensor(…, dtype=…)` start and end; the whole text if there is no such
    wrapping.
    """
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


def _unquoted(page: _Page, start: int, end: int, decimal_comma: bool) -> str:
    """Return the text with spaces for the quotes around cells, each of which must hold one number."""

    def cell(match: re.Match[str]) -> str:
        first, after = start + match.start(), start + match.end()
        if not match[1]:
            raise page.error("typed.unclosed_quote", first)
        content = match[0][1:-1].strip()
        beside = {*page.text[max(start, first - 1) : first], *page.text[after : min(end, after + 1)]}
        plain = is_number(content) or (decimal_comma and _DECIMAL_COMMA.fullmatch(content))
        if plain and beside <= _BESIDE_A_CELL:
            return f" {match[0][1:-1]} "
        separated = _SEPARATED_DIGITS.fullmatch(content) and not plain
        raise page.error(
            "typed.separator_in_cell" if separated else "typed.no_number", first, got=_clipped(match[0])
        )

    return page.text[:start] + _QUOTED.sub(cell, page.text[start:end]) + page.text[end:]


def _commas_are_decimal(page: _Page, start: int, end: int, most: int) -> bool:
    """Return whether commas mark decimals: False unless it can be both, which is for the person to say.

    Both is possible only where no number has a point, no word has two commas (`1,5,2`), and something
    else already separates numbers of a row: `1,5 2,5`.
    """
    if "," not in page.text[start:end] or _POINT.search(page.text, start, end):
        return False
    tokens = _tokens(page, start, end, True, most)
    words = [token.text for token in tokens if token.kind == "word"]
    marked = [word for word in words if "," in word]
    if not marked or not all(map(_DECIMAL_COMMA.fullmatch, marked)):
        return False
    # The text as a line of kinds, "w" for a word. Inside brackets a new line is only space.
    space = "\t\n" if _is_nested(tokens) else "\t"
    kinds = "".join(
        "w" if token.kind == "word" else token.kind for token in tokens if token.kind not in space
    )
    beside = "ww" in kinds or "w;w" in kinds or "w,w" in kinds
    # `1, 2,3` is only typed in haste; a comma at the end of a line marks no decimal.
    separates = ",\n" in kinds or ("w,w" in kinds and len(marked) < len(words))
    if not beside or separates:
        return False
    shown = [_clipped(word) for word in words[:3]]
    raise QuantVizError(
        "typed.comma_ambiguous",
        apart=", ".join(word.replace(",", ", ") for word in shown),
        decimal=", ".join(word.replace(",", ".") for word in shown),
    )


def _tokens(page: _Page, start: int, end: int, decimal_comma: bool, most: int) -> list[_Token]:
    """Return words and separators, spaces left out; refused as soon as there are too many words."""
    tokens, words = [], 0
    for match in (_TOKEN_DECIMAL if decimal_comma else _TOKEN).finditer(page.text, start, end):
        text = match[0]
        if text in _SEPARATORS:
            tokens.append(_Token(_SEPARATORS[text], text, match.start()))
            if len(tokens) > _SEPARATORS_A_WORD * words + _SEPARATORS_AT_ALL:
                raise QuantVizError("typed.only_separators")
            continue
        words += 1
        if words > most:
            raise QuantVizError("typed.too_many", most=most)
        tokens.append(_Token("word", text, match.start()))
    return tokens


def _is_nested(tokens: list[_Token]) -> bool:
    return any(token.kind in _BRACKETS or token.kind in _CLOSING for token in tokens)


_SEPARATORS = {mark: mark for mark in ",;\n\t[]()"} | dict.fromkeys(_WIDE_COMMAS, ",")


def _number(page: _Page, word: _Token, decimal_comma: bool) -> float:
    text = word.text.replace(",", ".", 1) if decimal_comma else word.text
    if not is_number(text):
        raise page.error("typed.no_number", word.start, got=_clipped(word.text))
    if text[-1] in "yYfFnN∞":  # infinity, inf, nan
        return float(text.replace("∞", "inf"))
    value = float(text)
    if abs(value) >= _BEYOND_FLOAT32:
        raise page.error("typed.beyond_float32", word.start, got=_clipped(word.text))
    return value


# ---- tables: a line is a row --------------------------------------------------------------------


def _table_shape(page: _Page, tokens: list[_Token]) -> Shape:
    """Return the shape of a table without brackets; one row is a vector."""
    row_ends = {"\n", ";"} if _semicolons_end_rows(tokens) else {"\n"}
    rows, length = 0, 0
    for ends_row, group in itertools.groupby(tokens, key=lambda token: token.kind in row_ends):
        cells = [] if ends_row else _cells(page, list(group))
        if not cells:
            continue
        rows += 1
        length = length or len(cells)
        if len(cells) != length:
            raise page.error("typed.ragged", cells[0].start, row=rows, got=len(cells), expected=length)
    return (length,) if rows == 1 else (rows, length)


def _semicolons_end_rows(tokens: list[_Token]) -> bool:
    """Return whether `;` ends a row (`1 2; 3 4`) or separates cells (`1;2;3`, as spreadsheets export
    them).
    """
    words = 0
    for token in tokens:
        if token.kind in (";", "\n"):
            words = 0
        elif token.kind == "word":
            words += 1
            if words > 1:
                return True
    return False


def _cells(page: _Page, row: list[_Token]) -> list[_Token]:
    """Return the words of one row; an empty cell between two separators is an error."""
    cells: list[_Token] = []
    pending: _Token | None = None
    for token in row:
        if token.kind == "word":
            cells.append(token)
            pending = None
        elif token.kind == "\t" and (pending is None or pending.kind != "\t"):
            # A tab beside a comma, or before the first cell, is only space.
            pending = pending or (token if cells else None)
        elif pending is not None or not cells:
            raise page.error("typed.empty_cell", token.start)
        else:
            pending = token
    return cells


# ---- brackets: as Python, numpy and torch write them --------------------------------------------


@dataclass
class _List:
    """An open bracket and what it holds so far."""

    opened: _Token | None
    #: Items in it: numbers, or lists of `item_shape`.
    count: int = 0
    #: () for numbers; None while empty.
    item_shape: Shape | None = None
    #: Lengths of the rows that `;` ended.
    row_length: int | None = None
    rows: int = 0
    #: Whether a comma was read and no item since.
    after_comma: bool = False


def _nested_shape(page: _Page, tokens: list[_Token]) -> Shape:
    """Return the shape of nested brackets; several lists side by side are stacked."""
    open_lists = [_List(None)]
    for token in tokens:
        here = open_lists[-1]
        if token.kind == "word":
            _add_item(page, here, (), token)
        elif token.kind in _BRACKETS:
            if len(open_lists) > MOST_AXES:
                raise page.error("typed.too_deep", token.start, most=MOST_AXES)
            open_lists.append(_List(token))
        elif token.kind in _CLOSING:
            if here.opened is None or _BRACKETS[here.opened.kind] != token.kind:
                raise page.error("typed.unopened", token.start, bracket=token.kind)
            open_lists.pop()
            _add_item(page, open_lists[-1], _shape_of(page, here, token), here.opened)
        elif token.kind == ",":
            if here.after_comma or not here.count:
                raise page.error("typed.empty_cell", token.start)
            here.after_comma = True
        elif token.kind == ";" and here.item_shape == () and here.opened is not None:
            _end_row(page, here, token)
    if open_lists[-1].opened is not None:
        raise page.error("typed.unclosed", open_lists[-1].opened.start, bracket=open_lists[-1].opened.kind)
    outside = open_lists[0]
    assert outside.item_shape is not None
    shape = outside.item_shape if outside.count == 1 else (outside.count, *outside.item_shape)
    if len(shape) > MOST_AXES:
        raise QuantVizError("typed.axes", got=len(shape), most=MOST_AXES)
    return shape


def _add_item(page: _Page, here: _List, item_shape: Shape, token: _Token) -> None:
    here.count += 1
    here.after_comma = False
    if here.item_shape is None:
        here.item_shape = item_shape
    elif here.item_shape != item_shape:
        if () in (here.item_shape, item_shape):
            raise page.error("typed.mixed", token.start)
        raise page.error(
            "typed.ragged",
            token.start,
            row=here.count,
            got=_lengths(item_shape),
            expected=_lengths(here.item_shape),
        )


def _end_row(page: _Page, here: _List, token: _Token) -> None:
    """`;` inside a list of numbers ends a row, as in `[1 2; 3 4]`."""
    length, here.count, here.after_comma = here.count, 0, False
    if not length:
        raise page.error("typed.empty_cell", token.start)
    here.rows += 1
    if here.row_length not in (None, length):
        raise page.error("typed.ragged", token.start, row=here.rows, got=length, expected=here.row_length)
    here.row_length = length


def _shape_of(page: _Page, here: _List, closing: _Token) -> Shape:
    assert here.opened is not None
    if here.item_shape is None:
        raise page.error("typed.empty_list", here.opened.start)
    if here.row_length is None:
        return (here.count, *here.item_shape)
    if here.count:
        _end_row(page, here, closing)
    return (here.rows, here.row_length)


def _lengths(shape: Shape) -> str:
    return " × ".join(map(str, shape))
