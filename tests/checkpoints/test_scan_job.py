"""A scan as a server's job: what it measured stays where it is dropped, and why one could not begin."""

import contextlib
import os
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.budget import Ended, TimeBudget, spending
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import make_ready, scan_as_job
from quantviz.jobs import Cost, Jobs
from tests.helpers import ROOT


def test_a_dropped_scan_is_cancelled_and_one_to_the_end_done(tmp_path):
    model, kept = tmp_path / "model.safetensors", tmp_path / "r.sqlite"
    save_file({f"{n}.weight": torch.ones(8, 128) for n in range(3)}, model)
    asked = str(model), ("int4_g128",), "", "", str(kept)
    dropped = TimeBudget(1e9)
    dropped.drop()
    for budget, state in ((dropped, "cancelled"), (TimeBudget(1e9), "done")):
        with contextlib.suppress(Ended), spending(budget):
            scan_as_job(*asked)
        with Results(kept, read_only=True) as results:
            assert results.scans()[0].state == state
    with spending(dropped), contextlib.suppress(Ended):
        make_ready(("int4_g128",))


@pytest.mark.nightly
def test_a_first_scan_finds_its_kernels_compiled(tmp_path):
    """In a process of its own, which has compiled nothing."""
    model = tmp_path / "model.safetensors"
    halves = {"c.weight": torch.randn(640, 640, dtype=torch.bfloat16)}
    save_file({"a.weight": torch.randn(96, 64), "b.weight": torch.randn(1100, 1024), **halves}, model)
    code = f"""
from pathlib import Path
from quantviz.checkpoints.scan.scanning import make_ready, scan_as_job
from quantviz.ui.checkpoints.state import FIRST_LOOK
compiled = lambda: set(Path({str(tmp_path)!r}).rglob("*.nbc"))
make_ready(FIRST_LOOK)
before = compiled()
scan_as_job({str(model)!r}, FIRST_LOOK, "", "", {str(tmp_path / "r.sqlite")!r})
assert len(before) > 20 and compiled() == before, compiled() - before
"""
    env = {**os.environ, "QUANTVIZ_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_scans_wait_for_each_other_and_end_what_was_done_ahead():
    jobs, scans = Jobs(), Cost(queue="scans")

    def answered(job):
        while job.ahead and not job.dropped:
            time.sleep(0.01)
        if job.ahead:
            return "lost", None
        return ("raised", qv.QuantVizError("upload_gone")) if job.key == 1 else ("found", None)

    jobs._answer = answered
    ready = jobs.submit(len, "ready", scans, ahead=True)
    first, second = (jobs.submit(len, key, scans, stays=True) for key in (1, 2))
    assert second.wait(60)
    assert ready.dropped
    assert ready.found is None
    with pytest.raises(qv.QuantVizError):
        _ = first.found
