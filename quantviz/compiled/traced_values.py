"""Names in place of tensors: each call of torch in an operation is written down as a line of code.

The lines follow torch's rules for dtypes. A call of torch that has no entry here raises `Untraceable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from quantviz.quantization.grids import nearest_by_coordinate
from quantviz.quantization.powers_of_two import log2_floored

#: The types of the lines' values, by torch's dtypes. Half precision is float32 that was rounded to it.
TYPES: Mapping[torch.dtype, str] = MappingProxyType(
    {
        torch.float64: "f8",
        torch.float32: "f4",
        torch.float16: "f4",
        torch.bfloat16: "f4",
        torch.int64: "i8",
        torch.int32: "i4",
        # Codes are in the range of their type: int32 holds any of them.
        torch.int16: "i4",
        torch.int8: "i4",
        torch.uint8: "i4",
        torch.bool: "b1",
    }
)
_HALVES = (torch.float16, torch.bfloat16)
#: Widths by which numbers of one kind are promoted.
_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Untraceable(Exception):
    """An operation calls a function of torch that cannot be written down."""


@dataclass
class Trace:
    """The lines so far."""

    #: Lines that depend on the block's parameters alone, and those that depend on the cell.
    of_block: list[str] = field(default_factory=list)
    of_cell: list[str] = field(default_factory=list)
    #: Numbers, kept apart from the lines so that schemes that differ in them share their code.
    floats: list[float] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    #: Lists of values that are looked up, one after the other; float64.
    tables: list[torch.Tensor] = field(default_factory=list)
    #: More functions of torch, by name: those that only one writer of the lines supports. They come before
    #: `FUNCTIONS`.
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def line(self, expression: str, dtype: torch.dtype, inputs: tuple[TracedValue, ...]) -> TracedValue:
        """Return a new value; the same expression again is the same value."""
        of_cell = any(cell.of_cell for cell in inputs)
        name = self._known.get(expression)
        if name is None:
            name = f"t{len(self._known)}"
            self._known[expression] = name
            (self.of_cell if of_cell else self.of_block).append(f"{name} = {expression}")
        return TracedValue(self, name, dtype, of_cell)

    def number(self, value: float, dtype: torch.dtype) -> TracedValue:
        """Return a number of a dtype."""
        if dtype == torch.bool:
            return TracedValue(self, str(bool(value)), dtype, False)
        if dtype.is_floating_point:
            self.floats.append(float(torch.tensor(value, dtype=torch.float64).to(dtype)))
            return self.line(f"{TYPES[dtype]}(load_f8(floats, {len(self.floats) - 1}))", dtype, ())
        self.integers.append(int(value))
        return self.line(f"{TYPES[dtype]}(load_i8(integers, {len(self.integers) - 1}))", dtype, ())

    def table(self, values: torch.Tensor) -> int:
        """Return where a list of values begins among those that are looked up."""
        begin = 0
        for table in self.tables:
            if torch.equal(table, values.to(torch.float64)):
                return begin
            begin += len(table)
        self.tables.append(values.to(torch.float64))
        return begin


def _promoted(*values: Any) -> torch.dtype:
    """Return the dtype that torch computes in: numbers count only where they are of a higher kind."""
    dtypes = [value.dtype for value in values if isinstance(value, TracedValue)]
    floats = [dtype for dtype in dtypes if dtype.is_floating_point]
    if floats:
        widest = floats[0]
        for dtype in floats[1:]:
            widest = torch.promote_types(widest, dtype)
        return widest
    numbers = [value for value in values if not isinstance(value, TracedValue)]
    if any(isinstance(value, float) for value in numbers):
        return torch.float32
    whole = max(dtypes, key=_INTEGERS.index) if dtypes else torch.int64
    if {torch.uint8, torch.int8} <= set(dtypes):
        return torch.int16
    return (
        torch.int64
        if whole == torch.bool and any(not isinstance(value, bool) for value in numbers)
        else whole
    )


def _as(trace: Trace, value: Any, dtype: torch.dtype) -> TracedValue:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise Untraceable("a tensor")
        value = value.item()
    cell: TracedValue = value.to(dtype) if isinstance(value, TracedValue) else trace.number(value, dtype)
    return cell


def _joined(*values: Any, scaled: bool = False) -> tuple[Trace, torch.dtype, list[TracedValue]]:
    """Return the dtype of some values together, and each in it.

    A number that half precision is multiplied or divided by, which is `scaled`, stays float32, as it does in
    torch.
    """
    trace = next(value.trace for value in values if isinstance(value, TracedValue))
    dtype = _promoted(
        *(
            value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
            for value in values
        )
    )
    if scaled and dtype in _HALVES:
        values = tuple(
            value if isinstance(value, TracedValue) else _as(trace, value, torch.float32) for value in values
        )
        return trace, dtype, [value if value.dtype == torch.float32 else value.to(dtype) for value in values]
    return trace, dtype, [_as(trace, value, dtype) for value in values]


def _binary(sign: str, swapped: bool = False) -> Callable[[Any, Any], TracedValue]:
    def run(a: Any, b: Any) -> TracedValue:
        trace, dtype, (left, right) = _joined(*((b, a) if swapped else (a, b)), scaled=sign in "*/")
        if sign == "/" and not dtype.is_floating_point:
            dtype = torch.float32
            left = left.to(dtype)
            right = right.to(dtype)
        made = trace.line(f"{TYPES[dtype]}({left.name} {sign} {right.name})", dtype, (left, right))
        # Half precision is computed in float32 and rounded.
        return (
            TracedValue(trace, made.name, torch.float32, made.of_cell).to(dtype) if dtype in _HALVES else made
        )

    return run


def _comparison(sign: str) -> Callable[[Any, Any], TracedValue]:
    def run(a: Any, b: Any) -> TracedValue:
        trace, _, (left, right) = _joined(a, b)
        return trace.line(f"{left.name} {sign} {right.name}", torch.bool, (left, right))

    return run


def _logic(sign: str, swapped: bool = False) -> Callable[[Any, Any], TracedValue]:
    """Return an operator of truth values, or of the bits of whole numbers."""

    def run(a: Any, b: Any) -> TracedValue:
        trace, dtype, (left, right) = _joined(*((b, a) if swapped else (a, b)))
        if dtype == torch.bool:
            for one, other in ((left, right), (right, left)):
                if one.name in ("True", "False"):
                    absorbing = "False" if sign == "&" else "True"
                    if one.name == absorbing and sign != "^":
                        return one
                    if sign != "^":
                        return other
                    return _binary_logic(sign, left, right)
        return (
            _binary_logic(sign, left, right)
            if dtype == torch.bool
            else trace.line(f"{TYPES[dtype]}({left.name} {sign} {right.name})", dtype, (left, right))
        )

    return run


def _binary_logic(sign: str, left: TracedValue, right: TracedValue) -> TracedValue:
    return left.trace.line(f"{left.name} {sign} {right.name}", torch.bool, (left, right))


class TracedValue:
    """A name that behaves as a tensor does, and writes down each call as a line."""

    def __init__(self, trace: Trace, name: str, dtype: torch.dtype, of_cell: bool) -> None:
        self.trace = trace
        self.name = name
        self.dtype = dtype
        self.of_cell = of_cell

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        trace = next((cell.trace for cell in args if isinstance(cell, TracedValue)), None)
        run = (trace.functions if trace else {}).get(name) or FUNCTIONS.get(name)
        if run is None:
            raise Untraceable(name)
        return run(*args, **(kwargs or {}))

    def to(self, dtype: torch.dtype) -> TracedValue:
        if dtype == self.dtype:
            return self
        if dtype in _HALVES:
            single = self.to(torch.float32)
            return self.trace.line(
                f"{'half' if dtype == torch.float16 else 'brain'}({single.name})", dtype, (single,)
            )
        if {self.dtype, dtype} <= {torch.float32, *_HALVES}:
            return TracedValue(self.trace, self.name, dtype, self.of_cell)
        if dtype == torch.bool:
            return self != 0
        inner = f"select({self.name}, i4(1), i4(0))" if self.dtype == torch.bool else self.name
        return self.trace.line(f"{TYPES[dtype]}({inner})", dtype, (self,))

    def view(self, dtype: torch.dtype) -> TracedValue:
        """Return the bits read as int64, or the result of the trace's own `view`."""
        if "view" in self.trace.functions:
            viewed: TracedValue = self.trace.functions["view"](self, dtype)
            return viewed
        if (self.dtype, dtype) != (torch.float64, torch.int64):
            raise Untraceable("view")
        return self.trace.line(f"bits({self.name})", dtype, (self,))

    def contiguous(self) -> TracedValue:
        return self

    def abs(self) -> TracedValue:
        return unary("fabs")(self)

    def sub(self, other: Any) -> TracedValue:
        difference: TracedValue = self - other
        return difference

    def square(self) -> TracedValue:
        return self * self

    def clamp(self, min: Any = None, max: Any = None) -> TracedValue:
        """Limit the value, with NaN left as NaN and a value equal to an end left as it was."""
        value = self
        if min is not None:
            low = _as(self.trace, min, _promoted(self, min))
            value = _where(value < low, low, value)
        if max is not None:
            high = _as(self.trace, max, _promoted(self, max))
            value = _where(value > high, high, value)
        return value

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> TracedValue:
        largest = torch.finfo(self.dtype).max
        value = _where(self == math.inf, largest if posinf is None else posinf, self)
        value = _where(value == -math.inf, -largest if neginf is None else neginf, value)
        return _where(_isnan(self), nan, value)

    def __neg__(self) -> TracedValue:
        return self.trace.line(f"{TYPES[self.dtype]}(-{self.name})", self.dtype, (self,))

    __add__ = _binary("+")
    __radd__ = _binary("+", True)
    __sub__ = _binary("-")
    __rsub__ = _binary("-", True)
    __mul__ = _binary("*")
    __rmul__ = _binary("*", True)
    __truediv__ = _binary("/")
    __rtruediv__ = _binary("/", True)
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")  # type: ignore[assignment]
    __and__ = _logic("&")
    __or__ = _logic("|")
    __xor__ = _logic("^")
    __lshift__ = _logic("<<")
    __rlshift__ = _logic("<<", True)
    __rshift__ = _logic(">>")

    def __invert__(self) -> TracedValue:
        if self.name in ("True", "False"):
            return self.trace.number(self.name == "False", torch.bool)
        return self.trace.line(f"{self.name} ^ True", torch.bool, (self,))

    def __hash__(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self.trace.functions:
            return partial(self.trace.functions[name], self)
        # Python looks for special names of objects, which must raise as missing attributes do.
        raise AttributeError(name) if name.startswith("__") else Untraceable(name)

    def _unknown(self, *_: Any) -> Any:
        raise Untraceable("what Python computes by itself")

    __bool__ = __float__ = __int__ = __index__ = __len__ = __pow__ = __rpow__ = __mod__ = __rmod__ = (
        __floordiv__
    ) = __rfloordiv__ = _unknown


@dataclass(frozen=True)
class _MantissaExponent:
    """The result of `torch.frexp`: mantissa and exponent."""

    exponent: TracedValue
    _x: TracedValue

    @property
    def mantissa(self) -> TracedValue:
        wide = self._x.to(torch.float64)
        power = (-self.exponent).to(torch.float64)
        back = self._x.trace.line(f"two_to({power.name})", torch.float64, (power,))
        return (wide * back).to(self._x.dtype)


def unary(name: str) -> Callable[[Any], TracedValue]:
    """Return the writer of the lines of a function of one value, in that value's dtype."""

    def run(x: TracedValue) -> TracedValue:
        return x.trace.line(f"{name}({x.name})", x.dtype, (x,))

    return run


def _where(condition: TracedValue, a: Any, b: Any) -> TracedValue:
    trace = condition.trace
    values = [
        value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value for value in (a, b)
    ]
    dtype = _promoted(*values)
    left, right = (_as(trace, value, dtype) for value in values)
    if condition.name in ("True", "False"):
        return left if condition.name == "True" else right
    return trace.line(f"select({condition.name}, {left.name}, {right.name})", dtype, (condition, left, right))


def _isnan(x: TracedValue) -> TracedValue:
    return x.trace.line(f"{x.name} != {x.name}", torch.bool, (x,))


def _sign(x: TracedValue) -> TracedValue:
    return _where(x > 0, 1, _where(x < 0, -1, _like(x, 0.0)))


def _like(x: TracedValue, value: float, dtype: torch.dtype | None = None) -> TracedValue:
    return x.trace.number(value, dtype or x.dtype)


def _copysign(a: TracedValue, b: TracedValue) -> TracedValue:
    trace, dtype, (left, right) = _joined(a, b)
    return trace.line(f"copysign({left.name}, {right.name})", dtype, (left, right))


def _searchsorted(values: torch.Tensor, x: TracedValue, right: bool = False) -> TracedValue:
    wide = x.to(torch.float64)
    # A search in steps of halved size without branches, so that it can be vectorised. NaN is beyond all, as
    # it is for torch.
    trace = x.trace
    count = len(values)
    table = trace.table(values)
    beyond = ">" if right else ">="
    place = trace.line("0", torch.int64, ())
    for step in (1 << k for k in reversed(range(count.bit_length()))):
        at = f"{place.name} + {step - 1}"
        known = trace.line(
            f"load_f8(tables, {table} + least({at}, {count - 1}))", torch.float64, (place, wide)
        )
        there = trace.line(
            f"({at} < {count}) & (({known.name} {beyond} {wide.name}) ^ True)", torch.bool, (known, wide)
        )
        place = trace.line(
            f"select({there.name}, {place.name} + {step}, {place.name})", torch.int64, (there,)
        )
    return place


def looked_up(values: torch.Tensor, x: TracedValue) -> TracedValue:
    """Return the entry of a list at a place."""
    entry = x.trace.line(f"load_f8(tables, {x.trace.table(values)} + {x.name})", torch.float64, (x,))
    return entry.to(values.dtype)


def _frexp(x: TracedValue) -> _MantissaExponent:
    wide = x.to(torch.float64)
    return _MantissaExponent(x.trace.line(f"exponent({wide.name})", torch.int32, (wide,)), x)


def _fma(x: TracedValue, y: Any, z: Any) -> TracedValue:
    single = [_as(x.trace, value, torch.float32) for value in (x, y, z)]
    return x.trace.line(f"fma({', '.join(cell.name for cell in single)})", torch.float32, tuple(single))


#: Functions of torch that can be written down, by name.
FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "where": _where,
        "round": unary("rint"),
        "floor": unary("floor"),
        "ceil": unary("ceil"),
        "trunc": unary("trunc"),
        "abs": unary("fabs"),
        "sign": _sign,
        "copysign": _copysign,
        "isnan": _isnan,
        "isinf": lambda x: unary("fabs")(x) == math.inf,
        "isfinite": lambda x: unary("fabs")(x) < math.inf,
        "maximum": lambda a, b: _where((a > b) | _isnan(a), a, b),
        "reciprocal": lambda x: 1 / x,
        "signbit": lambda x: _copysign(_like(x, 1.0), x) < 0,
        "full_like": _like,
        "ones_like": lambda x, dtype=None: _like(x, 1.0, dtype),
        "zeros_like": lambda x, dtype=None: _like(x, 0.0, dtype),
        "exp2": lambda x: x.trace.line(
            f"two_to({x.to(torch.float64).name})", torch.float64, (x.to(torch.float64),)
        ),
        "frexp": _frexp,
        "searchsorted": _searchsorted,
        "__getitem__": looked_up,
        "fma": _fma,
        "nearest": nearest_by_coordinate,
        "floor_of_log2": log2_floored,
        # Operators of a tensor with a `TracedValue` on its right.
        **{
            name: _binary(sign)
            for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("true_divide", "/"))
        },
    }
)
