"""The tensors that engines and conventions are run on: shapes × distributions, all made from one seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import torch

#: 1-D to 4-D, sizes of 1, odd sizes, and sizes that blocks of 16 to 256 divide, on the last axis or the
#: first.
SHAPES: tuple[tuple[int, ...], ...] = (
    (1,),
    (7,),
    (64,),
    (1, 1),
    (1, 33),
    (5, 7),
    (4, 64),
    (33, 65),
    (16, 256),
    (3, 5, 7),
    (2, 4, 32),
    (2, 3, 4, 5),
    (2, 2, 4, 64),
    (2, 192),
    (128, 9),
)


def _normal(count: int, g: torch.Generator) -> torch.Tensor:
    return torch.randn(count, generator=g)


def _heavy(count: int, g: torch.Generator) -> torch.Tensor:
    return torch.randn(count, generator=g) / torch.rand(count, generator=g).clamp(min=1e-3)


def _two_decimals(count: int, g: torch.Generator) -> torch.Tensor:
    return (torch.randn(count, generator=g) * 100).round() / 100


def _ties(count: int, g: torch.Generator) -> torch.Tensor:
    """Multiples of a half whose largest magnitude makes scales of powers of two: half of them lie between two
    codes.
    """
    x = torch.randint(-254, 255, (count,), generator=g).to(torch.float32) / 2
    x[0] = -128.0
    return x


def _eighths(count: int, g: torch.Generator) -> torch.Tensor:
    """Small multiples of an eighth: ties of the small float formats."""
    return torch.randint(-48, 49, (count,), generator=g).to(torch.float32) / 8


def _outlier_channels(count: int, g: torch.Generator) -> torch.Tensor:
    x = torch.randn(count, generator=g)
    x[::32] *= 100
    return x


def _blocks_of_zeros(count: int, g: torch.Generator) -> torch.Tensor:
    x = torch.randn(count, generator=g)
    x[: (count + 1) // 2] = 0
    return x


DISTRIBUTIONS: Mapping[str, Callable[[int, torch.Generator], torch.Tensor]] = MappingProxyType(
    {
        "normal": _normal,
        "heavy_tails": _heavy,
        "two_decimals": _two_decimals,
        "ties": _ties,
        "eighths": _eighths,
        "outlier_channels": _outlier_channels,
        "blocks_of_zeros": _blocks_of_zeros,
        "positive": lambda count, g: 10 + 10 * torch.rand(count, generator=g),
        "negative": lambda count, g: -torch.rand(count, generator=g) - 0.5,
        "constant": lambda count, g: torch.full((count,), 5.0),
        "negative_constant": lambda count, g: torch.full((count,), -0.3),
        "zero": lambda count, g: torch.zeros(count),
        "negative_zero": lambda count, g: -torch.zeros(count),
        "small": lambda count, g: torch.randn(count, generator=g) * 1e-6,
        "tiny": lambda count, g: torch.randn(count, generator=g) * 1e-30,
        "subnormal": lambda count, g: torch.randn(count, generator=g) * 1e-39,
        "large": lambda count, g: torch.randn(count, generator=g) * 1e4,
        "huge": lambda count, g: (torch.rand(count, generator=g) * 2 - 1) * 1e38,
    }
)


def tensors() -> Iterator[tuple[str, torch.Tensor]]:
    """Every shape with every distribution, by name: the same ones each time."""
    for number, shape in enumerate(SHAPES):
        for kind, (name, make) in enumerate(DISTRIBUTIONS.items()):
            generator = torch.Generator().manual_seed(1000 * number + kind)
            yield f"{name} {'x'.join(map(str, shape))}", make(math.prod(shape), generator).reshape(shape)
