"""The short lines of float formats and codebooks give the reference's codes, values and steps."""

import math

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.compiled.short_grids import short_cell
from quantviz.compiled.tracing import trace_cell
from quantviz.quantization.grids import TIES
from quantviz.quantization.result import steps_of_error
from quantviz.streaming.programs import types_of_scheme
from tests.helpers.sample import sample_of

FORMATS = [name for name, fmt in qv.FORMATS.items() if fmt.kind != "integer" and fmt.bits <= 8]
#: What the lines can name, of numpy's arrays.
NAMES = {
    "f4": np.float32, "f8": np.float64, "i4": np.int32, "select": np.where, "copysign": np.copysign,
    "fabs": np.abs, "rint": np.rint, "floor": np.floor, "trunc": np.trunc,
    "bits": lambda x: np.float32(x).view(np.int32), "of_bits": lambda x: np.int32(x).view(np.float32),
}  # fmt: skip


def values(fmt):
    """Each value, the middles, what lies next to them, and others of all sizes."""
    own = torch.tensor(sorted({value for value, _ in fmt.finite}), dtype=torch.float64)
    exact = torch.cat([own, (own[1:] + own[:-1]) / 2]).float()
    near = [torch.nextafter(exact, torch.tensor(end)) for end in (math.inf, -math.inf)]
    generator = torch.Generator().manual_seed(0)
    sizes = torch.exp2(torch.randn(3000, generator=generator) * 4)
    some = torch.randn(3000, generator=generator) * sizes * fmt.value_max / 100
    return torch.cat([exact, *near, some, torch.tensor([0.0, -0.0, 1e30, -1e30, 1e-40])])


def made(code, x, scale):
    """What the lines come to, by numpy."""
    names = {
        **NAMES, "x": x.numpy(), "scale": np.float32(scale), "inverse": np.float32(1 / scale),
        "load_f8": lambda of, at: of[at], "load_i8": lambda of, at: of[at],
        "floats": np.array(code.floats), "integers": np.array(code.integers), "tables": code.tables.numpy(),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        for line in (*code.of_block, *code.of_cell):
            exec(line, names)
    return {
        name: np.broadcast_to(names.get(result, result == "True"), x.shape)
        for name, result in code.results.items()
    }


@pytest.mark.parametrize("format_id", FORMATS)
def test_short_lines_give_the_references_numbers(format_id):
    fmt, scale, done = qv.FORMATS[format_id], 0.375, 0
    x = values(fmt) * scale
    for ties in (*TIES, "adding_half", "stochastic"):
        convention = qv.CONVENTIONS["course"].replace(ties=ties)
        scheme = qv.Scheme(format_id, calibration=qv.Given(scale), convention=convention)
        full = trace_cell(scheme, dict(types_of_scheme(scheme)))
        code = short_cell(scheme, dict(types_of_scheme(scheme)), full)
        if code is None:
            continue
        r, found = qv.quantize(x, scheme), made(code, x, scale)
        kept = ~np.isnan(found["error"])
        # What the short lines leave to the full ones is beyond the ends.
        assert (~kept <= (np.abs(r.x.numpy() / scale) >= fmt.value_max)).all(), ties
        for name in ("x_hat", "error", "clipped"):
            assert np.array_equal(found[name][kept], getattr(r, name).numpy()[kept]), (ties, name)
        assert np.array_equal(found["q"][kept].astype(int), r.q.numpy()[kept].astype(int)), ties
        steps = found["error"].astype(np.float64) * found["inverse_gap"] / found["step"]
        assert steps[kept] == pytest.approx(steps_of_error(r).numpy()[kept], rel=1e-6), ties
        done += 1
    named = format_id in (
        "float8_e4m3fn",
        "float8_e5m2",
        "float6_e3m2fn",
        "float4_e2m1fn",
        "nf4",
        "fp4",
        "iq4",
    )
    assert done >= (5 if named else 0)


@pytest.mark.parametrize("recipe", sample_of(["nf4_64", "mxfp4", "mxfp8_e4m3", "nvfp4"], 1))
@pytest.mark.parametrize("size", [1.0, 1e-38, 1e-42, 3e37])
def test_blocks_that_short_lines_are_not_for_are_measured_all_the_same(recipe, size):
    # The last block is not full; of the smallest values the scale has no exact inverse.
    x = torch.randn(133, 1029, generator=torch.Generator().manual_seed(0)) * size
    scheme = qv.RECIPES[recipe]
    if scheme.problems(x.shape):
        x = x[:, :1024].contiguous()
    fused, reference = (qv.measure(x, scheme, path=path) for path in ("fused", "reference"))
    assert fused.path == "fused"
    for name, value in reference.metrics.items():
        assert fused.metrics[name] == pytest.approx(value, rel=1e-6, nan_ok=True), name
    assert fused.largest_error == reference.largest_error


def test_float_formats_count_codes_on_the_way():
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(0))
    counted = {
        recipe: qv.measure(x, recipe, path="fused").moments.code_counts is not None
        for recipe in ("fp8_e4m3_per_row", "nvfp4", "nf4_64", "int8_per_row")
    }
    assert counted == {"fp8_e4m3_per_row": True, "nvfp4": True, "nf4_64": True, "int8_per_row": False}
