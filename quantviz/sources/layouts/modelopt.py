"""NVIDIA ModelOpt's layouts, as its unified checkpoints have them.

NVFP4: `X.weight` uint8 (rows, columns / 2), `X.weight_scale` E4M3 of each 16, and `X.weight_scale_2`, by
which these are multiplied. FP8 and int8: `X.weight`, `X.weight_scale` of all, a row or a block. int4:
`X.weight` uint8 (rows / 2, columns), two neighbours of a column a byte, and `X.weight_scale` (rows,
groups). MXFP4: scales of each 32 that are exponents. `X.input_scale` and the scales of the KV cache say
nothing of weights; `X.pre_quant_scale` of AWQ does: inputs are multiplied by it, so the columns of the
weight are too. No scheme has that, so of such weights there are only values.

Experts in one tensor have names such as `gate_up_proj_weight_scale`.

Source: nvidia-modelopt 0.47, `torch/export/quant_utils.py` and `unified_export_hf.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from quantviz.sources.layouts.forms import ANY, FLOATS, Claim, Form, with_factors
from quantviz.sources.layouts.four_bit_floats import EXPONENTS, four_bit_floats
from quantviz.sources.layouts.scaled import FP8, SCALES, scaled_codes
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, groups_of, plain_scheme

_OF_ANY = f"{ANY}_weight_scale"
_FACTORS = "pre_quant_scale"
_MORE = {_FACTORS: FLOATS}


def _is_int4(claim: Claim) -> bool:
    words = claim.shape("weight")
    scales = claim.shape("weight_scale")
    return len(words) == len(scales) == 2 and scales[0] == 2 * words[0]


def _int4(claim: Claim) -> QuantizedWeight:
    packed = claim.shape("weight")
    shape = (2 * packed[0], packed[1])
    granularity = groups_of(claim.shape("weight_scale"), shape)
    if granularity is None:
        raise claim.misfit("weight_scale", shape)

    def coded(start: int, stop: int) -> Coded:
        raw = claim.cut("weight", slice(start // 2, -(-stop // 2)))
        q = torch.stack((raw & 15, raw >> 4), dim=1).flatten(0, 1)[: stop - start].to(torch.int8)
        q = torch.where(q > 7, q - 16, q)
        scale = claim.load("weight_scale", slice(start, stop))
        return Coded(q, q.float() * scale.repeat_interleave(granularity.size, dim=1), scale)

    scheme = plain_scheme("int4", "symmetric", granularity, shape)
    return claim.weight(shape, scheme, claim.dtype("weight_scale"), coded, row_step=2)


def _with_factors(read: Callable[[Claim], QuantizedWeight]) -> Callable[[Claim], QuantizedWeight]:
    def weight(claim: Claim) -> QuantizedWeight:
        return with_factors(claim, read(claim), _FACTORS) if _FACTORS in claim else read(claim)

    return weight


def _nvfp4(codes: str, scales: str) -> Form:
    read = functools.partial(four_bit_floats, codes=codes, scales=scales, factor=f"{scales}_2")
    parts = {codes: ("uint8",), scales: ("float8_e4m3fn",), f"{scales}_2": FLOATS}
    if ANY in codes:
        return Form(parts, read, weight=codes)
    return Form(parts, _with_factors(read), _MORE, weight=codes)


_MXFP4 = functools.partial(four_bit_floats, codes="weight", scales="weight_scale")
FORMS = (
    _nvfp4("weight", "weight_scale"),
    _nvfp4(ANY, _OF_ANY),
    Form({"weight": FP8, "weight_scale": SCALES}, _with_factors(scaled_codes), _MORE, method="modelopt"),
    Form(
        {"weight": ("int8",), "weight_scale": FLOATS}, _with_factors(scaled_codes), _MORE, method="modelopt"
    ),
    Form({ANY: FP8, _OF_ANY: SCALES}, functools.partial(scaled_codes, codes=ANY, scales=_OF_ANY), weight=ANY),
    Form({"weight": ("uint8",), "weight_scale": FLOATS}, _with_factors(_int4), _MORE, when=_is_int4),
    Form({"weight": ("uint8",), "weight_scale": EXPONENTS}, _MXFP4),
)
