"""Dials on a cache of keys and values: tokens that share a scale, and the length of the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.metric_formulas import stored_size
from quantviz.figures.marks import Marks
from quantviz.models.attending import attention
from quantviz.models.head_rounding import AttentionOptions
from quantviz.schemes.granularity import PerBlock
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.lessons.dial_lines import MODEL_PAGE, against
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor

#: Of Llama 2 7B (arXiv 2307.09288): layers, channels of keys in each, weights.
_LAYERS, _CHANNELS, _WEIGHTS = 32, 4096, 6.74e9
_TOKENS = tuple(2**power for power in range(9, 18))

_Picture: TypeAlias = Callable[[torch.Tensor, Sequence[int]], MarksPicture]


def cut(keys: Tensor, values: Tensor, queries: Tensor) -> Series:
    """Return attention at each shape of a block, from a token's channels to a channel's tokens."""
    return _cut("kv_cut", _boxes, (keys, values, queries), {"key_error": "first", "value_error": "second"})


def mean(keys: Tensor, values: Tensor, queries: Tensor) -> Series:
    """Return the same of keys, and of keys less their mean over the tokens."""
    return _cut(
        "kv_mean", _values, (keys, values, queries), {"key_error": "first", "centred_error": "second"}
    )


def _cut(dial: str, picture: _Picture, tensors: tuple[Tensor, ...], lines: Mapping[str, str]) -> Series:
    k, v, q = (source.tensor() for source, _ in tensors)
    size = k.shape[1]
    every = [2**power for power in range(int(math.log2(size)) + 1)]
    numbers = []
    for tokens in every:
        scheme = Scheme(tensors[0][1].format, "symmetric", PerBlock(tokens, size // tokens))
        rounded = {
            "key_error": attention(q, k, v, scheme, mask="causal"),
            "centred_error": attention(q, k, v, scheme, mask="causal", options=AttentionOptions(center=True)),
            "value_error": attention(q, k, v, None, scheme, mask="causal"),
        }
        errors = {}
        for name, result in rounded.items():
            assert result.output
            before, after = result.output
            # Relative squared error, in per cent, mean over the queries.
            errors[name] = 100 * float(((after - before).square().sum(-1) / before.square().sum(-1)).mean())
        numbers.append(errors)
    costs = against(f"{dial}.costs", np.log2(every), numbers, lines, log=True)
    app = {"f": "model:character_twin", "part": "attention", "kv": "int4"}
    return Series(
        tuple(map(str, every)), tuple(numbers), (picture(k, every), costs), lambda _: (MODEL_PAGE, app)
    )


def _boxes(keys: torch.Tensor, every: Sequence[int]) -> MarksPicture:
    """Draw loud keys and the blocks; all tokens would leave no room between the borders."""
    size = keys.shape[1]
    loud = (keys[:size].abs() > 2 * keys.abs().mean()).nonzero().numpy()
    borders = np.stack([_borders(size, size, tokens) for tokens in every])
    return MarksPicture(
        "kv_cut.keys",
        (0, size, 0, size),
        (
            Marks("line", borders[..., 0], borders[..., 1], "muted", 0.75),
            Marks("dots", loud[:, 1] + 0.5, loud[:, 0] + 0.5, "first", 3),
        ),
    )


def _values(keys: torch.Tensor, every: Sequence[int]) -> MarksPicture:
    """Draw keys by value, those of the first block marked, and each channel's mean."""
    k, size = keys.numpy(), keys.shape[1]
    channel = np.arange(size) + 0.5
    block = [np.divmod(np.arange(size), size // tokens) for tokens in every]
    x = np.stack([across for _, across in block]) + 0.5
    y = np.stack([k[token, across] for token, across in block])
    return MarksPicture(
        "kv_mean.keys",
        (0, size, min(0, float(k.min())), float(k.max())),
        (
            Marks("dots", np.broadcast_to(channel, k.shape).reshape(-1), k.reshape(-1), "muted", 1),
            Marks("line", np.array([0, size]), np.zeros(2), "text", 1),
            Marks("dots", channel, k.mean(0), "second", 4, hollow=True),
            Marks("dots", x, y, "first", 3),
        ),
        (("kv_mean.block", "first"), ("kv_mean.channel", "second")),
    )


def _borders(rows: int, cols: int, tokens: int) -> npt.NDArray[np.float64]:
    # Points (x, y) of one broken line.
    broken = (np.nan, np.nan)
    across = [point for y in range(0, rows + 1, tokens) for point in ((0, y), (cols, y), broken)]
    up = [point for x in range(0, cols + 1, cols // tokens) for point in ((x, 0), (x, rows), broken)]
    points = [*across, *up]
    return np.array(points + [broken] * (3 * (rows + cols + 2) - len(points)), dtype=float)


def length(keys: Tensor) -> Series:
    """Return a cache's size in GB by the text's length, beside weights of as many bits, of Llama 2 7B."""
    bits = stored_size(keys[1], keys[0].shape) / math.prod(keys[0].shape)
    weights = {"weights_16": _WEIGHTS * 2 / 1e9, "weights_rounded": _WEIGHTS * bits / 8e9}
    both = 2 * _LAYERS * _CHANNELS
    numbers = [
        {"cache_16": both * tokens * 2 / 1e9, "cache_rounded": both * tokens * bits / 8e9, **weights}
        for tokens in _TOKENS
    ]
    names = ("weights_16", "weights_rounded", "cache_16", "cache_rounded")
    sizes = np.array([[each[name] for name in names] for each in numbers])
    colors = ("muted", "third", "first", "second")
    marks = tuple(
        Marks("rows", sizes[:, at : at + 1], np.full(1, -at), color, 0.7) for at, color in enumerate(colors)
    )
    named = tuple((f"kv_length.{name}", color) for name, color in zip(names, colors, strict=True))
    picture = MarksPicture("kv_length.sizes", (0, 2 * weights["weights_16"], -3.5, 0.5), marks, named)
    link = {"f": "model:character_twin", "part": "attention", "kv": "int4"}
    return Series(tuple(map(str, _TOKENS)), tuple(numbers), (picture,), lambda _: (MODEL_PAGE, link))
