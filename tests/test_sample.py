"""The fixed samples that tests take of their combinations."""

import itertools

import pytest

from tests.helpers.sample import ALL, sample_of

COMBINATIONS = list(itertools.product(range(5), "abcd", (False, True), range(6)))


@pytest.fixture(autouse=True)
def a_usual_run(monkeypatch):
    monkeypatch.delenv(ALL, raising=False)


def pairs(items):
    return set(itertools.chain.from_iterable(itertools.combinations(enumerate(item), 2) for item in items))


def test_two_values_of_each_choice_meet_in_as_many_as_the_longest_two_have():
    assert pairs(sample_of(COMBINATIONS, 30)) == pairs(COMBINATIONS)
    assert pairs(COMBINATIONS[:30]) < pairs(COMBINATIONS)


def test_each_value_occurs_as_soon_as_it_can():
    taken = sample_of(COMBINATIONS, 6)
    assert [len(set(values)) for values in zip(*taken, strict=True)] == [5, 4, 2, 6]


@pytest.mark.parametrize("items", [COMBINATIONS, range(400), "abc"])
def test_it_is_the_same_every_time_in_order_without_repeats(items):
    taken = sample_of(items, 20)
    assert taken == sample_of(items, 20)
    places = [list(items).index(item) for item in taken]
    assert places == sorted(set(places))
    assert len(taken) == min(20, len(items))


def test_a_run_of_all_takes_all(monkeypatch):
    monkeypatch.setenv(ALL, "1")
    assert sample_of(COMBINATIONS, 2) == COMBINATIONS
