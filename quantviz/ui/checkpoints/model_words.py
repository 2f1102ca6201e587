"""The choices of a model that runs in words, in the session's language."""

from __future__ import annotations

from collections.abc import Iterable

from quantviz.figures.model_map_plot import recipe_words
from quantviz.lab.layer_state import NEAREST
from quantviz.ui.checkpoints.model_state import FORMATS, ModelState
from quantviz.ui.shell.words import language, method_name, say


def option_words(field: str, name: str) -> str:
    """Return a choice of a field below `[models]`; its bits, or its size, are the digits of its name."""
    if name in FORMATS:
        return recipe_words(name, language())
    digits = "".join(filter(str.isdigit, name))
    key = f"models.{field}.{name.replace(digits, '')}"
    return say(key, count=digits) if digits else say(key)


def named(field: str, known: Iterable[str]) -> dict[str, str]:
    """Return the choices of a field with their words."""
    return {name: option_words(field, name) for name in known}


def layer_words(name: str) -> str:
    """Return the words for a choice of the layers that are rounded: "" for all but the head."""
    if not name:
        return say("models.all_layers")
    short = name.removeprefix("model.layers.").replace("self_attn.", "")
    return say("models.only_head") if name == "lm_head" else say("models.only_layer", layer=short)


def state_words(state: ModelState) -> str:
    """Return the words of a state's schemes."""
    parts = [option_words("shared", state.shared)]
    if state.shared not in FORMATS:
        parts.insert(0, say("models.of_bits", bits=state.bits))
    usual = ModelState()
    if state.method != NEAREST:
        parts.append(method_name(state.method))
    for field in ("inputs", "cache"):
        if getattr(state, field) != getattr(usual, field):
            parts.append(option_words(f"{field}_short", getattr(state, field)))
    return ", ".join([*parts, *([layer_words(state.only)] if state.only else [])])


def kind_words(kind: str) -> str:
    """Return the words for what is rounded, a `SchemeNumbers.kind`."""
    return say(f"models.kinds.{kind}")
