"""The front door through AppTest: what is on it, where its doors lead, and which addresses are the Lab's."""

import io
import math

import numpy as np
import pytest
from PIL import Image

import quantviz as qv
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.lab.state import has_state, opening
from quantviz.quantization.quantizer import quantize
from quantviz.sources import Builtin
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import catalogue
from quantviz.ui.home.page import TOYS
from tests.helpers.controls import value_of
from tests.helpers.session import act, address, arrived, bodies, bring, healthy, panels, told

#: Where each door leads.
DOORS = {"lessons": "learn", "checkpoints": "explore", "teacher": "teach"}


def at_the_root(**params):
    return healthy(arrived(**params))


def is_home(at):
    return bool(bodies(at, "qv-headline"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_front_door_says_what_this_is_and_has_three_doors(language):
    at = at_the_root(lang=language)
    words = catalogue(language)
    said = " ".join(element.proto.body for element in at.get("html"))
    for key in ("headline", "question", "sentence"):
        assert words[f"home.{key}"] in said
    doors = {link.proto.page: link.proto.label for link in at.get("page_link")}
    for page, name in DOORS.items():
        assert words[f"home.doors.{name}.name"] in doors[page]
    assert address(at) == {"lang": language}
    assert not at.sidebar.children, "a sidebar with something in it would be shown"


def test_every_part_of_a_state_and_a_class_opens_the_lab():
    assert is_home(at_the_root(lang="zh", utm_source="mail"))
    state = opening("picture").replace(
        held=0.2, compared="all", error_view=list(ERROR_VIEWS)[1], error_range="fit"
    )
    link = state.written()
    assert {"v", "t", "s", "c", "e", "r", "h", "m", "x"} <= link.keys()
    for name, value in link.items():
        assert has_state({name: value}), name
    for params in (link, {"k": "no-below"}):
        at = at_the_root(**params)
        assert not is_home(at)
        assert len(panels(at)) == 4
        assert address(at).items() >= params.items(), "the address reopens the state"


def test_the_doors_have_the_toys_size_as_the_metrics_count_it():
    for toy in TOYS.values():
        cells = math.prod(toy.source.shape)
        for scheme, (before, after) in zip(toy.schemes, toy.sizes(), strict=True):
            assert before == 4 * cells
            assert after == pytest.approx(bits_per_element(scheme, toy.source.shape) * cells / 8)


def test_the_toys_show_what_they_are_there_for():
    picture, row = TOYS["picture"], TOYS["row"]
    assert picture.source.tensor().max() == 255
    exact = qv.quantize(picture.source.tensor(), picture.schemes[-1])
    assert not exact.error.any(), "with 8 bits the picture is the original"
    assert len(qv.quantize(picture.source.tensor(), qv.Scheme("uint3")).x_hat.unique()) == 8
    result = qv.quantize(row.source.tensor(), qv.Scheme("int4"))
    assert int((result.x_hat == 0).sum()) == 25, "the hint in the Lab says so"
    grouped = qv.quantize(row.source.tensor(), qv.Scheme("int4", granularity=qv.PerGroup(8)))
    assert int((grouped.x_hat == 0).sum()) < 10


def test_a_file_at_the_door_opens_in_the_lab_with_all_its_tensors():
    first, second = at_the_root(), at_the_root()
    data = io.BytesIO()
    np.savez(data, first=np.eye(3, dtype=np.float32), second=np.ones(4, np.float32))
    bring(first, "drop_anywhere", {"two.npz": data.getvalue()})
    assert not is_home(healthy(first))
    assert first.session_state["lab_state"].now.source.shape == (3, 3)
    # The Lab's own controls go on with the file: its other tensor is there to be chosen.
    assert act(first, file_tensor="second").session_state["lab_state"].now.source.shape == (4,)
    assert not is_home(healthy(first))
    # What was dropped by one reaches no other.
    second.switch_page("pages/lab/playground.py").run()
    assert second.session_state["lab_state"].now.source == Builtin("loud_column")
    # A picture is opened as a picture.
    data = io.BytesIO()
    Image.new("L", (6, 4), 90).save(data, "PNG")
    at = bring(at_the_root(), "drop_anywhere", {"grey.PNG": data.getvalue()})
    assert at.session_state["lab_state"].now.source.shape == (4, 6)
    assert value_of(at, "kind") == "image"


def test_a_file_that_is_no_tensor_is_refused_at_the_door():
    at = bring(at_the_root(lang="en"), "drop_anywhere", {"notes.txt": b"hello"})
    assert is_home(at)
    assert not at.exception
    assert "notes" in told(at, "error")


def test_the_number_explained_at_first_differs_at_every_number_of_bits():
    toy = TOYS["picture"]
    x = toy.source.tensor()
    found = [float(quantize(x, scheme).x_hat[toy.cell]) for scheme in toy.schemes]
    assert len(set(found)) == len(found)
    far = [abs(value - float(x[toy.cell])) for value in found[:5]]
    assert far == sorted(set(far), reverse=True)
