"""Compares learned rounding with packages' training, and writes the table of `trained.md`.

    python -m tests.layers.methods.compare_trained

Training has no unique end: the errors that are left are compared, one-sided.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from quantviz.layers.methods.contract import MethodTask, RoundingMethod
from quantviz.layers.methods.learned_rounding import AdaRound, SignRound
from quantviz.schemes.recipes import as_scheme
from tests.layers.methods.record_gptq import layers
from tests.layers.methods.record_trained import BITS, GROUP, RECORD
from tests.layers.methods.rows_apart import Row

PAGE = Path(__file__).with_name("trained.md")
#: The most by which an error may be larger than the package's.
MORE = 0.1
#: Each method with its scheme, the package, the package's distribution, and the settings.
TRAINED: tuple[tuple[RoundingMethod, str, str, str, str], ...] = (
    (
        AdaRound(),
        "int{bits},symmetric,per_channel,min_max,modelopt",
        "brevitas",
        "brevitas",
        "1,000 steps of Adam at 0.001",
    ),
    (
        SignRound(),
        f"uint{{bits}},asymmetric,per_group(size={GROUP}),min_max,gptq",
        "autoround",
        "auto-round",
        "200 steps",
    ),
)
_HEAD = """# Learned rounding beside packages

Written by `python -m tests.layers.methods.compare_trained`; `record_trained` asks the packages about layers
of 24 × 64 with 160 tokens. Training has no unique end: the numbers are ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖², after both
began with the same rounding to nearest. A line agrees if ours is at most 10 % above the package's.
"""


class Learned(NamedTuple):
    """The error that rounding to nearest leaves, and those of both trainings."""

    nearest: float
    theirs: float
    ours: float

    @property
    def times(self) -> float:
        """Return our error over the package's."""
        return self.ours / self.theirs

    def line(self, number: int, method: RoundingMethod) -> str:
        """Return the line of a layer."""
        numbers = " | ".join(f"{each:.3g}" for each in self)
        return f"| {method.id} | {number} | {BITS[number % len(BITS)]} | {numbers} | {self.times:.2f} |"


def learned(number: int, kind: int) -> Learned:
    """Return what both leave of a layer, trained now by the method of this kind."""
    method, scheme, package, *_ = TRAINED[kind]
    w, x = list(layers())[number]
    wanted = as_scheme(scheme.format(bits=BITS[number % len(BITS)]))
    task = MethodTask(w.double(), x.double(), wanted, None)
    with np.load(RECORD) as record:
        nearest, theirs = record[package][number].tolist()
    # One weight of a layer lies on a tie, which float32 rounds otherwise.
    assert math.isclose(task.output_error(task.nearest.x_hat), nearest, rel_tol=1e-2)
    return Learned(nearest, theirs, task.output_error(method.round(task).w_hat))


def trained_rows() -> Iterator[Row]:
    """Yield the rows of the table of methods, from the page that a test holds to its numbers."""
    with np.load(RECORD) as record:
        made: dict[str, Any] = json.loads(record["about"].tobytes())["producers"]
    written = PAGE.read_text(encoding="utf-8").splitlines()
    for method, _, _, package, settings in TRAINED:
        times = [float(each.split("|")[-2]) for each in written if each.startswith(f"| {method.id} ")]
        agree = sum(each <= 1 + MORE for each in times)
        mean = math.exp(sum(map(math.log, times)) / len(times))
        compared = f"layers, see [trained.md](trained.md): an error at most 10 % larger after {settings}"
        ends = f"another end of the training, {max(times):.2f} times theirs; {mean:.2f} over all layers"
        why = "" if agree == len(times) else ends
        name = {"adaround": "AdaRound", "signround": "SignRound"}[method.id]
        yield Row(
            f"{name}, trained", f"{package} {made[package]}", len(times), compared, agree, len(times), why
        )


def main() -> None:
    """Train every layer and write the page."""
    torch.set_num_threads(1)
    lines = [
        *_HEAD.splitlines(),
        "",
        "| method | layer | bits | nearest | the package | here | times |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind, (method, *_) in enumerate(TRAINED):
        lines += [learned(number, kind).line(number, method) for number in range(24)]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
