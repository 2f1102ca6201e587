"""A recipe for each tensor within a budget of bits: the smallest weight error at this size.

>>> table = {"tensor": ["a", "a", "b", "b"], "recipe": ["int4", "int8", "int4", "int8"],
...          "bits": [400, 800, 40, 80], "cost": [0.01, 0.0001, 0.09, 0.0002]}
>>> found = allocate(table, budget_bits=900)
>>> dict(found.choice), found.bits, found.cost
({'a': 'int8', 'b': 'int8'}, 880, 0.00030000000000000003)
>>> allocate(table, budget_bits=500).choice["b"]
'int8'
>>> allocate(table, budget_bits=439)
Traceback (most recent call last):
...
quantviz.errors.QuantVizError: The budget is below the least possible: got 439 bits; the choices with
the fewest bits take 440. Give at least that, or add recipes of fewer bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from quantviz.checkpoints.allocation.choices import Choices, choices_of
from quantviz.checkpoints.allocation.knapsack import MOST_BITS, Array, solve
from quantviz.checkpoints.allocation.offers import Sensitivities, Table
from quantviz.errors import QuantVizError
from quantviz.public_calls import checked_fields, public_but, public_class


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class Allocation:
    """The smallest weight error at this size, or one within `gap` of it: a recipe for each tensor.

    The error is that of the weights under the error model below; it ranks choices for these weights, and does
    not predict a model's quality.

    Attributes:
        choice: The recipe of each tensor that has one.
        bits: Bits of the chosen recipes in all, at most `budget_bits`; those of tied tensors once.
        cost: Their cost in all, by default Σ α · relative squared error.
        gap: By how much another choice within the budget could undercut the cost at most: 0.0 where the cost
            is proven to be the least, up to the rounding of float64 sums.
        budget_bits: The bits that there were for them.
        kept: The tensors that stay as they are stored, with their bits where those are known.
        kept_dtypes: The dtypes that those are stored in, where they are known.
        price: The cost that one more bit saves at the margin.
    """

    choice: Mapping[str, str]
    bits: int
    cost: float
    gap: float
    budget_bits: int
    kept: Mapping[str, int | None]
    kept_dtypes: Mapping[str, str | None]
    price: float
    choices: Choices = field(repr=False)

    @property
    def is_optimal(self) -> bool:
        """Whether no other choice within the budget is cheaper."""
        return self.gap == 0

    @property
    def gap_db(self) -> float:
        """Return the decibels by which another choice could be better at most: 0.0 where none is."""
        if self.gap == 0:
            return 0.0
        return -10 * math.log10(1 - self.gap / self.cost) if self.gap < self.cost < math.inf else math.inf

    @property
    def bits_per_weight(self) -> float | None:
        """Return the bits a weight of the whole model, with tensors kept as stored; None without shapes."""
        weights = self.choices.all_weights
        return None if weights is None else (self.bits + self.choices.kept_bits) / weights

    @property
    def sqnr_db(self) -> float:
        """Return the SQNR in dB that the cost comes to, over all tensors by α; NaN where costs were given."""
        return self.choices.sqnr_db([self.cost])[0]

    def within(self, budget_bits: int) -> Allocation:
        """Return the allocation of smallest weight error at another size, in bits of the chosen recipes."""
        return allocated(self.choices, budget_bits)

    def with_more(self, bits_per_weight: float = 0.1) -> Allocation:
        """Return the allocation of a budget with 0.1 more bits a weight, or another increase.

        Raises:
            QuantVizError: The shapes are not known.
        """
        weights = self.choices.all_weights
        if weights is None:
            raise QuantVizError("allocate.no_shapes")
        if not math.isfinite(bits_per_weight):
            raise QuantVizError("allocate.budget_not_number", name="bits_per_weight", got=bits_per_weight)
        return self.within(self.budget_bits + math.floor(Fraction(str(bits_per_weight)) * weights))

    def next_change(self) -> Change | None:
        """Return the change of one tensor, or of tensors that change together, that saves the most for each
        bit that it adds; None where no change saves any.
        """
        choices = self.choices
        rows = np.arange(len(choices.groups))
        column = {name: at for at, name in enumerate(choices.recipes)}
        picks = np.array([column[self.choice[group[0]]] for group in choices.groups])
        more = choices.bits - choices.bits[rows, picks][:, None]
        # From one infinite cost to another nothing is saved.
        present = choices.cost[rows, picks][:, None]
        saved = np.subtract(
            present, choices.cost, where=np.isfinite(choices.cost), out=np.zeros_like(choices.cost)
        )
        ahead = choices.there & (more > 0) & (saved > 0)
        if not ahead.any():
            return None
        rate = np.divide(saved, more, where=ahead, out=np.full(saved.shape, -1.0))
        at, pick = divmod(int(rate.argmax()), rate.shape[1])
        return Change(
            choices.groups[at],
            choices.recipes[picks[at]],
            choices.recipes[pick],
            int(more[at, pick]),
            float(saved[at, pick]),
        )

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it: numbers, texts and lists."""
        following = self.next_change()
        return {
            "what": "smallest weight error at this size",
            "cost_is": "sum of alpha * relative squared error, or of the column cost",
            "bits": self.bits,
            "budget_bits": self.budget_bits,
            "bits_per_weight": self.bits_per_weight,
            "cost": self.cost if math.isfinite(self.cost) else None,
            "gap": self.gap if math.isfinite(self.gap) else None,
            "optimal": self.is_optimal,
            "choice": dict(self.choice),
            "kept": dict(self.kept),
            "next": following and following.record(),
        }


@dataclass(frozen=True)
class Change:
    """Another recipe for tensors that change together.

    Attributes:
        tensors: The tensors.
        before: The recipe that they have.
        after: The recipe to take instead.
        bits: The bits that it adds.
        saved: The cost that it saves.
    """

    tensors: tuple[str, ...]
    before: str
    after: str
    bits: int
    saved: float

    def record(self) -> dict[str, Any]:
        saved = self.saved if math.isfinite(self.saved) else None
        return {**vars(self), "tensors": list(self.tensors), "saved": saved}


@public_but("budget_bits", "bits_per_weight", "gigabytes")
def allocate(
    table: Table,
    *,
    budget_bits: int | None = None,
    bits_per_weight: float | None = None,
    gigabytes: float | None = None,
    pinned: Mapping[str, str] | None = None,
    tied: str | Iterable[Sequence[str]] | None = None,
    fused: str | Iterable[Sequence[str]] | None = None,
    excluded: str | Iterable[str] = (),
    sensitivities: Sensitivities = None,
    among: Iterable[str] | None = None,
    files_of: str | None = None,
) -> Allocation:
    """Return the recipe for each tensor with the smallest weight error within a budget of bits.

    Of up to 64 groups of tensors the problem is solved exactly; of more, and where that would take too long,
    `gap` bounds the cost above the optimum that is not ruled out. The budget is never exceeded.

    Give one budget: `budget_bits` for the chosen recipes, in the unit of the column `bits`; `bits_per_weight`
    or `gigabytes` for the whole model, from which the tensors that stay as they are stored take theirs.

    Args:
        table: The result of `qv.scan`, of which rows whose status is not "ok" are no choices. Or any
            `pandas.DataFrame` or columns by name with `tensor, recipe, bits, cost`. Bits are of the whole
            tensor. Without a column `cost` it is 10^(−sqnr_db / 10), the relative squared error.
        budget_bits: The most bits of all chosen recipes together.
        bits_per_weight: The most bits a weight, such as 4.25; needs the column `shape`.
        gigabytes: The most in units of 10⁹ bytes.
        pinned: Recipes that are not to be chosen, by tensor.
        tied: Tensors that are one, such as an embedding that is also the head: they get one recipe, and their
            bits and cost count once, at the cost of the dearest. "content" ties those of the same bytes. By
            default none are: an engine that stores the two once counts them once, a file that has both does
            not.
        fused: Tensors that get one recipe, each with bits and cost of its own. "engine" joins query, key and
            value, and gate and up, by their names: vLLM, SGLang and TensorRT-LLM multiply them in one kernel.
            By default too, unless `files_of` keeps them apart, as llama.cpp does; () joins none.
        excluded: Names, or patterns with `*`, of tensors that stay as they are stored, as do those that no
            recipe fits.
        sensitivities: Weight α of each tensor's error: by name, or the path of a CSV with the columns
            `tensor, alpha`, or of llama.cpp's importance matrix. Tensors that are not in it have weight 1.
            Costs are multiplied by it.
        among: The recipes to choose among; by default all of the table.
        files_of: The engine whose tool's files are counted, such as "vllm", with the dtype of its scales and
            the header. By default bits are the recipes' own.

    Raises:
        QuantVizError: The budget is below the least, which it names; or the table or an argument is unusable.
    """
    choices = choices_of(
        table,
        pinned=pinned,
        tied=tied,
        fused=fused,
        excluded=excluded,
        sensitivities=sensitivities,
        among=among,
        files_of=files_of,
    )
    return allocated(choices, budget_of(choices, budget_bits, bits_per_weight, gigabytes))


def allocated(choices: Choices, budget_bits: int) -> Allocation:
    least = choices.fewest_bits
    if budget_bits < least:
        raise _too_small(choices, budget_bits)
    budget = min(budget_bits, MOST_BITS)
    solution = solve(choices.bits, choices.costs_within(budget), budget)
    rows = np.arange(len(choices.groups))
    names = [choices.recipes[pick] for pick in solution.picks.tolist()]
    by_tensor = {tensor: name for group, name in zip(choices.groups, names, strict=True) for tensor in group}
    return Allocation(
        {tensor: by_tensor[tensor] for tensor in choices.tensors},
        sum(choices.bits[rows, solution.picks].tolist()),
        total(choices.cost[rows, solution.picks]),
        solution.gap,
        budget_bits,
        choices.kept,
        choices.kept_dtypes,
        solution.price,
        choices,
    )


def total(costs: Array) -> float:
    return math.inf if np.isinf(costs).any() else math.fsum(costs.tolist())


def budget_of(
    choices: Choices,
    budget_bits: int | None = None,
    bits_per_weight: float | None = None,
    gigabytes: float | None = None,
) -> int:
    budgets = {"budget_bits": budget_bits, "bits_per_weight": bits_per_weight, "gigabytes": gigabytes}
    named = {name: value for name, value in budgets.items() if value is not None}
    if len(named) != 1:
        raise QuantVizError("allocate.one_budget", got=", ".join(named) or "–", allowed=", ".join(budgets))
    [(name, value)] = named.items()
    try:
        exact = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise QuantVizError("allocate.budget_not_number", name=name, got=value) from None
    if exact < 0 or (name == "budget_bits" and exact.denominator != 1):
        raise QuantVizError("allocate.budget_not_number", name=name, got=value)
    if name == "budget_bits":
        return int(exact)
    if name == "bits_per_weight":
        if choices.all_weights is None:
            raise QuantVizError("allocate.no_shapes")
        whole = exact * choices.all_weights
    else:
        whole = exact * 8 * 10**9
    unknown = [tensor for tensor, stored in choices.kept.items() if stored is None]
    if unknown:
        raise QuantVizError("allocate.unknown_size", tensor=unknown[0])
    return math.floor(whole) - choices.kept_bits


def _too_small(choices: Choices, budget: int) -> QuantVizError:
    least = choices.fewest_bits
    weights = choices.all_weights
    if weights is None:
        return QuantVizError("allocate.too_small", got=budget, least=least)
    model = least + choices.kept_bits
    return QuantVizError(
        "allocate.model_too_small",
        got=budget,
        least=least,
        kept=choices.kept_bits,
        # Rounded up, so that the budget in the message is enough.
        bits_per_weight=math.ceil(model * 10**4 / weights) / 10**4,
        gigabytes=math.ceil(model / 8 / 10**5) / 10**4,
    )
