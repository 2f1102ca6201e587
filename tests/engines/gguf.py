"""GGUF: the Python package's own quantizers (`gguf.quants`), run and unpacked."""

from __future__ import annotations

from functools import partial

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import quants

from tests.engines import Answer, Case, Path, Refused, Undefined

PRODUCER = "gguf"


def _half(raw: np.ndarray) -> torch.Tensor:
    """Two bytes a block as float16."""
    return torch.from_numpy(np.ascontiguousarray(raw).view(np.float16).ravel().copy())


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """A block's low nibbles are its first half, the high ones its second."""
    return np.concatenate([raw & 15, raw >> 4], axis=1)


def _with_fifth_bit(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low | (np.unpackbits(high, axis=1, bitorder="little") << 4)


def _twos(raw: np.ndarray) -> np.ndarray:
    """TQ2_0: each half of a block lies in 32 bytes, 32 neighbours to each pair of bits."""
    parts = [(half >> shift) & 3 for half in (raw[:, :32], raw[:, 32:]) for shift in (0, 2, 4, 6)]
    return np.concatenate(parts, axis=1)


def _threes(raw: np.ndarray) -> np.ndarray:
    """TQ1_0: five (the last four bytes: four) base-3 digits a byte, the first digit on top, as a fraction of
    256.
    """
    parts = []
    for start, stop, digits in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        rest = raw[:, start:stop].astype(np.int64)
        for _ in range(digits):
            parts.append(rest * 3 >> 8)
            rest = rest * 3 & 255
    return np.concatenate(parts, axis=1)


def _undefined(x: torch.Tensor, kind: Type) -> bool:
    """Whether the package casts NaN, infinity or a negative number to an unsigned byte on the way: C leaves
    the result open.
    """
    if kind == Type.MXFP4:
        # The exponent's byte wraps around below 2^-125, as x86 casts it. Where a distance overflows, codes of
        # infinite values are no candidates.
        return not bool(torch.isfinite(x).all()) or bool((x.abs() >= 2.0**127).any())
    low, high = x.amin(-1), x.amax(-1)
    top = torch.maximum(low.abs(), high.abs())
    d = {
        Type.Q4_0: top / 8,
        Type.Q5_0: top / 16,
        Type.Q8_0: top / 127,
        Type.Q4_1: (high - low) / 15,
        Type.Q5_1: (high - low) / 31,
    }.get(kind, top)
    return bool(((d != 0) & ~torch.isfinite(1 / d)).any() or torch.isinf(d).any())


def _run(x: torch.Tensor, kind: Type) -> Answer:
    size, stored = gguf.GGML_QUANT_SIZES[kind]
    try:
        with np.errstate(all="ignore"):
            # NumPy has no bfloat16: llama.cpp's converter widens such a tensor.
            packed = quants.quantize((x.float() if x.dtype == torch.bfloat16 else x).numpy(), kind)
    except quants.QuantError as e:
        raise Refused(str(e)) from e
    if _undefined(x.float().reshape(-1, size), kind):
        raise Undefined(f"{kind.name}: a cast of what uint8 or int8 cannot hold")
    with np.errstate(all="ignore"):
        x_hat = torch.from_numpy(quants.dequantize(packed, kind).copy()).reshape(x.shape)
    raw = np.ascontiguousarray(packed).reshape(-1, stored)
    zero_point = None
    if kind == Type.Q4_0:
        scale, codes = _half(raw[:, :2]), _nibbles(raw[:, 2:]).astype(np.int64) - 8
    elif kind == Type.Q4_1:
        scale, zero_point, codes = _half(raw[:, :2]), _half(raw[:, 2:4]), _nibbles(raw[:, 4:])
    elif kind == Type.Q5_0:
        scale, codes = (
            _half(raw[:, :2]),
            _with_fifth_bit(_nibbles(raw[:, 6:]), raw[:, 2:6]).astype(np.int64) - 16,
        )
    elif kind == Type.Q5_1:
        scale, zero_point, codes = (
            _half(raw[:, :2]),
            _half(raw[:, 2:4]),
            _with_fifth_bit(_nibbles(raw[:, 8:]), raw[:, 4:8]),
        )
    elif kind == Type.Q8_0:
        scale, codes = _half(raw[:, :2]), raw[:, 2:].view(np.int8)
    elif kind == Type.TQ2_0:
        scale, codes = _half(raw[:, 64:]), _twos(raw[:, :64]).astype(np.int64) - 1
    elif kind == Type.TQ1_0:
        scale, codes = _half(raw[:, 52:]), _threes(raw[:, :52]) - 1
    else:
        # The byte is an exponent with bias 127: a scale for e2m1's own values, though the package keeps those
        # doubled and the scale halved.
        scale, codes = (
            torch.from_numpy(np.ldexp(np.float32(1), np.minimum(raw[:, 0].astype(np.int32) - 127, 127))),
            _nibbles(raw[:, 1:]),
        )
    return Answer(x_hat, torch.from_numpy(codes.astype(np.int64)).reshape(x.shape), scale, zero_point)


def _ternary(x: torch.Tensor) -> Answer:
    """TQ1_0 and TQ2_0 are two packings of the same numbers."""
    one, two = _run(x, Type.TQ1_0), _run(x, Type.TQ2_0)
    for first, second in ((one.codes, two.codes), (one.scale, two.scale), (one.x_hat, two.x_hat)):
        assert first is not None
        assert second is not None
        assert torch.equal(first.nan_to_num(), second.nan_to_num())
    return two


def _size(kind: Type) -> int:
    return gguf.GGML_QUANT_SIZES[kind][0]


_CASES: dict[str, Case] = {
    **{
        f"{fmt},{mode},per_group(size={_size(kind)}),min_max,{convention}": partial(_run, kind=kind)
        for fmt, mode, convention, kind in (
            ("int4", "symmetric", "gguf_signed", Type.Q4_0),
            ("uint4", "asymmetric", "gguf_minimum", Type.Q4_1),
            ("int5", "symmetric", "gguf_signed", Type.Q5_0),
            ("uint5", "asymmetric", "gguf_minimum", Type.Q5_1),
            ("int8", "symmetric", "gguf", Type.Q8_0),
            ("float4_e2m1fn", "symmetric", "gguf_mx", Type.MXFP4),
        )
    },
    f"ternary,symmetric,per_group(size={_size(Type.TQ2_0)}),min_max,gguf": _ternary,
}

_OPEN = {"given range": "its scales are those of the data"}

PATHS = (Path("gguf.quants", _CASES, half=_CASES, open=_OPEN),)
