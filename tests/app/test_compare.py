"""Comparing engines in the Lab: the cells that are lit, the table, the reasons, and who may see them."""

import json
import re

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.engine_comparison import compare, difference
from quantviz.figures.panel_painter import outline
from quantviz.lab.classroom import Classroom
from quantviz.lab.state import ALL, LabState, opening
from quantviz.schemes.conventions import CONVENTION_GROUPS
from quantviz.sources import Normal
from quantviz.text import catalogue
from quantviz.ui.lab.compare.engine_comparison import example_state
from tests.helpers import session
from tests.helpers.controls import controls
from tests.helpers.panels import decoded
from tests.helpers.session import healthy, turned

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


def opened(state=None, **params):
    """The app as a new session sees it at this address."""
    return session.opened(**{**(state.written() if state else {}), **params})


#: Below the engines all recipes are tried, which takes longer.
WITHOUT_RECIPES = str(Classroom(hidden=frozenset({"recipes"})))


def comparing(scheme, compared=ALL, k=WITHOUT_RECIPES, **params):
    state = opening().replace(scheme=qv.Scheme.parse(scheme), compared=compared)
    return state, opened(state, k=k, **params)


def frames(at):
    """The path of the frame around the lit cells, or none."""
    spec = json.loads(
        next(element for element in at.get("plotly_chart") if "panels_chart" in element.proto.id).proto.spec
    )
    drawn = {
        shape["path"]
        for shape in spec["layout"]["shapes"]
        if shape["type"] == "path" and shape["line"]["width"] == 4
    }
    assert len(drawn) < 2
    return next(iter(drawn), None)


def expected(mask):
    return outline(mask.numpy()) or None


def address(at):
    return {name: value[0] if isinstance(value, list) else value for name, value in at.query_params.items()}


def html(at, name):
    return "".join(
        element.proto.body for element in at.get("html") if f'class="qv-steps {name}"' in element.proto.body
    )


def rows(at):
    """The table's cells as text, a row a group of engines."""
    body = html(at, "qv-compare").partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row)]
        for row in body.split("</tr>")[:-1]
    ]


@pytest.mark.parametrize(("scheme", "language"), list(zip(SCHEMES, ["en", "zh"] * 3, strict=True)))
def test_the_lit_cells_and_the_counts_are_the_cores(scheme, language):
    state, at = comparing(scheme, lang=language)
    x = state.source.tensor()
    found = compare(x, state.scheme)
    assert len(found.groups) > 1
    assert frames(at) == expected(found.lit)
    own = found.results[str(state.scheme.arithmetic)]
    others = [group for group in found.groups if str(state.scheme.arithmetic) not in group]
    assert len(rows(at)) == len(others) + 1
    told = {row[0].split(" · ")[0]: row for row in rows(at)}
    for group in others:
        apart = difference(own, found.results[group[0]])
        row = told[catalogue(language)[f"conventions.{group[0]}.name"]]
        assert row[1:3] == [str(int(apart.codes.sum())), str(int(apart.values.sum()))]
        assert row[-1] not in ("", "–")
    named = "".join(html(at, "qv-compare").split())
    assert all(
        "".join(catalogue(language)[f"conventions.{name}.name"].split()) in named for name in found.results
    )
    # No key, field or value is shown by its name in the code.
    assert "convention_fields" not in str(at.markdown) + named


def test_one_engine_lights_its_own_cells_and_the_link_keeps_it():
    state, at = comparing(SCHEMES[0])
    results = compare(state.source.tensor(), state.scheme).results
    at.selectbox(key="compare_with").set_value("microxcaling").run()
    apart = difference(results["course"], results["microxcaling"])
    assert frames(healthy(at)) == expected(apart.either)
    assert address(at)["m"] == "microxcaling"
    places = [
        tuple(map(int, re.search(r"\d, \d", button.label)[0].split(", ")))
        for button in at.button
        if "compare_cell_" in str(button.key)
    ]
    # Cells of another code come before those of another value only.
    assert places == [tuple(place) for place in torch.nonzero(apart.codes)[:6].tolist()]
    at.segmented_control(key="compare_light").set_value("code").run()
    assert frames(healthy(at)) == expected(apart.codes)
    assert torch.any(apart.either != apart.codes)
    again = opened(**address(at))
    assert again.selectbox(key="compare_with").value == "microxcaling"


def test_the_button_opens_and_closes_and_closed_there_is_nothing():
    at = turned(opened(), "compare")
    assert frames(at) is None
    assert "m" not in address(at)
    assert "lab_comparison" not in at.session_state
    at.button(key="compare_open").click().run()
    assert frames(healthy(at)) is not None
    assert address(at)["m"] == ALL
    at.button(key="compare_open").click().run()
    assert frames(healthy(at)) is None
    assert rows(at) == []
    assert "m" not in address(at)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_listed_cell_is_selected_and_says_its_rule_and_its_tie(language):
    at = opened(example_state(), lang=language)
    words = catalogue(language)
    lines = [button.label for button in at.button if button.key and button.key.startswith("compare_cell_")]
    assert len(lines) == 6
    assert all(
        words["convention_fields.order.name"] in line and words["compare.tie"] in line for line in lines
    )
    cell = tuple(map(int, re.search(r"\d, \d", lines[2])[0].split(", ")))
    if language == "en":  # AppTest itself writes what select boxes show, always in English
        at.button(key="compare_cell_2").click().run()
        assert address(healthy(at))["c"] == ".".join(map(str, cell))
    else:
        at = opened(example_state().replace(cell=cell), lang=language)
    found = compare(example_state().source.tensor(), example_state().scheme)
    other = next(
        group[0]
        for group in found.groups[1:]
        if found.results[group[0]].q[cell] != found.results["course"].q[cell]
    )
    detail = html(at, "qv-compare-why")
    for name in ("course", other):
        assert words[f"conventions.{name}.name"] in detail
        assert f"{qv.explain(found.results[name], cell).before_rounding:g}".replace("-", "−") in detail
    assert words["convention_fields.order.values.divide_add_round"] in detail
    assert words["convention_fields.ties.values.even"] in detail
    assert "{" not in detail


def compare_pills(at, purpose):
    """The choice of engines for one purpose, as a list of one, or of none where no such engine offers it."""
    return [each for each in at.pills if each.key == f"compare_chosen_{purpose}"]


@pytest.mark.nightly
def test_engines_can_be_left_out():
    state, at = comparing(SCHEMES[0])
    kept = {"course": [], "integer_inference": ["litert"], "microscaling": ["microxcaling"]}
    shown = {name: CONVENTION_GROUPS[name] for name in CONVENTION_GROUPS if compare_pills(at, name)}
    for purpose in shown:
        assert set(compare_pills(at, purpose)[0].value) <= set(shown[purpose])
        compare_pills(at, purpose)[0].set_value(kept.get(purpose, [])).run()
    kept = [name for names in kept.values() for name in names]
    found = compare(state.source.tensor(), state.scheme, ["course", *kept])
    assert frames(healthy(at)) == expected(found.lit)
    assert len(rows(at)) == len(found.groups) == 2


def test_engines_are_found_by_the_names_people_use():
    _, at = comparing(SCHEMES[0])
    before = {each.key: set(each.value) for each in at.pills if each.key.startswith("compare_chosen_")}
    at.text_input(key="compare_engines_find").set_value("tensor rt").run()
    found = {name for each in at.pills if each.key.startswith("compare_chosen_") for name in each.options}
    names = catalogue("en")
    assert names["conventions.tensorrt.name"] in found
    assert names["conventions.litert.name"] not in found
    # One that is left out leaves those alone that are not shown.
    compare_pills(at, "integer_inference")[0].set_value([]).run()
    at.text_input(key="compare_engines_find").set_value("").run()
    after = {each.key: set(each.value) for each in healthy(at).pills if each.key in before}
    gone = {key: before[key] - after[key] for key in before if before[key] != after[key]}
    assert gone == {"compare_chosen_integer_inference": {"tensorrt", "modelopt"}}
    at.text_input(key="compare_engines_find").set_value("nothing").run()
    assert not [each for each in at.pills if each.key.startswith("compare_chosen_")]
    assert any(names["compare.no_engine_found"] == each.value for each in healthy(at).caption)


def test_where_nothing_differs_it_says_why_and_offers_numbers_that_do():
    state = opening().with_source(Normal(16, 16)).replace(scheme=example_state().scheme, compared=ALL)
    assert not bool(compare(state.source.tensor(), state.scheme).lit.any())
    at = opened(state)
    assert frames(at) is None
    assert any("half\\-way" in block.value for block in at.markdown)
    at.button(key="compare_load").click().run()
    after, problems = LabState.read(address(healthy(at)))
    assert (after.source, after.scheme, problems) == (example_state().source, example_state().scheme, ())
    assert frames(at) == expected(compare(after.source.tensor(), after.scheme).lit)


def test_where_no_other_engine_offers_the_scheme_it_says_so():
    _, at = comparing("nf4,symmetric,per_tensor,min_max,course")
    assert any(catalogue("en")["compare.alone"].split(".")[0] in block.value for block in at.markdown)
    assert frames(at) is None


def test_a_classroom_that_leaves_it_out_gets_nothing_of_it():
    _, at = comparing(SCHEMES[0], k=str(Classroom(hidden=frozenset({"compare"}))))
    assert frames(at) is None
    assert rows(at) == []
    assert not [button for button in at.button if button.key and button.key.startswith("compare")]
    assert "lab_comparison" not in at.session_state


def test_hidden_parts_are_not_told_here_either():
    _, at = comparing(SCHEMES[0], k=str(Classroom(hidden=frozenset({"tiles.mse", "q"}))))
    assert len(rows(at)[0]) == 6  # without the column of the hidden tile
    lines = [button.label for button in at.button if button.key and button.key.startswith("compare_cell_")]
    assert lines
    assert not any("→" in line or "q " in line for line in lines)
    assert all("x̂ " in line for line in lines)
    _, at = comparing(SCHEMES[0], k=str(Classroom(hidden=frozenset({"x_hat", "q"}))))
    lines = [button.label for button in at.button if button.key and button.key.startswith("compare_cell_")]
    assert lines
    assert not any("x̂" in line or "q " in line for line in lines)
    assert html(at, "qv-compare-why") == ""


def maps(at):
    """The maps of the cells that differ, one a panel."""
    spec = json.loads(
        next(element for element in at.get("plotly_chart") if "panels_chart" in element.proto.id).proto.spec
    )
    return [decoded(trace["z"]) for trace in spec["data"] if "colorscale" in trace]


@pytest.mark.nightly
def test_where_a_pixel_stands_for_many_cells_the_map_tells_how_many_differ():
    state = (
        opening()
        .with_source(Normal(300, 50))
        .replace(scheme=qv.Scheme("int3", convention="course"), compared="torchao")
    )
    one, other = (
        qv.quantize(state.source.tensor(), state.scheme.replace(convention=name))
        for name in ("course", "torchao")
    )
    mask = difference(one, other).either.numpy()
    at = opened(state)
    drawn = maps(healthy(at))
    assert len(drawn) == 4
    rows, cols = drawn[0].shape
    down, across = -(-300 // rows), -(-50 // cols)
    assert down * across > 1
    for i, j in ((0, 0), (3, 7), (rows - 1, cols - 1)):
        cells = mask[i * down : (i + 1) * down, j * across : (j + 1) * across]
        share = drawn[0][i, j]
        assert (0 if np.isnan(share) else share) == pytest.approx(cells.mean())


@pytest.mark.nightly
def test_too_many_places_to_frame_are_mapped_and_counted_instead():
    state = (
        opening()
        .with_source(Normal(128, 128))
        .replace(scheme=qv.Scheme("int3", convention="course"), compared="torchao")
    )
    apart = difference(
        *(
            qv.quantize(state.source.tensor(), state.scheme.replace(convention=name))
            for name in ("course", "torchao")
        )
    )
    mask = apart.either.numpy()
    sides = np.count_nonzero(mask[1:] != mask[:-1]) + np.count_nonzero(mask[:, 1:] != mask[:, :-1])
    at = opened(state)
    assert sides > 8000
    assert frames(at) is None
    drawn = maps(at)
    assert len(drawn) == 4
    for share in drawn:
        assert np.array_equal(np.isfinite(share), mask)
    assert any(f"{int(mask.sum()):,} cells differ" in caption.value for caption in at.caption)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("other", "light", "ways"),
    [
        # Only what was not done yet, and what leaves few enough to frame: there code or value light up whole
        # areas.
        (ALL, "code", ["one", "either"]),
        ("microxcaling", "code", ["either"]),
    ],
)
def test_the_advice_on_too_many_cells_is_what_helps_and_was_not_followed(other, light, ways):
    state = (
        opening()
        .with_source(Normal(128, 128))
        .replace(scheme=qv.Scheme("int8", convention="course"), compared=other)
    )
    at = opened(state)
    at.segmented_control(key="compare_light").set_value(light).run()
    assert frames(healthy(at)) is None
    words = catalogue("en")
    said = next(caption.value for caption in at.caption if "cells differ" in caption.value).replace("\\", "")
    assert [
        way for way in ("zoom", "one", "code", "either") if words[f"compare.frame_by_{way}"] in said
    ] == ways


@pytest.mark.nightly
def test_pixels_of_many_cells_say_why_none_is_framed():
    at = opened(opening().with_source(Normal(200, 80)).replace(compared=ALL))
    assert frames(at) is None
    assert any("128 cells per side or fewer" in caption.value for caption in at.caption)


def test_a_listed_cell_tells_first_what_differs():
    """A code where the codes differ, else the values with as many digits as tell them apart."""
    state, at = comparing("int8,asymmetric,per_channel(axis=0),min_max,onnxruntime")
    found = compare(state.source.tensor(), state.scheme)
    assert int(found.codes_differ.sum()) == 0 < int(found.lit.sum())
    lines = [button.label for button in at.button if button.key and button.key.startswith("compare_cell_")]
    assert lines
    for line in lines:
        mine, theirs = re.search(r"· x̂ (\S+) \| (?:.* )?(\S+) · x = ", line.replace("\\", "")).groups()
        assert mine != theirs
    _, at = comparing(SCHEMES[0])
    first = next(button.label for button in at.button if button.key == "compare_cell_0").replace("\\", "")
    assert first.startswith("(0, 0) · q 1 | microxcaling 0 · x = 1.79 · ")


def test_choosing_a_listed_cell_is_no_step_to_undo():
    at = opened(opening().replace(compared=ALL))
    at.button(key="compare_cell_3").click().run()
    assert controls(healthy(at))["undo"]["disabled"]
