"""The multiple-choice knapsack problem: one choice a group, the least cost within a budget of bits.

The linear relaxation along each group's convex hull gives a bound and the price of a bit; a choice whose
reduced cost reaches the gap is in no better solution (Pisinger, "A minimal algorithm for the multiple-choice
knapsack problem", 1995). The groups nearest to a change are then enumerated as Pareto states of bits and
cost. Up to `CORE` groups all of them are; of more, the gap bounds the saving left in the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

#: Most groups that are enumerated.
CORE = 64
#: Most states of one list, those with the smallest bounds: two lists pair to 2^34 solutions.
MOST_STATES = 1 << 17
#: Most states that are made in all: well under a second of work.
MOST_MADE = 3 << 21
#: Bound of the bits of all groups together: sums fit into int64.
MOST_BITS = 1 << 61
#: Rounding of a sum of costs, as a share of the largest of them.
_ROUNDING = 2.0**-48


@dataclass(frozen=True, eq=False)
class Solution:
    """One choice for each group.

    Attributes:
        picks: The index of each group's choice, shape (groups,).
        gap: By how much another solution could undercut the cost at most, in the unit of costs: 0 where the
            cost is proven to be the least, up to the rounding of float64 sums.
        price: The cost that one more bit saves in the linear relaxation.
    """

    picks: Array
    gap: float
    price: float


@dataclass(frozen=True, eq=False)
class HullSteps:
    """The way along the convex hulls of all groups, from the fewest bits to the least cost.

    Steps are sorted by their saving a bit, so that each prefix of them is the cheapest solution of its
    size.

    Attributes:
        start: The choice of fewest bits of each group, shape (groups,).
        group: The group of each step, shape (steps,).
        target: The choice that a step takes.
        bits: The bits that it adds, above 0.
        saved: The cost that it saves, above 0.
        slope: The cost that it saves a bit, never rising.
    """

    start: Array
    group: Array
    target: Array
    bits: Array
    saved: Array
    slope: Array

    def picks(self, count: int) -> Array:
        """Return the choice of each group after the first `count` steps, shape (groups,)."""
        picks = self.start.copy()
        # Where a group has several steps, the last one is assigned last.
        picks[self.group[:count]] = self.target[:count]
        return picks


def hull_steps(bits: Array, cost: Array) -> HullSteps:
    """Return the steps along the lower convex hull of each group's choices.

    Args:
        bits: Whole numbers, shape (groups, choices), int64.
        cost: Shape (groups, choices), float64; inf where a group has no such choice.

    >>> steps = hull_steps(np.array([[2, 4, 8], [2, 3, 9]]), np.array([[9.0, 4.0, 3.0], [5.0, 4.5, 1.0]]))
    >>> steps.start.tolist(), steps.group.tolist(), steps.target.tolist()
    ([0, 0], [0, 1, 0], [1, 2, 2])
    """
    there = np.isfinite(cost)
    rows = np.arange(len(bits))
    fewest = np.where(there, bits, MOST_BITS).min(axis=1)
    start = np.where(there & (bits == fewest[:, None]), cost, np.inf).argmin(axis=1)
    at = start
    last = np.full(len(bits), np.inf)
    found = []
    while len(rows):
        more = bits[rows] - bits[rows, at][:, None]
        saved = cost[rows, at][:, None] - cost[rows]
        ahead = there[rows] & (more > 0) & (saved > 0)
        slope = np.divide(saved, more, out=np.zeros_like(saved), where=ahead)
        steepest = slope.max(axis=1)
        # Of equally steep choices the nearest one: the smaller the steps, the closer the start of the search.
        target = np.where(ahead & (slope == steepest[:, None]), more, MOST_BITS).argmin(axis=1)
        rows, at, last, more, saved = (each[steepest > 0] for each in (rows, target, last, more, saved))
        # A hull is convex; rounding alone could make a later step the steeper one.
        last = np.minimum(last, steepest[steepest > 0])
        each = np.arange(len(rows))
        found.append((rows, at, more[each, at], saved[each, at], last))
    group, target, more, saved, slope = (np.concatenate([level[i] for level in found]) for i in range(5))
    # A stable sort keeps the steps of a group in turn.
    order = np.argsort(-slope, kind="stable")
    return HullSteps(start, group[order], target[order], more[order], saved[order], slope[order])


def solve(bits: Array, cost: Array, budget: int) -> Solution:
    """Return the cheapest choice for each group whose bits add up to at most `budget`.

    Of more than `CORE` groups, and where the states to enumerate are more than `MOST_STATES`, the solution is
    the cheapest one found, and its `gap` bounds its distance to the optimum.

    Args:
        bits: Whole numbers, shape (groups, choices), int64, all together below `MOST_BITS`.
        cost: Shape (groups, choices), float64; inf where a group has no such choice, and each has one.
        budget: In bits; at least the sum of the fewest bits of each group.

    >>> bits = np.array([[2, 4, 8], [2, 3, 9]])
    >>> cost = np.array([[9.0, 4.0, 3.0], [5.0, 4.5, 1.0]])
    >>> solve(bits, cost, 7).picks.tolist(), solve(bits, cost, 11).picks.tolist()
    ([1, 1], [2, 1])
    """
    cost = _undominated(bits, cost)
    search = _KnapsackSearch(bits, cost, budget)
    # In each round the remaining numbers are smaller, and so more exact, which may rule out more.
    while (np.isfinite(cost) & ~search.near).any():
        cost = np.where(search.near, cost, np.inf)
        search = _KnapsackSearch(bits, cost, budget)
    search.run()
    return Solution(search.picks, search.gap, search.price)


def _undominated(bits: Array, cost: Array) -> Array:
    """Return costs with inf for each choice that another of its group undercuts in bits and cost."""
    order = np.lexsort((cost, np.where(np.isfinite(cost), bits, MOST_BITS)), axis=1)
    ordered = np.take_along_axis(cost, order, axis=1)
    before = np.minimum.accumulate(ordered, axis=1)[:, :-1]
    ordered[:, 1:][ordered[:, 1:] >= before] = np.inf
    found = np.empty_like(cost)
    np.put_along_axis(found, order, ordered, axis=1)
    return found


class _KnapsackSearch:
    """The search of one solution. Its `picks` are the best found so far.

    The value of a solution is its cost beyond the relaxation's bound: the reduced costs of its choices, and
    the price of each bit that it leaves unused. Both are at least 0, so that either can rule a state out.
    """

    def __init__(self, bits: Array, cost: Array, budget: int) -> None:
        rows = np.arange(len(bits))
        there = np.isfinite(cost)
        fewest = np.where(there, bits, MOST_BITS).min(axis=1)
        slack = min(budget - sum(fewest.tolist()), MOST_BITS)
        bits = bits - fewest[:, None]
        # Choices that no solution has room for would only lower the bound.
        there &= bits <= slack
        bits = np.where(there, bits, 0)
        self._divisor = max(int(np.gcd.reduce(bits, axis=None)), 1)
        self._bits = bits // self._divisor
        self._slack = slack // self._divisor
        # Costs beyond the group's least, all within [0, 2], and the power of two that they are in.
        _, self._unit = math.frexp(np.abs(cost[there]).max())
        cost = np.where(there, np.ldexp(cost, -self._unit), np.inf)
        self._cost = cost - cost.min(axis=1)[:, None]

        self._steps = hull_steps(self._bits, self._cost)
        reach = np.cumsum(self._steps.bits)
        self._taken = int(np.searchsorted(reach, self._slack, side="right"))
        self._base = self._steps.picks(self._taken)
        #: The bits that the base leaves unused, and the price of each.
        self._room = self._slack - (int(reach[self._taken - 1]) if self._taken else 0)
        self._price = float(self._steps.slope[self._taken]) if self._taken < len(reach) else 0.0
        self._more = self._bits - self._bits[rows, self._base][:, None]
        beyond = self._cost - self._cost[rows, self._base][:, None]
        self._reduced = np.maximum(beyond + self._price * self._more, 0.0)
        self._reduced[rows, self._base] = 0.0
        #: The best solution, and its cost beyond the bound.
        self.picks = self._improved(self._base)
        self._excess = float(self._reduced[rows, self.picks].sum())
        self._excess += self._price * (self._room - int(self._more[rows, self.picks].sum()))
        rounding = _ROUNDING * (np.abs(beyond) + self._price * np.abs(self._more))
        #: Whether a choice may be part of a better solution.
        self.near = there & (self._reduced <= self._excess + rounding + rounding[rows, self.picks].sum())
        self._noise = float(rounding[self.near].max())
        #: Costs that differ by less are equal.
        self._grain = max(self._noise / 16, math.ulp(0.0))
        #: The least excess of a solution that was not looked at.
        self._unseen = math.inf

    @property
    def gap(self) -> float:
        """Return the most by which a solution that was not searched could be cheaper, in units of cost."""
        gap = self._excess - self._unseen
        return math.ldexp(gap, self._unit) if gap > self._noise else 0.0

    @property
    def price(self) -> float:
        return math.ldexp(self._price, self._unit) / self._divisor

    def run(self) -> None:
        rows = np.arange(len(self._bits))
        others = self._reduced.copy()
        others[rows, self._base] = np.inf
        #: The reduced cost of each group's nearest other choice.
        nearest = others.min(axis=1)
        order = np.argsort(nearest, kind="stable")
        free = np.ones((2, len(self._steps.group)), bool)
        lists = (_States(), _States())
        total = 0
        for place, group in enumerate(order.tolist()):
            if nearest[group] >= self._excess - self._noise:
                break
            if place == CORE or total > MOST_MADE:
                self._unseen = min(self._unseen, float(nearest[group]))
                break
            smaller = int(len(lists[1].bits) < len(lists[0].bits))
            free[smaller] &= self._steps.group != group
            total += self._extend(lists[smaller], group, free[smaller])
            if not len(lists[smaller].bits):
                # Nothing is left that could be cheaper.
                break
            self._pair(*lists)
        # Sums of large and small costs are rounded: remaining savings of single groups are taken.
        self.picks = self._improved(self.picks)

    def _improved(self, picks: Array) -> Array:
        """Return a solution with the changes of one group that fit and save most, until none is left."""
        picks, rows = picks.copy(), np.arange(len(picks))
        room = self._slack - int(self._bits[rows, picks].sum())
        more = self._bits - self._bits[rows, picks][:, None]
        saved = self._cost[rows, picks][:, None] - self._cost
        while True:
            found = np.where(more <= room, saved, -1.0)
            group, choice = divmod(int(found.argmax()), found.shape[1])
            if found[group, choice] <= 0:
                return picks
            room -= int(more[group, choice])
            picks[group] = choice
            more[group] -= more[group, choice]
            saved[group] -= saved[group, choice]

    def _extend(self, states: _States, group: int, outside: Array) -> int:
        """Add a group's choices to states that have none of `outside`, and return the number of states
        made.
        """
        limit = self._excess - self._noise
        choices = np.flatnonzero(self._reduced[group] < limit)
        bits = (states.bits[:, None] + self._more[group, choices]).ravel()
        excess = (states.excess[:, None] + self._reduced[group, choices]).ravel()
        bound = excess + np.interp(self._room - bits, *self._bound_of(outside), left=np.inf)
        kept = np.flatnonzero(bound < limit)
        kept = kept[np.argsort(bits[kept], kind="stable")]
        # Fewer bits at no more cost: no later state needs one that such a state precedes.
        spent = np.floor((excess[kept] - self._price * bits[kept]) / self._grain)
        kept = kept[spent < np.concatenate([[np.inf], np.minimum.accumulate(spent)[:-1]])]
        if len(kept) > MOST_STATES:
            order = np.argpartition(bound[kept], MOST_STATES)
            self._unseen = min(self._unseen, float(bound[kept[order[MOST_STATES]]]))
            kept = kept[np.sort(order[:MOST_STATES])]
        states.keep(group, bits[kept], excess[kept], kept // len(choices), choices[kept % len(choices)])
        return len(bits)

    def _pair(self, some: _States, others: _States) -> None:
        """Complete each state by the cheapest one of the other list that fits, and keep the best."""
        room = self._room - some.bits
        at = np.searchsorted(others.bits, room, side="right") - 1
        excess = some.excess + others.excess[at] + self._price * (room - others.bits[at])
        excess[at < 0] = np.inf
        best = int(excess.argmin())
        if excess[best] < self._excess:
            self._excess = float(excess[best])
            self.picks = others.picks(int(at[best]), some.picks(best, self._base))

    def _bound_of(self, outside: Array) -> tuple[Array, Array]:
        """Return the least cost beyond the bound of the groups whose steps are `outside`, by the bits they
        have.

        This is the linear relaxation of those groups: points of a convex function, infinite below the first.
        """
        steps = self._steps
        price = self._price
        back = np.flatnonzero(outside[: self._taken])[::-1]
        on = np.flatnonzero(outside[self._taken :]) + self._taken
        below = np.cumsum(steps.bits[back])
        above = np.cumsum(steps.bits[on])
        below_cost = np.cumsum((steps.slope[back] - price) * steps.bits[back])
        above_cost = np.cumsum((price - steps.slope[on]) * steps.bits[on])
        last, last_cost = (above[-1], above_cost[-1]) if len(above) else (0, 0.0)
        far = float(last) + float(MOST_BITS)
        return (
            np.concatenate([-below[::-1], [0], above, [far]]),
            np.concatenate([below_cost[::-1], [0.0], above_cost, [last_cost + price * MOST_BITS]]),
        )


class _States:
    """Choices for some of the groups: none is at once as small and as cheap as another one."""

    def __init__(self) -> None:
        #: Bits beyond those of the base, ascending, and reduced costs.
        self.bits = np.zeros(1, np.int64)
        self.excess = np.zeros(1)
        self._history: list[tuple[int, Array, Array]] = []

    def keep(self, group: int, bits: Array, excess: Array, parent: Array, choice: Array) -> None:
        """Take states that add a choice of `group` each to the state before them at `parent`."""
        self.bits = bits
        self.excess = excess
        self._history.append((group, parent.astype(np.int32), choice.astype(np.int16)))

    def picks(self, place: int, base: Array) -> Array:
        """Return the choice of each group in the state at `place`; of groups without one that of `base`."""
        picks = base.copy()
        for group, parent, choice in reversed(self._history):
            picks[group] = choice[place]
            place = int(parent[place])
        return picks
