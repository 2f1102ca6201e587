"""K-means (Han et al. 2016, "Deep Compression"): all weights share a codebook fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from quantviz.analysis.fitted_codebook import fit_codebook
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.layers.methods.contract import Rounded, RoundingMethod, Task
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.formats import MOST_OWN_VALUES
from quantviz.schemes.scheme import Scheme


@dataclass(frozen=True)
class KMeans(RoundingMethod):
    """Round to a codebook of the weight's own, with as many values as the weight's scheme has codes.

    It takes the place of the scheme: one codebook for the whole weight, whatever shares a scale there. No
    inputs are needed.
    """

    id: ClassVar[str] = "kmeans"
    cost: ClassVar[str] = "m n"

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is not None and weights.number_format.levels > MOST_OWN_VALUES:
            levels = weights.number_format.levels
            yield QuantVizError("codebook_too_long", got=weights.format, levels=levels, most=MOST_OWN_VALUES)

    def round(self, task: Task) -> Rounded:
        own = fit_codebook(task.values, task.scheme)
        bits = [bits_per_element(each, tuple(task.w.shape)) for each in (own, task.scheme)]
        return Rounded(quantize(task.values, own), extra_bits=bits[0] - bits[1])
