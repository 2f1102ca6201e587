"""Tokens held back stay held back: other values of theirs change no bit of the used tokens."""

import itertools

import pytest
import torch

import quantviz as qv
from quantviz.layers.captures import Captured
from quantviz.layers.layer_numbers import best_of_all, numbers_or_reason
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.operands import token_groups
from quantviz.models.quantizing import quantized_network, rounder
from quantviz.schemes import calibration, engine_calibrations
from quantviz.schemes.granularity import Flat, PerBlock, PerChannel, PerGroup, PerTensor
from quantviz.schemes.recipes import ALL_RECIPES, as_scheme

TOKENS, WIDTH = SHAPE = (32, 64)
GRANULARITIES = (
    *(PerTensor(), PerChannel(0), PerChannel(1), PerGroup(16), PerGroup(32)),
    *(PerGroup(32, axis=0), PerGroup(16, axis=0), PerGroup(2, axis=0)),
    *(PerBlock(16, 16), PerBlock(1, 16), Flat(32), Flat(128), Flat(32, strided=True)),
)
#: Ranges that are computed from all values of a block, or from all blocks together.
CALIBRATIONS = (
    calibration.Percentile(99.0),
    calibration.MSE(),
    engine_calibrations.MSELLMCompressor(),
    engine_calibrations.EntropyTensorRT(),
    engine_calibrations.OCTAV(),
    engine_calibrations.HQQ(),
)


def drawn(rows, cols, seed):
    return torch.randn(rows, cols, generator=torch.Generator().manual_seed(seed))


W, X = drawn(WIDTH, WIDTH, 1), drawn(*SHAPE, 2)
X[:, 9] *= 20
HELD = qv.layer(W, X, None, None).held_back
LOUD = X.clone()
LOUD[HELD] *= 8
LOUD[HELD.nonzero()[0], 3] = 2e3
OTHERS = X.clone()
OTHERS[HELD] = drawn(int(HELD.sum()), WIDTH, 3) / 100


def replaced(scheme, **fields):
    """Return the scheme with other fields where its engine has them and the layer fits; else none."""
    try:
        changed = scheme.replace(**fields)
    except qv.QuantVizError:
        return None
    return None if any(changed.problems(SHAPE)) else changed


def schemes():
    """Each recipe with its own granularity and with two others, and some with ranges that are searched."""
    turns = itertools.cycle(GRANULARITIES)
    changes = [
        (recipe, {"granularity": granularity})
        for recipe in ALL_RECIPES
        for granularity in (ALL_RECIPES[recipe].granularity, *itertools.islice(turns, 2))
    ]
    changes += [
        (recipe, {"calibration": each, "granularity": granularity})
        for recipe in ("awq_int4_g128", "int4_per_tensor", "nvfp4")
        for each in CALIBRATIONS
        for granularity in (PerChannel(0), PerGroup(16, axis=0))
    ]
    found = (replaced(ALL_RECIPES[recipe], **fields) for recipe, fields in changes)
    return list(dict.fromkeys(each for each in found if each is not None))


def of_used(result):
    """Return codes, scales, values and parts of the error of the used tokens."""
    used = ~result.held_back
    operands = [each for each in (result.inputs, result._layer.outputs) if each is not None]
    cells = result.cells()
    yield from (each.quantized(slice(None))[used] for each in operands)
    for study in (each.study for each in operands if each.study is not None):
        yield study.result.q[used]
        yield study.result.scale_of_cells().expand(study.shape)[used]
    yield from (cells.y_hat[used], cells.weights[used], cells.inputs[used], cells.cross[used])
    yield torch.tensor([result.rel_out.used, *(part.share.used for part in result.parts.values())])


def unchanged(*arguments, **more):
    """Whether no bit of the used tokens changes where only others do."""
    quiet, *loud = (list(of_used(qv.layer(W, x, *arguments, **more))) for x in (X, LOUD, OTHERS))
    return all(torch.equal(one, other) for found in loud for one, other in zip(quiet, found, strict=True))


def test_used_tokens_do_not_depend_on_those_held_back():
    assert not [str(each) for each in schemes() if not unchanged(None, each, outputs=each)]


@pytest.mark.parametrize("inputs", ["nvfp4", "int8_per_tensor"])
@pytest.mark.parametrize(
    "method",
    ["rotation+gptq", "smoothquant", "awq+awq_clip", "llm_int8", "low_rank", "bias_correction"],
)
def test_nor_under_a_method(method, inputs):
    assert unchanged("int4_g32", inputs, outputs="nvfp4", method=method)


def test_a_dynamic_scale_is_of_all_tokens_and_one_over_all_blocks_is_of_the_used_ones():
    static, dynamic = (qv.layer(W, LOUD, None, "nvfp4", static=each).inputs for each in (True, False))
    assert torch.equal(dynamic.quantized(slice(None)), qv.quantize(LOUD, "nvfp4").x_hat)
    # A token is rounded as it is in a tensor of the used ones, and a louder one stops at the largest scale.
    assert torch.equal(static.quantized(slice(None))[~HELD], qv.quantize(LOUD[~HELD], "nvfp4").x_hat)
    assert static.quantized(slice(None))[HELD].abs().max() <= LOUD[~HELD].abs().max() < LOUD[HELD].abs().max()
    why = static.explain((int(HELD.nonzero()[0]), 3))
    assert why.tensor_absmax == LOUD[~HELD].abs().max().item()
    assert "found_tensor_absmax" in [step.key for step in why.steps]


def test_groups_of_tokens_take_the_scale_of_their_used_ones_or_are_called_dynamic():
    scheme = as_scheme("int4_per_tensor").replace(granularity=PerGroup(2, axis=0))
    result = qv.layer(W, LOUD, None, scheme, outputs=scheme)
    pairs, used = LOUD.abs().view(-1, 2, WIDTH), ~HELD.view(-1, 2, 1)
    largest = torch.where(used.any(1), (pairs * used).amax(1), pairs.amax(1))
    torch.testing.assert_close(result.inputs.study.qparams.scale, largest / 7)
    alone = int((~used.any(1)).sum()) * WIDTH
    notes = [note.params for note in result.notes if note.key == "layer_dynamic_groups"]
    assert alone > 0
    assert [(each["name"], each["count"]) for each in notes] == [("X", alone), ("Y", alone)]
    per_token = qv.layer(W, LOUD, None, "int8_per_token").notes
    assert "layer_dynamic_groups" not in [note.key for note in per_token]


@pytest.mark.parametrize("outputs", ["int8_per_tensor", "nvfp4"])
def test_static_scales_of_outputs_are_those_of_the_float_run(outputs):
    result = qv.layer(W, LOUD, "int4_per_tensor", "int4_per_tensor", outputs=outputs)
    y = (LOUD.double() @ W.double().T)[~HELD].float()
    found = result._layer.outputs.study
    chosen = found.tensor_absmax if outputs == "nvfp4" else found.qparams.scale * 127
    assert chosen.item() == pytest.approx(y.abs().max().item(), rel=1e-6)
    # A run with rounding has other outputs.
    assert chosen.item() != pytest.approx(result.cells().y_hat[~HELD].abs().max().item(), rel=1e-3)


def test_the_method_of_a_layer_is_chosen_on_used_tokens():
    captured = Captured("layer", "linear", W, X)
    scheme, chains = as_scheme("int4_per_row"), [as_chain(form) for form in ("gptq", "adaround(steps=20)")]
    (row,) = best_of_all([captured], scheme, None, chains)
    tried = [numbers_or_reason(captured, scheme, None, method=each) for each in (None, *chains)]
    # With as few tokens as here, what is best on them is not best on others.
    assert row["method"] == "gptq"
    assert row["rel_out_used"] == min(each["rel_out_used"] for each in tried)
    assert row["rel_out_held_back"] > min(each["rel_out_held_back"] for each in tried)
    assert row["times_less"] == row["rel_out_nearest"] / row["rel_out_held_back"]


def test_the_cache_of_a_running_model_rounds_each_token_by_the_text_for_calibration():
    for scheme in schemes():
        if token_groups(scheme, SHAPE) and scheme.granularity.id in ("per_group", "per_block", "flat"):
            with pytest.raises(qv.QuantVizError, match="groups of tokens cannot share"):
                rounder(scheme, X)
            continue
        rounded = rounder(scheme, X)
        every = rounded(LOUD)
        assert torch.equal(every[3:5], rounded(LOUD[3:5])), scheme
    cached = quantized_network("character", qv.ModelSchemes(keys="nvfp4")).network.cached
    keys = drawn(6, 128, 5)
    for each in cached.values():
        assert torch.equal(each(torch.cat([keys, 1000 * keys]))[:6], each(keys))


def test_what_a_method_makes_nan_names_the_method_and_the_channel():
    w, x = W.clone(), X.clone()
    w[:, 5], x[:, 5] = 0, 0
    with pytest.raises(qv.QuantVizError) as caught:
        qv.layer(w, x, "int4_g32", method="smoothquant(alpha=0.5,variant=modelopt)")
    assert caught.value.key == "method.nonfinite"
    params = caught.value.params
    assert (params["method"], params["name"], params["channel"]) == ("smoothquant", "W", 5)
    w[:, 5], x[:, 5] = 9, 1e38
    with pytest.raises(qv.QuantVizError, match=r"smoothquant makes 32 values of X .* channel 5"):
        qv.layer(w, x, "int4_g32", method="smoothquant(alpha=0)")
