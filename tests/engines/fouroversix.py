"""fouroversix, NVFP4 whose blocks end at 6 or at 4: from a record, since its package is compiled for a GPU.

`record_fouroversix.py` makes the record. A case answers for the recorded tensors only, those of `trials()`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from tests.engines import Answer, Case, Path, Undefined
from tests.engines.data import Trial
from tests.engines.record_fouroversix import COMMIT, FORMS, RECORD
from tests.engines.records import read_record, same_bits, trials_of

PRODUCER = "fouroversix"
VERSION = f"{COMMIT} (recorded)"


def trials() -> Iterator[Trial]:
    """Yield the recorded tensors."""
    return iter(trials_of(RECORD))


def _answer(rule: str, x: torch.Tensor) -> Answer:
    about, arrays = read_record(RECORD)
    undefined = about["undefined"].get(rule, {})
    start = 0
    for trial in trials():
        same = same_bits(trial.x, x)
        if trial.label in undefined:
            if same:
                raise Undefined(undefined[trial.label])
            continue
        if same:
            codes, values = (
                torch.from_numpy(arrays[f"{part}_{rule}"][start : start + x.numel()]).reshape(x.shape)
                for part in ("codes", "values")
            )
            scale = arrays[f"scales_{rule}"][start // 16 : (start + x.numel()) // 16]
            return Answer(values, codes, torch.from_numpy(scale))
        start += trial.x.numel()
    raise LookupError("not a recorded tensor: take them from the module's trials()")


_OPEN = {
    "given range": "the scales of its blocks are searched for the data",
    "infinity": "the largest magnitude is infinite, and 0 · ∞ is cast to an integer",
    "NaN": "NaN is cast to an integer",
}

_CASES: dict[str, Case] = {form: functools.partial(_answer, rule) for rule, form in FORMS.items()}

PATHS = (Path("reference.quantize", _CASES, half=_CASES, open=_OPEN),)
