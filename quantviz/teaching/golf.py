"""Quantization golf: five tensors, a budget of bits, and the least error wins.

A tensor is added here: one entry in `HOLES` and its words under `[golf.holes.<id>]` in each language.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from quantviz.analysis.recipe_ranking import RecipeRow, recipe_rows, row_of
from quantviz.errors import QuantVizError
from quantviz.lab.page_state import Codec, PageState
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.recipes import RECIPES
from quantviz.schemes.scheme import Scheme
from quantviz.schemes.text_form import split_outside_parentheses
from quantviz.sources import AllPositive, Bimodal, LoudColumns, Normal, Source, StudentT

#: Bits a weight that a try may take at most, with scales, zero points and second levels.
BUDGET = 4.5
#: Of differences in dB, shown and compared.
DECIMALS = 2
#: Characters of a link's tries: with the app's own it stays within the 2,000 that chat programs take.
LONGEST = 1800
#: The scheme in the controls before the first try.
TEE = Scheme("int4")

#: Large enough that a tensor is priced at its own size: a scale for each row costs 0.06 bits.
_SIDE = 256
#: Parts of a scheme's text form that a link leaves out, by place.
_USUAL = MappingProxyType(dict(enumerate(str(TEE).split(","))) | {0: None})
#: Stands between tries in a link; no text form has it.
_BETWEEN = "~"
_HOLE = "hole"


@dataclass(frozen=True)
class Hole:
    """A tensor to play."""

    id: str
    source: Source


_ALL = (
    # Codes where values are many, as NF4 has them, and ranges of least error.
    Hole("bell", Normal(_SIDE, _SIDE)),
    # Groups down the columns: along the rows each group has a loud value or two.
    Hole("columns", LoudColumns(_SIDE, _SIDE, every=32, factor=8.0)),
    # Codes without a sign: half of int4's would never be used.
    Hole("positive", AllPositive(_SIDE, _SIDE)),
    # Small groups with cheap scales, which keep a large value's harm to itself.
    Hole("tails", StudentT(_SIDE, _SIDE)),
    # Codes at equal distances: those of FP4 and NF4 lie closest where there are no values.
    Hole("heaps", Bimodal(_SIDE, _SIDE)),
)

#: Every tensor by id, in the order they are played.
HOLES: Mapping[str, Hole] = MappingProxyType({hole.id: hole for hole in _ALL})

_NO_TRIES: Mapping[str, tuple[Scheme, ...]] = MappingProxyType({})


# ---- bits and gain of a try -----------------------------------------------------------------------


def price(hole: Hole, scheme: Scheme) -> float:
    """Return the bits a weight that a scheme takes, without quantizing."""
    from quantviz.evaluation.metric_formulas import bits_per_element

    return bits_per_element(scheme, hole.source.shape)


def problems(hole: Hole, scheme: Scheme) -> Iterator[QuantVizError]:
    """Yield the errors of a scheme that does not fit the tensor, or has rules of its own.

    With these a scheme could count too few bits, since they set the size of a scale.
    """
    yield from scheme.problems(hole.source.shape)
    convention = scheme.chosen
    # A recipe's own rules go with its format: TQ1_0 packs ternary codes into 1.625 bits, and no others.
    of_recipe = any((scheme.format, convention) == (each.format, each.chosen) for each in RECIPES.values())
    if convention != CONVENTIONS[convention.id] and not of_recipe:
        yield QuantVizError("golf.own_rules", convention=convention.id)


def score(x: Any, scheme: Scheme) -> RecipeRow:
    from quantviz.streaming.measuring import measure

    return row_of(measure(x, scheme), is_current=False)


def recipes_within(x: Any) -> tuple[RecipeRow, ...]:
    """Return the recipes within the budget that par is made of, without engines that search scales: something
    is left to find.
    """
    by_ranges = {name: scheme for name, scheme in RECIPES.items() if scheme.search is None}
    rows = recipe_rows(x, current=TEE, most_bits=BUDGET, recipes=by_ranges)
    return tuple(dataclasses.replace(row, is_current=False) for row in rows if row.fits)


def counts(row: RecipeRow) -> bool:
    return row.bits <= BUDGET and not math.isnan(row.sqnr_db)


def best_of(rows: Iterable[RecipeRow]) -> RecipeRow | None:
    """Return the row of least error within the budget, the first of equals."""
    return max((row for row in rows if counts(row)), key=lambda row: row.sqnr_db, default=None)


@dataclass(frozen=True)
class HoleResults:
    """How a hole stands: its recipes, and the tries."""

    hole: Hole
    recipes: tuple[RecipeRow, ...]
    tries: tuple[RecipeRow, ...] = ()

    @property
    def par(self) -> RecipeRow:
        best = best_of(self.recipes)
        assert best is not None, "int4 with one scale fits every tensor and the budget"
        return best

    @property
    def best(self) -> RecipeRow | None:
        return best_of(self.tries)

    def gain(self, row: RecipeRow) -> float:
        """Return how many dB a row is better than par, as shown."""
        return round(row.sqnr_db - self.par.sqnr_db, DECIMALS)

    @property
    def score(self) -> float | None:
        """Return the gain of the best try."""
        return None if self.best is None else self.gain(self.best)


def total(standings: Iterable[HoleResults]) -> float:
    """Return the sum of all scores, as shown."""
    return round(sum(each.score for each in standings if each.score is not None), DECIMALS)


# ---- a round and its link -------------------------------------------------------------------------


@dataclass(frozen=True)
class GolfRound(PageState):
    """The hole that is played, and the schemes tried on each, none twice; a link has no scores."""

    page = "golf"

    hole: str = _ALL[0].id
    tries: Mapping[str, tuple[Scheme, ...]] = field(default_factory=lambda: _NO_TRIES)

    @property
    def here(self) -> tuple[Scheme, ...]:
        return self.tries.get(self.hole, ())

    def at(self, hole: str) -> GolfRound:
        return dataclasses.replace(self, hole=hole)

    def with_try(self, scheme: Scheme, keep: Collection[Scheme] = ()) -> GolfRound:
        """Return the round with one more try on this hole.

        Where the link would be longer than `LONGEST`, the first tries of the hole with the most go, but for
        those in `keep`.
        >>> len(GolfRound().with_try(TEE).with_try(TEE).here)
        1
        """
        if scheme in self.here:
            return self
        tries = {**self.tries, self.hole: (*self.here, scheme)}
        while _length(tries) > LONGEST:
            spare = {
                hole: [each for each in schemes if each not in keep and each != scheme]
                for hole, schemes in tries.items()
            }
            hole = max(spare, key=lambda name: len(spare[name]))
            if not spare[hole]:
                break
            tries[hole] = tuple(each for each in tries[hole] if each != spare[hole][0])
        return dataclasses.replace(self, tries=MappingProxyType(tries))

    def without_try(self, hole: str, scheme: Scheme) -> GolfRound:
        left = tuple(each for each in self.tries[hole] if each != scheme)
        return dataclasses.replace(self, tries=MappingProxyType({**self.tries, hole: left}))

    def without_tries(self) -> GolfRound:
        """Return the round without tries on this hole."""
        return dataclasses.replace(self, tries=MappingProxyType({**self.tries, self.hole: ()}))

    def written(self) -> dict[str, str]:
        """Return the link's parameters.

        >>> GolfRound("columns").with_try(TEE).with_try(RECIPES["int4_g32"]).written()
        {'hole': 'columns', 'columns': 'int4~int4,,per_group(size=32)'}
        """
        tries = {hole: self.tries[hole] for hole in HOLES if self.tries.get(hole)}
        return {_HOLE: self.hole} | {
            hole: _BETWEEN.join(map(write_try, schemes)) for hole, schemes in tries.items()
        }

    @classmethod
    def read(cls, params: Mapping[str, str], **_: Codec) -> tuple[GolfRound, tuple[QuantVizError, ...]]:
        """Return the round of a link, and an error for each try that was left out."""
        wrong: list[QuantVizError] = []
        hole = params.get(_HOLE, _ALL[0].id)
        if hole not in HOLES:
            wrong.append(QuantVizError("golf.unknown_hole", got=hole, known=", ".join(HOLES)))
            hole = _ALL[0].id
        if sum(len(params.get(name, "")) for name in HOLES) > LONGEST:
            return GolfRound(hole), (*wrong, QuantVizError("golf.link_too_long", longest=LONGEST))
        tries: dict[str, tuple[Scheme, ...]] = {}
        for name, each in HOLES.items():
            for number, form in enumerate(filter(None, params.get(name, "").split(_BETWEEN)), 1):
                try:
                    scheme = read_try(form)
                    for problem in problems(each, scheme):
                        raise problem
                except QuantVizError as problem:
                    wrong.append(QuantVizError("golf.link_try", number=number, hole=name, reason=problem))
                    continue
                if scheme not in tries.get(name, ()):
                    tries[name] = (*tries.get(name, ()), scheme)
        return GolfRound(hole, MappingProxyType(tries)), tuple(wrong)


def _length(tries: Mapping[str, tuple[Scheme, ...]]) -> int:
    parts = GolfRound(tries=tries).written()
    return sum(len(f"&{name}={quote(value, safe='')}") for name, value in parts.items())


def write_try(scheme: Scheme) -> str:
    """Return a scheme's text form without parts that are as in `TEE`.

    >>> write_try(Scheme.parse("nf4,symmetric,per_group(size=32),mse,course")), write_try(TEE)
    ('nf4,,per_group(size=32),mse', 'int4')
    """
    parts = split_outside_parentheses(str(scheme))
    return ",".join("" if part == _USUAL.get(at) else part for at, part in enumerate(parts)).rstrip(",")


def read_try(form: str) -> Scheme:
    """Return the scheme written as `form`, short or in full.

    >>> read_try("int4") == TEE, read_try(str(TEE)) == TEE
    (True, True)
    """
    parts = split_outside_parentheses(form)
    parts += [""] * (len(_USUAL) - len(parts))
    return Scheme.parse(",".join(part or _USUAL.get(at) or "" for at, part in enumerate(parts)))
