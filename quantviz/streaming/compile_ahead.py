"""Compiles what a first opening of a large tensor asks for: in this process, or in one of its own for
another.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys

from quantviz import own_process
from quantviz.compiled.background import FIXED
from quantviz.compiled.kernel_cache import cache_folder

#: Objects after which garbage is looked for: compiling leaves hardly any, and the looks took a sixth of its
#: time.
_OBJECTS_BETWEEN_LOOKS = 200_000
#: What fixed kernels are run on, so that they are compiled for what a large tensor is to them.
_SAMPLE = (1032, 1024)


def compile_now(what: str) -> None:
    """Compile, or read from the folder where it is kept."""
    from quantviz.schemes.scheme import Scheme
    from quantviz.streaming import readiness

    if what == FIXED:
        _compile_fixed()
    else:
        form, shape = json.loads(what)
        readiness.warm(Scheme.parse(form), tuple(shape))


def _compile_fixed() -> None:
    import torch

    from quantviz.schemes import calibration
    from quantviz.schemes.scheme import Scheme
    from quantviz.streaming import measuring, overview, ranges, surveying, tensor_facts
    from quantviz.streaming.frames import Patch
    from quantviz.tensors.lazy import InMemory
    from quantviz.tensors.views import View

    values = torch.randn(_SAMPLE, generator=torch.Generator().manual_seed(0))
    # As large on either side, so that it matters which comes first.
    values[0, 0], values[1, 1] = 8.0, -8.0
    x, scheme = InMemory(values), Scheme("int8")
    known = tensor_facts.facts(x)
    qparams = ranges.qparams(x, scheme, ranges.ranges(x, scheme, absmax=known.absmax), absmax=known.absmax)
    for how in ("largest", "mean"):
        overview.overview(x, scheme, qparams, Patch(0, 0, *_SAMPLE), (64, 64), how, View.of(_SAMPLE))
    assert measuring.measure(x, scheme, qparams=qparams, by_axis=True, known=known).path == "fused"
    assert surveying.survey(x, scheme, qparams, known=known).noise > 0
    for other in (calibration.Percentile(99.0), calibration.AbsMean()):
        ranges.ranges(x, scheme.replace(calibration=other))
    folder = cache_folder()
    if folder:
        (folder / FIXED).touch()


def is_kept() -> bool:
    """Return whether all that every scheme needs is in the folder of compiled code."""
    folder = cache_folder()
    return folder is not None and (folder / FIXED).exists()


# ---- the process that compiles -------------------------------------------------------------------


def serve() -> None:
    """Compile what is asked for, a line each, until nobody asks any more."""
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    own_process.stand_behind()
    for line in sys.stdin:
        compile_now(line.rstrip("\n"))
        print("done", flush=True)


def process() -> subprocess.Popen[str] | None:
    """Return a process that compiles; none where it could not hand over what it makes."""
    if cache_folder() is None:
        return None
    # A thread: two would only hinder those who answer meanwhile.
    return own_process.start(
        "quantviz.streaming.compile_ahead",
        environment={"OMP_NUM_THREADS": "1", "QUANTVIZ_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    serve()
