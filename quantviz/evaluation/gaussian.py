from __future__ import annotations

import math

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments, joined
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme

#: Values of all draws of a small shape, at most 8, which is enough for two digits; and of the part that is
#: drawn of a large shape.
_GAUSSIAN_VALUES = 2**14
_LARGE_GAUSSIAN = 2**18


def gaussian_sqnr_db(scheme: Scheme, shape: tuple[int, ...]) -> float:
    """Return the mean SQNR in dB of normally distributed tensors of `shape` under `scheme`; nan where the
    range is set by hand, or where they cannot be quantized so.

    >>> round(gaussian_sqnr_db(Scheme("int4"), (128, 128)), 1)
    15.0
    """
    if scheme.calibration.id in ("manual_range", "given"):
        return math.nan
    # One small tensor is too few: its largest value sets the scale.
    generator = torch.Generator().manual_seed(0)
    draws = max(1, min(8, _GAUSSIAN_VALUES // math.prod(shape)))
    try:
        moments = joined(
            [Moments.of(quantize(_normal(shape, scheme, generator), scheme)) for _ in range(draws)]
        )
    except QuantVizError:  # custom rules can give NaN
        return math.nan
    return float(METRICS["sqnr_db"].of(moments))


def _normal(shape: tuple[int, ...], scheme: Scheme, generator: torch.Generator) -> torch.Tensor:
    """Return a normal tensor of `shape`; of a large one fewer blocks, which are alike, or, of a large block,
    fewer values with the ends that all would have.
    """
    if math.prod(shape) <= _LARGE_GAUSSIAN:
        return torch.randn(shape, generator=generator)
    layout = scheme.layout(shape)
    if layout.view_shape == shape:
        # Whole blocks along each axis, the last axis' first.
        room = _LARGE_GAUSSIAN // layout.block_size
        lengths = []
        for size, count in reversed(tuple(zip(layout.block_shape, layout.grid_shape, strict=True))):
            some = max(1, min(count, room))
            lengths.append(size * some)
            room //= some
        shape = tuple(reversed(lengths))
    else:
        shape = (*(1 for _ in shape[1:]), layout.block_size * max(1, _LARGE_GAUSSIAN // layout.block_size))
    count = math.prod(shape)
    if count <= 4 * _LARGE_GAUSSIAN:
        return torch.randn(shape, generator=generator)
    longest = shape.index(max(shape))
    fewer = tuple(
        max(1, _LARGE_GAUSSIAN * n // count) if axis == longest else n for axis, n in enumerate(shape)
    )
    values = torch.randn(fewer, generator=generator)
    # The largest of n draws lies where the chance that none is above it is that of one uniform draw.
    chance = torch.rand((2,), generator=generator, dtype=torch.float64)
    ends = torch.special.ndtri(-torch.special.expm1(torch.log(chance) / count)).abs()
    values.flatten()[:2] = torch.stack((-ends[0], ends[1]))
    return values
