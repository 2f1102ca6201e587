"""The names of layers, of their sides' schemes and of pairs of these."""

from __future__ import annotations

from quantviz.lab.layer_state import AS_IT_IS, PAIRS, Pair, name_of_pair
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.text import text
from quantviz.ui.shell.words import language, say

#: The axis that a recipe's row is of, for each side; a column is an input channel of both.
_LINES = {"weights": "output", "inputs": "token"}


def scheme_name(form: str, side: str) -> str:
    """Return the name of the scheme of a side, "weights" or "inputs"; its text form where it has none."""
    if form == AS_IT_IS:
        return say("layers.as_it_is")
    if form not in ALL_RECIPES:
        return form
    axis = "input" if form.endswith("_per_column") else _LINES[side]
    return text(f"recipe_plot.name.{form}", language(), channel=say(f"layers.axes.{axis}"))


def pair_name(pair: Pair) -> str:
    """Return the name of a pair: its own, or those of its sides."""
    known = name_of_pair(pair)
    if known:
        return say(f"layers.pairs.{known}")
    dynamic = "" if pair.static else f" ({say('layers.dynamic')})"
    return f"{scheme_name(pair.weights, 'weights')} · {scheme_name(pair.inputs, 'inputs')}{dynamic}"


def pair_names() -> dict[str, str]:
    """Return the names of the pairs that have one, by their ids."""
    return {name: say(f"layers.pairs.{name}") for name in PAIRS}
