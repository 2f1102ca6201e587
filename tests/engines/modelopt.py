"""nvidia-modelopt on CPU: fake quantization by `TensorQuantizer`, and the packed tensor classes.

Fake quantization keeps the inverse scale qmax / absmax, multiplies by it and divides by it again: it has no
scale of its own, so `scale` is 1 / inverse in float32 and the codes are those that its values stand for. MX
formats and NVFP4 as fake quantization need CUDA.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.engines import SPOILS_THE_RANGE, Answer, GivenCase, Path, Refused, refuse_half_nan

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from modelopt.torch.quantization.config import QuantizerAttributeConfig
    from modelopt.torch.quantization.nn import TensorQuantizer
    from modelopt.torch.quantization.qtensor import INT4QTensor, INT8QTensor, MXFP4QTensor, NVFP4QTensor
    from modelopt.torch.quantization.qtensor.fp8_tensor import FP8QTensor
    from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor
    from modelopt.torch.quantization.utils import reduce_block_padding

PRODUCER = "nvidia-modelopt"

_GRANULARITIES = (
    "per_tensor",
    "per_channel(axis=0)",
    "per_channel(axis=-1)",
    "per_group(size=16)",
    "per_group(size=32)",
    "per_group(size=128)",
    "per_block(rows=2,cols=3)",
)
#: Below it, 2^-24, a fake quantizer takes a block for zeros.
_SMALLEST = 2.0**-24


def _sizes(granularity: str) -> list[int]:
    inner = granularity.partition("(")[2].removesuffix(")")
    return [int(part.partition("=")[2]) for part in inner.split(",")] if inner else []


def _sharing(granularity: str) -> dict[str, Any]:
    """The granularity in the engine's words."""
    head, numbers = granularity.partition("(")[0], _sizes(granularity)
    if head == "per_channel":
        return {"axis": numbers[0]}
    if head == "per_group":
        return {"block_sizes": {-1: numbers[0]}}
    if head == "per_block":
        return {"block_sizes": {-2: numbers[0], -1: numbers[1]}}
    return {}


def _blocks(shape: tuple[int, ...], granularity: str) -> tuple[int, ...]:
    """Size of a block along each axis."""
    head, numbers = granularity.partition("(")[0], _sizes(granularity)
    if head == "per_tensor":
        return shape
    if head == "per_channel":
        return tuple(1 if i == numbers[0] % len(shape) else n for i, n in enumerate(shape))
    return (*(1,) * (len(shape) - len(numbers)), *numbers)


def _spread(grid: torch.Tensor, shape: tuple[int, ...], granularity: str) -> torch.Tensor:
    """One number a block to one a cell: a block that the tensor's edge cuts is short."""
    sizes = _blocks(shape, granularity)
    out = grid.reshape([math.ceil(n / b) for n, b in zip(shape, sizes, strict=True)])
    for axis, size in enumerate(sizes):
        out = out.repeat_interleave(size, dim=axis)
    return out[tuple(slice(0, n) for n in shape)]


def _fits(x: torch.Tensor, granularity: str) -> None:
    if granularity.startswith("per_block") and x.ndim < 2:
        raise Refused("needs two axes")
    if granularity.startswith("per_channel") and x.ndim < 2:
        raise Refused(
            "no axis is left to reduce, and the engine reduces all of them: one scale without saying so"
        )


# ---- fake quantization --------------------------------------------------------------------------


def _calibrated(x: torch.Tensor, **attributes: Any) -> TensorQuantizer:
    """A quantizer that has seen `x`, as `mtq.quantize` leaves it."""
    quantizer = TensorQuantizer(QuantizerAttributeConfig(**attributes))
    quantizer.disable_quant()
    quantizer.enable_calib()
    quantizer(x)
    quantizer.load_calib_amax()
    quantizer.disable_calib()
    quantizer.enable_quant()
    return quantizer


def _fake_integer(seen: torch.Tensor, x: torch.Tensor, granularity: str, bits: int, narrow: bool) -> Answer:
    _fits(x, granularity)
    quantizer = _calibrated(seen, num_bits=bits, narrow_range=narrow, **_sharing(granularity))
    x_hat = quantizer(x)
    codes, scale = _codes(x_hat, quantizer.amax, granularity, 2.0 ** (bits - 1) - 1)
    return Answer(x_hat, codes, scale)


def _codes(
    x_hat: torch.Tensor, amax: torch.Tensor, granularity: str, code_max: float
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """The codes that fake-quantized values stand for, and what they are multiples of."""
    # Its arithmetic is float32, whatever the dtype of the input.
    amax = amax.reshape(-1).float()
    inverse = torch.where(amax <= _SMALLEST, 1.0, torch.tensor(code_max) / amax)
    if not bool(torch.isfinite(x_hat).all()) or _coarse(x_hat, code_max):
        return None, 1 / inverse
    # In float64 the product is next to a whole number, whatever the rounding of the division was.
    codes = (
        (x_hat.double() * _spread(inverse, tuple(x_hat.shape), granularity).double()).round().to(torch.int64)
    )
    return codes, 1 / inverse


def _coarse(x_hat: torch.Tensor, code_max: float) -> bool:
    """Whether values are of half precision and do not tell codes apart: more than 127 of them, or subnormal
    ones.
    """
    if x_hat.dtype == torch.float32:
        return False
    small = (x_hat != 0) & (x_hat.abs() < torch.finfo(x_hat.dtype).tiny)
    return code_max > 127 or bool(small.any())


def _fake_e4m3(seen: torch.Tensor, x: torch.Tensor, granularity: str) -> Answer:
    _fits(x, granularity)
    quantizer = _calibrated(seen, num_bits=(4, 3), **_sharing(granularity))
    x_hat = quantizer(x)
    amax = quantizer.amax.reshape(-1).float()
    scale = 1 / (448.0 / torch.where(amax <= _SMALLEST, 1.0, amax))
    if _coarse(x_hat, 0):
        return Answer(x_hat, None, scale)
    values = (x_hat.double() / _spread(scale, tuple(x.shape), granularity).double()).to(torch.float32)
    return Answer(x_hat, values.to(torch.float8_e4m3fn).view(torch.uint8).to(torch.int64), scale)


# ---- packed tensors -----------------------------------------------------------------------------


def _packed_byte(seen: torch.Tensor, x: torch.Tensor, granularity: str, engine: type[Any]) -> Answer:
    """INT8QTensor and FP8QTensor: a code a byte."""
    _fits(x, granularity)
    sharing = _sharing(granularity)
    packed, scales = engine.quantize(seen.clone(), **sharing)
    if seen is not x:
        blocks = sharing.get("block_sizes")
        # INT8QTensor pads the tensor only where it makes the scales itself.
        padded = reduce_block_padding(x, blocks) if blocks and engine is INT8QTensor else x.clone()
        packed, scales = engine.quantize(padded, scales, **sharing)
        packed.metadata["shape"] = x.shape
    data = packed._quantized_data
    try:
        x_hat = packed.dequantize(scale=scales, block_sizes=sharing.get("block_sizes"))
    except AssertionError as refusal:
        raise Refused(str(refusal)) from None
    refuse_half_nan(x, x_hat)
    stored = data if data.dtype == torch.int8 else data.view(torch.uint8)
    # INT8QTensor keeps the padding in its data.
    return Answer(x_hat, stored[tuple(slice(0, n) for n in x.shape)].to(torch.int64), scales.reshape(-1))


def _int4(x: torch.Tensor, size: int) -> Answer:
    try:
        packed, inverse = INT4QTensor.quantize(x, size)
        x_hat = packed.dequantize(scale=inverse, block_sizes={-1: size})
    except (AssertionError, RuntimeError) as refusal:
        raise Refused(str(refusal)) from None
    data = packed._quantized_data.reshape(-1).to(torch.int64)
    codes = torch.stack([data >> 4, data & 15], -1).reshape(-1)[: x.numel()].reshape(x.shape) - 8
    return Answer(x_hat, codes, 1 / inverse.reshape(-1))


def _unpack(packed: torch.Tensor) -> torch.Tensor:
    """Low nibble first."""
    data = packed.to(torch.int64)
    return torch.stack([data & 15, data >> 4], -1).flatten(-2)


def _mxfp4(x: torch.Tensor) -> Answer:
    try:
        packed, exponents = MXFP4QTensor.quantize(x, 32)
        x_hat = packed.dequantize(scale=exponents, block_sizes={-1: 32})
    except RuntimeError as refusal:
        raise Refused(str(refusal)) from None
    if x_hat.shape != x.shape:
        raise Refused("an odd last axis comes back longer")
    return Answer(x_hat, _unpack(packed._quantized_data), torch.exp2(exponents.double() - 127).reshape(-1))


def _mxfp8(seen: torch.Tensor, x: torch.Tensor) -> Answer:
    packed, exponents = MXFP8QTensor.quantize(seen.clone())
    if seen is not x:
        packed, exponents = MXFP8QTensor.quantize(x.clone(), exponents)
    x_hat = packed.dequantize(scale=exponents)
    return Answer(
        x_hat,
        packed._quantized_data.view(torch.uint8).to(torch.int64),
        torch.exp2(exponents.double() - 127).reshape(-1),
    )


def _nvfp4(seen: torch.Tensor, x: torch.Tensor, size: int) -> Answer:
    packed, scales, over_all = NVFP4QTensor.quantize(seen.clone(), size)
    if seen is not x:
        packed, scales, over_all = NVFP4QTensor.quantize(x.clone(), size, scales, over_all)
    try:
        x_hat = packed.dequantize(scale=scales, double_scale=over_all, block_sizes={-1: size})
    except RuntimeError as refusal:
        raise Refused(str(refusal)) from None
    effective = scales.to(torch.float32) * over_all
    return Answer(x_hat, _unpack(packed._quantized_data)[..., : x.shape[-1]], effective.reshape(-1))


def _quiet(case: Callable[..., Answer]) -> Callable[..., Answer]:
    """`case` without the package's own warnings: indexing that torch has deprecated, CUDA that is not
    there.
    """

    def run(*tensors: torch.Tensor) -> Answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return case(*tensors)

    return run


def _fake_cases() -> Iterator[tuple[str, GivenCase]]:
    for granularity in _GRANULARITIES:
        for bits in (2, 3, 4, 5, 6, 7, 8, 16):
            for convention, narrow in (("modelopt", False), ("modelopt(narrow_range=true)", True)):
                case = functools.partial(_fake_integer, granularity=granularity, bits=bits, narrow=narrow)
                yield f"int{bits},symmetric,{granularity},min_max,{convention}", _quiet(case)


def _fake_float_cases() -> Iterator[tuple[str, GivenCase]]:
    for granularity in _GRANULARITIES:
        yield (
            f"float8_e4m3fn,symmetric,{granularity},min_max,modelopt_float8",
            _quiet(functools.partial(_fake_e4m3, granularity=granularity)),
        )


def _packed_cases(fmt: str, engine: type[Any]) -> Iterator[tuple[str, GivenCase]]:
    for granularity in _GRANULARITIES:
        yield (
            f"{fmt},symmetric,{granularity},min_max,modelopt_packed",
            _quiet(functools.partial(_packed_byte, granularity=granularity, engine=engine)),
        )


_INT4 = {
    f"int4,symmetric,flat(size={size}),min_max,modelopt_int4": _quiet(functools.partial(_int4, size=size))
    for size in (32, 64, 128)
}
_NVFP4_CASES = {
    f"float4_e2m1fn,symmetric,per_group(size={size}),min_max,modelopt_nvfp4": _quiet(
        functools.partial(_nvfp4, size=size)
    )
    for size in (16, 32)
}
_MXFP4_CASES = {"float4_e2m1fn,symmetric,flat(size=32),min_max,modelopt_mxfp4": _quiet(_mxfp4)}
_OWN_SCALES = {
    "given range": "its scales are those of the data",
    "infinity": SPOILS_THE_RANGE,
    "NaN": SPOILS_THE_RANGE,
}

PATHS = (
    Path.of_given(
        "TensorQuantizer",
        dict(_fake_cases()),
        open={"NaN": "NaN stays NaN, which no code of the format is"},
    ),
    Path.of_given("TensorQuantizer, float8", dict(_fake_float_cases()), open={}),
    Path.of_given("INT8QTensor", dict(_packed_cases("int8", INT8QTensor)), open={}),
    Path.of_given("FP8QTensor", dict(_packed_cases("float8_e4m3fn", FP8QTensor)), open={}),
    Path("INT4QTensor", _INT4, half=_INT4, open=_OWN_SCALES),
    Path("MXFP4QTensor", _MXFP4_CASES, half=_MXFP4_CASES, open=_OWN_SCALES),
    Path.of_given(
        "MXFP8QTensor",
        {"float8_e4m3fn,symmetric,per_group(size=32),min_max,modelopt_mxfp8": _quiet(_mxfp8)},
        open={},
    ),
    Path.of_given("NVFP4QTensor", _NVFP4_CASES, open={}),
)
