"""What another range or finer scales bring: held against the reference, one quantization each."""

import pytest
import torch

import quantviz as qv
from quantviz.analysis.better_schemes import LEAST_GAIN_DB, PERCENTILES, best_of, gain_db, ranges_to_try
from quantviz.analysis.recipe_ranking import best_within, recipe_rows
from quantviz.sources import Builtin


def sqnr(x, scheme):
    return qv.metrics(qv.quantize(x, scheme))["sqnr_db"]


@pytest.mark.parametrize("form", ["int4", "int8", "int2"])
def test_the_best_range_is_the_one_of_the_highest_sqnr(form):
    x, scheme = Builtin("loud_column").tensor(), qv.Scheme(form)
    tried = {str(each): sqnr(x, each) for each in ranges_to_try(scheme)}
    assert len(tried) == len(PERCENTILES)
    found = best_of(x, ranges_to_try(scheme))
    assert found.sqnr_db == pytest.approx(max(tried.values()), rel=1e-12)
    assert tried[str(found.scheme)] == pytest.approx(found.sqnr_db, rel=1e-12)


def test_a_range_set_by_hand_is_tried_against_all_values_too():
    scheme = qv.Scheme("int8", "asymmetric", calibration=qv.Given(3.5, -70))
    assert qv.MinMax() in [each.calibration for each in ranges_to_try(scheme)]
    x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184.0], [0.0, 684.6, 245.5]])
    assert best_of(x, ranges_to_try(scheme)).sqnr_db >= sqnr(x, scheme.replace(calibration=qv.MinMax()))
    assert sqnr(x, scheme.replace(calibration=qv.MinMax())) > sqnr(x, scheme) + 15


def test_what_cannot_be_used_is_not_chosen():
    x = torch.ones(3, 5)
    unfit, fit = qv.Scheme("int4", granularity=qv.PerGroup(2)), qv.Scheme("int4")
    assert best_of(x, [unfit]) is None
    assert best_of(x, [unfit, fit]).scheme == fit


def test_a_gain_too_small_to_be_read_is_none():
    found = best_of(Builtin("loud_column").tensor(), [qv.Scheme("int8")])
    assert gain_db(found, found.sqnr_db) == 0
    assert gain_db(found, found.sqnr_db - LEAST_GAIN_DB / 2) == 0
    assert gain_db(found, found.sqnr_db - 3) == pytest.approx(3)
    assert gain_db(found, float("inf")) == 0


@pytest.mark.parametrize("bits", [1, 3, 4, 8])
def test_the_best_recipe_within_some_bits(bits):
    rows = recipe_rows(Builtin("loud_column").tensor(), current=qv.Scheme("int4"))
    within = [row for row in rows if row.fits and qv.RECIPES[row.id].number_format.bits <= bits]
    best = best_within(rows, bits)
    assert best in within
    assert best.sqnr_db == max(row.sqnr_db for row in within)
