"""A long table of tensors under recipes, read and checked: what each tensor can have, at which cost."""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import MOST_AXES
from quantviz.sources.names import checked_names
from quantviz.tensors.conversion import as_plain

#: A `pandas.DataFrame`, or its columns by name.
Table: TypeAlias = Any
#: What errors of each tensor weigh: by name, or in a file.
Sensitivities: TypeAlias = Mapping[str, float] | str | os.PathLike[str] | None

#: No axis of a tensor is longer.
_LONGEST = 2**48

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

    @classmethod
    def of(cls, table: Table) -> Rows:
        """Return a table's columns.

        Raises:
            QuantVizError: It is no table, or a column that is needed is not there.
        """
        names = list(table.columns if hasattr(table, "columns") else _keys(table))
        for needed in ("tensor", "recipe", "bits"):
            if needed not in names:
                raise QuantVizError("allocate.no_column", column=needed, known=", ".join(map(str, names)))
        if "cost" not in names and "sqnr_db" not in names:
            raise QuantVizError("allocate.no_column", column="cost", known=", ".join(map(str, names)))
        columns = {str(name): _values(str(name), table[name]) for name in names}
        counts = {name: len(column) for name, column in columns.items()}
        for name, count in counts.items():
            if count != counts["tensor"]:
                raise QuantVizError("allocate.lengths", column=name, got=count, tensors=counts["tensor"])
        tensors, recipes = (tuple(map(str, columns[name])) for name in ("tensor", "recipe"))
        checked_names(tensors)
        checked_names(recipes)
        first = {tensor: at for at, tensor in reversed(list(enumerate(tensors)))}
        return cls(tensors, recipes, columns, first)

    def offers(self, weigh: Mapping[str, float]) -> dict[str, dict[str, Offer]]:
        """Return what each tensor can have, by tensor, then by recipe; errors weigh 1 or what `weigh` has."""
        found: dict[str, dict[str, Offer]] = {name: {} for name in self.tensors}
        for at, (tensor, recipe) in enumerate(zip(self.tensors, self.recipes, strict=True)):
            if not self._is_ok(at):
                continue
            if recipe in found[tensor]:
                raise QuantVizError("allocate.twice", tensor=tensor, recipe=recipe)
            cost = self._cost(at)
            if cost is not None:
                alpha = weigh.get(tensor, 1.0)
                # An infinite cost stays one, whatever it weighs.
                weighed = cost if math.isinf(cost) else cost * alpha
                found[tensor][recipe] = Offer(self._bits(at), weighed)
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
        """Return how many weights tensors have together; None where the shape of one is not known."""
        counts = [self._count(name) for name in names]
        return None if None in counts else sum(count or 0 for count in counts)

    def stored_bits(self, name: str) -> int | None:
        """Return the bits that a tensor takes as it is stored; None where that is not known."""
        count = self._count(name)
        bits = _DTYPE_BITS.get(str(self.dtype(name)).lower().removeprefix("torch."))
        return None if count is None or bits is None else count * bits

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the tensors by name, of those whose shape is known."""
        column = self.columns.get("shape", ())
        found = {name: lengths_of(column[at]) for name, at in self.first.items() if column}
        return {name: shape for name, shape in found.items() if shape is not None}

    def dtype(self, name: str) -> str | None:
        """Return the dtype that a tensor is stored in; None where that is not known."""
        found = self.columns["dtype"][self.first[name]] if "dtype" in self.columns else None
        return found if isinstance(found, str) else None

    def relative_errors(self) -> Mapping[str, tuple[float, float]]:
        """Return one finite (mse, sqnr_db) of each tensor that has one."""
        found: dict[str, tuple[float, float]] = {}
        if "mse" in self.columns and "sqnr_db" in self.columns:
            for at, tensor in enumerate(self.tensors):
                mse, db = _number(self.columns["mse"][at]), _number(self.columns["sqnr_db"][at])
                if tensor not in found and mse > 0 and math.isfinite(mse) and math.isfinite(db):
                    found[tensor] = (mse, db)
        return found

    def _count(self, name: str) -> int | None:
        shape = self.columns["shape"][self.first[name]] if "shape" in self.columns else None
        return _weights_of(shape)

    def _is_ok(self, at: int) -> bool:
        return "status" not in self.columns or self.columns["status"][at] == "ok"

    def _bits(self, at: int) -> int:
        bits = self.columns["bits"][at]
        value = _number(bits)
        if not (math.isfinite(value) and value >= 0 and value == math.floor(value)):
            raise QuantVizError(
                "allocate.bits_not_whole", tensor=self.tensors[at], recipe=self.recipes[at], got=bits
            )
        return int(bits)

    def _cost(self, at: int) -> float | None:
        """Return a row's cost; None where its error is not known, so that it is no choice."""
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


def _keys(table: Table) -> list[str]:
    if not isinstance(table, Mapping):
        raise QuantVizError("allocate.no_table", got=type(table).__name__)
    return list(table)


def _values(name: str, column: Any) -> Sequence[Any]:
    """Return a column as a list: those of numpy, torch and pandas as Python's own values."""
    if hasattr(column, "__array__"):
        column = as_plain(column).tolist() if type(column).__module__.startswith("torch") else column.tolist()
    if not isinstance(column, list | tuple | Iterator | range):
        raise QuantVizError("allocate.no_list", column=name, got=type(column).__name__)
    return list(column)


def _number(value: Any) -> float:
    """Return a number as a float, NaN where it is none."""
    try:
        return float(value) if isinstance(value, numbers.Real) else math.nan
    except OverflowError:
        return math.inf


def _weights_of(shape: Any) -> int | None:
    """Return the product of a shape."""
    lengths = lengths_of(shape)
    return None if lengths is None else math.prod(lengths)


def lengths_of(shape: Any) -> Shape | None:
    """Return a shape, which in a file may be a text such as "[64, 128]" or "64x128", or one number.

    None where it is no shape.
    """
    if isinstance(shape, str):
        shape = re.findall(r"\d+", shape) if re.fullmatch(r"[\d\s,x×()\[\]]+", shape) else None
    if isinstance(shape, int | float):
        shape = (shape,)
    if not isinstance(shape, list | tuple) and type(shape).__module__ != "numpy":
        return None
    try:
        lengths = tuple(int(length) for length in shape)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    usual = len(lengths) <= MOST_AXES and all(0 <= length <= _LONGEST for length in lengths)
    return lengths if usual else None
