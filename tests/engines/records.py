"""Records of what a library answered, for libraries that no test run installs."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
