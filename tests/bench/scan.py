"""A scan of a checkpoint from a cold disk, against a plain read of its files and the rate of its arithmetic.

    python -m tests.bench.scan [--gb 2] [--rounds 3] [--folder DIR]

The checkpoint is made of random bfloat16 in shards, with the names and shapes of a Llama. Each round drops
the files from the system's cache, reads them plainly, drops them again and scans; rates are bytes of the
files a second. The fused rate is that of `measure` on the same tensors as float32 in memory. A scan gives all
metrics, `measure` those of one pass. Processor seconds of the scans of five and twelve recipes are compared
too: they say the same on a machine that others use.
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
import torch

import quantviz as qv
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import run_scan
from quantviz.tensors.lazy import InMemory

ONE = ("int8_per_row",)
FIVE = ("int8_per_tensor", "int8_per_row", "int4_per_row", "int4_g32", "int4_g128")
TWELVE = (
    *FIVE,
    *("fp8_e4m3_per_tensor", "fp8_e4m3_per_row", "mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "nvfp4", "nf4_64"),
)
#: At least this share of the smaller of the two rates, and at most so many times the five recipes.
BAR, TWELVE_BAR = 0.7, 3.0
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


def seconds_of_reading(files: list[Path]) -> float:
    buffer = memoryview(bytearray(2**23))
    start = time.perf_counter()
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass
    return time.perf_counter() - start


def seconds_of_scanning(files: list[Path], recipes: tuple[str, ...]) -> tuple[float, float]:
    """Return what a scan takes, on the clock and of processors."""
    with tempfile.TemporaryDirectory() as kept, Results(Path(kept) / "results.sqlite") as results:
        start, used = time.perf_counter(), time.process_time()
        run_scan(results, files[0].parent, recipes)
        return time.perf_counter() - start, time.process_time() - used


def seconds_of_measuring(files: list[Path], recipe: str) -> float:
    """Return what `measure` takes for all files, from tensors of the first in memory."""
    with qv.open_tensors(files[0]) as catalog:
        tensors = [InMemory(catalog.load(name)) for name in catalog.names]
    tensors = [x for x in tensors if len(x.shape) == 2]
    start = time.perf_counter()
    for x in tensors:
        qv.measure(x, recipe, path="fused")
    return (time.perf_counter() - start) * len(files)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--gb", type=float, default=2.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--folder", type=Path)
    asked = options.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    files = make_checkpoint(folder, asked.gb * 1e9)
    size = sum(file.stat().st_size for file in files)
    print(f"{len(files)} files, {size / 1e9:.2f} GB; load {os.getloadavg()[0]:.1f}")
    seconds_of_scanning(files[:1], TWELVE)  # compiles
    seconds_of_measuring(files, ONE[0])
    ratios, several = [], []
    for _ in range(asked.rounds):
        drop(files)
        read = seconds_of_reading(files)
        drop(files)
        scan, used = seconds_of_scanning(files, ONE)
        drop(files)
        read = (read + seconds_of_reading(files)) / 2
        fused = seconds_of_measuring(files, ONE[0])
        ratios.append(max(read, fused) / scan)
        five, twelve = (seconds_of_scanning(files, recipes)[1] for recipes in (FIVE, TWELVE))
        several.append(twelve / five)
        rates = {"read": size / read, "fused": size / fused, "scan": size / scan}
        words = ", ".join(f"{name} {rate / 1e9:.2f} GB/s" for name, rate in rates.items())
        print(
            f"{words}: {ratios[-1]:.2f}; processor: scan {used:.1f} s, five {five:.1f}, twelve {twelve:.1f}"
        )
    print(f"cold scan, one recipe: {statistics.median(ratios):.2f} of the smaller rate (bar {BAR})")
    print(f"twelve recipes: {statistics.median(several):.2f} times five (bar {TWELVE_BAR})")


if __name__ == "__main__":
    main()
