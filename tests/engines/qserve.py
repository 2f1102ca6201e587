"""deepcompressor, whose weights QServe runs: from a record, since it is on no package index.

`record_integers.py` makes the record, by its quantizer's modules on CPU, with round to nearest.
"""

from __future__ import annotations

from tests.engines import Path, own_range
from tests.engines.integer_records import IntegerRecord

PRODUCER = "deepcompressor"
_RECORD = IntegerRecord("qserve")
VERSION = _RECORD.version

trials = _RECORD.trials

_CASES = own_range(_RECORD.cases("QuantizerImpl"))

PATHS = (
    Path(
        "QuantizerImpl",
        _CASES,
        half=_CASES,
        open={
            "given range": "its scales are those of the weights",
            "infinity": "it stops at infinity",
            "NaN": "it stops at NaN",
        },
    ),
)
