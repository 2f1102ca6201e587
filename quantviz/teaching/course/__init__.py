"""The five course notebooks' functions under their own names: `from quantviz.teaching.course import *`.

Positions, parameter names and defaults are the notebooks'; the arithmetic is the core's, so a code
made here is a code made by `quantize`. Where a notebook's own code goes wrong (a constant tensor,
a dtype that is not honoured, a zero point added instead of subtracted) these functions return the intended
result, and each docstring names the difference. `strict=True` returns the result of the notebook's code,
accidents included: it is a parameter of each call, because people share a process.

| notebook | functions |
|---|---|
| 000 | `get_q_scale_and_zero_point`, `linear_q_with_scale_and_zero_point`, |
|     | `linear_dequantization`, `linear_quantization`, `plot_quantization_errors` |
| 001 | `QuantizationParams`, `get_symmetric_qparams`, `get_asymmetric_qparams`, |
|     | `quantize_tensor`, `dequantize_tensor`, `quantize_dequant` |
| 002 | `linear_quantizer`, `linear_dequantizer` |
| 003 | those of 000 once more, `get_q_scale_symmetric`, `linear_q_symmetric`, |
|     | `linear_q_symmetric_per_channel`, `linear_q_symmetric_per_group`, |
|     | `linear_dequantization_per_group`, `quantized_linear_W8A32_without_bias` |
| 004 | none: its cells are single lines of arithmetic |
"""

from quantviz.teaching.course.one_scale import (
    get_q_scale_and_zero_point,
    linear_dequantization,
    linear_dequantizer,
    linear_q_with_scale_and_zero_point,
    linear_quantization,
    linear_quantizer,
    plot_quantization_errors,
)
from quantviz.teaching.course.parameters import (
    QuantizationParams,
    dequantize_tensor,
    get_asymmetric_qparams,
    get_symmetric_qparams,
    quantize_dequant,
    quantize_tensor,
)
from quantviz.teaching.course.symmetric import (
    get_q_scale_symmetric,
    linear_dequantization_per_group,
    linear_q_symmetric,
    linear_q_symmetric_per_channel,
    linear_q_symmetric_per_group,
    quantized_linear_W8A32_without_bias,
)

__all__ = [
    "QuantizationParams",
    "dequantize_tensor",
    "get_asymmetric_qparams",
    "get_q_scale_and_zero_point",
    "get_q_scale_symmetric",
    "get_symmetric_qparams",
    "linear_dequantization",
    "linear_dequantization_per_group",
    "linear_dequantizer",
    "linear_q_symmetric",
    "linear_q_symmetric_per_channel",
    "linear_q_symmetric_per_group",
    "linear_q_with_scale_and_zero_point",
    "linear_quantization",
    "linear_quantizer",
    "plot_quantization_errors",
    "quantize_dequant",
    "quantize_tensor",
    "quantized_linear_W8A32_without_bias",
]
