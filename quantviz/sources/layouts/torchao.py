"""torchao's tensors in safetensors: `X._weight_qdata`, `X._weight_scale` and others, and in the file's
header what kind of tensor `X.weight` was and the size of its blocks.

Read are Float8Tensor, Int8Tensor, IntxUnpackedToInt8Tensor, MXTensor and NVFP4Tensor; the scales of the
last two not swizzled. Int4Tensor and the tile-packed ones lie as their kernels want them and are not read.

Source: torchao 0.18, `prototype/safetensors` and the classes' `dequantize`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.four_bit_floats import EXPONENTS, four_bit_floats
from quantviz.sources.layouts.scaled import FP8, scaled_codes
from quantviz.sources.layouts.weight import QuantizedWeight

_CODES, _SCALE, _ZERO = "_weight_qdata", "_weight_scale", "_weight_zero_point"
_PER_TENSOR = "_weight_per_tensor_scale"
_EIGHT_BITS = ("Float8Tensor", "Int8Tensor", "MXTensor")
#: The dtypes that an integer in an int8 may stand for.
_INTEGERS = re.compile(r"int[1-8]", re.ASCII)
#: Most characters of what is said of a tensor.
_LONGEST = 2**16


def _said(claim: Claim) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of the tensor and its attributes, as the header has them."""
    text = claim.catalog.header_texts(claim.tensors[_CODES]).get(claim.name.partition("[")[0], "")
    said = json.loads(text) if 0 < len(text) <= _LONGEST else {}
    kind, data = str(said.get("_type")), said.get("_data")
    if not isinstance(data, dict) or data.get("is_swizzled_scales"):
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    return kind, data


def _read(claim: Claim) -> QuantizedWeight:
    kind, data = _said(claim)
    bytes_of_codes = claim.dtype(_CODES) in ("uint8", "float4_e2m1fn")
    if kind == "NVFP4Tensor" and bytes_of_codes:
        factor = _PER_TENSOR if _PER_TENSOR in claim else None
        return four_bit_floats(claim, _CODES, _SCALE, factor=factor)
    if kind == "MXTensor" and bytes_of_codes:
        return four_bit_floats(claim, _CODES, _SCALE)
    if _PER_TENSOR in claim or bytes_of_codes:
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    if kind == "IntxUnpackedToInt8Tensor":
        target = str((data.get("target_dtype") or {}).get("_data"))
        if _INTEGERS.fullmatch(target):
            return scaled_codes(claim, _CODES, _SCALE, _ZERO, fmt=target)
    if kind not in _EIGHT_BITS:
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    return scaled_codes(claim, _CODES, _SCALE, _ZERO, block=_block(data))


def _block(data: Mapping[str, Any]) -> tuple[int, int] | None:
    block = data.get("block_size")
    sound = isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block)
    return (block[0], block[1]) if sound and block else None


_DTYPES = (*FLOATS, *EXPONENTS, "float8_e4m3fn")
FORMS = (
    Form(
        {_CODES: ("int8", "uint8", "float4_e2m1fn", "int32", *FP8), _SCALE: _DTYPES},
        _read,
        {_ZERO: ("int8", "int32", "int64"), _PER_TENSOR: FLOATS},
    ),
)
