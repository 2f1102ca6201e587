"""How attention rounds what its heads have: queries, keys and values, before or after positions turn them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_size
from quantviz.layers.operands import scheme_of
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public_class
from quantviz.quantization.explanation import Explanation, explain
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.hadamard import hadamard_transform

#: Bits of a number that is kept as it is.
_PLAIN_BITS = 16


@checked_fields
@public_class
@dataclass(frozen=True)
class AttentionOptions(Picklable):
    """How attention rounds and what it computes, besides the schemes of keys, values and scores.

    >>> AttentionOptions(residual=32).rounded_tokens(100)
    (96, 68)
    """

    #: Whether the mean of each key channel over the tokens is taken out before rounding: it adds one number
    #: to all scores of a query, which softmax takes away again (SageAttention, arXiv 2410.02367).
    center: bool = False
    #: Whether queries, keys and values are rounded in the basis of a Hadamard matrix over the channels of a
    #: head (QuaRot, arXiv 2404.00456).
    hadamard: bool = False
    #: The R of KIVI (arXiv 2402.02750, algorithm 1): keys are rounded R tokens at a time, so the last
    #: `tokens % R` stay as they are, and of the values the last R.
    residual: int = 0
    #: The schemes of the queries, and of the weights after softmax; None leaves them as they are.
    queries: Scheme | str | None = None
    weights: Scheme | str | None = None
    #: The base of rotary positions (RoFormer, arXiv 2104.09864), by which q and k are yet to be turned; 0 for
    #: none. The last query has the position of the last token.
    rotary: float = 0.0
    #: The channels that are turned together: "halves" i and i + d/2 as in Llama, "pairs" 2i and 2i + 1.
    rotary_layout: Literal["halves", "pairs"] = "halves"
    #: Whether keys and queries are rounded "after" they are turned, or "before" (KVQuant, arXiv 2401.18079).
    rounded: Literal["after", "before"] = "after"
    #: The factor of the scores; 0 for 1 / √channels.
    scale: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("queries", "weights"):
            object.__setattr__(self, name, scheme_of(getattr(self, name), "inputs"))
        for name, words in (("rotary_layout", ("halves", "pairs")), ("rounded", ("after", "before"))):
            if getattr(self, name) not in words:
                got = getattr(self, name)
                raise QuantVizError("attention.word", name=name, got=got, known=", ".join(words))
        for name in ("residual", "rotary", "scale"):
            if not 0 <= getattr(self, name) < math.inf:
                raise QuantVizError("attention.number", name=name, got=getattr(self, name))

    def rounded_tokens(self, tokens: int) -> tuple[int, int]:
        """Return the numbers of tokens of which keys and values are rounded."""
        of_keys = tokens % self.residual if self.residual else 0
        return tokens - of_keys, max(0, tokens - self.residual)


class CacheBytes(NamedTuple):
    """Sizes in bytes: of keys and values as they are stored, scales included, and of both at 16 bits."""

    keys: int
    values: int
    at_16_bits: int


def sides_of_queries(
    queries: torch.Tensor, tokens: int, options: AttentionOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return queries (heads, queries, channels) as they are multiplied, before and after rounding."""
    positions = torch.arange(tokens - queries.shape[1], tokens)
    scheme = options.queries
    assert not isinstance(scheme, str)
    return _both(queries, positions, scheme, queries.shape[1], options)


def sides_of_keys(
    keys: torch.Tensor, scheme: Scheme | None, options: AttentionOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys (heads, tokens, channels) as they are multiplied, before and after rounding."""
    tokens = keys.shape[1]
    return _both(
        keys, torch.arange(tokens), scheme, options.rounded_tokens(tokens)[0], options, center=options.center
    )


def rounded_values(values: torch.Tensor, scheme: Scheme | None, options: AttentionOptions) -> torch.Tensor:
    """Return values (heads, tokens, channels) once rounded."""
    count = options.rounded_tokens(values.shape[1])[1]
    return _rounded(values, scheme, count, options, center=False)


def rounded_matrices(matrices: torch.Tensor, scheme: Scheme | None) -> torch.Tensor:
    """Return each matrix of (heads, rows, columns) once rounded by its own scales, float64."""
    if scheme is None or not matrices.numel():
        return matrices
    return torch.stack(
        [quantize(matrix.to(torch.float32), scheme).x_hat.to(torch.float64) for matrix in matrices]
    )


def cache_bytes(
    keys: torch.Tensor,
    values: torch.Tensor | None,
    schemes: tuple[Scheme | None, Scheme | None],
    options: AttentionOptions,
) -> CacheBytes:
    """Return the sizes of keys and values, (heads, tokens, channels): what is not rounded has 16 bits a
    number.
    """
    bits = [0, 0]
    plain = 0
    for place, part in enumerate((keys, values)):
        if part is None:
            continue
        heads, tokens, channels = part.shape
        plain += part.numel() * _PLAIN_BITS
        scheme = schemes[place]
        count = 0 if scheme is None else options.rounded_tokens(tokens)[place]
        rest = (tokens - count) * channels
        if place == 0 and options.center:
            rest += channels
        own = stored_size(scheme, (count, channels)) if scheme is not None and count else 0
        bits[place] = heads * (own + rest * _PLAIN_BITS)
    return CacheBytes(math.ceil(bits[0] / 8), math.ceil(bits[1] / 8), plain // 8)


def turned(heads: torch.Tensor, positions: torch.Tensor, base: float, layout: str) -> torch.Tensor:
    """Return heads (heads, tokens, channels) turned by rotary positions, float64.

    Channel pair i of d / 2 turns by position · base^(−2i/d).
    """
    channels = heads.shape[2]
    if channels % 2:
        raise QuantVizError("attention.odd_channels", got=channels)
    steps = torch.arange(0, channels, 2, dtype=torch.float64) / channels
    angles = positions[:, None] * base**-steps
    sine, cosine = angles.sin(), angles.cos()
    if layout == "halves":
        one, other = heads.chunk(2, -1)
        return torch.cat((one * cosine - other * sine, other * cosine + one * sine), -1)
    one, other = heads[..., ::2], heads[..., 1::2]
    return torch.stack((one * cosine - other * sine, other * cosine + one * sine), -1).flatten(-2)


def _both(
    heads: torch.Tensor,
    positions: torch.Tensor,
    scheme: Scheme | None,
    count: int,
    options: AttentionOptions,
    *,
    center: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return heads turned to their positions, and the same with the first `count` tokens rounded."""

    def placed(side: torch.Tensor) -> torch.Tensor:
        return turned(side, positions, options.rotary, options.rotary_layout) if options.rotary else side

    before = placed(heads)
    if scheme is None:
        return before, before
    if options.rounded == "before":
        return before, placed(_rounded(heads, scheme, count, options, center=center))
    return before, _rounded(before, scheme, count, options, center=center)


def _rounded(
    heads: torch.Tensor, scheme: Scheme | None, count: int, options: AttentionOptions, *, center: bool
) -> torch.Tensor:
    if scheme is None or not count:
        return heads
    moved, mean = _moved(heads, count, options, center=center)
    moved = rounded_matrices(moved, scheme)
    if options.hadamard:
        moved = hadamard_transform(moved, heads.shape[2], back=True)
    return torch.cat((moved + mean, heads[:, count:]), 1)


def _moved(
    heads: torch.Tensor, count: int, options: AttentionOptions, *, center: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first `count` tokens in the basis in which they are rounded, and the mean that is taken out
    before.
    """
    mean = heads.mean(1, keepdim=True) if center else torch.zeros((), dtype=heads.dtype)
    moved = heads[:, :count] - mean
    return (hadamard_transform(moved, heads.shape[2]) if options.hadamard else moved), mean


class RoundedCell(NamedTuple):
    """The mean that was taken out of a key's or value's channel, 0 for none, and the derivation of its
    rounding.

    In the basis of a Hadamard matrix the derivation is that of the coefficient at its place.
    """

    mean: float
    why: Explanation


def explain_rounding(
    head: torch.Tensor, scheme: Scheme | None, place: tuple[int, int], options: AttentionOptions, part: str
) -> RoundedCell | None:
    """Return how a cell (token, channel) of one head's keys ("k") or values ("v") was rounded; None if it was
    not.
    """
    count = options.rounded_tokens(len(head))[part == "v"]
    if scheme is None or place[0] >= count:
        return None
    if part == "k" and options.rotary and options.rounded == "after":
        head = turned(head[None], torch.arange(len(head)), options.rotary, options.rotary_layout)[0]
    moved, mean = _moved(head[None], count, options, center=options.center and part == "k")
    taken = mean.flatten()[place[1]].item() if mean.dim() else 0.0
    return RoundedCell(taken, explain(quantize(moved[0].to(torch.float32), scheme), place))
