"""torchao's tensors in safetensors: `X._weight_qdata`, `X._weight_scale` and others, and in the file's
header the kind of the tensor `X.weight` and the size of its blocks.

Readable are Float8Tensor, Int8Tensor, Int4Tensor, IntxUnpackedToInt8Tensor, MXTensor and NVFP4Tensor; the
scales of the last two not swizzled. Int4PlainInt32Tensor and the tile-packed ones have the order of their
kernels and are not read.

Int4Tensor: `qdata` int8 (rows, columns / 2), the first code in the low bits, `scale` and `zero_point`
(groups, rows). A value is scale · code + zero point. Inputs are multiplied by `act_pre_scale`, and so the
weight's columns.

Source: torchao 0.18, `prototype/safetensors` and the classes' `dequantize`; of Int4Tensor, which has none,
`pack_int4` and `int4_row_quantize_zp` of FBGEMM's `fbgemm_gpu/experimental/gen_ai/quantize.py`, by which it
is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.sources.layouts.forms import FLOATS, Claim, Form, with_factors
from quantviz.sources.layouts.four_bit_floats import EXPONENTS, four_bit_floats
from quantviz.sources.layouts.scaled import FP8, rows_and_columns, scaled_codes
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, granularity_of, plain_scheme

_CODES = "_weight_qdata"
_SCALE = "_weight_scale"
_ZERO = "_weight_zero_point"
_PER_TENSOR = "_weight_per_tensor_scale"
_FACTORS = "_weight_act_pre_scale"
_EIGHT_BITS = ("Float8Tensor", "Int8Tensor", "MXTensor")
_INTEGERS = re.compile(r"int[1-8]", re.ASCII)
#: Most characters of a tensor's description in the header.
_LONGEST = 2**16


def _description(claim: Claim) -> tuple[str, Mapping[str, Any]]:
    text = claim.catalog.header_texts(claim.tensors[_CODES]).get(claim.name.partition("[")[0], "")
    description = json.loads(text) if 0 < len(text) <= _LONGEST else {}
    kind = str(description.get("_type"))
    data = description.get("_data")
    if not isinstance(data, dict) or data.get("is_swizzled_scales"):
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    return kind, data


def _read(claim: Claim) -> QuantizedWeight:
    kind, data = _description(claim)
    bytes_of_codes = claim.dtype(_CODES) in ("uint8", "float4_e2m1fn")
    if _FACTORS in claim and kind != "Int4Tensor":
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    if kind == "NVFP4Tensor" and bytes_of_codes:
        factor = _PER_TENSOR if _PER_TENSOR in claim else None
        return four_bit_floats(claim, _CODES, _SCALE, factor=factor)
    if kind == "MXTensor" and bytes_of_codes:
        return four_bit_floats(claim, _CODES, _SCALE)
    if kind == "Int4Tensor" and claim.dtype(_CODES) == "int8":
        return with_factors(claim, _int4(claim), _FACTORS) if _FACTORS in claim else _int4(claim)
    if _PER_TENSOR in claim or bytes_of_codes:
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    if kind == "IntxUnpackedToInt8Tensor":
        target = str((data.get("target_dtype") or {}).get("_data"))
        if _INTEGERS.fullmatch(target):
            return scaled_codes(claim, _CODES, _SCALE, _ZERO, fmt=target)
    if kind not in _EIGHT_BITS:
        raise QuantVizError("layouts.torchao", name=claim.name, kind=kind)
    return scaled_codes(claim, _CODES, _SCALE, _ZERO, block=rows_and_columns(data.get("block_size")))


def _int4(claim: Claim) -> QuantizedWeight:
    rows, half = claim.shape(_CODES)
    shape = (rows, 2 * half)
    lying = claim.shape(_SCALE)
    granularity = granularity_of(lying[::-1], shape) if len(lying) == 2 else None
    if granularity is None or claim.shape(_ZERO) != lying:
        raise claim.misfit(_SCALE, shape)
    size = shape[1] // lying[0]

    def coded(start: int, stop: int) -> Coded:
        raw = claim.cut(_CODES, slice(start, stop))
        q = torch.stack((raw << 4 >> 4, raw >> 4), dim=-1).flatten(1)
        scale, shift = (
            claim.load(part, slice(None), slice(start, stop)).T.contiguous() for part in (_SCALE, _ZERO)
        )
        values = q.float() * scale.repeat_interleave(size, 1) + shift.repeat_interleave(size, 1)
        return Coded(q, values, scale, shift)

    scheme = plain_scheme("int4", "asymmetric", granularity, shape, "value")
    return claim.weight(shape, scheme, claim.dtype(_SCALE), coded)


_DTYPES = (*FLOATS, *EXPONENTS, "float8_e4m3fn")
FORMS = (
    Form(
        {_CODES: ("int8", "uint8", "float4_e2m1fn", "int32", *FP8), _SCALE: _DTYPES},
        _read,
        {_ZERO: ("int8", "int32", "int64", *FLOATS), _PER_TENSOR: FLOATS, _FACTORS: FLOATS},
    ),
)
