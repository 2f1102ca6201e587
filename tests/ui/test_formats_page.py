"""The formats page without the app: what it says of every format is what the format is."""

import html
import math
import re

import pytest

from quantviz.quantization.format_facts import finite_values, land
from quantviz.schemes.formats import FORMATS
from quantviz.ui.formats import page
from quantviz.ui.formats.state import FormatsState, code_shown, unit_of
from tests.helpers.panels import decoded
from tests.helpers.sample import sample_of

POWER = re.compile(r"(−?)(?:(\d+) · )?2<sup>(−?\d+)</sup>")


@pytest.fixture
def shown(said, monkeypatch):
    """`shown(**link)` shows the line, the landings and the codes: the rows of the table by their codes, the
    values on the line of each format, and all that is said.
    """

    def show(**link):
        said.clear()
        drawn = []
        monkeypatch.setattr(page, "show_plot", lambda figure, *_, **__: drawn.append(figure.to_dict()))
        state, problems = FormatsState.read(link)
        assert problems == ()
        page.show_line(state)
        landings = tuple(land(state.x, fmt, state.ties, unit_of(state, fmt)) for fmt in state.formats)
        page.show_landings(state, landings)
        page.show_codes(state.formats[0], code_shown(state))
        words = "".join(words for kind, words in said if kind == "html")
        rows = re.findall(r'<tr data-code="(-?\d+)"([^>]*)>(.*?)</tr>', words)
        table = {
            int(code): [*re.findall(r"<td>(.*?)</td>", cells), "selected" in marked]
            for code, marked, cells in rows
        }
        traces = [each for each in drawn[0]["data"] if each.get("name") == "values"]
        return table, [decoded(each["customdata"]).tolist() for each in traces], plain(words)

    return show


def plain(text):
    return html.unescape(re.sub("<[^>]+>", "", text))


def told(cell):
    """The number that a cell of the table says."""
    return float(cell.replace("≈ ", "").replace("−", "-").replace("∞", "inf"))


@pytest.mark.parametrize("name", sample_of(FORMATS, 12))
def test_every_format_says_its_values(shown, name):
    fmt = FORMATS[name]
    rows, _, words = shown(a=name, b="none", x="0.3")
    assert tuple(rows) == page.listed_codes(fmt, land(0.3, fmt).code)
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
    assert [code for code, cells in rows.items() if cells[-1]] == [land(0.3, fmt).code]
    # All values are on the line: as many as the sentence says.
    assert f"{len(finite_values(fmt)):,} values" in words


def test_two_formats_lie_over_each_other(shown):
    *_, words = shown(a="float8_e4m3fn", b="float8_e5m2", x="300")
    assert "300 lands on 288: error −12. Other neighbour: 320, 20 away" in words
    assert "300 lands on 320: error +20. Other neighbour: 256, 44 away" in words


def test_formats_brought_to_one_are_laid_beside_each_other(shown):
    link = {"a": "nf4", "b": "int4", "x": "0.5"}
    # As they are, three of int4's values lie within NF4's reach.
    assert shown(**link)[1][1] == [-1, 0, 1]
    _, values, words = shown(**link, n="1")
    assert list(map(max, values)) == [1, 1]
    assert min(values[1]) == pytest.approx(-8 / 7)
    assert "INT4 is divided by 7" in words
    assert "lands on 0.440709829: error −0.0592902. Other neighbour: 0.562617004, 0.0626 away" in words
    assert "In INT4, 0.5 is a tie, exactly half-way between 0.428571429 and 0.571428571" in words
