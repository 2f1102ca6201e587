"""What the front door plays with is what its words say."""

import math

import pytest

import quantviz as qv
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.ui.home.page import TOYS


def test_the_doors_have_the_toys_size_as_the_metrics_count_it():
    for toy in TOYS.values():
        cells = math.prod(toy.source.shape)
        for scheme, (before, after) in zip(toy.schemes, toy.sizes(), strict=True):
            assert before == 4 * cells
            assert after == pytest.approx(bits_per_element(scheme, toy.source.shape) * cells / 8)


def test_the_toys_show_what_they_are_there_for():
    picture, row = TOYS["picture"], TOYS["row"]
    assert picture.source.tensor().max() == 255
    exact = qv.quantize(picture.source.tensor(), picture.schemes[-1])
    assert not exact.error.any(), "with 8 bits the picture is the original"
    assert len(qv.quantize(picture.source.tensor(), qv.Scheme("uint3")).x_hat.unique()) == 8
    result = qv.quantize(row.source.tensor(), qv.Scheme("int4"))
    assert int((result.x_hat == 0).sum()) == 25, "the hint in the Lab says so"
    grouped = qv.quantize(row.source.tensor(), qv.Scheme("int4", granularity=qv.PerGroup(8)))
    assert int((grouped.x_hat == 0).sum()) < 10
