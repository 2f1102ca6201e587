"""The places of a convolution's kernel in one, two or three axes: the patches that it multiplies, as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch.nn import functional

from quantviz.tensors.blocks import viewed

#: Numbers of cells to add before and after each axis; below 0 so many are cut off.
Pads: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class KernelPlaces:
    """Pictures with the places of a kernel in them.

    >>> places = KernelPlaces(torch.arange(4)[None, None], (2,), (1,), (1,))
    >>> places.count, places.read(torch.tensor([0, 2])).tolist()
    (3, [[0, 1], [2, 3]])
    """

    #: (images, channels, …), with what is added on their sides.
    images: torch.Tensor
    #: The kernel's size, and the steps between two places and between two of its cells, by axis.
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    #: Whether the kernel's last cell multiplies the first one of a patch, as a transposed convolution does.
    is_flipped: bool = False

    @cached_property
    def grid(self) -> tuple[int, ...]:
        axes = zip(self.images.shape[2:], self.kernel, self.stride, self.dilation, strict=True)
        return tuple(
            max(0, (length - reach(kernel, dilation)) // stride + 1)
            for length, kernel, stride, dilation in axes
        )

    @property
    def count(self) -> int:
        return len(self.images) * math.prod(self.grid)

    def read(self, places: torch.Tensor) -> torch.Tensor:
        """Return some patches, (places, channels · kernel): only these are copied."""
        images = self.images
        rest = places.to(images.device)
        axes = len(self.grid)
        index: list[torch.Tensor] = []
        for axis in reversed(range(axes)):
            cells = torch.arange(self.kernel[axis], device=images.device) * self.dilation[axis]
            if self.is_flipped:
                cells = cells.flip(0)
            lines = (rest % self.grid[axis] * self.stride[axis])[:, None] + cells
            shape = [len(rest), 1, *(1,) * axes]
            shape[2 + axis] = self.kernel[axis]
            index.insert(0, viewed(lines, tuple(shape)))
            rest = rest // self.grid[axis]
        ones = (1,) * axes
        channels = viewed(torch.arange(images.shape[1], device=images.device), (1, -1, *ones))
        return images[(viewed(rest, (-1, 1, *ones)), channels, *index)].flatten(1)


def reach(kernel: int, dilation: int) -> int:
    """Return the cells from a kernel's first to its last, along an axis."""
    return dilation * (kernel - 1) + 1


def padded(images: torch.Tensor, pads: Pads, fill: float = 0.0, mode: str = "constant") -> torch.Tensor:
    sides = [side for pair in reversed(pads) for side in pair]
    if mode == "constant":
        return functional.pad(images, sides, value=fill)
    return functional.pad(images, sides, mode)


def transposed_places(
    images: torch.Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: Pads,
    dilation: tuple[int, ...],
    fill: float = 0.0,
) -> KernelPlaces:
    """Return the places of a transposed convolution: of its kernel, flipped, at each step of pictures with
    `stride` − 1 cells of 0 between two of theirs. `pads` are cut off its outputs.

    >>> transposed_places(torch.ones(1, 1, 2), (2,), (2,), [(0, 0)], (1,)).read(torch.arange(4)).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    lengths = [(length - 1) * step + 1 for length, step in zip(images.shape[2:], stride, strict=True)]
    apart = images.new_full((*images.shape[:2], *lengths), fill)
    apart[(slice(None), slice(None), *(slice(None, None, step) for step in stride))] = images
    around = [reach(*each) - 1 for each in zip(kernel, dilation, strict=True)]
    sides = [(each - first, each - last) for each, (first, last) in zip(around, pads, strict=True)]
    ones = (1,) * len(kernel)
    return KernelPlaces(padded(apart, sides, fill), kernel, ones, dilation, is_flipped=True)
