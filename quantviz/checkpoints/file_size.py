"""How large the files are that an engine's tool would write: header, what it quantizes, what it keeps."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from quantviz.checkpoints.listing import Entry
from quantviz.checkpoints.profiles.files import Files
from quantviz.checkpoints.recipes import recipe_id, refusal_of
from quantviz.evaluation.metric_formulas import stored_size
from quantviz.schemes.scheme import Scheme
from quantviz.sources.stores.addresses import is_address

#: Bits of a scale in the usual dtype of weights, which is that of some engines' scales too, and in float32.
_HALF, _FULL = 16, 32


def file_sizes(entries: Sequence[Entry], named: Sequence[tuple[str, Scheme]], files: Files) -> dict[str, int]:
    """Return the bytes of the files of weights that each recipe makes, by the recipe's name.

    Of a recipe that does not fit a tensor there is none: the tool ends with an error. The header is counted
    where `has_header` says so.

    Args:
        entries: The tensors of the checkpoint with what stands in for each recipe.
        named: The recipes.
        files: What the tool's files are like.
    """
    schemes = [scheme for _, scheme in named]
    sizes: list[int | None] = [_header(entries, files)] * len(named)
    for entry in entries:
        for at, scheme in enumerate(entry.schemes(schemes)):
            stored = _stored(entry, scheme, files)
            size = sizes[at]
            sizes[at] = None if size is None or stored is None else size + stored
    return {name: size for (name, _), size in zip(named, sizes, strict=True) if size is not None}


def has_header(entries: Sequence[Entry], files: Files) -> bool:
    """Return whether sizes have the header: it follows from the tensors, or is that of the file at hand."""
    return bool(files.entry) or _is_own(entries, files)


def _is_own(entries: Sequence[Entry], files: Files) -> bool:
    """Return whether tensors are those of such files of this machine."""
    return all(entry.file.endswith(files.suffix) and not is_address(entry.file) for entry in entries)


def _header(entries: Sequence[Entry], files: Files) -> int:
    """Return the bytes of the file at hand that are no tensor's, where they stay in the new one."""
    if files.entry or not _is_own(entries, files):
        return 0
    sizes = sum(map(os.path.getsize, {entry.file for entry in entries}))
    return sizes - sum(_padded(entry.size, files) for entry in entries)


def _padded(size: int, files: Files) -> int:
    return -(-size // files.alignment) * files.alignment


def _stored(entry: Entry, scheme: Scheme | None, files: Files) -> int | None:
    """Return the bytes that a tensor takes in the new file, its part of the header too; none where the scheme
    does not fit.
    """
    if entry.unmeasured is not None or scheme is None:
        named = len(entry.name.encode()) + files.entry if files.entry else 0
        return _padded(_kept(entry, files), files) + named
    if refusal_of(scheme, entry.shape, entry.outputs) is not None:
        return None
    parts = files.parts_of(recipe_id(scheme))
    rows = math.prod(entry.seen[:-1])
    size = -(-stored_size(_with_scales(scheme, entry, files), entry.seen) // 8)
    named = parts.count * (len(entry.name.encode()) + files.entry) if files.entry else 0
    return _padded(size + parts.of_tensor + parts.of_row * rows, files) + named + files.described


def _kept(entry: Entry, files: Files) -> int:
    """Return the bytes of a tensor that is not quantized."""
    if entry.unmeasured is None:
        return math.prod(entry.shape) * files.unfit if files.unfit else entry.size
    if not files.kept or entry.file.endswith(files.suffix):
        return entry.size
    return math.prod(entry.shape) * files.kept


def _with_scales(scheme: Scheme, entry: Entry, files: Files) -> Scheme:
    """Return a scheme with scales, and minima, as wide as a tensor's dtype has them stored."""
    arithmetic = scheme.arithmetic
    if not files.scales_as_weights or entry.dtype_read != "float32" or arithmetic.scale_bits != _HALF:
        return scheme
    zero = _FULL if arithmetic.zero_bits == _HALF else arithmetic.zero_bits
    return scheme.replace(convention=arithmetic.replace(scale_bits=_FULL, zero_bits=zero))
