"""What every scenario opens with."""

import pytest
import torch

import quantviz as qv
from quantviz.lab.scenarios import FIRST, SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_marked_cell_does_not_lie_beside_what_is_loud(name):
    """Its frame would hide what it is about; the loud cell itself may be the one that is marked."""
    scenario = SCENARIOS[name]
    x, (row, col) = scenario.source.tensor(), scenario.cell
    loud = x.abs() > 4 * x.abs().median()
    around = loud[max(row - 1, 0) : row + 2, max(col - 1, 0) : col + 2]
    assert loud[row, col] or not bool(around.any())


def test_the_first_cell_is_the_one_of_the_sketch():
    scenario = SCENARIOS[FIRST]
    why = qv.explain(qv.quantize(scenario.source.tensor(), scenario.scheme), scenario.cell)
    assert (scenario.cell, why.x, why.q, why.x_hat, why.cause) == (
        (2, 3),
        pytest.approx(-1.35),
        0,
        0,
        "zeroed",
    )


@pytest.mark.parametrize("name", ["one_loud_column", "one_outlier", "three_bits_beat_four"])
def test_the_marked_cell_is_lost_to_what_is_loud(name):
    scenario = SCENARIOS[name]
    x = scenario.source.tensor()
    r = qv.quantize(x, scenario.scheme)
    assert r.x_hat[scenario.cell] == 0
    assert torch.abs(x[scenario.cell]) > x.abs().median()
