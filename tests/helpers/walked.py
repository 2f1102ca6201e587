"""Small tensors of every kind, and the schemes that walk over them."""

import itertools

import torch

from tests.helpers.drawn import normal
from tests.helpers.offered import offered_schemes

#: What a tensor usually is. Nothing here is ever refused.
ORDINARY = {
    "normal": normal(4, 256),
    "constant": torch.full((4, 256), -7.25),
    "one_sided": normal(4, 256).abs() + 100,
    "ties": torch.arange(1024.0).reshape(4, 256) / 2 - 60,
}
TENSORS = {
    **ORDINARY,
    "zeros": torch.zeros(4, 256),
    "zero_blocks": torch.cat([torch.zeros(1, 256), normal(3, 256)]),
    "tiny": normal(4, 256) * 1e-30,
    "nearly_subnormal": normal(4, 256) * 1e-37,
    # None of them 0: 0 / 0 of a scale that underflows is what blocks of zeros show.
    "subnormal": (normal(4, 256) * 1e-42).abs().clamp(min=2.0**-149).copysign(normal(4, 256)),
    "large": normal(4, 256).clamp(-1, 1) * 1e38,
}


def thinned(convention):
    """Every format and mode, each with one of the granularities in turn."""
    by_kind = itertools.groupby(offered_schemes(convention), key=lambda scheme: (scheme.format, scheme.mode))
    for i, (_, schemes) in enumerate(by_kind):
        every = list(schemes)
        yield every[i % len(every)]
