"""Records the types that llama.cpp's own quantizer gives the tensors of small models, and its files' sizes,
without an importance matrix and with one.

    python -m tests.engines.record_llama_presets FOLDER

FOLDER holds libllama and libggml, as llama-cpp-python 0.3.36 builds them. Each preset is made of each model
by `llama_model_quantize`; the record has the types and sizes that it wrote, and null where it refused to.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np

RECORD = Path(__file__).with_name("recorded") / "llama_presets.json"
#: `llama_ftype` by the names of llama-quantize.
_PRESETS = MappingProxyType(
    {
        **{"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12},
        **{"Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25},
        **{"IQ4_XS": 30, "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38, "Q2_K_S": 21},
        **{"IQ2_XXS": 19, "IQ2_XS": 20, "IQ3_XS": 22, "IQ3_XXS": 23, "IQ1_S": 24, "IQ3_S": 26, "IQ3_M": 27},
        **{"IQ2_S": 28, "IQ2_M": 29, "IQ1_M": 31},
    }
)
#: What differs between the models: layers, grouped keys, tied embeddings, experts, rows that nothing divides.
_MODELS: dict[str, dict[str, Any]] = {
    "llama": {"layers": 9, "keys": 2},
    "tied": {"layers": 16, "has_head": False},
    "bert": {
        "is_bert": True,
        "has_head": False,
        "layers": 6,
        "width": 384,
        "wide": 1536,
        "heads": 12,
        "keys": 12,
    },
    "eight experts": {"layers": 8, "experts": 8, "keys": 4, "wide": 256},
    "four experts": {"layers": 5, "experts": 4, "wide": 256},
    "odd rows": {"layers": 3, "width": 160, "heads": 5, "keys": 5, "wide": 400},
}


class _Arguments(ctypes.Structure):
    """`llama_model_quantize_params`."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("threads", "preset", "output", "embedding")),
        *((name, ctypes.c_bool) for name in ("again", "head", "copy", "pure", "split", "dry")),
        *((name, ctypes.c_void_p) for name in ("importance", "values", "types", "pruned")),
        ("most", ctypes.c_size_t),
    )


class _Importance(ctypes.Structure):
    """`llama_model_imatrix_data`, of which the last of a list has no name."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.POINTER(ctypes.c_float)),
        ("size", ctypes.c_size_t),
    )


def _importance(shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Return an importance of 1 for each column of the matrices that llama-imatrix sees, which are neither
    looked up nor the head; of stacks for those of each expert.
    """
    named = []
    for name, shape in shapes.items():
        if not name.startswith("blk.") or len(shape) < 2 or "gate_inp" in name:
            continue
        count = shape[-1] * (shape[0] if len(shape) > 2 else 1)
        values = (ctypes.c_float * count)(*(1.0,) * count)
        named.append(_Importance(name.encode(), ctypes.cast(values, ctypes.POINTER(ctypes.c_float)), count))
    return (_Importance * (len(named) + 1))(*named)


def _quantized(
    library: Any, source: Path, written: Path, preset: int, importance: Any, numbers: Mapping[str, int]
) -> dict[str, Any] | None:
    """Return the size of a preset's file, and its tensors by their types; none where it is refused."""
    arguments = library.llama_model_quantize_default_params()
    arguments.preset = preset
    arguments.importance = ctypes.cast(importance, ctypes.c_void_p)
    if library.llama_model_quantize(str(source).encode(), str(written).encode(), ctypes.byref(arguments)):
        return None
    types: dict[str, list[int]] = {}
    for each in gguf.GGUFReader(written).tensors:
        types.setdefault(each.tensor_type.name.lower(), []).append(numbers[each.name])
    return {"size": written.stat().st_size, "types": types}


def _library(folder: Path) -> Any:
    for name in ("ggml-base", "ggml-cpu", "ggml"):
        ctypes.CDLL(str(folder / f"lib{name}.so"), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(folder / "libllama.so"))
    library.llama_model_quantize_default_params.restype = _Arguments
    library.llama_model_quantize.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_Arguments))
    library.llama_backend_init()
    return library


def _shapes(
    *,
    layers: int,
    width: int = 256,
    wide: int = 512,
    heads: int = 8,
    keys: int = 8,
    experts: int = 0,
    has_head: bool = True,
    is_bert: bool = False,
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's tensors by llama.cpp's names."""
    of_keys = keys * (width // heads)
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (64, width)}
    if is_bert:
        found |= {"position_embd.weight": (32, width), "token_types.weight": (2, width)}
    found["token_embd_norm.weight" if is_bert else "output_norm.weight"] = (width,)
    if has_head:
        found["output.weight"] = (64, width)
    for layer in range(layers):
        own = {"attn_q": (width, width), "attn_k": (of_keys, width), "attn_v": (of_keys, width)}
        own["attn_output"] = (width, width)
        if experts:
            own |= {"ffn_gate_inp": (experts, width), "ffn_gate_exps": (experts, wide, width)}
            own |= {"ffn_up_exps": (experts, wide, width), "ffn_down_exps": (experts, width, wide)}
        else:
            own |= {} if is_bert else {"ffn_gate": (wide, width)}
            own |= {"ffn_up": (wide, width), "ffn_down": (width, wide)}
        norms = ("attn_output_norm", "layer_output_norm") if is_bert else ("attn_norm", "ffn_norm")
        own |= dict.fromkeys(norms, (width,))
        found |= {f"blk.{layer}.{name}.weight": shape for name, shape in own.items()}
    return found


def _write(path: Path, how: dict[str, Any]) -> None:
    """Write a model as llama.cpp's converter does: matrices in 16 bits, all else in 32."""
    width, heads, is_bert = how.get("width", 256), how.get("heads", 8), how.get("is_bert", False)
    writer = gguf.GGUFWriter(path, "bert" if is_bert else "llama")
    writer.add_block_count(how["layers"])
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(how.get("wide", 512))
    writer.add_head_count(heads)
    writer.add_head_count_kv(how.get("keys", 8))
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(64)
    writer.add_tokenizer_model("no_vocab")
    if is_bert:
        writer.add_layer_norm_eps(1e-5)
        writer.add_causal_attention(False)
    if how.get("experts"):
        writer.add_expert_count(how["experts"])
        writer.add_expert_used_count(2)
    drawn = np.random.default_rng(0)
    for name, shape in _shapes(**how).items():
        kept = len(shape) == 1 or name.startswith(("position", "token_types")) or "gate_inp" in name
        values = 0.02 * drawn.standard_normal(shape, np.float32)
        writer.add_tensor(name, values.astype(np.float32 if kept else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder: Path) -> None:
    """Write the record."""
    library, models = _library(folder), {}
    with tempfile.TemporaryDirectory() as made:
        source, written = Path(made) / "source.gguf", Path(made) / "written.gguf"
        for name, how in _MODELS.items():
            _write(source, how)
            tensors = [
                (each.name, [*map(int, reversed(each.shape))], int(each.n_bytes))
                for each in gguf.GGUFReader(source).tensors
            ]
            numbers = {each[0]: at for at, each in enumerate(tensors)}
            importance = _importance({key: tuple(shape) for key, shape, _ in tensors})
            presets = {
                form: {
                    preset: _quantized(library, source, written, number, matrix, numbers)
                    for preset, number in _PRESETS.items()
                }
                for form, matrix in (("plain", None), ("weighed", importance))
            }
            models[name] = {"size": source.stat().st_size, "tensors": tensors, "presets": presets}
    RECORD.write_text(json.dumps(models, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
