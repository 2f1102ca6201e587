"""Records weights as MLX, torchao, HQQ, optimum-quanto, ModelOpt and transformers' gpt-oss and BitNet write
them, and what each reads back.

    python -m tests.engines.record_written_layouts

Each library is imported for seconds, and MLX (`pip install mlx mlx-cpu`) is no requirement of the tests:
hence the record, which says the versions that wrote it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file

RECORD = Path(__file__).parent / "recorded" / "written_layouts.safetensors"
ROWS, COLUMNS = 16, 128
_PACKAGES = ("mlx", "torchao", "hqq", "optimum-quanto", "nvidia-modelopt", "transformers", "torch")


class Written(NamedTuple):
    """A weight of a library."""

    case: str
    tensors: dict[str, torch.Tensor]
    #: What the library reads back.
    expected: torch.Tensor
    #: What the configuration says of quantization, and the header's texts.
    config: dict[str, Any]
    header: Mapping[str, str] = MappingProxyType({})


def _mlx() -> Iterator[Written]:
    import mlx.core as mx

    def as_torch(x: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(x))

    for mode, bits, size in (
        *(("affine", bits, 64) for bits in (2, 3, 4, 5, 6, 8)),
        ("affine", 4, 32),
        *(("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)),
    ):
        w = mx.array(torch.randn(ROWS, COLUMNS).numpy())
        parts = mx.quantize(w, group_size=size, bits=bits, mode=mode)
        read = mx.dequantize(*parts, group_size=size, bits=bits, mode=mode, dtype=mx.float32)
        names = ("weight", "scales", "biases")[: len(parts)]
        tensors = {name: as_torch(part) for name, part in zip(names, parts, strict=True)}
        config = {"group_size": size, "bits": bits, "mode": mode}
        yield Written(f"mlx_{mode}_{bits}_{size}", tensors, as_torch(read), config)


def _torchao() -> Iterator[Written]:
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        PerGroup,
        quantize_,
    )

    def of(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"x.weight": x}

    made = {}
    for case, config in (
        ("float8", Float8WeightOnlyConfig()),
        ("int8", Int8WeightOnlyConfig(version=2)),
        ("int4", IntxWeightOnlyConfig(torch.int4, granularity=PerGroup(32))),
        ("int3", IntxWeightOnlyConfig(torch.int3, granularity=PerGroup(64))),
    ):
        model = torch.nn.ModuleDict({"x": torch.nn.Linear(COLUMNS, ROWS, bias=False)})
        quantize_(model, config)
        made[case] = of(model["x"].weight.data)
    w = torch.randn(ROWS, COLUMNS)
    made["mxfp8"] = of(MXTensor.to_mx(w, torch.float8_e4m3fn, 32))
    made["mxfp4"] = of(MXTensor.to_mx(w, torch.float4_e2m1fn_x2, 32))
    made["nvfp4"] = of(NVFP4Tensor.to_nvfp4(w, per_tensor_scale=w.abs().max() / (448 * 6)))
    for case, state in made.items():
        tensors, header = flatten_tensor_state_dict(state)
        own = {name.removeprefix("x."): tensor for name, tensor in tensors.items()}
        read = state["x.weight"].dequantize().float().contiguous()
        yield Written(f"torchao_{case}", own, read, {"quant_method": "torchao"}, header)


def _hqq() -> Iterator[Written]:
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    for bits, size, axis, columns in (
        *((bits, 64, 1, COLUMNS) for bits in (8, 4, 3, 2, 1)),
        *((4, 64, 1, 96), (4, 16, 0, COLUMNS), (3, 64, 0, COLUMNS)),
    ):
        linear = torch.nn.Linear(columns, ROWS, bias=False)
        config = BaseQuantizeConfig(nbits=bits, group_size=size, axis=axis)
        layer = HQQLinear(linear, config, compute_dtype=torch.float32, device="cpu")
        state = {name: x for name, x in layer.state_dict().items() if isinstance(x, torch.Tensor)}
        read = layer.dequantize().contiguous()
        yield Written(f"hqq_{bits}_{size}_axis{axis}_{columns}", state, read, {"quant_method": "hqq"})


def _quanto() -> Iterator[Written]:
    from optimum.quanto import freeze, qfloat8, qint2, qint4, qint8, quantize

    for case, kind in (("int8", qint8), ("int4", qint4), ("int2", qint2), ("float8", qfloat8)):
        model = torch.nn.ModuleDict({"x": torch.nn.Linear(2 * COLUMNS, ROWS)})
        quantize(model, weights=kind)
        freeze(model)
        state = {name.removeprefix("x."): x for name, x in model.state_dict().items()}
        read = model["x"].weight.dequantize().detach().contiguous()
        yield Written(f"quanto_{case}", state, read, {"quant_method": "quanto"})


def _modelopt() -> Iterator[Written]:
    from modelopt.torch.export.quant_utils import from_quantized_weight, to_quantized_weight
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    w = torch.randn(ROWS, COLUMNS)
    second = w.abs().max() / (448 * 6)
    scale = NVFP4QTensor.get_weights_scaling_factor(w, 16, second)[0]
    codes = to_quantized_weight(w, scale, "nvfp4", second, 16)
    made, _, _ = NVFP4QTensor.quantize(w, 16, scale, second)
    read = made.dequantize(dtype=torch.float32, scale=scale, double_scale=second, block_sizes={-1: 16})
    tensors = {
        "weight": codes,
        "weight_scale": scale,
        "weight_scale_2": second,
        "input_scale": torch.ones(()),
    }
    yield Written("modelopt_nvfp4", tensors, read.contiguous(), {"quant_method": "modelopt"})
    one = w.abs().max() / 448
    codes = to_quantized_weight(w, one, "fp8")
    read = from_quantized_weight(codes, one, "fp8", torch.float32)
    tensors = {"weight": codes, "weight_scale": one, "input_scale": torch.ones(())}
    yield Written("modelopt_fp8", tensors, read, {"quant_method": "modelopt"})
    scales = w.reshape(ROWS, -1, 32).abs().amax(-1) / 7
    codes = to_quantized_weight(w, scales, "int4_awq", None, 32)
    steps = scales.repeat_interleave(32, 1)
    read = (w / steps).round().clamp(-8, 7) * steps
    tensors = {"weight": codes, "weight_scale": scales}
    yield Written("modelopt_int4", tensors, read, {"quant_method": "modelopt"})


def _transformers() -> Iterator[Written]:
    from transformers.integrations.bitnet import pack_weights
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    blocks = torch.randint(0, 256, (2, ROWS, 4, 16), dtype=torch.uint8)
    scales = torch.randint(110, 130, (2, ROWS, 4), dtype=torch.uint8)
    read = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    tensors = {"gate_up_proj_blocks": blocks, "gate_up_proj_scales": scales}
    config = {"quant_method": "mxfp4"}
    yield Written("gpt_oss", tensors, read.transpose(1, 2).contiguous(), config)
    codes = torch.randint(-1, 2, (ROWS, COLUMNS))
    tensors = {"weight": pack_weights(codes.clone()), "weight_scale": torch.tensor([4.0])}
    yield Written("bitnet", tensors, codes.float() / 4, {"quant_method": "bitnet"})
    for case, dtype in (("fp4", torch.int8), ("fp8", torch.float8_e4m3fn)):
        raw = torch.randn(ROWS, COLUMNS).mul(20).to(dtype)
        size = (1, 32) if case == "fp4" else (16, 32)
        columns = COLUMNS * (2 if case == "fp4" else 1)
        exponents = torch.randint(-9, 3, (ROWS // size[0], columns // size[1])).float().exp2()
        exponents = exponents.to(torch.float8_e8m0fnu)
        read = Fp8Dequantize(None)._dequantize_one(raw, exponents, torch.float32)
        config = {"quant_method": "fp8", "weight_block_size": [16, 32]}
        yield Written(f"deepseek_{case}", {"weight": raw, "scale": exponents}, read.contiguous(), config)


def main() -> None:
    """Ask the libraries and write the record."""
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    tensors: dict[str, torch.Tensor] = {}
    cases: dict[str, Any] = {}
    for library in (_mlx, _torchao, _hqq, _quanto, _modelopt, _transformers):
        for case, own, expected, config, header in library():
            named = {**own, "expected": expected}
            tensors |= {f"{case}/{name}": x.detach().clone().contiguous() for name, x in named.items()}
            cases[case] = {"config": config, "header": dict(header)}
    said = {
        "cases": json.dumps(cases),
        "producers": json.dumps({each: version(each) for each in _PACKAGES}),
        "command": "python -m tests.engines.record_written_layouts",
    }
    save_file(tensors, RECORD, metadata=said)


if __name__ == "__main__":
    main()
