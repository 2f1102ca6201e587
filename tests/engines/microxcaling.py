"""microsoft/microxcaling, the MX reference library: from a record, since it is on no package index.

`record_microxcaling.py` makes the record. A case answers for the recorded tensors only, those of `trials()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from tests.engines import SPOILS_THE_RANGE, Answer, Case, Path, Refused, Undefined
from tests.engines.data import Trial
from tests.engines.record_microxcaling import COMMIT, FORMATS, RECORD, decode
from tests.engines.records import Record, read_record, same_bits, trials_of

PRODUCER = "microxcaling"
VERSION = f"{COMMIT} (recorded)"


def record() -> Record:
    """What the record says of itself, and its arrays."""
    return read_record(RECORD)


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors."""
    return iter(trials_of(RECORD))


def _blocks(shape: tuple[int, ...], granularity: str) -> tuple[int, ...]:
    """Size of a block along each axis."""
    head, _, inner = granularity.partition("(")
    sizes = [int(part.partition("=")[2]) for part in inner.removesuffix(")").split(",")] if inner else []
    if head == "per_tensor":
        return shape
    if head == "per_channel":
        return (1, *shape[1:])
    return (*(1,) * (len(shape) - len(sizes)), *sizes)


def _spread(blocks: torch.Tensor, sizes: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
    """One number a block to one a cell: a block that the tensor's edge cuts is short."""
    grid = blocks.reshape([math.ceil(n / b) for n, b in zip(shape, sizes, strict=True)])
    for axis, size in enumerate(sizes):
        grid = grid.repeat_interleave(size, dim=axis)
    return grid[tuple(slice(0, n) for n in shape)]


def _case(number: int, form: str) -> Case:
    fmt, _, granularity = form.partition(",min_max")[0].split(",", 2)

    def run(x: torch.Tensor) -> Answer:
        about, arrays = record()
        refused, undefined = (about[kind].get(form, {}) for kind in ("refused", "undefined"))
        cells = blocks = 0
        for trial in trials():
            name, shape = trial.label, tuple(trial.x.shape)
            same = same_bits(trial.x, x)
            if same and name in refused:
                raise Refused(refused[name])
            if same and name in undefined:
                raise Undefined(undefined[name])
            if name in refused or name in undefined:
                continue
            sizes = _blocks(shape, granularity)
            count, block_count = (
                math.prod(shape),
                math.prod(math.ceil(n / b) for n, b in zip(shape, sizes, strict=True)),
            )
            if same:
                codes = torch.from_numpy(
                    arrays[f"codes{number}"][cells : cells + count].astype(np.int64)
                ).reshape(shape)
                # A power of two from 2^-133 up: exact as float32, subnormal or not.
                scale = torch.exp2(
                    torch.from_numpy(
                        arrays[f"exponents{number}"][blocks : blocks + block_count].astype(np.float64)
                    )
                ).to(torch.float32)
                values = decode(codes, fmt)
                x_hat = (values.double() * _spread(scale, sizes, shape).double()).to(torch.float32)
                return Answer(x_hat, values.to(torch.int64) if FORMATS[fmt][1] is None else codes, scale)
            cells, blocks = cells + count, blocks + block_count
        raise LookupError("not a recorded tensor: take them from the module's trials()")

    return run


_CASES: dict[str, Case] = {form: _case(number, form) for number, form in enumerate(record()[0]["cases"])}

_OPEN = {
    "given range": "its scales are those of the data",
    "infinity": SPOILS_THE_RANGE,
    "NaN": SPOILS_THE_RANGE,
}

PATHS = (Path("quantize_mx_op", _CASES, half=_CASES, open=_OPEN),)
