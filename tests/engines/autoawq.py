"""AutoAWQ's weights: from a record, since its package needs a GPU.

`record_weights.py` makes the record. A case answers for the recorded tensors only, those of `trials()`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.engines import Path, own_range
from tests.engines.data import Trial
from tests.engines.record_weights import COMMITS, RECORD
from tests.engines.records import read_record, recorded_cases, recorded_trials

PRODUCER = "AutoAWQ"
VERSION = f"{COMMITS['AutoAWQ']} (recorded)"
_PACKAGES = ("AutoAWQ",)


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors, and ranges from outside."""
    return recorded_trials(read_record(RECORD), _PACKAGES)


_CASES = own_range(recorded_cases(read_record(RECORD), _PACKAGES))
_OPEN = {
    "given range": "it takes the range of the weights that it is given",
    "infinity": "it stops at NaN, which a scale beyond float32 gives",
    "NaN": "it stops at NaN",
}

PATHS = (Path("pseudo_quantize_tensor", _CASES, half=_CASES, open=_OPEN),)
