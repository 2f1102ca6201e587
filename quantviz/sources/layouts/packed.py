"""compressed-tensors' packed layouts: integers in words, and FP4 with two codes a byte.

Integers: `X.weight_packed` int32 (rows, columns · bits / 32) of code + 2^(bits − 1), `X.weight_scale`,
`X.weight_shape`; asymmetric ones have `X.weight_zero_point`, packed likewise down the rows.
`X.weight_g_idx` is each column's group where act-order spread groups over columns; −1 where it did not.
NVFP4: `X.weight_packed` uint8 (rows, columns / 2), the first code in the low bits, `X.weight_scale` FP8 of
each 16, and `X.weight_global_scale`, by which scales are divided. MXFP4: scales of each 32 that are
exponents.

Integers of three axes are experts, one after the other in each tensor; FP4 of three axes is not read, for
the library itself does not read it.

Source: compressed-tensors 0.20, `compressors/pack_quantized`, `compressors/nvfp4`, `compressors/mxfp4`;
0.13 for `weight_g_idx`, which later versions no longer write.
"""

from __future__ import annotations

import functools

import torch

from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerGroup
from quantviz.sources.layouts.bit_fields import unpacked, words_of
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.four_bit_floats import SCALES, four_bit_floats
from quantviz.sources.layouts.scaled import over_cells, rows_of_scales
from quantviz.sources.layouts.weight import (
    Coded,
    QuantizedWeight,
    columns_by_group,
    granularity_of,
    plain_scheme,
)

_CODES = "weight_packed"
_SCALE = "weight_scale"
_SHAPE = "weight_shape"
_ZERO = "weight_zero_point"
_ORDER = "weight_g_idx"
_GLOBAL = "weight_global_scale"
_WHOLE = ("int32", "int64")


def _integer(claim: Claim) -> QuantizedWeight:
    words = claim.shape(_CODES)
    listed = claim.catalog.info(claim.tensors[_SHAPE]).shape in ((2,), (3,))
    whole = tuple(claim.catalog.cut(claim.tensors[_SHAPE]).tolist()) if listed else ()
    shape = whole[len(claim.at) :]
    fits = len(shape) == len(words) == 2 and shape[0] == words[0] and min(whole) > 0
    fits = fits and (not claim.at or whole[0] == claim.experts)
    # No two numbers of bits make as many words unless a row is shorter than a word.
    bits = next((n for n in range(1, 9) if fits and words_of(shape[1], n) == words[1]), 0)
    scales = claim.shape(_SCALE)
    own = len(scales) == 2 if claim.at else True
    granularity = granularity_of(scales, shape) if bits and own else None
    if granularity is None or f"int{bits}" not in FORMATS:
        raise claim.misfit(_SCALE, shape)
    groups = scales[1] if len(scales) == 2 else 1
    if _ZERO in claim and claim.shape(_ZERO) != (words_of(shape[0], bits), groups):
        raise claim.misfit(_ZERO, shape)
    shifted = _ZERO in claim
    middle = 1 << (bits - 1)
    columns = shape[1]
    order = _order(claim, columns, granularity.size) if isinstance(granularity, PerGroup) else None

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(claim.cut(_CODES, slice(start, stop)), bits, columns) - middle
        q = q if order is None else q[:, order]
        scale = claim.load(_SCALE, *rows_of_scales(granularity, start, stop))
        over = functools.partial(over_cells, granularity=granularity, rows=stop - start, columns=columns)
        if not shifted:
            return Coded(q.to(torch.int8), lambda: q.float() * over(scale), scale)
        packed = claim.cut(_ZERO, slice(start * bits // 32, words_of(stop, bits)))
        zeros = (unpacked(packed.T, bits, stop - start) - middle).T.contiguous()
        return Coded(q.to(torch.int8), lambda: (q - over(zeros)).float() * over(scale), scale, zeros)

    scheme = plain_scheme(f"int{bits}", "asymmetric" if shifted else "symmetric", granularity, shape)
    step = 32 if shifted else 1
    return claim.weight(shape, scheme, claim.dtype(_SCALE), coded, row_step=step, columns=order)


def _order(claim: Claim, columns: int, group: int) -> torch.Tensor | None:
    groups = claim.cut(_ORDER) if _ORDER in claim else None
    if groups is None or bool((groups == -1).all()):
        return None
    return columns_by_group(groups, columns, group, claim.name)


def _four_bits(claim: Claim) -> QuantizedWeight:
    return four_bit_floats(claim, _CODES, _SCALE, divisor=_GLOBAL if _GLOBAL in claim else None)


FORMS = (
    Form({_CODES: ("int32",), _SCALE: FLOATS, _SHAPE: _WHOLE}, _integer, {_ZERO: ("int32",), _ORDER: _WHOLE}),
    Form({_CODES: ("uint8",), _SCALE: SCALES}, _four_bits, {_GLOBAL: FLOATS}),
)
