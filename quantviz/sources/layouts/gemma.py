"""The layout of Gemma's own quantized checkpoints: `X.weight` of 8 bits int8, of 4 or 2 bits uint8 with the
first code in the lowest bits, each code stored with half its range added; `X.weight_scale` (rows, 1). An
embedding has `X.embedding_quantized` and `X.embedding_scale`.

The configuration has the bits of all modules, and by patterns of names those of some: where there are such,
the lengths of the model's matrices decide.

Source: transformers 5.24, `integrations/gemma_quant.py`.
"""

from __future__ import annotations

import functools

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import PerChannel
from quantviz.sources.layouts.bit_fields import unpacked_bytes
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.mlx import lengths_in
from quantviz.sources.layouts.scaled import scaled_codes
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, plain_scheme

_PACKED = (4, 2)


def _bits(claim: Claim, width: int) -> int:
    """Return the bits of a code; `QuantVizError` where nothing decides on them."""
    if not claim.config.get("module_quant_configs"):
        fitting = [bits for bits in _PACKED if bits == claim.config.get("num_bits", _PACKED[0])]
    else:
        lengths = lengths_in(claim.catalog.json_beside("config.json"))
        fitting = [bits for bits in _PACKED if width * 8 // bits in lengths]
    if len(fitting) != 1:
        raise QuantVizError("layouts.gemma", name=claim.name, width=width)
    return fitting[0]


def _read(claim: Claim, codes: str, scales: str) -> QuantizedWeight:
    if claim.dtype(codes) == "int8":
        return scaled_codes(claim, codes=codes, scales=scales)
    rows, width = claim.shape(codes)
    bits = _bits(claim, width)
    shape = (rows, width * 8 // bits)
    if claim.shape(scales) != (rows, 1):
        raise claim.misfit(scales, shape)

    def coded(start: int, stop: int) -> Coded:
        found = unpacked_bytes(claim.cut(codes, slice(start, stop)), bits, shape[1])
        q = (found.to(torch.int16) - 2 ** (bits - 1)).to(torch.int8)
        scale = claim.load(scales, slice(start, stop))
        return Coded(q, q.float() * scale, scale.flatten())

    scheme = plain_scheme(f"int{bits}", "symmetric", PerChannel(0), shape)
    return claim.weight(shape, scheme, claim.dtype(scales), coded)


def _form(codes: str, scales: str) -> Form:
    read = functools.partial(_read, codes=codes, scales=scales)
    return Form({codes: ("int8", "uint8"), scales: FLOATS}, read, method="gemma")


FORMS = (_form("weight", "weight_scale"), _form("embedding_quantized", "embedding_scale"))
