"""The derivation of a cell, replayed line by line to the very codes and values of the tensor."""

import itertools

import pytest
import torch

import quantviz as qv
from quantviz import blocks
from quantviz.explanation import CAUSES, block_of_cell, causes


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def percentile(block, percent):
    return blocks.Blocks(block, qv.PerTensor().layout(tuple(block.shape)), torch.float64).percentiles(percent)[0]


def replay(r, index):
    """Run each step's own line of Python on the values named before it."""
    why = qv.explain(r, index)
    block = block_of_cell(r, index)
    words = {
        "round": torch.round,
        "clamp": lambda v, lo, hi: v.clamp(lo, hi),
        "abs": torch.abs,
        "where": torch.where,
        "min": lambda a, *b: torch.minimum(a, torch.as_tensor(*b, dtype=a.dtype)) if b else a.min(),
        "max": lambda a, *b: torch.maximum(a, torch.as_tensor(*b, dtype=a.dtype)) if b else a.max(),
        "float32": lambda v: v.to(torch.float32),
        "float64": lambda v: v.to(torch.float64),
        "percentile": percentile,
    }
    at = r.layout.block_of(why.index)
    values = {"block": block, "x": r.x[why.index], "scale": r.qparams.scale[at], "zero_point": r.qparams.zero_point[at]}
    for step in why.steps:
        dtype = getattr(torch, step.dtype)
        for name, value in step.inputs.items():
            assert values[name].item() == value, (step, name)
        given = torch.as_tensor(eval(step.code_line.partition(" = ")[2], {**words, **values})).to(dtype)
        assert given.item() == step.output, step
        values[step.name] = given
        if step.key == "clamp":
            assert int(given) == r.q[why.index].item()
    assert values["x_hat"].item() == r.x_hat[why.index].item() == why.x_hat
    assert values["error"].item() == r.error[why.index].item() == why.error
    assert values["zero_point"].item() == why.zero_point


SCHEMES = [
    qv.Scheme(format_id, mode, granularity, calibration, convention)
    for (format_id, mode, granularity, calibration), convention in itertools.product(
        itertools.product(
            qv.FORMATS,
            qv.MODES,
            (qv.PerTensor(), qv.PerChannel(1), qv.PerGroup(2), qv.PerBlock(2, 3)),
            (qv.MinMax(), qv.Percentile(90.0), qv.ManualRange(-1.0, 1.5), qv.Given(0.25)),
        ),
        qv.CONVENTIONS,
    )
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_steps_replay_to_the_code_and_the_value(scheme):
    x = normal(4, 6)
    x[1] = 0
    x[3] = 2.5
    r = qv.quantize(x, scheme)
    for index in ((0, 0), (1, 1), (2, 5), (3, 3)):
        replay(r, index)


@pytest.mark.parametrize(
    "changes",
    [{"zero_in_range": True}, {"narrow_range": True}, {"zero_point_clamp": False}, {"scale_math": "float32", "scale_dtype": "float32"}, {"scale.floor": 0.5}],
)
def test_steps_replay_with_changed_conventions(changes):
    x = torch.stack([normal(6), normal(6) + 20, torch.zeros(6), torch.full((6,), -3.0)])
    convention = qv.CONVENTIONS["course"].replace(**changes)
    for mode in qv.MODES:
        r = qv.quantize(x, qv.Scheme("int6", mode, qv.PerChannel(0), convention=convention))
        for row in range(4):
            replay(r, (row, 2))


def test_given_per_block_replays():
    r = qv.quantize(normal(2, 4), qv.Scheme("int8", "asymmetric", qv.PerChannel(0)), qparams=qv.QParams([[0.5], [0.25]], [[1], [-3]]))
    replay(r, (1, 3))
    assert qv.explain(r, (1, 3)).range is None


def test_the_steps_of_a_cell_rounded_to_zero():
    why = qv.explain(qv.quantize([[23.02, -1.35]], qv.Scheme("int4")), (0, 1))
    assert [step.key for step in why.steps] == [
        "range_lo",
        "range_hi",
        "absmax",
        "scale_symmetric",
        "zero_point_symmetric",
        "apply_scale",
        "divide",
        "round",
        "clamp",
        "multiply",
        "error",
    ]
    assert why.step("divide").output == pytest.approx(-1.35 / (23.02 / 7))
    assert (why.q, why.x_hat, why.cause, why.tie) == (0, 0.0, "zeroed", False)


def test_causes():
    r = qv.quantize([0.0, 1.0, 0.2, 1.4, 99.0], qv.Scheme("int4", calibration=qv.Given(1.0)))
    assert [CAUSES[int(i)] for i in causes(r)] == ["exact", "exact", "zeroed", "rounded", "clipped"]
    assert [qv.explain(r, i).cause for i in range(5)] == ["exact", "exact", "zeroed", "rounded", "clipped"]


def test_a_tie_is_named():
    assert qv.explain(qv.quantize([2.5, 2.4], qv.Scheme("int4", calibration=qv.Given(1.0))), 0).tie
    assert not qv.explain(qv.quantize([2.5, 2.4], qv.Scheme("int4", calibration=qv.Given(1.0))), 1).tie


@pytest.mark.parametrize("index", [(4, 0), (0,), (0, 0, 0), (0, -7), (0.5, 0)])
def test_a_cell_that_is_not_there_is_refused(index):
    with pytest.raises(qv.QuantVizError) as caught:
        qv.explain(qv.quantize(normal(4, 6), qv.Scheme()), index)
    assert caught.value.key == "index_out_of_range"


def test_negative_indices_count_from_the_end():
    r = qv.quantize(normal(4, 6), qv.Scheme())
    assert qv.explain(r, (-1, -1)).index == (3, 5)
