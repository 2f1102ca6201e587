"""Attention over rounded keys and values, beside NumPy and torch."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

import quantviz as qv

GENERATOR = torch.Generator().manual_seed(3)
Q, K, V = (torch.randn(4, n, 32, generator=GENERATOR) for n in (6, 10, 10))
K[..., 5] += 12


def rounded(heads, scheme):
    return torch.stack([qv.quantize(each, scheme).x_hat for each in heads])


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("keys", ["int4_per_row", "int4_per_column", "q4_0"])
def test_numbers_are_those_of_torchs_attention(keys, center):
    found = qv.attention(Q, K, V, keys, "int4_per_row", center=center, mask="causal")
    hidden = torch.ones(6, 10, dtype=torch.bool).triu(5)
    mean = K.mean(1, keepdim=True) if center else 0
    k_hat = rounded(K - mean, keys) + mean
    p, p_hat = (
        ((Q.double() @ each.double().mT) / math.sqrt(32)).masked_fill(hidden, -math.inf).softmax(-1)
        for each in (K, k_hat)
    )
    kl = torch.where(p > 0, p * (p / p_hat).log2(), 0.0).sum(-1).mean().item()
    assert found.kl == pytest.approx(kl, rel=1e-4)
    y, y_hat = (
        functional.scaled_dot_product_attention(Q, a, b, attn_mask=~hidden).double()
        for a, b in ((K, V), (k_hat, rounded(V, "int4_per_row")))
    )
    assert found.rel_out == pytest.approx(((y_hat - y).square().sum() / y.square().sum()).item(), rel=1e-3)


def test_a_mean_taken_out_helps_what_the_scores_error_does_not_show():
    random = np.random.default_rng(7)
    loud = random.normal(size=64) * 4
    loud[[5, 40]] *= 6
    k = (random.normal(size=(96, 64)) + loud).astype(np.float32)
    q = random.normal(size=(32, 64)).astype(np.float32)
    plain, centred = (qv.attention(q, k, keys="q4_0", center=each) for each in (False, True))
    assert centred.kl < plain.kl / 10
    assert math.isnan(plain.rel_out)


def test_heads_share_keys_and_masks_are_alike_however_they_are_written():
    causal = qv.attention(Q, K[:2], V[:2], "int4_per_row", mask="causal")
    own = qv.attention(
        Q, K[:2].repeat_interleave(2, 0), V[:2].repeat_interleave(2, 0), "int4_per_row", mask="causal"
    )
    assert causal.kl == own.kl
    for hidden in (-math.inf, -1e30):
        mask = torch.zeros(6, 10).masked_fill(torch.ones(6, 10, dtype=torch.bool).triu(5), hidden)
        assert qv.attention(Q, K[:2], V[:2], "int4_per_row", mask=mask.numpy()).kl == pytest.approx(causal.kl)
    assert qv.attention(Q, K).kl == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"k": K[:3]}, "heads of q a multiple"),
        ({"v": V[:, :4]}, "heads and tokens of k"),
        ({"q": torch.full((1, 32), math.nan)}, "q has NaN"),
        ({"q": torch.ones(3)}, "q has the axes"),
        ({"mask": "left"}, "left"),
        ({"mask": torch.full((6, 10), -math.inf)}, "sees no token"),
        ({"keys": "int4_per_output"}, "output"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(more, words):
    with pytest.raises(qv.QuantVizError, match=words):
        qv.attention(**{"q": Q, "k": K, "v": V} | more)
