"""Calibrations that search as engines do: the same on every path, refused where a field is wrong, and
together where blocks depend on each other.
"""

import contextlib
import dataclasses
import math

import pytest
import torch

import quantviz as qv
from quantviz.quantization.computed_ranges import COMPUTED
from quantviz.schemes.engine_calibrations import ENGINE_CALIBRATIONS, HQQ, MSELLMCompressor
from quantviz.streaming import kernel_access, limits, programs, ranges
from quantviz.streaming.threads import THREADS_VARIABLE
from quantviz.tensors.lazy import InMemory
from tests.helpers.sample import sample_of

PLACES = (
    "per_tensor",
    "per_channel(axis=0)",
    "per_channel(axis=1)",
    "per_group(size=16)",
    "per_block(rows=8,cols=24)",
    "flat(size=48)",
)
#: Fewer bins: the searches are the same, and a test takes less time.
SMALL = {"entropy_tensorrt": {"bins": 256, "start_bin": 64}, "entropy_onnxruntime": {"bins": 256}}
OWN = [kind(**SMALL.get(kind.id, {})) for kind in ENGINE_CALIBRATIONS]


def values(*shape, seed=0):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    x[1, 3], x[2] = -9.0, 0.0
    return x


def scheme_of(calibration, place, **more):
    if calibration.id == "hqq":
        return qv.Scheme.parse(f"uint4,asymmetric,{place},hqq,course(zero_domain=code_float)").replace(**more)
    mode = "symmetric" if list(calibration.problems(qv.FORMATS["int4"], "asymmetric")) else "asymmetric"
    return qv.Scheme.parse(f"int4,{mode},{place},min_max,course").replace(calibration=calibration, **more)


def same(found, wanted):
    names = ("scale", "zero_point") if isinstance(wanted, qv.QParams) else ("lo", "hi", "extreme")
    return all(torch.equal(getattr(found, name), getattr(wanted, name)) for name in names)


def test_each_has_its_function():
    assert set(COMPUTED) == {qv.MSE, qv.CALIBRATIONS["searched"], *ENGINE_CALIBRATIONS}


@pytest.mark.parametrize("calibration", sample_of(OWN, 4), ids=lambda each: each.id)
def test_every_path_finds_the_same(calibration, monkeypatch):
    """The reference, the kernels in small pieces, and neither; values that are left out, too."""
    monkeypatch.setattr(limits, "BAND", 256)
    monkeypatch.setattr(limits, "SMALL", 0)
    for k, place in enumerate(sample_of(PLACES, 2)):
        x, more = values(24, 48), {"nonfinite": "ignore"} if k else {}
        if k:
            x[5, 7], x[20, 0], x[9] = math.nan, math.inf, math.nan
        scheme = scheme_of(calibration, place, **more)
        r = qv.quantize(x, scheme)
        wanted = r.range or r.qparams
        for threads in ("1", "3"):
            monkeypatch.setenv(THREADS_VARIABLE, threads)
            assert same(found_in_pieces(x, scheme, r), wanted), (place, threads)
        with monkeypatch.context() as patched:
            patched.setattr(kernel_access, "has_kernels", lambda: False)
            programs.compiled_program.cache_clear()
            assert same(found_in_pieces(x, scheme, r), wanted), place
        programs.compiled_program.cache_clear()


def found_in_pieces(x, scheme, r):
    if r.range is None:
        return ranges.qparams(InMemory(x), scheme)
    return ranges.ranges(InMemory(x), scheme, piece=700)


@pytest.mark.parametrize("calibration", OWN, ids=lambda each: each.id)
def test_no_values_are_too_few_or_alike(calibration):
    scheme = scheme_of(calibration, "per_channel(axis=0)")
    for x in (
        [[2.0]],
        [[0.0]],
        torch.zeros(3, 5),
        torch.full((2, 4), -1.5),
        [[1e-40, -3e-41]],
        [[1e30, 1.0]],
    ):
        r = qv.quantize(x, scheme)
        assert torch.isfinite(r.qparams.scale).all()
        assert torch.isfinite(r.x_hat).all()
    # Where the whole range is beyond float32, a search may stay below.
    with contextlib.suppress(qv.QuantVizError):
        assert torch.isfinite(qv.quantize([[3e38, -3e38, 1.0]], scheme).x_hat).all()


@pytest.mark.parametrize(
    "calibration",
    [each for each in OWN if each.id not in ("hqq", "mse_llmcompressor")],
    ids=lambda each: each.id,
)
def test_a_block_is_given_what_it_is_given_alone(calibration):
    x, scheme = values(12, 300) ** 3, scheme_of(calibration, "per_channel(axis=0)")
    whole = qv.quantize(x, scheme).range
    for i in range(0, 12, 3):
        own = qv.quantize(x[i : i + 1], scheme).range
        assert (own.lo.item(), own.hi.item()) == (whole.lo[i].item(), whole.hi[i].item())


def test_llmcompressors_patience_is_all_blocks():
    """A block that would have stopped goes on while another one gains."""
    calibration = MSELLMCompressor(maxshrink=0.9, patience=1, norm=2.0)
    scheme = scheme_of(calibration, "per_channel(axis=0)")
    x = values(16, 200) ** 3
    whole = qv.quantize(x, scheme).range
    alone = [qv.quantize(x[i : i + 1], scheme).range.hi.item() for i in range(len(x))]
    assert calibration.together
    assert alone != whole.hi.flatten().tolist()
    assert all(own >= found for own, found in zip(alone, whole.hi.flatten().tolist(), strict=True))


def test_hqq_stops_for_the_whole_tensor():
    scheme = scheme_of(HQQ(), "per_channel(axis=0)")
    x = values(16, 64, seed=3)
    whole = qv.quantize(x, scheme).qparams.zero_point.flatten().tolist()
    alone = [qv.quantize(x[i : i + 1], scheme).qparams.zero_point.item() for i in range(len(x))]
    assert HQQ.together
    assert alone != whole
    assert (
        qv.metrics(qv.quantize(x, scheme))["mse"]
        < qv.metrics(qv.quantize(x, scheme.replace(calibration=qv.MinMax())))["mse"]
    )


@pytest.mark.parametrize("kind", ENGINE_CALIBRATIONS, ids=lambda kind: kind.id)
def test_a_field_that_is_no_such_number_is_refused(kind):
    fmt, mode, zero = qv.FORMATS["int4"], "symmetric", "code_int"
    if kind is HQQ:
        mode, zero = "asymmetric", "code_float"
    assert not list(kind().problems(fmt, mode, zero))
    for field in dataclasses.fields(kind):
        for wrong in (-1, 1e12, math.nan, math.inf, "3", None):
            problems = list(kind(**{field.name: wrong}).problems(fmt, mode, zero))
            assert problems, (field.name, wrong)
            assert all(isinstance(each, qv.QuantVizError) and each.message("zh") for each in problems)
        if field.type == "int":
            assert list(kind(**{field.name: 8.5}).problems(fmt, mode, zero))


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("int4,asymmetric,per_tensor,octav,course", "calibration_needs_symmetric"),
        ("nf4,symmetric,per_tensor,aciq_gauss,course", "calibration_needs_integers"),
        ("int4,symmetric,per_tensor,hqq,course", "hqq_needs_float_zero"),
        ("int4,symmetric,per_tensor,mse_torch(bins=1),course", "calibration_field_whole"),
        ("int4,symmetric,per_tensor,mse_modelopt(start=2.0,stop=1.0),course", "calibration_field"),
    ],
)
def test_what_a_package_has_not_is_refused(form, key):
    with pytest.raises(qv.QuantVizError) as refused:
        qv.Scheme.parse(form)
    assert refused.value.key == key
