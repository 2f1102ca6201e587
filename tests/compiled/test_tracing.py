"""The trace of a block's arithmetic: written down, or refused as what cannot be."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import trace_block
from quantviz.quantization.powers_of_two import floor_of_log2
from quantviz.schemes.arithmetic import BY_WIDTH
from quantviz.schemes.conventions import CHOICES
from tests.helpers.offered import variant

#: Their logarithms of float64 are torch's own.
NOT_WRITTEN = {"power_of_two_floor_log2", "power_of_two_fitting"}


@pytest.mark.parametrize("rule", CHOICES["scale.rule"])
def test_every_rule_for_scales_is_written_down_or_says_that_it_cannot_be(rule):
    convention = variant(qv.CONVENTIONS["course"], "scale.rule", rule)
    # A range of as many steps below 0 as above is one of integers.
    fmt = "int8" if rule in BY_WIDTH else "float8_e4m3fn"
    scheme = qv.Scheme(fmt, granularity=qv.PerGroup(32), convention=convention)
    if rule in NOT_WRITTEN:
        with pytest.raises(Untraceable):
            trace_block(scheme, ("scale",))
    else:
        assert "scale" in trace_block(scheme, ("scale",)).results


def test_the_exponent_of_a_scale_is_written_down_as_torchs_logarithm_has_it():
    """Where float32 rounds the logarithm up to a whole number, the exponent is one more."""
    scheme = qv.RECIPES["mxfp4"]
    code = trace_block(scheme, ("scale",))
    line = next(line for line in code.lines if "exponent(" in line)
    name = line.partition("exponent(")[2].rstrip(")")
    first = next(each for each in code.lines if each.startswith(f"{name} = "))
    single = first.partition("(")[2].rstrip(")")
    powers = torch.exp2(torch.arange(-126, 128, dtype=torch.float64)).float().view(torch.int32)
    near = powers[:, None] + torch.arange(-60, 20, dtype=torch.int32)
    x = torch.cat([near.flatten().view(torch.float32), torch.tensor([0.0, 1e-45, 3e38])])
    names = {
        "f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "select": np.where,
        "exponent": lambda v: np.frexp(v)[1], "floats": np.array(code.floats), "tables": code.tables.numpy(),
        "load_f8": lambda of, at: of[at], "load_i8": lambda of, at: of[at], single: x.numpy(),
        "integers": np.array(code.integers),
    }  # fmt: skip
    start = code.lines.index(first)
    for each in code.fixed:
        exec(each, names)
    found = {}
    with np.errstate(all="ignore"):
        for each in code.lines[start:]:
            if "two_to(" in each:
                break
            exec(each, names)
            found[each.partition(" = ")[0]] = names[each.partition(" = ")[0]]
    largest = 2  # of 6, the format's largest value
    wanted = (floor_of_log2(x) - largest).numpy()
    assert any(np.array_equal(values, wanted) for values in found.values())
