"""llama.cpp's K-quants and IQ4: from a record, since its package takes minutes to compile.

`record_llama_cpp.py` makes the record. A case answers for the recorded tensors only, those of `trials()`.
What is packed is taken apart by `gguf`, which gives codes as values where all else in the bytes is 1 or 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

import gguf
import numpy as np
import torch

import quantviz as qv
from tests.engines import Answer, Case, Path, Undefined
from tests.engines.data import Trial
from tests.engines.record_llama_cpp import COMMIT, RECORD, TYPES, WEIGHTED
from tests.engines.records import Record, read_record, same_bits, trials_of

PRODUCER = "llama.cpp"
VERSION = f"{COMMIT} (recorded)"

#: Bytes from one place to before another, filled with one byte or several over and over.
Fill = tuple[int, int, bytes]
_ONE = b"\x00\x3c"


def record() -> Record:
    """What the record says of itself, and its arrays."""
    return read_record(RECORD)


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors."""
    return iter(trials_of(RECORD))


def tensors() -> Iterator[tuple[str, torch.Tensor]]:
    """Yield those that were asked with weights of columns too, by name. They come first."""
    return ((trial.label, trial.x) for trial in trials() if trial.question == "own range")


def importance() -> torch.Tensor:
    """The weights of columns."""
    return torch.from_numpy(record()[1]["importance"].copy())


#: What makes, in the bytes of each type, every scale 1 and every smallest value 0, so that values are codes.
_UNSCALED: Mapping[str, tuple[Fill, ...]] = MappingProxyType(
    {
        "q2_k": ((0, 16, b"\x01"), (80, 82, _ONE), (82, 84, b"\x00")),
        # A code of 33 is a scale of 1: its lower four bits, and its upper two.
        "q3_k": ((96, 104, b"\x11"), (104, 108, b"\xaa"), (108, 110, _ONE)),
        "q4_k": ((0, 2, _ONE), (2, 4, b"\x00"), (4, 8, b"\x01"), (8, 12, b"\x00"), (12, 16, b"\x01")),
        "q5_k": ((0, 2, _ONE), (2, 4, b"\x00"), (4, 8, b"\x01"), (8, 12, b"\x00"), (12, 16, b"\x01")),
        "q6_k": ((192, 208, b"\x01"), (208, 210, _ONE)),
        "iq4_nl": ((0, 2, _ONE),),
        "iq4_xs": ((0, 2, _ONE), (2, 4, b"\xaa"), (4, 8, b"\x11")),
    }
)
#: What makes every code 1 and every smallest value 0, so that values are scales.
_SCALES: Mapping[str, tuple[Fill, ...]] = MappingProxyType(
    {
        "q2_k": ((16, 80, b"\x55"), (82, 84, b"\x00")),
        "q3_k": ((0, 32, b"\xff"), (32, 96, b"\x55")),
        "q4_k": ((2, 4, b"\x00"), (16, 144, b"\x11")),
        "q5_k": ((2, 4, b"\x00"), (16, 48, b"\x00"), (48, 176, b"\x11")),
        "q6_k": ((0, 128, b"\x11"), (128, 192, b"\xaa")),
        "iq4_nl": ((2, 18, b"\x88"),),
        "iq4_xs": ((8, 136, b"\x88"),),
    }
)
#: What makes every code 0, so that values are minus the smallest values.
_MINIMA: Mapping[str, tuple[Fill, ...]] = MappingProxyType(
    {
        "q2_k": ((16, 80, b"\x00"), (80, 82, b"\x00")),
        "q4_k": ((0, 2, b"\x00"), (16, 144, b"\x00")),
        "q5_k": ((0, 2, b"\x00"), (16, 176, b"\x00")),
    }
)


def answer(x: torch.Tensor, name: str, *, weighted: bool = False, searched_codes: bool = False) -> Answer:
    """What the library made of a recorded tensor, with the weights of columns or without.

    Where the scale is 0, codes are 0, or with `searched_codes` what stands there.
    """
    packed, at = record()[1][f"{name}_weighted" if weighted else name], 0
    size = TYPES[name][1]
    for trial in trials():
        count = trial.x.numel() // 256 * size
        if same_bits(trial.x, x):
            return _taken_apart(packed[at : at + count], name, tuple(x.shape), searched_codes=searched_codes)
        at += count
    raise LookupError("not a recorded tensor: take them from the module's trials()")


def weighted_values(x: torch.Tensor, name: str) -> torch.Tensor:
    """Return the values of a recorded tensor by one of `WEIGHTED`, whose columns have weights."""
    kind, size = WEIGHTED[name]
    packed, at = record()[1][f"{name}_weighted"], 0
    for _, known in tensors():
        count = known.numel() // 256 * size
        if known.shape == x.shape and torch.equal(known, x):
            raw = packed[at : at + count].reshape(len(x), -1)
            with np.errstate(all="ignore"):
                return torch.from_numpy(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(kind)).copy())
        at += count
    raise LookupError("not a recorded tensor: take them from tests.engines.llama_cpp.tensors()")


def _taken_apart(packed: np.ndarray, name: str, shape: tuple[int, ...], *, searched_codes: bool) -> Answer:
    kind = gguf.GGMLQuantizationType(TYPES[name][0])
    raw = packed.reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])

    def values(fills: tuple[Fill, ...] = ()) -> torch.Tensor:
        changed = raw.copy()
        for first, last, filled in fills:
            changed[:, first:last] = np.resize(np.frombuffer(filled, np.uint8), last - first)
        with np.errstate(all="ignore"):
            return torch.from_numpy(gguf.quants.dequantize(changed, kind)).reshape(shape)

    block = qv.RECIPES[name].granularity.size
    codes, scale = values(_UNSCALED[name]), values(_SCALES[name])
    if name.startswith("iq4"):
        codes = torch.searchsorted(torch.tensor(gguf.quants.IQ4_NL.kvalues).float(), codes)
    elif not searched_codes:
        # Where the scale is 0, what stands there is what the search tried last: no value depends on it.
        codes = torch.where(scale == 0, 0, codes)
    minima = values(_MINIMA[name])[:, ::block].flatten() if name in _MINIMA else None
    if minima is not None and bool((torch.isinf(minima) & torch.isfinite(scale[:, ::block].flatten())).any()):
        raise Undefined("a smallest value beyond float16 is infinite, and codes beyond 2^22 are forbidden")
    return Answer(values(), codes.to(torch.int64), scale[:, ::block].flatten(), minima)


_CASES: dict[str, Case] = {str(qv.RECIPES[name]): partial(answer, name=name) for name in TYPES}

_OPEN = {
    "given range": "its scales are searched for the data",
    "infinity": "the scale of its block becomes NaN or 0; here ranges leave such values out",
    "NaN": "the scale of its block depends on where NaN is; here ranges leave such values out",
}

PATHS = (Path("ggml_quantize_chunk", _CASES, half=_CASES, open=_OPEN),)
