"""Values drawn from a seed."""

import torch


def normal(*shape, seed=0):
    """Return a tensor like N(0, 1), the same for a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
