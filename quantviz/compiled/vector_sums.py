"""Sums over cells as loops of vector instructions: the traced lines run once on names of 16 numbers side by
side.

Loops that a compiler finds itself bring its sums together at the end of each block, which costs more than a
small block's cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from llvmlite import ir as _ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic as _intrinsic

from quantviz.compiled.hand_written import by_hand
from quantviz.compiled.tracing import CellCode

# What numba makes of a function is its own affair: nothing here has Python's types.
ir: Any = _ir
cgutils: Any = _cgutils
intrinsic: Any = _intrinsic

#: Numbers side by side.
WIDTH = 16
#: What is made of some cells, in the order in which it is put down, float64: sums of x², value², x · value,
#: error, and of error² and the same in steps, of cells that were not clipped and of those that were; how many
#: were clipped, x that are 0, other x of which the value is 0, blocks of which the steps are not between
#: `STEPS`; bits of the largest error; the first and the last code.
SUMS = (
    "signal",
    "values",
    "product",
    "bias",
    "noise",
    "steps",
    "clipped_noise",
    "clipped_steps",
    "clipped",
    "zeros",
    "zeroed",
    "apart",
    "largest",
    "first",
    "last",
)
AT = {name: i for i, name in enumerate(SUMS)}
#: Sums that begin in float32, with at most `TERMS` cells a lane, of which `ROUNDS` are added up before they
#: go on in float64, which halves the work: a term is rounded at most TERMS + ROUNDS + 5 times, so that a sum
#: is off by at most (TERMS + ROUNDS + 5) / 2^24 = 9.6e-7 of its terms' magnitudes. Where steps are not
#: between `STEPS`, or less than `LEAST` comes out, steps for each cell, float32 may not have held the
#: squares: such sums are made again without it.
_BEGUN = ("signal", "values", "product", "bias", "noise")
TERMS = 8
ROUNDS = 3
STEPS = (2.0**-40, 2.0**40)
LEAST = {"signal": 2.0**-100, "values": 2.0**-100, "noise": 2.0**-100, "steps": 2.0**-46}
#: Accumulators that count; those that are the end of something, of what kind they are, what they begin with
#: and how two of them are joined; the others are sums of float64. Codes are floats, which hold all of 16
#: bits: most come as such.
_COUNTS = ("clipped", "zeros", "zeroed", "apart")
_ENDS: dict[str, tuple[str, Any, str]] = {
    "largest": ("i4", 0, ">"),
    "first": ("f4", math.inf, "<"),
    "last": ("f4", -math.inf, ">"),
}

_pair: Any = types.UniTuple
_KINDS: dict[str, Any] = {
    "f4": ir.FloatType(),
    "f8": ir.DoubleType(),
    "i4": ir.IntType(32),
    "i8": ir.IntType(64),
    "b1": ir.IntType(1),
}
_ORDER = ("b1", "i4", "i8", "f4", "f8")


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
        compare = (
            (a.builder.fcmp_unordered if sign == "!=" else a.builder.fcmp_ordered)
            if a.floating
            else a.builder.icmp_signed
        )
        return a.of("b1", compare(sign, a.value, b.value))

    return run


class Lanes:
    """One number, or `WIDTH` side by side, of which arithmetic becomes instructions."""

    def __init__(self, builder: Any, kind: str, value: Any, *, wide: bool) -> None:
        self.builder, self.kind, self.value, self.wide = builder, kind, value, wide

    @property
    def floating(self) -> bool:
        return self.kind in ("f4", "f8")

    def of(self, kind: str, value: Any) -> Lanes:
        return Lanes(self.builder, kind, value, wide=self.wide)

    def spread(self) -> Lanes:
        """Return the same number in every lane."""
        if self.wide:
            return self
        kind = _KINDS[self.kind]
        one = self.builder.insert_element(
            ir.Constant(ir.VectorType(kind, WIDTH), ir.Undefined), self.value, ir.Constant(ir.IntType(32), 0)
        )
        mask = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return Lanes(self.builder, self.kind, self.builder.shuffle_vector(one, one, mask), wide=True)

    def constant(self, number: Any, kind: str) -> Lanes:
        return Lanes(self.builder, kind, ir.Constant(_KINDS[kind], number), wide=False)

    def to(self, kind: str) -> Lanes:
        """Cast as numba casts."""
        if kind == self.kind:
            return self
        b, goal = self.builder, ir.VectorType(_KINDS[kind], WIDTH) if self.wide else _KINDS[kind]
        if kind == "b1":
            truth: Lanes = self != 0
            return truth
        if self.floating:
            cast = (b.fpext if kind == "f8" else b.fptrunc) if kind in ("f4", "f8") else b.fptosi
        elif kind in ("f4", "f8"):
            cast = b.uitofp if self.kind == "b1" else b.sitofp
        else:
            cast = b.zext if self.kind == "b1" else b.trunc if kind == "i4" else b.sext
        return self.of(kind, cast(self.value, goal))

    def _with(self, other: Any) -> tuple[Lanes, Lanes]:
        """Return both as wide, and of the same kind."""
        if not isinstance(other, Lanes):
            whole = isinstance(other, int) and not self.floating
            other = self.constant(
                int(other) if whole else float(other), self.kind if whole or self.floating else "f8"
            )
        kind = max(self.kind, other.kind, key=_ORDER.index)
        pair = self.to(kind), other.to(kind)
        return (pair[0].spread(), pair[1].spread()) if self.wide or other.wide else pair

    __add__, __sub__, __mul__, __truediv__ = (
        _binary("fadd", "add"),
        _binary("fsub", "sub"),
        _binary("fmul", "mul"),
        _binary("fdiv", ""),
    )
    __and__, __or__, __xor__, __lshift__, __rshift__ = (
        _binary("", name) for name in ("and_", "or_", "xor", "shl", "ashr")
    )
    __rsub__, __rtruediv__ = _binary("fsub", "sub", swapped=True), _binary("fdiv", "", swapped=True)
    __rlshift__, __rrshift__ = _binary("", "shl", swapped=True), _binary("", "ashr", swapped=True)
    __radd__, __rmul__, __rand__, __ror__, __rxor__ = __add__, __mul__, __and__, __or__, __xor__
    __lt__, __le__, __gt__, __ge__ = (_comparison(sign) for sign in ("<", "<=", ">", ">="))
    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Lanes:
        return self.of(
            self.kind, self.builder.fneg(self.value) if self.floating else self.builder.neg(self.value)
        )

    def called(self, name: str, *others: Lanes) -> Lanes:
        """Return an instruction that LLVM knows by name."""
        given = [self, *others]
        wide = any(each.wide for each in given)
        given = [each.spread() for each in given] if wide else given
        of = given[0].value.type
        short = {"f4": "f32", "f8": "f64", "i4": "i32", "i8": "i64"}[self.kind]
        full = f"llvm.{name}.{f'v{WIDTH}' if wide else ''}{short}"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(of, [of] * len(given)), full
        )
        return Lanes(
            self.builder, self.kind, self.builder.call(function, [each.value for each in given]), wide=wide
        )

    def bits(self) -> Lanes:
        kind = {"f4": "i4", "f8": "i8"}[self.kind]
        return self.of(
            kind,
            self.builder.bitcast(
                self.value, ir.VectorType(_KINDS[kind], WIDTH) if self.wide else _KINDS[kind]
            ),
        )

    def of_bits(self) -> Lanes:
        kind = {"i4": "f4", "i8": "f8"}[self.kind]
        return self.of(
            kind,
            self.builder.bitcast(
                self.value, ir.VectorType(_KINDS[kind], WIDTH) if self.wide else _KINDS[kind]
            ),
        )

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
        """Return which are true, as bits of an int64, the first lane's the lowest."""
        return Lanes(
            self.builder,
            "i8",
            self.builder.zext(self.builder.bitcast(self.value, ir.IntType(WIDTH)), ir.IntType(64)),
            wide=False,
        )

    def joined(self, join: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
        """Return one number of all lanes, joined by halves."""
        b, value, size = self.builder, self.value, WIDTH if self.wide else 1
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
        """Return the lanes one by one."""
        if not self.wide:
            return [self]
        return [
            Lanes(
                self.builder,
                self.kind,
                self.builder.extract_element(self.value, ir.Constant(ir.IntType(32), i)),
                wide=False,
            )
            for i in range(WIDTH)
        ]


def _select(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, bool):
        return a if condition else b
    if not isinstance(a, Lanes):
        a = condition.constant(a, b.kind if isinstance(b, Lanes) else "i8")
    a, b = a._with(b)
    wide = condition.wide or a.wide
    condition, a, b = (each.spread() if wide else each for each in (condition, a, b))
    return a.of(a.kind, a.builder.select(condition.value, a.value, b.value))


def _further(sign: str) -> Callable[[Any, Any], Any]:
    """Return the smaller ("<") or larger (">") of two, lane by lane."""
    beyond = _comparison(sign)
    return lambda one, other: _select(beyond(one, other), one, other)


def _contracted(total: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """total + a · b, rounded once or twice."""
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
            parts = ir.Constant(ir.VectorType(_KINDS[kind], WIDTH), ir.Undefined)
            for i, one in enumerate(index.each()):
                parts = b.insert_element(
                    parts, self.load(kind, address, one).value, ir.Constant(ir.IntType(32), i)
                )
            return Lanes(b, kind, parts, wide=True)
        place = b.gep(b.inttoptr(address.value, _KINDS[kind].as_pointer()), [index.to("i8").value])
        if not wide:
            return Lanes(b, kind, b.load(place), wide=False)
        size = 4 if kind in ("f4", "i4") else 8
        return Lanes(
            b,
            kind,
            b.load(b.bitcast(place, ir.VectorType(_KINDS[kind], WIDTH).as_pointer()), align=size),
            wide=True,
        )

    def fetch(self, address: Lanes, index: Lanes) -> None:
        """Brings float32 into the second cache."""
        b, whole = self.builder, ir.IntType(32)
        place = b.bitcast(
            b.gep(b.inttoptr(address.value, _KINDS["f4"].as_pointer()), [index.value]),
            ir.IntType(8).as_pointer(),
        )
        of = ir.FunctionType(ir.VoidType(), [place.type, whole, whole, whole])
        function = cgutils.get_or_insert_function(b.module, of, "llvm.prefetch.p0")
        b.call(function, [place, ir.Constant(whole, 0), ir.Constant(whole, 2), ir.Constant(whole, 1)])

    def store(self, kind: str, address: Lanes, index: Any, value: Lanes) -> None:
        b, value = self.builder, value.to(kind)
        index = index if isinstance(index, Lanes) else address.constant(index, "i8")
        place = b.gep(b.inttoptr(address.value, _KINDS[kind].as_pointer()), [index.value])
        b.store(
            value.value,
            b.bitcast(place, value.value.type.as_pointer()),
            align=4 if kind in ("f4", "i4") else 8,
        )


def _names(memory: _Memory, small: Iterable[FunctionType]) -> dict[str, Any]:
    """What the lines can name."""
    names: dict[str, Any] = {
        **{name: lambda x, name=name: x.called(name) for name in ("rint", "floor", "ceil", "trunc", "fabs")},
        **{
            name: lambda x, name=name: x.to(name) if isinstance(x, Lanes) else x
            for name in ("f4", "f8", "i4", "i8")
        },
        "copysign": lambda x, y: x._with(y)[0].called("copysign", x._with(y)[1]),
        "fma": lambda x, y, z: x.called("fma", y, z),
        "select": _select,
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


class _Loops:
    """Loops, and places that are written again and again, which LLVM turns into registers."""

    def __init__(self, builder: Any) -> None:
        self.builder, self.memory = builder, _Memory(builder)

    def place(self, kind: str, start: Any, *, wide: bool = False) -> Any:
        at = (
            cgutils.alloca_once(self.builder, ir.VectorType(_KINDS[kind], WIDTH) if wide else _KINDS[kind]),
            kind,
            wide,
        )
        self.put(at, start if isinstance(start, Lanes) else self.same(start, kind, wide=wide))
        return at

    def same(self, number: Any, kind: str, *, wide: bool) -> Lanes:
        """Return a number, or the same in every lane."""
        of = ir.VectorType(_KINDS[kind], WIDTH) if wide else _KINDS[kind]
        return Lanes(self.builder, kind, ir.Constant(of, [number] * WIDTH if wide else number), wide=wide)

    def put(self, at: Any, value: Lanes) -> None:
        self.builder.store((value.spread() if at[2] else value).value, at[0])

    def get(self, at: Any) -> Lanes:
        return Lanes(self.builder, at[1], self.builder.load(at[0]), wide=at[2])

    def extend(self, at: Any, value: Lanes, sign: str) -> None:
        """Put a value there that is smaller ("<") or larger (">") than the one that is there."""
        self.put(at, _further(sign)(value, self.get(at)))

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
        """As long as a whole step fits; where it ended."""
        at = self.place("i8", begin)

        def once() -> None:
            here = self.get(at)
            body(here)
            self.put(at, here + step)

        self.whilst(lambda: self.get(at) + step <= stop, once)
        return self.get(at)


class _Summing(_Loops):
    """Writes the loops of one cell's arithmetic."""

    def __init__(
        self, builder: Any, given: dict[str, Any], code: dict[str, Any], small: Iterable[FunctionType]
    ) -> None:
        super().__init__(builder)
        self.code = code
        self.known: dict[str, Any] = {
            name: Lanes(builder, "i8", value, wide=False) for name, value in given.items()
        }
        self.names = _names(self.memory, small)
        self.sums: dict[bool, dict[str, Any]] = {}
        self.begun: dict[bool, dict[str, Any]] = {}
        self.gathered: dict[bool, dict[str, Any]] = {}
        self.rounds: dict[bool, Any] = {}

    def run(self, lines: Iterable[str], known: dict[str, Any]) -> dict[str, Any]:
        # The lines are the trace's own, numbers and names of `_names`: nothing else can be named.
        names = {"__builtins__": {}, **self.names, **known}
        for line in lines:
            exec(line, names)
        return {
            name: value for name, value in names.items() if name not in self.names and name != "__builtins__"
        }

    def result(self, name: str, found: dict[str, Any]) -> Any:
        """Return a result of the lines, which is one of their names, or always true or never."""
        return {"True": True, "False": False, **found}[self.code[name]]

    def of_block(self, block: Lanes, known: dict[str, Any], *, wide: bool) -> dict[str, Any]:
        """What is read of a block, or of `WIDTH` of them from `block` on, and what follows from it."""
        read = {
            name: self.memory.load("f8", known["params"], known["blocks"] * i + block, wide=wide).to(
                self.code["types"][name]
            )
            for i, name in enumerate(self.code["params"])
        }
        found = self.run(self.code["of_block"], {**known, **read})
        if self.code["step_of_block"]:
            step = self.result("step", found)
            inverse = 1.0 / step
            found["inverse_square"] = inverse * inverse
            self.count(self.sums[wide]["apart"], ((step >= STEPS[0]) & (step <= STEPS[1]) ^ True).count())
        return found

    def cells(self, values: Lanes, index: Lanes, known: dict[str, Any], noise: Any) -> None:
        """Add one cell, or `WIDTH` of them, to what was begun; error² to `noise`."""
        code, wide = self.code, values.wide
        if wide:
            index = index + Lanes(
                self.builder,
                "i8",
                ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH))),
                wide=True,
            )
        found = self.run(code["of_cell"], {**known, "x_": values, "index": index})
        q, x_hat, error, clipped, step = (
            self.result(name, found) for name in ("q", "x_hat", "error", "clipped", "step")
        )
        sums, begun = self.sums[wide], self.begun[wide]
        self.add(begun["signal"], values, values)
        self.add(begun["values"], x_hat, x_hat)
        self.add(begun["product"], values, x_hat)
        self.put(begun["bias"], self.get(begun["bias"]) + error)
        kept = self.place("f4", error, wide=wide)
        zero, zero_value = values == 0.0, x_hat == 0.0
        out = zero if isinstance(clipped, bool) else clipped.spread() if wide else clipped

        def in_steps(value: Lanes) -> Lanes:
            steps: Lanes = _select(value == 0.0, 0.0, value / step.to("f8"))
            return steps

        self.count(sums["zeroed"], zero_value.count())
        # What is rare costs one question for all lanes.
        with self.builder.if_then(((zero | out).count() != 0).value, likely=False):
            self.count(sums["zeros"], zero.count())
            self.count(sums["zeroed"], -(zero & zero_value).count())
            if not isinstance(clipped, bool):
                lost = _select(out, error, 0.0).to("f8")
                scaled = in_steps(lost)
                self.add(sums["clipped_noise"], lost, lost)
                self.add(sums["clipped_steps"], scaled, scaled)
                self.count(sums["clipped"], out.count())
                self.put(kept, _select(out, 0.0, error))
        rest = self.get(kept)
        self.add(noise, rest, rest)
        if not code["step_of_block"]:
            scaled = in_steps(rest.to("f8"))
            self.add(sums["steps"], scaled, scaled)
        self.extend(sums["largest"], error.bits() & 0x7FFFFFFF, ">")
        codes = q.to("f4").spread() if wide else q.to("f4")
        self.extend(sums["first"], codes, "<")
        self.extend(sums["last"], codes, ">")

    def add(self, at: Any, a: Lanes, b: Lanes) -> None:
        self.put(at, _contracted(self.get(at), a, b))

    def count(self, at: Any, number: Lanes) -> None:
        self.put(at, self.get(at) + number)

    def next_of(self, place: Lanes, ahead: Lanes, wide: bool) -> Lanes:
        """Return the cells at a place, those `ahead` of them being fetched."""
        if wide and by_hand("prefetch"):
            self.memory.fetch(self.known["x"], place + ahead)
        return self.memory.load("f4", self.known["x"], place, wide=wide)

    def several(
        self,
        begin: Lanes,
        stop: Lanes,
        step: int,
        known: dict[str, Any],
        cell: Callable[[Lanes, Any], None],
        *,
        wide: bool,
    ) -> Lanes:
        """Return cells of one block, or of `WIDTH` side by side, added to what was begun; where it ended."""
        begun, noise = self.begun[wide], self.place("f4", 0.0, wide=wide)

        def two(place: Lanes) -> None:
            cell(place, noise)
            cell(place + step, noise)

        twice = self.stepped(begin, stop, 2 * step, two) if wide else begin
        done = self.stepped(twice, stop, step, lambda place: cell(place, noise))
        self.put(begun["noise"], self.get(begun["noise"]) + self.get(noise))
        if self.code["step_of_block"]:
            self.add(begun["steps"], self.get(noise), known["inverse_square"])
        return done

    def settle(self, *, wide: bool) -> None:
        """Begin anew: what was begun is gathered, and after so many rounds added to the sums."""
        for name, place in self.gathered[wide].items():
            self.move(self.begun[wide][name], place, wide=wide)
        rounds = self.get(self.rounds[wide]) + 1
        self.put(self.rounds[wide], rounds)
        with self.builder.if_then((rounds == ROUNDS).value):
            self.hand_over(wide=wide)

    def hand_over(self, *, wide: bool) -> None:
        """Add what was gathered to the sums."""
        for name, place in self.gathered[wide].items():
            self.move(place, self.sums[wide][name], wide=wide)
        self.put(self.rounds[wide], self.same(0, "i8", wide=False))

    def move(self, place: Any, to: Any, *, wide: bool) -> None:
        """Add what is at a place to another, and leaves 0."""
        self.put(to, self.get(to) + self.get(place))
        self.put(place, self.same(0.0, place[1], wide=wide))

    def write(self) -> None:
        known = self.known
        one = known["n"].constant(1, "i8")
        counts = {name: self.place("i8", 0) for name in _COUNTS}
        for wide in (True, False):
            self.sums[wide] = {
                **counts,
                **{name: self.place(kind, start, wide=wide) for name, (kind, start, _) in _ENDS.items()},
                **{
                    name: self.place("f8", 0.0, wide=wide)
                    for name in SUMS
                    if name not in _COUNTS and name not in _ENDS
                },
            }
            names = (*_BEGUN, "steps") if self.code["step_of_block"] else _BEGUN
            self.begun[wide], self.gathered[wide] = (
                {name: self.place("f4", 0.0, wide=wide) for name in names} for _ in range(2)
            )
            self.rounds[wide] = self.place("i8", 0)
        known |= self.run(self.code["fixed"], known)
        (self.columns if self.code["by_element"] else self.lines)(one)
        for wide in (True, False):
            self.hand_over(wide=wide)
        for name in SUMS:
            total = self.get(self.sums[False][name])
            if name not in _COUNTS:
                join = _further(_ENDS[name][2]) if name in _ENDS else Lanes.__add__
                total = join(self.get(self.sums[True][name]).joined(join), total)
            self.memory.store("f8", known["out"], AT[name], total.to("f8"))

    def columns(self, one: Lanes) -> None:
        """Blocks of one element along the last axis: `rows` lines below each other, a few columns at a time
        through all of them.
        """
        known = self.known
        column = known["flat"] - known["offset"]
        column = column.of("i8", self.builder.srem(column.value, known["length"].value))
        first = self.memory.load("i8", known["bases"], known["line"]) + column

        def tile(at: Lanes, wide: bool) -> None:
            here = self.of_block(first + at, known, wide=wide)
            # At the end of these lines the lines after them come next, unless what is asked for is further
            # ahead in any case.
            turns = (known["ahead"] < known["length"]) & (at + known["ahead"] >= known["length"])
            ahead = known["ahead"] + _select(turns, (known["rows"] - 1) * known["length"], one - 1)

            def cell(row: Lanes, noise: Any) -> None:
                place = row * known["length"] + at
                self.cells(self.next_of(place, ahead, wide), known["flat"] + place, here, noise)

            self.several(one - 1, known["rows"], 1, here, cell, wide=wide)
            self.settle(wide=wide)

        done = self.stepped(one - 1, known["n"], WIDTH, lambda at: tile(at, True))
        self.stepped(done, known["n"], 1, lambda at: tile(at, False))

    def lines(self, one: Lanes) -> None:
        """Blocks of several elements along the last axis: one after the other."""
        b, known = self.builder, self.known
        length, width, n = known["length"], known["width"], known["n"]
        start = known["flat"] - known["offset"]
        column = self.place("i8", one.of("i8", b.srem(start.value, length.value)))
        line = self.place("i8", known["line"])
        within = self.place("i8", one.of("i8", b.srem(self.get(column).value, width.value)))
        jump = one.of("i8", b.sdiv(self.get(column).value, width.value))
        block = self.place("i8", self.memory.load("i8", known["bases"], self.get(line)) + jump)
        made, terms = self.place("i8", 0), self.place("i8", 0)

        def cell(place: Lanes, noise: Any, here: dict[str, Any], wide: bool) -> None:
            self.cells(self.next_of(place, known["ahead"], wide), known["flat"] + place, here, noise)

        def vectors(start: Lanes, end: Lanes, here: dict[str, Any]) -> Lanes:
            """At most `TERMS` times `WIDTH` cells of a block."""
            count = one.of(
                "i8", b.ashr((end - start).value, one.constant(WIDTH.bit_length() - 1, "i8").value)
            )
            with b.if_then((self.get(terms) + count > TERMS).value):
                self.settle(wide=True)
                self.put(terms, one - 1)
            self.put(terms, self.get(terms) + count)
            return self.several(
                start, end, WIDTH, here, lambda place, noise: cell(place, noise, here, True), wide=True
            )

        def gone(size: Lanes, blocks: Lanes) -> None:
            """So many cells are done, and so many blocks, or all cells there are of the last."""
            stop, after = self.get(made) + size, self.get(column) + size
            self.put(made, stop)
            ends = after == length
            next_line = self.get(line) + _select(ends, one, one - 1)
            self.put(line, next_line)
            self.put(column, _select(ends, one - 1, after))
            # Here the block is done, or the cells are.
            self.put(within, one - 1)
            # After the last line there is no base to be read.
            safe = _select(stop < n, next_line, known["line"])
            self.put(
                block, _select(ends, self.memory.load("i8", known["bases"], safe), self.get(block) + blocks)
            )

        def part(room: Lanes) -> None:
            """A block, or what there is of it."""
            begin, size = self.get(made), width - self.get(within)
            size = _select(size < room, size, room)
            here, stop = self.of_block(self.get(block), known, wide=False), begin + size
            place = self.place("i8", begin)

            def parts() -> None:
                start, most = self.get(place), self.get(place) + WIDTH * TERMS
                self.put(place, vectors(start, _select(most < stop, most, stop), here))

            self.whilst(lambda: self.get(place) + WIDTH <= stop, parts)
            with b.if_then((self.get(place) < stop).value):

                def alone(start: Lanes) -> None:
                    self.several(
                        start,
                        start + 1,
                        1,
                        here,
                        lambda place, noise: cell(place, noise, here, False),
                        wide=False,
                    )
                    self.settle(wide=False)

                self.stepped(self.get(place), stop, 1, alone)
            gone(size, one)

        def whole(room: Lanes) -> None:
            """Blocks of a few whole vectors, as many as there are in the line: of small ones much is asked
            for each.
            """
            count = one.of("i8", b.sdiv(room.value, width.value))
            begin, first = self.get(made), self.get(block)

            def each(k: Lanes) -> None:
                start = begin + k * width
                vectors(start, start + width, self.of_block(first + k, known, wide=False))

            self.stepped(one - 1, count, 1, each)
            gone(count * width, count)

        few = ((width & (WIDTH - 1)) == 0) & (width <= WIDTH * TERMS)

        def piece() -> None:
            room = length - self.get(column)
            left = n - self.get(made)
            room = _select(left < room, left, room)
            with b.if_else((few & (self.get(within) == 0) & (room >= width)).value) as (then, otherwise):
                with then:
                    whole(room)
                with otherwise:
                    part(room)

        self.whilst(lambda: self.get(made) < n, piece)
        self.settle(wide=True)


def described(
    code: CellCode,
    params: tuple[str, ...],
    by_element: bool,
    fixed: Iterable[str],
    of_block: Iterable[str],
    of_cell: Iterable[str],
) -> dict[str, Any]:
    """Return all that the loops are written from, as plain values."""
    return {
        **code.results,
        "step_of_block": code.step_of_block,
        "types": {name: code.types[name] for name in params},
        "params": list(params),
        "by_element": by_element,
        "fixed": list(fixed),
        "of_block": list(of_block),
        "of_cell": list(of_cell),
    }


#: What `summing` takes, whole numbers and addresses: `rows` lines of `n` cells (one line where blocks are
#: longer than one), of which `x` is the first and `flat` its place; blocks begin at `offset`, lines are
#: `length` long, blocks `width`; `line` counts lines of `bases`. What is `ahead` by so many cells is read
#: next: it is fetched meanwhile.
GIVEN = (
    "x",
    "n",
    "flat",
    "offset",
    "length",
    "width",
    "rows",
    "line",
    "bases",
    "params",
    "blocks",
    "floats",
    "integers",
    "tables",
    "ahead",
    "out",
)


def _addresses(builder: Any, args: Iterable[Any]) -> list[Any]:
    """Return arguments as whole numbers, pointers as their addresses."""
    return [
        builder.ptrtoint(arg, _KINDS["i8"]) if isinstance(arg.type, ir.PointerType) else arg for arg in args
    ]


def summing(code: dict[str, Any], small: Iterable[FunctionType]) -> Any:
    """Return the loops as a function of numba's."""

    @intrinsic
    def loops(
        typing,
        x,
        n,
        flat,
        offset,
        length,
        width,
        rows,
        line,
        bases,
        params,
        blocks,
        floats,
        integers,
        tables,
        ahead,
        out,
    ):
        def generate(context, builder, signature, args):
            _Summing(builder, dict(zip(GIVEN, _addresses(builder, args), strict=True)), code, small).write()
            return context.get_dummy_value()

        given = (
            x,
            n,
            flat,
            offset,
            length,
            width,
            rows,
            line,
            bases,
            params,
            blocks,
            floats,
            integers,
            tables,
            ahead,
            out,
        )
        return types.void(*given), generate

    return loops


class _Trying(_Summing):
    """Writes the loops that give Σ error² of cells for many scales and zero points: these lie side by side,
    and one cell after the other is tried with all of them. So each sum is added up cell by cell, in the same
    order everywhere.
    """

    def write(self) -> None:
        known = self.known
        known |= self.run(self.code["fixed"], known)
        none = known["n"].constant(0, "i8")

        def several(first: Lanes) -> None:
            here = self.of_block(first, known, wide=True)
            noise = self.place("f8", self.memory.load("f8", known["out"], first, wide=True), wide=True)

            def cell(j: Lanes) -> None:
                value, index = (
                    self.memory.load("f4", known["x"], j),
                    self.memory.load("i8", known["places"], j),
                )
                error = (
                    self.result(
                        "error", self.run(self.code["of_cell"], {**here, "x_": value, "index": index})
                    )
                    .spread()
                    .to("f8")
                )
                self.add(noise, error, error)

            self.stepped(none, known["n"], 1, cell)
            self.memory.store("f8", known["out"], first, self.get(noise))

        self.stepped(known["begin"], known["end"], WIDTH, several)


#: What `trying` takes, whole numbers and addresses: `n` cells from `x` on, all of one block, their places in
#: the tensor (read where chance is asked for), which trials are the block's, from `begin` to before `end`, a
#: multiple of `WIDTH`, what is known of a block in each of all `blocks` trials, and a sum of each.
GIVEN_TO_TRY = ("x", "places", "n", "begin", "end", "params", "blocks", "floats", "integers", "tables", "out")


def trying(code: dict[str, Any], small: Iterable[FunctionType]) -> Any:
    """Return the loops of `_Trying` as a function of numba's."""

    @intrinsic
    def loops(typing, x, places, n, begin, end, params, blocks, floats, integers, tables, out):
        def generate(context, builder, signature, args):
            _Trying(
                builder, dict(zip(GIVEN_TO_TRY, _addresses(builder, args), strict=True)), code, small
            ).write()
            return context.get_dummy_value()

        given = x, places, n, begin, end, params, blocks, floats, integers, tables, out
        return types.void(*given), generate

    return loops


@intrinsic
def largest_of_stretches(typing, values, begin, count, most, first, last):
    """The largest int32 of each of `count` stretches of `values`, none negative, and where its first and its
    last are.

    Stretch j goes from begin[j] to before begin[j + 1]; all are int32 at addresses. After the values `WIDTH`
    more can be read.
    """

    def generate(context, builder, signature, args):
        loops = _Loops(builder)
        address, begins, number, *out = (Lanes(builder, "i8", value, wide=False) for value in args)
        none = number.constant(0, "i8")
        lanes = Lanes(
            builder, "i8", ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH))), wide=True
        )

        def stretch(j: Lanes) -> None:
            left, right = (loops.memory.load("i4", begins, at).to("i8") for at in (j, j + 1))

            def parts(body: Callable[[Lanes, Lanes], None]) -> None:
                """All lanes of the stretch, what is beyond it as -1."""
                place = loops.place("i8", left)

                def once() -> None:
                    at = loops.get(place)
                    body(at, _select(lanes < right - at, loops.memory.load("i4", address, at, wide=True), -1))
                    loops.put(place, at + WIDTH)

                loops.whilst(lambda: loops.get(place) < right, once)

            size = loops.place("i4", 0, wide=True)
            parts(lambda _, found: loops.extend(size, found, ">"))
            largest = loops.get(size).joined(_further(">"))
            near, far = loops.place("i8", -1), loops.place("i8", -1)

            def look(at: Lanes, found: Lanes) -> None:
                mask = (found == largest).mask()
                lowest = at + at.of("i8", builder.cttz(mask.value, ir.Constant(ir.IntType(1), 0)))
                highest = at + 63 - at.of("i8", builder.ctlz(mask.value, ir.Constant(ir.IntType(1), 0)))
                loops.put(near, _select((loops.get(near) < 0) & (mask != 0), lowest, loops.get(near)))
                loops.put(far, _select(mask != 0, highest, loops.get(far)))

            parts(look)
            for to, value in zip(out, (largest, loops.get(near), loops.get(far)), strict=True):
                loops.memory.store("i4", to, j, value.to("i4"))

        loops.stepped(none, number, 1, stretch)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 6), generate
