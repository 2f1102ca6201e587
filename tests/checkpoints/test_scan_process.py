"""The process that scans for a server: one at a time, and what it said where it could not begin."""

import time

from quantviz.checkpoints.scan.process import ScanProcess


def test_a_server_scans_one_checkpoint_at_a_time_and_says_why_one_did_not_begin(tmp_path):
    scans = ScanProcess("quantviz.standby")
    scans.prepare()
    try:
        first, second, third = (
            scans.start(tmp_path / f"{name}.safetensors", ["int4_g128"], "en", results=tmp_path / "r.sqlite")
            for name in ("first", "second", "third")
        )
        again = scans.start(
            tmp_path / "third.safetensors", ["int4_g128"], "en", results=tmp_path / "r.sqlite"
        )
        assert again is third
        assert first.running
        assert [scans.before(job) for job in (first, second, third)] == [0, 1, 2]
        scans.cancel(second.path)
        assert scans.job(tmp_path / "second.safetensors") is second
        assert not second.waits
        assert scans.before(third) == 1
        first.process.wait(120)
        assert "first.safetensors" in first.failure
        assert "Traceback" not in first.failure
        # The next one begins by itself.
        until = time.monotonic() + 120
        while third.waits and time.monotonic() < until:
            time.sleep(0.01)
        third.process.wait(120)
        assert "third.safetensors" in third.failure
        assert second.process is None
        # A process waits ready, and ends with its server.
        scans.prepare()
        waiting = scans._waiting[0]
        assert waiting.poll() is None
    finally:
        scans.close()
    assert waiting.wait(120) != 0
