"""Fixed samples of long lists of combinations, which every run takes; `-m all` takes all of them."""

from __future__ import annotations

import heapq
import itertools
import os
import random
from collections.abc import Hashable, Iterable
from typing import TypeVar

#: Set to 1 for all processes of a run that takes every combination.
ALL = "QUANTVIZ_TEST_ALL"
_T = TypeVar("_T")


def sample_of(items: Iterable[_T], count: int) -> list[_T]:
    """Return `count` of the items, the same in every run, in their order.

    Of tuples, each stands for the pairs of values in it: the next one taken has the most pairs that none
    before it has. So two choices that fail only together are met early. Others are drawn evenly.
    """
    listed = list(items)
    if os.environ.get(ALL) == "1" or len(listed) <= count:
        return listed
    order = random.Random(0).sample(range(len(listed)), len(listed))
    if not all(isinstance(item, tuple) for item in listed):
        return [listed[place] for place in sorted(order[:count])]
    return [listed[place] for place in sorted(_pairwise([_pairs(item) for item in listed], order, count))]


def _pairs(item: tuple[object, ...]) -> frozenset[Hashable]:
    """Return the values of a combination, each with its place, alone and two by two."""
    values = [(place, repr(value)) for place, value in enumerate(item)]
    return frozenset([*values, *itertools.combinations(values, 2)])


def _pairwise(pairs: list[frozenset[Hashable]], order: list[int], count: int) -> list[int]:
    """Return the places of `count` combinations, each with the most pairs that are new."""
    # What an item adds only falls as others are taken: one is weighed again when its turn comes.
    waiting = [(-len(pairs[place]), turn, place) for turn, place in enumerate(order)]
    heapq.heapify(waiting)
    met: set[Hashable] = set()
    taken: list[int] = []
    while len(taken) < count:
        _, turn, place = heapq.heappop(waiting)
        new = len(pairs[place] - met)
        if waiting and -new > waiting[0][0]:
            heapq.heappush(waiting, (-new, turn, place))
            continue
        met |= pairs[place]
        taken.append(place)
    return taken
