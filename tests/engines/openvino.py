"""OpenVINO's operator FakeQuantize in the ranges of `nncf.quantize`: from a record, since it is a runtime.

`record_integers.py` makes the record, with the operator as its CPU plugin compiles it alone. The scale and
the zero point, which is the value of code 0, are those of the operator's definition.
"""

from __future__ import annotations

from tests.engines import Path
from tests.engines.integer_records import IntegerRecord

PRODUCER = "openvino"
_RECORD = IntegerRecord("openvino")
VERSION = _RECORD.version

trials = _RECORD.trials

PATHS = (Path.of_given("FakeQuantize", _RECORD.cases("FakeQuantize")),)
