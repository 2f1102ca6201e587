"""The random sources are what they say: moments, tails, places; and the same on every run."""

import os
import subprocess
import sys

import pytest
import torch

from quantviz.sources import (
    AfterGelu,
    AllPositive,
    Bimodal,
    Laplace,
    LoudChannels,
    LoudColumns,
    LoudRows,
    Normal,
    OneOutlier,
    StudentT,
    Uniform,
)

LARGE = {"rows": 512, "cols": 512}
# The first three values of each default tensor.
NORMAL = [-2.31041, -0.37325, -1.06082]
LAPLACE = [2.40338, 0.52951, -0.47797]
STUDENT_T = [4.46909, -1.65599, -0.89869]
ALL_POSITIVE = [0.0304, 0.34557, 0.77787]
AFTER_GELU = [-0.0241, -0.13231, -0.15317]
# The loud channel of the default one.
LOUDEST = 24


def share_beyond(values, bound):
    return float((values.abs() > bound).double().mean())


def moments(values):
    values = values.double()
    centred = values - values.mean()
    variance = float((centred**2).mean())
    return float(values.mean()), variance, float((centred**4).mean()) / variance**2


@pytest.mark.parametrize("seed", [0, 1, 4294967295])
def test_normal(seed):
    mean, variance, kurtosis = moments(Normal(**LARGE, seed=seed, mean=3, std=2).tensor())
    assert mean == pytest.approx(3, abs=0.02)
    assert variance == pytest.approx(4, rel=0.02)
    assert kurtosis == pytest.approx(3, abs=0.06)


@pytest.mark.parametrize("seed", [0, 1])
def test_laplace(seed):
    values = Laplace(**LARGE, seed=seed, mean=-1, scale=0.5).tensor()
    mean, variance, kurtosis = moments(values)
    assert mean == pytest.approx(-1, abs=0.01)
    assert variance == pytest.approx(0.5, rel=0.02)
    assert kurtosis == pytest.approx(6, abs=0.4)
    assert float((values + 1).abs().double().mean()) == pytest.approx(0.5, rel=0.01)


def test_uniform():
    values = Uniform(**LARGE, lo=10, hi=20).tensor()
    mean, variance, kurtosis = moments(values)
    assert (mean, variance, kurtosis) == (
        pytest.approx(15, abs=0.03),
        pytest.approx(100 / 12, rel=0.01),
        pytest.approx(1.8, abs=0.01),
    )
    assert 10 <= float(values.min()) < 10.001
    assert 19.999 < float(values.max()) <= 20


@pytest.mark.parametrize(
    ("df", "bound", "share"),
    # Two-sided tail probabilities of the t tables: for each df the 5 % and the 1 % point.
    [
        (1, 12.706, 0.05),
        (1, 63.657, 0.01),
        (3, 3.182, 0.05),
        (3, 5.841, 0.01),
        (10, 2.228, 0.05),
        (10, 3.169, 0.01),
        (1e6, 1.960, 0.05),
        (2.5, 2.0, 0.1596),
    ],
)
def test_student_t_has_the_tails_of_the_tables(df, bound, share):
    assert share_beyond(StudentT(**LARGE, seed=2, df=df).tensor(), bound) == pytest.approx(share, rel=0.05)


def test_bimodal_has_two_heaps_and_a_gap():
    values = Bimodal(**LARGE, distance=6, std=0.5).tensor()
    assert float((values > 0).double().mean()) == pytest.approx(0.5, abs=0.01)
    assert float(values[values > 0].mean()) == pytest.approx(3, abs=0.01)
    assert float(values[values > 0].std()) == pytest.approx(0.5, abs=0.01)
    assert share_beyond(values, 1) > 0.999


@pytest.mark.parametrize("every", [1, 3, 8, 32, 512])
def test_loud_rows_and_columns_are_the_named_ones(every):
    plain = Normal(rows=64, cols=64, seed=5).tensor().double()
    for axis, kind in enumerate((LoudRows, LoudColumns)):
        ratio = (kind(rows=64, cols=64, seed=5, every=every, factor=8).tensor().double() / plain).movedim(
            axis, 0
        )
        expected = torch.tensor(
            [8.0 if line % every == 0 else 1.0 for line in range(64)], dtype=torch.float64
        )
        assert torch.allclose(ratio, expected[:, None].expand(64, 64), rtol=1e-6)


@pytest.mark.parametrize("channels", [0, 1, 5, 64])
def test_loud_channels_are_as_many_as_named_at_places_of_the_seed(channels):
    plain = Normal(rows=8, cols=64, seed=5).tensor()
    ratio = LoudChannels(rows=8, cols=64, seed=5, channels=channels, factor=8).tensor() / plain
    loud = (ratio > 4).all(0)
    assert int(loud.sum()) == channels
    assert torch.allclose(ratio[:, ~loud], torch.ones(8, 64 - channels))
    other = LoudChannels(rows=8, cols=64, seed=6, channels=5).tensor().abs().amax(0).topk(5).indices
    assert sorted(other.tolist()) != sorted(loud.nonzero().flatten().tolist())


def test_after_gelu_is_what_torch_computes():
    before = Normal(**LARGE, seed=4, std=3).tensor().double()
    values = AfterGelu(**LARGE, seed=4, std=3).tensor()
    torch.testing.assert_close(values, torch.nn.functional.gelu(before).float(), rtol=1e-6, atol=1e-6)
    assert -0.18 < float(values.min()) < -0.16


@pytest.mark.parametrize(
    ("fields", "place"), [({}, (16, 16)), ({"row": 0, "col": 31}, (0, 31)), ({"row": 5}, (5, 16))]
)
def test_one_outlier_is_one_cell(fields, place):
    source = OneOutlier(value=100, **fields)
    changed = source.tensor() != Normal().tensor()
    assert changed.nonzero().tolist() == [list(place)]
    assert source.place == place
    assert float(source.tensor()[place]) == 100


def test_all_positive_is():
    values = AllPositive(**LARGE, scale=2).tensor()
    assert float(values.min()) > 0
    mean, variance, _ = moments(values)
    assert (mean, variance) == (pytest.approx(2, rel=0.01), pytest.approx(4, rel=0.03))


def test_seeds_differ_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    assert not torch.equal(Normal(seed=0).tensor(), Normal(seed=1).tensor())
    assert torch.equal(torch.get_rng_state(), before)


def test_values_are_pinned():
    """Links keep their tensors: these numbers may never change."""
    assert [round(value, 5) for value in Normal().tensor()[0, :3].tolist()] == NORMAL
    assert [round(value, 5) for value in Laplace().tensor()[0, :3].tolist()] == LAPLACE
    assert [round(value, 5) for value in StudentT().tensor()[0, :3].tolist()] == STUDENT_T
    assert [round(value, 5) for value in AllPositive().tensor()[0, :3].tolist()] == ALL_POSITIVE
    assert [round(value, 5) for value in AfterGelu().tensor()[0, :3].tolist()] == AFTER_GELU
    assert int(LoudChannels().tensor().square().sum(0).argmax()) == LOUDEST


@pytest.mark.nightly
def test_the_processor_does_not_matter():
    program = (
        "import hashlib; from quantviz.sources import *;"
        "print(hashlib.sha256(b''.join(k(rows=64, cols=65, seed=9).tensor().numpy().tobytes()"
        " for i, k in SOURCES.items() if i != 'builtin')).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for capability in ("default", "avx2")
    }
    assert len(digests) == 1
