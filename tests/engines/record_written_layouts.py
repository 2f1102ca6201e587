"""Records weights as MLX, torchao, HQQ, optimum-quanto, ModelOpt, ComfyUI's comfy-kitchen and transformers'
gpt-oss and BitNet write them, and what each reads back.

    python -m tests.engines.record_written_layouts

Each library is imported for seconds, and MLX and comfy-kitchen (`pip install mlx mlx-cpu comfy-kitchen`) are
no requirements of the tests: hence the record, which says the versions that wrote it.

torchao's Int4Tensor has no reader of its own on a CPU: it is made by the formulas of FBGEMM's
`int4_row_quantize_zp` and `pack_int4`
(https://github.com/pytorch/FBGEMM/blob/main/fbgemm_gpu/experimental/gen_ai/gen_ai/quantize.py).
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
_PACKAGES = (
    "mlx",
    "torchao",
    "hqq",
    "optimum-quanto",
    "nvidia-modelopt",
    "comfy-kitchen",
    "transformers",
    "torch",
)


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
    yield from _exported_by_modelopt()


def _exported_by_modelopt() -> Iterator[Written]:
    """Yield layers that ModelOpt calibrated and exported; what they compute from the unit vectors is read."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export.quant_utils import postprocess_state_dict
    from modelopt.torch.export.unified_export_hf import _export_quantized_weight

    for case, config in (
        ("int4", mtq.INT4_BLOCKWISE_WEIGHT_ONLY_CFG),
        ("int4_awq", mtq.INT4_AWQ_CFG),
        ("int8_smoothquant", mtq.INT8_SMOOTHQUANT_CFG),
    ):
        model = torch.nn.Sequential(torch.nn.Linear(2 * COLUMNS, ROWS, bias=False))
        inputs = torch.randn(64, 2 * COLUMNS) * torch.rand(2 * COLUMNS).mul(3).exp()
        mtq.quantize(model, config, lambda model, inputs=inputs: model(inputs))
        model[0].input_quantizer.disable_quant()
        read = model(torch.eye(2 * COLUMNS)).T.detach().contiguous()
        _export_quantized_weight(model[0], torch.float32)
        state = postprocess_state_dict(model.state_dict(), 1.0, None)
        own = {name.removeprefix("0."): x for name, x in state.items()}
        yield Written(f"modelopt_{case}", own, read, {"quant_method": "modelopt"})


def _comfy() -> Iterator[Written]:
    import comfy_kitchen.tensor as kitchen

    w = torch.randn(144, 48)
    wide = torch.randn(160, 64)
    for kind, layout, x, more, said in (
        ("float8_e4m3fn", "TensorCoreFP8Layout", w, {}, {}),
        ("nvfp4", "TensorCoreNVFP4Layout", w, {}, {}),
        ("mxfp8", "TensorCoreMXFP8Layout", wide, {}, {}),
        ("int8_tensorwise", "TensorWiseINT8Layout", wide, {}, {}),
        ("int8_tensorwise", "TensorWiseINT8Layout", wide, {"per_channel": True}, {}),
        (
            "int8_tensorwise",
            "TensorWiseINT8Layout",
            wide,
            {"per_channel": True, "convrot": True, "convrot_groupsize": 16},
            {"convrot": True, "convrot_groupsize": 16},
        ),
    ):
        writer = getattr(kitchen, layout)
        codes, params = writer.quantize(x, **more)
        state = {f"weight{end}": part for end, part in writer.state_dict_tensors(codes, params).items()}
        mark = torch.tensor(list(json.dumps({"format": kind, **said}).encode()), dtype=torch.uint8)
        read = writer.dequantize(codes, params).contiguous()
        case = "_".join(("comfy", kind, *more))
        yield Written(case, {**state, "comfy_quant": mark}, read, {})
        if kind == "nvfp4":
            header = {"_quantization_metadata": json.dumps({"layers": {"x": {"format": kind}}})}
            yield Written(f"{case}_header", state, read, {}, header)


def _int4_of_torchao() -> Iterator[Written]:
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Int4Tensor

    for factors in (None, torch.rand(COLUMNS) + 0.5):
        groups = torch.randn(ROWS, COLUMNS // 32, 32)
        low, high = groups.amin(-1), groups.amax(-1)
        scale = (high - low).clamp(min=1e-6) / 15
        codes = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15) - 8
        zero = low + scale * 8
        q = codes.reshape(ROWS, COLUMNS).to(torch.int8)
        packed = torch.bitwise_or(torch.bitwise_and(q[:, ::2], 15), torch.bitwise_left_shift(q[:, 1::2], 4))
        made = Int4Tensor(
            packed.contiguous(),
            scale.T.contiguous(),
            zero.T.contiguous(),
            [1, 32],
            torch.Size((ROWS, COLUMNS)),
            act_pre_scale=factors,
        )
        tensors, header = flatten_tensor_state_dict({"x.weight": made})
        own = {name.removeprefix("x."): tensor for name, tensor in tensors.items()}
        read = (codes * scale[..., None] + zero[..., None]).reshape(ROWS, COLUMNS)
        case = "torchao_int4_tensor" if factors is None else "torchao_int4_tensor_act_pre_scale"
        read = read if factors is None else read * factors
        yield Written(case, own, read, {"quant_method": "torchao"}, header)


def _transformers() -> Iterator[Written]:
    from transformers.integrations.bitnet import BitLinear, pack_weights, unpack_weights
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
    layer = BitLinear(COLUMNS, ROWS, bias=False)
    unpacked = unpack_weights(tensors["weight"], torch.float32)
    read = layer.post_quant_process(unpacked, torch.ones(()), tensors["weight_scale"])
    yield Written("bitnet", tensors, read.contiguous(), {"quant_method": "bitnet"})
    for case, dtype in (("fp4", torch.int8), ("fp8", torch.float8_e4m3fn)):
        raw = torch.randn(ROWS, COLUMNS).mul(20).to(dtype)
        size = (1, 32) if case == "fp4" else (16, 32)
        columns = COLUMNS * (2 if case == "fp4" else 1)
        exponents = torch.randint(-9, 3, (ROWS // size[0], columns // size[1])).float().exp2()
        exponents = exponents.to(torch.float8_e8m0fnu)
        read = Fp8Dequantize(None)._dequantize_one(raw, exponents, torch.float32)
        config = {"quant_method": "fp8", "weight_block_size": [16, 32]}
        yield Written(f"deepseek_{case}", {"weight": raw, "scale": exponents}, read.contiguous(), config)


_LIBRARIES = (_mlx, _torchao, _int4_of_torchao, _hqq, _quanto, _modelopt, _comfy, _transformers)


def main() -> None:
    """Ask the libraries and write the record."""
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    tensors: dict[str, torch.Tensor] = {}
    cases: dict[str, Any] = {}
    for library in _LIBRARIES:
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
