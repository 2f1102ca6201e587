"""Bounds of any scalar quantizer, and of any code, on a tensor's values: bits against SQNR.

Values stand for a source with independent draws. A format with blocks may lie above the best quantizer for
all values, since it adapts to where values are loud.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments

Array = npt.NDArray[Any]

MOST_ATOMS = 4096
#: Of those at each end: the others' cells must not swallow them.
_AT_ENDS = 64
LEVELS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: A curve ends where there are fewer values a level: it would describe these few alone.
_VALUES_A_LEVEL = 4
_STEPS = 300
#: Where the curve of entropy-coded steps ends.
_MOST_BITS = 8.0
#: A step that gains less, as a share, is the last.
_STILL = 1e-10

#: By how much D(R) of a Laplacian source with squared error exceeds Shannon's lower bound (e/π)·σ²·2^-2R, by
#: bits: no code does better, and long ones come as near as one likes. Found on 2026-11-23 by
#: `blahut_arimoto` of `tests/analysis/test_rate_distortion.py` in 8,000 rounds, on values 0.08 σ apart up to
#: 10 σ, each with the chance of its cell (from 1.5 bits on in 400 rounds, 0.05 σ apart up to 12 σ); three
#: digits.
LAPLACE_EXCESS = MappingProxyType(
    {
        0.0: math.pi / math.e,
        0.1622: 1.0607,
        0.2469: 1.0431,
        0.3571: 1.0289,
        0.5056: 1.0176,
        0.6628: 1.0108,
        0.8263: 1.0067,
        1.0352: 1.0039,
        1.2613: 1.0023,
        1.5: 1.0015,
        2.0: 1.0007,
        3.0: 1.0002,
    }
)


@dataclass(frozen=True, eq=False)
class Atoms:
    """Values with weights: the distribution that quantizers are fitted to.

    >>> atoms = Atoms.of(np.array([1.0, -1.0, 1.0, 3.0]))
    >>> atoms.values.tolist(), atoms.weights.tolist(), atoms.mean, atoms.variance
    ([-1.0, 1.0, 3.0], [0.25, 0.5, 0.25], 1.0, 2.0)
    """

    #: Ascending, float64; and weights, which add up to 1.
    values: Array
    weights: Array
    #: Of atoms that stand for several values: the variance that no quantizer here sees.
    within: float
    count: int
    #: The mean of |x - median|.
    spread: float

    @classmethod
    def of(cls, values: Array, weights: Array | None = None) -> Atoms:
        """Return the atoms of finite values, any number of them: of many, runs of neighbours are one.

        `weights` are positive, of the shape of the values; without any, each value counts as much.
        """
        ordered = np.asarray(values, dtype=np.float64).ravel()
        order = np.argsort(ordered)
        ordered = ordered[order]
        count = len(ordered)
        mass = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64).ravel()[order]
        mass = mass / mass.sum()
        if count <= MOST_ATOMS:
            begins = np.flatnonzero(np.diff(ordered, prepend=-np.inf))
            distinct = ordered[begins]
            shares = np.add.reduceat(mass, begins)
            within = 0.0
        else:
            inner = np.linspace(_AT_ENDS, count - _AT_ENDS, MOST_ATOMS - 2 * _AT_ENDS + 1).astype(np.int64)
            begins = np.concatenate([np.arange(_AT_ENDS), inner[:-1], np.arange(count - _AT_ENDS, count)])
            shares = np.add.reduceat(mass, begins)
            distinct = np.add.reduceat(mass * ordered, begins) / shares
            runs = np.repeat(distinct, np.diff(begins, append=count))
            within = float(mass @ np.square(ordered - runs))
        middle = ordered[count // 2]
        return cls(distinct, shares, within, count, float(mass @ np.abs(ordered - middle)))

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values)

    @property
    def power(self) -> float:
        return float(self.weights @ np.square(self.values)) + self.within

    @property
    def variance(self) -> float:
        return max(self.power - self.mean**2, 0.0)

    @property
    def most_levels(self) -> int:
        """Return the largest number of levels with a point on a curve."""
        return max(min(self.count // _VALUES_A_LEVEL, len(self.values) - 1), 1)

    @property
    def family(self) -> str:
        """Return the family that fits the values better, by likelihood: "gauss" or "laplace"."""
        if not self.spread:
            return "gauss"
        gauss = 0.5 * math.log(2 * math.pi * math.e * self.variance) if self.variance else -math.inf
        return "laplace" if math.log(2 * math.e * self.spread) < gauss else "gauss"


def sqnr_db(power: float, noises: Iterable[float]) -> Array:
    """Return the SQNR of mean squared errors, in dB."""
    e2 = torch.tensor(list(noises), dtype=torch.float64)
    return np.asarray(METRICS["sqnr_db"].of(Moments(x2=torch.full_like(e2, power), e2=e2)).numpy())


# ---- quantizers of a fixed rate -------------------------------------------------------------------


def lloyd_max(atoms: Atoms, levels: int) -> float:
    """Return the least mean squared error with `levels` levels anywhere (Lloyd 1957, Max 1960).

    The best of three starts: as many values in each cell, cells of equal width, and the best cells if levels
    are many (Panter and Dite 1951).
    """
    return best_levels(atoms, levels)[0] + atoms.within


def best_levels(
    atoms: Atoms, levels: int, *starts: Array, largest: float | None = None
) -> tuple[float, Array]:
    """Return mean squared error, without the variance in atoms, and levels of `lloyd_max`, ascending.

    `starts` are further starts; a `largest` level does not move.

    >>> best_levels(Atoms.of(np.array([0.0, 0.25, 1.0, 1.25, 1.5])), 2)[1].tolist()
    [0.125, 1.25]
    """
    sums = np.zeros((3, len(atoms.values) + 1))
    sums[:, 1:] = [np.cumsum(atoms.weights * np.power(atoms.values, k)) for k in range(3)]
    widths = np.gradient(atoms.values) if len(atoms.values) > 1 else np.ones(1)
    spread = np.cbrt(atoms.weights) * np.cbrt(np.square(np.maximum(widths, 0)))
    even = np.linspace(atoms.values[0], atoms.values[-1], 2 * levels + 1)[1::2]
    usual = [_at_shares(atoms.values, shares, levels) for shares in (atoms.weights, spread)] + [even]
    solutions = [_lloyd(atoms.values, sums, start, largest) for start in (*usual, *starts)]
    return min(solutions, key=lambda solution: solution[0])


def _at_shares(values: Array, weights: Array, levels: int) -> Array:
    # In the middle of equal shares of the weights.
    total = np.cumsum(weights)
    return np.asarray(values[np.searchsorted(total, (np.arange(levels) + 0.5) / levels * total[-1])])


def _lloyd(values: Array, sums: Array, points: Array, largest: float | None) -> tuple[float, Array]:
    least = math.inf
    if largest is not None:
        points = np.append(points[:-1], largest)
    ends = np.zeros(len(points) + 1, dtype=np.intp)
    ends[-1] = len(values)
    for _ in range(_STEPS):
        ends[1:-1] = np.searchsorted(values, (points[1:] + points[:-1]) / 2)
        at_ends = sums[:, ends]
        weight, first, second = at_ends[:, 1:] - at_ends[:, :-1]
        held = weight > 0
        points = np.where(held, first / np.where(held, weight, 1.0), points)
        if largest is not None:
            points[-1] = largest
        noise = float((second - 2 * points * first + weight * np.square(points))[held].sum())
        if noise >= least * (1 - _STILL):
            break
        least = noise
    return max(min(noise, least), 0.0), points


def best_uniform(atoms: Atoms, levels: int) -> float:
    """Return the least mean squared error of `levels` values at equal steps: any one scale and zero point.

    Step and place are fitted by least squares to the codes that they give, from several beginnings.
    """
    values = atoms.values
    weights = atoms.weights
    width = (values[-1] - values[0]) / max(levels - 1, 1)
    steps = np.maximum(width * np.geomspace(1.0, 0.02, 12), np.finfo(np.float64).tiny)[:, None]
    middle = np.where(np.arange(12) == 0, (values[0] + values[-1]) / 2, atoms.mean)[:, None]
    lowest = middle - steps * (levels - 1) / 2
    best = math.inf
    least = np.full(12, math.inf)
    for _ in range(60):
        codes = np.clip(np.rint((values - lowest) / steps), 0, levels - 1)
        mean = codes @ weights
        spread = np.square(codes) @ weights - mean**2
        slope = ((codes * values) @ weights - mean * atoms.mean) / np.where(spread > 0, spread, 1.0)
        slope = np.where((spread > 0) & (slope > 0), slope, steps[:, 0])
        steps = slope[:, None]
        lowest = (atoms.mean - slope * mean)[:, None]
        codes = np.clip(np.rint((values - lowest) / steps), 0, levels - 1)
        noise = np.square(values - lowest - steps * codes) @ weights
        best = min(best, float(noise.min()))
        if (noise >= least * (1 - 1e-6)).all():
            break
        least = np.minimum(noise, least)
    return best + atoms.within


def fixed_rate(atoms: Atoms, quantizer: Callable[[Atoms, int], float]) -> tuple[Array, Array]:
    """Return bits, log2 of the levels, and mean squared errors of a quantizer."""
    levels = [count for count in LEVELS if count <= atoms.most_levels]
    return np.log2(levels), np.array([quantizer(atoms, count) for count in levels])


# ---- entropy-coded --------------------------------------------------------------------------------


def entropy_coded(atoms: Atoms) -> tuple[Array, Array]:
    """Return bits and mean squared errors of uniform steps with entropy-coded codes and cells' means.

    Bits are the codes' entropy, ascending; points that another or a mixture of two beats are left out. The
    cell around the mean may be wider, which helps at low rates. At high rates this lies 0.25 bit, 1.53 dB,
    from the bound, whatever the distribution (Gish and Pierce 1968).
    """
    deviation = math.sqrt(atoms.variance)
    if not deviation:
        return np.zeros(0), np.zeros(0)
    points = []
    offsets = (atoms.values - atoms.mean) / deviation
    for step in np.geomspace(6.0, 2.0**-_MOST_BITS, 64):
        sizes = np.abs(offsets) / step
        for dead in (0.5, 0.4, 0.3, 0.2):
            points.append(_entropy_and_noise(atoms, np.sign(offsets) * np.floor(sizes + dead)))
        points.append(_entropy_and_noise(atoms, np.floor(offsets / step)))
    curve: list[tuple[float, float]] = []
    limit = min(_MOST_BITS, math.log2(atoms.most_levels))
    for bits, noise in sorted(point for point in points if point[0] <= limit):
        if curve and noise >= curve[-1][1]:
            continue
        while len(curve) > 1 and _above(curve[-1], curve[-2], (bits, noise)):
            curve.pop()
        curve.append((bits, noise))
    return np.array([bits for bits, _ in curve]), np.array([noise for _, noise in curve])


def _above(middle: tuple[float, float], left: tuple[float, float], right: tuple[float, float]) -> bool:
    # On or above the line from left to right.
    rise = right[1] - left[1]
    run = right[0] - left[0]
    return (middle[1] - left[1]) * run >= rise * (middle[0] - left[0])


def _entropy_and_noise(atoms: Atoms, codes: Array) -> tuple[float, float]:
    # Codes ascend as values do.
    begins = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    weight, first = (
        np.add.reduceat(values, begins) for values in (atoms.weights, atoms.weights * atoms.values)
    )
    noise = float(atoms.weights @ np.square(atoms.values) - (np.square(first) / weight).sum())
    return float(-(weight * np.log2(weight)).sum()) + 0.0, max(noise, 0.0) + atoms.within


# ---- bounds ---------------------------------------------------------------------------------------


def gauss_bound(variance: float, bits: Array) -> Array:
    """Return σ²·2^-2R, 6.02 dB a bit: the hardest source of a variance (Shannon 1959)."""
    return np.asarray(variance * np.exp2(-2 * bits))


def laplace_lower_bound(variance: float, bits: Array) -> Array:
    """Return Shannon's lower bound for a Laplacian, (e/π)·σ²·2^-2R; at low rates no code reaches it."""
    return gauss_bound(variance * math.e / math.pi, bits)


def laplace_bound(variance: float, bits: Array) -> Array:
    # The least mean squared error of any code.
    excess = np.interp(bits, list(LAPLACE_EXCESS), list(LAPLACE_EXCESS.values()))
    return np.asarray(laplace_lower_bound(variance, bits) * excess)
