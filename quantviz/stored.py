"""A tensor that need not lie in memory as float32: its values are read a part at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.errors import Note
from quantviz.granularity import Shape, Window
from quantviz.tensors import as_input

Values = npt.NDArray[np.float32]


class Stored(ABC):
    """Values of a real tensor of 1 to 4 axes, read-only. Safe to read from several threads at once."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Its lengths, none of them 0."""

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @abstractmethod
    def run(self, start: int, stop: int) -> Values:
        """The elements from `start` to before `stop` in row-major order: one axis, contiguous, not to be changed.

        A view of the memory or file they lie in where they lie there as float32, else a copy. NaN and Inf come through.
        """

    @abstractmethod
    def read(self, index: Window) -> torch.Tensor:
        """The part at `index`, one number or slice of step 1 for each axis: float32, not to be changed."""


class InMemory(Stored):
    """A tensor that lies in memory.

    >>> x = InMemory(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> x.run(1, 3).tolist(), x.read((slice(0, 2), 1)).tolist()
    ([2.0, 3.0], [2.0, 4.0])
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor.contiguous()
        self._flat: Values = self._tensor.flatten().numpy()

    @property
    def shape(self) -> Shape:
        return tuple(self._tensor.shape)

    def run(self, start: int, stop: int) -> Values:
        return self._flat[start:stop]

    def read(self, index: Window) -> torch.Tensor:
        return self._tensor[index]


def as_stored(x: Any) -> tuple[Stored, tuple[Note, ...]]:
    """`x` itself where it is `Stored`, else what `tensors.as_input` makes of it, and what changed on the way."""
    if isinstance(x, Stored):
        return x, ()
    tensor, notes = as_input(x)
    return InMemory(tensor), notes
