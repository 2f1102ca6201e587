"""Tensors of one to four axes: what their axes are called, how a weight is seen, and whose words choices
have.
"""

import ast
import io
import itertools
import re

import numpy
import pytest
import safetensors.torch
import torch

import quantviz as qv
from quantviz.lab.state import LabState
from quantviz.sources import AsMatrix, LocalTensor
from quantviz.sources.local import FOLDER
from quantviz.sources.typed import Typed
from tests.helpers.code import parsed
from tests.helpers.controls import choose, controls, words_of
from tests.helpers.sample import sample_of
from tests.helpers.session import APP, address, healthy, numbers, opened

#: Lengths that no label has for another reason.
SHAPES = {
    "vector": (577,),
    "linear": (144, 233),
    "stft": (258, 1, 256),
    "conv1d": (128, 129, 3),
    "stem": (61, 3, 7, 7),
    "wide": (512, 512, 3, 3),
}
#: Controls that are there to name a file's tensors, with their shapes.
OF_FILES = ("folder_tensor", "file_tensor")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw = torch.Generator().manual_seed(0)
    safetensors.torch.save_file(
        {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()},
        tmp_path / "model.safetensors",
    )
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def source(name, *, matrix=False):
    tensor = LocalTensor("model.safetensors", name, SHAPES[name])
    return AsMatrix(tensor) if matrix else tensor


def form(of):
    return f"as_matrix({form(of.source)})" if isinstance(of, AsMatrix) else f"local.{of.to_payload()}"


def state(at):
    return at.session_state["lab_state"].now


def choosers(at):
    """Every control that offers a choice, by its key, with the words it offers."""
    kinds = (at.selectbox, at.radio, at.multiselect, at.segmented_control, at.pills)
    return {
        each.key: [str(getattr(option, "content", option)) for option in each.options]
        for kind in kinds
        for each in kind
    }


# ---- whose words choices have -------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize(
    "scheme",
    sample_of(
        ["int4,symmetric,per_group(size=1),min_max,course", "int4,symmetric,per_channel,min_max,course"], 1
    ),
)
def test_no_choice_names_a_length_of_the_tensor(folder, scheme):
    """A label goes to the browser and comes back: of the tensor it may say what an axis is, never how
    long.
    """
    known = {}
    for name, shape in SHAPES.items():
        for matrix in (False, True) if len(shape) > 2 else (False,):
            at = opened(t=form(source(name, matrix=matrix)), s=scheme, lang="en")
            for key, words in choosers(at).items():
                # Powers of two are the sizes of groups in recipes' names.
                lengths = {str(n) for n in shape if n > 9 and n & (n - 1)} if key not in OF_FILES else set()
                assert _are_sizes(words) or not [
                    each for each in words if lengths & set(re.findall(r"\d+", each))
                ], (name, key, words)
                known.setdefault(key, set()).update(words)
    assert known["view_rows"] == {
        "output channel (axis 0)",
        "input channel (axis 1)",
        *(f"axis {n}" for n in range(4)),
    }
    assert {"seen_as", "recipe", "convention", "kind", "calibration"} <= known.keys()


def _are_sizes(words):
    """Whether the words are numbers alone: sizes of blocks, which are their own ids."""
    return all(word.isdigit() for word in words)


def test_every_choice_is_offered_by_one_function():
    """What guards against labels of another tensor is in `choose`: no module goes past it."""
    controls = {
        "selectbox",
        "radio",
        "segmented_control",
        "pills",
        "multiselect",
        "menu_button",
        "select_slider",
        "feedback",
    }
    found = 0
    for path in [
        APP,
        *sorted((APP.parent / "pages").rglob("*.py")),
        *sorted((APP.parent / "quantviz" / "ui").rglob("*.py")),
    ]:
        tree = parsed(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in controls, f"{path.name}:{node.lineno}"
            found += (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("choose", "choose_among")
            )
    assert found > 40


BOXES = ("view_rows", "view_cols")


@pytest.mark.parametrize(
    ("key", "stale"),
    sample_of(itertools.product(BOXES, ("axis 1 (1)", "output channel (axis 0)", "a name of yesterday")), 5),
)
def test_a_label_of_another_tensor_changes_nothing(folder, key, stale, monkeypatch):
    """What a browser sends that still shows the tensor before, with a click on something else."""
    from streamlit.testing.v1.element_tree import Selectbox

    at = opened(t=form(source("stft")), s="int4,symmetric,per_group(size=32),min_max,course")
    before = state(at)
    sent = Selectbox._widget_state

    def with_stale(self):
        held = sent.fget(self)
        if self.key == key:
            held.string_value = stale
        return held

    monkeypatch.setattr(Selectbox, "_widget_state", property(with_stale))
    at = healthy(choose(at, ("granularity", "tensor")))
    assert [warning.value for warning in at.warning] == []
    assert state(at).replace(scheme=before.scheme, held=before.held) == before
    assert str(state(at).scheme) == "int4,symmetric,per_tensor,min_max,course"


# ---- what axes are called -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "matrix", "english", "chinese"),
    [
        ("linear", False, ["row", "column"], ["每一行", "每一列"]),
        ("stft", False, ["axis 0", "axis 1", "axis 2"], ["轴 0 的每一个", "轴 1 的每一个", "轴 2 的每一个"]),
        ("stft", True, ["row", "column"], ["每一行", "每一列"]),
        (
            "stem",
            False,
            ["output channel (axis 0)", "input channel (axis 1)", "axis 2", "axis 3"],
            ["每个输出通道（轴 0）", "每个输入通道（轴 1）", "轴 2 的每一个", "轴 3 的每一个"],
        ),
        ("stem", True, ["output channel (axis 0)", "column"], ["每个输出通道（轴 0）", "每一列"]),
    ],
)
def test_the_strip_calls_axes_by_the_rule(folder, name, matrix, english, chinese):
    for language, words in (("en", english), ("zh", chinese)):
        at = opened(t=form(source(name, matrix=matrix)), lang=language)
        forms = controls(at)["granularity"]["choices"]
        assert [word for name, word, _ in forms if name.startswith(("row", "column", "axis"))] == words


@pytest.mark.parametrize("matrix", [False, True])
def test_one_word_is_one_axis(folder, matrix):
    """The strip, the recipe, the sentence of the scheme and the number below the SQNR mean the same axis by
    the same words.
    """
    at = opened(
        t=form(source("stem", matrix=matrix)), s="int4,symmetric,per_channel,min_max,course", lang="en"
    )
    words = "output channel (axis 0)"
    shown = controls(at)["granularity"]
    name = next(name for name, label, _ in shown["choices"] if label == words)
    assert shown["value"] == name
    assert controls(at)["recipe"]["value"] == "int4_per_row"
    assert "int4 per output channel" in words_of(at, "recipe")
    x = state(at).source.tensor()
    expected = qv.metrics(qv.quantize(x, qv.Scheme("int4", granularity=qv.PerChannel(0))))["sqnr_db"]
    assert numbers(at)[1].value.startswith(f"{expected:.3g}"[:4])
    choose(at, ("granularity", "tensor"))
    choose(at, ("granularity", name))
    assert str(state(healthy(at)).scheme) == "int4,symmetric,per_channel,min_max,course"


def test_what_is_seen_as_rows_does_not_change_what_a_button_means(folder):
    at = opened(t=form(source("conv1d")), s="int4,symmetric,per_tensor,min_max,course", lang="en")
    before = words_of(at, "granularity")
    at.selectbox(key="view_rows").set_value(0).run()
    assert words_of(healthy(at), "granularity") == before
    choose(at, ("granularity", "axis1"))
    assert state(healthy(at)).scheme.granularity == qv.PerChannel(1)


# ---- a weight as a matrix -----------------------------------------------------------------------


def load(at, name):
    if at.selectbox(key="kind").value != "folder":
        at.selectbox(key="kind").set_value("folder").run()
        at.selectbox(key="folder_file").set_value("model.safetensors").run()
    return healthy(at.selectbox(key="folder_tensor").set_value(name).run())


def test_a_convolutions_weight_opens_as_a_matrix_and_others_as_they_are(folder):
    at = opened()
    for name, shape in SHAPES.items():
        at = load(at, name)
        assert state(at).source == source(name, matrix=len(shape) == 4)
        assert state(healthy(opened(**address(at)))) == state(at)


def test_links_of_before_keep_four_axes(folder):
    at = opened(t=form(source("stem")), s="int4,symmetric,per_channel(axis=3),min_max,course", c="1.2.3.4")
    assert (state(at).source, state(at).cell) == (source("stem"), (1, 2, 3, 4))
    assert address(at)["t"] == form(source("stem"))


def test_the_view_changes_and_the_cell_stays_the_same_one(folder):
    at = load(opened(lang="en"), "stem")
    at.number_input(key="cell_row").set_value(5)
    at.number_input(key="cell_col").set_value(2 * 49 + 3 * 7 + 4).run()
    told = " ".join(each.proto.body for each in at.get("html"))
    assert "Cell (5, 123), at (5, 2, 3, 4) of 61 × 3 × 7 × 7:" in told
    value = state(at).source.tensor()[5, 123]
    at.segmented_control(key="seen_as").set_value("axes").run()
    assert (state(healthy(at)).source, state(at).cell) == (source("stem"), (5, 2, 3, 4))
    assert state(at).source.tensor()[5, 2, 3, 4] == value
    assert state(at).view.seen(state(at).cell, (61, 3, 7, 7))
    at.segmented_control(key="seen_as").set_value("matrix").run()
    assert (state(healthy(at)).source, state(at).cell) == (source("stem", matrix=True), (5, 123))


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", ["q4_0", "nvfp4", "int4_g32"])
def test_what_engines_group_fits_a_matrix_and_not_its_kernels(folder, recipe):
    at = load(opened(), "wide")
    choose(at, ("recipe", recipe))
    assert state(healthy(at)).scheme == qv.RECIPES[recipe]
    assert qv.RECIPES[recipe].problems((512, 512, 3, 3))


def test_an_upload_opens_as_a_matrix():
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.arange(24, dtype="float32").reshape(2, 3, 2, 2))
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    at.file_uploader(key="tensor_file").set_value(
        ("conv.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert (type(state(healthy(at)).source), state(at).source.shape) == (AsMatrix, (2, 12))
    at.segmented_control(key="seen_as").set_value("axes").run()
    assert state(healthy(at)).source.shape == (2, 3, 2, 2)
    choose(at, "undo")
    assert state(healthy(at)).source.shape == (2, 12)


def test_a_matrix_of_a_typed_tensor_is_in_the_link():
    typed = f"typed.{Typed(tuple(range(24)), (2, 3, 4)).to_payload()}"
    found, problems = LabState.read({"v": "1", "t": f"as_matrix({typed})"})
    assert (found.source.shape, problems) == ((2, 12), ())
    for bad in (
        f"as_matrix(as_matrix({typed}))",
        "as_matrix(normal)",
        "as_matrix(",
        "as_matrix()",
        f"as_matrix({typed}",
    ):
        found, problems = LabState.read({"v": "1", "t": bad})
        assert problems, bad
        assert not isinstance(found.source, AsMatrix), bad
