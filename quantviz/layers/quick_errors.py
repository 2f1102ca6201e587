"""The errors of a large layer by the two float32 products that they need, without their parts.

One pass goes over the outputs, some hundred at a time: their weights are decoded, multiplied and summed while
they are in a core's cache. Beside X̂ nothing is allocated that is as large as X, W or Y.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from quantviz.layers.parts import Errors, Layer, Sums
from quantviz.streaming.threads import runs_between

#: Multiplications up to which the errors of a layer are summed in float64 at once: about 30 ms for a part.
EXACT = 2**26
#: Outputs whose products are computed at a time.
_AT_ONCE = 256
#: The smallest mean square of outputs beside which the squares of their errors have room in float32.
_SMALLEST = 1e-20
_ALL = slice(None)


def quick_errors(layer: Layer, held_back: torch.Tensor) -> Errors | None:
    """Return the errors of a layer, or None where float32 has no room for their squares.

    Where both operands are quantized, an error is the difference of two products in float32, which has a
    noise of about 1e-6 of the outputs.
    """
    tokens, width = layer.inputs.shape
    count = layer.weights.shape[0]
    signal = Sums(held_back, count)
    squares = Sums(held_back, count)
    x = layer.inputs.values(_ALL)
    x_hat = layer.inputs.quantized(_ALL)
    y_hat = None if layer.outputs is None else layer.outputs.quantized(_ALL)
    decoded = torch.empty(min(_AT_ONCE, count), width)
    products = torch.empty(2, tokens, min(_AT_ONCE, count))
    for outputs in _slices(count):
        here = outputs.stop - outputs.start
        w = layer.weights.values(outputs)
        y = torch.mm(x, w.T, out=products[0, :, :here])
        if y_hat is not None:
            error = y_hat[:, outputs] - (y + layer.bias[outputs].to(torch.float32))
        elif layer.inputs.study is None:
            change = torch.sub(layer.weights.quantized(outputs, decoded[:here]), w, out=decoded[:here])
            error = torch.mm(x, change.T, out=products[1, :, :here])
        else:
            w_hat = layer.weights.quantized(outputs, decoded[:here])
            error = torch.mm(x_hat, w_hat.T, out=products[1, :, :here]).sub_(y)
        signal.add_quickly(outputs, y)
        squares.add_quickly(outputs, error)
    mean = signal.tokens.sum() / (tokens * count)
    fits = _SMALLEST < mean < torch.inf and bool(torch.isfinite(squares.tokens.sum()))
    return Errors(squares, signal) if fits else None


def quick_outputs(layer: Layer) -> torch.Tensor:
    """Return Ŷ before it is quantized itself, float32 (tokens, outputs), by one float32 product."""
    x_hat = layer.inputs.quantized(_ALL)
    y_hat = torch.empty(len(x_hat), layer.weights.shape[0])
    for outputs in _slices(layer.weights.shape[0]):
        y_hat[:, outputs] = x_hat @ layer.weights.quantized(outputs).T
    return y_hat.add_(layer.bias.to(torch.float32))


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, stop) for start, stop in runs_between(count, _AT_ONCE))
