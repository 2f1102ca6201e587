from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from quantviz.checkpoints.allocation.file_size import as_written
from quantviz.checkpoints.allocation.knapsack import MOST_BITS, Array
from quantviz.checkpoints.allocation.offers import Offers, RecipeOffer, Sensitivities, Table
from quantviz.checkpoints.allocation.sensitivities import alphas
from quantviz.checkpoints.profiles import profile_named
from quantviz.checkpoints.profiles.siblings import fused_groups
from quantviz.errors import QuantVizError


@dataclass(frozen=True, eq=False)
class Choices:
    """Groups of tensors that take one recipe together, with the bits and the cost of each recipe for them.

    Attributes:
        tensors: All tensors that get a recipe, in the order of the table.
        groups: The tensors of each group.
        recipes: The recipes of all groups.
        bits: Bits of a group under a recipe, shape (groups, recipes), int64.
        cost: Cost likewise, float64.
        there: Whether a group can have a recipe, shape (groups, recipes).
        weights: Weights of the groups, those of tied tensors once; None if unknown.
        kept: Bits of the tensors that stay as they are stored; None if unknown.
        kept_dtypes: Their dtypes.
        kept_weights: Their weights.
        alpha: Σ α of the tensors that get a recipe, which the cost is a share of; None where the table has
            costs.
    """

    tensors: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    recipes: tuple[str, ...]
    bits: Array
    cost: Array
    there: Array
    weights: int | None
    kept: Mapping[str, int | None]
    kept_dtypes: Mapping[str, str | None]
    kept_weights: int | None
    alpha: float | None

    @property
    def fewest_bits(self) -> int:
        return sum(np.where(self.there, self.bits, MOST_BITS).min(axis=1).tolist())

    @property
    def all_weights(self) -> int | None:
        """Return the weights of the whole model; None where shapes are unknown."""
        if self.weights is None or self.kept_weights is None:
            return None
        return self.weights + self.kept_weights or None

    def sqnr_db(self, costs: Sequence[float]) -> list[float]:
        """Return costs as SQNR in dB, of the tensors' mean error by α; NaN where the table has costs."""
        if self.alpha is None:
            return [math.nan] * len(costs)
        from quantviz.analysis.source_bounds import sqnr_db

        decibels: list[float] = sqnr_db(self.alpha, costs).tolist()
        return decibels

    def costs_within(self, budget: int) -> Array:
        """Return the solver's costs: inf where a group cannot have a recipe.

        A recipe whose cost is infinite is no choice unless the budget leaves no other; then as few of them as
        can be are taken.
        """
        finite = self.there & np.isfinite(self.cost)
        fewest = np.where(finite, self.bits, MOST_BITS).min(axis=1)
        if sum(fewest.tolist()) <= budget:
            return np.where(finite, self.cost, np.inf)
        least = np.where(finite, self.cost, np.inf).min(axis=1, initial=np.inf)
        beyond = np.where(finite, self.cost - np.where(np.isfinite(least), least, 0.0)[:, None], 0.0)
        # All finite costs together are less than an infinite one.
        scaled = beyond / max(beyond.max() * len(beyond), math.ulp(0.0))
        return np.where(self.there, np.where(finite, scaled, 2.0), np.inf)

    @property
    def kept_bits(self) -> int:
        """Return the bits of the tensors that stay as they are stored, as far as they are known."""
        return sum(bits or 0 for bits in self.kept.values())


def choices_of(
    table: Table,
    *,
    pinned: Mapping[str, str] | None = None,
    tied: str | Iterable[Sequence[str]] | None = None,
    fused: str | Iterable[Sequence[str]] | None = None,
    excluded: str | Iterable[str] = (),
    sensitivities: Sensitivities = None,
    among: Iterable[str] | None = None,
    files_of: str | None = None,
) -> Choices:
    """Return the choices of an allocation; arguments and errors are those of `allocate`."""
    read = Offers.of(table)
    if files_of is not None:
        read = as_written(read, profile_named(files_of))
    names = read.first.keys()
    weigh = alphas(sensitivities, read)
    offers = read.by_tensor(weigh)
    if among is not None:
        wanted = frozenset(among)
        offers = {
            tensor: {recipe: offer for recipe, offer in by_recipe.items() if recipe in wanted}
            for tensor, by_recipe in offers.items()
        }
    pinned = dict(pinned or {})
    free = _free(names, offers, pinned, excluded)
    ties = _groups(read.same_content() if tied == "content" else tied, names, "content")
    if fused is None and (files_of is None or profile_named(files_of).joins):
        fused = "engine"
    joined = _groups(fused_groups(names) if fused == "engine" else fused, names, "engine")
    tied_free = [[name for name in tie if name in free] for tie in ties]
    for tie in tied_free:
        _tie(offers, tie)
    leader = {name: tie[0] for tie in tied_free for name in tie}
    groups = _united(free, [*ties, *joined])
    recipes = tuple(dict.fromkeys(read.table.recipes if among is None else among))
    costs = _costs(groups, leader, offers, pinned, recipes)
    once = [name for name in free if leader.get(name, name) == name]
    kept = {name: read.stored_bits(name) for name in names if name not in free}
    return Choices(
        tuple(free),
        groups,
        recipes,
        *costs,
        weights=read.weights(once),
        kept=kept,
        kept_dtypes={name: read.first[name].dtype for name in kept},
        kept_weights=read.weights(kept),
        alpha=None if read.has_costs else math.fsum(weigh.get(name, 1.0) for name in once),
    )


def _free(
    names: Collection[str],
    offers: Mapping[str, Mapping[str, RecipeOffer]],
    pinned: Mapping[str, str],
    excluded: str | Iterable[str],
) -> dict[str, None]:
    for name in pinned:
        if name not in names:
            raise QuantVizError("allocate.unknown_tensor", got=name, known=", ".join(names))
    left_out = _matching(names, excluded)
    for tensor in left_out & set(pinned):
        raise QuantVizError("allocate.pinned_and_excluded", tensor=tensor)
    free = {name: None for name in names if name not in left_out and (offers[name] or name in pinned)}
    if not free:
        raise QuantVizError("allocate.no_choices")
    return free


def _costs(
    groups: Sequence[Sequence[str]],
    leader: Mapping[str, str],
    offers: Mapping[str, Mapping[str, RecipeOffer]],
    pinned: Mapping[str, str],
    recipes: Sequence[str],
) -> tuple[Array, Array, Array]:
    columns = {recipe: at for at, recipe in enumerate(recipes)}
    bits = np.zeros((len(groups), len(recipes)), np.int64)
    cost = np.zeros((len(groups), len(recipes)))
    there = np.zeros(bits.shape, bool)
    for at, group in enumerate(groups):
        counted = dict.fromkeys(leader.get(name, name) for name in group)
        for recipe in _allowed(group, offers, pinned, recipes):
            tied = [offers[name][recipe] for name in counted]
            total = sum(offer.bits for offer in tied)
            if total > MOST_BITS // len(groups):
                raise QuantVizError("allocate.bits_too_many", tensor=group[0], recipe=recipe, got=total)
            column = columns[recipe]
            bits[at, column] = total
            cost[at, column] = math.fsum(offer.cost for offer in tied)
            there[at, column] = True
    return bits, cost, there


def _matching(names: Collection[str], patterns: str | Iterable[str]) -> set[str]:
    names_matched: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        # A list of names is looked up, not searched.
        matched = {pattern} if pattern in names else {name for name in names if fnmatchcase(name, pattern)}
        if not matched:
            raise QuantVizError("allocate.unknown_tensor", got=pattern, known=", ".join(names))
        names_matched |= matched
    return names_matched


def _groups(
    groups: str | Iterable[Sequence[str]] | None, names: Collection[str], rule: str
) -> list[tuple[str, ...]]:
    if isinstance(groups, str):
        raise QuantVizError("allocate.unknown_rule", got=groups, known=rule)
    tuples = [tuple(dict.fromkeys([group] if isinstance(group, str) else group)) for group in groups or ()]
    for name in (name for group in tuples for name in group if name not in names):
        raise QuantVizError("allocate.unknown_tensor", got=name, known=", ".join(names))
    return tuples


def _tie(offers: dict[str, dict[str, RecipeOffer]], tie: Sequence[str]) -> None:
    """Give the first of tied tensors the recipes that all of them can have, at the cost of the dearest."""
    if not tie:
        return
    first, *others = tie
    shared: dict[str, RecipeOffer] = {}
    for recipe, offer in offers[first].items():
        tied = [offer, *(offers[name][recipe] for name in others if recipe in offers[name])]
        for name, other in zip(tie, tied, strict=False):
            if other.bits != offer.bits:
                raise QuantVizError(
                    "allocate.tied_differ",
                    tensor=first,
                    other=name,
                    recipe=recipe,
                    bits=offer.bits,
                    got=other.bits,
                )
        if len(tied) == len(tie):
            shared[recipe] = RecipeOffer(offer.bits, max(other.cost for other in tied))
    offers[first] = shared


def _united(names: Collection[str], groups: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    for group in groups:
        free = [name for name in group if name in parent]
        for name in free[1:]:
            parent[root(name)] = root(free[0])
    groups_by_root: dict[str, list[str]] = {}
    for name in names:
        groups_by_root.setdefault(root(name), []).append(name)
    return tuple(tuple(group) for group in groups_by_root.values())


def _allowed(
    group: Sequence[str],
    offers: Mapping[str, Mapping[str, RecipeOffer]],
    pinned: Mapping[str, str],
    recipes: Sequence[str],
) -> list[str]:
    pins = {pinned[name]: name for name in group if name in pinned}
    if len(pins) > 1:
        (one, first), (other, second), *_ = pins.items()
        raise QuantVizError("allocate.pins_differ", tensor=first, recipe=one, other=second, got=other)
    for recipe, name in pins.items():
        for member in group:
            if recipe not in offers[member]:
                known = ", ".join(offers[member]) or "–"
                raise QuantVizError(
                    "allocate.pin_not_there", tensor=member, pinned=name, got=recipe, known=known
                )
        return [recipe]
    common = [recipe for recipe in recipes if all(recipe in offers[name] for name in group)]
    if not common:
        raise QuantVizError("allocate.nothing_shared", tensors=", ".join(group))
    return common
