"""MLX's layouts. Affine: `X.weight` uint32 (rows, columns · bits / 32), codes side by side with the first
in the lowest bits, `X.scales` and `X.biases` (rows, groups). A value is scale · code + bias.

The configuration beside the file has bits and group size, for all or for a module: shapes alone fit
several. Modes mxfp4, mxfp8 and nvfp4 have no biases, and their scales are bytes: exponents in groups of 32,
E4M3 in groups of 16.

Source: MLX 0.32.4, `mlx.core.quantize`, `dequantize`.
"""

from __future__ import annotations

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerGroup
from quantviz.sources.files.mapped import values_of
from quantviz.sources.layouts.bit_fields import unpacked, words_of
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.four_bit_floats import FORMAT as FP4
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, plain_scheme

_BITS = (2, 3, 4, 5, 6, 8)
#: Format of the codes, size of a group and dtype of the scales of each mode, by bits of a group's codes.
_MODES = {
    128: (FP4, 32, torch.float8_e8m0fnu),
    256: ("float8_e4m3fn", 32, torch.float8_e8m0fnu),
    64: (FP4, 16, torch.float8_e4m3fn),
}


def _affine(claim: Claim) -> QuantizedWeight:
    words = claim.shape("weight")
    scales = claim.shape("scales")
    own = claim.config.get(claim.module)
    settings = own if isinstance(own, dict) else claim.config
    bits = settings.get("bits")
    size = settings.get("group_size")
    known = bits in _BITS and type(size) is int and size > 0
    if not known or len(words) != 2 or len(scales) != 2 or claim.shape("biases") != scales:
        raise QuantVizError("layouts.mlx", name=claim.name, bits=bits, size=size, words=words, scales=scales)
    assert isinstance(bits, int)
    assert isinstance(size, int)
    shape = (words[0], scales[1] * size)
    if scales[0] != words[0] or words_of(shape[1], bits) != words[1]:
        raise QuantVizError("layouts.mlx", name=claim.name, bits=bits, size=size, words=words, scales=scales)

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(claim.cut("weight", slice(start, stop)), bits, shape[1])
        scale = claim.load("scales", slice(start, stop))
        bias = claim.load("biases", slice(start, stop))
        wide = [each.repeat_interleave(size, dim=1) for each in (scale, bias)]
        return Coded(q.to(torch.uint8), q.float() * wide[0] + wide[1], scale, bias)

    scheme = plain_scheme(f"uint{bits}", "asymmetric", PerGroup(size), shape, "value")
    return claim.weight(shape, scheme, claim.dtype("scales"), coded)


def _micro(claim: Claim) -> QuantizedWeight:
    words = claim.shape("weight")
    scales = claim.shape("scales")
    whole = len(words) == len(scales) == 2 and words[0] == scales[0] and scales[1] > 0
    mode = _MODES.get(words[1] * 32 // scales[1]) if whole and words[1] * 32 % scales[1] == 0 else None
    if mode is None:
        raise claim.misfit("scales")
    fmt, size, dtype = mode
    bits = FORMATS[fmt].bits
    shape = (words[0], scales[1] * size)
    values = values_of(fmt)

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(claim.cut("weight", slice(start, stop)), bits, shape[1])
        scale = claim.cut("scales", slice(start, stop)).view(dtype).float()
        return Coded(q.to(torch.uint8), values[q] * scale.repeat_interleave(size, dim=1), scale)

    scheme = plain_scheme(fmt, "symmetric", PerGroup(size), shape)
    return claim.weight(shape, scheme, str(dtype).removeprefix("torch."), coded)


FORMS = (
    Form({"weight": ("uint32",), "scales": FLOATS, "biases": FLOATS}, _affine),
    Form({"weight": ("uint32",), "scales": ("uint8",)}, _micro),
)
