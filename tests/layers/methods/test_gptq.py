"""GPTQ: its laws, its variants, and the layers on which it cannot work."""

import pytest
import torch

import quantviz as qv
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.gptq import GPTQ
from quantviz.schemes.recipes import as_scheme


def drawn(rows, cols, seed):
    return torch.empty(rows, cols).normal_(generator=torch.Generator().manual_seed(seed))


W = drawn(6, 32, 1)
X = drawn(128, 32, 2) @ drawn(32, 32, 3)
EVERY = slice(None)
SCHEMES = (
    "int4_g32",
    "int4_per_row",
    "int8_per_tensor",
    "mxfp4",
    "nvfp4",
    "q4_0",
    "q4_1",
    *("uint4,symmetric,per_group(size=8),min_max,gptq", "nf4,symmetric,per_group(size=16),min_max,course"),
    *(
        "int4,symmetric,per_block(rows=2,cols=8),min_max,course",
        "int4,symmetric,per_channel(axis=1),mse,course",
    ),
)


def found(scheme="int4_g32", method="gptq", w=W, x=X):
    return qv.layer(w, x, scheme, None, method=method)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_with_uncorrelated_inputs_it_is_rounding_to_nearest(scheme):
    w = W.to(torch.float64)
    task = MethodTask(w, torch.eye(32, dtype=torch.float64), as_scheme(scheme), None)
    rounded = GPTQ().round(task)
    assert torch.equal(rounded.result.q, task.nearest.q)
    assert torch.equal(rounded.result.x_hat, task.nearest.x_hat)


@pytest.mark.parametrize("scheme", SCHEMES[:-1])
def test_it_lowers_the_error_of_the_tokens_it_saw(scheme):
    for method in ("gptq", "gptq(order=activation)"):
        result = found(scheme, method)
        assert result.rel_out.used < found(scheme, None).rel_out.used
        q = result.weights.study.result
        # Its codes are codes of the scheme, and its values those of its codes.
        assert torch.equal(qv.dequantize(q.q, q.scheme, q.qparams), q.x_hat)


@pytest.mark.parametrize("order", ["natural", "activation"])
@pytest.mark.parametrize("groups", ["static", "dynamic"])
def test_the_trace_gives_every_moment_of_the_sweep(order, groups):
    result = found(
        method=f"gptq(order={order},groups={groups},block=8)",
        scheme="int4,symmetric,per_group(size=8),min_max,course",
    )
    trace = result.trace["gptq"]
    last = trace.at(32)
    w_hat = result.weights.quantized(EVERY).to(torch.float64)
    torch.testing.assert_close(last, w_hat[:, trace.order], rtol=1e-10, atol=1e-10)
    used = X[~result.held_back].to(torch.float64)[:, trace.order]
    signal = (used @ trace.w.T).square().sum()
    for column in (0, 1, 17, 32):
        error = (used @ (trace.at(column) - trace.w).T).square().sum() / signal
        assert float(trace.output_errors[column]) == pytest.approx(float(error), rel=1e-8, abs=1e-14)
        changed = (trace.at(column) - trace.w).square().sum() / trace.w.square().sum()
        assert float(trace.weight_errors[column]) == pytest.approx(float(changed), rel=1e-8, abs=1e-14)
    assert float(trace.output_errors[-1]) == pytest.approx(result.rel_out.used, rel=1e-6)
    nearest = found(scheme="int4,symmetric,per_group(size=8),min_max,course", method=None)
    assert float(trace.nearest_output_errors[-1]) == pytest.approx(nearest.rel_out.used, rel=1e-6)
    torch.testing.assert_close(trace.errors(3), trace.at(4)[:, 3] - trace.at(3)[:, 3])


@pytest.mark.parametrize("groups", ["static", "dynamic"])
def test_the_size_of_a_block_changes_static_groups_not_at_all(groups):
    one, other = (
        found("int4,symmetric,per_group(size=8),min_max,course", f"gptq(groups={groups},block={block})")
        for block in (4, 32)
    )
    same = torch.equal(one.weights.quantized(EVERY), other.weights.quantized(EVERY))
    # Scales of dynamic groups are taken from weights that are not corrected inside of a block.
    assert same == (groups == "static")


def test_a_group_of_columns_that_lie_apart_costs_an_index_for_each_column():
    apart = found(
        method="gptq(groups=dynamic,order=activation)",
        scheme="int4,symmetric,per_group(size=8),min_max,course",
    )
    assert apart.effective_bits == pytest.approx(4 + 16 / 8 + 32 / 6)
    explained = apart.explain_weight(1, 2)
    assert explained.x_hat == float(apart.weights.quantized(EVERY)[1, 2])


def test_explain_takes_the_code_that_was_chosen():
    result = found()
    r = result.weights.study.result
    moved = (r.q != qv.quantize(W, "int4_g32").q).nonzero()[0].tolist()
    explained = result.explain_weight(*moved)
    assert explained.step("own_code") is not None
    assert explained.q == int(r.q[tuple(moved)])
    assert "method_own_codes" in [note.key for note in result.notes]


def test_dead_channels_become_zero_with_a_note():
    x = X.clone()
    x[:, [3, 9]] = 0
    result = found(x=x)
    assert not result.weights.quantized(EVERY)[:, [3, 9]].any()
    note = next(note for note in result.notes if note.key == "method_dead_channels")
    assert note.params["count"] == 2


def test_fewer_tokens_than_inputs_have_a_note_and_need_damping():
    few = X[:20]
    keys = [note.key for note in found(x=few).notes]
    assert "method_few_tokens" in keys
    with pytest.raises(qv.QuantVizError) as caught:
        found(x=few, method="gptq(damping=0.0)")
    assert caught.value.key == "method.not_positive_definite"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_refused_before_any_method(value):
    x = X.clone()
    x[0, 0] = value
    with pytest.raises(qv.QuantVizError) as caught:
        found(x=x)
    assert caught.value.key == "layer.nonfinite"


@pytest.mark.parametrize(
    ("scheme", "method", "key"),
    [
        (None, "gptq", "method.no_weight_scheme"),
        ("int4_per_output", "gptq(groups=dynamic)", "method.dynamic_groups"),
        ("nvfp4", "gptq(groups=dynamic)", "method.dynamic_groups"),
        ("nf4_64", "gptq(variant=last_scale)", "method.last_scale"),
    ],
)
def test_a_scheme_that_does_not_fit_is_refused(scheme, method, key):
    with pytest.raises(qv.QuantVizError) as caught:
        found(scheme, method)
    assert caught.value.key == key
