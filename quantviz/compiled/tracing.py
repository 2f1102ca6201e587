"""The arithmetic of a cell as lines of code: the operations run once on names in place of tensors.

What an operation asks of torch is written down, with torch's rules for dtypes, instead of done. So a compiled
cell follows from the very operations that the reference runs. What is asked of torch and has no entry here
ends in `Untraceable`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch

from quantviz.quantization.calibrating import calibrated
from quantviz.quantization.code_to_value import error_operations, value_operations
from quantviz.quantization.grids import GRIDS, local_step
from quantviz.quantization.operations import run_operations
from quantviz.quantization.range_to_scale import range_operations
from quantviz.quantization.stored_scale import store_operations
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.calibration import Range
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype

#: The types of the lines' values, by torch's dtypes. Half precision is float32 that was rounded to it.
_TYPES: Mapping[torch.dtype, str] = MappingProxyType(
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
#: Whole numbers up to this size are all float32.
_EXACT = 2**24
_HALVES = (torch.float16, torch.bfloat16)
#: Widths by which numbers of one kind are promoted.
_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Untraceable(Exception):
    """An operation asks something of torch that cannot be written down."""


@dataclass
class Trace:
    """The lines so far."""

    #: Lines that depend on what is known of the block alone, and those that depend on the cell.
    of_block: list[str] = field(default_factory=list)
    of_cell: list[str] = field(default_factory=list)
    #: Numbers, kept apart from the lines so that schemes that differ in them share their code.
    floats: list[float] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    #: Lists of values that are looked up, one after the other; float64.
    tables: list[torch.Tensor] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)

    def line(self, expression: str, dtype: torch.dtype, inputs: tuple[Cell, ...]) -> Cell:
        """Return a new value; the same expression again is the same value."""
        of_cell = any(each.of_cell for each in inputs)
        name = self._known.get(expression)
        if name is None:
            name = f"t{len(self._known)}"
            self._known[expression] = name
            (self.of_cell if of_cell else self.of_block).append(f"{name} = {expression}")
        return Cell(self, name, dtype, of_cell)

    def number(self, value: float, dtype: torch.dtype) -> Cell:
        """Return a number of a dtype."""
        if dtype == torch.bool:
            return Cell(self, str(bool(value)), dtype, False)
        if dtype.is_floating_point:
            self.floats.append(float(torch.tensor(value, dtype=torch.float64).to(dtype)))
            return self.line(f"{_TYPES[dtype]}(load_f8(floats, {len(self.floats) - 1}))", dtype, ())
        self.integers.append(int(value))
        return self.line(f"{_TYPES[dtype]}(load_i8(integers, {len(self.integers) - 1}))", dtype, ())

    def table(self, values: torch.Tensor) -> int:
        """Return where a list of values begins among those that are looked up."""
        begin = 0
        for each in self.tables:
            if torch.equal(each, values.to(torch.float64)):
                return begin
            begin += len(each)
        self.tables.append(values.to(torch.float64))
        return begin


def _promoted(*values: Any) -> torch.dtype:
    """Return the dtype that torch computes in: numbers count only where they are of a higher kind."""
    dtypes = [value.dtype for value in values if isinstance(value, Cell)]
    floats = [dtype for dtype in dtypes if dtype.is_floating_point]
    if floats:
        widest = floats[0]
        for dtype in floats[1:]:
            widest = torch.promote_types(widest, dtype)
        return widest
    numbers = [value for value in values if not isinstance(value, Cell)]
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


def _as(trace: Trace, value: Any, dtype: torch.dtype) -> Cell:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise Untraceable("a tensor")
        value = value.item()
    own: Cell = value.to(dtype) if isinstance(value, Cell) else trace.number(value, dtype)
    return own


def _joined(*values: Any) -> tuple[Trace, torch.dtype, list[Cell]]:
    trace = next(value.trace for value in values if isinstance(value, Cell))
    dtype = _promoted(
        *(
            value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
            for value in values
        )
    )
    return trace, dtype, [_as(trace, value, dtype) for value in values]


def _binary(sign: str, swapped: bool = False) -> Callable[[Any, Any], Cell]:
    def run(a: Any, b: Any) -> Cell:
        trace, dtype, (left, right) = _joined(*((b, a) if swapped else (a, b)))
        if sign == "/" and not dtype.is_floating_point:
            dtype = torch.float32
            left, right = left.to(dtype), right.to(dtype)
        made = trace.line(f"{_TYPES[dtype]}({left.name} {sign} {right.name})", dtype, (left, right))
        # Half precision is computed in float32 and rounded.
        return Cell(trace, made.name, torch.float32, made.of_cell).to(dtype) if dtype in _HALVES else made

    return run


def _comparison(sign: str) -> Callable[[Any, Any], Cell]:
    def run(a: Any, b: Any) -> Cell:
        trace, _, (left, right) = _joined(a, b)
        return trace.line(f"{left.name} {sign} {right.name}", torch.bool, (left, right))

    return run


def _logic(sign: str) -> Callable[[Any, Any], Cell]:
    """Of truth values, or of the bits of whole numbers."""

    def run(a: Any, b: Any) -> Cell:
        trace, dtype, (left, right) = _joined(a, b)
        if dtype == torch.bool:
            for one, other in ((left, right), (right, left)):
                if one.name in ("True", "False"):
                    absorbing = "False" if sign == "&" else "True"
                    return (
                        one
                        if one.name == absorbing and sign != "^"
                        else other
                        if sign != "^"
                        else _binary_logic(sign, left, right)
                    )
        return (
            _binary_logic(sign, left, right)
            if dtype == torch.bool
            else trace.line(f"{_TYPES[dtype]}({left.name} {sign} {right.name})", dtype, (left, right))
        )

    return run


def _binary_logic(sign: str, left: Cell, right: Cell) -> Cell:
    return left.trace.line(f"{left.name} {sign} {right.name}", torch.bool, (left, right))


class Cell:
    """A name that answers as a tensor does, and writes down what it was asked."""

    def __init__(self, trace: Trace, name: str, dtype: torch.dtype, of_cell: bool) -> None:
        self.trace, self.name, self.dtype, self.of_cell = trace, name, dtype, of_cell

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name not in _FUNCTIONS:
            raise Untraceable(name)
        return _FUNCTIONS[name](*args, **(kwargs or {}))

    def to(self, dtype: torch.dtype) -> Cell:
        """Return the value in another dtype."""
        if dtype == self.dtype:
            return self
        if dtype in _HALVES:
            single = self.to(torch.float32)
            return self.trace.line(
                f"{'half' if dtype == torch.float16 else 'brain'}({single.name})", dtype, (single,)
            )
        if {self.dtype, dtype} <= {torch.float32, *_HALVES}:
            return Cell(self.trace, self.name, dtype, self.of_cell)
        if dtype == torch.bool:
            return self != 0
        inner = f"select({self.name}, i4(1), i4(0))" if self.dtype == torch.bool else self.name
        return self.trace.line(f"{_TYPES[dtype]}({inner})", dtype, (self,))

    def view(self, dtype: torch.dtype) -> Cell:
        """Return the bits read as int64."""
        if (self.dtype, dtype) != (torch.float64, torch.int64):
            raise Untraceable("view")
        return self.trace.line(f"bits({self.name})", dtype, (self,))

    def contiguous(self) -> Cell:
        return self

    def abs(self) -> Cell:
        return _unary("fabs")(self)

    def sub(self, other: Any) -> Cell:
        difference: Cell = self - other
        return difference

    def square(self) -> Cell:
        return self * self

    def clamp(self, min: Any = None, max: Any = None) -> Cell:
        """NaN stays NaN, and what is equal to an end stays what it was."""
        value = self
        if min is not None:
            low = _as(self.trace, min, _promoted(self, min))
            value = _where(value < low, low, value)
        if max is not None:
            high = _as(self.trace, max, _promoted(self, max))
            value = _where(value > high, high, value)
        return value

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Cell:
        largest = torch.finfo(self.dtype).max
        value = _where(self == math.inf, largest if posinf is None else posinf, self)
        value = _where(value == -math.inf, -largest if neginf is None else neginf, value)
        return _where(_isnan(self), nan, value)

    def __neg__(self) -> Cell:
        return self.trace.line(f"{_TYPES[self.dtype]}(-{self.name})", self.dtype, (self,))

    __add__, __radd__ = _binary("+"), _binary("+", True)
    __sub__, __rsub__ = _binary("-"), _binary("-", True)
    __mul__, __rmul__ = _binary("*"), _binary("*", True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", True)
    __lt__, __le__, __gt__, __ge__ = _comparison("<"), _comparison("<="), _comparison(">"), _comparison(">=")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")  # type: ignore[assignment]
    __and__, __or__, __xor__ = _logic("&"), _logic("|"), _logic("^")
    __lshift__, __rshift__ = _logic("<<"), _logic(">>")

    def __invert__(self) -> Cell:
        if self.name in ("True", "False"):
            return self.trace.number(self.name == "False", torch.bool)
        return self.trace.line(f"{self.name} ^ True", torch.bool, (self,))

    def __hash__(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        # Whoever looks for what Python itself asks of objects is told that it is not there.
        raise AttributeError(name) if name.startswith("__") else Untraceable(name)

    def _unknown(self, *_: Any) -> Any:
        raise Untraceable("what Python computes by itself")

    __bool__ = __float__ = __int__ = __index__ = __len__ = __pow__ = __rpow__ = __mod__ = __rmod__ = (
        __floordiv__
    ) = __rfloordiv__ = _unknown


@dataclass(frozen=True)
class _Parts:
    """What `torch.frexp` gives."""

    exponent: Cell


def _unary(name: str) -> Callable[[Any], Cell]:
    def run(x: Cell) -> Cell:
        return x.trace.line(f"{name}({x.name})", x.dtype, (x,))

    return run


def _where(condition: Cell, a: Any, b: Any) -> Cell:
    trace = condition.trace
    values = [
        value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value for value in (a, b)
    ]
    dtype = _promoted(*values)
    left, right = (_as(trace, value, dtype) for value in values)
    if condition.name in ("True", "False"):
        return left if condition.name == "True" else right
    return trace.line(f"select({condition.name}, {left.name}, {right.name})", dtype, (condition, left, right))


def _isnan(x: Cell) -> Cell:
    return x.trace.line(f"{x.name} != {x.name}", torch.bool, (x,))


def _sign(x: Cell) -> Cell:
    return _where(x > 0, 1, _where(x < 0, -1, _like(x, 0.0)))


def _like(x: Cell, value: float, dtype: torch.dtype | None = None) -> Cell:
    return x.trace.number(value, dtype or x.dtype)


def _copysign(a: Cell, b: Cell) -> Cell:
    trace, dtype, (left, right) = _joined(a, b)
    return trace.line(f"copysign({left.name}, {right.name})", dtype, (left, right))


def _searchsorted(values: torch.Tensor, x: Cell, right: bool = False) -> Cell:
    wide = x.to(torch.float64)
    # A search in steps of halved size without branches, so that it can be vectorised. NaN is beyond all, as
    # it is for torch.
    trace, count = x.trace, len(values)
    table, beyond = trace.table(values), ">" if right else ">="
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


def _take(values: torch.Tensor, x: Cell) -> Cell:
    looked_up = x.trace.line(f"load_f8(tables, {x.trace.table(values)} + {x.name})", torch.float64, (x,))
    return looked_up.to(values.dtype)


def _frexp(x: Cell) -> _Parts:
    wide = x.to(torch.float64)
    return _Parts(x.trace.line(f"exponent({wide.name})", torch.int32, (wide,)))


def _fma(x: Cell, y: Any, z: Any) -> Cell:
    single = [_as(x.trace, value, torch.float32) for value in (x, y, z)]
    return x.trace.line(f"fma({', '.join(each.name for each in single)})", torch.float32, tuple(single))


#: What torch is asked for, by its name there.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "where": _where,
        "round": _unary("rint"),
        "floor": _unary("floor"),
        "ceil": _unary("ceil"),
        "trunc": _unary("trunc"),
        "abs": _unary("fabs"),
        "sign": _sign,
        "copysign": _copysign,
        "isnan": _isnan,
        "isinf": lambda x: _unary("fabs")(x) == math.inf,
        "isfinite": lambda x: _unary("fabs")(x) < math.inf,
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
        "__getitem__": _take,
        "fma": _fma,
        # What is asked of a tensor, with a name on its right.
        **{
            name: _binary(sign)
            for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("true_divide", "/"))
        },
    }
)


@dataclass(frozen=True, eq=False)
class BlockCode:
    """The arithmetic of one block, written down: from its ends, `lo` and `hi`, to what is known of it."""

    #: Lines that depend on numbers alone, and those that depend on the block.
    fixed: tuple[str, ...]
    lines: tuple[str, ...]
    #: The names of the values asked for, each a value of the lines or a name that is read, and that of the
    #: zero point.
    results: Mapping[str, str]
    #: The type of what is read.
    of: str
    floats: tuple[float, ...]
    integers: tuple[int, ...]
    tables: torch.Tensor

    @property
    def reads(self) -> frozenset[str]:
        """Return all names in the lines and results."""
        return frozenset().union(*map(words_of, (*self.lines, *self.results.values())))


class _Ends:
    """What a calibration asks of a block, as names: its ends, which are found in passing. Whatever else it
    asks cannot be written down.
    """

    def __init__(self, trace: Trace, dtype: torch.dtype) -> None:
        self._trace, self._dtype = trace, dtype

    def _named(self, name: str) -> Any:
        return Cell(self._trace, name, self._dtype, True)

    def min_max(self) -> tuple[Any, Any]:
        return self._named("lo"), self._named("hi")

    def extreme(self) -> Any:
        return self._named("extreme")

    def constant(self, value: float) -> Any:
        return self._trace.number(value, self._dtype)

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(name)


def _untried(found: Range, of: torch.Tensor | None = None, /) -> torch.Tensor:
    raise Untraceable("trial")


def trace_block(scheme: Scheme, names: tuple[str, ...]) -> BlockCode:
    """Return the lines from a block's ends to what is known of it by `names`. Raises `Untraceable`.

    >>> code = trace_block(Scheme("int4"), ("scale",))
    >>> code.lines[:3]
    ('t0 = fabs(lo)', 't1 = fabs(hi)', 't2 = t0 > t1')
    """
    trace = Trace()
    dtype = torch_dtype(scheme.arithmetic.scale_math)
    if not scheme.calibration.of_values:
        raise Untraceable("more than the block's values")
    found: Any = calibrated(_Ends(trace, dtype), scheme, _untried)
    values: dict[str, Any] = {"lo": found.lo, "hi": found.hi, "extreme": found.extreme}
    values |= {name: Cell(trace, name, torch.float32, True) for name in ("tensor_absmax", "short")}
    made: dict[str, Any] = run_operations((*range_operations(scheme), *store_operations(scheme)), values)
    results = {name: made[name] for name in (*names, "zero_point")}
    return BlockCode(
        tuple(trace.of_block),
        tuple(trace.of_cell),
        MappingProxyType({name: each.name for name, each in results.items()}),
        _TYPES[dtype],
        tuple(trace.floats),
        tuple(trace.integers),
        torch.cat(trace.tables) if trace.tables else torch.empty(0, dtype=torch.float64),
    )


@dataclass(frozen=True, eq=False)
class CellCode:
    """The arithmetic of one cell, written down."""

    of_block: tuple[str, ...]
    of_cell: tuple[str, ...]
    #: Names of `q`, `x_hat`, `error`, `clipped` and the cell's step, each a value of the lines.
    results: Mapping[str, str]
    #: Whether the step is the block's, the same in all of its cells.
    step_of_block: bool
    #: The names that are read of what is known of a block.
    params: tuple[str, ...]
    floats: tuple[float, ...]
    integers: tuple[int, ...]
    #: Lists of values that are looked up, one after the other.
    tables: torch.Tensor
    #: The type of what is known of a block, by name.
    types: Mapping[str, str]


def trace_cell(scheme: Scheme, params: Mapping[str, torch.dtype]) -> CellCode:
    """Return the lines from `x`, the flat `index` and what is known of the block (`params`, by name) to code,
    value, error and step.

    Raises `Untraceable`.

    >>> code = trace_cell(Scheme("int4"), {"scale": torch.float32, "zero_point": torch.int32})
    >>> code.of_cell[:2]
    ('t0 = f4(x / scale)', 't1 = rint(t0)')
    """
    trace = Trace()
    fmt = scheme.number_format
    known: dict[str, Any] = {name: Cell(trace, name, dtype, False) for name, dtype in params.items()}
    x = Cell(trace, "x", torch.float32, True)
    index = (
        {"index": Cell(trace, "index", torch.int64, True)} if scheme.arithmetic.ties == "stochastic" else {}
    )
    coded: dict[str, Any] = run_operations(code_operations(scheme), {"x": x, **index, **known})  # type: ignore[dict-item]
    q: Any = GRIDS[fmt.kind].encode(coded["q"], fmt)
    values: dict[str, Any] = run_operations(
        value_operations(scheme), {"q": GRIDS[fmt.kind].decode(q, fmt), **known}
    )
    made: dict[str, Any] = run_operations(error_operations(scheme), {"x": x, "x_hat": values["x_hat"]})  # type: ignore[dict-item]
    clipped = coded["y"] != coded["q"]
    if scheme.nonfinite == "ignore":
        clipped = clipped & torch.isfinite(x)  # type: ignore[arg-type]
    step: Any = local_step(x, known["scale"].to(torch.float32), fmt)  # type: ignore[arg-type]
    results = {"q": q, "x_hat": values["x_hat"], "error": made["error"], "clipped": clipped, "step": step}
    return CellCode(
        tuple(trace.of_block),
        tuple(trace.of_cell),
        MappingProxyType({name: each.name for name, each in results.items()}),
        not step.of_cell,
        tuple(
            name
            for name in params
            if any(name in words_of(line) for line in (*trace.of_block, *trace.of_cell))
        ),
        tuple(trace.floats),
        tuple(trace.integers),
        torch.cat(trace.tables) if trace.tables else torch.empty(0, dtype=torch.float64),
        MappingProxyType({name: _TYPES[dtype] for name, dtype in params.items()}),
    )


def of_numbers(code: CellCode) -> CellCode:
    """Return the same lines for cells that come to numbers: without what becomes of NaN, and with codes that
    stay whole floats, also on their way to a value.

    The error of any other cell is NaN, so that it can be told afterwards. Where that does not follow, the
    lines stay as they are.

    >>> code = trace_cell(Scheme("int4"), {"scale": torch.float32, "zero_point": torch.int32})
    >>> code.results["x_hat"], code.of_cell[-3], of_numbers(code).of_cell[-3]
    ('t13', 't13 = f4(scale * t12)', 't13 = f4(scale * t7)')
    """
    made = {name: kind for name, kind in code.types.items() if kind.startswith("i")}
    lines: dict[str, list[str]] = {"block": [], "cell": []}
    same: dict[str, str] = {}
    whole, assumed, told = {f"f4({name})" for name in made}, set[str](), set[str]()
    for where, line in (
        *(("block", line) for line in code.of_block),
        *(("cell", line) for line in code.of_cell),
    ):
        name, _, expression = replaced(line, same).partition(" = ")
        lines[where].append(f"{name} = {expression}")
        made[name] = expression
        call, _, inside = expression.rstrip(")").partition("(")
        given = inside.split(", ")
        if call == "f4" and made.get(inside, "").startswith("i4(") and made[inside][3:-1] in whole:
            same[name] = made[inside][3:-1]
        elif call == "select" and made.get(given[0]) == f"{given[2]} != {given[2]}":
            same[name] = given[2]
            assumed.add(given[2])
        elif (
            call in ("rint", "floor", "ceil", "trunc")
            or expression in whole
            or (call == "select" and whole.issuperset(given[1:]))
        ):
            whole.add(name)
        elif call == "f4" and whole.issuperset(re.split(r" [+-] ", inside)):
            # What float32 rounds a sum of whole numbers to, such as a code and a zero point, is whole too.
            whole.add(name)
        elif call == "f4" and inside.startswith("load_f8(floats, "):
            number = code.floats[int(inside.rpartition(" ")[2].rstrip(")"))]
            if number.is_integer() and abs(number) <= _EXACT:
                whole.add(name)
        # What NaN in an assumed number makes NaN too.
        if (
            call == "f4"
            and any(sign in inside for sign in (" + ", " - ", " * ", " / "))
            and (assumed | told) & words_of(inside)
        ):
            told.add(name)
    results = {name: same.get(result, result) for name, result in code.results.items()}
    code_of = made[results["q"]].removeprefix("i4(").removesuffix(")")
    if made[results["q"]] == f"i4({code_of})" and code_of in whole:
        results["q"] = code_of
    if len(assumed) > 1 or (assumed and results["error"] not in told):
        return code
    return replace(
        code, of_block=tuple(lines["block"]), of_cell=tuple(lines["cell"]), results=MappingProxyType(results)
    )


def unsaturated(code: CellCode) -> CellCode | None:
    """Return the lines of `of_numbers` for cells that saturation leaves as they are, without it; their code
    is then what was to be saturated.

    That they were such cells, the codes tell: they lie between the scheme's ends. None where codes are no
    numbers.

    >>> code = of_numbers(trace_cell(Scheme("int4"), {"scale": torch.float32, "zero_point": torch.int32}))
    >>> plain = unsaturated(code)
    >>> plain.of_cell[-3], plain.results["q"], plain.results["clipped"]
    ('t13 = f4(scale * t1)', 't1', 'False')
    """
    made = dict(line.split(" = ", 1) for line in code.of_cell)
    before, _, after = made[code.results["clipped"]].partition(" != ")
    if after != code.results["q"]:
        return None
    lines = tuple(
        replaced(line, {after: before}) if not line.startswith(f"{after} = ") else line
        for line in code.of_cell
    )
    results = {name: before if result == after else result for name, result in code.results.items()} | {
        "clipped": "False"
    }
    return replace(code, of_cell=lines, results=MappingProxyType(results))


def replaced(line: str, names: Mapping[str, str]) -> str:
    """Return the line with other names in place of some."""
    return re.sub(r"\b\w+\b", lambda found: names.get(found[0], found[0]), line)


def words_of(line: str) -> set[str]:
    """Return the names and numbers in a line."""
    return set("".join(c if c.isalnum() or c == "_" else " " for c in line).split())
