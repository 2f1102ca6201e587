"""AutoAWQ's weights: from a record, since its package needs a GPU.

`record_weights.py` makes the record. A case answers for the recorded tensors only, those of `tensors()`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.engines import Case, Path
from tests.engines.data import Trial, own_trials
from tests.engines.record_weights import COMMITS, RECORD
from tests.engines.records import read_record, recorded_cases, recorded_tensors

PRODUCER = "AutoAWQ"
VERSION = f"{COMMITS['AutoAWQ']} (recorded)"


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors, in their own range."""
    return own_trials(tensors())


def tensors() -> Iterator[tuple[str, torch.Tensor]]:
    """The recorded tensors, by name."""
    return recorded_tensors(read_record(RECORD))


_CASES: dict[str, Case] = recorded_cases(read_record(RECORD), ("AutoAWQ",))

PATHS = (Path("pseudo_quantize_tensor", _CASES),)
