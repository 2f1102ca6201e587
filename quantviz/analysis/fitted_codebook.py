"""A codebook fitted to a tensor by k-means, as a scheme like any other."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch

from quantviz.analysis.source_bounds import Atoms, best_levels
from quantviz.door import public
from quantviz.errors import QuantVizError
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.calibration import Given
from quantviz.schemes.formats import MOST_OWN_VALUES, own_codebook_id
from quantviz.schemes.granularity import PerTensor
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import as_input


@public
def fit_codebook(x: Any, scheme: Scheme | str = "int4_per_tensor") -> Scheme:
    """Return the scheme whose codes stand for the values that fit a tensor best, found by k-means.

    One codebook for the whole tensor, of as many values as another scheme has codes (Lloyd 1957, Max 1960;
    for weights: Han et al. 2016). Rounds begin at several starts, one of them the values of that scheme. So
    up to 4,096 numbers never have a larger mean squared error than under it; of more, neighbours are fitted
    together.

    Args:
        x: An input of `quantize`.
        scheme: The other scheme; its granularity does not matter.

    Returns:
        The scheme, whose format's text form holds the values.

    Raises:
        QuantVizError: The scheme has too many codes, or `x` has no finite numbers.

    >>> fit_codebook([[0.0, 0.25, 1.0, 1.25, 1.5]], Scheme("int1", "asymmetric")).format
    'codebook(0.125,1.25)'
    """
    scheme = as_scheme(scheme)
    levels = scheme.number_format.levels
    if levels > MOST_OWN_VALUES:
        raise QuantVizError("codebook_too_long", got=scheme.format, levels=levels, most=MOST_OWN_VALUES)
    values = as_input(x, scheme.nonfinite)[0]
    finite = values[values.isfinite()]
    if not finite.numel():
        raise QuantVizError("input_empty", shape=tuple(values.shape))
    starts = []
    with contextlib.suppress(QuantVizError):
        linear = quantize(finite, scheme.replace(granularity=PerTensor()))
        starts.append(np.unique(linear.x_hat.to(torch.float64).numpy()))
    points = np.unique(best_levels(Atoms.of(finite.numpy()), levels, *starts)[1].astype(np.float32))
    if len(points) < 2:
        # All values are equal; a code of one value would have no bits.
        points = np.sort(np.append(points, np.float32(0 if points[0] else 1)))
    # The shortest text of a float32, read as a number.
    own = own_codebook_id(float(str(each)) for each in points + np.float32(0))
    return Scheme(own, calibration=Given(1.0), nonfinite=scheme.nonfinite)
