"""coremltools: the weights that `linear_quantize_weights` makes, and what `constexpr_blockwise_shift_scale`
makes of them.

They are asked without a model around them. A model of float16, which is what the converter makes unless it is
told otherwise, has its weights in float16 before; all is then computed in that.
"""

from __future__ import annotations

import logging
import re
import warnings

import numpy as np
import torch

from tests.engines import NOT_YET, Answer, Case, Path, Refused, Undefined

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # It says that it has not been tested with this torch, and which parts run on a Mac only.
    logging.disable(logging.WARNING)
    from coremltools.converters.mil.mil import types
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
                raise Undefined("0 / 0, of a block whose scale is 0, or infinity is cast to an integer")
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
    "half and bfloat16 input": NOT_YET,
}

PATHS = (Path("blockwise_compress_by_dtype", _CASES, open=_OPEN),)
