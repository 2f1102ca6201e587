"""The state of the page of layers: its link, and the schemes that stand in for others."""

import pytest

from quantviz.lab.layer_moves import moved_layer
from quantviz.lab.layer_state import (
    AS_IT_IS,
    COMPARED,
    INPUTS,
    MOST_PAIRS,
    PAIRS,
    WEIGHTS,
    LayerPart,
    LayerState,
    SchemePair,
    pairs_compared,
    usual_pair,
)
from quantviz.lab.page_state import LONGEST, History
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.layers.operands import scheme_of

BIG = BuiltInLayer("minilm_0_output")
SMALL = BuiltInLayer("loud_input")


def test_every_part_of_the_state_is_in_its_link():
    state = LayerState(
        source=BIG,
        pair=SchemePair("int4_g128", "int8,asymmetric,per_tensor,min_max,course", static=False),
        method="rotation+gptq",
        seed=5,
        cell=(319, 127),
        channel=1535,
        shown="codes",
        lines=LayerPart((0, 4), (7, 9), (100, 128)),
        compared=(PAIRS["nvfp4"], PAIRS["w8a8_dynamic"]),
    )
    assert LayerState.read(state.written()) == (state, ())
    assert LayerState.read({}) == (LayerState.opening(), ())


@pytest.mark.parametrize(
    "part",
    [
        {"l": "builtin(name=nothing)"},
        {"l": "__import__('os')"},
        {"w": "int9"},
        {"a": "int8,symmetric"},
        {"d": "2"},
        {"h": "-1"},
        {"c": "3"},
        {"j": "x"},
        {"e": "all"},
        {"v": "0.4_2.3"},
        {"v": "4.4_0.1_0.1"},
        {"y": "int8_per_row"},
        {"y": "~".join(["none!none"] * (MOST_PAIRS + 1))},
        {"y": "none!none!e"},
    ],
)
def test_a_part_that_cannot_be_used_is_named_and_the_rest_is_kept(part):
    (name,) = part
    others = {"h": "7"} if name != "h" else {"e": "error"}
    state, problems = LayerState.read({**part, **others})
    assert [each.key for each in problems] == ["link.part"]
    assert (state.seed, state.shown) == ((7, "x") if name != "h" else (0, "error"))


def test_a_link_of_before_with_rounded_values_shows_codes():
    state, problems = LayerState.read({"e": "x_hat"})
    assert (state.shown, state.written()["e"], problems) == ("codes", "codes", ())


def test_a_chain_may_be_typed_into_the_address():
    # Of "+" in an address a server makes a space.
    assert LayerState.read({"m": "rotation gptq"}) == (
        LayerState.opening().replace(method="rotation+gptq"),
        (),
    )


def test_a_long_link_is_not_read():
    state, (problem,) = LayerState.read({"y": "n" * (LONGEST + 1)})
    assert (state, problem.key) == (LayerState.opening(), "link.too_long")


def test_places_outside_of_the_layer_are_dropped():
    places = LayerState(
        SMALL, PAIRS["w8a32"], cell=(4, 0), channel=4, lines=LayerPart((0, 5), (0, 1), (0, 1))
    )
    state, problems = LayerState.read(places.written())
    assert (state.cell, state.channel, state.lines, problems) == (None, None, None, ())


def test_another_pair_or_cell_chooses_the_product_anew():
    state = LayerState(SMALL, PAIRS["w8a32"], cell=(1, 1), channel=3)
    assert state.replace(shown="error").channel == 3
    assert state.replace(cell=(0, 0)).channel is None
    assert state.replace(pair=PAIRS["nvfp4"]).channel is None
    assert state.replace(pair=state.pair, cell=(1, 1)).channel == 3


def test_an_undone_step_keeps_what_is_looked_at_but_no_place_of_another_layer():
    began = LayerState(SMALL, PAIRS["w8a32"])
    chosen = began.replace(pair=PAIRS["nvfp4"])
    looked = chosen.replace(cell=(1, 2), tab="channels")
    assert History(began).take(chosen).take(looked).undo().now == looked.replace(pair=began.pair)
    history = History(began).take(began.of_layer(BIG))
    history = history.take(history.now.replace(cell=(319, 127), channel=9, shown="error", tab="channels"))
    assert history.undo().now == began.replace(shown="error", tab="channels")


@pytest.mark.parametrize("name", BUILT_IN_LAYERS)
def test_a_built_in_layer_opens_under_its_own_schemes(name):
    source = BuiltInLayer(name)
    state = LayerState.opening().of_layer(source)
    assert state.pair == usual_pair(source)
    assert state.pair.schemes() == (scheme_of(source.weights, "weights"), scheme_of(source.inputs, "inputs"))
    assert state.pair.problem(source.shape) is None


def test_the_nearest_scheme_stands_in_for_one_that_does_not_fit():
    state = LayerState(SMALL, PAIRS["w4a16"]).fitting()
    assert state.pair.schemes()[0].granularity.size == 4
    assert state.pair.problem(SMALL.shape) is None
    assert state.pair.inputs == AS_IT_IS


def test_every_offered_scheme_fits_a_layer_of_a_model():
    for form in WEIGHTS:
        assert SchemePair(form, AS_IT_IS).problem(BIG.shape) is None
    for form in INPUTS:
        assert SchemePair(AS_IT_IS, form).problem(BIG.shape) is None


def test_the_present_pair_is_compared_first_and_once():
    state = LayerState(BIG, PAIRS[COMPARED[2]])
    pairs = pairs_compared(state)
    assert pairs[0] == state.pair
    assert len(set(pairs)) == len(pairs) == MOST_PAIRS
    chosen = (PAIRS["nvfp4"], state.pair)
    assert pairs_compared(state.replace(compared=chosen)) == (state.pair, PAIRS["nvfp4"])


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "range", "lo": -1.5, "hi": 1.5, "channel": 1},
        {"kind": "channel", "size": 0.0, "channel": 3},
        {"kind": "weight", "output": 2, "value": -0.25, "channel": 0},
    ],
)
def test_a_move_is_in_the_link_and_holds_its_channel(message):
    state = LayerState(SMALL, PAIRS["w8a8_static"], cell=(1, 2), held=(1.0, 2.0, 3.0))
    for moved in (moved_layer(state, message), moved_layer(moved_layer(state, message), message)):
        assert moved.channel == message["channel"]
        assert (moved.cell, moved.held) == (state.cell, state.held)
        assert LayerState.read(moved.written()) == (moved, ())
        assert moved != state


@pytest.mark.parametrize(
    "form",
    [
        "changed(builtin(name=loud_input))",
        "changed(changed(builtin(name=loud_input),x0=1.0),x1=1.0)",
        "changed(builtin(name=loud_input),x4=1.0)",
        "changed(builtin(name=loud_input),w4.0=1.0)",
        "changed(builtin(name=loud_input),x0=-1.0)",
        "changed(builtin(name=loud_input),w0.0=1e39)",
        "changed(builtin(name=loud_input),y0=1.0)",
        "changed(builtin(name=minilm_0_output),x0=1.0)",
    ],
)
def test_impossible_changes_are_named(form):
    state, problems = LayerState.read({"l": form})
    assert state.source == LayerState.opening().source
    assert len(problems) == 1
