"""Seeded random tensors: the same text form gives the same tensor on every machine.

All values are drawn in float64 and rounded to float32 at the end. `torch.randn` in float32 takes a
vectorised path whose last bits depend on the processor; in float64 it does not, and the tiny
differences between mathematical libraries there are lost in the rounding.

A distribution is added here: one class, its entry in `SOURCES`, its words in each language.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import Source

if TYPE_CHECKING:
    import torch

LARGEST_SIDE = 2**14
#: Drawn in float64, which takes twice the tensor's memory on the way.
LARGEST_COUNT = 2**24
#: The generator reads 32 bits: larger seeds would repeat smaller ones.
LARGEST_SEED = 2**32 - 1
#: Far enough below the largest float32 (3.4e38) for all drawn numbers to stay finite.
LARGEST_NUMBER = 1e30


class Bounds(NamedTuple):
    lowest: float
    highest: float


_SIGNED = Bounds(-LARGEST_NUMBER, LARGEST_NUMBER)
_SPREAD = Bounds(0.0, LARGEST_NUMBER)
_SIDE = Bounds(1, LARGEST_SIDE)


def _limits(**more: Bounds) -> Mapping[str, Bounds]:
    return MappingProxyType({"rows": _SIDE, "cols": _SIDE, "seed": Bounds(0, LARGEST_SEED), **more})


@dataclass(frozen=True)
class _Random(Source):
    rows: int = 32
    cols: int = 32
    seed: int = 0

    id: ClassVar[str]
    kind: ClassVar[str] = "random"
    limits: ClassVar[Mapping[str, Bounds]] = _limits()

    @property
    def shape(self) -> Shape:
        return (self.rows, self.cols)

    def problems(self) -> Iterator[QuantVizError]:
        of_fields: list[QuantVizError] = []
        for field in dataclasses.fields(self):
            whole = str(field.type).startswith("int")
            of_fields += self._field_problems(field.name, getattr(self, field.name), whole)
        if not of_fields and self.rows * self.cols > LARGEST_COUNT:
            sizes = {"rows": self.rows, "cols": self.cols, "count": self.rows * self.cols}
            of_fields.append(QuantVizError("source.too_many", source=self.id, **sizes, most=LARGEST_COUNT))
        yield from of_fields or self._own_problems()

    def _own_problems(self) -> Iterator[QuantVizError]:
        return iter(())

    def _field_problems(self, name: str, value: Any, whole: bool) -> Iterator[QuantVizError]:
        if name not in self.limits or value is None:
            return
        if not isinstance(value, int if whole else int | float) or isinstance(value, bool):
            yield QuantVizError(
                "field_not_integer" if whole else "source.not_number", owner=self.id, field=name, got=value
            )
        elif not self.limits[name].lowest <= value <= self.limits[name].highest:  # NaN too
            yield QuantVizError(
                "source.limits", source=self.id, field=name, got=value, **self.limits[name]._asdict()
            )

    def tensor(self) -> torch.Tensor:
        import torch

        for problem in self.problems():
            raise problem
        return self._draw(_Draws(torch.Generator().manual_seed(self.seed), self.shape)).to(torch.float32)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        raise NotImplementedError


class _Draws:
    def __init__(self, generator: torch.Generator, shape: Shape) -> None:
        self.generator = generator
        self.shape = shape

    def normal(self) -> torch.Tensor:
        import torch

        return torch.randn(self.shape, generator=self.generator, dtype=torch.float64)

    def uniform(self) -> torch.Tensor:
        import torch

        return torch.rand(self.shape, generator=self.generator, dtype=torch.float64)

    def above_zero(self) -> torch.Tensor:
        """Draw from U(0, 1], of which a logarithm is finite."""
        return 1 - self.uniform()

    def sign(self) -> torch.Tensor:
        return 1 - 2 * (self.uniform() < 0.5).double()


@dataclass(frozen=True)
class Normal(_Random):
    """N(mean, std²), as weights are after initialisation."""

    mean: float = 0.0
    std: float = 1.0
    id: ClassVar[str] = "normal"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(mean=_SIGNED, std=_SPREAD)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        return draws.normal() * self.std + self.mean


@dataclass(frozen=True)
class Laplace(_Random):
    """An exponential of mean `scale` with a random sign, around `mean`; variance 2·scale²."""

    mean: float = 0.0
    scale: float = 1.0
    id: ClassVar[str] = "laplace"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(mean=_SIGNED, scale=_SPREAD)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        # Inverse of the exponential's distribution function, 1 - exp(-v).
        return self.mean - draws.sign() * draws.above_zero().log() * self.scale


@dataclass(frozen=True)
class Uniform(_Random):
    """Equally likely everywhere between `lo` and `hi`."""

    lo: float = -1.0
    hi: float = 1.0
    id: ClassVar[str] = "uniform"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(lo=_SIGNED, hi=_SIGNED)

    def _own_problems(self) -> Iterator[QuantVizError]:
        if self.lo > self.hi:
            yield QuantVizError("source.order", lo=self.lo, hi=self.hi)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        return self.lo + draws.uniform() * (self.hi - self.lo)


@dataclass(frozen=True)
class StudentT(_Random):
    """Student's t: the smaller `df`, the heavier the tails."""

    df: float = 3.0
    id: ClassVar[str] = "student_t"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(df=Bounds(1.0, 1e6))

    def _draw(self, draws: _Draws) -> torch.Tensor:
        # Bailey's polar form of Box-Muller (Mathematics of Computation 62, 1994): exact for every df.
        import torch

        radius = (self.df * torch.expm1(-2 / self.df * draws.above_zero().log())).sqrt()
        return radius * torch.cos(2 * math.pi * draws.uniform())


@dataclass(frozen=True)
class Bimodal(_Random):
    """Two normal heaps of spread `std` around -distance/2 and +distance/2."""

    distance: float = 6.0
    std: float = 0.5
    id: ClassVar[str] = "bimodal"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(distance=_SPREAD, std=_SPREAD)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        return draws.sign() * (self.distance / 2) + draws.normal() * self.std


@dataclass(frozen=True)
class _LoudLines(_Random):
    every: int = 8
    factor: float = 10.0
    limits: ClassVar[Mapping[str, Bounds]] = _limits(every=Bounds(1, LARGEST_SIDE), factor=_SIGNED)
    of_columns: ClassVar[bool] = False

    def _draw(self, draws: _Draws) -> torch.Tensor:
        values = draws.normal()
        lines = values.T if self.of_columns else values
        lines[:: self.every] *= self.factor
        return values


@dataclass(frozen=True)
class LoudRows(_LoudLines):
    """N(0, 1), where row 0, row `every`, row 2·`every` … are `factor` times louder."""

    id: ClassVar[str] = "loud_rows"


@dataclass(frozen=True)
class LoudColumns(_LoudLines):
    """N(0, 1), where column 0, column `every`, column 2·`every` … are `factor` times louder."""

    id: ClassVar[str] = "loud_columns"
    of_columns: ClassVar[bool] = True


@dataclass(frozen=True)
class LoudChannels(_Random):
    """N(0, 1), where `channels` columns drawn by the seed are louder, as inputs are after a norm."""

    channels: int = 1
    factor: float = 20.0
    id: ClassVar[str] = "loud_channels"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(channels=Bounds(0, LARGEST_SIDE), factor=_SIGNED)

    def _own_problems(self) -> Iterator[QuantVizError]:
        if self.channels > self.cols:
            yield QuantVizError("source.channels", got=self.channels, cols=self.cols)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        import torch

        values = draws.normal()
        values[:, torch.randperm(self.cols, generator=draws.generator)[: self.channels]] *= self.factor
        return values


@dataclass(frozen=True)
class AfterGelu(_Random):
    """GELU of N(mean, std²), x · Φ(x): no value below -0.17, most of them close to 0."""

    mean: float = 0.0
    std: float = 1.0
    id: ClassVar[str] = "after_gelu"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(mean=_SIGNED, std=_SPREAD)

    def _draw(self, draws: _Draws) -> torch.Tensor:
        import torch

        before = draws.normal() * self.std + self.mean
        share: torch.Tensor = torch.special.erfc(-before / math.sqrt(2)) / 2
        return before * share


_PLACE = Bounds(0, LARGEST_SIDE - 1)


@dataclass(frozen=True)
class OneOutlier(_Random):
    """N(0, 1) with the one cell (row, col) set to `value`; None is the middle."""

    value: float = 100.0
    row: int | None = None
    col: int | None = None
    id: ClassVar[str] = "one_outlier"
    limits: ClassVar[Mapping[str, Bounds]] = _limits(value=_SIGNED, row=_PLACE, col=_PLACE)

    @property
    def place(self) -> Shape:
        return (
            self.rows // 2 if self.row is None else self.row,
            self.cols // 2 if self.col is None else self.col,
        )

    def _own_problems(self) -> Iterator[QuantVizError]:
        if not (self.place[0] < self.rows and self.place[1] < self.cols):
            yield QuantVizError(
                "source.place", row=self.place[0], col=self.place[1], rows=self.rows, cols=self.cols
            )

    def _draw(self, draws: _Draws) -> torch.Tensor:
        values = draws.normal()
        values[self.place] = self.value
        return values


@dataclass(frozen=True)
class AllPositive(_Random):
    """Exponential of mean `scale`: no negative value, many small ones, like activations."""

    scale: float = 1.0
    id: ClassVar[str] = "all_positive"
    # A smaller scale would let the smallest draws fall to 0 in float32.
    limits: ClassVar[Mapping[str, Bounds]] = _limits(scale=Bounds(1e-20, LARGEST_NUMBER))

    def _draw(self, draws: _Draws) -> torch.Tensor:
        # A draw of exactly 0 or 1 (one in 2**53) is moved to its neighbour: its logarithm would be infinite
        # or 0.
        return -draws.uniform().clamp(min=2**-53, max=1 - 2**-53).log() * self.scale
