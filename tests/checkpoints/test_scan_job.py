"""A scan as a server's job: what it measured stays where it is dropped, and why one could not begin."""

import contextlib
import time

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.budget import Ended, TimeBudget, spending
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import make_ready, scan_as_job
from quantviz.jobs import Cost, Jobs


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
    assert second.wait(20)
    assert ready.dropped
    assert ready.found is None
    with pytest.raises(qv.QuantVizError):
        _ = first.found
