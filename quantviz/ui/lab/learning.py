"""Links from the Lab's controls and numbers to the lessons' terms that explain each of them.

A link names the term, and the lessons' page finds the step that introduces it: nothing of the lessons is read
here, so no control waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlencode

from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.words import language, say

_ONE_SCALE = ("per_tensor", "per_channel", "per_group", "block")
_RANGE = ("range", "calibration", "clipping")

#: The glossary's terms for each control, by its key or the beginning of its key, to the "_" or its end.
TERMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # The sidebar's tensor.
        **dict.fromkeys(
            ("kind", "scenario", "course", "distribution", "random", "typed", "upload", "seen_as", "view"),
            ("tensor",),
        ),
        # The scheme.
        "recipe": ("quantization",),
        "format": ("format",),
        "bits": ("bit",),
        "mode": ("symmetric", "asymmetric"),
        **dict.fromkeys(("granularity",), _ONE_SCALE),
        **dict.fromkeys(("group", "flat"), ("per_group",)),
        "block": ("block",),
        # Whose arithmetic, and its rules.
        "convention": ("convention",),
        "rule": ("convention",),
        "rule_ties": ("tie",),
        **dict.fromkeys(("rule_scale", "rule_block_scale", "range_scale"), ("scale",)),
        **dict.fromkeys(
            ("rule_zero_point", "rule_zero_domain", "rule_unsigned_zero", "range_zero_point"), ("zero_point",)
        ),
        "rule_zero_in_range": ("range", "zero_point"),
        "rule_overflow": ("clipping",),
        **dict.fromkeys(("rule_narrow_range", "rule_narrow_symmetric"), ("symmetric",)),
        **dict.fromkeys(("rule_scale_bits", "rule_zero_bits", "rule_code_bits"), ("effective_bits",)),
        # The range.
        **dict.fromkeys(("calibration", "range"), _RANGE),
        "range_p": ("percentile",),
        # The controls of *More*.
        "value_scale": ("outlier",),
        "error": ("error", "step"),
        # The stage's tabs, and the selected cell.
        "stage_tab": ("cell",),
        "stage_tab_cell": ("cell", "error"),
        "stage_tab_range": ("range", "clipping", "sqnr"),
        "stage_tab_blame": ("error", "outlier", "sqnr"),
        "stage_tab_compare": ("convention", "sqnr"),
        "cell": ("cell",),
        # The numbers.
        "number_mse": ("mse",),
        "number_sqnr": ("sqnr",),
        "number_zeroed": ("rounding",),
        "number_clipped": ("clipping",),
        "number_bits": ("effective_bits",),
    }
)
#: Terms for the selected cell's cause: the sentence's own word.
CAUSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"rounded": ("rounding",), "zeroed": ("rounding", "step"), "clipped": ("clipping",)}
)


def terms_of(control: str) -> tuple[str, ...]:
    """Return the terms that explain a control; none where no lesson has one.

    >>> terms_of("rule_scale_format"), terms_of("rule_ties"), terms_of("undo")
    (('scale',), ('tie',), ())
    """
    parts = control.split("_")
    names = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((TERMS[name] for name in names if name in TERMS), ())


def learn_address(term: str) -> str:
    """Return the address of the step that introduces a term."""
    return _address(term, _rest())


def learn(*terms: str) -> str:
    """Return links to the steps that introduce terms, as a line of Markdown."""
    rest = _rest()
    links = (f"[{say(f'glossary.{term}.name')}]({_address(term, rest)})" for term in dict.fromkeys(terms))
    return say("glossary.learn", terms=" · ".join(links))


def _address(term: str, rest: str) -> str:
    return f"lessons?term={term}&{rest}"


def _rest() -> str:
    return urlencode({"lang": language(), **parameters()})


def explained(control: str, words: str) -> str:
    """Return a control's help with the links that belong to it."""
    return f"{words} {learn(*terms_of(control))}"
