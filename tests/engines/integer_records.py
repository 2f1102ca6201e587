"""Reads the records of `record_integers`: the trials that a package was asked, and its answers to them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from tests.engines import Answer, GivenCase, Refused, Undefined
from tests.engines.data import Trial
from tests.engines.record_integers import RECORDED, values_of
from tests.engines.records import input_of, read_record


@dataclass(frozen=True)
class IntegerRecord:
    """The record of a package, by its name."""

    name: str

    @property
    def version(self) -> str:
        """Return the version that answered."""
        about, _ = read_record(RECORDED / f"{self.name}.npz")
        return f"{about['producer'].split()[1]} (recorded)"

    def trials(self) -> Iterator[Trial]:
        """Yield what the package was asked."""
        yield from _trials(self.name)

    def cases(self, path: str) -> dict[str, GivenCase]:
        """Return the cases of a path, which answer for the recorded tensors only."""
        about, _ = read_record(RECORDED / f"{self.name}.npz")
        return {
            form: functools.partial(_answer, self.name, number)
            for number, (own, form) in enumerate(about["cases"])
            if own == path
        }


@functools.cache
def _trials(name: str) -> tuple[Trial, ...]:
    about, arrays = read_record(RECORDED / f"{name}.npz")
    start, made = 0, []
    for question, label, shape, has_seen in about["trials"]:
        count = math.prod(shape)
        tensors = []
        for _ in range(1 + has_seen):
            tensors.append(input_of(label, arrays["input"][start : start + count].reshape(shape)))
            start += count
        made.append(Trial(question, label, *tensors))
    return tuple(made)


#: Shape and bits of a tensor, and bits of the one whose range is used.
_Bits = tuple[tuple[int, ...], bytes, bytes]


def _bits(x: torch.Tensor, seen: torch.Tensor) -> _Bits:
    own, other = (each.contiguous().view(torch.uint8).numpy().tobytes() for each in (x, seen))
    return tuple(x.shape), own, other


@functools.cache
def _labels(name: str) -> dict[_Bits, str]:
    return {_bits(each.x, each.x if each.seen is None else each.seen): each.label for each in _trials(name)}


@functools.cache
def _answers(name: str, number: int) -> dict[str, Answer | Refused | Undefined]:
    """Return a case's answers by the trial's label."""
    about, arrays = read_record(RECORDED / f"{name}.npz")
    form = about["cases"][number][1]
    refused, undefined = (about[kind].get(form, {}) for kind in ("refused", "undefined"))
    codes, scales, zeros, odd = (arrays[f"{part}{number}"] for part in ("codes", "scales", "zeros", "odd"))
    made: dict[str, Answer | Refused | Undefined] = {}
    sizes = zip(arrays[f"blocks{number}"].tolist(), arrays[f"odd_cells{number}"].tolist(), strict=True)
    cells = blocks = odd_cells = 0
    for trial in _trials(name):
        if trial.label in refused:
            made[trial.label] = Refused(refused[trial.label])
        elif trial.label in undefined:
            made[trial.label] = Undefined(undefined[trial.label])
        else:
            count, (block_count, odd_count) = trial.x.numel(), next(sizes)
            q = _numbers(codes[cells : cells + count], np.int32)
            scale = _numbers(scales[blocks : blocks + block_count], np.float32)
            zero = torch.from_numpy(zeros[blocks : blocks + block_count].copy())
            back = values_of(q, scale, zero)
            own = _numbers(odd[odd_cells : odd_cells + odd_count], np.float32) if odd_count else back
            shape = trial.x.shape
            made[trial.label] = Answer(own.reshape(shape), q.reshape(shape), scale, zero)
            cells += count
            blocks += block_count
            odd_cells += odd_count
    return made


def _numbers(values: np.ndarray, kind: type[np.generic]) -> torch.Tensor:
    return torch.from_numpy(values.astype(kind))


def _answer(name: str, number: int, seen: torch.Tensor, x: torch.Tensor) -> Answer:
    label = _labels(name).get(_bits(x, seen))
    if label is None:
        raise LookupError("not a recorded tensor: take them from the module's trials()")
    answer = _answers(name, number)[label]
    if isinstance(answer, Answer):
        return answer
    raise answer
