"""Published models in the Lab: pasting an address, choosing a file and a tensor, and what a hub refuses."""

import pytest
import safetensors.torch
import torch

from quantviz.sources.hubs import models
from quantviz.sources.hubs.hosts import HUBS
from tests.helpers.hub import COMMIT, REPO, serving
from tests.helpers.session import address, healthy, opened

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


def input_errors(at):
    assert not at.exception
    return [element.value.replace("\\", "") for kind in ("error", "warning") for element in at.get(kind)]


def pasted(at, words):
    return at.text_input(key="hub_address").set_value(words).run()


def test_a_models_address_leads_to_its_tensors(hub):
    at = healthy(opened().selectbox(key="kind").set_value("hub").run())
    at = healthy(pasted(at, f"{hub.origin}/{REPO}"))
    assert (shown(at).file, shown(at).name, shown(at).shape) == ("model.safetensors", "b.weight", (12, 12))
    assert at.selectbox(key="hub_file").options == ["model.safetensors", "sub/other.safetensors"]
    at = healthy(at.selectbox(key="hub_tensor").set_value("c.weight").run())
    assert shown(at).shape == (8, 9)
    at = healthy(at.selectbox(key="hub_file").set_value("sub/other.safetensors").run())
    assert shown(at).name == "d.weight"
    link = address(at)
    assert link["t"] == f"hub({REPO}@{COMMIT},sub/other.safetensors,d.weight,9x9)"
    at = healthy(opened(**link))
    assert at.selectbox(key="hub_tensor").value == "d.weight"
    assert at.text_input(key="hub_address").value == f"{REPO}@{COMMIT}"
    # What cannot be had is said beside the field, and what was open stays.
    at = pasted(at, "https://elsewhere.example/a/b")
    (said,) = input_errors(at)
    assert "does not ask the host 'elsewhere.example'" in said
    assert shown(at).name == "d.weight"


def test_a_hub_that_lies_is_told_and_asked_no_more(hub):
    at = opened().selectbox(key="kind").set_value("hub").run()
    hub.lie = "401"
    at = pasted(at, f"{hub.origin}/{REPO}/blob/main/sub/other.safetensors")
    (said,) = input_errors(at)
    assert "only to people who are logged in" in said
    before = len(hub.asked)
    at = at.run()
    assert len(hub.asked) == before
    hub.lie = ""
    at = healthy(pasted(at, f"{hub.origin}/{REPO}/blob/main/sub/other.safetensors "))
    assert shown(at).name == "d.weight"


def test_a_link_whose_hub_fails_opens_the_first_screen_and_says_why(hub, monkeypatch):
    hub.lie = "cut"
    form = f"hub({REPO}@{COMMIT},model.safetensors,b.weight,12x12)"
    at = opened(t=form)
    (said,) = input_errors(at)
    assert "broke the connection off" in said
    assert shown(at).id == "builtin"
    monkeypatch.delenv(HUBS)
    at = opened(t=form)
    (said,) = input_errors(at)
    assert "this server opens none" in said
    assert "A published model" not in at.selectbox(key="kind").options


def test_a_tensor_that_does_not_come_leaves_the_one_before(hub):
    holed = torch.ones(9, 9)
    holed[2, 3] = float("nan")
    hub.files["model.safetensors"] = safetensors.torch.save(
        {"a": torch.eye(12), "b": torch.zeros(1200, 1024), "c": torch.eye(20), "d": holed}
    )
    at = opened().selectbox(key="kind").set_value("hub").run()
    at = healthy(pasted(at, f"{hub.origin}/{REPO}"))
    before = shown(at)
    assert before.name == "a"
    hub.lie = "cut"
    at = at.selectbox(key="hub_tensor").set_value("c").run()
    (said,) = input_errors(at)
    assert "broke the connection off" in said
    assert (shown(at), at.selectbox(key="hub_tensor").value) == (before, "a")
    hub.lie = ""
    at = healthy(at.selectbox(key="hub_tensor").set_value("c").run())
    assert shown(at).shape == (20, 20)
    # NaN in it waits for a choice, as in a file.
    at = at.selectbox(key="hub_tensor").set_value("d").run()
    assert shown(at).name == "c"
    at = healthy(at.radio(key="nonfinite_page").set_value("ignore").run())
    assert (shown(at).name, at.session_state["lab_state"].now.scheme.nonfinite) == ("d", "ignore")
