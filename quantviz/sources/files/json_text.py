"""Read JSON from a part of a file that is not trusted: no entry twice, no endless lists, no number lost."""

from __future__ import annotations

import json
import math
from typing import Any

from quantviz.sources.files.file_data import FileData, clipped
from quantviz.sources.limits import Limits


class _DuplicateName(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise _DuplicateName(name)
        entries[name] = value
    return entries


class _Beyond(float):
    """Infinity, where a number stands that is too large for Python; the word Infinity gives a plain one."""

    _digits: str

    def __new__(cls, digits: str) -> _Beyond:
        beyond = super().__new__(cls, digits)
        beyond._digits = digits
        return beyond

    def __str__(self) -> str:
        return self._digits


def _number(digits: str) -> float:
    value = float(digits)
    return _Beyond(digits) if math.isinf(value) else value


def parsed_json(data: FileData, view: memoryview, limits: Limits) -> Any:
    """Return the content of a part of the file in JSON; refuse an object with two entries of one name."""
    raw = bytes(view)
    if (brackets := raw.count(b"[") + raw.count(b"{")) > limits.brackets:
        raise data.beyond("too_many_lists", limits, "brackets", brackets)
    try:
        return json.loads(raw, object_pairs_hook=_no_duplicates, parse_float=_number)
    except _DuplicateName as duplicate:
        raise data.error("duplicate_name", name=clipped(str(duplicate))) from None
