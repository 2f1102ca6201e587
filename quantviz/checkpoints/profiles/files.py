"""Format of the files of engines' tools, as far as it determines their size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Parts:
    """Overhead of a quantized weight in a file, besides codes and scales in use."""

    #: Number of tensors that it is stored as.
    count: int = 2
    #: Bytes of each weight: of shapes, tables, a scale of inputs, and further entries in the header.
    of_tensor: int = 0
    #: Bytes of each row: of zero points that are 0.
    of_row: int = 0
    #: Rows and columns of which the matrix of its scales takes multiples, filled up with 0.
    scale_tile: tuple[int, int] = (1, 1)
    #: Number that divides the rows of each weight: of any other the tool writes no file.
    rows_in: int = 1


@dataclass(frozen=True)
class Files:
    """Format of a tool's files."""

    #: Suffix of their names.
    suffix: str
    #: Bytes of which each tensor takes a multiple.
    alignment: int = 1
    #: Bytes of a value of a tensor that is kept; 0 where its dtype stays.
    kept: int = 0
    #: Bytes of a value of a tensor for whose rows there is no type; 0 where its dtype stays.
    unfit: int = 0
    #: Whether scales, and minima, have the dtype of the weights.
    scales_as_weights: bool = False
    #: Bytes of the header for each tensor in it, besides its name; 0 where the header is that of the file
    #: which is quantized.
    entry: int = 0
    #: Bytes of the header for each quantized weight, besides those of its tensors.
    described: int = 0
    #: Overhead of a quantized weight by recipe, where it is not the usual one.
    parts: Mapping[str, Parts] = field(default_factory=lambda: MappingProxyType({}))

    def parts_of(self, recipe: str) -> Parts:
        """Return the overhead of a weight under a recipe by id."""
        return self.parts.get(recipe, Parts())


#: Bytes of a tensor's entry in the header of a .safetensors file, besides its name: dtype, shape and offsets,
#: with the end of a part's name.
SAFETENSORS_ENTRY = 70
