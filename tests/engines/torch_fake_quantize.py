"""PyTorch's observers with its fake quantization: torch.fake_quantize_per_tensor_affine and
_per_channel_affine.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from tests.engines import Answer, GivenCase, Path
from tests.engines.torch_quantize import AXES, XNNPACK_EPS, qparams

PRODUCER = "torch"


def _fake_quantized(
    seen: torch.Tensor,
    x: torch.Tensor,
    mode: str,
    axis: int | None,
    dtype: torch.dtype,
    codes: tuple[int, int],
    told: bool,
    **options: Any,
) -> Answer:
    """`told`: whether the observer is told the codes, or takes them from the dtype."""
    if told:
        options |= {"quant_min": codes[0], "quant_max": codes[1]}
    scale, zero_point = qparams(seen, mode, axis, dtype, **options)
    # As the module FakeQuantize keeps it; int64, which observers give too, is refused.
    zero_point = zero_point.to(torch.int32)
    if axis is None:
        x_hat = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, *codes)
    else:
        x_hat = torch.fake_quantize_per_channel_affine(x, scale, zero_point, axis, *codes)
    return Answer(x_hat, codes_of(x_hat, scale, zero_point, axis), scale, zero_point)


def codes_of(
    x_hat: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int | None
) -> torch.Tensor | None:
    """Return the codes, which torch does not show: every value is some code's, and no two codes have the same
    one.
    """
    if not bool(torch.isfinite(x_hat).all()):
        return None
    # Half precision does not tell more steps apart.
    most = 127 if x_hat.dtype in (torch.float16, torch.bfloat16) else math.inf
    shape = [-1 if i == axis else 1 for i in range(x_hat.dim())]
    s, z = (part.to(torch.float64).reshape(shape) for part in (scale, zero_point))
    steps = x_hat.to(torch.float64) / s
    return None if bool((steps.abs() > most).any()) else torch.round(steps + z).to(torch.int32)


def _cases(granularity: str) -> dict[str, GivenCase]:
    axis, cases = AXES[granularity], {}
    for mode in ("symmetric", "asymmetric"):
        for bits in (*range(2, 9), 16):
            for fmt, low in ((f"int{bits}", -(2 ** (bits - 1))), (f"uint{bits}", 0)):
                dtype = getattr(torch, fmt if bits == 16 else "qint8" if low else "quint8")
                codes = (low, low + 2**bits - 1)
                case = partial(_fake_quantized, mode=mode, axis=axis, dtype=dtype, codes=codes, told=bits < 8)
                scheme = f"{fmt},{mode},{granularity},min_max,torch_fake_quantize"
                cases[scheme] = case
                if bits == 8:
                    cases[f"{scheme}(scale.floor={XNNPACK_EPS!r})"] = partial(case, eps=XNNPACK_EPS)
                    # Symmetric uint8 keeps the zero point 128, which fewer codes do not have.
                    if fmt == "int8" or mode == "asymmetric":
                        cases[f"{scheme}(reduce_range=half)"] = partial(
                            case, codes=(low // 2, (low + 255) // 2), reduce_range=True
                        )
                if fmt == "int8":
                    cases[f"{scheme}(narrow_range=true)"] = partial(case, codes=(-127, 127), told=True)
    return cases


_OF_CHANNELS = {
    form: case
    for granularity in AXES
    if granularity != "per_tensor"
    for form, case in _cases(granularity).items()
}

PATHS = (
    Path.of_given(
        "fake_quantize_per_tensor_affine",
        _cases("per_tensor"),
        open={},
    ),
    Path.of_given("fake_quantize_per_channel_affine", _OF_CHANNELS, open={}),
)
