"""BitNet's layout in transformers: `X.weight` uint8 (rows / 4, columns) and one `X.weight_scale`. The two
lowest bits are a code + 1 of the first quarter of the rows, the next two of the second quarter …

The linear class "autobitlinear" multiplies values by it; "bitlinear", the default, divides them.

Source: transformers 5.24, `integrations/bitnet.py` (`unpack_weights`, `BitLinear`, `AutoBitLinear`).
"""

from __future__ import annotations

import math

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import PerTensor
from quantviz.sources.layouts.bit_fields import rows_of_planes
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, plain_scheme

_SHIFTS = (0, 2, 4, 6)


def _is_bitnet(claim: Claim) -> bool:
    return math.prod(claim.shape("weight_scale")) == 1 and len(claim.shape("weight")) == 2


def _read(claim: Claim) -> QuantizedWeight:
    lines, columns = claim.shape("weight")
    shape = (4 * lines, columns)
    found = claim.load("weight_scale").reshape(())
    scale = found if claim.config.get("linear_class") == "autobitlinear" else 1 / found

    def coded(start: int, stop: int) -> Coded:
        q = rows_of_planes(claim, "weight", _SHIFTS, 2, start, stop)
        if int(q.max()) > 2:
            raise QuantVizError("layouts.codes", name=claim.name, got=3, most=2)
        q = (q - 1).to(torch.int8)
        return Coded(q, q.float() * scale, scale)

    scheme = plain_scheme("ternary", "symmetric", PerTensor(), shape)
    return claim.weight(shape, scheme, claim.dtype("weight_scale"), coded)


FORMS = (Form({"weight": ("uint8",), "weight_scale": FLOATS}, _read, when=_is_bitnet),)
