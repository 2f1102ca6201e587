"""`compare` of a GGUF and of a GPTQ file with their bfloat16 original from a cold disk, against a plain read
of the files and one float32 pass, in one run.

    python -m tests.bench.compare [--gb 0.5] [--rounds 3] [--folder DIR]

The files are made of random weights, with the names and shapes of a Llama, and a twin of each. A round drops
all files from the system's cache, reads them plainly, drops them again and compares. The float32 pass is
`measure` of the twin's scheme on a layer's weights as float32 in memory. Rates are weights a second, by the
clock; the bar is half of the smaller of the two. Beside them stands what a comparison takes of a processor,
which says the same on a machine that others use.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import safetensors.torch

import quantviz as qv
from quantviz.jobs import keep_memory
from quantviz.sources.layouts.weight import plain_scheme
from quantviz.streaming.kernel_access import has_kernels
from quantviz.tensors.lazy import InMemory
from tests.bench.scan import drop, make_checkpoint, seconds_of_reading
from tests.helpers.twins import write_gguf, write_gptq

BAR = 0.5


def tensors_of(files):
    """Yield each tensor with its name."""
    for file in files:
        yield from safetensors.torch.load_file(file).items()


def twins(folder, files):
    """Write both twins where they are not there yet, and return each with the recipe that it has."""
    ggufs, gptq = folder / "model-q4_0.gguf", folder / "gptq" / "model.safetensors"
    if not ggufs.exists():
        write_gguf(ggufs, tensors_of(files), architecture="llama", heads=(32, 8))
    if not gptq.exists():
        gptq.parent.mkdir(exist_ok=True)
        write_gptq(gptq, tensors_of(files), nearest=True)
    return {"GGUF, Q4_0": (ggufs, qv.RECIPES["q4_0"]), "GPTQ, 4 bits, groups of 128": (gptq, None)}


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    keep_memory()  # as the command does
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        source = folder / "original"
        source.mkdir(parents=True, exist_ok=True)
        files = make_checkpoint(source, given.gb * 1e9)
        if not has_kernels():
            print("numba is missing: the reference compares")
        weights = [x.float() for _, x in tensors_of(files[:1]) if x.dim() == 2]
        some = sum(x.numel() for x in weights)
        count = some * len(files)
        print(f"{count / 1e6:.0f} M weights, load {os.getloadavg()[0]:.1f}")
        for name, (file, recipe) in twins(folder, files).items():

            def passed(recipe=recipe):
                for x in weights:
                    scheme = recipe or plain_scheme("uint4", "asymmetric", qv.PerGroup(128), tuple(x.shape))
                    qv.measure(InMemory(x), scheme)

            def compared(file=file):
                qv.audit(file, source)

            passed()
            compared()
            rates, processor = [], []
            for _ in range(given.rounds):
                both = [*files, file]
                drop(both)
                disk = count / seconds_of_reading(both)
                in_memory = some / seconds(passed)
                drop(both)
                start = time.process_time()
                rates.append((disk, in_memory, count / seconds(compared)))
                processor.append((time.process_time() - start) / count * 1e9)
            ratio = statistics.median(own / min(disk, rest) for disk, rest, own in rates)
            disk, rest, own = (statistics.median(each) / 1e6 for each in zip(*rates, strict=True))
            mark = "**" if ratio < BAR else ""
            said = f"disk {disk:.0f} M/s, float32 pass {rest:.0f}, compare {own:.0f}"
            print(f"{name}: {said}: {mark}{ratio:.2f}{mark}")
            print(f"  {statistics.median(processor):.1f} ns of a processor for each weight", flush=True)


if __name__ == "__main__":
    main()
