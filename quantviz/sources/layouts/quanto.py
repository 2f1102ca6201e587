"""optimum-quanto's layouts. 8 bits: `X.weight._data` int8 or FP8 (rows, columns) and `X.weight._scale`, of
a row or all. 4 and 2 bits: `X.weight._data._data` uint8, the weight's groups one a line, those of the first
half (quarter) of the lines in the lowest bits; `X.weight._scale` and `X.weight._shift` of each group. A
value is scale · code − shift, or scale · (code − shift) where the shift is int8.

The file does not have the number of groups of a row: it follows from the bias, else from the sizes in the
model's config.json by the layer's name.

Source: optimum-quanto 0.2.7, `tensor/packed.py`, `tensor/grouped.py`, `tensor/qbits.py`.
"""

from __future__ import annotations

import functools
import math

import torch

from quantviz.errors import QuantVizError
from quantviz.sources.layouts.bit_fields import rows_of_planes
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.scaled import FP8, scaled_codes
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, along_rows, plain_scheme

_CODES = "weight._data._data"
_SCALE = "weight._scale"
_SHIFT = "weight._shift"


_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
#: Keys of a model's configuration for the number of inputs of layers, by the layers' names.
_INPUTS = (
    (("q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj", "fc1"), _HIDDEN),
    (("query", "key", "value", "query_key_value", "dense_h_to_4h", "w1", "w3", "lm_head"), _HIDDEN),
    (("down_proj", "fc2", "dense_4h_to_h", "w2"), ("intermediate_size", "ffn_dim", "ffn_hidden_size")),
)
_OF_HEADS = ("o_proj", "out_proj")


def _rows_by_config(claim: Claim, count: int, width: int) -> int:
    """Return the rows of a weight of `count` elements in groups of `width`; 0 if undetermined."""
    config = claim.catalog.json_beside("config.json")
    if not isinstance(config, dict):
        return 0
    text = config.get("text_config")
    config = {**config, **text} if isinstance(text, dict) else config
    layer = claim.module.rpartition(".")[2]
    keys = next((keys for names, keys in _INPUTS if layer in names), ())
    inputs = next((config[key] for key in keys if key in config), 0)
    if layer in _OF_HEADS:
        hidden = next((config[key] for key in _HIDDEN if key in config), 0)
        heads = config.get("num_attention_heads")
        size = config.get("head_dim")
        inputs = heads * size if type(heads) is int and type(size) is int else hidden
    sound = type(inputs) is int and inputs > 0 and inputs % width == 0 and count % inputs == 0
    return count // inputs if sound else 0


def _few_bits(claim: Claim) -> QuantizedWeight:
    packed = claim.shape(_CODES)
    scales = claim.shape(_SCALE)
    if len(packed) != 2 or len(scales) != 2 or scales[1] != 1 or claim.shape(_SHIFT) != scales:
        raise claim.misfit(_SCALE)
    lines = scales[0]
    width = packed[1]
    bits = next((n for n in (4, 2) if packed[0] == -(-lines * n // 8)), 0)
    bias = f"{claim.module}.bias"
    of_bias = math.prod(claim.catalog.info(bias).shape) if bias in claim.catalog else 0
    rows = of_bias or _rows_by_config(claim, lines * width, width)
    if not bits or (rows and lines % rows):
        raise claim.misfit(_SCALE)
    if not rows:
        raise QuantVizError("layouts.no_shape", name=claim.name, groups=lines, size=width)
    groups = lines // rows
    shape = (rows, groups * width)
    whole = claim.dtype(_SHIFT) == "int8"
    shifts = tuple(range(0, 8, bits))

    def coded(start: int, stop: int) -> Coded:
        window = slice(start * groups, stop * groups)
        q = rows_of_planes(claim, _CODES, shifts, bits, window.start, window.stop)
        scale = claim.load(_SCALE, window)
        shift = claim.load(_SHIFT, window)
        values = scale * (q.float() - shift) if whole else scale * q.float() - shift
        zero = shift.to(torch.int32) if whole else -shift
        return Coded(
            q.to(torch.uint8).reshape(stop - start, -1),
            values.reshape(stop - start, -1),
            scale.reshape(stop - start, -1),
            zero.reshape(stop - start, -1),
        )

    domain = "code_int" if whole else "value"
    scheme = plain_scheme(f"uint{bits}", "asymmetric", along_rows(width, shape[1]), shape, domain)
    return claim.weight(shape, scheme, claim.dtype(_SCALE), coded)


_EIGHT = functools.partial(scaled_codes, codes="weight._data", scales=_SCALE)
FORMS = (
    Form({"weight._data": ("int8", *FP8), _SCALE: FLOATS}, _EIGHT),
    Form({_CODES: ("uint8",), _SCALE: FLOATS, _SHIFT: (*FLOATS, "int8")}, _few_bits),
)
