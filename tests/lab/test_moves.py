"""What a hand moves: each message gives the state it says, or a sentence and the state as it was."""

import dataclasses
import itertools
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.lab.moves import block_count, hand_choices, moved, range_counts
from quantviz.lab.state import LabState, opening
from quantviz.sources import AsMatrix, Builtin, Edited, Normal, Upload
from quantviz.sources.base import OpenedFiles
from quantviz.sources.typed import Typed, shortest
from quantviz.tensors.lazy import InMemory
from quantviz.text import languages
from tests.helpers.states import states

FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def of(scheme, source=None):
    state = opening()
    return (state.with_source(source) if source else state).with_scheme(qv.Scheme.parse(scheme))


# ---- range, scale and zero point ----------------------------------------------------------------


@given(FLOAT32, FLOAT32)
def test_a_range_is_kept_in_few_digits_and_symmetric_around_0_in_symmetric_mode(one, other):
    lo, hi = sorted((one, other))
    if lo == hi:
        return
    free = moved(of("int8,asymmetric,per_tensor,min_max,course"), {"kind": "range", "lo": lo, "hi": hi})
    found = free.scheme.calibration
    assert torch.tensor([found.lo, found.hi]).tolist() == [lo, hi]
    assert (repr(found.lo), repr(found.hi)) == (shortest(lo), shortest(hi))
    even = moved(of("int8,symmetric,per_tensor,min_max,course"), {"kind": "range", "lo": lo, "hi": hi})
    assert even.scheme.calibration == qv.ManualRange(-max(-found.lo, found.hi), max(-found.lo, found.hi))
    assert dataclasses.replace(free, scheme=of("int8,asymmetric,per_tensor,min_max,course").scheme) == of(
        "int8,asymmetric,per_tensor,min_max,course"
    )


@pytest.mark.parametrize("convention", qv.CONVENTIONS)
def test_a_range_is_refused_exactly_where_it_changes_nothing(convention):
    x = Normal(8, 512, 3)
    for mode in qv.CONVENTIONS[convention].offer.modes or qv.MODES:
        state = opening().with_source(x)
        scheme = qv.Scheme("int8").adapted(convention, x.shape)
        try:
            scheme = scheme.with_mode(mode)
        except QuantVizError:
            continue
        state = state.with_scheme(scheme)
        if scheme.search:
            # It has no range that could be set.
            assert not range_counts(state.scheme)
            continue
        scales = [
            qv.choose_qparams(x.tensor(), state.scheme.replace(calibration=qv.ManualRange(-end, end))).scale
            for end in (0.5, 1.9)
        ]
        counts = not torch.equal(*scales)
        assert range_counts(state.scheme) == counts, (convention, mode)
        if counts:
            assert moved(state, {"kind": "range", "lo": -1, "hi": 1}).scheme.calibration == qv.ManualRange(
                -1, 1
            )
        else:
            refused("hand.range_without_effect", state, {"kind": "range", "lo": -1, "hi": 1})


@pytest.mark.parametrize(
    ("scheme", "wanted", "kept"),
    [
        ("int8,asymmetric,per_tensor,min_max,course", -70.4, -70),
        ("int8,asymmetric,per_tensor,min_max,course", 500, 127),
        ("uint4,asymmetric,per_tensor,min_max,course", -3, 0),
        ("int8,symmetric,per_tensor,min_max,course", 12, 0),
        ("nf4,symmetric,per_tensor,min_max,course", 3, 0),
        # AWQ's zero point is not clamped, HQQ's is no whole number.
        ("uint4,asymmetric,per_group(size=8),min_max,course(zero_point_clamp=false)", 40.0, 40),
        ("uint4,asymmetric,per_group(size=8),min_max,course(zero_domain=code_float)", 2.3, 2.3),
    ],
)
def test_a_zero_point_is_the_nearest_that_there_is(scheme, wanted, kept):
    calibration = moved(of(scheme), {"kind": "given", "scale": 0.1, "zero_point": wanted}).scheme.calibration
    assert calibration == qv.Given(0.1, kept)


def test_a_scale_is_a_float32_in_few_digits():
    given_ = {"kind": "given", "scale": 0.1 + 1e-12, "zero_point": 0.0}
    assert moved(opening(), given_).scheme.calibration == qv.Given(0.1, 0)
    refused("scale_not_positive", opening(), given_ | {"scale": -1.0})
    refused("scale_not_positive", opening(), given_ | {"scale": 1e-60})


def test_all_blocks_are_set_by_one_range():
    assert block_count(opening()) == 1
    assert block_count(of("int4,symmetric,per_channel(axis=1),min_max,course")) == 8


# ---- format and group ---------------------------------------------------------------------------


def test_another_format_takes_along_what_it_can():
    state = of("int8,asymmetric,per_channel(axis=1),manual_range(lo=-1.0,hi=2.0),course")
    assert str(moved(state, {"kind": "format", "id": "int3"}).scheme) == (
        "int3,asymmetric,per_channel(axis=1),manual_range(lo=-1.0,hi=2.0),course"
    )
    assert moved(state, {"kind": "format", "id": "float4_e2m1fn"}).scheme.mode == "symmetric"
    refused("unknown_format", state, {"kind": "format", "id": "int9"})
    q4_0 = of("int4,symmetric,per_group(size=32),min_max,gguf_signed", Normal(4, 64))
    refused("not_offered", q4_0, {"kind": "format", "id": "int3"})


@pytest.mark.parametrize(
    ("granularity", "size", "becomes"),
    [
        ("per_tensor", 4, "per_group(size=4)"),
        ("per_channel(axis=0)", 4, "per_group(size=4)"),
        ("per_channel(axis=1)", 4, "per_group(size=4,axis=0)"),
        ("per_channel(axis=-1)", 2, "per_group(size=2,axis=0)"),
        ("per_group(size=8,axis=0)", 2, "per_group(size=2,axis=0)"),
        ("per_block(rows=2,cols=2)", 2, "per_group(size=2)"),
        ("flat(size=4)", 16, "flat(size=16)"),
        ("flat(size=4,strided=true)", 16, "flat(size=16,strided=true)"),
    ],
)
def test_groups_are_parts_of_the_blocks_there_were(granularity, size, becomes):
    state = of(f"int4,symmetric,{granularity},min_max,course")
    assert str(moved(state, {"kind": "group", "size": size}).scheme).split(",min_max")[0] == (
        f"int4,symmetric,{becomes}"
    )
    refused(None, state, {"kind": "group", "size": 5})
    refused(None, state, {"kind": "group", "size": 0})


@settings(deadline=None, max_examples=60)
@given(states())
def test_what_handles_go_through_fits_the_tensor(state):
    found = hand_choices(state)
    for kind, field, choices in (("format", "id", found.formats), ("group", "size", found.sizes)):
        assert len(set(choices.values)) == len(choices.values) == len(choices.schemes)
        for value, scheme in zip(choices.values, choices.schemes, strict=True):
            assert not scheme.problems(state.source.shape)
            assert moved(state, {"kind": kind, field: value}).scheme == scheme
    bits = [qv.FORMATS[name].bits for name in found.formats.values]
    assert bits == sorted(bits, reverse=True)
    assert (
        len({qv.FORMATS[name].family for name in found.formats.values} | {state.scheme.number_format.family})
        == 1
    )
    assert list(found.sizes.values) == sorted(found.sizes.values)
    if found.formats.at >= 0:
        assert found.formats.values[found.formats.at] == state.scheme.format
    if found.sizes.at >= 0:
        assert found.sizes.schemes[found.sizes.at] == state.scheme


@pytest.mark.parametrize(
    ("scheme", "formats", "at"),
    [
        ("int4,symmetric,per_tensor,min_max,course", "int8 int6 int5 int4 int3 int2 int7", 4),
        ("uint16,asymmetric,per_tensor,min_max,course", "uint16 uint8 uint1", 0),
        ("float6_e2m3fn,symmetric,per_tensor,min_max,course", "float8_e4m3fn float6_e2m3fn float4_e2m1fn", 1),
        ("float8_e5m2,symmetric,per_tensor,min_max,course", "float8_e5m2 float6_e3m2fn float4_e2m1fn", 0),
        ("nf4,symmetric,per_tensor,min_max,course", "", -1),
        ("ternary,symmetric,per_tensor,min_max,course", "", -1),
        ("float8_e8m0fnu,symmetric,per_tensor,min_max,course", "", -1),
    ],
)
def test_the_bits_go_through_one_family(scheme, formats, at):
    found = hand_choices(of(scheme)).formats
    assert set(formats.split()) <= set(found.values)
    assert found.at == at
    assert bool(found.values) == bool(formats)
    # One bit with a sign has no symmetric scale: the hand does not change the mode on the way.
    assert {each.mode for each in found.schemes} <= {qv.Scheme.parse(scheme).mode}


def test_sizes_are_those_the_engine_offers():
    found = hand_choices(of("int4,symmetric,per_group(size=32),min_max,gguf_signed", Normal(4, 64)))
    assert (found.sizes.values, found.sizes.at) == ((32,), 0)
    assert hand_choices(of("int4,symmetric,per_tensor,min_max,course", Normal(4, 7))).sizes.values == (7,)
    assert hand_choices(of("int4,symmetric,per_tensor,min_max,course", Normal(4, 1))).sizes.values == (1,)


# ---- cells --------------------------------------------------------------------------------------


def test_a_cell_is_set_and_put_back():
    state = opening()
    once = moved(state, {"kind": "cell", "cell": [2, 3], "value": 5.25})
    assert once.source == Edited(Builtin("loud_column"), (((2, 3), 5.25),))
    # All else stays: the scheme, the cell, the colours' end.
    assert once.replace(source=state.source) == state
    twice = moved(once, {"kind": "cell", "cell": [2, 3], "value": -1})
    assert twice.source.edits == (((2, 3), -1.0),)
    assert twice.source.tensor()[2, 3] == -1
    # The tensor's own -1.35 puts it back, and the scenario is the scenario again.
    assert moved(twice, {"kind": "cell", "cell": (2, 3), "value": -1.35}) == state
    other = moved(twice, {"kind": "cell", "cell": [0, 0], "value": 2.0})
    assert moved(other, {"kind": "cell", "cell": [2, 3], "value": -1.35}).source.edits == (((0, 0), 2.0),)


def test_typed_numbers_stay_typed_numbers():
    state = opening().with_source(Typed.of([[1.0, -0.0], [3.0, 4.0]]))
    assert moved(state, {"kind": "cell", "cell": [1, 0], "value": 0.1}).source == Typed.of(
        [[1.0, -0.0], [0.1, 4.0]]
    )
    assert moved(state, {"kind": "cell", "cell": [0, 1], "value": -0.0}) == state
    assert moved(state, {"kind": "cell", "cell": [0, 1], "value": 0.0}) != state


def test_a_cell_of_a_matrix_is_the_tensors():
    tensor = Normal(4, 6).tensor().view(2, 3, 2, 2)
    upload = Upload("0", "a.pt · w", (2, 3, 2, 2))

    class Hand(OpenedFiles):
        def uploaded(self, source):
            return {upload: InMemory(tensor)}[source]

    state = opening().with_source(AsMatrix(upload))
    once = moved(state, {"kind": "cell", "cell": [1, 7], "value": 9.0}, Hand())
    assert once.source.original.edits == (((1, 1, 1, 1), 9.0),)
    assert once.source.edits == (((1, 7), 9.0),)
    assert once.source.unedited == state.source
    seen = once.source.open(Hand())
    assert seen.read((1, 7)) == 9
    assert tensor[1, 1, 1, 1] != 9, "what was uploaded is left as it is"
    back = tensor[1, 1, 1, 1].item()
    assert moved(once, {"kind": "cell", "cell": [1, 7], "value": back}, Hand()) == state


def test_where_no_cell_can_be_set_it_is_said():
    large = opening().with_source(Normal(257, 256))
    refused("source.edited_too_large", large, {"kind": "cell", "cell": [0, 0], "value": 1.0})
    state = opening()
    for cell in itertools.product(range(8), range(8)):
        state = moved(state, {"kind": "cell", "cell": cell, "value": 99.0})
    assert len(state.source.edits) == 64
    assert LabState.read(state.written()) == (state, ())
    many = opening().with_source(Normal(8, 9))
    for cell in itertools.islice(itertools.product(range(8), range(9)), 64):
        many = moved(many, {"kind": "cell", "cell": cell, "value": 99.0})
    refused("source.edited_too_many", many, {"kind": "cell", "cell": [7, 8], "value": 1.0})
    # One that is changed already can still be moved.
    assert moved(many, {"kind": "cell", "cell": [0, 0], "value": 1.0}).source.edits[0] == ((0, 0), 1.0)


# ---- whatever a browser sends -------------------------------------------------------------------


def refused(key, state, message):
    with pytest.raises(QuantVizError) as caught:
        moved(state, message)
    assert key is None or caught.value.key == key
    for language in languages():
        assert 0 < len(caught.value.message(language)) < 3000


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**18, 10**19).map(lambda n: 7 ** n.bit_length() * 10**400)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["int8", "int4", "nf4", *qv.FORMATS]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["lo", "hi", "scale", "zero_point", "id", "size", "cell", "value", "more"])
NUMBERS = st.floats() | st.integers() | ANYTHING
MESSAGES = st.one_of(
    ANYTHING,
    st.builds(
        lambda kind, rest: {"kind": kind, **rest},
        st.sampled_from(["range", "given", "format", "group", "cell"]) | ANYTHING,
        st.dictionaries(FIELDS, ANYTHING, max_size=6),
    ),
    st.fixed_dictionaries({"kind": st.just("range"), "lo": NUMBERS, "hi": NUMBERS}),
    st.fixed_dictionaries({"kind": st.just("given"), "scale": NUMBERS, "zero_point": NUMBERS}),
    st.fixed_dictionaries({"kind": st.just("format"), "id": st.sampled_from(sorted(qv.FORMATS))}),
    st.fixed_dictionaries({"kind": st.just("group"), "size": st.integers(-1, 40)}),
    st.fixed_dictionaries(
        {"kind": st.just("cell"), "cell": st.lists(st.integers(-1, 3), max_size=5), "value": NUMBERS}
    ),
)


@settings(deadline=None, max_examples=400)
@given(states(), MESSAGES)
def test_anything_gives_a_state_that_opens_again_or_a_sentence(state, message):
    refusal = None
    try:
        found = moved(state, message)
    except QuantVizError as error:
        refusal = error
    if refusal:
        assert all(refusal.message(language) for language in languages())
        return
    assert not found.scheme.problems(found.source.shape)
    assert not list(found.source.problems())
    assert found.source.shape == state.source.shape
    # Cells, colours and view are where they were; at most scheme or tensor are others.
    assert found.replace(scheme=state.scheme, source=state.source) == state
    if not found.source.link_problem():
        assert LabState.read(found.written()) == (found, ())


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "range",
        {},
        {"kind": ["range"]},
        {"kind": "range"},
        {"kind": "range", "lo": "-1", "hi": 1},
        {"kind": "range", "lo": math.nan, "hi": 1},
        {"kind": "range", "lo": -math.inf, "hi": 1},
        {"kind": "range", "lo": -1, "hi": 1e39},
        {"kind": "range", "lo": -(10**400), "hi": 1},
        {"kind": "range", "lo": True, "hi": 2},
        {"kind": "range", "lo": 2, "hi": 1},
        {"kind": "range", "lo": 1, "hi": 1},
        {"kind": "given", "scale": 1},
        {"kind": "given", "scale": 0, "zero_point": 0},
        {"kind": "given", "scale": 1, "zero_point": None},
        {"kind": "format", "id": ["int8"]},
        {"kind": "format", "id": 8},
        {"kind": "group", "size": 2.0},
        {"kind": "group", "size": True},
        {"kind": "group", "size": -4},
        {"kind": "group", "size": 10**400},
        {"kind": "cell", "cell": [2, 3]},
        {"kind": "cell", "cell": [2, 3], "value": [1]},
        {"kind": "cell", "cell": "2,3", "value": 1},
        {"kind": "cell", "cell": [2.0, 3.0], "value": 1},
        {"kind": "cell", "cell": [-1, 3], "value": 1},
        {"kind": "cell", "cell": [8, 0], "value": 1},
        {"kind": "cell", "cell": [2], "value": 1},
        {"kind": "cell", "cell": [2, 3, 0], "value": 1},
        {"kind": "cell", "cell": [10**400, 3], "value": 1},
        {"kind": "cell", "cell": [2, 3], "value": math.nan},
        {"kind": "cell", "cell": [2, 3], "value": 3.5e38},
    ],
    ids=lambda message: json.dumps(message)[:60],
)
def test_what_is_no_move_is_refused(message):
    refused(None, opening(), message)
