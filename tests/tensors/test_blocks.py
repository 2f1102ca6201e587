"""Blocks that reach beyond the tensor: what they give, and that nothing as large as they is made."""

import tracemalloc

import pytest
import torch

import quantviz as qv
from quantviz.lab.state import LabState, opening
from quantviz.schemes.calibration import ModeContext
from quantviz.schemes.granularity import MOST_IN_BLOCK
from quantviz.tensors.blocks import Blocks, block_ids, expand

PADDED, SHORT = (qv.CONVENTIONS["course"].replace(tail=tail) for tail in ("pad", "short"))
BEYOND = [
    qv.PerGroup(7),
    qv.PerGroup(50),
    qv.PerGroup(9, axis=0),
    qv.PerBlock(4, 50),
    qv.PerBlock(50, 4),
    qv.PerBlock(50, 50),
    qv.Flat(7),
    qv.Flat(500),
]
HUGE = [
    f"int8,symmetric,{granularity},min_max,{convention}"
    for size in (2**24, 2**26, 10**17)
    for convention in (
        "microxcaling",
        "modelopt",
        "onnxruntime_blocked",
        "course(tail=short)",
        "course(tail=pad)",
        "modelopt_packed",
    )
    for granularity in (
        f"per_group(size={size})",
        f"per_group(size={size},axis=0)",
        f"per_block(rows=2,cols={size})",
        f"flat(size={size})",
    )
    if qv.CONVENTIONS[convention.partition("(")[0]].offer.has_granularity(
        qv.Scheme.parse(f"int8,symmetric,{granularity},min_max,course").granularity, "int8"
    )
]


def filled(x, layout):
    """The tensor with zeros to the end of its last blocks, and the layout of that."""
    full = [blocks * size for blocks, size in zip(layout.grid_shape, layout.block_shape, strict=True)]
    view = x.reshape(layout.view_shape)
    missing = [n for pair in zip(full, layout.view_shape, strict=True) for n in (pair[0] - pair[1], 0)]
    return torch.nn.functional.pad(view, missing[::-1]), full


@pytest.mark.parametrize("granularity", BEYOND, ids=str)
@pytest.mark.parametrize(
    "calibration",
    [qv.MinMax(), qv.Percentile(51.0), qv.Percentile(80.0), qv.Percentile(99.9), qv.AbsMean()],
    ids=str,
)
@pytest.mark.parametrize("shift", [-3.0, 0.0, 3.0])
def test_a_padded_block_is_one_whose_zeros_were_written_out(granularity, calibration, shift):
    x = torch.randn(6, 10, generator=torch.Generator().manual_seed(1)) + shift
    x[0] = -0.0
    layout = granularity.layout((6, 10), "pad")
    written, full = filled(x, layout)
    for mode in ("symmetric", "asymmetric") if calibration.id != "abs_mean" else ("symmetric",):
        found = calibration.calibrate(Blocks(x, layout, torch.float64), ModeContext(mode))
        wanted = calibration.calibrate(
            Blocks(written, granularity.layout(tuple(full)), torch.float64), ModeContext(mode)
        )
        for one, other in ((found.lo, wanted.lo), (found.hi, wanted.hi), (found.extreme, wanted.extreme)):
            assert torch.equal(one, other)


@pytest.mark.parametrize("granularity", BEYOND, ids=str)
def test_a_short_block_is_one_of_its_own_elements(granularity):
    x = torch.randn(6, 10, generator=torch.Generator().manual_seed(2))
    layout = granularity.layout((6, 10), "short")
    ids = block_ids(layout, (6, 10))
    found = qv.Percentile(80.0).calibrate(Blocks(x, layout, torch.float64), ModeContext("asymmetric"))
    for number in range(layout.block_count):
        own = x[ids == number].to(torch.float64)
        assert found.hi.flatten()[number] == pytest.approx(torch.quantile(own, 0.8).item())
    assert torch.equal(expand(found.hi, layout, (6, 10)).expand(6, 10), found.hi.flatten()[ids])


@pytest.mark.parametrize("form", HUGE)
def test_a_block_far_larger_than_the_tensor_is_refused_wherever_a_scheme_is_asked_for(form):
    scheme = qv.Scheme.parse(form)
    assert "block_too_large" in [problem.key for problem in scheme.problems((8, 8))]
    for use in (qv.quantize, qv.measure, qv.choose_qparams):
        with pytest.raises(qv.QuantVizError, match="is too large"):
            use(torch.ones(8, 8), scheme)
    for name in ("s", "b"):
        state, problems = LabState.read({name: form})
        assert state == opening().replace(value_scale="linear")
        assert [problem.key for problem in problems] == ["link.part"]
    assert scheme.fitted((8, 8)).problems((8, 8)) == ()


@pytest.mark.parametrize("convention", [PADDED, SHORT], ids=str)
@pytest.mark.parametrize("calibration", [qv.MinMax(), qv.Percentile(99.0), qv.AbsMean()], ids=str)
@pytest.mark.parametrize("size", [MOST_IN_BLOCK, 4 * 300 * 100], ids=str)
def test_nothing_as_large_as_a_block_is_made(convention, calibration, size):
    """300 blocks of which each is mostly no tensor: made in full they would take 300 times what is allowed
    here.
    """
    x = torch.randn(300, 100, generator=torch.Generator().manual_seed(3))
    scheme = qv.Scheme(granularity=qv.PerGroup(size), calibration=calibration, convention=convention)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        tracemalloc.start()
        r = qv.quantize(x, scheme)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert r.layout.block_shape == (1, size)
    largest = max((event.self_cpu_memory_usage for event in profile.events()), default=0)
    assert 0 < largest < 40 * x.numel()
    assert peak < 100 * x.numel()


def test_what_engines_do_to_a_short_axis_is_still_there():
    """A convolution's kernel of 3 in groups of 32: padded to more than ten times its size, and yet no block
    of it is large.
    """
    x = torch.randn(64, 64, 3, 3, generator=torch.Generator().manual_seed(4))
    assert qv.quantize(x, qv.RECIPES["mxfp4"]).layout.grid_shape == (64, 64, 3, 1)
