"""MLX on CPU: `mlx.core.quantize` and `dequantize`, in its four modes.

Its Metal kernels do the same arithmetic in float32 (`affine_quantize` in `mlx/backend/metal/kernels`).
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import torch

from tests.engines import Answer, Case, Path, Refused, Undefined

PRODUCER = "mlx"

_SIZES = (32, 64, 128)
_BITS = (2, 3, 4, 5, 6, 8)
#: Mode, format, elements of a group, bits of a code, the largest value of the format.
_FLOATS = (
    ("mxfp4", "float4_e2m1fn", 32, 4, 6.0),
    ("mxfp8", "float8_e4m3fn", 32, 8, 448.0),
    ("nvfp4", "float4_e2m1fn", 16, 4, 6.0),
)


def _array(x: torch.Tensor) -> mx.array:
    # NumPy has no bfloat16.
    return mx.array(x.float().numpy()).astype(getattr(mx, str(x.dtype).removeprefix("torch.")))


def _tensor(x: mx.array) -> torch.Tensor:
    return torch.from_numpy(np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x))


def _unpacked(words: mx.array, bits: int, shape: tuple[int, ...]) -> torch.Tensor:
    """The codes of packed words, which fill 32 bits from the lowest on."""
    places = np.unpackbits(np.array(words).view(np.uint8), bitorder="little").reshape(-1, bits)
    return torch.from_numpy((places.astype(np.int64) << np.arange(bits)).sum(1).reshape(shape))


def _affine(bits: int, size: int) -> Case:
    def run(x: torch.Tensor) -> Answer:
        if x.dim() < 2 or x.shape[-1] % size:
            raise Refused("groups must divide the last axis of two or more")
        words, scales, biases = mx.quantize(_array(x), group_size=size, bits=bits, stream=mx.cpu)
        back = mx.dequantize(words, scales, biases, group_size=size, bits=bits, stream=mx.cpu)
        codes = _unpacked(words, bits, tuple(x.shape))
        return Answer(_tensor(back), codes, _tensor(scales).flatten(), _tensor(biases).flatten())

    return run


def _float(mode: str, size: int, bits: int, largest: float, *, of_tensor: bool = False) -> Case:
    def run(x: torch.Tensor) -> Answer:
        # It packs eight codes of 4 bits into a word, and rows of words into groups of 32.
        if x.dim() < 2 or x.shape[-1] % 32:
            raise Refused("the last axis of two or more must be a multiple of 32")
        absmax = x.reshape(-1, size).abs().amax(1)
        if mode == "nvfp4" and not of_tensor and bool((absmax / 448 > 2**22).any()):
            raise Undefined("codes are looked up by a distance in float32, which no longer tells them apart")
        if of_tensor and float(absmax.max()) < 2688 / torch.finfo(torch.float32).max:
            raise Undefined(
                "2688 over the largest magnitude is infinite, and 0 · ∞ has the sign of the machine"
            )
        if mode != "nvfp4" and bool(((absmax > 0) & (absmax / largest < 2.0**-127)).any()):
            raise Undefined("the byte of an exponent below -127 wraps")
        whole = mx.array(x.abs().amax().float().numpy()) if of_tensor else None
        words, scales = mx.quantize(_array(x), mode=mode, global_scale=whole, stream=mx.cpu)
        back = mx.dequantize(words, scales, mode=mode, global_scale=whole, dtype=mx.float32, stream=mx.cpu)
        stored = (
            _tensor(scales)
            .flatten()
            .view(torch.float8_e4m3fn if mode == "nvfp4" else torch.float8_e8m0fnu)
            .to(torch.float32)
        )
        if whole is not None:
            # As `dequantize` makes it on the way to values.
            stored *= _tensor(whole / 2688)
        return Answer(_tensor(back), _unpacked(words, bits, tuple(x.shape)), stored)

    return run


_CASES: dict[str, Case] = {
    **{
        f"uint{bits},asymmetric,per_group(size={size}),min_max,mlx": _affine(bits, size)
        for bits in _BITS
        for size in _SIZES
    },
    **{
        f"{fmt},symmetric,per_group(size={size}),min_max,mlx_{mode}": _float(mode, size, bits, largest)
        for mode, fmt, size, bits, largest in _FLOATS
    },
    # With `global_scale`, the tensor's largest magnitude.
    "float4_e2m1fn,symmetric,per_group(size=16),min_max,"
    "mlx_nvfp4(order=divide_level_multiply_round,scale.global_rule=absmax_and_inverse)": _float(
        "nvfp4", 16, 4, 6.0, of_tensor=True
    ),
}

_OPEN = {
    "given range": "it takes the range of the values that it is given",
    "infinity": "a group with ±Inf has no width: 0 / 0, which is cast to an integer",
    "NaN": "the smallest and the largest of NaN depend on the order in which it compares",
}

PATHS = (Path("mx.quantize", _CASES, half=_CASES, open=_OPEN),)
