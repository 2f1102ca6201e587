"""Damage valid and hostile files at random and read them, until the time is up or something other than a
sentence comes of it.

    python -m tests.fuzz READER [--minutes 3] [--seed 0] [--keep FOLDER]

READER is a suffix without its dot, "index" for the list of shards, or "picture". Each find is printed, with
the file kept for a look.
"""

import argparse
import faulthandler
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

import torch

from quantviz.errors import QuantVizError
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.image import CHANNELS, read_image
from quantviz.text import languages
from tests.helpers.hostile import CASES, FILES, PICTURES, Case

#: Longest that one file may take, in seconds, and most memory beyond what the process had, in bytes.
LONGEST, MOST = 10, 400 * 10**6
#: Small, so that what is read stays small.
LIMITS = Limits(elements=2**20)
NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    16,
    31,
    32,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
#: Words that mean something to one of the readers.
WORDS = (
    *(
        b"nan",
        b"inf",
        b"-",
        b"1e999",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b",",
        b";",
        b"\n",
        b"\0",
        b"(",
        b")",
        b"...",
        b"tensor(",
    ),
    *(
        b"'descr'",
        b"'shape'",
        b"True",
        b"<f8",
        b">f4",
        b"|O",
        b"F8_E4M3",
        b"F4",
        b"BF16",
        b"data_offsets",
        b"__metadata__",
        b"weight_map",
        b"../",
    ),
    *(
        b"PK\x01\x02",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"PK\x06\x06",
        b"PK\x06\x07",
        b"\x80\x02",
        b"\x85R",
        b"cos\nsystem\n",
        b"\xed\xa0\x80",
        b"\xe2\x80\xae",
    ),
    *(
        b"\xff\xd8",
        b"\xff\xda",
        b"\xff\xc4",
        b"IDAT",
        b"PLTE",
        b"tRNS",
        b"IEND",
        b"GGUF",
        b"general.alignment",
    ),
)


def seeds(reader):
    """The valid and the hostile files of a reader, by name."""
    if reader == "picture":
        return list(filter(None, (Case(*each).content for each in PICTURES.values())))
    names = [
        name
        for name in {**FILES, **CASES}
        if name.endswith(f".{reader}" if reader != "index" else ".index.json")
    ]
    made = [FILES[name] if name in FILES else CASES[name].content for name in names]
    return [data for data in made if 0 < len(data) < 2**17]


def damaged(data, others, chance):
    """The file after one to eight small changes."""
    new = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4, 8))):
        place = (
            chance.randrange(len(new) + 1)
            if chance.random() < 0.5
            else chance.randrange(min(len(new), 300) + 1)
        )
        what = chance.randrange(10)
        if what == 0 and new:
            new[min(place, len(new) - 1)] ^= 1 << chance.randrange(8)
        elif what == 1 and new:
            new[min(place, len(new) - 1)] = chance.randrange(256)
        elif what == 2:
            packed = struct.pack(chance.choice("<>") + "Q", chance.choice(NUMBERS))
            width = chance.choice((1, 2, 4, 8))
            new[place : place + width] = packed[:width] if chance.random() < 0.5 else packed[-width:]
        elif what == 3:
            del new[place : place + chance.choice((1, 2, 4, 16, 100))]
        elif what == 4:
            new[place:place] = chance.choice(WORDS)
        elif what == 5:
            word = chance.choice(WORDS)
            new[place : place + len(word)] = word
        elif what == 6:
            other = chance.choice(others)
            start = chance.randrange(len(other))
            new[place:place] = other[start : start + chance.choice((4, 16, 64, 400))]
        elif what == 7:
            part = new[place : place + chance.choice((1, 4, 30, 100))]
            new[place:place] = part * chance.choice((1, 2, 50))
        elif what == 8:
            digits = str(chance.choice((*NUMBERS, -1, 1.5, 10**30))).encode()
            new[place : place + len(digits)] = digits
        else:
            del new[place:]
    return mended(bytes(new)) if chance.random() < 0.5 else bytes(new)


def mended(data):
    """A PNG with the check sums its changed parts should have: else most changes end there."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return data
    new, at = bytearray(data), 8
    while at + 12 <= len(new):
        length = int.from_bytes(new[at : at + 4], "big")
        end = at + 8 + length
        if end + 4 > len(new):
            break
        new[end : end + 4] = struct.pack(">I", zlib.crc32(new[at + 4 : end]))
        at = end + 4
    return bytes(new)


def read(reader, data):
    """Read everything in the file; what it said, if it was refused."""
    if reader == "picture":
        try:
            for channel in CHANNELS:
                read_image(data, channel, filename="x.png", longest_side=64)
        except QuantVizError as error:
            return said(error, "x.png")
        return "read"
    filename = "x.safetensors.index.json" if reader == "index" else f"x.{reader}"
    fate = "read"
    try:
        with open_tensors(data, filename, limits=LIMITS) as catalog:
            for name in catalog.names[:20]:
                try:
                    tensor = catalog.load(name)
                    assert tensor.dtype == torch.float32
                    assert tuple(tensor.shape) == catalog.info(name).shape
                    if tensor.dim() and len(tensor):
                        assert torch.equal(
                            catalog.load(name, (slice(0, 1),)).nan_to_num(), tensor[:1].nan_to_num()
                        )
                    if tensor.numel() and 1 <= tensor.dim() <= 4:
                        stored = catalog.stored(name)
                        assert torch.equal(
                            torch.from_numpy(stored.run(0, stored.count).copy()).nan_to_num(),
                            tensor.flatten().nan_to_num(),
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
