"""The first remedy of a layer: chosen by the error's cause, and its new error is the one it has."""

import pytest

from quantviz.lab.layer_remedy import best_remedy
from quantviz.lab.layer_state import SchemePair
from quantviz.layers.captures import Captured
from quantviz.sources import Normal


def captured(outputs, width, loud):
    inputs = Normal(rows=32, cols=width, seed=1).tensor()
    inputs[:, 3] *= loud
    return Captured("", "linear", Normal(rows=outputs, cols=width, seed=2).tensor(), inputs, None)


@pytest.mark.parametrize(
    ("loud", "pair", "cause", "remedy"),
    [
        (60, SchemePair("int8_per_row", "int8_per_tensor"), "channel", ("int8_per_row", "int8_per_tensor")),
        (1, SchemePair("int8_per_row", "int4_per_row"), "inputs", ("int8_per_row", "int4_g128")),
        (1, SchemePair("int4_per_tensor", "none"), "weights", ("int4_per_row", "none")),
        (1, SchemePair("int4_g128", "int8_per_row"), "weights", ("int4_g32", "int8_per_row")),
        (1, SchemePair("int4_g32", "none"), None, None),
    ],
)
def test_the_cause_names_the_remedy_and_its_error_is_measured(loud, pair, cause, remedy):
    layer = captured(24, 256, loud)
    before = layer.result(*pair.schemes())
    found = best_remedy(before, pair)
    if cause is None:
        assert found is None
        return
    assert (found.cause, found.pair.weights, found.pair.inputs) == (cause, *remedy)
    assert found.method == ("smoothquant" if cause == "channel" else "nearest")
    after = layer.result(*found.pair.schemes(), method=found.method)
    assert (found.before, found.after) == (before.rel_out.held_back, after.rel_out.held_back)
    assert found.after < found.before


def test_of_a_large_weight_some_outputs_are_measured():
    pair = SchemePair("int8_per_row", "int8_per_tensor")
    found = best_remedy(captured(2048, 256, 60).result(*pair.schemes()), pair)
    assert found.outputs == 1024
    assert found.after < found.before
