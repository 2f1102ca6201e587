"""Dials of lessons: the core's numbers at each stop, what lessons promise of them, and the way to the app."""

import math

import numpy as np
import pytest

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import LayerState
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.dials import DIALS, DialState
from quantviz.teaching.lessons.drags import drag_answer, dragged, moved_by
from quantviz.teaching.lessons.formulas import HERE, Formula
from quantviz.text import catalogue, languages

STEPS = [
    pytest.param(step, id=f"{name}/{i}")
    for name, lesson in lessons().items()
    for i, step in enumerate(lesson.steps, 1)
    if isinstance(step.state, DialState)
]
#: The step's own seed, and three of "once more".
SEEDS = range(4)


def state_of(name, i, attempt=0):
    return lessons()[name].steps[i - 1].scenes(attempt)[HERE].state


def at(state, stop):
    return moved_by(state, {"kind": "dial", "at": stop}, ("dial",))


def numbers(state, stop):
    series = at(state, stop).series
    return series.numbers[series.stops.index(stop)]


@pytest.mark.parametrize("step", STEPS)
def test_a_dial_has_all_of_it_at_each_stop_and_leads_to_its_page(step):
    state = step.scenes()[HERE].state
    series, dial = state.series, DIALS[state.dial]
    assert all(set(each) == set(dial.numbers) for each in series.numbers)
    assert len(series.numbers) == len(series.stops) == len(set(series.stops))
    for picture in series.pictures:
        for marks in picture.marks:
            assert marks.x.shape[-1] == marks.y.shape[-1] or len(marks.labels)
            assert all(len(places) == len(series.stops) for places in (marks.x, marks.y) if places.ndim == 2)
    for language in languages():
        said = catalogue(language)[f"lessons.dials.{state.dial}.said"]
        assert said.format(**series.numbers[0])
    page, link = series.app(state.at)
    if page == "pages/explore/layers.py":
        opened, problems = LayerState.read(link)
        assert not problems
        assert opened.source.open().weight.shape


def layer_at(state, stop):
    """The layer to which the step's button leads."""
    opened, _ = LayerState.read(state.series.app(stop)[1])
    layer = opened.source.open()
    return qv.layer(layer.weight, layer.inputs, *opened.pair.schemes(), method=opened.method)


def test_the_marked_keys_share_a_scale_at_each_stop():
    state = state_of("kv_cache", 3)
    keys = state.source.tensor().numpy()
    marked = state.series.pictures[0].marks[-1]
    for stop, y in zip(state.series.stops, marked.y, strict=True):
        assert sorted(y) == sorted(keys[: int(stop), : 32 // int(stop)].reshape(-1))


def test_a_word_holds_the_codes_that_stand_above_it():
    state = state_of("bits_to_spend", 1)
    words = [marks.labels for marks in state.series.pictures[0].marks if marks.draw == "words"]
    word = sum(int("".join(digits), 2) << 4 * at for at, digits in enumerate(words[::2]))
    codes = qv.quantize(state.source.tensor(), state.scheme).q.reshape(-1)[:8]
    assert word == sum((int(code) & 15) << 4 * at for at, code in enumerate(codes))
    assert [float(label.replace("−", "-")) for (label,) in words[1::2]] == codes.tolist()


def test_the_numbers_are_those_of_the_page():
    state = state_of("loud_activations", 3)
    for stop in ("0", "0.35", "1"):
        assert numbers(state, stop)["output_error"] == 100 * layer_at(state, stop).rel_out.held_back
    state = state_of("rounding_pays", 4)
    page = layer_at(state, "12345678")
    shown = numbers(state, "12345678")
    assert math.isclose(shown["gptq_error"], 100 * page.rel_out.used, rel_tol=1e-9)
    assert shown["gptq_weight_error"] == 100 * float(page.trace["gptq"].weight_errors[-1])


@pytest.mark.parametrize("attempt", SEEDS)
def test_the_weights_get_worse_while_the_outputs_get_better_and_the_least_is_not_in_the_middle(attempt):
    for i, side in ((3, -1), (4, 1)):
        state = state_of("loud_activations", i, attempt)
        found = [numbers(state, stop) for stop in state.series.stops]
        weights, outputs = ([each[name] for each in found] for name in ("weight_error", "output_error"))
        least = int(np.argmin(outputs))
        assert outputs[least] < 0.8 * found[0]["plain_error"]
        assert weights[least] > weights[0]
        assert side * (found[0]["best_alpha"] - 0.5) > 0.09


@pytest.mark.parametrize("attempt", SEEDS)
def test_weights_rounded_the_wrong_way_make_the_output_better(attempt):
    for i in (1, 2, 4):
        shown = numbers(state_of("rounding_pays", i, attempt), "12345678")
        assert shown["wrong_ways"] >= 1
        assert shown["gptq_error"] < shown["nearest_error"]
        assert shown["gptq_weight_error"] > shown["nearest_weight_error"]


def test_one_weight_after_the_other_is_rounded_and_the_others_slide_to_the_least_error():
    """Against the formula: what is left is where the outputs change least."""
    state = state_of("rounding_pays", 1)
    w, scheme = state.source.tensor().double().numpy()[0], state.scheme
    page = layer_at(state, "0")
    x = page.inputs.values(slice(None))[~page.held_back].double().numpy()
    h = 2 * x.T @ x / len(x)
    h += 0.01 * np.trace(h) / len(h) * np.eye(len(h))
    series = at(state, "51").series
    here = series.stops.index("51")
    left, done = series.pictures[0].marks[3].x[here], series.pictures[0].marks[4].x[here]
    grid = float(qv.quantize(state.source.tensor(), scheme).qparams.scale.max())
    rounded = [4, 0]
    others = [k for k in range(8) if k not in rounded]
    assert np.allclose(done[rounded] / grid, np.round(done[rounded] / grid), atol=1e-6)
    off = done[rounded] - w[rounded]
    moved = -np.linalg.solve(h[np.ix_(others, others)], h[np.ix_(others, rounded)] @ off)
    assert np.allclose(left[others], w[others] + moved, atol=1e-9)


def test_a_press_takes_a_weight_back_with_those_after_it():
    state = state_of("rounding_pays", 1)
    stops = ("351", "35", "3512", "0", "3514", "3", *(f"351{k}" for k in "678"))
    assert at(state, "351").series.stops == stops


@pytest.mark.parametrize("attempt", SEEDS)
def test_a_turn_keeps_the_squares_and_the_error_falls_by_10_db(attempt):
    for i in (1, 2, 3):
        state = state_of("turn_the_tensor", i, attempt)
        squares = [numbers(state, stop)["squares"] for stop in state.series.stops]
        assert np.allclose(squares, squares[0], rtol=1e-12)
    first = lessons()["turn_the_tensor"].steps[0]
    assert first.questions[0].truth(first.scenes(attempt)) == "same"
    assert numbers(state_of("turn_the_tensor", 3, attempt), "45")["gain_db"] >= 10
    # By hand: two axes turned by 30°.
    state = state_of("turn_the_tensor", 2, attempt)
    x = state.source.tensor().double().numpy()
    c, s = math.cos(math.pi / 6), math.sin(math.pi / 6)
    turned = np.stack([c * x[:, 0] + s * x[:, 1], -s * x[:, 0] + c * x[:, 1]], 1)
    step = np.abs(turned).max() / state.scheme.code_max
    error = np.square(turned - step * np.round(turned / step)).mean()
    assert math.isclose(numbers(state, "30")["turned_mse"], error, rel_tol=1e-3)


def test_an_answer_keeps_the_stop_and_a_strange_one_is_refused():
    state = state_of("loud_activations", 3)
    answer = drag_answer(state, at(state, "0.35"))
    assert answer.endswith("&d=0.35")
    assert dragged(state, answer) == at(state, "0.35")
    (question,) = lessons()["loud_activations"].steps[2].questions
    scenes = lessons()["loud_activations"].steps[2].scenes()
    assert question.takes(answer, scenes)
    for strange in ("0.351", "x" * 99):
        assert not question.takes(answer.replace("0.35", strange), scenes)
    (question,) = lessons()["rounding_pays"].steps[3].questions
    state = state_of("rounding_pays", 4)
    for strange in ("11", "9", "12a", "1.5"):
        with pytest.raises(QuantVizError):
            at(state, strange)
    with pytest.raises(QuantVizError):
        Formula.read("best_alpha").value(lessons()["symmetric"].steps[0].scenes())
