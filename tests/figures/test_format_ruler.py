"""The ruler of a format shows the teeth around a number, and the browser finds on it where a number lands."""

import numpy as np
import pytest

from quantviz.figures.format_ruler import has_ruler, ruler_of_format
from quantviz.quantization.format_facts import land, reach, word
from quantviz.schemes.formats import FORMATS

SMALL = [pytest.param(fmt, id=name) for name, fmt in FORMATS.items() if has_ruler(fmt)]
PLACES = np.array([0, 1e-3, 0.01, 0.03, 0.11, 0.26, 0.53, 0.74, 0.98, 1.01, 1.1, 1.4])


@pytest.mark.parametrize("unit", ["values", "to one"])
@pytest.mark.parametrize("fmt", SMALL)
def test_the_teeth_around_a_number_can_be_told_apart(fmt, unit):
    unit = reach(fmt) if unit == "to one" else 1.0
    top = reach(fmt) / unit
    for x in (np.concatenate([-PLACES, PLACES]) * top).tolist():
        picture = ruler_of_format(fmt, land(x, fmt, unit=unit), unit)
        lo, hi = picture.domain
        levels = picture.levels
        seen = levels[(levels >= lo) & (levels <= hi)]
        assert 2 <= len(seen) <= 32
        assert np.diff(seen).min() >= (seen[-1] - seen[0]) / 64
        # x is in sight with its tooth; beyond an end it may stand at the axis' end.
        assert picture.landed[0] in seen
        assert lo <= min(max(x, levels[0]), levels[-1]) <= hi
        assert picture.single.part == (len(seen) < len(levels))


@pytest.mark.parametrize("fmt", SMALL)
def test_the_nearest_tooth_is_where_the_number_lands(fmt):
    top = reach(fmt)
    for x in (np.concatenate([-PLACES, PLACES]) * top).tolist():
        landing = land(x, fmt)
        picture = ruler_of_format(fmt, landing)
        low, high = picture.single.held
        if landing.tie:
            continue
        # As the browser does.
        near = int(np.abs(picture.levels - x).argmin())
        assert picture.levels[near] == landing.value
        assert (x < low or x > high) == bool(landing.beyond) == bool(picture.clipped[0])
        if landing.value:
            assert picture.single.bits[near] == word(fmt, landing.code)


def test_a_number_of_any_size_is_shown_as_it_is():
    picture = ruler_of_format(FORMATS["int4"], land(1e300, FORMATS["int4"]))
    assert picture.values.tolist() == [1e300]
    assert picture.landed.tolist() == [7.0]
    assert picture.domain == (-9.0, 8.0)
