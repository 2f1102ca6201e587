"""A study of a large tensor says what the result for all of it would."""

import dataclasses
import math

import pytest
import torch

import quantviz as qv
from quantviz.analysis import study as studies
from quantviz.analysis.study import Study
from quantviz.quantization.cells import part
from quantviz.streaming.frames import Patch
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import View

SHAPE = (48, 96)
SCHEMES = [
    "int4,symmetric,per_tensor,min_max,course",
    "uint8,asymmetric,per_channel(axis=0),min_max,torch",
    "int4,asymmetric,per_channel(axis=1),percentile(p=99.0),course",
    "int4,symmetric,per_group(size=32),min_max,gguf_signed",
    "uint4,asymmetric,per_group(size=16,axis=0),min_max,torchao",
    "int8,symmetric,per_block(rows=16,cols=32),min_max,course",
    "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
    "float4_e2m1fn,symmetric,per_group(size=16),min_max,torchao_nvfp4",
    "int8,asymmetric,per_tensor,given(scale=0.05,zero_point=3),course",
    "int8,symmetric,per_tensor,min_max,course(ties=stochastic,seed=3)",
]
CELLS = [(0, 0), (47, 95), (13, 64)]


@pytest.fixture
def x():
    values = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    values[13, 64] = -40.0
    return values


@pytest.fixture
def large(monkeypatch):
    """What is small here is taken for large."""
    monkeypatch.setattr(studies, "MOST_WHOLE", 16)


@pytest.mark.parametrize("form", SCHEMES)
def test_a_large_tensor_is_told_as_a_small_one(x, large, form):
    scheme = qv.Scheme.parse(form)
    r = qv.quantize(x, scheme)
    study = Study.of(InMemory(x), scheme)
    assert study.result is None
    assert torch.equal(study.qparams.scale, r.qparams.scale)
    for name, value in qv.metrics(r).items():
        assert study.metrics[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    window = (slice(10, 20), slice(60, 70))
    own, seen = part(r, window), study.part(window)
    for name in ("x", "q", "x_hat", "error", "clipped"):
        assert torch.equal(getattr(own, name), getattr(seen, name)), name
    for cell in CELLS:
        told, wanted = study.explain(cell), qv.explain(r, cell)
        for field in dataclasses.fields(told):
            assert getattr(told, field.name) == getattr(wanted, field.name), (field.name, cell)
    assert study.scales(5)["scale"] == r.qparams.scale.flatten()[:5].tolist()


def test_worst_places(x, large, monkeypatch):
    scheme = qv.Scheme("int4", granularity=qv.PerChannel(0))
    study, r = Study.of(InMemory(x), scheme), qv.quantize(x, scheme)
    sizes = r.error.abs()
    at = tuple(int(i) for i in torch.nonzero(sizes == sizes.max())[0])
    assert study.measured.largest_error == at
    assert study.facts.largest == (13, 64)
    assert study.worst_of_line(0, 13) == (13, int(sizes[13].argmax()))
    assert study.worst_of_line(1, 64) == (int(sizes[:, 64].argmax()), 64)
    assert study.worst_of_block((5, 0)) == (5, int(sizes[5].argmax()))
    flat = Study.of(InMemory(x), qv.Scheme.parse("nf4,symmetric,flat(size=64),min_max,bitsandbytes"))
    errors = qv.quantize(x, flat.scheme).error.abs().flatten()[64 * 7 : 64 * 8]
    place = 64 * 7 + int(errors.argmax())
    # Cell by cell a block of 4,096 took 6 seconds.
    monkeypatch.delattr(Study, "part")
    assert flat.worst_of_block((7,)) == divmod(place, SHAPE[1])


def test_ranges_are_asked_for_once(x, large):
    asked, known = [], {}

    def keep(name, make):
        if name not in known:
            asked.append(name)
            known[name] = make()
        return known[name]

    for form in (
        "int4,symmetric,per_tensor,min_max,course",
        "int8,symmetric,per_tensor,min_max,course",
        "uint4,asymmetric,per_tensor,min_max,course",
    ):
        Study.of(InMemory(x), qv.Scheme.parse(form), keep=keep)
    # Symmetric and asymmetric ask for different percentiles, so that they are not told apart by what they ask
    # here.
    assert len(asked) == 2


@pytest.mark.parametrize("nonfinite", ["clip", "ignore"])
def test_nan_and_inf(x, large, nonfinite):
    x[3, 4], x[13, 60], x[13, 61] = math.nan, math.inf, -math.inf
    scheme = qv.Scheme("int4", granularity=qv.PerChannel(0), nonfinite=nonfinite)
    study, r = Study.of(InMemory(x), scheme), qv.quantize(x, scheme)
    assert list(map(str, study.notes)) == list(map(str, r.notes))
    for name, value in qv.metrics(r).items():
        assert study.metrics[name] == pytest.approx(value, rel=1e-9), name
    for cell in ((13, 60), (3, 4), (13, 0)):
        assert repr(study.explain(cell)) == repr(qv.explain(r, cell))
    with pytest.raises(qv.QuantVizError) as refused:
        Study.of(InMemory(x), scheme.replace(nonfinite="refuse"))
    assert refused.value.key == "input_nonfinite"


def test_a_picture_of_a_part_has_the_cells_of_the_whole(x, large):
    scheme = qv.Scheme("int4", granularity=qv.PerGroup(32))
    study, r = Study.of(InMemory(x), scheme), qv.quantize(x, scheme)
    seen = study.overview(Patch(8, 16, 20, 40), (5, 8), "largest", View.of(SHAPE))
    for i in range(5):
        for j in range(8):
            window = (slice(8 + 4 * i, 12 + 4 * i), slice(16 + 5 * j, 21 + 5 * j))
            cells = r.x[window].flatten()
            at = int(cells.abs().argmax())
            assert (seen.x[i, j], seen.x_at[i, j]) == (cells[at], at)
            assert seen.x_hat[i, j] == r.x_hat[window].flatten()[at]
            assert abs(seen.error[i, j]) == r.error[window].abs().max()


def test_negative_values_of_a_format_without_sign(x, large):
    scheme = qv.Scheme("uint8", "symmetric")
    assert Study.of(InMemory(x), scheme).notes == qv.quantize(x, scheme).notes
