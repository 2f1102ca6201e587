"""Published models in the Lab: pasting an address, choosing a file and a tensor, and what a hub refuses."""

import pytest
import safetensors.torch
import torch

from quantviz.sources.hubs import models
from quantviz.sources.hubs.hosts import HUBS
from tests.helpers.controls import value_of, words_of
from tests.helpers.hub import COMMIT, REPO, serving
from tests.helpers.session import act, address, healthy, opened, told

#: The first one is no matrix, so that it is not looked at first.
MODEL = safetensors.torch.save(
    {"a.bias": torch.ones(12), "b.weight": torch.eye(12), "c.weight": torch.zeros(8, 9)}
)
OTHER = safetensors.torch.save({"d.weight": torch.ones(9, 9)})


@pytest.fixture
def hub(tmp_path, monkeypatch):
    models._found_once.cache_clear()
    models._catalog.cache_clear()
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path))
    with serving({"model.safetensors": MODEL, "sub/other.safetensors": OTHER}) as hub:
        monkeypatch.setenv(HUBS, hub.origin)
        yield hub


def shown(at):
    return at.session_state["lab_state"].now.source


def complaints(at):
    return told(at, "error") + told(at, "warning")


def test_a_models_address_leads_to_its_tensors(hub):
    at = act(opened(), kind="hub", hub_address=f"{hub.origin}/{REPO}")
    assert (shown(at).file, shown(at).name, shown(at).shape) == ("model.safetensors", "b.weight", (12, 12))
    assert words_of(at, "hub_file") == ["model.safetensors", "sub/other.safetensors"]
    assert shown(act(at, hub_tensor="c.weight")).shape == (8, 9)
    assert shown(act(at, hub_file="sub/other.safetensors")).name == "d.weight"
    link = address(healthy(at))
    assert link["t"] == f"hub({REPO}@{COMMIT},sub/other.safetensors,d.weight,9x9)"
    at = opened(**link)
    assert value_of(at, "hub_tensor") == "d.weight"
    assert value_of(at, "hub_address") == f"{REPO}@{COMMIT}"
    # What cannot be had is said beside the field, and what was open stays.
    act(at, hub_address="https://elsewhere.example/a/b")
    assert "does not ask the host 'elsewhere.example'" in complaints(at)
    assert shown(at).name == "d.weight"


def test_a_hub_that_lies_is_told_and_asked_no_more(hub):
    at = act(opened(), kind="hub")
    hub.lie = "401"
    file = f"{hub.origin}/{REPO}/blob/main/sub/other.safetensors"
    act(at, hub_address=file)
    assert "only to people who are logged in" in complaints(at)
    before = len(hub.asked)
    at.run()
    assert len(hub.asked) == before
    hub.lie = ""
    assert shown(healthy(act(at, hub_address=f"{file} "))).name == "d.weight"


def test_a_link_whose_hub_fails_opens_the_first_screen_and_says_why(hub, monkeypatch):
    hub.lie = "cut"
    form = f"hub({REPO}@{COMMIT},model.safetensors,b.weight,12x12)"
    at = opened(t=form)
    assert "broke the connection off" in complaints(at)
    assert shown(at).id == "builtin"
    monkeypatch.delenv(HUBS)
    at = opened(t=form)
    assert "this server opens none" in complaints(at)
    assert "A published model" not in words_of(at, "kind")


def test_a_tensor_that_does_not_come_leaves_the_one_before(hub):
    holed = torch.ones(9, 9)
    holed[2, 3] = float("nan")
    tensors = {"a": torch.eye(12), "b": torch.zeros(1200, 1024), "c": torch.eye(20), "d": holed}
    hub.files["model.safetensors"] = safetensors.torch.save(tensors)
    at = healthy(act(opened(), kind="hub", hub_address=f"{hub.origin}/{REPO}"))
    assert shown(at).name == "a"
    hub.lie = "cut"
    act(at, hub_tensor="c")
    assert "broke the connection off" in complaints(at)
    assert (shown(at).name, value_of(at, "hub_tensor")) == ("a", "a")
    hub.lie = ""
    assert shown(healthy(act(at, hub_tensor="c"))).shape == (20, 20)
    # NaN in it waits for a choice, as in a file.
    assert shown(act(at, hub_tensor="d")).name == "c"
    healthy(act(at, nonfinite_page="ignore"))
    assert (shown(at).name, at.session_state["lab_state"].now.scheme.nonfinite) == ("d", "ignore")
