"""Hostile files: each is refused with a sentence or read as it should be, nothing in it is run or written,
and it takes little.
"""

import json
import random
import resource
import subprocess
import sys

import pytest

from quantviz.errors import QuantVizError
from quantviz.sources.files import READERS
from quantviz.sources.image import read_image
from tests.helpers import ROOT
from tests.helpers.damage import damaged
from tests.helpers.fuzzed_files import FUZZED, read_all, seeds
from tests.helpers.hostile import (
    BOMBS,
    CANARY,
    CASES,
    MOST_IN_A_RUN,
    PICTURES,
    Case,
    check,
    check_words,
    fate,
)
from tests.helpers.sample import sample_of


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("filename", sample_of(CASES, MOST_IN_A_RUN))
def test_hostile_files(filename, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    case = CASES[filename]
    check(fate(case.content, filename, case.limits), case, filename)
    (tmp_path / filename).write_bytes(case.content)
    check(fate(tmp_path / filename, None, case.limits), case, filename)
    # Nothing in the file was run, nothing written and nothing said.
    assert not CANARY.exists()
    assert [path.name for path in tmp_path.iterdir()] == [filename]
    assert capfd.readouterr().out == ""


#: Hostile files that each reader has at least.
LEAST = 5


@pytest.mark.parametrize("reader", dict.fromkeys(READERS.values()))
def test_every_reader_has_hostile_files(reader):
    count = sum(name.endswith(reader.suffixes) for name in (*CASES, *BOMBS))
    assert count >= LEAST, (
        f"{reader.__name__} has {count} hostile files, {LEAST} are the least: "
        f"add some whose names end in {reader.suffixes[0]} to BAD of tests/helpers/hostile.py"
    )


def test_the_corpus_is_large():
    assert len(CASES) + len(BOMBS) + len(PICTURES) >= 350
    counts = {suffix: sum(name.endswith(suffix) for name in (*CASES, *BOMBS)) for suffix in READERS}
    assert all(
        counts[suffix] >= 30 for suffix in (".npy", ".npz", ".pt", ".json", ".gguf", ".safetensors", ".csv")
    ), counts


@pytest.mark.parametrize("filename", PICTURES)
def test_hostile_pictures(filename):
    case = Case(*PICTURES[filename])
    try:
        found = tuple(read_image(case.content, filename=filename)[0].shape)
    except QuantVizError as error:
        check_words(error, filename)
        found = error.key
    assert found == case.expected


#: Megabytes that a process may have beyond what it has when everything is imported.
BEYOND = 400
#: Seconds of a processor that a file may take to be opened and read.
SECONDS = 10
IN_LITTLE_MEMORY = f"""
import json, os, resource, signal, sys, time, warnings
import torch
from tests.helpers import hostile
from quantviz.sources.files import open_tensors
torch.set_num_threads(1)
usual = ("x.npy", "good.pt", "fortran.npz", "bom.json", "locale.csv", "twice.gguf")
before = {{name: case.content for name, case in hostile.CASES.items() if name in usual}}
for name, data in before.items():
    hostile.fate(data, name)
size = lambda: int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
done = {{}}
written = []
outward = (
    "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.mkdir", "os.remove",
    "socket.connect", "tempfile.mkdtemp",
)
def watch(event, args):
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    if event == "open" and isinstance(args[2], int) and args[2] & writes or event in outward:
        written.append([event, str(args[0])])
sys.addaudithook(watch)
for name in sys.argv[1:]:
    case = hostile.BOMBS[name]
    data = case.content
    shapes = case.expected.values() if isinstance(case.expected, dict) else ()
    tensor = 4 * max((torch.Size(shape).numel() for shape in shapes if isinstance(shape, tuple)), default=0)
    most = size() + tensor + {BEYOND} * 10**6
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    signal.alarm(120)
    written.clear()
    began = time.process_time()
    found = hostile.fate(data, name)
    took = time.process_time() - began
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    try:
        hostile.check(found, case, name)
        assert not written, written
        assert took < {SECONDS}, took
        done[name] = ""
    except Exception as error:
        done[name] = repr(error)[:300]
    del found, data
print(json.dumps(done))
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="Linux bounds a process's memory")
def test_bombs_in_little_memory():
    """Each is read in a process that may have 400 MB more than before, and is killed if that takes long."""
    bombs = sample_of(BOMBS, 3)
    ran = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, *bombs],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout) == dict.fromkeys(bombs, "")


@pytest.mark.parametrize("reader", FUZZED)
def test_damaged_files_are_read_in_bounds_or_refused(reader):
    """`python -m tests.fuzz READER` goes on for minutes, with another seed each time."""
    pool = seeds(reader)
    for data in pool:
        read_all(reader, data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in sample_of(range(2000), 300):
        chance = random.Random(f"{reader} {number}")
        read_all(reader, damaged(chance.choice(pool), pool, chance))
    # Kilobytes: none of them has made the process larger than a few copies of what the limits allow.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17
