"""PyTorch's observers with its real quantized tensors: torch.quantize_per_tensor and
torch.quantize_per_channel.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from torch.ao.quantization import MinMaxObserver, PerChannelMinMaxObserver

from tests.engines import Answer, GivenCase, Path, Refused

PRODUCER = "torch"

#: By granularity: the axis of the channels.
AXES = {"per_tensor": None, "per_channel(axis=0)": 0, "per_channel(axis=1)": 1}
#: The smallest scale of torch's symmetric qconfigs for XNNPACK (`default_symmetric_qnnpack_qconfig`).
XNNPACK_EPS = 2.0**-12


def qparams(
    x: torch.Tensor, mode: str, axis: int | None, dtype: torch.dtype, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points that an observer chooses; without `quant_min` and `quant_max` the range of codes
    is the dtype's.
    """
    kind = "symmetric" if mode == "symmetric" else "affine"
    with warnings.catch_warnings():
        # torch.ao.quantization is deprecated.
        warnings.simplefilter("ignore")
        if axis is None:
            observer = MinMaxObserver(dtype=dtype, qscheme=getattr(torch, f"per_tensor_{kind}"), **options)
        else:
            observer = PerChannelMinMaxObserver(
                ch_axis=axis, dtype=dtype, qscheme=getattr(torch, f"per_channel_{kind}"), **options
            )
        try:
            observer(x)
        except IndexError as refusal:
            # A 1-D tensor has nothing to reduce over, or there is no such axis.
            raise Refused(str(refusal)) from refusal
        scale, zero_point = observer.calculate_qparams()
    return scale, zero_point


def _quantized(
    seen: torch.Tensor, x: torch.Tensor, mode: str, axis: int | None, dtype: torch.dtype, **options: Any
) -> Answer:
    scale, zero_point = qparams(seen, mode, axis, dtype, **options)
    with warnings.catch_warnings():
        # Quantized tensors are deprecated too.
        warnings.simplefilter("ignore")
        q = (
            torch.quantize_per_tensor(x, scale, zero_point, dtype)
            if axis is None
            else torch.quantize_per_channel(x, scale, zero_point, axis, dtype)
        )
        return Answer(q.dequantize(), q.int_repr(), scale, zero_point)


def _cases(*granularities: str) -> dict[str, GivenCase]:
    """Of 8 bits, all of them: where the observer is told fewer codes, that limits only the range, and codes
    may still be any of the 8 bits.
    """
    cases: dict[str, GivenCase] = {}
    for granularity in granularities:
        for mode in ("symmetric", "asymmetric"):
            for fmt, dtype in (("int8", torch.qint8), ("uint8", torch.quint8)):
                case = partial(_quantized, mode=mode, axis=AXES[granularity], dtype=dtype)
                scheme = f"{fmt},{mode},{granularity},min_max,torch"
                cases[scheme] = case
                cases[f"{scheme}(scale.floor={XNNPACK_EPS!r})"] = partial(case, eps=XNNPACK_EPS)
                # Symmetric quint8 is refused: its zero point, 128, is beyond half the codes.
                if fmt == "int8" or mode == "asymmetric":
                    reduced = f"{scheme}(reduce_range=half)"
                    cases[reduced] = partial(case, reduce_range=True)
    return cases


_OPEN = {
    "half and bfloat16 input": "the functions take float32 only",
}

PATHS = (
    Path.of_given("quantize_per_tensor", _cases("per_tensor"), open=_OPEN),
    Path.of_given("quantize_per_channel", _cases("per_channel(axis=0)", "per_channel(axis=1)"), open=_OPEN),
)
