"""The one error type, and notes: what a person should know although nothing failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from quantviz.pickling import Picklable
from quantviz.text import DEFAULT_LANGUAGE, text


class QuantVizError(ValueError):
    """Something a person can mend: what failed, the value, the rule, the way out.

    `key` names the sentence under `[errors]` in `quantviz/text/*.toml` and `params` fills
    its braces, so a page can say it in any language; `str(error)` is the English one.

    >>> error = QuantVizError("unknown_format", got="int9", known="int4, int8")
    >>> error.key
    'unknown_format'
    >>> print(error)
    Unknown number format: got 'int9'. Use one of int4, int8.
    """

    def __init__(self, key: str, /, **params: object) -> None:
        super().__init__(key)
        self.key = key
        self.params = params

    def __str__(self) -> str:
        return self.message()

    def message(self, language: str = DEFAULT_LANGUAGE) -> str:
        """The sentence in `language`."""
        said = {name: value.message(language) if isinstance(value, QuantVizError) else value for name, value in self.params.items()}
        return text(f"errors.{self.key}", language, **said)

    def again(self) -> QuantVizError:
        """The same error without the traceback of its last time: one that is kept is raised as another each time."""
        return QuantVizError(self.key, **self.params)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.key, self.params)


def _rebuild(key: str, params: dict[str, object]) -> QuantVizError:
    return QuantVizError(key, **params)


@dataclass(frozen=True)
class Note(Picklable):
    """A remark on a result, such as "3 of 9 values changed when stored as float32".

    `key` names the sentence under `[notes]` in `quantviz/text/*.toml`.
    """

    key: str
    params: MappingProxyType[str, object] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, key: str, /, **params: object) -> Note:
        """A note with its parameters."""
        return cls(key, MappingProxyType(params))

    def message(self, language: str = DEFAULT_LANGUAGE) -> str:
        """The sentence in `language`."""
        return text(f"notes.{self.key}", language, **self.params)

    def __str__(self) -> str:
        return self.message()
