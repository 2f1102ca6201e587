"""coremltools: the weights that `linear_quantize_weights` makes, and what `constexpr_blockwise_shift_scale`
makes of them; activations in ranges from outside, for `linear_quantize_activations`.

They are asked without a model around them. A model of float16, which is what the converter makes unless it is
told otherwise, has its weights in float16 before; all is then computed in that.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings

import numpy as np
import torch

from tests.engines import Answer, Case, GivenCase, Path, Refused, Undefined

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # It says that it has not been tested with this torch, and which parts run on a Mac only.
    logging.disable(logging.WARNING)
    from coremltools.converters.mil.mil import types
    from coremltools.optimize import _utils as optimize_utils
    from coremltools.optimize.coreml import OpLinearQuantizerConfig
    from coremltools.optimize.coreml._quantization_passes import linear_quantize_weights

    logging.disable(logging.NOTSET)

PRODUCER = "coremltools"

_FORMATS = ("int4", "int8", "uint4", "uint8")
_MODES = {"symmetric": "LINEAR_SYMMETRIC", "asymmetric": "LINEAR"}
_GRANULARITIES = (
    "per_tensor",
    "per_channel(axis=0)",
    "per_channel(axis=-1)",
    "per_group(size=16)",
    "per_group(size=32)",
    "per_group(size=128)",
    "per_block(rows=2,cols=4)",
)


_NO_SCALE = "0 / 0, of a block whose scale is 0, or infinity is cast to an integer"
_NO_BFLOAT16 = "its arrays are NumPy's, which has no bfloat16"


def _block_sizes(granularity: str, shape: tuple[int, ...]) -> list[int]:
    """The size of a block along each axis; 0 for the whole of it."""
    head, numbers = granularity.partition("(")[0], [int(n) for n in re.findall(r"-?\d+", granularity)]
    if head == "per_tensor":
        return [0] * len(shape)
    if head == "per_channel":
        return [1 if axis == numbers[0] % len(shape) else 0 for axis in range(len(shape))]
    if len(shape) < len(numbers):
        raise Refused("more axes of a block than of the tensor")
    return [*[1] * (len(shape) - len(numbers)), *numbers]


def _case(fmt: str, mode: str, granularity: str) -> Case:
    # The mode and format are those that its configuration takes.
    config = OpLinearQuantizerConfig(mode=_MODES[mode].lower(), dtype=fmt, granularity="per_tensor")

    def run(x: torch.Tensor) -> Answer:
        if x.dtype == torch.bfloat16:
            raise Undefined(_NO_BFLOAT16)
        sizes = _block_sizes(granularity, tuple(x.shape))
        if any(size and length % size for size, length in zip(sizes, x.shape, strict=True)):
            raise Refused("blocks must divide each axis")
        # What overflows is told apart below.
        with np.errstate(all="ignore"):
            found = linear_quantize_weights.blockwise_compress_by_dtype(
                x.numpy(), config.dtype, config.mode, sizes
            )
            assert found is not None
            if not np.all(np.isfinite(found.scale) & (found.scale != 0)):
                raise Undefined(_NO_SCALE)
            if mode == "asymmetric" and _overflows(x, types.type_mapping.builtin_to_range(config.dtype)):
                raise Undefined("infinity less infinity, of ends times codes, is cast to an integer")
            back = linear_quantize_weights.decompress(found)
        offset = None if found.offset is None else np.asarray(found.offset, np.int64)
        return Answer(
            torch.from_numpy(back),
            torch.from_numpy(found.data.astype(np.int64)),
            torch.from_numpy(np.asarray(found.scale)).flatten(),
            None if offset is None else torch.from_numpy(offset).flatten(),
        )

    return run


def _overflows(x: torch.Tensor, codes: types.type_mapping.RangeTuple) -> bool:
    """Whether an end of the range times a code is beyond the numbers there are."""
    most = torch.finfo(x.dtype).max
    return bool(x.abs().max().double() * max(abs(codes.low), abs(codes.high)) > most)


def _activations(seen: torch.Tensor, x: torch.Tensor, fmt: str, mode: str) -> Answer:
    """Scale and zero point as `insert_prefix_quantize_dequantize_pair` makes them of the smallest and the
    largest value, and what its operators compute.
    """
    if x.dtype == torch.bfloat16:
        raise Undefined(_NO_BFLOAT16)
    dtype = types.string_to_builtin(fmt)
    # The statistics of a model with float16 inputs are float16 too.
    ends = np.array([seen.min().item(), seen.max().item()], x.numpy().dtype)
    with np.errstate(all="ignore"):
        _, scale, zero_point = optimize_utils.quantize_weight_by_dtype(ends, 0, dtype, _MODES[mode])
        if scale == 0 and zero_point is None:
            scale = np.ones_like(scale)
        if scale == 0 or not np.isfinite([scale, 0 if zero_point is None else zero_point]).all():
            raise Undefined(_NO_SCALE)
        zero = None if zero_point is None else zero_point.astype(types.nptype_from_builtin(dtype))
        codes = optimize_utils.quantize_by_scale_and_zp(x.numpy(), scale, zero, dtype)
        back = optimize_utils.dequantize_by_scale_and_zp(codes, scale, zero)
    return Answer(
        torch.from_numpy(np.asarray(back)),
        torch.from_numpy(codes.astype(np.int64)),
        torch.from_numpy(np.asarray(scale)).flatten(),
        None if zero is None else torch.from_numpy(np.asarray(zero, np.int64)).flatten(),
    )


_OF_ACTIVATIONS: dict[str, GivenCase] = {
    f"{fmt},{mode},per_tensor,min_max,coreml({changes})": functools.partial(_activations, fmt=fmt, mode=mode)
    for fmt, mode, changes in (
        # A scale of 0 becomes 1 where there is no zero point.
        ("int8", "symmetric", "narrow_clamp=false,scale.floor=1.0,scale.floor_rule=replace_zero"),
        ("uint8", "symmetric", "narrow_clamp=false"),
        ("int8", "asymmetric", "narrow_clamp=false"),
        ("uint8", "asymmetric", "narrow_clamp=false"),
    )
}

_CASES: dict[str, Case] = {
    f"{fmt},{mode},{granularity},min_max,coreml": _case(fmt, mode, granularity)
    for fmt in _FORMATS
    for mode in _MODES
    for granularity in _GRANULARITIES
}

_OPEN = {
    "given range": "weights are quantized in their own range",
    "infinity": "it leaves a weight with ±Inf as it is",
    "NaN": "NaN is cast to an integer",
}

PATHS = (
    Path("blockwise_compress_by_dtype", _CASES, half=_CASES, open=_OPEN),
    Path.of_given("quantize, of activations", _OF_ACTIVATIONS, open={"NaN": _OPEN["NaN"]}),
)
