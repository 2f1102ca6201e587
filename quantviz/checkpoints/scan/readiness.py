"""Warm-up of a scan: imports and kernels that would take seconds before the first tensor is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

import quantviz.checkpoints.scan.scanning  # noqa: F401
from quantviz.checkpoints.scan.listing import Entry
from quantviz.checkpoints.scan.measuring import measure_held
from quantviz.checkpoints.scan.reading import Held
from quantviz.schemes.recipes import as_scheme
from quantviz.tensors.lazy import InMemory

#: Rows and columns of the tensor that is tried: enough for compiled kernels, of whole groups.
_SIDE = 512


def make_ready(recipes: Iterable[str], enough: Callable[[], bool] = lambda: False) -> None:
    """Load the kernels of recipes, compiling those that no process has compiled yet, until it is `enough`."""
    x = torch.linspace(-1, 1, _SIDE).expand(_SIDE, _SIDE).contiguous()
    tried = Held(Entry("", "", "float32", (_SIDE, _SIDE), 0), values=InMemory(x))
    for _ in measure_held(tried, [as_scheme(name) for name in recipes]):
        if enough():
            return
