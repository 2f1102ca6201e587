"""The formulas' language: what it gives, and that nothing else gets in."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import quantviz as qv
from quantviz.lab.state import LabState
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons.dials import DIAL_NUMBERS
from quantviz.teaching.lessons.formulas import HERE, QUANTITIES, STATE_FUNCTIONS, Formula, Scene, Words

COURSE = "builtin(name=course_3x3)"


def scene(scheme="int8,asymmetric,per_tensor,min_max,course", source=COURSE, cell="0.2"):
    state, problems = LabState.read({"t": source, "s": scheme, "c": cell})
    assert problems == ()
    return Scene(state)


@pytest.fixture
def scenes():
    return {
        HERE: scene(),
        "given": scene("int8,asymmetric,per_tensor,given(scale=3.5,zero_point=-70),course"),
        "row": scene("int8,symmetric,per_channel(axis=0),min_max,course"),
    }


def test_the_notebooks_numbers(scenes):
    value = lambda text: Formula.read(text, scenes).value(scenes)  # noqa: E731
    assert value("scale") == pytest.approx(3.578823433670343)
    assert value("(x_max - x_min) / (code_max - code_min)") == pytest.approx(3.578823433670343)
    assert value("zero_point") == -77
    assert round(value("wanted_zero_point")) == -77
    assert value("given.mse") == pytest.approx(170.8753, rel=1e-6)
    assert value("given.error_share") == pytest.approx(0.994, abs=5e-4)
    assert value("given.clipped_count") == 1
    assert value("row.scales") == 3
    assert value("round(row.mse * 100) / 100") == 1.81


@pytest.mark.parametrize(("scale", "zero_point"), [(0.3, -3), (0.3, 7), (0.013, -7)])
def test_a_value_on_a_tooth_has_no_residue(scale, zero_point):
    given = f"int4,asymmetric,per_tensor,given(scale={scale},zero_point={zero_point}),course"
    source = Typed.of([[-zero_point * scale]])
    on = {HERE: Scene(dataclasses.replace(scene(given, cell="0.0").state, source=source))}
    words = Words.read("{x / scale + zero_point}, off {error} and {abs_error|+3}")
    assert words.say(on) == "0, off 0 and 0"
    assert Formula.read("x / scale + 0.001 - x / scale").value(on) == pytest.approx(0.001)


def test_every_quantity_is_what_the_core_has(scenes):
    r = qv.quantize(scenes[HERE].state.source.tensor(), scenes[HERE].state.scheme)
    for name, metric in qv.METRICS.items():
        assert Formula.read(name).value(scenes) == metric(r)
    for name in QUANTITIES.keys() - {*DIAL_NUMBERS}:
        assert isinstance(Formula.read(name).value(scenes), int | float)


def test_a_layers_output(scenes):
    weights, inputs = (
        scene("int8,symmetric,per_tensor,min_max,course", "builtin(name=course_w8a32)", "0.0"),
        scene(source="normal(rows=4,cols=3,seed=3)", cell="0.0"),
    )
    if weights.result.x.shape[-1] != inputs.result.x.shape[-1]:
        inputs = scene(source=f"normal(rows=4,cols={weights.result.x.shape[-1]},seed=3)", cell="0.0")
    both = {HERE: weights, "w": weights, "a": inputs}
    exact = torch.nn.functional.linear(inputs.result.x.double(), weights.result.x.double())
    quantized = torch.nn.functional.linear(inputs.result.x.double(), weights.result.x_hat.double())
    assert Formula.read("output_mse(w, a)", both).value(both) == pytest.approx(
        float((exact - quantized).square().mean())
    )
    # With zero point 0 the two readings of the formula agree.
    assert Formula.read("output_mse_plus(w, a)", both).value(both) == pytest.approx(
        Formula.read("output_mse(w, a)", both).value(both)
    )
    shifted = {HERE: scene(), "w": scene()}
    assert Formula.read("mse_plus(w)", shifted).value(shifted) > 100 * Formula.read("mse", shifted).value(
        shifted
    )


def test_cells_that_got_worse(scenes):
    before, after = scenes["row"].result.error.abs(), scenes[HERE].result.error.abs()
    assert Formula.read("worse_cells(row, here)", scenes).value(scenes) == int((after > before).sum())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(2 ** 3)", -8),
        ("1 < 2 < 3", True),
        ("not (1 > 2)", True),
        ("1 < 2 and 2 < 1", False),
        ("0.1 + 0.2 == 0.3", True),
        ("max(1, 2, 3) / sqrt(4)", 1.5),
    ],
)
def test_arithmetic(text, value):
    assert Formula.read(text).value({}) == value


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("__import__('os').system('x')", "formulas.unreadable"),
        ("().__class__", "formulas.unreadable"),
        ("open('/etc/passwd')", "formulas.unknown_function"),
        ("x.__class__", "formulas.unknown_state"),
        ("here.__class__", "formulas.unknown_name"),
        ("[1, 2]", "formulas.unreadable"),
        ("(lambda: 1)()", "formulas.unreadable"),
        ("'a'", "formulas.unreadable"),
        ("x if 1 else 2", "formulas.unreadable"),
        ("1 +", "formulas.unreadable"),
        ("mze", "formulas.unknown_name"),
        ("column.mse", "formulas.unknown_state"),
        ("worse_cells(here)", "formulas.states_wanted"),
        ("output_mse(1, 2)", "formulas.states_wanted"),
        ("1 + " * 80 + "1", "formulas.too_long"),
        ("x // 2", "formulas.unreadable"),
        ("max(1, key=2)", "formulas.unreadable"),
    ],
)
def test_what_is_no_formula_is_refused(text, key):
    with pytest.raises(qv.QuantVizError) as caught:
        Formula.read(text)
    assert caught.value.key == key


@pytest.mark.parametrize("text", ["1 / 0", "sqrt(-1)", "log2(0)", "9 ** 9 ** 9", "2 ** 65", "10.0 ** 400"])
def test_no_number_is_a_sentence_not_a_crash(text):
    with pytest.raises(qv.QuantVizError, match="no result"):
        Formula.read(text).value({})


@given(st.text(max_size=40))
def test_any_text_is_a_formula_or_a_sentence(text):
    try:
        formula = Formula.read(text)
        formula.value({HERE: scene()})
    except qv.QuantVizError:
        pass


def test_words_compute_their_numbers(scenes):
    words = Words.read(
        "s = {scale|3}, error {given.error|+3}, {given.clipped_share|%} clipped, {count}", scenes
    )
    assert words.say(scenes) == "s = 3.58, error −39.1, 11.1 % clipped, 9"
    with pytest.raises(qv.QuantVizError, match="digits"):
        Words.read("{scale|lots}", scenes)


def test_state_functions_take_states():
    assert all(function.__code__.co_argcount in (1, 2) for function in STATE_FUNCTIONS.values())
    assert math.isclose(Formula.read("rounding_rmse_steps").value({}), 12**-0.5)
