"""The controls of the page of attention: heads, keys and values; under "Change" the rest."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from quantviz.lab.attention_state import (
    BASES,
    BUILT_IN,
    DROPPED,
    KEYS,
    KIVI,
    LAYOUTS,
    MASKS,
    OTHERS,
    POSITIONS,
    AttentionState,
)
from quantviz.lab.layer_state import AS_IT_IS
from quantviz.ui.components.controls import Control, number_control, show_controls
from quantviz.ui.lab.dropped_files import HEADS, dropped_kind
from quantviz.ui.layers.attention_state import OWNER, OpenedHeads, mask_of, name_of_heads
from quantviz.ui.layers.words import scheme_name
from quantviz.ui.shell.words import say

_MOST_RESIDUAL = 999_999
_MOST_BASE = 1e9


def show_choices(state: AttentionState, opened: OpenedHeads | None) -> None:
    """Show what is attended to, and how each part is rounded."""
    dropped = (DROPPED,) if dropped_kind() == HEADS else ()
    names = {name: name_of_heads(name, state.layer) for name in (*BUILT_IN, *dropped, state.heads)}
    bases = {name: say(f"attention.basis.{name}") for name in BASES}
    controls = [
        _list("heads", names),
        _list("keys", _schemes(state.keys, KEYS)),
        _list("basis", bases),
        _list("values", _schemes(state.values, (*OTHERS, "int4_per_column"))),
    ]
    if opened is not None and len(opened.names) > 1:
        each = {name: name for name in opened.names}
        controls.insert(1, _list("name", each, state.name or opened.name))
    show_controls("layers_schemes", OWNER, *controls, look="qv-inside")
    with st.popover(say("layers.more"), key="attention_more"):
        _show_more(state, opened)


def _show_more(state: AttentionState, opened: OpenedHeads | None) -> None:
    masks = [name for name in MASKS if name != "own" or (opened and opened.heads.mask is not None)]
    mask = mask_of(state, opened.heads) if opened else state.mask
    controls = [
        *(_list(name, _schemes(getattr(state, name), OTHERS)) for name in ("scores", "queries", "weights")),
        _list("mask", {name: say(f"attention.mask.{name}") for name in masks}, mask),
        _list("positions", {name: say(f"attention.positions.{name}") for name in POSITIONS}),
    ]
    numbers = [
        number_control(
            "residual",
            say("attention.choice.residual"),
            state.residual,
            lambda tokens: OWNER.change(residual=tokens),
            lowest=0,
            highest=_MOST_RESIDUAL,
            help=say("attention.choice.residual_help"),
        ),
    ]
    if state.positions != "none":
        numbers.append(
            number_control(
                "rotary",
                say("attention.choice.rotary"),
                state.rotary,
                lambda base: OWNER.change(rotary=base),
                whole=False,
                lowest=1.0,
                highest=_MOST_BASE,
            )
        )
        layouts = {name: say(f"attention.layout.{name}") for name in LAYOUTS}
        controls.append(_list("layout", layouts))
    heads = 1 if opened is None else max(1, opened.heads.q[..., 0, 0].numel())
    if heads > 1:
        controls.insert(0, _list("head", {str(head): str(head) for head in range(heads)}))
    show_controls("attention_more_choices", OWNER, *controls, look="qv-inside")
    show_controls("attention_more_numbers", OWNER, *numbers, look="qv-beside")


def _list(field: str, choices: Mapping[str, str], value: str | None = None) -> Control:
    return Control(
        field,
        "list",
        say(f"attention.choice.{field}"),
        say(f"attention.choice.{field}_help"),
        OWNER.state.form_of(field) if value is None else value,
        choices,
    )


def _schemes(present: str, offered: tuple[str, ...]) -> dict[str, str]:
    """Return the names of the schemes that are offered, and of the present one, which a link may have."""
    return {
        form: say("attention.kivi") if form == KIVI else scheme_name(form, "inputs")
        for form in dict.fromkeys((AS_IT_IS, *offered, present))
    }
