"""Engines' policies as data: which tensors each quantizes, and in which types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quantviz.checkpoints.profiles.engines import ENGINES
from quantviz.checkpoints.profiles.llama_cpp import LLAMA_CPP
from quantviz.checkpoints.profiles.presets import Preset
from quantviz.checkpoints.profiles.profile import Profile
from quantviz.errors import QuantVizError

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.id: profile for profile in (LLAMA_CPP, *ENGINES)})
#: Mixtures of types by name.
PRESETS: Mapping[str, Preset] = MappingProxyType(
    {name: preset for profile in PROFILES.values() for name, preset in profile.presets.items()}
)


def has_recipe(profile: Profile, recipe: str) -> bool:
    """Return whether an engine has a recipe, or a mixture of types, of this name."""
    return recipe in profile.recipes or recipe in profile.presets


def profile_of_export(form: str) -> Profile | None:
    return next((profile for profile in PROFILES.values() if profile.export == form), None)


def profile_named(name: str) -> Profile:
    """Return the profile of that id or name.

    Raises:
        QuantVizError: There is none.

    >>> profile_named("llama.cpp").id
    'llama_cpp'
    """
    profile = next(
        (profile for profile in PROFILES.values() if name.casefold() in (profile.id, profile.name)), None
    )
    if profile is None:
        known = ", ".join(profile.name for profile in PROFILES.values())
        raise QuantVizError("checkpoint.unknown_engine", got=name, known=known)
    return profile
