"""The dials of caches, learning, training and costs: their numbers by other ways, and what is promised."""

import math

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.models.head_rounding import AttentionOptions
from quantviz.schemes.granularity import PerBlock
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.formulas import HERE
from quantviz.teaching.lessons.learning_dials import learned
from quantviz.teaching.lessons.training_dials import gradients
from quantviz.ui.checkpoints.model_state import RUNNING, ModelState

#: The step's own seed, and two of "once more".
SEEDS = range(3)


def state_of(name, step, attempt=0):
    return lessons()[name].steps[step - 1].scenes(attempt)[HERE].state


def numbers_of(name, step, attempt=0):
    series = state_of(name, step, attempt).series
    return dict(zip(series.stops, series.numbers, strict=True))


@pytest.mark.parametrize("attempt", SEEDS)
def test_keys_want_a_scale_per_channel_and_values_one_per_token(attempt):
    state = state_of("kv_cache", 1, attempt)
    k, v, q = (source.tensor() for source, _ in ((state.source, None), *state.beside))
    found = numbers_of("kv_cache", 1, attempt)
    assert found["32"]["key_error"] < 0.1 * found["1"]["key_error"]
    assert found["1"]["value_error"] < 0.3 * found["32"]["value_error"]
    scheme = Scheme("int4", granularity=PerBlock(8, 4))
    before, after = qv.attention(q, k, v, scheme, mask="causal").output
    errors = [float((b - a).norm() / b.norm()) ** 2 for b, a in zip(before[0], after[0], strict=True)]
    assert found["8"]["key_error"] == pytest.approx(100 * sum(errors) / len(errors))


@pytest.mark.parametrize("attempt", SEEDS)
def test_keys_less_their_mean_are_best(attempt):
    found = numbers_of("kv_cache", 3, attempt)
    assert all(each["centred_error"] < 0.4 * each["key_error"] for each in found.values())
    state = state_of("kv_cache", 3, attempt)
    k, _, q = (source.tensor() for source, _ in ((state.source, None), *state.beside))
    options = AttentionOptions(center=True)
    moved = qv.attention(q, k - k.mean(0), keys="int4_per_token", mask="causal").weights.after
    assert torch.allclose(
        qv.attention(q, k, keys="int4_per_token", mask="causal", options=options).weights.after, moved
    )


def test_the_cache_has_the_bytes_of_its_numbers():
    found = numbers_of("kv_cache", 2)
    assert found["4096"]["cache_16"] == pytest.approx(2 * 32 * 4096 * 4096 * 2 / 1e9)
    # int4, and a scale of 16 bits for 32 of them.
    assert found["4096"]["cache_rounded"] == pytest.approx(found["4096"]["cache_16"] * 4.5 / 16)
    assert found["512"]["cache_16"] < found["512"]["weights_rounded"] < found["131072"]["cache_rounded"]


@pytest.mark.parametrize("attempt", SEEDS)
def test_a_weight_swings_about_an_edge_at_any_rate(attempt):
    state = state_of("learning_on_stairs", 2, attempt)
    w = start = float(state.source.tensor()[0, 0])
    (way,), _ = learned((state.source, state.scheme), (0.1,), 30)
    for step in range(31):
        assert way[step] == pytest.approx(w, abs=1e-6)
        w -= 0.1 * 2 * (math.floor(w + 0.5) - 2.6)
    found = numbers_of("learning_on_stairs", 2, attempt)
    assert all(each["upper_share"] == 0.6 for each in found.values())
    assert found["0.02"]["swing"] < 0.1 * found["0.4"]["swing"]
    pressed = numbers_of("learning_on_stairs", 1, attempt)
    assert pressed["0"]["w_straight"] == pytest.approx(start)


def test_small_updates_vanish_under_nearest_and_arrive_by_chance():
    for size, each in numbers_of("learning_on_stairs", 3).items():
        assert each["nearest_moved"] == (100 if float(size) > 0.5 else 0)
        spread = math.sqrt(100 * float(size) * (1 - float(size)))
        assert abs(each["chance_moved"] - each["wanted"]) < 3 * spread


@pytest.mark.parametrize("attempt", SEEDS)
def test_gradients_sink_below_the_formats(attempt):
    found = numbers_of("training_in_few_bits", 1, attempt)
    state = state_of("training_in_few_bits", 1, attempt)
    every = gradients(state.source)
    shares = [each["zeroed_e5m2"] for each in found.values()]
    assert shares[-1] > 2 * shares[0]
    for values, share in zip(every, shares, strict=True):
        assert share == pytest.approx(
            100 * float((torch.tensor(values).to(torch.float8_e5m2).float() == 0).float().mean())
        )
    scaled = numbers_of("training_in_few_bits", 2, attempt)
    assert scaled["0"]["wrong_e4m3"] > 90
    assert scaled["30"]["wrong_e4m3"] > 90
    assert scaled[f"{scaled['0']['best_power']:g}"]["wrong_e4m3"] <= 0.5


def test_the_numbers_of_costs_are_those_of_the_core():
    times = numbers_of("bits_to_spend", 1)
    assert times["1"]["time_packed"] == pytest.approx(times["1"]["time_16"] / 4)
    assert times["1024"]["time_packed"] > times["1024"]["time_16"]
    errors = numbers_of("bits_to_spend", 2)
    assert errors["16"]["seen_error"] < 0.1 * errors["16"]["nearest_error"] < errors["16"]["other_error"]
    assert errors["16"]["other_error"] > errors["16"]["nearest_error"] > 2 * errors["1024"]["other_error"]
    sums = numbers_of("bits_to_spend", 4)
    assert (
        sums["3"]["sums_right"]
        == qv.run("adder", "int3,symmetric,per_channel,min_max,course").sums.right
        < 990
        <= sums["4"]["sums_right"]
    )


@pytest.mark.parametrize(
    ("name", "step"), [("kv_cache", 1), ("kv_cache", 2), ("bits_to_spend", 2), ("bits_to_spend", 4)]
)
def test_a_step_leads_to_its_model(name, step):
    series = state_of(name, step).series
    page, link = series.app(series.stops[-1])
    own = {key: value for key, value in link.items() if key != "f"}
    state, problems = ModelState.read(own)
    assert page == "pages/explore/checkpoints.py"
    assert link["f"] in RUNNING
    assert problems == ()
    assert {key: state.written()[key] for key in own} == own
    assert np.all(np.diff([float(stop) for stop in series.stops]) > 0)
