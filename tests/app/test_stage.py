"""The stage's tabs: each opens with a sentence that is true and a button that does what it says."""

import html
import re

import pytest
import torch

import quantviz as qv
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import opening
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.compare import compare_tab
from quantviz.ui.lab.range import range_tab
from tests.helpers.controls import controls, value_of, words_of
from tests.helpers.sample import sample_of
from tests.helpers.session import (
    act,
    address,
    bodies,
    numbers,
    opened,
    packed,
    result,
    table,
    told,
    turned,
)


def tabs(at):
    return [words_of(at, field) for field in controls(at) if field == "stage_tab"]


def sqnr(at):
    return qv.metrics(result(at))["sqnr_db"]


def gains(at):
    """The gains in dB that the page's sentences tell, but for what no kernel runs."""
    found = re.findall(r"\+([\d.]+) dB(?!, but no kernel)", told(at, "markdown"))
    return [float(each) for each in found]


def in_tab(name, **params):
    """The Lab with a tab of the stage open."""
    return turned(opened(**{"lang": "en", **params}), name)


LOUD_COLUMNS = {
    "t": "loud_columns(rows=64,cols=64,every=16,factor=30.0)",
    "s": "int4,symmetric,per_tensor,min_max,course",
}


def test_only_the_open_tab_is_computed(monkeypatch):
    made = []
    parts = {"range": (range_tab, "_compared"), "blame": (blame_tab, "_found")}
    parts["compare"] = (compare_tab, "recipe_rows_of")
    for tab, (module, name) in parts.items():
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real, tab=tab: made.append(tab) or real(*given))
    at = opened()
    assert made == []
    for tab in parts:
        made.clear()
        turned(at, tab)
        assert set(made) == {tab}


@pytest.mark.parametrize("scenario", sample_of(SCENARIOS, 2))
def test_the_range_s_button_brings_what_its_sentence_says(scenario):
    at = in_tab("range", **opening(scenario).written())
    buttons = [button for button in at.button if button.key == "range_use"]
    said = gains(at)
    assert bool(buttons) == bool(said)
    if buttons:
        before, of_range = sqnr(at), buttons[0].label == "Use this range"
        act(at, "range_use")
        # The range is told first, finer scales last.
        gain = said[0] if of_range else said[-1]
        # Sentences have two digits: from 10 dB on that is whole ones.
        assert sqnr(at) - before == pytest.approx(gain, abs=0.05 + 0.01 * gain if gain < 10 else 0.51)


def test_finer_scales_that_bring_less_than_their_bits_are_not_offered():
    """On this weight blocks of 4 × 4 bring 0.2 dB more than another range, for a whole bit a weight."""
    scheme = "int4,symmetric,per_channel(axis=1),min_max,course"
    at = in_tab("range", t="builtin(name=real_weight)", s=scheme)
    assert at.button(key="range_use").label == "Use this range"
    assert len(gains(at)) == 1
    # A codebook fitted to the weight in units of each column's scale, and from there to another format.
    before = result(at)
    act(at, "range_codebook")
    assert result(at).scheme == qv.fit_codebook(before.x, before.scheme)
    act(at, format="nf4")
    assert str(result(at).scheme) == "nf4,symmetric,per_channel(axis=1),min_max,course"


def test_the_opening_says_that_a_scale_for_each_column_brings_most_and_offers_what_a_kernel_runs():
    at = in_tab("range")
    # Kernels add up what columns give before they scale: such scales are told, and others offered.
    assert at.button(key="range_use").label.replace("\\", "") == "One scale for each row"
    # The page shows the Python that gives what it says.
    line = next(each.value for each in at.caption if "per_channel(axis=1)" in each.value)
    gained = eval(line.strip("`"), {"qv": qv, "x": result(at).x})
    said = f"One scale for each column would bring +{gained:.1f} dB, but no kernel of weights runs it."
    assert said in told(at, "markdown")


def test_what_is_to_blame_is_named_and_helped_by_one_press():
    at = in_tab("blame")
    said = told(at, "markdown")
    assert "What costs the others most: column 5. Without these values, the others would rise from" in said
    # One scale for each column, which no kernel takes, is marked in the table and not in the sentence; the
    # layer before can scale columns.
    assert "scale for each column" not in said
    gain = float(re.search(r"folded into the layer before: \+([\d.]+) dB", said)[1])
    runs = table(at, "remedy").set_index("remedy")["runs"]
    assert runs["one scale for each column"] == "none"
    (fold,) = (each for each in qv.blame(result(at).x, "int4_per_tensor").remedies if each.id == "fold")
    assert gain == pytest.approx(fold.whole_after_db - fold.whole_before_db, abs=0.06)
    assert gain > 5
    # A scheme that helps is offered, with what it brings.
    at = in_tab("blame", **LOUD_COLUMNS)
    gain = float(re.search(r": \+([\d.]+) dB for the whole tensor", told(at, "markdown"))[1])
    before = sqnr(at)
    act(at, "blame_use")
    assert result(at).scheme.granularity == qv.PerGroup(64)
    assert sqnr(at) - before == pytest.approx(gain, abs=0.1)


def test_it_is_told_which_blocks_curve_and_table_are_of():
    at = in_tab("range", s="int4,symmetric,per_channel,min_max,course", c="2,3")
    words = "The curve clips every block to the same range."
    # At first of the block whose values the ruler shows.
    assert words not in told(at, "caption")
    act(at, calibrations_of="tensor")
    (said,) = (each.value for each in at.caption if words in each.value)
    assert said.endswith("are of row 2.")
    best = qv.compare_calibrations(result(at).x, result(at).scheme).best
    ends = f"({100 * best.clipped_share:.3g} % clipped, median range {100 * best.width_share:.3g} %"
    assert ends in told(at, "markdown")
    assert words not in told(act(at, calibrations_of="block"), "caption")


def test_a_phone_names_calibrations_shortly(monkeypatch):
    wide = list(table(in_tab("range"), "gain")["name"])
    monkeypatch.setattr(range_tab, "bridge_width", lambda _: 366.0)
    narrow = list(table(in_tab("range"), "gain")["name"])
    assert wide[0] == "Least squared error (least error)"
    assert narrow[0] == "Least squared error"
    # Its settings are the usual ones.
    assert "MSE of llm-compressor" in wide
    # Percentiles differ in nothing else.
    assert {"MSE of llm-compressor", "Percentile 99.5", "Min to max (now)"} <= set(narrow)
    assert len(set(narrow)) == len(wide)


@pytest.mark.parametrize("tab", ["range", "blame"])
def test_the_line_of_python_that_a_tab_shows_gives_its_table(tab):
    at = in_tab(tab)
    line = next(each.value for each in at.caption if each.value.startswith("`qv."))
    x = result(at).x
    found = eval(line.strip("`"), {"qv": qv, "x": x})
    assert len(found["mse" if tab == "range" else "caused_share"])
    if tab == "blame":
        beyond = next(each.value for each in at.caption if ".keep(x)" in each.value)
        kept = eval(beyond.split("`")[1], {"qv": qv, "x": x})
        assert torch.equal(kept[:, 5], x[:, 5].half().float())
        assert float((kept - x)[:, :5].abs().max()) < float(result(at).error[:, :5].abs().max()) / 5


@pytest.mark.parametrize(
    ("rule", "found"),
    [("min_max,course", "ranges"), ("mse,course", "ranges"), ("given(scale=0.25),course", None)],
)
def test_the_ruler_of_a_large_tensor_has_the_range_of_the_cells_own_block(rule, found):
    """The browser has three of its values: the range that these would have is the whole tensor's. Of a float
    format more than 64 × 64 are large.
    """
    scheme = f"float4_e2m1fn,symmetric,{'per_tensor' if found is None else 'per_group(size=65)'},{rule}"
    at = opened(t="one_outlier(rows=80,cols=130,row=60,col=31)", s=scheme, c="40.7", lang="en")
    header, arrays = packed(at, "-hand")
    assert header["far"]
    if found is None:
        assert header["found"] is None
        return
    assert header["found"] == {"id": found, "names": ["lo", "hi"]}
    ends = tuple(arrays[f"found_{name}"].item() for name in header["found"]["names"])
    block = qv.explain(result(at), (40, 7))
    assert ends == block.range


def test_what_loud_parts_cost_together_stands_above_what_each_costs():
    """Of four equally loud columns none costs much by itself, and all together cost most of the error."""
    at = in_tab("blame", **LOUD_COLUMNS)
    shown = table(at, "absmax")
    found = qv.blame(result(at).x, "int4_per_tensor", qv.PerChannel(1))
    assert found.choice.k == 4
    assert shown["part"][0] == "all 4 together"
    assert shown["caused"][0] == pytest.approx(100 * found.choice.caused_share, abs=0.051)
    assert shown["caused"][0] > 50 > max(shown["caused"][1:5])


def test_the_schemes_blocks_are_ranked_by_what_their_loudest_cell_costs():
    at = act(in_tab("blame", s="int4,symmetric,per_group(size=4),min_max,course"), blame_parts="blocks")
    expected = qv.block_costs(result(at).x, result(at).scheme).rows
    costs = list(table(at, "loudest")["caused"])
    assert costs == [pytest.approx(100 * row.caused_share, abs=0.051) for row in expected]


def test_a_recipe_of_as_few_bits_is_offered_and_loaded():
    at = in_tab("compare")
    before, gain = sqnr(at), gains(at)[0]
    act(at, "recipe_use")
    assert sqnr(at) - before == pytest.approx(gain, abs=0.06)
    assert qv.Scheme.parse(address(at)["s"]).number_format.bits <= 4


def test_a_recipe_of_one_scale_for_each_column_is_marked_and_not_offered():
    """It brings most on loud columns, and no kernel of four bits takes it."""
    at = in_tab("compare", **LOUD_COLUMNS)
    shown = table(at, "name")
    of_four = shown[shown["bits"] < 4.3]
    best = of_four.loc[of_four["sqnr_db"].idxmax(), "name"]
    assert best.endswith("per column (no kernel)")
    assert "per_channel(axis=1)" not in address(act(at, "recipe_use"))["s"]


def test_the_tab_stays_open_while_the_scheme_changes_and_is_not_in_the_link():
    at = in_tab("range")
    before = address(at)
    act(at, bits=8)
    assert value_of(at, "stage_tab") == "range"
    assert address(at).keys() == before.keys()


def test_a_link_that_compares_engines_opens_the_comparison():
    at = opened(m="all")
    assert value_of(at, "stage_tab") == "compare"
    assert at.button(key="compare_open")
    # Who turns away from it is not brought back by each run.
    act(at, stage_tab="cell", bits=8)
    assert value_of(at, "stage_tab") == "cell"
    assert address(at)["m"] == "all"


@pytest.mark.parametrize(("tab", "key"), [("range", "range_use"), ("compare", "recipe_use")])
def test_a_locked_scheme_is_not_changed_by_an_answer(tab, key):
    assert in_tab(tab, k="lock-scheme").button(key=key).disabled


def test_a_projector_shows_the_cell_and_no_tabs():
    at = opened(k="projector", m="all")
    assert tabs(at) == []
    assert bodies(at, "qv-sentence")
    assert bodies(at, "qv-compare")


# ---- the numbers, the sections and the phone's bar ----------------------------------------------


def test_a_number_s_change_is_green_where_it_is_better():
    at = opened(b="int8,symmetric,per_tensor,min_max,course", lang="en")
    assert [number.key for number in numbers(at)] == ["mse", "sqnr", "zeroed", "clipped", "bits"]
    assert all(len(number.meaning) > 20 and number.line for number in numbers(at))
    body = bodies(at, "qv-numbers")[0]
    changes = re.findall(r'<em class="([\w-]*)"', html.unescape(body))
    assert changes == ["qv-worse", "qv-worse", "qv-worse", "", "qv-better"]
    assert body.count('tabindex="0"') == 5
