"""Quantization golf: what a try costs, what par is, and what a link keeps."""

from urllib.parse import quote

import pytest

import quantviz as qv
from quantviz.analysis.recipe_ranking import RecipeRow
from quantviz.schemes.recipes import RECIPES
from quantviz.teaching.golf import (
    BUDGET,
    HOLES,
    LONGEST,
    TEE,
    GolfRound,
    HoleResults,
    best_of,
    counts,
    price,
    recipes_within,
    score,
    total,
)
from tests.helpers.sample import sample_of

BELL = HOLES["bell"]


def scheme(form):
    return qv.Scheme.parse(form)


def test_what_takes_exactly_the_budget_counts_and_a_second_level_is_over_it():
    groups, two_levels = RECIPES["int4_g32"], RECIPES["nvfp4"]
    assert price(BELL, groups) == BUDGET
    assert price(BELL, two_levels) == BUDGET + 32 / 2**16
    x = BELL.source.tensor()
    tried = [score(x, each) for each in (groups, two_levels)]
    assert [row.bits for row in tried] == [price(BELL, groups), price(BELL, two_levels)]
    assert [counts(row) for row in tried] == [True, False]
    assert best_of(tried) is tried[0], "though it has the larger error"
    assert tried[1].sqnr_db > tried[0].sqnr_db


@pytest.mark.parametrize("hole", sample_of(HOLES.values(), 2), ids=lambda hole: hole.id)
def test_par_is_the_best_of_all_recipes_within_the_budget(hole):
    x, best = hole.source.tensor(), -1.0
    for recipe in RECIPES.values():
        if recipe.search:
            continue
        m = qv.metrics(qv.quantize(x, recipe))
        if m["effective_bits"] <= BUDGET:
            best = max(best, m["sqnr_db"])
    now = HoleResults(hole, recipes_within(x))
    assert now.par.sqnr_db == pytest.approx(best, abs=1e-5)  # sums of kernels, within 1e-6
    assert now.score is None


#: A scheme that beats par, and by how many dB at least: what is special about a tensor is worth finding.
WINNERS = {
    "bell": ("nf4,symmetric,per_group(size=32),mse,course", 0.4),
    "columns": ("nf4,symmetric,per_group(size=32,axis=0),mse,course", 1.0),
    "positive": ("uint4,symmetric,per_group(size=32),mse,course", 1.5),
    "tails": ("float4_e2m1fn,symmetric,per_group(size=16),mse,torchao_nvfp4(scale.global_rule=none)", 0.3),
    "heaps": ("uint4,asymmetric,per_group(size=64),mse,hqq", 0.8),
}


def test_each_hole_has_a_winner_of_its_own():
    assert WINNERS.keys() == HOLES.keys()
    assert len({form for form, _ in WINNERS.values()}) == len(HOLES)


@pytest.mark.parametrize("name", sample_of(WINNERS, 1))
def test_par_can_be_beaten(name):
    form, least = WINNERS[name]
    x = HOLES[name].source.tensor()
    now = HoleResults(HOLES[name], recipes_within(x), (score(x, scheme(form)), score(x, TEE)))
    assert now.best is now.tries[0]
    assert now.score is not None
    assert now.score > least
    untried = HoleResults(now.hole, now.recipes)
    assert total([now, untried, now]) == pytest.approx(2 * now.score)


def test_a_hole_is_large_enough_to_be_priced_at_its_own_size():
    for hole in HOLES.values():
        assert hole.source.shape[0] * hole.source.shape[1] >= 2**16
        assert not hole.source.shape[0] % 256


def test_who_ties_with_par_has_a_score_of_zero():
    rows = tuple(RecipeRow(str(i), TEE, bits=4.0, sqnr_db=db) for i, db in enumerate((20.0, 20.004, 19.0)))
    now = HoleResults(BELL, rows[:1], rows[1:])
    assert now.best is rows[1]
    assert now.score == 0


# ---- links ------------------------------------------------------------------------------------------


def test_a_round_comes_back_from_its_link():
    played = GolfRound()
    for name, (form, _) in WINNERS.items():
        played = played.at(name).with_try(TEE).with_try(scheme(form))
    assert GolfRound.read(played.written()) == (played, ())
    full = {"hole": "tails", "tails": "~".join(map(str, played.tries["tails"]))}
    assert GolfRound.read(full)[0].here == played.tries["tails"], (
        "the text forms of the Lab's links are as good"
    )
    assert GolfRound.read({"lang": "zh"}) == (GolfRound(), ())


@pytest.mark.parametrize(
    ("params", "keys", "kept"),
    [
        ({"hole": "moon", "bell": "int4"}, ["golf.unknown_hole"], {"bell": 1}),
        ({"bell": "int4~int9~nf4"}, ["golf.link_try"], {"bell": 2}),
        ({"bell": "int4,,per_group(size=7)~int4"}, ["golf.link_try"], {"bell": 1}),
        ({"bell": "~~int4~int4~"}, [], {"bell": 1}),
        ({"bell": "int4,,,,course(scale_bits=1)", "heaps": "int4"}, ["golf.link_try"], {"heaps": 1}),
        ({"bell": "nf4,,,,bitsandbytes(code_bits=1.0)"}, ["golf.link_try"], {}),
        ({"bell": "int8,,per_group(size=32),,gguf(code_bits=1.625)"}, ["golf.link_try"], {}),
        ({"bell": "ternary,,per_group(size=256),,gguf(code_bits=1.625)"}, [], {"bell": 1}),
        ({"bell": "int4," * LONGEST}, ["golf.link_too_long"], {}),
        ({"bell": "int4,,,,,,,,~<script>~é"}, ["golf.link_try"] * 3, {}),
    ],
)
def test_what_a_link_cannot_have_is_named_and_the_rest_kept(params, keys, kept):
    played, wrong = GolfRound.read(params)
    assert [problem.key for problem in wrong] == keys
    assert {name: len(tries) for name, tries in played.tries.items() if tries} == kept
    for problem in wrong:
        assert problem.message("en") != problem.message("zh")


def test_a_link_stays_short_and_keeps_each_best_try():
    played, best = GolfRound("columns"), scheme("int4,symmetric,per_channel,min_max,course")
    played = played.with_try(best)
    for name in HOLES:
        played = played.at(name)
        for p in range(51, 100):
            played = played.with_try(
                scheme(f"int4,symmetric,per_group(size=32),percentile(p={p}.5),course"), [best]
            )
    link = "&".join(f"{name}={quote(value, safe='')}" for name, value in played.written().items())
    assert LONGEST - 100 < len(link) <= LONGEST
    assert best in played.tries["columns"]
    assert played.here[-1].calibration == qv.Percentile(99.5), "the newest stays"
    assert played.without_tries().here == ()
    assert played.without_tries().tries["bell"] == played.tries["bell"]
