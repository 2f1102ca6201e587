"""Compares methods with the packages' recorded answers, and writes the table of `README.md`.

python -m tests.layers.methods
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.contract import MethodTask
from quantviz.schemes.recipes import as_scheme
from tests.layers.methods.record_gptq import RECORD, SETTINGS, layers

PAGE = Path(__file__).with_name("gptq.md")
#: The least share of equal codes, and the most by which the objective may be larger: packages compute in
#: float32, where one near tie flips and the rest of its row follows.
CODES, OBJECTIVE = 0.97, 0.01
_HEAD = """# GPTQ beside llm-compressor

The package's answers about small layers are recorded by `tests/layers/methods/record_gptq.py`, since it needs
other versions of other packages than the tests. `python -m tests.layers.methods.compare_gptq` writes this
table, and a test holds it to the numbers.

Codes are compared one by one, and the objective ‖(Ŵ − W)Xᵀ‖² as a share of the package's. A row agrees if at
least 97 % of the codes are equal, the objective is at most 1 % larger, and scales and zero points are equal
to the last bit.
"""
_COLUMNS = ("layer", "scheme", "method", "equal codes", "objective", "verdict")


class Compared(NamedTuple):
    """One layer under one setting, here and in the package."""

    #: The share of equal codes, and our objective over the package's.
    codes: float
    objective: float
    #: Whether scales and zero points are equal.
    scales: bool
    #: Our objective over that of rounding to nearest.
    gain: float

    @property
    def verdict(self) -> str:
        """Return "agrees", or the first thing that does not."""
        if not self.scales:
            return "scales differ"
        if self.codes < CODES:
            return "codes differ"
        return "agrees" if self.objective <= 1 + OBJECTIVE else "objective differs"


def answers() -> dict[str, Any]:
    """Return the record of llm-compressor's GPTQ."""
    with np.load(RECORD) as record:
        return {name: record[name] for name in record.files}


def compared(record: Mapping[str, Any]) -> Iterator[Compared]:
    """Yield the comparison of each recorded layer."""
    for number, ((w, x), setting) in enumerate(zip(layers(), SETTINGS, strict=True)):
        sums = [float(w.double().sum()), float(x.double().sum())]
        assert sums == record[f"sums_{number}"].tolist(), "the layers are not those that were recorded"
        task = MethodTask(w.double(), x.double(), as_scheme(setting.scheme), None)
        rounding = as_chain(setting.method).rounding
        assert rounding is not None
        found = rounding.round(task).result
        theirs = torch.from_numpy(record[f"found_{number}"])
        same = (found.x_hat - theirs).abs() < found.step_of_cells() / 4
        scales = all(
            torch.equal(ours.float(), torch.from_numpy(record[f"{name}_{number}"]).float())
            for name, ours in (("scale", found.qparams.scale), ("zero", found.qparams.zero_point))
        )
        ours, package, nearest = map(task.output_error, (found.x_hat, theirs, task.nearest.x_hat))
        yield Compared(float(same.double().mean()), ours / package, scales, ours / nearest)


def lines(record: Mapping[str, Any], rows: list[Compared]) -> list[str]:
    """Return the page's lines."""
    about = json.loads(record["about"].tobytes())
    producers = ", ".join(f"{name} {number}" for name, number in about["producers"].items())
    table = [
        f"| {at} | `{setting.scheme}` | `{setting.method}` | {100 * row.codes:.2f} % "
        f"| {row.objective:.4f} | {row.verdict} |"
        for at, (setting, row) in enumerate(zip(SETTINGS, rows, strict=True))
    ]
    agree = sum(row.verdict == "agrees" for row in rows)
    return [
        *_HEAD.splitlines(),
        "",
        f"Producers: {producers}. Command: `{about['command']}`, {about['settings']}.",
        f"{agree} of {len(rows)} rows agree; unexplained: {len(rows) - agree}.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---|---|---|---|---|---|",
        *table,
        "",
        "Engines that differ from the paper are offered by name. `gptq(variant=full_inverse)` spreads errors",
        "by the rows of H⁻¹ itself (ai-edge-quantizer). `gptq(variant=last_scale)` keeps the scale of each",
        "row's last group alone (neural-compressor with static groups). `gptq(variant=sliced_scale)` gives a",
        "sliced column a scale of its own, so that no error is left to push (brevitas, usual scaling).",
    ]


if __name__ == "__main__":
    found = answers()
    PAGE.write_text("\n".join(lines(found, list(compared(found)))) + "\n", encoding="utf-8")
