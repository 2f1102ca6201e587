"""Learned transforms: held to torch's own slopes, NumPy's Cayley step, and the error that they leave."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.contract import MethodTask, ScaledBasis
from quantviz.layers.methods.learned_transforms import MatrixBasis, SpinQuant, cayley_step, slopes_in
from quantviz.schemes.recipes import as_scheme
from tests.layers.methods.rows_apart import lwc_by_torch


def drawn(rows, cols, seed):
    loud = 1 + 9 * (torch.arange(cols) % 7 == 3)
    return torch.randn(rows, cols, generator=torch.Generator().manual_seed(seed)).double() * loud


def task_of(weights, inputs=None, sizes=(40, 24, 10)):
    tokens, channels, outputs = sizes
    schemes = (None if each is None else as_scheme(each) for each in (weights, inputs))
    w = torch.randn(outputs, channels, generator=torch.Generator().manual_seed(1)).double()
    return MethodTask(w, drawn(tokens, channels, 2), *schemes)


def straight_through(values, scheme):
    rounded = qv.quantize(values.detach().float(), scheme).x_hat.double()
    return values + (rounded - values).detach()


def loss_of(task, x, w):
    y_hat = straight_through(x, task.inputs) @ straight_through(w, task.weights).T
    return (y_hat - task.x @ task.w.T).square().sum() / 2


PAIR = ("int4_per_row", "int8_per_row")


def test_the_slope_by_the_rotation_is_torchs():
    task = task_of(*PAIR)
    start = SpinQuant().start(task)
    slopes = slopes_in(task, start)
    ours = task.x.T @ slopes.of_inputs + task.w.T @ slopes.of_weights
    matrix = start.matrix.clone().requires_grad_()
    loss = loss_of(task, task.x @ matrix, task.w @ matrix)
    loss.backward()
    assert torch.allclose(ours, matrix.grad, rtol=1e-9, atol=1e-9)
    share = float(2 * loss.detach() / (task.x @ task.w.T).square().sum())
    assert slopes.error == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize("shift", [None, 1.5])
def test_the_slopes_by_scales_and_shifts_are_torchs(shift):
    task = task_of(*PAIR)
    scales = torch.linspace(0.5, 2, 24).double()
    found = as_chain(f"learned_scales(rate=0.01,steps=1,shift={str(shift is not None).lower()})").bases[0]
    offsets = torch.linspace(-1, shift or 0, 24).double() if shift else None
    basis = ScaledBasis(scales, shift=offsets)
    slopes = slopes_in(task, basis)
    moved = found.moved(task, basis, slopes, 0)
    logs = scales.log().requires_grad_()
    taken = torch.zeros(24).double() if offsets is None else offsets.clone()
    taken.requires_grad_()
    sides = straight_through((task.x - taken) / logs.exp(), task.inputs), task.w * logs.exp()
    y_hat = sides[0] @ straight_through(sides[1], task.weights).T + taken @ task.w.T
    loss = (y_hat - task.x @ task.w.T).square().sum() / 2
    loss.backward()
    assert slopes.error == pytest.approx(
        float(2 * loss.detach() / (task.x @ task.w.T).square().sum()), rel=1e-9
    )
    wanted = scales * torch.exp(-0.01 * logs.grad / logs.grad.square().mean().sqrt())
    assert torch.allclose(moved.scales, wanted, rtol=1e-9)
    if shift:
        reach = (task.x.amax(0) - task.x.amin(0)) / 2
        by_shift = taken.grad * reach
        wanted = taken - 0.01 * reach * by_shift / by_shift.square().mean().sqrt()
        assert torch.allclose(moved.shift, wanted, rtol=1e-9)


def test_what_is_taken_off_the_inputs_is_in_the_bias_with_the_weights_as_they_are():
    """Channels whose values lie far from 0, under one symmetric scale of each token."""
    x = drawn(96, 24, 5).float() / 4 + torch.linspace(-40, 40, 24)
    w = torch.randn(10, 24, generator=torch.Generator().manual_seed(6))
    plain, found = (
        qv.layer(w, x, *PAIR, torch.ones(10), method=f"learned_scales{form}") for form in ("", "(shift=true)")
    )
    assert found.rel_out.held_back < plain.rel_out.held_back / 20
    task = MethodTask(w.double(), x[~found.held_back].double(), *(as_scheme(each) for each in PAIR))
    basis = as_chain("learned_scales(shift=true)").bases[0].basis(task)
    # By hand: codes of what is left of the inputs, times rounded weights, and the bias.
    left = qv.quantize(((x.double() - basis.shift) / basis.scales).float(), PAIR[1]).x_hat.double()
    w_hat = qv.quantize((w.double() * basis.scales).float(), PAIR[0]).x_hat.double()
    bias = 1 + w.double() @ basis.shift
    cells = found.cells(slice(None), slice(None))
    assert torch.allclose(cells.y_hat, left @ w_hat.T + bias, rtol=1e-5, atol=1e-4)
    assert torch.allclose(cells.y, x.double() @ w.double().T + 1, rtol=1e-12)


def test_a_cayley_step_is_numpys_and_stays_orthogonal():
    matrix = MatrixBasis(torch.linalg.qr(drawn(12, 12, 3)).Q).matrix
    slope = drawn(12, 12, 4)
    skew = (slope @ matrix.T - matrix @ slope.T).numpy()
    skew = 0.3 * skew / np.sqrt(np.square(skew).sum())
    theirs = np.linalg.inv(np.eye(12) + skew / 2) @ (np.eye(12) - skew / 2) @ matrix.numpy()
    ours = cayley_step(matrix, slope, 0.3)
    assert np.allclose(ours.numpy(), theirs, atol=1e-12)
    assert torch.allclose(ours @ ours.T, torch.eye(12).double(), atol=1e-12)


def test_a_learned_rotation_is_orthogonal_and_leaves_less_error_than_its_start():
    layer = BuiltInLayer("loud_input").open()
    assert layer.result(*PAIR, method="spinquant(steps=3)").trace["spinquant"].best >= 0
    task = task_of(*PAIR, sizes=(200, 48, 32))
    basis = SpinQuant(steps=10).basis(task)
    errors = basis.trace.errors
    assert float(errors.min()) < 0.9 * float(errors[0])
    assert torch.allclose(basis.matrix @ basis.matrix.T, torch.eye(48).double(), atol=1e-10)
    assert slopes_in(task, basis).error == pytest.approx(float(errors.min()), rel=1e-9)


@pytest.mark.parametrize("mode", ["asymmetric", "symmetric"])
def test_learned_clips_end_where_the_papers_formula_does(mode):
    task = task_of(f"int3,{mode},per_group(size=8),min_max,compressed_tensors")
    found = as_chain("learned_clips(steps=60,rate=0.1)").rounding.round(task)
    ours = task.output_error(found.w_hat)
    assert ours == pytest.approx(float(found.trace.errors.min()), rel=1e-6)
    assert ours < task.output_error(task.nearest.x_hat)
    if mode == "asymmetric":
        assert ours < 1.1 * lwc_by_torch(task, 8, 60, 0.1)


def test_a_layer_without_an_error_or_with_dead_channels_keeps_its_start():
    w, x = torch.zeros(4, 8).double(), torch.ones(16, 8).double()
    task = MethodTask(w, x, as_scheme("int4_per_row"), as_scheme("int8_per_row"))
    assert as_chain("spinquant(steps=2)").bases[0].basis(task).trace.best == 0
    assert as_chain("learned_scales(steps=2)").bases[0].basis(task).trace.best == 0
    assert float(as_chain("learned_clips(steps=2)").rounding.round(task).w_hat.abs().max()) == 0


@pytest.mark.parametrize(
    "form", ["spinquant(steps=0)", "learned_scales(rate=-1.0)", "learned_clips(steps=0)"]
)
def test_bad_fields_are_refused(form):
    with pytest.raises(qv.QuantVizError) as caught:
        as_chain(form)
    assert caught.value.key == "method.number"


def test_clips_need_a_range():
    with pytest.raises(qv.QuantVizError) as caught:
        as_chain("learned_clips").rounding.round(task_of("qserve_int4_g128", sizes=(8, 128, 4)))
    assert caught.value.key == "method.awq.no_range"
