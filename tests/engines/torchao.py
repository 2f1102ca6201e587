"""torchao's answers: affine integers, float8, MX and NVFP4, on CPU in eager mode.

Signed integers, MX and NVFP4 go through the tensor classes that `quantize_` makes. Unsigned integers and
int16 have no such class, and float8's class calls the primitives and takes fewer granularities: both go
through the primitives.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from tests.engines import SPOILS_THE_RANGE, Answer, Case, GivenCase, Path, Refused, Undefined

with warnings.catch_warnings():
    # Classes registered with torch in a way that it has deprecated.
    warnings.simplefilter("ignore")
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
    from torchao.prototype.mx_formats.kernels import unpack_uint4
    from torchao.prototype.mx_formats.mx_tensor import MXTensor, get_fp_scale
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.quantization import quant_primitives
    from torchao.quantization.granularity import Granularity, PerAxis, PerBlock, PerGroup, PerTensor
    from torchao.quantization.quant_primitives import MappingType
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor
    from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import (
        IntxUnpackedToInt8Tensor,
    )
    from torchao.quantization.utils import get_block_size

PRODUCER = "torchao"

#: Makes the engine's block size from a shape.
BlockSize = Callable[[torch.Size], tuple[int, ...]]


# ---- granularities ------------------------------------------------------------------------------


def _of(granularity: Granularity) -> BlockSize:
    return lambda shape: tuple(get_block_size(tuple(shape), granularity))


def _group_along(size: int, axis: int) -> BlockSize:
    def block(shape: torch.Size) -> tuple[int, ...]:
        sizes = [1] * len(shape)
        sizes[axis] = size
        return tuple(sizes)

    return block


_ALL: dict[str, BlockSize] = {
    "per_tensor": _of(PerTensor()),
    **{f"per_channel(axis={axis})": _of(PerAxis(axis)) for axis in (0, 1, -1)},
    **{f"per_group(size={size})": _of(PerGroup(size)) for size in (5, 16, 32, 64)},
    "per_group(size=2,axis=0)": _group_along(2, 0),
    "per_group(size=11,axis=-2)": _group_along(11, -2),
    **{
        f"per_block(rows={rows},cols={cols})": _of(PerBlock((rows, cols)))
        for rows, cols in ((1, 32), (2, 4), (3, 5))
    },
}
_FEW = {
    "per_tensor": PerTensor(),
    "per_channel(axis=0)": PerAxis(0),
    "per_group(size=32)": PerGroup(32),
    "per_block(rows=2,cols=4)": PerBlock((2, 4)),
}


def _guarded(case: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return `case` whose own errors are refusals."""

    def run(*tensors: torch.Tensor) -> Answer:
        try:
            return case(*tensors)
        except (AssertionError, RuntimeError, ValueError, IndexError) as error:
            raise Refused(str(error)) from error

    return run


# ---- integers -----------------------------------------------------------------------------------

_MAPPING = {
    "symmetric": MappingType.SYMMETRIC,
    "asymmetric": MappingType.ASYMMETRIC,
    "without_clipping": MappingType.SYMMETRIC_NO_CLIPPING_ERR,
}


def _flat(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(-1)


#: What Int8Tensor asks of the primitives, whatever the dtype of its input.
_OF_INT8 = {"eps": 2.0**-23, "scale_dtype": torch.float32}


def _signed(bits: int, mapping: str, block: BlockSize) -> GivenCase:
    dtype, int8 = getattr(torch, f"int{bits}"), _primitive(torch.int8, mapping, block, **_OF_INT8)

    def run(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        if bits == 8 and x.dtype != torch.float32:
            # Int8Tensor, which takes fewer granularities, differs from this class in half precision.
            return int8(seen, x)
        t = IntxUnpackedToInt8Tensor.from_hp(seen, block(x.shape), dtype, mapping_type=_MAPPING[mapping])
        if seen is not x:
            t = IntxUnpackedToInt8Tensor.from_hp(
                x,
                block(x.shape),
                dtype,
                mapping_type=_MAPPING[mapping],
                intx_choose_qparams_algorithm=None,
                custom_scale=t.scale,
                custom_zero_point=t.zero_point,
            )
        return Answer(t.dequantize(), t.qdata, _flat(t.scale), _flat(t.zero_point))

    return run


def _primitive(dtype: torch.dtype, mapping: str, block: BlockSize, **options: Any) -> GivenCase:
    def run(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        if dtype == torch.int16 and x.dtype != torch.float32:
            raise Undefined(
                "the largest int16 is no number of half precision, and what it becomes is cast to int16"
            )
        size = block(x.shape)
        scale, zero = quant_primitives.choose_qparams_affine(seen, _MAPPING[mapping], size, dtype, **options)
        q = quant_primitives.quantize_affine(x, size, scale, zero, dtype)
        x_hat = quant_primitives.dequantize_affine(q, size, scale, zero, dtype, output_dtype=x.dtype)
        return Answer(x_hat, q, _flat(scale), _flat(zero))

    return run


def _int8_class(mapping: str, granularity: Granularity, *, reduced: bool = False) -> GivenCase:
    of_tensor = partial(Int8Tensor.from_hp, reduce_range=reduced)

    def run(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        t = of_tensor(seen, granularity, _MAPPING[mapping])
        if seen is not x:
            t = of_tensor(x, granularity, _MAPPING[mapping], t.scale, t.zero_point)
        return Answer(t.dequantize(), t.qdata, _flat(t.scale), _flat(t.zero_point))

    return run


def _bounds(dtype: torch.dtype) -> tuple[torch.dtype, int, int]:
    """Where codes of `dtype` are kept, and the least and largest: torch cannot store int1 … int7."""
    low, high = quant_primitives._DTYPE_TO_QVALUE_BOUNDS[dtype]
    return (torch.int8 if low < 0 else dtype), low, high


def _without_zero(dtype: torch.dtype, block: BlockSize) -> GivenCase:
    def run(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        size, codes = block(x.shape), _bounds(dtype)
        options = _OF_INT8 if dtype == torch.int8 and x.dtype != torch.float32 else {}
        scale, zero = quant_primitives._choose_qparams_affine_dont_preserve_zero(
            seen, MappingType.ASYMMETRIC, size, *codes, **options
        )
        q = quant_primitives.quantize_affine(x, size, scale, zero, *codes)
        x_hat = quant_primitives.dequantize_affine(q, size, scale, zero, *codes, output_dtype=x.dtype)
        return Answer(x_hat, q, _flat(scale), _flat(zero))

    return run


def _tinygemm(dtype: torch.dtype, block: BlockSize) -> GivenCase:
    def run(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        size, codes = block(x.shape), _bounds(dtype)
        scale, zero = quant_primitives._choose_qparams_affine_tinygemm(
            seen, MappingType.ASYMMETRIC, size, *codes
        )
        q = quant_primitives._quantize_affine_tinygemm(x, size, scale, zero, *codes)
        x_hat = quant_primitives._dequantize_affine_tinygemm(
            q, size, scale, zero, *codes, output_dtype=x.dtype
        )
        return Answer(x_hat, q, _flat(scale), _flat(zero))

    return run


def _integer_cases() -> Iterator[tuple[str, GivenCase]]:
    for granularity, block in _ALL.items():
        for mode in ("symmetric", "asymmetric"):
            for bits in range(1, 9):
                yield f"int{bits},{mode},{granularity},min_max,torchao", _signed(bits, mode, block)
            for fmt in ("int16", *(f"uint{bits}" for bits in range(1, 9))):
                yield (
                    f"{fmt},{mode},{granularity},min_max,torchao",
                    _primitive(getattr(torch, fmt), mode, block),
                )
        for bits in range(2, 9):
            yield (
                f"int{bits},symmetric,{granularity},min_max,torchao(scale.rule=without_clipping)",
                _signed(bits, "without_clipping", block),
            )
    for granularity, choice in _FEW.items():
        for fmt in [f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 9)]:
            dtype = getattr(torch, fmt)
            yield (
                f"{fmt},asymmetric,{granularity},min_max,torchao(zero_in_range=false)",
                _without_zero(dtype, _of(choice)),
            )
            if fmt[0] == "u" and fmt != "uint1":
                yield (
                    f"{fmt},asymmetric,{granularity},min_max,torchao_tinygemm",
                    _tinygemm(dtype, _of(choice)),
                )
        for mode in ("symmetric", "asymmetric"):
            yield (
                f"int8,{mode},{granularity},min_max,torchao_int8",
                _int8_class(mode, choice),
            )
            yield (
                f"int8,{mode},{granularity},min_max,torchao_int8(reduce_range=half)",
                _int8_class(mode, choice, reduced=True),
            )


# ---- floats -------------------------------------------------------------------------------------

_FLOAT8 = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
_MX = {
    **_FLOAT8,
    "float6_e2m3fn": DTYPE_FP6_E2M3,
    "float6_e3m2fn": DTYPE_FP6_E3M2,
    "float4_e2m1fn": torch.float4_e2m1fn_x2,
}
_MX_CONVENTIONS = {
    ScaleCalculationMode.FLOOR: "torchao_mx",
    ScaleCalculationMode.CEIL: "torchao_mx(scale.rule=power_of_two_ceil)",
    ScaleCalculationMode.EVEN: "torchao_mx(scale.rule=power_of_two_even)",
    ScaleCalculationMode.RCEIL: "torchao_mx(scale.rule=power_of_two_fitting,scale.code_floor_rule=one)",
}


def _bits(values: torch.Tensor) -> torch.Tensor:
    return values.view(torch.uint8)


def _float8(dtype: torch.dtype, block: BlockSize) -> GivenCase:
    def run(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        scale = quant_primitives._choose_scale_float8(seen, list(block(x.shape)), dtype)
        q = quant_primitives._quantize_affine_float8(x, scale, dtype)
        x_hat = quant_primitives._dequantize_affine_float8(q, scale, x.dtype)
        return Answer(x_hat, _bits(q), _flat(scale))

    return run


_NO_FLOAT16 = "MXTensor and NVFP4Tensor take no float16"


def _mx(element: torch.dtype | str, size: int, mode: ScaleCalculationMode) -> Case:
    def run(x: torch.Tensor) -> Answer:
        if x.dtype == torch.float16:
            raise Undefined(_NO_FLOAT16)
        t = MXTensor.to_mx(x, element, size, mode)
        codes = unpack_uint4(t.qdata) if element is torch.float4_e2m1fn_x2 else _bits(t.qdata)
        return Answer(t.dequantize(), codes, _flat(get_fp_scale(t.scale)))

    return run


def _nvfp4(two_levels: bool) -> Case:
    def run(x: torch.Tensor) -> Answer:
        if x.dtype == torch.float16:
            raise Undefined(_NO_FLOAT16)
        whole = per_tensor_amax_to_scale(x.abs().max()) if two_levels else None
        if whole is not None and not bool(torch.isfinite(1 / whole)):
            # 0 · infinity: which code NaN becomes is an accident of its bits.
            raise Undefined("the reciprocal of the tensor's scale overflows")
        t = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=whole)
        return Answer(t.dequantize(), unpack_uint4(t.qdata), _flat(t.get_hp_scales()))

    return run


def _float8_cases() -> Iterator[tuple[str, GivenCase]]:
    for (fmt, dtype), (granularity, block) in itertools.product(_FLOAT8.items(), _ALL.items()):
        yield f"{fmt},symmetric,{granularity},min_max,torchao_float8", _float8(dtype, block)


def _mx_cases() -> Iterator[tuple[str, Case]]:
    for (fmt, element), (mode, convention), size in itertools.product(
        _MX.items(), _MX_CONVENTIONS.items(), (32, 16, 64)
    ):
        yield f"{fmt},symmetric,per_group(size={size}),min_max,{convention}", _mx(element, size, mode)


_NVFP4 = "float4_e2m1fn,symmetric,per_group(size=16),min_max,torchao_nvfp4"
_NVFP4_CASES: dict[str, Case] = {_NVFP4: _nvfp4(True), f"{_NVFP4}(scale.global_rule=none)": _nvfp4(False)}


def _all_guarded(cases: Iterable[tuple[str, Callable[..., Answer]]]) -> dict[str, Callable[..., Answer]]:
    return {form: _guarded(case) for form, case in cases}


_OWN_SCALES = {
    "given range": "the scales of its blocks are those of the data",
    "infinity": SPOILS_THE_RANGE,
    "NaN": SPOILS_THE_RANGE,
}

_MX_CASES = _all_guarded(_mx_cases())
_TWO_LEVELS = _all_guarded(_NVFP4_CASES.items())

PATHS = (
    Path.of_given(
        "IntxUnpackedToInt8Tensor, Int8Tensor, quant_primitives", _all_guarded(_integer_cases()), open={}
    ),
    Path.of_given("_quantize_affine_float8", _all_guarded(_float8_cases()), open={}),
    Path("MXTensor", _MX_CASES, half=_MX_CASES, open=_OWN_SCALES),
    Path("NVFP4Tensor", _TWO_LEVELS, half=_TWO_LEVELS, open=_OWN_SCALES),
)
