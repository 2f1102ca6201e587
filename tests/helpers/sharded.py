"""A small model in several files."""

import json

import safetensors.torch
import torch

INDEX = "model.safetensors.index.json"
A, B = torch.arange(6.0).reshape(2, 3), torch.arange(4.0)


def write_model(folder, weight_map=None, **shards):
    shards = shards or {"one": {"a": A}, "two": {"b": B}}
    for shard, tensors in shards.items():
        safetensors.torch.save_file(tensors, folder / f"{shard}.safetensors")
    names = {name: f"{shard}.safetensors" for shard, tensors in shards.items() for name in tensors}
    (folder / INDEX).write_text(
        json.dumps(
            {"metadata": {"total_size": 40}, "weight_map": names if weight_map is None else weight_map}
        )
    )
    return folder / INDEX
