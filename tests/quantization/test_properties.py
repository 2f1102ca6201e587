"""Laws of the core, over random small tensors and every scheme that is offered."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.quantization.grids import TIES
from tests.helpers.offered import offered_schemes, problems
from tests.helpers.replay import replay

FEW = settings(max_examples=25, deadline=None)
#: Rows and columns that every offered size of group divides.
ROWS, COLUMNS = 4, 256


@cache
def schemes_of(name):
    """What a convention offers."""
    return list(offered_schemes(qv.CONVENTIONS[name]))


@st.composite
def schemes(draw, names=tuple(qv.CONVENTIONS)):
    return draw(st.sampled_from(schemes_of(draw(st.sampled_from(names)))))


@st.composite
def tensors(draw):
    """Normal, of any loudness, with some outliers, zeros and ties."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(ROWS, COLUMNS, generator=generator) * 2.0 ** draw(st.integers(-12, 12)) + draw(
        st.sampled_from([0.0, 0.0, 1.0, -3.0])
    )
    for _ in range(draw(st.integers(0, 3))):
        x[draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1))] *= draw(
            st.sampled_from([0.0, 30.0, -100.0])
        )
    # No -0: which of 0 and -0 is the smallest of a block is nobody's to say.
    return (x.round() if draw(st.booleans()) else x) + 0.0


def quantized(x, scheme):
    """The result; none where the tensor and the scheme do not go together, which is told in a sentence."""
    try:
        return qv.quantize(x, scheme)
    except QuantVizError:
        return None


@FEW
@given(tensors(), schemes(), st.integers(0, ROWS * COLUMNS - 1))
def test_codes_errors_measures_and_derivations_agree(x, scheme, place):
    r = quantized(x, scheme)
    if r is None:
        return
    fmt = scheme.number_format
    assert fmt.code_min <= int(r.q.min()) <= int(r.q.max()) <= fmt.code_max
    assert torch.equal(r.error, r.x_hat - r.x)
    assert torch.equal(r.x, x)
    numbers = qv.metrics(r)
    assert numbers["rounding_mse"] + numbers["clipping_mse"] == pytest.approx(numbers["mse"], rel=1e-9, abs=0)
    assert numbers["rmse"] ** 2 == pytest.approx(numbers["mse"], rel=1e-9, abs=0)
    assert 0 <= numbers["clipped_share"] <= 1
    assert numbers["max_abs_error"] ** 2 >= numbers["mse"] * (1 - 1e-9)
    index = divmod(place, COLUMNS)
    why = qv.explain(r, index)
    assert (why.q, why.x_hat, why.error) == (r.q[index].item(), r.x_hat[index].item(), r.error[index].item())
    replay(r, index)


@FEW
@given(schemes())
def test_a_scheme_is_its_text(scheme):
    assert qv.Scheme.parse(str(scheme)) == scheme


@FEW
@given(
    tensors(),
    st.sampled_from([f for f in qv.FORMATS if qv.FORMATS[f].kind == "integer"]),
    st.sampled_from(list(qv.MODES)),
    st.data(),
)
def test_rounding_to_the_nearest_errs_by_half_a_step_at_most(x, format_id, mode, data):
    granularity = data.draw(
        st.sampled_from([qv.PerTensor(), qv.PerChannel(0), qv.PerChannel(1), qv.PerGroup(32)])
    )
    r = (
        None
        if problems(format_id, mode, granularity)
        else quantized(x, qv.Scheme(format_id, mode, granularity))
    )
    if r is None:
        return
    # Beside half a step, the rounding of x / scale, of its sum with a zero point as large as the widest code,
    # and of x_hat to float32.
    step = r.step_of_cells()
    rounding = 2.0**-22 * (r.x.abs() + r.x_hat.abs() + r.scheme.number_format.levels * step)
    assert bool((r.error.abs() <= step / 2 + rounding)[~r.clipped].all())
    # What lies on the grid stays there.
    again = qv.quantize(r.x_hat, r.scheme, qparams=r.qparams)
    assert torch.equal(again.q, r.q)
    assert torch.equal(again.x_hat, r.x_hat)


@FEW
@given(tensors(), schemes(), st.permutations(range(ROWS)))
def test_rows_with_scales_of_their_own_may_change_places(x, scheme, order):
    """Where no block holds parts of two rows, and nothing is chosen from the whole tensor or by the place,
    the rows are quantized each for itself.
    """
    alone = type(scheme.granularity)(0) if scheme.granularity == qv.PerChannel(0) else None
    r = (
        quantized(x, scheme)
        if alone or scheme.granularity in [qv.PerGroup(size) for size in (16, 32, 64, 128, 256)]
        else None
    )
    if r is None or r.qparams.global_scale is not None or scheme.arithmetic.ties not in TIES:
        return
    turned = qv.quantize(x[list(order)], scheme)
    assert torch.equal(turned.q, r.q[list(order)])
    assert torch.equal(turned.x_hat, r.x_hat[list(order)])
