"""A, B and more in the tab Compare: choosing, dropping and taking them, and what is said of them."""

import json

import pytest

import quantviz as qv
from quantviz.lab.classroom import Classroom
from quantviz.lab.state import MOST_COMPARED, LabState
from tests.helpers.controls import choose
from tests.helpers.session import act, address, healthy, keys_of, opened, told, turned

ROW, COLUMN = str(qv.RECIPES["int4_per_row"]), str(qv.RECIPES["int4_per_column"])


def comparing(**link):
    return healthy(turned(opened(lang="en", **link), "compare"))


def shown(at):
    """Return the words of the page, and the titles of the schemes side by side and of the map."""
    maps = [element for element in at.get("plotly_chart") if "beside_chart" in element.proto.id]
    drawn = [json.loads(each.proto.spec)["layout"] for each in maps]
    titles = [each["text"] for layout in drawn for each in layout["annotations"]]
    return told(at, "markdown") + told(at, "caption"), titles


@pytest.fixture(scope="module")
def held():
    """A link that holds two schemes against the present one, to read only."""
    return comparing(b=ROW, y=COLUMN)


def test_a_link_opens_the_comparison_with_a_first(held):
    schemes = [ROW, COLUMN, str(LabState.opening().scheme)]
    found = qv.compare_schemes(LabState.opening().source.tensor(), schemes)
    words, names = shown(held)
    best = max(range(3), key=found.cell_shares.__getitem__)
    share = f"{100 * found.cell_shares[best]:.3g} %"
    assert f"{'ABC'[best]} has the smaller error in {share} of the cells" in words
    for letter, each, title in zip("ABC", found.measured, names, strict=False):
        assert title.startswith(f"{letter} · {each.metrics['sqnr_db']:.3g} dB")
    assert names[3] == "Smaller error"
    assert f'qv.compare_schemes(x, ["{ROW}", "{COLUMN}",' in words
    table = next(each.value for each in held.dataframe if "cells" in each.value)
    assert table["sqnr_db_minus_a"].tolist()[0] == 0
    assert table["sqnr_db"].tolist() == pytest.approx([each.metrics["sqnr_db"] for each in found.measured])
    assert [name[:3] for name in table["name"]] == ["A: ", "B: ", "C: "]
    assert table["name"].tolist()[2].endswith("(now)")


def test_the_tab_answers_who_is_better_first_and_offers_the_best():
    at = comparing(b=ROW, y=COLUMN)
    said = told(at, "markdown")
    assert said.index("has the smaller error") < said.index("recipes with 4-bit codes")
    assert at.button(key="contest_take").label == "Use B"
    assert address(act(at, "contest_take"))["s"] == COLUMN
    assert "contest_take" not in keys_of(at), "the best is the present one"


def test_adding_makes_the_present_scheme_a_and_dropping_it_moves_the_next_up():
    at = comparing()
    assert shown(at)[1] == []
    act(at, contest_add="int4_per_column")
    assert (address(at)["b"], address(at)["y"]) == (address(at)["s"], COLUMN)
    assert at.button(key="set_baseline").disabled
    assert address(act(at, contest_add="engine.torchao"))["y"].count("~") == 1
    assert address(act(at, contest_kept=[COLUMN]))["b"] == COLUMN
    assert "y" not in address(at)
    assert address(act(at, "undo"))["y"].count("~") == 1


def test_a_scheme_that_is_added_twice_at_once_is_there_once():
    at = choose(comparing(), ("contest_add", "int4_per_column"), ("contest_add", "int4_per_column"))
    assert address(at)["y"] == COLUMN
    assert not at.warning


def test_the_winner_may_be_told_of_rows():
    words = shown(act(comparing(b=ROW), contest_parts="rows"))[0]
    assert "% of the rows" in words
    opening = LabState.opening()
    schemes = [ROW, str(opening.scheme)]
    found = qv.compare_schemes(opening.source.tensor(), schemes, parts=qv.PerChannel(0))
    row = max(range(8), key=lambda k: found.lead[k, 0] if found.winner[k, 0] == 0 else -1)
    assert f"Furthest ahead: A in row {row}, by {found.lead[row, 0]:.3g}" in words


def test_eight_are_enough():
    forms = [str(qv.Scheme(f"int{bits}")) for bits in (2, 3, 5, 6, 7, 8)]
    at = comparing(b=forms[0], y="~".join([*forms[1:], ROW]))
    assert not at.button(key="set_baseline").disabled
    assert [title[0] for title in shown(at)[1]] == [*"ABCD", "S"]
    act(at, beside_which_choice=[0, 1, 2, 3, 6])
    assert [title[0] for title in shown(at)[1]] == [*"BCDG", "S"]
    remembered = LabState.read(address(act(at, "set_baseline", bits=16)))[0].remembered
    assert (len(remembered), remembered[-1].number_format.bits) == (MOST_COMPARED, 16)
    assert at.button(key="set_baseline").disabled
    assert "contest_add" not in keys_of(at)


@pytest.mark.parametrize("part", ["compare", "error", "x_hat"])
def test_a_class_is_not_shown_what_is_hidden(part):
    at = comparing(b=ROW, k=str(Classroom(hidden=frozenset({part}))))
    assert shown(at)[1] == []
