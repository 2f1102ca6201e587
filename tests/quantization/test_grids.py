"""Rounding to a grid: nearest means nearest, ties fall as their rule says, chance is fair and repeats
itself.
"""

import bisect
import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.quantization.grids import GRIDS, TIES, dithered, nearest, neighbours
from quantviz.quantization.operations import run_operations
from quantviz.quantization.value_to_code import chances, code_operations
from quantviz.schemes.formats import FORMATS

#: Formats small enough to list: the truth is the list of their values.
SMALL = [name for name, fmt in FORMATS.items() if fmt.bits <= 8]
#: What each rule makes of a tie between two whole numbers `low` and `low + 1`, in words of its own.
RULES = {
    "even": lambda low, y: low if low % 2 == 0 else low + 1,
    "away": lambda low, y: low + 1 if y > 0 else low,
    "up": lambda low, y: low + 1,
    "down": lambda low, y: low,
    "toward_zero": lambda low, y: low if y > 0 else low + 1,
    "adding_half_away": lambda low, y: low + 1 if y > 0 else low,
    "truncate": lambda low, y: low if y > 0 else low + 1,
}
NUMBERS = st.floats(-1000, 1000, width=32)


def one(y):
    return torch.tensor([y], dtype=torch.float32)


# ---- ties ---------------------------------------------------------------------------------------


def test_every_rule_is_tried():
    assert set(RULES) == set(TIES)
    assert set(TIES) | {"stochastic", "adding_half"} == set(qv.schemes.conventions.CHOICES["ties"])


@pytest.mark.parametrize("ties", TIES)
def test_each_rule_on_ties_and_beside_them(ties):
    half = torch.arange(-40, 40) + 0.5
    got = TIES[ties](half)
    for y, value in zip(half.tolist(), got.tolist(), strict=True):
        assert value == RULES[ties](math.floor(y), y), y
    for towards in (-math.inf, math.inf):
        beside = torch.nextafter(half, torch.full_like(half, towards))
        wanted = torch.trunc(beside) if ties == "truncate" else torch.round(beside)
        assert torch.equal(TIES[ties](beside)[half.abs() > 1], wanted[half.abs() > 1])


def test_what_is_just_below_a_half_goes_up_only_where_a_half_is_added():
    y = torch.tensor(0.49999997)
    assert {ties: rule(y).item() for ties, rule in TIES.items() if rule(y) != 0} == {"adding_half_away": 1.0}


@pytest.mark.parametrize("ties", TIES)
@settings(deadline=None, max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_nothing_is_further_than_a_half(ties, values):
    y = torch.tensor(values, dtype=torch.float32)
    got = TIES[ties](y)
    assert torch.equal(got, torch.round(got))
    far = (got.to(torch.float64) - y.to(torch.float64)).abs()
    if ties == "truncate":
        assert (far < 1).all()
        assert (got.abs() <= y.abs()).all()
    else:
        # The sum with a half is rounded: a few millionths further are that rule's own.
        assert (far <= (0.5 + 4e-5 if ties == "adding_half_away" else 0.5)).all()


# ---- nearest ------------------------------------------------------------------------------------


def values_of(fmt):
    """Its values as the truth has them, smallest first, each once."""
    return sorted({Fraction(value) for value, _ in fmt.finite})


def samples(fmt, seed=0):
    """Values, middles, their float32 neighbours, and anything between, inside the format's ends."""
    values = torch.tensor([value for value, _ in fmt.finite], dtype=torch.float64)
    middles = ((values[1:] + values[:-1]) / 2).to(torch.float32)
    generator = torch.Generator().manual_seed(seed)
    between = values[:-1] + (values[1:] - values[:-1]) * torch.rand(
        len(values) - 1, generator=generator, dtype=torch.float64
    )
    points = torch.cat([values.to(torch.float32), middles, between.to(torch.float32)])
    beside = [torch.nextafter(points, torch.full_like(points, towards)) for towards in (-math.inf, math.inf)]
    return torch.cat([points, *beside]).clamp(fmt.value_min, fmt.value_max)


@pytest.mark.parametrize("format_id", SMALL)
@pytest.mark.parametrize("ties", ["even", "away", "down"])
def test_the_nearest_value_is_nearest_by_exact_arithmetic(format_id, ties):
    fmt = FORMATS[format_id]
    truth = values_of(fmt)
    y = samples(fmt)
    at = [max(bisect.bisect_right(truth, x) - 1, 0) for x in map(Fraction, y.tolist())]
    got = nearest(y, fmt, ties)
    for x, i, value in zip(map(Fraction, y.tolist()), at, map(Fraction, got.tolist()), strict=True):
        around = truth[i : i + 2]
        closest = min(abs(x - each) for each in around)
        best = [each for each in around if abs(x - each) == closest]
        if fmt.kind == "codebook" and value not in best:
            # Half-way between two of a codebook is where float32 has it, so that x can lie beside it.
            low, high = around
            assert Fraction(torch.tensor(float((low + high) / 2), dtype=torch.float32).item()) == x
            assert value in (low, high)
            continue
        assert value in best, (float(x), float(value))
        if len(best) == 2 and ties != "even" and fmt.kind != "codebook":
            assert value == (best[1] if ties == "away" and x > 0 else best[0]), (float(x), float(value))


@pytest.mark.parametrize("format_id", SMALL)
def test_neighbours_are_the_values_around(format_id):
    fmt = FORMATS[format_id]
    truth = values_of(fmt)
    y = samples(fmt, seed=1)
    below, above = neighbours(y, fmt)
    for x, low, high in zip(*(map(Fraction, each.tolist()) for each in (y, below, above)), strict=True):
        assert low == truth[bisect.bisect_right(truth, x) - 1]
        assert high == truth[bisect.bisect_left(truth, x)]


@pytest.mark.parametrize("format_id", SMALL)
def test_the_gap_is_the_distance_of_the_neighbours(format_id):
    fmt = FORMATS[format_id]
    values = torch.tensor([float(value) for value in values_of(fmt)], dtype=torch.float64)
    middles = (values[1:] + values[:-1]) / 2
    gap = GRIDS[fmt.kind].gap(middles, fmt).expand(middles.shape)
    assert torch.equal(gap, values[1:] - values[:-1])


@pytest.mark.parametrize("format_id", ["float16", "bfloat16", "int16", "uint16"])
def test_wide_formats_on_random_values(format_id):
    fmt = FORMATS[format_id]
    y = torch.randn(4000, generator=torch.Generator().manual_seed(2)) * 1000
    below, above = neighbours(y, fmt)
    got = nearest(y, fmt, "even")
    assert ((below <= y) & (y <= above)).all()
    assert torch.equal(
        (got - y).abs().to(torch.float64),
        torch.minimum((y - below).abs(), (above - y).abs()).to(torch.float64),
    )


# ---- chance -------------------------------------------------------------------------------------

STOCHASTIC = qv.CONVENTIONS["course"].replace(ties="stochastic", seed=7)


@pytest.mark.parametrize(
    ("format_id", "mode"),
    [("int4", "symmetric"), ("uint8", "asymmetric"), ("float8_e4m3fn", "symmetric"), ("nf4", "symmetric")],
)
def test_stochastic_rounding_in_every_kind_of_format(format_id, mode):
    x = torch.randn(64, 33, generator=torch.Generator().manual_seed(3))
    scheme = qv.Scheme(format_id, mode, convention=STOCHASTIC)
    r = qv.quantize(x, scheme)
    assert torch.equal(r.q, qv.quantize(x, scheme).q)
    other = qv.quantize(x, scheme.replace(convention=STOCHASTIC.replace(seed=8)))
    share = (r.q != other.q).double().mean().item()
    assert 0.1 < share < 0.9
    assert torch.equal(r.qparams.scale, other.qparams.scale)
    # Whatever it became is one of the two values around, never a third.
    plain = qv.quantize(x, scheme.replace(convention="course"))
    steps = (r.x_hat - x).abs() / plain.step_of_cells()
    assert (steps[~r.clipped] <= 1 + 1e-5).all()
    assert (r.q != plain.q).any()


def test_a_part_is_rounded_as_the_whole_was():
    """Whatever the chunking: chance is a matter of the seed and of the place."""
    x = torch.randn(20, 30, generator=torch.Generator().manual_seed(4))
    index = torch.arange(x.numel()).reshape(x.shape)
    for format_id in ("int4", "float6_e2m3fn", "nf4"):
        scheme = qv.Scheme(format_id, convention=STOCHASTIC)
        r = qv.quantize(x, scheme)
        block = {
            name: value.reshape(())
            for name, value in (("scale", r.qparams.scale), ("zero_point", r.qparams.zero_point))
        }
        grid = GRIDS[scheme.number_format.kind]
        for part in ((slice(3, 9),), (slice(None), slice(5, 6)), (19, slice(7, 30, 4))):
            coded = run_operations(code_operations(scheme), {"x": x[part], "index": index[part], **block})
            assert torch.equal(grid.encode(coded["q"], scheme.number_format), r.q[part])
    assert torch.equal(chances(7, index)[4:6], chances(7, index[4:6]))


@pytest.mark.parametrize("format_id", ["int4", "float8_e4m3fn", "float4_e2m1fn", "nf4"])
def test_stochastic_rounding_is_unbiased(format_id):
    """The mean of n roundings is within 5 standard errors, gap · sqrt(p · (1 - p) / n), of the value
    itself.
    """
    fmt, count = FORMATS[format_id], 10_000
    for part, (low, high) in itertools.product(
        (0.03, 0.5, 0.71),
        [(a, b) for (a, _), (b, _) in itertools.pairwise(fmt.finite) if a < b][1 :: len(fmt.finite) // 5],
    ):
        y = torch.full((count,), low + part * (high - low), dtype=torch.float32)
        got = dithered(y, fmt, chances(5, torch.arange(count))).to(torch.float64)
        assert torch.unique(got).numel() == 2
        bound = 5 * (high - low) * math.sqrt(part * (1 - part) / count)
        assert abs(got.mean().item() - y[0].item()) < bound


def test_chances_are_even_and_seeds_differ():
    index = torch.arange(100_000)
    for seed in (0, 1, 2**40):
        c = chances(seed, index)
        assert c.dtype == torch.float32
        assert c.min() >= 0
        assert c.max() < 1
        counts = torch.histc(c, bins=10, min=0, max=1)
        # Each bin within 5 standard deviations of its share.
        assert (counts - 10_000).abs().max() < 5 * math.sqrt(100_000 * 0.1 * 0.9)
    pairs = [chances(seed, index[:2000]) for seed in (0, 1, 2, 3)]
    for a, b in itertools.combinations(pairs, 2):
        assert abs(torch.corrcoef(torch.stack([a, b]))[0, 1].item()) < 5 / math.sqrt(2000)
