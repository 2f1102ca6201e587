"""Bits against SQNR for one tensor: every format with its group sizes, and the bounds of any quantizer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quantviz.analysis.recipe_ranking import RecipeRow, pareto_front, priced_at
from quantviz.analysis.sampled_part import SampledPart
from quantviz.analysis.source_bounds import (
    Atoms,
    best_uniform,
    entropy_coded,
    fixed_rate,
    gauss_bound,
    laplace_bound,
    laplace_lower_bound,
    lloyd_max,
    sqnr_db,
)
from quantviz.errors import QuantVizError
from quantviz.evaluation.with_pandas import data_frame
from quantviz.public_calls import checked_fields, public, public_class
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Granularity, PerChannel, PerGroup, PerTensor, Shape
from quantviz.schemes.recipes import RECIPES, as_scheme
from quantviz.schemes.scheme import MODES, Scheme

Array = npt.NDArray[Any]

#: From the most elements a scale.
TRAIL: tuple[Granularity, ...] = (
    PerTensor(),
    PerChannel(0),
    PerGroup(128),
    PerGroup(64),
    PerGroup(32),
    PerGroup(16),
)

if TYPE_CHECKING:
    import pandas
#: Least distance above a line, in dB.
_ABOVE_DB = 0.05
#: Formats of more bits have no trail: scales of their own make no difference to them.
_MOST_TRAIL_BITS = 8


@dataclass(frozen=True, eq=False)
class RateLine:
    #: "lloyd_max": one quantizer of N values anywhere. "uniform": of N values at equal steps. "ecsq": equal
    #: steps, codes entropy-coded. "gauss_bound" and "laplace_bound": the least error of any code for draws
    #: from such a distribution with this tensor's variance. "laplace_lower_bound": Shannon's lower bound.
    id: str
    #: "fixed_rate" (each value takes as many bits), "entropy_coded", or "bound".
    coding: str
    #: Whether something reaches it; of bounds, ever longer blocks.
    attained: bool
    #: An element, ascending, and in dB; float64.
    bits: Array
    sqnr_db: Array

    def at(self, bits: float) -> float:
        """Return the SQNR at some bits in dB, interpolated between the line's points; nan beyond them."""
        if not len(self.bits) or not self.bits[0] <= bits <= self.bits[-1]:
            return math.nan
        return float(np.interp(bits, self.bits, self.sqnr_db))

    def is_below(self, bits: float, sqnr_db: float) -> bool:
        """Return whether so many bits and dB lie clearly above the line; beyond its ends nothing does."""
        return sqnr_db > self.at(bits) + _ABOVE_DB


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class RateDistortion:
    """Bits and SQNR of schemes on one tensor, and the lines of quantizers and bounds to judge them by."""

    shape: Shape
    #: See `recipe_ranking.priced_at`.
    priced_as: Shape
    #: Recipes, then the trails of all formats. Those that do not fit have a `problem`.
    rows: tuple[RecipeRow, ...]
    lines: tuple[RateLine, ...]
    #: The better fit: "gauss" or "laplace".
    family: str
    #: Of the values behind the lines.
    share: float

    @property
    def own_size(self) -> bool:
        """Whether bits are those of the tensor's own size."""
        return self.priced_as == self.shape

    @property
    def front(self) -> tuple[RecipeRow, ...]:
        """Return the rows that no other one beats, by bits."""
        return pareto_front(self.rows)

    @property
    def trails(self) -> Mapping[str, tuple[RecipeRow, ...]]:
        """Return the rows that fit of each trail, by bits."""
        trails: dict[str, list[RecipeRow]] = {}
        for row in self.rows:
            if row.trail and row.fits:
                trails.setdefault(row.trail, []).append(row)
        return MappingProxyType(
            {name: tuple(sorted(rows, key=lambda row: row.bits)) for name, rows in trails.items()}
        )

    def line(self, name: str) -> RateLine:
        """Return a line by its id.

        Raises:
            QuantVizError: There is no such line.
        """
        for line in self.lines:
            if line.id == name:
                return line
        known = ", ".join(line.id for line in self.lines)
        raise QuantVizError("unknown_line", got=name, known=known)

    def table(self) -> pandas.DataFrame:
        """Return the rows that fit.

        Raises:
            QuantVizError: pandas is not installed.
        """
        rows = [row for row in self.rows if row.fits]
        names = ("id", "trail", "bits", "own_bits", "entropy_bits", "sqnr_db", "mse", "zeroed_share")
        flags = ("on_front", "above_lloyd_max", "is_current", "share")
        return data_frame(
            {
                **{name: [getattr(row, name) for row in rows] for name in (*names, *flags)},
                "scheme": [str(row.scheme) for row in rows],
            }
        )

    def line_table(self) -> pandas.DataFrame:
        """Return a row for each point of all lines.

        Raises:
            QuantVizError: pandas is not installed.
        """
        return data_frame(
            {
                "line": [line.id for line in self.lines for _ in line.bits],
                "coding": [line.coding for line in self.lines for _ in line.bits],
                "bits": [float(value) for line in self.lines for value in line.bits],
                "sqnr_db": [float(value) for line in self.lines for value in line.sqnr_db],
            }
        )


@public
def rate_distortion(
    x: Any,
    *,
    current: Scheme | str = Scheme(),  # noqa: B008 (a frozen value)
    priced_as: Shape | None = None,
    rows: Sequence[RecipeRow] | None = None,
) -> RateDistortion:
    """Return the bits and SQNR of every recipe and format on `x`, and the lines to judge them by.

    Of a large tensor some rows are measured that are spread over it, under the scales of the whole tensor:
    `RecipeRow.share` is the share of cells behind a number.

    Args:
        x: An input of `quantize`, or a `Stored`.
        current: The scheme that is set; its rule for NaN and Inf is used for all.
        priced_as: The shape that bits per element are counted for. By default small tensors are priced as
            4096 × 4096.
        rows: The rows of `recipe_rows` for this tensor and shape, if computed already: exact for any size.

    Raises:
        QuantVizError: As `quantize` does.

    >>> import torch
    >>> x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    >>> found = rate_distortion(x)
    >>> found.priced_as, found.family, [line.id for line in found.lines][:3]
    ((4096, 4096), 'gauss', ['lloyd_max', 'uniform', 'ecsq'])
    >>> round(found.line("gauss_bound").at(4.0), 1), len(found.trails["int4"])
    (24.1, 5)
    """
    current = as_scheme(current)
    part = SampledPart.of(x, current)
    shape = part.whole.shape
    rows = part.recipes(current, priced_as) if rows is None else rows
    measured = [*_counted(part, rows, priced_as)]
    for trail, usual in _trail_schemes():
        scheme = usual.replace(nonfinite=current.nonfinite)
        size = getattr(scheme.granularity, "size", None)
        suffix = f"g{size}" if size else scheme.granularity.id
        measured.append(part.row(f"{trail}_{suffix}", scheme, priced_as, trail))
    atoms = Atoms.of(part.values)
    lines = _lines(atoms)
    front = pareto_front(measured)
    lloyd = next(line for line in lines if line.id == "lloyd_max")
    flagged = (
        dataclasses.replace(
            row,
            on_front=row in front,
            above_lloyd_max=row.fits and lloyd.is_below(row.bits, row.sqnr_db),
        )
        for row in measured
    )
    return RateDistortion(
        shape,
        priced_at(shape, priced_as),
        tuple(flagged),
        lines,
        atoms.family,
        part.share,
    )


def _trail_schemes() -> Iterator[tuple[str, Scheme]]:
    # Each format in each granularity, then recipes in other group sizes.
    recipes = set(RECIPES.values())
    for name, fmt in FORMATS.items():
        for granularity in TRAIL if fmt.bits <= _MOST_TRAIL_BITS else TRAIL[:1]:
            scheme = _usual_scheme(name, granularity)
            if scheme is not None and scheme not in recipes:
                yield name, scheme
    for name, recipe in RECIPES.items():
        size = getattr(recipe.granularity, "size", None)
        if size is None or recipe.arithmetic.id == Scheme().arithmetic.id:
            continue
        for other in (16, 32, 64, 128, 256):
            granularity = dataclasses.replace(recipe.granularity, size=other)  # type: ignore[type-var]
            try:
                scheme = recipe.replace(granularity=granularity)
            except QuantVizError:
                # The engine has no groups of this size.
                continue
            if scheme not in recipes:
                yield name, scheme


def _usual_scheme(name: str, granularity: Granularity) -> Scheme | None:
    """Return a format's scheme, symmetric if possible; None without a sign and a zero point."""
    for mode in MODES if FORMATS[name].signed else MODES[1:]:
        try:
            return Scheme(name, mode, granularity)
        except QuantVizError:
            # int1 has no symmetric form; float grids without a sign hold scales, not weights.
            continue
    return None


def _counted(part: SampledPart, rows: Sequence[RecipeRow], priced_as: Shape | None) -> Iterator[RecipeRow]:
    # The bits of entropy-coded codes come in, and trails.
    for row in rows:
        trail = row.id if getattr(row.scheme.granularity, "size", None) else ""
        if row.scheme.arithmetic.id == Scheme().arithmetic.id:
            trail = row.scheme.format if row.scheme.granularity in TRAIL else ""
        bits = row.entropy_bits
        if row.fits and math.isnan(bits):
            bits = part.row(row.id, row.scheme, priced_as).entropy_bits
        yield dataclasses.replace(row, entropy_bits=bits, trail=trail)


# ---- lines --------------------------------------------------------------------------------------


def _lines(atoms: Atoms) -> tuple[RateLine, ...]:
    bits = np.linspace(0.0, 8.0, 33)
    variance = atoms.variance
    power = atoms.power

    def line(name: str, coding: str, points: tuple[Array, Array], *, attained: bool = True) -> RateLine:
        return RateLine(name, coding, attained, points[0], sqnr_db(power, points[1].tolist()))

    lines = [
        line("lloyd_max", "fixed_rate", fixed_rate(atoms, lloyd_max)),
        line("uniform", "fixed_rate", fixed_rate(atoms, best_uniform)),
        line("ecsq", "entropy_coded", entropy_coded(atoms)),
        line("gauss_bound", "bound", (bits, gauss_bound(variance, bits))),
    ]
    if atoms.family == "laplace":
        lines.append(line("laplace_bound", "bound", (bits, laplace_bound(variance, bits))))
        lower = laplace_lower_bound(variance, bits)
        lines.append(line("laplace_lower_bound", "bound", (bits, lower), attained=False))
    return tuple(lines)
