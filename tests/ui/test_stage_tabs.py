"""The stage's tabs without the app: a sentence that is true, and an offer that brings what it says."""

import re

import pytest
import streamlit as st
import torch

import quantviz as qv
from quantviz.analysis.better_schemes import is_by_inputs
from quantviz.lab.page_state import History
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import LabState, opening
from quantviz.ui.components.tensor_cache import study_of
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.compare import compare_tab
from quantviz.ui.lab.range import range_tab
from tests.helpers.sample import sample_of

LOUD_COLUMNS = "loud_columns(rows=64,cols=64,every=16,factor=30.0)"
INT4 = "int4,symmetric,per_tensor,min_max,course"


def state_of(scheme=INT4, **params):
    state, problems = LabState.read({"s": scheme, **params})
    assert problems == ()
    return state


def sqnr(state, scheme=None):
    return qv.metrics(qv.quantize(state.source.tensor(), scheme or state.scheme))["sqnr_db"]


def words_of(said, *kinds):
    """What is said, without the marks of Markdown."""
    words = " ".join(words for kind, words in said if kind in (kinds or ("markdown", "caption")))
    return words.replace("\\", "").replace("\u2060", "").replace("\u00a0", " ")


def gains(words):
    """The gains in dB that sentences tell, but for what no kernel runs."""
    return [float(each) for each in re.findall(r"\+([\d.]+) dB(?!, but no kernel)", words)]


@pytest.fixture
def tables(monkeypatch):
    """The tables on the page by their keys: what each column has."""
    found = {}

    def note(key, columns, *_, **__):
        found[key] = {each.id: list(each.values) for each in columns}

    for module in (blame_tab, compare_tab, range_tab):
        monkeypatch.setattr(module, "show_table", note)
    return found


@pytest.fixture
def shown(session, said, pressed, tables):
    """`shown(tab, state)` shows a tab of the stage; the schemes that its buttons lead to, by their keys."""

    def show(tab, state):
        said.clear()
        pressed.clear()
        session["lab_state"] = History(state)
        study, why = study_of(state), qv.explain(qv.quantize(state.source.tensor(), state.scheme), state.cell)
        place = st.container()
        if tab == "range":
            range_tab.show_range(state, place, place, None)
            range_tab.show_calibrations(study, why, state)
        elif tab == "blame":
            blame_tab.show_blame(study, state, place, place, place)
        else:
            compare_tab.show_compare(study, state, None, place, place, place)
        offered = {}
        for key in pressed.keys() & {"range_use", "blame_use", "recipe_use", "range_codebook"}:
            pressed[key][1]()
            offered[key] = session["lab_state"].now.scheme
            session["lab_state"] = History(state)
        return offered

    return show


@pytest.mark.parametrize("scenario", sample_of(SCENARIOS, 2))
def test_the_range_s_button_brings_what_its_sentence_says(shown, said, pressed, scenario):
    state = opening(scenario)
    offered = shown("range", state)
    found = gains(words_of(said, "markdown"))
    assert ("range_use" in offered) == bool(found)
    if found:
        # The range is told first, finer scales last.
        gain = found[0] if pressed["range_use"][0] == "Use this range" else found[-1]
        # Sentences have two digits: from 10 dB on that is whole ones.
        near = 0.05 + 0.01 * gain if gain < 10 else 0.51
        assert sqnr(state, offered["range_use"]) - sqnr(state) == pytest.approx(gain, abs=near)


def test_finer_scales_that_bring_less_than_their_bits_are_not_offered(shown, said, pressed):
    """On this weight blocks of 4 × 4 bring 0.2 dB more than another range, for a whole bit a weight."""
    state = state_of("int4,symmetric,per_channel(axis=1),min_max,course", t="builtin(name=real_weight)")
    offered = shown("range", state)
    assert pressed["range_use"][0] == "Use this range"
    assert len(gains(words_of(said, "markdown"))) == 1
    # A codebook fitted to the weight in units of each column's scale.
    assert offered["range_codebook"] == qv.fit_codebook(state.source.tensor(), state.scheme)


def test_the_opening_says_that_a_scale_for_each_column_brings_most_and_offers_what_a_kernel_runs(
    shown, said, pressed
):
    shown("range", opening())
    # Kernels add up what columns give before they scale: such scales are told, and others offered.
    assert pressed["range_use"][0].replace("\\", "") == "One scale for each row"
    # The page shows the Python that gives what it says.
    line = next(words for _, words in said if "per_channel(axis=1)" in words)
    gained = eval(line.strip("`"), {"qv": qv, "x": opening().source.tensor()})
    told = f"One scale for each column would bring +{gained:.1f} dB, but no kernel of weights runs it."
    assert told in words_of(said)


def test_what_is_to_blame_is_named_and_helped_by_one_press(shown, said, tables):
    assert shown("blame", opening()) == {}
    words = words_of(said)
    assert "What costs the others most: column 5. Without these values, the others would rise from" in words
    # One scale for each column, which no kernel takes, is marked in the table and not in the sentence; the
    # layer before can scale columns.
    assert "scale for each column" not in words_of(said, "markdown")
    gain = float(re.search(r"folded into the layer before: \+([\d.]+) dB", words)[1])
    found = tables["blame_remedies"]
    runs = dict(zip(found["remedy"], found["runs"], strict=True))
    assert runs["one scale for each column"] == "none"
    remedies = qv.blame(opening().source.tensor(), "int4_per_tensor").remedies
    (fold,) = (each for each in remedies if each.id == "fold")
    assert gain == pytest.approx(fold.whole_after_db - fold.whole_before_db, abs=0.06)
    assert gain > 5
    # A scheme that helps is offered, with what it brings.
    state = state_of(t=LOUD_COLUMNS)
    offered = shown("blame", state)
    gain = float(re.search(r": \+([\d.]+) dB for the whole tensor", words_of(said))[1])
    assert offered["blame_use"].granularity == qv.PerGroup(64)
    assert sqnr(state, offered["blame_use"]) - sqnr(state) == pytest.approx(gain, abs=0.1)
    # Of four equally loud columns none costs much by itself, and all together cost most of the error.
    table = tables["blame_suspects"]
    choice = qv.blame(state.source.tensor(), "int4_per_tensor", qv.PerChannel(1)).choice
    assert (choice.k, table["part"][0]) == (4, "all 4 together")
    assert table["caused"][0] == pytest.approx(100 * choice.caused_share, abs=0.051)
    assert table["caused"][0] > 50 > max(table["caused"][1:5])


def test_the_schemes_blocks_are_ranked_by_what_their_loudest_cell_costs(shown, tables, session):
    session["blame_parts"] = "blocks"
    state = state_of("int4,symmetric,per_group(size=4),min_max,course")
    shown("blame", state)
    costs = qv.block_costs(state.source.tensor(), state.scheme).rows
    expected = [pytest.approx(100 * row.caused_share, abs=0.051) for row in costs]
    assert tables["blame_blocks"]["caused"] == expected


def test_it_is_told_which_blocks_curve_and_table_are_of(shown, said, session):
    state = state_of("int4,symmetric,per_channel,min_max,course", c="2.3")
    words = "The curve clips every block to the same range."
    # At first of the block whose values the ruler shows.
    for chosen in (None, "tensor", "block"):
        session["calibrations_of"] = chosen or "block"
        shown("range", state)
        assert [each.endswith("are of row 2.") for _, each in said if words in each] == [True] * (
            chosen == "tensor"
        )
    best = qv.compare_calibrations(state.source.tensor(), state.scheme).best
    ends = f"({100 * best.clipped_share:.3g} % clipped, median range {100 * best.width_share:.3g} %"
    assert ends in words_of(said, "markdown")


def test_a_phone_names_calibrations_shortly(shown, tables, monkeypatch):
    names = []
    for width in (1366.0, 366.0):
        monkeypatch.setattr(range_tab, "bridge_width", lambda _, width=width: width)
        shown("range", opening())
        names.append(tables["calibrations_table"]["name"])
    wide, narrow = names
    assert wide[0] == "Least squared error (least error)"
    assert narrow[0] == "Least squared error"
    # Its settings are the usual ones.
    assert "MSE of llm-compressor" in wide
    # Percentiles differ in nothing else.
    assert {"MSE of llm-compressor", "Percentile 99.5", "Min to max (now)"} <= set(narrow)
    assert len(set(narrow)) == len(wide)


@pytest.mark.parametrize(("tab", "column"), [("range", "mse"), ("blame", "caused_share")])
def test_the_line_of_python_that_a_tab_shows_gives_its_table(shown, said, tab, column):
    shown(tab, opening())
    x = opening().source.tensor()
    line = next(words for kind, words in said if kind == "caption" and words.startswith("`qv."))
    assert len(eval(line.strip("`"), {"qv": qv, "x": x})[column])
    if tab == "blame":
        beyond = next(words for _, words in said if ".keep(x)" in words)
        kept = eval(beyond.split("`")[1], {"qv": qv, "x": x})
        error = qv.quantize(x, opening().scheme).error
        assert torch.equal(kept[:, 5], x[:, 5].half().float())
        assert float((kept - x)[:, :5].abs().max()) < float(error[:, :5].abs().max()) / 5


def test_a_recipe_of_as_few_bits_is_offered_and_one_that_no_kernel_takes_is_marked(shown, said, tables):
    """One scale for each column brings most on loud columns."""
    for state in (opening(), state_of(t=LOUD_COLUMNS)):
        recipe = shown("compare", state)["recipe_use"]
        gain = gains(words_of(said, "markdown"))[0]
        assert sqnr(state, recipe) - sqnr(state) == pytest.approx(gain, abs=0.06)
        assert recipe.number_format.bits <= 4
        assert not is_by_inputs(recipe, state.source.shape)
    table = tables["recipe_table"]
    of_four = [
        each for each in zip(*map(table.get, ("sqnr_db", "bits", "name")), strict=True) if each[1] < 4.3
    ]
    assert max(of_four)[2].endswith("per column (no kernel)")
