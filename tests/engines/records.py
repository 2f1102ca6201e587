"""Records of what a library answered, for libraries that no test run installs."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quantviz.schemes.arithmetic import HALVES
from tests.engines import Answer, GivenCase, Refused, Undefined
from tests.engines.data import Trial

#: The packages of `record_weights` that compute in the dtype of the weights.
IN_OWN_DTYPE = ("AutoAWQ",)

Record = tuple[dict[str, Any], dict[str, np.ndarray]]


@functools.cache
def read_record(path: Path) -> Record:
    """What the record says of itself, and its arrays."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(arrays.pop("about").tobytes()), arrays


@functools.cache
def trials_of(path: Path) -> tuple[Trial, ...]:
    """Return the tensors of a record, each in its own range."""
    about, arrays = read_record(path)
    start, made = 0, []
    for question, label, shape in about["trials"]:
        values = arrays["input"][start : start + math.prod(shape)]
        made.append(Trial(question, label, input_of(label, values.reshape(shape))))
        start += math.prod(shape)
    return tuple(made)


def recorded_trials(record: Record, packages: tuple[str, ...]) -> Iterator[Trial]:
    """Yield what some packages of `record_weights` were asked."""
    about, arrays = record
    given = any(case[2] for case in about["cases"] if case[0] in packages)
    start = 0
    for question, label, shape, has_seen in about["trials"]:
        tensors = []
        for _ in range(1 + has_seen):
            values = arrays["input"][start : start + math.prod(shape)]
            tensors.append(input_of(label, values.reshape(shape)))
            start += math.prod(shape)
        if given or not has_seen:
            yield Trial(question, label, *tensors)


def input_of(label: str, values: np.ndarray) -> torch.Tensor:
    """Return a recorded tensor in its own dtype, which ends the label of one of half precision."""
    dtype = label.rpartition(" ")[2]
    x = torch.from_numpy(values.copy())
    return x.to(getattr(torch, dtype)) if dtype in HALVES else x


def recorded_cases(record: Record, packages: tuple[str, ...]) -> dict[str, GivenCase]:
    """Return the cases of some packages of `record_weights`, which answer for the recorded tensors only. Of a
    scheme that two packages are asked of, both answers must be the same.
    """
    about, _ = record
    numbers: dict[str, list[int]] = {}
    for number, (package, form, _) in enumerate(about["cases"]):
        if package in packages:
            numbers.setdefault(form, []).append(number)
    return {form: functools.partial(_answer, record, own) for form, own in numbers.items()}


def _answer(record: Record, numbers: list[int], seen: torch.Tensor, x: torch.Tensor) -> Answer:
    answers = [_of_case(record, number, seen, x) for number in numbers]
    for other in answers[1:]:
        for name in ("x_hat", "codes", "scale", "zero_point"):
            one, two = getattr(answers[0], name), getattr(other, name)
            assert torch.equal(one, two), "two packages differ"
    return answers[0]


def _of_case(record: Record, number: int, seen: torch.Tensor, x: torch.Tensor) -> Answer:
    about, arrays = record
    package, form, _ = about["cases"][number]
    refused, undefined = (about[kind].get(f"{package} {form}", {}) for kind in ("refused", "undefined"))
    size = re.search(r"size=(\d+)", form)
    cells = blocks = 0
    for trial in recorded_trials(record, (package,)):
        label = trial.label
        same = same_bits(trial.x, x) and same_bits(trial.x if trial.seen is None else trial.seen, seen)
        if same and label in refused:
            raise Refused(refused[label])
        if same and label in undefined:
            raise Undefined(undefined[label])
        if label in refused or label in undefined:
            continue
        count, own = trial.x.numel(), int(size[1]) if size else trial.x.shape[-1]
        if same:
            codes, scale, zeros = (
                torch.from_numpy(arrays[f"{part}{number}"][first : first + length].astype(np.float32))
                for part, first, length in (
                    ("codes", cells, count),
                    ("scales", blocks, count // own),
                    ("zeros", blocks, count // own),
                )
            )
            x_hat = scale[:, None] * (codes.reshape(-1, own) - zeros[:, None])
            if package in IN_OWN_DTYPE:
                # A product of so few digits is exact in float32.
                x_hat = x_hat.to(x.dtype)
            return Answer(x_hat.reshape(x.shape), codes.reshape(x.shape), scale, zeros)
        cells, blocks = cells + count, blocks + count // own
    raise LookupError("not a recorded tensor: take them from the module's trials()")


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are the same, bit for bit."""
    kind = torch.int32 if one.dtype == torch.float32 else torch.int16
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and torch.equal(one.view(kind), other.view(kind))
    )
