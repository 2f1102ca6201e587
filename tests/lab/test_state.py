"""The Lab's link: it reopens exactly the state, carries ids only, and names what it cannot have."""

import re
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.analysis.scheme_comparison import MOST_SCHEMES
from quantviz.lab.page_state import LONGEST
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import short_link
from quantviz.lab.state import MOST_COMPARED, VERSION, VERSIONS, LabState, change_notes, opening
from quantviz.schemes.arithmetic_changes import ARITHMETIC_CHANGES, TensorTraits
from quantviz.schemes.level_count import level_count
from quantviz.sources import Builtin, Normal, Upload, with_cell
from quantviz.sources.typed import Typed
from quantviz.sources.upload import UploadedFile
from quantviz.tensors.views import View
from tests.helpers.states import states


@settings(deadline=None, max_examples=50)
@given(states())
def test_a_link_reopens_exactly_this_state(state):
    params = {**state.written(), "lang": "zh"}
    assert LabState.read(params) == (state, ())
    assert all(re.fullmatch(r"[A-Za-z0-9._(),=+~-]+", value) for value in params.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_travels_in_under_300_characters(name):
    state = opening(name)
    held = state.replace(held=0.0123)
    assert len("https://quantviz.example.org/lab?" + urlencode({**held.written(), "lang": "en"})) < 300
    assert LabState.read(held.written()) == (held, ())


def test_eight_schemes_travel_in_under_2000_characters():
    longest = sorted(
        (each for each in qv.RECIPES.values() if not each.problems((64, 256))),
        key=lambda each: -len(str(each)),
    )
    state = LabState(Normal(rows=64, cols=256), longest[7], View.of((64, 256)), (0, 0)).remembering(
        longest[:7]
    )
    assert len(state.contenders) == MOST_COMPARED == MOST_SCHEMES
    assert len("https://quantviz.example.org/lab?" + urlencode({**state.written(), "lang": "en"})) < 2000
    assert LabState.read(state.written()) == (state, ())


def test_a_link_with_a_baseline_opens_it_as_a_and_more_follow():
    forms = [str(qv.Scheme(f"int{bits}")) for bits in range(2, 9)]
    assert LabState.read({"b": forms[0]})[0].remembered == (qv.Scheme("int2"),)
    state, problems = LabState.read({"b": forms[0], "y": "~".join(forms[1:3])})
    assert (list(map(str, state.remembered)), problems) == (forms[:3], ())
    # Without A the next is A; what is there twice is there once; and what cannot be read is named.
    assert LabState.read({"y": f"{forms[1]}~{forms[1]}"})[0].remembered == (qv.Scheme("int3"),)
    state, problems = LabState.read({"b": forms[0], "y": f"{forms[1]}~int99"})
    assert (len(state.remembered), len(problems)) == (1, 1)
    state, (problem,) = LabState.read({"y": "~".join(forms + forms)})
    assert (state.remembered, problem.params["reason"].key) == ((), "link.others")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_opens(name):
    state = opening(name)
    assert state.scheme.problems(state.source.shape) == ()
    assert state.view.seen(state.cell, state.source.shape) is not None
    assert not state.baseline or not state.baseline.problems(state.source.shape)
    assert qv.explain(qv.quantize(state.source.tensor(), state.scheme), state.cell).steps


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["v", "t", "s", "c", "b", "y", "a", "e", "r", "h", "o", "lang", "x"]),
        st.text(max_size=80),
    )
)
def test_anything_in_the_address_opens_something(params):
    state, problems = LabState.read(params)
    assert state.scheme.problems(state.source.shape) == ()
    assert all(problem.message(language) for problem in problems for language in ("en", "zh"))


@pytest.mark.parametrize(
    ("params", "inner"),
    [
        ({"s": "int9,symmetric,per_tensor,min_max,course"}, "unknown_format"),
        ({"s": "int4,symmetric,per_group(size=5),min_max,course"}, "group_does_not_divide"),
        ({"t": "nothing"}, "source.unknown"),
        ({"t": "normal(rows=100000)"}, "source.limits"),
        ({"t": "upload"}, "link.upload"),
        ({"c": "99.99"}, "index_out_of_range"),
        ({"c": "1"}, "index_out_of_range"),
        ({"c": "-1.2"}, "link.place"),
        ({"a": "0.0_0.0_0.0"}, "link.view"),
        ({"e": "loud"}, "link.choice"),
        ({"h": "-1.0"}, "text_form_bad_value"),
    ],
)
def test_what_cannot_be_had_is_named_and_the_rest_is_kept(params, inner):
    state, problems = LabState.read({"lang": "zh", "r": "fit", **params})
    assert [problem.key for problem in problems] == ["link.part"]
    assert problems[0].params["reason"].key == inner
    assert state.error_range == "fit"
    assert state.source == opening().source


def test_a_link_of_another_version_says_so():
    assert [problem.key for problem in LabState.read({"v": "9"})[1]] == ["link.version"]


def test_a_link_longer_than_any_of_ours_is_not_read():
    assert [problem.key for problem in LabState.read({"t": "typed." + "A" * LONGEST})[1]] == ["link.too_long"]


def test_a_typed_16_by_16_travels_bit_for_bit():
    import torch

    x = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    state = opening().with_source(Typed.of(x.tolist()))
    params = state.written()
    assert len(urlencode(params)) < 2000
    assert torch.equal(LabState.read(params)[0].source.tensor(), x)


def test_an_upload_cannot_travel_and_it_is_said():
    state = opening().with_source(Upload("0" * 16, "weight", (4, 4)))
    assert state.source.link_problem().key == "link.upload"
    reopened, problems = LabState.read(state.written())
    assert reopened.scheme == state.scheme
    assert [problem.key for problem in problems] == ["link.part"]


def test_another_tensor_keeps_the_scheme_as_far_as_it_fits():
    state = opening().replace(
        scheme=qv.Scheme("int4", granularity=qv.PerGroup(8)),
        held=1.0,
        baseline=qv.Scheme(granularity=qv.PerGroup(8)),
    )
    other = state.with_source(Normal(rows=6, cols=12))
    assert other.scheme.granularity == qv.PerGroup(6)
    assert (other.held, other.baseline, other.cell) == (None, None, (0, 0))


@pytest.mark.parametrize(
    ("shape", "view"),
    [
        ((4, 6), View.of((4, 6))),
        ((5,), View.of((5,))),
        ((2, 3, 4), View(2, 0, (0, 1, 0))),
        ((700, 600), View(0, 1, (0, 0), 256, 100, 30, 40)),
    ],
)
def test_views_find_their_cells(shape, view):
    assert view.fits(shape)
    rows, cols = view.size(shape)
    for row, col in ((0, 0), (rows - 1, cols - 1), (rows // 2, cols // 3)):
        place = view.top + row, view.left + col
        assert view.seen(view.index(*place), shape) == place


def test_a_window_moves_to_a_cell():
    view = View.of((700, 600)).window(100, 100, 50, 60, (700, 600))
    assert view.showing((120, 130), (700, 600)) == view
    moved = view.showing((699, 0), (700, 600))
    assert (moved.top, moved.left, moved.height, moved.width) == (650, 0, 50, 60)
    assert moved.seen((699, 0), (700, 600)) == (699, 0)
    other = View(2, 0, (0, 1, 0)).showing((0, 0, 3), (2, 3, 4))
    assert other.at == (0, 0, 0)
    assert other.seen((0, 0, 3), (2, 3, 4)) == (3, 0)


def test_links_of_before_keep_their_window():
    state, problems = LabState.read(
        {"v": "1", "t": "normal(rows=700,cols=600,seed=1)", "a": "0.1_0.0_256.100"}
    )
    assert not problems
    assert state.view.size((700, 600)) == (444, 500)
    assert state.sliced
    whole, _ = LabState.read({"v": "1", "t": "normal(rows=700,cols=600,seed=1)"})
    assert whole.view.size((700, 600)) == (700, 600)
    assert not whole.sliced


@pytest.mark.parametrize(
    "link",
    [
        {"v": "1"},
        {
            "v": "1",
            "t": "builtin(name=loud_column)",
            "s": "int4,symmetric,per_tensor,min_max,course",
            "c": "2.3",
        },
        # What `short_link` left of the first screen.
        {"r": "fit"},
        {"c": "0.0", "lang": "zh"},
    ],
)
def test_links_of_before_keep_the_colours_of_x(link):
    state, problems = LabState.read(link)
    assert (state.value_scale, problems) == ("linear", ())
    assert "x" not in state.written()
    assert LabState.read(state.written()) == (state, ())


@pytest.mark.parametrize("params", [{}, {"lang": "zh"}, {"k": "no-below"}])
def test_an_address_that_says_nothing_of_the_state_opens_the_first_screen(params):
    assert LabState.read(params) == (opening(), ())
    assert opening().value_scale == "auto"
    assert opening().written()["x"] == "auto"


def test_a_scheme_that_stands_in_gives_way_to_the_chosen_one():
    q4_0 = qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    large = opening().with_source(Normal(8, 64)).replace(scheme=q4_0)
    small = large.with_source(Normal(4, 6))
    assert small.scheme != q4_0
    assert small.chosen == q4_0
    # Another small tensor is fitted by what was chosen, not by what stood in for it.
    assert small.with_source(Normal(4, 48)).with_source(Normal(4, 6)).scheme == small.scheme
    assert small.with_source(Normal(8, 64)).scheme == q4_0
    # What is done with NaN is chosen for any; other blocks are another choice.
    assert small.replace(scheme=small.scheme.replace(nonfinite="clip")).with_source(
        Normal(8, 64)
    ).scheme == q4_0.replace(nonfinite="clip")
    other = small.replace(scheme=qv.Scheme("int4"))
    assert other.with_source(Normal(8, 64)).scheme == qv.Scheme("int4")


def test_a_picture_starts_without_a_sign_and_gives_it_back():
    picture = Upload("0" * 16, "cat.png · grey", (8, 8), UploadedFile("cat.png", channel="grey"))
    opened = opening().with_source(picture)
    assert (opened.scheme, opened.chosen) == (qv.Scheme("uint4"), qv.Scheme("int4"))
    assert level_count(opened.scheme) == 16
    # As everywhere, a range is kept for what comes; the sign comes back with a tensor that needs it.
    ranged = opened.replace(scheme=opened.scheme.replace(calibration=qv.Percentile(99.0)))
    assert ranged.with_source(Normal(4, 4)).scheme == qv.Scheme("int4", calibration=qv.Percentile(99.0))
    assert opened.with_source(Builtin("landscape")).scheme == qv.Scheme("uint4")
    signed = opened.replace(scheme=qv.Scheme("int4"))
    assert signed.with_source(Builtin("landscape")).scheme == qv.Scheme("int4")
    # Bits that were chosen on a picture are kept, and their codes get a sign elsewhere.
    fewer = opened.replace(scheme=qv.Scheme("uint3"))
    assert fewer.with_source(Normal(4, 4)).scheme == qv.Scheme("int3")
    edited = fewer.replace(source=with_cell(Builtin("picture"), (0, 0), 0.5))
    assert edited.with_source(Normal(4, 4)).scheme == qv.Scheme("int3")
    assert edited.with_source(picture).scheme == qv.Scheme("uint3")


@pytest.mark.parametrize(
    "form",
    [
        # A float has its sign for nothing there, and an engine what it offers.
        "float4_e2m1fn,symmetric,per_tensor,min_max,course",
        "int4,symmetric,per_group(size=32),min_max,gguf_signed",
        # Codes around a zero point in the middle leave half of themselves empty, as signed ones do.
        "int8,symmetric,per_tensor,min_max,torch",
    ],
)
def test_a_picture_keeps_what_has_no_twin_without_a_sign(form):
    state = opening().with_source(Normal(64, 64)).replace(scheme=qv.Scheme.parse(form))
    assert str(state.with_source(Builtin("picture")).scheme) == form


@pytest.mark.parametrize("shape", [(), (0, 4), (4, 0), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize(
    "granularity",
    ["per_tensor", "per_channel(axis=1)", "per_group(size=4)", "per_block(rows=2,cols=2)", "flat(size=4)"],
)
def test_fitting_a_scheme_never_fails(granularity, shape):
    scheme = qv.Scheme.parse(f"int4,symmetric,{granularity},min_max,course")
    assert scheme.fitted(shape) == scheme


def test_groups_of_the_last_axis_stay_there():
    scheme = qv.Scheme("int4").adapted("gguf_signed", (4, 64))
    assert scheme.granularity.axis == -1
    assert scheme.fitted((4, 3, 32)) == scheme


def test_a_link_whose_tensor_cannot_be_had_keeps_its_scheme():
    form = "int4,symmetric,per_group(size=128),min_max,course"
    state, problems = LabState.read({"v": "1", "t": "builtin(name=gone)", "s": form})
    assert len(problems) == 1
    assert str(state.chosen) == form
    assert not state.scheme.problems(state.source.shape)
    assert str(state.with_source(Normal(4, 128)).scheme) == form


# ---- links of before, whose arithmetic was mended ----------------------------------------------------------

CLAMPED = "int8,symmetric,per_tensor,percentile(p=99.9),onnxruntime"


@pytest.mark.parametrize(
    ("form", "tensor", "keys"),
    [
        (CLAMPED, TensorTraits(), ["mended_clamp"]),
        (
            "int16,symmetric,per_group(size=16),given(scale=0.5),onnxruntime_blocked",
            TensorTraits(),
            ["mended_clamp"],
        ),
        # In its own range no value reaches the clamp, and 4 bits were clamped at -8 before.
        ("int8,symmetric,per_tensor,min_max,onnxruntime", TensorTraits(), []),
        ("int4,symmetric,per_tensor,percentile(p=99.9),onnxruntime", TensorTraits(), []),
        (
            "int8,symmetric,per_tensor,percentile(p=99.0),torch(narrow_range=true)",
            TensorTraits(),
            ["mended_clamp"],
        ),
        ("int8,symmetric,per_tensor,min_max,torch(narrow_range=true)", TensorTraits(), []),
        ("int4,symmetric,per_tensor,min_max,course,clip", TensorTraits(finite=False), ["mended_nonfinite"]),
        ("int4,symmetric,per_tensor,min_max,course,clip", TensorTraits(), []),
        ("int4,symmetric,per_tensor,min_max,torchao", TensorTraits("bfloat16"), ["mended_half"]),
        ("int4,symmetric,per_tensor,min_max,torchao", TensorTraits(), []),
        ("int4,symmetric,per_tensor,min_max,course", TensorTraits("bfloat16"), []),
        ("float4_e2m1fn,symmetric,per_group(size=32),min_max,gguf_mx", TensorTraits(), ["mended_exponent"]),
        ("int4,symmetric,flat(size=64),min_max,modelopt_int4", TensorTraits(), ["mended_zeros"]),
        (
            "uint4,symmetric,per_tensor,min_max,course(scale.rule=without_clipping)",
            TensorTraits(),
            ["mended_unsigned"],
        ),
    ],
)
def test_a_link_of_before_says_what_was_mended(form, tensor, keys):
    link = {"t": "normal(rows=8,cols=64,seed=1)", "s": form}
    state, problems = LabState.read({**link, "v": "1"})
    assert not problems
    assert [note.params["what"].key for note in change_notes({**link, "v": "1"}, state, tensor)] == keys
    # One without a version is as old as that, and one of today says nothing.
    assert change_notes(link, state, tensor) == change_notes({**link, "v": "1"}, state, tensor)
    assert not change_notes(state.written(), state, tensor)


def test_every_correction_is_of_an_arithmetic_that_a_link_can_name():
    assert VERSIONS[VERSION] == qv.ARITHMETIC == max(mend.number for mend in ARITHMETIC_CHANGES)
    assert set(VERSIONS.values()) >= {mend.number - 1 for mend in ARITHMETIC_CHANGES}


def test_a_short_link_keeps_its_version_where_it_would_be_taken_for_an_old_one():
    state, _ = LabState.read({"v": "2", "t": "normal(rows=8,cols=64,seed=1)", "s": CLAMPED})
    assert short_link(state)["v"] == "2"
    assert "v" not in short_link(state.replace(scheme=qv.Scheme("int8")))


def test_both_schemes_of_a_link_are_looked_at():
    link = {"v": "1", "t": "normal(rows=8,cols=64,seed=1)", "s": "int8,symmetric,per_tensor,min_max,course"}
    for name in ("b", "y"):
        other = {**link, name: CLAMPED}
        assert len(change_notes(other, LabState.read(other)[0], TensorTraits())) == 1
