"""Records what llama.cpp's reference quantizer computes, for K-quants and IQ4 without and with weights of
columns, and for Q4_0 to Q5_1 with them. Its Python package takes minutes to compile, so the repository keeps
its answers.

    python -m tests.engines.record_llama_cpp LIBRARY

LIBRARY is the shared library `libggml-base` that belongs to llama-cpp-python, of the version named here, on
x86-64. Its function `ggml_quantize_chunk` is asked; what it packs is recorded byte by byte.
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from tests.engines.data import Trial, half_trials, own_trials, special_rows

#: The package, and the commit of llama.cpp in it.
VERSION = "0.3.36"
COMMIT = "0c1e57098"
RECORD = Path(__file__).parent / "recorded" / "llama_cpp.npz"
#: Number and bytes of 256 values of each type, by the id of its recipe.
TYPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "q2_k": (10, 84),
        "q3_k": (11, 110),
        "q4_k": (12, 144),
        "q5_k": (13, 176),
        "q6_k": (14, 210),
        "iq4_nl": (20, 144),
        "iq4_xs": (23, 136),
    }
)
#: The same of types whose scales are searched only where columns have weights: recorded with weights alone.
WEIGHTED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"q4_0": (2, 144), "q4_1": (3, 160), "q5_0": (6, 176), "q5_1": (7, 192)}
)
COLUMNS = 512
#: The tensors that are asked in half precision too.
_IN_HALF = ("normal", "weights", "outliers", "two_decimals", "zero_blocks", "tiny")


def main() -> None:
    """Ask the library about every tensor and write the record."""
    library = ctypes.CDLL(sys.argv[1])
    ask = library.ggml_quantize_chunk
    ask.restype = ctypes.c_size_t
    ask.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    library.ggml_commit.restype = ctypes.c_char_p
    found = library.ggml_commit().decode()
    if not COMMIT.startswith(found.partition("-")[0]):
        raise SystemExit(f"made of llama.cpp {found}, not {COMMIT}")
    asked, weights = list(trials()), importance().numpy()
    inputs = [_widened(library, trial.x) for trial in asked]
    arrays = {"input": np.concatenate([x.ravel() for x in inputs]), "importance": weights}
    for name, (kind, size) in (TYPES | WEIGHTED).items():
        for suffix, weighted in (("", None), ("_weighted", weights.ctypes.data)):
            if name in WEIGHTED and weighted is None:
                continue
            packed = []
            for trial, values in zip(asked, inputs, strict=True):
                if weighted is not None and trial.question != "own range":
                    continue
                raw = np.zeros(values.size // 256 * size, np.uint8)
                written = ask(kind, values.ctypes.data, raw.ctypes.data, 0, len(values), COLUMNS, weighted)
                if written != raw.size:
                    raise SystemExit(f"{name}: {written} bytes, not {raw.size}")
                packed.append(raw)
            arrays[name + suffix] = np.concatenate(packed)
    about = {
        "producer": f"llama-cpp-python {VERSION}, ggml-base of llama.cpp {COMMIT}: ggml_quantize_chunk",
        "machine": f"{platform.machine()}, without -march: no fused multiply-add",
        "command": "python -m tests.engines.record_llama_cpp LIBRARY",
        "trials": [[trial.question, trial.label, list(trial.x.shape)] for trial in asked],
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    RECORD.parent.mkdir(exist_ok=True)
    np.savez_compressed(RECORD, **arrays)
    print(f"{len(asked)} tensors, {len(arrays['input'])} elements, {RECORD.stat().st_size} bytes")


def _widened(library: ctypes.CDLL, x: torch.Tensor) -> np.ndarray:
    """Return the values that the library makes of half precision before it quantizes."""
    if x.dtype == torch.float32:
        return np.ascontiguousarray(x.numpy())
    made, bits = np.empty(tuple(x.shape), np.float32), x.contiguous().view(torch.int16).numpy()
    widen = library.ggml_fp16_to_fp32_row if x.dtype == torch.float16 else library.ggml_bf16_to_fp32_row
    widen.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    widen(bits.ctypes.data, made.ctypes.data, x.numel())
    return made


def trials() -> Iterator[Trial]:
    """Yield the tensors, in half precision too, and special numbers."""
    yield from own_trials(tensors())
    yield from special_rows(COLUMNS)
    yield from half_trials((name, x) for name, x in tensors() if name in _IN_HALF)


def importance() -> torch.Tensor:
    """Weights of columns, as an importance matrix has them: mean squares of activations, some of them 0."""
    g = torch.Generator().manual_seed(77)
    weights = torch.randn(COLUMNS, generator=g).square() * torch.exp(torch.randn(COLUMNS, generator=g))
    weights[torch.rand(COLUMNS, generator=g) < 0.03] = 0
    weights[64:128] = 0
    return weights


def tensors() -> Iterator[tuple[str, torch.Tensor]]:
    """What real weights are like, and the edges of it."""
    g = torch.Generator().manual_seed(4321)

    def normal(rows: int = 2) -> torch.Tensor:
        return torch.randn(rows, COLUMNS, generator=g)

    def uniform(rows: int = 1) -> torch.Tensor:
        return torch.rand(rows, COLUMNS, generator=g)

    yield "normal", normal(3)
    yield "weights", normal(2) * 0.02
    yield "laplace", torch.log(uniform(2).clamp(min=1e-6)) * normal(2).sign()
    yield "heavy", normal(2) / normal(2).abs().clamp(min=1e-3)
    yield "outliers", torch.where(uniform(1) < 0.01, 50.0, 1.0) * normal(1)
    yield "loud_blocks", normal(2) * torch.exp2(torch.arange(64) % 13 - 6.0).repeat_interleave(8)
    yield "positive", uniform() * 10 + 10
    yield "negative", -uniform() * 10 - 10
    yield "two_decimals", (normal(1) * 100).round() / 100
    yield "ties", (normal(1) * 8).round() / 4
    yield "sparse", normal(1) * (uniform(1) < 0.1)
    yield "zero_blocks", normal(1) * (torch.arange(COLUMNS) // 48 % 2)
    yield "zeros", torch.zeros(1, COLUMNS)
    yield "constant", torch.full((1, COLUMNS), 1.25)
    yield "constant_negative", torch.full((1, COLUMNS), -0.7)
    yield "tiny", normal(1) * 1e-6
    yield "vanishing", normal(1) * 1e-17
    yield "large", normal(1) * 1e6
    yield "too_large", normal(1) * 1e30


if __name__ == "__main__":
    main()
