"""Low rank before rounding: what is kept of it, its bits, and its order on a real layer."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.contract import MethodTask
from quantviz.schemes.recipes import as_scheme

LAYER = BuiltInLayer("minilm_1_intermediate").open()


def test_one_round_of_loftq_is_lqer():
    found = [
        LAYER.result("int4_per_row", None, method=each)
        for each in ("loftq(rounds=1)", "low_rank(weighting=none)")
    ]
    assert found[0].rel_out == pytest.approx(found[1].rel_out, rel=1e-6)
    assert found[0].effective_bits == found[1].effective_bits


def test_before_rounding_the_same_rank_leaves_less_error():
    errors = {
        form: LAYER.result("int4_per_row", None, method=form).rel_out.held_back
        for form in ("svdquant", "loftq", "low_rank(weighting=none)", "nearest")
    }
    assert list(errors) == sorted(errors, key=errors.__getitem__)


def test_what_gptq_left_is_corrected_by_its_largest_parts():
    """yxli2123/LoftQ 18, rebuilt: Q by GPTQ, and both factors of the adapter from the SVD of W − Q."""
    plain, corrected = (
        LAYER.result("int4_per_row", None, method=each) for each in ("gptq", "gptq+low_rank(weighting=none)")
    )
    w, q = (side(slice(None)).double().numpy() for side in (plain.weights.values, plain.weights.quantized))
    left, sizes, right = np.linalg.svd(w - q, full_matrices=False)
    wanted = q + left[:, :8] * sizes[:8] @ right[:8]
    x, used = plain.inputs.values(slice(None)).double().numpy(), ~plain.held_back.numpy()
    errors = [
        np.square(x @ (each - w).T)[used].sum() / np.square(x @ w.T)[used].sum() for each in (q, wanted)
    ]
    assert [plain.rel_out.used, corrected.rel_out.used] == pytest.approx(errors, rel=1e-4)


def test_a_part_of_full_rank_leaves_no_error():
    for form in ("svdquant(rank=999)", "loftq(rank=999)"):
        assert LAYER.result("int4_per_row", None, method=form).rel_out.held_back < 1e-12


def test_inputs_are_rounded_in_the_basis_that_was_chosen():
    smooth, none = (
        LAYER.result("int4_per_row", "int8_per_tensor", method=f"svdquant(alpha={alpha})")
        for alpha in (0.5, 0.0)
    )
    assert smooth.rel_out.held_back < none.rel_out.held_back
    searched = LAYER.result("int4_per_row", "int8_per_tensor", method="svdquant")
    trace = searched.trace["svdquant"]
    assert float(trace.errors.min()) == pytest.approx(searched.rel_out.used, rel=1e-3)
    assert float(trace.errors[5]) == pytest.approx(smooth.rel_out.used, rel=1e-3)


@pytest.mark.parametrize(
    "form", ["svdquant(rank=0)", "svdquant(alpha=2.0)", "loftq(rounds=0)", "loftq(rank=0)"]
)
def test_bad_fields_are_refused(form):
    with pytest.raises(qv.QuantVizError) as caught:
        as_chain(form)
    assert caught.value.key == "method.number"


def test_a_dead_channel_and_a_weight_of_zeros_are_no_error():
    w, x = torch.zeros(4, 8).double(), torch.ones(16, 8).double()
    x[:, 3] = 0
    for form in ("svdquant(rank=2)", "loftq(rank=2)"):
        rounding = as_chain(form).rounding
        assert float(rounding.round(MethodTask(w, x, as_scheme("int4_per_row"), None)).w_hat.abs().max()) == 0
