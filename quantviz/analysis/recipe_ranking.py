"""Recipes on one tensor: the bits and errors of each, and the choice between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.budget import Ended, too_long
from quantviz.errors import QuantVizError
from quantviz.schemes.recipes import RECIPES, as_scheme, current_recipe, needs_lines
from quantviz.schemes.scheme import Scheme

if TYPE_CHECKING:
    from quantviz.schemes.granularity import Shape
    from quantviz.streaming.measuring import Measured

#: The row of the scheme that is set.
CURRENT = "current"
#: Smaller tensors are priced as `USUAL_SHAPE`: on 8 × 8 a scale for each column costs 2 bits, on a real
#: weight 0.004, and the small one must not teach the opposite.
SMALL = 2**16
USUAL_SHAPE = (4096, 4096)
#: An error a tenth as large as the values, both as root mean squares: 20 dB.
TARGET_DB = 20.0


@dataclass(frozen=True)
class RecipeRow:
    """Bits and errors of one scheme on one tensor, or the reason why it cannot be used there."""

    #: An id of `RECIPES`, or `CURRENT`.
    id: str
    scheme: Scheme
    #: Whether its effect here is the current scheme's.
    is_current: bool = False
    #: Why it does not fit; the numbers are nan then.
    problem: QuantVizError | None = None
    #: Bits an element, scales included: as priced, and at the tensor's own size.
    bits: float = math.nan
    own_bits: float = math.nan
    sqnr_db: float = math.nan
    #: Share of the non-zero elements that became 0.
    zeroed_share: float = math.nan
    mse: float = math.nan
    #: `bits` with codes entropy-coded one by one, and scales as before; nan where codes were not counted.
    entropy_bits: float = math.nan
    #: Rows of one trail differ in the elements a scale; "" for none.
    trail: str = ""
    #: The share of the cells that was measured.
    share: float = 1.0
    #: No row has as few bits and as much SQNR; above the line of one quantizer for all values. Both are set
    #: in `rate_distortion` alone.
    on_front: bool = False
    above_lloyd_max: bool = False

    @property
    def fits(self) -> bool:
        return self.problem is None


@dataclass(frozen=True)
class RecipeAnswer:
    """The recipe to use on a tensor, as data for a sentence."""

    target_db: float
    reached: bool
    #: The fewest bits that reach it; where none does, the highest SQNR.
    choice: RecipeRow
    #: To compare: the nearest of another format on the front, with fewer bits and with more.
    others: tuple[RecipeRow, ...]


def priced_at(shape: Shape, asked: Shape | None = None) -> Shape:
    """Return the shape that bits are counted for: `asked`, else the own one, or `USUAL_SHAPE` if small.

    >>> priced_at((8, 8)), priced_at((256, 256)), priced_at((8, 8), (8, 8))
    ((4096, 4096), (256, 256), (8, 8))
    """
    return asked or (shape if math.prod(shape) >= SMALL else USUAL_SHAPE)


def priced_bits(scheme: Scheme, shape: Shape, asked: Shape | None = None) -> float:
    """Return the bits per element as `priced_at` counts; for the own shape if blocks do not divide that.

    >>> columns = RECIPES["int4_per_column"]
    >>> priced_bits(columns, (8, 8)), priced_bits(columns, (8, 8), (8, 8))
    (4.00390625, 6.0)
    """
    from quantviz.evaluation.metric_formulas import bits_per_element

    layer = priced_at(shape, asked)
    return bits_per_element(scheme, shape if scheme.problems(layer) else layer)


def recipe_rows(
    x: Any,
    *,
    current: Scheme | str,
    most_bits: float = math.inf,
    recipes: Mapping[str, Scheme] = RECIPES,
    priced_as: Shape | None = None,
) -> tuple[RecipeRow, ...]:
    """Return the rows of `recipes` on the tensor `x`, in their order; one that does not fit has a `problem`.

    Args:
        x: A real tensor or nested list of 1 to 4 axes, or a `Stored`.
        current: The scheme that is set; its rule for NaN and Inf is used for all.
        most_bits: Recipes of more bits per element are left out.
        recipes: Schemes by their ids.
        priced_as: The shape that bits are counted for; `priced_at` has the default.

    >>> rows = recipe_rows([[1.0, 2.0, 3.0, 40.0]], current=RECIPES["int4_per_row"])
    >>> [row.id for row in rows if row.fits][:5], [row.id for row in rows if row.is_current]
    (['int8_per_tensor', 'int8_per_row', 'int8_per_column', 'int4_per_tensor', 'int4_per_row'],
    ['int4_per_row'])
    >>> rows[3].problem.key
    'group_does_not_divide'
    """
    from quantviz.streaming.measuring import measure
    from quantviz.tensors.lazy import as_stored

    current = as_scheme(current)
    stored, _ = as_stored(x)
    same = current_recipe(current, stored.shape)
    rows = []
    for name, recipe in recipes.items():
        scheme = recipe.replace(nonfinite=current.nonfinite)
        try:
            if needs_lines(recipe) and len(stored.shape) == 1:
                raise QuantVizError("recipe_needs_lines", shape=stored.shape)
            if priced_bits(scheme, stored.shape, priced_as) > most_bits:
                continue
            row = row_of(measure(stored, scheme), name, is_current=name == same, priced_as=priced_as)
            # The scheme as it was given, without the changes for the dtype of this tensor.
            rows.append(dataclasses.replace(row, scheme=scheme))
        except QuantVizError as problem:
            rows.append(RecipeRow(name, scheme, problem=problem))
        except Ended as end:
            rows.append(RecipeRow(name, scheme, problem=too_long(end)))
    return tuple(rows)


def row_of(
    measured: Measured, name: str = CURRENT, *, is_current: bool = True, priced_as: Shape | None = None
) -> RecipeRow:
    """Return the row of a scheme that was measured already, priced as in `recipe_rows`."""
    m = measured.metrics
    return RecipeRow(
        id=name,
        scheme=measured.scheme,
        is_current=is_current,
        bits=priced_bits(measured.scheme, measured.shape, priced_as),
        own_bits=m["effective_bits"],
        sqnr_db=m["sqnr_db"],
        zeroed_share=m["zeroed_share"],
        mse=m["mse"],
    )


def pareto_front(rows: Iterable[RecipeRow]) -> tuple[RecipeRow, ...]:
    """Return the rows that no other beats in bits and SQNR, by bits; the first of equal ones."""
    front: list[RecipeRow] = []
    for row in sorted((row for row in rows if row.fits), key=lambda row: (row.bits, -row.sqnr_db)):
        if not front or row.sqnr_db > front[-1].sqnr_db:
            front.append(row)
    return tuple(front)


def answer(rows: Iterable[RecipeRow], target_db: float = TARGET_DB) -> RecipeAnswer | None:
    """Return the recipe of the fewest bits with an SQNR of at least `target_db`; None where none fits.

    The target is a rule of thumb: an SQNR ranks recipes for one tensor and does not predict a model's
    accuracy. So the choice comes with its neighbours.

    >>> rows = recipe_rows([[0.1, 0.2, 0.3, 8.0], [0.3, -0.2, 0.1, 0.2]], current=Scheme())
    >>> found = answer(rows, target_db=30.0)
    >>> found.choice.id, [row.id for row in found.others]
    ('int4_per_column', ['ternary_absmean', 'mxfp6_e3m2'])
    """
    front = pareto_front(rows)
    if not front:
        return None
    reaching = [row for row in front if row.sqnr_db >= target_db]
    choice = reaching[0] if reaching else front[-1]
    other = [row for row in front if row.scheme.format != choice.scheme.format]
    fewer = [row for row in other if row.bits < choice.bits]
    more = [row for row in other if row.bits > choice.bits]
    return RecipeAnswer(target_db, bool(reaching), choice, (*fewer[-1:], *more[:1]))


def best_within(rows: Iterable[RecipeRow], bits: int) -> RecipeRow | None:
    """Return the row of the highest SQNR with codes of at most so many bits, scales apart; None if none fits.

    >>> rows = recipe_rows([[0.1, 0.2, 0.3, 8.0], [0.3, -0.2, 0.1, 0.2]], current=Scheme())
    >>> best_within(rows, 4).id, best_within(rows, 0)
    ('int4_per_column', None)
    """
    within = (row for row in rows if row.fits and row.scheme.number_format.bits <= bits)
    return max(within, key=lambda row: row.sqnr_db, default=None)
