"""All metrics of a result that is there: the kernel for large ones against the sums of the reference."""

import dataclasses
import math

import pytest
import torch

import quantviz as qv
from quantviz.evaluation import moments
from quantviz.quantization.result import steps_of_error
from quantviz.streaming import limits, programs
from quantviz.streaming.threads import THREADS_VARIABLE


def by_kernel(r):
    """The metrics of a result from the kernel for large ones alone, in pieces that end within blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SMALL", 1)
        patch.setattr(limits, "PIECE", 5000)
        patch.setattr(moments.Moments, "of", None)
        return qv.metrics(r)


@pytest.mark.parametrize(
    "form",
    [
        *("int8_per_row", "int4_per_column", "int4_g128", "nf4_64", "mxfp8_e5m2", "q4_k", "iq4_nl"),
        "binary_absmean",
        "bnb_dynamic8,symmetric,per_group(size=8),min_max,course",
        "int16,asymmetric,per_block(rows=16,cols=64),min_max,course",
        "bfloat16,symmetric,per_channel(axis=1),percentile(p=99.0),course",
    ],
)
def test_metrics_of_a_large_result_are_those_of_one_sum(form, monkeypatch):
    """By a kernel, in bands, and in one go they are the same; so are those of values made elsewhere."""
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(1)) ** 3
    r = qv.quantize(x, form)
    monkeypatch.setattr(moments, "_BAND", x.numel())
    whole = qv.metrics(r)
    monkeypatch.setattr(moments, "_BAND", 3 * 512)
    assert qv.metrics(r) == pytest.approx(whole, rel=1e-9)
    assert by_kernel(r) == pytest.approx(whole, rel=1e-12)
    x_hat = r.x_hat.clone()
    x_hat[3, 4] += 1
    other = dataclasses.replace(r, x_hat=x_hat, error=x_hat - r.x)
    assert by_kernel(other) == pytest.approx(qv.metrics(other), rel=1e-12)
    assert by_kernel(other)["max_abs_error"] == pytest.approx(float(other.error.abs().max()))
    # A tensor that was changed is told, where its errors stay what they were too.
    r.x[3, 4] = math.nextafter(r.x[3, 4], math.inf) + 1
    monkeypatch.setattr(limits, "SMALL", 1)
    with pytest.raises(qv.QuantVizError, match="changed"):
        qv.metrics(r)


def test_metrics_of_a_large_result_leave_out_what_is_not_finite():
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(1))
    x[3, 2:9] = x[0, 0] = x[63, 511] = math.nan
    x[5] = -math.inf
    for recipe in ("int4_g128", "nf4_64", "fp8_e4m3_per_tensor"):
        r = qv.quantize(x, qv.RECIPES[recipe].replace(nonfinite="ignore"))
        assert by_kernel(r) == pytest.approx(qv.metrics(r), rel=1e-12)
    nothing = qv.quantize(torch.full((3, 512), math.nan), r.scheme)
    assert by_kernel(nothing) == pytest.approx(qv.metrics(nothing), nan_ok=True)


@pytest.mark.parametrize("name", [name for name, fmt in qv.FORMATS.items() if fmt.kind != "integer"])
def test_metrics_of_a_large_result_are_in_steps_of_its_format(name):
    """Each cell, at a value of the format or beside one, is off by the reference's step: a step that the
    kernel had other would show, however small.
    """
    fmt = qv.FORMATS[name]
    values = torch.tensor([value for value, _ in fmt.finite])[:: max(1, 2 ** (fmt.bits - 10))]
    ends = torch.tensor([fmt.value_min, fmt.value_max])
    x = torch.cat([values, ends, 1.01 * ends, torch.zeros(1)])
    x = torch.cat([x, *(torch.nextafter(x, torch.tensor(end)) for end in (-math.inf, math.inf))])
    x = x[x.isfinite()]
    for scale in (1.0, 0.3):
        # Not where one step more is no finite number.
        own = x[(2.1 * x * scale).isfinite()] * scale
        r = qv.quantize(own, qv.Scheme(name, calibration=qv.Given(scale)))
        x_hat = own + r.step_of_cells()
        off = dataclasses.replace(r, x_hat=x_hat, error=x_hat - own)
        steps = steps_of_error(off)
        assert steps.abs().max() <= 2
        assert by_kernel(off) == pytest.approx(qv.metrics(off), rel=1e-12)


def test_metrics_of_a_large_result_take_one_pass_on_any_number_of_threads(monkeypatch):
    """Nothing is compiled for its scheme, nothing quantized again, and no sum depends on the threads."""
    x = torch.randn(1100, 1000, generator=torch.Generator().manual_seed(4))
    r = qv.quantize(x, "nf4,symmetric,per_group(size=8),min_max,course")
    wanted = qv.metrics(r)
    monkeypatch.setattr(moments.Moments, "of", None)
    monkeypatch.setattr(programs, "trace_cell", None)
    for threads in ("1", "3"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        assert qv.metrics(r) == wanted
