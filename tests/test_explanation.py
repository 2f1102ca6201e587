"""The derivation of a cell, replayed line by line to the very codes and values of the tensor."""

import itertools
import math
import re

import pytest
import torch

import quantviz as qv
from quantviz import blocks
from quantviz.arithmetic import chances, fma, stored
from quantviz.explanation import CAUSES, block_of_cell, causes
from quantviz.formats import FORMATS
from quantviz.grids import GRIDS, dithered, nearest
from quantviz.quantizer import block_values, largest_magnitude, range_values
from tests.offered import problems


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def blocks_of(block):
    return blocks.Blocks(block, qv.PerTensor().layout(tuple(block.shape)), torch.float64)


def widest(value):
    """log2 is meant exactly: only a float64 one is near enough to round down to the right whole number."""
    return torch.log2(torch.as_tensor(value).to(torch.float64))


def words_of(step, scheme):
    """What the names in a step's own line mean."""
    convention = scheme.arithmetic
    rule = convention.zero_point_ties if step.key.startswith("zero_point") else step.key.removeprefix("round_")
    rounds = step.key.startswith(("round", "zero_point")) and step.key != "zero_point_format"

    def rounded(kind, y, chance=None):
        return nearest(y, kind, rule) if chance is None else dithered(y, kind, chance)

    def named(name):
        if rounds or not hasattr(torch, name):
            return lambda y, chance=None: rounded(FORMATS[name], y, chance) if rounds else stored(y, FORMATS[name])
        # A cast, or a scale brought to a format: both as torch casts.
        return lambda y: stored(y, FORMATS[name]) if step.key in ("scale_format", "zero_point_format") else y.to(getattr(torch, name))

    return {
        **{name: named(name) for name in FORMATS},
        "float32": lambda v: v.to(torch.float32),
        "float64": lambda v: v.to(torch.float64),
        "round": lambda y, chance=None: rounded(FORMATS["int8"], y, chance),
        "clamp": lambda v, lo, hi: v.clamp(lo, hi),
        "abs": torch.abs,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "trunc": torch.trunc,
        "log2": widest,
        "isnan": torch.isnan,
        "isfinite": torch.isfinite,
        "full_like": torch.full_like,
        "isinf": torch.isinf,
        "inf": math.inf,
        "nan": math.nan,
        "copysign": lambda value, sign: torch.copysign(torch.full_like(sign, value), sign),
        "where": lambda condition, one, other: torch.where(condition != 0, one, other),
        "min": lambda a, *b: torch.minimum(a, torch.as_tensor(*b, dtype=a.dtype)) if b else a.min(),
        "max": lambda a, *b: torch.maximum(a, torch.as_tensor(*b, dtype=a.dtype)) if b else a.max(),
        "argmax": torch.argmax,
        "mean": lambda v: v.to(torch.float64).mean(),
        "percentile": lambda block, percent: blocks_of(block).percentiles(percent)[0],
        "fma": lambda x, y, z: fma(x, *(torch.as_tensor(v, dtype=torch.float32) for v in (y, z))),
        "random": chances,
    }


def replay(r, index):
    """Run each step's own line of Python on the values named before it."""
    why = qv.explain(r, index)
    grid, fmt = GRIDS[r.scheme.number_format.kind], r.scheme.number_format
    at = r.layout.block_of(why.index, r.shape)
    values = {name: value[at] for name, value in block_values(r.qparams).items()}
    if r.range is not None:
        known = range_values(r.range, largest_magnitude(r.x), r.layout)
        values |= {"block": block_of_cell(r, index), "tensor": r.x, **{name: known[name] if name == "tensor_absmax" else known[name][at] for name in known}}
    values |= {"x": r.x[why.index], "index": torch.arange(r.x.numel()).reshape(r.shape)[why.index]}
    code, decoded, makes_codes = None, False, ("clamp", "overflow", "nan_to_zero", "signed_zero")
    for step in why.steps:
        if code is not None and not decoded and step.key not in makes_codes:
            # What is stored is the code: an integer has no -0.
            values["q"], decoded = grid.decode(code, fmt), True
        dtype = getattr(torch, step.dtype)
        for name, value in step.inputs.items():
            # A zero point is stored as an integer, which has no -0.
            assert same(values[name].item(), value) or (name == "zero_point" and values[name].item() == value), (step, name)
            if name == "zero_point":
                values[name] = values[name] + 0
        # torch makes a reciprocal and a product of a number over a tensor; the line means one division.
        line = re.sub(r"^(\d+) / (\w+)$", r"full_like(\2, \1) / \2", step.code_line.partition(" = ")[2])
        given = eval(line, {**words_of(step, r.scheme), **values})
        # A number of Python is a float64.
        given = torch.as_tensor(given, dtype=torch.float64 if isinstance(given, float) else None).to(dtype)
        assert same(given.item(), step.output), step
        values[step.name] = given
        if step.name == "q" and step.key in makes_codes:
            code = grid.encode(given, fmt)
    assert code.item() == r.q[why.index].item() == why.q
    assert same(values["x_hat"].item(), r.x_hat[why.index].item())
    assert same(values["error"].item(), r.error[why.index].item())
    assert same(values["x_hat"].item(), why.x_hat)
    assert same(values["error"].item(), why.error)
    assert values["zero_point"].item() == why.zero_point
    return why


def same(one, other):
    """Equal bit for bit, or neither a number."""
    return (math.isnan(one) and math.isnan(other)) or (one == other and math.copysign(1, one) == math.copysign(1, other))


PLACES = (qv.PerTensor(), qv.PerChannel(1), qv.PerGroup(2), qv.PerBlock(2, 3))
RANGES = (qv.MinMax(), qv.Percentile(90.0), qv.ManualRange(-1.0, 1.5), qv.Given(0.25), qv.MSE())
#: The arithmetic of the notebooks and of one scale a block, on every format: each granularity with a calibration, each calibration with a granularity.
FIELDS = [
    (format_id, mode, PLACES[(i + j) % 4], RANGES[j], "course") for i, (format_id, mode) in enumerate(itertools.product(FORMATS, qv.MODES)) for j in range(5)
]


def tensor():
    x = normal(4, 6)
    x[1] = 0
    x[3] = 2.5
    return x


@pytest.mark.parametrize("fields", [fields for fields in FIELDS if not problems(*fields)], ids=lambda fields: ",".join(map(str, fields)))
def test_steps_replay_to_the_code_and_the_value(fields):
    r = qv.quantize(tensor(), qv.Scheme(*fields))
    for index in ((0, 0), (1, 1), (2, 5), (3, 3)):
        replay(r, index)


def test_what_does_not_replay_is_refused_for_a_reason():
    """Nothing is left out above but a zero point without integers, and one code that is never positive."""
    refused = {fields: problems(*fields)[0].key for fields in FIELDS if problems(*fields)}
    for (format_id, mode, *_), key in refused.items():
        assert key == ("asymmetric_needs_integers" if mode == "asymmetric" else "symmetric_needs_positive_code")
        assert (FORMATS[format_id].kind != "integer") if mode == "asymmetric" else format_id == "int1"
    assert len(refused) < len(FIELDS) / 2


@pytest.mark.parametrize("ties", qv.conventions.CHOICES["ties"])
@pytest.mark.parametrize(("format_id", "overflow"), [("int4", "saturate"), ("float8_e4m3fn", "nan"), ("float8_e5m2", "inf"), ("nf4", "saturate")])
def test_steps_replay_whatever_becomes_of_ties_and_ends(ties, format_id, overflow):
    x = torch.arange(-24.0, 24).reshape(6, 8) / 8
    convention = qv.CONVENTIONS["course"].replace(ties=ties, overflow=overflow, seed=3)
    scheme = qv.Scheme(format_id, calibration=qv.Given(0.25 if format_id == "int4" else 2.0), convention=convention)
    r = qv.quantize(x, scheme)
    for index in ((0, 0), (2, 7), (3, 0), (3, 1), (5, 7)):
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
