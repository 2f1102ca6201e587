"""Codes and values of a file beside the nearest ones: compiled code finds what the reference finds."""

import dataclasses

import pytest
import torch

import quantviz as qv
from quantviz.sources.layouts.weight import plain_scheme
from quantviz.streaming import comparing
from quantviz.streaming.comparing import WeightBand

SHAPE = (48, 512)
SCHEMES = {
    "blocks with a value of code 0": qv.RECIPES["q4_k"],
    "a list of values": qv.RECIPES["iq4_nl"],
    "short groups with zero points": plain_scheme("uint4", "asymmetric", qv.PerGroup(120), SHAPE),
    "columns": plain_scheme("int8", "symmetric", qv.PerChannel(1), SHAPE),
    "blocks of floats": plain_scheme("float8_e4m3fn", "symmetric", qv.PerBlock(16, 128), SHAPE),
}


def band_of(scheme, shape=SHAPE, *, slack=(0.02, 0.0), empty=False):
    """A band whose file was made of other values than the original's: some codes are not the nearest, some
    values are beyond what scales reach.
    """
    g = torch.Generator().manual_seed(11)
    x = torch.randn(shape, generator=g)
    x[3, 7], x[5] = 0.0, 0.0
    made = qv.quantize(x, scheme)
    scale = made.qparams.scale * 0.9
    if empty:
        scale = scale.clone()
        scale.view(-1)[:3] = 0.0
    safe = torch.where(scale == 0, 1.0, scale)
    params = qv.QParams(safe, made.qparams.zero_point, zero_domain=scheme.zero_domain, stored=True)
    other = qv.quantize(x + 0.3 * torch.randn(shape, generator=g) * (x.abs() > 1), scheme, qparams=params)
    return WeightBand(scheme, x, other.q, other.x_hat, scale, made.qparams.zero_point, slack)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("how", [{}, {"slack": (0.02, 0.05)}, {"empty": True}], ids=["", "folded", "empty"])
def test_the_kernel_finds_what_the_reference_finds(scheme, how):
    band = band_of(scheme, **how)
    found, wanted = comparing._by_kernel(band), comparing.by_reference(band)
    assert found is not None
    assert torch.equal(found.near, wanted.near)
    assert (found.blocks, found.saturated) == (wanted.blocks, wanted.saturated)
    for each in dataclasses.fields(wanted.moments):
        own, theirs = getattr(found.moments, each.name), getattr(wanted.moments, each.name)
        torch.testing.assert_close(own, theirs, rtol=1e-9, atol=1e-9, msg=each.name)
    exact = ("cells", "clipped", "zeros", "zeroed", "max_error", "codes_seen", "code_counts")
    assert all(torch.equal(getattr(found.moments, n), getattr(wanted.moments, n)) for n in exact)
    assert 0 < int(wanted.near.sum()) < band.x.numel()
    assert found.ends == tuple((float(each.min()), float(each.max())) for each in (band.x, band.x_hat))


@pytest.mark.parametrize("name", ["blocks with a value of code 0", "short groups with zero points"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_and_values_that_follow_from_codes_are_decoded_on_the_way(name, dtype):
    band = band_of(SCHEMES[name])
    band = dataclasses.replace(band, stored=band.x.to(dtype), given=None)
    wanted = dataclasses.replace(band, stored=band.x, given=band.x_hat)
    one, other = comparing._by_kernel(band), comparing._by_kernel(wanted)
    assert torch.equal(one.near, other.near)
    assert (one.ends, one.saturated) == (other.ends, other.saturated)
    for each in dataclasses.fields(one.moments):
        assert torch.equal(getattr(one.moments, each.name), getattr(other.moments, each.name)), each.name


def test_codes_are_unpacked_from_words_on_the_way():
    """Neither whole tiles nor whole groups of rows: 100 rows of 520 columns."""
    shape = (100, 520)
    band = band_of(plain_scheme("uint4", "asymmetric", qv.PerGroup(40), shape), shape)
    band = dataclasses.replace(band, given=None)
    words = sum(band.q[:, k::8].to(torch.int64) << 4 * k for k in range(8)).to(torch.int32).T.contiguous()
    packed = dataclasses.replace(band, codes=lambda: pytest.fail("unpacked by torch"), words=words)
    one, other = comparing._by_kernel(packed), comparing._by_kernel(band)
    assert torch.equal(one.near, other.near)
    assert (one.ends, one.blocks, one.saturated) == (other.ends, other.blocks, other.saturated)
    for each in dataclasses.fields(one.moments):
        assert torch.equal(getattr(one.moments, each.name), getattr(other.moments, each.name)), each.name


def test_scales_of_all_rows_serve_some_of_them():
    band = band_of(SCHEMES["short groups with zero points"], empty=True)
    wanted = comparing._by_kernel(band)
    scales = comparing.scales_of_rows(band.scheme, band.scale, band.zero_point, SHAPE)
    parts = []
    for start, stop in ((0, 32), (32, SHAPE[0])):
        rows = {n: getattr(band, n)[start:stop] for n in ("stored", "codes", "given", "scale", "zero_point")}
        some = dataclasses.replace(band, **rows, scales=scales.of_rows(start, stop, SHAPE[0]))
        parts.append(comparing._by_kernel(some))
    one, other = parts
    assert torch.equal(one.near + other.near, wanted.near)
    assert one.saturated + other.saturated == wanted.saturated
    joined = one.found.join(other.found).moments
    for each in dataclasses.fields(joined):
        own, theirs = getattr(joined, each.name), getattr(wanted.moments, each.name)
        torch.testing.assert_close(own, theirs, rtol=1e-12, atol=1e-12, msg=each.name)
    assert comparing.scales_of_rows(SCHEMES["columns"], torch.ones(512), torch.zeros(()), SHAPE) is None


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("side", ["stored", "given"])
def test_what_is_not_finite_is_left_to_the_reference(side, value):
    band = band_of(SCHEMES["columns"])
    getattr(band, side)[1, 2] = value
    assert comparing._by_kernel(band) is None
    found = comparing.compared(band, count=2**20)
    assert found.ends is None
    assert found.moments.cells == band.x.numel() - (side == "stored")


def test_values_beyond_float32_are_refused_as_the_reference_refuses_them():
    band = dataclasses.replace(band_of(SCHEMES["columns"]), scale=torch.full((1, SHAPE[1]), 2.2e38))
    band.stored[0, 0] = 3.4e38
    assert comparing._by_kernel(band) is None
    with pytest.raises(qv.QuantVizError) as refused:
        comparing.compared(band, count=2**20)
    assert refused.value.key == "value_beyond_float32"
