"""For all tests.

Hypothesis tries the same examples in every run, so that a change passes or fails by what it changes. To look for more:
`--hypothesis-profile random`, as often as one likes.
"""

import datetime
import os

import torch
from hypothesis import settings

# Before tests are collected, and inherited by all processes of a run: they draw the same sample.
os.environ.setdefault("QUANTVIZ_TEST_DAY", datetime.datetime.now(datetime.UTC).date().isoformat())

settings.register_profile("same", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile("same")


def pytest_xdist_auto_num_workers():
    """One process more than there are cores: tests in a browser wait more than they compute."""
    return (os.cpu_count() or 1) + 1


def pytest_configure():
    """One thread a process: small tensors are no faster on more, and tests that run side by side do not wait for each other."""
    torch.set_num_threads(1)
