"""Codes of float4_e2m1fn, two a byte with the first in the low bits, beside one scale a group along the rows:
the parts of NVFP4 and MXFP4 in every layout.

gpt-oss has its experts in one tensor, and codes by groups: `X_blocks` uint8 (experts, rows, groups, 16) and
`X_scales` uint8 (experts, rows, groups), exponents plus 127. OpenAI's own files write `X.blocks` and
`X.scales`. transformers calls the decoded tensor X and turns its last two axes.

Source: transformers 5.24, `integrations/mxfp4.py` (`_convert_moe_packed_tensors`).
"""

from __future__ import annotations

import functools
import math

import torch

from quantviz.sources.files.mapped import values_of
from quantviz.sources.layouts.bit_fields import nibbles
from quantviz.sources.layouts.forms import ANY, FLOATS, Claim, Form
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, groups_of, plain_scheme

FORMAT = "float4_e2m1fn"
#: Dtypes that scales may have: uint8 are exponents, as E8M0 is.
EXPONENTS = ("uint8", "float8_e8m0fnu")
SCALES = (*EXPONENTS, "float8_e4m3fn", *FLOATS)
_MX_GROUP = 32
_NV_GROUP = 16


def four_bit_floats(
    claim: Claim, codes: str, scales: str, *, divisor: str | None = None, factor: str | None = None
) -> QuantizedWeight:
    """Return a weight of such codes.

    Args:
        claim: The tensors.
        codes: The attribute of bytes of `(rows, columns / 2)`, or with an axis of groups.
        scales: That of `(rows, groups)`.
        divisor: That of a number by which scales are divided.
        factor: That of a number by which they are multiplied.

    Raises:
        QuantVizError: The shapes do not fit together, or exponents are not those of groups of 32.
    """
    packed = claim.shape(codes)
    # gpt-oss has an axis of groups.
    shape = (packed[0], 2 * math.prod(packed[1:])) if len(packed) in (2, 3) else ()
    of_scales = claim.shape(scales)
    granularity = groups_of(of_scales, shape) if shape else None
    if granularity is None:
        raise claim.misfit(scales, shape)
    is_exponent = claim.dtype(scales) in EXPONENTS
    of_all = divisor or factor
    # Bytes in groups of another size, or beside a scale of all, are no exponents (E5M3), or codes of 6 bits.
    size = _MX_GROUP if is_exponent else _NV_GROUP
    if (is_exponent and of_all) or (granularity.size != size and claim.dtype(scales) not in FLOATS):
        raise claim.misfit(scales, shape)
    values = values_of(FORMAT)
    second = scale_of_all(claim, of_all) if of_all else torch.ones(())

    def coded(start: int, stop: int) -> Coded:
        raw = claim.cut(codes, slice(start, stop)).view(torch.uint8).flatten(1)
        q = nibbles(raw)
        scale = scales_of(claim, scales, slice(start, stop))
        scale = scale / second if divisor else scale * second
        return Coded(q, values[q.int()] * scale.repeat_interleave(granularity.size, dim=1), scale)

    scheme = plain_scheme(FORMAT, "symmetric", granularity, shape)
    factor_of_all = float(second.reciprocal() if divisor else second)
    dtype = dtype_of_scales(claim, scales)
    return claim.weight(shape, scheme, dtype, coded, of_all=(lambda: factor_of_all) if of_all else None)


def dtype_of_scales(claim: Claim, attribute: str) -> str:
    dtype = claim.dtype(attribute)
    return dtype if dtype != "uint8" else "float8_e8m0fnu"


def scales_of(claim: Claim, attribute: str, *index: int | slice) -> torch.Tensor:
    """Return some scales as float32; bytes are exponents."""
    if claim.dtype(attribute) == "uint8":
        return claim.cut(attribute, *index).view(torch.float8_e8m0fnu).float()
    return claim.load(attribute, *index)


def scale_of_all(claim: Claim, attribute: str) -> torch.Tensor:
    """Return the factor of all scales of a weight; experts may share it."""
    name = claim.tensors[attribute]
    found = claim.catalog.read(name).tensor.flatten()
    if len(found) == claim.experts and claim.at:
        return found[claim.at[0]]
    if len(found) != 1:
        raise claim.misfit(attribute)
    return found[0]


def _gpt_oss(codes: str, scales: str, weight: str) -> Form:
    read = functools.partial(four_bit_floats, codes=codes, scales=scales)
    return Form({codes: ("uint8",), scales: ("uint8",)}, read, axes=3, weight=weight)


GPT_OSS = (_gpt_oss(f"{ANY}_blocks", f"{ANY}_scales", ANY), _gpt_oss("blocks", "scales", ""))
