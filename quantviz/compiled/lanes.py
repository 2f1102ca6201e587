"""Numbers side by side, of which arithmetic becomes LLVM's vector instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from llvmlite import ir as _ir
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic as _intrinsic

# numba compiles these functions by types of its own: nothing here has Python's types.
ir: Any = _ir
cgutils: Any = _cgutils
types: Any = _types
intrinsic: Any = _intrinsic
#: Numbers side by side.
WIDTH = 16
KINDS: dict[str, Any] = {
    "f4": ir.FloatType(),
    "f8": ir.DoubleType(),
    "i4": ir.IntType(32),
    "i8": ir.IntType(64),
    "b1": ir.IntType(1),
}
_ORDER = ("b1", "i4", "i8", "f4", "f8")


def _type(kind: str, *, wide: bool) -> Any:
    """Return LLVM's type of a number, or of `WIDTH` side by side."""
    return ir.VectorType(KINDS[kind], WIDTH) if wide else KINDS[kind]


def _binary(of_floats: str, of_wholes: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """Return an operator by the instructions for it; "" where there is none."""

    def run(self: Lanes, other: Any) -> Lanes:
        a, b = self._with(other)
        a, b = (b, a) if swapped else (a, b)
        return a.of(a.kind, getattr(a.builder, of_floats if a.floating else of_wholes)(a.value, b.value))

    return run


def _comparison(sign: str) -> Callable[[Any, Any], Any]:
    def run(self: Lanes, other: Any) -> Lanes:
        a, b = self._with(other)
        if not a.floating:
            compare = a.builder.icmp_signed
        elif sign == "!=":
            compare = a.builder.fcmp_unordered
        else:
            compare = a.builder.fcmp_ordered
        return a.of("b1", compare(sign, a.value, b.value))

    return run


class Lanes:
    """One number, or `WIDTH` side by side, of which arithmetic becomes instructions."""

    def __init__(self, builder: Any, kind: str, value: Any, *, wide: bool) -> None:
        self.builder = builder
        self.kind = kind
        self.value = value
        self.wide = wide

    @property
    def floating(self) -> bool:
        return self.kind in ("f4", "f8")

    def of(self, kind: str, value: Any) -> Lanes:
        return Lanes(self.builder, kind, value, wide=self.wide)

    def spread(self) -> Lanes:
        """Return a vector with this number in every lane."""
        if self.wide:
            return self
        one = self.builder.insert_element(
            ir.Constant(_type(self.kind, wide=True), ir.Undefined), self.value, ir.Constant(ir.IntType(32), 0)
        )
        mask = ir.Constant(_type("i4", wide=True), [0] * WIDTH)
        return Lanes(self.builder, self.kind, self.builder.shuffle_vector(one, one, mask), wide=True)

    def constant(self, number: Any, kind: str) -> Lanes:
        return Lanes(self.builder, kind, ir.Constant(KINDS[kind], number), wide=False)

    def to(self, kind: str) -> Lanes:
        """Cast as numba casts."""
        if kind == self.kind:
            return self
        b = self.builder
        goal = _type(kind, wide=self.wide)
        if kind == "b1":
            truth: Lanes = self != 0
            return truth
        if self.floating and kind == "f8":
            cast = b.fpext
        elif self.floating and kind == "f4":
            cast = b.fptrunc
        elif self.floating:
            cast = b.fptosi
        elif kind in ("f4", "f8"):
            cast = b.uitofp if self.kind == "b1" else b.sitofp
        elif self.kind == "b1":
            cast = b.zext
        elif kind == "i4":
            cast = b.trunc
        else:
            cast = b.sext
        return self.of(kind, cast(self.value, goal))

    def _with(self, other: Any) -> tuple[Lanes, Lanes]:
        """Return this value and another, with the same width and kind."""
        if not isinstance(other, Lanes):
            whole = isinstance(other, int) and not self.floating
            other = self.constant(
                int(other) if whole else float(other), self.kind if whole or self.floating else "f8"
            )
        kind = max(self.kind, other.kind, key=_ORDER.index)
        pair = self.to(kind), other.to(kind)
        return (pair[0].spread(), pair[1].spread()) if self.wide or other.wide else pair

    __add__ = _binary("fadd", "add")
    __sub__ = _binary("fsub", "sub")
    __mul__ = _binary("fmul", "mul")
    __truediv__ = _binary("fdiv", "")
    __and__, __or__, __xor__, __lshift__, __rshift__ = (
        _binary("", name) for name in ("and_", "or_", "xor", "shl", "ashr")
    )
    __rsub__ = _binary("fsub", "sub", swapped=True)
    __rtruediv__ = _binary("fdiv", "", swapped=True)
    __rlshift__ = _binary("", "shl", swapped=True)
    __rrshift__ = _binary("", "ashr", swapped=True)
    __radd__ = __add__
    __rmul__ = __mul__
    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__
    __lt__, __le__, __gt__, __ge__ = (_comparison(sign) for sign in ("<", "<=", ">", ">="))
    __eq__ = _comparison("==")
    __ne__ = _comparison("!=")
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Lanes:
        return self.of(
            self.kind, self.builder.fneg(self.value) if self.floating else self.builder.neg(self.value)
        )

    def called(self, name: str, *others: Lanes) -> Lanes:
        """Return the result of an LLVM intrinsic, by its name."""
        operands = [self, *others]
        wide = any(lanes.wide for lanes in operands)
        operands = [lanes.spread() for lanes in operands] if wide else operands
        of = operands[0].value.type
        short = {"f4": "f32", "f8": "f64", "i4": "i32", "i8": "i64"}[self.kind]
        full = f"llvm.{name}.{f'v{WIDTH}' if wide else ''}{short}"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(of, [of] * len(operands)), full
        )
        return Lanes(
            self.builder,
            self.kind,
            self.builder.call(function, [lanes.value for lanes in operands]),
            wide=wide,
        )

    def bits(self) -> Lanes:
        return self._read_as({"f4": "i4", "f8": "i8"}[self.kind])

    def of_bits(self) -> Lanes:
        return self._read_as({"i4": "f4", "i8": "f8"}[self.kind])

    def _read_as(self, kind: str) -> Lanes:
        return self.of(kind, self.builder.bitcast(self.value, _type(kind, wide=self.wide)))

    def half(self) -> Lanes:
        low = ir.VectorType(ir.HalfType(), WIDTH) if self.wide else ir.HalfType()
        return self.of("f4", self.builder.fpext(self.builder.fptrunc(self.value, low), self.value.type))

    def count(self) -> Lanes:
        """Return how many are true; of one lane, int64."""
        if not self.wide:
            return self.to("i8")
        mask = self.mask()
        return mask.of("i8", self.builder.ctpop(mask.value))

    def mask(self) -> Lanes:
        """Return the true lanes as bits of an int64, the first lane's the lowest."""
        return Lanes(
            self.builder,
            "i8",
            self.builder.zext(self.builder.bitcast(self.value, ir.IntType(WIDTH)), ir.IntType(64)),
            wide=False,
        )

    def joined(self, join: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
        """Join all lanes by halves into one number."""
        b = self.builder
        value = self.value
        size = WIDTH if self.wide else 1
        while size > 1:
            size //= 2
            halves = []
            for begin in (0, size):
                mask = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(begin, begin + size)))
                halves.append(self.of(self.kind, b.shuffle_vector(value, value, mask)))
            value = join(*halves).value
        if self.wide:
            value = b.extract_element(value, ir.Constant(ir.IntType(32), 0))
        return Lanes(b, self.kind, value, wide=False)

    def each(self) -> list[Lanes]:
        if not self.wide:
            return [self]
        places = (ir.Constant(ir.IntType(32), i) for i in range(WIDTH))
        numbers = (self.builder.extract_element(self.value, place) for place in places)
        return [Lanes(self.builder, self.kind, number, wide=False) for number in numbers]


def select(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, bool):
        return a if condition else b
    if not isinstance(a, Lanes):
        a = condition.constant(a, b.kind if isinstance(b, Lanes) else "i8")
    a, b = a._with(b)
    wide = condition.wide or a.wide
    condition, a, b = (lanes.spread() if wide else lanes for lanes in (condition, a, b))
    return a.of(a.kind, a.builder.select(condition.value, a.value, b.value))


def further(sign: str) -> Callable[[Any, Any], Any]:
    """Return the smaller ("<") or larger (">") of two, lane by lane."""
    beyond = _comparison(sign)
    return lambda one, other: select(beyond(one, other), one, other)


def contracted(total: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """Return total + a · b, rounded once or twice."""
    a, b = a._with(b)
    total, a = total._with(a)
    b = b.spread() if a.wide else b
    product = a.builder.fmul(a.value, b.value, flags=("contract",))
    return total.of(total.kind, a.builder.fadd(total.value, product, flags=("contract",)))


class _Memory:
    """Reads and writes at addresses, given as whole numbers."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def load(self, kind: str, address: Lanes, index: Any, *, wide: bool = False) -> Lanes:
        b = self.builder
        index = index if isinstance(index, Lanes) else address.constant(index, "i8")
        if index.wide:
            parts = ir.Constant(_type(kind, wide=True), ir.Undefined)
            for i, one in enumerate(index.each()):
                parts = b.insert_element(
                    parts, self.load(kind, address, one).value, ir.Constant(ir.IntType(32), i)
                )
            return Lanes(b, kind, parts, wide=True)
        place = b.gep(b.inttoptr(address.value, KINDS[kind].as_pointer()), [index.to("i8").value])
        if not wide:
            return Lanes(b, kind, b.load(place), wide=False)
        size = 4 if kind in ("f4", "i4") else 8
        return Lanes(
            b,
            kind,
            b.load(b.bitcast(place, _type(kind, wide=True).as_pointer()), align=size),
            wide=True,
        )

    def fetch(self, address: Lanes, index: Lanes) -> None:
        """Bring float32 into the second cache."""
        b = self.builder
        whole = ir.IntType(32)
        place = b.bitcast(
            b.gep(b.inttoptr(address.value, KINDS["f4"].as_pointer()), [index.value]),
            ir.IntType(8).as_pointer(),
        )
        of = ir.FunctionType(ir.VoidType(), [place.type, whole, whole, whole])
        function = cgutils.get_or_insert_function(b.module, of, "llvm.prefetch.p0")
        b.call(function, [place, ir.Constant(whole, 0), ir.Constant(whole, 2), ir.Constant(whole, 1)])

    def store(self, kind: str, address: Lanes, index: Any, value: Lanes) -> None:
        b = self.builder
        value = value.to(kind)
        index = index if isinstance(index, Lanes) else address.constant(index, "i8")
        place = b.gep(b.inttoptr(address.value, KINDS[kind].as_pointer()), [index.value])
        b.store(
            value.value,
            b.bitcast(place, value.value.type.as_pointer()),
            align=4 if kind in ("f4", "i4") else 8,
        )

    def store_bytes(self, address: Lanes, index: Lanes, value: Lanes) -> None:
        """Write the lowest byte of each whole number."""
        b = self.builder
        byte = ir.IntType(8)
        goal = ir.VectorType(byte, WIDTH) if value.wide else byte
        made = b.trunc(value.to("i4").value, goal)
        place = b.gep(b.inttoptr(address.value, byte.as_pointer()), [index.value])
        b.store(made, b.bitcast(place, goal.as_pointer()), align=1)


def names_of_lines(memory: _Memory, small: Iterable[FunctionType]) -> dict[str, Any]:
    """Return the functions that the lines can name."""
    names: dict[str, Any] = {
        **{
            name: lambda x, name=name: x.called(name)
            for name in ("rint", "floor", "ceil", "trunc", "fabs", "sqrt")
        },
        **{
            name: lambda x, name=name: x.to(name) if isinstance(x, Lanes) else x
            for name in ("f4", "f8", "i4", "i8")
        },
        "copysign": lambda x, y: x._with(y)[0].called("copysign", x._with(y)[1]),
        "fma": lambda x, y, z: x.called("fma", y, z),
        "select": select,
        "bits": Lanes.bits,
        "of_bits": Lanes.of_bits,
        "half": Lanes.half,
        **{
            f"load_{kind}": lambda address, index, kind=kind: memory.load(kind, address, index)
            for kind in ("i8", "f4", "f8")
        },
    }
    # The small functions of the lines, with these names in place of numba's.
    for function in small:
        names[function.__name__] = FunctionType(function.__code__, names)
    return names


class Loops:
    """Loops, and places that are written again and again, which LLVM turns into registers."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.memory = _Memory(builder)

    def place(self, kind: str, start: Any, *, wide: bool = False) -> Any:
        at = (cgutils.alloca_once(self.builder, _type(kind, wide=wide)), kind, wide)
        self.put(at, start if isinstance(start, Lanes) else self.same(start, kind, wide=wide))
        return at

    def same(self, number: Any, kind: str, *, wide: bool) -> Lanes:
        """Return a constant, in every lane if `wide`."""
        numbers = ir.Constant(_type(kind, wide=wide), [number] * WIDTH if wide else number)
        return Lanes(self.builder, kind, numbers, wide=wide)

    def put(self, at: Any, value: Lanes) -> None:
        self.builder.store((value.spread() if at[2] else value).value, at[0])

    def get(self, at: Any) -> Lanes:
        return Lanes(self.builder, at[1], self.builder.load(at[0]), wide=at[2])

    def extend(self, at: Any, value: Lanes, sign: str) -> None:
        """Replace the value there by `value` if that is smaller ("<") or larger (">")."""
        self.put(at, further(sign)(value, self.get(at)))

    def whilst(self, condition: Callable[[], Lanes], body: Callable[[], None]) -> None:
        b = self.builder
        test, inside, after = (b.append_basic_block(name) for name in ("test", "inside", "after"))
        b.branch(test)
        b.position_at_end(test)
        b.cbranch(condition().value, inside, after)
        b.position_at_end(inside)
        body()
        b.branch(test)
        b.position_at_end(after)

    def stepped(self, begin: Lanes, stop: Lanes, step: int, body: Callable[[Lanes], object]) -> Lanes:
        """Run `body` as long as a whole step fits, and return where that ended."""
        at = self.place("i8", begin)

        def once() -> None:
            here = self.get(at)
            body(here)
            self.put(at, here + step)

        self.whilst(lambda: self.get(at) + step <= stop, once)
        return self.get(at)


def written_loops(names: Iterable[str], write: Callable[[Any, dict[str, Any]], None]) -> Any:
    """Return a function of numba's whose instructions `write` writes, given its arguments by name: whole
    numbers, and pointers as their addresses.
    """

    def loops(typing: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = (builder.extract_value(args[0], i) for i in range(len(arguments)))
            whole = (
                builder.ptrtoint(value, KINDS["i8"]) if isinstance(value.type, ir.PointerType) else value
                for value in values
            )
            write(builder, dict(zip(names, whole, strict=True)))
            return context.get_dummy_value()

        return types.void(types.StarArgTuple(arguments)), generate

    return intrinsic(loops)
