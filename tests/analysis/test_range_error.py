"""What a range costs, as exact sums: against `quantize`, of small tensors and of those that are streamed."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.range_error import error_of_range, range_curve
from quantviz.analysis.study import Study
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import MOST_WHOLE
from tests.helpers.sample import sample_of


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


SCHEMES = (
    qv.Scheme("int4"),
    qv.Scheme("uint4", "asymmetric", qv.PerGroup(16, axis=1)),
    qv.Scheme("int8", "asymmetric", qv.PerChannel(0)),
    qv.Scheme("float8_e4m3fn"),
    qv.Scheme("nf4"),
)


@pytest.mark.parametrize(
    ("rows", "scheme"),
    # The reference takes seconds for a tensor that is streamed.
    [*((32, each) for each in SCHEMES), *((MOST_WHOLE // 256 + 8, each) for each in sample_of(SCHEMES, 1))],
    ids=str,
)
def test_both_parts_are_those_of_the_reference(rows, scheme):
    x = normal(rows, 256)
    study = Study.of(InMemory(x), scheme)
    assert (study.result is None) == (rows > 32)
    for lo, hi in ((-4.0, 4.0), (-1.5, 1.5), (-0.25, 0.25)):
        r = qv.quantize(x, scheme.replace(calibration=qv.ManualRange(lo, hi)))
        squares = r.error.to(torch.float64).square()
        found = error_of_range(study, lo, hi)
        assert found.clipping == pytest.approx(squares[r.clipped].sum().item() / x.numel(), rel=1e-6, abs=0)
        assert found.rounding == pytest.approx(squares[~r.clipped].sum().item() / x.numel(), rel=1e-6)
        assert found.mse == pytest.approx(squares.mean().item(), rel=1e-6)
        assert (found.clipping > 0) == bool(r.clipped.any())


def test_a_range_from_high_to_low_is_refused():
    study = Study.of(InMemory(normal(4, 4)), qv.Scheme("int4"))
    with pytest.raises(qv.QuantVizError, match="range"):
        error_of_range(study, 1.0, -1.0)


@pytest.mark.parametrize("mode", qv.MODES)
def test_a_curve_goes_from_clipping_to_rounding(mode):
    x = normal(32, 32)
    study = Study.of(InMemory(x), qv.Scheme("int4", mode))
    curve = range_curve(study, 16)
    assert curve.at[-1] == (x.abs().max().item() if mode == "symmetric" else x.max().item())
    assert (np.diff(curve.at) > 0).all()
    assert (np.diff(curve.clipping) <= 0).all()
    assert curve.clipping[0] > 100 * curve.rounding[0]
    assert curve.rounding[-1] == pytest.approx(study.metrics["mse"])
    assert curve.clipping[-1] == 0
    own = error_of_range(study, curve.lo[5], curve.at[5])
    assert (curve.rounding[5], curve.clipping[5]) == (own.rounding, own.clipping)


def test_zeros_have_no_curve():
    assert range_curve(Study.of(InMemory(torch.zeros(4, 4)), qv.Scheme("int4"))) is None
