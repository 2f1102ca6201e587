"""The multiple-choice knapsack: never above the budget, as cheap as brute force and as HiGHS find it."""

import itertools
import math
from unittest import mock

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantviz.checkpoints.allocation import knapsack
from quantviz.checkpoints.allocation.knapsack import hull_steps, solve

COSTS = st.one_of(
    st.floats(0, 10),
    st.integers(0, 3).map(float),
    st.integers(-30, 30).map(lambda power: 10.0**power),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e300]),
)


@st.composite
def instances(draw):
    groups, choices = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    most = draw(st.sampled_from([1, 4, 1000, 10**12]))
    bits = [[draw(st.integers(0, most)) for _ in range(choices)] for _ in range(groups)]
    cost = [[draw(COSTS) for _ in range(choices)] for _ in range(groups)]
    for row in cost:
        # All but one may be no choice of their group.
        for at in draw(st.sets(st.integers(1, max(choices - 1, 1)), max_size=choices - 1)):
            row[at] = math.inf
    bits, cost = np.array(bits), np.array(cost)
    fewest = int(np.where(np.isfinite(cost), bits, 10**15).min(axis=1).sum())
    return bits, cost, fewest + draw(st.integers(0, 2 * most))


@given(instances())
@settings(max_examples=300, deadline=None)
def test_it_is_as_cheap_as_the_cheapest_of_all(instance):
    bits, cost, budget = instance
    found = solve(bits, cost, budget)
    rows = range(len(bits))
    assert sum(int(bits[row, found.picks[row]]) for row in rows) <= budget
    least = min(
        math.fsum(cost[row, pick] for row, pick in zip(rows, picks, strict=True))
        for picks in itertools.product(range(bits.shape[1]), repeat=len(bits))
        if sum(int(bits[row, pick]) for row, pick in zip(rows, picks, strict=True)) <= budget
    )
    assert math.fsum(cost[row, found.picks[row]] for row in rows) <= least * (1 + 1e-13)
    assert found.gap == 0


@given(instances(), st.sampled_from([{"MOST_MADE": -1}, {"CORE": 1}, {"MOST_STATES": 1}]))
@settings(max_examples=150, deadline=None)
def test_where_the_search_is_cut_the_least_is_within_the_gap(instance, limits):
    bits, cost, budget = instance
    with mock.patch.multiple(knapsack, **limits):
        found = solve(bits, cost, budget)
    least = solve(bits, cost, budget)
    rows = np.arange(len(bits))
    reached, lowest = (math.fsum(cost[rows, each.picks].tolist()) for each in (found, least))
    assert bits[rows, found.picks].sum() <= budget
    assert reached * (1 - 1e-13) <= lowest + found.gap


@pytest.mark.parametrize("groups", [12, knapsack.CORE])
@pytest.mark.parametrize("kind", ["a model", "costs nearly equal", "costs that follow bits", "any costs"])
def test_up_to_64_tensors_are_solved_to_the_end(kind, groups):
    """As cheap as a table of the cheapest choices of each sum of bits."""
    made = np.random.default_rng(groups)
    bits = made.choice([1, 4, 11], groups)[:, None] * np.array([33, 42, 55, 72, 100, 136])
    cost = {
        "a model": made.lognormal(0, 0.5, (groups, 1)) * 10 ** (-bits / bits.max(axis=1)[:, None] * 4),
        "costs nearly equal": 10 ** (-np.arange(6) / 2 + made.normal(0, 0.005, (groups, 6))),
        "costs that follow bits": bits.max() - bits + made.random((groups, 6)),
        "any costs": made.random((groups, 6)),
    }[kind]
    least, rows = np.zeros(1), np.arange(groups)
    for own, costs in zip(bits, cost, strict=True):
        after = np.full(len(least) + own.max(), np.inf)
        for step, value in zip(own.tolist(), costs.tolist(), strict=True):
            there = after[step : step + len(least)]
            np.minimum(there, least + value, out=there)
        least = after
    fewest, most = int(bits.min(axis=1).sum()), int(bits.max(axis=1).sum())
    for share in (0.1, 0.5, 0.8):
        budget = fewest + int((most - fewest) * share)
        found = solve(bits, cost, budget)
        assert bits[rows, found.picks].sum() <= budget
        assert found.gap == 0
        assert math.isclose(cost[rows, found.picks].sum(), least[: budget + 1].min(), rel_tol=1e-12)


def test_more_tensors_with_nearly_the_same_errors_have_a_small_gap():
    bits, cost = model(291, 2, spread_db=0.05, decades=0)
    found = solve(bits, cost, int(bits[:, 4].sum()) + 12_345_678)
    reached = cost[np.arange(291), found.picks].sum()
    # The search was cut. Of a thousand such tensors with all choices looked at 0.0014 dB was the most.
    assert 0 < -10 * math.log10(1 - found.gap / reached) < 0.005


def model(groups, seed, spread_db=1.0, decades=0.5):
    """Sizes and errors as a model's tensors have them under twelve recipes of 2 to 8.5 bits."""
    made = np.random.default_rng(seed)
    per_weight = np.array([2.0625, 2.625, 3.0625, 3.4375, 4.25, 4.5, 5.0, 5.5, 6.25, 6.5625, 8.25, 8.5])
    sizes = made.choice([2048 * 512, 2048 * 2048, 2048 * 5632], groups)
    bits = (sizes[:, None] * per_weight).astype(np.int64)
    db = 6.02 * per_weight - 4 + made.normal(0, spread_db, (groups, 12))
    return bits, made.lognormal(0, decades, (groups, 1)) * 10 ** (-db / 10)


def highs(bits, cost, budget):
    """HiGHS' solution, in a unit of bits in which its tolerance is less than one of them."""
    groups, choices = bits.shape
    count = groups * choices
    unit = int(np.gcd.reduce(bits, axis=None))
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count, groups + 1
    # Costs in a unit in which HiGHS' tolerances, which are absolute, tell the last digits apart.
    program.col_cost_ = cost.ravel() * (1e6 / cost.max())
    program.col_lower_, program.col_upper_ = np.zeros(count), np.ones(count)
    program.row_lower_ = np.append(np.ones(groups), -highspy.kHighsInf)
    program.row_upper_ = np.append(np.ones(groups), budget // unit + 0.5)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.append(np.arange(groups + 1) * choices, 2 * count)
    program.a_matrix_.index_ = np.tile(np.arange(count), 2)
    program.a_matrix_.value_ = np.append(np.ones(count), bits.ravel() // unit)
    program.integrality_ = [highspy.HighsVarType.kInteger] * count
    solver = highspy.Highs()
    for name, value in {"output_flag": False, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}.items():
        solver.setOptionValue(name, value)
    solver.passModel(program)
    solver.run()
    return np.array(solver.getSolution().col_value).reshape(groups, choices).argmax(axis=1)


def test_it_is_as_cheap_as_highs_on_a_thousand_tensors():
    bits, cost = model(1000, 0)
    rows = np.arange(1000)
    fewest, most = int(bits.min(axis=1).sum()), int(bits.max(axis=1).sum())
    budget = fewest + (most - fewest) // 10
    found, theirs = solve(bits, cost, budget), highs(bits, cost, budget)
    assert bits[rows, theirs].sum() <= budget
    assert bits[rows, found.picks].sum() <= budget
    assert found.gap == 0
    assert math.isclose(cost[rows, found.picks].sum(), cost[rows, theirs].sum(), rel_tol=1e-9)


def test_each_prefix_of_the_hull_is_the_cheapest_of_its_size():
    bits, cost = model(5, 1)
    steps = hull_steps(bits, cost)
    rows = np.arange(5)
    assert (np.diff(steps.slope) <= 0).all()
    for count in range(len(steps.bits) + 1):
        picks = steps.picks(count)
        found = solve(bits, cost, int(bits[rows, picks].sum()))
        assert math.isclose(cost[rows, found.picks].sum(), cost[rows, picks].sum(), rel_tol=1e-13)


def test_what_is_looked_at_grows_in_proportion_to_the_groups():
    """A bound is made of the kinds of steps that other groups have, not of all their steps."""

    def looked_at(count):
        _, cost = model(1, 0)
        bits, _ = model(count, 0)
        seen = []
        bound_of = knapsack._KnapsackSearch._bound_of

        def counted(search, outside):
            seen.append(len(outside))
            return bound_of(search, outside)

        fewest, most = int(bits.min(axis=1).sum()), int(bits.max(axis=1).sum())
        with mock.patch.object(knapsack._KnapsackSearch, "_bound_of", counted):
            found = solve(bits, np.repeat(cost, count, axis=0), fewest + (most - fewest) * 2 // 5)
        assert found.gap < 1e-3 * cost[0, found.picks].sum()
        return sum(seen)

    once = looked_at(400)
    assert 0 < looked_at(800) < 2.4 * once
