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
from typing import TYPE_CHECKING, Any

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.conventions import find_convention
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Flat, PerChannel
from quantviz.schemes.scheme import Scheme
from quantviz.sources.layouts.forms import ANY, FLOATS, Claim, Form
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, bits_stored, plain_scheme

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog

ID = "bitsandbytes"
_STATE = ".quant_state.bitsandbytes__"
#: Most bytes of the JSON that describes a weight.
_MOST_JSON = 2**16
#: The factor of a row's largest magnitude and a code, as bitsandbytes writes 1 / 127.
_INVERSE_127 = 7.874015718698502e-3


def _read_four_bits(kind: str, claim: Claim) -> QuantizedWeight:
    weight = claim.name
    return _four_bits(claim.catalog, weight, kind, tuple(claim.tensors.values()))


def _read_rows(claim: Claim) -> QuantizedWeight:
    return _by_rows(claim.catalog, claim.name, tuple(claim.tensors.values()))


def _form(kind: str) -> Form:
    own = {f"{ANY}{_STATE}{kind}": ("uint8",), f"{ANY}.absmax": ("float32", "uint8")}
    return Form(
        {ANY: ("uint8",), **own, f"{ANY}.quant_map": ("float32",)},
        functools.partial(_read_four_bits, kind),
        {f"{ANY}.nested_absmax": ("float32",), f"{ANY}.nested_quant_map": ("float32",)},
        weight=ANY,
    )


FORMS = (
    _form("nf4"),
    _form("fp4"),
    Form({"weight": ("int8",), "SCB": FLOATS}, _read_rows, {"weight_format": ("uint8", "int8")}),
)


def _damaged(weight: str) -> QuantVizError:
    return QuantVizError("layouts.bitsandbytes", name=weight)


def _by_rows(catalog: Catalog, weight: str, parts: tuple[str, ...]) -> QuantizedWeight:
    info, largest = (catalog.info(part) for part in parts[:2])
    if (
        info.dtype != "int8"
        or len(info.shape) != 2
        or largest.shape not in ((info.shape[0],), (info.shape[0], 1))
    ):
        raise _damaged(weight)

    def coded(start: int, stop: int) -> Coded:
        q = catalog.cut(weight, (slice(start, stop),))
        absmax = catalog.read(parts[1], (slice(start, stop),)).tensor.reshape(-1, 1)
        return Coded(q, q * absmax * _INVERSE_127, absmax / 127)

    scheme = plain_scheme("int8", "symmetric", PerChannel(0), info.shape)
    bits = bits_stored(catalog, parts, info.shape)
    return QuantizedWeight(ID, weight, info.shape, parts, scheme, largest.dtype, coded, bits)


def _four_bits(catalog: Catalog, weight: str, kind: str, parts: tuple[str, ...]) -> QuantizedWeight:
    if catalog.info(f"{weight}{_STATE}{kind}").count > _MOST_JSON:
        raise _damaged(weight)
    state: Mapping[str, Any] = json.loads(bytes(catalog.cut(f"{weight}{_STATE}{kind}").tolist()))
    shape = tuple(map(int, state["shape"]))
    size = int(state["blocksize"])
    table = catalog.read(f"{weight}.quant_map").tensor
    count = math.prod(shape)
    blocks = -(-count // size) if size > 0 else 0
    sound = (
        kind in ("nf4", "fp4")
        and catalog.info(weight).dtype == "uint8"
        and len(shape) == 2
        and min(shape) > 0
        and catalog.info(weight).count * 2 - count in (0, 1)
        and catalog.info(f"{weight}.absmax").count == blocks
        and torch.equal(table, torch.tensor(FORMATS[kind].codebook))
    )
    if not sound:
        raise _damaged(weight)
    largest = _absmax(catalog, weight, state)
    columns = shape[1]

    def coded(start: int, stop: int) -> Coded:
        first = start * columns
        last = stop * columns
        # A row of an odd number of codes ends within a byte; `first` is a multiple of the block's even size.
        raw = catalog.cut(weight, (slice(first // 2, -(-last // 2)),)).flatten()
        q = torch.stack((raw >> 4, raw & 15), dim=-1).flatten()[: last - first]
        scale = largest[first // size : -(-last // size)]
        values = table[q.int()] * scale[torch.arange(last - first) // size]
        return Coded(q.reshape(-1, columns), values.reshape(-1, columns), scale)

    scheme = Scheme(kind, granularity=Flat(size), convention=find_convention("bitsandbytes"))
    return QuantizedWeight(
        ID,
        weight,
        shape,
        parts,
        scheme,
        catalog.info(f"{weight}.absmax").dtype,
        coded,
        bits_stored(catalog, parts, shape),
        row_step=size // math.gcd(columns, size),
    )


def _absmax(catalog: Catalog, weight: str, state: Mapping[str, Any]) -> torch.Tensor:
    """Return each block's largest magnitude, float32."""
    if f"{weight}.nested_absmax" not in catalog:
        return catalog.read(f"{weight}.absmax").tensor.flatten()
    codes = catalog.cut(f"{weight}.absmax").flatten()
    size = int(state["nested_blocksize"])
    outer = catalog.read(f"{weight}.nested_absmax").tensor
    table = catalog.read(f"{weight}.nested_quant_map").tensor
    if size < 1 or table.shape != (256,) or outer.shape != (-(-len(codes) // size),):
        raise _damaged(weight)
    return table[codes.int()] * outer[torch.arange(len(codes)) // size] + float(state["nested_offset"])
