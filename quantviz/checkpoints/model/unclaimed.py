"""Detection of tensors that hold codes of an unknown layout, so that they are not taken for weights.

Whole numbers are codes unless they are indices, counts or masks; FP8 and FP4 are codes where scales lie
beside them that no layout claims. A tensor beside codes with the name of a scale or a zero point belongs to
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quantviz.checkpoints.model.account import is_matrix, is_whole
from quantviz.errors import QuantVizError
from quantviz.sources.files import Catalog
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts.decoded import ModelTensors

#: dtypes that are codes where there are scales beside them.
_SMALL_FLOAT = re.compile(r"float[468]_.*", re.ASCII)
#: Ends of the names of whole numbers that are no codes.
_INDEX = re.compile(r"(.*[._])?(index|indices|ids|positions?|mask|num_batches_tracked|offsets?)", re.ASCII)
#: Texts in the last parts of names of tensors that accompany codes, such as scales.
_OF_CODES = re.compile(
    r"scale|zero|absmax|amax|scb|g_idx|perm|codebook|lut|suh|svh|trellis|quant|biases|meta|shape|offset",
    re.ASCII | re.IGNORECASE,
)
#: Most pairs of codes and tensors beside them in one module, each of which is checked.
_MOST_PAIRS = 2**12
#: Elements that are read to detect a mask: one of whole numbers has 0 and 1 alone, and both.
_LOOKED_AT = 2**16


@dataclass(frozen=True, eq=False)
class Unclaimed:
    """A weight in a layout that is not known."""

    #: The tensor of its codes.
    name: str
    #: All tensors of the file that belong to it, its codes first.
    parts: tuple[str, ...]
    reason: QuantVizError


def unclaimed(model: ModelTensors) -> tuple[Unclaimed, ...]:
    """Return the weights of a model that no layout claims, in the file's order."""
    groups: dict[str, list[str]] = {}
    for name in model.plain:
        groups.setdefault(name.rpartition(".")[0], []).append(name)
    codes = []
    for group in groups.values():
        beside = {name for name in group if _accompanies(name)}
        codes += [
            name for name in group if _is_codes(model.file, name, scaled=len(beside) > (name in beside))
        ]
    return tuple(_with_parts(model.file, codes, groups))


def _is_codes(catalog: Catalog, name: str, *, scaled: bool) -> bool:
    """Return whether a tensor is codes; `scaled`: whether scales or the like lie beside it."""
    info = catalog.info(name)
    if _SMALL_FLOAT.fullmatch(info.dtype):
        return scaled and is_matrix(info.shape) and not _accompanies(name)
    if not is_whole(info.dtype) or info.dtype == "bool" or not info.count:
        return False
    if _INDEX.fullmatch(name):
        return False
    if not is_matrix(info.shape):
        # Bytes in a row may be a tokenizer's; numbers of 32 bits and more are indices.
        return scaled and info.dtype in ("uint8", "int8", "uint16", "int16") and info.count > 1
    return not _is_mask(catalog, name)


def _accompanies(name: str) -> bool:
    """Return whether a tensor's name is that of one beside codes, such as scales."""
    return bool(_OF_CODES.search(name.rpartition(".")[2]))


def _is_mask(catalog: Catalog, name: str) -> bool:
    info = catalog.info(name)
    if info.problem:
        return False
    rest = math.prod(info.shape[1:])
    try:
        seen = catalog.cut(name, (slice(0, max(1, _LOOKED_AT // max(1, rest))),)).flatten()[:_LOOKED_AT]
    except QuantVizError:
        return False
    return bool((seen == 0).any()) and bool((seen == 1).any()) and bool(((seen == 0) | (seen == 1)).all())


def _with_parts(catalog: Catalog, codes: list[str], groups: Mapping[str, list[str]]) -> Iterator[Unclaimed]:
    taken = set(codes)
    of_group: dict[str, list[str]] = {}
    for name in codes:
        of_group.setdefault(name.rpartition(".")[0], []).append(name)
    for base, found in of_group.items():
        # Of two tensors of codes one may belong to the other: zero points in words, exponents in bytes.
        own = [name for name in found if not _accompanies(name)] or found
        of_own = set(own)
        rest = [each for each in groups[base] if each not in of_own and (each in taken or _accompanies(each))]
        for name in own:
            if len(own) == 1 or len(own) * len(rest) > _MOST_PAIRS:
                # No module has so many; the first has them all, so that none is taken for a weight.
                parts = rest if name == own[0] else []
            else:
                parts = [each for each in rest if _stem(each).startswith(_stem(name))]
            info = catalog.info(name)
            key = "unknown_layout" if parts else "unread_codes"
            reason = QuantVizError(
                f"checkpoint.{key}",
                name=clipped(name),
                dtype=info.dtype,
                others=", ".join(clipped(each.rpartition(".")[2]) for each in parts),
            )
            yield Unclaimed(name, (name, *parts), reason)


def _stem(name: str) -> str:
    """Return a name without the last word of its last part.

    >>> _stem("mlp.experts.gate_up_proj_blocks"), _stem("q_proj.weight")
    ('mlp.experts.gate_up_proj', 'q_proj.weight')
    """
    head, _, last = name.rpartition(".")
    stem = last.rpartition("_")[0] or last
    return f"{head}.{stem}" if head else stem
