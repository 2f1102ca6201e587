"""Moments: the sums and counts that every metric is made of.

Those of two parts of a tensor add up to those of both: a metric is the same formula of a cell, a row, a
block, a piece, or several tensors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.pickling import Picklable
from quantviz.quantization.result import QuantResult, bands_of, steps_of_error

#: Cells whose sums are made together: intermediate numbers stay in the cache, and torch gives no work to
#: other threads, whose waiting would take longer than the work.
_BAND = 2**15

#: Fields that are not added.
_JOINED: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = MappingProxyType(
    {"max_error": torch.maximum, "codes_seen": torch.maximum}
)


@dataclass(frozen=True, eq=False)
class Moments(Picklable):
    """Sums over cells, float64, of one shape: a number for the whole, or one for each of several lines or
    blocks.

    Cells that are left out (`QuantResult.counted`) are in none of them. A field that is not wanted is None.

    >>> from quantviz import Scheme, quantize
    >>> one, two = (Moments.of(quantize(x, Scheme("int4"))) for x in ([1.0, -2.0], [7.0, 0.5, 0.0]))
    >>> both = one.join(two)
    >>> both.cells.item(), both.x2.item(), both.zeros.item()
    (5.0, 54.25, 1.0)
    """

    #: Cells that count; those that saturation changed, those with x = 0, and others with x̂ = 0.
    cells: torch.Tensor | None = None
    clipped: torch.Tensor | None = None
    zeros: torch.Tensor | None = None
    zeroed: torch.Tensor | None = None
    #: Σx, Σx², Σx³, Σx⁴.
    x: torch.Tensor | None = None
    x2: torch.Tensor | None = None
    x3: torch.Tensor | None = None
    x4: torch.Tensor | None = None
    #: Σx̂², Σx·x̂.
    x_hat2: torch.Tensor | None = None
    x_x_hat: torch.Tensor | None = None
    #: Σe, and Σe² of all cells, of those that were not clipped, and of those that were.
    e: torch.Tensor | None = None
    e2: torch.Tensor | None = None
    kept_e2: torch.Tensor | None = None
    clipped_e2: torch.Tensor | None = None
    #: Σ(e / step)², each cell by its own step, of cells that were not clipped, and of those that were.
    kept_steps2: torch.Tensor | None = None
    clipped_steps2: torch.Tensor | None = None
    #: The largest |e|; -inf where there is no cell.
    max_error: torch.Tensor | None = None
    #: Whether each code occurs, 1 or 0, and how often; of the whole only, from the smallest code on.
    codes_seen: torch.Tensor | None = None
    code_counts: torch.Tensor | None = None

    @classmethod
    def of(cls, r: QuantResult) -> Moments:
        """Return the moments of a result, computed band by band."""
        return joined(map(cls._of_band, bands_of(r, _BAND)))

    @classmethod
    def _of_band(cls, r: QuantResult) -> Moments:
        parts = (r.x, r.x_hat, r.error, r.clipped, r.q, steps_of_error(r))
        counted = r.counted
        size = r.scheme.number_format.levels
        x, x_hat, e, clipped, q, steps = (part if counted is None else part[counted] for part in parts)
        wide, wide_hat, error = (part.to(torch.float64) for part in (x, x_hat, e))
        square = wide.square()
        e2 = error.square()
        steps2 = steps.square()
        zero = x == 0
        counts = torch.bincount(
            (q.to(torch.int64) - r.scheme.number_format.code_min).flatten(), minlength=size
        )
        kept_e2 = e2.sum()
        kept_steps2 = steps2.sum()
        clipped_e2 = e2[:0].sum()
        clipped_steps2 = steps2[:0].sum()
        count = clipped.sum()
        if count:
            kept = ~clipped
            kept_e2, kept_steps2 = (sums.masked_fill(clipped, 0).sum() for sums in (e2, steps2))
            clipped_e2, clipped_steps2 = (sums.masked_fill(kept, 0).sum() for sums in (e2, steps2))
        return cls(
            cells=number_of(x.numel()),
            clipped=count.to(torch.float64),
            zeros=zero.sum().to(torch.float64),
            zeroed=((x_hat == 0) & ~zero).sum().to(torch.float64),
            x=wide.sum(),
            x2=square.sum(),
            x3=(square * wide).sum(),
            x4=square.square().sum(),
            x_hat2=wide_hat.square().sum(),
            x_x_hat=(wide * wide_hat).sum(),
            e=error.sum(),
            e2=kept_e2 + clipped_e2,
            kept_e2=kept_e2,
            clipped_e2=clipped_e2,
            kept_steps2=kept_steps2,
            clipped_steps2=clipped_steps2,
            max_error=error.abs().max() if x.numel() else number_of(-torch.inf),
            codes_seen=(counts > 0).to(torch.float64),
            code_counts=counts.to(torch.float64),
        )

    @classmethod
    def along(cls, r: QuantResult, axis: int) -> Moments:
        """Return Σx² and Σe² of each index of an axis."""
        squares = [values.to(torch.float64).square() for values in (r.x, r.error)]
        if r.counted is not None:
            squares = [values.masked_fill(~r.counted, 0) for values in squares]
        others = tuple(i for i in range(r.x.dim()) if i != axis % r.x.dim())
        x2, e2 = (values.sum(others) if others else values for values in squares)
        return cls(x2=x2, e2=e2)

    def join(self, other: Moments) -> Moments:
        """Return the moments of both; a field that is None in one of them is None."""
        fields = {}
        for field in dataclasses.fields(self):
            first = getattr(self, field.name)
            more = getattr(other, field.name)
            join = _JOINED.get(field.name, torch.add)
            fields[field.name] = None if first is None or more is None else join(first, more)
        return Moments(**fields)

    def at(self, places: torch.Tensor) -> Moments:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Moments(
            **{name: None if values is None else values[places] for name, values in fields.items()}
        )


def joined(parts: Iterable[Moments]) -> Moments:
    """Return the moments of all parts, added in their order, of which no two need be there at once."""
    return functools.reduce(Moments.join, parts)


def side_by_side(parts: Iterable[Moments]) -> Moments:
    listed = list(parts)
    names = [
        field.name
        for field in dataclasses.fields(Moments)
        if all(getattr(part, field.name) is not None for part in listed)
    ]
    return Moments(**{name: torch.cat([getattr(part, name) for part in listed]) for name in names})


def number_of(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)
