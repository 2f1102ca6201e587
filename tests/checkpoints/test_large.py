"""A tensor too large to be held is measured in bands, within a bound of memory."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan import cluster, reading, scanning, tasks
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.checkpoints.scan.planning import plan
from quantviz.checkpoints.scan.scanning import run_scan
from quantviz.sources.files.mapped import Mapped
from quantviz.sources.layouts.decoded import DecodedWeight
from quantviz.streaming import kernel_access
from quantviz.streaming import limits as streaming_limits
from quantviz.tensors import lazy

ROOT = Path(__file__).parents[2]
#: The most anonymous memory, whatever the checkpoint.
MOST = 2**30


def write(path, x):
    """Write one tensor as safetensors, without another copy of it in memory."""
    entry = {"dtype": "BF16", "shape": list(x.shape), "data_offsets": [0, 2 * x.numel()]}
    header = json.dumps({"x": entry}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.write(x.contiguous().view(torch.int16).numpy().data)


def test_bands_give_what_the_whole_gives(tmp_path, monkeypatch):
    x = torch.randn(48, 512, generator=torch.Generator().manual_seed(0)).bfloat16()
    write(tmp_path / "x.safetensors", x)
    recipes = ("int8_per_row", "int4_g32", "nvfp4", "q4_k", "nf4_64", "int8_per_column", "int4_per_tensor")
    schemes = [qv.RECIPES[name] for name in recipes]
    # Nothing is compiled for it.
    monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
    (task,) = plan(list_checkpoint(tmp_path / "x.safetensors").entries, schemes)
    (whole,) = tasks.measure_task(task)
    monkeypatch.setattr(reading, "MOST_LOADED", 2**12)
    monkeypatch.setattr(tasks, "BAND", 5 * 512)
    (banded,) = tasks.measure_task(task)
    assert banded.content == whole.content
    rows = {row.key: row for row in banded.rows}
    assert len(rows) == len(recipes)
    for one in whole.rows:
        other = rows[one.key]
        assert (other.key, other.status, other.max_error_at) == (one.key, "ok", one.max_error_at)
        assert dict(other.numbers) == pytest.approx(dict(one.numbers), rel=2e-6)


@pytest.mark.parametrize("kind", ["turned", "decoded"])
def test_a_large_weight_that_is_turned_or_decoded_is_never_read_whole(tmp_path, monkeypatch, kind):
    x = torch.randn(512, 48, generator=torch.Generator().manual_seed(0))
    x[3, 5] = float("inf")
    tensors, name = {"h.0.mlp.c_fc.weight": x}, "h.0.mlp.c_fc.weight"
    if kind == "decoded":
        scale = torch.rand(512, 1) + 0.1
        tensors = {name: torch.randint(-127, 128, (512, 48), dtype=torch.int8), f"{name}_scale": scale}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    schemes = [qv.RECIPES[each] for each in ("int8_per_row", "int8_per_column", "int4_per_tensor")]
    schemes = [each.replace(nonfinite="ignore") for each in schemes]
    monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
    (entry,) = list_checkpoint(tmp_path).entries
    assert (entry.seen, entry.decoded) == (((48, 512), False) if kind == "turned" else ((512, 48), True))
    (task,) = plan([entry], schemes)
    (whole,) = tasks.measure_task(task)
    largest = []
    for module, limit, most in (
        (reading, "MOST_LOADED", 2**12),
        (reading, "_VALUES_PER_CHUNK", 2**11),
        (tasks, "BAND", 2**11),
        (lazy, "_MOST_TRANSPOSED_WHOLE", 2**11),
        (streaming_limits, "PIECE", 2**10),
    ):
        monkeypatch.setattr(module, limit, most)
    for holder in (Mapped, DecodedWeight):
        for reads in ("run", "read"):
            own = getattr(holder, reads)

            def noting(self, *asked, own=own):
                made = own(self, *asked)
                largest.append(made.numel() if isinstance(made, torch.Tensor) else len(made))
                return made

            monkeypatch.setattr(holder, reads, noting)
    (banded,) = tasks.measure_task(task)
    assert banded.problem is None
    assert banded.content == whole.content
    # What has one block for all rows is measured a piece at a time, and these are longer than this tensor.
    largest.clear()
    tasks.measure_task(plan([entry], schemes[:1])[0])
    assert 0 < max(largest) <= 2**12 < x.numel()
    rows = {row.key: row for row in banded.rows}
    for one in whole.rows:
        assert dict(rows[one.key].numbers) == pytest.approx(dict(one.numbers), rel=2e-6, nan_ok=True)


def test_a_scan_is_cancelled_between_two_bands_and_goes_on(tmp_path, monkeypatch):
    file, recipes = tmp_path / "x.safetensors", ("int8_per_row", "int8_per_column")
    write(file, torch.randn(48, 512, generator=torch.Generator().manual_seed(0)).bfloat16())
    # No row is shown for now, whatever is compiled: that is for tensors that are held.
    for module in (kernel_access, scanning):
        monkeypatch.setattr(module, "has_kernels", lambda: False)
    monkeypatch.setattr(reading, "MOST_LOADED", 2**12)
    monkeypatch.setattr(tasks, "BAND", 5 * 512)
    wanted = qv.scan(file, recipes, results=tmp_path / "whole.sqlite")
    for most, stored in ((4, 0), (10, 1)):  # asked for the tensor, then after each of ten bands
        asked = iter(range(most))
        with Results(tmp_path / f"{most}.sqlite") as results:
            number = run_scan(results, file, recipes, cancelled=lambda asked=asked: next(asked, None) is None)
            assert results.scan(number).state == "cancelled"
            assert len(results.known(wanted.content[0])) == stored
            assert run_scan(results, file, recipes) == number
            assert results.scan(number).progress.measured == 2 - stored
            assert results.table(number).equals(wanted)

    measured = tasks.measure_part

    def changing(*given, **named):
        os.utime(file, ns=(0, 0))
        return measured(*given, **named)

    monkeypatch.setattr(tasks, "measure_part", changing)
    found = qv.scan(file, recipes, results=tmp_path / "changed.sqlite")
    assert found.status.tolist() == ["problem"] * 2
    assert "changed" in found.reason[0]


@pytest.mark.nightly
def test_memory_stays_within_its_bound_whatever_the_tensor(tmp_path):
    x = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0)).bfloat16()
    write(tmp_path / "x.safetensors", x.repeat(80, 1))
    code = f"""
import threading, time, quantviz as qv
most, done = [0], threading.Event()
def watch():
    while not done.wait(0.01):
        lines = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
        most[0] = max(most[0], int(lines["RssAnon"].split()[0]) * 1024)
thread = threading.Thread(target=watch)
thread.start()
found = qv.scan({str(tmp_path / "x.safetensors")!r}, ["int8_per_row"], results={str(tmp_path / "r.sqlite")!r})
done.set()
thread.join()
assert found.status.tolist() == ["ok"], found.reason.tolist()
print(most[0])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 2**27 < int(done.stdout) < MOST


def test_jobs_for_workers_give_the_local_rows_in_any_order(tmp_path, monkeypatch):
    """Also of a scheme that clips by the whole tensor's ends; a file that changes meanwhile has none."""
    x = torch.randn(48, 512, generator=torch.Generator().manual_seed(0))
    x[7, 1], x[9, 3] = float("inf"), 40.0
    file = tmp_path / "x.safetensors"
    write(file, x.bfloat16())
    clipping = qv.RECIPES["nvfp4"].replace(nonfinite="clip")
    schemes = (qv.RECIPES["int8_per_row"], clipping, qv.RECIPES["int8_per_column"])
    monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
    (task,) = plan(list_checkpoint(file).entries, schemes)
    (whole,) = tasks.measure_task(task)
    monkeypatch.setattr(reading, "MOST_LOADED", 2**12)
    monkeypatch.setattr(tasks, "BAND", 5 * 512)
    monkeypatch.setattr(cluster, "WORK", 2**13)
    (local,) = tasks.measure_task(task)
    assert [row.status for row in local.rows] == ["ok"] * 3
    for one in whole.rows:
        (other,) = (row for row in local.rows if row.key == one.key)
        assert dict(other.numbers) == pytest.approx(dict(one.numbers), rel=2e-6)

    def done(known, at_first_band=lambda: None):
        jobs, done, calls = cluster.ScanJobs([task], lambda content: known), [], []
        while jobs.waiting:
            job = jobs.waiting.pop()  # the last one first
            if job.call is tasks.measure_bands and not calls.count(tasks.measure_bands):
                at_first_band()
            calls.append(job.call)
            came = pickle.loads(pickle.dumps(job.call(*pickle.loads(pickle.dumps(job.arguments)))))
            done += [each for each in [jobs.take(job, came)] if each]
        ((_, (measures,)),) = done
        return calls, measures

    calls, measures = done(known=())
    assert calls == [tasks.survey, *[tasks.measure_bands] * 11]
    assert measures.content == local.content
    wanted = {row.key: (row.numbers, row.max_error_at) for row in local.rows}
    assert {row.key: (row.numbers, row.max_error_at) for row in measures.rows} == wanted
    calls, measures = done(known={str(scheme) for scheme in schemes[:2]})
    assert len(calls) == 2
    assert [row.key for row in measures.rows] == [str(schemes[2])]
    calls, measures = done(known={str(scheme) for scheme in schemes})
    assert (len(calls), measures.content, measures.rows) == (1, local.content, ())
    calls, measures = done(known=(), at_first_band=lambda: write(file, (x + 1).bfloat16()))
    assert (len(calls), measures.content, measures.rows) == (12, "", ())
    assert measures.problem.key == "file.changed"
    calls, measures = done(known=(), at_first_band=file.unlink)
    assert (len(calls), measures.problem.key) == (2, "file.missing")
