"""The bug gallery's programs: accidents that happen in quantization code, and the line that causes each.

Programs run as they are shown; wrapped codes and NaN are torch's own doing. A bug is added here: one entry in
`BUGS` and its words under `[bugs.<id>]` in each language.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.sources import AllPositive, Builtin, Normal, Source, Uniform
from quantviz.sources.typed import Typed

Variables = Mapping[str, Any]


@dataclass(frozen=True)
class ProgramLine:
    """One line of a program."""

    #: Its words are under `[bugs.<id>.why]`.
    key: str
    #: `name = expression`, or `name, name = expression`.
    code: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.code.partition(" = ")[0].split(", "))

    def given(self, values: Variables) -> dict[str, Any]:
        result = eval(self.code.partition(" = ")[2], {"torch": torch, **values})
        return dict(zip(self.names, result if len(self.names) > 1 else (result,), strict=True))


@dataclass(frozen=True)
class ProgramCase:
    """A tensor to run a program on, and lines before the program's first one."""

    #: Its words are under `[bugs.<id>.cases]`.
    id: str
    source: Source
    given: tuple[ProgramLine, ...] = ()


@dataclass(frozen=True)
class Bug:
    """A correct program and the one line that breaks it."""

    #: Permanent: it is in people's links.
    id: str
    #: The first shows the bug.
    cases: tuple[ProgramCase, ...]
    #: The correct program; it ends with `x_hat`.
    lines: tuple[ProgramLine, ...]
    #: Takes the place of the correct line of the same key.
    broken: ProgramLine
    bits: int = 8

    @property
    def fixed(self) -> ProgramLine:
        return next(line for line in self.lines if line.key == self.broken.key)

    def program(self, case: ProgramCase, broken: bool) -> tuple[ProgramLine, ...]:
        return (
            *case.given,
            *(self.broken if broken and line.key == self.broken.key else line for line in self.lines),
        )

    def case(self, case_id: str) -> ProgramCase:
        for case in self.cases:
            if case.id == case_id:
                return case
        raise QuantVizError("bugs.unknown_case", got=case_id, known=", ".join(case.id for case in self.cases))


@dataclass(frozen=True, eq=False)
class ProgramResult:
    """The result of a program: `x`, `q` and `x_hat` of one shape, and every value on the way."""

    x: torch.Tensor
    q: torch.Tensor
    x_hat: torch.Tensor
    lines: tuple[ProgramLine, ...]
    #: The values that each line set: a name may be set twice.
    steps: tuple[Mapping[str, Any], ...]
    values: Variables

    @property
    def mse(self) -> float:
        return (self.x_hat - self.x).to(torch.float64).square().mean().item()


def run_bug(bug: Bug, x: torch.Tensor, broken: bool, case: ProgramCase | None = None) -> ProgramResult:
    """Run the bug's program on `x`, correct or broken; `case` sets values before it, else the first case."""
    lines = bug.program(case or bug.cases[0], broken)
    values: dict[str, Any] = {"x": x}
    steps = []
    for line in lines:
        steps.append(line.given(values))
        values |= steps[-1]
    return ProgramResult(
        x,
        values["q"].expand(x.shape),
        values["x_hat"].expand(x.shape),
        lines,
        tuple(steps),
        MappingProxyType(values),
    )


def differing(one: ProgramResult, other: ProgramResult) -> torch.Tensor:
    """Return where codes or values differ; NaN equals NaN here."""
    return _differ(one.q.to(torch.float64), other.q.to(torch.float64)) | _differ(one.x_hat, other.x_hat)


def _differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one != other) & ~(one.isnan() & other.isnan())


def find_bug(bug_id: str) -> Bug:
    if bug_id not in BUGS:
        raise QuantVizError("bugs.unknown", got=bug_id, known=", ".join(BUGS))
    return BUGS[bug_id]


def puzzle(number: int) -> Bug:
    """Return the bug of a puzzle, from 1: in another order than the list of bugs."""
    if not 1 <= number <= len(BUGS):
        raise QuantVizError("bugs.unknown_puzzle", got=number, most=len(BUGS))
    return sorted(BUGS.values(), key=lambda bug: zlib.crc32(bug.id.encode()))[number - 1]


# ---- lines that several programs share ----------------------------------------------------------

# A range that contains 0 gives a zero point inside the codes.
_RANGE = ProgramLine("range", "lo, hi = x.min().clamp(max=0), x.max().clamp(min=0)")
_RANGE_WITHOUT_0 = ProgramLine("range", "lo, hi = x.min(), x.max()")
_SCALE = ProgramLine("scale", "scale = (hi - lo) / 255")
_ZERO_POINT = ProgramLine("zero_point", "zero_point = int((-128 - lo / scale).round().clamp(-128, 127))")
_CODES = ProgramLine("codes", "q = (x / scale + zero_point).round().clamp(-128, 127).to(torch.int8)")
_VALUES = ProgramLine("values", "x_hat = scale * (q.float() - zero_point)")
_SYMMETRIC_CODES = ProgramLine("codes", "q = (x / scale).round().clamp(-127, 127).to(torch.int8)")
_SYMMETRIC_VALUES = ProgramLine("values", "x_hat = scale * q.float()")
_INT8 = ProgramLine("dtype", "dtype = torch.int8")
_UINT8 = ProgramLine("dtype", "dtype = torch.uint8")

# ---- tensors made for a purpose -----------------------------------------------------------------

# int8 gives it the scale 0.01 and the zero point 0; a value added moves the zero point by its hundredths.
BALANCED = (
    (-1.28, 0.40, 0.07, 1.01),
    (0.33, 1.27, -0.90, 0.02),
    (-0.55, 0.00, 0.84, -1.10),
    (0.60, -0.26, 1.18, -0.71),
)
# Every row reaches 2.54, on one side or the other.
ROWS_ALIKE = (
    (2.54, -0.40, 1.07, 0.30),
    (0.33, -2.54, -0.90, 2.10),
    (-1.55, 0.00, 0.84, 2.54),
    (-2.54, 0.66, 1.18, -0.71),
)
# The second row is a channel that was pruned away.
_ZERO_ROW = Typed.of(
    [[0.42, -1.3, 0.07, 0.9], [0.0, 0.0, 0.0, 0.0], [-0.55, 2.2, 0.84, -1.1], [0.6, -0.26, 1.18, -0.71]]
)
# Multiples of 0.5 up to 3.5: int4 hits each of them, so there is no error to correct.
_ON_THE_GRID = Typed.of(
    [[3.5, -1.0, 0.5, 2.0], [1.5, 0.0, -3.0, 1.0], [-2.5, 3.0, 0.5, -0.5], [2.5, -3.5, 1.0, 1.5]]
)
_FIVES = Typed.of([[5.0] * 4] * 4)

_RANDOM = Normal(rows=6, cols=6)


def setting(name: str, value: float) -> tuple[ProgramLine, ...]:
    return (ProgramLine(name, f"{name} = {value!r}"),)


# ---- the bugs -----------------------------------------------------------------------------------

_ALL = (
    Bug(
        "int8_difference_wraps",
        (
            ProgramCase("notebook", Builtin("course_3x3")),
            ProgramCase("zero_point_0", Typed.of(BALANCED)),
            ProgramCase("random", _RANDOM),
        ),
        (_RANGE, _SCALE, _ZERO_POINT, _CODES, _VALUES),
        ProgramLine("values", "x_hat = scale * (q - zero_point)"),
    ),
    Bug(
        "times_255_wraps",
        (
            ProgramCase("notebook", Builtin("course_3x3"), (_INT8,)),
            ProgramCase("picture", Uniform(rows=6, cols=6, lo=0.0), (_UINT8,)),
            ProgramCase("random", _RANDOM, (_INT8,)),
        ),
        (
            ProgramLine("absmax", "absmax = x.abs().max()"),
            ProgramLine("q_max", "q_max = torch.iinfo(dtype).max"),
            ProgramLine("codes", "q = (x / absmax * q_max).round().to(dtype)"),
            ProgramLine("values", "x_hat = q.float() / q_max * absmax"),
        ),
        ProgramLine("q_max", "q_max = 255"),
    ),
    Bug(
        "zero_point_clamped",
        (
            ProgramCase("far_from_0", Uniform(rows=6, cols=6, lo=10.0, hi=20.0)),
            ProgramCase("both_sides", Builtin("course_3x3")),
            ProgramCase("random", Normal(6, 6, mean=4.0)),
        ),
        (_RANGE, _SCALE, _ZERO_POINT, _CODES, _VALUES),
        _RANGE_WITHOUT_0,
    ),
    Bug(
        "dtype_ignored",
        (
            ProgramCase("uint8", Builtin("course_randn_3x3"), (_UINT8,)),
            ProgramCase("int8", Builtin("course_randn_3x3"), (_INT8,)),
            ProgramCase("random", _RANDOM, (_UINT8,)),
        ),
        (
            ProgramLine("limits", "q_min, q_max = torch.iinfo(dtype).min, torch.iinfo(dtype).max"),
            _RANGE,
            ProgramLine("scale", "scale = (hi - lo) / (q_max - q_min)"),
            ProgramLine("zero_point", "zero_point = int((q_min - lo / scale).round())"),
            ProgramLine("rounded", "y = (x / scale + zero_point).round().clamp(q_min, q_max)"),
            ProgramLine("codes", "q = y.to(dtype)"),
            _VALUES,
        ),
        ProgramLine("codes", "q = y.to(torch.int8)"),
    ),
    Bug(
        "one_code_too_many",
        (
            ProgramCase("clipped", Builtin("course_4x4_c"), setting("share", 0.9)),
            ProgramCase("absmax", Builtin("course_4x4_c"), setting("share", 1.0)),
            ProgramCase("random", _RANDOM, setting("share", 0.9)),
        ),
        (
            ProgramLine("top", "top = x.abs().quantile(share)"),
            ProgramLine("scale", "scale = top / 127"),
            _SYMMETRIC_CODES,
            ProgramLine("size", "size = q.abs()"),
            ProgramLine("values", "x_hat = scale * q.sign() * size"),
        ),
        ProgramLine("codes", "q = (x / scale).round().clamp(-128, 127).to(torch.int8)"),
    ),
    Bug(
        "leftover_parameters",
        (
            ProgramCase("notebook", Builtin("course_randn_3x3")),
            ProgramCase("rows_alike", Typed.of(ROWS_ALIKE)),
            ProgramCase("random", _RANDOM),
        ),
        (
            ProgramLine("per_tensor", "scale = x.abs().max() / 127"),
            ProgramLine("per_row", "row_scale = x.abs().amax(dim=1, keepdim=True) / 127"),
            _SYMMETRIC_CODES,
            _SYMMETRIC_VALUES,
        ),
        ProgramLine("per_row", "scale = x.abs().amax(dim=1, keepdim=True) / 127"),
    ),
    Bug(
        "zero_point_added",
        (
            ProgramCase("notebook", Builtin("course_w8a32")),
            ProgramCase("zero_point_0", Typed.of(BALANCED)),
            ProgramCase("random", _RANDOM),
        ),
        (
            _RANGE,
            _SCALE,
            _ZERO_POINT,
            _CODES,
            ProgramLine("values", "x_hat = (q.float() - zero_point) * scale"),
        ),
        ProgramLine("values", "x_hat = q.float() * scale + zero_point"),
    ),
    Bug(
        "constant_tensor",
        (
            ProgramCase("eps", _FIVES, setting("eps", 1e-8)),
            ProgramCase("no_eps", _FIVES, setting("eps", 0.0)),
            ProgramCase("not_constant", Builtin("course_3x3"), setting("eps", 1e-8)),
            ProgramCase("random", _RANDOM, setting("eps", 1e-8)),
        ),
        (
            _RANGE,
            ProgramLine("scale", "scale = ((hi - lo) / 255).clamp(min=eps)"),
            _ZERO_POINT,
            _CODES,
            _VALUES,
        ),
        _RANGE_WITHOUT_0,
    ),
    Bug(
        "row_of_zeros",
        (
            ProgramCase("pruned_row", _ZERO_ROW),
            ProgramCase("no_zeros", Builtin("course_3x3")),
            ProgramCase("random", _RANDOM),
        ),
        (
            ProgramLine("absmax", "absmax = x.abs().amax(dim=1, keepdim=True)"),
            ProgramLine("scale", "scale = torch.where(absmax > 0, absmax / 127, 1)"),
            # Codes that stay float, as in fake quantization: a cast to int8 would turn NaN into some code.
            ProgramLine("codes", "q = (x / scale).round().clamp(-127, 127)"),
            ProgramLine("values", "x_hat = scale * q"),
        ),
        ProgramLine("scale", "scale = absmax / 127"),
    ),
    Bug(
        "one_axis_one_scale",
        (
            ProgramCase("vector", Builtin("course_vector")),
            ProgramCase("matrix", Builtin("course_3x3")),
            ProgramCase("random", _RANDOM),
        ),
        (
            ProgramLine("dims", "dims = tuple(d for d in range(x.dim()) if d != 0)"),
            ProgramLine("absmax", "absmax = x.abs().amax(dim=dims, keepdim=True) if dims else x.abs()"),
            ProgramLine("scale", "scale = torch.where(absmax > 0, absmax / 127, 1)"),
            _SYMMETRIC_CODES,
            _SYMMETRIC_VALUES,
        ),
        ProgramLine("absmax", "absmax = x.abs().amax(dim=dims, keepdim=True)"),
    ),
    Bug(
        "error_sign",
        (
            ProgramCase("biased", AllPositive(rows=5, cols=5)),
            ProgramCase("on_the_grid", _ON_THE_GRID),
            ProgramCase("random", _RANDOM),
        ),
        (
            ProgramLine("scale", "scale = x.abs().max() / 7"),
            ProgramLine("codes", "q = (x / scale).round().clamp(-7, 7).to(torch.int8)"),
            ProgramLine("rough", "y = scale * q.float()"),
            ProgramLine("error", "error = y - x"),
            ProgramLine("values", "x_hat = y - error.mean(dim=1, keepdim=True)"),
        ),
        ProgramLine("error", "error = x - y"),
        bits=4,
    ),
)

#: Every bug by id, in the order the gallery lists them.
BUGS: Mapping[str, Bug] = MappingProxyType({bug.id: bug for bug in _ALL})
