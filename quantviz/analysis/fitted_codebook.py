"""A codebook fitted to a tensor by k-means, as a scheme like any other."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch

from quantviz.analysis.source_bounds import Atoms, best_levels
from quantviz.errors import QuantVizError
from quantviz.public_calls import public
from quantviz.quantization.quantizer import choose_qparams, quantize
from quantviz.quantization.scale_search import column_weights
from quantviz.schemes.calibration import Given
from quantviz.schemes.formats import MOST_OWN_VALUES, own_codebook_id
from quantviz.schemes.granularity import PerTensor
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import expand
from quantviz.tensors.conversion import as_input

#: Least weight of an error, as a share of the largest.
_LEAST = 1e-12


@public
def fit_codebook(x: Any, scheme: Scheme | str = "int4_per_tensor", *, importance: Any = None) -> Scheme:
    """Return the scheme whose codes stand for the values that fit a tensor best, found by k-means.

    One codebook for the whole tensor, of as many values as another scheme has codes (Lloyd 1957, Max 1960;
    for weights: Han et al. 2016). If that scheme has several scales, each of its blocks is divided by its
    largest magnitude first, so that the largest value of the codebook is 1. Rounds begin at several starts,
    one of them the values of that scheme. So up to 4,096 numbers never have a larger mean squared error than
    under one that is symmetric, without a search; of more, neighbours are fitted together.

    Args:
        x: An input of `quantize`.
        scheme: The other scheme, of whose granularity the result is.
        importance: The weight of the squared errors in each column, one number of 0 or more for each index of
            the last axis, such as the mean squares of a layer's inputs (Kim et al. 2024, "SqueezeLLM").

    Returns:
        The scheme, whose format's text form holds the values.

    Raises:
        QuantVizError: The scheme has too many codes, `x` has no finite numbers, or the importance does not
            fit its columns.

    >>> fit_codebook([[0.0, 0.25, 1.0, 1.25, 1.5]], Scheme("int1", "asymmetric")).format
    'codebook(0.125,1.25)'
    >>> from quantviz.schemes.granularity import PerChannel
    >>> str(fit_codebook([[0.0, 0.5, 1.0], [0.0, 2.0, 4.0]], Scheme("int2", granularity=PerChannel(0))))
    'codebook(0.0,0.5,1.0),symmetric,per_channel,min_max,course'
    """
    scheme = as_scheme(scheme)
    levels = scheme.number_format.levels
    if levels > MOST_OWN_VALUES:
        raise QuantVizError("codebook_too_long", got=scheme.format, levels=levels, most=MOST_OWN_VALUES)
    values = as_input(x, scheme.nonfinite)[0]
    finite = values.isfinite()
    if not finite.any():
        raise QuantVizError("input_empty", shape=tuple(values.shape))
    single = scheme.granularity.single
    scales = torch.ones_like(values) if single else _magnitudes(values, scheme)
    units = (values / scales)[finite]
    starts = []
    with contextlib.suppress(QuantVizError):
        linear = quantize(units, scheme.replace(granularity=PerTensor()))
        starts.append(np.unique(linear.x_hat.to(torch.float64).numpy()))
    atoms = Atoms.of(units.numpy(), _weights(scales, importance)[finite].numpy())
    points = np.unique(
        best_levels(atoms, levels, *starts, largest=None if single else 1.0)[1].astype(np.float32)
    )
    if len(points) < 2:
        # All values are equal; a code of one value would have no bits.
        points = np.sort(np.append(points, np.float32(0 if points[0] else 1)))
    # The shortest text of a float32, read as a number.
    own = own_codebook_id(float(str(each)) for each in points + np.float32(0))
    if single:
        return Scheme(own, calibration=Given(1.0), nonfinite=scheme.nonfinite)
    return Scheme(own, granularity=scheme.granularity, nonfinite=scheme.nonfinite)


def _weights(scales: torch.Tensor, importance: Any) -> torch.Tensor:
    """Return the weights of squared errors in units of each value's scale, above 0, float64."""
    weights = scales.to(torch.float64).square()
    if importance is not None:
        weights = weights * column_weights(importance, tuple(scales.shape))
    least = _LEAST * weights.max()
    return weights.clamp(min=least) if least else torch.ones_like(weights)


def _magnitudes(values: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Return each value's scale under a codebook whose largest value is 1, float64."""
    unit = Scheme("codebook(-1.0,1.0)", granularity=scheme.granularity, nonfinite=scheme.nonfinite)
    shape = tuple(values.shape)
    scales = choose_qparams(values, unit).scale.to(torch.float64)
    return expand(scales, unit.layout(shape), shape).expand(shape)
