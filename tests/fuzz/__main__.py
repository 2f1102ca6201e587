"""Damage valid and hostile files at random and read them, until the time is up or something other than a
sentence comes of it.

    python -m tests.fuzz READER [--minutes 3] [--seed 0] [--keep FOLDER]

READER is a suffix without its dot, "index" for the list of shards, "picture", or "layouts" for quantized
weights in safetensors. Of .onnx, .tflite, .npy and layouts quantized weights are decoded too. Each find is
printed, with the file kept for a look.
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

from quantviz.errors import QuantVizError
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.image import CHANNELS, read_image
from quantviz.text import languages
from tests.helpers.damage import damaged
from tests.helpers.hostile import CASES, FILES, PICTURES, Case
from tests.helpers.quantized_files import QUANTIZED, read_weights

#: Longest that one file may take, in seconds, and most memory beyond what the process had, in bytes.
LONGEST, MOST = 10, 400 * 10**6
#: Small, so that what is read stays small.
LIMITS = Limits(elements=2**20)


def seeds(reader):
    """The valid and the hostile files of a reader, by name."""
    if reader == "picture":
        return list(filter(None, (Case(*each).content for each in PICTURES.values())))
    quantized = QUANTIZED[reader]() if reader in QUANTIZED else []
    names = [
        name
        for name in {**FILES, **CASES}
        if name.endswith(f".{reader}" if reader != "index" else ".index.json")
    ]
    made = [FILES[name] if name in FILES else CASES[name].content for name in names]
    return [data for data in (*made, *quantized) if 0 < len(data) < 2**17]


def read(reader, data):
    """Read everything in the file; what it said, if it was refused."""
    if reader == "picture":
        try:
            for channel in CHANNELS:
                read_image(data, channel, filename="x.png", longest_side=64)
        except QuantVizError as error:
            return said(error, "x.png")
        return "read"
    filename = {"index": "x.safetensors.index.json", "layouts": "x.safetensors"}.get(reader, f"x.{reader}")
    if reader in QUANTIZED:
        read_weights(data, filename, LIMITS)
    fate = "read"
    try:
        with open_tensors(data, filename, limits=LIMITS) as catalog:
            for name in catalog.names[:20]:
                try:
                    tensor = catalog.load(name)
                    assert tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)
                    assert tuple(tensor.shape) == catalog.info(name).shape
                    if tensor.dim() and len(tensor):
                        assert torch.equal(
                            catalog.load(name, (slice(0, 1),)).nan_to_num(), tensor[:1].nan_to_num()
                        )
                    if tensor.numel() and 1 <= tensor.dim() <= 4:
                        stored = catalog.stored(name)
                        assert torch.equal(
                            torch.from_numpy(stored.run(0, stored.count).copy()).nan_to_num(),
                            tensor.float().flatten().nan_to_num(),
                        )
                except QuantVizError as error:
                    fate = said(error, filename)
    except QuantVizError as error:
        return said(error, filename)
    return fate


def said(error, filename):
    for language in languages():
        message = error.message(language)
        assert filename in message or "input_" in error.key, message
        assert len(message) < 500, message
        assert "weights_only" not in message, message
    return error.key


def main():
    """Fuzz until the time is up; the exit code says whether anything was found."""
    arguments = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    arguments.add_argument("reader")
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
        read(given.reader, data)
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
            fate = read(given.reader, data)
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
