"""The trace of a block's arithmetic: written down, or refused as what cannot be."""

import pytest

import quantviz as qv
from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import trace_block
from quantviz.schemes.conventions import CHOICES
from tests.helpers.offered import variant

#: Their logarithms are torch's own.
NOT_WRITTEN = {"power_of_two_floor_log2", "power_of_two_fitting"}


@pytest.mark.parametrize("rule", CHOICES["scale.rule"])
def test_every_rule_for_scales_is_written_down_or_says_that_it_cannot_be(rule):
    convention = variant(qv.CONVENTIONS["course"], "scale.rule", rule)
    scheme = qv.Scheme("float8_e4m3fn", granularity=qv.PerGroup(32), convention=convention)
    if rule in NOT_WRITTEN:
        with pytest.raises(Untraceable):
            trace_block(scheme, ("scale",))
    else:
        assert "scale" in trace_block(scheme, ("scale",)).results
