"""compressed-tensors: min/max observers' parameters, `quantize` and `dequantize` (vLLM's and llm-compressor's
format).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch

from tests.engines import Answer, GivenCase, Path, Refused, Undefined

with warnings.catch_warnings():
    # The package's own warnings, and those of what it imports.
    warnings.simplefilter("ignore")
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize
    from compressed_tensors.quantization.utils import (
        calculate_qparams,
        compute_dynamic_scales_and_zp,
        generate_gparam,
        maybe_pad_tensor_for_block_quant,
    )

PRODUCER = "compressed-tensors"

#: Magnitudes of e2m1, which torch has no dtype for, in the order of their codes.
_E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _qparams(
    x: torch.Tensor, args: QuantizationArgs, global_scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if args.strategy == "channel":
        if x.ndim != 2:
            raise Refused("channels are the rows of a matrix")
        return calculate_qparams(x.amin(1, keepdim=True), x.amax(1, keepdim=True), args)
    if args.strategy == "tensor":
        # As llm-compressor's observers have it, with an axis. Without one, as activations are quantized, a
        # zero point of half precision is float32.
        return calculate_qparams(x.amin().reshape(1), x.amax().reshape(1), args)
    if args.strategy == "block":
        if x.ndim != 2:
            raise Refused("blocks are of a matrix")
        rows, cols = args.block_structure
        padded = maybe_pad_tensor_for_block_quant(x, (rows, cols))
        tiles = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // cols, cols)
        return calculate_qparams(tiles.amin((1, 3)), tiles.amax((1, 3)), args)
    try:
        return compute_dynamic_scales_and_zp(x, args, torch.nn.Module(), global_scale)
    except RuntimeError as error:
        raise Refused(str(error)) from error


def _codes(q: torch.Tensor, args: QuantizationArgs) -> torch.Tensor:
    if args.type == "int":
        return q.to(torch.int32)
    if args.num_bits == 8:
        return q.view(torch.uint8).to(torch.int32)
    index = torch.searchsorted(_E2M1, q.abs().contiguous())
    assert torch.equal(_E2M1[index.clamp(max=7)], q.abs()), "not a value of the format"
    return (index + torch.signbit(q) * 8).to(torch.int32)


def _run(seen: torch.Tensor, x: torch.Tensor, **options: Any) -> Answer:
    args = QuantizationArgs(**options)
    powers = options.get("scale_dtype") is torch.uint8
    if powers and bool((seen.abs() >= 2.0**127).any()):
        raise Undefined("a power of two beyond float32 has the exponent 255, and an infinite scale")
    global_scale = generate_gparam(seen.amin(), seen.amax()) if args.strategy == "tensor_group" else None
    scale, zero_point = _qparams(seen, args, global_scale)
    stored = args.pytorch_dtype() if args.type == "int" or args.num_bits == 8 else None
    try:
        q = quantize(x, scale, zero_point, args, dtype=stored, global_scale=global_scale)
        x_hat = dequantize(q, scale, zero_point, args, dtype=x.dtype, global_scale=global_scale)
    except (ValueError, RuntimeError) as error:
        raise Refused(str(error)) from error
    if x_hat.shape != x.shape:
        # Groups of a vector broadcast against all of its groups: no answer of the tensor's shape comes out.
        raise Refused("the result has another shape")
    effective = scale if global_scale is None else scale / global_scale
    return Answer(x_hat, _codes(q, args), effective.flatten(), zero_point.to(torch.float32).flatten())


_E4M3 = {"type": "float", "num_bits": 8}
_FP4 = {"type": "float", "num_bits": 4}
_LAYOUTS: dict[str, dict[str, Any]] = {
    "per_tensor": {"strategy": "tensor"},
    "per_channel(axis=0)": {"strategy": "channel"},
    **{f"per_group(size={size})": {"strategy": "group", "group_size": size} for size in (16, 32, 64, 128)},
    **{
        f"per_block(rows={r},cols={c})": {"strategy": "block", "block_structure": [r, c]}
        for r, c in ((2, 3), (4, 16), (16, 16), (128, 128))
    },
}
_MX = {**_LAYOUTS["per_group(size=32)"], "scale_dtype": torch.uint8, "zp_dtype": torch.uint8}
_NVFP4 = {
    "strategy": "tensor_group",
    "group_size": 16,
    "scale_dtype": torch.float8_e4m3fn,
    "zp_dtype": torch.float8_e4m3fn,
}

_INTEGERS: dict[str, GivenCase] = {
    f"int{bits},{mode},{granularity},min_max,compressed_tensors": partial(
        _run, type="int", num_bits=bits, symmetric=mode == "symmetric", **layout
    )
    for bits in range(2, 9)
    for mode in ("symmetric", "asymmetric")
    for granularity, layout in _LAYOUTS.items()
}
_FLOATS: dict[str, GivenCase] = {
    **{
        f"float8_e4m3fn,symmetric,{granularity},min_max,compressed_tensors": partial(
            _run, symmetric=True, **_E4M3, **layout
        )
        for granularity, layout in _LAYOUTS.items()
    },
    "float8_e4m3fn,symmetric,per_group(size=32),min_max,compressed_tensors_mx": partial(_run, **_E4M3, **_MX),
}
_FP4_CASES: dict[str, GivenCase] = {
    "float4_e2m1fn,symmetric,per_group(size=32),min_max,compressed_tensors_mx": partial(_run, **_FP4, **_MX),
    "float4_e2m1fn,symmetric,per_group(size=16),min_max,compressed_tensors_nvfp4": partial(
        _run, **_FP4, **_NVFP4
    ),
}
PATHS = (
    Path.of_given("quantize, integers", _INTEGERS, open={}),
    Path.of_given("quantize, float8", _FLOATS, open={}),
    Path.of_given(
        "quantize, float4", _FP4_CASES, open={"NaN": "NaN stays NaN, which no code of the format is"}
    ),
)
