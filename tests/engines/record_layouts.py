"""Records weights as compressed-tensors, bitsandbytes, AutoGPTQ and AutoAWQ lay them out, and what these read
back from that.

    python -m tests.engines.record_layouts AUTOGPTQ AUTOAWQ

compressed-tensors and bitsandbytes are imported, which takes seconds, hence the record. AUTOGPTQ and AUTOAWQ
are clones of AutoGPTQ (9f7d370) and AutoAWQ (88e4c76); some files of each are run on the CPU: `QuantLinear`
packs and multiplies by the identity, `dequantize_gemm` reads what `tests.helpers.layouts` packed, and
`WQLinear_GEMV` packs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file

from tests.helpers import layouts

RECORD = Path(__file__).parent / "recorded" / "layouts.safetensors"
ROWS, COLUMNS = 32, 64
#: What compressed-tensors is asked for: the weights' arguments, the compressor, and the dtype of all.
CASES: dict[str, tuple[dict[str, Any], str, torch.dtype]] = {
    "int4_group": ({"num_bits": 4, "strategy": "group", "group_size": 32}, "pack", torch.bfloat16),
    "int4_asymmetric": (
        {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False},
        "pack",
        torch.float32,
    ),
    "int3_group": ({"num_bits": 3, "strategy": "group", "group_size": 32}, "pack", torch.float32),
    "int8_channel": ({"num_bits": 8, "strategy": "channel"}, "pack", torch.bfloat16),
    "int8_plain": ({"num_bits": 8, "strategy": "channel", "symmetric": False}, "naive", torch.float32),
    "fp8_channel": ({"num_bits": 8, "type": "float", "strategy": "channel"}, "naive", torch.bfloat16),
    "fp8_tensor": ({"num_bits": 8, "type": "float", "strategy": "tensor"}, "naive", torch.float32),
    "fp8_block": (
        {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [16, 16]},
        "naive",
        torch.float32,
    ),
    "nvfp4": (
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
        "nvfp4",
        torch.float32,
    ),
    "mxfp4": (
        {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
        "mxfp4",
        torch.float32,
    ),
}
#: Of these the library has weights of experts in one tensor.
EXPERTS: dict[str, tuple[dict[str, Any], str, torch.dtype]] = {
    f"experts_{case}": CASES[case]
    for case in ("int4_group", "int4_asymmetric", "int8_channel", "int8_plain", "fp8_channel")
}
_COMPRESSORS = {
    "pack": "pack-quantized",
    "naive": "naive-quantized",
    "nvfp4": "nvfp4-pack-quantized",
    "mxfp4": "mxfp4-pack-quantized",
}


def main() -> None:
    """Ask the libraries and write the record."""
    torch.manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    configs: dict[str, dict[str, Any]] = {}
    for case, (fields, kind, dtype) in CASES.items():
        tensors |= {f"{case}/{name}": value for name, value in _compressed(fields, kind, dtype).items()}
        weights = {"config_groups": {"group_0": {"weights": fields}}}
        configs[case] = {"quant_method": "compressed-tensors", **weights}
    for kind, nested in (("nf4", False), ("nf4", True), ("fp4", True), ("int8", False)):
        case = f"bnb_{kind}_nested" if nested else f"bnb_{kind}"
        tensors |= {f"{case}/{name}": value for name, value in _bitsandbytes(kind, nested).items()}
        configs[case] = {"quant_method": "bitsandbytes"}
    auto_gptq = _module(Path(sys.argv[1]) / "auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py")
    for bits in (2, 3, 4, 8):
        tensors |= {f"gptq_{bits}/{name}": value for name, value in _gptq(auto_gptq, bits).items()}
        configs[f"gptq_{bits}"] = {"quant_method": "gptq", "bits": bits}
    auto_awq = _module(Path(sys.argv[2]) / "awq/utils/packing_utils.py")
    tensors |= {f"awq/{name}": value for name, value in _awq(auto_awq).items()}
    configs["awq"] = {"quant_method": "awq", "version": "gemm"}
    # Found by its name, so that the package around it, which needs much more, is not imported.
    sys.modules["awq.utils.module"] = _module(Path(sys.argv[2]) / "awq/utils/module.py")
    gemv = _module(Path(sys.argv[2]) / "awq/modules/linear/gemv.py")
    for group in (32, 64):
        tensors |= {f"awq_gemv_{group}/{name}": value for name, value in _awq_gemv(gemv, group).items()}
        configs[f"awq_gemv_{group}"] = {"quant_method": "awq", "version": "gemv", "group_size": group}
    for case, (fields, kind, dtype) in EXPERTS.items():
        made = _compressed(fields, kind, dtype, (2, ROWS, COLUMNS))
        tensors |= {f"{case}/{name}": value for name, value in made.items()}
        weights = {"config_groups": {"group_0": {"weights": fields}}}
        configs[case] = {"quant_method": "compressed-tensors", **weights}
    save_file(tensors, RECORD, metadata={"configs": json.dumps(configs)})


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compressed(
    fields: dict[str, Any], kind: str, dtype: torch.dtype, shape: tuple[int, ...] = (ROWS, COLUMNS)
) -> dict[str, torch.Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**fields))
    grid = {
        "tensor": (1,),
        "channel": (ROWS, 1),
        "group": (ROWS, COLUMNS // 32),
        "tensor_group": (ROWS, COLUMNS // 16),
        "block": (ROWS // 16, COLUMNS // 16),
    }[fields["strategy"]]
    grid = (*shape[:-2], *grid)
    scale = torch.rand(grid) * 0.1 + 0.01
    state = {"weight": torch.randn(shape).to(dtype), "weight_scale": scale.to(dtype)}
    if kind == "nvfp4":
        state["weight_scale"] = (scale * 64).to(torch.float8_e4m3fn).to(dtype)
        state["weight_global_scale"] = torch.tensor([67.0])
    if kind == "mxfp4":
        state["weight_scale"] = torch.exp2(torch.randint(-6, 0, grid).float()).to(dtype)
    if fields.get("symmetric") is False:
        state["weight_zero_point"] = torch.randint(-4, 4, grid, dtype=torch.int8)
    compressor = BaseCompressor.get_value_from_registry(_COMPRESSORS[kind])
    made = compressor.compress(state, scheme)
    return {**made, "expected": compressor.decompress(dict(made), scheme)["weight"].contiguous()}


def _bitsandbytes(kind: str, nested: bool) -> dict[str, torch.Tensor]:
    import bitsandbytes.functional as bnb

    if kind == "int8":
        codes, largest, _ = bnb.int8_vectorwise_quant(torch.randn(ROWS, COLUMNS).half())
        read = bnb.int8_vectorwise_dequant(codes, largest)
        return {
            "weight": codes,
            "SCB": largest,
            "weight_format": torch.tensor(0, dtype=torch.uint8),
            "expected": read,
        }
    # Blocks begin within rows, and the last one is short.
    x = torch.randn(ROWS, 50)
    packed, state = bnb.quantize_4bit(x, blocksize=64, quant_type=kind, compress_statistics=nested)
    parts = {f"weight.{name}": value for name, value in state.as_dict(packed=True).items()}
    return {"weight": packed, **parts, "expected": bnb.dequantize_4bit(packed, state)}


def _gptq(module: Any, bits: int) -> dict[str, torch.Tensor]:
    q, zero, scale = layouts.rounded(torch.randn(ROWS, COLUMNS), bits, 32)
    zero = zero.clamp(min=1)  # of a zero point 0 the library packs -1 over its neighbours
    linear = torch.nn.Linear(COLUMNS, ROWS, bias=False)
    wide = torch.arange(COLUMNS) // 32
    linear.weight.data = (scale[:, wide] * (q - zero[:, wide])).half()
    layer = module.QuantLinear(bits, 32, COLUMNS, ROWS, False)
    layer.pack(linear, scale.clone(), zero.float().clone(), None)
    made = {name: getattr(layer, name) for name in ("qweight", "qzeros", "scales", "g_idx")}
    return {**made, "expected": layer(torch.eye(COLUMNS).half()).T.contiguous()}


def _awq(module: Any) -> dict[str, torch.Tensor]:
    q, zero, scale = layouts.rounded(torch.randn(ROWS, COLUMNS), 4, 32)
    made = {name[2:]: value for name, value in layouts.awq("x", q, zero, scale).items()}
    read = module.dequantize_gemm(made["qweight"], made["qzeros"], made["scales"], 4, 32)
    return {**made, "expected": read.T.contiguous()}


def _awq_gemv(module: Any, group: int) -> dict[str, torch.Tensor]:
    """AutoAWQ only multiplies by them on a GPU: what it packed is recorded, and the weight that it was given,
    which the codes hold exactly.
    """
    q, zero, scale = layouts.rounded(torch.randn(ROWS, COLUMNS), 4, group)
    wide = torch.arange(COLUMNS) // group
    linear = torch.nn.Linear(COLUMNS, ROWS, bias=False)
    linear.weight.data = scale[:, wide] * (q - zero[:, wide])
    layer = module.WQLinear_GEMV.from_linear(linear, 4, group, scales=scale.half(), zeros=zero)
    made = {name: getattr(layer, name) for name in ("qweight", "qzeros", "scales")}
    return {**made, "expected": linear.weight.data.clone()}


if __name__ == "__main__":
    main()
