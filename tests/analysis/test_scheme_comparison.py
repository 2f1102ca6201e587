"""Who has the smaller error: against errors of `quantize`, cell by cell, however a tensor is read."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis import scheme_comparison as module
from quantviz.analysis import study
from quantviz.analysis.scheme_comparison import NOTHING, TIE, compare_schemes
from tests.helpers.drawn import normal

TWO = ("int4_per_row", "nf4_64")
THREE = (*TWO, "q4_0")


def errors(x, schemes):
    return np.stack([qv.quantize(x, each).error.abs().double().numpy() for each in schemes])


def judged(found):
    """The winner by sorting: the reference."""
    order = np.argsort(found, axis=0, kind="stable")
    ordered = np.take_along_axis(found, order, 0)
    return np.where(ordered[0] == ordered[1], TIE, order[0]), ordered[1] - ordered[0]


@pytest.mark.parametrize("schemes", [TWO, THREE, ("int4_per_tensor", "int4_per_tensor")])
def test_each_cell_goes_to_the_least_error(schemes):
    x = normal(8, 64)
    found = compare_schemes(x, schemes)
    own = errors(x, schemes)
    winner, lead = judged(own)
    assert found.winner.shape == (8, 64)
    assert (found.winner == winner).all()
    assert found.lead == pytest.approx(lead, rel=1e-6)
    assert found.against_a == pytest.approx(own[0] - own[1:].min(0), rel=1e-6)
    assert found.cell_shares == tuple((winner == k).mean() for k in range(len(schemes)))
    assert found.cell_ties == pytest.approx((winner == TIE).mean())
    assert found.part_shares == found.cell_shares
    assert found.part_ties == pytest.approx(found.cell_ties)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("parts", [qv.PerChannel(0), qv.PerChannel(1), qv.PerGroup(16), qv.PerBlock(4, 24)])
def test_each_part_goes_to_the_least_mean_square(parts, large, monkeypatch):
    x = normal(10, 64, seed=2)
    if large:
        # Nothing is read as a whole, and bands are parts of a row of blocks, or several.
        monkeypatch.setattr(study, "MOST_WHOLE", 0)
        monkeypatch.setattr(module, "_CELLS_PER_CHUNK", 3 * 64)
    found = compare_schemes(x, THREE, parts=parts)
    layout = parts.layout((10, 64), "short")
    from quantviz.tensors.blocks import block_sizes, block_sums

    sizes = block_sizes(layout).numpy()
    own = [block_sums(torch.from_numpy(each**2), layout).numpy() / sizes for each in errors(x, THREE)]
    winner, lead = judged(np.sqrt(np.stack(own)))
    assert found.winner.shape == layout.grid_shape
    assert (found.winner == winner).all()
    assert found.lead == pytest.approx(lead, rel=1e-6)
    assert found.cell_shares == tuple((judged(errors(x, THREE))[0] == k).mean() for k in range(3))


@pytest.mark.parametrize("large", [False, True])
def test_pixels_are_tiles_as_pictures_have_them(large, monkeypatch):
    x = normal(10, 64, seed=3)
    if large:
        monkeypatch.setattr(study, "MOST_WHOLE", 0)
        monkeypatch.setattr(module, "_CELLS_PER_CHUNK", 2 * 64)
    found = compare_schemes(x, TWO, pixels=(4, 5))
    rows, cols = found.row_edges, found.col_edges
    assert (len(rows), len(cols), rows[-1], cols[-1]) == (5, 6, 10, 64)
    squares = errors(x, TWO) ** 2
    for i in range(4):
        for j in range(5):
            tile = squares[:, rows[i] : rows[i + 1], cols[j] : cols[j + 1]].mean((1, 2))
            assert found.winner[i, j] == int(tile.argmin())
            assert found.lead[i, j] == pytest.approx(np.ptp(np.sqrt(tile)), rel=1e-6)


def test_metrics_stand_beside_those_of_a():
    x = normal(8, 64)
    found = compare_schemes(x, THREE, metrics=("mse", "sqnr_db", "code_entropy"))
    table, m = found.table(), [qv.metrics(qv.quantize(x, each)) for each in THREE]
    assert table["sqnr_db"].tolist() == [each["sqnr_db"] for each in m]
    assert table["sqnr_db_minus_a"].tolist() == [each["sqnr_db"] - m[0]["sqnr_db"] for each in m]
    assert len(table) == 3
    assert list(table)[:3] == ["scheme", "mse", "mse_minus_a"]
    exact = compare_schemes([[1.0, -1.0]], ["int8_per_tensor", "int4_per_tensor"]).table()
    assert exact["sqnr_db_minus_a"].tolist() == [0.0, 0.0]


def test_what_is_left_out_has_no_winner():
    x = normal(4, 64)
    x[1, 3] = torch.nan
    schemes = [qv.RECIPES[name].replace(nonfinite="ignore") for name in TWO]
    found = compare_schemes(x, schemes)
    assert found.winner[1, 3] == NOTHING
    assert (found.winner == NOTHING).sum() == 1
    assert np.isnan(found.lead[1, 3])
    assert sum(found.cell_shares) + found.cell_ties == pytest.approx(1)
    with pytest.raises(qv.QuantVizError, match="NaN"):
        compare_schemes(x, TWO)


def test_other_shapes_and_numbers():
    assert compare_schemes(
        [1.0, 2.0, 3.5], ["int4_per_tensor", "int3,symmetric,per_tensor,min_max,course"]
    ).winner.shape == (3,)
    assert compare_schemes(normal(2, 3, 4), ["int4_per_tensor", "int8_per_row"]).winner.shape == (2, 3, 4)
    assert compare_schemes(
        normal(2, 3, 4), ["int4_per_tensor", "int8_per_row"], pixels=(2, 2)
    ).winner.shape == (2, 2)
    for schemes, pixels, words in (
        (["int4_per_row"], None, "2 to 8"),
        (["int4_per_row"] * 9, None, "2 to 8"),
        (TWO, (0, 4), "whole numbers"),
    ):
        with pytest.raises(qv.QuantVizError, match=words):
            compare_schemes(normal(4, 64), schemes, pixels=pixels)
    with pytest.raises(qv.QuantVizError, match="group"):
        compare_schemes(normal(4, 6), ["int4_per_row", "int4_g32"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_PARTS", 10)
        with pytest.raises(qv.QuantVizError, match="too many parts"):
            compare_schemes(normal(4, 64), TWO)
