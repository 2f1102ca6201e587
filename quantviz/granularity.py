"""Granularities: which elements share one scale.

A granularity is added here: one class in `GRANULARITIES` and its words in each language.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

from quantviz.errors import QuantVizError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class BlockLayout:
    """How a tensor falls into blocks. Only `blocks.py` applies it.

    >>> PerGroup(3, axis=1).layout((6, 6))
    BlockLayout(view_shape=(6, 6), block_shape=(1, 3), grid_shape=(6, 2), tail='refuse')
    """

    #: The shape the tensor is looked at in; blocks over a flattened tensor have `(numel,)`.
    view_shape: Shape
    #: The elements of one block along each axis of the view.
    block_shape: Shape
    #: The number of blocks along each axis of the view: the shape of scale and zero point.
    grid_shape: Shape
    #: What happens where a block does not fill up: "refuse".
    tail: str = "refuse"

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return math.prod(self.grid_shape)

    @property
    def block_size(self) -> int:
        """How many elements a block has."""
        return math.prod(self.block_shape)

    def block_of(self, index: Shape) -> Shape:
        """The block that the element at `index` lies in, as a place in the grid.

        >>> PerGroup(3, axis=1).layout((6, 6)).block_of((4, 5))
        (4, 1)
        """
        return tuple(i // n for i, n in zip(index, self.block_shape, strict=True))


class Granularity(Protocol):
    """What every granularity answers."""

    id: ClassVar[str]

    def problems(self) -> Iterator[QuantVizError]:
        """What is wrong with the fields themselves."""

    def shape_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        """What keeps it from a tensor of `shape`."""

    def block_shape(self, shape: Shape) -> Shape:
        """The elements of one block along each axis of a tensor of `shape`."""

    def layout(self, shape: Shape) -> BlockLayout:
        """The blocks of a tensor of `shape`; `QuantVizError` where there are none."""

    def fitted(self, shape: Shape) -> Granularity:
        """The nearest granularity that fits a tensor of `shape`."""


class _ByBlockShape:
    """A granularity that is told by the shape of its blocks."""

    def problems(self) -> Iterator[QuantVizError]:
        return iter(())

    def shape_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        return iter(())

    def block_shape(self, shape: Shape) -> Shape:
        raise NotImplementedError

    def fitted(self, shape: Shape) -> Granularity:
        return PerTensor()

    def layout(self, shape: Shape) -> BlockLayout:
        for problem in (*self.problems(), *self.shape_problems(shape)):
            raise problem
        block = self.block_shape(shape)
        return BlockLayout(shape, block, tuple(n // b for n, b in zip(shape, block, strict=True)))


@dataclass(frozen=True)
class PerTensor(_ByBlockShape):
    """One scale for the whole tensor.

    >>> PerTensor().layout((4, 6)).grid_shape
    (1, 1)
    """

    id: ClassVar[str] = "per_tensor"

    def block_shape(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class PerChannel(_ByBlockShape):
    """One scale for each index of `axis`: `axis=0` of a matrix is one for each row.

    >>> PerChannel(axis=0).layout((4, 6)).grid_shape
    (4, 1)
    >>> PerChannel(axis=-1).layout((4, 6)).grid_shape
    (1, 6)
    """

    axis: int = 0
    id: ClassVar[str] = "per_channel"

    def problems(self) -> Iterator[QuantVizError]:
        yield from _integer_problems(self, "axis", self.axis)

    def shape_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        yield from _axis_problems(self.axis, shape)

    def fitted(self, shape: Shape) -> Granularity:
        return PerChannel(max(-len(shape), min(self.axis, len(shape) - 1)))

    def block_shape(self, shape: Shape) -> Shape:
        axis = self.axis % len(shape)
        return tuple(1 if i == axis else n for i, n in enumerate(shape))


@dataclass(frozen=True)
class PerGroup(_ByBlockShape):
    """One scale for each run of `size` neighbours along `axis`.

    >>> PerGroup(3, axis=1).layout((6, 6)).grid_shape
    (6, 2)
    """

    size: int
    axis: int = -1
    id: ClassVar[str] = "per_group"

    def problems(self) -> Iterator[QuantVizError]:
        yield from _integer_problems(self, "axis", self.axis)
        yield from _integer_problems(self, "size", self.size, smallest=1)

    def shape_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        axis_problems = tuple(_axis_problems(self.axis, shape))
        yield from axis_problems
        if not axis_problems and shape[self.axis] % self.size:
            length = shape[self.axis]
            yield QuantVizError("group_does_not_divide", size=self.size, axis=self.axis, length=length, shape=shape, sizes=_listed(divisors(length)))

    def fitted(self, shape: Shape) -> Granularity:
        axis = max(-len(shape), min(self.axis, len(shape) - 1))
        return PerGroup(_largest_fitting(self.size, shape[axis]), axis)

    def block_shape(self, shape: Shape) -> Shape:
        axis = self.axis % len(shape)
        return tuple(self.size if i == axis else 1 for i in range(len(shape)))


@dataclass(frozen=True)
class PerBlock(_ByBlockShape):
    """One scale for each tile of `rows` × `cols` on the last two axes.

    >>> PerBlock(2, 3).layout((4, 6)).grid_shape
    (2, 2)
    """

    rows: int
    cols: int
    id: ClassVar[str] = "per_block"

    def problems(self) -> Iterator[QuantVizError]:
        yield from _integer_problems(self, "rows", self.rows, smallest=1)
        yield from _integer_problems(self, "cols", self.cols, smallest=1)

    def shape_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        if len(shape) < 2:
            yield QuantVizError("block_needs_two_axes", shape=shape)
        elif shape[-2] % self.rows or shape[-1] % self.cols:
            yield QuantVizError(
                "block_does_not_divide",
                rows=self.rows,
                cols=self.cols,
                shape=shape,
                row_sizes=_listed(divisors(shape[-2])),
                col_sizes=_listed(divisors(shape[-1])),
            )

    def fitted(self, shape: Shape) -> Granularity:
        if len(shape) < 2:
            return PerTensor()
        return PerBlock(_largest_fitting(self.rows, shape[-2]), _largest_fitting(self.cols, shape[-1]))

    def block_shape(self, shape: Shape) -> Shape:
        return (*(1 for _ in shape[:-2]), self.rows, self.cols)


#: Every granularity by id.
GRANULARITIES: Mapping[str, type[Granularity]] = MappingProxyType({each.id: each for each in (PerTensor, PerChannel, PerGroup, PerBlock)})


def divisors(length: int) -> list[int]:
    """The sizes that divide `length`, smallest first.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [n for n in range(1, math.isqrt(length) + 1) if length % n == 0]
    return sorted({*small, *(length // n for n in small)})


def _largest_fitting(size: int, length: int) -> int:
    return max(n for n in divisors(length) if n <= size)


def _listed(sizes: list[int], most: int = 16) -> str:
    return ", ".join(map(str, sizes if len(sizes) <= most else [*sizes[: most - 1], "…", sizes[-1]]))


def _integer_problems(owner: Granularity, name: str, value: object, smallest: int | None = None) -> Iterator[QuantVizError]:
    if not isinstance(value, int) or isinstance(value, bool):
        yield QuantVizError("field_not_integer", owner=type(owner).__name__, field=name, got=value)
    elif smallest is not None and value < smallest:
        yield QuantVizError("field_too_small", owner=type(owner).__name__, field=name, got=value, smallest=smallest)


def _axis_problems(axis: int, shape: Shape) -> Iterator[QuantVizError]:
    if not -len(shape) <= axis < len(shape):
        yield QuantVizError("axis_out_of_range", axis=axis, shape=shape, smallest=-len(shape), largest=len(shape) - 1)
