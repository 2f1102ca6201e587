"""An engine's policy as data: which tensors it quantizes, in which types, and which it takes instead.

A profile is added here: one file in this folder with a `Profile`, its line in `__init__.py`, and its words
in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from quantviz.checkpoints.model.tensor_kinds import Kind
from quantviz.checkpoints.profiles.files import Files
from quantviz.checkpoints.profiles.presets import Preset

#: Number of recipes that are preselected where the profile has no list of its own.
_FIRST = 5


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
    fallbacks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: Substitutes for a recipe by the kind of tensor: the recipe by id, or "" where such tensors stay as they
    #: are.
    by_kind: Mapping[str, Mapping[Kind, str]] = field(default_factory=lambda: MappingProxyType({}))
    #: Its mixtures of types by name.
    presets: Mapping[str, Preset] = field(default_factory=lambda: MappingProxyType({}))
    #: Those with types that are not encoded here, whose choice of types is shown and not measured.
    unencoded: Mapping[str, Preset] = field(default_factory=lambda: MappingProxyType({}))
    #: The format of its files; None where their size is not computed.
    files: Files | None = None
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
