"""The language and the colours of a page's live parts, and the sentences that the browser fills with numbers:
see `quantviz/browser/hand/words.js`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES
from quantviz.lab.state import LabState
from quantviz.schemes.formats import entry_of
from quantviz.schemes.scheme import Scheme
from quantviz.text import templates, text

#: The layer size that "bits per weight" is also given for.
_USUAL_LAYER = (4096, 4096)
#: The parts of a cell's sentence, by their names in the catalogue.
_OF_SENTENCE = (
    "left_out",
    "then",
    "subtract",
    "divide",
    "multiply",
    "fused",
    "shift",
    "lattice",
    "round",
    "round_to",
    "round_nearest",
    "by_rule",
    "no_number",
    "clamp",
    "bits",
    "value",
    "error",
    "zero_point_clamped",
)
#: The parts of a block's place.
_OF_BLOCK = ("at_row", "at_rows", "at_column", "at_columns", "and", "whole")


def hand_words(state: LabState, language: str) -> dict[str, Any]:
    """Return the sentences and titles that follow the hand, with their braces, and the names of the axes in
    view.
    """
    view = state.view
    axes = () if view.rows is None else (view.rows, view.cols)
    return {
        **word_templates(language),
        "axes": [{"axis": axis, "one": state.source.axes.words(axis, "one", language)} for axis in axes],
    }


@cache
def word_templates(language: str) -> Mapping[str, Any]:
    lines = {
        key: templates(f"tiles.{key}", language)["line"]
        for key in ("mse", "sqnr", "zeroed", "clipped", "bits")
    }
    lines["mse_uneven"] = templates("tiles.mse", language)["line_uneven"]
    lines["left_out"] = templates("tiles", language)["left_out"]
    cell = templates("cell", language)
    return MappingProxyType(
        {
            "cell": {name: cell[name] for name in _OF_SENTENCE},
            "rules": dict(templates("cell.rules", language)),
            "causes": dict(templates("causes", language)),
            "lines": lines,
            "changes": {name: templates("tiles", language)[name] for name in ("same", "times")},
            "titles": dict(templates("panels.title", language)),
            "bar": dict(templates("panels.bar", language)),
            "place": templates("cell", language)["place"],
            "block": {
                "one": templates("lab", language)["one_block"],
                **{name: templates("places", language)[name] for name in _OF_BLOCK},
            },
            "pooled": dict(templates("panels.pooled", language)),
            "pooled_what": dict(templates("panels.pooled.what", language)),
        }
    )


def format_words(scheme: Scheme, language: str) -> str:
    """Return the name of a scheme's format in titles and sentences: of integers their id."""
    if scheme.number_format.kind == "integer":
        return scheme.format
    return text(f"formats.{entry_of(scheme.format)}.name", language)


def usual_bits(scheme: Scheme, bits: float) -> str:
    """Return the bits a weight on the usual layer; the present ones where groups do not divide it."""
    from quantviz.evaluation.metric_formulas import bits_per_element

    return f"{bits if scheme.problems(_USUAL_LAYER) else bits_per_element(scheme, _USUAL_LAYER):.4g}"


@dataclass(frozen=True)
class Looks:
    language: str
    #: One of `THEMES`.
    theme: str = "light"
    #: Factor of enlargement of rulers on a projector; None elsewhere.
    larger: float | None = None
    votes: Mapping[str, Any] | None = None


@cache
def ruler_settings(theme: str, language: str) -> dict[str, Any]:
    """Return the style and the words of every ruler on a page: the script's `settings`."""
    colours = THEMES[theme]
    return {
        "colors": {
            **colours.named("text", "muted", "line", "surface", "clipping", "font"),
            "tooth": colours.muted,
            "dot": colours.accent,
            "handle": colours.accent,
            "over": colours.errors[-1],
            "under": colours.errors[0],
            "rounding": colours.accent,
            "roundingText": colours.accent,
            "clippingText": colours.clipping,
        },
        "writing": asdict(WRITING),
        "words": dict(templates("ruler", language)),
    }
