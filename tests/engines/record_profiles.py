"""Records which tensors of small models engines' own tools quantize, in how many bytes, and how large
their files are.

    python -m tests.engines.record_profiles ENGINE...

Each engine's answer replaces its own in the record. The tools are no requirements of the tests, and some need
environments of their own: the record says which versions wrote it, and by which call.

The models are `transformers`' Llama and Bert as configured here, with random weights: bfloat16 and float32.
Constants of the profiles' files were found on the first two; the third holds them to a model of other sizes.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

RECORD = Path(__file__).with_name("recorded") / "profiles.json"
#: Sizes of the models: rows of the feed-forward part divide into 128 and not into 256.
_VOCABULARY, _LAYERS = 2048, 2
_LLAMA = MappingProxyType(
    {
        "vocab_size": _VOCABULARY,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
    }
)
_BERT = MappingProxyType(
    {
        "vocab_size": _VOCABULARY,
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": 12,
    }
)
#: A deeper Llama of other widths, by which no constant was found.
_DEEP = MappingProxyType(
    {
        **_LLAMA,
        "vocab_size": 999,
        "hidden_size": 256,
        "intermediate_size": 640,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
    }
)


class Stored(NamedTuple):
    """A tensor of a file that a tool wrote."""

    name: str
    dtype: str
    size: int


class Written(NamedTuple):
    """What a tool made of a model."""

    #: The recipe by our id.
    recipe: str
    #: The call that made it, short.
    command: str
    tensors: list[Stored]
    #: Bytes of the files of weights.
    size: int


def _model(name: str) -> Any:
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    if name == "bert":
        model = BertModel(BertConfig(**_BERT)).float().eval()
    else:
        config = LlamaConfig(**(_DEEP if name == "deep" else _LLAMA))
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.config.architectures = [type(model).__name__]
    return model


def _saved(name: str, folder: Path) -> Path:
    """Return the folder of a model as a tool loads it."""
    source = folder / "source"
    if not source.exists():
        _model(name).save_pretrained(source)
    return source


def _read(folder: Path) -> tuple[list[Stored], int]:
    """Return the tensors and the size of the .safetensors files in a folder."""
    tensors, size = [], 0
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
        header.pop("__metadata__", None)
        tensors += [
            Stored(name, each["dtype"], each["data_offsets"][1] - each["data_offsets"][0])
            for name, each in header.items()
        ]
        size += len(raw)
    return tensors, size


# ---- tools ------------------------------------------------------------------------------------------


def _vllm(name: str, folder: Path) -> Iterator[Written]:
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier

    def groups(**weights: Any) -> dict[str, Any]:
        kept = {"num_bits": 8, "symmetric": True, "dynamic": False}
        return {"config_groups": {"all": {"targets": ["Linear"], "weights": kept | weights}}}

    for recipe, how in (
        ("w4a16_g128", {"scheme": "W4A16"}),
        ("w4a16_asym_g128", {"scheme": "W4A16_ASYM"}),
        ("w8a16_g128", {"scheme": "W8A16"}),
        ("w8a8_per_row", {"scheme": "W8A8"}),
        ("ct_fp8_per_tensor", groups(type="float", strategy="tensor")),
        ("ct_fp8_per_row", {"scheme": "FP8_DYNAMIC"}),
        ("ct_fp8_block", {"scheme": "FP8_BLOCK"}),
        ("ct_nvfp4", {"scheme": "NVFP4A16"}),
        ("ct_mxfp4", {"scheme": "MXFP4A16"}),
        ("ct_mxfp8", {"scheme": "MXFP8A16"}),
    ):
        model = type(_model(name)).from_pretrained(_saved(name, folder), dtype="auto")
        own = how if "scheme" not in how else {"targets": "Linear", **how}
        oneshot(model=model, recipe=QuantizationModifier(ignore=["lm_head"], **own))
        model.save_pretrained(folder / recipe, save_compressed=True)
        said = how.get("scheme", "FP8 of weights per tensor")
        yield Written(recipe, f"oneshot, {said}, ignore lm_head", *_read(folder / recipe))


def _modelopt(name: str, folder: Path) -> Iterator[Written]:
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    inputs = torch.arange(64).reshape(2, 32)
    for recipe, config in (
        ("modelopt_int8_per_row", "INT8_WEIGHT_ONLY_CFG"),
        ("modelopt_int4_g128", "INT4_BLOCKWISE_WEIGHT_ONLY_CFG"),
        ("modelopt_fp8_per_tensor", "FP8_DEFAULT_CFG"),
        ("modelopt_nvfp4", "W4A16_NVFP4_CFG"),
        ("modelopt_mxfp8", "MXFP8_DEFAULT_CFG"),
        ("modelopt_mxfp4", "MXFP4_DEFAULT_CFG"),
    ):
        model = _model(name)
        mtq.quantize(model, getattr(mtq, config), lambda model: model(inputs))
        export_hf_checkpoint(model, export_dir=folder / recipe)
        yield Written(recipe, f"mtq.quantize, {config}, export_hf_checkpoint", *_read(folder / recipe))


def _torchao(name: str, folder: Path) -> Iterator[Written]:
    from safetensors.torch import save_file
    from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig, NVFP4WeightOnlyConfig
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

    fp4 = dict.fromkeys(("activation_dtype", "weight_dtype"), torch.float4_e2m1fn_x2)
    for recipe, config in (
        ("torchao_int8_per_row", Int8WeightOnlyConfig(version=2)),
        ("torchao_fp8_per_row", Float8WeightOnlyConfig()),
        ("torchao_mxfp8", MXDynamicActivationMXWeightConfig()),
        ("torchao_mxfp4", MXDynamicActivationMXWeightConfig(**fp4)),
        ("nvfp4", NVFP4WeightOnlyConfig()),
    ):
        if "mx" in recipe and name == "bert":
            continue  # it takes bfloat16 alone
        if recipe == "nvfp4" and name == "deep":
            continue  # it takes no head of 999 rows, which 16 does not divide
        model = _model(name)
        quantize_(model, config)
        tensors, header = flatten_tensor_state_dict(model.state_dict())
        (folder / recipe).mkdir()
        save_file(tensors, folder / recipe / "model.safetensors", metadata=header)
        yield Written(recipe, f"quantize_, {type(config).__name__}, save_file", *_read(folder / recipe))


def _bitsandbytes(name: str, folder: Path) -> Iterator[Written]:
    from transformers import BertModel, BitsAndBytesConfig, LlamaForCausalLM

    source, kind = _saved(name, folder), BertModel if name == "bert" else LlamaForCausalLM
    for recipe, how in (
        ("bnb_int8", {"load_in_8bit": True}),
        ("nf4_64", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
        ("fp4_64", {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}),
    ):
        config = BitsAndBytesConfig(**how)
        model = kind.from_pretrained(source, quantization_config=config, dtype="auto")
        model.save_pretrained(folder / recipe)
        said = ", ".join(f"{key}={value}" for key, value in how.items())
        yield Written(recipe, f"from_pretrained, BitsAndBytesConfig({said})", *_read(folder / recipe))


def _mlx(name: str, folder: Path) -> Iterator[Written]:
    from mlx_lm.utils import load_model, quantize_model, save_model

    if name == "bert":
        return  # mlx-lm has no such models
    source = _saved(name, folder)
    for recipe, size, bits, mode in (
        *((f"mlx_q{bits}_g64", 64, bits, "affine") for bits in (4, 8, 6, 3)),
        ("mlx_mxfp4", 32, 4, "mxfp4"),
        ("mlx_nvfp4", 16, 4, "nvfp4"),
    ):
        model, config = load_model(source)
        model, _ = quantize_model(model, config, size, bits, mode)
        save_model(folder / recipe, model)
        yield Written(recipe, f"mlx_lm convert: {mode}, {bits} bits, {size}", *_read(folder / recipe))


def _onnx(shapes: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Write a model as an exporter does: embeddings are gathered, matrices multiply from the right."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    drawn, nodes, constants, ends = np.random.default_rng(0), [], [], []
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 4])]
    for name, shape in shapes.items():
        values = drawn.standard_normal(shape, np.float32)
        is_table = "embed" in name and len(shape) > 1
        is_matrix = len(shape) > 1 and not is_table
        constants.append(numpy_helper.from_array(values.T.copy() if is_matrix else values, name))
        if is_table:
            nodes.append(helper.make_node("Gather", [name, "ids"], [f"{name}_out"]))
        elif is_matrix:
            inputs.append(helper.make_tensor_value_info(f"{name}_in", TensorProto.FLOAT, [4, shape[1]]))
            nodes.append(helper.make_node("MatMul", [f"{name}_in", name], [f"{name}_out"], f"/{name}"))
        else:
            nodes.append(helper.make_node("Identity", [name], [f"{name}_out"]))
        ends.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "g", inputs, ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def _shapes(name: str) -> dict[str, tuple[int, ...]]:
    return {key: tuple(x.shape) for key, x in _model(name).state_dict().items()}


def _read_onnx(path: Path) -> tuple[list[Stored], int]:
    import onnx

    tensors = []
    for each in onnx.load(path).graph.initializer:
        kind = onnx.TensorProto.DataType.Name(each.data_type)
        tensors.append(Stored(each.name, kind, onnx.numpy_helper.to_array(each).nbytes))
    return tensors, path.stat().st_size


def _onnxruntime(name: str, folder: Path) -> Iterator[Written]:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    source = folder / "source.onnx"
    _onnx(_shapes(name), source)
    for recipe, per_channel in (("ort_int8_per_tensor", False), ("ort_int8_per_row", True)):
        path = folder / f"{recipe}.onnx"
        quantize_dynamic(source, path, per_channel=per_channel, weight_type=QuantType.QInt8)
        said = f"quantize_dynamic(per_channel={per_channel}, weight_type=QInt8)"
        yield Written(recipe, said, *_read_onnx(path))
    for recipe, size, symmetric in (
        ("ort_int4_g128", 128, True),
        ("ort_int4_asym_g128", 128, False),
        ("ort_int4_g32", 32, True),
    ):
        import onnx

        path = folder / f"{recipe}.onnx"
        made = MatMulNBitsQuantizer(onnx.load(source), block_size=size, is_symmetric=symmetric)
        made.process()
        made.model.save_model_to_file(str(path))
        said = f"MatMulNBitsQuantizer(block_size={size}, is_symmetric={symmetric})"
        yield Written(recipe, said, *_read_onnx(path))


def _tflite(shapes: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Write a model of LiteRT's own operations: a look-up for embeddings, full connections for matrices."""
    import ai_edge_litert.schema_py_generated as schema
    import flatbuffers
    import numpy as np

    model, graph, drawn = schema.ModelT(), schema.SubGraphT(), np.random.default_rng(0)
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    graph.name, graph.tensors, graph.operators, graph.inputs, graph.outputs = "main", [], [], [], []
    operations = (schema.BuiltinOperator.FULLY_CONNECTED, schema.BuiltinOperator.EMBEDDING_LOOKUP)
    model.operatorCodes = []
    for kind in operations:
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = kind, kind, 1
        model.operatorCodes.append(code)

    def tensor(name: str, shape: tuple[int, ...], kind: int, buffer: int = 0) -> int:
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, list(shape), kind, buffer
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    float32, int32 = schema.TensorType.FLOAT32, schema.TensorType.INT32
    ids = tensor("ids", (4,), int32)
    graph.inputs.append(ids)
    for name, shape in shapes.items():
        if len(shape) < 2:
            continue  # constants of other operations: none that its recipes take
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(drawn.standard_normal(shape, np.float32).tobytes(), "u1")
        model.buffers.append(buffer)
        weight = tensor(name, shape, float32, len(model.buffers) - 1)
        operator, is_table = schema.OperatorT(), "embed" in name
        operator.opcodeIndex = int(is_table)
        if is_table:
            operator.inputs = [ids, weight]
            operator.outputs = [tensor(f"{name}_out", (4, shape[1]), float32)]
        else:
            given = tensor(f"{name}_in", (4, shape[1]), float32)
            graph.inputs.append(given)
            operator.inputs = [given, weight, -1]
            operator.outputs = [tensor(f"{name}_out", (4, shape[0]), float32)]
            operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
            operator.builtinOptions = schema.FullyConnectedOptionsT()
        graph.outputs += operator.outputs
        graph.operators.append(operator)
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def _read_tflite(path: Path) -> tuple[list[Stored], int]:
    import ai_edge_litert.schema_py_generated as schema

    raw = path.read_bytes()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(raw))
    kinds = {value: key for key, value in vars(schema.TensorType).items() if not key.startswith("_")}
    tensors = []
    for each in model.subgraphs[0].tensors:
        buffer = model.buffers[each.buffer]
        # Large ones lie behind the rest.
        size = buffer.size or (0 if buffer.data is None else len(buffer.data))
        if size:
            of = each.quantization
            scales = 4 * len(of.scale) if of is not None and of.scale is not None else 0
            zeros = 8 * len(of.zeroPoint) if of is not None and of.zeroPoint is not None else 0
            tensors.append(Stored(each.name.decode(), kinds[each.type], size + scales + zeros))
    return tensors, len(raw)


def _litert(name: str, folder: Path) -> Iterator[Written]:
    from ai_edge_quantizer import quantizer
    from ai_edge_quantizer import recipe as recipes
    from ai_edge_quantizer.qtyping import QuantGranularity

    source = folder / "source.tflite"
    _tflite(_shapes(name), source)
    blocks = QuantGranularity.BLOCKWISE_128
    for recipe, call, how in (
        ("litert_int8_per_row", "dynamic_wi8_afp32", {}),
        ("litert_int4_per_row", "dynamic_wi4_afp32", {}),
        ("litert_int4_g32", "dynamic_wi4b32_afp32", {}),
        ("litert_int4_g128", "dynamic_wi4c_afp32", {"granularity": blocks}),
    ):
        made = quantizer.Quantizer(str(source))
        made.load_quantization_recipe(getattr(recipes, call)(**how))
        path = folder / f"{recipe}.tflite"
        path.write_bytes(made.quantize().quantized_model)
        yield Written(recipe, f"Quantizer, recipe.{call}", *_read_tflite(path))


class _Tool(NamedTuple):
    write: Callable[[str, Path], Iterator[Written]]
    packages: tuple[str, ...]
    #: "own" where it takes the models' own dtypes, else float32.
    dtype: str = "own"


_TOOLS: Mapping[str, _Tool] = MappingProxyType(
    {
        "vllm": _Tool(_vllm, ("llmcompressor", "compressed-tensors", "transformers")),
        "modelopt": _Tool(_modelopt, ("nvidia-modelopt", "transformers")),
        "torchao": _Tool(_torchao, ("torchao", "torch")),
        "bitsandbytes": _Tool(_bitsandbytes, ("bitsandbytes", "transformers")),
        "onnxruntime": _Tool(_onnxruntime, ("onnxruntime", "onnx"), "float32"),
        "litert": _Tool(_litert, ("ai-edge-quantizer",), "float32"),
        "mlx": _Tool(_mlx, ("mlx", "mlx-lm")),
    }
)


def _own(written: str, names: list[str]) -> str | None:
    """Return the tensor of a model that a tensor of a written file is of."""
    if written in names:
        return written
    found = [name for name in names if written.startswith(name.removesuffix("weight"))]
    return max(found, key=len, default=None)


def main(engines: list[str]) -> None:
    """Write what the tools of some engines answer into the record."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record["models"] = {name: list(map(list, _shapes(name).items())) for name in ("llama", "bert", "deep")}
    for engine in engines:
        tool = _TOOLS[engine]
        answer: dict[str, Any] = {"versions": {each: version(each) for each in tool.packages}, "models": {}}
        with tempfile.TemporaryDirectory() as made:
            for name, tensors in record["models"].items():
                folder = Path(made) / name
                folder.mkdir()
                names = [key for key, _ in tensors]
                recipes = {}
                for each in tool.write(name, folder):
                    sizes: dict[str, int] = {}
                    for stored in each.tensors:
                        own = _own(stored.name, names)
                        if own is None:
                            raise SystemExit(f"{engine}: {stored.name} is of no tensor")
                        sizes[own] = sizes.get(own, 0) + stored.size
                    recipes[each.recipe] = {
                        "command": each.command,
                        "size": each.size,
                        "bytes": [sizes.get(key) for key in names],
                    }
                is_half = tool.dtype == "own" and name != "bert"
                own: dict[str, Any] = {"dtype": "bfloat16" if is_half else "float32", "recipes": recipes}
                for path in filter(Path.is_file, folder.glob("source.*")):
                    own["source"] = path.stat().st_size  # its graph is in the new file too
                answer["models"][name] = own
        record[engine] = answer
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
