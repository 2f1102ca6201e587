"""Names of tensors and files that are found as people type them."""

from __future__ import annotations

from collections.abc import Callable

from quantviz.ui.shell.bounds import FIND_CHARACTERS


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
