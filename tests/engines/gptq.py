"""AutoGPTQ's and GPTQModel's grid: from a record, since their packages are compiled.

`record_weights.py` makes the record. A case answers for the recorded tensors only, those of `trials()`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.engines import Path
from tests.engines.data import Trial
from tests.engines.record_weights import COMMITS, RECORD
from tests.engines.records import read_record, recorded_cases, recorded_trials

PRODUCER = "AutoGPTQ, GPTQModel"
VERSION = f"{COMMITS['GPTQModel']} (recorded)"
_PACKAGES = ("AutoGPTQ", "GPTQModel")


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors, and ranges from outside."""
    return recorded_trials(read_record(RECORD), _PACKAGES)


PATHS = (
    Path.of_given(
        "Quantizer",
        recorded_cases(read_record(RECORD), _PACKAGES),
        open={},
    ),
)
