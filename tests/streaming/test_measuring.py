"""Streaming passes against the reference: every scheme that is offered, and whatever a tensor can hold."""

import ast
import inspect
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.compiled import driving, hand_written, kernel_cache
from quantviz.compiled.partial_sums import Tally
from quantviz.evaluation import metric_formulas
from quantviz.quantization.result import counted_cells, steps_of_error
from quantviz.schemes.calibration import External, ModeContext
from quantviz.schemes.conventions import CHOICES
from quantviz.schemes.granularity import Flat, PerBlock
from quantviz.streaming import (
    coding,
    limits,
    measuring,
    passes,
    pieces,
    ranges,
    regions,
    result_metrics,
    tensor_facts,
)
from quantviz.streaming.threads import THREADS_VARIABLE, default_threads
from quantviz.tensors.blocks import Blocks
from quantviz.tensors.conversion import torch_dtype
from quantviz.tensors.lazy import InMemory
from tests.helpers.code import nodes
from tests.helpers.offered import offered_schemes, variant
from tests.helpers.sample import sample_of

ROOT = Path(__file__).parents[2]
#: Elements read at a time: far fewer than there are, so that borders lie inside rows and blocks.
PIECE = 1000


def tensor(*shape, seed=3):
    """Normal values, and in the first rows what is exceptional: ties, zeros, constants, subnormals, huge and
    tiny values.
    """
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    rows = x.view(-1, shape[-1])
    for i, change in enumerate(
        (
            lambda row: torch.round(row * 2) / 2,
            lambda row: row * 0,
            lambda row: row * 0 + 1.25,
            lambda row: row * 1e-40,
            lambda row: row * 1e6,
            lambda row: row * 1e-20,
            lambda row: row.abs(),
            lambda row: -row.abs() * 0,
        )
    ):
        if i < len(rows) - 1:
            rows[i + 1] = change(rows[i + 1])
    return x


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == np.ascontiguousarray(b).tobytes()


def check_measured(found, wanted):
    """Sums of the fused path may begin in float32: they may be off by 1e-6 of the mean magnitude of what they
    add, others by 1e-9.
    """
    close = 1e-6 if found.path == "fused" and not found.scheme.leaves_out else 1e-9
    assert found.metrics.keys() == wanted.metrics.keys() == set(measuring.metrics_named(None))
    # A ratio of two sums is off by twice as much, in dB by 10 / ln 10 of that.
    beside = {
        "mean_error": close * wanted.metrics["rmse"],
        "sqnr_db": 2 * close * 10 / math.log(10),
        "cosine": 2 * close,
    }
    for name, value in wanted.metrics.items():
        assert found.metrics[name] == pytest.approx(value, rel=close, abs=beside.get(name, 0), nan_ok=True), (
            name
        )
    assert found.largest_error == wanted.largest_error
    assert (found.scheme, found.shape, found.layout, found.counted) == (
        wanted.scheme,
        wanted.shape,
        wanted.layout,
        wanted.counted,
    )
    assert found.notes == wanted.notes
    assert len(found.axes) == len(wanted.axes)
    for a, b in zip(found.axes, wanted.axes, strict=True):
        torch.testing.assert_close(a.x2, b.x2, rtol=1e-9, atol=0)
        torch.testing.assert_close(a.e2, b.e2, rtol=1e-9, atol=0)


def same_errors(r):
    """Hold the compiled arithmetic that gives errors alone to those of a result of the reference."""
    made, values = pieces.Buffers(r.x.numel()), r.x.flatten().numpy()[3:-2].copy()
    values.flags.writeable = False
    address, place, of_blocks = coding.Coder(r.scheme, r.qparams, r.shape, "fused").errors(3, r.x.numel() - 2)
    driving.put(address, values, 0, len(values), 3, place, of_blocks, made.arrays, 3)
    assert same_bits(made.arrays[2][3:-2], r.error.flatten().numpy()[3:-2]), str(r.scheme)


def check(x, scheme, qparams=None, paths=("fused", "chunked"), *, errors_alone=True):
    """All paths on one tensor; whether the reference did not refuse it."""
    try:
        r = qv.quantize(x, scheme, qparams=qparams)
    except qv.QuantVizError as error:
        refused = str(error)
        for path in paths:
            with pytest.raises(qv.QuantVizError) as caught:
                measuring.measure(x, scheme, qparams=qparams, path=path, piece=PIECE)
            assert str(caught.value) == refused
        return False
    wanted = measuring.measured(r, by_axis=True)
    for path in paths:
        for part, own in zip(
            coding.codes(InMemory(r.x), r.scheme, r.qparams, 3, x.numel() - 2, path=path),
            (r.q, r.x_hat, r.error, r.clipped),
            strict=True,
        ):
            assert same_bits(part, own.flatten()[3:-2].numpy()), (
                str(scheme) if qparams is None else scheme.format,
                path,
            )
        made = pieces.Buffers(x.numel())
        coder = coding.Coder(r.scheme, r.qparams, r.shape, path)
        if errors_alone and coder.is_compiled:
            same_errors(r)
        coder.put(r.x.flatten().numpy(), 0, made)
        assert same_bits(made.arrays[2], r.error.flatten().numpy()), (
            str(scheme) if qparams is None else scheme.format,
            path,
        )
        found = measuring.measure(x, scheme, qparams=qparams, path=path, piece=PIECE, by_axis=True)
        assert found.path == path
        check_measured(found, wanted)
    return True


def check_errors(x, scheme):
    """The errors alone; whether the reference did not refuse it."""
    try:
        same_errors(qv.quantize(x, scheme))
    except qv.QuantVizError:
        return False
    return True


def check_sums(x, scheme):
    """The sums alone, without the cells; whether the reference did not refuse it."""
    try:
        wanted = measuring.measured(qv.quantize(x, scheme))
    except qv.QuantVizError:
        return False
    check_measured(measuring.measure(x, scheme, path="fused", piece=PIECE), wanted)
    return True


def loud_and_quiet(rows, columns):
    """Rows of any loudness that float32 can square, with outliers, zeros and -0."""
    chance = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, columns, generator=chance) * 2.0 ** torch.randint(
        -12, 12, (rows, 1), generator=chance
    )
    x[:, ::37], x[3] = 0.0, -0.0
    x[5, 7], x[6, -1] = 40 * x[5].abs().max(), -60 * x[6].abs().max()
    return x


#: What is compiled of a scheme, each by itself: what puts cells, what puts errors alone, and what adds up.
COMPILED = (partial(check, paths=("fused",), errors_alone=False), check_errors, check_sums)


@pytest.mark.parametrize("convention", sample_of(qv.CONVENTIONS, 4))
def test_every_scheme_is_compiled_to_what_the_reference_gives(convention, monkeypatch):
    monkeypatch.setattr(limits, "LANES", 2)
    offered = list(itertools.product(offered_schemes(qv.CONVENTIONS[convention]), COMPILED))
    done, sample = 0, sample_of(offered, 1)
    for scheme, holds in sample:
        if scheme.problems((12, 256)):
            x = torch.randn(2, 4096) if holds is check_sums else tensor(2, 4096)
        elif holds is check_sums:
            x = loud_and_quiet(40, 256)
        else:
            x = torch.randn(12, 256) if convention.startswith("gguf_") else tensor(12, 256)
        done += holds(x, scheme)
    # Some refuse, as their engines do: a sample may have none but these.
    assert done or len(sample) < len(offered)


@pytest.mark.parametrize("convention", qv.CONVENTIONS)
def test_the_chunked_path_is_the_reference(convention):
    schemes = list(offered_schemes(qv.CONVENTIONS[convention]))
    for scheme in (schemes[0], schemes[-1]):
        shape = (12, 256) if not scheme.problems((12, 256)) else (2, 4096)
        # Where huge values overflow a scale, as they do in the engine, nothing is compared: the usual ones
        # must not be refused too.
        assert check(tensor(*shape), scheme, paths=("chunked",)) + check(
            torch.randn(shape), scheme, paths=("chunked",)
        ), str(scheme)


@pytest.mark.parametrize("calibration", ["min_max", "mse"])
def test_a_block_s_range_is_at_least_a_part_of_the_tensors(calibration):
    """The largest magnitude was 0 in a pass over a file: quiet rows got scales of their own."""
    form = f"uint8,symmetric,per_channel(axis=0),{calibration},openvino_fake_quantize"
    assert check(tensor(12, 256), qv.Scheme.parse(form), paths=("chunked",))


def test_codes_between_others_are_seen_in_whatever_run_they_come():
    """A run whose codes all lie between codes of earlier runs may still have a new one."""
    scheme, tally = qv.Scheme("int4"), Tally(-7, 15, ())
    params = qv.QParams(torch.tensor(1.0), torch.tensor(0))
    for run in ([-7.0, 7.0, 0.0], [3.0, -2.0], [0.0], [6.0, 0.0]):
        tally.add(qv.quantize(torch.tensor(run), scheme, qparams=params), 0)
    assert (np.flatnonzero(tally.seen) - 7).tolist() == [-7, -2, 0, 3, 6, 7]


@pytest.mark.parametrize(
    "scheme",
    [
        qv.Scheme("int8"),
        qv.Scheme("nf4", "symmetric", qv.PerGroup(64)),
        qv.Scheme("int4", "asymmetric", qv.PerChannel(0)),
    ],
    ids=str,
)
def test_the_reference_runs_a_piece_at_a_time(scheme, monkeypatch):
    """What is made of a long run is what each of its pieces becomes, and errors alone are the same errors."""
    monkeypatch.setattr(limits, "CHUNK", 100)
    x = tensor(9, 256)
    r = qv.quantize(x, scheme)
    coder = coding.Coder(scheme, r.qparams, r.shape)
    for start, stop in ((0, 9 * 256), (57, 1300)):
        own, made, alone = (
            x.flatten().numpy()[start:stop],
            pieces.Buffers(stop - start),
            pieces.Buffers(stop - start, errors_alone=True),
        )
        coder.put(own, start, made)
        coder.put(own, start, alone)
        for array, whole in zip(
            made.arrays, (r.q, r.x_hat, r.error, r.clipped, steps_of_error(r)), strict=True
        ):
            assert array.tolist() == whole.flatten()[start:stop].tolist()
        assert alone.arrays[2].tobytes() == made.arrays[2].tobytes()
        assert [len(array) for array in alone.arrays] == [0, 0, stop - start, 0, 0]


FIELDS = [name for name in CHOICES if not name.startswith("scale.") and name not in ("tail", "unsigned_zero")]


#: Those that matter to float formats in a way of their own.
OF_FLOATS = ("ties", "overflow", "negative_zero")


def refuses(x, scheme):
    """Whether the reference does not quantize a tensor so."""
    try:
        qv.quantize(x, scheme)
    except qv.QuantVizError:
        return True
    return False


@pytest.mark.parametrize("field", sample_of(FIELDS, 5))
def test_every_field_of_the_arithmetic_is_compiled(field):
    formats = ("uint4", "float8_e4m3fn") if field in OF_FLOATS else ("uint4",)
    variants = filter(None, (variant(qv.CONVENTIONS["course"], field, value) for value in CHOICES[field]))
    schemes = [
        scheme
        for convention in variants
        for scheme in offered_schemes(convention, formats)
        if scheme.granularity.id == "per_tensor"
    ]
    x = tensor(12, 256)
    # What the reference refuses has nothing to compare: the sample is of the others, and of these apart.
    answers = [scheme for scheme in schemes if not refuses(x, scheme)]
    assert all(check(x, scheme, paths=("fused",)) for scheme in sample_of(answers, 1))
    assert answers
    others = [scheme for scheme in schemes if scheme not in answers]
    assert not any(check(x, scheme, paths=("fused",)) for scheme in sample_of(others, 1))


SHAPES = [(5003,), (1,), (7, 1), (1, 9), (37, 61), (5, 7, 13), (3, 4, 5, 6)]


def granularities(shape):
    yield qv.PerTensor()
    for axis in range(len(shape)):
        yield qv.PerChannel(axis)
        yield qv.PerGroup(4, axis)
    yield Flat(5)
    if len(shape) > 1:
        yield PerBlock(2, 3)
    if math.prod(shape) % 12 == 0:
        yield Flat(12, strided=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tail", ["short", "pad"])
def test_every_layout(shape, tail):
    convention, x = qv.CONVENTIONS["course"].replace(tail=tail), tensor(*shape)
    for granularity in granularities(shape):
        for calibration in (qv.MinMax(), qv.Percentile(90.0), qv.AbsMean()):
            mode = "symmetric" if calibration == qv.AbsMean() else "asymmetric"
            scheme = qv.Scheme("int4", mode, granularity, calibration, convention)
            whole = Blocks(x, scheme.layout(shape), torch.float64)
            found, wanted = (
                ranges.ranges(InMemory(x), scheme, piece=7 if len(x.flatten()) < 100 else PIECE),
                calibration.calibrate(whole, ModeContext(mode)),
            )
            for name in ("lo", "hi", "extreme"):
                torch.testing.assert_close(
                    getattr(found, name),
                    getattr(wanted, name),
                    rtol=0,
                    atol=0,
                    msg=f"{granularity} {calibration} {name}",
                )
        if x.numel() > 6:
            assert check(x, qv.Scheme("int4", "asymmetric", granularity, qv.MinMax(), convention)), (
                granularity
            )


@pytest.mark.parametrize("p", [50.5, 99.0, 99.99, 100.0])
@pytest.mark.parametrize("mode", qv.MODES)
def test_a_percentile_is_found_without_sorting(p, mode):
    x = torch.cat([tensor(40, 64).flatten(), torch.zeros(500), torch.full((300,), -0.5)])
    scheme = qv.Scheme("int8", mode, calibration=qv.Percentile(p))
    found, wanted = ranges.ranges(InMemory(x), scheme, piece=PIECE), qv.quantize(x, scheme).range
    assert (found.lo.item(), found.hi.item(), found.extreme.item()) == (
        wanted.lo.item(),
        wanted.hi.item(),
        wanted.extreme.item(),
    )


def test_the_first_of_two_extremes_keeps_its_sign():
    x = torch.tensor([[1.0, -3.0, 3.0, 0.0], [2.0, 3.0, -3.0, -0.0], [-0.0, 0.0, 0.0, 0.0]])
    for granularity in (qv.PerTensor(), qv.PerChannel(0), qv.PerChannel(1), qv.PerGroup(2)):
        scheme = qv.Scheme("int4", granularity=granularity)
        found, wanted = (
            ranges.ranges(InMemory(x), scheme, piece=5).extreme,
            Blocks(x, scheme.layout((3, 4)), torch.float64).extreme(),
        )
        assert found.tolist() == wanted.tolist()
        assert torch.equal(torch.signbit(found), torch.signbit(wanted))


def test_a_percentile_of_one_number_takes_little_memory():
    x = torch.zeros(2**12, 2**12)
    scheme = qv.Scheme("int8", calibration=qv.Percentile(90.0))
    ranges.ranges(InMemory(x), scheme)
    tracemalloc.start()
    assert ranges.ranges(InMemory(x), scheme).hi.item() == 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes


@pytest.mark.parametrize("width", [16, 32, 48, 128])
@pytest.mark.parametrize("blocks", [16, 19, 37])
def test_the_ends_of_many_blocks_in_a_line(width, blocks):
    x = tensor(12, width * blocks)
    x[0, ::7], x[2, width : 2 * width], x[0, width // 2] = -0.0, -x[2, :width].abs(), 3e38
    scheme = qv.Scheme("int4", granularity=qv.PerGroup(width))
    for cut in (x, x.flatten()[: 7 * width * blocks + 3 * width]):
        (lo, hi), (wanted_lo, wanted_hi) = (
            (r.lo, r.hi)
            for r in (
                ranges.ranges(InMemory(cut), scheme, piece=PIECE),
                qv.MinMax().calibrate(
                    Blocks(cut, scheme.layout(cut.shape), torch.float64), ModeContext("symmetric")
                ),
            )
        )
        assert torch.equal(lo, wanted_lo)
        assert torch.equal(hi, wanted_hi)
    x[3, 5 * width + 3] = math.nan
    with pytest.raises(qv.QuantVizError):
        measuring.measure(x, scheme, path="fused", piece=PIECE)


@pytest.mark.parametrize("form", ["int8,symmetric", "uint4,asymmetric", "int2,symmetric", "int16,symmetric"])
@pytest.mark.parametrize(
    "granularity", ["per_tensor", "per_channel(axis=0)", "per_channel(axis=1)", "per_group(size=32)"]
)
def test_saturated_cells_after_many_that_were_not(form, granularity):
    """One cell beyond the codes, several, those of a whole row, and some that come to Inf in steps."""
    scheme, x = (
        qv.Scheme.parse(f"{form},{granularity},min_max,course"),
        torch.randn(96, 256, generator=torch.Generator().manual_seed(5)),
    )
    qparams = qv.choose_qparams(x, scheme)
    for change in (
        lambda: x[95, 255].mul_(40),
        lambda: x[60:, 3].mul_(30),
        lambda: x[0].mul_(100),
        lambda: x[5, 1:4].mul_(1e35),
    ):
        change()
        wanted = measuring.measured(qv.quantize(x, scheme, qparams=qparams))
        assert wanted.metrics["clipped_share"] > 0
        check_measured(measuring.measure(x, scheme, qparams=qparams, path="fused", piece=9000), wanted)


BAD = [(math.nan,), (math.inf,), (-math.inf, math.nan, math.inf), ()]


#: Schemes without a rule for what is not finite.
WITH_BAD = (
    qv.Scheme("int8", "asymmetric"),
    qv.Scheme("int4", granularity=qv.PerGroup(32)),
    qv.Scheme("int4", granularity=qv.PerChannel(1)),
    qv.Scheme("float8_e4m3fn", granularity=qv.PerChannel(0), calibration=qv.Percentile(99)),
    qv.Scheme("int8", calibration=qv.AbsMean()),
    qv.Scheme("uint8", calibration=qv.Given(0.01)),
)


@pytest.mark.parametrize(
    ("nonfinite", "bad", "scheme"),
    sample_of(itertools.product(["refuse", "clip", "ignore"], BAD, WITH_BAD), 9),
    ids=str,
)
def test_what_is_not_finite(nonfinite, bad, scheme):
    x = tensor(20, 256)
    for i, value in enumerate(bad):
        x.view(-1)[[700 * i + 41, 5119 - i]] = value
    if bad and nonfinite != "refuse":
        x[4] = math.nan
    scheme = scheme.replace(nonfinite=nonfinite)
    assert check(x, scheme) == check_sums(x, scheme) == (nonfinite != "refuse" or not bad)
    if nonfinite != "refuse" and scheme.calibration.of_values:
        dtype = torch_dtype(scheme.arithmetic.scale_math)
        wanted = scheme.calibration.calibrate(
            Blocks(x, scheme.layout(x.shape), dtype, counted_cells(x, scheme)), ModeContext(scheme.mode)
        )
        found = ranges.ranges(InMemory(x), scheme, piece=PIECE)
        assert all(
            torch.equal(getattr(found, name), getattr(wanted, name)) for name in ("lo", "hi", "extreme")
        )


def test_nothing_finite():
    x = torch.full((3, 700), math.nan)
    found = tensor_facts.facts(InMemory(x))
    assert (found.lo, found.hi, found.nonfinite, found.found.nan, found.found.first, found.negative) == (
        0.0,
        0.0,
        2100,
        2100,
        (0, 0),
        0,
    )
    assert check(x, qv.Scheme(nonfinite="clip"))
    assert check(x, qv.Scheme(nonfinite="ignore"))


def test_what_is_refused_is_told_as_the_reference_tells_it():
    x = tensor(20, 256)
    x[17, 3], x[18, 4] = 3e38, -3e38
    assert not check(x, qv.Scheme("int8", "asymmetric"))
    assert not check(x, qv.Scheme("int8", granularity=qv.PerChannel(0)))
    zero_scale = qv.Scheme(
        "int8", granularity=qv.PerChannel(0), convention=qv.CONVENTIONS["course"].replace(zero_width="as_any")
    )
    assert check(tensor(20, 256), zero_scale)
    overflowing = qv.Scheme(
        "float8_e5m2", calibration=qv.Given(1e-6), convention=qv.CONVENTIONS["course"].replace(overflow="inf")
    )
    assert not check(tensor(20, 256), overflowing)
    with pytest.raises(qv.QuantVizError, match="group size must divide"):
        measuring.measure(x, qv.Scheme(granularity=qv.PerGroup(48)), path="fused")


@pytest.mark.nightly
def test_parameters_of_other_data():
    x, other = tensor(20, 256), tensor(20, 256, seed=9)
    for scheme in (
        qv.Scheme("int8", "asymmetric"),
        qv.Scheme("float8_e4m3fn", granularity=qv.PerGroup(32), convention="torchao_mx"),
        qv.Scheme("float4_e2m1fn", granularity=qv.PerGroup(16), convention="torchao_nvfp4"),
    ):
        assert check(x, scheme, qparams=qv.choose_qparams(other, scheme))
    assert check(x, qv.Scheme("int8", granularity=qv.PerChannel(0)), qparams=qv.QParams(0.02))
    assert isinstance(
        measuring.measure(x, qv.Scheme(), qparams=qv.QParams(0.02), path="fused").scheme.calibration, External
    )


@pytest.mark.parametrize("shape", [(5003,), (37, 61), (3, 4, 5, 6)])
def test_facts(shape, monkeypatch):
    x = tensor(*shape)
    x.view(-1)[[11, 57]] = torch.tensor([math.inf, math.nan])
    x.view(-1)[[13, 33]] = torch.tensor([-9e8, 9e8])
    finite = x[x.isfinite()]
    wanted = (
        (-9e8, 9e8),
        regions.place_of(13, shape),
        (2, 1),
        regions.place_of(11, shape),
        int((finite < 0).sum()),
        math.inf,
    )
    for small in (0, 2**20):
        monkeypatch.setattr(limits, "SMALL", small)
        monkeypatch.setattr(limits, "PIECE", PIECE)
        found = tensor_facts.facts(InMemory(x))
        assert (
            (found.lo, found.hi),
            found.largest,
            (found.nonfinite, found.found.nan),
            found.found.first,
            found.negative,
            found.found.value,
        ) == wanted


def test_large_tensors_take_the_fused_path_and_small_ones_the_reference():
    x = torch.randn(1100, 1000)
    scheme = qv.Scheme("int8", "asymmetric", qv.PerChannel(0))
    found = qv.measure(x, scheme, by_axis=True)
    assert found.path == "fused"
    check_measured(found, measuring.measured(qv.quantize(x, scheme), by_axis=True))
    assert qv.measure(x[:10], scheme, by_axis=True).path == "reference"
    qv.measure(x, scheme)
    assert qv.measure(x, scheme).compiled_seconds == 0


@pytest.mark.parametrize(
    "form",
    [
        "int8,symmetric,per_tensor,min_max,course",
        "uint4,asymmetric,per_channel(axis=0),percentile(p=90.0),torchao",
        "int8,asymmetric,per_channel(axis=1),min_max,course(ties=stochastic)",
        "float8_e4m3fn,symmetric,per_group(size=32),min_max,course",
        "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
    ],
)
def test_sums_made_without_putting_cells_anywhere(form, monkeypatch):
    monkeypatch.setattr(limits, "LANES", 2)
    scheme = qv.Scheme.parse(form)
    # Alike rows, so that most chunks have no new largest error, and one row that has clipped cells and codes
    # of its own.
    x = torch.cat([tensor(12, 256), torch.randn(24, 256).clamp(-2, 2).repeat(4, 1)])
    r = qv.quantize(x, scheme)
    check_measured(measuring.measure(x, scheme, path="fused", piece=9000), measuring.measured(r))
    check_measured(
        measuring.measure(x, scheme, qparams=r.qparams, path="fused", piece=9000),
        measuring.measured(qv.quantize(x, scheme, qparams=r.qparams)),
    )


@pytest.mark.parametrize(
    "form",
    [
        "int8,symmetric,per_tensor",
        "int4,asymmetric,per_channel(axis=0)",
        "int8,symmetric,per_channel(axis=1)",
        "float8_e4m3fn,symmetric,per_group(size=32)",
    ],
)
@pytest.mark.parametrize(
    "exponents",
    [(-149, -140), (-90, -70), (-60, -35), (-45, 0), (-30, 30), (30, 45), (50, 70), (90, 120), (-120, 120)],
)
def test_sums_of_what_float32_cannot_square(form, exponents):
    """Rows of 2^n: where float32 does not hold the squares the sums are made otherwise."""
    chance = torch.Generator().manual_seed(1)
    x = (
        torch.randn(64, 256, generator=chance)
        * torch.exp2(torch.randint(*exponents, (64, 1), generator=chance).double()).float()
    )
    assert check_sums(x, qv.Scheme.parse(f"{form},min_max,course"))
    assert check_sums(x.T.contiguous(), qv.Scheme.parse(f"{form},min_max,course"))


def test_values_on_the_grid_have_no_error_in_any_sum():
    x = torch.randint(-127, 128, (64, 256)).float() * 2.0**-7
    x[:, 0] = 127 * 2.0**-7
    for granularity in (qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(32)):
        scheme = qv.Scheme("int8", granularity=granularity)
        # Some groups reach less far than the codes.
        assert check_sums(x, scheme)
        if granularity != qv.PerGroup(32):
            assert measuring.measure(x, scheme, path="fused").metrics["mse"] == 0


def test_what_cannot_be_written_down_runs_in_chunks(monkeypatch):
    monkeypatch.setattr(passes, "compiled_program", lambda *given: None)
    assert check(tensor(20, 256), qv.Scheme("int8"), paths=("chunked",))
    assert measuring.measure(tensor(20, 256), qv.Scheme("int8"), path="fused", piece=PIECE).path == "chunked"


def test_without_numba_the_chunked_path_runs():
    code = """
import sys
sys.modules["numba"] = None
import torch, quantviz as qv
from quantviz.streaming import kernel_access
x = torch.randn(1100, 1000)
for granularity in (qv.PerTensor(), qv.PerGroup(50)):
    scheme = qv.Scheme("int4", granularity=granularity)
    found = qv.measure(x, scheme)
    assert found.path == "chunked" and kernel_access.cache_folder() is None
    assert [note.key for note in found.notes] == ["without_numba"]
    assert abs(found.metrics["mse"] / qv.metrics(qv.quantize(x, scheme))["mse"] - 1) < 1e-9
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def run_as(code, **environment):
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", f"from quantviz.streaming import kernel_access\n{code}"],
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
    )


#: A scheme's own arithmetic and one kernel whatever the scheme. What drives the arithmetic is kept like the
#: latter, and takes ten times as long to compile.
_KEPT = """
import numpy as np, quantviz as qv
from quantviz.compiled import compiler, run_kernels
from quantviz.streaming import programs
compiler.Compiler._finish = lambda self: None
scheme = qv.Scheme("int8")
assert programs.compiled_program(scheme, programs.types_of_scheme(scheme), False)
run_kernels.look(np.ones(3, np.float32), 0, run_kernels.new_look())
print(kernel_access.cache_folder())
"""


def test_kernels_are_there_while_another_thread_still_imports_numba(monkeypatch):
    half = ModuleType("numba")
    half.__spec__ = ModuleSpec("numba", None)
    monkeypatch.setitem(sys.modules, "numba", half)
    assert kernel_cache.has_numba.__wrapped__()


@pytest.mark.nightly
def test_compiled_code_is_kept_in_a_folder_of_the_users_own(tmp_path):
    done = run_as(_KEPT, XDG_CACHE_HOME=str(tmp_path), HOME="/nowhere")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path / "quantviz"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.glob("cells_*.py"))
    assert list(folder.rglob("cells_*.nbi"))
    assert list(folder.rglob("*look*.nbi"))


def imported_by(module, seen):
    """Add `module` and every module of the package that it imports, directly or not, to `seen`."""
    path = ROOT / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    # The package's own file imports lazily, by name.
    if module == "quantviz" or path in seen or not path.exists():
        return
    seen.add(path)
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quantviz"):
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                imported_by(name, seen)


def test_a_change_to_any_module_that_reaches_a_kernel_has_a_cache_folder_of_its_own(tmp_path):
    """A kernel holds the constants it names: with the histogram's bins changed, a warm cache once gave totals
    of -1.5e18.
    """
    reaching = set()
    for path in (ROOT / "quantviz").rglob("*.py"):
        if re.search(
            r"^(@jit|@kernel_part|@intrinsic|@inline_part|@in_any_order)",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        ):
            imported_by(".".join(path.relative_to(ROOT).with_suffix("").parts), reaching)
    assert ROOT / "quantviz" / "evaluation" / "histogram_bins.py" in reaching
    copy = tmp_path / "quantviz"
    shutil.copytree(ROOT / "quantviz", copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = kernel_cache.digest_of_code(copy)
    assert before == kernel_cache.digest_of_code(ROOT / "quantviz")
    (copy / "_app").mkdir()  # as a wheel has it
    shutil.copy(ROOT / "app.py", copy / "_app")
    assert before == kernel_cache.digest_of_code(copy)
    for path in reaching:
        own = copy / path.relative_to(ROOT / "quantviz")
        text = own.read_text(encoding="utf-8")
        own.write_text(f"{text}\nONE_MORE = 1\n", encoding="utf-8")
        assert kernel_cache.digest_of_code(copy) != before, own
        own.write_text(text, encoding="utf-8")


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    # That it measures all the same is what a user who can write nowhere shows.
    done = run_as("assert kernel_access.cache_folder() is None", QUANTVIZ_CACHE_DIR=str(shared))
    assert done.returncode == 0, done.stderr
    assert not list(shared.rglob("*.nb?"))


def bits_of(found):
    """Everything that was summed, as bytes."""
    sums = [
        found.moments.x2,
        found.moments.kept_e2,
        found.moments.kept_steps2,
        *(part for axis in found.axes for part in (axis.x2, axis.e2)),
    ]
    return [float(value).hex() for value in found.metrics.values()], [part.numpy().tobytes() for part in sums]


SUMMED = (
    "int8,asymmetric,per_channel(axis=0)",
    "int4,symmetric,per_tensor",
    "float8_e4m3fn,symmetric,per_tensor",
    "int4,symmetric,per_channel(axis=1)",
)


@pytest.mark.parametrize(
    ("form", "shape"),
    sample_of(itertools.product(SUMMED, [(1500, 1111), (3, 700, 900), (2**21 + 5,)]), 3),
    ids=str,
)
def test_sums_have_the_same_bits_on_any_number_of_threads(shape, form):
    scheme = qv.Scheme.parse(f"{form},min_max,course")
    if scheme.problems(shape):
        scheme = scheme.replace(granularity=qv.PerTensor())
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    wanted = bits_of(measuring.measure(x, scheme, path="fused", piece=2**16, by_axis=True, threads=1))
    for threads in (2, 2, 3, 7):
        assert (
            bits_of(measuring.measure(x, scheme, path="fused", piece=2**16, by_axis=True, threads=threads))
            == wanted
        )


def test_the_number_of_threads_is_a_setting(monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert default_threads() == 3
    for wrong in ("0", "-1", "two", "1.5", "99999", "\u0663"):
        monkeypatch.setenv(THREADS_VARIABLE, wrong)
        with pytest.raises(qv.QuantVizError, match="QUANTVIZ_THREADS"):
            default_threads()


def test_every_metric_is_had_at_any_size_and_by_every_path():
    x = torch.randn(1100, 1000, generator=torch.Generator().manual_seed(4))
    x[3, 4] = 40.0
    scheme = qv.Scheme("int4", "asymmetric", qv.PerChannel(0), qv.Percentile(99.0))
    wanted = qv.metrics(qv.quantize(x, scheme))
    assert wanted.keys() == qv.METRICS.keys()
    for path in ("fused", "chunked", "reference"):
        found = qv.measure(x, scheme, metrics=qv.METRICS, path=path)
        assert found.path == path
        assert found.metrics == pytest.approx(wanted, rel=2e-6, abs=1e-9)
        assert qv.measure(x, scheme, metrics=["sqnr_db"], path=path).metrics.keys() == {"sqnr_db"}
    with pytest.raises(qv.QuantVizError, match="no_such"):
        qv.measure(x, scheme, metrics=["no_such"])


#: What a metric can read that one pass does not give.
MORE = {
    "kurtosis": lambda m, bits: (
        (
            m.x4 / m.cells
            - 4 * m.x3 * m.x / m.cells**2
            + 6 * m.x2 * m.x**2 / m.cells**3
            - 3 * (m.x / m.cells) ** 4
        )
        / (m.x2 / m.cells - (m.x / m.cells) ** 2) ** 2
    ),
    "codes_twice": lambda m, bits: (m.code_counts > 1).sum(-1),
}


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("nonfinite", ["refuse", "ignore"])
def test_a_new_metric_is_one_entry(name, nonfinite, monkeypatch):
    metric = qv.METRICS["mse"].__class__(f"new_{name}", "", MORE[name])
    registry = {**qv.METRICS, metric.id: metric}
    for module in (measuring, metric_formulas, result_metrics):
        monkeypatch.setattr(module, "METRICS", registry)
    x = torch.randn(1100, 1000, generator=torch.Generator().manual_seed(4))
    if nonfinite == "ignore":
        x[7, 7] = math.nan
    scheme = qv.Scheme("int4", granularity=qv.PerChannel(0), nonfinite=nonfinite)
    wanted = qv.metrics(qv.quantize(x, scheme))[metric.id]
    for path in ("fused", "chunked"):
        assert measuring.measure(x, scheme, metrics=registry, path=path).metrics[metric.id] == pytest.approx(
            wanted, rel=1e-9
        )
    # What takes a pass of its own is found where it is asked for.
    assert metric.id not in measuring.measure(x, scheme, path="fused").metrics


_ALONE = """
import gc, os, pathlib, sys
gc.set_threshold(100_000)
import numba, torch, quantviz as qv
from quantviz.streaming import kernel_access, readiness
# Python itself may lie where no other user can read: what is needed of it is loaded first.
numba.cfunc("f8(f8)")(lambda x: x + 1), numba.njit(lambda x: x)(1)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert "quantviz.compiled.compiler" not in sys.modules
root = pathlib.Path(qv.__file__).parents[1]
assert str(root) == sys.argv[1] and not os.access(root / "quantviz", os.W_OK)
before = sorted(root.rglob("*"))
x, scheme = torch.randn(1100, 1024), qv.Scheme.parse(sys.argv[2])
assert readiness.compiles(scheme, x.shape)
found = qv.measure(x, scheme, by_axis=True)
assert found.path == "fused" and found.compiled_seconds > 0 and kernel_access.cache_folder() is None
assert not readiness.compiles(scheme, x.shape)
assert abs(found.metrics["mse"] / qv.metrics(qv.quantize(x, scheme))["mse"] - 1) < 1e-6
"""
#: What a process finds in kernels that it compiled itself.
_WALKED = """
import json
from quantviz.streaming import limits
limits.SMALL = limits.FUSED = 0
print(json.dumps(walk(sys.argv[2:])))
assert sorted(root.rglob("*")) == before
"""


def walk(forms):
    """Return what a walk through kernels finds: a digest of codes, values and places, and sums."""
    import hashlib

    import numpy as np
    import torch

    import quantviz as qv
    from quantviz.schemes import calibration
    from quantviz.streaming import coding, frames, measuring, overview, ranges
    from quantviz.tensors.lazy import InMemory

    values = torch.randn(96, 256, generator=torch.Generator().manual_seed(6))
    values[3], values[4, 5], values[5, ::3] = -0.0, 30.0, -values[5, 1]
    values[:, 7] *= 1e-30
    x, sums = InMemory(values), []
    exact = hashlib.sha256()
    for form in forms:
        each = qv.Scheme.parse(form)
        params = ranges.qparams(x, each)
        for part in (params.scale.numpy(), *coding.codes(x, each, params, 3, 96 * 256 - 2, path="fused")):
            exact.update(np.ascontiguousarray(part).tobytes())
        found = measuring.measure(values, each, path="fused", piece=5000, by_axis=True)
        assert found.path == "fused"
        sums += found.metrics.values()
        sums += (float(part) for axis in found.axes for sums_of in (axis.x2, axis.e2) for part in sums_of)
    for side in (5, 40):
        for part in overview.pooled(x, frames.Patch(0, 0, 96, 256), (side, side)):
            exact.update(np.ascontiguousarray(part).tobytes())
    for at in (calibration.Percentile(99.0), calibration.AbsMean()):
        exact.update(ranges.ranges(x, qv.Scheme("int8", calibration=at)).lo.numpy().tobytes())
    return exact.hexdigest(), sums


def walked_forms():
    others = [
        "int8,symmetric,per_channel(axis=1),min_max,course(value_dtype=float16)",
        "int8,asymmetric,per_channel(axis=0),min_max,course(order=fused_multiply_add_round)",
        "float8_e4m3fn,symmetric,per_group(size=8),min_max,course",
    ]
    first = "int4,asymmetric,per_group(size=32),min_max,torchao"
    ignoring = [str(qv.Scheme.parse(form).replace(nonfinite="ignore")) for form in (first, *others)]
    return [first, *sample_of([*others, *ignoring], 0)]


@pytest.mark.nightly
def test_a_user_who_can_write_nowhere_finds_the_same_and_so_does_plain_numba(monkeypatch):
    """One process compiles everything anew, in plain numba: another of each would take as long again."""
    # Not in pytest's folder, which each run that begins on this machine closes to other users.
    copy = Path(tempfile.mkdtemp(prefix="quantviz_read_only_")).resolve()
    shutil.copytree(ROOT / "quantviz", copy / "quantviz")
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(copy)], check=True)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(copy),
        "HOME": "/nowhere",
        hand_written.PLAIN_VARIABLE: "1",
    }
    code = f"{_ALONE}\n{inspect.getsource(walk)}\n{_WALKED}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(copy), *walked_forms()],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=500,
            env=env,
        )
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(copy)], check=True)
        shutil.rmtree(copy)
    assert done.returncode == 0, done.stderr
    plain_exact, plain_sums = json.loads(done.stdout)
    monkeypatch.setattr(limits, "SMALL", 0)
    monkeypatch.setattr(limits, "FUSED", 0)
    exact, sums = walk(walked_forms())
    assert plain_exact == exact
    # Either may be off by 1e-6 of what is added, a metric by twice as much, see `check_measured`.
    assert plain_sums == pytest.approx(sums, rel=4e-6, abs=1e-9)
    # Some sums begin in float32 in the one and not in the other: the switch does something.
    assert plain_sums != sums


def test_plain_numba_is_kept_in_a_folder_of_its_own(monkeypatch):
    folder = kernel_cache.cache_folder.__wrapped__()
    monkeypatch.setattr(kernel_cache, "plain_pieces", lambda: frozenset(["sums", "addresses"]))
    assert kernel_cache.cache_folder.__wrapped__() == folder.with_name(f"{folder.name}-plain-addresses-sums")


def test_a_piece_that_there_is_not_cannot_be_turned_off(monkeypatch):
    def pieces(setting):
        monkeypatch.setenv(hand_written.PLAIN_VARIABLE, setting)
        return hand_written.plain_pieces.__wrapped__()

    assert pieces("") == pieces("0") == frozenset()
    assert pieces("sums, addresses") == {"sums", "addresses"}
    assert pieces("1") == set(hand_written.PIECES)
    with pytest.raises(qv.QuantVizError, match="'lanse'"):
        pieces("sums,lanse")


def test_why_nothing_was_compiled_is_told(monkeypatch):
    """That numba might be missing was said of a scheme whose code was only not ready yet."""
    from quantviz.streaming import kernel_access, readiness

    scheme, shape = qv.RECIPES["int4_g128"], (4096, 4096)
    assert readiness.why_not_compiled(scheme, shape) == "not_ready"
    monkeypatch.setattr(readiness, "_sources", lambda *_: ())
    assert readiness.why_not_compiled(scheme, shape) == "no_form"
    monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
    assert readiness.why_not_compiled(scheme, shape) == "no_numba"
