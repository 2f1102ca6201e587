"""A long table of tensors under recipes, read and checked."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.typed_tables import TypedTable
from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape

#: A `pandas.DataFrame`, its columns by name, records, or rows.
Table: TypeAlias = Any
#: Weights of the tensors' errors: by name, or in a file.
Sensitivities: TypeAlias = Mapping[str, float] | str | os.PathLike[str] | None

#: Bits of one value, by the dtype's names in safetensors, torch and GGUF.
_DTYPE_BITS = {
    **dict.fromkeys(("f64", "float64", "i64", "int64", "u64", "uint64"), 64),
    **dict.fromkeys(("f32", "float32", "i32", "int32", "u32", "uint32"), 32),
    **dict.fromkeys(("f16", "bf16", "float16", "bfloat16", "i16", "int16", "u16", "uint16"), 16),
    **dict.fromkeys(("i8", "int8", "u8", "uint8", "bool"), 8),
    **dict.fromkeys(("f8_e4m3", "f8_e5m2", "float8_e4m3fn", "float8_e5m2"), 8),
}


@dataclass(frozen=True)
class RecipeOffer:
    bits: int
    cost: float


@dataclass(frozen=True, eq=False)
class Offers:
    """The rows of a long table as an allocation needs them."""

    table: TypedTable
    #: Bits of kept tensors, where those do not follow from shape and dtype.
    kept: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table) -> Offers:
        """Return the offers of a table; `QuantVizError` where it is none or lacks a column."""
        typed = TypedTable.of(table)
        for needed in ("tensor", "recipe", "bits"):
            typed.check_column(needed)
        if "sqnr_db" not in typed.names:
            typed.check_column("cost")
        for at, row in enumerate(typed.rows):
            _check_row(row, at)
        return cls(typed)

    @cached_property
    def first(self) -> Mapping[str, ResultRow]:
        first_rows: dict[str, ResultRow] = {}
        for row in self.table.rows:
            first_rows.setdefault(row.tensor, row)
        return first_rows

    def by_tensor(self, weigh: Mapping[str, float]) -> dict[str, dict[str, RecipeOffer]]:
        """Return bits and cost by tensor, then by recipe; `weigh` has the factors of costs, 1 by default."""
        offers: dict[str, dict[str, RecipeOffer]] = {name: {} for name in self.first}
        for row in self.table.rows:
            if row.status != "ok":
                continue
            if row.recipe in offers[row.tensor]:
                raise QuantVizError("allocate.twice", tensor=row.tensor, recipe=row.recipe)
            cost = self._cost(row)
            if cost is not None:
                # An infinite cost stays one, whatever it weighs.
                weighed = cost if math.isinf(cost) else cost * weigh.get(row.tensor, 1.0)
                if row.bits is None:
                    raise _mistake("bits_not_whole", row, None)
                offers[row.tensor][row.recipe] = RecipeOffer(row.bits, weighed)
        return offers

    @property
    def has_costs(self) -> bool:
        """Whether costs are given, instead of made of SQNR."""
        return "cost" in self.table.names

    def same_content(self) -> list[tuple[str, ...]]:
        self.table.check_column("content")
        groups: dict[str, dict[str, None]] = {}
        for row in self.table.rows:
            if row.content:
                groups.setdefault(row.content, {})[row.tensor] = None
        return [tuple(group) for group in groups.values() if len(group) > 1]

    def weights(self, names: Iterable[str]) -> int | None:
        shapes = [self.first[name].shape for name in names]
        return None if None in shapes else sum(math.prod(shape or ()) for shape in shapes)

    def stored_bits(self, name: str) -> int | None:
        if name in self.kept:
            return self.kept[name]
        row = self.first[name]
        bits = _DTYPE_BITS.get(str(row.dtype).lower().removeprefix("torch."))
        return None if row.shape is None or bits is None else math.prod(row.shape) * bits

    def shapes(self) -> dict[str, Shape]:
        return {name: row.shape for name, row in self.first.items() if row.shape is not None}

    def relative_errors(self) -> Mapping[str, tuple[float, float]]:
        errors: dict[str, tuple[float, float]] = {}
        for row in self.table.rows:
            mse = row.number("mse") or 0.0
            db = row.number("sqnr_db")
            if db is not None and mse > 0 and math.isfinite(mse) and math.isfinite(db):
                errors.setdefault(row.tensor, (mse, db))
        return errors

    def _cost(self, row: ResultRow) -> float | None:
        """Return a row's cost; None where its error is missing, so that it is no choice."""
        if self.has_costs:
            cost = row.number("cost")
            if cost is None or cost == -math.inf:
                raise _mistake("cost_not_number", row, math.nan if cost is None else cost)
            return cost
        db = row.number("sqnr_db")
        if db is None:
            return 0.0 if row.number("mse") == 0 else None
        return _relative_error(db)


def _relative_error(db: float) -> float:
    """Return the squared error as a share of the squared values: 0 at ∞ dB."""
    try:
        return float(10 ** (-db / 10))
    except OverflowError:
        return math.inf


def _check_row(row: ResultRow, at: int) -> None:
    """Raise the problem of a row that could be a choice, or that has no name."""
    problem = row.problem
    if problem is None:
        return
    field = problem.params.get("field")
    if field not in ("tensor", "recipe", "status"):
        if row.status != "ok":
            return
        mistake = {"bits": "bits_not_whole", "cost": "cost_not_number"}.get(str(field))
        if mistake and "got" in problem.params:
            raise _mistake(mistake, row, problem.params["got"])
    raise QuantVizError("tables.row", row=at + 1, problem=problem)


def _mistake(key: str, row: ResultRow, got: object) -> QuantVizError:
    return QuantVizError(f"allocate.{key}", tensor=row.tensor, recipe=row.recipe, got=got)
