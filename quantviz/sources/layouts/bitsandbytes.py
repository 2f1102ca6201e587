"""bitsandbytes' layouts: NF4 and FP4 in blocks over the flattened weight, and int8 by rows.

4 bits: `X.weight` uint8 (elements / 2, 1), the first code in the high bits, `X.weight.absmax`,
`X.weight.quant_map` (the value of each code), and `X.weight.quant_state.bitsandbytes__nf4`, which is JSON
in bytes. Nested: `absmax` is uint8 codes of `nested_quant_map`, times `nested_absmax` of each 256, plus
`nested_offset` of the JSON. int8: `X.weight` int8 and `X.SCB`, each row's largest magnitude.

Source: bitsandbytes 0.50.2, `functional.py` (QuantState) and `backends/default/ops.py`.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.conventions import find_convention
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Flat, PerChannel
from quantviz.schemes.scheme import Scheme
from quantviz.sources.layouts.bit_fields import nibbles
from quantviz.sources.layouts.forms import ANY, FLOATS, Claim, Form
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, plain_scheme

_ABSMAX = f"{ANY}.absmax"
_MAP = f"{ANY}.quant_map"
_OUTER = f"{ANY}.nested_absmax"
_OUTER_MAP = f"{ANY}.nested_quant_map"
_MOST_JSON = 2**16
#: The factor of a row's largest magnitude and a code, as bitsandbytes writes 1 / 127.
_INVERSE_127 = 7.874015718698502e-3


def _by_rows(claim: Claim) -> QuantizedWeight:
    shape = claim.shape("weight")
    if len(shape) != 2 or claim.shape("SCB") not in ((shape[0],), (shape[0], 1)):
        raise _damaged(claim)

    def coded(start: int, stop: int) -> Coded:
        q = claim.cut("weight", slice(start, stop))
        absmax = claim.load("SCB", slice(start, stop)).reshape(-1, 1)
        return Coded(q, q * absmax * _INVERSE_127, absmax / 127)

    scheme = plain_scheme("int8", "symmetric", PerChannel(0), shape)
    return claim.weight(shape, scheme, claim.dtype("SCB"), coded)


def _four_bits(kind: str, claim: Claim) -> QuantizedWeight:
    if math.prod(claim.shape(_state_of(kind))) > _MOST_JSON:
        raise _damaged(claim)
    state: Mapping[str, Any] = json.loads(bytes(claim.cut(_state_of(kind)).tolist()))
    shape = tuple(map(int, state["shape"]))
    size = int(state["blocksize"])
    table = claim.load(_MAP)
    count = math.prod(shape)
    blocks = -(-count // size) if size > 0 else 0
    sound = (
        len(shape) == 2
        and min(shape) > 0
        and math.prod(claim.shape(ANY)) * 2 - count in (0, 1)
        and math.prod(claim.shape(_ABSMAX)) == blocks
        and torch.equal(table, torch.tensor(FORMATS[kind].codebook))
    )
    if not sound:
        raise _damaged(claim)
    largest = _absmax(claim, state)
    columns = shape[1]

    def coded(start: int, stop: int) -> Coded:
        first = start * columns
        last = stop * columns
        # A row of an odd number of codes ends within a byte; `first` is a multiple of the block's even size.
        q = nibbles(claim.cut(ANY, slice(first // 2, -(-last // 2))), high_first=True)
        q = q.flatten()[: last - first]
        scale = largest[first // size : -(-last // size)]
        values = table[q.int()] * scale[torch.arange(last - first) // size]
        return Coded(q.reshape(-1, columns), values.reshape(-1, columns), scale)

    scheme = Scheme(kind, granularity=Flat(size), convention=find_convention("bitsandbytes"))
    row_step = size // math.gcd(columns, size)
    return claim.weight(shape, scheme, claim.dtype(_ABSMAX), coded, row_step=row_step)


def _absmax(claim: Claim, state: Mapping[str, Any]) -> torch.Tensor:
    if _OUTER not in claim:
        return claim.load(_ABSMAX).flatten()
    codes = claim.cut(_ABSMAX).flatten()
    size = int(state["nested_blocksize"])
    outer = claim.load(_OUTER)
    table = claim.load(_OUTER_MAP)
    if size < 1 or table.shape != (256,) or outer.shape != (-(-len(codes) // size),):
        raise _damaged(claim)
    return table[codes.int()] * outer[torch.arange(len(codes)) // size] + float(state["nested_offset"])


def _state_of(kind: str) -> str:
    return f"{ANY}.quant_state.bitsandbytes__{kind}"


def _damaged(claim: Claim) -> QuantVizError:
    return QuantVizError("layouts.bitsandbytes", name=claim.name)


def _form(kind: str) -> Form:
    return Form(
        {ANY: ("uint8",), _state_of(kind): ("uint8",), _ABSMAX: ("float32", "uint8"), _MAP: ("float32",)},
        functools.partial(_four_bits, kind),
        {_OUTER: ("float32",), _OUTER_MAP: ("float32",)},
        weight=ANY,
    )


FORMS = (
    _form("nf4"),
    _form("fp4"),
    Form({"weight": ("int8",), "SCB": FLOATS}, _by_rows, {"weight_format": ("uint8", "int8")}),
)
