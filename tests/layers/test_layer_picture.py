"""The multiplication in pixels: each shows the loudest of its cells, and single cells exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.layers import layer_picture as module
from quantviz.layers.layer_picture import layer_picture

SHAPE = (29, 40, 53)
WHOLE = tuple((0, count) for count in SHAPE)
NAMES = {"x": "y", "codes": "y_hat", "error": "error"}


@pytest.fixture(scope="module")
def result():
    generator = torch.Generator().manual_seed(1)
    tokens, inputs, outputs = SHAPE
    weight = torch.randn(outputs, inputs, generator=generator)
    x = torch.randn(tokens, inputs, generator=generator)
    return qv.layer(weight, x, "int4_per_row", "int8_per_token", bias=torch.arange(53.0))


def of_operand(operand, shown):
    lines = slice(None)
    if shown == "codes":
        return qv.quantize(operand.values(lines), operand.scheme).q.numpy()
    values = {"x": operand.values, "error": operand.changes}[shown](lines)
    return values.numpy()


def test_codes_of_an_operand_that_is_not_kept_are_decoded_and_unrounded_ones_are_the_values(result):
    for operand in (result.inputs, result.weights):
        streamed = replace(operand, study=replace(operand.study, result=None))
        assert torch.equal(streamed.codes(slice(2, 9)), operand.codes(slice(2, 9)))
    plain = replace(result.inputs, study=None)
    assert torch.equal(plain.codes(slice(2, 9)), plain.values(slice(2, 9)))


@pytest.mark.parametrize("shown", NAMES)
def test_a_small_layer_is_exact(result, shown):
    picture = layer_picture(result, *WHOLE, shown, 64)
    assert picture.x.exact
    assert picture.w.exact
    assert picture.y.exact
    assert not picture.sampled
    assert np.array_equal(picture.x.values, of_operand(result.inputs, shown).astype(np.float32))
    assert np.array_equal(picture.w.values, of_operand(result.weights, shown).T.astype(np.float32))
    wanted = getattr(result.cells(), NAMES[shown]).numpy().astype(np.float32)
    assert np.array_equal(picture.y.values, wanted)


@pytest.mark.parametrize("shown", NAMES)
def test_a_pixel_shows_the_value_of_largest_magnitude(result, shown):
    picture = layer_picture(result, *WHOLE, shown, 8, result.cells())
    cells = getattr(result.cells(), NAMES[shown]).numpy()
    rows, cols = picture.y.row_edges, picture.y.col_edges
    assert (rows[0], rows[-1], cols[0], cols[-1]) == (0, 29, 0, 53)
    for row in range(8):
        for col in range(8):
            block = cells[rows[row] : rows[row + 1], cols[col] : cols[col + 1]]
            loudest = block.flat[np.abs(block).argmax()]
            assert picture.y.values[row, col] == np.float32(loudest)
    assert not picture.y.exact


def test_a_part_is_cut_out_of_the_whole_along_all_three_axes(result):
    part = layer_picture(result, (3, 9), (30, 40), (50, 53), "x", 64, result.cells())
    whole = layer_picture(result, *WHOLE, "x", 64)
    assert np.array_equal(part.x.values, whole.x.values[3:9, 30:])
    assert np.array_equal(part.w.values, whole.w.values[30:, 50:])
    assert np.array_equal(part.y.values, whole.y.values[3:9, 50:])


@pytest.mark.parametrize("shown", NAMES)
def test_many_outputs_are_read_in_bands_or_sampled(result, shown, monkeypatch):
    whole = layer_picture(result, *WHOLE, shown, 8)
    monkeypatch.setattr(module, "_CELLS_PER_READ", 100)
    banded = layer_picture(result, *WHOLE, shown, 8)
    for name in ("x", "w", "y"):
        assert np.allclose(getattr(banded, name).values, getattr(whole, name).values, rtol=1e-6, atol=1e-9)
    monkeypatch.setattr(module, "_MOST_WORK", 1)
    sampled = layer_picture(result, *WHOLE, shown, 8)
    cells = getattr(result.cells(), NAMES[shown]).numpy()
    picked = cells[np.ix_(sampled.y.row_edges[:-1], sampled.y.col_edges[:-1])]
    assert sampled.sampled
    assert np.allclose(sampled.y.values, picked, rtol=1e-5, atol=1e-6)
