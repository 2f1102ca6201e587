"""The ruler under the hand: what the browser needs to quantize a small tensor while a handle is dragged.

The browser runs the scheme's own arithmetic (`quantviz.compiled.javascript`), so that panels, ruler and
numbers follow in the same frame. When the hand lets go, one message tells the server: see `quantviz.lab.moves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from quantviz.browser import read_script
from quantviz.errors import QuantVizError
from quantviz.export.files import scope_of
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES
from quantviz.lab.moves import HandChoices, hand_choices, range_counts
from quantviz.lab.state import LabState
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.panels_bridge import packed, told
from quantviz.ui.components.ruler import ruler_settings
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.compiled.javascript import Program

#: Elements that a browser quantizes within a frame: of any format, and of integers.
MOST_CELLS, MOST_INTEGERS = 64 * 64, 256 * 256
_COMPONENT = "quantviz_hand"
#: Why a place cannot be had, by the key that the browser's arithmetic refuses with.
_REFUSALS = ("manual_range_order", "range_beyond_float32", "scale_not_positive", "zero_point_too_large")


def fits_hand(state: LabState) -> bool:
    """Return whether the browser quantizes the state's tensor by itself."""
    most = MOST_INTEGERS if state.scheme.number_format.kind == "integer" else MOST_CELLS
    return math.prod(state.source.shape) <= most and _program(state.scheme) is not None


def show_hand(
    study: Study,
    state: LabState,
    *,
    key: str,
    chart: str,
    stamp: int,
    curve: bool,
    locked: bool,
    on_release: Callable[[], None],
) -> None:
    """Show the ruler of the selected cell's block, whose handles change the scheme or a value.

    Args:
        study: The state's tensor under its scheme, small enough: see `fits_hand`.
        state: What is chosen.
        key: Names the component, for `released`.
        chart: The key of the panels' container, which follow the hand.
        stamp: The checksum of the panels that show this state.
        curve: Whether the error against the range is drawn too.
        locked: Whether nothing may be moved.
        on_release: Called before the page runs when the hand has let go; `released(key)` tells of what.
    """
    _component()(
        key=key,
        data=packed(*_told_browser(study, state, chart, stamp, curve, locked)),
        on_release_change=on_release,
    )


def released(key: str) -> Mapping[str, Any] | None:
    """Return the message of a hand that let go in this run: see `moves.moved`."""
    message = told(key, "release")
    return message if isinstance(message, Mapping) else None


def _told_browser(
    study: Study, state: LabState, chart: str, stamp: int, curve: bool, locked: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    from quantviz.compiled.javascript import packed_together, write_metrics
    from quantviz.figures.panels_data import shown_places

    result, scheme, shape = study.result, state.scheme, state.source.shape
    assert result is not None
    choices = HandChoices.none() if locked else hand_choices(state)
    schemes = list(dict.fromkeys((scheme, *choices.formats.schemes, *choices.sizes.schemes)))
    programs = {each: program for each in schemes if (program := _program(each))}
    places = {each: i for i, each in enumerate(programs)}
    sizes = dict(zip(choices.sizes.schemes, choices.sizes.values, strict=True))
    own = THEMES[theme()]
    header: dict[str, Any] = {
        "chart": chart,
        "stamp": stamp,
        "shape": shape,
        "selected": int(np.ravel_multi_index(state.cell, shape)),
        # The numbers of a slice are not those of the whole tensor, which the browser knows.
        "whole": scope_of(state) == "tensor",
        "symmetric": scheme.mode == "symmetric",
        **packed_together(programs.values()),
        "variants": [_variant(each, shape, i, sizes.get(each)) for each, i in places.items()],
        "metrics": write_metrics().packed(),
        "current": places[scheme],
        "bits": [places[each] for each in reversed(choices.formats.schemes) if each in places],
        "groups": _with_present(
            [places[each] for each in choices.sizes.schemes if each in places], places[scheme]
        ),
        "handles": _handles(state, locked),
        "with_curve": curve and range_counts(scheme),
        "writing": asdict(WRITING),
        "settings": {
            **ruler_settings(theme(), language()),
            "colours": {"border": own.border, "font": own.font, "text": own.text, "surface": own.surface},
            "all_blocks": say("hand.all_blocks", count="{count}"),
            "refusals": {
                name: say(f"hand.refusals.{name}", got="{got}", largest="{largest}")
                for name in (*_REFUSALS, "other")
            },
        },
    }
    arrays = {
        "x": result.x.flatten().numpy(),
        "places": shown_places(state.view, shape).astype(np.int32).ravel(),
    }
    if not scheme.calibration.of_values and result.range is not None:
        # The range was searched for, which the browser does not do.
        arrays |= {
            "found_lo": result.range.lo.flatten().double().numpy(),
            "found_hi": result.range.hi.flatten().double().numpy(),
        }
    return header, arrays


def _with_present(groups: list[int], present: int) -> list[int]:
    """Return the variants that the handle of a group's size goes through: beyond the largest are the blocks as
    they are.
    """
    return groups if not groups or present in groups else [*groups, present]


def _handles(state: LabState, locked: bool) -> dict[str, bool]:
    free = not locked
    return {
        "range": free and range_counts(state.scheme),
        "zero": free and state.scheme.mode == "asymmetric",
        "tooth": free,
        "value": free and _editable(state),
    }


def _editable(state: LabState) -> bool:
    try:
        state.source.edited(state.cell, 0.0)
    except QuantVizError:
        return False
    return True


def _variant(scheme: Scheme, shape: Shape, program: int, size: int | None) -> dict[str, Any]:
    label = say(f"granularities.{scheme.granularity.id}.short") if size is None else str(size)
    fmt = scheme.number_format
    return {
        "program": program,
        "size": size,
        "group_label": label,
        "phone_bits": say("phone.bits", bits=fmt.bits),
        "phone_levels": say("phone.levels", levels=f"{fmt.levels:,}"),
        **_variant_facts(scheme, shape),
    }


@lru_cache(maxsize=512)
def _variant_facts(scheme: Scheme, shape: Shape) -> Mapping[str, Any]:
    """Return what the browser shows of a scheme besides what its program gives."""
    from quantviz.compiled.javascript import layout_spec
    from quantviz.evaluation.metric_formulas import bits_per_element
    from quantviz.figures.colour_ranges import range_of_codes
    from quantviz.figures.panels_data import decoded_values

    fmt, bits = scheme.number_format, bits_per_element(scheme, shape)
    every = np.arange(2**fmt.bits if fmt.kind != "integer" and fmt.bits <= 8 else 0)
    decoded = decoded_values(every.astype(np.uint8), scheme) if len(every) else None
    return {
        "format": scheme.format,
        "zero_domain": scheme.zero_domain,
        "layout": layout_spec(scheme.layout(shape), shape),
        "bits": bits,
        "bits_text": f"{bits:.4g}",
        "bits_label": str(fmt.bits),
        "code_range": range_of_codes(every if len(every) else np.zeros(1), scheme),
        # JSON has no NaN.
        "decoded": None if decoded is None else [float(v) if math.isfinite(v) else None for v in decoded],
    }


@lru_cache(maxsize=512)
def _program(scheme: Scheme) -> Program | None:
    from quantviz.compiled.javascript import write_program
    from quantviz.compiled.traced_values import Untraceable

    try:
        return write_program(scheme)
    except Untraceable:
        return None


@cache
def _component() -> Callable[..., Any]:
    # Registered once a process: a second registration of the same name is a warning.
    component: Callable[..., Any] = st.components.v2.component(_COMPONENT, js=read_script("hand_component"))
    return component
