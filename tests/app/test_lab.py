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
from quantviz.lab.state import opening, write_link
from quantviz.sources import Builtin
from quantviz.text import catalogue
from quantviz.ui.lab import tensor
from quantviz.ui.shell import session as ui_session
from tests.helpers.session import address, chart, healthy, opened, panels, result


def metric(at, place):
    return at.metric[place].value


def test_the_first_screen_is_one_loud_column():
    at = opened()
    r = qv.quantize(Builtin("loud_column").tensor(), qv.Scheme("int4"))
    x, q, x_hat, error = panels(at)
    assert np.array_equal(x, r.x.numpy())
    assert np.array_equal(q, r.q.numpy())
    assert np.array_equal(x_hat, r.x_hat.numpy())
    assert np.allclose(error, r.error.numpy())
    assert len(at.metric) == 5
    assert metric(at, 0) == f"{qv.metrics(r)['mse']:.4g}"
    assert metric(at, 2) == "82.8 %"
    sentence = next(element.proto.body for element in at.get("html") if "qv-sentence" in element.proto.body)
    assert "−1.35 ÷ 3.289 = −0.4105 → 0 → 0, error +1.35: rounded to zero" in sentence


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_opens_in_every_language(name, language):
    at = opened(**write_link(opening(name)), lang=language)
    assert catalogue(language)[f"scenarios.{name}.look"].replace("\\", "")[:12] in "".join(
        m.value for m in at.markdown
    ).replace("\\", "")
    assert len(at.metric) == 5
    # The address reopens this very state, and every number is there.
    assert address(at)["t"] == write_link(opening(name))["t"]
    assert not re.search(r"\b(nan|None|inf)\b", " ".join(m.value for m in at.metric))


def test_an_examples_name_and_claim_are_told_only_of_what_began_as_it():
    look, name = (catalogue("en")[f"scenarios.one_cell.{part}"] for part in ("look", "name"))
    began = write_link(opening("one_cell"))

    def hint(at):
        return at.markdown[0].value.replace("\\", "")

    at = opened(**began, lang="en")
    assert look in hint(at)
    assert name in at.session_state["tab_title"]
    healthy(at.button(key="per_row").click().run())
    assert f"At the start: {look}" in hint(at)
    assert name in at.session_state["tab_title"]
    # The same tensor, but nothing has started that way.
    at = opened(v="1", t=began["t"], s="int8,asymmetric,per_tensor,min_max,course", lang="en")
    assert look not in hint(at)
    assert name not in at.session_state["tab_title"]


def test_each_control_changes_the_scheme_and_the_address():
    at = opened()
    at.segmented_control(key="bits").set_value(8).run()
    assert address(at)["s"].startswith("int8,symmetric,per_tensor")
    at.segmented_control(key="mode").set_value("asymmetric").run()
    at.selectbox(key="format").set_value("integer_unsigned").run()
    assert address(at)["s"].startswith("uint8,asymmetric,per_tensor")
    at.button(key="per_column").click().run()
    assert address(at)["s"] == "uint8,asymmetric,per_channel(axis=1),min_max,course"
    at.button(key="per_group").click().run()
    at.selectbox(key="group_size").set_value(2).run()
    at.selectbox(key="group_axis").set_value(0).run()
    assert address(at)["s"] == "uint8,asymmetric,per_group(size=2,axis=0),min_max,course"
    at.button(key="per_block").click().run()
    at.selectbox(key="block_rows").set_value(8).run()
    assert address(at)["s"] == "uint8,asymmetric,per_block(rows=8,cols=4),min_max,course"
    at.button(key="per_flat").click().run()
    at.selectbox(key="flat_size").set_value(16).run()
    at.selectbox(key="flat_strided").set_value(True).run()
    assert address(at)["s"] == "uint8,asymmetric,flat(size=16,strided=true),min_max,course"
    assert np.array_equal(panels(healthy(at))[1], result(at).q.numpy())


def test_each_range_starts_from_the_one_in_force():
    at = opened()
    before = panels(at)[1]
    at.radio(key="calibration").set_value("given").run()
    assert "given(scale=3.28" in address(at)["s"]
    assert np.array_equal(panels(healthy(at))[1], before)
    at.radio(key="calibration").set_value("percentile").run()
    at.number_input(key="range_p").set_value(90.0).run()
    assert "percentile(p=90.0)" in address(at)["s"]
    at.radio(key="calibration").set_value("manual_range").run()
    at.number_input(key="range_hi").set_value(5.0).run()
    assert "hi=5.0" in address(healthy(at))["s"]


def test_a_range_that_cannot_be_is_said_beside_it_and_nothing_is_lost():
    at = opened()
    at.radio(key="calibration").set_value("manual_range").run()
    kept = address(at)["s"]
    at.number_input(key="range_lo").set_value(1000.0).run()
    assert not at.exception
    assert any("lower one first" in error.value for error in at.error)
    assert at.number_input(key="range_lo").value == 1000.0
    assert address(at)["s"] == kept
    assert len(panels(at)) == 4


def test_what_is_impossible_is_grey_with_its_reason():
    at = opened(t="builtin(name=course_vector)")
    assert at.button(key="per_row").disabled
    assert at.button(key="per_block").disabled
    assert not at.button(key="per_column").disabled
    assert any("one axis" in caption.value for caption in at.caption)
    at.button(key="per_column").click().run()
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
    at = opened()
    at.button(key="set_baseline").click().run()
    at.segmented_control(key="bits").set_value(8).run()
    assert address(at)["b"].startswith("int4")
    assert at.metric[1].delta.endswith("dB")
    at.button(key="undo").click().run()
    assert address(at)["s"].startswith("int4")
    at.button(key="redo").click().run()
    assert address(at)["s"].startswith("int8")
    at.button(key="reset").click().run()
    assert address(healthy(at)) == {**write_link(opening().replace(held=1.64)), "lang": "en"}


def test_the_error_range_is_held_until_the_tensor_changes():
    at = opened()
    assert address(at)["h"] == "1.64"
    at.segmented_control(key="bits").set_value(8).run()
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
    assert at.metric[2].label == "归零"
    reopened = opened(**address(at))
    assert reopened.metric[2].label == "归零"


def test_what_a_link_cannot_have_is_named_and_the_rest_kept():
    at = opened(s="int9,symmetric,per_tensor,min_max,course", r="fit", lang="en")
    assert any("int9" in warning.value for warning in at.warning)
    assert address(at)["r"] == "fit"
    assert len(panels(at)) == 4


def test_random_tensors():
    at = opened()
    at.selectbox(key="kind").set_value("random").run()
    at.selectbox(key="distribution").set_value("student_t").run()
    at.number_input(key="random_rows").set_value(12).run()
    at.number_input(key="random_seed").set_value(7).run()
    assert address(healthy(at))["t"] == "student_t(rows=12,seed=7)"
    assert panels(at)[0].shape == (12, 32)


def test_typing_a_tensor():
    at = opened()
    at.selectbox(key="kind").set_value("typed").run()
    assert address(at)["t"].startswith("typed.8x8.")
    at.text_area(key="typed_text").set_value("tensor([[1., -2.], [3., 4.5]], dtype=torch.float32)").run()
    assert panels(healthy(at))[0].tolist() == [[1.0, -2.0], [3.0, 4.5]]
    at.text_area(key="typed_text").set_value("1 2\n3 x").run()
    assert "x" in at.error[0].value
    assert at.text_area(key="typed_text").value == "1 2\n3 x"
    assert panels(at)[0].tolist() == [[1.0, -2.0], [3.0, 4.5]]
    at.text_area(key="typed_text").set_value("1,5 2,5").run()
    at.button(key="typed_decimal").click().run()
    assert panels(healthy(at))[0].tolist() == [[1.5, 2.5]]


def test_uploads_stay_in_the_session_and_bad_ones_change_nothing():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.savez(
        buffer,
        first=np.arange(12, dtype=np.float64).reshape(3, 4) / 10,
        second=np.ones((2, 3, 4), dtype=np.float32),
    )
    at.file_uploader(key="tensor_file").set_value(
        ("two.npz", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert panels(healthy(at))[0].shape == (3, 4)
    assert address(at)["t"] == "upload"
    assert any("links cannot carry uploads" in info.value for info in at.info)
    assert any("float64 was stored as float32" in info.value for info in at.info)
    at.selectbox(key="file_tensor").set_value("second").run()
    assert panels(at)[0].shape == (3, 4)
    assert at.metric[0].label.endswith("whole tensor")
    at.radio(key="scope").set_value("slice").run()
    assert at.metric[0].label.endswith("this slice")
    at.number_input(key="view_at_0").set_value(1).run()
    at.selectbox(key="view_rows").set_value(0).run()
    assert panels(healthy(at))[0].shape == (2, 4)
    at.file_uploader(key="tensor_file").set_value(
        ("bad.npz", b"PK\x03\x04nonsense", "application/octet-stream")
    ).run()
    assert "bad" in at.error[0].value
    assert panels(at)[0].shape == (2, 4)


def test_a_quantized_file_is_dequantized_and_says_so():
    from quantviz.quantization.quantizer import dequantize
    from quantviz.sources.files.gguf_blocks import BLOCK_TYPES
    from tests.helpers.gguf_file import Entry, gguf_file

    raw = np.random.default_rng(0).integers(0, 60, (4, 144), dtype=np.uint8)
    file = gguf_file([Entry("w", (256, 4), 12, raw.tobytes()), Entry("other", (256,), 16, bytes(66))])
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    at.file_uploader(key="tensor_file").set_value(("small.gguf", file, "application/octet-stream")).run()
    x = dequantize(BLOCK_TYPES[12], torch.from_numpy(raw))
    assert f"{qv.metrics(qv.quantize(x, qv.Scheme('int4')))['mse']:.4g}" == healthy(at).metric[0].value
    assert any(
        "4 × 256" in element.proto.body and "Q4_K → float32" in element.proto.body
        for element in at.get("html")
    )
    assert any("Q4_K, 4.5 bits per weight" in info.value.replace("\\", "") for info in at.info)
    at.selectbox(key="file_tensor").set_value("other").run()
    assert "IQ2" in at.error[0].value
    assert any(
        "4 × 256" in element.proto.body and "Q4_K → float32" in element.proto.body
        for element in at.get("html")
    )


def test_pickles_run_nothing():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    at.file_uploader(key="tensor_file").set_value(
        ("evil.pt", b"cos\nsystem\n(S'touch /tmp/quantviz_evil'\ntR.", "application/octet-stream")
    ).run()
    assert not at.exception
    assert len(at.error) == 1
    assert "weights_only" not in at.error[0].value


def test_a_picture():
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4).save(buffer, "PNG")
    at = opened()
    at.selectbox(key="kind").set_value("image").run()
    at.file_uploader(key="image_file").set_value(("small.png", buffer.getvalue(), "image/png")).run()
    assert panels(healthy(at))[0].shape == (8, 8)


def test_nonfinite_tensors_are_refused_and_the_open_one_stays():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.save(buffer, np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float32))
    at.file_uploader(key="tensor_file").set_value(
        ("nan.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert "(0, 1)" in at.error[0].value.replace("\\", "")
    assert panels(at)[0].shape == (8, 8)


def test_recipes_are_this_tensors_own():
    at = opened(t="normal(rows=64,cols=128)")
    assert not at.dataframe
    at.session_state["recipes"] = True
    healthy(at.run())
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


def test_a_tensor_that_cannot_be_quantized_leaves_the_open_one():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.save(buffer, np.array([[3e38, -3e38], [1.0, 2.0]], dtype=np.float32))
    at.file_uploader(key="tensor_file").set_value(
        ("huge.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert any("too wide for float32" in warning.value for warning in at.warning)
    assert panels(at)[0].shape == (8, 8)
    assert len(at.metric) == 5


def test_undo_finds_uploads_again(monkeypatch):
    at = opened()
    at.selectbox(key="kind").set_value("file").run()

    def upload(name, side):
        buffer = io.BytesIO()
        np.save(buffer, np.full((side, side), 0.5, dtype=np.float32))
        at.file_uploader(key="tensor_file").set_value(
            (name, buffer.getvalue(), "application/octet-stream")
        ).run()
        assert panels(healthy(at))[0].shape == (side, side)

    def undo(side):
        at.button(key="undo").click().run()
        assert panels(healthy(at))[0].shape == (side, side)

    def redo(side):
        at.button(key="redo").click().run()
        assert panels(healthy(at))[0].shape == (side, side)

    upload("a.npy", 3)
    upload("b.npy", 4)
    undo(3)
    undo(8)
    redo(3)
    redo(4)
    upload("c.npy", 5)
    undo(4)
    undo(3)
    redo(4)
    redo(5)
    # Where there is no room for so many, undo reaches back as far as there are tensors: to the one that was
    # open.
    monkeypatch.setattr(tensor, "_UPLOAD_BYTES", 1)
    upload("d.npy", 6)
    undo(5)
    assert at.button(key="undo").disabled
    redo(6)


def test_undo_reaches_back_many_steps_and_forward_again(monkeypatch):
    assert ui_session.MOST_STEPS == 50
    monkeypatch.setattr(ui_session, "MOST_STEPS", 4)
    at = opened()

    def bits(now=None):
        if now is not None:
            at.segmented_control(key="bits").set_value(now).run()
        return at.segmented_control(key="bits").value

    steps = [2, 3, 4, 5, 6, 7]
    for each in steps:
        bits(each)
    back = []
    while not at.button(key="undo").disabled:
        at.button(key="undo").click().run()
        back.append(bits())
    assert back == [6, 5, 4, 3]
    forward = []
    while not at.button(key="redo").disabled:
        at.button(key="redo").click().run()
        forward.append(bits())
    assert forward == [4, 5, 6, 7]
    # Another choice begins another way.
    at.button(key="undo").click().run()
    bits(16)
    assert at.button(key="redo").disabled
    at.button(key="undo").click().run()
    assert bits() == 6


def test_undo_and_redo_keep_the_cell_that_is_looked_at():
    at = opened()
    at.segmented_control(key="bits").set_value(8).run()
    at.number_input(key="cell_row").set_value(6).run()
    for button, code in (("undo", "int4"), ("redo", "int8")):
        at.button(key=button).click().run()
        assert address(healthy(at))["s"].startswith(code)
        assert address(at)["c"] == "6.3"
    # What moves by itself is part of its step.
    at.selectbox(key="scenario").set_value("one_cell").run()
    at.button(key="undo").click().run()
    assert address(at)["c"] == "6.3"


def test_a_step_that_could_not_be_taken_is_none_to_undo():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.save(buffer, np.array([[3e38, -3e38], [1.0, 2.0]], dtype=np.float32))
    at.file_uploader(key="tensor_file").set_value(
        ("huge.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert any("too wide for float32" in warning.value for warning in at.warning)
    assert at.button(key="undo").disabled


def test_typed_values_that_are_not_finite_are_said_beside_the_text():
    at = opened()
    at.selectbox(key="kind").set_value("typed").run()
    at.text_area(key="typed_text").set_value("nan 1 2").run()
    assert "finite" in at.error[0].value
    assert panels(at)[0].shape == (8, 8)


def test_a_scale_far_too_small_is_shown_not_a_crash():
    at = opened(s="int8,symmetric,per_tensor,given(scale=1e-38),course")
    assert "on our side" not in "".join(error.value for error in at.error)
    assert metric(at, 3) != "0 %"


def test_a_callback_that_fails_is_a_sentence(monkeypatch):
    at = opened()
    monkeypatch.setattr("quantviz.ui.shell.session.put_scheme", lambda **changes: 1 / 0)
    at.segmented_control(key="bits").set_value(8).run()
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
    assert f"{lowest:.3g} dB" in at.metric[1].delta


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8, 16])
def test_the_sentence_is_never_at_odds_with_itself(bits):
    """What is divided, as read, rounds to the code that is named."""
    from quantviz.ui.components.cell import sentence

    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(bits))
    for mode in qv.MODES:
        r = qv.quantize(x, qv.Scheme(f"int{bits}", mode))
        for row in range(8):
            why = qv.explain(r, (row, 2 * row))
            said = sentence(why).replace("−", "-")
            shown, code = re.search(r"= (\S+) → (-?\d+)", said).groups()
            assert round(float(shown)) == int(code), said


def test_nobody_sees_a_traceback(monkeypatch):
    at = opened()
    monkeypatch.setattr("quantviz.analysis.study.explain", lambda *args: 1 / 0)
    at.segmented_control(key="bits").set_value(8).run()
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
    steps = next(element.proto.body for element in at.get("html") if "qv-steps" in element.proto.body)
    assert "y = x / scale" in steps


# ---- formats, engines, recipes -----------------------------------------------------------------

#: Blocks of 256 fit, and it is small.
WIDE = "normal(rows=2,cols=256)"


def opened_in(monkeypatch, language, **params):
    """The app in a language. AppTest asks for the words of an option outside the session, where there is no
    language to be had.
    """
    monkeypatch.setattr("quantviz.ui.shell.words.language", lambda: language)
    return opened(lang=language, **params)


def in_turn(monkeypatch, names, **params):
    """The app and each name in turn: the first half in English, the other in Chinese."""
    for language, half in (("en", names[: len(names) // 2]), ("zh", names[len(names) // 2 :])):
        at = opened_in(monkeypatch, language, **params)
        for name in half:
            yield at, name, catalogue(language)


def test_each_engine_leaves_only_what_it_offers(monkeypatch):
    changed = 0
    for at, name, words in in_turn(
        monkeypatch, list(qv.CONVENTIONS), t=WIDE, s="int4,symmetric,per_tensor,min_max,course"
    ):
        before = qv.Scheme.parse(address(at)["s"])
        at.selectbox(key="convention").set_value(name).run()
        scheme, offer = qv.Scheme.parse(address(healthy(at))["s"]), qv.CONVENTIONS[name].offer
        assert scheme.convention == qv.CONVENTIONS[name]
        assert scheme == before.adapted(name, (2, 256))
        # What nobody asked for is said.
        others = any(
            getattr(before, field) != getattr(scheme, field)
            for field in ("format", "mode", "granularity", "calibration")
        )
        changed += others
        assert others == any(
            "Set instead" in caption.value or "已改为" in caption.value for caption in at.caption
        ), name
        modes = {words[f"modes.{mode}.name"] for mode in offer.modes or qv.MODES}
        assert set(at.segmented_control(key="mode").options) <= modes
        formats = {words[f"formats.{fmt}.name"] for fmt in offer.formats or qv.FORMATS}
        assert (
            set(at.selectbox(key="format").options)
            - {words[f"strip.integer_{sign}"] for sign in ("signed", "unsigned")}
            <= formats
        )
        free = {
            button.key
            for button in at.button
            if button.key and button.key.startswith("per_") and not button.disabled
        }
        kinds = {
            "per_tensor": "per_tensor",
            "per_row": "per_channel",
            "per_group": "per_group",
            "per_block": "per_block",
            "per_flat": "flat",
        }
        assert {kinds[key] for key in free & kinds.keys()} <= set(offer.granularities or kinds.values())
        assert (
            not at.button(
                key=next(key for key, kind in kinds.items() if kind == scheme.granularity.id)
            ).disabled
            or scheme.granularity.id == "per_channel"
        )
    assert changed > 10


def test_what_an_engine_changes_is_said_and_what_it_cannot_take_is_refused(monkeypatch):
    at = opened(t=WIDE, s="int3,symmetric,per_channel,min_max,course")
    at.selectbox(key="convention").set_value("gguf_signed").run()
    said = next(caption.value for caption in at.caption if "Set instead" in caption.value).replace("\\", "")
    assert "GGUF Q4_0, Q5_0 does not offer INT3, one scale for each row" in said
    assert "INT4, one scale for each group of 32" in said
    at = opened_in(monkeypatch, "zh")
    at.selectbox(key="convention").set_value("gguf_signed").run()
    assert not at.exception
    assert "32" in at.error[0].value
    assert at.selectbox(key="convention").value == "gguf_signed"
    assert address(at)["s"] == "int4,symmetric,per_tensor,min_max,course"
    assert len(panels(at)) == 4


def test_each_recipe_sets_everything_and_is_recognized(monkeypatch):
    own = "uint3,asymmetric,per_tensor,percentile(p=99.0),course"
    assert opened(t=WIDE, s=own).selectbox(key="recipe").value == "own"
    for at, name, _ in in_turn(monkeypatch, list(qv.RECIPES), t=WIDE, s=own):
        at.selectbox(key="recipe").set_value(name).run()
        assert address(healthy(at))["s"] == str(qv.RECIPES[name])
        assert at.selectbox(key="recipe").value == name
    at = opened_in(monkeypatch, "en")
    at.selectbox(key="recipe").set_value("q4_0").run()
    assert not at.exception
    assert "1, 2, 4, 8" in at.error[0].value.replace("\\", "")
    assert address(at)["s"] == "int4,symmetric,per_tensor,min_max,course"


def test_each_format_can_be_chosen():
    at = opened(t="normal(rows=2,cols=8)", s="int4,asymmetric,per_channel,min_max,course")
    for name, fmt in qv.FORMATS.items():
        if fmt.family != "integer":
            at.selectbox(key="format").set_value(name).run()
            mode = "asymmetric" if fmt.kind == "integer" else "symmetric"
            assert address(healthy(at))["s"].startswith(f"{name},{mode},per_channel")
    for sign in ("signed", "unsigned"):
        at.selectbox(key="format").set_value(f"integer_{sign}").run()
        for bits in (1, 2, 16):
            at.segmented_control(key="bits").set_value(bits).run()
            fmt = qv.FORMATS[qv.Scheme.parse(address(healthy(at))["s"]).format]
            assert (fmt.family, fmt.bits, fmt.signed) == ("integer", bits, sign == "signed")


def with_rules(at):
    """The list of rules opened: AppTest knows no popovers, and each run closes it again."""
    at.session_state["rules"] = True
    return healthy(at.run())


def test_each_rule_can_be_changed_and_stands_in_the_link():
    from quantviz.schemes.conventions import FIELDS

    at = with_rules(
        opened(t="normal(rows=2,cols=32)", s="int8,asymmetric,per_group(size=16),min_max,torchao")
    )
    assert {f"rule_{name.replace('.', '_')}" for name in FIELDS} <= {
        each.key for each in (*at.selectbox, *at.number_input)
    }
    at.selectbox(key="rule_ties").set_value("stochastic").run()
    with_rules(at).number_input(key="rule_seed").set_value(7).run()
    assert address(healthy(at))["s"].endswith("torchao(ties=stochastic,seed=7)")
    with_rules(at).selectbox(key="rule_scale_format").set_value("float16").run()
    assert address(healthy(at))["s"].endswith("torchao(ties=stochastic,seed=7,scale.format=float16)")
    assert np.array_equal(panels(opened(**address(at)))[1], panels(at)[1])
    with_rules(at).selectbox(key="rule_scale_format").set_value("None").run()
    assert address(healthy(at))["s"].endswith("torchao(ties=stochastic,seed=7)")
    at.button(key="rules_as_engine").click().run()
    assert address(healthy(at))["s"].endswith(",torchao")


def test_a_rule_that_cannot_be_is_a_sentence_beside_it():
    at = with_rules(
        opened(t="normal(rows=2,cols=40)", s="int4,symmetric,per_group(size=32),min_max,onnxruntime_blocked")
    )
    at.selectbox(key="rule_tail").set_value("refuse")
    at.session_state["rules"] = True
    at.run()
    assert not at.exception
    assert "32" in at.error[0].value
    assert at.selectbox(key="rule_tail").value == "refuse"
    assert address(at)["s"] == "int4,symmetric,per_group(size=32),min_max,onnxruntime_blocked"


def test_a_scale_by_hand_has_the_zero_point_that_the_engine_has():
    at = opened(t=WIDE, s="uint4,asymmetric,per_group(size=32),min_max,gguf_minimum")
    at.radio(key="calibration").set_value("given").run()
    given = qv.Scheme.parse(address(healthy(at))["s"]).calibration
    assert given.zero_point < 0
    at.number_input(key="range_zero_point").set_value(-0.5).run()
    assert "zero_point=-0.5" in address(healthy(at))["s"]
    at.selectbox(key="convention").set_value("bitsandbytes").run()
    assert address(healthy(at))["s"].startswith("nf4,symmetric,flat(size=32),given(scale=")


def test_ranges_of_ternary_weights():
    at = opened(t=WIDE, s="ternary,symmetric,per_tensor,min_max,course")
    at.radio(key="calibration").set_value("abs_mean").run()
    assert at.selectbox(key="recipe").value == "ternary_absmean"
    assert address(healthy(at))["s"] == "ternary,symmetric,per_tensor,abs_mean,course"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_stored_is_told_for_every_recipe(language):
    """The tile's parts add up to its number."""
    from quantviz.analysis.study import Study
    from quantviz.evaluation.metric_formulas import stored_bits
    from quantviz.ui.lab.tiles import tiles

    state = opened_state()
    for scheme in qv.RECIPES.values():
        r = qv.quantize(torch.randn(4, 256, generator=torch.Generator().manual_seed(0)), scheme)
        own = {tile.key: tile for tile in tiles(Study.of_result(r), state.replace(scheme=scheme))}
        stored = stored_bits(scheme)
        assert (
            own["bits"].raw
            == stored.code
            + ((stored.scale + stored.zero_point) * r.layout.block_count + stored.tensor) / 1024
        )
        assert str(stored.scale) in own["bits"].facts["block"]
        assert bool(own["bits"].facts["tensor"]) == bool(stored.tensor)
        assert ("0.289" in own["mse"].facts["steps"]) == (scheme.number_format.kind == "integer")


def opened_state():
    from quantviz.lab.state import read_link

    return read_link({"t": "normal(rows=4,cols=256)", "c": "0.0"})[0]


def test_locked_schemes_keep_every_new_control():
    at = with_rules(opened(t=WIDE, s="int4,symmetric,per_tensor,min_max,course", k="lock-scheme"))
    for key in ("format", "recipe", "convention", "rule_ties", "rule_scale_format"):
        assert at.selectbox(key=key).disabled, key
    assert all(
        button.disabled for button in at.button if button.key in ("per_row", "per_flat", "rules_as_engine")
    )
    assert at.number_input(key="rule_seed").disabled


@pytest.mark.parametrize("scheme", ["int4", "float8_e4m3fn", "nf4"])
def test_the_copied_python_prints_the_rmse_of_the_tile(scheme):
    """In steps only where a format has equal ones; it printed steps for floats, where the tile gives the RMSE
    itself.
    """
    state = opening().replace(scheme=qv.Scheme(scheme))
    at = opened(**write_link(state))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(python_lines(at.session_state["lab_state"]), {})
    rmse = next(line for line in printed.getvalue().splitlines() if line.startswith("RMSE"))
    assert rmse == at.metric[0].delta


def test_the_colours_of_x_are_chosen_and_stay_over_scheme_and_tensor():
    at = opened()
    assert "x" not in address(at)
    at.radio(key="value_scale").set_value("percentile").run()
    assert address(healthy(at))["x"] == "percentile"
    at.segmented_control(key="bits").set_value(8).run()
    x, *_, error = panels(at)
    layout = json.loads(chart(at, "panels_chart").proto.spec)["layout"]
    far = float(np.sort(np.abs(x), axis=None)[-1])
    assert layout["coloraxis"]["cmax"] == layout["coloraxis3"]["cmax"] == pytest.approx(far, rel=1e-3)
    at.radio(key="value_scale").set_value("symlog").run()
    drawn = panels(healthy(at))
    assert float(drawn[0].max()) < 5
    assert np.array_equal(drawn[3], error)
    at.selectbox(key="scenario").set_value("one_cell").run()
    assert "x" not in address(at)  # an example brings its whole state
    again = opened(x="symlog")
    assert again.radio(key="value_scale").value == "symlog"


def test_every_metric_of_the_whole_tensor_is_below_the_fold():
    at = opened()
    assert not [table for table in at.dataframe if "metric" in table.value.columns]
    at.session_state["metrics"] = True
    at.run()
    assert not at.exception
    (table,) = [table.value for table in at.dataframe if "metric" in table.value.columns]
    state = at.session_state["lab_state"]
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
