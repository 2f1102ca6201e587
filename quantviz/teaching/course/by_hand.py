"""Scale and zero point by hand: notebook 002."""

from __future__ import annotations

import torch

from quantviz.quantization.operations import run_operations
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.course.arguments import Number, quantized_with, wrapped
from quantviz.teaching.course.one_scale import linear_dequantization


def linear_quantizer(tensor: torch.Tensor, s: Number, z: Number, *, strict: bool = False) -> torch.Tensor:
    """Return int8 codes of the tensor's shape; print the rounded values before they are clamped.

    Notebook 002, cell 49. Refuses and `strict` as in `linear_q_with_scale_and_zero_point`.

    >>> q = linear_quantizer(torch.tensor([[191.6, -13.5, 728.6]]), 3.5, -70)
    tensor([[-15., -74., 138.]])
    >>> q.tolist()
    [[-15, -74, 127]]
    """
    if strict:
        rounded = torch.round(tensor / s + z)
        print(rounded)
        return wrapped(rounded.clamp(-128, 127), torch.int8)
    r = quantized_with(tensor, s, z, Scheme("int8", "asymmetric"))
    print(
        run_operations(
            code_operations(r.scheme),
            {"x": r.x, "scale": r.qparams.scale, "zero_point": r.qparams.zero_point},
        )["y"]
    )
    return r.q


def linear_dequantizer(tensor: torch.Tensor, s: Number, z: Number, *, strict: bool = False) -> torch.Tensor:
    """Return the values `s * (tensor - z)` in float32: `linear_dequantization` by another name.

    Notebook 002, cell 51.

    >>> linear_dequantizer(torch.tensor([-15, -74, 127], dtype=torch.int8), 3.5, -70)
    tensor([192.5000, -14.0000, 689.5000])
    """
    return linear_dequantization(tensor, s, z, strict=strict)
