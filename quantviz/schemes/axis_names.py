"""The names of a tensor's axes, for every control, table and sentence.

Four axes are those of a convolution's weight: output channels × input channels × height × width, as every
framework stores it. The meaning of other axes does not follow from the shape: they have only their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from quantviz.schemes.granularity import Shape
from quantviz.text import DEFAULT_LANGUAGE, text


@dataclass(frozen=True)
class Axes:
    """The axes of a tensor.

    >>> Axes((64, 3, 7, 7)).words(0), Axes((64, 3, 7, 7)).words(-1)
    ('output channel (axis 0)', 'axis 3')
    >>> Axes((258, 1, 256)).words(1), Axes((8, 8)).words(1)
    ('axis 1', 'column')
    >>> Axes((64, 147), convolution=True).words(0, language="zh")
    '输出通道（轴 0）'
    """

    shape: Shape
    #: Whether two axes are a convolution's weight seen as a matrix, a row for each output channel.
    convolution: bool = False

    def id_of(self, axis: int) -> str:
        """Return row, column, output_channel, input_channel, or axis if only its number is known."""
        count = len(self.shape)
        axis = axis % len(self.shape)
        if axis == 0 and (count == 4 or (count == 2 and self.convolution)):
            return "output_channel"
        if count == 4 and axis == 1:
            return "input_channel"
        return ("row", "column")[axis + 2 - count] if count <= 2 else "axis"

    def words(self, axis: int, form: str = "name", language: str = DEFAULT_LANGUAGE) -> str:
        """Return the words for an axis.

        `form` is its `name`, `one` of its indices, `each` of them, `many`; a `button`'s label; the `channel`
        in a scheme's name, `short` where there is little room; or the direction `along` it.

        >>> [Axes((2, 3, 4)).words(2, form) for form in ("one", "each", "many", "along")]
        ['index of axis 2', 'each index of axis 2', 'Axis 2', 'axis 2']
        """
        return text(f"axes.{form}.{self.id_of(axis)}", language, axis=axis % len(self.shape))
