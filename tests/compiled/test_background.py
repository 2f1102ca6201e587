"""Answers while kernels are being compiled: equal to theirs, by one process that compiles each thing once."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import compiling, kernel_access, measuring, pools, programs, tensor_facts
from quantviz.streaming.frames import Patch
from quantviz.streaming.overview import pooled
from quantviz.streaming.threads import shared_out
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import View
from tests.helpers.kernels import compiled_first, compiled_for_the_run

#: More than `limits.SMALL` elements, so that kernels are asked for; no length is a multiple of another's.
SHAPE = (1031, 1023)


class _Nothing:
    """A warmer that has compiled nothing yet, and notes what it was asked for."""

    def __init__(self):
        self.asked = []

    def ready(self, what):
        self.asked.append(what)
        return False


@pytest.fixture
def uncompiled(monkeypatch):
    """Inside of `compiling.without_compiling()` nothing is compiled."""
    nothing = _Nothing()
    monkeypatch.setattr(compiling, "warmer", lambda: nothing)
    return nothing


def values(shape, seed, *, ties=False, holes=False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    x = (2 * x).round() if ties else x
    if holes:
        x[torch.rand(shape, generator=generator) < 0.3] = torch.nan
        x[torch.rand(shape, generator=generator) < 0.05] = -torch.inf
    return x


def both(ask):
    """What is answered by kernels, and at once."""
    compiled = ask()
    with compiling.without_compiling():
        return compiled, ask()


@pytest.mark.parametrize("holes", [False, True])
def test_facts_are_the_same_before_kernels_are_compiled(uncompiled, holes):
    x = InMemory(values(SHAPE, 0, ties=holes, holes=holes))
    one, other = both(lambda: tensor_facts.facts(x))
    assert repr(one) == repr(other)
    assert kernel_access.FIXED in uncompiled.asked


@pytest.mark.parametrize("shape", [(37,), (13, 32), (5, 7, 16), (40, 50)])
@pytest.mark.parametrize(("ties", "holes"), [(False, False), (False, True), (True, False), (True, True)])
def test_pixels_are_the_same_before_kernels_are_compiled(uncompiled, shape, ties, holes):
    x, axes = InMemory(values(shape, 1, ties=ties, holes=holes)), range(len(shape))
    views = [View(rows, cols, (1,) * len(shape)) for rows, cols in itertools.permutations(axes, 2)] or [
        View.of(shape)
    ]
    for view, pixels in itertools.product(views, [(1, 1), (3, 4), (7, 5), (100, 100)]):
        rows, cols = view.matrix(shape)
        for patch in (
            Patch(0, 0, rows, cols),
            Patch(rows // 3, cols // 4, rows - rows // 3, cols - cols // 4 - 1),
        ):
            (value, at), (other, other_at) = both(
                lambda view=view, pixels=pixels, patch=patch: pooled(x, patch, pixels, "largest", view)
            )
            # The bits: of two NaN and of 0 and -0 too.
            assert np.array_equal(value.view(np.int32), other.view(np.int32))
            assert np.array_equal(at, other_at)


SCHEMES = (
    "int4,symmetric,per_tensor,min_max,course",
    "int8,asymmetric,per_channel(axis=1),min_max,onnxruntime",
    "int8,symmetric,per_group(size=33),min_max,course",
)


@pytest.mark.parametrize("form", SCHEMES)
@pytest.mark.parametrize("nonfinite", ["refuse", "ignore"])
def test_a_study_shows_the_same_before_kernels_are_compiled(uncompiled, form, nonfinite):
    x, scheme = (
        InMemory(values(SHAPE, 2, ties=True, holes=nonfinite == "ignore")),
        Scheme.parse(form).replace(nonfinite=nonfinite),
    )

    def shown():
        study = Study.of(x, scheme)
        return study, study.overview(Patch(0, 0, *SHAPE), (64, 96), "largest", View.of(SHAPE)), study.measured

    (study, seen, measured), (own, own_seen, own_measured) = both(shown)
    assert (measured.path, own_measured.path) == ("fused", "chunked")
    for name in ("lo", "hi", "extreme"):
        assert torch.equal(getattr(study.range, name), getattr(own.range, name)), name
    assert torch.equal(study.qparams.scale, own.qparams.scale)
    for name in ("x", "q", "x_hat", "error", "x_at", "error_at"):
        assert np.array_equal(getattr(seen, name), getattr(own_seen, name), equal_nan=True), name
    assert measured.largest_error == own_measured.largest_error
    assert measured.counted == own_measured.counted
    for name, value in measured.metrics.items():
        assert own_measured.metrics[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
    for one, other in zip(measured.axes, own_measured.axes, strict=True):
        assert np.allclose(one.x2, other.x2, rtol=1e-6)
        assert np.allclose(one.e2, other.e2, rtol=1e-6)


def test_the_chunked_path_has_the_same_bits_on_any_number_of_threads():
    x, scheme = InMemory(values(SHAPE, 3)), Scheme("int4")
    found = [
        measuring.measure(x, scheme, path="chunked", by_axis=True, threads=threads) for threads in (1, 2, 5)
    ]
    for other in found[1:]:
        assert dict(other.metrics) == dict(found[0].metrics)
        assert all(torch.equal(a.e2, b.e2) for a, b in zip(found[0].axes, other.axes, strict=True))


def test_each_thing_is_compiled_once(monkeypatch):
    made = []
    monkeypatch.setattr(compiling, "is_kept", lambda: False)
    monkeypatch.setattr(compiling, "cache_folder", lambda: None)
    monkeypatch.setattr(compiling, "compile_now", made.append)
    warmer = compiling.Warmer()
    for what in ("a", "b", "a", "b", "a"):
        warmer.ready(what)
    for what in ("a", "b"):
        warmer.wait(what)
        assert warmer.ready(what)
    assert made == ["a", "b"]


def test_what_cannot_be_compiled_is_not_waited_for(monkeypatch, caplog):
    def fails(what):
        raise RuntimeError(what)

    monkeypatch.setattr(compiling, "cache_folder", lambda: None)
    monkeypatch.setattr(compiling, "compile_now", fails)
    warmer = compiling.Warmer()
    warmer.wait("a")
    assert warmer.ready("a")
    assert "compiling in the background failed: a" in caplog.text


#: Ends while a thread computes with torch: Python would end that thread there, and torch the process with it.
ENDS = """
import threading, time, torch
from quantviz.streaming import compiling
begun = threading.Event()
def computes(what):
    begun.set()
    while not compiling.warmer()._is_closed:
        time.sleep(0.01)
    for _ in range(5):
        torch.randn(1_000_000).sort()
    print(what)
compiling.cache_folder = lambda: None
compiling.compile_now = computes
for what in "ab":
    compiling.warmer().ready(what)
begun.wait()
"""


def test_a_process_ends_once_what_it_compiles_is_done_and_begins_nothing_more():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr


def test_one_process_compiles_all_that_a_first_opening_asks_for(tmp_path):
    failed = compiled_for_the_run()
    assert (compiled_first(tmp_path) if failed is None else failed) == ""


def test_codes_that_a_zero_point_was_added_to_get_the_quicker_sums():
    """With integers in between, asymmetric schemes of ONNX Runtime took 1.8 times as long as symmetric
    ones.
    """
    from quantviz.compiled.short_forms import of_numbers, unsaturated
    from quantviz.compiled.tracing import trace_cell

    for convention in (
        "course",
        "torch",
        "torch_fake_quantize",
        "torchao",
        "onnxruntime",
        "litert",
        "compressed_tensors",
    ):
        scheme = qv.Scheme("int8", "asymmetric", convention=convention)
        code = of_numbers(trace_cell(scheme, dict(programs.types_of_scheme(scheme))))
        assert unsaturated(code) is not None, convention


def test_who_does_not_wait_says_so_for_its_threads_too():
    seen = []
    with compiling.without_compiling():
        shared_out(lambda items: seen.extend(kernel_access.waits() for _ in items), range(4), threads=2)
    assert seen == [False] * 4
    assert kernel_access.waits()
    assert pools.pooling_kernels()
