"""Makes quantized twins of a real checkpoint, for a demonstration of the audit.

    python -m tests.helpers.twins model.safetensors FOLDER

FOLDER gets `gguf/model-q4_0.gguf`, written by the package gguf with llama.cpp's names for BERT, and
`gptq/model.safetensors`, whose codes GPTQ chose on random inputs, 4 bits in groups of 128.
"""

import sys
from pathlib import Path

import gguf
import torch
from safetensors.torch import load_file

from tests.helpers import layouts

#: Where a small matrix of weights ends and an embedding begins.
_MOST_ROWS = 8192
_GROUP = 128


def main():
    """Write both twins of the file that is named."""
    tensors = {name: tensor for name, tensor in load_file(sys.argv[1]).items() if tensor.is_floating_point()}
    folder = Path(sys.argv[2])
    for part in ("gguf", "gptq"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    write_gguf(folder / "gguf" / "model-q4_0.gguf", tensors)
    write_gptq(folder / "gptq" / "model.safetensors", tensors)


def write_gguf(path, tensors, kind=gguf.GGMLQuantizationType.Q4_0):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 99)
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_head_count(12)
    for name, tensor in tensors.items():
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if stored is None:
            continue
        values = tensor.float().numpy()
        if values.ndim == 2 and values.shape[1] % 32 == 0 and values.shape[0] >= 32:
            writer.add_tensor(stored, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gptq(path, tensors):
    made = {}
    for name, tensor in tensors.items():
        fits = tensor.ndim == 2 and tensor.shape[1] % _GROUP == 0 and 32 <= tensor.shape[0] <= _MOST_ROWS
        if not fits or "embeddings" in name:
            made[name] = tensor.half()
            continue
        columns = tensor.shape[1]
        inputs = torch.randn(2 * columns, columns) @ torch.randn(columns, columns)
        q, zero, scale, g_idx = layouts.by_gptq(tensor.float(), inputs, 4, _GROUP)
        made |= layouts.gptq(name.removesuffix(".weight"), q, zero.clamp(min=1), scale, 4, g_idx=g_idx)
    layouts.write(path, made, {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq"})


if __name__ == "__main__":
    main()
