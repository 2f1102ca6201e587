"""From the start of a scan to its first row, where the page's process waits ready: with kernels that were
compiled before, and on a machine where nothing was.

    python -m tests.bench.first_square [--gb 1]

The checkpoint is that of `tests.bench.scan`. A second row says what it takes where nobody waits for the
process to be ready: Python and torch start first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import make_ready, scan_as_job
from quantviz.errors import QuantVizError
from quantviz.jobs import Cost, Jobs
from tests.bench.scan import make_checkpoint

SCANS = Cost(queue="scans")
RECIPES = ("int8_per_row", "int4_g128")
#: Seconds from the click to the first coloured square.
BAR = 1.0
_LONGEST = 120.0


def seconds_to_first_row(checkpoint: Path, wait: float) -> float:
    """Return how long the first row takes, `wait` seconds after the process was told to be ready."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "results.sqlite"
        jobs = Jobs()
        jobs.submit(partial(make_ready, RECIPES), "ready", SCANS, ahead=True)
        time.sleep(wait)
        start = time.perf_counter()
        work = partial(scan_as_job, str(checkpoint), RECIPES, "", "", str(kept))
        job = jobs.submit(work, "scan", SCANS, stays=True)
        try:
            while time.perf_counter() - start < _LONGEST and not _has_row(kept):
                assert job.found is None
                time.sleep(0.01)
            return time.perf_counter() - start
        finally:
            jobs.close()


def _has_row(kept: Path) -> bool:
    try:
        with Results(kept, read_only=True) as results:
            found = results.scans()
            return bool(found) and any(row.status == "ok" for row in results.rows(found[0].id))
    except QuantVizError:  # not begun
        return False


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gb", type=float, default=1.0)
    folder = Path(tempfile.mkdtemp())
    make_checkpoint(folder, options.parse_args().gb * 1e9)
    for wait in (4.0, 0.0):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["QUANTVIZ_CACHE_DIR"] = cache
            new = seconds_to_first_row(folder, wait)
            seconds_to_first_row(folder, 30.0)  # compiles
            known = seconds_to_first_row(folder, wait)
        print(f"{wait:.0f} s after the page was opened: {known:.2f} s; nothing compiled yet: {new:.2f} s")
    print(f"bar {BAR} s")


if __name__ == "__main__":
    main()
