"""Benchmarks, run by hand: each module's cases by `tests.bench.runner`."""

import os

# As the app has it, before torch begins: threads that wait do not keep a core from others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
