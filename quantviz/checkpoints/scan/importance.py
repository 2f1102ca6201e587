"""llama.cpp's importance matrix: the mean square of each input of each weight, from running a model on text.

Source: llama.cpp, tools/imatrix/imatrix.cpp, which writes both formats, and tools/quantize/quantize.cpp,
which reads them. The older one is binary; the newer one is a GGUF file with two tensors for each weight.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from quantviz.checkpoints.model.gguf_names import OtherNames, gguf_names
from quantviz.checkpoints.results.typed_values import IMPORTANCE_BYTES
from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.file_data import READ_FLAGS

Array: TypeAlias = npt.NDArray[Any]

#: The two tensors of a weight in a GGUF file: sums of squares of each input, and their counts.
_SUMS = ".in_sum2"
_COUNTS = ".counts"


@dataclass(frozen=True)
class Importance(Picklable):
    """Mean squares of the inputs of one weight, or of each expert that is stacked in it."""

    mark: str
    experts: int
    #: float32, one expert after the other.
    raw: bytes = field(repr=False)
    #: Whether any input came to an expert: without one all columns count alike, as in llama-quantize.
    is_seen: tuple[bool, ...] = (True,)

    @classmethod
    def of(cls, squares: Array, is_seen: tuple[bool, ...] = (True,)) -> Importance:
        raw = np.ascontiguousarray(squares, np.float32).tobytes()
        mark = xxhash.xxh3_64(raw, seed=len(squares)).hexdigest()
        return cls(mark, len(squares), raw, is_seen)

    @property
    def squares(self) -> Array:
        columns = len(self.raw) // (np.float32().itemsize * self.experts)
        return np.ndarray((self.experts, columns), np.float32, self.raw)

    @property
    def mean_square(self) -> float | None:
        """Return the mean over all inputs and experts that were seen; None if it is no finite number."""
        seen = self.squares[list(self.is_seen)].astype(np.float64)
        mean = float(seen.mean()) if seen.size else np.nan
        return mean if np.isfinite(mean) and mean >= 0 else None

    def expert(self, number: int) -> Importance:
        return Importance.of(self.squares[number : number + 1], self.is_seen[number : number + 1])

    def is_stacked_as(self, shape: Shape) -> bool:
        return self.experts > 1 and len(shape) > 2 and shape[0] == self.experts

    def columns(self, start: int, shape: Shape) -> torch.Tensor:
        """Return the mean squares of the columns at the flat place `start` of a weight of `shape`, float32
        (columns,).
        """
        if not self.is_stacked_as(shape):
            # Of another size than the weight, `quantize` refuses it.
            return torch.from_numpy(self.squares.ravel().copy())
        of_expert = int(np.prod(shape[1:]))
        return torch.from_numpy(self.squares[start // of_expert].copy())


def importances(path: Path) -> dict[str, Importance]:
    """Return the importance of each weight by llama.cpp's names; `QuantVizError` for another or unreadable
    file.
    """
    try:
        # Opened without waiting: a pipe may have no process at its other end.
        with open(os.open(path, READ_FLAGS), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise QuantVizError("allocate.no_importance", file=os.fspath(path))
            if facts.st_size > IMPORTANCE_BYTES:
                raise QuantVizError(
                    "allocate.importance_too_large", file=os.fspath(path), most=IMPORTANCE_BYTES
                )
            raw = file.read(4)
            if raw != b"GGUF":
                raw += file.read(IMPORTANCE_BYTES)
        return _importances(path if raw == b"GGUF" else raw, os.fspath(path))
    except OSError as error:
        raise QuantVizError("allocate.cannot_read", file=os.fspath(path), reason=str(error)) from None


def importances_in(content: bytes, file: str) -> dict[str, Importance]:
    """Return the importance of each weight in the content of a file; `QuantVizError` for another one."""
    if len(content) > IMPORTANCE_BYTES:
        raise QuantVizError("allocate.importance_too_large", file=file, most=IMPORTANCE_BYTES)
    return _importances(content, file)


def _importances(path_or_bytes: Path | bytes, file: str) -> dict[str, Importance]:
    try:
        if isinstance(path_or_bytes, bytes) and not path_or_bytes.startswith(b"GGUF"):
            importances = dict(_of_binary(path_or_bytes))
        else:
            importances = dict(_of_gguf(path_or_bytes))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, QuantVizError):
            raise
        raise QuantVizError("allocate.no_importance", file=file) from None
    if not importances:
        raise QuantVizError("allocate.no_importance", file=file)
    return importances


def by_tensor(theirs: Mapping[str, Importance], tensors: Collection[str]) -> dict[str, Importance]:
    """Return the importance of each tensor of a checkpoint that has one, by the checkpoint's names: those of
    llama.cpp, or those of a model that it converts.
    """
    importances = {tensor: theirs[name] for tensor, name in gguf_names(tensors).items() if name in theirs}
    importances |= {tensor: theirs[tensor] for tensor in tensors if tensor in theirs}
    other_names = OtherNames(tuple(tensors))
    for name, stacked in theirs.items():
        for number in range(stacked.experts) if stacked.experts > 1 else ():
            tensor = other_names.of(f"{name}[{number}]")
            if tensor is not None:
                importances.setdefault(tensor, stacked.expert(number))
    return importances


def mean_squares(importances: Mapping[str, Importance]) -> dict[str, float]:
    means = {name: importance.mean_square for name, importance in importances.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def _of_gguf(path_or_bytes: Path | bytes) -> Iterator[tuple[str, Importance]]:
    from quantviz.sources.files import open_tensors

    with open_tensors(path_or_bytes) as tensors:
        there = set(tensors.names)
        for name in tensors.names:
            weight = name.removesuffix(_SUMS)
            if weight == name or f"{weight}{_COUNTS}" not in there:
                continue
            counts = np.asarray(tensors.read(f"{weight}{_COUNTS}").tensor, np.float32).ravel()
            flat = np.asarray(tensors.read(name).tensor, np.float32).ravel()
            sums = np.stack(np.array_split(flat, len(counts)))
            seen = counts > 0
            squares = np.ones_like(sums)
            squares[seen] = _means(sums[seen], counts[seen, None])
            if seen.any():
                yield weight, Importance.of(squares, tuple(seen.tolist()))


def _of_binary(raw: bytes) -> Iterator[tuple[str, Importance]]:
    """Read the older format: the number of weights, and for each its name, number of chunks, and sums."""
    (entries,) = struct.unpack_from("<i", raw)
    at = 4
    for _ in range(entries):
        (length,) = struct.unpack_from("<i", raw, at)
        name = raw[at + 4 : at + 4 + length].decode("utf-8")
        chunks, count = struct.unpack_from("<2i", raw, at + 4 + length)
        at += 12 + length
        if length < 0 or count <= 0 or at + 4 * count > len(raw):
            raise ValueError
        sums = np.frombuffer(raw, "<f4", count, at)
        yield name, Importance.of(_means(sums[None], np.float32(max(chunks, 1))))
        at += 4 * count


def _means(sums: Array, counts: Any) -> Array:
    """Return sums of squares divided by their counts; of a damaged sum NaN or Inf, without a warning."""
    with np.errstate(all="ignore"):
        means: Array = sums / counts
    return means
