"""Which of several schemes is best: held against the reference, one quantization each."""

import pytest
import torch

import quantviz as qv
from quantviz.analysis.better_schemes import LEAST_GAIN_DB, best_of, gain_db, worth_db
from quantviz.analysis.recipe_ranking import best_within, recipe_rows
from quantviz.sources import Builtin


def test_what_cannot_be_used_is_not_chosen():
    x = torch.ones(3, 5)
    unfit, fit = qv.Scheme("int4", granularity=qv.PerGroup(2)), qv.Scheme("int4")
    assert best_of(x, [unfit]) is None
    assert best_of(x, [unfit, fit]).scheme == fit


def test_a_gain_too_small_to_be_read_is_none():
    assert gain_db(20.0, 20.0) == 0
    assert gain_db(20.0, 20.0 - LEAST_GAIN_DB / 2) == 0
    assert gain_db(20.0, 17.0) == 3
    assert gain_db(20.0, float("inf")) == 0


def test_more_bits_are_better_only_where_they_beat_finer_steps():
    x = Builtin("real_weight").tensor()
    rows, tiles = (qv.Scheme("int4", granularity=each) for each in (qv.PerChannel(0), qv.PerBlock(4, 4)))
    sqnr = {scheme: qv.metrics(qv.quantize(x, scheme))["sqnr_db"] for scheme in (rows, tiles)}
    assert 0 < sqnr[tiles] - sqnr[rows] < worth_db(0, -1)
    assert best_of(x, [rows, tiles]).scheme == rows
    assert best_of(x, [rows, tiles], now_db=sqnr[rows]).scheme == tiles, "rows bring nothing then"
    assert best_of(x, [rows], now_db=sqnr[rows]) is None


@pytest.mark.parametrize("bits", [1, 3, 4, 8])
def test_the_best_recipe_within_some_bits(bits):
    rows = recipe_rows(Builtin("loud_column").tensor(), current=qv.Scheme("int4"))
    within = [row for row in rows if row.fits and qv.RECIPES[row.id].number_format.bits <= bits]
    best = best_within(rows, bits)
    assert best in within
    assert best.sqnr_db == max(row.sqnr_db for row in within)


def test_of_a_large_tensor_some_rows_may_be_measured():
    x = torch.randn(400, 64, generator=torch.Generator().manual_seed(2))
    schemes = [qv.Scheme("int4", granularity=each) for each in (qv.PerChannel(0), qv.PerChannel(1))]
    part, whole = (best_of(x, schemes, cells=cells) for cells in (4096, None))
    assert part.share < 0.2
    assert whole.share == 1
    assert part.scheme == whole.scheme
    assert part.sqnr_db != whole.sqnr_db == pytest.approx(part.sqnr_db, abs=0.3)
    assert best_of(x, []) is None
