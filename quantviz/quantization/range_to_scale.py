"""The steps from a block's range to its scale and zero point."""

from __future__ import annotations

import functools

from quantviz.quantization.code_to_value import block_names
from quantviz.quantization.operations import SCHEMES_KEPT, Operation, Operations
from quantviz.quantization.range_ends import extent_operations
from quantviz.quantization.scale_rules import scale_operations
from quantviz.quantization.stored_scale import store_operations
from quantviz.quantization.zero_points import zero_point_operations
from quantviz.schemes.scheme import Scheme


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def range_operations(scheme: Scheme) -> Operations:
    """Return the operations from `lo`, `hi` and `extreme` of each block to `scale` and `zero_point`, before
    they are stored.
    """
    operations = (*extent_operations(scheme), *scale_operations(scheme), *zero_point_operations(scheme))
    stored = (operation.reads for operation in store_operations(scheme))
    return _leading_to({"scale", "zero_point"}.union(block_names(scheme), *stored), operations)


def _leading_to(wanted: set[str], operations: Operations) -> Operations:
    """Return only the operations that lead to the `wanted` values, so that an explanation shows no unused
    line.
    """
    needed: list[Operation] = []
    for operation in reversed(operations):
        if operation.name in wanted:
            wanted = (wanted - {operation.name}) | operation.reads
            needed.append(operation)
    return tuple(reversed(needed))
