"""Engines beside each other without the app: the table, the cells that are listed, and the reasons."""

import re

import pytest

import quantviz as qv
from quantviz.analysis.engine_comparison import compare, difference
from quantviz.lab.classroom import Classroom
from quantviz.lab.page_state import History
from quantviz.lab.state import ALL, opening
from quantviz.sources import Normal
from quantviz.text import catalogue
from quantviz.ui.lab.compare.compared_engines import comparing, example_state, show_comparison

#: The first screen's tensor under schemes that several engines offer, of every kind of format, mode and
#: granularity.
SCHEMES = [
    "int4,symmetric,per_tensor,min_max,course",
    "int8,asymmetric,per_channel(axis=0),min_max,onnxruntime",
    "uint8,asymmetric,per_tensor,min_max,torch",
    "int4,symmetric,per_group(size=8,axis=-1),min_max,torchao",
    "float8_e4m3fn,symmetric,per_tensor,min_max,course",
    "float4_e2m1fn,symmetric,per_group(size=8,axis=-1),min_max,microxcaling",
]


def state_of(scheme):
    return opening().replace(scheme=qv.Scheme.parse(scheme), compared=ALL)


@pytest.fixture
def shown(session, said, pressed):
    """`shown(state, **classroom)` shows the comparison: the text of each group's cells, and the cells that
    are listed, as their buttons say them.
    """

    def show(state, **classroom):
        said.clear()
        pressed.clear()
        session.update(lab_state=History(state), classroom=Classroom(**classroom))
        show_comparison(comparing(state), state, pooled=False)
        body = table(said, "qv-compare").partition("<tbody>")[2].partition("</tbody>")[0]
        rows = [
            [re.sub("<[^>]+>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row)]
            for row in body.split("</tr>")[:-1]
        ]
        labels = [label for key, (label, _) in pressed.items() if key.startswith("compare_cell_")]
        return rows, [label.replace("\\", "") for label in labels]

    return show


def table(said, name):
    return "".join(words for kind, words in said if f'class="qv-steps {name}"' in words)


@pytest.mark.parametrize(("scheme", "language"), list(zip(SCHEMES, ["en", "zh"] * 3, strict=True)))
def test_the_counts_are_the_cores(shown, said, session, scheme, language):
    session["language"] = language
    state = state_of(scheme)
    rows, _ = shown(state)
    found = compare(state.source.tensor(), state.scheme)
    own = found.results[str(state.scheme.arithmetic)]
    others = [group for group in found.groups if str(state.scheme.arithmetic) not in group]
    assert len(rows) == len(others) + 1 > 1
    told = {row[0].split(" · ")[0]: row for row in rows}
    names = {name: catalogue(language)[f"conventions.{name}.name"] for name in found.results}
    for group in others:
        between = difference(own, found.results[group[0]])
        row = told[names[group[0]]]
        assert row[1:3] == [str(int(between.codes.sum())), str(int(between.values.sum()))]
        assert row[-1] not in ("", "–")
    named = "".join(table(said, "qv-compare").split())
    assert all("".join(name.split()) in named for name in names.values())
    # No key, field or value is shown by its name in the code.
    assert "convention_fields" not in str(said)


def test_a_listed_cell_is_selected_and_says_its_rule_and_its_tie(shown, said, pressed, session):
    state, words = example_state(), catalogue("en")
    _, lines = shown(state)
    assert len(lines) == 6
    telling = (words["convention_fields.order.name"], words["compare.tie"])
    assert all(each in line for line in lines for each in telling)
    cell = tuple(map(int, re.search(r"(\d), (\d)", lines[2]).groups()))
    pressed["compare_cell_2"][1]()
    history = session["lab_state"]
    assert (history.now.cell, history.can_undo) == (cell, False), "it is no step"
    shown(history.now)
    found = compare(state.source.tensor(), state.scheme)
    own = found.results["course"]
    other = next(names[0] for names in found.groups[1:] if found.results[names[0]].q[cell] != own.q[cell])
    detail = table(said, "qv-compare-why")
    for name in ("course", other):
        assert words[f"conventions.{name}.name"] in detail
        assert f"{qv.explain(found.results[name], cell).before_rounding:g}".replace("-", "−") in detail
    assert words["convention_fields.order.values.divide_add_round"] in detail
    assert words["convention_fields.ties.values.even"] in detail
    assert "{" not in detail


def test_a_listed_cell_tells_first_what_differs(shown):
    """A code where the codes differ, else the values with as many digits as tell them apart."""
    state = state_of(SCHEMES[1])
    found = compare(state.source.tensor(), state.scheme)
    assert int(found.codes_differ.sum()) == 0 < int(found.lit.sum())
    lines = shown(state)[1]
    assert lines
    for line in lines:
        mine, theirs = re.search(r"· x̂ (\S+) \| (?:.* )?(\S+) · x = ", line).groups()
        assert mine != theirs
    assert shown(state_of(SCHEMES[0]))[1][0].startswith("(0, 0) · q 1 | microxcaling 0 · x = 1.79 · ")


def test_where_nothing_differs_it_says_why_and_offers_numbers_that_do(shown, said, pressed, session):
    state = opening().with_source(Normal(16, 16)).replace(scheme=example_state().scheme, compared=ALL)
    assert not bool(compare(state.source.tensor(), state.scheme).lit.any())
    assert shown(state) == ([], [])
    assert "half-way" in str(said).replace("\\", "")
    pressed["compare_load"][1]()
    assert session["lab_state"].now == example_state()
    shown(state_of("nf4,symmetric,per_tensor,min_max,course"))
    assert catalogue("en")["compare.alone"].split(".")[0] in str(said)


def test_hidden_parts_are_not_told_here_either(shown, said):
    rows, lines = shown(state_of(SCHEMES[0]), hidden=frozenset({"tiles.mse", "q"}))
    assert len(rows[0]) == 6  # without the column of the hidden tile
    assert lines
    assert all("x̂ " in line and "→" not in line and "q " not in line for line in lines)
    _, lines = shown(state_of(SCHEMES[0]), hidden=frozenset({"x_hat", "q"}))
    assert lines
    assert not any("x̂" in line or "q " in line for line in lines)
    assert table(said, "qv-compare-why") == ""
