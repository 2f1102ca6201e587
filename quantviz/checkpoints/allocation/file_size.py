"""Size of the files that an engine's tool would write: header, quantized tensors, kept tensors."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

from quantviz.checkpoints.allocation.offers import Offers
from quantviz.checkpoints.profiles.profile import FileOverhead, Profile, ToolFiles
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.typed_tables import TypedTable
from quantviz.checkpoints.scan.listing import Entry
from quantviz.checkpoints.scan.recipes import recipe_id, refusal_of, seen_shape
from quantviz.checkpoints.scan.selection import kept_by
from quantviz.evaluation.metric_formulas import stored_bits, stored_size
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.stores.addresses import is_address

#: Bits of a scale in the usual dtype of weights, and in float32.
_HALF = 16
_FULL = 32


def file_sizes(
    entries: Sequence[Entry], named: Sequence[tuple[str, Scheme]], files: ToolFiles
) -> dict[str, int]:
    """Return the bytes of the files of weights by recipe, with the header where `has_header` is set; without
    recipes that do not fit a tensor, for which the tool ends with an error.
    """
    schemes = [scheme for _, scheme in named]
    sizes: list[int | None] = [_header(entries, files)] * len(named)
    for entry in entries:
        for at, scheme in enumerate(entry.schemes(schemes)):
            stored = None if at in entry.refused else _stored(entry, scheme, files)
            size = sizes[at]
            sizes[at] = None if size is None or stored is None else size + stored
    return {name: size for (name, _), size in zip(named, sizes, strict=True) if size is not None}


def as_written(read: Offers, profile: Profile) -> Offers:
    """Return a table with the bits of tensors in an engine's files, each with its part of the header; bits
    that are not those of the row's scheme stay.
    """
    files = profile.files
    if files is None or "scheme" not in read.table.names:
        return read
    shapes = read.shapes()
    rows = tuple(
        replace(row, bits=_as_written(row.tensor, shapes[row.tensor], row, files))
        if row.bits is not None and row.scheme and row.tensor in shapes
        else row
        for row in read.table.rows
    )
    kept_by_engine = kept_by(profile, shapes)
    kept: dict[str, int] = {}
    for name, shape in shapes.items():
        size = read.stored_bits(name)
        file = read.first[name].file or ""
        if name in kept_by_engine and files.kept and not file.endswith(files.suffix):
            size = 8 * files.kept * math.prod(shape)
        if size is not None:
            kept[name] = 8 * _with_entries(name, 1, -(-size // 8), files)
    return Offers(TypedTable(read.table.names, rows), kept)


def _as_written(name: str, shape: Shape, row: ResultRow, files: ToolFiles) -> int | None:
    scheme = Scheme.parse(str(row.scheme))
    # A table does not contain the axis of the outputs: it follows from the bits.
    for outputs in ((0,), (1,)):
        if len(shape) > outputs[0]:
            seen = seen_shape(shape, outputs)
            if stored_size(scheme, seen) == row.bits:
                return 8 * _quantized(name, seen, str(row.dtype), scheme, files)
    return row.bits


def size_words(profile: Profile | None) -> str:
    """Return the end of the key of the sentence on the basis of a size."""
    if profile is None or profile.files is None:
        return "own_bits"
    return "files_of" if profile.files.entry else "tensors_of"


def has_header(entries: Sequence[Entry], files: ToolFiles) -> bool:
    """Return whether sizes include the header: computed from the tensors, or the existing file's."""
    return bool(files.entry) or _is_own(entries, files)


def _is_own(entries: Sequence[Entry], files: ToolFiles) -> bool:
    return all(entry.file.endswith(files.suffix) and not is_address(entry.file) for entry in entries)


def _header(entries: Sequence[Entry], files: ToolFiles) -> int:
    if files.entry or not _is_own(entries, files):
        return 0
    sizes = sum(map(os.path.getsize, {entry.file for entry in entries}))
    return sizes - sum(_padded(entry.size, files) for entry in entries)


def _padded(size: int, files: ToolFiles) -> int:
    return -(-size // files.alignment) * files.alignment


def _stored(entry: Entry, scheme: Scheme | None, files: ToolFiles) -> int | None:
    """Return the bytes of a tensor and its header entry in the new file; None for a misfit."""
    if entry.unmeasured is not None or scheme is None:
        return _with_entries(entry.name, 1, _kept(entry, files), files)
    if refusal_of(scheme, entry.shape, entry.outputs) is not None:
        return None
    return _quantized(entry.name, entry.seen, entry.dtype_read, scheme, files)


def _quantized(name: str, seen: Shape, dtype: str, scheme: Scheme, files: ToolFiles) -> int:
    parts = files.parts_of(recipe_id(scheme))
    size = -(-stored_size(_with_scales(scheme, dtype, files), seen) // 8)
    size += parts.of_tensor + parts.of_row * math.prod(seen[:-1]) + _fill_of_scales(scheme, seen, parts)
    return _with_entries(name, parts.count, size, files) + files.described


def _fill_of_scales(scheme: Scheme, seen: Shape, parts: FileOverhead) -> int:
    """Return the bytes with which the matrix of a tensor's scales is filled up to whole tiles."""
    count = scheme.layout(seen).block_count
    rows = math.prod(seen[:-1])
    tile_rows, tile_columns = parts.scale_tile
    filled = -(-rows // tile_rows) * tile_rows * -(-(count // rows) // tile_columns) * tile_columns
    return math.ceil((filled - count) * stored_bits(scheme).scale / 8) if filled > count else 0


def _with_entries(name: str, count: int, size: int, files: ToolFiles) -> int:
    named = count * (len(name.encode()) + files.entry) if files.entry else 0
    return _padded(size, files) + named


def _kept(entry: Entry, files: ToolFiles) -> int:
    if entry.unmeasured is None:
        return math.prod(entry.shape) * files.unfit if files.unfit else entry.size
    if not files.kept or entry.file.endswith(files.suffix):
        return entry.size
    return math.prod(entry.shape) * files.kept


def _with_scales(scheme: Scheme, dtype: str, files: ToolFiles) -> Scheme:
    convention = scheme.arithmetic
    if not files.scales_as_weights or dtype in HALVES or convention.scale_bits != _HALF:
        return scheme
    zero = _FULL if convention.zero_bits == _HALF else convention.zero_bits
    return scheme.replace(convention=convention.replace(scale_bits=_FULL, zero_bits=zero))
