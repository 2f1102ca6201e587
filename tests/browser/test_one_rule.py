"""Python and the browser write the same numbers and show the same errors: the browser follows what the server
hands it.
"""

import dataclasses
import itertools
import math
import re

import numpy as np
import pytest

import quantviz as qv
from quantviz.browser import FOLDER, read_script
from quantviz.figures.arrangement import PANELS
from quantviz.figures.numbers import WRITING, short_number
from quantviz.figures.panels_data import as_picture, result_panels
from quantviz.figures.printing import Style, ems, fitting, printed, printing_styles
from quantviz.figures.ruler_data import ruler_of_result
from quantviz.figures.theme import THEMES, rgb
from quantviz.live.cells import color_scale
from quantviz.schemes.formats import FORMATS
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.drags import moved_by
from quantviz.teaching.lessons.formulas import HERE
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.ui.lab.numbers.tiles import WORDED_METRICS, metric_texts
from tests.helpers.browser_arithmetic import numbers
from tests.helpers.colours import luminance

BRIDGE = read_script("panels_bridge")


WRITTEN = dataclasses.asdict(WRITING)
NAN, INF = math.nan, math.inf


@pytest.fixture(scope="module")
def bridge(blank_with):
    """A blank page with the bridge's own functions."""
    names = "significant, numberText, fitting, shownError, inkOn"
    return blank_with(f"{BRIDGE}\nObject.assign(window, {{ {names} }});")


@pytest.fixture(scope="module")
def hand(blank_with):
    """A blank page with the hand's own functions."""
    names = "figuresOf, combOf, chosenBy"
    return blank_with(f"{read_script('hand_component')}\nObject.assign(window, {{ {names} }});")


def differing(values, got, wanted):
    """Some of the values that are written otherwise, with both ways."""
    return [each for each in zip(values, got, wanted, strict=True) if each[1] != each[2]][:5]


def test_the_browser_writes_a_number_as_the_server_does(bridge):
    # Ties go to the even digit; a power of ten stands where the others would be long.
    values = [*numbers(), 2.125, 2.375, -2.125, 0.0001, 0.0000193, 0.0000002, 999999.6, -1e21, NAN, INF, -INF]
    for digits in (1, 2, 3, WRITING.card):
        got = bridge.evaluate(
            "([values, digits, writing]) => values.map((value) => significant(value, digits, writing))",
            [values, digits, WRITTEN],
        )
        assert not differing(values, got, [short_number(value, digits) for value in values]), digits


def test_the_line_of_numbers_is_written_alike(hand):
    """While a hand moves the browser writes it, before and afterwards the server."""
    errors = [0.0, 1e-30, 0.00012345, 1.5732, 9999.4, 9999.6, 12345.678, 123456.0, 3e7, NAN]
    decibels = [0.0, -3.21, 18.94, 123.45, INF, NAN]
    shares = [0.0, 1e-5, 0.00125, 0.8281, 0.99951, 1.0, NAN]
    found = [
        dict(zip(WORDED_METRICS, values, strict=True))
        for values in itertools.zip_longest(errors, decibels, shares, shares, fillvalue=0.5)
    ]
    got = hand.evaluate(
        "([found, writing]) => found.map((metrics) => figuresOf(metrics, { bits_text: '4.5' }, writing))",
        [found, WRITTEN],
    )
    assert got == [{**metric_texts(each), "bits": "4.5"} for each in found]


@pytest.mark.parametrize(
    "style",
    [
        *(Style(decimals, zero) for decimals in range(5) for zero in (True, False)),
        Style(0, power=True),
        Style(2, power=True),
    ],
)
def test_the_browser_prints_a_value_in_a_style_as_the_server_does(bridge, style):
    values = [value for value in numbers() if style.power or abs(value) < WRITING.most]
    values += [0.125, 0.375, -0.001, -0.25, 10.25, 2.5, 3.5, NAN, INF, -INF]
    got = bridge.evaluate(
        "([values, style, writing]) => values.map((value) => numberText(value, style, writing))",
        [values, dataclasses.asdict(style), WRITTEN],
    )
    assert not differing(values, got, [printed(value, style) for value in values])


@pytest.mark.parametrize("width", [14, 20, 24, 31, 60])
@pytest.mark.parametrize("factor", [1e-9, 0.02, 1.0, 30.0, 1e8])
def test_the_browser_takes_the_decimals_that_the_server_takes(bridge, width, factor):
    values = (np.random.default_rng(2).standard_normal((6, 8)) * factor).astype(np.float32)
    styles = printing_styles(values)
    got = bridge.evaluate(
        """([values, styles, box, writing]) =>
            fitting(values.map((value) => ({ value })), styles, box, 12, writing)""",
        [
            values.ravel().tolist(),
            [dataclasses.asdict(style) for style in styles],
            {"width": width, "height": 22},
            WRITTEN,
        ],
    )
    fit = fitting(values.tolist(), styles, width, 22, 12)
    assert (got is None) == (fit is None)
    if fit is not None:
        assert [each["label"] for each in got["labels"]] == [label for row in fit[0] for label in row]
        assert got["size"] == pytest.approx(fit[1])
        assert max(ems(each["label"]) for each in got["labels"]) * got["size"] <= width


@pytest.mark.parametrize("view", ERROR_VIEWS)
@pytest.mark.parametrize(
    "form",
    [
        "int4,asymmetric,per_group(size=8),min_max,course",
        "float4_e2m1fn,symmetric,per_channel,min_max,course",
    ],
)
def test_the_browser_shows_the_error_as_the_server_does(bridge, view, form):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((48, 64)).astype(np.float32)
    x[0, :8] = x[5, 5] = 0.0
    x[7, 8:16] = 0.0
    quiet = rng.uniform(0.1, 3, (48, 64)).astype(np.float32)
    # An input that is always 0.
    quiet[:, 3] = np.finfo(np.float32).max
    data = result_panels(qv.quantize(x, qv.Scheme.parse(form)), error_view=view, quiet=quiet)
    parts = {"x": data.x, "error": data.error, "step": data.blocks.step.astype(np.float32), "quiet": quiet}
    columns = (part.ravel().tolist() for part in parts.values())
    cells = [dict(zip(parts, each, strict=True)) for each in zip(*columns, strict=True)]
    # JSON has no NaN.
    found = bridge.evaluate(
        """([cells, view]) => {
            const shown = cells.map((cell) => shownError(cell, view));
            return shown.map((value) => (Number.isNaN(value) ? null : value));
        }""",
        [cells, dataclasses.asdict(ERROR_VIEWS[view])],
    )
    got = np.array([NAN if value is None else value for value in found]).reshape(data.shape)
    np.testing.assert_array_equal(got, data.shown_error.astype(np.float64))


@pytest.mark.parametrize(
    "name", ["int8", *(name for name, each in FORMATS.items() if each.kind != "integer" and each.bits <= 8)]
)
def test_the_combs_codes_are_called_alike(hand, name):
    """While a hand moves the browser calls them, before and afterwards the server."""
    result = qv.quantize([[1.0]], qv.Scheme(name, calibration=qv.Given(1.0)))
    picture = ruler_of_result(result, qv.explain(result, (0, 0)))
    got = hand.evaluate(
        """([values, writing]) =>
            combOf({ values, codes: values.map((_, i) => i) }, values, writing).names""",
        [picture.levels.tolist(), WRITTEN],
    )
    assert got == list(picture.codes)


def test_the_values_of_held_codes_are_those_that_the_server_makes(hand):
    step = lessons()["range_to_grid"].steps[5]
    start = step.scenes()[HERE]
    scale, zero = start.why.scale, int(start.why.zero_point)
    for z in (zero - 2, zero + 1):
        message = {"kind": "given", "scale": scale, "zero_point": z}
        moved = moved_by(start.state, message, step.move)
        got = hand.evaluate(
            """([q, scale, zero_point, value]) => {
                const shown = { q, params: { scale, zero_point },
                    variant: { zero_domain: "code_int", zero_points: [-8, 7] } };
                const before = { variant: 0, calibration: null, edits: new Map() };
                const told = { kind: "zero", index: 3, value };
                const chosen = chosenBy(told, before, { holds_codes: true, symmetric: false }, shown);
                return [chosen.calibration.zero_point, [...chosen.edits.values()]];
            }""",
            [start.result.q.flatten().tolist(), scale, zero, scale * (zero - z)],
        )
        assert got == [z, moved.source.tensor().flatten().tolist()]


def test_no_script_writes_numbers_by_a_rule_of_its_own():
    for path in sorted(FOLDER.rglob("*.js")):
        found = re.findall(r"""["'`](?:NaN|[^"'`]*∞|−)["'`]""", path.read_text(encoding="utf-8"))
        # The mini-map's keys are no numbers.
        assert not found or path.name == "minimap.js", (path.name, found)


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("theme", THEMES)
def test_what_is_printed_can_be_read_on_every_colour(bridge, theme, grey):
    data = result_panels(
        qv.quantize(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), qv.Scheme("int4"))
    )
    data = as_picture(data, symmetric=True) if grey else data
    for name in PANELS:
        scale = color_scale(name, data, THEMES[theme])
        lo, hi = data.panel(name)[1]
        values = np.linspace(lo, hi, 201).tolist()
        inks = bridge.evaluate(
            "([scale, values]) => values.map((value) => inkOn(scale, value))", [scale, values]
        )
        shades = rgb(scale["ramp"], 201, data.middle(name)).tolist()
        for ink, (red, green, blue) in zip(inks, shades, strict=True):
            one, other = luminance(ink), luminance(f"#{red:02x}{green:02x}{blue:02x}")
            assert (max(one, other) + 0.05) / (min(one, other) + 0.05) >= 4.5
