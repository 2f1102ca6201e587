"""HIGGS: grids for a Gaussian, and weights rounded to them."""

import math

import pytest
import torch

import quantviz as qv
from quantviz.layers.methods.higgs import gaussian_error, gaussian_grid
from quantviz.schemes.formats import FORMATS

EVERY = slice(None)


def drawn(rows, cols, seed):
    return torch.empty(rows, cols).normal_(generator=torch.Generator().manual_seed(seed))


W = drawn(32, 256, 1)
X = drawn(64, 256, 2)


def found(method, weights="int4_per_row", w=W):
    return qv.layer(w, X, weights, None, method=method)


@pytest.mark.parametrize(("bits", "distortion"), [(1, 0.3634), (2, 0.1175), (3, 0.03455), (4, 0.009501)])
def test_grids_have_the_distortions_of_lloyd_and_max(bits, distortion):
    grid = gaussian_grid(bits).codebook
    assert gaussian_error(grid) == pytest.approx(distortion, rel=1e-3)
    for move in (-0.01, 0.01):
        moved = (grid[0] + move, *grid[1:])
        assert gaussian_error(moved) > gaussian_error(grid)


def test_many_values_come_near_the_bound_of_a_high_resolution():
    bound = math.sqrt(3) * math.pi / 2
    assert gaussian_error(gaussian_grid(8).codebook) * 256**2 == pytest.approx(bound, rel=0.02)


@pytest.mark.parametrize("scheme", ["int2", "int3", "int4"])
def test_gaussian_weights_lose_what_the_grid_loses(scheme):
    result = found("higgs", f"{scheme},symmetric,per_channel(axis=0),min_max,course")
    trace = result.trace["higgs"]
    assert trace.weights == pytest.approx(trace.gaussian, rel=0.1)
    assert result.weights.sqnr_db == pytest.approx(-10 * math.log10(trace.weights), abs=1e-3)
    values = result.weights.quantized(EVERY)
    assert all(len(row.unique()) <= FORMATS[scheme].levels for row in values)
    assert "method_own_values" in [note.key for note in result.notes]


def test_a_rotation_brings_the_error_of_a_gaussian():
    loud = W.clone()
    loud[:, ::16] *= 10
    plain, turned = (found(each, w=loud).trace["higgs"] for each in ("higgs", "rotation(signs=true)+higgs"))
    assert turned.weights == pytest.approx(turned.gaussian, rel=0.1)
    assert plain.weights > 2 * turned.weights


def test_a_scale_is_a_float16_and_zeros_stay_zeros():
    grouped = found("higgs", "int4,asymmetric,per_group(size=64),min_max,course")
    assert grouped.effective_bits == pytest.approx(4 + 16 / 64)
    assert found("higgs", w=torch.zeros(2, 256)).weights.quantized(EVERY).abs().max() == 0
    with pytest.raises(qv.QuantVizError, match="float16"):
        found("higgs", w=W * 1e6)
    with pytest.raises(qv.QuantVizError, match="up to 8 bits"):
        found("higgs", "int16,symmetric,per_tensor,min_max,course")


def test_a_codebook_of_its_own_counts_once():
    # 16 values of 16 bits and one scale of 16 bits beside codes of 4 bits.
    assert found("kmeans", "int4_per_tensor").effective_bits == pytest.approx(4 + (16 * 16 + 16) / W.numel())
    # Fewer values than codes of 4 bits have: their bits are not taken off twice.
    assert 1 <= found("kmeans", "int4_per_tensor", w=torch.zeros(32, 256)).effective_bits < 2
