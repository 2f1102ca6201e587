"""Conventions compared: what agrees, where any two differ, and that the rule that is named is the rule that
it was.
"""

import dataclasses
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.analysis.engine_comparison import compare, difference, in_effect, rules, ulps, why

#: Numbers of two decimals, as people type them.
TYPED = torch.tensor([[((37 * i) % 201 - 100) / 100 for i in range(64)]])
GIVEN = qv.Scheme("int8", "asymmetric", calibration=qv.Given(0.02, 3))
COURSE = qv.CONVENTIONS["course"]
#: Schemes that several engines offer, of every kind of number format.
OFFERED = [
    qv.Scheme("int8"),
    qv.Scheme("int8", "asymmetric", qv.PerChannel(0)),
    GIVEN,
    qv.Scheme("int4", granularity=qv.PerGroup(32)),
    qv.Scheme("uint4", "asymmetric", qv.PerGroup(32)),
    qv.Scheme("float8_e4m3fn", granularity=qv.PerGroup(32)),
    qv.Scheme("float4_e2m1fn", granularity=qv.PerGroup(32)),
]


def tensor(seed=0, shape=(4, 64)):
    """Two-decimal values, with a few that are large."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    x[0, :3] *= 20
    return torch.round(x * 100) / 100


@pytest.mark.parametrize("scheme", OFFERED, ids=str)
def test_masks_and_groups_are_those_of_the_results_pair_by_pair(scheme):
    found = compare(tensor(), scheme)
    codes, values = (
        torch.zeros(found.lit.shape, dtype=torch.bool),
        torch.zeros(found.lit.shape, dtype=torch.bool),
    )
    group_of = {name: group for group in found.groups for name in group}
    assert list(found.results) == sorted(found.results, key=list(qv.CONVENTIONS).index)
    for (a, one), (b, other) in itertools.combinations(found.results.items(), 2):
        codes |= one.q != other.q
        values |= one.x_hat != other.x_hat
        agree = torch.equal(one.q, other.q) and torch.equal(one.x_hat, other.x_hat)
        assert (group_of[a] == group_of[b]) == agree
    assert len(found.groups) > 1
    assert torch.equal(found.codes_differ, codes)
    assert torch.equal(found.values_differ, values)
    assert torch.equal(found.lit, codes | values)
    assert sorted(group_of) == sorted(found.results)


@pytest.mark.parametrize("scheme", OFFERED, ids=str)
def test_who_does_not_take_part_says_why(scheme):
    found = compare(tensor(), scheme)
    assert {*found.results, *found.refused} == set(qv.CONVENTIONS)
    for name, result in found.results.items():
        assert result.scheme == scheme.replace(convention=name)
    for name, problem in found.refused.items():
        assert problem.key == (refusal(scheme, name) or "comparison.zero_domain")


def refusal(scheme, name):
    try:
        qv.quantize(tensor(), scheme.replace(convention=name))
    except qv.QuantVizError as problem:
        return problem.key
    return None


def test_a_zero_point_by_hand_is_not_read_as_another_kind_of_number():
    domains = [COURSE.replace(zero_domain=domain) for domain in ("code_float", "value", "value_middle")]
    found = compare(TYPED, GIVEN, ["course", *domains])
    assert list(found.results) == ["course", str(domains[0])]
    assert [problem.key for problem in found.refused.values()] == ["comparison.zero_domain"] * 2
    assert not compare(TYPED, GIVEN.replace(calibration=qv.MinMax()), domains).refused


def test_typed_numbers_part_where_they_tie():
    found = compare(TYPED, GIVEN, ["course", "torch", "torchao", "onnxruntime", "litert"])
    assert found.groups == (("course", "litert"), ("torch",), ("torchao",), ("onnxruntime",))
    x = tensor(shape=(64, 64))
    apart = difference(*(qv.quantize(x, GIVEN.replace(convention=name)) for name in ("course", "torchao")))
    assert 0.39 <= apart.codes.float().mean() <= 0.45
    assert apart.largest_steps == pytest.approx(1, abs=1e-4)
    for index in torch.nonzero(found.codes_differ)[:10].tolist():
        other = next(
            name
            for name in ("torch", "torchao", "onnxruntime")
            if found.results[name].q[tuple(index)] != found.results["course"].q[tuple(index)]
        )
        reason = why(found, "course", other, index)
        assert list(reason.fields) == ["order"]
        assert reason.tie
        assert reason.ties == ("even", "even")
        assert any(number % 1 == 0.5 for number in reason.before_rounding)


def test_on_continuous_data_without_ties_they_agree():
    found = compare(torch.randn(64, 64, generator=torch.Generator().manual_seed(1)), GIVEN)
    assert len(found.groups) == 1
    assert not bool(found.lit.any())


#: A change of one rule, and a tensor and a scheme in which it shows.
RULES = [
    ("order", "divide_round_add", TYPED, GIVEN),
    ("ties", "away", TYPED, GIVEN),
    ("scale.rule", "absmax_over_half_range", TYPED, qv.Scheme("int4")),
    ("scale.rule", "power_of_two_ceil", TYPED, qv.Scheme("float8_e4m3fn")),
    ("zero_in_range", True, TYPED + 3, qv.Scheme("int8", "asymmetric")),
    (
        "zero_point_rule",
        "low_minus_rounded",
        torch.tensor([[-2.5, 251.5, 3.0]]),
        qv.Scheme("int8", "asymmetric", convention=COURSE.replace(narrow_range=True)),
    ),
    ("zero_point_clamp", False, TYPED + 30, qv.Scheme("int8", "asymmetric")),
    ("zero_domain", "value", TYPED, qv.Scheme("uint4", "asymmetric")),
    ("scale.format", "float16", TYPED, qv.Scheme("int8")),
    (
        "narrow_range",
        True,
        torch.tensor([[-1.0, 0.99, 0.3]]),
        qv.Scheme("int4", convention=COURSE.replace(**{"scale.rule": "absmax_over_half_range"})),
    ),
    ("scale.floor", 0.5, TYPED, qv.Scheme("int8")),
    ("negative_zero", "never", TYPED, qv.Scheme("float4_e2m1fn")),
    ("value_dtype", "float16", TYPED, qv.Scheme("int8")),
]


@pytest.mark.parametrize(
    ("field", "value", "x", "scheme"), RULES, ids=[f"{field}={value}" for field, value, *_ in RULES]
)
def test_a_pair_that_differs_in_one_rule_is_told_apart_by_it(field, value, x, scheme):
    own, other = scheme.arithmetic, scheme.arithmetic.replace(**{field: value})
    found = compare(x, scheme, [own, other])
    told = rules(found, str(own), str(other))
    assert [dict(rule.fields) for rule in told] == [{field: (own.get(field), value)}]
    assert torch.equal(told[0].cells, found.lit)
    assert bool(found.lit.any())
    reason = why(found, str(own), str(other), tuple(torch.nonzero(found.lit)[0].tolist()))
    assert dict(reason.fields) == {field: (own.get(field), value)}
    assert reason.what == ("code" if reason.one.q != reason.other.q else "value")


def test_the_rule_that_matters_is_found_among_many_that_do_not():
    own = COURSE.replace(
        ties="away", scale_bits=8, zero_bits=8, **{"scale.floor": 1e-30, "scale.floor_rule": "one_below"}
    )
    found = compare(TYPED, GIVEN, ["course", own])
    assert {tuple(rule.fields) for rule in rules(found, "course", str(own))} == {("ties",)}


def test_rules_that_only_matter_together_are_named_together():
    own = COURSE.replace(**{"scale.floor": 0.5, "scale.floor_rule": "one_below"})
    told = rules(compare(TYPED, qv.Scheme("int8"), ["course", own]), "course", str(own))
    # Where either scale makes the code 0, the floor is enough.
    assert {tuple(rule.fields) for rule in told} == {("scale.floor", "scale.floor_rule"), ("scale.floor",)}


def test_an_engine_that_gets_no_numbers_says_so():
    found = compare(
        TYPED,
        qv.Scheme("float8_e4m3fn", calibration=qv.ManualRange(-0.5, 0.5)),
        ["course", COURSE.replace(overflow="nan")],
    )
    assert {name: problem.key for name, problem in found.refused.items()} == {
        "course(overflow=nan)": "value_beyond_float32"
    }
    assert list(found.results) == ["course"]


def replaced(result, other, fields):
    """A result with those rules of another, computed by the whole of `quantize`."""
    mine, theirs = in_effect(result.scheme), in_effect(other.scheme)
    convention = mine.arithmetic.replace(**{name: theirs.arithmetic.get(name) for name in fields})
    return qv.quantize(result.x, mine.replace(convention=convention), strict=True)


def turned(one, other, instead):
    return torch.where(one.q != other.q, instead.q == other.q, instead.x_hat == other.x_hat)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(OFFERED), st.integers(0, 100), st.data())
def test_the_named_rules_turn_one_engines_cells_into_the_others(scheme, seed, data):
    found = compare(tensor(seed, (2, 32)), scheme)
    a, b = data.draw(st.lists(st.sampled_from(list(found.results)), min_size=2, max_size=2, unique=True))
    one, other = found.results[a], found.results[b]
    apart, told = difference(one, other), rules(found, a, b)
    # Every cell that differs has exactly one set of rules.
    assert torch.equal(
        sum((rule.cells.int() for rule in told), torch.zeros(one.shape, dtype=torch.int32)),
        apart.either.int(),
    )
    for rule in told:
        assert bool(turned(one, other, replaced(one, other, rule.fields))[rule.cells].all())
        differing = in_effect(one.scheme).arithmetic.differences(in_effect(other.scheme).arithmetic)
        assert all(differing[name] == values for name, values in rule.fields.items())
    if told:
        index = tuple(data.draw(st.sampled_from(torch.nonzero(apart.either).tolist())))
        reason = why(found, a, b, index)
        assert bool(turned(one, other, replaced(one, other, reason.fields))[index])
        # None of them can be left out.
        for name in reason.fields:
            fewer = [other_name for other_name in reason.fields if other_name != name]
            try:
                assert not fewer or not bool(turned(one, other, replaced(one, other, fewer))[index])
            except qv.QuantVizError:  # what is left is no arithmetic
                continue
        assert (reason.one, reason.other) == (qv.explain(one, index), qv.explain(other, index))
        assert reason.lines[0] != reason.lines[1]


def test_asking_for_a_few_cells_asks_for_those_whose_codes_differ():
    found = compare(tensor(), qv.Scheme("int4"), ["course", "torchao"])
    whole, few = rules(found, "course", "torchao"), rules(found, "course", "torchao", most=3)
    assert sum(int(rule.cells.sum()) for rule in few) == 3 < sum(int(rule.cells.sum()) for rule in whole)
    assert bool(found.codes_differ[few[0].cells].all())


def test_what_does_not_differ_has_no_reason():
    found = compare(TYPED, GIVEN, ["course", "litert"])
    assert rules(found, "course", "litert") == ()
    with pytest.raises(qv.QuantVizError) as caught:
        why(found, "course", "litert", (0, 0))
    assert caught.value.key == "comparison.same"
    with pytest.raises(qv.QuantVizError) as caught:
        why(found, "course", "torch", (0, 0))
    assert caught.value.key == "comparison.unknown"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(0, 5))
def test_ulps_count_float32_numbers(value, steps):
    start = torch.tensor([value])
    end = start
    for _ in range(steps):
        end = torch.nextafter(end, torch.tensor(torch.inf))
    if bool(torch.isfinite(end)):
        assert ulps(start, end).item() == steps


def test_a_comparison_cannot_be_changed():
    found = compare(TYPED, GIVEN, ["course"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.groups = ()
    with pytest.raises(TypeError):
        found.results["course"] = None
