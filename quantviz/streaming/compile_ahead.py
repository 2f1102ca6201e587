"""Compile the code for the first opening of a large tensor, in this process or in a helper process."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

from quantviz import own_process
from quantviz.compiled.background import FIXED
from quantviz.compiled.kernel_cache import cache_folder

#: Allocated objects between two garbage collections: compiling leaves hardly any garbage, and collections
#: took a sixth of its time.
_OBJECTS_BETWEEN_LOOKS = 200_000
#: The shape of the tensor that fixed kernels run on, so that they are compiled for a large tensor's types.
_SAMPLE = (1032, 1024)


def compile_now(what: str) -> None:
    """Compile the fixed kernels or a scheme's own code, or load them from the cache folder.

    `what` is `FIXED`, or a scheme's text form and a shape as JSON.
    """
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
    # Equal magnitudes of both signs, so that the order of the two decides.
    values[0, 0] = 8.0
    values[1, 1] = -8.0
    x = InMemory(values)
    scheme = Scheme("int8")
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
    """Compile the code named by each line of stdin, and answer "done", until stdin ends."""
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    own_process.lower_priority()
    for line in sys.stdin:
        compile_now(line.rstrip("\n"))
        print("done", flush=True)


def process() -> subprocess.Popen[str] | None:
    """Return a process that compiles; none without a cache folder, through which it hands over its code."""
    if cache_folder() is None:
        return None
    # One thread: two would only slow down the server's own threads.
    return own_process.start(
        "quantviz.streaming.compile_ahead",
        environment={"OMP_NUM_THREADS": "1", "QUANTVIZ_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    serve()
