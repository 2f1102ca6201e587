"""The laws the metrics keep."""

import math

import pytest
import torch

import quantviz as qv
from quantviz import measures

NAMES = [
    "mse", "rmse", "rmse_steps", "max_abs_error", "mean_error", "l2_norm_error", "sqnr_db", "cosine", "clipped_share",
    "zeroed_share", "levels_used", "rounding_mse", "clipping_mse", "effective_bits",
]  # fmt: skip


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def measured(x, *args, **kwargs):
    return qv.metrics(qv.quantize(x, qv.Scheme(*args, **kwargs)))


def test_every_metric_is_a_float():
    m = measured(normal(8, 8), "int4")
    assert list(m) == NAMES == list(qv.METRICS)
    assert all(type(value) is float for value in m.values())


def test_against_plain_formulas():
    x = normal(32, 32)
    r = qv.quantize(x, qv.Scheme("int4", "asymmetric", calibration=qv.Percentile(98.0)))
    e = (r.x_hat.double() - x.double()).flatten()
    m = qv.metrics(r)
    assert m["mse"] == pytest.approx(e.square().mean().item(), rel=1e-5)
    assert m["rmse"] == pytest.approx(m["mse"] ** 0.5)
    assert m["rmse_steps"] == pytest.approx(m["rmse"] / r.qparams.scale.item(), rel=1e-5)
    assert m["l2_norm_error"] == pytest.approx(e.norm().item(), rel=1e-5)
    assert m["mean_error"] == pytest.approx(e.mean().item(), rel=1e-3)
    assert m["max_abs_error"] == pytest.approx(e.abs().max().item(), rel=1e-5)
    assert m["sqnr_db"] == pytest.approx(10 * math.log10(x.double().square().sum().item() / e.square().sum().item()), rel=1e-6)
    assert m["cosine"] == pytest.approx(torch.nn.functional.cosine_similarity(x.flatten(), r.x_hat.flatten(), 0).item(), rel=1e-5)
    assert 0 < m["clipped_share"] < 0.1
    assert m["rounding_mse"] + m["clipping_mse"] == m["mse"]
    assert m["clipping_mse"] > 0


def test_no_error_is_infinite_sqnr():
    m = measured([[1.0, -2.0], [3.0, 0.0]], "int8", calibration=qv.Given(1.0))
    assert (m["mse"], m["sqnr_db"], m["cosine"]) == (0.0, math.inf, pytest.approx(1.0))


def test_a_zero_tensor_has_no_angle():
    m = measured(torch.zeros(3, 3), "int4")
    assert math.isnan(m["cosine"])
    assert (m["sqnr_db"], m["zeroed_share"], m["levels_used"]) == (math.inf, 0.0, 1.0)


def test_zeroed_share_counts_only_non_zero_cells():
    assert measured([0.0, 0.1, 0.2, 7.0], "int4")["zeroed_share"] == pytest.approx(2 / 3)


def test_uniform_values_have_the_rmse_of_pure_rounding():
    x = torch.empty(256, 256).uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
    assert measured(x, "int8")["rmse_steps"] == pytest.approx(measures.RMSE_STEPS_OF_ROUNDING, abs=2e-3)


@pytest.mark.parametrize(
    ("scheme", "shape", "bits"),
    [
        (qv.Scheme("int8"), (4, 4), 9.0),
        (qv.Scheme("int4", granularity=qv.PerChannel(0)), (256, 256), 4.0625),
        (qv.Scheme("int3", granularity=qv.PerGroup(16)), (256, 256), 4.0),
        (qv.Scheme("int4", "asymmetric", qv.PerGroup(32)), (64, 64), 4.625),
    ],
)
def test_effective_bits_count_scales_and_zero_points(scheme, shape, bits):
    assert measures.bits_per_element(scheme, shape) == bits
    assert measured(normal(*shape), scheme.format, scheme.mode, scheme.granularity)["effective_bits"] == bits


def test_sqnr_by_axis_is_the_sqnr_of_each_index():
    r = qv.quantize(normal(4, 6), qv.Scheme("int4"))
    by_row = measures.sqnr_db_by_axis(r, 0)
    assert by_row.shape == (4,)
    e = r.error[1].double().square().sum().item()
    assert by_row[1].item() == pytest.approx(10 * math.log10(r.x[1].double().square().sum().item() / e))


@pytest.mark.parametrize(("bits", "gain"), list(zip(range(3, 9), (9.5, 7.4, 6.6, 6.3, 6.1, 6.1), strict=True)))
def test_a_bit_is_worth_about_six_db_in_the_limit(bits, gain):
    x = torch.empty(512, 512).uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    assert measured(x, f"int{bits}")["sqnr_db"] - measured(x, f"int{bits - 1}")["sqnr_db"] == pytest.approx(gain, abs=0.1)
