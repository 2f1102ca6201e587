"""The one error type, and notes: remarks for the user on a result although nothing failed."""

from __future__ import annotations

import difflib
import functools
import math
import reprlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from quantviz.pickling import Picklable
from quantviz.text import DEFAULT_LANGUAGE, languages, text

#: Characters of one value that an error repeats: about a line.
MOST_SHOWN = 120
#: Characters of a list of allowed names in an error message.
_MOST_LISTED = 2000
#: Parameters that list what can be given; of names, one was meant.
_LISTS = ("known", "allowed", "offered", "sizes", "recipes", "folders")
_NAMES = ("known", "allowed")
#: Names shown of a longer list, and names compared to find them.
_NEAREST = 3
_MOST_COMPARED = 2000


def known_language(language: str) -> str:
    if not isinstance(language, str) or language not in languages():
        raise QuantVizError("report.language", got=language, known=", ".join(languages()))
    return language


class QuantVizError(ValueError):
    """An error that the user can correct: the message names the failure, the value, the rule and the way out.

    `key` names the sentence under `[errors]` in `quantviz/text/*.toml` and `params` fills
    its braces, so a page can show it in any language; `str(error)` is the English one. A long
    value is cut to about a line. Of a name that is not among `known`, the nearest one is suggested if it is
    similar, and a list of more than a line is cut to the three nearest.

    >>> error = QuantVizError("unknown_mode", got="symetric", known="symmetric, asymmetric")
    >>> error.key
    'unknown_mode'
    >>> print(error)
    Unknown mode: got 'symetric'. Use one of symmetric, asymmetric. Did you mean 'symmetric'?
    """

    def __init__(self, key: str, /, **params: object) -> None:
        super().__init__(key)
        self.key = key
        self.params = params

    def __str__(self) -> str:
        return self.message()

    def message(self, language: str = DEFAULT_LANGUAGE) -> str:
        """Return the sentence in `language`."""
        said: dict[str, object] = {}
        for name, value in self.params.items():
            if isinstance(value, QuantVizError):
                said[name] = value.message(language)
            else:
                said[name] = _FormattedValue(value, _MOST_LISTED if name in _LISTS else MOST_SHOWN)
        said |= self._listed(language)
        sentence = text(f"errors.{self.key}", known_language(language), **said)
        similar = self._similar()
        return f"{sentence} {text('errors.nearest', language, nearest=similar)}" if similar else sentence

    def _listed(self, language: str) -> dict[str, str]:
        """Return the nearest names in place of each long list, by parameter."""
        got = self._unknown()
        lists = ((name, self.params.get(name)) for name in _NAMES)
        return {
            name: text(
                "errors.nearest_of",
                language,
                names=", ".join(_nearest_names(got, listed.split(", "))),
                count=listed.count(", ") + 1,
            )
            for name, listed in lists
            if got is not None and isinstance(listed, str) and len(listed) > MOST_SHOWN
        }

    def _similar(self) -> str | None:
        got = self._unknown()
        known = self.params.get("known")
        if got is None or not isinstance(known, str) or len(got) > MOST_SHOWN:
            return None
        names = known.split(", ")[:_MOST_COMPARED]
        return _of_nearest_number(got.casefold(), names) or next(
            (name for name in difflib.get_close_matches(got.casefold(), names, 1) if name != got), None
        )

    def _unknown(self) -> str | None:
        got = self.params.get("field", self.params.get("got"))
        return got if isinstance(got, str) else None

    def again(self) -> QuantVizError:
        """Return the same error without its traceback: an error that is kept is raised as a new one each
        time.
        """
        return QuantVizError(self.key, **self.params)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(QuantVizError, **self.params), (self.key,)


def _nearest_names(got: str, names: list[str]) -> list[str]:
    """Return the names most like an unknown one: those that contain it, then those with like letters.

    >>> _nearest_names("int32", ["int3", "nf4", "int8", "int16", "uint32_g32"])
    ['uint32_g32', 'int16', 'int3']
    """
    folded = got.casefold()[:MOST_SHOWN].strip("*")
    first = [name for name in names if folded and folded in name.casefold()][:_NEAREST]
    number = _of_nearest_number(folded, names)
    alike = difflib.get_close_matches(folded, names[:_MOST_COMPARED], _NEAREST, 0.0)
    found = dict.fromkeys((*first, *filter(None, [number]), *alike))
    return list(found)[:_NEAREST]


def _of_nearest_number(got: str, names: list[str]) -> str | None:
    """Return the name that differs from `got` in its number alone, by the least factor.

    None if there is no such name, or if the number in `got` is not a power of two, as bit widths are.

    >>> _of_nearest_number("int32", ["int3", "int8", "int16", "uint16"])
    'int16'
    >>> _of_nearest_number("layer.2", ["layer.0"]) is None
    True
    """
    stem = got.rstrip("0123456789")
    number = got.removeprefix(stem)
    others = [
        name
        for name in names
        if name.startswith(stem) and name.removeprefix(stem).isdecimal() and int(name.removeprefix(stem))
    ]
    width = int(number) if number.isascii() and number.isdecimal() else 0
    if width == 0 or width & (width - 1) or got in names or not others:
        return None
    return min(others, key=lambda name: abs(math.log2(int(name.removeprefix(stem)) / width)))


class _FormattedValue:
    """A value in an error's sentence: formatted by its format specification, at most `most` characters."""

    def __init__(self, value: object, most: int) -> None:
        self._value = value
        self._most = most

    def __repr__(self) -> str:
        return _cut(
            _short.repr(_cut(self._value, self._most) if isinstance(self._value, str) else self._value),
            self._most + 2,
        )

    def __format__(self, spec: str) -> str:
        value = self._value
        if isinstance(value, str):
            # A file's name can have halves of characters, which no page and no terminal takes.
            value = _cut(value, self._most).encode("utf-8", "backslashreplace").decode("utf-8")
        elif isinstance(value, int | list | tuple | dict | set | frozenset) and not spec:
            return repr(self)
        try:
            return _cut(format(value, spec), self._most)
        except (ValueError, OverflowError, TypeError):
            # A whole number beyond float64, or a value that cannot be written at all.
            return repr(self)


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = 10
        self.maxother = self.maxstring = _MOST_LISTED

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number as text, or as its power of ten: Python refuses to write more than 4,300
        digits.
        """
        if abs(x) < 10**MOST_SHOWN:
            return repr(x)
        sign = "-" if x < 0 else ""
        return f"{sign}10^{math.log10(abs(x)):.0f}"


_short = _ShortRepr()


def _cut(words: str, most: int) -> str:
    """Return `words` without their middle where they are longer than `most`."""
    return words if len(words) <= most else f"{words[: most * 2 // 3]}…{words[len(words) - most // 3 + 1 :]}"


@dataclass(frozen=True)
class Note(Picklable):
    """A remark on a result, such as "3 of 9 values changed when stored as float32".

    `key` names the sentence under `[notes]` in `quantviz/text/*.toml`.
    """

    key: str
    params: MappingProxyType[str, object] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, key: str, /, **params: object) -> Note:
        """Return a note with its parameters."""
        return cls(key, MappingProxyType(params))

    def message(self, language: str = DEFAULT_LANGUAGE) -> str:
        """Return the sentence in `language`, with the sentences of notes and errors among its parameters."""
        said = {
            name: value.message(language) if isinstance(value, Note | QuantVizError) else value
            for name, value in self.params.items()
        }
        return text(f"notes.{self.key}", known_language(language), **said)

    def __str__(self) -> str:
        return self.message()
