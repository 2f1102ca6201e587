"""What is kept under a number of the arithmetic stays right: codes change only where the number does."""

import pytest

import quantviz as qv
from quantviz.quantization.quantizer import ARITHMETIC
from tests.helpers import golden_codes


@pytest.fixture(scope="module")
def record():
    return golden_codes.recorded()


def test_the_record_has_every_scheme(record):
    other = sorted(golden_codes.forms().keys() ^ record["digests"].keys())
    assert not other, (
        f"{len(other)} schemes were added or removed, such as {other[0]}: "
        "run python -m tests.helpers.golden_codes"
    )


def test_codes_change_only_with_the_number_of_the_arithmetic(record):
    assert qv.ARITHMETIC == ARITHMETIC == record["arithmetic"], "run python -m tests.helpers.golden_codes"
    changed = [
        form
        for form, digest in golden_codes.digests().items()
        if record["digests"].get(form, digest) != digest
    ]
    assert not changed, (
        f"{changed[:5]} give other codes: raise quantviz.quantization.quantizer.ARITHMETIC "
        "and run python -m tests.helpers.golden_codes"
    )


def test_every_calibration_is_recorded():
    """Those that need a convention or a mode of their own have a line in `golden_schemes`."""
    recorded = {scheme.calibration.id for scheme in golden_codes.forms().values()}
    missing = sorted(qv.CALIBRATIONS.keys() - recorded)
    assert not missing, (
        f"no golden scheme takes {missing}: add one with it to golden_schemes of "
        "tests/helpers/golden_codes.py, or its fields to FIELDS there"
    )


def test_a_changed_code_is_noticed(record, monkeypatch):
    form = "int4,symmetric,per_tensor,min_max,course"
    x = golden_codes.golden_tensor()
    assert golden_codes.digest(qv.Scheme.parse(form), x) == record["digests"][form]
    x[5, 7] = 40.0
    assert golden_codes.digest(qv.Scheme.parse(form), x) != record["digests"][form]
