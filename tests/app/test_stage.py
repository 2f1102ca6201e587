"""The stage's tabs: each opens with a sentence that is true and a button that does what it says."""

import html
import json
import re
import struct
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.lab.classroom import Classroom
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import LabState, opening
from quantviz.sources import Builtin
from quantviz.tensors.views import View
from quantviz.text import text
from quantviz.ui.components import refusals
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.compare import compare_tab
from quantviz.ui.lab.range import range_tab
from quantviz.ui.shell import words
from tests.helpers.controls import choose, controls
from tests.helpers.sample import sample_of
from tests.helpers.session import address, healthy, numbers, opened, result, turned


def tabs(at):
    return [control.options for control in at.segmented_control if control.key == "stage_tab"]


def sqnr(at):
    return qv.metrics(result(at))["sqnr_db"]


def told(at):
    """The gains in dB that the page's sentences tell, but for what no kernel runs."""
    words = " ".join(each.value for each in at.markdown).replace("\\", "").replace("\u2060", "")
    return [float(found) for found in re.findall(r"\+([\d.]+) dB(?!, but no kernel)", words)]


def test_the_tabs_are_cell_range_blame_compare():
    assert tabs(opened(lang="en")) == [["Cell", "Range", "Blame", "Compare"]]
    assert tabs(opened(lang="zh")) == [["单元格", "范围", "误差归因", "对比"]]


def test_only_the_open_tab_is_computed(monkeypatch):
    made = []
    for module, name in ((range_tab, "_compared"), (blame_tab, "_found"), (compare_tab, "recipe_rows_of")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, real=real, name=name: made.append(name) or real(*args)
        )
    at = opened()
    assert made == []
    for tab, name in (("range", "_compared"), ("blame", "_found"), ("compare", "recipe_rows_of")):
        made.clear()
        turned(at, tab)
        assert set(made) == {name}


@pytest.mark.parametrize("scenario", sample_of(SCENARIOS, 4))
def test_the_range_s_button_brings_what_its_sentence_says(scenario):
    at = turned(opened(**{**opening(scenario).written(), "lang": "en"}), "range")
    buttons = [button for button in at.button if button.key == "range_use"]
    gains = told(at)
    assert bool(buttons) == bool(gains)
    if buttons:
        before, of_range = sqnr(at), buttons[0].label == "Use this range"
        healthy(buttons[0].click().run())
        # The range is told first, finer scales last.
        gain = gains[0] if of_range else gains[-1]
        # Sentences have two digits: from 10 dB on that is whole ones.
        assert sqnr(at) - before == pytest.approx(gain, abs=0.05 + 0.01 * gain if gain < 10 else 0.51)


def test_finer_scales_that_bring_less_than_their_bits_are_not_offered():
    """On this weight blocks of 4 × 4 bring 0.2 dB more than another range, for a whole bit a weight."""
    at = turned(
        opened(
            t="builtin(name=real_weight)", s="int4,symmetric,per_channel(axis=1),min_max,course", lang="en"
        ),
        "range",
    )
    assert at.button(key="range_use").label == "Use this range"
    assert len(told(at)) == 1
    # A codebook fitted to the weight in units of each column's scale, and from there to another format.
    before = result(at)
    healthy(at.button(key="range_codebook").click().run())
    assert result(at).scheme == qv.fit_codebook(before.x, before.scheme)
    healthy(choose(at, ("format", "nf4")))
    assert str(result(at).scheme) == "nf4,symmetric,per_channel(axis=1),min_max,course"


def test_the_opening_says_that_a_scale_for_each_column_brings_most_and_offers_what_a_kernel_runs():
    at = turned(opened(lang="en"), "range")
    # Kernels add up what columns give before they scale: such scales are told, and others offered.
    assert at.button(key="range_use").label.replace("\\", "") == "One scale for each row"
    # The page shows the Python that gives what it says.
    line = next(each.value for each in at.caption if "per_channel(axis=1)" in each.value)
    gained = eval(line.strip("`"), {"qv": qv, "x": result(at).x})
    said = " ".join(each.value for each in at.markdown).replace("\\", "").replace("\u2060", "")
    told = f"One scale for each column would bring +{gained:.1f} dB, but no kernel of weights runs it."
    assert told in said


def test_what_is_to_blame_is_named_and_helped_by_one_press():
    at = turned(opened(lang="en"), "blame")
    said = " ".join(each.value for each in at.markdown).replace("\\", "").replace("\u2060", "")
    assert (
        "What costs the others most: column 5. Without these values, the others would rise from 0.429 "
        "to 21.5 dB" in said
    )
    # One scale for each column, which no kernel takes, is marked in the table and not in the sentence; the
    # layer before can scale columns.
    assert "scale for each column" not in said
    gain = float(re.search(r"folded into the layer before: \+([\d.]+) dB", said)[1])
    table = next(each.value for each in at.dataframe if "remedy" in each.value)
    runs = dict(zip(table["remedy"], table["runs"], strict=True))
    assert runs["one scale for each column"] == "none"
    (fold,) = (each for each in qv.blame(result(at).x, "int4_per_tensor").remedies if each.id == "fold")
    assert gain == pytest.approx(fold.whole_after_db - fold.whole_before_db, abs=0.06)
    assert gain > 5
    # A scheme that helps is offered, with what it brings.
    link = "loud_columns(rows=64,cols=64,every=16,factor=30.0)"
    at = turned(opened(t=link, s="int4,symmetric,per_tensor,min_max,course", lang="en"), "blame")
    said = " ".join(each.value for each in at.markdown).replace("\\", "").replace("\u2060", "")
    gain = float(re.search(r": \+([\d.]+) dB for the whole tensor", said)[1])
    before = sqnr(at)
    healthy(at.button(key="blame_use").click().run())
    assert result(at).scheme.granularity == qv.PerGroup(64)
    assert sqnr(at) - before == pytest.approx(gain, abs=0.1)


def test_it_is_told_which_blocks_curve_and_table_are_of():
    at = turned(opened(s="int4,symmetric,per_channel,min_max,course", c="2,3", lang="en"), "range")
    words = "The curve clips every block to the same range."
    # At first of the block whose values the ruler shows.
    assert not any(words in each.value for each in at.caption)
    healthy(at.segmented_control(key="calibrations_of").set_value("tensor").run())
    told = [each.value for each in at.caption if words in each.value]
    assert [each.endswith("are of row 2.") for each in told] == [True]
    (best,) = (each.value.replace("\\", "") for each in at.markdown if "least squared error" in each.value)
    found = qv.compare_calibrations(result(at).x, result(at).scheme).best
    assert f"({100 * found.clipped_share:.3g} % clipped, median range {100 * found.width_share:.3g} %" in best
    healthy(at.segmented_control(key="calibrations_of").set_value("block").run())
    assert not any(words in each.value for each in at.caption)


def names_of_calibrations(at):
    return list(next(each.value for each in at.dataframe if "gain" in each.value)["name"])


def test_a_phone_names_calibrations_shortly(monkeypatch):
    wide = names_of_calibrations(turned(opened(lang="en"), "range"))
    monkeypatch.setattr(range_tab, "bridge_width", lambda _: 366.0)
    narrow = names_of_calibrations(turned(opened(lang="en"), "range"))
    assert wide[0] == "Least squared error (least error)"
    assert narrow[0] == "Least squared error"
    # Its settings are the usual ones.
    assert "MSE of llm-compressor" in wide
    assert "MSE of llm-compressor" in narrow
    assert "Percentile 99.5" in narrow, "percentiles differ in nothing else"
    assert "Min to max (now)" in narrow
    assert len(set(narrow)) == len(wide)


@pytest.mark.parametrize("tab", ["range", "blame"])
def test_the_line_of_python_that_a_tab_shows_gives_its_table(tab):
    at = turned(opened(), tab)
    line = next(each.value for each in at.caption if each.value.startswith("`qv."))
    x = result(at).x
    table = eval(line.strip("`"), {"qv": qv, "x": x})
    assert len(table["mse" if tab == "range" else "caused_share"])
    if tab == "blame":
        beyond = next(each.value for each in at.caption if ".keep(x)" in each.value)
        kept = eval(beyond.split("`")[1], {"qv": qv, "x": x})
        assert torch.equal(kept[:, 5], x[:, 5].half().float())
        assert float((kept - x)[:, :5].abs().max()) < float(result(at).error[:, :5].abs().max()) / 5


@pytest.mark.parametrize(
    ("rule", "found"),
    [("min_max,course", "ranges"), ("mse,course", "ranges"), ("given(scale=0.25,zero_point=0),course", None)],
)
def test_the_ruler_of_a_large_tensor_has_the_range_of_the_cells_own_block(rule, found):
    """The browser has three of its values: the range that these would have is the whole tensor's."""
    scheme = f"int4,symmetric,{'per_tensor' if found is None else 'per_group(size=65)'},{rule}"
    at = opened(t="one_outlier(rows=300,cols=260,row=200,col=31)", s=scheme, c="100.7", lang="en")
    packed = next(each for each in at.get("bidi_component") if each.proto.id.endswith("-hand")).proto.bytes
    (length,) = struct.unpack("<I", packed[:4])
    header = json.loads(packed[4 : 4 + length])
    assert header["far"]
    if found is None:
        assert "found" not in header
        return
    assert header["found"] == {"id": found, "names": ["lo", "hi"]}
    ends = []
    for name in header["found"]["names"]:
        kind, offset, count = header["arrays"][f"found_{name}"]
        ends += np.frombuffer(packed, kind, count, 4 + length + offset).tolist()
    block = qv.explain(result(at), (100, 7))
    assert tuple(ends) == block.range


def test_many_cells_are_named_by_what_they_cost_and_by_where_they_gather():
    state = LabState(Builtin("loud_column"), qv.Scheme("int4"), View.of((8, 8)), (0, 0))
    numbers = (3, 11, 12, 27, 35, 60)
    suspects = [SimpleNamespace(number=each) for each in (27, 35, 1)]
    blame = SimpleNamespace(parts=qv.Flat(1), suspects=suspects)
    assert blame_tab._costliest_first(blame, numbers) == [27, 35, 3, 11, 12, 60]
    assert blame_tab._gathered(blame, numbers, state) == "4 of these cells lie in column 3."
    assert blame_tab._gathered(blame, (0, 9, 18, 27, 36, 45, 54, 63), state) == ""
    assert blame_tab._gathered(blame, (3, 11), state) == ""


def test_what_loud_parts_cost_together_stands_above_what_each_costs():
    """Of four equally loud columns none costs much by itself, and all together cost most of the error."""
    link = "loud_columns(rows=64,cols=64,every=16,factor=30.0)"
    at = turned(opened(t=link, s="int4,symmetric,per_tensor,min_max,course", lang="en"), "blame")
    table = next(each.value for each in at.dataframe if "absmax" in each.value)
    found = qv.blame(result(at).x, "int4_per_tensor", qv.PerChannel(1))
    assert found.choice.k == 4
    assert table["part"][0] == "all 4 together"
    assert table["caused"][0] == pytest.approx(100 * found.choice.caused_share, abs=0.051)
    assert table["caused"][0] > 50 > max(table["caused"][1:5])


def test_the_costliest_is_named_where_none_is_worth_its_bits():
    """That keeping a column does not pay was told as if none were to blame."""
    state = LabState(Builtin("loud_column"), qv.Scheme("int4"), View.of((8, 8)), (0, 0))
    costliest = SimpleNamespace(number=6, caused_share=0.112)
    blame = SimpleNamespace(parts=qv.PerChannel(1), costliest=costliest, choice=None, remedies=())
    told = blame_tab._answer(blame, state)
    assert "The costliest is column 6: it alone causes 11 % of the error." in told
    blame.costliest = None
    assert "the error is spread over all of them" in blame_tab._answer(blame, state)


def test_the_schemes_blocks_are_ranked_by_what_their_loudest_cell_costs():
    at = turned(opened(s="int4,symmetric,per_group(size=4),min_max,course", lang="en"), "blame")
    healthy(at.segmented_control(key="blame_parts").set_value("blocks").run())
    table = next(each.value for each in at.dataframe if "loudest" in each.value)
    expected = qv.block_costs(result(at).x, result(at).scheme).rows
    assert list(table["caused"]) == [pytest.approx(100 * row.caused_share, abs=0.051) for row in expected]


@pytest.mark.parametrize(
    ("parts", "numbers", "view", "lit"),
    [
        (qv.PerChannel(1), (2, 4), View.of((3, 5)), {(0, 2), (1, 2), (2, 2), (0, 4), (1, 4), (2, 4)}),
        (qv.PerChannel(0), (1,), View(0, 1, (0, 0), 1, 3, 2, 2), {(0, 0), (0, 1)}),
        (qv.Flat(1), (4, 8), View(0, 1, (0, 0), 1, 2), {(0, 1)}),
        (qv.PerChannel(0), (1,), View(1, 2, (1, 0, 0)), {(0, 0), (0, 1)}),
        (qv.PerChannel(0), (1,), View(1, 2, (0, 0, 0)), set()),
        (qv.Flat(1), (3, 1), View(1, 2, (1, 0, 0)), {(0, 1)}),
        (qv.Flat(1), (3,), View.of((5,)), {(0, 3)}),
    ],
)
def test_the_cells_in_view_that_belong_to_parts(parts, numbers, view, lit):
    shape = (3, 5) if len(view.at) == 2 else (5,) if len(view.at) == 1 else (2, 1, 2)
    chosen = SimpleNamespace(parts=parts, choice=SimpleNamespace(numbers=numbers))
    seen = blame_tab.parts_in_view(chosen, shape, view)
    assert seen.shape == view.size(shape)
    assert set(zip(*map(list, np.nonzero(seen)), strict=True)) == lit


def test_a_recipe_of_as_few_bits_is_offered_and_loaded():
    at = turned(opened(lang="en"), "compare")
    before, gain = sqnr(at), told(at)[0]
    healthy(at.button(key="recipe_use").click().run())
    assert sqnr(at) - before == pytest.approx(gain, abs=0.06)
    assert qv.Scheme.parse(address(at)["s"]).number_format.bits <= 4


def test_a_recipe_of_one_scale_for_each_column_is_marked_and_not_offered():
    """It brings most on loud columns, and no kernel of four bits takes it."""
    columns = "loud_columns(rows=64,cols=64,every=16,factor=30.0)"
    at = turned(opened(t=columns, s="int4,symmetric,per_tensor,min_max,course", lang="en"), "compare")
    table = next(each.value for each in at.dataframe if "name" in each.value)
    of_four = table[table["bits"] < 4.3]
    best = of_four.loc[of_four["sqnr_db"].idxmax(), "name"]
    assert best.endswith("per column (no kernel)")
    healthy(at.button(key="recipe_use").click().run())
    assert "per_channel(axis=1)" not in address(at)["s"]


def test_the_tab_stays_open_while_the_scheme_changes_and_is_not_in_the_link():
    at = turned(opened(), "range")
    before = address(at)
    choose(at, ("bits", 8))
    assert at.segmented_control(key="stage_tab").value == "range"
    assert address(healthy(at)).keys() == before.keys()


def test_a_link_that_compares_engines_opens_the_comparison():
    at = opened(m="all")
    assert at.segmented_control(key="stage_tab").value == "compare"
    assert at.button(key="compare_open")
    # Who turns away from it is not brought back by each run.
    turned(at, "cell")
    choose(at, ("bits", 8))
    assert healthy(at).segmented_control(key="stage_tab").value == "cell"
    assert address(at)["m"] == "all"


@pytest.mark.parametrize(
    ("hidden", "left"),
    [
        ({"tiles.sqnr"}, [["Cell", "Compare"]]),
        ({"range"}, [["Cell", "Compare"]]),
        ({"error"}, [["Cell", "Range", "Compare"]]),
        ({"recipes", "compare", "actions"}, [["Cell", "Range"]]),
        ({"range", "recipes", "compare", "actions"}, []),
    ],
)
def test_a_tab_that_would_tell_what_is_hidden_is_not_offered(hidden, left):
    assert tabs(opened(k=str(Classroom(hidden=frozenset(hidden))), lang="en")) == left


@pytest.mark.parametrize(("locked", "key"), [("scheme", "range_use"), ("scheme", "recipe_use")])
def test_a_locked_scheme_is_not_changed_by_an_answer(locked, key):
    at = opened(k=str(Classroom(locked=frozenset({locked}))))
    assert turned(at, "range" if key == "range_use" else "compare").button(key=key).disabled


def test_a_projector_shows_the_cell_and_no_tabs():
    at = opened(k="projector", m="all")
    assert tabs(at) == []
    bodies = [element.proto.body for element in at.get("html")]
    assert any("qv-sentence" in body for body in bodies)
    assert any("qv-compare" in body for body in bodies)


# ---- the numbers, the sections and the phone's bar ----------------------------------------------


def test_each_number_tells_its_metric_and_what_it_means():
    at = opened(lang="en")
    shown = numbers(at)
    assert [number.key for number in shown] == ["mse", "sqnr", "zeroed", "clipped", "bits"]
    assert {"mse", "sqnr_db", "zeroed_share", "clipped_share", "effective_bits"} <= METRICS.keys()
    assert all(len(number.meaning) > 20 and number.line for number in shown)
    body = next(element.proto.body for element in at.get("html") if "qv-numbers" in element.proto.body)
    assert body.count("data-qv-metric=") == 5
    assert body.count('tabindex="0"') == 5


def test_a_number_s_change_is_green_where_it_is_better():
    at = opened(b="int8,symmetric,per_tensor,min_max,course", lang="en")
    body = html.unescape(
        next(element.proto.body for element in at.get("html") if "qv-numbers" in element.proto.body)
    )
    assert re.findall(r'<em class="([\w-]*)"', body) == ["qv-worse", "qv-worse", "qv-worse", "", "qv-better"]


def test_the_bar_of_a_phone_sets_bits_and_scales():
    at = opened()
    at.select_slider(key="phone_bits").set_value("int8").run()
    assert address(healthy(at))["s"] == "int8,symmetric,per_tensor,min_max,course"
    choose(at, ("granularity", "column"))
    assert address(healthy(at))["s"] == "int8,symmetric,per_channel(axis=1),min_max,course"
    assert controls(at)["bits"]["value"] == "8"
    # A format without bits to choose from has no slider; what a teacher has locked is grey.
    assert opened(k="lock-scheme").select_slider(key="phone_bits").disabled


def test_the_bar_follows_a_format_s_family():
    state = opening().replace(scheme=qv.Scheme("float8_e4m3fn"))
    at = opened(**state.written())
    offered = at.select_slider(key="phone_bits").options
    assert len(offered) > 2
    at.select_slider(key="phone_bits").set_value("float4_e2m1fn").run()
    assert address(healthy(at))["s"].startswith("float4_e2m1fn,")
    assert Builtin("loud_column") == state.source


def test_a_name_keeps_its_small_letters_in_chinese():
    words = text("calibrations.mse_llmcompressor.line", "zh", maxshrink=0.2, grid=100)
    assert range_tab._capital(words).startswith("llm-compressor 的 MSE，")
    assert range_tab._capital("least squared error") == "Least squared error"


def test_names_that_do_not_fit_have_the_marks_of_their_language(monkeypatch):
    shown, problem = [], QuantVizError("no_such_block", block=(1,), grid=(1,))
    folds = []
    monkeypatch.setattr(refusals.st, "caption", shown.append)
    monkeypatch.setattr(refusals.st, "expander", lambda label, **_: folds.append(label) or nullcontext())
    for language in ("en", "zh"):
        monkeypatch.setattr(words, "language", lambda _=language: _)
        monkeypatch.setattr(refusals, "say_error", lambda _: "…")
        refused = ((name, problem) for name in ("a", "b"))
        refusals.show_refused(refused, "recipes.do_not_fit", shape="2 × 2")
    assert shown == ["Not possible here: a, b. …", "这里不可用：a；b。…"]
    assert folds == ["2 recipes do not fit 2 × 2 · why", "2 个配方不适合 2 × 2 · 原因"]


def test_all_of_some_parts_that_are_to_blame_together_are_named():
    """Of six columns two were "2 more", and no table said which."""
    state = LabState(Builtin("loud_column"), qv.Scheme("int4"), View.of((8, 8)), (0, 0))
    assert blame_tab._names(qv.PerChannel(1), range(6), state).endswith("0, 1, 2, 3, 4, 5")
    # Of more than one sentence holds, a fold names all.
    few, many = (SimpleNamespace(k=k, numbers=tuple(range(k))) for k in (8, 12))
    blame = SimpleNamespace(parts=qv.PerChannel(1), choice=few)
    assert not blame_tab._all_chosen(blame, state)
    blame.choice = many
    assert "4 more" in blame_tab._names(blame.parts, many.numbers, state)
    assert blame_tab._all_chosen(blame, state).endswith(", ".join(map(str, range(12))))
