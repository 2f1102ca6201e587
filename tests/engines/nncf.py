"""NNCF's weight compression for OpenVINO: from a record, since it brings OpenVINO's runtime.

`record_integers.py` makes the record, by its reference functions on torch tensors.
"""

from __future__ import annotations

from tests.engines import Path
from tests.engines.integer_records import IntegerRecord

PRODUCER = "nncf"
_RECORD = IntegerRecord("nncf")
VERSION = _RECORD.version

trials = _RECORD.trials

PATHS = (
    Path.of_given(
        "do_integer_quantization",
        _RECORD.cases("do_integer_quantization"),
        open={
            "NaN": "NaN is cast to an integer",
        },
    ),
)
