"""Damage valid and hostile files at random and read them, until the time is up or something other than a
sentence comes of it.

    python -m tests.fuzz READER [--minutes 3] [--seed 0] [--keep FOLDER]

READER is a suffix without its dot, "picture", or "layouts" for quantized weights in safetensors. Of .gguf,
.onnx, .tflite, .npy and layouts quantized weights are decoded too. Each find is printed, with the file kept
for a look.
"""

import argparse
import faulthandler
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import torch

from tests.helpers.damage import damaged
from tests.helpers.fuzzed_files import FUZZED, read_all, seeds

#: Longest that one file may take, in seconds, and most memory beyond what the process had, in bytes.
LONGEST, MOST = 10, 400 * 10**6


def main():
    """Fuzz until the time is up; the exit code says whether anything was found."""
    arguments = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    arguments.add_argument("reader", choices=FUZZED)
    arguments.add_argument("--minutes", type=float, default=3)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "quantviz_fuzz")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    faulthandler.enable()
    given.keep.mkdir(exist_ok=True)
    chance, pool, fates, finds, runs = random.Random(given.seed), seeds(given.reader), Counter(), Counter(), 0
    for data in pool:
        read_all(given.reader, data)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST, resource.RLIM_INFINITY))
    last = given.keep / f"{given.reader}.last"
    until = time.monotonic() + 60 * given.minutes
    # A file that takes longer ends the run with the place where it was; the file is kept.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    while time.monotonic() < until:
        data = damaged(chance.choice(pool), pool, chance)
        last.write_bytes(data)
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        try:
            fate = read_all(given.reader, data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            fate = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            if not finds[fate]:
                kept = given.keep / f"{given.reader}.{len(finds)}"
                kept.write_bytes(data)
                print(f"FIND {fate}: {str(error)[:200]!r}, kept as {kept}", flush=True)
                traceback.print_exc()
            finds[fate] += 1
        faulthandler.cancel_dump_traceback_later()
        runs += 1
        fates[fate] += 1
        # What was read and is new in kind becomes one to change further.
        if fates[fate] <= 20 and 0 < len(data) < 2**16:
            pool.append(data)
    print(
        f"{given.reader}: {given.minutes:g} minutes, {runs:,} files, "
        f"finds {sum(finds.values())} of {len(finds)} kinds; "
        + ", ".join(f"{k} {v}" for k, v in fates.most_common())
    )
    sys.exit(bool(finds))


if __name__ == "__main__":
    main()
