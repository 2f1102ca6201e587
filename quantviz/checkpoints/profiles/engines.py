"""Profiles of the engines whose policy is a few lines; `llama_cpp.py` has the mixtures of types."""

from __future__ import annotations

from quantviz.checkpoints.model.tensor_kinds import Kind
from quantviz.checkpoints.profiles.profile import SAFETENSORS_ENTRY, FileOverhead, Profile, ToolFiles

# compressed-tensors, which llm-compressor writes and vLLM runs.
# Source: compressed-tensors 0.20, quantization/quant_scheme.py for the recipes; llm-compressor,
# modifiers/quantization/quantization/mixin.py, which targets modules of the class Linear, and
# group_size_validation.py, which refuses columns that do not divide into groups; its examples ignore the head
# and the routers of experts, which vLLM runs unquantized.
VLLM = Profile(
    id="vllm",
    name="vllm",
    kinds=frozenset(("linear", "experts")),
    recipes=(
        *("w4a16_g128", "w4a16_asym_g128", "w8a16_g128", "w8a8_per_row"),
        *("ct_fp8_per_tensor", "ct_fp8_per_row", "ct_fp8_block", "ct_nvfp4", "ct_mxfp4", "ct_mxfp8"),
    ),
    files=ToolFiles(
        ".safetensors",
        scales_as_weights=True,
        entry=SAFETENSORS_ENTRY,
        # Packed codes come with the shape that they had, as two numbers of 64 bits.
        parts={
            "w4a16_g128": FileOverhead(3, of_tensor=16),
            "w4a16_asym_g128": FileOverhead(4, of_tensor=16),
            "w8a16_g128": FileOverhead(3, of_tensor=16),
            "ct_nvfp4": FileOverhead(3),
        },
    ),
    export="llmcompressor",
    arithmetic="compressed_tensors",
    joins=True,
)

# NVIDIA's ModelOpt.
# Source: nvidia-modelopt 0.47, modelopt_recipes/configs/ptq: the presets enable the weight quantizers of all
# modules, which nn.Linear and nn.Conv2d have, and units/default_disabled_quantizers.yaml disables the head,
# routers and embeddings again, and the parts of names below. Its export_hf_checkpoint joins layers of one
# input and refuses them in several formats: torch/export/quant_utils.py, preprocess_linear_fusion.
MODELOPT = Profile(
    id="modelopt",
    name="modelopt",
    kinds=frozenset(("linear", "experts", "convolution")),
    recipes=(
        *("modelopt_int8_per_row", "modelopt_int4_g128", "modelopt_fp8_per_tensor", "modelopt_nvfp4"),
        *("modelopt_mxfp8", "modelopt_mxfp4"),
    ),
    keeps=(
        *("linear_attn.conv1d", "self_attention.conv1d", "linear_attn.in_proj_a", "linear_attn.in_proj_b"),
        *("lm_head", "mixer.conv1d", "output_layer", "proj_out.", "router", "embed_vision", "vision_tower"),
        *("visual", "vision_model", "multi_modal_projector"),
    ),
    files=ToolFiles(
        ".safetensors",
        entry=SAFETENSORS_ENTRY,
        # The preset of FP8 has inputs quantized too: each layer has a scale of them.
        parts={"modelopt_fp8_per_tensor": FileOverhead(3, of_tensor=4), "modelopt_nvfp4": FileOverhead(3)},
    ),
    export="modelopt",
    arithmetic="modelopt",
    joins=True,
)

# ONNX Runtime's quantization tools, of weights.
# Source: onnxruntime 1.31, quantization/registry.py: quantize_dynamic takes the constants of MatMul, Gemm,
# Conv and Gather, so all tables that are looked up too, these with one scale; matmul_nbits_quantizer.py takes
# the constants of MatMul alone, in blocks of which the last may be short.
#: Kinds that are looked up, and those that are no MatMul.
_TABLES: tuple[Kind, ...] = ("embedding", "position", "token_type")
_NOT_MATMUL: tuple[Kind, ...] = (*_TABLES, "convolution")
_ORT_NBITS = ("ort_int4_g128", "ort_int4_asym_g128", "ort_int4_g32")

ONNXRUNTIME = Profile(
    id="onnxruntime",
    name="onnxruntime",
    kinds=frozenset(("linear", "head", "router", "experts", "convolution", *_TABLES)),
    recipes=("ort_int8_per_tensor", "ort_int8_per_row", *_ORT_NBITS),
    by_kind={
        "ort_int8_per_row": dict.fromkeys(_TABLES, "ort_int8_per_tensor"),
        **dict.fromkeys(_ORT_NBITS, dict.fromkeys(_NOT_MATMUL, "")),
    },
    # Bytes of a weight in the graph: int8 takes four operations in place of one. Its zero points are 0.
    files=ToolFiles(
        ".onnx",
        described=190,
        parts={
            "ort_int8_per_tensor": FileOverhead(3, of_tensor=961),
            "ort_int8_per_row": FileOverhead(3, of_tensor=960, of_row=1),
            "ort_int4_asym_g128": FileOverhead(3, of_tensor=150),
        },
    ),
)

#: `to_blocked` in prototype/mx_formats/utils.py: scales in the order in which a GPU reads them.
_TORCHAO_TILE = (128, 4)

# torchao's quantize_.
# Source: torchao 0.18, quantization/quant_api.py: `_is_linear`, the filter that it has unless another is
# given, takes every nn.Linear, the head and routers of experts among them.
TORCHAO = Profile(
    id="torchao",
    name="torchao",
    kinds=frozenset(("linear", "head", "router")),
    recipes=(
        *("torchao_int8_per_row", "torchao_int4_g128", "torchao_int4_g32", "torchao_fp8_per_tensor"),
        *("torchao_fp8_per_row", "torchao_mxfp8", "torchao_mxfp4", "nvfp4"),
    ),
    files=ToolFiles(
        ".safetensors",
        entry=SAFETENSORS_ENTRY,
        # Class and fields of each tensor are in the header, as JSON.
        described=400,
        # Int8Tensor stores zero points too, which are 0; MXTensor has more fields.
        parts={
            "torchao_int8_per_row": FileOverhead(3, of_row=1),
            "nvfp4": FileOverhead(3, scale_tile=_TORCHAO_TILE, rows_in=16),
            **dict.fromkeys(
                ("torchao_mxfp8", "torchao_mxfp4"), FileOverhead(of_tensor=470, scale_tile=_TORCHAO_TILE)
            ),
        },
    ),
    # It skips weights whose rows do not divide into groups.
    fallbacks={"torchao_int4_g128": "", "torchao_int4_g32": ""},
)

# bitsandbytes, as Transformers uses it.
# Source: transformers, integrations/bitsandbytes.py: `_replace_with_bnb_linear` takes every nn.Linear and
# Conv1D, and `get_keys_to_not_convert` leaves out the head and the weights tied to it.
BITSANDBYTES = Profile(
    id="bitsandbytes",
    name="bitsandbytes",
    kinds=frozenset(("linear", "router")),
    recipes=("bnb_int8", "nf4_64", "fp4_64"),
    files=ToolFiles(
        ".safetensors",
        entry=SAFETENSORS_ENTRY,
        # The 16 values of the data type, and sizes and dtypes as JSON of about 80 bytes; of int8 a number for
        # the order of the codes.
        parts={
            "bnb_int8": FileOverhead(3, of_tensor=1),
            **dict.fromkeys(("nf4_64", "fp4_64"), FileOverhead(4, of_tensor=144)),
        },
    ),
)

# MLX, as mlx-lm converts models.
# Source: mlx 0.32, nn/layers/quantized.py, `quantize`: every module that has `to_quantized`, which are
# Linear, Embedding and the experts' SwitchLinear; mlx_lm/utils.py leaves those whose rows do not divide into
# groups.
_MLX = ("mlx_q4_g64", "mlx_q8_g64", "mlx_q6_g64", "mlx_q3_g64", "mlx_mxfp4", "mlx_nvfp4")

MLX = Profile(
    id="mlx",
    name="mlx",
    kinds=frozenset(("linear", "experts", "embedding", "head", "router")),
    recipes=_MLX,
    files=ToolFiles(
        ".safetensors",
        scales_as_weights=True,
        entry=SAFETENSORS_ENTRY,
        parts={name: FileOverhead(3) for name in _MLX if "_g64" in name},
    ),
    fallbacks=dict.fromkeys(_MLX, ""),
)

# LiteRT's AI Edge Quantizer.
# Source: ai-edge-quantizer 0.10, default_policy.py: the operations of weights that its recipes take are
# FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D and EMBEDDING_LOOKUP, so all tables, of any size
# (`min_weight_elements` is 0).
LITERT = Profile(
    id="litert",
    name="litert",
    kinds=frozenset(("linear", "head", "router", "convolution", "embedding", "position", "token_type")),
    recipes=("litert_int8_per_row", "litert_int4_per_row", "litert_int4_g32", "litert_int4_g128"),
    # Zero points of rows, which are 0, have 64 bits; scales of groups are a tensor of their own.
    files=ToolFiles(
        ".tflite",
        described=44,
        parts={
            **dict.fromkeys(("litert_int8_per_row", "litert_int4_per_row"), FileOverhead(of_row=8)),
            **dict.fromkeys(("litert_int4_g32", "litert_int4_g128"), FileOverhead(of_tensor=120)),
        },
    ),
)
#: In the order of lists.
ENGINES = (VLLM, MODELOPT, ONNXRUNTIME, TORCHAO, BITSANDBYTES, MLX, LITERT)
