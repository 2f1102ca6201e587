"""The front door through AppTest: what is on it, where its doors lead, and which addresses are the Lab's."""

import io

import numpy as np
import pytest
from PIL import Image

from quantviz.lab.state import has_state, opening
from quantviz.sources import Builtin
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import catalogue
from tests.helpers.controls import value_of
from tests.helpers.session import act, address, arrived, bodies, bring, healthy, lab_state, npz, panels, told

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


def test_a_file_at_the_door_opens_in_the_lab_with_all_its_tensors():
    first, second = at_the_root(), at_the_root()
    two = npz(first=np.eye(3, dtype=np.float32), second=np.ones(4, np.float32))
    bring(first, "drop_anywhere", {"two.npz": two})
    assert not is_home(first)
    assert lab_state(first).source.shape == (3, 3)
    # The Lab's own controls go on with the file: its other tensor is there to be chosen.
    assert lab_state(act(first, file_tensor="second")).source.shape == (4,)
    assert not is_home(first)
    # What was dropped by one reaches no other.
    second.switch_page("pages/lab/playground.py").run()
    assert lab_state(second).source == Builtin("loud_column")
    # A picture is opened as a picture.
    data = io.BytesIO()
    Image.new("L", (6, 4), 90).save(data, "PNG")
    at = bring(at_the_root(), "drop_anywhere", {"grey.PNG": data.getvalue()})
    assert lab_state(at).source.shape == (4, 6)
    assert value_of(at, "kind") == "image"


def test_a_file_that_is_no_tensor_is_refused_at_the_door():
    at = bring(at_the_root(lang="en"), "drop_anywhere", {"notes.txt": b"hello"})
    assert is_home(at)
    assert not at.exception
    assert "notes" in told(at, "error")
