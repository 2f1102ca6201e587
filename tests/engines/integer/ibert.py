"""I-BERT's LayerNorm in whole numbers and the requantizing after it, by the code in transformers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from transformers.models.ibert.quant_modules import IntLayerNorm, QuantAct

from tests.engines.integer import Path, operators

PRODUCER = "transformers"


def _cases() -> Iterator[operators.Case]:
    """Yield rows of codes, with output scales of the ranges that I-BERT would keep."""
    for case in operators.norms(("int8", "int16"), symmetric=True):
        levels = _levels(case)
        most = np.float32(64 * case.outputs[0])
        scale = np.float32(most / levels) * levels / levels
        yield replace(case, outputs=(float(scale), 0))


def _levels(case: operators.Case) -> np.float32:
    return np.float32(np.iinfo(case.kind).max)


def _normed(case: operators.Case) -> np.ndarray:
    """Return the codes of rows, one at a time: training widens the sums of a row as these need it."""
    (codes,) = case.codes
    count = codes.shape[1]
    scaled = QuantAct(np.iinfo(case.kind).bits, quant_mode=True).eval()
    scaled.x_max = torch.tensor([np.float32(case.outputs[0]) * _levels(case)])
    scaled.x_min = -scaled.x_max
    found = []
    for row in torch.from_numpy(codes).to(torch.float64):
        # Its numbers are whole, kept in floats: in float64 every one of them is exact.
        norm = IntLayerNorm(count, 0.0, quant_mode=True).train()
        norm.weight.data = torch.from_numpy(case.how.get("weight", np.ones(count, np.float32)))
        norm.bias.data = torch.from_numpy(case.how.get("bias", np.zeros(count, np.float32)))
        values, step = norm(row[None, None], torch.ones(1, dtype=torch.float64))
        values, step = scaled(values, step)
        assert float(step) == case.outputs[0]
        found.append(torch.round(values / step).flatten().to(torch.int64))
    return torch.stack(found).numpy()


PATHS = (
    Path(
        "IntLayerNorm and QuantAct",
        '`integer_operator("layer_norm")`',
        lambda: [*_cases()],
        _normed,
        partial(operators.ours, operator="layer_norm", arithmetic="ibert"),
    ),
)
