"""What axes are called, and a tensor of several axes as a matrix: the same values, and none of them
copied.
"""

import math

import numpy
import pytest
import safetensors.torch
import torch

import quantviz as qv
from quantviz.export.files import python_lines
from quantviz.lab.state import LabState
from quantviz.schemes.axis_names import Axes
from quantviz.sources import AsMatrix, Normal, Upload
from quantviz.sources.matrix import as_opened
from quantviz.sources.typed import Typed
from quantviz.streaming.measuring import measure
from quantviz.tensors.lazy import InMemory, Stored
from quantviz.tensors.views import View
from quantviz.text import languages
from tests.helpers.sample import sample_of

SHAPES = [(64, 3, 7, 7), (512, 512, 3, 3), (258, 1, 256), (128, 129, 3), (5, 2)]


def draw(shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("shape", "ids"),
    [
        ((7,), ["column"]),
        ((7, 5), ["row", "column"]),
        ((258, 1, 256), ["axis"] * 3),
        ((64, 3, 7, 7), ["output_channel", "input_channel", "axis", "axis"]),
    ],
)
def test_each_axis_has_one_name_however_it_is_counted(shape, ids):
    axes = Axes(shape)
    assert [axes.id_of(axis) for axis in range(len(shape))] == ids
    assert [axes.id_of(axis - len(shape)) for axis in range(len(shape))] == ids
    for language in languages():
        names = [axes.words(axis, language=language) for axis in range(len(shape))]
        assert len(set(names)) == len(names)
        # Of more than two axes each says its number.
        assert len(shape) < 3 or [str(axis) in name for axis, name in enumerate(names)] == [True] * len(shape)


def test_rows_of_a_convolutions_matrix_are_its_output_channels():
    conv, other = (AsMatrix(Typed((0.5,) * math.prod(shape), shape)) for shape in ((2, 3, 2, 2), (2, 3, 4)))
    assert [conv.axes.words(axis) for axis in (0, 1)] == ["output channel (axis 0)", "column"]
    assert [other.axes.words(axis) for axis in (0, 1)] == ["row", "column"]


@pytest.mark.parametrize("shape", SHAPES)
def test_as_matrix_is_a_view(shape):
    x = draw(shape)
    matrix = qv.as_matrix(x)
    assert matrix.shape == (shape[0], math.prod(shape[1:]))
    assert matrix.data_ptr() == x.data_ptr()
    assert torch.equal(matrix.flatten(), x.flatten())


def test_what_cannot_be_a_view_is_refused():
    with pytest.raises(qv.QuantVizError, match="contiguous"):
        qv.as_matrix(draw((4, 3, 2, 2)).to(memory_format=torch.channels_last))
    for x in ([1.0, 2.0], InMemory(torch.ones(3))):
        with pytest.raises(qv.QuantVizError, match="at least two axes"):
            qv.as_matrix(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_is_read_as_a_matrix_in_place(tmp_path, shape, dtype):
    x = draw(shape).to(dtype)
    safetensors.torch.save_file({"w": x}, tmp_path / "x.safetensors")
    with qv.open_tensors(tmp_path / "x.safetensors") as catalog:
        stored = catalog.stored("w")
    lazy, matrix = qv.as_matrix(stored), qv.as_matrix(x.float())
    rows, cols = lazy.shape
    assert (lazy.shape, lazy.in_place, lazy.notes) == (tuple(matrix.shape), stored.in_place, stored.notes)
    if stored.in_place:
        assert numpy.shares_memory(lazy.run(3, 9), stored.run(0, 12))
    assert torch.equal(torch.from_numpy(numpy.array(lazy.run(1, rows * cols - 1))), matrix.flatten()[1:-1])
    for index in [
        (slice(None), slice(None)),
        (slice(1, 4), slice(0, cols)),
        (slice(2, 5), slice(1, cols - 1)),
        (slice(None), cols - 1),
        (rows - 1, slice(None)),
        (0, slice(0, 1)),
        (1, 1),
    ]:
        assert torch.equal(lazy.read(index), matrix[index]), index


class Counting(Stored):
    """Counts the elements that are asked for."""

    def __init__(self, tensor):
        self.inner, self.count_read = InMemory(tensor), 0

    @property
    def shape(self):
        return self.inner.shape

    def run(self, start, stop):
        self.count_read += stop - start
        return self.inner.run(start, stop)

    def read(self, index):
        raise AssertionError("only runs are asked for")


def test_a_window_reads_its_own_cells_only():
    stored = Counting(draw((512, 64, 3, 3)))
    qv.as_matrix(stored).read((slice(10, 42), slice(100, 132)))
    assert stored.count_read == 32 * 32


@pytest.mark.parametrize("recipe", sample_of(["q4_0", "nvfp4", "int4_g32", "int4_per_row", "nf4_64"], 1))
def test_a_large_weight_is_measured_as_its_matrix(tmp_path, recipe):
    """Streaming over the mapped file gives what quantizing the matrix as engines do gives."""
    x = draw((512, 512, 3, 3))
    safetensors.torch.save_file({"w": x}, tmp_path / "x.safetensors")
    with qv.open_tensors(tmp_path / "x.safetensors") as catalog:
        found = measure(qv.as_matrix(catalog.stored("w")), qv.RECIPES[recipe]).metrics
    expected = qv.metrics(qv.quantize(x.view(512, -1), qv.RECIPES[recipe]))
    assert found["mse"] == pytest.approx(expected["mse"], rel=1e-9)
    assert found["effective_bits"] == expected["effective_bits"]


def test_only_four_axes_from_a_file_open_as_a_matrix():
    for shape in ((3,), (3, 4), (3, 4, 5), (3, 4, 5, 6)):
        upload = Upload("0", "x", shape)
        assert as_opened(upload) == (AsMatrix(upload) if len(shape) == 4 else upload)
        assert as_opened(upload).original == upload


def test_each_cell_has_one_place():
    matrix = AsMatrix(Typed(tuple(range(2 * 3 * 4 * 5)), (2, 3, 4, 5)))
    x, inner = matrix.tensor(), matrix.source.tensor()
    for row in range(2):
        for col in range(60):
            assert inner[matrix.place_of((row, col))] == x[row, col]
            assert matrix.cell_of(matrix.place_of((row, col))) == (row, col)


def test_a_matrix_in_a_link_and_in_python():
    source = AsMatrix(Typed(tuple(map(float, range(24))), (2, 3, 4)))
    state = LabState(source, qv.Scheme("int4", granularity=qv.PerGroup(6)), View.of(source.shape), (1, 7))
    link = state.written()
    assert link["t"].startswith("as_matrix(typed.")
    assert LabState.read(link) == (state, ())
    names = {}
    exec(python_lines(state), names)
    assert torch.equal(names["x"], source.tensor())
    assert LabState.read({"t": "as_matrix(normal(rows=4,cols=4))"})[1]
    assert not LabState.read({"t": "normal"})[1]
    assert (
        LabState(AsMatrix(Upload("0", "x", (2, 3, 4))), qv.Scheme(), View.of((2, 12)), (0, 0)).written()["t"]
        == "upload"
    )
    assert list(AsMatrix(Normal()).problems())
