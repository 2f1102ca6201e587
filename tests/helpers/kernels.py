"""The kernels that a first opening of a large tensor asks for: compiled once for all processes of a run.

Compiling them takes a processor a quarter of a minute. Workers that start side by side would each do it.
"""

import fcntl
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.helpers import ROOT

#: Where compiled kernels are kept, and a file in it that says that the folder was empty when the run began.
KERNELS, NEW = "QUANTVIZ_CACHE_DIR", "new_for_this_run"
#: Run in an empty folder, it fails where a first opening, or what is usually asked for after it, needs more
#: than one process has compiled ahead.
_COLD = """
import torch
from numba.core import event
from quantviz import Scheme
from quantviz.compiled import compiler
from quantviz.streaming import compiling, kernel_access, ranges
from quantviz.lab.state import View
from quantviz.streaming.frames import Patch
from quantviz.tensors.lazy import InMemory
from quantviz.analysis.study import Study
x, scheme = InMemory(torch.randn(1100, 1000)), Scheme("int8", "asymmetric")
def shown():
    study = Study.of(x, scheme)
    study.overview(Patch(0, 0, 1100, 1000), (64, 64), "largest", View.of(x.shape))
    return study
def kept():
    return {path.name for path in kernel_access.cache_folder().rglob("*.nbc")}
assert not kept()
with compiling.without_compiling():
    assert shown().measured.path == "chunked"
    assert compiler.compiler().seconds == 0
    compiling.warmer().wait(kernel_access.FIXED)
    compiling.warmer().wait(kernel_access.of_scheme(scheme, x.shape))
    with event.install_recorder("numba:run_pass") as compiled_here:
        study = shown()
        assert study.measured.path == "fused"
        study.survey
        study.overview(Patch(0, 0, 1100, 1000), (64, 64), "mean", View.of(x.shape))
        ranges.ranges(x, Scheme.parse("int8,symmetric,per_tensor,percentile(p=99.0),course"))
# This process, and what it asks for later, finds everything in the folder.
assert not compiled_here.buffer, compiled_here.buffer[0]
assert len(kept()) > 20
"""


def compiled_first(folder):
    """What one process compiles into an empty folder at a first opening: what it said when it failed."""
    env = {**os.environ, KERNELS: str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _COLD], cwd=folder, env=env, capture_output=True, text=True, timeout=400
    )
    return done.stderr if done.returncode else ""


@cache
def compiled_for_the_run():
    """The same of the run's own folder, for workers: they wait until it is there. None where kernels are kept
    from run to run, or there are no other workers.
    """
    folder = Path(os.environ[KERNELS])
    if "PYTEST_XDIST_WORKER" not in os.environ or not (folder / NEW).exists():
        return None
    return _told(folder)


def start_compiling(folder):
    """Begin with it while workers still collect their tests."""
    (folder / NEW).touch()
    return subprocess.Popen([sys.executable, "-m", __name__, folder], cwd=ROOT)


def _told(folder):
    """What it said; who comes first has it compiled, the others wait."""
    with (folder / NEW).open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = file.read()
        if not told:
            told = json.dumps(compiled_first(folder))
            file.write(told)
        return json.loads(told)


if __name__ == "__main__":
    _told(Path(sys.argv[1]))
