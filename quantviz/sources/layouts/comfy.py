"""ComfyUI's layouts.

Older files have `X.weight` FP8 and `X.scale_weight`, one number or one a row, by which it is multiplied;
`X.scale_input` is of inputs. An empty tensor `scaled_fp8` marks such a file.

Newer ones name the format of each layer as JSON, in the bytes of `X.comfy_quant` or in the header under
`_quantization_metadata`: FP8 with one `X.weight_scale`; int8 with one, one a row or one a block; NVFP4 and
MXFP8, whose scales lie as cuBLAS wants them. Of NVFP4 the first code of a byte is in the high bits, and
`X.weight_scale_2` multiplies all scales. Rotated weights ("convrot") are int8 codes of groups of columns
that a Hadamard matrix has turned; of those there are only values.

Sources: ComfyUI, `comfy/ops.py` and `QUANTIZATION.md` (7f75cc2); comfy-kitchen 0.2.40, `tensor/` and
`backends/eager`.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from typing import Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import PerGroup
from quantviz.sources.files.mapped import values_of
from quantviz.sources.layouts.bit_fields import nibbles
from quantviz.sources.layouts.forms import BESIDE, FLOATS, Claim, Form
from quantviz.sources.layouts.four_bit_floats import EXPONENTS, FORMAT, scale_of_all
from quantviz.sources.layouts.scaled import FP8, scaled_codes
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, plain_scheme, values_only
from quantviz.tensors.hadamard import regular_hadamard

_SCALE = "weight_scale"
_SECOND = "weight_scale_2"
_MARK = "comfy_quant"
_IN_HEADER = "_quantization_metadata"
_LONGEST = 2**12
_LONGEST_HEADER = 2**24
#: Rows and columns of a tile of scales in cuBLAS's order, and rows of its four parts.
_TILE_ROWS = 128
_TILE_COLUMNS = 4
_PART = 32
_NV_GROUP = 16
_MX_GROUP = 32
#: Columns that are rotated together where the file does not say.
_ROTATED = 256


def _description(claim: Claim) -> Mapping[str, Any]:
    if _MARK in claim:
        name = claim.tensors[_MARK]
        if claim.catalog.info(name).count > _LONGEST:
            raise claim.damaged()
        found = json.loads(bytes(claim.catalog.cut(name).flatten().tolist()))
        return found if isinstance(found, dict) else {}
    layers = _layers(claim.catalog.header_texts(claim.tensors["weight"]).get(_IN_HEADER, ""))
    found = layers.get(claim.module)
    return found if isinstance(found, dict) else {}


@functools.lru_cache(maxsize=4)
def _layers(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if 0 < len(text) <= _LONGEST_HEADER else {}
    except (ValueError, RecursionError):
        return {}
    layers = found.get("layers") if isinstance(found, dict) else None
    return layers if isinstance(layers, dict) else {}


def _read(claim: Claim) -> QuantizedWeight:
    description = _description(claim)
    kind = str(description.get("format"))
    nested = description.get("params")
    description = {**description, **nested} if isinstance(nested, dict) else description
    if kind == "nvfp4" and _SECOND in claim:
        return _nvfp4(claim)
    if kind == "mxfp8":
        return _mxfp8(claim)
    if kind in FP8 and claim.dtype("weight") == kind and _SECOND not in claim:
        return scaled_codes(claim)
    if kind == "int8_tensorwise" and claim.dtype("weight") == "int8":
        return _rotated(claim, description) if description.get("convrot") else scaled_codes(claim)
    if kind == "int8_blockwise" and claim.dtype("weight") == "int8":
        size = description.get("group_size", 128)
        if type(size) is not int or size < 1:
            raise claim.damaged()
        return scaled_codes(claim, block=(size, size))
    raise QuantVizError("layouts.comfy", name=claim.name, kind=kind)


def _nvfp4(claim: Claim) -> QuantizedWeight:
    rows, half = claim.shape("weight")
    shape = (rows, 2 * half)
    _check_tiles(claim, shape, _NV_GROUP)
    values = values_of(FORMAT)
    second = scale_of_all(claim, _SECOND)

    def coded(start: int, stop: int) -> Coded:
        raw = claim.cut("weight", slice(start, stop))
        q = nibbles(raw, high_first=True)
        scale = _tiled(claim, start, stop, shape[1] // _NV_GROUP) * second
        return Coded(q, values[q.int()] * scale.repeat_interleave(_NV_GROUP, dim=1), scale)

    scheme = plain_scheme(FORMAT, "symmetric", PerGroup(_NV_GROUP), shape)
    return claim.weight(shape, scheme, claim.dtype(_SCALE), coded)


def _mxfp8(claim: Claim) -> QuantizedWeight:
    shape = claim.shape("weight")
    kind = claim.dtype("weight")
    _check_tiles(claim, shape, _MX_GROUP)
    if kind not in FP8 or claim.dtype(_SCALE) not in EXPONENTS:
        raise claim.damaged()

    def coded(start: int, stop: int) -> Coded:
        found = claim.cut("weight", slice(start, stop))
        scale = _tiled(claim, start, stop, shape[1] // _MX_GROUP)
        q = found.to(getattr(torch, kind)).view(torch.uint8)
        return Coded(q, found * scale.repeat_interleave(_MX_GROUP, dim=1), scale)

    scheme = plain_scheme(kind, "symmetric", PerGroup(_MX_GROUP), shape)
    return claim.weight(shape, scheme, "float8_e8m0fnu", coded)


def _check_tiles(claim: Claim, shape: tuple[int, ...], size: int) -> None:
    if len(shape) != 2 or shape[1] % size:
        raise claim.misfit(_SCALE, shape)
    tiles = (-(-shape[0] // _TILE_ROWS), -(-shape[1] // size // _TILE_COLUMNS))
    if claim.shape(_SCALE) != (tiles[0] * _TILE_ROWS, tiles[1] * _TILE_COLUMNS):
        raise claim.misfit(_SCALE, shape)


def _tiled(claim: Claim, start: int, stop: int, columns: int) -> torch.Tensor:
    """Return scales from tiles of 128 rows × 4 columns: the rows of the four parts stand side by side."""
    first = start // _TILE_ROWS
    last = -(-stop // _TILE_ROWS)
    raw = claim.cut(_SCALE, slice(first * _TILE_ROWS, last * _TILE_ROWS))
    if raw.dtype == torch.uint8:
        raw = raw.view(torch.float8_e8m0fnu)
    parts = _TILE_ROWS // _PART
    tiles = raw.float().reshape(last - first, -1, _PART, parts, _TILE_COLUMNS)
    rows = tiles.permute(0, 3, 2, 1, 4).reshape((last - first) * _TILE_ROWS, -1)
    return rows[start - first * _TILE_ROWS : stop - first * _TILE_ROWS, :columns]


def _rotated(claim: Claim, description: Mapping[str, Any]) -> QuantizedWeight:
    plain = scaled_codes(claim)
    size = description.get("convrot_groupsize", _ROTATED)
    if type(size) is not int or not 4 <= size <= 4**6 or math.log(size, 4) % 1 or plain.shape[1] % size:
        raise claim.damaged()
    turn = regular_hadamard(size) / math.sqrt(size)

    def coded(start: int, stop: int) -> Coded:
        values = plain.coded(start, stop).x_hat
        return values_only((values.reshape(-1, size) @ turn.T).reshape(values.shape))

    note = Note.of("layouts.rotated", size=size)
    return claim.weight(plain.shape, None, plain.scale_dtype, coded, row_step=plain.row_step, notes=(note,))


_DTYPES = {"weight": ("uint8", "int8", *FP8), _SCALE: (*FLOATS, "float8_e4m3fn", *EXPONENTS)}
_BESIDE = (*BESIDE, "scale_input")
FORMS = (
    Form(
        {"weight": FP8, "scale_weight": FLOATS},
        functools.partial(scaled_codes, scales="scale_weight"),
        beside=_BESIDE,
    ),
    Form({**_DTYPES, _MARK: ("uint8",)}, _read, {_SECOND: FLOATS}, beside=_BESIDE),
    Form(_DTYPES, _read, {_SECOND: FLOATS}, beside=_BESIDE, when=lambda claim: bool(_description(claim))),
)
