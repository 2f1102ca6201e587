"""For all tests."""

import torch


def pytest_configure():
    """One thread a process: small tensors are no faster on more, and tests that run side by side do not wait for each other."""
    torch.set_num_threads(1)
