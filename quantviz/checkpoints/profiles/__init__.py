"""Engines' policies as data: which tensors each quantizes, and in which types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quantviz.checkpoints.profiles.llama_cpp import LLAMA_CPP
from quantviz.checkpoints.profiles.profile import Profile
from quantviz.checkpoints.profiles.vllm import VLLM
from quantviz.errors import QuantVizError

#: Every profile by id.
PROFILES: Mapping[str, Profile] = MappingProxyType({each.id: each for each in (LLAMA_CPP, VLLM)})


def profile_named(name: str) -> Profile:
    """Return the profile of that id or name.

    Raises:
        QuantVizError: There is none.

    >>> profile_named("llama.cpp").id
    'llama_cpp'
    """
    found = next((each for each in PROFILES.values() if name.casefold() in (each.id, each.name)), None)
    if found is None:
        known = ", ".join(each.name for each in PROFILES.values())
        raise QuantVizError("checkpoint.unknown_engine", got=name, known=known)
    return found
