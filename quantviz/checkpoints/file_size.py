"""How large the file is that an engine's tool would write: header, what it quantizes, what it keeps."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from quantviz.checkpoints.listing import Entry
from quantviz.evaluation.metric_formulas import stored_size
from quantviz.schemes.scheme import Scheme
from quantviz.sources.stores.addresses import is_address

_GGUF = ".gguf"
#: Bytes of a value where llama.cpp's converter keeps a tensor (conversion/base.py: what has one axis, norms,
#: positions, routers), and where no type of its quantizer fits the rows.
_KEPT, _NO_TYPE = 4, 2


def file_sizes(
    entries: Sequence[Entry], named: Sequence[tuple[str, Scheme]], alignment: int
) -> dict[str, int]:
    """Return the bytes of the .gguf file that each recipe makes, by the recipe's name.

    The header is that of the .gguf file that is quantized; of other files it is not counted, and neither is
    the vocabulary in it.

    Args:
        entries: The tensors of the checkpoint with what stands in for each recipe.
        named: The recipes.
        alignment: Bytes of which the data of each tensor take a multiple.
    """

    def padded(size: int) -> int:
        return -(-size // alignment) * alignment

    header = 0
    if is_gguf(entries):
        files = {entry.file for entry in entries}
        header = sum(map(os.path.getsize, files)) - sum(padded(entry.size) for entry in entries)
    schemes = [scheme for _, scheme in named]
    sizes = [0] * len(named)
    for entry in entries:
        for at, scheme in enumerate(entry.schemes(schemes)):
            sizes[at] += padded(_stored(entry, scheme))
    return {name: header + size for (name, _), size in zip(named, sizes, strict=True)}


def is_gguf(entries: Sequence[Entry]) -> bool:
    """Return whether tensors are those of .gguf files of this machine."""
    return all(entry.file.endswith(_GGUF) and not is_address(entry.file) for entry in entries)


def _stored(entry: Entry, scheme: Scheme | None) -> int:
    """Return the bytes that a tensor takes in the new file."""
    count = math.prod(entry.shape)
    if entry.unmeasured is not None:
        return entry.size if entry.file.endswith(_GGUF) else _KEPT * count
    if scheme is None:
        return _NO_TYPE * count
    return -(-stored_size(scheme, entry.seen) // 8)
