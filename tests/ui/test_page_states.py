"""The states of all pages: what is declared of one is enough for its links, its steps and its words."""

import dataclasses
import itertools
from collections import defaultdict
from urllib.parse import parse_qsl

import pytest

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.lab import layer_state
from quantviz.lab.classroom import (
    CLOSED,
    GROUPS,
    HIDEABLE,
    LONGEST_PROMPT,
)
from quantviz.lab.layer_sources import OwnLayer, write_layer
from quantviz.lab.layer_state import LayerState
from quantviz.lab.page_state import History
from quantviz.lab.state import LabState
from quantviz.layers.built_in import BuiltInLayer
from quantviz.models.predicting import tried_schemes
from quantviz.quantization.format_facts import format_facts, land
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.recipes import RECIPES
from quantviz.sources.upload import Upload
from quantviz.teaching.golf import GolfRound
from quantviz.text import catalogue, languages
from quantviz.ui.checkpoints.model_room import state_of_layer
from quantviz.ui.checkpoints.model_state import ModelState, state_of
from quantviz.ui.checkpoints.state import CheckpointsState
from quantviz.ui.formats import page as formats
from quantviz.ui.formats.state import FormatsState, can_be_one, code_shown
from quantviz.ui.gallery.state import GalleryState
from quantviz.ui.layers.scaling_pictures import WORSE, set_field
from quantviz.ui.layers.state import OWNER
from quantviz.ui.lessons.page import STATES
from quantviz.ui.shell import words
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
        known = catalogue(language)
        for parameter in kind.parameters():
            assert f"errors.link.names.{kind.page}_{parameter}" in known, (parameter, language)


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


def test_the_facts_of_formats_brought_to_one_are_in_the_same_unit(monkeypatch):
    monkeypatch.setattr(words, "language", lambda: "en")
    facts = formats._facts(FORMATS["int4"], 0.3, 7.0)
    told = {name: facts[name] for name in ("largest", "lowest", "smallest_positive", "gap")}
    assert told == dict(zip(told, ("1", "−1.14286", "0.142857", "0.142857"), strict=True))
    assert "after 1 the next would be 1.07143" in formats._end_words(FORMATS["float8_e4m3fn"], 448.0)


@pytest.mark.parametrize(
    ("name", "otherwise"), [("float8_e4m3fn", "would become NaN"), ("float8_e5m2", "would become Inf")]
)
def test_beyond_the_ends_a_number_is_held_and_no_gap_told(monkeypatch, name, otherwise):
    monkeypatch.setattr(words, "language", lambda: "en")
    fmt = FORMATS[name]
    said = formats.landing_words(fmt, land(1e6, fmt), "even")
    assert f"stays at **{number(format_facts(fmt).largest, 9)}**" in said
    assert otherwise in said
    assert [formats._facts(fmt, x, 1)["gap"] == "–" for x in (1e6, 1.0)] == [True, False]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("two", "'two' is not a number"),
        ("inf", "table of codes below"),
        ("", "You have not typed a number yet"),
        ("1/0", "divides by zero"),
    ],
)
def test_what_is_typed_and_gives_no_number_is_a_sentence(typed, words):
    with pytest.raises(qv.QuantVizError, match=words):
        FormatsState.opening().reached("x", typed)


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


def test_each_scheme_that_was_tried_is_a_state_of_the_page():
    for name, tried in tried_schemes().items():
        again = state_of(tried).schemes()
        assert (again.keys, again.values) == (tried.keys, tried.values), name
        layers = again.layers
        if tried.layers.weights is None:
            layers = dataclasses.replace(layers, weights=None)
        assert layers == tried.layers, name


def test_a_state_is_one_that_its_model_can_have():
    state = ModelState(part="mix", layer=3, only="model.layers.3.fc1", colour="sums_lost")
    assert state.fitting("character") == state.replace(colour="kl_alone")
    assert state.fitting("adder") == ModelState(layer=1)
    assert ModelState(only="lm_head").fitting("adder").schemes().by_name.keys() == {"lm_head"}
    assert ModelState(part="predict").fitting("character_twin").part == "layers"


def test_the_states_that_the_lessons_lead_to_are_addresses_of_their_pages():
    for page, parameters in STATES.values():
        if page == "pages/explore/checkpoints.py":
            state, wrong = CheckpointsState.read(parameters)
            assert state.written() == parameters
        else:
            state, wrong = LayerState.read(parameters)
            assert state.written()["t"] == parameters["t"]
        assert not wrong


@pytest.mark.parametrize("bits", [16, 4, 3])
def test_a_layer_opens_under_the_schemes_of_its_model(bits):
    state = ModelState(bits, "g32", "gptq", "int8_token")
    found = state_of_layer("character_twin", "model.layers.2.fc2", state)
    assert LayerState.read(found.written()) == (found, ())
    weights, inputs = found.pair.schemes()
    schemes = state.schemes().layers
    assert weights == (None if bits == 16 else schemes.weights)
    assert inputs == schemes.inputs
    assert found.method == ("nearest" if bits == 16 else "gptq")
    if bits == 4:
        assert str(found.pair) == "int4_g32!int8_per_row"


def test_a_link_of_uploads_opens_the_persons_own_layer_or_none_of_its_places():
    big = BuiltInLayer("minilm_0_output")
    own = OwnLayer(Upload("00", "w.npy", (5, 4)), Upload("01", "x.npy", (6, 4)))
    link = {"l": write_layer(own), "w": "int4_per_row", "c": "2.1", "v": "0.4_0.2_0.3", "z": "9.0_1.0_1.0"}
    codecs = OWNER.codecs(LayerState(source, layer_state.PAIRS["w8a32"]) for source in (own, big))
    found, problems = LayerState.read(link, **codecs)
    assert (found.source, found.cell, problems) == (own, (2, 1), ())
    stranger, (problem,) = LayerState.read(link)
    assert problem.key == "link.part"
    assert stranger == LayerState.opening().replace(pair=stranger.pair)
    assert stranger.pair.weights == "int4_per_row"


def test_fields_of_a_chain_that_are_set_one_after_the_other_are_all_kept(monkeypatch):
    """Also where the page was not shown in between."""
    held = [LayerState.read({"m": "smoothquant+llm_int8"})[0]]
    monkeypatch.setattr(type(OWNER), "state", property(lambda _: held[-1]))
    monkeypatch.setattr(OWNER, "put", held.append)
    set_field("smoothquant", "alpha", 0.3)
    set_field("llm_int8", "threshold", 4.0)
    assert held[-1].method == "smoothquant(alpha=0.3)+llm_int8(threshold=4.0)"


def test_smoothquant_leads_to_a_layer_that_it_makes_worse():
    worse, problems = LayerState.read({**WORSE, "m": "smoothquant"})
    assert not problems
    assert worse.source == BuiltInLayer("minilm_0_output")
    assert worse.pair.schemes() == (RECIPES["int8_per_row"], RECIPES["int8_per_tensor"])


@pytest.mark.parametrize(
    "damaged",
    [
        {"class": "no-q.no-tile$"},
        {"opens": "everything"},
        {"opens": "lesson", "lesson": "nonsense"},
        {"opens": "lesson", "lesson": "symmetric", "step": "99"},
        {"opens": "scenario", "example": "nonsense"},
        {"for": "xx"},
        {"prompt": "?" * (LONGEST_PROMPT + 1)},
    ],
    ids=lambda damaged: "-".join(damaged),
)
def test_a_damaged_address_hands_out_nothing_that_was_left_out(damaged):
    choice, problems = TeacherState.read({"class": "no-q", **damaged})
    assert problems
    assert choice.room.hidden == CLOSED.hidden


def test_everything_that_can_be_left_out_is_offered_once_and_has_its_words():
    offered = list(itertools.chain(*GROUPS.values()))
    assert sorted(offered) == sorted(HIDEABLE)
    for language in languages():
        words = catalogue(language)
        for part in offered:
            assert f"{part}.name" in words or f"teacher.parts.{part}" in words or part == "recipes", part
        assert all(f"teacher.groups.{group}" in words for group in GROUPS)
