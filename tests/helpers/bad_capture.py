"""A file of layers made by hand, of which one is whole and each of the others has a fault of its own."""

import json

import torch
from safetensors.torch import save_file

from quantviz.layers.captures import FORMAT

#: The faulty layers, with a part of the sentence on each in English.
FAULTS = {
    "h.0.empty": "An empty tensor",
    "h.0.wide": "8 for each output",
    "h.1.alone": "'h.1.alone.inputs'",
    "h.1.cube": "X is a matrix",
    "h.2.biased": "bias",
    "h.2.nan": "NaN",
    "h.3.token": "one token",
}


def write_bad_capture(path):
    whole = {"weight": torch.arange(48.0).reshape(6, 8) - 20, "inputs": torch.eye(16, 8) + 0.25}
    nan = whole["inputs"].clone()
    nan[2, 3] = torch.nan
    layers = {
        "h.0.whole": whole,
        "h.0.empty": whole | {"weight": torch.zeros(0, 8)},
        "h.0.wide": whole | {"inputs": torch.ones(16, 9)},
        "h.1.alone": {"weight": whole["weight"]},
        "h.1.cube": whole | {"inputs": torch.ones(2, 8, 8)},
        "h.2.biased": whole | {"bias": torch.ones(5)},
        "h.2.nan": whole | {"inputs": nan},
        "h.3.token": whole | {"inputs": torch.ones(1, 8)},
    }
    tensors = {
        f"{name}.{end}": values.clone() for name, layer in layers.items() for end, values in layer.items()
    }
    entries = [{"name": name, "kind": "linear", "seen": 16} for name in layers]
    save_file(tensors, path, {"format": FORMAT, "layers": json.dumps(entries)})
