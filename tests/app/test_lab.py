"""The Lab through AppTest: what each control does, what a link opens, what a mistake says."""

import contextlib
import io
import json
import re

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.export.files import python_lines
from quantviz.figures.numbers import number
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import opening
from quantviz.sources import Builtin
from quantviz.text import catalogue, text
from tests.helpers.controls import choose, reason
from tests.helpers.session import address, chart, healthy, hint, numbers, opened, panels, result, turned


def metric(at, place):
    return numbers(at)[place].value


def test_the_first_screen_is_one_loud_column():
    at = opened()
    r = qv.quantize(Builtin("loud_column").tensor(), qv.Scheme("int4"))
    x, q, x_hat, error = panels(at)
    # One column would take all colours of x: they are logarithmic.
    linear = float(np.median(np.abs(r.x.numpy())))
    for drawn, values in ((x, r.x.numpy()), (x_hat, r.x_hat.numpy())):
        assert np.allclose(drawn, np.sign(values) * np.log1p(np.abs(values) / linear), rtol=1e-3)
    assert np.array_equal(q, r.q.numpy())
    assert np.allclose(error, r.error.numpy())
    assert len(numbers(at)) == 5
    assert metric(at, 0) == f"{qv.metrics(r)['mse']:.4g}"
    assert metric(at, 2) == "82.8 %"
    sentence = next(element.proto.body for element in at.get("html") if "qv-sentence" in element.proto.body)
    assert "−1.35 ÷ 3.289 = −0.4105 → 0 → 0, error +1.35: rounded to zero" in sentence


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_opens_in_every_language(name, language):
    at = opened(**opening(name).written(), lang=language)
    assert catalogue(language)[f"scenarios.{name}.look"].replace("\\", "")[:12] in "".join(
        m.value for m in at.markdown
    ).replace("\\", "")
    assert len(numbers(at)) == 5
    # The address reopens this very state, and every number is there.
    assert address(at)["t"] == opening(name).written()["t"]
    assert not re.search(r"\b(nan|None|inf)\b", " ".join(m.value for m in numbers(at)))


def test_an_examples_name_and_claim_are_told_only_of_what_began_as_it():
    look, name = (catalogue("en")[f"scenarios.one_cell.{part}"] for part in ("look", "name"))
    began = opening("one_cell").written()
    at = opened(**began, lang="en")
    assert look in hint(at)
    assert name in at.session_state["tab_title"]
    healthy(choose(at, ("granularity", "row")))
    # What else changed stands in its place until the next choice.
    healthy(choose(at, ("bits", 4)))
    assert f"At the start: {look}" in hint(at)
    assert name in at.session_state["tab_title"]
    # The same tensor, but nothing has started that way.
    at = opened(v="1", t=began["t"], s="int8,asymmetric,per_tensor,min_max,course", lang="en")
    assert look not in hint(at)
    assert name not in at.session_state["tab_title"]


def test_each_control_changes_the_scheme_and_the_address():
    at = opened()
    choose(at, ("bits", 8))
    assert address(at)["s"].startswith("int8,symmetric,per_tensor")
    choose(at, ("mode", "asymmetric"))
    choose(at, ("format", "integer_unsigned"))
    assert address(at)["s"].startswith("uint8,asymmetric,per_tensor")
    choose(at, ("granularity", "column"))
    assert address(at)["s"] == "uint8,asymmetric,per_channel(axis=1),min_max,course"
    choose(at, ("granularity", "group"))
    choose(at, ("group_size", 2))
    choose(at, ("group_axis", 0))
    assert address(at)["s"] == "uint8,asymmetric,per_group(size=2,axis=0),min_max,course"
    choose(at, ("granularity", "block"))
    choose(at, ("block_rows", 8))
    assert address(at)["s"] == "uint8,asymmetric,per_block(rows=8,cols=4),min_max,course"
    choose(at, ("granularity", "flat"))
    choose(at, ("flat_size", 16))
    choose(at, ("flat_strided", True))
    assert address(at)["s"] == "uint8,asymmetric,flat(size=16,strided=true),min_max,course"
    assert np.array_equal(panels(healthy(at))[1], result(at).q.numpy())


def test_each_range_starts_from_the_one_in_force():
    at = opened()
    before = panels(at)[1]
    choose(at, ("calibration", "given"))
    assert "given(scale=3.28" in address(at)["s"]
    assert np.array_equal(panels(healthy(at))[1], before)
    choose(at, ("calibration", "percentile"))
    at.number_input(key="range_p").set_value(90.0).run()
    assert "percentile(p=90.0)" in address(at)["s"]
    choose(at, ("calibration", "manual_range"))
    at.number_input(key="range_hi").set_value(5.0).run()
    assert "hi=5.0" in address(healthy(at))["s"]


def test_a_range_that_cannot_be_is_said_beside_it_and_nothing_is_lost():
    at = opened()
    choose(at, ("calibration", "manual_range"))
    kept = address(at)["s"]
    at.number_input(key="range_lo").set_value(1000.0).run()
    assert not at.exception
    assert any("lower one first" in error.value for error in at.error)
    assert at.number_input(key="range_lo").value == 1000.0
    assert address(at)["s"] == kept
    assert len(panels(at)) == 4


def test_what_is_impossible_is_grey_with_its_reason():
    at = opened(t="builtin(name=course_vector)")
    assert reason(at, "granularity", "row")
    assert reason(at, "granularity", "block")
    assert not reason(at, "granularity", "column")
    assert any("one axis" in caption.value for caption in at.caption)
    choose(at, ("granularity", "column"))
    assert result(healthy(at)).qparams.scale.shape == (7,)


def test_a_cell_by_row_and_column():
    at = opened()
    at.number_input(key="cell_row").set_value(6).run()
    at.number_input(key="cell_col").set_value(5).run()
    assert address(at)["c"] == "6.5"
    sentence = next(element.proto.body for element in at.get("html") if "qv-sentence" in element.proto.body)
    assert "(6, 5)" in sentence
    assert "→ 7 →" in sentence


def test_baseline_undo_and_reset():
    at = turned(opened(), "compare")
    at.button(key="set_baseline").click().run()
    choose(at, ("bits", 8))
    assert address(at)["b"].startswith("int4")
    assert numbers(at)[1].delta.endswith("dB")
    choose(at, "undo")
    assert address(at)["s"].startswith("int4")
    choose(at, "redo")
    assert address(at)["s"].startswith("int8")
    at.button(key="reset").click().run()
    assert address(healthy(at)) == {**opening().replace(held=1.64).written(), "lang": "en"}


def test_the_error_range_is_held_until_the_tensor_changes():
    at = opened()
    assert address(at)["h"] == "1.64"
    choose(at, ("bits", 8))
    assert address(at)["h"] == "1.64"
    spec = json.loads(chart(at, "panels_chart").proto.spec)
    error = [trace for trace in spec["data"] if trace["type"] == "heatmap"][3]
    scale = spec["layout"][error["coloraxis"]]
    assert (scale["cmin"], scale["cmax"]) == (-1.64, 1.64)
    at.selectbox(key="scenario").set_value("one_cell").run()
    assert address(at)["h"] == "39.1"


@pytest.mark.parametrize("view", ["absolute", "relative", "steps"])
def test_the_error_has_four_views(view):
    at = opened()
    at.radio(key="error_view").set_value(view).run()
    assert address(healthy(at))["e"] == view
    r = result(at)
    expected = {
        "absolute": r.error.abs(),
        "relative": r.error / r.x.abs(),
        "steps": r.error / r.step_of_cells(),
    }[view].numpy()
    shown = panels(at)[3]
    assert np.allclose(shown, expected, equal_nan=True) or np.allclose(shown, abs(expected), equal_nan=True)


def test_the_language_switches_everything_and_stays_in_the_link():
    at = opened()
    at.segmented_control(key="language_choice").set_value("zh").run()
    assert address(healthy(at))["lang"] == "zh"
    assert numbers(at)[2].label == "归零"
    reopened = opened(**address(at))
    assert numbers(reopened)[2].label == "归零"


def test_what_a_link_cannot_have_is_named_and_the_rest_kept():
    at = opened(s="int9,symmetric,per_tensor,min_max,course", r="fit", lang="en")
    assert any("int9" in warning.value for warning in at.warning)
    assert address(at)["r"] == "fit"
    assert len(panels(at)) == 4


def test_recipes_are_this_tensors_own():
    at = opened(t="normal(rows=64,cols=128)")
    assert not at.dataframe
    turned(at, "compare")
    table = next(element.value for element in at.dataframe if "sqnr_db" in element.value.columns)
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float()
    fitting = [scheme for scheme in qv.RECIPES.values() if not scheme.problems((64, 128))]
    assert len(table) == len(fitting) > 20
    assert [round(value, 6) for value in table["sqnr_db"]] == [
        round(qv.metrics(qv.quantize(x, scheme))["sqnr_db"], 6) for scheme in fitting
    ]
    # Those that do not fit are named with the reason, which says what fits.
    said = next(caption.value for caption in at.caption if "TQ1" in caption.value)
    assert "256" in said
    assert "128" in said


def test_a_scale_far_too_small_is_shown_not_a_crash():
    at = opened(s="int8,symmetric,per_tensor,given(scale=1e-38),course")
    assert "on our side" not in "".join(error.value for error in at.error)
    assert metric(at, 3) != "0 %"


def test_a_callback_that_fails_is_a_sentence(monkeypatch):
    at = opened()
    monkeypatch.setattr("quantviz.ui.shell.session.put_scheme", lambda **changes: 1 / 0)
    choose(at, ("bits", 8))
    assert not at.exception
    assert any("on our side" in warning.value for warning in at.warning)
    assert address(at)["s"].startswith("int4")


def test_the_median_is_the_mean_of_the_middle_two():
    import statistics

    from quantviz.evaluation.metric_formulas import sqnr_db_of_lines
    from quantviz.evaluation.moments import Moments

    at = opened()
    r = qv.quantize(Builtin("loud_column").tensor(), qv.Scheme("int4"))
    lowest = min(statistics.median(sqnr_db_of_lines(Moments.along(r, axis)).tolist()) for axis in (0, 1))
    assert f"{lowest:.3g} dB" in numbers(at)[1].delta


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8, 16])
def test_the_sentence_is_never_at_odds_with_itself(bits):
    """What is divided, as read, rounds to the code that is named."""
    from quantviz.export.cell_words import sentence

    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(bits))
    for mode in qv.MODES:
        r = qv.quantize(x, qv.Scheme(f"int{bits}", mode))
        for row in range(8):
            why = qv.explain(r, (row, 2 * row))
            said = sentence(why, text).replace("−", "-")
            shown, code = re.search(r"= (\S+) → (-?\d+)", said).groups()
            assert round(float(shown)) == int(code), said


def test_nobody_sees_a_traceback(monkeypatch):
    at = opened()
    monkeypatch.setattr("quantviz.analysis.study.explain", lambda *args: 1 / 0)
    choose(at, ("bits", 8))
    assert not at.exception
    assert any("on our side" in error.value for error in at.error)
    monkeypatch.undo()
    at.button(key="boundary_reset").click().run()
    healthy(at)


def test_the_steps_and_the_python_are_on_the_page():
    at = opened()
    # What colours code is loaded for who looks at it.
    assert not at.code
    at.session_state["python"] = True
    assert any("qv.quantize" in code.value for code in healthy(at.run()).code)
    healthy(at.checkbox(key="cell_steps").check().run())
    steps = next(each.proto.body for each in at.get("html") if 'class="qv-steps' in each.proto.body)
    assert "y = x / scale" in steps


@pytest.mark.parametrize("scheme", ["int4", "float8_e4m3fn", "nf4"])
def test_the_copied_python_prints_the_rmse_of_the_tile(scheme):
    """In steps only where a format has equal ones; it printed steps for floats, where the tile gives the RMSE
    itself.
    """
    state = opening().replace(scheme=qv.Scheme(scheme))
    at = opened(**state.written())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(python_lines(at.session_state["lab_state"].now), {})
    rmse = next(line for line in printed.getvalue().splitlines() if line.startswith("RMSE"))
    assert rmse == numbers(at)[0].delta


def test_the_colours_of_x_are_chosen_and_stay_over_scheme_and_tensor():
    at = opened()
    assert address(at)["x"] == "auto"
    at.radio(key="value_scale").set_value("percentile").run()
    assert address(healthy(at))["x"] == "percentile"
    choose(at, ("bits", 8))
    x, *_, error = panels(at)
    layout = json.loads(chart(at, "panels_chart").proto.spec)["layout"]
    far = float(np.sort(np.abs(x), axis=None)[-1])
    assert layout["coloraxis"]["cmax"] == layout["coloraxis3"]["cmax"] == pytest.approx(far, rel=1e-3)
    at.radio(key="value_scale").set_value("symlog").run()
    drawn = panels(healthy(at))
    assert float(drawn[0].max()) < 5
    assert np.array_equal(drawn[3], error)
    at.selectbox(key="scenario").set_value("one_cell").run()
    assert address(at)["x"] == "auto"  # an example brings its whole state
    again = opened(x="symlog")
    assert again.radio(key="value_scale").value == "symlog"


def test_every_metric_of_the_whole_tensor_is_below_the_fold():
    at = opened()
    assert not [table for table in at.dataframe if "metric" in table.value.columns]
    at.session_state["metrics"] = True
    at.run()
    assert not at.exception
    (table,) = [table.value for table in at.dataframe if "metric" in table.value.columns]
    state = at.session_state["lab_state"].now
    found = qv.metrics(qv.quantize(state.source.tensor(), state.scheme))
    assert list(table["metric"]) == [catalogue("en")[f"metrics.{name}.name"] for name in qv.METRICS]
    shares = {name for name, each in qv.METRICS.items() if each.unit == "share"}
    assert list(table["value"]) == [
        number(100 * value if name in shares else value, 6) for name, value in found.items()
    ]
    assert [button for button in at.get("download_button") if button.key == "download_metrics"]


def test_hidden_tiles_are_not_told_by_the_table_of_metrics():
    at = opened(k="no-tiles-sqnr")
    at.session_state["metrics"] = True
    at.run()
    assert not at.exception
    assert not [table for table in at.dataframe if "metric" in table.value.columns]
