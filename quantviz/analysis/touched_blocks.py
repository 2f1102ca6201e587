"""The error without some cells, found by the blocks that they lie in: all others stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.granularity import Flat, Granularity, PerChannel, PerGroup
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import block_numbers, block_sums, layout_of_runs, rows_of_blocks, viewed

Array = npt.NDArray[Any]

#: Above this share of the blocks it does not pay.
_MOST = 0.5


class TouchedBlocks:
    """A small tensor with each block a row, and its error now. Groups under one scale of scales are one."""

    def __init__(self, study: Study, as_rows: Scheme) -> None:
        r = study.result
        assert r is not None
        search = study.scheme.search
        self._layout = study.layout if search is None else layout_of_runs(study.layout, search.run)
        self._scheme = as_rows
        count = self._layout.block_count
        size = self._layout.block_size
        self._rows = viewed(rows_of_blocks(r.x, self._layout, 0.0), (count, size))
        squares = r.error.to(torch.float64).square().masked_fill(~torch.isfinite(r.x), 0)
        self._noise: Array = block_sums(squares, self._layout).flatten().numpy()

    @classmethod
    def of(cls, study: Study) -> TouchedBlocks | None:
        """Return the blocks; None for a large tensor, or if blocks depend on each other or are not full."""
        scheme = study.scheme
        layout = study.layout
        if (
            study.result is None
            or layout.block_count < 2
            or layout.padded_size != study.x.count
            or study.of_file
            or scheme.arithmetic.scale.depends_on_tensor
            or scheme.arithmetic.ties == "stochastic"
        ):
            return None
        own = scheme.granularity
        rows: Granularity = PerGroup(own.size) if isinstance(own, PerGroup) else PerChannel(0)
        if isinstance(own, Flat):
            rows = own
        try:
            return cls(study, scheme.replace(granularity=rows, nonfinite="ignore"))
        except QuantVizError:
            # The engine has no such blocks.
            return None

    def noise_without(self, places: Array) -> float | None:
        """Return Σe² of the other cells with scales found without those at flat `places`, ascending.

        None where they lie in most of the blocks.
        """
        at = torch.from_numpy(places)
        numbers = block_numbers(at, self._layout).numpy()
        touched, rows = np.unique(numbers, return_inverse=True)
        if len(touched) > _MOST * self._layout.block_count:
            return None
        left = np.ones(self._layout.block_count, bool)
        left[touched] = False
        noise = float(self._noise[left].sum())
        if len(touched):
            values = self._rows[torch.from_numpy(touched)]
            values[torch.from_numpy(rows), self._inside(places)] = torch.nan
            noise += float(quantize(values, self._scheme).error.to(torch.float64).square().nansum())
        return noise

    def _inside(self, places: Array) -> torch.Tensor:
        # Counted row by row.
        layout = self._layout
        inside = np.zeros_like(places)
        for at, size in zip(np.unravel_index(places, layout.view_shape), layout.block_shape, strict=True):
            inside = inside * size + at % size
        return torch.from_numpy(inside)
