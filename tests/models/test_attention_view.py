"""What the page shows of attention: a cell in steps that add up, pixels, and which channel is loud."""

import dataclasses
import math

import pytest
import torch

import quantviz as qv
from quantviz.layers.operands import scheme_of
from quantviz.models.attention_view import AttentionLook, AttentionTask, view_of, ways_of
from quantviz.models.head_rounding import AttentionOptions
from quantviz.models.heads import BUILT_IN_HEADS, Heads, heads_of_model

LOOK = AttentionLook(0, "scores", "x", None, None, None)
MOST = 16


def task(mask="none", keys="int4_per_token", values="int8_per_token", **options):
    schemes = (*(scheme_of(each, "inputs") for each in (keys, values)), None)
    return AttentionTask(schemes, mask, AttentionOptions(**options))


@pytest.mark.parametrize("center", [False, True])
def test_the_scores_error_is_that_of_a_layer_of_the_rounded_keys(center):
    heads = BUILT_IN_HEADS["loud_mean"]()
    found = task(center=center).result(heads)
    keys = heads.k - heads.k.double().mean(0).float() if center else heads.k
    layer = qv.layer(keys, heads.q, "int4_per_row", None)
    cells = layer.cells(slice(None), slice(None))
    expected = cells.error.square().sum() / cells.y.square().sum()
    assert found.layer_error == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("options", [{}, {"center": True}, {"hadamard": True, "rotary": 100.0}])
def test_a_cells_steps_add_up_to_the_attention(options):
    every = heads_of_model("character_twin", 1)
    heads = Heads(*(each[:, :8] for each in (every.q, every.k, every.v)), every.mask[:, :8, :8])
    work = task("own", **options)
    found = work.result(heads)
    look = dataclasses.replace(LOOK, head=2)
    parts = 0.0
    for token in range(7):
        cell = view_of(heads, work, dataclasses.replace(look, cell=(6, token)), MOST).cell
        assert cell.values == tuple(side[2, 6, token].item() for side in found.scores)
        assert cell.sums[1] * cell.factor == pytest.approx(cell.values[1])
        assert sum(term.change for term in cell.terms) == pytest.approx(cell.sums[1] - cell.sums[0])
        parts += 0.0 if math.isnan(cell.kl_part) else cell.kl_part
        assert cell.rounded.why.x_hat == pytest.approx(cell.terms[0].w_hat - cell.rounded.mean, abs=1e-5) or (
            "hadamard" in options
        )
    assert parts == pytest.approx(found.kl_rows[2, 6].item())
    output = view_of(heads, work, dataclasses.replace(look, product="output", cell=(6, 5)), MOST).cell
    assert output.values[1] == pytest.approx(found.output.after[2, 6, 5].item())
    assert output.rounded.why.index == (output.chosen, 5)


def test_pixels_are_the_loudest_of_their_cells_and_heads_share_keys():
    q, k, v = (torch.randn(n, 20, 8, generator=torch.Generator().manual_seed(n)) for n in (4, 2, 3))
    heads = Heads(q, k, v[:2])
    found = task().result(heads)
    look = dataclasses.replace(LOOK, head=3, shown="error")
    picture = view_of(heads, task(), look, 10).picture
    error = found.scores.after[3] - found.scores.before[3]
    assert picture.y.values.shape == (10, 10)
    assert picture.y.largest == pytest.approx(error.abs().max().item(), rel=1e-6)
    assert picture.x.largest == 0
    keys = found.sides.k.after[1] - found.sides.k.before[1]
    assert picture.w.largest == pytest.approx(keys.abs().max().item(), rel=1e-6)
    cut = view_of(heads, task(), dataclasses.replace(look, lines=((2, 5), (0, 8), (7, 20))), 32).picture
    assert torch.equal(torch.from_numpy(cut.y.values), error[2:5, 7:20].float())


def test_loud_channels_and_ways():
    for name, same in (("loud_mean", True), ("loud_channel", False)):
        heads = BUILT_IN_HEADS[name]()
        loud = view_of(heads, task(), LOOK, MOST).loud
        assert (loud.channel, loud.is_same) == (9, same)
        ways = ways_of(heads, task(), scheme_of("int4_per_channel", "inputs"))
        by_hand = task(center=True).result(heads)
        assert ways["center"] == (by_hand.kl, by_hand.layer_error)
        assert (ways["center"][0] < ways["none"][0] / 10) == same
    even = Heads(*torch.randn(2, 9, 8, generator=torch.Generator().manual_seed(1)))
    assert view_of(even, task(), LOOK, MOST).loud is None
