"""A scan on a Dask scheduler's workers gives the local table, also where one of them is killed."""

import multiprocessing
import os
import signal

import pytest
import safetensors.torch
import torch

import quantviz as qv
from quantviz.checkpoints.audit import tasks as audit_tasks
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan import cluster, planning, reading, tasks
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.checkpoints.scan.recipes import recipes_named
from quantviz.checkpoints.scan.scanning import Execution, run_scan, scan
from quantviz.checkpoints.scan.tasks import measure_task
from quantviz.errors import QuantVizError
from quantviz.text import languages
from tests.helpers import layouts
from tests.helpers.ports import free_port

#: Workers are forked from a process that has imported all of it once: most of what starting them costs.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")
distributed = pytest.importorskip("distributed", reason="the extra quantviz[cluster] is not installed")
multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", cluster.__name__])
#: Its processes close what they leave open when they are gone.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

RECIPES = ("int8_per_row", "int4_g32", "int8_per_tensor")
#: Elements of a band of a giant tensor, and of the smallest tensor that is taken for one.
BAND, GIANT = 2**12, 2**14


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Enough tensors for a dozen tasks, among them a tied one, some with NaN, one of codes and two giants."""
    made = torch.Generator().manual_seed(0)
    tensors = {f"layers.{i}.weight": torch.randn(32 + i, 256, generator=made).bfloat16() for i in range(12)}
    tensors["tied"] = tensors["layers.0.weight"].clone()
    tensors["layers.3.weight"][0, 0] = float("nan")
    tensors["ids"] = torch.arange(4)
    for name in ("giant", "giant.nan"):
        tensors[name] = torch.randn(100, 256, generator=made)
    tensors["giant.nan"][20, 3] = float("inf")
    tensors["giant.nan"][48:64] = float("nan")  # a whole band
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    monkeypatch.setattr(cluster, "WORK", 2**14)  # a task a tensor, and two bands a task
    monkeypatch.setattr(tasks, "BAND", BAND)
    # Only here: a worker knows from what it is given that it measures bands.
    monkeypatch.setattr(reading, "MOST_LOADED", GIANT)
    return tmp_path / "model.safetensors"


def refused(call, *args, **named):
    with pytest.raises(QuantVizError) as caught:
        call(*args, **named)
    assert all(caught.value.message(language) for language in languages())
    return caught.value.key


@pytest.mark.nightly
def test_a_worker_is_killed_and_the_table_is_the_local_one(file, tmp_path, monkeypatch):
    local = scan(file, RECIPES, results=tmp_path / "local.sqlite")
    reports, bands, of_bands = [], [], cluster.ScanJobs._of_bands

    def noted(jobs, task, given, came):
        bands.append((task.entries[0].name, given.first, given.stop, len(given.schemes), len(came.bands)))
        return of_bands(jobs, task, given, came)

    monkeypatch.setattr(cluster.ScanJobs, "_of_bands", noted)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
        Results(tmp_path / "cluster.sqlite") as results,
    ):
        pids = client.run(os.getpid)

        def report(progress):
            reports.append(progress.tensors_done)
            if len(reports) == 2:
                os.kill(next(iter(pids.values())), signal.SIGKILL)

        number = run_scan(
            results, file, RECIPES, Execution(scheduler=workers.scheduler_address), report=report
        )
        found = results.table(number)
        # A second scan gives nothing out: all is known.
        again = run_scan(results, file, RECIPES, Execution(scheduler=workers.scheduler_address))
        assert (results.scan(again).state, results.scan(again).progress.measured) == ("done", 0)
    assert reports[1] < 16 == reports[-1]  # the worker was killed before all was done
    assert found.to_csv().encode() == local.to_csv().encode()
    assert len(found) == 16 * len(RECIPES)
    assert found.status.value_counts().to_dict() == {"ok": 45, "left_aside": 3}
    # Bands of whole rows by twos, and all of it where a scale goes through all rows.
    wanted = [(k, min(k + 2, 7), 2, min(k + 2, 7) - k) for k in range(0, 7, 2)] + [(0, 1, 1, 1)]
    assert sorted(bands) == sorted((name, *each) for name in ("giant", "giant.nan") for each in wanted)


def test_a_scheduler_that_is_away_is_a_sentence(file, tmp_path, monkeypatch):
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(QuantVizError) as caught, cluster.joined(address, patience=0.3):
        pass
    assert caught.value.key == "cluster.away"
    with pytest.raises(QuantVizError) as caught, cluster.joined("nonsense://x", patience=0.3):
        pass
    assert caught.value.key == "cluster.away"
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    assert refused(scan, file, RECIPES, results=tmp_path / "r.sqlite", scheduler=address) == (
        "cluster.not_installed"
    )


def quantized_twin(folder):
    """Write a small model and what GPTQ's layout makes of it; return both paths."""

    def quantize(base, weight):
        q, zero, scale = layouts.rounded(weight, 4, 32)
        return layouts.gptq(base, q, zero.clamp(min=1), scale, 4)

    twin = layouts.write(folder / "twin.safetensors", layouts.quantized_by(layouts.llama(), quantize))
    return twin, layouts.write(folder / "original.safetensors", layouts.llama())


def nothing(content):
    """No scheme is known of any content."""
    return ()


def test_workers_elsewhere(file, tmp_path, monkeypatch):
    """In this process, where it can be made to fail: no workers, other files, a scheduler that goes away."""
    entries = list_checkpoint(file).entries
    schemes = tuple(scheme for _, scheme in recipes_named(RECIPES))
    tasks = planning.plan(entries, schemes, work=cluster.WORK)
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, silence_logs=50
    ) as workers:
        address = workers.scheduler_address
        with pytest.raises(QuantVizError) as caught, cluster.joined(address, patience=0.3):
            pass
        assert caught.value.key == "cluster.no_workers"
        workers.scale(1)
        with cluster.joined(address) as elsewhere:
            got = [done for done in elsewhere(cluster.ScanJobs(tasks[:2], nothing)) if done]
            assert [len(each.rows) for done in got for each in done.measures] == [3, 3]
            twin, original = quantized_twin(tmp_path)
            monkeypatch.setattr(audit_tasks, "WORK", 2**14)  # several tasks
            local, elsewhere_found = (qv.audit(twin, original, scheduler=each) for each in (None, address))
            assert elsewhere_found.rows() == local.rows()
            assert elsewhere_found.messages() == local.messages()
            monkeypatch.setattr(cluster, "_stamp", lambda file: (0, 0))
            gone = tmp_path / "gone.safetensors"
            file.rename(gone)
            measured, jobs = measure_task(tasks[2]), cluster.ScanJobs(tasks[2:3], nothing)
            assert measured[0].problem.key == "file.missing"
            gone.rename(file)
            assert refused(jobs.check, jobs.waiting[0], measured, address) == "cluster.other_files"
            coming = elsewhere(cluster.ScanJobs(tasks, nothing))
            next(coming)
            workers.close()
            assert refused(lambda: list(coming)) == "cluster.lost"
