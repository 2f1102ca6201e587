"""The formats page through AppTest: what it says of every format is what the format is."""

import html
import math
import re

import pytest

from quantviz.quantization.format_facts import finite_values, land
from quantviz.schemes.formats import FORMATS
from quantviz.ui.formats.page import listed_codes
from tests.helpers import session
from tests.helpers.controls import bars, choose, controls, tell
from tests.helpers.panels import decoded
from tests.helpers.sample import sample_of
from tests.helpers.session import address, bodies, healthy, spec

PAGE = "pages/learn/formats.py"
POWER = re.compile(r"(−?)(?:(\d+) · )?2<sup>(−?\d+)</sup>")


def opened(**params):
    return session.opened(PAGE, **params)


def body(at, name):
    return bodies(at, name)[0]


def table(at):
    """The rows of the code table: code to cells."""
    rows = re.findall(r'<tr data-code="(-?\d+)"([^>]*)>(.*?)</tr>', body(at, 'class="qv-codes"'))
    return {
        int(code): [*re.findall(r"<td>(.*?)</td>", cells), "selected" in marked]
        for code, marked, cells in rows
    }


def selected(at):
    return [code for code, cells in table(at).items() if cells[-1]]


def told_values(at):
    """The values that the marks of each format on the line stand for; arrays are sent packed."""
    traces = spec(at, "formats_line")["data"]
    return [decoded(trace["customdata"]).tolist() for trace in traces if trace.get("name") == "values"]


def plain(text):
    return html.unescape(re.sub("<[^>]+>", "", text))


def told(cell):
    """The number that a cell of the table says."""
    return float(cell.replace("≈ ", "").replace("−", "-").replace("∞", "inf"))


@pytest.mark.parametrize("name", sample_of(FORMATS, 4))
def test_every_format_opens_and_says_its_values(name):
    fmt, at = FORMATS[name], opened(a=name, b="none", x="0.3", lang="en")
    assert len(at.warning) == 0
    rows = table(at)
    assert tuple(rows) == listed_codes(fmt, land(0.3, fmt).code)
    if fmt.bits <= 8:
        assert tuple(rows) == tuple(fmt.codes)
    for code, cells in rows.items():
        value = fmt.value(code)
        assert plain(cells[2]) == "".join(fmt.split(code))
        assert int(cells[1], 16) == int(plain(cells[2]), 2)
        if math.isnan(value):
            assert cells[4] == "NaN"
            continue
        assert told(cells[4]) == pytest.approx(value, rel=1e-8, abs=0)
        assert math.copysign(1, told(cells[4])) == math.copysign(1, value)
        if cells[4].startswith("≈") or (fmt.kind != "integer" and value and math.isfinite(value)):
            sign, odd, power = POWER.match(cells[5]).groups()
            assert math.ldexp(int(odd or 1) * (-1 if sign else 1), int(power.replace("−", "-"))) == value
        else:
            assert told(cells[4]) == value
    assert selected(at) == [land(0.3, fmt).code]
    # All values are on the line: as many as the sentence says.
    assert f"{len(finite_values(fmt)):,} values" in body(at, 'class="qv-small"')


def test_the_first_screen_is_a_tie_of_two_formats():
    at = opened(lang="en")
    assert address(at) == {"a": "float4_e2m1fn", "b": "int4", "x": "2.5", "lang": "en"}
    said = plain(body(at, 'class="qv-landings"'))
    assert said.count("exactly half-way between 2 and 3") == 2
    assert plain(body(at, 'class="qv-reading"')) == "+1 × 2^(2 − 1) × (1 + 0/2) = 2".replace(
        "^(", ""
    ).replace(")", "", 1)
    assert len(told_values(at)) == 2
    choose(at, ("ties", "up"))
    assert selected(healthy(at)) == [0b0101]
    assert address(at)["t"] == "up"


def test_two_bits_are_turned_over_at_once():
    """The browser sent both presses before the answer to the first: the second took the first one back."""
    at = opened(a="int4", b="none", x="0", lang="en")
    for bit in (0, 1):
        at.button(key=f"formats_bit_integer_{bit}").click()
    assert selected(healthy(at.run())) == [3]


def test_quick_choices_count_once_each_in_their_order():
    """The second of two quick presses was lost, and one that undo had taken back came back."""
    at = opened(a="nf4", b="int4", x="0.25", lang="en")
    choose(at, "swap", "swap", "swap", "undo", ("view", "near"), ("ties", "up"), "undo", "swap")
    said = address(healthy(at))
    assert (said["a"], said["b"], said["v"], said.get("t")) == ("int4", "nf4", "near", None)
    # A message that comes again, and one with what is none of the choices.
    bar, data = next((bar, data) for bar, data in bars(at).items() if data["controls"][0]["field"] == "first")
    tell(at, bar, *([number, "formats", "swap", ""] for number in range(1, data["taken"] + 1)))
    assert address(healthy(at)) == said
    tell(
        at, bar, [data["taken"] + 1, "formats", "nothing", "x"], [data["taken"] + 2, "formats", "ties", "odd"]
    )
    assert not at.exception
    assert address(at) == said


def test_the_overlay_and_the_view():
    at = opened(a="float8_e4m3fn", b="float8_e5m2", x="300", lang="en")
    said = plain(body(at, 'class="qv-landings"'))
    assert "300 lands on 288: error −12. Other neighbour: 320, 20 away" in said
    assert "300 lands on 320: error +20. Other neighbour: 256, 44 away" in said
    for view in ("symlog", "near", "linear"):
        choose(at, ("view", view))
        assert address(healthy(at)).get("v", "linear") == view
    choose(at, "swap")
    assert (address(healthy(at))["a"], address(at)["b"]) == ("float8_e5m2", "float8_e4m3fn")
    choose(at, ("second", "none"))
    assert address(healthy(at))["b"] == "none"
    assert controls(at)["swap"]["disabled"]


def test_formats_brought_to_one_are_laid_beside_each_other():
    at = opened(a="nf4", b="int4", x="0.5", lang="en")
    # As they are, three of int4's values lie within NF4's reach.
    assert told_values(at)[1] == [-1, 0, 1]
    choose(at, ("to_one", "1"))
    assert address(healthy(at)) == {"a": "nf4", "b": "int4", "x": "0.5", "n": "1", "lang": "en"}
    values = told_values(at)
    assert list(map(max, values)) == [1, 1]
    assert min(values[1]) == pytest.approx(-8 / 7)
    assert "INT4 is divided by 7" in plain(body(at, "qv-small"))
    said = plain(body(at, 'class="qv-landings"'))
    assert "lands on 0.440709829: error −0.0592902. Other neighbour: 0.562617004, 0.0626 away" in said
    assert "In INT4, 0.5 is a tie, exactly half-way between 0.428571429 and 0.571428571" in said
    assert address(opened(**address(at)))["n"] == "1"


def test_what_gives_no_number_is_said_beside_it_and_nothing_changes():
    at = opened(lang="en")
    choose(at, ("x", "two"))
    assert not at.exception
    assert "'two' is not a number" in at.error[0].value
    assert "Formats page" not in at.error[0].value
    assert controls(at)["x"]["wrong"]
    assert address(at)["x"] == "2.5"
    assert address(healthy(choose(at, ("x", "3"))))["x"] == "3"


def test_a_number_stays_as_it_was_typed_until_it_is_another():
    at = opened(lang="en")
    choose(at, ("x", "1/3"))
    assert controls(at)["x"]["value"] == "1/3"
    assert address(healthy(at))["x"] == "0.3333333333333333"
    at.button(key="formats_bit_sign_3").click().run()
    assert controls(at)["x"]["value"] == address(healthy(at))["x"]
