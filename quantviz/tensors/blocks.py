"""Split, reduce and expand by blocks: the only file that reshapes.

A tensor of `view_shape` (a, b) in blocks of (p, q) is looked at as (a/p, p, b/q, q): even axes count blocks,
odd axes count elements. A number of each block has the layout's `grid_shape`. Last blocks that do not fill up
are padded with a value that does not change the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce

import torch

from quantviz.schemes.granularity import BlockLayout, Shape, Window
from quantviz.schemes.orientation import Orientation

#: Values of a block at a time: sums are the same whatever is read at once.
STRETCH = 2**16
#: Values of all blocks at a time.
_TOGETHER = 2**20


#: Makes one of the answers of two stretches.
Join = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some blocks, each a row: see `calibration_protocol.BlockSource`."""

    numbers: torch.Tensor
    #: float32 (k, n), NaN where a block has no more values.
    values: torch.Tensor

    @cached_property
    def ends(self) -> tuple[torch.Tensor, torch.Tensor]:
        lo = self.values.nan_to_num(math.inf).amin(-1)
        hi = self.values.nan_to_num(-math.inf).amax(-1)
        none = lo > hi
        return lo.masked_fill(none, 0), hi.masked_fill(none, 0)

    def added_up(self, of_rows: Callable[..., torch.Tensor], *of_blocks: torch.Tensor) -> torch.Tensor:
        return self.joined(of_rows, torch.add, *of_blocks)

    def joined(
        self, of_rows: Callable[..., torch.Tensor], join: Join, *of_blocks: torch.Tensor
    ) -> torch.Tensor:
        columns = [column.unsqueeze(-1) for column in of_blocks]
        return reduce(join, (of_rows(stretch, *columns) for stretch in torch.split(self.values, STRETCH, -1)))


def sums_of_rows(*values: torch.Tensor) -> torch.Tensor:
    """Return the sum of each row of each (k, n), as the columns of (k, m), float64.

    numpy adds up a row in an order that follows from its length, torch does not.

    >>> sums_of_rows(torch.ones(2, 3), torch.eye(2) > 0).tolist()
    [[3.0, 1.0], [3.0, 1.0]]
    """
    sums = (each.to(torch.float64).contiguous().numpy().sum(-1) for each in values)
    return torch.stack([torch.from_numpy(each) for each in sums], -1)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a tensor, with the numbers that a calibration needs of them.

    >>> from quantviz.schemes.granularity import PerGroup
    >>> x = torch.tensor([[1.0, -2.0, 3.0, 4.0]])
    >>> lo, hi = Blocks(x, PerGroup(2).layout((1, 4)), torch.float64).min_max()
    >>> lo.tolist(), hi.tolist()
    ([[-2.0, 3.0]], [[1.0, 4.0]])
    """

    #: The whole tensor, float32.
    x: torch.Tensor
    layout: BlockLayout
    #: Dtype of the answers.
    dtype: torch.dtype
    #: Which elements count, bool of the shape of `x`; none for all. Blocks without any have answers 0.
    counted: torch.Tensor | None = None

    def min_max(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return smallest and largest value of each block."""
        inside = _inside(self.layout)
        padded = self.layout.tail == "pad"
        lo = _split(self._filled(math.inf), self.layout, 0 if padded else math.inf).amin(inside)
        hi = _split(self._filled(-math.inf), self.layout, 0 if padded else -math.inf).amax(inside)
        if self.counted is not None:
            empty = lo > hi
            lo = lo.masked_fill(empty, 0)
            hi = hi.masked_fill(empty, 0)
        return lo.to(self.dtype), hi.to(self.dtype)

    def extreme(self) -> torch.Tensor:
        """Return the first element of largest magnitude of each block, with its sign."""
        rows = self._rows(0)
        sizes = rows.abs()
        if self.counted is not None:
            # A 0 that counts comes before one in place of a left-out element: the first may be -0.
            sizes = sizes - rows_of_blocks((~self.counted).to(sizes.dtype), self.layout, 0)
        return rows.gather(-1, sizes.argmax(-1, keepdim=True)).squeeze(-1).to(self.dtype)

    def magnitudes(self) -> Blocks:
        """Return the same blocks of |x|."""
        return Blocks(self.x.abs(), self.layout, self.dtype, self.counted)

    def percentiles(self, *percents: float) -> tuple[torch.Tensor, ...]:
        """Return the `percents` (0 to 100) of each block, interpolated linearly between two values."""
        # Sorted by hand: torch.quantile refuses more than 2**24 elements. The padding of a short block and
        # left-out elements come last.
        rows = self._rows(math.inf)
        ordered = rows.sort(-1).values.to(torch.float64)
        zeros = self._padding()
        last = rows_of_blocks(self._ones(), self.layout, 0).sum(-1, dtype=torch.float64) + zeros - 1
        if self.counted is not None:
            ordered = ordered.masked_fill((last < 0).unsqueeze(-1), 0)
            last = last.clamp(min=0)
        # The zeros that fill a padded block come after its negative values; they are counted, not made.
        negative = (ordered < 0).sum(-1)

        def at(place: torch.Tensor) -> torch.Tensor:
            behind = torch.where(place < negative, place, place - zeros).clamp(0, ordered.shape[-1] - 1)
            values = ordered.gather(-1, behind.to(torch.int64).unsqueeze(-1)).squeeze(-1)
            return values.masked_fill((place >= negative) & (place < negative + zeros), 0)

        answers = []
        for percent in percents:
            place = last * percent / 100
            below = place.floor()
            lower = at(below)
            upper = at(torch.minimum(below + 1, last))
            answers.append((lower + (upper - lower) * (place - below)).to(self.dtype))
        return tuple(answers)

    def mean_magnitude(self) -> torch.Tensor:
        """Return the mean of |x| of each block: the exact sum rounded once, in whatever order."""
        sizes = rows_of_blocks(self._filled(0).abs(), self.layout, 0)
        counts = rows_of_blocks(self._ones(), self.layout, 0).sum(-1, dtype=torch.float64) + self._padding()
        sums = torch.tensor([math.fsum(row) for row in sizes.flatten(0, -2).tolist()], dtype=torch.float64)
        # Nothing counted adds up to 0.
        return (sums.reshape(self.layout.grid_shape) / counts.clamp(min=1)).to(self.dtype)

    def constant(self, value: float) -> torch.Tensor:
        """Return `value` for each block."""
        # A value beyond float32 becomes Inf, which is refused with its own words.
        return torch.full(self.layout.grid_shape, value, dtype=torch.float64).to(self.dtype)

    def runs(self, count: int) -> torch.Tensor:
        """Return the values of each run of `count` neighbouring blocks along the groups' axis, or of a row
        for 0: (elements of a block, count, runs), 0 where they are left out.

        >>> from quantviz.schemes.granularity import PerGroup
        >>> x = torch.arange(8.0).reshape(1, 8)
        >>> Blocks(x, PerGroup(2).layout((1, 8)), torch.float32).runs(2)[:, :, 1].tolist()
        [[4.0, 6.0], [5.0, 7.0]]
        """
        of_runs = layout_of_runs(self.layout, count)
        rows = Blocks(self._filled(0), of_runs, self.dtype)._rows(0)
        in_run = self.layout.block_count // of_runs.block_count
        return rows.reshape(of_runs.block_count, in_run, -1).permute(2, 1, 0)

    def of_runs(self, values: torch.Tensor) -> torch.Tensor:
        """Return the grid of `values` (count, runs), one for each block of a run.

        >>> from quantviz.schemes.granularity import PerGroup
        >>> blocks = Blocks(torch.zeros(8, 2), PerGroup(2, axis=0).layout((8, 2)), torch.float32)
        >>> blocks.of_runs(torch.arange(8).reshape(2, 4)).tolist()
        [[0, 1], [4, 5], [2, 3], [6, 7]]
        """
        axis = _axis_of_groups(self.layout)
        of_runs = layout_of_runs(self.layout, len(values))
        lines = values.T.reshape(*of_runs.grid_shape, len(values))
        return lines.movedim(-1, axis + 1).reshape(self.layout.grid_shape)

    def by_parts(
        self, answer: Callable[[Rows], tuple[torch.Tensor, ...]], count: int, most: int
    ) -> tuple[torch.Tensor, ...]:
        """Return `count` numbers a block by `answer`, of at most `most` blocks at a time: float64."""
        answers = [torch.zeros(self.layout.block_count, dtype=torch.float64) for _ in range(count)]
        for rows in self.rows(most):
            for whole, part in zip(answers, answer(rows), strict=True):
                whole[rows.numbers] = part.to(torch.float64)
        return tuple(whole.reshape(self.layout.grid_shape) for whole in answers)

    def rows(self, most: int) -> Iterator[Rows]:
        """Yield the blocks as rows, at most `most` at a time. Zeros that fill a block up are left out."""
        values = self._rows(math.nan).flatten(0, -2)
        step = max(min(most, _TOGETHER // max(values.shape[-1], 1)), 1)
        for numbers in torch.split(torch.arange(len(values)), step):
            yield Rows(numbers, values[numbers])

    def _padding(self) -> torch.Tensor:
        # The zeros that fill each block.
        if self.layout.tail == "pad":
            return self.layout.block_size - block_sizes(self.layout)
        return torch.zeros(self.layout.grid_shape, dtype=torch.int64)

    def _rows(self, fill: float) -> torch.Tensor:
        return rows_of_blocks(self._filled(fill), self.layout, fill)

    def _filled(self, fill: float) -> torch.Tensor:
        return self.x if self.counted is None else self.x.masked_fill(~self.counted, fill)

    def _ones(self) -> torch.Tensor:
        return torch.ones_like(self.x) if self.counted is None else self.counted.to(self.x.dtype)


def lines_of_runs(values: torch.Tensor) -> torch.Tensor:
    """Return the runs of `Blocks.runs` as (blocks, elements), run after run.

    >>> lines_of_runs(torch.arange(8).view(2, 2, 2).permute(2, 1, 0)).tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    return values.permute(2, 1, 0).contiguous().view(-1, len(values))


def runs_of_lines(values: torch.Tensor, count: int) -> torch.Tensor:
    """Return a number for each of these lines as (blocks of a run, runs).

    >>> runs_of_lines(torch.arange(4), 2).tolist()
    [[0, 2], [1, 3]]
    """
    return values.view(-1, count).T


def layout_of_runs(layout: BlockLayout, count: int) -> BlockLayout:
    """Return the layout of runs of `count` neighbouring groups each; 0 for all of a row.

    >>> from quantviz.schemes.granularity import PerGroup
    >>> layout_of_runs(PerGroup(2).layout((1, 8)), 2).grid_shape
    (1, 2)
    """
    axis = _axis_of_groups(layout)
    block = list(layout.block_shape)
    grid = list(layout.grid_shape)
    count = count or grid[axis]
    block[axis] = block[axis] * count
    grid[axis] = grid[axis] // count
    return BlockLayout(layout.view_shape, tuple(block), tuple(grid), layout.tail)


def _axis_of_groups(layout: BlockLayout) -> int:
    # The last one where no group has more than one element.
    return max(range(len(layout.block_shape)), key=lambda axis: (layout.block_shape[axis], axis))


def expand(grid: torch.Tensor, layout: BlockLayout, shape: Shape) -> torch.Tensor:
    """Return one value a block as one an element, broadcastable to the tensor's `shape`.

    >>> from quantviz.schemes.granularity import PerGroup
    >>> expand(torch.tensor([[1.0, 2.0]]), PerGroup(2).layout((1, 4)), (1, 4)).tolist()
    [[1.0, 1.0, 2.0, 2.0]]
    """
    if layout.view_shape == shape and all(
        1 in pair for pair in zip(layout.grid_shape, layout.block_shape, strict=True)
    ):
        return grid
    spread = _axes(layout)
    single = [n for blocks in layout.grid_shape for n in (blocks, 1)]
    lengths = [blocks * size for blocks, size in zip(spread[::2], spread[1::2], strict=True)]
    full = grid.reshape(single).expand(spread).reshape(lengths)
    return full[tuple(slice(n) for n in layout.view_shape)].reshape(shape)


def block_ids(layout: BlockLayout, shape: Shape) -> torch.Tensor:
    """Return the row-major number of each element's block, int32 of `shape`.

    >>> from quantviz.schemes.granularity import PerBlock
    >>> block_ids(PerBlock(1, 2).layout((2, 4)), (2, 4)).tolist()
    [[0, 0, 1, 1], [2, 2, 3, 3]]
    """
    numbers = torch.arange(layout.block_count, dtype=torch.int32).reshape(layout.grid_shape)
    return expand(numbers, layout, shape).expand(shape)


def flat_indices_of(shape: Shape, index: Window) -> torch.Tensor:
    """Return the flat indices of the part at `index`, one number or slice of step 1 an axis: int64.

    >>> flat_indices_of((3, 4), (slice(1, 3), slice(2, 4))).tolist()
    [[6, 7], [10, 11]]
    """
    flat = torch.zeros((), dtype=torch.int64)
    for part, length in zip(index, shape, strict=True):
        indices = torch.tensor(part) if isinstance(part, int) else torch.arange(*part.indices(length))
        flat = flat.unsqueeze(-1) * length + indices if indices.dim() else flat * length + indices
    return flat


def block_numbers(places: torch.Tensor, layout: BlockLayout) -> torch.Tensor:
    """Return the row-major numbers of the blocks of the elements at flat `places`, int64.

    >>> from quantviz.schemes.granularity import PerBlock
    >>> block_numbers(torch.tensor([0, 3, 7]), PerBlock(1, 2).layout((2, 4))).tolist()
    [0, 1, 3]
    """
    numbers = torch.zeros_like(places)
    rest = places
    inner = math.prod(layout.view_shape)
    for length, size, count in zip(layout.view_shape, layout.block_shape, layout.grid_shape, strict=True):
        inner //= length
        numbers = numbers * count + rest // inner // size
        rest = rest % inner
    return numbers


def flat_indices(shape: Shape) -> torch.Tensor:
    """Return each element's place in row-major order, int64.

    >>> flat_indices((2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return torch.arange(math.prod(shape)).reshape(shape)


def to_grid(values: torch.Tensor, layout: BlockLayout) -> torch.Tensor | None:
    """Return one value for all blocks, or one a block, as `grid_shape`; None if the count does not fit."""
    if values.numel() == 1:
        return values.reshape(()).expand(layout.grid_shape).clone()
    return values.reshape(layout.grid_shape) if values.numel() == layout.block_count else None


def block_values(x: torch.Tensor, layout: BlockLayout, block: Shape) -> torch.Tensor:
    window = tuple(slice(i * n, (i + 1) * n) for i, n in zip(block, layout.block_shape, strict=True))
    return x.reshape(layout.view_shape)[window].reshape(-1)


def rows_of_blocks(values: torch.Tensor, layout: BlockLayout, fill: float) -> torch.Tensor:
    """Return `values` as (*grid_shape, elements of a block), row-major, short blocks filled with `fill`.

    >>> from quantviz.schemes.granularity import PerBlock
    >>> rows_of_blocks(torch.arange(8).reshape(2, 4), PerBlock(2, 2).layout((2, 4)), 0).tolist()
    [[[0, 1, 4, 5], [2, 3, 6, 7]]]
    """
    split = _split(values, layout, fill)
    axes = split.dim()
    return split.permute(*range(0, axes, 2), *range(1, axes, 2)).reshape(*layout.grid_shape, -1)


def block_sums(values: torch.Tensor, layout: BlockLayout) -> torch.Tensor:
    """Return each block's sum, of `grid_shape`; integers and bool are added up as int64.

    >>> from quantviz.schemes.granularity import PerBlock
    >>> block_sums(torch.arange(8).reshape(2, 4), PerBlock(2, 2).layout((2, 4))).tolist()
    [[10, 18]]
    """
    return _split(values, layout, 0).sum(_inside(layout))


def any_of_blocks(marks: torch.Tensor, layout: BlockLayout) -> torch.Tensor:
    """Return whether any element of each block is marked.

    >>> from quantviz.schemes.granularity import PerBlock
    >>> any_of_blocks(torch.eye(4) > 0, PerBlock(2, 2).layout((4, 4))).tolist()
    [[True, False], [False, True]]
    """
    return block_sums(marks, layout) > 0


def block_sizes(layout: BlockLayout) -> torch.Tensor:
    """Return the tensor's elements in each block, int64 of `grid_shape`.

    >>> from quantviz.schemes.granularity import Flat
    >>> block_sizes(Flat(4).layout((2, 3), "short")).tolist()
    [4, 2]
    """
    sizes = torch.ones((), dtype=torch.int64)
    for length, size, count in zip(layout.view_shape, layout.block_shape, layout.grid_shape, strict=True):
        sizes = sizes.unsqueeze(-1) * (length - torch.arange(count) * size).clamp(max=size)
    return sizes


def matrix(values: torch.Tensor, row_axis: int | None, col_axis: int, at: Shape) -> torch.Tensor:
    """Return the rows × columns of two axes, the others held at `at`; one row of a single axis.

    >>> matrix(torch.arange(8).reshape(2, 2, 2), 2, 0, (0, 1, 0)).tolist()
    [[2, 6], [3, 7]]
    """
    if row_axis is None:
        return values.reshape(1, -1)
    picked = values[tuple(slice(None) if axis in (row_axis, col_axis) else i for axis, i in enumerate(at))]
    return picked if row_axis < col_axis else picked.T


def oriented(x: torch.Tensor, orientation: Orientation) -> torch.Tensor:
    """Return a weight as outputs × inputs, in memory of its own.

    >>> oriented(torch.arange(6.0).view(2, 3), Orientation((1,))).tolist()
    [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    """
    shape = orientation.seen(tuple(x.shape))
    return x.permute(orientation.order(x.dim())).reshape(shape).contiguous()


def viewed(values: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Return the same memory in another shape; `RuntimeError` for another order, as a transposed tensor's.

    >>> viewed(torch.arange(4), (-1, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return values.view(shape)


def _split(x: torch.Tensor, layout: BlockLayout, fill: float) -> torch.Tensor:
    view = x.reshape(layout.view_shape)
    axes = _axes(layout)
    missing = [
        blocks * size - n for blocks, size, n in zip(axes[::2], axes[1::2], layout.view_shape, strict=True)
    ]
    if any(missing):
        view = torch.nn.functional.pad(
            view, [n for count in reversed(missing) for n in (0, count)], value=fill
        )
    return view.reshape(axes)


def _axes(layout: BlockLayout) -> list[int]:
    """Return, by axes, the number of blocks and of places in one.

    A block that reaches beyond the tensor has one place beyond it as a mark: it may be many times as long.

    >>> from quantviz.schemes.granularity import PerGroup
    >>> _axes(PerGroup(4).layout((2, 10), "pad")), _axes(PerGroup(4000).layout((2, 10), "pad"))
    ([2, 1, 3, 4], [2, 1, 1, 11])
    """
    lengths = zip(layout.grid_shape, layout.block_shape, layout.view_shape, strict=True)
    return [n for blocks, size, length in lengths for n in (blocks, min(size, length + 1))]


def _inside(layout: BlockLayout) -> tuple[int, ...]:
    return tuple(range(1, 2 * len(layout.grid_shape), 2))
