"""Conventions are data: what they hold, how they are changed, and that each offers something of its own."""

import dataclasses
import itertools

import pytest
import torch

import quantviz as qv
from quantviz.schemes.arithmetic import PURPOSES, Offer
from quantviz.schemes.conventions import CHOICES, CONVENTION_GROUPS, FIELDS, Convention
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import GRANULARITIES
from quantviz.text import catalogue, languages
from tests.helpers.offered import offered_schemes

EVERY = pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=qv.CONVENTIONS)


@EVERY
def test_a_convention_keeps_the_contract(convention):
    # What `problems` asks; it takes those that have a name at their word.
    assert [*convention._unknown(), *convention._lacking()] == list(convention.problems()) == []
    assert all(convention.get(name) in allowed for name, allowed in CHOICES.items())
    assert hash(convention) == hash(dataclasses.replace(convention))
    assert convention.differences(convention) == {}
    for language in languages():
        assert all(
            catalogue(language)[f"conventions.{convention.id}.{field}"].strip() for field in ("name", "help")
        )


@EVERY
def test_what_is_offered_exists_and_can_be_used(convention):
    offer = convention.offer
    assert set(offer.formats) <= set(FORMATS)
    assert set(offer.modes) <= set(qv.MODES)
    assert set(offer.granularities) <= set(GRANULARITIES)
    assert all(size > 0 for size in offer.sizes)
    assert {format_id for format_id, _ in offer.format_sizes} <= set(offer.formats or FORMATS)
    assert all(sizes and set(sizes) <= set(offer.sizes) for _, sizes in offer.format_sizes)
    assert offer.usual_size >= 0
    assert not offer.sizes or offer.usual_size in (0, *offer.sizes)
    used = list(offered_schemes(convention))
    assert {scheme.format for scheme in used} == set(offer.formats or FORMATS)
    assert {scheme.granularity.id for scheme in used} == set(offer.granularities or GRANULARITIES)
    if offer.modes:
        assert {scheme.mode for scheme in used} == set(offer.modes)


def test_every_convention_says_what_it_is_for():
    assert tuple(CONVENTION_GROUPS) == PURPOSES
    assert sorted(name for group in CONVENTION_GROUPS.values() for name in group) == sorted(qv.CONVENTIONS)
    assert all(group for group in CONVENTION_GROUPS.values())
    for convention in qv.CONVENTIONS.values():
        assert convention.purpose in PURPOSES
        assert all(each == each.strip() != "" for each in convention.known_as)


def test_the_notebooks_offer_everything():
    assert qv.CONVENTIONS["course"].offer == Offer()


def test_no_two_conventions_are_the_same():
    for one, other in itertools.combinations(qv.CONVENTIONS.values(), 2):
        assert one.differences(other) or one.offer != other.offer, (one.id, other.id)


def test_differences_are_told_both_ways():
    one, other = qv.CONVENTIONS["torch"], qv.CONVENTIONS["gguf"]
    told = one.differences(other)
    assert {name: (b, a) for name, (a, b) in told.items()} == other.differences(one)
    assert one.replace(**{name: b for name, (_, b) in told.items()}).differences(other) == {}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tie": "even"}, "convention_unknown_field"),
        ({"scale.flor": 0.1}, "convention_unknown_field"),
        ({"id": "mine"}, "convention_unknown_field"),
        ({"offer": Offer()}, "convention_unknown_field"),
        ({"ties": "odd"}, "convention_bad_value"),
        ({"narrow_range": 1}, "convention_bad_value"),
        ({"scale.floor": -1.0}, "convention_bad_value"),
        ({"scale.floor": float("inf")}, "convention_bad_value"),
        ({"scale_bits": 0}, "convention_bad_value"),
        ({"seed": True}, "convention_bad_value"),
        ({"lattice": 0.5}, "convention_bad_value"),
        # Equal to what stands there, and yet no value of the field.
        ({"lattice": False}, "convention_bad_value"),
        ({"zero_bits": 0.0}, "convention_bad_value"),
        ({"narrow_range": 0}, "convention_bad_value"),
    ],
)
def test_a_change_that_is_none_is_refused(changes, key):
    with pytest.raises(qv.QuantVizError) as caught:
        qv.CONVENTIONS["course"].replace(**changes)
    assert caught.value.key == key
    assert all(caught.value.message(language) for language in languages())


def test_every_field_has_a_name_and_a_default():
    course = Convention("course")
    assert len(set(FIELDS)) == len(FIELDS)
    assert set(CHOICES) <= set(FIELDS)
    assert all(course.get(name) in allowed for name, allowed in CHOICES.items())


@pytest.mark.parametrize(
    "name", [name for name, convention in qv.CONVENTIONS.items() if convention.tail != "refuse"]
)
def test_blocks_that_do_not_fill_up_are_as_the_tail_says(name):
    """A short block is a block alone; a padded one has zeros; tiles may be short where groups may not."""
    tail = qv.CONVENTIONS[name].tail
    x = torch.randn(3, 300, generator=torch.Generator().manual_seed(0)) + 3
    tried = 0
    for scheme in offered_schemes(qv.CONVENTIONS[name]):
        tiles = isinstance(scheme.granularity, qv.PerBlock)
        if not tiles and getattr(scheme.granularity, "size", None) is None:
            continue
        problems = scheme.problems((3, 300))
        if tail == "short_tiles" and not tiles:
            assert [problem.key for problem in problems] == ["group_does_not_divide"]
            continue
        assert problems == ()
        r = qv.quantize(x, scheme)
        assert torch.isfinite(r.x_hat).all()
        assert r.layout.tail != "refuse"
        assert qv.explain(r, (2, 299)).x_hat == r.x_hat[2, 299].item()
        if (
            isinstance(scheme.granularity, qv.PerGroup)
            and tail == "short"
            and not scheme.arithmetic.tail_divides
            and scheme.arithmetic.scale.global_rule is None
        ):
            rest = 300 % scheme.granularity.size
            alone = qv.quantize(x[:, -rest:], scheme)
            assert torch.equal(alone.q, r.q[:, -rest:])
        tried += 1
    assert tried
