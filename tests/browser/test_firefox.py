"""Live files in Firefox, from a disk: their codes and outputs are the reference's there too."""

from urllib.parse import parse_qs, urlsplit

import pytest
import torch

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.lab.layer_state import SchemePair
from quantviz.lab.state import opening
from quantviz.live.hand_words import Looks
from quantviz.live.standalone import LivePage, LivePages
from tests.helpers.firefox import Firefox, firefox_path
from tests.helpers.live_files import STANDS, layer_page

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(firefox_path() is None, reason="no Firefox found; install Debian's firefox-esr"),
]
STATE = opening()
STOOD = f"({STANDS})()"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    opened = Firefox(tmp_path_factory.mktemp("firefox"))
    yield opened
    opened.close()


def opened(firefox, folder, live):
    path = folder / "page.html"
    path.write_text(live.html(), encoding="utf-8")
    firefox.open(path.as_uri(), STOOD)


def chosen(firefox):
    firefox.wait(lambda: "manual_range" in firefox.evaluate("location.hash"))
    return qv.Scheme.parse(parse_qs(urlsplit(firefox.evaluate("location.href")).fragment)["s"][0])


def test_a_tensor_s_codes_after_a_drag(firefox, tmp_path):
    opened(
        firefox, tmp_path, LivePage(Study.of(STATE.source.open(), STATE.scheme), "x", STATE.cell, Looks("en"))
    )
    firefox.drag("[data-handle=hi]", 8, -200, 0)
    codes = qv.quantize(STATE.source.tensor(), chosen(firefox)).q
    assert firefox.evaluate("Array.from(quantvizPage.hand.shown.q)") == codes.flatten().tolist()


def test_a_layer_s_outputs_after_a_drag(firefox, tmp_path):
    live = layer_page("loud_input", SchemePair("int8_per_tensor", "int4_per_tensor"))
    opened(firefox, tmp_path, live)
    firefox.drag(".qv-towers", 8, 0, 37)
    made = live.hand.unchanged().result("int8_per_tensor", chosen(firefox))
    outputs = made.cells(slice(None), slice(None)).y_hat
    assert firefox.evaluate("Array.from(quantvizPage.shown.yHat)") == outputs.flatten().tolist()


def test_schemes_beside_each_other(firefox, tmp_path):
    schemes = [STATE.scheme, qv.RECIPES["int8_per_tensor"]]
    studies = [Study.of(STATE.source.open(), each) for each in schemes]
    pages = [LivePage(each, "x", STATE.cell, Looks("en")) for each in studies]
    opened(firefox, tmp_path, LivePages(tuple(pages), "x"))
    codes = firefox.evaluate(
        "quantvizPage.frames.map(({contentWindow: w}) => Array.from(w.quantvizPage.hand.shown.q))"
    )
    assert [torch.tensor(each).tolist() for each in codes] == [
        each.result.q.flatten().tolist() for each in studies
    ]
