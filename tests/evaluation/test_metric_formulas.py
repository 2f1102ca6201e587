"""The laws the metrics keep."""

import math

import pytest
import torch

import quantviz as qv
from quantviz.evaluation import metric_formulas
from quantviz.evaluation.moments import Moments
from quantviz.quantization.cells import part
from quantviz.quantization.result import steps_of_error
from quantviz.schemes.granularity import GRANULARITIES
from quantviz.streaming import measuring
from tests.helpers.drawn import normal

NAMES = [
    "mse", "rmse", "rmse_steps", "unclipped_rmse_steps", "max_abs_error", "mean_error", "l2_norm_error",
    "sqnr_db", "cosine", "clipped_share", "zeroed_share", "nonzero_share", "levels_used",
    "rounding_mse", "clipping_mse", "effective_bits", "kurtosis", "code_entropy",
]  # fmt: skip


def measured(x, *args, **kwargs):
    return qv.metrics(qv.quantize(x, qv.Scheme(*args, **kwargs)))


def test_every_metric_is_a_float():
    m = measured(normal(8, 8), "int4")
    assert list(qv.METRICS) == NAMES, "add the id of a new metric to NAMES, where it stands in METRICS"
    assert list(m) == NAMES
    assert all(type(value) is float for value in m.values())


def test_against_plain_formulas():
    x = normal(32, 32)
    r = qv.quantize(x, qv.Scheme("int4", "asymmetric", calibration=qv.Percentile(98.0)))
    e = (r.x_hat.double() - x.double()).flatten()
    m = qv.metrics(r)
    assert m["mse"] == pytest.approx(e.square().mean().item(), rel=1e-5)
    assert m["rmse"] == pytest.approx(m["mse"] ** 0.5)
    assert m["rmse_steps"] == pytest.approx(m["rmse"] / r.qparams.scale.item(), rel=1e-5)
    inside = ~r.clipped.flatten()
    assert m["unclipped_rmse_steps"] == pytest.approx(
        (e[inside] / r.qparams.scale).square().mean().sqrt().item(), rel=1e-5
    )
    assert m["unclipped_rmse_steps"] < m["rmse_steps"]
    assert m["nonzero_share"] == pytest.approx((x != 0).float().mean().item())
    assert m["l2_norm_error"] == pytest.approx(e.norm().item(), rel=1e-5)
    assert m["mean_error"] == pytest.approx(e.mean().item(), rel=1e-3)
    assert m["max_abs_error"] == pytest.approx(e.abs().max().item(), rel=1e-5)
    assert m["sqnr_db"] == pytest.approx(
        10 * math.log10(x.double().square().sum().item() / e.square().sum().item()), rel=1e-6
    )
    assert m["cosine"] == pytest.approx(
        torch.nn.functional.cosine_similarity(x.flatten(), r.x_hat.flatten(), 0).item(), rel=1e-5
    )
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
    assert measured(x, "int8")["rmse_steps"] == pytest.approx(1 / math.sqrt(12), abs=2e-3)


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
    assert metric_formulas.bits_per_element(scheme, shape) == bits
    assert measured(normal(*shape), scheme.format, scheme.mode, scheme.granularity)["effective_bits"] == bits


@pytest.mark.parametrize(
    ("format_id", "mode", "granularity", "convention", "bits"),
    [
        ("int4", "symmetric", qv.PerGroup(32), "gguf_signed", 4.5),  # Q4_0
        ("uint4", "asymmetric", qv.PerGroup(32), "gguf_minimum", 5.0),  # Q4_1
        ("int5", "symmetric", qv.PerGroup(32), "gguf_signed", 5.5),  # Q5_0
        ("uint5", "asymmetric", qv.PerGroup(32), "gguf_minimum", 6.0),  # Q5_1
        ("int8", "symmetric", qv.PerGroup(32), "gguf", 8.5),  # Q8_0
        ("ternary", "symmetric", qv.PerGroup(256), "gguf", 2.0625),  # TQ2_0
        (
            "ternary",
            "symmetric",
            qv.PerGroup(256),
            qv.CONVENTIONS["gguf"].replace(code_bits=1.625),
            1.6875,
        ),  # TQ1_0
        ("float4_e2m1fn", "symmetric", qv.PerGroup(32), "gguf_mx", 4.25),  # MXFP4 of GGUF
        ("float4_e2m1fn", "symmetric", qv.PerGroup(32), "torchao_mx", 4.25),  # MXFP4
        ("float8_e4m3fn", "symmetric", qv.PerGroup(32), "torchao_mx", 8.25),  # MXFP8
        ("float8_e5m2", "symmetric", qv.PerGroup(32), "microxcaling", 8.25),
        ("float6_e3m2fn", "symmetric", qv.PerGroup(32), "torchao_mx", 6.25),  # MXFP6
        ("float4_e2m1fn", "symmetric", qv.PerGroup(16), "torchao_nvfp4", 4.5 + 32 / (16 * 512)),  # NVFP4
        ("float4_e2m1fn", "symmetric", qv.PerGroup(16), "modelopt_nvfp4", 4.5 + 32 / (16 * 512)),
        ("float4_e2m1fn", "symmetric", qv.PerGroup(16), "compressed_tensors_nvfp4", 4.5 + 32 / (16 * 512)),
        ("nf4", "symmetric", qv.Flat(64), "bitsandbytes", 4.5),  # absmax as float32
        ("uint4", "asymmetric", qv.PerGroup(64), "hqq", 4.5),  # scale and zero point as float16
        ("uint4", "asymmetric", qv.PerGroup(32), "torchao_tinygemm", 5.0),  # the same as bfloat16
    ],
)
def test_effective_bits_are_those_that_are_published(format_id, mode, granularity, convention, bits):
    scheme = qv.Scheme(format_id, mode, granularity, convention=convention)
    assert metric_formulas.bits_per_element(scheme, (16, 512)) == bits
    assert qv.METRICS["effective_bits"](qv.quantize(normal(16, 512), scheme)) == bits


@pytest.mark.parametrize(
    ("scheme", "shape", "bits"),
    [
        # MatMulNBits: 2 blocks a row of 16 bytes of codes and a float32 scale, for 33 cells.
        (
            "uint4,symmetric,per_group(size=32),min_max,onnxruntime_nbits",
            (4, 33),
            4 * 2 * (16 * 8 + 32) / (4 * 33),
        ),
        # Microscaling: 147 values, as a row of ResNet's first layer has, in 5 blocks of 32 with a byte of
        # scale each.
        (
            "float4_e2m1fn,symmetric,per_group(size=32),min_max,microxcaling",
            (64, 147),
            5 * (32 * 4 + 8) / 147,
        ),
        (
            "int4,symmetric,per_block(rows=4,cols=32),min_max,microxcaling",
            (6, 40),
            (2 * 2) * (4 * 32 * 4 + 8) / (6 * 40),
        ),
        # INT8QTensor: codes of (4, 64) and scales of (4, 2) for (4, 40); FP8QTensor: codes of (4, 40).
        ("int8,symmetric,per_group(size=32),min_max,modelopt_packed", (4, 40), (64 * 8 + 2 * 32) / 40),
        (
            "float8_e4m3fn,symmetric,per_group(size=32),min_max,modelopt_packed",
            (4, 40),
            (40 * 8 + 2 * 32) / 40,
        ),
        # MXFP8QTensor computes with padding and stores (4, 40).
        ("float8_e4m3fn,symmetric,per_group(size=32),min_max,modelopt_mxfp8", (4, 40), (40 * 8 + 2 * 8) / 40),
        # bitsandbytes: 99 codes, two a byte, and 2 scales.
        ("nf4,symmetric,flat(size=64),min_max,bitsandbytes", (3, 33), (99 * 4 + 2 * 32) / 99),
    ],
)
def test_what_fills_up_a_last_block_is_counted_where_it_is_stored(scheme, shape, bits):
    scheme = qv.Scheme.parse(scheme)
    assert metric_formulas.bits_per_element(scheme, shape) == pytest.approx(bits, rel=1e-12)
    assert qv.metrics(qv.quantize(normal(*shape), scheme))["effective_bits"] == pytest.approx(bits, rel=1e-12)
    assert qv.measure(normal(*shape), scheme).metrics["effective_bits"] == pytest.approx(bits, rel=1e-12)


def test_stored_sizes_are_those_of_the_packages():
    """Where a package is there that keeps what it packs, it is asked."""
    qtensor = pytest.importorskip("modelopt.torch.quantization.qtensor")
    x = normal(4, 40)
    for engine, form in ((qtensor.INT8QTensor, "int8"), (qtensor.FP8QTensor, "float8_e4m3fn")):
        packed, scales = engine.quantize(x.clone(), block_sizes={-1: 32})
        data = packed._quantized_data
        stored = 8 * (data.numel() * data.element_size() + scales.numel() * 4)
        scheme = qv.Scheme(form, granularity=qv.PerGroup(32), convention="modelopt_packed")
        assert metric_formulas.bits_per_element(scheme, (4, 40)) == stored / x.numel()


@pytest.mark.parametrize("convention", qv.CONVENTIONS)
def test_stored_bits_follow_from_what_is_stored(convention):
    """A scale kept in a format has that format's bits; a zero point among the codes has a code's or an
    integer's.
    """
    value = qv.CONVENTIONS[convention]
    if value.scale.format:
        assert (
            value.scale_bits == {"bfloat16_float16": 16}.get(value.scale.format)
            or qv.FORMATS[value.scale.format].bits
        )
    else:
        assert value.scale_bits in (16, 32)
    assert value.zero_bits in (
        (16, 32) if value.zero_domain in ("value", "value_middle", "code_float") else (0, 32, 64)
    )
    if value.zero_point_format:
        assert value.zero_bits == qv.FORMATS[value.zero_point_format].bits


@pytest.mark.parametrize("overflow", ["saturate", "nan"])
def test_clipped_in_a_float_format_is_where_the_end_changed_the_code(overflow):
    """464 is the middle between 448 and what would be next: half to even, it is 448 by rounding alone."""
    convention = qv.CONVENTIONS["course"].replace(overflow=overflow)
    x = [447.0, 448.0, 463.9, 464.1, -500.0, 1e6, 0.001]
    r = qv.quantize(
        x, qv.Scheme("float8_e4m3fn", calibration=qv.Given(1.0), convention=convention), strict=True
    )
    assert r.clipped.tolist() == [False, False, False, True, True, True, False]
    assert qv.METRICS["clipped_share"](r) == pytest.approx(3 / 7)
    if overflow == "saturate":
        assert qv.METRICS["clipping_mse"](r) + qv.METRICS["rounding_mse"](r) == qv.METRICS["mse"](r)
        assert qv.METRICS["clipping_mse"](r) == pytest.approx(
            ((464.1 - 448) ** 2 + 52**2 + (1e6 - 448) ** 2) / 7, rel=1e-6
        )
    else:
        assert torch.isnan(r.x_hat).tolist() == r.clipped.tolist()


@pytest.mark.parametrize(
    "format_id", ["float8_e4m3fn", "float6_e2m3fn", "float4_e2m1fn", "nf4", "bnb_dynamic8"]
)
def test_rounding_alone_is_within_half_a_step(format_id):
    r = qv.quantize(normal(64, 64), qv.Scheme(format_id, calibration=qv.Percentile(95.0)))
    steps = steps_of_error(r).abs()
    inside = ~r.clipped
    assert inside.double().mean() > 0.8
    assert r.clipped.any()
    assert steps[inside].max() <= 0.5 + 1e-5


def test_a_scale_of_zero_without_error_is_no_step_off():
    r = qv.quantize(
        [[3.0, 3.0]], qv.Scheme("uint4", "asymmetric", qv.PerChannel(0), convention="quanto_qbits")
    )
    assert r.qparams.scale.item() == 0
    assert qv.METRICS["rmse_steps"](r) == 0


def test_sqnr_by_axis_is_the_sqnr_of_each_index():
    r = qv.quantize(normal(4, 6), qv.Scheme("int4"))
    by_row = metric_formulas.sqnr_db_of_lines(Moments.along(r, 0))
    assert by_row.shape == (4,)
    e = r.error[1].double().square().sum().item()
    assert by_row[1].item() == pytest.approx(10 * math.log10(r.x[1].double().square().sum().item() / e))


@pytest.mark.parametrize(
    ("bits", "gain"), list(zip(range(3, 9), (9.5, 7.4, 6.6, 6.3, 6.1, 6.1), strict=True))
)
def test_a_bit_is_worth_about_six_db_in_the_limit(bits, gain):
    x = torch.empty(512, 512).uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    assert measured(x, f"int{bits}")["sqnr_db"] - measured(x, f"int{bits - 1}")["sqnr_db"] == pytest.approx(
        gain, abs=0.1
    )


@pytest.mark.parametrize(
    "granularity",
    [
        qv.PerTensor(),
        qv.PerChannel(0),
        qv.PerChannel(1),
        qv.PerGroup(21),
        GRANULARITIES["per_block"](8, 7),
        GRANULARITIES["flat"](49),
    ],
    ids=str,
)
def test_a_part_is_measured_whatever_its_shape_and_costs_what_its_tensor_does(granularity):
    """The window need not fit the groups; its bits per weight are the whole tensor's."""
    r = qv.quantize(normal(64, 147), qv.Scheme("int4", granularity=granularity))
    for index in ((slice(10, 40), slice(20, 60)), (slice(0, 64), 5), (slice(3, 4), slice(4, 5))):
        assert qv.metrics(part(r, index))["effective_bits"] == qv.metrics(r)["effective_bits"]
        assert measuring.measured(part(r, index)).metrics["effective_bits"] == qv.metrics(r)["effective_bits"]
    inner = part(part(r, (slice(10, 40), slice(20, 60))), (slice(1, 3), slice(2, 5)))
    assert qv.metrics(inner)["effective_bits"] == qv.metrics(r)["effective_bits"]


def test_the_kurtosis_is_that_of_the_values():
    x = normal(64, 64).double() ** 3 + 2
    centred = x - x.mean()
    wanted = (centred**4).mean() / (centred**2).mean() ** 2
    assert measured(x.float(), "int4")["kurtosis"] == pytest.approx(float(wanted), rel=1e-5)
    assert measured(normal(512, 512), "int4")["kurtosis"] == pytest.approx(3, abs=0.05)
    assert math.isnan(measured(torch.ones(4, 4), "int4")["kurtosis"])


def test_the_entropy_of_the_codes_is_what_an_ideal_coder_would_store():
    assert measured([-1.0, 1.0, -1.0, 1.0], "int8")["code_entropy"] == pytest.approx(1)
    assert measured(torch.zeros(8), "int8")["code_entropy"] == 0
    assert measured(torch.arange(-8.0, 8.0), "int4", calibration=qv.Given(1.0))[
        "code_entropy"
    ] == pytest.approx(4)
    # Of a Gaussian in fine steps: log2(σ √(2πe) / step).
    r = qv.quantize(normal(512, 512), qv.Scheme("int8"))
    wanted = math.log2(float(r.x.std()) * math.sqrt(2 * math.pi * math.e) / float(r.qparams.scale))
    assert qv.metrics(r)["code_entropy"] == pytest.approx(wanted, abs=0.01)
