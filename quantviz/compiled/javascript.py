"""A scheme's arithmetic as JavaScript: the same trace that is compiled, for a browser to run.

The text is one function. Numbers and tables are apart from it, so that schemes that differ in these alone
share it. Its runtime is in `quantviz/browser/arithmetic`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch

from quantviz.compiled.javascript_lines import FunctionLines, needed
from quantviz.compiled.traced_values import FUNCTIONS, TYPES, Trace, TracedValue, Untraceable, looked_up
from quantviz.compiled.tracing import TracedEnds, trace_cell, words_of
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.quantization.calibrating import calibrated
from quantviz.quantization.code_to_value import block_names, value_operations
from quantviz.quantization.grids import GRIDS, neighbours
from quantviz.quantization.input_dtype import rounded_to
from quantviz.quantization.operations import NamedTensors, Operation, Operations, run_operations
from quantviz.quantization.qparams import range_operations
from quantviz.quantization.stored_scale import store_operations
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.calibration import Given, Range
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import dtype_name, torch_dtype

#: Kind of each type for `FunctionLines`.
_KIND = MappingProxyType({"f4": "f", "f8": "f", "i4": "i", "i8": "i", "b1": "b"})
#: Beyond it a whole number has no float64 of its own, and is packed as its digits.
_EXACT = 2**53
#: Functions of the runtime that the parts of a program read; see
#: `quantviz/browser/arithmetic/rounding.js`.
_MATH = ("abs", "ceil", "floor", "fround", "imul", "log10", "log2", "min", "sqrt", "trunc")
#: How the special codes of a float format lie, by the number that stands for them.
_SPECIAL = ("finite", "ieee", "fn", "fnuz")
#: The input as whole numbers, for the signs of NaN.
_BITS_OF_X = "const S = new Int32Array(X.buffer, X.byteOffset, X.length);"
#: Lists up to this long are packed; the values of more codes are made by arithmetic.
_MOST_LISTED = 2**12


@dataclass(frozen=True, eq=False)
class JavaScriptProgram:
    """Some arithmetic as JavaScript, and the numbers it reads."""

    #: A function expression: from the runtime and the numbers to the parts of the arithmetic.
    text: str
    floats: tuple[float, ...]
    integers: tuple[int, ...]
    #: Lists of values that are looked up, one after the other.
    tables: tuple[float, ...]
    #: Settings of the runtime: plain numbers, words and lists.
    facts: Mapping[str, Any]

    def packed(self) -> dict[str, Any]:
        """Return the program as plain values for JSON: numbers that JSON does not have are words.

        >>> packed = write_program(Scheme("int4", calibration=Given(0.5))).packed()
        >>> sorted(packed), packed["facts"]["given"]
        (['facts', 'floats', 'integers', 'tables', 'text'], {'scale': 0.5, 'zero_point': 0})
        """
        return {
            "text": self.text,
            "floats": [_plain(value) for value in self.floats],
            "integers": [value if abs(value) <= _EXACT else str(value) for value in self.integers],
            "tables": [_plain(value) for value in self.tables],
            "facts": dict(self.facts),
        }


def packed_together(programs: Iterable[JavaScriptProgram]) -> dict[str, Any]:
    """Return several programs as plain values, each text among them once; `unpacked` of the browser takes
    them apart.

    >>> made = packed_together(write_program(Scheme(name)) for name in ("int3", "int4", "int8"))
    >>> len(made["texts"]), [program["text"] for program in made["programs"]]
    (1, [0, 0, 0])
    """
    texts: dict[str, int] = {}
    packed = [program.packed() for program in programs]
    for piece in packed:
        piece["text"] = texts.setdefault(piece["text"], len(texts))
    return {"texts": list(texts), "programs": packed}


def layout_spec(layout: BlockLayout, shape: Shape) -> dict[str, Any]:
    """Return a layout of the blocks of a tensor of `shape` as plain values.

    >>> layout_spec(Scheme("int4").layout((2, 3)), (2, 3))
    {'shape': [2, 3], 'view': [2, 3], 'block': [2, 3], 'grid': [1, 1], 'tail': 'refuse'}
    """
    return {
        "shape": list(shape),
        "view": list(layout.view_shape),
        "block": list(layout.block_shape),
        "grid": list(layout.grid_shape),
        "tail": layout.tail,
    }


def write_program(scheme: Scheme) -> JavaScriptProgram:
    """Return a scheme's arithmetic as JavaScript: from the values of a block to its scale, from a cell to its
    code, its value and its error, and from a code to its value.

    A calibration that searches has no part from values to the scale: the browser gets its ranges.

    Raises:
        Untraceable: If an operation cannot be written down, or an engine searches scales without a range.

    >>> program = write_program(Scheme("int4", "asymmetric"))
    >>> program.text == write_program(Scheme("int8", "asymmetric")).text
    True
    """
    if scheme.search is not None:
        raise Untraceable("a search of scales")
    same = [getattr(scheme, field.name) for field in fields(scheme) if field.name != "granularity"]
    return _written_program(_Sort((*same, scheme.granularity.single), scheme))


@dataclass(frozen=True)
class _Sort:
    """Schemes that share a program: of their blocks it counts only whether there is but one."""

    key: tuple[object, ...]
    #: One of them.
    scheme: Scheme = field(compare=False)


@lru_cache(maxsize=256)
def _written_program(sort: _Sort) -> JavaScriptProgram:
    return _SchemeWriter(sort.scheme).program()


@lru_cache(maxsize=1)
def write_metrics() -> JavaScriptProgram:
    """Return the formulas of all metrics as JavaScript, each from moments and the bits of an element at
    stored size.

    >>> "max_abs_error" in write_metrics().text
    True
    """
    numbers = _ProgramNumbers()
    parts = []
    for name, metric in METRICS.items():
        trace = numbers.trace()
        known = {
            field: TracedValue(trace, field, torch.float64, field in _OF_CODES)
            for field in sorted(metric.reads)
        }
        moments: Any = _NamedMoments(known)
        made: Any = metric.formula(moments, TracedValue(trace, "bits", torch.float64, False))
        parts.append(f"{name}: {_formula(trace, made.name, known)}")
    return numbers.program(parts, {"metrics": list(METRICS)})


#: Moments that have a number for each code.
_OF_CODES = ("codes_seen", "code_counts")


@dataclass(frozen=True, eq=False)
class _NamedMoments:
    """Moments by name."""

    known: Mapping[str, TracedValue]

    def __getattr__(self, name: str) -> TracedValue:
        return self.known[name]


def _formula(trace: Trace, result: str, known: Mapping[str, TracedValue]) -> str:
    """Return the text of a metric's function: lines before, lines of each code, and lines on their sums."""
    sums = {line.partition(" = ")[0]: line for line in trace.of_block if " = total(" in line}
    late = set(sums)
    for line in trace.of_block:
        if words_of(line.partition(" = ")[2]) & late:
            late.add(line.partition(" = ")[0])
    before = [line for line in trace.of_block if line.partition(" = ")[0] not in late]
    after = [line for line in trace.of_block if line not in before and line not in sums.values()]
    writer = FunctionLines(dict.fromkeys([*known, "bits"], "f"))
    vectors = [n for n in known if known[n].of_cell]
    read = [f"{name}: {name}_" if name in vectors else name for name in known]
    code = [f"const {{ {', '.join(read)} }} = m;"] if known else []
    code += writer.write(before)
    if sums:
        code += [f"let {name} = 0;" for name in sums]
        code += [f"for (let i = 0; i < {vectors[0]}_.length; i++) {{"]
        code += [f"const {name} = {name}_[i];" for name in vectors]
        code += writer.write(trace.of_cell)
        for name, line in sums.items():
            code.append(f"{name} += {line.partition('total(')[2].removesuffix(')')};")
            writer.know(name)
        code.append("}")
    return "(m, bits) => {\n" + "\n".join([*code, *writer.write(after), f"return {result};"]) + "\n}"


class _ProgramNumbers:
    """The numbers that the parts of one program share."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.floats: list[float] = []
        self.integers: list[int] = []
        self.tables: list[torch.Tensor] = []
        self._functions: dict[str, Callable[..., Any]] = {
            **{name: _function(name) for name in ("log2", "log10", "sqrt")},
            "sum": _total,
            **functions,
        }

    def trace(self) -> Trace:
        """Return a new trace for another part."""
        return Trace(
            floats=self.floats, integers=self.integers, tables=self.tables, functions=self._functions
        )

    def program(self, parts: Iterable[str], facts: Mapping[str, Any]) -> JavaScriptProgram:
        """Return the parts as one function."""
        body = ",\n".join(parts)
        used = words_of(body)
        text = "(R, F, I, J, T) => {\n"
        names = [name for name in _MATH if name in used]
        text += f"const {{ {', '.join(names)} }} = Math;\n" if names else ""
        text += "const { rint, copysign, fusedSum, toHalf, toBrain, twoTo, exponentOf, floatOfCode } = R;\n"
        text += f"return {{\n{body}\n}};\n}}"
        tables = torch.cat(self.tables).tolist() if self.tables else ()
        return JavaScriptProgram(
            text, tuple(self.floats), tuple(self.integers), tuple(tables), MappingProxyType(dict(facts))
        )


def _function(name: str) -> Callable[[TracedValue], TracedValue]:
    def run(x: TracedValue) -> TracedValue:
        return x.trace.line(f"{TYPES[x.dtype]}({name}({x.name}))", x.dtype, (x,))

    return run


def _sign_bit(x: TracedValue) -> Any:
    """Return whether the sign of a number is set; of the input also where it is NaN."""
    if x.name == "x":
        return x.trace.line("sign_bit(x)", torch.bool, (x,))
    return FUNCTIONS["signbit"](x)


def _total(x: TracedValue, _axis: int) -> TracedValue:
    """Return the sum over all codes: it is a number of the whole."""
    return x.trace.line(f"total({x.name})", x.dtype, ())


class _CalibrationInputs(TracedEnds):
    """The numbers of a block that a calibration reads, each by a name; the runtime computes them."""

    def __init__(self, trace: Trace, dtype: torch.dtype, asks: list[dict[str, Any]], sizes: bool) -> None:
        super().__init__(trace, dtype)
        self._asks = asks
        self._sizes = sizes

    def _answer(self, what: str, **more: float) -> Any:
        self._asks.append({"what": what, "magnitudes": self._sizes, **more})
        return self._named(f"asked{len(self._asks) - 1}")

    def min_max(self) -> tuple[Any, Any]:
        return self._answer("lowest"), self._answer("highest")

    def extreme(self) -> Any:
        # The runtime finds it by itself, whatever the range.
        return self._named("extreme")

    def magnitudes(self) -> _CalibrationInputs:
        return _CalibrationInputs(self._trace, self._dtype, self._asks, True)

    def percentiles(self, *percents: float) -> tuple[Any, ...]:
        return tuple(self._answer("percentile", percent=percent) for percent in percents)

    def mean_magnitude(self) -> Any:
        return self._answer("mean_magnitude")


class _SchemeWriter:
    """Writes one scheme's parts."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._numbers = _ProgramNumbers(__getitem__=self._value_of_code, signbit=_sign_bit)
        self._dtype = torch_dtype(scheme.range_dtype)

    def program(self) -> JavaScriptProgram:
        scheme = self._scheme
        convention = self._scheme.arithmetic
        fmt = self._scheme.number_format
        kept = convention.scale_dtype if scheme.granularity.single else convention.block_scale_dtype
        whole = scheme.zero_domain in ("none", "code_int")
        asks, parts = self._found()
        zero = torch.int32 if whole else torch.float32
        named = dict.fromkeys(("lo", "hi", "extreme"), self._dtype)
        of_range, made = self._params((*range_operations(scheme), *store_operations(scheme)), named)
        handed = {"scale": torch_dtype(kept), "zero_point": zero}
        of_given, other = self._params(store_operations(scheme, given=True), handed)
        parts += [f"range: {of_range}", f"given: {of_given}", *self._cells("", made), *self._grid()]
        if other != made:
            parts += self._cells("_given", other)
        parts += self._clamped_zero_point(named)
        given = scheme.calibration if isinstance(scheme.calibration, Given) else None
        facts = {
            "asks": asks,
            "given": given and {"scale": given.scale, "zero_point": given.zero_point},
            "params": sorted({*made, *other}),
            "mode": scheme.mode,
            # Half precision that values are rounded to first.
            "input": rounded_to(scheme),
            "nonfinite": scheme.nonfinite,
            "range_single": self._dtype == torch.float32,
            "scale_single": kept == "float32",
            "zero_whole": whole,
            "zero_is_code": scheme.zero_domain == "code_int",
            "symmetric_zero_point": scheme.symmetric_zero_point,
            "steps_below": scheme.steps_below if scheme.from_lower_end else 0,
            "codes": [fmt.code_min, fmt.code_max],
            # Of 16 bits nobody draws every value.
            "levels": [scheme.code_min, scheme.code_max] if fmt.bits <= 8 else None,
            # For a cell's sentence: the kind of the format, the widths of a code's parts, and the rounding.
            "kind": fmt.kind,
            "widths": [len(part) for part in fmt.split(fmt.code_min)],
            "ties": convention.ties,
        }
        return self._numbers.program(parts, facts)

    def _value_of_code(self, values: torch.Tensor, x: TracedValue) -> TracedValue:
        """Return a list's entry; a long list of a float format's values by arithmetic instead."""
        fmt = self._scheme.number_format
        if fmt.kind != "float" or len(values) < _MOST_LISTED:
            return looked_up(values, x)
        return _float_of_code(x, fmt)

    def _found(self) -> tuple[list[dict[str, Any]] | None, list[str]]:
        """Return the numbers of a block that the calibration reads, and the part from these to the range.

        None and no part if the calibration searches, or gives no range.
        """
        if not self._scheme.calibration.of_values:
            return None, []
        trace = self._numbers.trace()
        asks = list[dict[str, Any]]()
        found: Any = calibrated(_CalibrationInputs(trace, self._dtype, asks, False), self._scheme, _untried)
        names = [f"asked{i}" for i in range(len(asks))]
        ends = {"lo": found.lo.name, "hi": found.hi.name}
        fixed, lines, _ = _written(trace, ["extreme", *names], ends.values())
        loads = [f"const {name} = S[{i}][b];" for i, name in enumerate(names)]
        stores = [f"B.{name}[b] = {value};" for name, value in ends.items()]
        return asks, [f"found: {_closure(fixed, '(S, B, b)', [*loads, *lines, *stores])}"]

    def _params(
        self, operations: Operations, known: Mapping[str, torch.dtype]
    ) -> tuple[str, dict[str, torch.dtype]]:
        """Return the part from the `known` numbers of a block to its parameters, and the dtypes of these."""
        trace = self._numbers.trace()
        scheme = self._scheme
        of_tensor = dict.fromkeys(("tensor_absmax", "short"), torch.float32)
        inputs = {**known, **of_tensor}
        values: dict[str, Any] = {
            name: TracedValue(trace, name, dtype, True) for name, dtype in inputs.items()
        }
        made: dict[str, Any] = run_operations(operations, values)
        zero = made["zero_point"]
        # A zero point too large for int32 is refused by its float.
        kept = {"zero_point": zero.to(torch.int32) if scheme.zero_domain in ("none", "code_int") else zero}
        kept["scale"] = made["scale"]
        kept |= {name: made[name] for name in sorted(block_names(scheme) & made.keys())}
        names = {name: cell.name for name, cell in kept.items()}
        fixed, lines, _ = _written(trace, [*inputs], [*names.values(), zero.name])
        stores = [f"P.{name}[b] = {value};" for name, value in sorted(names.items())]
        code = _closure(fixed, f"({', '.join(inputs)}, P, b)", [*lines, *stores, f"return {zero.name};"])
        return code, {name: cell.dtype for name, cell in sorted(kept.items())}

    def _cells(self, suffix: str, params: Mapping[str, torch.dtype]) -> list[str]:
        """Return the parts from cells to codes, and from codes to values, of blocks with these parameters."""
        traced = trace_cell(self._scheme, params, self._numbers.trace())
        trace = Trace(list(traced.of_block), list(traced.of_cell))
        results = dict(traced.results)
        fixed, block, cell = _written(
            trace, [*params, "x"], results.values(), {name: _KIND[TYPES[d]] for name, d in params.items()}
        )
        index = ["const index = BigInt(i);"] if any("index" in line for line in cell) else []
        # The bits of x, of which JavaScript keeps no sign where they are NaN.
        signs = [_BITS_OF_X] if any("S[i]" in line for line in cell) else []
        outs = [f"{name}_[i] = {_truth(value)};" for name, value in results.items()]
        arrays = ", ".join(f"{name}: {name}_" for name in results)
        body = [
            *(f"const {name} = P.{name}[b];" for name in traced.params),
            *block,
            *signs,
            f"const {{ {arrays} }} = r;",
            "for (let k = begin; k < end; k++) {",
            "const i = order[k], x = X[i];",
            *index,
            *cell,
            *outs,
            "}",
        ]
        return [
            f"cells{suffix}: {_closure(fixed, '(X, order, begin, end, P, b, r)', body)}",
            f"values{suffix}: {self._values(params)}",
            f"steps{suffix}: {self._steps(params)}",
        ]

    def _steps(self, params: Mapping[str, torch.dtype]) -> str:
        """Return the part from one cell to its steps in units of the scale, up to its rounded value `y`: each
        with its key, the values that it reads by name, which of these are whole numbers, and its result.
        """
        scheme = self._scheme
        trace = self._numbers.trace()
        inputs = {"x": torch.float32, **params}
        values: dict[str, Any] = {
            name: TracedValue(trace, name, dtype, name == "x") for name, dtype in inputs.items()
        }
        if scheme.arithmetic.ties == "stochastic":
            values["index"] = TracedValue(trace, "index", torch.int64, True)
        results = set[str]()
        steps = list[str]()

        def record(operation: Operation, before: NamedTensors, result: Any) -> None:
            if operation.silent or operation.name != "y":
                return
            read: dict[str, Any] = {name: before[name] for name in before if name in operation.reads}
            results.update(cell.name for cell in (*read.values(), result))
            told = ", ".join(f"{name}: {cell.name}" for name, cell in read.items())
            whole = [name for name, cell in read.items() if not cell.dtype.is_floating_point]
            steps.append(
                f'{{ key: "{operation.key}", read: {{ {told} }}, whole: {whole}, made: {result.name} }}'
            )

        run_operations(code_operations(scheme), values, record)
        kinds = {name: _KIND[TYPES[dtype]] for name, dtype in params.items()}
        fixed, block, cell = _written(trace, [*params, "x"], results, kinds)
        lines = [*block, *cell]
        used = frozenset().union(*map(words_of, (*lines, *steps)))
        body = [
            *(f"const {name} = P.{name}[b];" for name in params if name in used),
            *(["const index = BigInt(i);"] if "index" in used else []),
            *lines,
            "return [",
            *(f"{step}," for step in steps),
            "];",
        ]
        return _closure(fixed, "(x, i, P, b)", body)

    def _grid(self) -> list[str]:
        """Return the part from a value in units of the scale to the grid's values around it and its share of
        the way between them; of formats whose codes are no numbers also the part from a code to its value.
        """
        fmt = self._scheme.number_format
        trace = self._numbers.trace()
        y: Any = TracedValue(trace, "y", torch.float64, True)
        below, above = neighbours(y, fmt)
        coordinate: Any = GRIDS[fmt.kind].coordinate(y, fmt)
        results: dict[str, Any] = {
            "below": below,
            "above": above,
            "share": coordinate - torch.floor(coordinate),
        }
        parts = [f"around: {self._returned(trace, 'y', results)}"]
        if fmt.kind != "integer":
            trace = self._numbers.trace()
            code: Any = TracedValue(trace, "code", torch_dtype(fmt.code_dtype), True)
            parts.append(
                f"unscaled: {self._returned(trace, 'code', {'value': GRIDS[fmt.kind].decode(code, fmt)})}"
            )
        return parts

    def _clamped_zero_point(self, named: Mapping[str, torch.dtype]) -> list[str]:
        """Return the part from the numbers of a block to its zero point before and after the limits of the
        codes; none of a scheme without such limits.
        """
        trace = self._numbers.trace()
        inputs = {**named, **dict.fromkeys(("tensor_absmax", "short"), torch.float32)}
        values: dict[str, Any] = {
            name: TracedValue(trace, name, dtype, True) for name, dtype in inputs.items()
        }
        clamp: dict[str, Any] = {}

        def record(operation: Operation, before: NamedTensors, result: Any) -> None:
            if operation.key == "zero_point_clamp" and not clamp:
                clamp.update(before=before["zero_point"], after=result)

        run_operations((*range_operations(self._scheme), *store_operations(self._scheme)), values, record)
        if not clamp:
            return []
        return [f"clamped: {self._returned(trace, ', '.join(inputs), clamp)}"]

    def _returned(self, trace: Trace, arguments: str, results: Mapping[str, Any]) -> str:
        """Return the function from some arguments to an object with the results."""
        names = {name: cell.name for name, cell in results.items()}
        fixed, lines, _ = _written(trace, arguments.split(", "), names.values())
        made = ", ".join(f"{name}: {value}" for name, value in names.items())
        return _closure(fixed, f"({arguments})", [*lines, f"return {{ {made} }};"])

    def _values(self, params: Mapping[str, torch.dtype]) -> str:
        trace = self._numbers.trace()
        fmt = self._scheme.number_format
        params_by_name: dict[str, Any] = {
            name: TracedValue(trace, name, dtype, False) for name, dtype in params.items()
        }
        code: Any = TracedValue(trace, "code", torch_dtype(fmt.code_dtype), True)
        made: dict[str, Any] = run_operations(
            value_operations(self._scheme), {**params_by_name, "q": GRIDS[fmt.kind].decode(code, fmt)}
        )
        value = made["x_hat"].name
        fixed, block, lines = _written(
            trace, [*params, "code"], [value], {name: _KIND[TYPES[d]] for name, d in params.items()}
        )
        read = frozenset().union(*map(words_of, (*block, *lines)))
        body = [
            *(f"const {name} = P.{name}[b];" for name in params if name in read),
            *block,
            "for (let i = 0; i < codes.length; i++) {",
            "const code = codes[i];",
            *lines,
            f"values[i] = {value};",
            "}",
        ]
        return _closure(fixed, "(P, b, codes, values)", body)


def write_operations(
    operations: Operations, of_block: Mapping[str, torch.dtype], of_cell: Mapping[str, torch.dtype], name: str
) -> JavaScriptProgram:
    """Return a list of operations as JavaScript: the part from the numbers of a block and of its cells to the
    cells' value called `name`, and the part to the results of all operations on one cell.

    Args:
        operations: The operations.
        of_block: The numbers that a block has one of, with their dtypes.
        of_cell: Those that each cell has one of.
        name: The name of the wanted value.

    Raises:
        Untraceable: An operation cannot be written down.
    """
    numbers = _ProgramNumbers()
    trace = numbers.trace()
    values: dict[str, Any] = {
        **{
            value_name: TracedValue(trace, value_name, dtype, False) for value_name, dtype in of_block.items()
        },
        **{value_name: TracedValue(trace, value_name, dtype, True) for value_name, dtype in of_cell.items()},
    }
    steps = list[dict[str, Any]]()
    made = list[TracedValue]()

    def record(operation: Operation, before: NamedTensors, result: Any) -> None:
        step: dict[str, Any] = {"key": operation.key, "name": operation.name, "line": operation.line}
        read = sorted(operation.reads & before.keys())
        steps.append({**step, "silent": operation.silent, "read": read, "dtype": dtype_name(result.dtype)})
        made.append(result)

    final: Any = run_operations(operations, values, record)[name]
    kinds = {value_name: _KIND[TYPES[dtype]] for value_name, dtype in {**of_block, **of_cell}.items()}

    def part(arguments: str, results: Sequence[str], cells: Callable[[list[str]], list[str]]) -> str:
        fixed, block, cell = _written(trace, kinds, results, kinds)
        used = frozenset().union(*map(words_of, (*block, *cell, *results)))
        loads = [f"const {value_name} = r.{value_name}[i];" for value_name in of_cell if value_name in used]
        blocks = [f"const {value_name} = P.{value_name}[b];" for value_name in of_block if value_name in used]
        return _closure(fixed, arguments, [*blocks, *block, *cells([*loads, *cell])])

    loop = f"for (let i = 0; i < r.{name}.length; i++) {{"
    cells = part("(P, b, r)", [final.name], lambda lines: [loop, *lines, f"r.{name}[i] = {final.name};", "}"])
    results = [result.name for result in made]
    returned = ", ".join(f"Number({result})" for result in results)
    of_steps = part("(P, b, r, i)", results, lambda lines: [*lines, f"return [{returned}];"])
    return numbers.program([f"cells: {cells}", f"steps: {of_steps}"], {"steps": steps})


def _float_of_code(code: TracedValue, fmt: NumberFormat) -> TracedValue:
    layout = fmt.float_bits
    assert layout
    numbers = [
        code.trace.number(value, torch.int32).name
        for value in (
            layout.exponent,
            layout.mantissa,
            layout.bias,
            _SPECIAL.index(layout.special),
            layout.subnormal,
            fmt.signed,
        )
    ]
    made = f"float_value({', '.join((code.name, *numbers))})"
    return code.trace.line(made, torch.float32, (code,))


def _untried(found: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0) -> torch.Tensor:
    raise AssertionError("a calibration that does not search tries no range")


def _written(
    trace: Trace, names: Iterable[str], results: Iterable[str], kinds: Mapping[str, str] | None = None
) -> tuple[list[str], list[str], list[str]]:
    """Return the declarations that depend on numbers alone, on the block, and on the cell."""
    known = set(names)
    kept = needed([*trace.of_block, *trace.of_cell], results)
    writer = FunctionLines({**dict.fromkeys(known, "f"), "index": "big", "code": "i", **(kinds or {})})
    fixed = list[str]()
    block = list[str]()
    cell = list[str]()
    of_cell = set(trace.of_cell)
    for line in kept:
        name, _, expression = line.partition(" = ")
        (code,) = writer.write([line])
        if line in of_cell:
            cell.append(code)
            known.add(name)
        elif words_of(expression) & known:
            block.append(code)
            known.add(name)
        else:
            fixed.append(code)
    return fixed, (block if kinds is not None else [*block, *cell]), cell


def _closure(fixed: Sequence[str], arguments: str, body: Sequence[str]) -> str:
    """Return the text of a function, made once around the declarations that depend on numbers alone."""
    function = f"{arguments} => {{\n" + "\n".join(body) + "\n}"
    return "(() => {\n" + "\n".join(fixed) + f"\nreturn {function};\n}})()" if fixed else function


def _truth(value: str) -> str:
    return {"True": "true", "False": "false"}.get(value, value)


def _plain(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"
