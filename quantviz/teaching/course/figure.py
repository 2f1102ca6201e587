"""The four heatmaps: notebook 000."""

from __future__ import annotations

from typing import Any

import torch

from quantviz.quantization.result import QuantResult


def plot_quantization_errors(
    original: Any,
    quantized: Any,
    dequantized: Any,
    dtype: torch.dtype = torch.int8,
    n_bits: int = 8,
    *,
    result: QuantResult | None = None,
    selected: tuple[int, int] | None = None,
) -> Any:
    """Return the four heatmaps of `quantviz.plot_quantization_errors`, a plotly figure.

    Notebook 000, cell 68 and the last cells, which have no such function and end in a `NameError`.
    plotly is imported here and not before.

    >>> x, q, x_hat = torch.tensor([[1.0, -2.0]]), torch.tensor([[64, -127]]), torch.tensor([[1.008, -2.0]])
    >>> figure = plot_quantization_errors(x, q, x_hat)
    >>> len(figure.data)
    4
    """
    from quantviz.figures import panels

    return panels.plot_quantization_errors(
        original, quantized, dequantized, dtype, n_bits, result=result, selected=selected
    )
