"""The range of least squared error: never worse than what it is compared with, and the same on every path."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.quantization import calibrating, qparams, quantizer, result
from quantviz.quantization.range_search import LESS
from quantviz.schemes.calibration import Range
from quantviz.streaming import coding, kernel_access, limits, measuring, programs, range_trials, ranges
from quantviz.streaming.regions import ElementRange
from quantviz.streaming.threads import THREADS_VARIABLE
from quantviz.tensors import blocks
from quantviz.tensors.lazy import InMemory
from tests.helpers.drawn import normal
from tests.helpers.offered import offered_schemes
from tests.helpers.replay import replay
from tests.helpers.sample import sample_of
from tests.helpers.walked import TENSORS, thinned

#: What a search leaves to be found: a range takes the place of another only where it takes off more.
NOISE = 1 + 2 * LESS
FORMATS = ("int2", "int4", "int8", "uint4", "int16", "float8_e4m3fn", "float4_e2m1fn", "nf4")
#: Conventions whose scales follow from a range.
RANGED = [name for name, convention in qv.CONVENTIONS.items() if not convention.search]


def noise(r):
    """Σ error² of each row."""
    return (
        (r.error if r.counted is None else r.error.masked_fill(~r.counted, 0))
        .to(torch.float64)
        .square()
        .sum(-1)
    )


def noise_of_rows(x, scheme, lo, hi):
    """Σ error² of one row `x` with each of many ranges: as many rows."""
    rows = x.unsqueeze(0).expand(len(lo), -1).contiguous()
    extreme = x[x.abs().argmax()].to(torch.float64).expand(len(lo), 1)
    scheme = scheme.replace(granularity=qv.PerChannel(0))
    found = Range(lo.unsqueeze(1), hi.unsqueeze(1), extreme)
    return calibrating.errors_of_blocks(
        found, rows, x.abs().max(), scheme, scheme.layout(tuple(rows.shape))
    ).flatten()


def rows_of(n, kinds=4):
    """Rows of every kind: even, heavy in the middle, one-sided, with a far value."""
    x = normal(kinds * 2, n, seed=n)
    x[kinds // 2 : kinds] **= 3
    x[kinds] = x[kinds].abs() + 5
    x[kinds + 1, 0] = 40.0
    x[kinds + 2] = x[kinds + 2].abs()
    return x


@pytest.mark.parametrize(("format_id", "n"), sample_of(itertools.product(FORMATS, (5, 32, 300, 2000)), 12))
def test_no_fraction_of_the_whole_range_has_less_error(format_id, n):
    scheme, x = qv.Scheme(format_id, granularity=qv.PerChannel(0), calibration=qv.MSE()), rows_of(n)
    found = noise(qv.quantize(x, scheme))
    t = torch.arange(1, 2001, dtype=torch.float64) / 2000
    # Of long rows fewer: each is made 2,000 times.
    for row, own in zip(x[:: 1 if n < 1000 else 3], found[:: 1 if n < 1000 else 3], strict=True):
        brute = noise_of_rows(row, scheme, t * row.min(), t * row.max())
        assert own <= brute.min() * NOISE, (format_id, n)


@pytest.mark.parametrize("n", [5, 24, 200])
@pytest.mark.parametrize("format_id", ["int2", "int4", "uint4", "int8"])
def test_no_two_ends_on_a_grid_have_less_error(format_id, n):
    scheme, x = qv.Scheme(format_id, "asymmetric", qv.PerChannel(0), qv.MSE()), rows_of(n)
    found = noise(qv.quantize(x, scheme))
    below, above = (
        each.flatten() / 40
        for each in torch.meshgrid(*[torch.arange(40, dtype=torch.float64)] * 2, indexing="ij")
    )
    inside = below + above < 1
    worst = 0.0
    for row, own in zip(x, found, strict=True):
        lo, width = row.min().to(torch.float64), (row.max() - row.min()).to(torch.float64)
        brute = noise_of_rows(row, scheme, lo + below[inside] * width, lo + width - above[inside] * width)
        worst = max(worst, float(own / brute.min()))
    assert worst <= NOISE, (format_id, n, worst)


def mse_of(x, scheme, calibration):
    return qv.metrics(qv.quantize(x, scheme.replace(calibration=calibration)))["mse"]


@pytest.mark.parametrize("mode", qv.MODES)
@pytest.mark.parametrize("convention", sample_of(RANGED, 5), ids=str)
def test_it_is_never_worse_than_other_ranges_under_any_arithmetic(convention, mode):
    offered = [scheme for scheme in offered_schemes(qv.CONVENTIONS[convention]) if scheme.mode == mode]
    for scheme, name in zip(offered[:: max(len(offered) // 2, 1)], ("normal", "one_sided"), strict=False):
        x = TENSORS[name]
        own = mse_of(x, scheme, qv.MSE())
        others = [qv.MinMax()]
        # Ranges of percentiles reach below 0: another kind of range where an arithmetic keeps one side's.
        if name == "normal" or mse_of(x, scheme, qv.Percentile(100.0)) == mse_of(x, scheme, qv.MinMax()):
            others += [qv.Percentile(99.0), qv.Percentile(99.9)]
        for other in others:
            assert own <= mse_of(x, scheme, other) * NOISE, (str(scheme), other)


@pytest.mark.parametrize("convention", sample_of(RANGED, 4), ids=str)
def test_the_compiled_path_finds_the_same_ranges_and_codes(convention, monkeypatch):
    monkeypatch.setattr(limits, "BAND", 512)
    names = itertools.cycle(("normal", "zero_blocks", "ties", "tiny", "constant"))
    for scheme, name in zip(list(thinned(qv.CONVENTIONS[convention]))[::9], names, strict=False):
        scheme = scheme.replace(calibration=qv.MSE())
        x = TENSORS[name]
        r = qv.quantize(x, scheme, strict=True)
        found = ranges.ranges(InMemory(x), scheme)
        assert torch.equal(found.lo, r.range.lo), (str(scheme), name)
        assert torch.equal(found.hi, r.range.hi)
        if torch.isfinite(r.x_hat).all():
            q = coding.codes(
                InMemory(x), scheme, ranges.qparams(InMemory(x), scheme, found), 0, x.numel(), path="fused"
            )[0]
            assert (q == r.q.flatten().numpy()).all()


FORMS = (
    "int4,asymmetric,{},mse,course",
    "int8,symmetric,{},mse,course",
    "float8_e4m3fn,symmetric,{},mse,course",
)
LAYOUTS = ("per_tensor", "per_channel(axis=0)", "per_channel(axis=1)", "per_group(size=32)", "flat(size=96)")


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "granularity"), sample_of(itertools.product(FORMS, LAYOUTS), 1))
def test_bands_threads_and_the_absence_of_numba_change_nothing(monkeypatch, form, granularity):
    monkeypatch.setattr(limits, "BAND", 512)
    x, scheme = normal(40, 96) ** 3, qv.Scheme.parse(form.format(granularity))
    wanted = qv.quantize(x, scheme).range
    for threads in ("1", "3"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        found = ranges.ranges(InMemory(x), scheme, piece=700)
        assert torch.equal(found.lo, wanted.lo)
        assert torch.equal(found.hi, wanted.hi)
    monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
    programs.compiled_program.cache_clear()
    found = ranges.ranges(InMemory(x), scheme, piece=700)
    assert torch.equal(found.lo, wanted.lo)
    assert torch.equal(found.hi, wanted.hi)
    programs.compiled_program.cache_clear()


TRIED = (
    "int4,asymmetric,{},mse,course",
    "int8,symmetric,{},mse,course(ties=stochastic)",
    "float8_e4m3fn,symmetric,{},mse,course",
)


@pytest.mark.parametrize(
    ("form", "granularity", "nonfinite"),
    sample_of(
        itertools.product(
            TRIED,
            (*LAYOUTS, "per_group(size=8,axis=0)", "per_block(rows=8,cols=24)"),
            ("refuse", "ignore"),
        ),
        6,
    ),
)
def test_a_list_of_ranges_has_the_errors_of_the_reference_quantizer(
    form, granularity, nonfinite, monkeypatch
):
    x, scheme = normal(40, 96), qv.Scheme.parse(form.format(granularity)).replace(nonfinite=nonfinite)
    if nonfinite == "ignore":
        x[5, 7], x[30, 0] = math.nan, math.inf
    layout, absmax = scheme.layout(tuple(x.shape)), qparams.largest_magnitude(x)
    of = torch.arange(layout.block_count).repeat_interleave(torch.arange(layout.block_count) % 20)
    of = of if len(of) else torch.zeros(5, dtype=torch.int64)
    whole = blocks.Blocks(x, layout, torch.float64, result.counted_cells(x, scheme))
    lo, hi = (
        end.flatten()[of] * torch.linspace(0.2, 1, len(of), dtype=torch.float64) for end in whole.min_max()
    )
    found = Range(lo, hi, whole.extreme())
    wanted = calibrating.one_by_one(
        lambda each, power: calibrating.errors_of_blocks(each, x, absmax, scheme, layout, power)
    )(found, of)
    for piece in (50, 1000, 2**19):
        trial = range_trials.BlockTrial(
            ElementRange(InMemory(x), 0, x.numel(), layout), scheme, lambda: absmax, alone=False, piece=piece
        )
        torch.testing.assert_close(trial(found, of), wanted, rtol=1e-12, atol=0)
    for cells in (700, 2**16):
        monkeypatch.setattr(calibrating, "_CELLS_PER_CHUNK", cells)
        by_reference = calibrating.TrialByReference(x, absmax, scheme, layout)
        torch.testing.assert_close(by_reference(found, of), wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("mode", qv.MODES)
def test_many_ranges_are_tried_at_once(mode, monkeypatch):
    """Each time blocks are read, and what is known of them is made."""
    asked, call = [], range_trials.BlockTrial.__call__
    monkeypatch.setattr(
        range_trials.BlockTrial,
        "__call__",
        lambda self, found, *of: asked.append(found.lo.numel()) or call(self, found, *of),
    )
    ranges.ranges(InMemory(normal(256, 96)), qv.Scheme("int8", mode, calibration=qv.MSE()))
    assert sum(asked) > 230
    assert len(asked) < sum(asked) / 12


def test_kernels_search_the_ranges_of_a_small_tensor_too(monkeypatch):
    x, scheme = normal(200, 128) ** 3, qv.Scheme("int4", "asymmetric", qv.PerGroup(32), qv.MSE())
    wanted = qv.quantize(x, scheme)

    def slowly(*_):
        raise AssertionError("ranges are searched by the reference")

    monkeypatch.setattr(quantizer, "TrialByReference", slowly)
    study = Study.of(InMemory(x), scheme)
    assert torch.equal(study.range.lo, wanted.range.lo)
    assert torch.equal(study.range.hi, wanted.range.hi)
    assert torch.equal(study.result.q, wanted.q)
    assert study.notes == wanted.notes
    assert measuring.measure(InMemory(x), scheme).metrics["mse"] == pytest.approx(
        qv.metrics(wanted)["mse"], rel=1e-6
    )


@pytest.mark.parametrize("nonfinite", ["refuse", "clip", "ignore"])
def test_a_small_tensor_that_is_not_finite_is_searched_as_it_is_asked_for(nonfinite):
    x, scheme = (
        normal(200, 128),
        qv.Scheme("int4", granularity=qv.PerGroup(32), calibration=qv.MSE(), nonfinite=nonfinite),
    )
    x[0, 3], x[7, 5] = math.nan, math.inf
    if nonfinite == "refuse":
        with pytest.raises(qv.QuantVizError) as wanted:
            qv.quantize(x, scheme)
        with pytest.raises(qv.QuantVizError) as found:
            Study.of(InMemory(x), scheme)
        assert str(found.value) == str(wanted.value)
        return
    wanted, study = qv.quantize(x, scheme), Study.of(InMemory(x), scheme)
    assert torch.equal(study.range.lo, wanted.range.lo)
    assert torch.equal(study.result.q, wanted.q)
    assert study.notes == wanted.notes


def test_a_block_is_searched_as_if_it_were_alone():
    """Blocks go through the search side by side; none may be given more, or other, tries by its
    neighbours.
    """
    x, scheme = rows_of(48), qv.Scheme("int4", "asymmetric", qv.PerChannel(0), qv.MSE())
    whole = qv.quantize(x, scheme)
    for i in range(len(x)):
        own = qv.quantize(x[i : i + 1], scheme)
        assert (own.range.lo.item(), own.range.hi.item()) == (
            whole.range.lo[i].item(),
            whole.range.hi[i].item(),
        )


@pytest.mark.parametrize("mode", qv.MODES)
@pytest.mark.parametrize("power", [-20, 7, 33])
def test_powers_of_two_change_nothing(mode, power):
    x, scheme = normal(6, 40) ** 3, qv.Scheme("int4", mode, qv.PerChannel(0), qv.MSE())
    one, other = qv.quantize(x, scheme), qv.quantize(x * 2.0**power, scheme)
    assert torch.equal(one.q, other.q)
    assert torch.equal(one.range.lo * 2.0**power, other.range.lo)
    assert torch.equal(one.range.hi * 2.0**power, other.range.hi)


@pytest.mark.parametrize("mode", qv.MODES)
@pytest.mark.parametrize("granularity", [qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(4)], ids=str)
def test_blocks_without_a_choice_keep_their_whole_range(mode, granularity):
    for value in (0.0, 3.5, -2.0):
        x = torch.full((3, 8), value)
        scheme = qv.Scheme("int4", mode, granularity, qv.MSE())
        r, plain = qv.quantize(x, scheme), qv.quantize(x, scheme.replace(calibration=qv.MinMax()))
        assert torch.equal(r.x_hat, plain.x_hat)
        assert qv.metrics(r)["mse"] <= qv.metrics(plain)["mse"]
    assert qv.quantize([[2.0]], qv.Scheme("int4", mode, calibration=qv.MSE())).x_hat.shape == (1, 1)


@pytest.mark.parametrize("nonfinite", ["clip", "ignore"])
@pytest.mark.parametrize("mode", qv.MODES)
def test_what_is_not_finite_does_not_count(nonfinite, mode):
    x = normal(4, 64)
    x[0, 3], x[1, 5], x[2, 7], x[3] = math.nan, math.inf, -math.inf, math.nan
    scheme = qv.Scheme("int4", mode, qv.PerChannel(0), qv.MSE(), nonfinite=nonfinite)
    r, plain = qv.quantize(x, scheme), qv.quantize(x, scheme.replace(calibration=qv.MinMax()))
    assert bool((noise(r) <= noise(plain) * NOISE).all())
    assert float(noise(r).sum()) < float(noise(plain).sum())
    if nonfinite == "ignore":
        kept = x[0][torch.isfinite(x[0])].unsqueeze(0)
        assert qv.quantize(kept, scheme.replace(nonfinite="refuse")).range.lo.item() == r.range.lo[0].item()
        found = ranges.ranges(InMemory(x), scheme)
        assert torch.equal(found.lo, r.range.lo)
    measured = measuring.measure(x, scheme, path="fused")
    assert measured.metrics["mse"] == pytest.approx(qv.metrics(r)["mse"], rel=1e-6)


def test_a_staircase_is_searched_too():
    """Scales that are powers of two: the curve of errors is flat with steps, on one of which the least error
    is.
    """
    x = normal(6, 64) ** 3
    scheme = qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,microxcaling")
    own, plain = (
        qv.quantize(x, scheme.replace(calibration=calibration)) for calibration in (qv.MSE(), qv.MinMax())
    )
    steps = (own.qparams.scale / plain.qparams.scale).log2()
    assert bool((steps == steps.round()).all())
    assert bool((steps < 0).any())
    assert qv.metrics(own)["mse"] < qv.metrics(plain)["mse"]


def test_a_rule_that_reads_the_extreme_value_leaves_nothing_to_choose():
    x, scheme = normal(4, 64), qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    own, plain = (
        qv.quantize(x, scheme.replace(calibration=calibration)) for calibration in (qv.MSE(), qv.MinMax())
    )
    assert torch.equal(own.q, plain.q)
    assert torch.equal(own.range.lo, plain.range.lo)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=24),
    st.sampled_from(["int3", "int8", "nf4"]),
    st.sampled_from(qv.MODES),
)
def test_of_any_values_the_error_is_never_above_the_whole_ranges(values, format_id, mode):
    if format_id == "nf4":
        mode = "symmetric"
    scheme = qv.Scheme(format_id, mode, calibration=qv.MSE())
    own, plain = (qv.quantize(values, scheme.replace(calibration=each)) for each in (qv.MSE(), qv.MinMax()))
    assert float(noise(own)) <= float(noise(plain))
    again = qv.quantize(values, scheme)
    assert torch.equal(again.q, own.q)
    assert torch.equal(again.range.lo, own.range.lo)


@pytest.mark.parametrize("mode", qv.MODES)
def test_its_lines_say_what_was_found_and_replay(mode):
    r = qv.quantize(normal(4, 6), qv.Scheme("int4", mode, qv.PerChannel(0), qv.MSE()))
    why = replay(r, (1, 2))
    assert why.step("found_lo").code_line == f"lo = {r.range.lo[1, 0].item()!r}"
    assert why.step("found_hi").code_line == f"hi = {r.range.hi[1, 0].item()!r}"
    assert why.step("range_lo") is None


@pytest.mark.parametrize(
    "form",
    [
        "int8,symmetric,per_group(size=2),mse,course",
        "uint4,asymmetric,per_group(size=16),mse,course",
        "int4,symmetric,per_group(size=4),mse,course",
        "uint8,symmetric,per_channel(axis=0),mse,course",
        "int8,symmetric,per_channel(axis=0),mse,onnxruntime",
        "uint4,symmetric,per_channel(axis=0),mse,nncf_weights",
        "uint4,asymmetric,per_channel(axis=0),mse,torch_fake_quantize",
    ],
)
def test_ranges_that_clip_more_than_the_whole_range_errs_are_left_out_and_nothing_else_is_found(
    form, monkeypatch
):
    scheme, tried = qv.Scheme.parse(form), []
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(5))
    x[0], x[1], x[2], x[3] = x[0].abs(), -x[1].abs(), x[2] * 1e-42, 0.0
    usual = calibrating.TrialByReference.__call__

    def counted(self, found, of=None, /, *, power=2.0):
        tried[-1] += 0 if of is None else len(of)
        return usual(self, found, of, power=power)

    monkeypatch.setattr(calibrating.TrialByReference, "__call__", counted)
    found = []
    for reaches in (True, False):
        if not reaches:
            monkeypatch.setattr(calibrating.TrialByReference, "reach", lambda *_: None)
        tried.append(0)
        found.append(qv.quantize(x, scheme))
    assert torch.equal(found[0].qparams.scale, found[1].qparams.scale)
    assert torch.equal(found[0].q, found[1].q)
    assert tried[0] < tried[1]
