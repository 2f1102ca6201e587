"""The states of all pages: what is declared of one is enough for its links, its steps and its words."""

import dataclasses
from collections import defaultdict
from urllib.parse import parse_qsl

import pytest

from quantviz.lab.layer_state import LayerState
from quantviz.lab.page_state import History
from quantviz.lab.state import LabState
from quantviz.quantization.format_facts import land
from quantviz.schemes.formats import FORMATS
from quantviz.teaching.golf import GolfRound
from quantviz.text import catalogue, languages
from quantviz.ui.checkpoints.state import CheckpointsState
from quantviz.ui.formats.state import FormatsState, can_be_one, code_shown
from quantviz.ui.gallery.state import GalleryState
from quantviz.ui.teacher.state import TeacherState
from tests.witnesses.record import recorded

KINDS = (LabState, LayerState, FormatsState, GalleryState, GolfRound, CheckpointsState, TeacherState)
BY_PAGE = {kind.page: kind for kind in KINDS}


@pytest.fixture(scope="module")
def states():
    """The states of each page that the recorded links have, each once, in their order."""
    found = defaultdict(list)
    for link in recorded():
        page, _, query = link.partition("?")
        if page in BY_PAGE:
            state, _ = BY_PAGE[page].read(dict(parse_qsl(query, keep_blank_values=True)))
            found[page] += [] if state in found[page] else [state]
    return found


@pytest.mark.parametrize("page", BY_PAGE)
def test_a_state_is_read_as_it_was_written(states, page):
    """A link leaves out what means nothing beside the rest, such as the recipe of no other scan."""
    assert len(states[page]) > 8
    for state in states[page]:
        found, problems = type(state).read(state.written())
        assert (found.written(), problems) == (state.written(), ())


@pytest.mark.parametrize("page", BY_PAGE)
def test_steps_are_undone_and_done_again(states, page):
    """The browser's Back and Forward, which know links alone, lead the same way."""
    steps = [state for state in states[page] if state.written()][:12]
    history = History(steps[0])
    for state in steps[1:]:
        history = history.take(state)
    for _ in range(history.done):
        back = history.undo()
        assert back.now == history.follow(back.now.written()).now
        assert back.redo().now.written() == history.now.written()
        history = back
    assert history.now.written() == steps[0].written()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not GolfRound])
def test_each_parameter_has_its_words(kind):
    """Golf names its tries."""
    for language in languages():
        words = catalogue(language)
        for parameter in kind.parameters():
            assert f"errors.link.names.{kind.page}_{parameter}" in words, (parameter, language)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_frozen(kind):
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind.opening().page = "other"


def test_a_number_keeps_its_place_when_its_format_is_brought_to_one():
    state, _ = FormatsState.read({"a": "int4", "b": "nf4", "x": "3"})
    one = state.reached("to_one", "1")
    assert (one.x, code_shown(one)) == (3 / 7, 3)
    # A bit of the code: it is the code of the format itself.
    seven = one.with_code(7)
    assert (seven.x, code_shown(seven), seven.reached("to_one", "").x) == (1, 7, 7)
    wide, _ = FormatsState.read({"a": "float16", "b": "int4", "x": "3", "n": "1"})
    assert not can_be_one(wide)
    assert code_shown(wide) == land(3.0, FORMATS["float16"]).code


def test_a_code_that_is_no_number_is_in_the_link_until_another_number_is_typed():
    state = FormatsState.read({"a": "float8_e4m3fn", "x": "448"})[0].with_code(0x7F)
    assert state.written()["c"] == "7f"
    assert code_shown(FormatsState.read(state.written())[0]) == 0x7F
    assert "c" not in state.reached("x", "1").written()


def test_a_seed_is_kept_in_the_link_and_dropped_with_the_bug():
    random = {"bug": "int8_difference_wraps", "case": "random"}
    state, _ = GalleryState.read(random)
    seeded = state.reached("seed", "7")
    assert seeded.written() == {**random, "seed": "7"}
    assert seeded.reached("bug", "error_sign").written() == {"bug": "error_sign", "at": "0.01"}
