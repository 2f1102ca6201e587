"""Bounds of data from the disk, and typed values of its rows: one function for each kind of value.

Every row of every file, from results and tables alike, goes through these functions once.
`.github/SECURITY.md` lists the bounds, and a test compares the two.
"""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.limits import LONGEST_NAME
from quantviz.text import DEFAULT_LANGUAGE, languages

#: Returns the typed value of a field; raises `QuantVizError` for any other.
Parser: TypeAlias = Callable[[Any, str], Any]

#: Bytes of one value in a results file, and of all values of one query.
RESULT_VALUE_BYTES = 2**22
RESULT_QUERY_BYTES = 2**28
#: Instructions of SQLite's machine for one query: a list of 262,144 tensors takes some seven million.
RESULT_STEPS = 2 * 10**7
#: Scans in a results file, recipes of a scan, and tensors of a scan: Kimi K2 has 138,241.
RESULT_SCANS = 1000
RESULT_RECIPES = 256
RESULT_TENSORS = 2**18
#: Rows of a scan: its tensors under its recipes.
RESULT_ROWS = 2**22
#: Characters of one text in a row, and digits of a number: float64 has up to 309 before the point.
TEXT_CHARACTERS = 2**16
NUMBER_DIGITS = 400
#: Bytes of a table's file, its rows, and its columns.
TABLE_BYTES = 2**30
TABLE_ROWS = 2**22
TABLE_COLUMNS = 256
#: Bytes of an importance matrix, which is held whole: that of DeepSeek R1 has some 1.2 billion.
IMPORTANCE_BYTES = 2**31
#: Bytes of a table that is one document of JSON: parsed it takes some ten times as much.
TABLE_JSON_BYTES = 2**28

#: Largest whole number of SQLite and Parquet.
_LARGEST = 2**63 - 1
#: Axes of a shape, and elements of a tensor.
_AXES = 64
_ELEMENTS = 10**18
#: Seconds since the epoch of the last moment of the year 9999.
_LAST_MOMENT = 253_402_300_799
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.ASCII | re.I)
#: A shape as text: "[64, 128]", "64x128".
_SHAPE = re.compile(r"[\d\s,x×()\[\]]*", re.ASCII)


def text(value: Any, field: str, most: int = TEXT_CHARACTERS) -> str:
    if not isinstance(value, str):
        raise QuantVizError("rows.not_text", field=field, got=value)
    if len(value) > most:
        raise QuantVizError("rows.text_too_long", field=field, count=len(value), most=most)
    return value


def name(value: Any, field: str) -> str:
    return text(value, field, LONGEST_NAME)


def listed(values: Any) -> Any:
    if hasattr(values, "untyped_storage"):
        from quantviz.tensors.conversion import as_plain

        values = as_plain(values)
    return values.tolist()


def number(value: Any, field: str) -> float:
    """Return a number as float64; NaN and infinities are numbers too."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise QuantVizError("rows.not_number", field=field, got=value)
    try:
        return float(value)
    except OverflowError:
        raise QuantVizError("rows.not_number", field=field, got=value) from None


def whole(value: Any, field: str, most: int = _LARGEST) -> int:
    """Return a whole number from 0 to `most`, also of a float that is one."""
    found = number(value, field)
    if not (math.isfinite(found) and found == math.floor(found) and 0 <= int(value) <= most):
        raise QuantVizError("rows.not_whole", field=field, got=value, most=most)
    return int(value)


def seconds(value: Any, field: str) -> float:
    found = number(value, field)
    if not 0 <= found <= _LAST_MOMENT:
        raise QuantVizError("rows.not_time", field=field, got=value)
    return found


def lengths(value: Any, field: str) -> Shape:
    """Return the lengths of a shape, or the indices of a place; a text such as "64x128" is a shape too."""
    if hasattr(value, "tolist"):
        value = listed(value)
    if isinstance(value, str) and len(value) <= TEXT_CHARACTERS and _SHAPE.fullmatch(value):
        value = [from_digits(each, field) for each in re.findall(r"\d+", value)]
    if isinstance(value, numbers.Integral):
        value = [value]
    if not isinstance(value, list | tuple) or len(value) > _AXES:
        raise QuantVizError("rows.not_shape", field=field, got=value)
    found = tuple(whole(each, field) for each in value)
    if math.prod(found) > _ELEMENTS:
        raise QuantVizError("rows.not_shape", field=field, got=value)
    return found


def one_of(allowed: Collection[str]) -> Parser:
    def parse(value: Any, field: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise QuantVizError("rows.not_allowed", field=field, got=value, allowed=", ".join(allowed))
        return value

    return parse


def optional(parser: Parser) -> Parser:
    def parse(value: Any, field: str) -> Any:
        return None if value is None else parser(value, field)

    return parse


def from_digits(written: str, field: str) -> int | float:
    """Return the number that a text is, a whole one as int."""
    words = written.strip(" ")
    if len(words) > NUMBER_DIGITS:
        raise QuantVizError("rows.digits", field=field, count=len(words), most=NUMBER_DIGITS)
    if not _NUMBER.fullmatch(words):
        raise QuantVizError("rows.not_number", field=field, got=written)
    try:
        return int(words)
    except ValueError:
        return float(words)


def json_value(value: Any, field: str) -> Any:
    try:
        if not isinstance(value, str):
            raise ValueError
        return json.loads(value)
    except (ValueError, RecursionError):
        raise QuantVizError("rows.not_json", field=field, got=value) from None


def elements(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise QuantVizError("rows.not_json", field=field, got=value)
    return value


def in_each_language(value: Any, field: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise QuantVizError("rows.not_sentence", field=field, got=value)
    usual = value.get(DEFAULT_LANGUAGE)
    return {language: text(value.get(language, usual), field) for language in languages()}


def sentences(message: QuantVizError | Note) -> dict[str, str]:
    return {language: message.message(language) for language in languages()}
