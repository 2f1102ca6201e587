"""One tensor under one recipe: the row that scans keep, files hold, pages show and gates judge.

A column states its kind once: how its values are read from whatever holds them, and their dtype in pandas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

from quantviz.checkpoints.results import typed_values as values
from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape

#: Outcomes of a tensor under a recipe.
STATUSES = ("ok", "left_aside", "refused", "not_read", "problem")
#: Those of a tensor of whose values nothing is known.
UNREAD = ("problem", "not_read")


@dataclass(frozen=True)
class Kind:
    parse: values.Parser
    dtype: str = "object"
    #: Whether a CSV has them as text, which can look like a number.
    is_text: bool = False
    is_needed: bool = False


_NAME = Kind(values.name, is_text=True, is_needed=True)
_TEXT = Kind(values.text, is_text=True)
_STATUS = Kind(values.one_of(STATUSES), is_text=True, is_needed=True)
_LENGTHS = Kind(values.lengths)
COUNT = Kind(values.whole, "Int64")
NUMBER = Kind(values.number, "float64")


@dataclass(frozen=True)
class ResultRow:
    tensor: Annotated[str, _NAME]
    recipe: Annotated[str, _NAME]
    status: Annotated[str, _STATUS] = "ok"
    reason: Annotated[str | None, _TEXT] = None
    #: The recipe that the engine uses in its place.
    fallback: Annotated[str | None, _TEXT] = None
    #: A hash of the weights of the tensor's columns, where the scheme uses them.
    importance: Annotated[str | None, _TEXT] = None
    shape: Annotated[Shape | None, _LENGTHS] = None
    dtype: Annotated[str | None, _TEXT] = None
    #: A hash of the tensor's bytes, dtype and shape.
    content: Annotated[str | None, _TEXT] = None
    #: Bits of the whole tensor as the recipe stores it.
    bits: Annotated[int | None, COUNT] = None
    #: Place of the first error of largest size.
    max_error_at: Annotated[Shape | None, _LENGTHS] = None
    scheme: Annotated[str | None, _TEXT] = None
    file: Annotated[str | None, _TEXT] = None
    numbers: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    #: Its outcome in the account of an audit.
    became: str = ""
    #: The problem of the first of its damaged values.
    problem: QuantVizError | None = None

    def value(self, column: str) -> Any:
        return getattr(self, column) if column in FIELDS else self.numbers.get(column)

    def number(self, column: str) -> float | None:
        found: float | None = self.value(column)
        return None if found is None or found != found else float(found)

    def told(self, language: str) -> ResultRow:
        if self.problem is None:
            return self
        return replace(self, status="problem", reason=self.problem.message(language), problem=None)

    @property
    def is_unread(self) -> bool:
        return self.status in UNREAD

    @property
    def sqnr_db(self) -> float | None:
        return self.number("sqnr_db") if self.status == "ok" else None

    @property
    def bits_per_weight(self) -> float | None:
        own = self.number("effective_bits")
        if own is None and self.bits is not None and (count := math.prod(self.shape or (0,))):
            own = self.bits / count
        return own


#: Columns that each row has, by name.
FIELDS: Mapping[str, Kind] = MappingProxyType(
    {
        name: kind.__metadata__[0]
        for name, kind in get_type_hints(ResultRow, include_extras=True).items()
        if hasattr(kind, "__metadata__")
    }
)
