"""PyTorch's default of quantization-aware training: the operator of FusedMovingAvgObsFakeQuantize, which
computes its scale in C++.
"""

from __future__ import annotations

from functools import partial

import torch

from tests.engines import Answer, GivenCase, Path, Refused
from tests.engines.torch_fake_quantize import codes_of

PRODUCER = "torch"


def _fused(
    seen: torch.Tensor, x: torch.Tensor, symmetric: bool, axis: int | None, codes: tuple[int, int]
) -> Answer:
    if axis is not None and x.dim() < 2:
        raise Refused("a tensor of one axis has nothing to reduce over")
    # Its observer takes float32 alone: of half precision, in ranges of float32 as here, only x may be.
    seen = seen.float()
    rows = seen.reshape(1, -1) if axis is None else seen.flatten(1)
    scale, zero_point = torch.ones(len(rows)), torch.zeros(len(rows), dtype=torch.int32)
    on, off = torch.tensor([1]), torch.tensor([0])
    # The observer is off: the range is that of `seen`, which a first batch would be taken as it is.
    x_hat = torch.fused_moving_avg_obs_fake_quant(
        x,
        off,
        on,
        rows.amin(1),
        rows.amax(1),
        scale,
        zero_point,
        0.01,
        *codes,
        0,
        axis is not None,
        symmetric,
    )
    return Answer(x_hat, codes_of(x_hat, scale, zero_point, axis), scale, zero_point)


def _cases(granularity: str, axis: int | None) -> dict[str, GivenCase]:
    cases: dict[str, GivenCase] = {}
    for mode in ("symmetric", "asymmetric"):
        for bits in (*range(2, 9), 16):
            for fmt, low in ((f"int{bits}", -(2 ** (bits - 1))), (f"uint{bits}", 0)):
                case = partial(_fused, symmetric=mode == "symmetric", axis=axis)
                scheme = f"{fmt},{mode},{granularity},min_max,torch_qat"
                cases[scheme] = partial(case, codes=(low, low + 2**bits - 1))
                if fmt == "int8":
                    # As XNNPACK's configuration has it.
                    cases[f"{scheme}(narrow_range=true)"] = partial(case, codes=(-127, 127))
    return cases


PATHS = (
    Path.of_given("fused_moving_avg_obs_fake_quant", _cases("per_tensor", None), open={}),
    # Of channels it takes axis 0 alone.
    Path.of_given("fused_moving_avg_obs_fake_quant, per row", _cases("per_channel(axis=0)", 0), open={}),
)
