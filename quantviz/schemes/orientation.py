"""The axes of a weight that are its outputs: scales "for each row" and groups depend on them.

Engines quantize a weight as a matrix, outputs × inputs. PyTorch's linear layer stores it so; GPT-2's
Conv1D, ONNX's MatMul, Keras and JAX store inputs × outputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from quantviz.errors import QuantVizError
from quantviz.schemes.choices import ToldBy
from quantviz.schemes.granularity import Shape, flat_index

#: Axes of a convolution's weight: output channels, input channels, and two or three of the kernel.
CONVOLUTIONS = (4, 5)
MOST_WEIGHT_AXES = max(CONVOLUTIONS)
_AXES = tuple(map(str, range(MOST_WEIGHT_AXES)))


@dataclass(frozen=True)
class Orientation:
    """The axes of a weight that are outputs, and the source of that knowledge.

    >>> Orientation((1,)).seen((128, 384)), Orientation((0, 2)).seen((8, 64, 96))
    ((384, 128), (768, 64))
    >>> kernel, shape = Orientation((3,)), (3, 3, 1, 4)
    >>> kernel.place_of((2, 5), shape), kernel.cell_of((1, 2, 0, 2), shape)
    ((1, 2, 0, 2), (2, 5))
    """

    outputs: tuple[int, ...] = (0,)
    by: ToldBy = "guess"

    @property
    def is_turned(self) -> bool:
        """Return whether the weight's order is other than outputs × inputs."""
        return self.outputs != tuple(range(len(self.outputs)))

    @property
    def is_usual(self) -> bool:
        """Return whether the first axis alone is the outputs, as where nothing is known."""
        return self.outputs == (0,)

    def order(self, axes: int) -> tuple[int, ...]:
        return (*self.outputs, *(axis for axis in range(axes) if axis not in self.outputs))

    def fits(self, shape: Shape) -> bool:
        """Return whether a tensor of that shape has these axes, and inputs besides.

        >>> Orientation((1,)).fits((8, 4)), Orientation((2,)).fits((8, 4)), Orientation((0, 1)).fits((8, 4))
        (True, False, False)
        """
        apart = len(set(self.outputs)) == len(self.outputs)
        return (
            apart and len(self.outputs) < len(shape) and all(0 <= axis < len(shape) for axis in self.outputs)
        )

    def seen(self, shape: Shape) -> Shape:
        """Return rows and columns of the matrix as which a tensor of `shape` is quantized."""
        rows = math.prod(shape[axis] for axis in self.outputs)
        return rows, math.prod(shape) // rows if rows else 0

    def place_of(self, cell: Shape, shape: Shape) -> Shape:
        order = self.order(len(shape))
        flat = cell[0] * self.seen(shape)[1] + cell[1]
        place = [0] * len(shape)
        for axis in reversed(order):
            flat, place[axis] = divmod(flat, shape[axis])
        return tuple(place)

    def cell_of(self, place: Shape, shape: Shape) -> Shape:
        order = self.order(len(shape))
        flat = flat_index(tuple(place[axis] for axis in order), tuple(shape[axis] for axis in order))
        return divmod(flat, self.seen(shape)[1])

    @property
    def text(self) -> str:
        """Return the outputs as a link and the command write them.

        >>> Orientation((0, 2)).text, Orientation.parse("0.2") == Orientation((0, 2), "user")
        ('0.2', True)
        """
        return ".".join(map(str, self.outputs))

    @classmethod
    def parse(cls, form: str) -> Orientation | None:
        """Return the orientation in a text of axes with points between; none for any other text."""
        parts = form.split(".")
        if not 0 < len(parts) <= 3 or not all(part in _AXES for part in parts):
            return None
        return cls(tuple(map(int, parts)), "user")


#: Axes of outputs chosen by the user: of all weights, or by pattern of names with `*`.
Named: TypeAlias = int | tuple[int, ...] | Mapping[str, int | tuple[int, ...]] | None


def named_outputs(named: Named) -> Mapping[str, Orientation]:
    """Return the user's orientations, by patterns of names.

    Raises:
        QuantVizError: An axis is not a whole number from 0 to 3.

    >>> named_outputs(1) == named_outputs({"*": (1,)}) == {"*": Orientation((1,), "user")}
    True
    """
    if isinstance(named, Mapping):
        given = named
    elif named is None:
        given = {}
    else:
        given = {"*": named}
    orientations = {}
    for pattern, axes in given.items():
        each = axes if isinstance(axes, tuple) else (axes,)
        if not each or not all(type(axis) is int and 0 <= axis < MOST_WEIGHT_AXES for axis in each):
            raise QuantVizError("checkpoint.outputs_axis", got=axes, pattern=pattern)
        orientations[pattern] = Orientation(each, "user")
    return orientations
