"""The attention of queries over rounded keys and values, beside the one over keys and values as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.with_pandas import data_frame
from quantviz.layers.layer_numbers import output_sqnr_db
from quantviz.layers.operands import scheme_of
from quantviz.models.head_rounding import (
    AttentionOptions,
    CacheBytes,
    cache_bytes,
    rounded_matrices,
    rounded_values,
    sides_of_keys,
    sides_of_queries,
)
from quantviz.models.running import relative_error
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import as_real
from quantviz.text import table

if TYPE_CHECKING:
    import pandas

#: Addends up to which a mask takes a token out: models write -inf, the least float16, -1e30 or -10,000.
_HIDDEN = -1e4
#: Times by which the scores' error changes without the part that softmax takes away, from which it misleads.
_MISLEADS = 4.0
_QUANTILE = 0.99


class RoundedPair(NamedTuple):
    """A tensor before and after rounding, float64."""

    before: torch.Tensor
    after: torch.Tensor


class AttentionSides(NamedTuple):
    """Queries, keys and values as they are multiplied, (heads, tokens, channels) each."""

    q: RoundedPair
    k: RoundedPair
    v: RoundedPair | None


class PartError(NamedTuple):
    """The error of a part of attention: ‖after − before‖² / ‖before‖², and the same as SQNR in dB."""

    rel_out: float
    sqnr_db: float


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class AttentionResult(Picklable):
    """Attention after rounding, beside the one before. Rows are the queries of all heads."""

    #: The schemes of keys, values and scores.
    schemes: tuple[Scheme | None, Scheme | None, Scheme | None]
    options: AttentionOptions
    #: q·k·scale, (heads, queries, tokens), without the numbers that a mask adds.
    scores: RoundedPair
    #: Softmax of the scores, likewise; rounded themselves where there is a scheme of theirs.
    weights: RoundedPair
    #: (heads, queries, channels); None without values.
    output: RoundedPair | None
    #: KL divergence of each row's softmax after rounding from the one before, in bits: (heads, queries).
    kl_rows: torch.Tensor
    #: Whether a query sees a token, bool (heads, queries, tokens).
    seen: torch.Tensor
    cache: CacheBytes
    sides: AttentionSides

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        size = " × ".join(f"{n} {name}" for n, name in zip(self.seen.shape, _AXES, strict=True))
        return f"AttentionResult({size}: KL {self.kl:.4g} bits, output error {self.rel_out:.4g})"

    def _repr_html_(self) -> str:
        return table(
            [
                *zip(("keys", "values", "scores"), self.schemes, strict=True),
                ("KL divergence, bits a row", self.kl),
                ("of 99 % of the rows at most", self.kl_99),
                ("largest", self.kl_max),
                *((f"error of the {name}", part.rel_out) for name, part in self.errors.items()),
                ("bytes of the cache", f"{self.cache.keys + self.cache.values:,}"),
                ("the same at 16 bits", f"{self.cache.at_16_bits:,}"),
                *(("note", note) for note in self.notes),
            ]
        )

    @property
    def kl(self) -> float:
        """Return the mean KL divergence of a row, in bits."""
        return self.kl_rows.mean().item()

    @property
    def kl_99(self) -> float:
        """Return the KL divergence that 99 % of the rows do not exceed, in bits; between two rows linear."""
        return self.kl_rows.flatten().quantile(_QUANTILE).item()

    @property
    def kl_max(self) -> float:
        """Return the largest KL divergence of a row, in bits."""
        return self.kl_rows.max().item()

    @cached_property
    def errors(self) -> Mapping[str, PartError]:
        """Return the errors of "scores", "weights" and "output", of the tokens that a query sees."""
        return MappingProxyType(_errors(self, slice(None)))

    @property
    def rel_scores(self) -> float:
        """Return ‖error‖² / ‖scores‖², of the tokens that a query sees."""
        return self.errors["scores"].rel_out

    @property
    def layer_error(self) -> float:
        """Return the scores' error as that of a layer with the rounded keys as weights, which knows no mask:
        ‖error‖² / ‖q·(k − mean)‖² where their mean is taken out, else ‖error‖² / ‖q·k‖².
        """
        before, after = self.scores
        base = before - before.mean(-1, keepdim=True) if self.options.center else before
        return (after - before).square().sum().item() / _squares(base)

    @property
    def rel_out(self) -> float:
        """Return ‖error‖² / ‖output‖²; NaN without values."""
        return self.errors["output"].rel_out if self.output is not None else math.nan

    @cached_property
    def rel_differences(self) -> float:
        """Return the scores' error without what all tokens of a query have in common, in both of its sides.

        Softmax takes away a number that is added to all scores of a query: it depends on their differences
        alone, and so does the KL divergence.
        """
        return relative_error(*(_without_common(side, self.seen) for side in reversed(self.scores)))

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the remark for the user where the scores' error misleads about the weights."""
        before, after = (torch.where(self.seen, side, 0.0) for side in self.scores)
        times = self.rel_differences / self.rel_scores if self.rel_scores else 1.0
        if 1 / _MISLEADS < times < _MISLEADS:
            return ()
        common = [
            100 * (1 - _squares(_without_common(values, self.seen)) / _squares(values))
            for values in (before, after - before)
        ]
        return (
            Note.of(
                "attention_misleads",
                rel_scores=self.rel_scores,
                rel_differences=self.rel_differences,
                of_scores=common[0],
                of_error=common[1],
                kl=self.kl,
            ),
        )

    def record(self) -> dict[str, Any]:
        """Return the schemes, errors and sizes as one record."""
        how = {option.name: getattr(self.options, option.name) for option in fields(self.options)}
        rounded = zip(("keys", "values", "scores"), self.schemes, strict=True)
        schemes = {**dict(rounded), "queries": how.pop("queries"), "weights": how.pop("weights")}
        return {
            **dict(zip(_AXES, self.seen.shape, strict=True)),
            **{f"{name}_scheme": scheme and str(scheme) for name, scheme in schemes.items()},
            **how,
            **_numbers(self, slice(None)),
            "rel_differences": self.rel_differences,
            "key_bytes": self.cache.keys,
            "value_bytes": self.cache.values,
            "bytes_at_16_bits": self.cache.at_16_bits,
        }

    def table(self) -> pandas.DataFrame:
        """Return the errors of each head as a `pandas.DataFrame`, a row a head.

        Raises:
            QuantVizError: pandas is not installed.
        """
        rows = [{"head": head, **_numbers(self, slice(head, head + 1))} for head in range(len(self.seen))]
        return data_frame({name: [row[name] for row in rows] for name in rows[0]})


_AXES = ("heads", "queries", "tokens")


@public
def attention(
    q: Any,
    k: Any,
    v: Any = None,
    keys: Scheme | str | None = None,
    values: Scheme | str | None = None,
    scores: Scheme | str | None = None,
    *,
    mask: Any = None,
    options: AttentionOptions | None = None,
) -> AttentionResult:
    """Return the attention of queries over rounded keys and values, beside the one without rounding.

    Everything is computed in float64. Scales that tokens share are those of the tokens given: the cache is
    rounded as it is, and no token is held back.

    Args:
        q: Queries, (queries, channels) of one head, or with axes of heads, and of a batch, in front.
        k: Keys, (tokens, channels) or likewise; several heads of queries may share one.
        v: Values, likewise; None leaves the outputs out.
        keys: The scheme of each head's keys, a matrix of tokens × channels: "int4_per_token",
            "int4_per_channel", "q4_0"; None leaves them as they are. KIVI's groups of 32 tokens of a channel
            are "uint2,asymmetric,per_group(size=32,axis=0),min_max,hqq".
        values: The scheme of the values, likewise.
        scores: The scheme of each head's q·k·scale, queries × tokens, before a mask is added.
        mask: Added to the scores, (queries, tokens) or with heads: 0 keeps a token, -inf and whatever is as
            low as -10,000 takes it out; or bool, true for a token that is seen. "causal" lets a query see
            the tokens up to its own place, the last query the last token.
        options: How heads are rounded: without their mean, in the basis of a Hadamard matrix, before rotary
            positions, all but the newest tokens; schemes of queries and weights; the factor of the scores.

    Raises:
        QuantVizError: The shapes do not fit, a value is not finite, a query sees no token, or a scheme does
            not fit.

    >>> q, k = [[1.0, 0.0]], [[2.0, 9.0], [0.0, 9.5], [1.0, 8.5]]
    >>> plain = attention(q, k, keys="int4_per_token")
    >>> centred = attention(q, k, keys="int4_per_token", options=AttentionOptions(center=True))
    >>> centred.kl < plain.kl, centred.cache.keys < centred.cache.at_16_bits
    (True, False)
    """
    how = options or AttentionOptions()
    queries, all_keys = (as_heads(heads, name) for heads, name in ((q, "q"), (k, "k")))
    all_values = None if v is None else as_heads(v, "v")
    _check_shapes(queries, all_keys, all_values)
    of_keys, of_values, of_scores = (scheme_of(scheme, "inputs") for scheme in (keys, values, scores))
    q_sides, k_sides, both = _scores(queries, all_keys, (of_keys, of_scores), how)
    added, seen = _masked(mask, both.before.shape)
    p, p_hat = ((side + added).masked_fill(~seen, -math.inf).log_softmax(-1) for side in both)
    kl = torch.where(seen, p.exp() * (p - p_hat), 0.0).sum(-1).clamp_min(0) / math.log(2)
    assert not isinstance(how.weights, str)
    weights = RoundedPair(p.exp(), rounded_matrices(p_hat.exp(), how.weights))
    v_sides = output = None
    if all_values is not None:
        v_sides = RoundedPair(all_values, rounded_values(all_values, of_values, how))
        output = _outputs(weights, v_sides)
    size = cache_bytes(all_keys, all_values, (of_keys, of_values), how)
    schemes = (of_keys, of_values, of_scores)
    sides = AttentionSides(q_sides, k_sides, v_sides)
    return AttentionResult(schemes, how, both, weights, output, kl, seen, size, sides)


def _outputs(weights: RoundedPair, values: RoundedPair) -> RoundedPair:
    share = len(weights.before) // len(values.before)
    return RoundedPair(
        *(side @ own.repeat_interleave(share, 0) for side, own in zip(weights, values, strict=True))
    )


def score_factor(channels: int, options: AttentionOptions) -> float:
    return options.scale or 1 / math.sqrt(channels)


def _scores(
    queries: torch.Tensor,
    keys: torch.Tensor,
    schemes: tuple[Scheme | None, Scheme | None],
    options: AttentionOptions,
) -> tuple[RoundedPair, RoundedPair, RoundedPair]:
    of_queries = RoundedPair(*sides_of_queries(queries, keys.shape[1], options))
    of_keys = RoundedPair(*sides_of_keys(keys, schemes[0], options))
    share = len(queries) // len(keys)
    factor = score_factor(queries.shape[2], options)
    sides = zip(of_queries, of_keys, strict=True)
    before, after = (one @ other.repeat_interleave(share, 0).mT * factor for one, other in sides)
    return of_queries, of_keys, RoundedPair(before, rounded_matrices(after, schemes[1]))


def _errors(result: AttentionResult, heads: slice) -> dict[str, PartError]:
    seen = result.seen[heads]
    parts = {
        "scores": [torch.where(seen, side[heads], 0.0) for side in result.scores],
        "weights": [side[heads] for side in result.weights],
    }
    if result.output is not None:
        parts["output"] = [side[heads] for side in result.output]
    rel_out = {name: relative_error(after, before) for name, (before, after) in parts.items()}
    return {name: PartError(error, output_sqnr_db(error)) for name, error in rel_out.items()}


def _numbers(result: AttentionResult, heads: slice) -> dict[str, float]:
    rows = result.kl_rows[heads].flatten()
    errors = _errors(result, heads)
    return {
        "kl": rows.mean().item(),
        "kl_99": rows.quantile(_QUANTILE).item(),
        "kl_max": rows.max().item(),
        **{f"rel_{name}": part.rel_out for name, part in errors.items()},
        **{f"{name}_sqnr_db": part.sqnr_db for name, part in errors.items()},
    }


def _without_common(values: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Return the values of the tokens seen less their mean over a query's, 0 for others."""
    kept = torch.where(seen, values, 0.0)
    return torch.where(seen, kept - kept.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True), 0.0)


def _squares(values: torch.Tensor) -> float:
    return values.square().sum().item() or 1.0


def _check_shapes(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor | None) -> None:
    fits = queries.shape[2] == keys.shape[2] and queries.shape[0] % keys.shape[0] == 0
    if not fits or (values is not None and values.shape[:2] != keys.shape[:2]):
        shapes = [tuple(tensor.shape) for tensor in (queries, keys, values) if tensor is not None]
        raise QuantVizError("attention.shapes", got=shapes)


def as_heads(tensor: Any, name: str) -> torch.Tensor:
    """Return queries, keys or values as float64 (heads, tokens, channels), a batch's heads one by one."""
    values = as_real(tensor).values.to(torch.float64)
    if not 2 <= values.dim() <= 4 or not values.numel():
        raise QuantVizError("attention.axes", name=name, shape=tuple(values.shape))
    if not bool(torch.isfinite(values).all()):
        raise QuantVizError("attention.nonfinite", name=name)
    return values[None] if values.dim() == 2 else values.flatten(0, -3)


def _masked(mask: Any, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers that a mask adds to the scores, and whether a query sees a token.

    Raises:
        QuantVizError: It is no mask of scores of `shape`, or a query sees no token.
    """
    _, queries, tokens = shape
    if mask is None:
        added = torch.zeros(queries, tokens, dtype=torch.float64)
    elif isinstance(mask, str):
        if mask != "causal":
            raise QuantVizError("attention.mask", got=mask)
        hidden = torch.ones(queries, tokens, dtype=torch.bool).triu(1 + tokens - queries)
        added = torch.zeros(queries, tokens, dtype=torch.float64).masked_fill(hidden, -math.inf)
    else:
        added = _numbers_of_mask(mask)
        fits = 2 <= added.dim() <= 3 and added.shape[-2:] == (queries, tokens)
        fits = fits and bool((added < math.inf).all())
        if not fits or (added.dim() == 3 and len(added) not in (1, shape[0])):
            raise QuantVizError("attention.mask", got=tuple(added.shape))
    seen = (added > _HIDDEN).expand(shape)
    if not bool(seen.any(-1).all()):
        raise QuantVizError("attention.nothing_seen")
    return added.masked_fill(added <= _HIDDEN, 0.0), seen


def _numbers_of_mask(mask: Any) -> torch.Tensor:
    """Return a mask as the numbers that it adds, float64; true is a token that is seen."""
    if not str(getattr(mask, "dtype", "")).endswith("bool"):
        return as_real(mask).values.to(torch.float64)
    numbers = as_real(mask * 1.0).values.to(torch.float64)
    return torch.zeros_like(numbers).masked_fill(numbers == 0, -math.inf)
