"""The same numbers whatever else a process does with torch and numba."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import quantviz as qv
from tests.helpers.sample import sample_of

#: Half of it so small that flushing makes it 0.
_MADE = torch.Generator().manual_seed(1)
X = torch.cat([torch.randn(16, 256, generator=_MADE) * size for size in (1, 1e-40)])
LARGE = X.repeat(32, 1)
RECIPES = ("int8_per_row", "int4_g128", "mxfp4", "nvfp4", "q4_k", "fp8_e4m3_per_tensor", "nf4_64")


@contextlib.contextmanager
def setting(change, *values):
    change(values[0])
    try:
        yield
    finally:
        change(values[1])


STATES = {
    "flush": lambda: setting(torch.set_flush_denormal, True, False),
    "meta": lambda: setting(torch.set_default_device, "meta", None),
    "meta while": lambda: torch.device("meta"),
    "float64": lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    "float16": lambda: setting(torch.set_default_dtype, torch.float16, torch.float32),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "deterministic": lambda: setting(torch.use_deterministic_algorithms, True, False),
    "one thread": lambda: setting(torch.set_num_threads, 1, torch.get_num_threads()),
    "numpy raises": lambda: np.errstate(all="raise"),
}


def answers(recipe):
    """Return everything that a recipe makes of X, as bytes."""
    result = qv.quantize(X, recipe)
    made = [result.q, result.x_hat, result.error, result.qparams.scale]
    found = [torch.tensor(list(qv.metrics(result).values()), dtype=torch.float64, device="cpu")]
    for path in ("reference", "fused"):
        metrics = qv.measure(X, recipe, path=path).metrics
        found.append(torch.tensor(list(metrics.values()), dtype=torch.float64, device="cpu"))
    why = qv.explain(result, (20, 3))
    return [part.numpy().tobytes() for part in (*made, *found)] + [(why.q, why.x_hat, why.error)]


@pytest.fixture(scope="module")
def usual():
    """Return the answers of the recipes that are walked, in a process where nothing is set."""
    return {recipe: answers(recipe) for recipe in sample_of(RECIPES, 1)}


@pytest.mark.parametrize("state", STATES)
def test_numbers_do_not_depend_on_what_a_process_has_set(usual, state):
    for recipe, wanted in usual.items():
        with STATES[state]():
            found = answers(recipe)
        assert found == wanted, recipe


def test_what_a_process_has_set_is_set_again():
    with STATES["flush"](), STATES["float64"](), STATES["meta while"]():
        qv.quantize(X, "int8_per_row")
        with pytest.raises(qv.QuantVizError):
            qv.quantize(X, "no such recipe")
        assert torch.get_default_dtype() is torch.float64
        assert torch.get_default_device().type == "meta"
        assert sys.float_info.min * 0.5 == 0.0
    assert sys.float_info.min * 0.5 > 0.0


def test_our_threads_keep_small_numbers_whoever_began_them():
    from quantviz.streaming.threads import _pool

    _pool.cache_clear()
    with STATES["flush"]():
        got = qv.measure(LARGE, "int8_per_row", path="fused", piece=4096, threads=4).metrics
    assert got == qv.measure(LARGE, "int8_per_row", path="fused", piece=4096, threads=1).metrics


def test_under_a_mode_without_values_a_sentence_is_raised():
    with FakeTensorMode(), pytest.raises(qv.QuantVizError, match="FakeTensor"):
        qv.quantize([[1.0, 2.0]], "int8_per_tensor")


def test_a_result_whose_tensor_was_changed_says_so():
    for change, take in (
        (lambda x: x.zero_(), lambda x: x),
        (lambda x: x[3].mul_(2), lambda x: x),
        (lambda x: x.data.add_(1), lambda x: x),
        (lambda x: x.fill_(5), lambda x: x.numpy()),
    ):
        x = torch.arange(64.0).view(4, 16)
        result = qv.quantize(take(x), "int8_per_row")
        qv.metrics(result)
        change(x)
        for use in (qv.metrics, lambda r: qv.explain(r, (3, 5))):
            with pytest.raises(qv.QuantVizError, match="changed after it was quantized"):
                use(result)
    x = torch.tensor([1.0, torch.nan, torch.inf])
    qv.metrics(qv.quantize(x, qv.Scheme(nonfinite="ignore")))


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=240,
    )


MEASURED = "qv.measure(torch.arange(2.0**21).view(64, -1), 'int4_g128', threads=4).metrics['mse']"


@pytest.mark.nightly
def test_without_numbas_compiler_the_reference_answers():
    without = run(f"import quantviz as qv, torch\nprint({MEASURED})", NUMBA_DISABLE_JIT="1")
    assert without.returncode == 0, without.stderr
    assert float(without.stdout) == pytest.approx(eval(MEASURED), rel=1e-6)


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_measures():
    code = f"""
import os, signal, quantviz as qv, torch, warnings
warnings.simplefilter("ignore")
print({MEASURED})
child = os.fork()
if not child:
    signal.alarm(60)
    print({MEASURED})
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run(code, PYTHONUNBUFFERED="1")
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1
    assert len(done.stdout.split()) == 2
