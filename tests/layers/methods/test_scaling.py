"""Methods that change the basis, the codes or the rest of the error: the laws that hold for each of them."""

import math

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.methods.awq import AWQ, AWQClip, awq_scales, relative_magnitudes
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.channel_scales import SmoothQuant, equalize, smooth_scales
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.rotation import Rotation, RotationSpread, turned_by
from quantviz.schemes.recipes import as_scheme
from quantviz.tensors.hadamard import hadamard


def drawn(rows, cols, seed):
    return torch.empty(rows, cols).normal_(generator=torch.Generator().manual_seed(seed))


W = drawn(6, 48, 1)
X = drawn(96, 48, 2) @ drawn(48, 48, 3) / 7
X[:, 5] *= 30
EVERY = slice(None)


def found(method, weights="int4_per_row", inputs=None, w=W, x=X):
    return qv.layer(w, x, weights, inputs, method=method)


def values(result):
    return result.weights.quantized(EVERY)


def same(one, other):
    return torch.equal(values(one), values(other)) and one.rel_out == other.rel_out


# ---- bases -------------------------------------------------------------------------------------

BASES = (
    *("rotation", "rotation(block=16)", "rotation(block=12,signs=true)", "rotation(angle=20.0)"),
    *("rotation(kind=orthogonal)", "rotation(kind=orthogonal,block=3,seed=4)", "smoothquant"),
    *("smoothquant(alpha=0.2,variant=torchao)", "smoothquant(variant=llm_compressor)", "equalization"),
    *(
        "smoothquant(variant=modelopt)",
        "awq",
        "awq(variant=autoawq)",
        "awq(variant=llm_compressor)",
        "awq(variant=modelopt)",
    ),
)


@pytest.mark.parametrize("form", BASES)
def test_a_basis_keeps_the_product_and_has_an_inverse(form):
    task = MethodTask(W.double(), X.double(), as_scheme("int4_per_row"), None)
    basis = as_chain(form).bases[0].basis(task)
    w = basis.of_weights(task.w)
    x = basis.of_inputs(task.x)
    wanted = task.x @ task.w.T
    torch.testing.assert_close(x @ w.T, wanted, atol=1e-11 * float(wanted.abs().max()), rtol=0)
    torch.testing.assert_close(basis.weights_back(w), task.w, atol=1e-12, rtol=0)
    torch.testing.assert_close(basis.inputs_back(x), task.x, atol=1e-12, rtol=0)


def test_the_angle_leads_from_the_identity_to_a_hadamard_matrix():
    for order in (2, 8, 12, 48):
        identity = torch.eye(order, dtype=torch.float64)
        torch.testing.assert_close(turned_by(order, 0.0), identity, atol=1e-15, rtol=0)
        for angle in (10.0, 45.0):
            matrix = turned_by(order, angle)
            torch.testing.assert_close(matrix @ matrix.T, identity, atol=1e-14, rtol=0)
        ratio = matrix * math.sqrt(order) / hadamard(order)
        torch.testing.assert_close(ratio, ratio[:1].sign().expand(order, order), atol=1e-13, rtol=0)
    unturned = found("rotation(angle=0.0)")
    assert same(unturned, found(None))


def test_a_rotation_spreads_a_loud_channel_over_all():
    turned = Rotation().basis(MethodTask(torch.eye(64).double(), torch.eye(64).double()[:1] * 3, None, None))
    before, after = turned.trace.inputs
    assert before == RotationSpread(kurtosis=64.0, peak=8.0)
    assert after.peak == pytest.approx(1.0)
    signed = found("rotation(signs=true)", inputs="int8_per_tensor")
    assert signed.rel_out.held_back < found(None, inputs="int8_per_tensor").rel_out.held_back


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("rotation(block=5)", "divide"),
        ("rotation(block=6)", "6 rows"),
        ("rotation(block=36,angle=3.0)", "divide"),
        ("rotation(angle=50.0)", "from 0 to 45"),
        ("smoothquant+awq", "undo the first"),
        ("low_rank+rotation", "Swap"),
        ("awq_clip+llm_int8", "several"),
        ("llm_int8", "int8_per_token"),
        ("double_quantization", "nf4_64"),
        ("four_over_six", "modelopt_nvfp4"),
        ("gptq+higgs", "several"),
    ],
)
def test_what_means_nothing_is_refused_with_its_reason(form, words):
    with pytest.raises(qv.QuantVizError, match=words):
        found(form, "int4_per_tensor")
    with pytest.raises(qv.QuantVizError, match="36 rows"):
        turned_by(36, 3.0)


@pytest.mark.parametrize("variant", ["paper", "torchao", "modelopt"])
def test_smoothquant_moves_maxima_by_alpha_and_is_the_identity_where_they_are_one(variant):
    x = X / X.abs().amax(0)
    w = W / W.abs().amax(0)
    for alpha in (0.0, 0.5, 1.0):
        scales = smooth_scales(x, (w,), alpha, variant)
        torch.testing.assert_close(scales, torch.ones(48), atol=1e-6, rtol=0)
    halves = smooth_scales(X, (W,), 0.5, variant)
    torch.testing.assert_close((X / halves).abs().amax(0), (W * halves).abs().amax(0), atol=1e-4, rtol=1e-5)
    both = smooth_scales(X, (W, 4 * W), 0.5, variant)
    torch.testing.assert_close(both, halves / 2, atol=1e-6, rtol=1e-5)


def test_a_channel_without_inputs_or_weights_keeps_scales_finite():
    x = X.clone()
    x[:, 3] = 0
    w = W.clone()
    w[:, 4] = 0
    for variant in ("paper", "torchao", "llm_compressor", "modelopt"):
        scales = smooth_scales(x, (w,), 0.5, variant)
        assert bool(torch.isfinite(scales).all())
        assert float(scales.min()) > 0
    for form in ("awq", "awq(variant=modelopt)", "equalization", "low_rank(weighting=activation)"):
        assert math.isfinite(found(form, w=w, x=x).rel_out.held_back)


#: Schemes by whose rows, by whose groups, and by whose whole tensor each trial is rounded.
TRIED = (
    *("int4_per_row", "int8_per_tensor", "nvfp4", "int4,symmetric,per_group(size=16),min_max,course"),
    "int4,symmetric,per_channel,min_max,course(ties=stochastic)",
)


#: AutoAWQ's rounding of groups of 16, asymmetric, to 4 bits.
AUTOAWQS = "uint4,asymmetric,per_group(size=16,axis=1),min_max,course"


def rounded_as_autoawq(values):
    groups = values.astype(np.float32).astype(np.float64).reshape(-1, 16)
    low, high = groups.min(1, keepdims=True), groups.max(1, keepdims=True)
    scale = (high - low) / 15
    zero = np.clip(np.round(-low / scale), 0, 15)
    return ((np.clip(np.round(groups / scale) + zero, 0, 15) - zero) * scale).reshape(values.shape)


def test_autoawqs_search_is_its_formula_in_numpy():
    """20 ratios from 0 on, s = x̄^r / (w̄^(1−r) + 1e-4) at least 1e-4, and the least error of the outputs under
    its asymmetric rounding of groups; AutoAWQ adds 1e-6 to a group's largest weight, which is nothing here.
    """
    w, x = W.double().numpy(), X.double().numpy()
    task = MethodTask(W.double(), X.double(), as_scheme(AUTOAWQS), None)
    trace = AWQ("autoawq").basis(task).trace
    x_mean = np.abs(x).mean(0)
    groups = np.abs(w).reshape(-1, 16)
    w_mean = (groups / (groups.max(1, keepdims=True) + 1e-6)).reshape(w.shape).mean(0)
    scales, losses = [], []
    for ratio in np.arange(20) / 20:
        s = np.maximum(x_mean**ratio / (w_mean ** (1 - ratio) + 1e-4), 1e-4)
        scales.append(s / np.sqrt(s.max() * s.min()))
        errors = x @ (rounded_as_autoawq(w * scales[-1]) / scales[-1] - w).T
        losses.append(np.square(errors).sum() / np.square(x @ w.T).sum())
    assert trace.ratios == tuple(np.arange(20) / 20)
    np.testing.assert_allclose(trace.losses, losses, rtol=1e-3)
    assert trace.best == int(np.argmin(losses))
    np.testing.assert_allclose(trace.scales, scales[trace.best], rtol=1e-5)


def test_autoawqs_clip_is_its_formula_in_numpy():
    """A group of weights is clamped at 1 − i/20 of its largest magnitude, i = 0 to 9, then rounded as it is
    now; it keeps the clip with the least error of its own 16 products, added up, over all tokens.
    """
    task = MethodTask(W.double(), X.double(), as_scheme(AUTOAWQS), None)
    clipped = AWQClip().round(task)
    w, x = W.double().numpy().reshape(-1, 3, 16), X.double().numpy().reshape(-1, 3, 16)
    largest = np.abs(w).max(2, keepdims=True)
    trials, losses = [], []
    for shrunk in np.arange(10) / 20:
        end = largest * (1 - shrunk)
        trials.append(rounded_as_autoawq(np.clip(w, -end, end)))
        losses.append(np.square(np.einsum("tgi,ogi->tog", x, trials[-1] - w)).sum(0))
    best = np.argmin(losses, 0)
    assert len(set(best.flatten())) > 4
    np.testing.assert_allclose(clipped.trace.chosen.numpy(), 1 - best / 20)
    wanted = np.take_along_axis(np.stack(trials), best[None, :, :, None], 0)[0]
    np.testing.assert_allclose(clipped.result.x_hat.numpy(), wanted.reshape(len(w), -1), rtol=1e-5, atol=1e-6)


def test_awqs_first_exponent_is_the_identity_in_the_paper_alone():
    task = MethodTask(W.double(), X.double(), as_scheme("int4_per_row"), None)
    for variant, identity in (("paper", True), ("llm_compressor", False), ("modelopt", False)):
        trace = AWQ(variant).basis(task).trace
        assert (trace.losses[0] == trace.unscaled) == identity
        assert min(trace.losses) == trace.losses[trace.best]
        assert len(trace.losses) == {"paper": 20, "llm_compressor": 19, "modelopt": 11}[variant]
    assert trace.losses[trace.best] < trace.unscaled
    assert relative_magnitudes(W.double(), task.scheme).shape == (48,)


@pytest.mark.parametrize("scheme", TRIED)
def test_each_trial_of_awq_is_rounded_as_it_is_alone(scheme):
    task = MethodTask(W.double(), X.double(), as_scheme(scheme), None)
    trace = AWQ().basis(task).trace
    for ratio, loss in zip(trace.ratios, trace.losses, strict=True):
        scales = awq_scales(trace.x_mean, trace.w_mean, ratio)
        alone = qv.quantize((task.w * scales).float(), scheme).x_hat.double() / scales
        assert loss == task.output_error(alone), ratio


def test_two_layers_with_equal_ranges_compute_the_same():
    before, after, bias = drawn(8, 5, 4) * 3, drawn(4, 8, 5), drawn(1, 8, 6)[0]
    x = drawn(10, 5, 7)
    for ranges in ("magnitude", "width"):
        one, shift, other = equalize(before, bias, after, ranges)
        wanted = torch.relu(x @ before.T + bias) @ after.T
        torch.testing.assert_close(torch.relu(x @ one.T + shift) @ other.T, wanted, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(one.amax(1) - one.amin(1), other.amax(0) - other.amin(0))


# ---- codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["int4_per_row", "int4_per_tensor", "mxfp4", "q4_1", "nvfp4"])
def test_a_clip_never_errs_more_on_the_outputs_of_its_blocks(scheme):
    w, x = drawn(6, 64, 1), drawn(96, 64, 2)
    clipped = found("awq_clip", scheme, w=w, x=x)
    trace = clipped.trace["awq_clip"]
    assert trace.losses[0] == 1.0
    assert trace.chosen.unique().tolist()[-1] <= 1.0
    if scheme.startswith("int4"):
        assert clipped.rel_out.used <= found(None, scheme, w=w, x=x).rel_out.used
    q = clipped.weights.study.result
    assert torch.equal(qv.dequantize(q.q, q.scheme, q.qparams), q.x_hat)


def test_llm_int8_without_outliers_is_int8_and_with_them_keeps_both_sides():
    plain = found(None, "int8_per_output", "int8_per_token")
    assert same(found("llm_int8(threshold=1e9)", "int8_per_output", "int8_per_token"), plain)
    split = found("llm_int8", "int8_per_output", "int8_per_token")
    kept = split.trace["llm_int8"].kept
    assert bool(kept[5])
    assert torch.equal(values(split)[:, kept], W[:, kept].half().float())
    assert torch.equal(split.inputs.quantized(EVERY)[:, kept], X[:, kept].half().float())
    assert split.rel_out.held_back < plain.rel_out.held_back / 3
    assert split.effective_bits == pytest.approx(plain.effective_bits + 8 * kept.float().mean().item())
    whole = found("llm_int8(threshold=0.0)", "int8_per_output", "int8_per_tensor")
    assert whole.rel_out.held_back < 1e-6


def test_quantized_scales_keep_the_codes_and_save_bits():
    w, x = drawn(64, 512, 8), drawn(8, 512, 9)
    plain, twice = (found(each, "nf4_64", w=w, x=x) for each in (None, "double_quantization"))
    assert torch.equal(plain.weights.study.result.q, twice.weights.study.result.q)
    assert plain.effective_bits == 4.5
    assert twice.effective_bits == pytest.approx(4 + (8 + 32 / 256) / 64)
    assert plain.rel_out.held_back < twice.rel_out.held_back < 1.02 * plain.rel_out.held_back


def test_blocks_end_at_four_where_that_errs_less():
    w, x = drawn(16, 64, 8), drawn(8, 64, 9)
    chosen = found("four_over_six", "modelopt_nvfp4", w=w, x=x)
    ends = chosen.trace["four_over_six"].four
    assert 0 < int(ends.sum()) < ends.numel()
    assert chosen.weights.sqnr_db > found(None, "modelopt_nvfp4", w=w, x=x).weights.sqnr_db


# ---- the rest of the error ----------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["none", "activation", "optimum"])
def test_a_full_rank_leaves_no_error(weighting):
    assert found(f"low_rank(rank=48,weighting={weighting})").rel_out.held_back < 1e-11


def test_the_optimum_has_the_least_output_error_of_a_rank():
    for rank in (1, 4):
        errors = {
            weighting: found(f"low_rank(rank={rank},weighting={weighting},damping=0.0)").rel_out.used
            for weighting in ("none", "activation", "optimum")
        }
        assert min(errors, key=errors.get) == "optimum"
        trace = found(f"low_rank(rank={rank},damping=0.0)").trace["low_rank"]
        left = float(trace.of_weighted[rank:].square().sum()) / trace.signal
        assert errors["optimum"] == pytest.approx(left, rel=1e-4)
    added = found("low_rank(rank=2)").effective_bits - found(None).effective_bits
    assert added == pytest.approx(2 * 54 * 16 / (6 * 48))


# ---- together -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "weights", "inputs"),
    [
        ("rotation+gptq", "int4_per_row", None),
        ("smoothquant", "int8_per_output", "int8_per_tensor"),
        ("awq+awq_clip", "int4_per_row", None),
        ("awq+gptq+low_rank(rank=2)", "int4_per_row", None),
        ("smoothquant+rotation+gptq", "int4_per_row", "int8_per_token"),
        ("rotation(signs=true)+higgs+low_rank(rank=2)", "int4_per_row", None),
        ("rotation+llm_int8+low_rank", "int8_per_output", "int8_per_token"),
    ],
)
def test_methods_work_together_and_parts_add_up(form, weights, inputs):
    result = found(form, weights, inputs)
    assert str(result.method) == form
    assert list(result.trace) == [each.id for each in result.method.methods]
    assert sum(part.share.held_back for part in result.parts.values()) == pytest.approx(1)
    assert result.rel_out.held_back < found(None, weights, inputs).rel_out.held_back


def test_smoothquant_hurts_a_layer_whose_weights_are_loud():
    loud = BuiltInLayer("minilm_0_output").open()
    plain, smooth = (
        qv.layer(loud.weight, loud.inputs, "int8_per_output", "int8_per_tensor", method=each)
        for each in (None, SmoothQuant(0.5))
    )
    assert smooth.rel_out.held_back > 4 * plain.rel_out.held_back
