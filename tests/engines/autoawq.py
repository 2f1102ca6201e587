"""AutoAWQ's weights: from a record, since its package needs a GPU.

`record_weights.py` makes the record. A case answers for the recorded tensors only, those of `trials()`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.engines import NOT_YET, Answer, Case, GivenCase, Path
from tests.engines.data import Trial
from tests.engines.record_weights import COMMITS, RECORD
from tests.engines.records import read_record, recorded_cases, recorded_trials

PRODUCER = "AutoAWQ"
VERSION = f"{COMMITS['AutoAWQ']} (recorded)"
_PACKAGES = ("AutoAWQ",)


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors, and ranges from outside."""
    return recorded_trials(read_record(RECORD), _PACKAGES)


def _in_its_own_range(case: GivenCase) -> Case:
    def run(x: torch.Tensor) -> Answer:
        return case(x, x)

    return run


_CASES = recorded_cases(read_record(RECORD), _PACKAGES)
_OPEN = {
    "given range": "it takes the range of the weights that it is given",
    "infinity": "it stops at NaN, which a scale beyond float32 gives",
    "NaN": "it stops at NaN",
    "half and bfloat16 input": NOT_YET,
}

PATHS = (
    Path(
        "pseudo_quantize_tensor",
        {form: _in_its_own_range(case) for form, case in _CASES.items()},
        open=_OPEN,
    ),
)
