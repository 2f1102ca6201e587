"""A layer with its inputs: the laws of its errors, the notebook's numbers, and the refusals."""

import pickle

import pytest
import torch

import quantviz as qv
from quantviz.analysis import study
from quantviz.layers import layer_result
from quantviz.layers.output_errors import exact_errors, quick_errors
from quantviz.layers.parts import PARTS
from quantviz.tensors.lazy import InMemory
from quantviz.text import languages
from tests.helpers.replay import replay

W_OF_NOTEBOOK = [[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]]
TOKENS = 24
PAIRS = [
    ("int4_g32", None),
    ("int8_per_output", "int8_per_token"),
    (None, "int8_per_tensor"),
    ("mxfp4", "mxfp8_e4m3"),
    ("nvfp4", "nvfp4"),
    ("fp8_e4m3_per_tensor", "fp8_e4m3_per_tensor"),
    ("int4_per_tensor", "int8_per_channel"),
    ("int8,asymmetric,per_channel(axis=0),min_max,course", "uint8,asymmetric,per_tensor,min_max,course"),
]


def drawn(rows, cols, seed):
    return torch.empty(rows, cols).normal_(generator=torch.Generator().manual_seed(seed))


W = drawn(16, 64, 1)
X = drawn(TOKENS, 64, 2)
X[:, 9] *= 30
BIAS = drawn(1, 16, 3)[0]


def found(weights="int4_g32", inputs="int8_per_tensor", **more):
    return qv.layer(W, X, weights, inputs, **more)


@pytest.mark.parametrize(("weights", "inputs"), PAIRS)
@pytest.mark.parametrize("outputs", [None, "int8_per_tensor"])
def test_the_parts_add_up_to_the_last_bit(weights, inputs, outputs):
    result = found(weights, inputs, bias=BIAS, outputs=outputs)
    cells = result.cells()
    assert torch.equal(cells.error, cells.weights + cells.inputs + cells.cross + cells.outputs)
    # The definition is that of the products, to float64's own precision.
    every = slice(None)
    wide = [each.to(torch.float64) for each in (X, W, BIAS)]
    x_hat, w_hat = (each.quantized(every).to(torch.float64) for each in (result.inputs, result.weights))
    torch.testing.assert_close(cells.y, wide[0] @ wide[1].T + wide[2], rtol=1e-12, atol=1e-12)
    unrounded = x_hat @ w_hat.T + wide[2]
    torch.testing.assert_close(cells.y + cells.of_product, unrounded, rtol=1e-12, atol=1e-12)
    if outputs is None:
        assert not cells.outputs.any()
    else:
        # The scale is that of a run in floating point, as calibration has it.
        step = float(cells.y[~result.held_back].abs().max()) / 127
        inside = unrounded.abs() < 127.4 * step
        assert inside.any()
        assert (cells.outputs[inside].abs() <= step * 0.5001).all()
        assert cells.outputs.any()


@pytest.mark.parametrize(("weights", "inputs"), PAIRS)
def test_quantized_operands_are_those_of_quantize(weights, inputs):
    result = found(weights, inputs, static=False)
    for x, scheme, operand in ((W, result.weights.scheme, result.weights), (X, None, result.inputs)):
        scheme = scheme or operand.scheme
        expected = x if scheme is None else qv.quantize(x, scheme).x_hat
        assert torch.equal(operand.quantized(slice(None)), expected)


def test_what_is_not_quantized_has_no_error():
    result = found(None, None, bias=BIAS)
    assert not result.cells().error.any()
    assert result.rel_out == (0.0, 0.0)
    assert not result.by_token.any()
    assert torch.equal(result.cells().y_hat, result.cells().y)
    exact = qv.Scheme("int8", calibration=qv.Given(1.0))
    whole = qv.layer(W.round(), (X * 2).round().clamp(-127, 127), exact, exact)
    assert whole.rel_out == (0.0, 0.0)
    assert all(part.share == (0.0, 0.0) for part in whole.parts.values())


@pytest.mark.parametrize("inputs", ["int8_per_token", "mxfp8_e4m3", None])
def test_other_orders_of_tokens_give_the_same_numbers_in_that_order(inputs):
    order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(5))
    moved = qv.layer(W, X[order], "int4_g32", inputs)
    torch.testing.assert_close(moved.cells().error, found(inputs=inputs).cells().error[order])
    torch.testing.assert_close(moved.by_token, found(inputs=inputs).by_token[order])


def test_the_notebooks_layer_with_8_bit_weights_and_32_bit_activations():
    result = qv.layer(W_OF_NOTEBOOK, [[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]], "int8_per_tensor", None)
    cells = result.cells()
    assert [round(value, 4) for value in cells.y_hat[0].tolist()] == [-2.9965, 3.8768, 9.3957]
    assert cells.y[0].tolist() == pytest.approx([-3.0, 3.85, 9.38], abs=1e-6)
    assert torch.equal(cells.error, cells.weights)
    assert result.inputs.scheme is None


def test_a_quarter_of_the_tokens_is_held_back_by_the_seed():
    one, again, other = found(), found(), found(seed=1)
    assert int(one.held_back.sum()) == TOKENS // 4
    assert torch.equal(one.held_back, again.held_back)
    assert not torch.equal(one.held_back, other.held_back)
    assert int(qv.layer(W, X[:2], "int4_g32").held_back.sum()) == 1


def test_static_scales_are_those_of_the_used_tokens():
    loud = X.clone()
    held_back = found().held_back
    loud[held_back] *= 10
    static = qv.layer(W, loud, None, "int8_per_tensor")
    used = qv.choose_qparams(loud[~held_back], "int8_per_tensor")
    assert torch.equal(static.inputs.study.qparams.scale, used.scale)
    assert static.cells().error.shape == (TOKENS, 16)
    # Held-back tokens are beyond the range, and are clipped: the number over used tokens hides that.
    assert static.rel_out.held_back > 100 * static.rel_out.used
    at_run_time = qv.layer(W, loud, None, "int8_per_tensor", static=False)
    assert torch.equal(
        at_run_time.inputs.study.qparams.scale, qv.choose_qparams(loud, "int8_per_tensor").scale
    )
    assert at_run_time.rel_out.held_back < static.rel_out.held_back
    by_channel = qv.layer(W, loud, None, "int8_per_channel").inputs.study.qparams.scale
    assert torch.equal(by_channel, qv.choose_qparams(loud[~held_back], "int8_per_column").scale)
    # A token's own scale is its own on both sides.
    own = qv.layer(W, loud, None, "int8_per_token").inputs.study.qparams.scale
    assert torch.equal(own, qv.choose_qparams(loud, "int8_per_row").scale)


def test_the_numbers_are_those_of_the_cells():
    result = found(bias=BIAS * 100)
    cells, held_back = result.cells(), result.held_back
    product = cells.y - result.bias
    for name, errors in (("error", None), *result.parts.items()):
        values = getattr(cells, name)
        got = errors or result
        for side, number in ((~held_back, got.rel_out.used), (held_back, got.rel_out.held_back)):
            assert number == pytest.approx(float(values[side].square().sum() / product[side].square().sum()))
        torch.testing.assert_close(got.by_token, values.square().sum(1) / product.square().sum(1))
        torch.testing.assert_close(
            got.by_output.held_back,
            values[held_back].square().sum(0) / product[held_back].square().sum(0),
        )
    assert tuple(result.parts) == PARTS
    for side in (0, 1):
        assert sum(part.share[side] for part in result.parts.values()) == pytest.approx(1)


def test_windows_are_parts_of_the_whole():
    result = found()
    part = result.cells(slice(3, 9), slice(-4, None))
    torch.testing.assert_close(part.error, result.cells().error[3:9, -4:], rtol=1e-10, atol=1e-12)
    assert result.cells(slice(5, 2)).error.shape == (0, 16)


def test_the_products_of_a_cell_lead_to_its_error():
    result = found()
    token, output = 4, 7
    products = result.products(token, output)
    cell = result.cells(slice(4, 5), slice(7, 8))
    for name in ("weights", "inputs", "cross"):
        assert float(getattr(products, name).sum()) == pytest.approx(float(getattr(cell, name)), rel=1e-9)
    assert float(products.contributions.sum()) == pytest.approx(float(cell.error), rel=1e-9)
    assert float(products.shares.sum()) == pytest.approx(1)
    sizes = products.contributions.abs()
    assert (sizes[:-1] >= sizes[1:]).all()
    assert sorted(products.channels.tolist()) == list(range(64))
    channel = int(products.channels[0])
    assert float(products.x[0]) == float(X[token, channel])
    assert products.table()["channel"].tolist()[0] == channel
    note = result.culprit(token, output)
    assert note.params["channel"] == channel
    assert f"{channel}" in note.message("en")
    assert f"{channel}" in note.message("zh")


def test_the_steps_of_one_weight_and_one_input_replay():
    result = found()
    products = result.products(4, 7)
    channel = int(products.channels[0])
    weight = result.explain_weight(7, channel)
    assert weight.x_hat == float(products.w_hat[0])
    same_weight = replay(result.weights.study.result, (7, channel))
    assert [step.output for step in same_weight.steps] == [step.output for step in weight.steps]
    own = result.explain_input(4, channel)
    assert own.x_hat == float(products.x_hat[0])
    # No range of these tokens is among the steps: the scale comes from the used ones.
    same_input = replay(result.inputs.study.result, (4, channel))
    assert [step.output for step in same_input.steps] == [step.output for step in own.steps]
    assert "lo" not in [step.name for step in own.steps]
    token_scale = found(inputs="int8_per_token")
    assert "scale" in [step.name for step in token_scale.explain_input(4, channel).steps]
    replay(token_scale.inputs.study.result, (4, channel))


def test_loud_channels_are_named_and_weighted():
    channels = found("int4_g32").channels
    assert channels.loud_inputs == (9,)
    assert channels.loud_weights == ()
    held_back = found().held_back
    torch.testing.assert_close(channels.second_moment, X[~held_back].to(torch.float64).square().mean(0))
    change = qv.quantize(W, "int4_g32").x_hat.to(torch.float64) - W.to(torch.float64)
    torch.testing.assert_close(channels.weight_error, change.square().sum(0))
    assert int(channels.cost.argmax()) == 9
    assert channels.table()["x_max"][9] == pytest.approx(float(X[:, 9].abs().max()))


def test_a_scale_for_each_channel_of_x_has_a_note():
    keys = [note.key for note in found(None, "int8_per_channel").notes]
    assert "layer_scale_in_sum" in keys
    assert not found("int8_per_output", "int8_per_token").notes


@pytest.mark.parametrize(
    ("weights", "inputs"), [("int4_g32", None), (None, "int8_per_token"), ("int4_g32", "int8_per_tensor")]
)
@pytest.mark.parametrize("outputs", [None, "int8_per_tensor"])
def test_a_large_layers_float32_products_agree_with_float64(monkeypatch, weights, inputs, outputs):
    result = found(weights, inputs, bias=BIAS, outputs=outputs)
    quick = quick_errors(result._layer, result.held_back)
    exact = exact_errors(result._layer, result.held_back)["error"]
    assert quick.rel_out == pytest.approx(exact.rel_out, rel=1e-4)
    torch.testing.assert_close(quick.by_token, exact.by_token, rtol=1e-2, atol=1e-9)
    torch.testing.assert_close(quick.by_output.used, exact.by_output.used, rtol=1e-2, atol=1e-9)
    monkeypatch.setattr(layer_result, "EXACT", 0)
    large = found(weights, inputs, bias=BIAS, outputs=outputs)
    assert large.rel_out == pytest.approx(exact.rel_out, rel=1e-4)


@pytest.mark.parametrize("size", [2.0**66, 2.0**-60])
def test_squares_beyond_float32_are_summed_in_float64(monkeypatch, size):
    monkeypatch.setattr(layer_result, "EXACT", 0)
    result = qv.layer(W * size, X * size, "int4_g32", None)
    assert quick_errors(result._layer, result.held_back) is None
    assert result.rel_out == pytest.approx(found(inputs=None).rel_out, rel=1e-6)


def test_operands_too_large_for_a_whole_result_are_decoded_line_by_line(monkeypatch):
    whole = found(inputs="int8_per_channel")
    monkeypatch.setattr(study, "MOST_WHOLE", 0)
    large = found(inputs="int8_per_channel")
    assert large.weights.study.result is None
    for part, of_whole in ((large.weights, whole.weights), (large.inputs, whole.inputs)):
        lines = slice(5, 11)
        assert torch.equal(part.quantized(lines), of_whole.quantized(lines))
        assert part.explain((7, 3)).x_hat == of_whole.explain((7, 3)).x_hat
    assert large.rel_out == whole.rel_out
    assert pickle.loads(pickle.dumps(large)).rel_out == whole.rel_out


def test_stored_and_half_precision_operands():
    result = qv.layer(InMemory(W.half().float(), dtype="float16"), X.bfloat16(), "int8_per_output")
    assert torch.equal(result.inputs.values(slice(None)), X.bfloat16().float())
    assert result.rel_out.used > 0


def test_a_result_travels_between_processes():
    result = found(bias=BIAS, outputs="int8_per_tensor")
    again = pickle.loads(pickle.dumps(result))
    assert again.rel_out == result.rel_out
    assert repr(again) == repr(result)
    assert "24 tokens" in repr(result)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"W": W[0]}, "layer.weight_axes"),
        ({"W": W[:, :, None]}, "layer.weight_axes"),
        ({"X": X[0]}, "layer.input_axes"),
        ({"X": X[None]}, "layer.input_axes"),
        ({"X": X[:, :32]}, "layer.width"),
        ({"X": X[:1]}, "layer.one_token"),
        ({"X": X.index_fill(0, torch.tensor([3]), torch.nan)}, "layer.nonfinite"),
        ({"W": W / 0}, "layer.nonfinite"),
        ({"bias": [1.0, 2.0]}, "layer.bias"),
        ({"bias": BIAS / 0}, "layer.nonfinite_bias"),
        ({"weights": "int4_g48"}, "recipe_written_out"),
        ({"weights": "int44_g48"}, "unknown_recipe"),
        ({"inputs": "no such"}, "unknown_recipe"),
        ({"inputs": "int8_per_output"}, "layer.axis"),
        ({"weights": "int8 per token"}, "layer.axis"),
        ({"outputs": "int4,symmetric,per_group(size=9),min_max,course"}, "group_does_not_divide"),
        ({"seed": "a"}, "argument"),
    ],
)
def test_a_wrong_layer_gets_a_sentence(change, key):
    with pytest.raises(qv.QuantVizError) as refused:
        qv.layer(**{"W": W, "X": X, "weights": "int4_g32", "inputs": None, **change})
    assert refused.value.key == key
    assert all(refused.value.message(language) for language in languages())


@pytest.mark.parametrize(
    ("use", "key"),
    [
        (lambda result: result.products(TOKENS, 0), "index_out_of_range"),
        (lambda result: result.explain_weight(0, -1), "index_out_of_range"),
        (lambda result: result.explain_input(0, 0), "layer.not_quantized"),
        (lambda result: result.cells(slice(0, 9, 2)), "layer.window"),
        (lambda result: result.cells(slice("a", None)), "layer.window"),
    ],
)
def test_a_wrong_place_gets_a_sentence(use, key):
    with pytest.raises(qv.QuantVizError) as refused:
        use(found(inputs=None))
    assert refused.value.key == key
    assert all(refused.value.message(language) for language in languages())


def test_a_small_layer_adds_up_from_the_first_input_on():
    weight, x = [[0.1, 1e8, -1e8]], [[1.0, 1.0, 1.0], [3.0, 0.5, 0.5]]
    product = qv.layer(weight, x, None, None).cells().product
    one, large = torch.tensor(0.1).item(), 1e8
    assert product.flatten().tolist() == [(one + large) - large, (3 * one + large / 2) - large / 2]


def test_few_outputs_of_many_tokens_add_up():
    """More tokens at a time are read where outputs are few."""
    W, X = (drawn(rows, 4, rows) for rows in (2, 40_000))
    found = qv.layer(W, X, "int4_per_row", "int4_per_tensor")
    cells = found.cells()
    held = found.held_back
    for side, tokens in ((found.rel_out.held_back, held), (found.rel_out.used, ~held)):
        squares = (cells.error[tokens].square().sum() / cells.product[tokens].square().sum()).item()
        assert side == pytest.approx(squares, rel=1e-12)
