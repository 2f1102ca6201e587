"""The boundary: what is read apart from a process is the same, within limits, and cannot reach out."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.jobs import runner
from quantviz.schemes.recipes import as_scheme
from quantviz.sources.files import open_tensors
from quantviz.sources.layouts.decoded import model_tensors
from quantviz.sources.sandbox import READING, Held, read_apart
from quantviz.sources.sandboxed import Sandboxed
from tests.helpers.bad_readers import Calls, eating, networks, spinning, writes, writes_past_python
from tests.helpers.fuzzed_files import QUANTIZED
from tests.helpers.hostile import CANARY, CASES, FILES, MOST_IN_A_RUN, X, check, fate
from tests.helpers.sample import sample_of

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux bounds a process")


@contextlib.contextmanager
def opening(data, filename, limits=None):
    with contextlib.closing(Sandboxed(Held(filename, data))) as catalog:
        yield catalog


@pytest.mark.parametrize(
    "filename", [name for name in sample_of(CASES, MOST_IN_A_RUN) if CASES[name].limits is None]
)
def test_hostile_files_have_the_same_fate(filename):
    case = CASES[filename]
    check(fate(case.content, filename, opening=opening), case, filename)
    assert not CANARY.exists()


def whole(x):
    return x.read((slice(None),) * len(x.shape))


def answered(catalog, name):
    """A tensor, or the sentence that says why there is none."""
    try:
        return catalog.stored(name)
    except QuantVizError as problem:
        return problem.message("zh")


def alike(one, other):
    assert one.names == other.names
    assert one.model_names == other.model_names
    for name in one.names:
        assert repr(one.info(name)) == repr(other.info(name))
        assert one.orientation(name) == other.orientation(name)
        x, y = (answered(each, name) for each in (one, other))
        if isinstance(y, str):
            assert x == y
            continue
        assert (x.shape, x.dtype, x.notes, x.own_scheme) == (y.shape, y.dtype, y.notes, y.own_scheme)
        assert torch.equal(whole(x).nan_to_num(7.5), whole(y).nan_to_num(7.5))
        assert (x.run(1, x.count) == y.run(1, x.count))[~torch.isnan(whole(x)).flatten()[1:].numpy()].all()
        if x.own_scheme is not None:
            assert torch.equal(x.own_scales(x.own_scheme).scale, y.own_scales(x.own_scheme).scale)


def test_every_kind_of_file_has_the_same_tensors(tmp_path):
    quantized = {"layouts": "x.safetensors", "tflite": "x.tflite"}
    files = [*FILES.items(), *((named, next(iter(QUANTIZED[kind]()))) for kind, named in quantized.items())]
    for filename, content in files:
        with open_tensors(content, filename) as catalog:
            alike(Sandboxed(Held(filename, content)), model_tensors(catalog))
    path = tmp_path / "x.gguf"
    path.write_bytes(FILES["x.gguf"])
    dropped = Sandboxed(Held("x.gguf", path))
    assert torch.equal(whole(dropped.stored("x")), X)
    path.write_bytes(FILES["x.gguf"] + b" ")
    with pytest.raises(QuantVizError) as changed:
        dropped.stored("x")
    assert changed.value.key == "file.changed"


@LINUX
def test_a_reader_that_eats_memory_or_hangs_ends_with_a_sentence_and_others_read_meanwhile():
    little = replace(READING, seconds=1.0, bytes=2.0**28)
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        hangs = threads.submit(read_apart, spinning, "spins", "spins.pt", owner="a", cost=little)
        with pytest.raises(QuantVizError) as eaten:
            read_apart(eating, "eats", "eats.pt", owner="b", cost=little)
        assert torch.equal(read_apart(partial(torch.ones, 3), "reads", "x.pt", owner="c"), torch.ones(3))
        assert not hangs.done()
        with pytest.raises(QuantVizError) as hung:
            hangs.result()
    assert time.monotonic() - begun < 60
    for problem, file in ((eaten.value, "eats.pt"), (hung.value, "spins.pt")):
        assert problem.key == "drop.too_long"
        assert file in problem.message("en")
    # It is not tried again for a while.
    with pytest.raises(QuantVizError):
        read_apart(spinning, "spins", "spins.pt", owner="a", cost=little)


@LINUX
def test_what_reads_a_file_cannot_reach_out(tmp_path):
    (tmp_path / "kept").touch()
    connects = partial(socket.create_connection, ("127.0.0.1", 9))
    runs = partial(subprocess.run, ["true"])
    for work in (partial(writes, tmp_path / "new"), partial(os.remove, tmp_path / "kept"), connects, runs):
        with pytest.raises(PermissionError, match="stranger"):
            read_apart(work, str(work), "x.pt")
    with pytest.raises(OSError, match="too large"):
        read_apart(partial(writes_past_python, tmp_path / "new"), "native", "x.pt")
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_size or path.name == "kept"] == [
        "kept"
    ]
    if os.geteuid() == 0 or Path("/proc/sys/kernel/unprivileged_userns_clone").exists():
        assert read_apart(networks, "networks", "x.pt") <= 1
    # What it answers is data, and nothing that is called here.
    assert read_apart(partial(as_scheme, "int4_g128"), "scheme", "x.pt") == as_scheme("int4_g128")
    with pytest.raises(QuantVizError):
        read_apart(Calls, "calls", "x.pt")


def test_a_file_is_read_within_milliseconds_once_a_process_is_there():
    read_apart(os.getpid, "ready", "x.pt")

    def seconds():
        begun = time.perf_counter()
        Sandboxed(Held("x.npy", FILES["x.npy"])).stored("x")
        return time.perf_counter() - begun

    # Starting a process takes a second each time; without that, some take milliseconds on a busy machine too.
    assert any(seconds() < 0.05 for _ in range(40))
    assert runner().processes
