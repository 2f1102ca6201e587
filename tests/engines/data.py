"""The tensors that engines and conventions are run on, all made from one seed: shapes × distributions, ranges
from outside, special values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Trial:
    """A tensor that an engine is asked about."""

    #: One of `QUESTIONS`.
    question: str
    label: str
    x: torch.Tensor
    #: The tensor whose range is used, where it is not that of `x`.
    seen: torch.Tensor | None = None


def own_trials(tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[Trial]:
    """Yield named tensors that are quantized in their own range."""
    for label, x in tensors:
        yield Trial("own range", label, x)


#: What a range is taken from, made of the tensor that is quantized in it: so the codes reach both clamps, one
#: of them, or none.
OUTSIDE: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = MappingProxyType(
    {
        "half as wide": lambda x: x / 2,
        "a fifth as wide": lambda x: x / 5,
        "three times as wide": lambda x: x * 3,
        "its positive part": lambda x: x.clamp(min=0) / 2,
        "moved up": lambda x: x / 2 + x.abs().max(),
        "moved down": lambda x: x / 2 - x.abs().max(),
        "zeros": torch.zeros_like,
        "tiny": lambda x: x * 1e-30,
    }
)


def given_trials() -> Iterator[Trial]:
    """Yield every shape with each range from outside, of values that tie and values that do not."""
    for number, shape in enumerate(SHAPES):
        for kind, (name, outside) in enumerate(OUTSIDE.items()):
            values = ("normal", "two_decimals", "ties", "heavy_tails")[(number + kind) % 4]
            generator = torch.Generator().manual_seed(50_000 + 1000 * number + kind)
            x = DISTRIBUTIONS[values](math.prod(shape), generator).reshape(shape)
            yield Trial("given range", f"{values} {'x'.join(map(str, shape))}, {name}", x, outside(x))


#: Shapes of tensors with special values.
_FEW_SHAPES = ((7,), (64,), (1, 33), (4, 64), (2, 4, 32), (16, 256))
_LARGEST = torch.finfo(torch.float32).max
_SPECIAL_VALUES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("both zeros", (-0.0, 0.0)),
    ("subnormals", (2.0**-149, -(2.0**-127), 1e-40, -1e-42)),
    ("the largest", (_LARGEST, -_LARGEST)),
    ("half of the largest", (_LARGEST / 2, -_LARGEST / 2)),
    ("the largest on one side", (_LARGEST,)),
)


def _sprinkled(shape: tuple[int, ...], values: tuple[float, ...], seed: int) -> torch.Tensor:
    """Return normal numbers of which each fifth is one of `values`."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g).flatten()
    x[::5] = torch.tensor(values)[torch.arange(len(x[::5])) % len(values)]
    return x.reshape(shape)


def _special_numbers() -> Iterator[tuple[str, torch.Tensor]]:
    """Yield zeros of both signs, subnormals and the largest numbers among others, and every magnitude."""
    for number, shape in enumerate(_FEW_SHAPES):
        name = "x".join(map(str, shape))
        for kind, (label, values) in enumerate(_SPECIAL_VALUES):
            yield f"{label} {name}", _sprinkled(shape, values, 70_000 + 10 * number + kind)
        yield f"a subnormal alone {name}", torch.zeros(shape).index_fill(-1, torch.tensor([0]), 2.0**-149)
    # A row for each power of two, from the smallest float32 to the largest, and one for what lies between.
    g = torch.Generator().manual_seed(71_000)
    exponents = torch.arange(-149, 128, dtype=torch.float64)
    for label, top in (("powers", 1.0), ("between powers", 1.7)):
        pattern = torch.rand((len(exponents), 32), generator=g, dtype=torch.float64) * 2 - 1
        pattern[:, 0] = top
        yield f"{label} of two", (pattern * torch.exp2(exponents)[:, None]).to(torch.float32)
    # One scale for all: magnitudes around the smallest scales that engines allow.
    for exponent in (
        -148,
        -140,
        -133,
        -127,
        -126,
        -125,
        -119,
        -100,
        -40,
        -30,
        -26,
        -23,
        -17,
        -13,
        -9,
        -6,
        100,
    ):
        x = (torch.rand((2, 32), generator=g, dtype=torch.float64) * 2 - 1) * 2.0**exponent
        yield f"up to 2^{exponent}", x.to(torch.float32)


def special_rows(length: int) -> Iterator[Trial]:
    """Yield rows of special numbers, and rows of several magnitudes, in their own range."""
    for kind, (label, values) in enumerate(_SPECIAL_VALUES):
        yield Trial("special numbers", label, _sprinkled((1, length), values, 73_000 + kind))
    g = torch.Generator().manual_seed(73_100)
    for exponent in (-148, -133, -127, -119, -63, -40, -23, -17, 12, 17, 20, 64, 100):
        x = (torch.rand((1, length), generator=g, dtype=torch.float64) * 2 - 1) * 2.0**exponent
        yield Trial("special numbers", f"up to 2^{exponent}", x.to(torch.float32))


def special_trials() -> Iterator[Trial]:
    """Yield tensors with special numbers in their own range, and with ±Inf and NaN in one from outside."""
    for label, x in _special_numbers():
        yield Trial("special numbers", label, x)
    for number, shape in enumerate(_FEW_SHAPES):
        name = "x".join(map(str, shape))
        for kind, (question, values) in enumerate(
            (("infinity", (math.inf, -math.inf)), ("NaN", (math.nan, -math.nan)))
        ):
            seed = 72_000 + 10 * number + kind
            yield Trial(
                question,
                f"{question} {name}",
                _sprinkled(shape, values, seed),
                _sprinkled(shape, (1.5,), seed),
            )


def half_trials(tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[Trial]:
    """Yield named tensors in float16 and bfloat16, where that has such numbers."""
    for label, x in tensors:
        for dtype in (torch.float16, torch.bfloat16):
            half = x.to(dtype)
            # Of many zeros of both signs, which one is the smallest is left open.
            if bool((torch.isfinite(half) & ((half != 0) | (x == 0))).all()):
                yield Trial("half and bfloat16 input", f"{label} {str(dtype).removeprefix('torch.')}", half)


def trials() -> Iterator[Trial]:
    """Yield all that an engine is asked: the same each time."""
    yield from own_trials(tensors())
    yield from given_trials()
    yield from special_trials()
    yield from half_trials(tensors())
