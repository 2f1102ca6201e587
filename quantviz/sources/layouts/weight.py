"""Weights that lie quantized in a file, and the codes, scales and values of some of their rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.choices import Mode
from quantviz.schemes.conventions import find_convention
from quantviz.schemes.granularity import Granularity, PerBlock, PerChannel, PerGroup, PerTensor, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.catalog import Catalog

#: A checkpoint has many weights of few shapes.
_SCHEMES_KEPT = 1024
#: The content of `config.json` under `quantization_config`.
Config = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Coded:
    #: `(rows, columns)` in the dtype that `quantize` gives them, or the function that unpacks them; empty if
    #: the weight has no scheme, as the scales are then.
    codes: torch.Tensor | Callable[[], torch.Tensor]
    #: float32 by the layout's own arithmetic, not rounded to an engine's dtype. Or the function that computes
    #: them, where they follow from codes, scales and zero points alone: (code − zero point) · scale, or
    #: code · scale + zero point where that is a value.
    values: torch.Tensor | Callable[[], torch.Tensor]
    #: One float32 a block of these rows.
    scale: torch.Tensor
    #: The same, or one for all: a code, or the value of code 0 where the `zero_domain` is "value".
    zero_point: torch.Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.int32))
    #: Words of codes of four bits, eight neighbours of a row in each, the first in the lowest bits: int32 of
    #: `(columns / 8, rows)`.
    words: torch.Tensor | None = None

    @functools.cached_property
    def q(self) -> torch.Tensor:
        return self.codes if isinstance(self.codes, torch.Tensor) else self.codes()

    @property
    def given(self) -> torch.Tensor | None:
        """Return the values where they do not follow from codes, scales and zero points alone."""
        return self.values if isinstance(self.values, torch.Tensor) else None

    @functools.cached_property
    def x_hat(self) -> torch.Tensor:
        return self.values if isinstance(self.values, torch.Tensor) else self.values()


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A weight of `(rows, columns)`, read from the file while its catalogue is open."""

    layout: str
    name: str
    shape: Shape
    parts: tuple[str, ...]
    #: Its calibration is unknown. None for vectors of a codebook, and for groups that are no neighbours.
    scheme: Scheme | None
    scale_dtype: str
    #: Returns some rows, from one multiple of `row_step` to before another, or to the end.
    coded: Callable[[int, int], Coded]
    #: Bits of one element in the file, scales and all else included.
    stored_bits: float
    #: Rows of whole blocks.
    row_step: int = 1
    #: The weight's column at each column of `coded`, if groups are not neighbours (GPTQ's act-order).
    columns: torch.Tensor | None = None
    notes: tuple[Note, ...] = ()
    #: Returns the number that all codes, or all scales of blocks, are multiplied by.
    of_all: Callable[[], float] | None = None
    #: A bias has one axis in the model, and is a column here.
    is_vector: bool = False
    #: Reads all rows and returns `coded` of them, for a layout in which a row's words lie far apart.
    read: Callable[[], Callable[[int, int], Coded]] | None = None
    #: The reason that it cannot be decoded; its shape may be () then, and no other field is valid.
    problem: QuantVizError | None = None

    @property
    def own_shape(self) -> Shape:
        return self.shape[:1] if self.is_vector else self.shape

    @property
    def bits(self) -> int:
        """Return the bits of a code; without a scheme the whole bits stored for an element."""
        return self.scheme.number_format.bits if self.scheme else max(1, int(self.stored_bits))


def values_only(x_hat: torch.Tensor) -> Coded:
    return Coded(torch.empty(0, dtype=torch.uint8), x_hat, torch.empty(0))


def values_in_groups(
    q: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, group: int
) -> torch.Tensor:
    """Return scale · (code − zero point) in groups of neighbours, the last of a row may be short; float32."""
    rows, columns = q.shape
    if columns % group:
        scale, zero_point = (
            each.repeat_interleave(group, dim=1)[:, :columns] for each in (scale, zero_point)
        )
        return scale * (q.float() - zero_point.float())
    # Differences of whole numbers are exact.
    values = q.float().view(rows, -1, group)
    return values.sub_(zero_point.float().unsqueeze(2)).mul_(scale.unsqueeze(2)).view(rows, columns)


def coded_in_groups(q: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, group: int) -> Coded:
    values = functools.partial(values_in_groups, q, scale, zero_point, group)
    return Coded(q.to(torch.uint8), values, scale, zero_point)


def along_rows(group: int, columns: int) -> Granularity:
    """>>> along_rows(32, 64), along_rows(64, 64)
    (PerGroup(size=32, axis=-1), PerChannel(axis=0))
    """
    return PerChannel(0) if group == columns else PerGroup(group)


def columns_by_group(groups: torch.Tensor, columns: int, size: int, name: str) -> torch.Tensor | None:
    """Return the columns group by group, as act-order needs it; None where they are so already.

    >>> columns_by_group(torch.tensor([1, 0, 1, 0]), 4, 2, "x")
    tensor([1, 3, 0, 2])
    """
    groups = groups.to(torch.int64)
    in_place = torch.arange(columns) // size
    if torch.equal(groups, in_place):
        return None
    order = torch.argsort(groups, stable=True)
    if groups.shape != (columns,) or not torch.equal(groups[order], in_place):
        raise QuantVizError("layouts.groups", name=name, columns=columns, groups=-(-columns // size))
    return order


def plain_scheme(
    fmt: str, mode: Mode, granularity: Granularity, shape: Shape, zero_domain: str = "code_int"
) -> Scheme:
    """Return the scheme of value = scale · (code − zero point), with the domain "value" of scale · code +
    zero point; the last block of a row may be short. In float32 that is exact for codes of up to 8 bits and
    scales of 16.
    """
    return _plain_scheme(fmt, mode, cast("Hashable", granularity), shape, zero_domain)


@functools.lru_cache(maxsize=_SCHEMES_KEPT)
def _plain_scheme(fmt: str, mode: Mode, granularity: Any, shape: Shape, zero_domain: str) -> Scheme:
    convention = find_convention("course")
    if zero_domain != "code_int":
        convention = convention.replace(zero_domain=zero_domain)
    scheme = Scheme(fmt, mode, granularity, convention=convention)
    if not scheme.problems(shape):
        return scheme
    return scheme.replace(convention=convention.replace(tail="short"))


def unreadable(layout: str, name: str, parts: tuple[str, ...], problem: QuantVizError) -> QuantizedWeight:
    def coded(start: int, stop: int) -> Coded:
        raise problem.again()

    return QuantizedWeight(layout, name, (), parts, Scheme(), "", coded, 0.0, problem=problem)


def attempted(
    layout: str, name: str, parts: tuple[str, ...], make: Callable[[], QuantizedWeight]
) -> QuantizedWeight:
    """Return the weight, or an unreadable one: any failure on a file's content counts as damage."""
    try:
        weight = make()
        return weight if math.prod(weight.shape) else unreadable(layout, name, parts, _damaged(name))
    except QuantVizError as problem:
        # An error about a scheme's field, such as a group of no columns, would not make sense for a file.
        of_file = problem.key.startswith(("layouts.", "file."))
        return unreadable(layout, name, parts, problem if of_file else _damaged(name))
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return unreadable(layout, name, parts, _damaged(name))


def _damaged(name: str) -> QuantVizError:
    return QuantVizError("layouts.damaged", name=name)


def granularity_of(scales: Shape, shape: Shape, block: tuple[int, int] | None = None) -> Granularity | None:
    """Return the granularity by the shape of the scales, and by a block's rows and columns if the file has
    them.

    >>> granularity_of((64, 2), (64, 256)), granularity_of((64, 1), (64, 256)), granularity_of((), (64, 256))
    (PerGroup(size=128, axis=-1), PerChannel(axis=0), PerTensor())
    >>> granularity_of((2, 3), (192, 300), (128, 128))
    PerBlock(rows=128, cols=128)
    """
    rows, columns = shape
    if scales in ((), (1,), (1, 1)):
        return PerTensor()
    if block is not None and scales == (-(-rows // block[0]), -(-columns // block[1])):
        return PerBlock(*block)
    if scales in ((rows,), (rows, 1)):
        return PerChannel(0)
    return groups_of(scales, shape)


def groups_of(scales: Shape, shape: Shape) -> PerGroup | None:
    """Return the groups along rows, also where a row is one group.

    >>> groups_of((64, 2), (64, 256)), groups_of((64, 1), (64, 16))
    (PerGroup(size=128, axis=-1), PerGroup(size=16, axis=-1))
    """
    rows, columns = shape
    fits = len(scales) == 2 and scales[0] == rows and 0 < scales[1] <= columns and columns % scales[1] == 0
    return PerGroup(columns // scales[1]) if fits else None


def bits_stored(catalog: Catalog, parts: tuple[str, ...], shape: Shape) -> float:
    return 8 * sum(map(catalog.stored_bytes, parts)) / max(1, math.prod(shape))
