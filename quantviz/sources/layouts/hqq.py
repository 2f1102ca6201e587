"""HQQ's layout: `X.W_q`, the weight's groups one a line (axis 1) or one a column (axis 0), packed so that a
byte holds lines far apart, the first in the highest bits; `X.scale` and `X.zero` of each group, and
`X.nbits`, `X.group_size`, `X.shape`, `X.axis`, `X.packing` … as tensors. A value is scale · (code − zero).

Groups of axis 0 hold elements far apart, which no scheme here has: of those there are only values.

Source: hqq 0.2.8, `core/bitpack.py` and `core/quantize.py` (`Quantizer.dequantize`,
`HQQLinear.state_dict`).
"""

from __future__ import annotations

import math

import torch

from quantviz.schemes.granularity import Flat, Granularity
from quantviz.sources.layouts.bit_fields import rows_of_planes
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, along_rows, plain_scheme, values_only

#: Bits of a word for each packing, and of a code.
_PACKINGS = {"8bit_u8": (8, 8), "4bit_u8": (8, 4), "3bit_32": (30, 3), "2bit_u8": (8, 2), "1bit_u8": (8, 1)}
_TEXTS = ("packing", "unpack_view_dtype", "compute_dtype")
_NUMBERS = ("nbits", "group_size", "axis", "view_as_float", "quant_scale", "quant_zero", "channel_wise")
_OTHERS = ("optimize", "round_zero", "offload_meta", "encoded_state_dict", "stores_quant_config")
_WHOLE = ("int32", "int64", "uint8")
_LONGEST = 64


def _read(claim: Claim) -> QuantizedWeight:
    stored = claim.shape("W_q")
    shape = tuple(map(int, claim.load("shape").flatten().tolist()))
    axis = _number(claim, "axis")
    quantized = _number(claim, "quant_scale") + _number(claim, "quant_zero")
    word, bits = _PACKINGS.get(_text(claim, "packing"), (0, 0))
    count = math.prod(shape)
    unknown = not bits or axis not in (0, 1) or quantized or _number(claim, "view_as_float")
    if len(shape) != 2 or len(stored) != 2 or unknown:
        raise claim.damaged()
    groups = math.prod(claim.catalog.info(claim.tensors["scale"]).shape)
    if groups < 1 or count % groups or claim.shape("zero") != claim.shape("scale"):
        raise claim.misfit("scale", shape)
    size = count // groups
    lines, width = (groups, size) if axis == 1 else (size, groups)
    if stored != (-(-lines * bits // word), width):
        raise claim.misfit("W_q", shape)
    shifts = tuple(range(word - bits, -1, -bits))
    scale, zero = (claim.load(part).flatten() for part in ("scale", "zero"))
    columns = shape[1]

    def by_lines(start: int, stop: int) -> Coded:
        first = start * columns // size
        last = -(-stop * columns // size)
        q = rows_of_planes(claim, "W_q", shifts, bits, first, last)
        own = scale[first:last]
        shift = zero[first:last]
        values = own.unsqueeze(1) * (q.float() - shift.unsqueeze(1))
        grid = (stop - start, -1) if columns % size == 0 else (-1,)
        return Coded(
            q.to(torch.uint8).reshape(-1, columns),
            values.reshape(-1, columns),
            own.reshape(grid),
            shift.reshape(grid),
        )

    def by_columns(start: int, stop: int) -> Coded:
        first = start * columns // width
        last = -(-stop * columns // width)
        q = rows_of_planes(claim, "W_q", shifts, bits, first, last)
        values = (scale * (q.float() - zero)).flatten()
        offset = start * columns - first * width
        return values_only(values[offset : offset + (stop - start) * columns].reshape(-1, columns))

    dtype = claim.dtype("scale")
    if axis != 1:
        return claim.weight(shape, None, dtype, by_columns)
    granularity: Granularity = Flat(size)
    if columns % size == 0:
        granularity = along_rows(size, columns)
    scheme = plain_scheme(f"uint{bits}", "asymmetric", granularity, shape, "code_float")
    return claim.weight(shape, scheme, dtype, by_lines, row_step=size // math.gcd(columns, size))


def _number(claim: Claim, attribute: str) -> int:
    return int(claim.load(attribute).reshape(())) if attribute in claim else 0


def _text(claim: Claim, attribute: str) -> str:
    if claim.catalog.info(claim.tensors[attribute]).count > _LONGEST:
        raise claim.damaged()
    return bytes(claim.cut(attribute).flatten().tolist()).decode("ascii")


_DESCRIBED = {
    **dict.fromkeys(_TEXTS, ("uint8",)),
    **dict.fromkeys((*_NUMBERS, *_OTHERS), ("int32", "uint8", "int64", "bool")),
}
_NEEDED = {"packing": ("uint8",), "axis": _WHOLE, "shape": _WHOLE}
FORMS = (
    Form(
        {"W_q": ("uint8", "int32", *FLOATS), "scale": FLOATS, "zero": FLOATS, **_NEEDED},
        _read,
        {attribute: dtypes for attribute, dtypes in _DESCRIBED.items() if attribute not in _NEEDED},
    ),
)
