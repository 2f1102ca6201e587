"""What calibrations make of one tensor: each has its row, those that cannot be used too."""

import math

import pytest
import torch

import quantviz as qv
from quantviz.analysis.calibration_comparison import all_calibrations, compare_calibrations


@pytest.mark.parametrize(
    ("form", "refused"),
    [
        ("int4,symmetric,per_tensor,min_max,course", {"hqq"}),
        (
            "uint4,asymmetric,per_channel,min_max,hqq",
            {"abs_mean", "mse_modelopt", "entropy_tensorrt", "percentile_modelopt", "octav"},
        ),
    ],
)
def test_every_calibration_has_its_row_with_its_numbers_or_why_it_has_none(form, refused):
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    scheme = qv.Scheme.parse(form)
    found = compare_calibrations(x, scheme)
    assert {row.calibration for row in found.rows} == set(all_calibrations())
    assert {row.calibration.id for row in found.rows if row.problem} == refused
    for row in found.rows:
        if row.problem:
            assert math.isnan(row.mse)
            continue
        r = qv.quantize(x, scheme.replace(calibration=row.calibration))
        assert row.mse == pytest.approx(qv.metrics(r)["mse"], rel=1e-6)
        # Zero points have no range.
        assert (row.calibration.id == "hqq") == (r.range is None)
    assert found.table()["calibration"][0] == "min_max"
