"""Records what fouroversix's reference in torch computes: its package is compiled for a GPU, so the
repository keeps its answers.

    python -m tests.engines.record_fouroversix FOLDER

FOLDER holds the package `fouroversix` of mit-han-lab/fouroversix, commit `COMMIT`. Only the reference and the
modules it imports are run, on CPU.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from tests.engines import Undefined
from tests.engines.data import DISTRIBUTIONS, Trial, half_trials, own_trials, special_trials

COMMIT = "dadfad69"
RECORD = Path(__file__).parent / "recorded" / "fouroversix.npz"
SHAPES = ((2, 64), (3, 32), (1, 128))
#: The scheme of each of its rules.
FORMS: Mapping[str, str] = MappingProxyType(
    {
        rule: f"float4_e2m1fn,symmetric,per_group(size=16),searched,fouroversix{variant}"
        for rule, variant in (
            ("mse", ""),
            ("mae", "(search=four_over_six_mae)"),
            ("abs_max", "(search=four_over_six_abs_max)"),
        )
    }
)


def main() -> None:
    """Ask the reference about every tensor and write the record."""
    torch.set_num_threads(1)
    ask = _reference(Path(sys.argv[1]))
    asked = list(_trials())
    arrays = {"input": np.concatenate([trial.x.float().numpy().ravel() for trial in asked])}
    undefined: dict[str, dict[str, str]] = {}
    for rule in FORMS:
        found = []
        for trial in asked:
            try:
                found.append(ask(trial.x, rule))
            except Undefined as why:
                undefined.setdefault(rule, {})[trial.label] = str(why)
        for part, values in zip(("codes", "scales", "values"), zip(*found, strict=True), strict=True):
            arrays[f"{part}_{rule}"] = np.concatenate([each.numpy().ravel() for each in values])
    about = {
        "producer": f"mit-han-lab/fouroversix {COMMIT}: quantize and dequantize of its reference in torch",
        "settings": f"torch {torch.__version__} on CPU, one thread, NVFP4, round to nearest",
        "command": "python -m tests.engines.record_fouroversix FOLDER",
        "trials": [[trial.question, trial.label, list(trial.x.shape)] for trial in asked],
        "undefined": undefined,
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(RECORD, **arrays)
    print(f"{len(asked)} tensors, {RECORD.stat().st_size} bytes")


def _trials() -> Iterator[Trial]:
    yield from own_trials(_matrices())
    for trial in special_trials():
        if tuple(trial.x.shape) in ((2, 32), (4, 64)) and trial.question == "special numbers":
            yield trial
    yield from half_trials(_matrices())


def _matrices() -> Iterator[tuple[str, torch.Tensor]]:
    for kind, (name, make) in enumerate(DISTRIBUTIONS.items()):
        shape = SHAPES[kind % len(SHAPES)]
        generator = torch.Generator().manual_seed(8000 + kind)
        yield f"{name} {'x'.join(map(str, shape))}", make(math.prod(shape), generator).reshape(shape)


def _reference(folder: Path) -> types.FunctionType:
    """The function from a tensor and a rule to codes, scales and values."""
    # The package's own __init__ imports layers and kernels.
    for name in ("", ".kernels", ".quantize", ".quantize.pytorch"):
        package = types.ModuleType(f"fouroversix{name}")
        package.__path__ = [str(folder.joinpath("fouroversix", *name.split(".")))]
        sys.modules[package.__name__] = package
    words = importlib.import_module("fouroversix.utils")
    config = importlib.import_module("fouroversix.quantize.config").QuantizationConfig
    backend = importlib.import_module("fouroversix.quantize.pytorch.backend").PyTorchQuantizeBackend
    reference = importlib.import_module("fouroversix.quantize.pytorch.reference")

    def ask(x: torch.Tensor, rule: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if 0 < x.abs().max() < 1536 / torch.finfo(torch.float32).max:
            raise Undefined("1536 over the largest magnitude is infinite, and infinity is cast to an integer")
        options = {"scale_rule": words.ScaleRule(rule)}
        fmt = words.DataType.nvfp4
        packed, scales, absmax = reference.quantize(
            x, fp4_format=fmt, use_blackwell_scale_layout=False, **options
        )
        codes = torch.stack([packed & 15, packed >> 4], -1).reshape(x.shape)
        quantized = backend.quantize(x, config(dtype=fmt, **options))
        back = backend.dequantize(quantized, dtype=torch.float32)[: x.shape[0], : x.shape[1]]
        # As the reference makes it on the way to codes.
        decode = 1 / (torch.tensor(6.0 * 256) / absmax)
        scale = torch.where(scales.float() == 0, 0, decode * scales.float())
        return codes, scale, back

    return ask


if __name__ == "__main__":
    main()
