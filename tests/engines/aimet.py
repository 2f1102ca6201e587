"""AIMET, whose encodings Qualcomm's QNN runs: from a record, since it is made for one release of onnxruntime.

`record_integers.py` makes the record. Its offset is minus the zero point of codes from 0.
"""

from __future__ import annotations

from tests.engines import Path
from tests.engines.integer_records import IntegerRecord

PRODUCER = "aimet-onnx"
_RECORD = IntegerRecord("aimet")
VERSION = _RECORD.version

trials = _RECORD.trials

PATHS = (
    Path.of_given(
        "BlockTensorQuantizer",
        _RECORD.cases("BlockTensorQuantizer"),
        open={},
    ),
)
