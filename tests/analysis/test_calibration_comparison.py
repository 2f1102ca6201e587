"""What calibrations make of a tensor or block: held against the reference, one quantization each."""

import math

import pytest
import torch

import quantviz as qv
from quantviz.analysis.calibration_comparison import (
    PERCENTILES,
    all_calibrations,
    compare_calibrations,
)
from quantviz.errors import QuantVizError
from quantviz.sources import Builtin


@pytest.mark.parametrize("form", ["int4", "int8", "int2"])
def test_each_row_is_a_quantization_and_the_best_has_the_least_error(form):
    x, scheme = Builtin("loud_column").tensor(), qv.Scheme(form)
    found = compare_calibrations(x, scheme)
    fitting = [row for row in found.rows if row.problem is None]
    for row in fitting:
        m = qv.metrics(qv.quantize(x, row.scheme))
        assert row.mse == pytest.approx(m["mse"], rel=1e-12)
        assert row.gain_db == pytest.approx(m["sqnr_db"] - found.current.sqnr_db, abs=1e-9)
        assert row.clipped_share == m["clipped_share"]
        assert row.lo == -row.hi
    assert found.current.scheme == scheme
    assert found.best.mse == min(row.mse for row in fitting)
    # The search stays within the whole range, modelopt's goes beyond.
    within = min(row.mse for row in fitting if row.hi <= found.current.hi)
    (searched,) = (row.mse for row in found.rows if row.calibration == qv.MSE())
    assert within <= searched <= within * (1 + 1e-5)
    assert found.table().shape[0] == len(found.rows) == len(all_calibrations())


def test_a_scale_given_by_hand_is_compared_with_rules():
    scheme = qv.Scheme("int8", "asymmetric", calibration=qv.Given(3.5, -70))
    x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184.0], [0.0, 684.6, 245.5]])
    found = compare_calibrations(x, scheme)
    by_rule = {row.calibration: row for row in found.rows}
    assert found.current is by_rule[scheme.calibration]
    assert math.isnan(found.current.lo)
    assert by_rule[qv.MinMax()].gain_db > 15
    assert by_rule[qv.AbsMean()].problem.key == "abs_mean_needs_symmetric"


def test_how_wide_the_blocks_own_ranges_are():
    x = Builtin("loud_column").tensor()
    found = compare_calibrations(x, qv.Scheme("int4", granularity=qv.PerChannel(0)), [qv.MSE()])
    whole, searched = (qv.quantize(x, row.scheme).range for row in found.rows)
    ends = [torch.maximum(-each.lo, each.hi) for each in (whole, searched)]
    assert found.current.width_share == 1
    assert found.rows[1].width_share == pytest.approx(float((ends[1] / ends[0]).median()))
    assert 0 < found.rows[1].width_share < 1
    zeros = compare_calibrations(torch.zeros(2, 4), qv.Scheme("int4", granularity=qv.PerChannel(0)))
    assert math.isnan(zeros.current.width_share)


def test_a_block_is_looked_at_by_itself():
    x, scheme = Builtin("loud_column").tensor(), qv.Scheme("int4", granularity=qv.PerChannel(1))
    found = compare_calibrations(x, scheme, [qv.Percentile(PERCENTILES[1])], block=(0, 5))
    for row in found.rows:
        alone = row.scheme.replace(granularity=qv.PerTensor())
        assert row.mse == qv.metrics(qv.quantize(x[:, 5], alone))["mse"]
    groups = compare_calibrations(torch.randn(2, 64), "q4_0", [qv.MinMax()], block=(1, 0))
    assert groups.current.scheme.granularity == qv.PerGroup(32)
    with pytest.raises(QuantVizError) as refused:
        compare_calibrations(x, scheme, block=(0, 8))
    assert refused.value.key == "no_such_block"


def test_zero_points_that_are_searched_for_have_their_row_and_what_cannot_be_used_says_why():
    scheme = qv.Scheme.parse("uint4,asymmetric,per_channel,min_max,hqq")
    found = compare_calibrations(Builtin("loud_column").tensor(), scheme)
    assert {row.calibration.id for row in found.rows if row.problem} == {
        "abs_mean", "mse_modelopt", "entropy_tensorrt", "percentile_modelopt", "octav"
    }  # fmt: skip
    (row,) = (row for row in found.rows if row.calibration.id == "hqq")
    assert math.isnan(row.lo)
    assert row.gain_db > 0


def test_of_a_large_tensor_some_rows_may_be_looked_at():
    """The largest value's row counts once there: what is told is near what all rows give."""
    x = torch.randn(400, 64, generator=torch.Generator().manual_seed(2))
    x[123, 7] = 60.0
    scheme, tried = (
        qv.Scheme("int4", granularity=qv.PerChannel(0)),
        [qv.Percentile(99.9), qv.Percentile(97.0)],
    )
    part, whole = (compare_calibrations(x, scheme, tried, cells=cells) for cells in (4096, None))
    assert 0.1 < part.share < 0.2
    assert whole.share == 1
    for told, exact in zip(part.rows, whole.rows, strict=True):
        assert told.calibration == exact.calibration
        assert told.mse != exact.mse
        assert told.sqnr_db == pytest.approx(exact.sqnr_db, abs=0.3)
        assert told.gain_db == pytest.approx(exact.gain_db, abs=0.3)
    of_columns = scheme.replace(granularity=qv.PerChannel(1))
    assert compare_calibrations(x, of_columns, tried, cells=4096).share == 1, "no row has whole blocks"
    assert compare_calibrations(x, scheme, tried, block=(0, 0), cells=4096).share == 1
    with pytest.raises(QuantVizError, match="group size"):
        compare_calibrations(x, qv.Scheme("int4", granularity=qv.PerGroup(48)), tried, cells=4096)
