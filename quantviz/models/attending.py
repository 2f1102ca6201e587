"""The attention of queries over rounded keys and values, beside the one over keys and values as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from quantviz.door import check_fields, checked_fields, public, public_class
from quantviz.errors import QuantVizError
from quantviz.layers.operands import scheme_of
from quantviz.models.running import relative_error
from quantviz.pickling import Picklable
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import as_real
from quantviz.text import table

#: Scores below it are those of tokens that a mask takes out, as -inf does.
_MASKED = -1e29


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class AttentionResult(Picklable):
    """Attention after rounding, beside the one before. Rows are the queries of all heads."""

    keys: Scheme | None
    values: Scheme | None
    #: Whether the mean of each key channel over the tokens was taken out before rounding.
    is_centred: bool
    #: Softmax of the scores, float64 (heads, queries, tokens): before and after.
    before: torch.Tensor
    after: torch.Tensor
    #: Mean KL divergence of a row after rounding from the row before, in bits.
    kl: float
    #: ‖error‖² / ‖scores‖² of the scores, without masked ones; and of the outputs, NaN without values.
    rel_scores: float
    rel_out: float

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        size = f"{len(self.before)} heads × {self.before.shape[1]} queries × {self.before.shape[2]} tokens"
        return f"AttentionResult({size}: KL {self.kl:.4g} bits, output error {self.rel_out:.4g})"

    def _repr_html_(self) -> str:
        return table(
            [
                ("keys", self.keys),
                ("values", self.values),
                ("mean of the keys taken out", self.is_centred),
                ("KL divergence, bits a row", f"{self.kl:.4g}"),
                ("error of the scores", f"{self.rel_scores:.4g}"),
                ("error of the outputs", f"{self.rel_out:.4g}"),
            ]
        )


@public
def attention(
    q: Any,
    k: Any,
    v: Any = None,
    keys: Scheme | str | None = None,
    values: Scheme | str | None = None,
    *,
    center: bool = False,
    mask: Any = None,
    scale: float | None = None,
) -> AttentionResult:
    """Return the attention of queries over rounded keys and values, beside the one without rounding.

    Scores are q·k·scale, in float64. Scales that tokens share are those of the tokens given: the cache is
    rounded as it is, and no token is held back.

    Args:
        q: Queries, (queries, channels) of one head or (heads, queries, channels).
        k: Keys, (tokens, channels) or (heads, tokens, channels); several heads of queries may share one.
        v: Values, likewise; None leaves the outputs out.
        keys: The scheme of each head's keys, a matrix of tokens × channels: "int4_per_token",
            "int4_per_channel", "q4_0"; None leaves them as they are.
        values: The scheme of the values, likewise.
        center: Whether the mean of each channel over the tokens is taken out of the keys before they are
            rounded. It adds one number to all scores of a query, which softmax takes away again.
        mask: Added to the scores, (queries, tokens) or with heads: 0 keeps a token, -inf or -1e30 takes it
            out; "causal" lets a query see the tokens up to its own place, the last query the last token.
        scale: The factor of the scores; by default 1 / √channels.

    Raises:
        QuantVizError: The shapes do not fit, a value is not finite, a query sees no token, or a scheme does
            not fit.

    >>> q, k = [[1.0, 0.0]], [[2.0, 9.0], [0.0, 9.5], [1.0, 8.5]]
    >>> plain, centred = (attention(q, k, keys="int4_per_token", center=each).kl for each in (False, True))
    >>> centred < plain
    True
    """
    queries, all_keys = (_heads(heads, name) for heads, name in ((q, "q"), (k, "k")))
    all_values = None if v is None else _heads(v, "v")
    _check_shapes(queries, all_keys, all_values)
    of_keys, of_values = (scheme_of(scheme, "inputs") for scheme in (keys, values))
    mean = all_keys.mean(1, keepdim=True) if center else torch.zeros(())
    rounded = _rounded(all_keys - mean, of_keys) + mean
    share = queries.shape[0] // all_keys.shape[0]
    added = _mask(mask, queries.shape[1], all_keys.shape[1])
    factor = 1 / math.sqrt(queries.shape[2]) if scale is None else scale
    scores = [queries @ side.repeat_interleave(share, 0).mT * factor + added for side in (all_keys, rounded)]
    seen = scores[0] > _MASKED
    if not bool(seen.any(-1).all()):
        raise QuantVizError("attention.nothing_seen")
    p, p_hat = (score.log_softmax(-1) for score in scores)
    kl = torch.where(seen, p.exp() * (p - p_hat), 0.0).sum(-1).clamp_min(0).mean() / math.log(2)
    rel_out = math.nan
    if all_values is not None:
        pairs = ((p, all_values), (p_hat, _rounded(all_values, of_values)))
        y, y_hat = (logs.exp() @ head_values.repeat_interleave(share, 0) for logs, head_values in pairs)
        rel_out = relative_error(y_hat, y)
    rel_scores = relative_error(*(torch.where(seen, score, 0.0) for score in reversed(scores)))
    return AttentionResult(of_keys, of_values, center, p.exp(), p_hat.exp(), float(kl), rel_scores, rel_out)


def _check_shapes(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor | None) -> None:
    """Raise a `QuantVizError` for heads that do not belong to each other."""
    fits = queries.shape[2] == keys.shape[2] and queries.shape[0] % keys.shape[0] == 0
    if not fits or (values is not None and values.shape[:2] != keys.shape[:2]):
        shapes = [tuple(tensor.shape) for tensor in (queries, keys, values) if tensor is not None]
        raise QuantVizError("attention.shapes", got=shapes)


def _heads(tensor: Any, name: str) -> torch.Tensor:
    """Return queries, keys or values as float64 (heads, tokens, channels)."""
    values = as_real(tensor).values.to(torch.float64)
    if values.dim() == 2:
        values = values[None]
    if values.dim() != 3 or not values.numel():
        raise QuantVizError("attention.axes", name=name, shape=tuple(values.shape))
    if not bool(torch.isfinite(values).all()):
        raise QuantVizError("attention.nonfinite", name=name)
    return values


def _rounded(heads: torch.Tensor, scheme: Scheme | None) -> torch.Tensor:
    """Return each head's matrix once rounded, float64."""
    if scheme is None:
        return heads
    return torch.stack([quantize(head.to(torch.float32), scheme).x_hat.to(torch.float64) for head in heads])


def _mask(mask: Any, queries: int, tokens: int) -> torch.Tensor:
    """Return the numbers that a mask adds to the scores, float64."""
    if mask is None:
        return torch.zeros((), dtype=torch.float64)
    if isinstance(mask, str):
        if mask != "causal":
            raise QuantVizError("attention.mask", got=mask)
        hidden = torch.ones(queries, tokens, dtype=torch.bool).triu(1 + tokens - queries)
        return torch.zeros(queries, tokens, dtype=torch.float64).masked_fill(hidden, -math.inf)
    added = as_real(mask).values.to(torch.float64)
    if added.dim() not in (2, 3) or added.shape[-2:] != (queries, tokens):
        raise QuantVizError("attention.mask", got=tuple(added.shape))
    return added
