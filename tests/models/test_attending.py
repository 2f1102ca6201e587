"""Attention over rounded keys and values, beside NumPy and torch."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

import quantviz as qv
from quantviz.models.head_rounding import turned

GENERATOR = torch.Generator().manual_seed(3)
Q, K, V = (torch.randn(4, n, 32, generator=GENERATOR) for n in (6, 10, 10))
K[..., 5] += 12
HIDDEN = torch.ones(6, 10, dtype=torch.bool).triu(5)
CENTRED = qv.AttentionOptions(center=True)


def rounded(heads, scheme):
    return torch.stack([qv.quantize(each, scheme).x_hat for each in heads]).double()


@pytest.mark.parametrize("mask", [None, "causal"])
def test_without_rounding_it_is_torchs_attention(mask):
    found = qv.attention(Q, K[:2], V[:2], mask=mask)
    seen = None if mask is None else ~HIDDEN
    y = functional.scaled_dot_product_attention(
        Q.double()[None], K[:2].double()[None], V[:2].double()[None], attn_mask=seen, enable_gqa=True
    )
    # Both sum in float64, each in its own order: some units in the last place.
    torch.testing.assert_close(found.output.before, y[0], rtol=2e-14, atol=2e-15)
    assert torch.equal(*found.output)
    assert (found.kl, found.rel_scores, found.rel_out) == (0, 0, 0)
    assert found.errors["weights"].sqnr_db == math.inf
    assert found.cache.keys == found.cache.values == 2 * 10 * 32 * 2 == found.cache.at_16_bits / 2


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("keys", ["int4_per_row", "int4_per_column", "q4_0"])
def test_numbers_are_those_of_torchs_attention(keys, center):
    options = qv.AttentionOptions(center=center)
    found = qv.attention(Q, K, V, keys, "int4_per_row", mask="causal", options=options)
    mean = K.double().mean(1, keepdim=True) if center else 0
    k_hat = rounded((K - mean).float(), keys) + mean
    s, s_hat = ((Q.double() @ each.double().mT) / math.sqrt(32) for each in (K, k_hat))
    p, p_hat = (each.masked_fill(HIDDEN, -math.inf).softmax(-1) for each in (s, s_hat))
    kl = torch.where(p > 0, p * (p / p_hat).log2(), 0.0).sum(-1)
    torch.testing.assert_close(found.kl_rows, kl, rtol=1e-6, atol=1e-12)
    assert (found.kl, found.kl_max) == pytest.approx((kl.mean().item(), kl.max().item()), rel=1e-6)
    assert found.kl_99 == pytest.approx(np.quantile(kl, 0.99), rel=1e-6)
    torch.testing.assert_close(found.weights.after, p_hat, rtol=1e-9, atol=1e-12)
    squares = [each.masked_fill(HIDDEN, 0).square().sum().item() for each in (s_hat - s, s)]
    assert found.rel_scores == pytest.approx(squares[0] / squares[1], rel=1e-9)
    y, y_hat = (
        functional.scaled_dot_product_attention(Q.double(), a, b, attn_mask=~HIDDEN)
        for a, b in ((K.double(), V.double()), (k_hat, rounded(V, "int4_per_row")))
    )
    assert found.rel_out == pytest.approx(((y_hat - y).square().sum() / y.square().sum()).item(), rel=1e-9)
    assert found.errors["output"].sqnr_db == pytest.approx(-10 * math.log10(found.rel_out))


def test_a_mean_taken_out_helps_what_the_scores_error_does_not_show():
    """A public report, rebuilt: as a layer of W = K and X = Q the error moves from 0.00742 to 0.00737, and
    the rows' KL divergence falls from 0.106 to 0.0050 bits. Channels of the keys have means of 4.5 their own
    spread, and q4_0's blocks are as wide as in it.
    """
    random = np.random.default_rng(36)
    q = random.normal(size=(64, 128)).astype(np.float32)
    k = (random.normal(size=(256, 128)) + 4.5 * random.normal(size=128)).astype(np.float32)
    plain, centred = (qv.attention(q, k, keys="q4_0", options=each) for each in (None, CENTRED))
    assert (plain.kl, centred.kl) == pytest.approx((0.106, 0.0050), rel=0.03)
    assert (plain.layer_error, centred.layer_error) == pytest.approx((0.00742, 0.00737), rel=0.03)
    as_layers = [qv.layer(each, q, "q4_0", None) for each in (k, k - k.mean(0, dtype=np.float64))]
    errors = [each.cells(slice(None), slice(None)) for each in as_layers]
    by_hand = [(each.error.square().sum() / each.y.square().sum()).item() for each in errors]
    assert [plain.layer_error, centred.layer_error] == pytest.approx(by_hand, rel=1e-4)
    # That error would choose a scale of each channel, which leaves ten times the divergence.
    channel = qv.attention(q, k, keys="int4_per_channel")
    assert channel.layer_error < 0.6 * centred.layer_error
    assert channel.kl > 10 * centred.kl
    assert plain.rel_differences > 20 * plain.rel_scores
    (note,) = plain.notes
    # By hand: the share of the scores that is the same for all tokens of a query.
    s = q.astype(np.float64) @ k.astype(np.float64).T
    common = 100 * (1 - np.square(s - s.mean(1, keepdims=True)).sum() / np.square(s).sum())
    assert note.params["of_scores"] == pytest.approx(common)
    assert f"{plain.kl:.3g}" in note.message("en")
    assert str(note) in plain._repr_html_() or "misleads" in plain._repr_html_()
    random = torch.randn(2, 20, 16, generator=torch.Generator().manual_seed(1))
    assert qv.attention(random, random.flip(1), keys="int4_per_row").notes == ()


def test_heads_share_keys_and_masks_are_alike_however_they_are_written():
    causal = qv.attention(Q, K[:2], V[:2], "int4_per_row", mask="causal")
    own = qv.attention(
        Q, K[:2].repeat_interleave(2, 0), V[:2].repeat_interleave(2, 0), "int4_per_row", mask="causal"
    )
    assert causal.kl == own.kl
    for low in (-math.inf, -1e30, torch.finfo(torch.float16).min, -1e4):
        mask = torch.zeros(6, 10).masked_fill(HIDDEN, low)
        for each in (mask.numpy(), mask[None], mask.expand(4, 6, 10)):
            found = qv.attention(Q, K[:2], V[:2], "int4_per_row", mask=each)
            assert (found.record(), found.kl) == (causal.record(), causal.kl)
    for each in (~HIDDEN, (~HIDDEN).numpy()):
        assert qv.attention(Q, K[:2], V[:2], "int4_per_row", mask=each).kl == causal.kl
    batch = [each.expand(3, *each.shape) for each in (Q, K[:2], V[:2])]
    assert qv.attention(*batch, "int4_per_row", mask="causal").kl == pytest.approx(causal.kl)
    # A bias of places is no mask: it moves the weights of both sides, and no score.
    slope = -0.25 * torch.arange(10.0).expand(6, 10)
    biased = qv.attention(Q, K, V, "int4_per_row", mask=slope)
    y = functional.scaled_dot_product_attention(Q.double(), K.double(), V.double(), attn_mask=slope.double())
    torch.testing.assert_close(biased.output.before, y, rtol=1e-13, atol=1e-14)
    assert biased.rel_scores == qv.attention(Q, K, V, "int4_per_row").rel_scores


def test_kivi_leaves_the_newest_tokens_and_groups_the_others():
    """Keys by groups of 4 tokens of a channel, values by groups of 16 channels; R = 4 of 10 tokens."""
    groups = "uint2,asymmetric,per_group(size=%d,axis=%d),min_max,hqq"
    found = qv.attention(Q, K, V, groups % (4, 0), groups % (16, 1), options=qv.AttentionOptions(residual=4))

    def grouped(x):
        low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
        scale = (high - low) / 3
        return ((x - low) / scale).round() * scale + low

    k_hat, v_hat = K.double(), V.double()
    k_hat[:, :8] = grouped(k_hat[:, :8].mT.reshape(4, 32, 2, 4)).reshape(4, 32, 8).mT
    v_hat[:, :6] = grouped(v_hat[:, :6].reshape(4, 6, 2, 16)).reshape(4, 6, 32)
    y = functional.scaled_dot_product_attention(Q.double(), k_hat, v_hat)
    torch.testing.assert_close(found.output.after, y, rtol=1e-4, atol=1e-5)
    # 2 bits, and 16 each for scale and zero point of a group; two and four tokens stay at 16 bits.
    bits = (4 * (8 * 32 * 2 + 64 * 32 + 2 * 32 * 16), 4 * (6 * 32 * 2 + 12 * 32 + 4 * 32 * 16))
    assert found.cache[:2] == (bits[0] / 8, bits[1] / 8)
    assert found.cache.at_16_bits == 2 * 4 * 10 * 32 * 2
    short = qv.attention(Q, K, V, groups % (4, 0), groups % (16, 1), options=qv.AttentionOptions(residual=16))
    assert (short.kl, short.rel_out) == (0, 0)


@pytest.mark.parametrize("layout", ["halves", "pairs"])
def test_positions_turn_what_is_rounded_after_or_before(layout):
    """As complex numbers: channel pair i of token t is turned by t · base^(−2i/d)."""

    def by_hand(x, first):
        one, other = (
            x.double().chunk(2, -1) if layout == "halves" else (x.double()[..., ::2], x.double()[..., 1::2])
        )
        angles = torch.arange(first, first + x.shape[1])[:, None] * 100.0 ** -(torch.arange(16).double() / 16)
        turned_pairs = torch.complex(one, other) * torch.polar(torch.ones(()).double(), angles)
        parts = (turned_pairs.real, turned_pairs.imag)
        return torch.cat(parts, -1) if layout == "halves" else torch.stack(parts, -1).flatten(-2)

    options = qv.AttentionOptions(rotary=100.0, rotary_layout=layout)
    torch.testing.assert_close(turned(K.double(), torch.arange(10), 100.0, layout), by_hand(K, 0))
    found = qv.attention(Q, K, keys="int4_per_column", mask="causal", options=options)
    before = qv.attention(
        Q,
        K,
        keys="int4_per_column",
        mask="causal",
        options=qv.AttentionOptions(rotary=100.0, rotary_layout=layout, rounded="before"),
    )
    q = by_hand(Q, 4) / math.sqrt(32)
    torch.testing.assert_close(found.scores.before, q @ by_hand(K, 0).mT)
    after = q @ rounded(by_hand(K, 0).float(), "int4_per_column").mT
    torch.testing.assert_close(found.scores.after, after, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(before.scores.after, q @ by_hand(rounded(K, "int4_per_column"), 0).mT)
    # A loud channel is one before it is turned; afterwards it is in two, at every angle.
    assert before.kl < found.kl


def test_a_hadamard_matrix_on_heads_and_schemes_of_all_parts():
    options = qv.AttentionOptions(hadamard=True, queries="int8_per_token", weights="fp8_e4m3_per_tensor")
    found = qv.attention(Q, K, V, "int4_per_token", "int4_per_token", "int8_per_tensor", options=options)
    turn = torch.tensor([[1.0]], dtype=torch.float64)
    for _ in range(5):
        turn = torch.cat((torch.cat((turn, turn), 1), torch.cat((turn, -turn), 1))) / math.sqrt(2)

    def in_basis(x, scheme):
        return rounded((x.double() @ turn).float(), scheme)

    scores = in_basis(Q, "int8_per_row") @ in_basis(K, "int4_per_row").mT / math.sqrt(32)
    p_hat = rounded(scores.float(), "int8_per_tensor").softmax(-1)
    torch.testing.assert_close(found.kl_rows.mean().item(), found.kl)
    p_hat = rounded(p_hat.float(), "fp8_e4m3_per_tensor")
    torch.testing.assert_close(found.weights.after, p_hat, rtol=1e-6, atol=1e-7)
    y_hat = p_hat @ in_basis(V, "int4_per_row") @ turn.T
    torch.testing.assert_close(found.output.after, y_hat, rtol=1e-5, atol=1e-6)
    assert found.kl < qv.attention(Q, K, V, "int4_per_token").kl


def test_the_table_has_a_row_for_each_head():
    found = qv.attention(Q, K, V, "int4_per_token", "int8_per_token")
    table = found.table()
    alone = [qv.attention(Q[n], K[n], V[n], "int4_per_token", "int8_per_token") for n in range(4)]
    assert table["kl"].tolist() == pytest.approx([each.kl for each in alone])
    assert table["rel_output"].tolist() == pytest.approx([each.rel_out for each in alone])
    assert "4 heads × 6 queries × 10 tokens" in repr(found)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"k": K[:3]}, "heads of q a multiple"),
        ({"v": V[:, :4]}, "heads and tokens of k"),
        ({"q": torch.full((1, 32), math.nan)}, "q has NaN"),
        ({"q": torch.ones(3)}, "q has the axes"),
        ({"mask": "left"}, "left"),
        ({"mask": torch.full((6, 10), math.nan)}, "without NaN"),
        ({"mask": torch.zeros(6, 9)}, r"\(6, 9\)"),
        ({"mask": torch.zeros(3, 6, 10)}, r"\(3, 6, 10\)"),
        ({"mask": torch.full((6, 10), -math.inf)}, "sees no token"),
        ({"keys": "int4_per_output"}, "output"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(more, words):
    with pytest.raises(qv.QuantVizError, match=words):
        qv.attention(**{"q": Q, "k": K, "v": V} | more)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounded": "never"}, "after, before"),
        ({"rotary_layout": "thirds"}, "halves, pairs"),
        ({"residual": -1}, "residual is 0 or above"),
        ({"scale": math.inf}, "finite"),
        ({"queries": "int8_per_output"}, "output"),
    ],
)
def test_options_that_do_not_fit_get_a_sentence(options, words):
    with pytest.raises(qv.QuantVizError, match=words):
        qv.AttentionOptions(**options)
    for wrong in ({"rotary": 1e4}, {"hadamard": True}):
        with pytest.raises(qv.QuantVizError, match="15"):
            qv.attention(Q[..., :15], K[..., :15], keys="int4_per_row", options=qv.AttentionOptions(**wrong))
