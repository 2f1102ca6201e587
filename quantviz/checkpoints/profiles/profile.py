"""An engine's policy as data: which tensors it quantizes, in which types, and which it takes instead.

A profile is added in `engines.py`: a `Profile` in `ENGINES`, and its words in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quantviz.checkpoints.model.tensor_kinds import Kind
from quantviz.checkpoints.profiles.presets import Preset

#: Preselected recipes where the profile has no list.
_FIRST = 5
#: Bytes of a tensor's entry in a .safetensors header besides its name: dtype, shape and offsets, with the end
#: of a part's name.
SAFETENSORS_ENTRY = 70


@dataclass(frozen=True)
class FileOverhead:
    """Overhead of a quantized weight in a file, besides codes and scales in use."""

    #: Tensors that it is stored as.
    count: int = 2
    #: Bytes of each weight: of shapes, tables, a scale of inputs, and further entries in the header.
    of_tensor: int = 0
    #: Bytes of each row: of zero points that are 0.
    of_row: int = 0
    #: Rows and columns to whose multiples the matrix of its scales is filled up with 0.
    scale_tile: tuple[int, int] = (1, 1)
    #: Divisor of the rows of each weight: of any other the tool writes no file.
    rows_in: int = 1


@dataclass(frozen=True)
class ToolFiles:
    suffix: str
    #: Bytes of which each tensor takes a multiple.
    alignment: int = 1
    #: Bytes of a value of a kept tensor; 0 where its dtype stays.
    kept: int = 0
    #: Bytes of a value of a tensor without a type for its rows; 0 where its dtype stays.
    unfit: int = 0
    #: Whether scales, and minima, have the dtype of the weights.
    scales_as_weights: bool = False
    #: Bytes of the header for each tensor besides its name; 0 where the header is the quantized file's.
    entry: int = 0
    #: Bytes of the header for each quantized weight, besides those of its tensors.
    described: int = 0
    #: Overhead of a quantized weight by recipe, where it is not the usual one.
    parts: Mapping[str, FileOverhead] = field(default_factory=dict)

    def parts_of(self, recipe: str) -> FileOverhead:
        return self.parts.get(recipe, FileOverhead())


@dataclass(frozen=True)
class Profile:
    #: Lower case, as links have it; and as the command takes it.
    id: str
    name: str
    #: The kinds of tensors that it quantizes.
    kinds: frozenset[Kind]
    #: The engine's own recipes by id, those of `RECIPES` at its arithmetic.
    recipes: tuple[str, ...]
    #: Preselected ones; by default the first few.
    usual: tuple[str, ...] = ()
    #: Parts of names of tensors that it keeps, whatever their kind.
    keeps: tuple[str, ...] = ()
    #: Whether those are parts of llama.cpp's names.
    by_gguf_names: bool = False
    #: The recipe for tensors whose rows do not divide into a recipe's blocks, or "" to keep them.
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    #: Substitutes for a recipe by the kind of tensor, or "" to keep it.
    by_kind: Mapping[str, Mapping[Kind, str]] = field(default_factory=dict)
    #: Mixtures of types by name.
    presets: Mapping[str, Preset] = field(default_factory=dict)
    #: Mixtures with types that are not encoded here: the choice of types is shown and not measured.
    unencoded: Mapping[str, Preset] = field(default_factory=dict)
    #: None where the size of its files is not computed.
    files: ToolFiles | None = None
    #: The form in which `export_allocation` writes for it, or "".
    export: str = ""
    #: Prefix of the ids of its conventions: those whose decibels are its own.
    arithmetic: str = ""
    #: Whether it joins query, key and value, and gate and up, into one matrix of one recipe.
    joins: bool = False

    @property
    def first_recipes(self) -> tuple[str, ...]:
        return self.usual or self.recipes[:_FIRST]
