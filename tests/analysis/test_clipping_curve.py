"""The clipping curve: its estimates against exact points, its minima, and a block's own."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.clipping_curve import OTHER_BITS, STEPS, clipping_curve, estimated_curve
from quantviz.analysis.study import Study
from quantviz.tensors.lazy import InMemory


def values(kind):
    generator = torch.Generator().manual_seed(3)
    normal = torch.randn(64, 64, generator=generator)
    return {
        "normal": normal,
        "uniform": torch.rand(64, 64, generator=generator) * 10 + 10,
        "heavy": normal / torch.rand(64, 64, generator=generator).clamp(min=0.1),
        "one sided": normal.relu(),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "scheme", "most"),
    [
        ("normal", qv.Scheme("int2"), 0.005),
        ("normal", qv.Scheme("int8", "asymmetric"), 0.01),
        ("uniform", qv.Scheme("uint4", "asymmetric"), 0.005),
        ("heavy", qv.Scheme("int8", convention="torch"), 0.01),
        # Half of the values are exactly 0, which a bar knows nothing of.
        ("one sided", qv.Scheme("uint8", "asymmetric"), 0.05),
        ("normal", qv.Scheme("uint4", "asymmetric", qv.PerGroup(64), convention="hqq"), 0.005),
        (
            "normal",
            qv.Scheme("int4", convention=qv.CONVENTIONS["course"].replace(ties="stochastic")),
            0.05,  # chance
        ),
    ],
    ids=str,
)
def test_estimates_are_near_the_exact_points(kind, scheme, most):
    found = clipping_curve(values(kind), scheme)
    exact, estimate = found.exact, found.estimates[scheme.number_format.bits]
    offered = OTHER_BITS if kind == "normal" else (scheme.number_format.bits,)
    assert set(found.estimates) >= set(offered)
    assert len(exact.at) >= 65
    assert exact.at.tolist() == estimate.at.tolist()
    # Left of a sixth of the range hardly a value is within it.
    assert np.abs(estimate.mse / exact.mse - 1)[STEPS // 6 :].max() < most
    assert np.abs(estimate.clipping - exact.clipping).max() < most * exact.clipping.max()


def test_the_ends_grow_alike_and_each_point_is_a_quantization():
    x = values("normal")
    found = clipping_curve(x, qv.Scheme("int4", "asymmetric"))
    exact = found.exact
    assert (exact.lo[STEPS - 1], exact.at[STEPS - 1]) == (x.min().item(), x.max().item())
    assert exact.lo / exact.at == pytest.approx(x.min().item() / x.max().item())
    k = 40
    scheme = found.scheme.replace(calibration=qv.ManualRange(float(exact.lo[k]), float(exact.at[k])))
    m = qv.metrics(qv.quantize(x, scheme))
    assert exact.rounding[k] == pytest.approx(m["rounding_mse"])
    assert exact.clipping[k] == pytest.approx(m["clipping_mse"])
    table = found.table()
    assert table["mse"][k] == exact.mse[k]
    assert [b for b, e in zip(table["bits"], table["estimated"], strict=True) if not e] == [4] * len(exact.at)
    assert len(table) == 5 * len(exact.at)


def test_two_kinds_of_columns_have_a_minimum_each():
    x = torch.randn(128, 128, generator=torch.Generator().manual_seed(1))
    x[:, ::64] *= 8
    curve = clipping_curve(x, "int2,symmetric,per_tensor,min_max,course").exact
    assert len(curve.minima) == 2
    for low in curve.minima:
        assert curve.mse[low] < min(curve.mse[low - 1], curve.mse[low + 1])


def test_a_block_has_a_curve_of_its_own():
    x = values("normal")
    scheme = qv.Scheme("int4", granularity=qv.PerGroup(16))
    own = clipping_curve(x, scheme, block=(3, 2))
    alone = clipping_curve(x[3, 32:48], qv.Scheme("int4"))
    assert own.exact.mse.tolist() == alone.exact.mse.tolist()
    with pytest.raises(qv.QuantVizError, match="block"):
        clipping_curve(x, scheme, block=(3, 9))


def test_a_range_whose_grid_is_wider_than_float32_has_no_estimate():
    """A hand can drag a value to the end of float32, and the grid of a range beyond it has no step."""
    x = torch.tensor([[-1.5, 1.0, 3.4e38, 2.0]])
    study = Study.of(InMemory(x), qv.Scheme.parse("int4,symmetric,per_tensor,mse,course"))
    assert estimated_curve(study, study.scheme) is None
