"""The ruler: a block's values as dots over a comb of codes, with handles for what a hand may move."""

from __future__ import annotations

from functools import cache
from typing import Any

from quantviz.figures.theme import THEMES
from quantviz.text import text

#: The constant words of a ruler, by their names in the script.
_WORDS = (
    "lo",
    "hi",
    "zero",
    "tooth",
    "tooth_at",
    "value",
    "bits",
    "group",
    "rounding",
    "clipping",
    "curve",
    "outside",
)


@cache
def ruler_settings(theme: str, language: str) -> dict[str, Any]:
    """Return the colours and the words of every ruler on a page: what the script calls `settings`.

    `theme` is one of `THEMES`.
    """
    colours = THEMES[theme]
    return {
        "colors": {
            "text": colours.text,
            "muted": colours.muted,
            "line": colours.line,
            "surface": colours.surface,
            "tooth": colours.muted,
            "dot": colours.accent,
            "handle": colours.accent,
            "over": colours.errors[-1],
            "under": colours.errors[0],
            "rounding": colours.accent,
            "roundingText": colours.accent,
            "clipping": colours.clipping,
            "clippingText": colours.clipping,
            "font": colours.font,
        },
        # The browser fills in the places.
        "words": {
            name: text(f"ruler.{name}", language, count="{count}", code="{code}", value="{value}")
            for name in _WORDS
        },
    }
