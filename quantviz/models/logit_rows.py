"""Rows of logits beside a reference's: KL of their softmax, the first choice, the likelihood of tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.tensors.conversion import as_plain

_BITS_PER_NAT = 1 / math.log(2)


@dataclass(frozen=True)
class LogitDifference:
    """Logits beside the reference's, over rows of the last axis. A number that is not known is NaN.

    KL is KL(softmax(reference) ‖ softmax(run)) of a row, in bits: llama.cpp's KLD in nats / ln 2. The
    percentiles lie between two rows as llama.cpp's do, in a straight line.
    """

    #: The mean, the median, the 99th percentile and the maximum of KL over rows.
    kl: float = math.nan
    kl_median: float = math.nan
    kl_99: float = math.nan
    kl_max: float = math.nan
    #: The share of rows whose largest logit is the same.
    same_top: float = math.nan
    #: exp of the mean negative log-likelihood of the next token, in the run and in the reference.
    perplexity: float = math.nan
    reference_perplexity: float = math.nan


NO_LOGITS = LogitDifference()


class WithLogits:
    """A result that has the difference of its logits: the two numbers that most ask for."""

    logits: LogitDifference

    @property
    def kl(self) -> float:
        """Return the mean over rows of the KL divergence from the reference's, in bits."""
        return self.logits.kl

    @property
    def same_top(self) -> float:
        """Return the share of rows whose largest logit is the same."""
        return self.logits.same_top


class LogitRows:
    """Rows of logits beside the reference's, collected a part at a time; rows with NaN are left out.

    >>> rows = LogitRows()
    >>> rows.add(torch.zeros(3, 2), torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, -math.inf]]))
    >>> rows.difference().kl_median, rows.difference().kl_max, rows.difference().same_top
    (0.0, inf, 1.0)
    """

    def __init__(self) -> None:
        self._kl: list[torch.Tensor] = []
        self._same = 0
        self._likelihoods: list[torch.Tensor] = []

    def add(self, x: torch.Tensor, y: torch.Tensor, targets: torch.Tensor | None = None) -> None:
        """Add rows of the reference's logits x and of the run's y.

        Targets are the tokens that follow, in the shape of the rows, and negative where none is scored.
        """
        p = torch.log_softmax(x.double(), -1)
        q = torch.log_softmax(y.double(), -1)
        known = ~(p.isnan() | q.isnan()).any(-1)
        # A logit of −Inf has no part in its row. Rounding can leave a little less than 0.
        kl = torch.where(p > -math.inf, p.exp() * (p - q), 0.0).sum(-1).clamp_min(0)
        self._kl.append(kl[known])
        self._same += int((x.argmax(-1) == y.argmax(-1))[known].sum())
        if targets is not None:
            scored = known & (targets >= 0)
            tokens = targets[scored].unsqueeze(-1)
            pairs = [rows[scored].gather(-1, tokens).squeeze(-1) for rows in (q, p)]
            self._likelihoods.append(torch.stack(pairs))

    def difference(self) -> LogitDifference:
        kl = np.sort(torch.cat(self._kl).numpy() * _BITS_PER_NAT) if self._kl else np.empty(0)
        if not len(kl):
            return NO_LOGITS
        perplexity = reference_perplexity = math.nan
        if self._likelihoods:
            perplexity, reference_perplexity = (-torch.cat(self._likelihoods, 1).mean(1)).exp().tolist()
        return LogitDifference(
            kl=float(kl.mean()),
            kl_median=_percentile(kl, 0.5),
            kl_99=_percentile(kl, 0.99),
            kl_max=float(kl[-1]),
            same_top=self._same / len(kl),
            perplexity=perplexity,
            reference_perplexity=reference_perplexity,
        )


def _percentile(ordered: np.ndarray, fraction: float) -> float:
    """Return the percentile of ordered values, between two of them in a straight line.

    >>> _percentile(np.array([1.0, 2.0, np.inf]), 0.5), _percentile(np.array([1.0, 2.0]), 0.25)
    (2.0, 1.25)
    """
    place = fraction * (len(ordered) - 1)
    at = int(place)
    rest = place - at
    # 0 times Inf is not a number.
    return float((1 - rest) * ordered[at] + rest * ordered[at + 1] if rest else ordered[at])


def next_tokens(tokens: Any, skip: int | None) -> torch.Tensor:
    """Return the token after each one, of tokens (batch, tokens) or (tokens,); −1 where none is scored.

    The first `skip` positions of a row are not scored; None takes half of them, as llama.cpp does.

    >>> next_tokens([[5, 6, 7, 8]], None)
    tensor([[-1, -1,  8, -1]])
    """
    ids = as_plain(tokens)
    whole = not ids.is_floating_point() or bool((ids == ids.trunc()).all())
    if ids.dim() not in (1, 2) or not whole or bool((ids < 0).any()):
        raise QuantVizError("runs.tokens", got=f"{ids.dtype} {tuple(ids.shape)}")
    length = ids.shape[-1]
    first = length // 2 if skip is None else skip
    if not 0 <= first < length - 1:
        raise QuantVizError("runs.skip", got=first, most=length - 2, length=length)
    found = torch.full(ids.shape, -1, dtype=torch.long)
    found[..., first:-1] = ids[..., first + 1 :].long()
    return found
