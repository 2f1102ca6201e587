"""The process that scans for a server: one at a time, and what it said where it could not begin."""

import pytest

from quantviz.checkpoints.scan.process import ScanProcess
from quantviz.errors import QuantVizError


def test_a_server_scans_one_checkpoint_at_a_time_and_says_why_one_did_not_begin(tmp_path):
    scans = ScanProcess("quantviz.standby")
    results = tmp_path / "results.sqlite"
    scans.prepare()
    try:
        job = scans.start(tmp_path / "gone.safetensors", ["int4_g128"], "en", results=results)
        assert job.running
        with pytest.raises(QuantVizError, match="Another scan is running"):
            scans.start(tmp_path / "other.safetensors", ["int4_g128"], "en")
        job.process.wait(120)
        assert "gone.safetensors" in job.failure
        assert "Traceback" not in job.failure
        # The next one waits ready, and ends with its server.
        scans.prepare()
        waiting = scans._waiting[0]
        assert waiting.poll() is None
    finally:
        scans.close()
    assert waiting.wait(120) != 0
