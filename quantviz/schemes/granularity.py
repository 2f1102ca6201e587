"""Granularities: the sets of elements that share one scale.

A granularity is added here: one class in `GRANULARITIES` and its words in each language.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from quantviz.errors import QuantVizError
from quantviz.public_calls import check_fields, public_class, whole
from quantviz.schemes.choices import Tail

Shape = tuple[int, ...]
#: A block of at most this many elements may be more than four times the tensor.
MOST_IN_BLOCK = 2**16
#: The largest number in a text form: 18 digits.
_MOST = 10**18 - 1
#: A part of a tensor: one number or slice for each axis, all inside its shape.
Window = tuple[int | slice, ...]


def flat_index(index: Shape, shape: Shape) -> int:
    """Return the place of the element at `index` in row-major order.

    >>> flat_index((1, 2), (2, 3))
    5
    """
    flat = 0
    for i, n in zip(index, shape, strict=True):
        flat = flat * n + i
    return flat


@public_class
@dataclass(frozen=True)
class BlockLayout:
    """The division of a tensor into blocks. Only `blocks.py` applies it.

    >>> PerGroup(3, axis=1).layout((6, 6))
    BlockLayout(view_shape=(6, 6), block_shape=(1, 3), grid_shape=(6, 2), tail='refuse')
    """

    #: Blocks over a flattened tensor have `(numel,)`.
    view_shape: Shape
    block_shape: Shape
    #: The shape of scale and zero point.
    grid_shape: Shape
    #: A last block that does not fill up is refused, "short", or filled with zeros ("pad").
    tail: Tail = "refuse"

    def __post_init__(self) -> None:
        # A layout is made for each band of a tensor: only doubtful shapes get the full check.
        for shape in (self.view_shape, self.block_shape, self.grid_shape):
            if type(shape) is not tuple or {*map(type, shape)} - {int}:
                check_fields(self)

    @property
    def block_count(self) -> int:
        """Return the number of blocks."""
        return math.prod(self.grid_shape)

    @property
    def padded_size(self) -> int:
        """Return the number of elements of all blocks, with padding."""
        return self.block_count * self.block_size

    @property
    def block_size(self) -> int:
        """Return the number of elements of a full block."""
        return math.prod(self.block_shape)

    def window(self, block: Shape) -> tuple[slice, ...]:
        """Return the elements of the block at `block` of the grid, as a part of the view.

        >>> Flat(4).layout((2, 3), "short").window((1,))
        (slice(4, 6, None),)
        """
        return tuple(
            slice(i * size, min((i + 1) * size, n))
            for i, size, n in zip(block, self.block_shape, self.view_shape, strict=True)
        )

    def size_of(self, block: Shape) -> int:
        """Return the number of the tensor's elements in the block at `block`: fewer in a short last one.

        >>> Flat(4).layout((2, 3), "short").size_of((1,))
        2
        """
        return math.prod(part.stop - part.start for part in self.window(block))

    def block_of(self, index: Shape, shape: Shape) -> Shape:
        """Return the block, as a place in the grid, of the element at `index` of a tensor of `shape`.

        >>> PerGroup(3, axis=1).layout((6, 6)).block_of((4, 5), (6, 6))
        (4, 1)
        >>> Flat(4).layout((2, 6)).block_of((1, 1), (2, 6))
        (1,)
        """
        place = index
        if shape != self.view_shape:
            flat = flat_index(index, shape)
            place = ()
            for n in reversed(self.view_shape):
                place = (flat % n, *place)
                flat = flat // n
        return tuple(i // n for i, n in zip(place, self.block_shape, strict=True))


@public_class
class Granularity(ABC):
    """The base of every granularity: a frozen dataclass, whose blocks follow from the shape of one."""

    id: ClassVar[str]
    #: Whether it has one scale for a tensor of any shape.
    single: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # NumPy's whole numbers become Python's, so that the text form round-trips.
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.type == "int" and not isinstance(value, bool):
                number = whole(value)
                object.__setattr__(self, field.name, value if number is None else number)

    def problems(self) -> Iterator[QuantVizError]:
        """Yield an error for each bad field: a size is a whole number from 1 on, an axis any."""
        for field in sorted(dataclasses.fields(self), key=lambda field: field.name != "axis"):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            about = {"owner": type(self).__name__, "field": field.name, "got": value}
            if field.type == "bool" and not isinstance(value, bool):
                yield QuantVizError("field_not_bool", **about)
            if field.type != "int":
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                yield QuantVizError("field_not_integer", **about)
            elif value < 1 and field.name != "axis":
                yield QuantVizError("field_too_small", **about, smallest=1)
            elif abs(value) > _MOST:
                yield QuantVizError("field_too_large", **about, largest=_MOST)

    def shape_problems(self, shape: Shape, tail: Tail = "refuse") -> Iterator[QuantVizError]:
        """Yield an error for each misfit with a tensor of `shape`; `tail` is a `choices.Tail`."""
        return iter(())

    @abstractmethod
    def block_shape(self, shape: Shape) -> Shape:
        """Return the elements of one block along each axis of the view of a tensor of `shape`."""

    def view_shape(self, shape: Shape) -> Shape:
        """Return the shape in which a tensor of `shape` is viewed."""
        return shape

    def layout(self, shape: Shape, tail: Tail = "refuse") -> BlockLayout:
        """Return the blocks of a tensor of `shape`; raise `QuantVizError` if it does not fit."""
        if min(shape, default=0) < 0:
            owner = type(self).__name__
            raise QuantVizError("field_too_small", owner=owner, field="shape", got=shape, smallest=0)
        # Sizes must be valid before they are compared with the shape.
        for problem in itertools.chain(self.problems(), self.shape_problems(shape, tail)):
            raise problem
        view = self.view_shape(shape)
        block = self.block_shape(shape)
        grid = tuple(-(-n // b) for n, b in zip(view, block, strict=True))
        full = tuple(map(operator.mul, grid, block)) == view
        short: Tail = "pad" if tail == "pad" else "short"
        return BlockLayout(view, block, grid, "refuse" if full else short)

    def fitted(self, shape: Shape) -> Granularity:
        """Return the nearest granularity that fits a tensor of `shape`."""
        return PerTensor()

    @classmethod
    @abstractmethod
    def candidates(cls, shape: Shape, sizes: tuple[int, ...] = ()) -> Iterator[Granularity]:
        """Yield the useful granularities of its kind for `shape`, the usual first; of `sizes` if given."""


@public_class
@dataclass(frozen=True)
class PerTensor(Granularity):
    """One scale for the whole tensor.

    >>> PerTensor().layout((4, 6)).grid_shape
    (1, 1)
    """

    id: ClassVar[str] = "per_tensor"
    single: ClassVar[bool] = True

    @classmethod
    def candidates(cls, shape: Shape, sizes: tuple[int, ...] = ()) -> Iterator[Granularity]:
        yield cls()

    def block_shape(self, shape: Shape) -> Shape:
        return shape


@public_class
@dataclass(frozen=True)
class PerChannel(Granularity):
    """One scale for each index of `axis`: `axis=0` of a matrix is one for each row.

    >>> PerChannel(axis=0).layout((4, 6)).grid_shape
    (4, 1)
    >>> PerChannel(axis=-1).layout((4, 6)).grid_shape
    (1, 6)
    """

    axis: int = 0
    id: ClassVar[str] = "per_channel"

    def shape_problems(self, shape: Shape, tail: Tail = "refuse") -> Iterator[QuantVizError]:
        yield from _axis_problems(self.axis, shape)

    def fitted(self, shape: Shape) -> Granularity:
        return PerChannel(max(-len(shape), min(self.axis, len(shape) - 1)))

    @classmethod
    def candidates(cls, shape: Shape, sizes: tuple[int, ...] = ()) -> Iterator[Granularity]:
        yield from (cls(axis) for axis in range(len(shape)))

    def block_shape(self, shape: Shape) -> Shape:
        axis = self.axis % len(shape)
        return tuple(1 if i == axis else n for i, n in enumerate(shape))


@public_class
@dataclass(frozen=True)
class PerGroup(Granularity):
    """One scale for each run of `size` neighbours along `axis`.

    >>> PerGroup(3, axis=1).layout((6, 6)).grid_shape
    (6, 2)
    """

    size: int
    axis: int = -1
    id: ClassVar[str] = "per_group"

    def shape_problems(self, shape: Shape, tail: Tail = "refuse") -> Iterator[QuantVizError]:
        axis_problems = tuple(_axis_problems(self.axis, shape))
        yield from axis_problems
        if not axis_problems and tail in ("refuse", "short_tiles") and shape[self.axis] % self.size:
            length = shape[self.axis]
            yield QuantVizError(
                "group_does_not_divide",
                size=self.size,
                axis=self.axis,
                length=length,
                shape=shape,
                sizes=_listed(divisors(length)),
            )
        yield from _size_problems(self.size, shape)

    def fitted(self, shape: Shape) -> Granularity:
        axis = max(-len(shape), min(self.axis, len(shape) - 1))
        return PerGroup(_largest_fitting(self.size, shape[axis]), axis)

    @classmethod
    def candidates(cls, shape: Shape, sizes: tuple[int, ...] = ()) -> Iterator[Granularity]:
        for axis in reversed(range(len(shape))):
            yield from (
                cls(size, counted(axis, len(shape))) for size in (sizes or divisors(shape[axis])[1:] or (1,))
            )

    def block_shape(self, shape: Shape) -> Shape:
        axis = self.axis % len(shape)
        return tuple(self.size if i == axis else 1 for i in range(len(shape)))


@public_class
@dataclass(frozen=True)
class PerBlock(Granularity):
    """One scale for each tile of `rows` × `cols` on the last two axes.

    >>> PerBlock(2, 3).layout((4, 6)).grid_shape
    (2, 2)
    """

    rows: int
    cols: int
    id: ClassVar[str] = "per_block"

    def shape_problems(self, shape: Shape, tail: Tail = "refuse") -> Iterator[QuantVizError]:
        if len(shape) < 2:
            yield QuantVizError("block_needs_two_axes", shape=shape)
        elif tail == "refuse" and (shape[-2] % self.rows or shape[-1] % self.cols):
            yield QuantVizError(
                "block_does_not_divide",
                rows=self.rows,
                cols=self.cols,
                shape=shape,
                row_sizes=_listed(divisors(shape[-2])),
                col_sizes=_listed(divisors(shape[-1])),
            )
        yield from _size_problems(self.rows * self.cols, shape)

    def fitted(self, shape: Shape) -> Granularity:
        if len(shape) < 2:
            return PerTensor()
        return PerBlock(_largest_fitting(self.rows, shape[-2]), _largest_fitting(self.cols, shape[-1]))

    @classmethod
    def candidates(cls, shape: Shape, sizes: tuple[int, ...] = ()) -> Iterator[Granularity]:
        if len(shape) > 1:
            yield from (cls(rows, cols) for rows in divisors(shape[-2]) for cols in divisors(shape[-1]))

    def block_shape(self, shape: Shape) -> Shape:
        return (*(1 for _ in shape[:-2]), self.rows, self.cols)


@public_class
@dataclass(frozen=True)
class Flat(Granularity):
    """One scale for each `size` elements of the flattened tensor: neighbours, or every (numel / size)-th.

    >>> Flat(4).layout((2, 6)).grid_shape, Flat(4, strided=True).layout((2, 6)).grid_shape
    ((3,), (1, 3))
    """

    size: int
    strided: bool = False
    id: ClassVar[str] = "flat"

    def shape_problems(self, shape: Shape, tail: Tail = "refuse") -> Iterator[QuantVizError]:
        count = math.prod(shape)
        # Strided blocks have no last one that could be short.
        if (tail in ("refuse", "short_tiles") or self.strided) and count % self.size:
            yield QuantVizError(
                "flat_does_not_divide",
                size=self.size,
                count=count,
                shape=shape,
                sizes=_listed(divisors(count)),
            )
        yield from _size_problems(self.size, shape)

    def fitted(self, shape: Shape) -> Granularity:
        return Flat(_largest_fitting(self.size, math.prod(shape)), self.strided)

    @classmethod
    def candidates(cls, shape: Shape, sizes: tuple[int, ...] = ()) -> Iterator[Granularity]:
        for strided in (False, True):
            yield from (cls(size, strided) for size in (sizes or divisors(math.prod(shape))[1:] or (1,)))

    def view_shape(self, shape: Shape) -> Shape:
        count = math.prod(shape)
        return (self.size, count // self.size) if self.strided else (count,)

    def block_shape(self, shape: Shape) -> Shape:
        return (self.size, 1) if self.strided else (self.size,)


def nearest_granularity(
    wanted: Granularity,
    among: Iterable[Granularity],
    shape: Shape,
    tail: Tail = "refuse",
    usual_size: int = 0,
) -> Granularity:
    """Return the one of `among` whose blocks are most like those of `wanted`, of the same kind if possible.

    If `wanted` has no size, blocks of `usual_size` come first. Raises `QuantVizError` if none fits.

    >>> nearest_granularity(PerGroup(48), PerGroup.candidates((4, 96), (16, 32, 64)), (4, 96))
    PerGroup(size=32, axis=-1)
    >>> nearest_granularity(PerChannel(0), Flat.candidates((4, 64), (32, 64, 128)), (4, 64))
    Flat(size=64, strided=False)
    >>> nearest_granularity(PerTensor(), Flat.candidates((4, 64), (32, 64, 128)), (4, 64), usual_size=32)
    Flat(size=32, strided=False)
    """
    sized = hasattr(wanted, "size")
    goal = wanted.block_shape(shape) if not any(wanted.shape_problems(shape, "pad")) else shape

    def distance(other: Granularity) -> tuple[bool, bool, float, bool]:
        block = other.block_shape(shape)
        same_view = len(goal) == len(block) and other.view_shape(shape) == wanted.view_shape(shape)
        pairs = zip(goal, block, strict=True) if same_view else ((math.prod(goal), math.prod(block)),)
        unusual = not sized and usual_size > 0 and getattr(other, "size", None) != usual_size
        return (
            other.id != wanted.id,
            unusual,
            sum(abs(math.log2(a / b)) for a, b in pairs),
            getattr(other, "strided", False),
        )

    closest = None
    problems = []
    for other in among:
        problem = next(iter(other.shape_problems(shape, tail)), None)
        if problem:
            problems.append(problem)
        elif closest is None or distance(other) < distance(closest):
            closest = other
    if closest is None:
        raise problems[0] if problems else QuantVizError("block_needs_two_axes", shape=shape)
    return closest


GRANULARITIES: Mapping[str, type[Granularity]] = MappingProxyType(
    {kind.id: kind for kind in (PerTensor, PerChannel, PerGroup, PerBlock, Flat)}
)


def counted(axis: int, axes: int) -> int:
    """Return the number of an axis of `axes`: -1 for the last, which stays the last on other tensors.

    >>> counted(1, 2), counted(1, 3)
    (-1, 1)
    """
    return -1 if axis == axes - 1 else axis


def divisors(length: int) -> list[int]:
    """Return the sizes that divide `length`, smallest first.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [n for n in range(1, math.isqrt(length) + 1) if length % n == 0]
    return sorted({*small, *(length // n for n in small)})


def _largest_fitting(size: int, length: int) -> int:
    return max(n for n in divisors(length) if n <= size)


def _listed(sizes: list[int], most: int = 16) -> str:
    return ", ".join(map(str, sizes if len(sizes) <= most else [*sizes[: most - 1], "…", sizes[-1]]))


def _size_problems(size: int, shape: Shape) -> Iterator[QuantVizError]:
    # A link could ask for a block far larger than the tensor.
    count = math.prod(shape)
    most = max(MOST_IN_BLOCK, 4 * count)
    if size > most:
        yield QuantVizError("block_too_large", size=size, shape=shape, count=count, largest=most)


def _axis_problems(axis: int, shape: Shape) -> Iterator[QuantVizError]:
    if not -len(shape) <= axis < len(shape):
        yield QuantVizError(
            "axis_out_of_range", axis=axis, shape=shape, smallest=-len(shape), largest=len(shape) - 1
        )
