"""The ruler's picture shows the block that the cell lies in, and the grid that it was rounded to."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.range_error import range_curve
from quantviz.analysis.study import Study
from quantviz.figures.ruler_data import (
    MOST_DOTS,
    ruler_of_cell,
    ruler_of_result,
    ruler_sentence,
)
from quantviz.lab.scenarios import SCENARIOS
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import MOST_WHOLE
from quantviz.text import languages
from tests.helpers.drawn import normal


def ruler(x, scheme, cell):
    r = qv.quantize(x, scheme)
    return ruler_of_result(r, qv.explain(r, cell))


def schemes(formats=("int2", "uint3", "int4", "int8", "uint8")):
    return [
        qv.Scheme(name, mode, granularity)
        for name in formats
        for mode in qv.MODES
        for granularity in (qv.PerTensor(), qv.PerChannel(1), qv.PerGroup(3, axis=0))
    ]


def other_kinds():
    for form in (
        "float4_e2m1fn,symmetric,per_group(size=16),min_max,torchao_nvfp4",
        "float8_e4m3fn,symmetric,per_tensor,min_max,course",
        "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
        "fp4,symmetric,per_channel(axis=0),min_max,course",
        "bnb_dynamic8,symmetric,flat(size=64),min_max,bitsandbytes_dynamic8",
        "binary,symmetric,per_tensor,min_max,course",
        "int4,symmetric,per_group(size=32),min_max,gguf_signed",
        "uint8,symmetric,per_group(size=32),min_max,onnxruntime_nbits",
        "uint4,asymmetric,per_group(size=32),min_max,gguf_minimum",
        "uint4,asymmetric,per_group(size=32),min_max,torchao_tinygemm",
        "uint4,asymmetric,per_group(size=32),min_max,hqq",
        "int8,symmetric,per_channel(axis=0),min_max,bitsandbytes_int8",
    ):
        yield qv.Scheme.parse(form)


@pytest.mark.parametrize("scheme", [*schemes(), *other_kinds()], ids=str)
def test_the_values_are_those_of_the_cells_block_and_land_on_teeth(scheme):
    x = normal(6, 64, seed=2)
    r = qv.quantize(x, scheme)
    for cell in ((0, 0), (3, 40), (5, 63)):
        why = qv.explain(r, cell)
        picture = ruler_of_result(r, why)
        assert picture.values[picture.selected] == r.x[cell].item()
        assert picture.landed[picture.selected] == r.x_hat[cell].item()
        block = r.scheme.layout(r.shape).size_of(why.block)
        assert len(picture.values) == len(picture.landed) == len(picture.clipped) == block
        assert np.isin(picture.landed.astype(np.float64), picture.levels).all()
        assert (np.diff(picture.levels) > 0).all()
        assert len(picture.codes) == len(picture.levels)
        assert picture.clipped.sum() <= r.clipped.sum().item()
        assert picture.histogram.counts.sum() == block
        lo, hi = picture.domain
        assert lo < min(picture.values.min(), picture.landed.min())
        assert hi > max(picture.values.max(), picture.landed.max())
        assert ((picture.levels > lo) & (picture.levels < hi)).sum() >= 2
        assert picture.zero == -1 or picture.levels[picture.zero] == 0


def test_codes_are_named_as_they_are_read():
    picture = ruler([[1.0, 0.1], [-2.0, 0.7]], qv.Scheme("int2", "asymmetric"), (0, 0))
    assert picture.codes == ("−2", "−1", "0", "1")
    halves = ruler([[6.0, 0.1]], qv.Scheme.parse("float4_e2m1fn,symmetric,per_tensor,min_max,course"), (0, 0))
    assert halves.codes[halves.zero :] == ("0", "0.5", "1", "1.5", "2", "3", "4", "6")


def test_under_a_negative_scale_codes_descend():
    scheme = qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    picture = ruler([[8.0, *[0.0] * 31]], scheme, (0, 1))
    assert picture.codes == ("7", "6", "5", "4", "3", "2", "1", "0", *(f"−{n}" for n in range(1, 9)))
    assert picture.levels.tolist() == list(range(-7, 9))


def test_the_ends_of_a_symmetric_range_are_as_far_from_0():
    assert ruler([[1.0, -3.0]], qv.Scheme("int4"), (0, 0)).range == (-3.0, 3.0)
    assert ruler([[1.0, -3.0]], qv.Scheme("int4", "asymmetric"), (0, 0)).range == (-3.0, 1.0)
    assert ruler([[1.0, -3.0]], qv.Scheme("int4", calibration=qv.Given(0.5)), (0, 0)).range is None


def test_many_values_are_a_histogram_and_the_cell():
    few, many = (ruler(normal(2, n // 2), qv.Scheme("int4"), (1, 3)) for n in (MOST_DOTS, MOST_DOTS + 2))
    assert (len(few.values), few.selected) == (MOST_DOTS, MOST_DOTS // 2 + 3)
    assert (len(many.values), many.selected) == (1, 0)
    assert many.histogram.counts.sum() == MOST_DOTS + 2


def test_more_than_8_bits_have_no_comb():
    picture = ruler(normal(4, 4), qv.Scheme("int16"), (1, 1))
    assert (len(picture.levels), picture.codes, picture.zero) == (0, (), -1)


@pytest.mark.parametrize("calibration", ["min_max", "percentile(p=99.0)", "given(scale=9.0)"])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_all_of_few_teeth_are_in_view(bits, calibration):
    """At 2 bits the code −2 lay as far beyond the smallest value as that from 0."""
    x = torch.linspace(-1, 1, 64).reshape(8, 8) ** 3
    r = qv.quantize(x, qv.Scheme.parse(f"int{bits},symmetric,per_tensor,{calibration},course"))
    study = Study.of_result(r)
    picture = ruler_of_cell(study, study.explain((1, 1)))
    assert len(picture.levels) == 2**bits
    assert picture.domain[0] < picture.levels[0]
    assert picture.levels[-1] < picture.domain[1]


def test_alone_the_cell_tells_nothing_of_the_others():
    picture = ruler(normal(4, 4), qv.Scheme("int4"), (2, 1)).alone()
    assert (len(picture.values), picture.selected, picture.histogram) == (1, 0, None)
    assert picture.values[0] == normal(4, 4)[2, 1].item()


def test_values_that_are_not_finite_are_left_out():
    x = normal(4, 4)
    x[0, 1], x[2, 2] = torch.inf, torch.nan
    r = qv.quantize(x, qv.Scheme("int4", nonfinite="ignore"))
    picture = ruler_of_result(r, qv.explain(r, (3, 0)))
    assert len(picture.values) == 14
    assert picture.values[picture.selected] == x[3, 0].item()
    assert ruler_of_result(r, qv.explain(r, (0, 1))).selected == -1


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1.0, 1e30, 1.5e38])
def test_any_size_of_values(scale):
    x = torch.tensor([[scale, -scale / 3, 0.0]])
    for cell in ((0, 0), (0, 1), (0, 2)):
        picture = ruler(x, qv.Scheme("int8"), cell)
        assert np.isfinite(picture.domain).all()
        assert picture.domain[0] < picture.domain[1]
        assert np.isfinite(picture.levels).all()


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1), (2, 3, 4), (2, 2, 2, 2)])
def test_any_number_of_axes(shape):
    cell = tuple(n - 1 for n in shape)
    picture = ruler(normal(*shape), qv.Scheme("int3", "asymmetric"), cell)
    assert picture.values[picture.selected] == normal(*shape)[cell].item()


def test_of_zeros_there_is_a_ruler():
    scheme = qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    picture = ruler(torch.zeros(1, 32), scheme, (0, 0))
    assert picture.levels.tolist() == [0.0]
    assert picture.histogram is None
    assert picture.domain == (-0.5, 0.5)


@pytest.mark.parametrize(
    "granularity", [qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(64, axis=1)], ids=lambda each: each.id
)
def test_a_large_tensor_has_the_histogram_of_the_cells_block(granularity):
    x = normal(MOST_WHOLE // 512 + 1, 512)
    scheme, cell = qv.Scheme("int4", granularity=granularity), (7, 70)
    study = Study.of(InMemory(x), scheme)
    assert study.result is None
    picture = ruler_of_cell(study, study.explain(cell))
    whole = ruler(x, scheme, cell)
    assert (len(picture.values), picture.values[0]) == (1, x[cell].item())
    assert picture.histogram.counts.sum() == study.layout.size_of(study.explain(cell).block)
    assert picture.levels.tolist() == whole.levels.tolist()
    assert picture.range == whole.range
    assert picture.domain == whole.domain


def test_what_the_script_is_told():
    picture = ruler(normal(4, 4), qv.Scheme("int4"), (2, 1))
    header, arrays = picture.for_script({"colors": {}}, "A ruler.", movable=True)
    assert arrays["picture.values"] is picture.values
    assert arrays["picture.clipped"] is picture.clipped
    assert arrays["picture.levels"] is picture.levels
    assert arrays["picture.histogram.counts"] is picture.histogram.counts
    shown = json.loads(json.dumps(header))["picture"]
    assert shown["histogram"] == {}, "its arrays have a place"
    assert shown["handles"] == {"range": False, "value": True}
    assert shown["words"] == {"label": "A ruler."}
    assert header["settings"] == {"colors": {}}


def test_a_curve_is_told_with_it():
    study = Study.of_result(qv.quantize(normal(4, 4), qv.Scheme("int4")))
    picture = ruler_of_cell(study, study.explain((1, 1)))
    header, arrays = replace(picture, curve=range_curve(study, 8)).for_script({}, "A ruler.")
    assert header["picture"]["curve"] == {"now": None}
    assert [arrays[f"picture.curve.{name}"].size for name in ("at", "rounding", "clipping")] == [8, 8, 8]


# ---- in words -----------------------------------------------------------------------------------


def sentence(x, scheme, cell, language="en"):
    r = qv.quantize(x, scheme)
    why = qv.explain(r, cell)
    return ruler_sentence(why, ruler_of_result(r, why), r.qparams, language)


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_told(name, language):
    scenario = SCENARIOS[name]
    told = sentence(scenario.source.tensor(), scenario.scheme, scenario.cell, language)
    assert "{" not in told
    assert "nan" not in told
    assert "inf" not in told


def test_the_sentence_says_what_became_of_the_cell():
    given = qv.Scheme("int4", calibration=qv.Given(0.5))
    assert "nearest grid value x̂ = 0.5, code 1; the error is −0.1" in sentence([[0.6]], given, (0, 0))
    assert "no error" in sentence([[0.5]], given, (0, 0))
    assert "clipped to its end, x̂ = 3.5, code 7" in sentence([[9.0]], given, (0, 0))
    down = given.replace(convention=given.arithmetic.replace(ties="truncate"))
    assert "not the nearest" in sentence([[0.9]], down, (0, 0))
    assert "65536 codes, −32768 to 32767" in sentence([[0.9, 2.0]], qv.Scheme("int16"), (0, 0))
    assert "to 1.27e40" in sentence([[1e38]], qv.Scheme("int8", calibration=qv.Given(1e38)), (0, 0))
