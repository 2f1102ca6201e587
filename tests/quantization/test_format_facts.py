"""What is said of a format holds for each of its codes."""

import itertools
import math

import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.format_facts import (
    KINDS,
    LISTED_BITS,
    brought_to_one,
    code_kind,
    code_name,
    finite_values,
    flipped,
    float_end,
    format_facts,
    gap_at,
    gap_steps,
    land,
    odd_times_power,
    reach,
    word,
)
from quantviz.quantization.grids import GRIDS, TIES, nearest
from quantviz.schemes.formats import FORMATS
from tests.helpers.sample import sample_of

ALL = [pytest.param(fmt, id=name) for name, fmt in FORMATS.items()]
#: From the standards (IEEE 754, OFP8 1.0, MX 1.0): largest, smallest normal, smallest subnormal, finite
#: values, Inf and NaN codes.
STANDARDS = {
    "float16": (65504.0, 2.0**-14, 2.0**-24, 63487, 2, 2046),
    "bfloat16": (float.fromhex("0x1.fep127"), 2.0**-126, 2.0**-133, 65279, 2, 254),
    "float8_e4m3fn": (448.0, 2.0**-6, 2.0**-9, 253, 0, 2),
    "float8_e5m2": (57344.0, 2.0**-14, 2.0**-16, 247, 2, 6),
    "float8_e4m3fnuz": (240.0, 2.0**-7, 2.0**-10, 255, 0, 1),
    "float8_e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17, 255, 0, 1),
    "float6_e2m3fn": (7.5, 1.0, 0.125, 63, 0, 0),
    "float6_e3m2fn": (28.0, 0.25, 0.0625, 63, 0, 0),
    "float4_e2m1fn": (6.0, 1.0, 0.5, 15, 0, 0),
    "float8_e8m0fnu": (2.0**127, 2.0**-127, None, 255, 0, 1),
}


@pytest.mark.parametrize(("name", "wanted"), STANDARDS.items())
def test_the_facts_are_the_standards(name, wanted):
    facts = format_facts(FORMATS[name])
    found = (
        facts.largest,
        facts.smallest_normal,
        facts.smallest_subnormal,
        facts.values,
        len(facts.inf_codes),
        len(facts.nan_codes),
    )
    assert found == wanted


#: From the same standards: why each ends, what would follow, its exponent field, and the code that is named.
ENDS = {
    "float16": ("inf", 65536.0, 31, 0x7C00),
    "bfloat16": ("inf", 2.0**128, 255, 0x7F80),
    "float8_e4m3fn": ("nan", 480.0, 15, 0x7F),
    "float8_e5m2": ("inf", 65536.0, 31, 0x7C),
    "float8_e3m4": ("inf", 16.0, 7, 0x70),
    "float8_e4m3fnuz": ("last_nan", 256.0, 16, 0x80),
    "float8_e5m2fnuz": ("last_nan", 65536.0, 32, 0x80),
    "float8_e8m0fnu": ("nan", 2.0**128, 255, 0xFF),
    "float6_e2m3fn": ("last", 8.0, 4, None),
    "float6_e3m2fn": ("last", 32.0, 8, None),
    "float4_e2m1fn": ("last", 8.0, 4, None),
}


@pytest.mark.parametrize("fmt", ALL)
def test_why_a_float_ends_where_it_does(fmt):
    end = float_end(fmt)
    assert fmt.kind != "float" or fmt.id in ENDS, f"add the end of {fmt.id} to ENDS"
    assert (end and (end.reason, end.following, end.field, end.code)) == ENDS.get(fmt.id)
    if end and end.reason in ("nan", "inf"):
        # What would follow is one more step of the last gap, or without a mantissa twice as much.
        assert end.following == (
            format_facts(fmt).largest + gap_at(format_facts(fmt).largest, fmt)
            if fmt.float_bits.mantissa
            else 2 * fmt.value_max
        )
        assert code_kind(fmt, end.code) == end.reason


@pytest.mark.parametrize("fmt", sample_of([each for each in ALL if each.values[0].bits <= LISTED_BITS], 8))
def test_at_one_reach_a_number_lands_on_the_same_code(fmt):
    one, top = brought_to_one(fmt), reach(fmt)
    values = finite_values(one)
    assert max(values[-1], 0 if values[-1] > 0 else -values[0]) == 1
    assert len(values) == len(finite_values(fmt))
    middles = [(low + high) / 2 for low, high in itertools.pairwise(finite_values(fmt))]
    for x in (*finite_values(fmt), *middles, -1e300, 1e300):
        plain, scaled = land(x, fmt), land(x / top, fmt, unit=top)
        # Half-way, the quotient can lie beside the middle by its rounding.
        if x not in middles:
            assert (scaled.code, scaled.beyond) == (plain.code, plain.beyond)
        assert scaled.value in values
        assert scaled.value == fmt.value(scaled.code) / top


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ALL)
def test_the_facts_hold_for_every_code(fmt):
    facts, values = format_facts(fmt), finite_values(fmt)
    assert list(values) == sorted({fmt.value(code) for code in fmt.codes if math.isfinite(fmt.value(code))})
    assert (facts.lowest, facts.largest, facts.values) == (values[0], values[-1], len(values))
    kinds = [code_kind(fmt, code) for code in fmt.codes]
    assert set(kinds) <= set(KINDS)
    assert (kinds.count("inf"), kinds.count("nan"), kinds.count("zero")) == (
        len(facts.inf_codes),
        len(facts.nan_codes),
        len(facts.zero_codes),
    )
    assert (facts.smallest_normal is None) == (fmt.kind != "float")
    sizes = [abs(value) for value in values if value]
    assert facts.range_decades == pytest.approx(
        math.log10(max(sizes) / min(sizes)) if max(sizes) / min(sizes) < math.inf else facts.range_decades
    )
    assert facts.range_db == 20 * facts.range_decades


@pytest.mark.parametrize("fmt", ALL)
def test_the_bits_of_every_code(fmt):
    words = {word(fmt, code) for code in fmt.codes}
    assert len(words) == fmt.levels
    for code in list(fmt.codes)[:: max(1, fmt.levels // 300)]:
        assert int(code_name(fmt, code), 16) == int(word(fmt, code), 2)
        for bit in range(fmt.bits):
            other = flipped(fmt, code, bit)
            if other is not None:
                assert flipped(fmt, other, bit) == code
                assert bin(int(word(fmt, code), 2) ^ int(word(fmt, other), 2)).count("1") == 1
    if fmt.levels == 1 << fmt.bits:
        assert all(flipped(fmt, fmt.code_min, bit) is not None for bit in range(fmt.bits))


@pytest.mark.parametrize("fmt", ALL)
def test_every_value_is_written_exactly(fmt):
    for value in finite_values(fmt):
        odd, power = odd_times_power(value)
        assert odd % 2 or not value
        assert math.ldexp(odd, power) == value


def probes(fmt):
    """Values, the middles between them, numbers in between and beyond."""
    values = finite_values(fmt)
    some = [*values[:12], *values[len(values) // 2 - 8 : len(values) // 2 + 8], *values[-12:]]
    middles = [(low + high) / 2 for low, high in itertools.pairwise(values)][:: max(1, len(values) // 25)]
    size = max(abs(values[0]), abs(values[-1]))
    return [
        *some,
        *middles,
        *(0.31 * value for value in some),
        1.001 * size,
        -1.001 * size,
        3 * size,
        -3 * size,
        0.0,
        -1e-320,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ties"), sample_of(itertools.product(FORMATS, TIES), 50))
def test_a_number_lands_where_the_grid_rounds_it(name, ties):
    fmt = FORMATS[name]
    values, numbers = finite_values(fmt), probes(fmt)
    rounded = nearest(torch.tensor(numbers, dtype=torch.float64), fmt, ties).tolist()
    for x, wanted in zip(numbers, rounded, strict=True):
        landing = land(x, fmt, ties)
        assert landing.value == min(max(wanted, values[0]), values[-1])
        assert landing.value in values
        assert fmt.value(landing.code) == landing.value
        assert landing.beyond == ("above" if wanted > values[-1] else "below" if wanted < values[0] else "")
        assert landing.error == landing.value - x
        if values[0] <= x <= values[-1]:
            assert landing.below <= x <= landing.above
            assert landing.value in (landing.below, landing.above)
            if ties in ("even", "away", "up", "down", "toward_zero"):
                assert abs(landing.error) <= min(x - landing.below, landing.above - x) * (1 + 1e-12)


@pytest.mark.parametrize("fmt", ALL)
def test_a_tie_is_half_way(fmt):
    values = finite_values(fmt)
    for low, high in list(itertools.pairwise(values))[:: max(1, len(values) // 60)]:
        middle = low + (high - low) / 2
        if fmt.kind != "codebook":  # whose middles float64 need not hold
            assert land(middle, fmt).tie
            assert land(middle, fmt, "up").value == high
            assert land(middle, fmt, "down").value == low
        assert not land(low, fmt).tie
        assert not land(low + 0.4 * (high - low), fmt).tie


@pytest.mark.parametrize("fmt", ALL)
def test_the_gaps_are_the_distances(fmt):
    values = finite_values(fmt)
    for negative in (False, True):
        steps = gap_steps(fmt, negative)
        for one, next_one in itertools.pairwise(steps):
            assert one.end == next_one.start
            assert one.gap != next_one.gap
        if steps:
            assert steps[-1].end == (-values[0] if negative else values[-1])
    inner = [value for value in values[1:-1] if value >= 0][:: max(1, len(values) // 100)]
    for value in inner:
        at = values.index(value)
        assert gap_at(value, fmt) == values[at + 1] - value
    for low, high in list(itertools.pairwise(values))[:: max(1, len(values) // 100)]:
        assert gap_at(low + 0.3 * (high - low), fmt) == high - low
        # What the grid calls its gap is the same, wherever both lie on the grid.
        if fmt.kind == "float" and fmt.float_bits.subnormal and low >= 0:
            assert GRIDS["float"].gap(torch.tensor(low, dtype=torch.float64), fmt).item() == high - low
    assert gap_at(values[-1] * 2 + 1, fmt) is None


def test_landing_needs_a_finite_number():
    with pytest.raises(QuantVizError):
        land(math.nan, FORMATS["int4"])
