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

from tests.engines import Answer, Case, Refused, Undefined

Record = tuple[dict[str, Any], dict[str, np.ndarray]]


@functools.cache
def read_record(path: Path) -> Record:
    """What the record says of itself, and its arrays."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(arrays.pop("about").tobytes()), arrays


def recorded_tensors(record: Record) -> Iterator[tuple[str, torch.Tensor]]:
    """The recorded tensors, by name."""
    about, arrays = record
    start = 0
    for name, shape in about["tensors"].items():
        count = math.prod(shape)
        yield name, torch.from_numpy(arrays["input"][start : start + count].copy()).reshape(shape)
        start += count


def recorded_cases(record: Record, packages: tuple[str, ...]) -> dict[str, Case]:
    """The cases of some packages of `record_weights`; each answers for the recorded tensors only. Of a scheme
    that two packages are asked of, both answers must be the same.
    """
    about, _ = record
    numbers: dict[str, list[int]] = {}
    for number, (package, form) in enumerate(about["cases"]):
        if package in packages:
            numbers.setdefault(form, []).append(number)
    return {form: functools.partial(_answer, record, own) for form, own in numbers.items()}


def _answer(record: Record, numbers: list[int], x: torch.Tensor) -> Answer:
    answers = [_of_case(record, number, x) for number in numbers]
    for other in answers[1:]:
        for name in ("x_hat", "codes", "scale", "zero_point"):
            assert torch.equal(getattr(answers[0], name), getattr(other, name)), "two packages differ"
    return answers[0]


def _of_case(record: Record, number: int, x: torch.Tensor) -> Answer:
    about, arrays = record
    package, form = about["cases"][number]
    refused, undefined = (about[kind].get(f"{package} {form}", {}) for kind in ("refused", "undefined"))
    size = re.search(r"size=(\d+)", form)
    cells = blocks = 0
    for name, known in recorded_tensors(record):
        same = known.shape == x.shape and torch.equal(known.view(torch.int32), x.view(torch.int32))
        if same and name in refused:
            raise Refused(refused[name])
        if same and name in undefined:
            raise Undefined(undefined[name])
        if name in refused or name in undefined:
            continue
        count, own = x.numel() if same else known.numel(), int(size[1]) if size else known.shape[-1]
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
            return Answer(x_hat.reshape(x.shape), codes.reshape(x.shape), scale, zeros)
        cells, blocks = cells + count, blocks + count // own
    raise LookupError("not a recorded tensor: take them from the module's tensors()")
