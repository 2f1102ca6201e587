"""Comparing engines in the Lab: the cells that are lit, the engines, and who may see them."""

import re

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.engine_comparison import compare, difference
from quantviz.figures.panel_painter import outline
from quantviz.lab.classroom import Classroom
from quantviz.lab.state import ALL, opening
from quantviz.sources import Normal
from quantviz.text import catalogue
from tests.helpers import session
from tests.helpers.controls import controls, value_of, words_of
from tests.helpers.panels import decoded
from tests.helpers.session import act, address, bodies, keys_of, spec, told, turned

INT4 = "int4,symmetric,per_tensor,min_max,course"


def opened(state=None, **params):
    """The app as a new session sees it at this address."""
    return session.opened(**{**(state.written() if state else {}), **params})


def framed(at):
    """The path of the frame around the lit cells, or none."""
    shapes = spec(at, "panels_chart")["layout"]["shapes"]
    drawn = {shape["path"] for shape in shapes if shape["type"] == "path" and shape["line"]["width"] == 4}
    assert len(drawn) < 2
    return next(iter(drawn), None)


def large(source, scheme, compared):
    """A state whose cells are too many to frame."""
    return opening().with_source(source).replace(scheme=qv.Scheme(scheme), compared=compared)


def apart(state, *names):
    """How two engines differ in a state."""
    x = state.source.tensor()
    return difference(*(qv.quantize(x, state.scheme.replace(convention=name)) for name in names))


#: Below the engines all recipes are tried, which takes longer.
WITHOUT_RECIPES = str(Classroom(hidden=frozenset({"recipes"})))


def comparing(scheme, compared=ALL, k=WITHOUT_RECIPES, **params):
    state = opening().replace(scheme=qv.Scheme.parse(scheme), compared=compared)
    return state, opened(state, k=k, **params)


def expected(mask):
    return outline(mask.numpy()) or None


def table(at, name):
    return "".join(bodies(at, f'class="qv-steps {name}"'))


def rows(at):
    """The table's cells as text, a row a group of engines."""
    body = table(at, "qv-compare").partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row)]
        for row in body.split("</tr>")[:-1]
    ]


def lines(at):
    """The cells that are listed, as their buttons say them."""
    listed = [button.label for button in at.button if str(button.key).startswith("compare_cell_")]
    return [label.replace("\\", "") for label in listed]


def test_one_engine_lights_its_own_cells_and_the_link_keeps_it():
    state, at = comparing(INT4)
    between = apart(state, "course", "microxcaling")
    act(at, compare_with="microxcaling")
    assert framed(at) == expected(between.either)
    # Cells of another code come before those of another value only.
    places = [[int(each) for each in re.search(r"(\d), (\d)", line).groups()] for line in lines(at)]
    assert places == torch.nonzero(between.codes)[:6].tolist()
    act(at, compare_light="code")
    assert framed(at) == expected(between.codes)
    assert torch.any(between.either != between.codes)
    assert value_of(opened(**address(at)), "compare_with") == "microxcaling"


def test_the_button_opens_and_closes_and_closed_there_is_nothing():
    at = turned(opened(), "compare")
    assert framed(at) is None
    assert "lab_comparison" not in at.session_state
    assert address(act(at, "compare_open"))["m"] == ALL
    assert framed(at) is not None
    assert "m" not in address(act(at, "compare_open"))
    assert framed(at) is None
    assert rows(at) == []


def chosen_engines(at):
    """The engines that are offered and chosen for each purpose, by the key of its control."""
    rows = {key: each for key, each in controls(at).items() if key.startswith("compare_chosen_")}
    return {key: (set(words_of(at, key)), set(each["value"].split())) for key, each in rows.items()}


def test_engines_can_be_left_out_and_found_by_the_names_people_use():
    state, at = comparing(INT4)
    before = chosen_engines(at)
    act(at, compare_engines_find="tensor rt")
    found = set().union(*(options for options, _ in chosen_engines(at).values()))
    names = catalogue("en")
    assert names["conventions.tensorrt.name"] in found
    assert names["conventions.litert.name"] not in found
    # One that is left out leaves those alone that are not shown.
    act(at, compare_chosen_integer_inference=[], compare_engines_find="")
    after = chosen_engines(at)
    gone = {key: before[key][1] - after[key][1] for key in before if before[key] != after[key]}
    assert gone == {"compare_chosen_integer_inference": {"tensorrt", "modelopt"}}
    act(at, compare_engines_find="nothing")
    assert not chosen_engines(at)
    assert any(names["compare.no_engine_found"] == each.value for each in at.caption)
    kept = {"compare_chosen_integer_inference": ["litert"], "compare_chosen_microscaling": ["microxcaling"]}
    act(at, compare_engines_find="")
    act(at, **{key: kept.get(key, []) for key in before})
    left = compare(state.source.tensor(), state.scheme, ["course", "litert", "microxcaling"])
    assert framed(at) == expected(left.lit)
    assert len(rows(at)) == len(left.groups) == 2


def test_a_classroom_that_leaves_it_out_gets_nothing_of_it():
    _, at = comparing(INT4, k="no-compare")
    assert framed(at) is None
    assert rows(at) == []
    assert keys_of(at, "compare") == []
    assert "lab_comparison" not in at.session_state


def shares(at):
    """The map of the shares of cells that differ, the same in each panel."""
    maps = [decoded(trace["z"]) for trace in spec(at, "panels_chart")["data"] if "colorscale" in trace]
    assert len(maps) == 4
    assert all(np.array_equal(each, maps[0], equal_nan=True) for each in maps)
    return maps[0]


@pytest.mark.nightly
def test_too_many_places_to_frame_are_mapped_and_counted_instead():
    state = large(Normal(128, 128), "int3", "torchao")
    mask = apart(state, "course", "torchao").either.numpy()
    at = opened(state)
    assert framed(at) is None
    assert np.array_equal(np.isfinite(shares(at)), mask)
    assert f"{int(mask.sum()):,} cells differ" in told(at, "caption")
