"""Names that are found as people type them: engines and recipes in lists, tensors, files."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

import streamlit as st

from quantviz.browser import read_script
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.names import SEPARATORS
from quantviz.schemes.recipes import ALL_RECIPES, recipe_name
from quantviz.ui.components.scheme_words import convention_option
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.words import language, say

#: The keys of the lists' labels, of engines and of recipes. Each has `filter_mode="contains"`.
_OF_ENGINES = ("compare.lit",)
_OF_RECIPES = ("checkpoints.recipes",)
_OF_BOTH = ("contest.add",)


def search_names() -> None:
    """Let lists of engines and recipes find a name without regard to spaces, hyphens and underscores."""
    st.html(f"<script>{_script(language())}</script>", unsafe_allow_javascript=True)


@functools.cache
def _script(language_id: str) -> str:
    """Return the script with the names in each list by its label, in the session's language."""
    engines = list(map(convention_option, CONVENTIONS))
    recipes = [recipe_name(name, language_id) for name in ALL_RECIPES]
    lists = {
        say(label): names
        for labels, names in (
            (_OF_ENGINES, engines),
            (_OF_RECIPES, recipes),
            (_OF_BOTH, [*recipes, *engines]),
        )
        for label in labels
    }
    names_json = json.dumps({"lists": lists, "separators": SEPARATORS})
    # A name must not end the script that it is in.
    names_json = names_json.replace("<", r"\u003c")
    return f"window.__quantvizNames = {names_json};\n{read_script('name_search')}"


def finder(wanted: str | None) -> Callable[[str], bool]:
    """Return whether a name has all the words that were typed; without any, every name has them.

    A browser can send a longer text than a person types, and there are many names: the rest is left out.

    >>> found = finder("up LAYERS.1")
    >>> found("model.layers.1.up.weight"), found("model.layers.0.up.weight"), finder("")("a")
    (True, False, True)
    """
    words = tuple(dict.fromkeys((wanted or "")[:FIND_CHARACTERS].lower().split()))

    def has_all(name: str) -> bool:
        lower = name.lower()
        return all(word in lower for word in words)

    return has_all
