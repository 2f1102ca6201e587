"""The handles of the bug gallery: sliders for bugs that one number brings into view.

A handle begins where its bug hides, and both programs run at each of its values. A handle is added here: one
entry in `HANDLES` and its words under `[bugs.<id>.drag]` in each language. `dtype_ignored` and
`one_axis_one_scale` have none: between two dtypes or shapes there is nothing to drag through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.sources import Builtin, Source
from quantviz.sources.typed import Typed
from quantviz.teaching.gallery import (
    BALANCED,
    BUGS,
    ROWS_ALIKE,
    Bug,
    ProgramCase,
    ProgramLine,
    ProgramResult,
    differing,
    run_bug,
    setting,
)

#: A cell's place in the tensor.
CellIndex = tuple[int, ...]
#: Numbers that a sentence names.
Facts = Mapping[str, float]


@dataclass(frozen=True)
class Handle:
    """One number that decides whether a bug shows."""

    #: In the slider's order: shown numbers grow to the right.
    values: tuple[float, ...]
    #: A value at which the bug hides.
    start: float
    source: Callable[[float], Source]
    #: Numbers in the sentence on a cell, beside the value, the place, and x, q and x̂ of both programs.
    facts: Callable[[ProgramResult, ProgramResult, CellIndex], Facts]
    #: Lines before the program's first one.
    given: Callable[[float], tuple[ProgramLine, ...]] = lambda value: ()
    #: The broken line at a value, if it is not the bug's own.
    broken: Callable[[float], ProgramLine] | None = None
    #: The cells that the bug hits.
    hit: Callable[[ProgramResult, ProgramResult], torch.Tensor] = differing
    #: The number shown for a value.
    shown: Callable[[float], float] = lambda value: value

    def nearest(self, value: float) -> float:
        return min(self.values, key=lambda handle_value: abs(handle_value - value))


@dataclass(frozen=True, eq=False)
class HandleFrame:
    """A bug at one value of its handle."""

    value: float
    bug: Bug
    case: ProgramCase
    correct: ProgramResult
    broken: ProgramResult
    hit: torch.Tensor

    @property
    def shows(self) -> bool:
        return bool(self.hit.any())


@cache
def frames(bug_id: str) -> tuple[HandleFrame, ...]:
    """Return the bug at each value of its handle.

    >>> shown = [frame.value for frame in frames("constant_tensor") if frame.shows]
    >>> shown[0], shown[-1]
    (1e-08, 0.01)
    """
    handle = HANDLES[bug_id]
    results = []
    for value in handle.values:
        broken_line = handle.broken(value) if handle.broken else BUGS[bug_id].broken
        bug = dataclasses.replace(BUGS[bug_id], broken=broken_line)
        case = ProgramCase("drag", handle.source(value), handle.given(value))
        x = case.source.tensor()
        correct, broken = (run_bug(bug, x, is_broken, case) for is_broken in (False, True))
        results.append(HandleFrame(value, bug, case, correct, broken, handle.hit(correct, broken)))
    return tuple(results)


def first_shown(bug_id: str) -> HandleFrame:
    """Return the frame nearest to where a bug's handle starts in which the bug shows.

    >>> first_shown("constant_tensor").value
    0.01
    """
    runs = frames(bug_id)
    start = HANDLES[bug_id].values.index(HANDLES[bug_id].start)
    return min((frame for frame in runs if frame.shows), key=lambda frame: abs(runs.index(frame) - start))


def value_written(bug_id: str, written: str) -> float:
    """Return the handle's value next to the one written in a link; `QuantVizError` where it is none."""
    values = HANDLES[bug_id].values
    try:
        value = float(written)
    except ValueError:
        value = float("nan")
    if not min(values) <= value <= max(values):
        raise QuantVizError("bugs.bad_value", got=written, least=f"{min(values):g}", most=f"{max(values):g}")
    return HANDLES[bug_id].nearest(value)


# ---- tensors that follow a hand ---------------------------------------------------------------------

# From 0 to 10.
_TEN_WIDE = (
    (2.41, 7.90, 0.00, 5.15),
    (9.32, 4.05, 6.60, 1.78),
    (3.14, 10.00, 8.47, 2.96),
    (5.83, 0.71, 7.26, 9.75),
)
# Multiples of 0.5 up to 3.5 in each row: int4 hits each of them.
_ON_THE_GRID = (
    (3.5, -1.0, 0.5, 2.0),
    (1.5, 0.0, -3.5, 1.0),
    (-2.5, 3.5, 0.5, -0.5),
    (2.5, -3.5, 1.0, 1.5),
)
#: The row whose size is dragged.
ROW = 1


def _typed(rows: Sequence[Sequence[float]]) -> Source:
    # Sums of decimals end in digits that nobody typed, and -0 is 0 to people.
    return Typed.of([[round(value, 4) + 0.0 for value in row] for row in rows])


def _with_zero_point(value: float) -> Source:
    return _typed([[x + _shift(value) for x in row] for row in BALANCED])


def _shift(zero_point: float) -> float:
    return round(-0.01 * zero_point, 2) + 0.0


#: From x moved down to x moved up.
_ZERO_POINTS = tuple(float(zero_point) for zero_point in range(127, -129, -1))


def _from(value: float) -> Source:
    return _typed([[x + value for x in row] for row in _TEN_WIDE])


def _with_row(value: float) -> Source:
    return _typed([[x * value if at == ROW else x for x in row] for at, row in enumerate(ROWS_ALIKE)])


def _off_the_grid(value: float) -> Source:
    # The largest magnitudes stay, and the scale with them.
    return _typed([[x if abs(x) == 3.5 else x + value for x in row] for row in _ON_THE_GRID])


def _hundredths(first: int, last: int, by: int) -> tuple[float, ...]:
    return tuple(hundredth / 100 for hundredth in range(first, last + by, by))


# ---- the facts of a value ---------------------------------------------------------------------------


def _at(value: torch.Tensor, like: torch.Tensor, place: CellIndex) -> float:
    return float(value.expand(like.shape)[place].item())


def _difference(correct: ProgramResult, broken: ProgramResult, place: CellIndex) -> Facts:
    q = broken.q[place].item()
    zero_point = broken.values["zero_point"]
    return {"difference": q - zero_point, "wrapped": (broken.q - zero_point)[place].item()}


def _ratio(outcome: ProgramResult) -> torch.Tensor:
    values = outcome.values
    rounded: torch.Tensor = (outcome.x / values["absmax"] * values["q_max"]).round()
    return rounded


def _wrapped(correct: ProgramResult, broken: ProgramResult) -> torch.Tensor:
    return _ratio(broken) != broken.q


def _beyond_the_codes(correct: ProgramResult, broken: ProgramResult) -> torch.Tensor:
    values = broken.values
    codes: torch.Tensor = (broken.x / values["scale"] + values["zero_point"]).round()
    return (codes < -128) | (codes > 127)


def _row_scales(correct: ProgramResult, broken: ProgramResult, place: CellIndex) -> Facts:
    return {
        "row": place[0],
        "reach": broken.x[place[0]].abs().max().item(),
        "own": _at(broken.values["scale"], broken.x, place),
        "scale": correct.values["scale"].item(),
    }


def _mean_error(correct: ProgramResult, broken: ProgramResult, place: CellIndex) -> Facts:
    row = place[0]
    return {
        "row": row,
        "bias": (correct.values["y"] - correct.x)[row].mean().item(),
        "left": (broken.x_hat - broken.x)[row].mean().item(),
    }


def _moved(correct: ProgramResult, broken: ProgramResult, place: CellIndex) -> Facts:
    scale = broken.values["scale"].item()
    zero_point = broken.values["zero_point"]
    return {"scale": scale, "moved": zero_point + scale * zero_point}


HANDLES: Mapping[str, Handle] = MappingProxyType(
    {
        "int8_difference_wraps": Handle(_ZERO_POINTS, 0.0, _with_zero_point, _difference, shown=_shift),
        "times_255_wraps": Handle(
            tuple(float(zero_point) for zero_point in range(127, 256)),
            127.0,
            lambda value: Builtin("course_3x3"),
            lambda correct, broken, place: {
                "absmax": broken.values["absmax"].item(),
                "code": _ratio(broken)[place].item(),
            },
            given=lambda value: (ProgramLine("dtype", "dtype = torch.int8"),),
            broken=lambda value: ProgramLine("q_max", f"q_max = {value:g}"),
            hit=_wrapped,
        ),
        "zero_point_clamped": Handle(
            _hundredths(-500, 2000, 25),
            -5.0,
            _from,
            lambda correct, broken, place: {
                "needed": float((-128 - broken.values["lo"] / broken.values["scale"]).round()),
                "zero_point": broken.values["zero_point"],
            },
            hit=_beyond_the_codes,
        ),
        "one_code_too_many": Handle(
            _hundredths(50, 100, 1),
            1.0,
            lambda value: Builtin("course_4x4_c"),
            lambda correct, broken, place: {"top": broken.values["top"].item()},
            given=partial(setting, "share"),
        ),
        "leftover_parameters": Handle(_hundredths(5, 100, 5), 1.0, _with_row, _row_scales),
        "zero_point_added": Handle(_ZERO_POINTS, 0.0, _with_zero_point, _moved, shown=_shift),
        "constant_tensor": Handle(
            tuple(float(f"{digit}e{power}") for power in range(-8, 0) for digit in (1, 2, 5))[:-2],
            0.1,
            lambda value: Typed.of([[5.0] * 4] * 4),
            lambda correct, broken, place: {"reach": 255 * broken.values["eps"]},
            given=partial(setting, "eps"),
        ),
        "row_of_zeros": Handle(
            _hundredths(0, 100, 5),
            1.0,
            _with_row,
            lambda correct, broken, place: {"row": ROW, "reach": broken.x[ROW].abs().max().item()},
        ),
        "error_sign": Handle(_hundredths(0, 24, 1), 0.0, _off_the_grid, _mean_error),
    }
)
