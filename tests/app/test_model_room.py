"""The page of a model that runs through AppTest: what it says is what a run gives."""

import pytest
import streamlit as st

import quantviz as qv
from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import AttentionState
from quantviz.layers.methods.chain import fitting_chains, offered_chains
from quantviz.models.heads import heads_of_model
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, scheme_of_bits
from quantviz.models.predicting import SchemeNumbers, pair_orders, predict_sums, tried_schemes
from quantviz.models.salient_channels import salient_costs
from quantviz.ui.checkpoints import model_room
from quantviz.ui.checkpoints.model_room import state_of_layer
from quantviz.ui.checkpoints.model_state import CACHES, ModelState
from tests.helpers import session
from tests.helpers.controls import words_of
from tests.helpers.session import act, address, bodies, chart, healthy, spec

PAGE = "pages/explore/checkpoints.py"


TWIN = {"f": "model:character_twin", "bits": "3", "part": "attention", "lang": "en"}


def test_the_page_says_what_a_run_gives():
    at = session.opened(PAGE, **TWIN)
    run = qv.run("character_twin", LayerSchemes(scheme_of_bits(3)))
    said = " ".join(bodies(at, ""))
    changed = sum(a != b for a, b in zip(run.written, run.original_choices, strict=True))
    assert said.count("<mark") == changed > 1
    differently = f"it would choose {short_number(1000 * run.changed_choices, 2)} differently"
    loud = "loud: channels 5, 43, 90, 111"
    for each in (differently, short_number(run.loss), short_number(run.kl), loud):
        assert each in said
    fitting = fitting_chains(scheme_of_bits(3), None)
    assert len(words_of(at, "models_method")) == len(fitting) < len(offered_chains())
    act(at, models_part="depth", models_bits=16)
    assert {"bits": "16", "part": "depth"}.items() <= address(healthy(at)).items()


def test_the_head_that_is_looked_at_opens_on_the_page_of_attention():
    at = session.opened(PAGE, **TWIN, layer="2", head="3", kv="int4_token")
    keys, values = CACHES["int4_token"]
    wanted = AttentionState("character_twin", layer=2, keys=keys, values=values, head=3)
    assert address(healthy(act(at, "models_open_head"))) == {**wanted.written(), "lang": "en"}
    heads = heads_of_model("character_twin", 2)
    found = qv.attention(heads.q, heads.k, heads.v, keys, values, mask=heads.mask)
    assert short_number(found.kl) in bodies(at, "qv-large")[0]
    with pytest.raises(qv.QuantVizError, match="layers 0 to 1: got 9"):
        heads_of_model("adder", 9)


def test_the_address_has_the_choices_before_the_run_is_done(monkeypatch):
    seen = []
    whole = model_room.ran

    def noted(model, state):
        seen.append(st.query_params.to_dict())
        return whole(model, state)

    monkeypatch.setattr(model_room, "ran", noted)
    healthy(act(session.opened(PAGE, **TWIN), models_bits=16))
    assert [each["bits"] for each in seen] == ["3", "16"]


def test_the_adder_shows_its_sums_and_what_a_method_or_a_layer_costs():
    at = session.opened(PAGE, f="model:adder", bits="3", part="depth", order="carries", lang="en")
    found = qv.run("adder", LayerSchemes(scheme_of_bits(3))).sums
    field = found.field(by_carries=True)
    shown = bodies(at, "qv-sum-field")[0]
    assert shown.count('class="qv-wrong') == sum(not each.is_right for each in field) > 5
    assert shown.count("<u>") == sum(sum(each.wrong) for each in field)
    one = next(each for each in field if not each.is_right)
    assert f"{one.left}+{one.right}={int(one.answer)} (right: {one.left + one.right})" in shown
    right = f"Of 1,000 sums <b>{found.right}</b> are right"
    low, high = (100 * each for each in found.interval)
    assert right in bodies(at, "qv-sums")[0]
    assert f"({low:.1f} to {high:.1f} %)" in bodies(at, "qv-sums")[0]
    good, every = found.by_carries[3]
    assert bodies(at, f"3: {good} of {every}")
    parts = words_of(at, "models_part")
    assert "Mixed bits" not in parts, "it misleads on sums"
    assert "Which number predicts?" in parts
    said = bodies(healthy(act(at, "models_save")), "qv-sums")[0]
    assert right not in said
    assert f"Rounding to nearest: {found.right}" in said
    assert address(at)["method"] == "gptq"
    name = "model.layers.1.fc2"
    healthy(act(at, models_method="nearest", models_only=name))
    alone = qv.run("adder", ModelSchemes(own={name: LayerSchemes(scheme_of_bits(3))})).sums
    assert f"<b>{alone.right}</b>" in bodies(at, "qv-sums")[0]
    assert address(at)["only"] == name


def test_the_part_on_predictions_says_what_the_schemes_give(monkeypatch):
    """With numbers made up: sums are lost by KL, but for one scheme that has more of both."""
    tried = list(tried_schemes())

    def numbers(key, work):
        k = tried.index(key.removeprefix("adder under "))
        return SchemeNumbers(tried[k], 40.0 - k, 0.001, 0.1 * (k + 1), 600 if k == 61 else 1000 - 15 * k)

    at = session.opened(PAGE, f="model:adder", part="depth", lang="en")
    monkeypatch.setattr(model_room, "job_of", numbers)
    healthy(act(at, models_part="predict"))
    rows = [numbers(f"adder under {name}", None) for name in tried]
    found = predict_sums(rows)
    words = {"kl": "KL", "rel_out": "output error", "weight_db": "weight SQNR"}
    assert words_of(at, "models_predictor") == [f"{words[name]}: {found[name]:.2f}" for name in words]
    dots = [at for trace in spec(at, "models_schemes")["data"] for at in trace["y"]]
    assert sorted(dots) == sorted(each.right for each in rows)
    orders = pair_orders(rows)
    one, other = orders.against[0]
    said = " ".join(each.value for each in at.caption)
    assert f"{len(orders.against)} stand the other way" in said
    assert f"and fewer right sums, {one.right} against {other.right}" in said


@pytest.mark.nightly
def test_each_layer_has_its_cost_and_its_bits():
    at = session.opened(PAGE, f="model:character", part="mix", lang="zh")
    assert spec(at, "models_mix_uniform")["data"][1]["text"] == ["4"] * 24
    assert chart(healthy(act(at, models_part="layers")), "models_map")


@pytest.mark.nightly
def test_salient_channels_have_their_cost():
    table = bodies(session.opened(PAGE, **TWIN | {"part": "salient"}), "qv-mixes")[0]
    costs = salient_costs("character_twin", scheme_of_bits(3))
    most = min(max(each.kl for each in costs.values()), 3 * costs["nothing"].kl)
    for cost in costs.values():
        width = f"{100 * min(cost.kl / most, 1):.4g}"
        assert f'width:{width}%"></i></td><td>{short_number(cost.kl)}</td>' in table
    assert "scaled × 4: largest inputs" in table


def test_a_layer_of_a_model_opens_from_its_link():
    link = state_of_layer("character_twin", "model.layers.0.fc1", ModelState()).written()
    at = session.opened("pages/explore/layers.py", **link, lang="en")
    assert bodies(at, "Twin with loud channels, layers.0.fc1</h1>")
    assert link.items() <= address(at).items()
