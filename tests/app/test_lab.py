"""The Lab through AppTest: what each control does, what a link opens, what a mistake says."""

import itertools
import re

import numpy as np
import pytest

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import opening
from quantviz.sources import Builtin
from quantviz.text import catalogue, languages
from tests.helpers.controls import controls, reason
from tests.helpers.sample import sample_of
from tests.helpers.session import (
    act,
    address,
    bodies,
    healthy,
    hint,
    numbers,
    opened,
    panels,
    result,
    spec,
    table,
    told,
    turned,
    unfolded,
)


def metric(at, place):
    return numbers(at)[place].value


def sentence(at):
    return bodies(at, "qv-sentence")[0]


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
    assert "−1.35 ÷ 3.289 = −0.4105 → 0 → 0, error +1.35: rounded to zero" in sentence(at)
    # Another cell.
    assert address(act(at, cell_row=6, cell_col=5))["c"] == "6.5"
    assert "(6, 5)" in sentence(at)
    assert "→ 7 →" in sentence(at)


@pytest.mark.parametrize(("name", "language"), sample_of(itertools.product(SCENARIOS, languages()), 4))
def test_every_scenario_opens_in_every_language(name, language):
    at = opened(**opening(name).written(), lang=language)
    assert catalogue(language)[f"scenarios.{name}.look"].replace("\\", "")[:12] in hint(at)
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
    # What else changed stands in its place until the next choice.
    act(at, granularity="row", bits=4)
    assert f"At the start: {look}" in hint(at)
    assert name in at.session_state["tab_title"]
    # The same tensor, but nothing has started that way.
    at = opened(v="1", t=began["t"], s="int8,asymmetric,per_tensor,min_max,course", lang="en")
    assert look not in hint(at)
    assert name not in at.session_state["tab_title"]


def test_each_range_starts_from_the_one_in_force():
    at = opened()
    before = panels(at)[1]
    assert "given(scale=3.28" in address(act(at, calibration="given"))["s"]
    assert np.array_equal(panels(healthy(at))[1], before)
    assert "percentile(p=90.0)" in address(act(at, calibration="percentile", range_p=90.0))["s"]
    assert "hi=5.0" in address(healthy(act(at, calibration="manual_range", range_hi=5.0)))["s"]


def test_a_range_that_cannot_be_is_said_beside_it_and_nothing_is_lost():
    at = act(opened(), calibration="manual_range")
    kept = address(at)["s"]
    act(at, range_lo=1000.0)
    assert "lower one first" in told(at, "error")
    # What was typed stays to be mended.
    assert controls(at)["range_lo"]["wrong"]
    assert address(at)["s"] == kept
    assert len(panels(at)) == 4


def test_what_is_impossible_is_grey_with_its_reason():
    at = opened(t="builtin(name=course_vector)")
    assert all(reason(at, "granularity", each) for each in ("row", "block"))
    assert not reason(at, "granularity", "column")
    assert "one axis" in told(at, "caption")
    assert result(healthy(act(at, granularity="column"))).qparams.scale.shape == (7,)


def test_the_error_range_is_held_until_the_tensor_changes():
    at = opened()
    assert address(at)["h"] == "1.64"
    assert address(act(at, bits=8))["h"] == "1.64"
    drawn = spec(at, "panels_chart")
    error = [trace for trace in drawn["data"] if trace["type"] == "heatmap"][3]
    scale = drawn["layout"][error["coloraxis"]]
    assert (scale["cmin"], scale["cmax"]) == (-1.64, 1.64)
    assert address(act(at, scenario="one_cell"))["h"] == "39.1"


def test_recipes_are_this_tensors_own():
    at = opened(t="normal(rows=64,cols=128)")
    assert not at.dataframe
    turned(at, "compare")
    found = table(at, "sqnr_db")["sqnr_db"]
    x = result(at).x
    fitting = [scheme for scheme in qv.RECIPES.values() if not scheme.problems((64, 128))]
    assert len(fitting) > 20
    assert list(found) == pytest.approx([qv.metrics(qv.quantize(x, each))["sqnr_db"] for each in fitting])
    # Those that do not fit are named with the reason, which says what fits.
    said = next(caption.value for caption in at.caption if "TQ1" in caption.value)
    assert "256" in said
    assert "128" in said


def test_a_scale_far_too_small_is_shown_not_a_crash():
    at = opened(s="int8,symmetric,per_tensor,given(scale=1e-38),course")
    assert "on our side" not in "".join(error.value for error in at.error)
    assert metric(at, 3) != "0 %"


@pytest.mark.parametrize(
    ("broken", "kind"),
    [("quantviz.ui.shell.session.put_scheme", "warning"), ("quantviz.analysis.study.explain", "error")],
)
def test_nobody_sees_a_traceback(monkeypatch, broken, kind):
    at = opened()
    with monkeypatch.context() as patch:
        patch.setattr(broken, lambda *given, **named: 1 / 0)
        act(at, bits=8)
    assert "on our side" in told(at, kind)
    if kind == "error":
        act(at, "boundary_reset")
    else:
        assert address(at)["s"].startswith("int4")
    healthy(at)


def test_the_steps_and_the_python_are_on_the_page():
    at = opened()
    # What colours code is loaded for who looks at it.
    assert not at.code
    at = unfolded(at, "share", "python")
    assert any("qv.quantize" in code.value for code in at.code)
    healthy(at.checkbox(key="cell_steps").check().run())
    assert "y = x / scale" in bodies(at, 'class="qv-steps')[0]


def test_the_colours_of_x_are_chosen_and_stay_over_scheme_and_tensor():
    at = opened()
    assert address(at)["x"] == "auto"
    assert address(act(unfolded(at), value_scale="percentile", bits=8))["x"] == "percentile"
    x, *_, error = panels(at)
    layout = spec(at, "panels_chart")["layout"]
    far = float(np.abs(x).max())
    assert layout["coloraxis"]["cmax"] == layout["coloraxis3"]["cmax"] == pytest.approx(far, rel=1e-3)
    drawn = panels(act(unfolded(at), value_scale="symlog"))
    assert float(drawn[0].max()) < 5
    assert np.array_equal(drawn[3], error)
    # An example brings its whole state.
    assert address(act(at, scenario="one_cell"))["x"] == "auto"


def metrics_shown(at):
    """The table of metrics, once it is opened."""
    assert not [each for each in at.dataframe if "metric" in each.value]
    at.session_state["metrics"] = True
    return [each.value for each in healthy(at.run()).dataframe if "metric" in each.value]


def test_what_is_locked_cannot_be_moved_in_a_saved_page_either():
    # Names of the files under *Share*, which is open.
    def offered(**params):
        at = unfolded(opened(**params), "share")
        return {button.key for button in at.get("download_button")}

    assert {"download_npz", "download_html"} <= offered()
    locked = offered(k="lock-scheme")
    assert "download_npz" in locked
    assert "download_html" not in locked


def test_every_metric_of_the_whole_tensor_is_below_the_fold():
    at = opened()
    (shown,) = metrics_shown(at)
    found = qv.metrics(result(at))
    assert list(shown["metric"]) == [catalogue("en")[f"metrics.{name}.name"] for name in qv.METRICS]
    whole = {name: 100 if each.unit == "share" else 1 for name, each in qv.METRICS.items()}
    assert list(shown["value"]) == [number(whole[name] * value, 6) for name, value in found.items()]
    assert [button for button in at.get("download_button") if button.key == "download_metrics"]
    # Hidden tiles are not told by it.
    assert metrics_shown(opened(k="no-tiles-sqnr")) == []
