"""Bits against SQNR: known values of known distributions, and dots that are what `quantize` gives."""

import math
import statistics

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis import rate_distortion as module
from quantviz.analysis import sampled_part
from quantviz.analysis.rate_distortion import rate_distortion
from quantviz.analysis.source_bounds import (
    LAPLACE_EXCESS,
    Atoms,
    best_uniform,
    entropy_coded,
    laplace_lower_bound,
    lloyd_max,
)
from tests.helpers.drawn import normal

SHARES = (np.arange(40_000) + 0.5) / 40_000
GAUSS = Atoms.of(np.array([statistics.NormalDist().inv_cdf(share) for share in SHARES]))
LAPLACE = Atoms.of(np.sign(SHARES - 0.5) * -np.log1p(-np.abs(2 * SHARES - 1)) / math.sqrt(2))


@pytest.fixture(scope="module")
def found():
    return rate_distortion(normal(32, 128))


# Max (1960), whose printed .009497 is not told tighter than here.
@pytest.mark.parametrize(("levels", "noise"), [(2, 0.3634), (4, 0.1175), (8, 0.03455), (16, 0.009501)])
def test_lloyd_max_of_a_gaussian(levels, noise):
    assert lloyd_max(GAUSS, levels) == pytest.approx(noise, rel=1e-3)
    assert lloyd_max(GAUSS, levels) <= best_uniform(GAUSS, levels) * (1 + 1e-9)


# Max (1960), table II.
@pytest.mark.parametrize(("levels", "noise"), [(4, 0.1188), (8, 0.03744), (16, 0.01154)])
def test_the_best_uniform_quantizer_of_a_gaussian(levels, noise):
    assert best_uniform(GAUSS, levels) == pytest.approx(noise, rel=2e-3)


@pytest.mark.parametrize("name", ["lloyd", "uniform"])
def test_no_other_levels_are_better(name):
    """Against all ways to cut few values into runs, and against many steps and places."""
    values = np.sort(np.random.default_rng(3).standard_t(2, 9))
    atoms = Atoms.of(values)
    if name == "lloyd":
        cuts = [(i, j) for i in range(1, 8) for j in range(i + 1, 9)]
        noises = [sum(((run - run.mean()) ** 2).sum() for run in np.split(values, cut)) / 9 for cut in cuts]
        assert lloyd_max(atoms, 3) == pytest.approx(min(noises))
        return
    steps, places = np.geomspace(0.05, 8, 120), np.linspace(values[0], values[-1], 80)
    grids = places[:, None, None] + steps[:, None] * np.arange(3)
    tried = np.square(values[:, None] - grids[:, :, None]).min(-1).mean(-1)
    assert best_uniform(atoms, 3) <= tried.min() * 1.02


def test_entropy_coding_comes_within_a_quarter_of_a_bit():
    for atoms, excess in ((GAUSS, 1.0), (LAPLACE, math.e / math.pi)):
        bits, noises = entropy_coded(atoms)
        for rate in (4.0, 4.5):
            noise = np.exp(np.interp(rate, bits, np.log(noises)))
            gap = 0.5 * math.log2(noise / (excess * atoms.variance)) + rate
            assert gap == pytest.approx(0.2546, abs=0.003)
    bits, noises = entropy_coded(GAUSS)
    gap = -10 * math.log10(np.interp(0.63, bits, noises)) - 6.0206 * 0.63
    assert gap == pytest.approx(-1.1, abs=0.03)


def test_the_family_is_the_likelier_one():
    assert (GAUSS.family, LAPLACE.family) == ("gauss", "laplace")
    assert Atoms.of(np.zeros(5)).family == "gauss"


def blahut_arimoto(values, weights, slope, rounds):
    """Return bits and mean squared error of the rate–distortion function of a source, where its tangent has
    this slope, by alternating over the codes of each value (Blahut 1972, Arimoto 1972).

    Codes stand for the same values. Larger slopes give more bits.
    """
    distances = np.square(values[:, None] - values)
    likely = np.exp(-slope * distances)
    shares = np.full(len(values), 1 / len(values))
    for _ in range(rounds):
        rise = (weights / (likely @ shares)) @ likely
        if rise.max() < 1 + 1e-6:
            break
        shares = shares * rise
    given = likely * shares
    total = given.sum(-1)
    noise = float(weights @ ((given * distances).sum(-1) / total))
    bits = -float(weights @ np.log2(total)) - slope * noise / math.log(2)
    return bits, noise


@pytest.mark.parametrize("bits", [0.2469, 0.5056])
def test_what_is_recorded_of_a_laplacian_is_what_the_algorithm_gives(bits):
    values = np.arange(-8, 8.01, 0.125)
    chances = np.diff(_laplace_share(np.append(values - 0.0625, values[-1] + 0.0625)))
    chances /= chances.sum()
    variance = float(chances @ np.square(values))
    low, high = math.log(0.3), math.log(20.0)
    for _ in range(9):
        rate, noise = blahut_arimoto(values, chances, math.exp((low + high) / 2), rounds=1200)
        low, high = ((low + high) / 2, high) if rate < bits else (low, (low + high) / 2)
    bound = float(laplace_lower_bound(variance, np.array(rate)))
    assert noise / bound == pytest.approx(LAPLACE_EXCESS[bits], abs=3e-3)


def _laplace_share(values):
    tail = 0.5 * np.exp(-np.abs(values) * math.sqrt(2))
    return np.where(values < 0, tail, 1 - tail)


def test_dots_are_what_the_formats_give(found):
    x = normal(32, 128)
    assert (found.priced_as, found.own_size, found.share, found.family) == ((4096, 4096), False, 1.0, "gauss")
    assert [row.id for row in found.rows][: len(qv.RECIPES)] == list(qv.RECIPES)
    # The one without a sign or a zero point holds scales.
    assert {row.scheme.format for row in found.rows if row.fits} == set(qv.FORMATS) - {"float8_e8m0fnu"}
    for row in [row for row in found.rows if row.fits][::17]:
        m = qv.metrics(qv.quantize(x, row.scheme))
        assert (row.sqnr_db, row.own_bits) == (m["sqnr_db"], m["effective_bits"])
        assert row.entropy_bits == pytest.approx(row.bits - row.scheme.number_format.bits + m["code_entropy"])
    assert len(set(found.table()["scheme"])) > 150
    assert set(found.line_table()) == {"line", "coding", "bits", "sqnr_db"}


def test_a_trail_goes_from_few_scales_to_many(found):
    trail = [row for row in found.trails["int4"] if row.scheme.mode == "symmetric"]
    assert len({(row.id, row.scheme) for row in found.rows}) == len({row.id for row in found.rows})
    groups = [row for row in trail if row.scheme.granularity.id == "per_group"]
    assert [row.scheme.granularity.size for row in groups] == sorted(
        (row.scheme.granularity.size for row in groups), reverse=True
    )
    assert [row.sqnr_db for row in groups] == sorted(row.sqnr_db for row in groups)
    assert {row.scheme.granularity.size for row in found.trails["nf4_64"]} >= {64, 128}


def test_the_front_is_flagged_and_bounds_hold(found):
    front = [row for row in found.rows if row.on_front]
    assert sorted(row.bits for row in front) == [row.bits for row in found.front]
    gauss, lloyd, uniform = (found.line(name) for name in ("gauss_bound", "lloyd_max", "uniform"))
    assert (gauss.coding, lloyd.coding, found.line("ecsq").coding) == ("bound", "fixed_rate", "entropy_coded")
    for bits, db in zip(lloyd.bits, lloyd.sqnr_db, strict=True):
        assert uniform.at(bits) <= db + 1e-9
    for row in found.rows:
        # One scale for all is one quantizer for all values: Lloyd and Max's is the best there is.
        if row.fits and row.scheme.granularity.id == "per_tensor" and row.scheme.number_format.bits < 8:
            assert not row.above_lloyd_max, row.id


def test_blocks_may_lie_above_one_quantizer_for_all():
    """They adapt to how loud values are where they lie, and are said to."""
    x = normal(64, 64) * torch.logspace(-2, 2, 64)[:, None]
    above = {row.id for row in rate_distortion(x).rows if row.above_lloyd_max}
    assert "int4_per_row" in above
    assert "int4_per_tensor" not in above


def test_a_large_tensor_is_told_by_slices_with_its_own_scales(monkeypatch):
    x = normal(512, 64)
    x[300, 5] = 9.0
    monkeypatch.setattr(sampled_part, "SAMPLED", 2**11)
    monkeypatch.setattr(module, "TRAIL", (qv.PerTensor(), qv.PerGroup(32)))
    found = rate_distortion(x, priced_as=(512, 64))
    assert 0 < found.share < 0.1
    assert found.own_size
    for row in found.rows:
        if row.id in ("int4_per_tensor", "int4_per_column", "int8_g32", "nvfp4", "ternary_absmean"):
            m = qv.metrics(qv.quantize(x, row.scheme))
            assert row.share == found.share
            assert row.bits == m["effective_bits"]
            assert row.sqnr_db == pytest.approx(m["sqnr_db"], abs=0.6)
    recipes = sampled_part.sampled_rows(x, current=qv.Scheme())
    told = [row for row in found.rows if row.id in qv.RECIPES]
    assert [(row.id, row.sqnr_db, row.share) for row in recipes[:-1] if row.fits] == [
        (row.id, row.sqnr_db, row.share) for row in told if row.fits
    ]
    two = sampled_part.SampledPart.of(torch.eye(3, 4_000), qv.Scheme())
    assert two.weights.tolist() == [1.0, 2.0], "beside the slice of the largest value another one"
    now = recipes[-1]
    assert (now.id, now.share) == ("current", found.share)
    assert now.sqnr_db == pytest.approx(qv.metrics(qv.quantize(x, qv.Scheme()))["sqnr_db"], abs=0.6)
    known = rate_distortion(x, rows=[row for row in found.rows if row.id == "int4_g32"])
    assert known.rows[0].id == "int4_g32"


def test_small_and_odd_tensors():
    for x in ([[1.0]], torch.zeros(3, 3), [1.0, 2.0, 4.0, 9.0], normal(2, 3, 4)):
        found = rate_distortion(x)
        assert any(row.fits for row in found.rows)
        assert all(len(line.bits) == len(line.sqnr_db) for line in found.lines)
        assert not any(row.fits for row in found.rows if row.id == "int8_per_row" and len(found.shape) == 1)
    with pytest.raises(qv.QuantVizError, match="NaN"):
        rate_distortion([[math.nan, 1.0]])
    kept = rate_distortion([[math.nan, 1.0, 2.0, 3.0]], current=qv.Scheme(nonfinite="ignore"))
    assert any(row.fits for row in kept.rows)
