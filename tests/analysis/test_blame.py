"""Who is to blame: what is planted is found, whatever the scheme, and no other set is better."""

import itertools
import math

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis import study
from quantviz.analysis.blame import LEAST_WORTH_DB, blame, culprits
from quantviz.analysis.block_costs import block_costs
from quantviz.analysis.counterfactuals import Counterfactuals, LeftOut, Rotated, decibels
from quantviz.analysis.touched_blocks import TouchedBlocks
from quantviz.streaming.measuring import measure
from quantviz.tensors.lazy import InMemory
from tests.helpers.drawn import normal

COLUMNS = qv.PerChannel(1)
#: Recipes in which a block's codes depend on the values of other blocks.
GLOBAL = ("nvfp4", "nvfp4_four_over_six", "ternary_absmean", "binary_absmean", "openvino_fq_weights")


def planted(columns, factor=30.0, shape=(12, 64), seed=0):
    """A normal tensor, some columns of which are equally loud: their cells are of one size."""
    x = normal(*shape, seed=seed)
    x[:, list(columns)] = factor * x[:, list(columns)].sign()
    return x


SCHEMES = {
    "tensor": qv.Scheme("int4"),
    "row": qv.Scheme("int4", "asymmetric", qv.PerChannel(0)),
    "groups": qv.Scheme("int4", granularity=qv.PerGroup(32)),
    "float": qv.RECIPES["mxint4"],
    "percentile": qv.Scheme("int3", granularity=qv.PerChannel(0), calibration=qv.Percentile(90.0)),
}


@pytest.mark.parametrize("name", ["tensor", "row", "groups", "float"])
@pytest.mark.parametrize("columns", [(5,), (5, 9, 20, 31)])
def test_planted_columns_are_found_whole_under_every_scheme(name, columns):
    x = planted(columns)
    found = blame(x, SCHEMES[name], COLUMNS, trials=60)
    assert found.choice.numbers == columns
    assert found.choice.rest_after_db > found.choice.rest_before_db + 3
    assert found.worth_db > LEAST_WORTH_DB
    # They are told first, though equal ones cost nothing by themselves, and none of them suffers most.
    assert tuple(sorted(each.number for each in found.suspects[: len(columns)])) == columns
    assert all(each.put_back > 0 for each in found.suspects[: len(columns)])
    if len(columns) > 1 and name != "row":
        # Of an asymmetric row one alone may be on its side.
        assert all(abs(each.caused_share) < 0.01 for each in found.suspects)
    if len(columns) == 1:
        assert found.suspects[0].caused_share > 0.5


def test_taking_out_one_of_four_gains_nothing_and_all_four_much():
    found = blame(planted((5, 9, 20, 31)), SCHEMES["tensor"], COLUMNS, trials=150)
    by_k = {each.k: each for each in found.curve}
    assert by_k[0].whole_db == found.whole_db
    assert by_k[3].whole_db < found.whole_db + 1 < by_k[4].whole_db - 2
    whole = [each.whole_db for each in found.curve]
    assert whole == sorted(whole)


@pytest.mark.parametrize(
    ("name", "seed"), [("tensor", 1), ("row", 2), ("groups", 3), ("percentile", 4), ("tensor", 5), ("row", 6)]
)
def test_no_set_of_few_columns_is_better_by_a_tenth_of_a_decibel(name, seed):
    """Against all sets, on random tensors and on planted ones whose parts differ in loudness."""
    columns, most = 12 if seed == 1 else 8, 3
    scheme = SCHEMES[name]
    if name == "groups":
        scheme = scheme.replace(granularity=qv.PerGroup(4))
    x = normal(6, columns, seed=seed)
    x *= 1 if seed > 4 else (normal(columns, seed=seed).abs() + 0.1).reciprocal()
    tried = Counterfactuals(x, scheme, COLUMNS)
    curve = {each.k: each for each in blame(x, scheme, COLUMNS, most=most).curve}
    for k in range(1, most + 1):
        sets = itertools.combinations(range(columns), k)
        best = min(tried.noise_without(each) + tried.kept_noise(each) for each in sets)
        assert curve[k].whole_db >= decibels(tried.signal, best) - 0.1, (k, curve[k].numbers)


def test_ties_within_groups_are_found_where_louder_groups_cost_nothing():
    """Group 0 is equally loud all over, so none of it costs a neighbour anything; in group 1 three are."""
    x = normal(8, 16) * 0.1
    x[:, :8] = 50 * normal(8, 8, seed=1).sign()
    x[:, [9, 11, 14]] = 5 * normal(8, 3, seed=2).sign()
    found = blame(x, qv.Scheme("int4", granularity=qv.PerGroup(8)), COLUMNS, most=3)
    assert found.choice.numbers == found.curve[3].numbers == (9, 11, 14)


def test_numbers_are_those_of_the_reference():
    """Each is a quantization of what is left, or of what is changed."""
    x, kept = planted((5, 9)), (5, 9)
    for scheme in (SCHEMES["row"], SCHEMES["tensor"]):
        rest = torch.cat([x[:, :5], x[:, 6:9], x[:, 10:]], 1)
        tried = Counterfactuals(x, scheme, COLUMNS)
        found = qv.quantize(rest, scheme)
        assert tried.noise_without(kept) == pytest.approx(float(found.error.double().square().sum()))
        now = qv.quantize(x, scheme).error.double().square()
        assert tried.others_noise(kept) == pytest.approx(float(now.sum() - now[:, [5, 9]].sum()))
        assert tried.suffered_by((9,)) == pytest.approx(float(now[:, 9].sum()))
        assert tried.signal_of(kept) == pytest.approx(float(x[:, [5, 9]].double().square().sum()))
    codes = 64 * 12 * 4
    assert tried.kept_bits(kept) * x.numel() == 2 * 12 * (16 - 4) + 2 * 6
    assert tried.bits * x.numel() == codes + 16


def test_remedies_are_what_they_say():
    x = planted((5, 9))
    scheme = SCHEMES["tensor"]
    found = blame(x, scheme, COLUMNS, trials=30)
    by_id = {each.id: each for each in found.remedies}
    assert set(by_id) == {
        "keep", "remove", "clip", "isolate", "own_scale", "finer", "groups", "rotate", "fold"
    }  # fmt: skip
    # One scale for each column: 4-bit kernels add up what columns give before they scale.
    assert {name for name, each in by_id.items() if not each.is_deployable} == {
        "keep", "isolate", "own_scale", "finer"
    }  # fmt: skip
    assert [each.whole_after_db for each in found.remedies] == sorted(
        (each.whole_after_db for each in found.remedies), reverse=True
    )
    assert by_id["keep"].rest_after_db == found.choice.rest_after_db
    assert by_id["keep"].whole_after_db == found.choice.whole_db

    def db(error):
        return decibels(float(x.double().square().sum()), float(error.double().square().sum()))

    for name in ("clip", "finer", "groups"):
        assert by_id[name].whole_after_db == pytest.approx(db(qv.quantize(x, by_id[name].scheme).error))
    assert by_id["keep"].whole_after_db == pytest.approx(db(found.keep(x) - x))
    assert torch.equal(found.keep(x)[:, [5, 9]], x[:, [5, 9]].half().float())
    with pytest.raises(qv.QuantVizError, match=r"shape \(4, 64\)"):
        found.keep(x[:4])
    with pytest.raises(qv.QuantVizError, match="0 to 63"):
        found.keep(x, [64])
    zeroed = x.clone()
    zeroed[:, [5, 9]] = 0
    assert by_id["remove"].whole_after_db == pytest.approx(db(qv.quantize(zeroed, scheme).x_hat - x))
    hadamard = torch.tensor([[1.0]])
    while len(hadamard) < 64:
        hadamard = torch.cat([torch.cat([hadamard, hadamard], 1), torch.cat([hadamard, -hadamard], 1)])
    turned = qv.quantize(x @ hadamard / 8, scheme).error @ hadamard.T / 8
    assert by_id["rotate"].whole_after_db == pytest.approx(db(turned), abs=0.02)
    # AWQ's scaling with all inputs alike, by its formula: w̄ ^ (r − 1), normalized, the best of a grid.
    means = (x.abs() / x.abs().max()).mean(0).clamp(min=1e-4)
    errors = []
    for step in range(20):
        s = means ** (step / 20 - 1)
        s = s / (s.max() * s.min()).sqrt()
        errors.append(qv.quantize(x * s, scheme).x_hat / s - x)
    best = max(map(db, errors))
    assert by_id["fold"].whole_after_db == pytest.approx(best, abs=1e-4)
    assert best > found.whole_db + 5
    assert by_id["fold"].bits_added == 0


def test_awqs_scaling_is_offered_only_where_it_helps():
    """Of columns that are alike no scaling is better, and a row of columns of zeros is no division by 0."""
    alike = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    tried = Counterfactuals(alike, "int4_per_row", COLUMNS)
    assert (tried.folded_noise() or tried.noise) > 0.95 * tried.noise
    loud = planted((5, 9))
    loud[:, 20] = 0
    for recipe in ("int4_g32", "int4_per_row", "q4_0"):
        tried = Counterfactuals(loud, recipe, COLUMNS)
        assert 0 < tried.folded_noise() < tried.noise
    assert Counterfactuals(torch.zeros(4), "int4_per_tensor", qv.Flat(1)).folded_noise() is None


def test_a_planted_cell_is_named_rather_than_its_row_or_column():
    x = normal(32, 32)
    x[3, 7] = 60.0
    for name in ("tensor", "groups"):
        best, *others = culprits(x, SCHEMES[name], trials=60)
        assert best.parts == qv.Flat(1)
        assert best.choice.numbers == (3 * 32 + 7,)
        assert {type(each.parts) for each in others} == {qv.PerChannel}


@pytest.mark.parametrize("recipe", qv.RECIPES)
def test_only_the_blocks_of_what_is_left_out_are_quantized_again(recipe):
    x = normal(32, 256)
    x[3, 7], x[20, 40:60] = 40.0, 9.0
    tried = Counterfactuals(x, recipe, qv.Flat(1))
    touched = TouchedBlocks.of(tried.study)
    if touched is None:
        assert tried.study.layout.block_count == 1 or recipe in GLOBAL
        return
    for places in ([3 * 256 + 7], [5, 700, 701], list(range(20 * 256 + 40, 20 * 256 + 60))):
        without = LeftOut(tried.x, np.array(places))
        expected = measure(without, tried.scheme.replace(nonfinite="ignore"), metrics=("mse",)).moments.e2
        assert touched.noise_without(np.array(places)) == pytest.approx(float(expected), rel=1e-9)
    assert touched.noise_without(np.arange(x.numel())) is None, "most of it is quantized as a whole"


def test_nothing_is_to_blame_where_all_are_alike():
    x = torch.where(normal(16, 16) > 0, 1.0, -1.0) * torch.linspace(0.5, 1.0, 16)
    for found in culprits(x, SCHEMES["tensor"], trials=30):
        assert found.choice is None
        assert (
            {each.numbers for each in found.remedies} <= {(found.costliest.number,)}
            if found.costliest
            else not found.remedies
        )
        assert found.worth_db == 0


def test_of_kinds_that_are_not_worth_their_bits_the_costliest_comes_first():
    x = normal(64, 64)
    x[:, 9] *= 2.0
    found = culprits(x, qv.Scheme("int4", granularity=qv.PerChannel(0)), trials=30)
    assert [each.choice for each in found] == [None] * 3
    assert found[0].parts == COLUMNS
    caused = [each.most_caused for each in found]
    assert caused == sorted(caused, reverse=True)
    assert found[0].suspects[0].number == 9


def test_what_suffers_is_not_what_costs():
    """The loud column's own cells are nearly right; its neighbours pay, and say so in the blocks' table."""
    x = planted((5,), factor=28.0)
    found = blame(x, SCHEMES["groups"], COLUMNS, trials=30)
    loud = found.suspects[0]
    assert (loud.number, loud.suffered_share < 0.01, loud.caused_share > 0.5) == (5, True, True)
    costs = block_costs(x, SCHEMES["groups"])
    assert all(row.loudest == (row.block[0], 5) and row.block[1] == 0 for row in costs.rows[:12])
    assert costs.rows[0].others_after_db > costs.rows[0].others_before_db + 10
    assert sum(row.suffered for row in costs.rows) <= qv.metrics(qv.quantize(x, SCHEMES["groups"]))[
        "mse"
    ] * x.numel() * (1 + 1e-9)
    assert list(costs.table())[:3] == ["block", "index", "loudest"]


def test_nan_is_left_out_or_replaced_as_the_scheme_says():
    x = planted((5,))
    x[0, 0] = math.nan
    for choice in ("ignore", "clip"):
        found = blame(x, SCHEMES["row"].replace(nonfinite=choice), COLUMNS, trials=30)
        assert found.choice.numbers == (5,)
    with pytest.raises(qv.QuantVizError, match="NaN"):
        blame(x, SCHEMES["row"], COLUMNS)


def test_small_and_odd_tensors():
    assert blame([[3.0]], "int4_per_tensor").choice is None
    assert [each.choice for each in culprits([1.0, 2.0, 5.0], "int4_per_tensor")] == [None]
    assert all(each.choice is None for each in culprits(torch.zeros(4, 4), "int4_per_tensor"))
    assert culprits(normal(2, 3, 4), "int4_per_tensor")
    assert len(block_costs([[3.0, 1.0]], "int4_per_tensor").rows) == 1
    with pytest.raises(qv.QuantVizError, match="n must be at least 1"):
        block_costs([[3.0, 1.0], [2.0, 1.0]], "int4_per_row", n=0)
    with pytest.raises(qv.QuantVizError, match="one part"):
        blame([[3.0, 1.0]], "int4_per_tensor", most=0)


def test_values_beyond_float16_are_kept_as_bfloat16():
    found = blame(planted((5,), factor=2.0**20), SCHEMES["row"], COLUMNS, trials=30)
    assert (found.choice.numbers, found.kept_as) == ((5,), "bfloat16")


@pytest.mark.parametrize("name", ["tensor", "row"])
def test_a_large_tensor_is_told_the_same_as_a_small_one(name, monkeypatch):
    """Of a large one there is no result to read anything off."""
    x, small = planted((5, 20)), {}
    for parts in (COLUMNS, qv.Flat(1), qv.PerGroup(16)):
        small[parts] = blame(x, SCHEMES[name], parts, most=4, trials=40)
    costs = block_costs(x, SCHEMES[name])
    monkeypatch.setattr(study, "MOST_WHOLE", 0)
    assert study.Study.of(InMemory(x), SCHEMES[name]).result is None
    for parts, found in small.items():
        own = blame(x, SCHEMES[name], parts, most=4, trials=40)
        assert [each.k for each in own.curve] == [each.k for each in found.curve]
        assert own.curve[2].whole_db == pytest.approx(found.curve[2].whole_db, abs=0.1)
        assert [each.id for each in own.remedies] == [each.id for each in found.remedies]
    assert small[COLUMNS].choice.numbers == (5, 20)
    assert [row.loudest for row in block_costs(x, SCHEMES[name]).rows] == [row.loudest for row in costs.rows]


def test_lazy_tensors_read_what_they_run():
    x = normal(6, 8)
    places = torch.tensor([3, 17, 40]).numpy()
    for made in (LeftOut(InMemory(x), places), Rotated(InMemory(x), 8)):
        whole = torch.from_numpy(made.run(0, 48).copy()).reshape(6, 8)
        assert torch.equal(
            made.read((slice(1, 5), slice(2, 7))).nan_to_num(9.0), whole[1:5, 2:7].nan_to_num(9.0)
        )
        assert torch.equal(
            torch.from_numpy(made.run(11, 30).copy()).nan_to_num(9.0), whole.flatten()[11:30].nan_to_num(9.0)
        )


@pytest.mark.parametrize("scheme", ["row", "groups", "nvfp4", "q4_1", "nf4_64", "percentile"])
def test_the_ways_of_large_tensors_give_the_same_noise(scheme, monkeypatch):
    """Zeros in place of NaN where no scale heeds them, or scales first and then the others' cells."""
    x, scheme = planted((5, 20)), SCHEMES.get(scheme, scheme)
    small = Counterfactuals(x, scheme, COLUMNS)
    monkeypatch.setattr(study, "MOST_WHOLE", 0)
    large = Counterfactuals(x, scheme, COLUMNS)
    ignoring = small.scheme.replace(nonfinite="ignore")
    for kept in ((5,), (5, 20)):
        left = x.clone()
        left[:, list(kept)] = math.nan
        noise = float(qv.quantize(left, ignoring).error.double().square().nansum())
        assert small.noise_without(kept) == pytest.approx(noise)
        assert large.noise_without(kept) == pytest.approx(noise)
        assert large.others_noise(kept) == pytest.approx(small.others_noise(kept))
        assert large.clipped_noise(kept) == pytest.approx(small.clipped_noise(kept))
