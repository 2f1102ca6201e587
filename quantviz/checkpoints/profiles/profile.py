"""An engine's policy as data: which tensors it quantizes, in which types, and which it takes instead.

A profile is added in `engines.py`: a `Profile` in `ENGINES`, and its words in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quantviz.checkpoints.model.tensor_kinds import Kind
from quantviz.checkpoints.profiles.presets import Preset

#: Number of recipes that are preselected where the profile has no list of its own.
_FIRST = 5
#: Bytes of a tensor's entry in the header of a .safetensors file, besides its name: dtype, shape and offsets,
#: with the end of a part's name.
SAFETENSORS_ENTRY = 70


@dataclass(frozen=True)
class FileOverhead:
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
class ToolFiles:
    """Format of a tool's files."""

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
    parts: Mapping[str, FileOverhead] = field(default_factory=dict)

    def parts_of(self, recipe: str) -> FileOverhead:
        """Return the overhead of a weight under a recipe by id."""
        return self.parts.get(recipe, FileOverhead())


@dataclass(frozen=True)
class Profile:
    """Rules by which an engine quantizes a model's tensors."""

    #: Lower case, as links have it; and as the command takes it.
    id: str
    name: str
    #: The kinds of tensors that it quantizes.
    kinds: frozenset[Kind]
    #: The engine's own recipes by id, those of `RECIPES` at its arithmetic.
    recipes: tuple[str, ...]
    #: Those of them to begin with; none for the first few.
    usual: tuple[str, ...] = ()
    #: Parts of names of tensors that it keeps, whatever their kind.
    keeps: tuple[str, ...] = ()
    #: Whether those are parts of llama.cpp's names.
    by_gguf_names: bool = False
    #: Fallback of a recipe for tensors whose rows do not divide into its blocks: the recipe by id, or ""
    #: where the tensor stays as it is.
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    #: Substitutes for a recipe by the kind of tensor: the recipe by id, or "" where such tensors stay as they
    #: are.
    by_kind: Mapping[str, Mapping[Kind, str]] = field(default_factory=dict)
    #: Its mixtures of types by name.
    presets: Mapping[str, Preset] = field(default_factory=dict)
    #: Those with types that are not encoded here, whose choice of types is shown and not measured.
    unencoded: Mapping[str, Preset] = field(default_factory=dict)
    #: The format of its files; None where their size is not computed.
    files: ToolFiles | None = None
    #: The form in which `export_allocation` writes for it; "" where there is none.
    export: str = ""
    #: Prefix of the ids of its conventions: those whose decibels are its own.
    arithmetic: str = ""
    #: Whether it joins query, key and value, and gate and up, into one matrix of one recipe.
    joins: bool = False

    @property
    def first_recipes(self) -> tuple[str, ...]:
        """Return the recipes to begin with."""
        return self.usual or self.recipes[:_FIRST]
