"""Benchmarks of a scan of a checkpoint: `python -m tests.bench.scan CASE`."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import safetensors.torch
import torch

import quantviz as qv
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import make_ready, run_scan, scan_as_job
from quantviz.errors import QuantVizError
from quantviz.jobs import Cost, Jobs
from quantviz.tensors.lazy import InMemory
from tests.bench.runner import both_clocks, case, judged, main, timed

FIVE = ("int8_per_tensor", "int8_per_row", "int4_per_row", "int4_g32", "int4_g128")
TWELVE = (
    *FIVE,
    *("fp8_e4m3_per_tensor", "fp8_e4m3_per_row", "mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "nvfp4", "nf4_64"),
)
_LAYER = {
    "self_attn.q_proj": (2048, 2048),
    "self_attn.k_proj": (512, 2048),
    "self_attn.v_proj": (512, 2048),
    "self_attn.o_proj": (2048, 2048),
    "mlp.gate_proj": (5632, 2048),
    "mlp.up_proj": (5632, 2048),
    "mlp.down_proj": (2048, 5632),
}


def make_checkpoint(folder: Path, size: float) -> list[Path]:
    """Write shards of a layer each until there are so many bytes; what is there already is used again."""
    generator, layer, files = torch.Generator().manual_seed(0), 0, []
    noise = torch.randn(5632, 2048, generator=generator) * 0.02
    while sum(file.stat().st_size for file in files) < size:
        file = folder / f"layer-{layer:03}.safetensors"
        if not file.exists():
            tensors = {}
            for k, (name, shape) in enumerate(_LAYER.items()):
                part = noise.flatten()[: shape[0] * shape[1]].view(shape) * (1 + 0.01 * k + 0.1 * layer)
                tensors[f"model.layers.{layer}.{name}.weight"] = part.bfloat16()
            norm = torch.full((2048,), 1.0 + layer).bfloat16()
            tensors[f"model.layers.{layer}.input_layernorm.weight"] = norm
            safetensors.torch.save_file(tensors, file)
            with file.open("rb") as written:
                os.fsync(written.fileno())
        files.append(file)
        layer += 1
    return files


def drop(files: list[Path]) -> None:
    """Drop files from the system's cache."""
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(files: list[Path]) -> None:
    buffer = memoryview(bytearray(2**23))
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass


def cold(files: list[Path], work) -> tuple[float, float]:
    """Return the seconds of work on files that the system has dropped, by the clock and of processors."""
    drop(files)
    return timed(lambda: work(files), both_clocks)()


def scanned(files: list[Path], recipes: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as kept, Results(Path(kept) / "results.sqlite") as results:
        run_scan(results, files[0].parent, recipes)


@case
def scan(gb: float = 2.0, rounds: int = 3, folder: str = "") -> None:
    """A scan of a cold checkpoint, against a plain read and the rate of its arithmetic (0.7 of the smaller).

    The checkpoint is random bfloat16 in shards, with the names and shapes of a Llama; each round drops the
    files from the system's cache. The arithmetic is that of `measure` on the same tensors as float32 in
    memory; a scan gives all metrics, `measure` those of one pass. Then the processor seconds of twelve
    recipes against five (3): they say the same on a machine that others use.
    """
    place = Path(folder or tempfile.mkdtemp())
    place.mkdir(parents=True, exist_ok=True)
    files = make_checkpoint(place, gb * 1e9)
    size = sum(file.stat().st_size for file in files)
    scanned(files[:1], TWELVE)  # compiles
    with qv.open_tensors(files[0]) as catalog:
        tensors = [InMemory(catalog.load(name).float()) for name in catalog.names]

    def measured() -> None:
        for x in tensors:
            if len(x.shape) == 2:
                qv.measure(x, FIVE[1], path="fused")

    measured()
    ratios, several = [], []
    for _ in range(rounds):
        reading = cold(files, read)[0]
        took, used = cold(files, lambda files: scanned(files, FIVE[1:2]))
        reading = (reading + cold(files, read)[0]) / 2
        fused = timed(measured)() * len(files)
        ratios.append(max(reading, fused) / took)
        five, twelve = (
            timed(lambda recipes=recipes: scanned(files, recipes), time.process_time)()
            for recipes in (FIVE, TWELVE)
        )
        several.append(twelve / five)
        rates = {"read": size / reading, "fused": size / fused, "scan": size / took}
        words = ", ".join(f"{name} {rate / 1e9:.2f} GB/s" for name, rate in rates.items())
        print(f"{words}; processor: scan {used:.1f} s, five {five:.1f}, twelve {twelve:.1f}", flush=True)
    print(f"cold scan, one recipe: {judged(statistics.median(ratios), 0.7, least=True)} × the smaller")
    print(f"twelve recipes: {judged(statistics.median(several), 3)} times five")


def has_row(kept: Path) -> bool:
    try:
        with Results(kept, read_only=True) as results:
            return any(row.status == "ok" for each in results.scans()[:1] for row in results.rows(each.id))
    except QuantVizError:  # not begun
        return False


def seconds_to_first_row(checkpoint: Path, wait: float) -> float:
    """Return how long the first row takes, `wait` seconds after the process was told to be ready."""
    recipes, scans = ("int8_per_row", "int4_g128"), Cost(queue="scans")
    with tempfile.TemporaryDirectory() as folder:
        kept, jobs = Path(folder) / "results.sqlite", Jobs()
        jobs.submit(partial(make_ready, recipes), "ready", scans, ahead=True)
        time.sleep(wait)
        start = time.perf_counter()
        work = partial(scan_as_job, str(checkpoint), recipes, "", "", str(kept))
        job = jobs.submit(work, "scan", scans, stays=True)
        try:
            while time.perf_counter() - start < 120 and not has_row(kept):
                assert job.found is None
                time.sleep(0.01)
            return time.perf_counter() - start
        finally:
            jobs.close()


@case
def first_square(gb: float = 1.0) -> None:
    """From the start of a scan to its first row (bar 1 s), where the page's process waits ready: with kernels
    that were compiled before, and on a machine where nothing was.

    A second row says what it takes where nobody waits for the process to be ready: Python and torch start
    first.
    """
    folder = Path(tempfile.mkdtemp())
    make_checkpoint(folder, gb * 1e9)
    for wait in (4.0, 0.0):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["QUANTVIZ_CACHE_DIR"] = cache
            new = seconds_to_first_row(folder, wait)
            seconds_to_first_row(folder, 30.0)  # compiles
            known = judged(seconds_to_first_row(folder, wait), 1.0)
        print(f"{wait:.0f} s after the page was opened: {known} s; nothing compiled yet: {new:.2f} s")


if __name__ == "__main__":
    main()
