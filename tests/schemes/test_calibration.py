"""Calibrations of one's own: what they are told, what they may answer, and that no path or kept range depends
on more than they do.
"""

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import quantviz as qv
from quantviz.analysis import study as studies
from quantviz.analysis.study import Study
from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import trace_block
from quantviz.schemes import calibration as calibrations
from quantviz.schemes import scheme as schemes
from quantviz.schemes.calibration import Calibration, Context, ModeContext, Range
from quantviz.streaming import kernel_access, limits, measuring, programs, ranges
from quantviz.streaming.streamed_blocks import StreamedBlocks
from quantviz.tensors.lazy import InMemory
from tests.helpers.sample import sample_of

PLACES = (
    qv.PerTensor(),
    qv.PerChannel(0),
    qv.PerChannel(1),
    qv.PerGroup(16),
    qv.PerGroup(8, axis=0),
    qv.PerBlock(8, 32),
)


@dataclass(frozen=True)
class OfMode(Calibration):
    """What every calibration of one's own here has: its id, and the defaults."""

    id: ClassVar[str] = "own"


@dataclass(frozen=True)
class ByFormat(OfMode):
    """As many standard ranges as the format has bits."""

    of_values: ClassVar[bool] = False

    def calibrate(self, blocks, context):
        end = blocks.constant(context.format.bits / 4)
        return Range(-end, end, blocks.extreme())


@dataclass(frozen=True)
class ByMiddle(OfMode):
    """Reads a statistic that no path but the reference knows."""

    factor: float = 4.0

    def calibrate(self, blocks, context):
        end = blocks.middle_magnitude() * self.factor
        return Range(-end, end, blocks.extreme())


@dataclass(frozen=True)
class ByScale(OfMode):
    """Chooses the scale itself: half the larger end."""

    of_values: ClassVar[bool] = False

    def calibrate(self, blocks, context):
        lo, hi = blocks.min_max()
        return context.qparams(
            torch.maximum(lo.abs(), hi.abs()).clamp(min=1e-3) / context.format.code_max / 2, 0
        )


@dataclass(frozen=True)
class ByTrial(OfMode):
    """The better of two ranges."""

    of_values: ClassVar[bool] = False

    def calibrate(self, blocks, context):
        lo, hi = blocks.min_max()
        extreme = blocks.extreme()
        whole, half = Range(lo, hi, extreme), Range(lo / 2, hi / 2, extreme)
        better = context.trial(half) < context.trial(whole)
        return Range(torch.where(better, half.lo, lo), torch.where(better, half.hi, hi), extreme)


@dataclass(frozen=True)
class Told(OfMode):
    """Answers nothing: shows what it was told."""

    def calibrate(self, blocks, context):
        raise LookupError(context)


@pytest.fixture
def own(monkeypatch):
    """Registers a calibration as the one of id "own"."""

    def register(kind):
        registry = {**qv.CALIBRATIONS, "own": kind}
        for module in (calibrations, schemes):
            monkeypatch.setattr(module, "CALIBRATIONS", registry)
        return kind()

    return register


def normal(*shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    x[1, 3], x[2] = -30.0, 0.0
    return x


class Kept(dict):
    """Keeps as the app does, for all schemes of a tensor."""

    def __call__(self, name, make):
        if name not in self:
            self[name] = make()
        return self[name]


def test_what_depends_on_the_format_is_not_shared_between_formats(own, monkeypatch):
    monkeypatch.setattr(studies, "MOST_WHOLE", 16)
    calibration, x, keep = own(ByFormat), normal(8, 32), Kept()
    for name in ("int4", "int8"):
        scheme = qv.Scheme(name, calibration=calibration)
        study = Study.of(InMemory(x), scheme, keep=keep)
        assert study.result is None
        assert (
            study.range.hi.item() == scheme.number_format.bits / 4 == qv.quantize(x, scheme).range.hi.item()
        )


def test_what_follows_from_the_values_is_told_the_mode_alone(own):
    for mode in qv.MODES:
        scheme = qv.Scheme("int4", mode, calibration=own(Told))
        for ask in (
            lambda scheme=scheme: qv.quantize(normal(4, 4), scheme),
            lambda scheme=scheme: ranges.ranges(InMemory(normal(4, 4)), scheme),
        ):
            with pytest.raises(LookupError) as told:
                ask()
            (context,) = told.value.args
            assert type(context) is ModeContext
            assert dataclasses.asdict(context) == {"mode": mode}


def test_the_others_are_told_of_the_scheme(own, monkeypatch):
    monkeypatch.setattr(Told, "of_values", False)
    scheme = qv.Scheme("uint8", "asymmetric", calibration=own(Told), convention="torch")
    with pytest.raises(LookupError) as told:
        qv.quantize(normal(4, 4), scheme)
    (context,) = told.value.args
    assert isinstance(context, Context)
    assert (context.mode, context.format, context.convention) == (
        "asymmetric",
        qv.FORMATS["uint8"],
        qv.CONVENTIONS["torch"],
    )


@pytest.mark.parametrize("kind", [ByFormat, ByScale, ByTrial], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("numba", [True, False])
def test_every_path_finds_what_the_reference_finds(own, monkeypatch, kind, numba):
    monkeypatch.setattr(limits, "BAND", 256)
    if not numba:
        monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
        programs.compiled_program.cache_clear()
    calibration, x = own(kind), normal(48, 96)
    for granularity in PLACES:
        scheme = qv.Scheme("int4", "symmetric", granularity, calibration)
        r, params = qv.quantize(x, scheme), ranges.qparams(InMemory(x), scheme)
        assert torch.equal(params.scale, r.qparams.scale), granularity
        assert torch.equal(params.zero_point, r.qparams.zero_point)
        assert (r.range is None) == (kind is ByScale)
        for path in ("chunked", "fused") if numba else ("chunked",):
            m = measuring.measure(x, scheme, path=path, piece=512)
            assert m.path == path
            assert m.metrics["mse"] == pytest.approx(qv.metrics(r)["mse"], rel=1e-6), (granularity, path)
    programs.compiled_program.cache_clear()


@pytest.mark.parametrize("nonfinite", ["refuse", "ignore"])
@pytest.mark.parametrize(
    "form",
    [
        "int4,asymmetric,{},min_max,course",
        "float8_e4m3fn,symmetric,{},min_max,torchao_nvfp4(scale.format=none)",
        "nf4,symmetric,{},min_max,course",
    ],
)
def test_a_trial_is_the_reference_quantizers_error(own, monkeypatch, form, nonfinite):
    monkeypatch.setattr(limits, "BAND", 256)
    x = normal(48, 96)
    if nonfinite == "ignore":
        x[5, 7], x[40, 0] = torch.nan, torch.inf
    offered = []
    for granularity in (
        "per_tensor",
        "per_channel(axis=0)",
        "per_channel(axis=1)",
        "per_group(size=16)",
        "flat(size=40)",
        "per_block(rows=8,cols=24)",
    ):
        with contextlib.suppress(qv.QuantVizError):
            offered.append(qv.Scheme.parse(form.format(granularity)).replace(nonfinite=nonfinite))
    for scheme in sample_of((scheme for scheme in offered if not scheme.problems(x.shape)), 1):
        tried = {}

        @dataclass(frozen=True)
        class Tries(OfMode):
            of_values: ClassVar[bool] = False

            def calibrate(self, blocks, context, tried=tried):
                lo, hi = blocks.min_max()
                found = Range(lo * 0.7, hi * 0.6, blocks.extreme())
                tried.setdefault(type(blocks).__name__, []).append((found, context.trial(found)))
                return found

        scheme = scheme.replace(calibration=own(Tries))
        r = qv.quantize(x, scheme)
        ranges.ranges(InMemory(x), scheme)
        ((_, wanted),) = tried["Blocks"]
        found = torch.cat([each for _, each in sorted_by_place(tried[StreamedBlocks.__name__], r.range)])
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
        own_sums = qv.tensors.blocks.block_sums(
            (r.error if r.counted is None else r.error.masked_fill(~r.counted, 0)).to(torch.float64).square(),
            r.layout,
        )
        torch.testing.assert_close(wanted, own_sums, rtol=1e-12, atol=0)


def sorted_by_place(parts, whole):
    """Bands are looked at by several threads: each with where its ranges are in those of the whole."""
    if len(parts) == 1:
        return parts
    rows, left = [], list(range(len(parts)))
    at = 0
    while at < len(whole.lo):
        k = next(k for k in left if torch.equal(parts[k][0].lo, whole.lo[at : at + len(parts[k][0].lo)]))
        left.remove(k)
        rows.append(parts[k])
        at += len(parts[k][0].lo)
    return rows


def test_a_trial_of_what_an_engine_refuses_is_infinite(own):
    tried = []

    @dataclass(frozen=True)
    class TooWide(OfMode):
        of_values: ClassVar[bool] = False

        def calibrate(self, blocks, context):
            lo, hi = blocks.min_max()
            wide = torch.full_like(lo, 3e38)
            tried.append(context.trial(Range(-wide, wide, blocks.extreme())))
            return Range(lo, hi, blocks.extreme())

    x, scheme = normal(4, 8), qv.Scheme("int8", "asymmetric", qv.PerChannel(0), own(TooWide))
    qv.quantize(x, scheme)
    ranges.ranges(InMemory(x), scheme)
    assert len(tried) == 2
    assert all(torch.isinf(each).all() for each in tried)


def test_a_statistic_that_is_not_written_down_takes_the_next_path(own, monkeypatch):
    for kind in (qv.Blocks, StreamedBlocks):
        monkeypatch.setattr(
            kind, "middle_magnitude", lambda self: self.magnitudes().percentiles(50)[0], raising=False
        )
    calibration, x = own(ByMiddle), normal(64, 96)
    for granularity in (qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(16)):
        scheme = qv.Scheme("int4", "symmetric", granularity, calibration)
        m = measuring.measure(x, scheme, path="fused", piece=512)
        assert (m.path, m.metrics["mse"]) == (
            "fused",
            pytest.approx(qv.metrics(qv.quantize(x, scheme))["mse"], rel=1e-9),
        )


@pytest.mark.parametrize(
    "compute",
    [lambda lo: lo if lo > 0 else -lo, lambda lo: lo**2, lambda lo: lo.erf(), float, torch.erf],
    ids=range(5),
)
def test_arithmetic_that_is_not_written_down_takes_the_next_path(own, compute):
    @dataclass(frozen=True)
    class Odd(OfMode):
        def calibrate(self, blocks, context):
            lo, hi = blocks.min_max()
            return Range(lo, hi + 0 * compute(lo), blocks.extreme())

    with pytest.raises(Untraceable):
        trace_block(qv.Scheme("int4", calibration=own(Odd)), ("scale",))


def test_without_its_scales_an_external_scheme_is_refused():
    scheme = qv.Scheme().replace(calibration=qv.External())
    for ask in (
        lambda: qv.quantize([1.0, 2.0], scheme),
        lambda: qv.choose_qparams([1.0, 2.0], scheme),
        lambda: ranges.ranges(InMemory(torch.ones(2)), scheme),
    ):
        with pytest.raises(qv.QuantVizError) as refused:
            ask()
        assert refused.value.key == "external_without_qparams"


def test_a_range_by_hand_that_float32_cannot_hold_is_refused_with_its_own_words():
    """Under an engine that computes scales in float32, too, whatever way the tensor is read."""
    scheme = qv.Scheme(
        "int4", calibration=qv.ManualRange(-1e39, 1e39), convention="gguf_signed", granularity=qv.PerGroup(32)
    )
    x = torch.ones(4, 32)
    for run in (lambda: qv.quantize(x, scheme), lambda: measuring.measure(x, scheme, path="chunked")):
        with pytest.raises(qv.QuantVizError) as error:
            run()
        assert error.value.key == "range_beyond_float32"
