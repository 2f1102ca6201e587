"""A browser fetches the script of a component by an address of its own, and keeps it."""

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from quantviz.browser import FOLDER, read_script
from quantviz.ui.shell.server import script_address, script_routes


@pytest.fixture
def client():
    return TestClient(Starlette(routes=script_routes()))


def test_every_script_is_sent_and_kept(client):
    for name in (path.stem for path in FOLDER.glob("*.js")):
        answer = client.get(script_address(name))
        assert (answer.status_code, answer.text) == (200, read_script(name))
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "file", ["hand_component-0000000000000000.js", "hand_component.js", "..%2Fapp-0.js", "none-0.js", "-"]
)
def test_nothing_else_is_sent(client, file):
    assert client.get(f"/scripts/{file}").status_code == 404


def test_the_scripts_lie_below_the_app_s_own_address(monkeypatch):
    monkeypatch.setattr(st, "get_option", lambda name: "quant/bits" if name == "server.baseUrlPath" else None)
    assert [route.path for route in script_routes()] == ["/quant/bits/scripts/{file}"]
