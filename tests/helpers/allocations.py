"""Allocations to export: one recipe for each tensor in turn."""

from quantviz.checkpoints.allocation.allocating import allocate

NAMES = [f"model.layers.{layer}.self_attn.{part}_proj.weight" for layer in (0, 1) for part in "qkvo"]


def allocation(recipes, names=NAMES, excluded=(), fused=(), **arguments):
    """Return the allocation of tensors that can have one recipe each."""
    table = {
        "tensor": list(names),
        "recipe": [recipes[at % len(recipes)] for at in range(len(names))],
        "bits": [100] * len(names),
        "cost": [1.0] * len(names),
        "shape": [(8, 16)] * len(names),
        "dtype": ["BF16"] * len(names),
    }
    return allocate(table, budget_bits=100 * len(names), excluded=excluded, fused=fused, **arguments)
