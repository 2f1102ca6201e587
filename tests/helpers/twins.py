"""Makes quantized twins of a checkpoint, for tests and for a demonstration of the audit.

    python -m tests.helpers.twins PATH FOLDER [--heads 32 8] [--nearest]

PATH is a .safetensors or a folder of shards, with the names of BERT or of Llama. FOLDER gets
`gguf/model-q4_0.gguf`, written by the package gguf with llama.cpp's names and its order of the rows of q and
k, and `gptq/model.safetensors`, 4 bits in groups of 128, whose codes GPTQ chose on random inputs, or rounding
to nearest, which takes a large checkpoint minutes instead of hours.
"""

import argparse
from pathlib import Path

import gguf
import torch
from safetensors import safe_open

from tests.helpers import layouts

#: Where a small matrix of weights ends and an embedding begins.
_MOST_ROWS = 8192
_GROUP = 128


def main():
    """Write both twins of what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--heads", type=int, nargs=2, default=(12, 12), help="of q, and of k and v")
    parser.add_argument("--nearest", action="store_true", help="round to nearest instead of GPTQ")
    given = parser.parse_args()
    for part in ("gguf", "gptq"):
        (given.folder / part).mkdir(parents=True, exist_ok=True)
    files = sorted(given.path.glob("*.safetensors")) if given.path.is_dir() else [given.path]
    is_llama = any("self_attn" in name for name, _ in _names(files))
    write_gguf(
        given.folder / "gguf" / "model-q4_0.gguf",
        _tensors(files),
        architecture="llama" if is_llama else "bert",
        heads=tuple(given.heads),
    )
    write_gptq(given.folder / "gptq" / "model.safetensors", _tensors(files), nearest=given.nearest)


def _names(files):
    for file in files:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118, what is opened is no mapping
                yield name, opened


def _tensors(files):
    """Each tensor of numbers with its name, one at a time."""
    for name, opened in _names(files):
        tensor = opened.get_tensor(name)
        if tensor.is_floating_point():
            yield name, tensor


def write_gguf(path, tensors, kind=gguf.GGMLQuantizationType.Q4_0, *, architecture, heads, shift=0.0):
    """Write (name, tensor) as llama.cpp's converter names them, a Llama's rows of q and k in its order.

    `heads` are those of q and of k. `shift` is added to norms, as the converter of Gemma does.
    """
    names = gguf.get_tensor_name_map(
        gguf.MODEL_ARCH.BERT if architecture == "bert" else gguf.MODEL_ARCH.LLAMA, 99
    )
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_head_count(heads[0])
    writer.add_head_count_kv(heads[1])
    of = dict(zip(("q_proj", "k_proj"), heads, strict=True)) if architecture == "llama" else {}
    for name, tensor in tensors:
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if stored is None:
            continue
        values = tensor.float().numpy() + (shift if name.endswith("norm.weight") else 0)
        if count := of.get(name.split(".")[-2]):
            values = values.reshape(count, 2, -1, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)
        if values.ndim == 2 and values.shape[1] % 32 == 0 and values.shape[0] >= 32:
            writer.add_tensor(stored, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_gptq(path, tensors, *, nearest=False):
    """Write (name, tensor) in the layout of GPTQ."""
    made = {}
    for name, tensor in tensors:
        fits = tensor.ndim == 2 and tensor.shape[1] % _GROUP == 0 and 32 <= tensor.shape[0] <= _MOST_ROWS
        if not fits or "embeddings" in name:
            made[name] = tensor.half()
            continue
        columns, g_idx = tensor.shape[1], None
        if nearest:
            q, zero, scale = layouts.rounded(tensor.float(), 4, _GROUP)
        else:
            inputs = torch.randn(2 * columns, columns) @ torch.randn(columns, columns)
            q, zero, scale, g_idx = layouts.by_gptq(tensor.float(), inputs, 4, _GROUP)
        made |= layouts.gptq(name.removesuffix(".weight"), q, zero.clamp(min=1), scale, 4, g_idx=g_idx)
    layouts.write(path, made, {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq"})


if __name__ == "__main__":
    main()
