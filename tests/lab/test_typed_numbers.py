"""A number is what a person means by what they type, or a sentence says why it is none."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantviz.errors import QuantVizError
from quantviz.lab.typed_numbers import LONGEST, read_number


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        # Decimals, in the signs of several keyboards.
        ("2.5", 2.5), ("2,5", 2.5), ("2，5", 2.5), ("０．３５", 0.35), ("０，３５", 0.35), ("3。5", 3.5),
        (".5", 0.5), (",5", 0.5), ("5.", 5), ("+4", 4),
        ("−12.5", -12.5), (" −3 ", -3), ("- 3", -3), ("–5", -5), ("1e-3", 1e-3), ("−1E−3", -1e-3),
        ("1.5×10^3", 1500), ("5·10⁻³", 0.005),
        # Groups of three digits where nothing else can be meant.
        ("1.234,5", 1234.5), ("1,234.5", 1234.5), ("1,234,567", 1234567), ("1 000", 1000),
        ("12 345,6", 12345.6), ("1'000'000", 1e6), ("1_000", 1000),
        ("0,123", 0.123), ("1.234", 1.234), ("1234,567", 1234.567),
        # Fractions, powers and sums.
        ("1/3", 1 / 3), ("1/0,5", 2), ("2^-9", 2**-9), ("2²", 4), ("5*2^-9", 5 * 2**-9),
        ("5×2**-9", 5 * 2**-9), ("6÷4", 1.5), ("1/2/4", 0.125),
        ("-128+184/3.5788", -128 + 184 / 3.5788), ("1 + 1", 2), ("5--3", 8), ("-2^2", -4), ("(1+2)*3", 9),
        ("2^3^2", 512), ("2^0,5", math.sqrt(2)),
        # A unit, a share.
        ("12 dB", 12), ("12dB", 12), ("1+2 DB", 3),
    ],
)  # fmt: skip
def test_numbers_as_people_type_them(typed, value):
    assert read_number(typed, "dB") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("typed", "unit", "value"),
    [
        ("50 %", "", 0.5),
        ("50 %", "%", 50),
        ("50", "%", 50),
        ("100/8 %", "%", 12.5),
        ("2 steps", "steps", 2),
        ("2 步", "步", 2),
    ],
)
def test_a_unit_behind_the_number(typed, unit, value):
    assert read_number(typed, unit) == value


@pytest.mark.parametrize(
    ("typed", "key", "said"),
    [
        ("", "number_missing", "not typed a number"), (" ", "number_missing", "Type one"),
        ("--3", "number_unreadable", "--3"), ("1.2.3", "number_unreadable", "1.2.3"),
        ("3 4", "number_unreadable", "3 4"),
        ("1,2.5", "number_unreadable", "1,2.5"), ("()", "number_unreadable", "()"),
        ("2(3)", "number_unreadable", "2(3)"),
        ("1/", "number_unreadable", "1/"), ("3)(4", "number_unreadable", "3)(4"),
        ("two", "number_strange", "'t'"), ("about 4", "number_strange", "'a'"),
        ("1e", "number_strange", "'e'"), ("٣x", "number_strange", "'٣'"),
        ("1½", "number_strange", "'½'"), ("7//2", "number_unreadable", "7//2"),
        ("5 % 3", "number_strange", "'%'"), ("50 %", "number_strange", "'%'"),
        ("1 if 2", "number_strange", "'i'"), ("__import__('os')", "number_strange", "'_'"),
        ("1<2", "number_strange", "'<'"), ("1j", "number_strange", "'j'"),
        ("1,234", "number_ambiguous", "1.234 or 1234"), ("3+12,345", "number_ambiguous", "12.345 or 12345"),
        ("1，234", "number_ambiguous", "1.234 or 1234"),
        ("9" * 100, "number_too_long", "100"), ("(" * 200, "number_too_long", "200"),
        ("inf", "number_not_finite", "inf"), ("NaN", "number_not_finite", "NaN"),
        ("1/0", "number_divided_by_zero", "1/0"), ("3/(2-2)", "number_divided_by_zero", "divides by zero"),
        ("9^99999", "number_not_finite", "9^99999"), ("9^9^9^9^9", "number_not_finite", "9^9^9^9^9"),
        ("0^-1", "number_divided_by_zero", "0^-1"), ("1e999", "number_not_finite", "1e999"),
        ("(-8)^0.5", "number_not_finite", "(-8)^0.5"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_told_with_what_was_read(typed, key, said):
    with pytest.raises(QuantVizError) as raised:
        read_number(typed, "dB")
    assert raised.value.key == key
    assert said in str(raised.value)


@given(st.floats(-1e12, 1e12))
def test_a_printed_number_comes_back(value):
    assert read_number(repr(value)) == value
    with contextlib.suppress(QuantVizError):  # 1,234 is refused
        assert read_number(repr(value).replace(".", ",")) == value


@given(st.text(max_size=20) | st.text("0123456789.,e+-*/^()% −²½'_", max_size=LONGEST))
def test_any_text_is_a_finite_number_or_a_sentence(text):
    with contextlib.suppress(QuantVizError):
        assert math.isfinite(read_number(text))
