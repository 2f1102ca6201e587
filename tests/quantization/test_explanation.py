"""The derivation of a cell, replayed line by line to the very codes and values of the tensor."""

import pytest
import torch

import quantviz as qv
from quantviz.quantization.explanation import CAUSES, causes
from tests.helpers.drawn import normal
from tests.helpers.replay import replay


@pytest.mark.parametrize("ties", qv.schemes.conventions.CHOICES["ties"])
@pytest.mark.parametrize(
    ("format_id", "overflow"),
    [("int4", "saturate"), ("float8_e4m3fn", "nan"), ("float8_e5m2", "inf"), ("nf4", "saturate")],
)
def test_steps_replay_whatever_becomes_of_ties_and_ends(ties, format_id, overflow):
    x = torch.arange(-24.0, 24).reshape(6, 8) / 8
    convention = qv.CONVENTIONS["course"].replace(ties=ties, overflow=overflow, seed=3)
    scheme = qv.Scheme(
        format_id, calibration=qv.Given(0.25 if format_id == "int4" else 2.0), convention=convention
    )
    r = qv.quantize(x, scheme)
    for index in ((0, 0), (2, 7), (3, 0), (3, 1), (5, 7)):
        replay(r, index)


@pytest.mark.parametrize(
    "changes",
    [
        {"zero_in_range": True},
        {"narrow_range": True},
        {"zero_point_clamp": False},
        {"scale_math": "float32", "scale_dtype": "float32"},
        {"scale.floor": 0.5},
    ],
)
def test_steps_replay_with_changed_conventions(changes):
    x = torch.stack([normal(6), normal(6) + 20, torch.zeros(6), torch.full((6,), -3.0)])
    convention = qv.CONVENTIONS["course"].replace(**changes)
    for mode in qv.MODES:
        r = qv.quantize(x, qv.Scheme("int6", mode, qv.PerChannel(0), convention=convention))
        for row in range(4):
            replay(r, (row, 2))


def test_given_per_block_replays():
    r = qv.quantize(
        normal(2, 4),
        qv.Scheme("int8", "asymmetric", qv.PerChannel(0)),
        qparams=qv.QParams([[0.5], [0.25]], [[1], [-3]]),
    )
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
        "round_even",
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
