"""Weight error against size: of the allocation at every size, and of one recipe for all tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.checkpoints.allocation.allocating import total
from quantviz.checkpoints.allocation.choices import Choices, choices_of
from quantviz.checkpoints.allocation.knapsack import Array, hull_steps
from quantviz.checkpoints.allocation.offers import Sensitivities, Table
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.public_calls import public

if TYPE_CHECKING:
    import pandas

MOST_POINTS = 200


@dataclass(frozen=True)
class FrontierPoint:
    """One size.

    Attributes:
        recipe: The recipe that all tensors have; none where each has its own.
        bits: Bits of the chosen recipes.
        bits_per_weight: Of the whole model, with the tensors that stay as stored; None without shapes.
        cost: The cost.
        sqnr_db: The SQNR that the cost comes to; NaN where the table has costs of its own.
    """

    recipe: str | None
    bits: int
    bits_per_weight: float | None
    cost: float
    sqnr_db: float

    def record(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Frontier:
    """The smallest weight error at each size, by bits.

    Attributes:
        points: Some of the sizes at which the cheapest choice is known without a search; each is the least
            cost of its size.
        uniform: Every recipe that all tensors can have, given to all of them; those that are pinned keep
            theirs.
    """

    points: tuple[FrontierPoint, ...]
    uniform: tuple[FrontierPoint, ...]

    def table(self) -> pandas.DataFrame:
        """Return both as a `pandas.DataFrame`: a row a point, `recipe` None on the frontier.

        Raises:
            QuantVizError: pandas is not installed.
        """
        rows = [point.record() for point in (*self.points, *self.uniform)]
        frame: pandas.DataFrame = load_pandas().DataFrame(rows)
        return frame


@public
def allocation_frontier(
    table: Table,
    *,
    pinned: Mapping[str, str] | None = None,
    tied: str | Iterable[Sequence[str]] | None = None,
    fused: str | Iterable[Sequence[str]] | None = None,
    excluded: str | Iterable[str] = (),
    sensitivities: Sensitivities = None,
) -> Frontier:
    """Return the smallest weight error at each size; the arguments are those of `allocate`.

    >>> table = {"tensor": ["a", "a", "b", "b"], "recipe": ["int4", "int8", "int4", "int8"],
    ...          "bits": [400, 800, 40, 80], "cost": [0.5, 0.25, 0.25, 0.125]}
    >>> found = allocation_frontier(table)
    >>> [(point.bits, point.cost) for point in found.points]
    [(440, 0.75), (480, 0.625), (880, 0.375)]
    >>> [(point.recipe, point.bits) for point in found.uniform]
    [('int4', 440), ('int8', 880)]
    """
    return frontier_of(
        choices_of(
            table, pinned=pinned, tied=tied, fused=fused, excluded=excluded, sensitivities=sensitivities
        )
    )


def frontier_of(choices: Choices) -> Frontier:
    finite: Array = choices.there & np.isfinite(choices.cost)
    # A group all of whose costs are infinite has one all the same.
    some = np.logical_or.reduce(finite, axis=1, keepdims=True)
    there = np.where(some, finite, choices.there)
    steps = hull_steps(choices.bits, np.where(there, np.where(finite, choices.cost, 0.0), np.inf))
    count = len(steps.bits)
    counts = np.unique(np.linspace(0, count, min(count + 1, MOST_POINTS)).astype(np.int64)).tolist()
    uniform = [
        (recipe, picks)
        for at, recipe in enumerate(choices.recipes)
        if (picks := _uniform(choices, at)) is not None
    ]
    return Frontier(
        _points(choices, [(None, steps.picks(taken)) for taken in counts]), _points(choices, uniform)
    )


def _uniform(choices: Choices, at: int) -> Array | None:
    """Return the recipe `at` for each group, or the only one that it can have; None where some lack it."""
    alone = choices.there.sum(axis=1) == 1
    has: Array = choices.there[:, at]
    if not (has | alone).all() or not has.any():
        return None
    picks: Array = np.where(has, at, choices.there.argmax(axis=1))
    return picks


def _points(choices: Choices, picked: Sequence[tuple[str | None, Array]]) -> tuple[FrontierPoint, ...]:
    rows = np.arange(len(choices.groups))
    weights = choices.all_weights
    bits = [sum(choices.bits[rows, picks].tolist()) for _, picks in picked]
    costs = [total(choices.cost[rows, picks]) for _, picks in picked]
    return tuple(
        FrontierPoint(
            recipe, size, None if weights is None else (size + choices.kept_bits) / weights, cost, sqnr_db
        )
        for (recipe, _), size, cost, sqnr_db in zip(picked, bits, costs, choices.sqnr_db(costs), strict=True)
    )
