"""Changes of a small layer by hand: values of some weights, and sizes of some input channels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quantviz.errors import QuantVizError
from quantviz.schemes import text_form
from quantviz.schemes.granularity import Shape
from quantviz.sources.typed import nearest_float32, shortest

if TYPE_CHECKING:
    import torch

#: Tokens, inputs and outputs of a small layer at most: a browser multiplies it within a frame.
SMALL = 64
#: Most weights, and most channels, that can be set: a link has room for them.
MOST_CHANGES = 64
_CHANGE = re.compile(r"(?:w(\d{1,2})\.(\d{1,2})|x(\d{1,2}))=(.+)", re.ASCII)


@dataclass(frozen=True)
class Changes:
    """Other values of some weights, and other sizes of some input channels.

    >>> changes = Changes().with_weight(0, 1, 2.5).with_channel(2, 7.0)
    >>> changes.written()
    ['w0.1=2.5', 'x2=7.0']
    >>> Changes.read(changes.written()) == changes
    True
    """

    #: Each weight: output, input channel, and its value, a float32.
    weights: tuple[tuple[int, int, float], ...] = ()
    #: Each channel and its largest magnitude, a float32: all of its inputs grow or shrink alike.
    channels: tuple[tuple[int, float], ...] = ()

    def with_weight(self, output: int, channel: int, value: float) -> Changes:
        others = (each for each in self.weights if each[:2] != (output, channel))
        return replace(self, weights=tuple(sorted((*others, (output, channel, nearest_float32(value))))))

    def with_channel(self, channel: int, size: float) -> Changes:
        others = (each for each in self.channels if each[0] != channel)
        return replace(self, channels=tuple(sorted((*others, (channel, nearest_float32(size))))))

    def written(self) -> list[str]:
        weights = (f"w{output}.{channel}={shortest(value)}" for output, channel, value in self.weights)
        return [*weights, *(f"x{channel}={shortest(size)}" for channel, size in self.channels)]

    @classmethod
    def read(cls, forms: Iterable[str]) -> Changes:
        changes = cls()
        for form in forms:
            found = _CHANGE.fullmatch(form)
            if not found:
                raise QuantVizError("layer.change_form", got=form)
            output, channel, whole, written = found.groups()
            value = text_form.read_value(written, float)
            if whole is None:
                changes = changes.with_weight(int(output), int(channel), value)
            else:
                changes = changes.with_channel(int(whole), value)
        return changes

    def problems(self, shape: Shape) -> Iterator[QuantVizError]:
        _, inputs, outputs = shape
        if max(shape) > SMALL:
            yield QuantVizError("layer.changed_large", shape=shape, most=SMALL)
        if max(len(self.weights), len(self.channels)) > MOST_CHANGES:
            yield QuantVizError("layer.changed_too_many", most=MOST_CHANGES)
        for output, channel, value in self.weights:
            if output >= outputs or channel >= inputs:
                yield QuantVizError("index_out_of_range", index=(output, channel), shape=(outputs, inputs))
            if not math.isfinite(value):
                yield QuantVizError("source.edited_value", got=value)
        for channel, size in self.channels:
            if channel >= inputs:
                yield QuantVizError("index_out_of_range", index=(channel,), shape=(inputs,))
            if not 0 <= size < math.inf:
                yield QuantVizError("layer.channel_size", got=size)

    def changed(self, weight: torch.Tensor, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return W and X with the changes, float32. The browser's `multiplying.js` has the same arithmetic.

        A channel of zeros stays as it is, whatever its size is to be.
        """
        import torch

        w = weight.to(torch.float32).clone()
        x = inputs.to(torch.float32).clone()
        for output, channel, value in self.weights:
            w[output, channel] = value
        for channel, size in self.channels:
            line = x[:, channel].to(torch.float64)
            largest = float(line.abs().max())
            if largest:
                x[:, channel] = (line * (size / largest)).to(torch.float32)
        return w, x
