"""TensorFlow's fake quantization: from a record, since its package is too large for the tests.

`record_integers.py` makes the record. TensorFlow shows neither scale nor zero point: both are read from what
it makes of probes in the same range.
"""

from __future__ import annotations

from tests.engines import Path
from tests.engines.integer_records import IntegerRecord

PRODUCER = "tensorflow-cpu"
_RECORD = IntegerRecord("tensorflow")
VERSION = _RECORD.version

trials = _RECORD.trials

_OPEN = {
    "NaN": "NaN has no code, and the operator shows values alone",
    "half and bfloat16 input": "the operator takes float32 only",
}

PATHS = tuple(
    Path.of_given(name, _RECORD.cases(name), open=_OPEN)
    for name in (
        "fake_quant_with_min_max_vars",
        "fake_quant_with_min_max_args",
        "fake_quant_with_min_max_vars_per_channel",
    )
)
