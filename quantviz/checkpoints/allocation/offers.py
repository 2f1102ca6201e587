"""A long table of tensors under recipes, read and checked: the recipes of each tensor with their costs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from quantviz.checkpoints.results.typed_tables import TypedTable, typed_table
from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape

#: A `pandas.DataFrame`, or its columns by name.
Table: TypeAlias = Any
#: Weights of the tensors' errors: by name, or in a file.
Sensitivities: TypeAlias = Mapping[str, float] | str | os.PathLike[str] | None

#: Bits of one value of a stored dtype, by the names that safetensors, torch and GGUF have for it.
_DTYPE_BITS = {
    **dict.fromkeys(("f64", "float64", "i64", "int64", "u64", "uint64"), 64),
    **dict.fromkeys(("f32", "float32", "i32", "int32", "u32", "uint32"), 32),
    **dict.fromkeys(("f16", "bf16", "float16", "bfloat16", "i16", "int16", "u16", "uint16"), 16),
    **dict.fromkeys(("i8", "int8", "u8", "uint8", "bool"), 8),
    **dict.fromkeys(("f8_e4m3", "f8_e5m2", "float8_e4m3fn", "float8_e5m2"), 8),
}


@dataclass(frozen=True)
class Offer:
    """One tensor under one recipe."""

    bits: int
    cost: float


@dataclass(frozen=True, eq=False)
class Rows:
    """The columns of a long table that an allocation needs, each of the same length."""

    tensors: tuple[str, ...]
    recipes: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]
    #: The first row of each tensor.
    first: Mapping[str, int]
    #: Bits of tensors that stay, where those are not of their shape and dtype alone.
    kept: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table) -> Rows:
        """Return a table's columns.

        Raises:
            QuantVizError: It is no table, or a column that is needed is not there.
        """
        typed = typed_table(table)
        names = typed.names
        for needed in ("tensor", "recipe", "bits"):
            if needed not in names:
                raise QuantVizError("allocate.no_column", column=needed, known=", ".join(names))
        if "cost" not in names and "sqnr_db" not in names:
            raise QuantVizError("allocate.no_column", column="cost", known=", ".join(names))
        for at, problem in typed.problems.items():
            _check_row(typed, at, problem)
        tensors, recipes = (tuple(typed.columns[name]) for name in ("tensor", "recipe"))
        first = {tensor: at for at, tensor in reversed(list(enumerate(tensors)))}
        return cls(tensors, recipes, typed.columns, first)

    def offers(self, weigh: Mapping[str, float]) -> dict[str, dict[str, Offer]]:
        """Return bits and cost by tensor, then by recipe; `weigh` has the factors of costs, 1 by default."""
        found: dict[str, dict[str, Offer]] = {name: {} for name in self.tensors}
        for at, (tensor, recipe) in enumerate(zip(self.tensors, self.recipes, strict=True)):
            if "status" in self.columns and self.columns["status"][at] != "ok":
                continue
            if recipe in found[tensor]:
                raise QuantVizError("allocate.twice", tensor=tensor, recipe=recipe)
            cost = self._cost(at)
            if cost is not None:
                alpha = weigh.get(tensor, 1.0)
                # An infinite cost stays one, whatever it weighs.
                weighed = cost if math.isinf(cost) else cost * alpha
                bits: int | None = self.columns["bits"][at]
                if bits is None:
                    raise QuantVizError("allocate.bits_not_whole", tensor=tensor, recipe=recipe, got=bits)
                found[tensor][recipe] = Offer(bits, weighed)
        return found

    @property
    def has_costs(self) -> bool:
        """Whether costs are given, instead of made of SQNR."""
        return "cost" in self.columns

    def same_content(self) -> list[tuple[str, ...]]:
        """Return the tensors that have the same bytes, in groups of two or more."""
        if "content" not in self.columns:
            raise QuantVizError("allocate.no_column", column="content", known=", ".join(self.columns))
        groups: dict[str, dict[str, None]] = {}
        for tensor, content in zip(self.tensors, self.columns["content"], strict=True):
            if isinstance(content, str) and content:
                groups.setdefault(content, {})[tensor] = None
        return [tuple(group) for group in groups.values() if len(group) > 1]

    def weights(self, names: Iterable[str]) -> int | None:
        """Return the number of weights of some tensors together; None where the shape of one is missing."""
        counts = [self._count(name) for name in names]
        return None if None in counts else sum(count or 0 for count in counts)

    def stored_bits(self, name: str) -> int | None:
        """Return the bits that a tensor takes as it is stored; None where that is not known."""
        if name in self.kept:
            return self.kept[name]
        count = self._count(name)
        bits = _DTYPE_BITS.get(str(self.dtype(name)).lower().removeprefix("torch."))
        return None if count is None or bits is None else count * bits

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the tensors by name, of those whose shape is known."""
        column = self.columns.get("shape", ())
        found = {name: column[at] for name, at in self.first.items() if column}
        return {name: shape for name, shape in found.items() if shape is not None}

    def dtype(self, name: str) -> str | None:
        """Return the dtype that a tensor is stored in; None where that is not known."""
        found: str | None = self.columns["dtype"][self.first[name]] if "dtype" in self.columns else None
        return found

    def file(self, name: str) -> str:
        """Return the file that a tensor lies in; "" where that is not known."""
        return str(self.columns["file"][self.first[name]] or "") if "file" in self.columns else ""

    def relative_errors(self) -> Mapping[str, tuple[float, float]]:
        """Return one finite (mse, sqnr_db) of each tensor that has one."""
        found: dict[str, tuple[float, float]] = {}
        if "mse" in self.columns and "sqnr_db" in self.columns:
            for at, tensor in enumerate(self.tensors):
                mse = _number(self.columns["mse"][at])
                db = _number(self.columns["sqnr_db"][at])
                if tensor not in found and mse > 0 and math.isfinite(mse) and math.isfinite(db):
                    found[tensor] = (mse, db)
        return found

    def _count(self, name: str) -> int | None:
        shape = self.columns["shape"][self.first[name]] if "shape" in self.columns else None
        return None if shape is None else math.prod(shape)

    def _cost(self, at: int) -> float | None:
        """Return a row's cost; None where its error is missing, so that it is no choice."""
        if self.has_costs:
            cost = _number(self.columns["cost"][at])
            if math.isnan(cost) or cost == -math.inf:
                raise QuantVizError(
                    "allocate.cost_not_number", tensor=self.tensors[at], recipe=self.recipes[at], got=cost
                )
            return cost
        db = _number(self.columns["sqnr_db"][at])
        if math.isnan(db):
            return 0.0 if "mse" in self.columns and _number(self.columns["mse"][at]) == 0 else None
        return _relative_error(db)


def _relative_error(db: float) -> float:
    """Return the squared error as a share of the squared values: 0 at ∞ dB."""
    try:
        return float(10 ** (-db / 10))
    except OverflowError:
        return math.inf


def _check_row(table: TypedTable, at: int, problem: QuantVizError) -> None:
    """Raise the problem of a row that could be a choice, or that has no name."""
    field = problem.params.get("field")
    columns = table.columns
    if field not in ("tensor", "recipe", "status"):
        if "status" in columns and columns["status"][at] != "ok":
            return
        mistake = {"bits": "allocate.bits_not_whole", "cost": "allocate.cost_not_number"}.get(str(field))
        if mistake and "got" in problem.params:
            row = {"tensor": columns["tensor"][at], "recipe": columns["recipe"][at]}
            raise QuantVizError(mistake, **row, got=problem.params["got"])
    raise QuantVizError("tables.row", row=at + 1, problem=problem)


def _number(value: float | None) -> float:
    """Return a number, NaN where there is none."""
    return math.nan if value is None else value
