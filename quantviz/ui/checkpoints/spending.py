"""Constraints of an allocation: pinned recipes, tensors that stay as stored, weights of errors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.model.tensor_names import trimmed_names
from quantviz.checkpoints.model_map import ScannedModel
from quantviz.errors import QuantVizError
from quantviz.figures.model_map_plot import recipe_words
from quantviz.text import visible
from quantviz.ui.checkpoints.state import KEPT, OWNER, CheckpointsState
from quantviz.ui.components.component import written
from quantviz.ui.components.controls import Control, show_controls
from quantviz.ui.shell import errors
from quantviz.ui.shell.long_work import read_file
from quantviz.ui.shell.words import language, say, say_error

if TYPE_CHECKING:
    from quantviz.checkpoints.results.typed_tables import TypedTable

_PINS = "checkpoints_pins"
_ALPHA = "checkpoints_alpha"
#: The pins that the table of them has returned, and how often others came from elsewhere.
_TOLD = "checkpoints_pins_told"
_VERSION = "checkpoints_pins_version"
#: Pixels of the table: rows are as high as a finger needs, and both columns stand whole beside each other on
#: a phone of 360 pixels; where there is more room, Streamlit spreads them.
_HEIGHT = 300
_ROW = 44
_HEADING = 36
_NAME = 184
_PIN = 130


@dataclass(frozen=True, eq=False)
class AllocationArguments:
    """The arguments of `allocate` that the page offers."""

    pinned: Mapping[str, str]
    excluded: tuple[str, ...]
    fused: str | tuple[()]
    #: α by tensor, and the name of the file that it is from.
    sensitivities: Mapping[str, float] | None
    file: str


def show_spending(
    state: CheckpointsState, model: ScannedModel, table: TypedTable, *, joins: bool
) -> AllocationArguments:
    """Show and return the constraints. An engine that `joins` q, k and v leaves no choice."""
    weights = [tensor.name for tensor in model.weights]
    names = set(weights)
    pins = {name: recipe for name, recipe in state.pins if name in names}
    with st.container(key="checkpoints_spending", horizontal=True, vertical_alignment="center"):
        control = Control(
            "checkpoints_fused",
            "switch",
            say("checkpoints.allocate.fused"),
            value="1" if state.fused or joins else "",
            disabled=joins,
            take=lambda form: OWNER.change(fused=form == "1"),
        )
        show_controls("checkpoints_fused", OWNER, control)
        with st.popover(say("checkpoints.allocate.more", count=len(pins))):
            _show_pins(state, model, weights, pins)
            uploaded = st.file_uploader(
                say("checkpoints.allocate.alpha"), type=["csv", "txt", "gguf", "dat", "imatrix"], key=_ALPHA
            )
    sensitivities = None
    if uploaded is not None:
        try:
            sensitivities = _sensitivities(uploaded, table)
        except QuantVizError as problem:
            st.error(say_error(problem))
    # Biases and norms stay as they are stored, as engines keep them.
    others = [tensor.name for tensor in model.tensors if tensor.name not in names]
    return AllocationArguments(
        {name: recipe for name, recipe in pins.items() if recipe != KEPT},
        (*others, *(name for name, recipe in pins.items() if recipe == KEPT)),
        "engine" if state.fused or joins else (),
        sensitivities,
        visible(uploaded.name) if uploaded is not None and sensitivities is not None else "",
    )


def _show_pins(
    state: CheckpointsState, model: ScannedModel, weights: list[str], pins: Mapping[str, str]
) -> None:
    if st.session_state.get(_TOLD, ()) != state.pins:
        # They came from an address: text typed before is not theirs.
        st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
        st.session_state[_TOLD] = state.pins
    words = {name: recipe_words(name, language()) for name in model.recipes}
    words[KEPT] = say("checkpoints.allocate.kept")
    free = say("checkpoints.allocate.free")
    key = f"{_PINS}_{state.chosen}_{st.session_state.get(_VERSION, 0)}"
    st.caption(say("checkpoints.allocate.pins_about"))
    st.data_editor(
        {
            "tensor": list(map(visible, trimmed_names(weights))),
            "recipe": [words.get(pins.get(name, ""), free) for name in weights],
        },
        key=key,
        hide_index=True,
        height=min(_HEIGHT, _HEADING + _ROW * len(weights) + 2),
        row_height=_ROW,
        placeholder=free,
        column_config={
            "tensor": st.column_config.TextColumn(
                say("checkpoints.columns.tensor"), disabled=True, width=_NAME
            ),
            "recipe": st.column_config.SelectboxColumn(
                # Without `required` the choice that frees again would be an empty line.
                say("checkpoints.allocate.pin"),
                options=[free, *words.values()],
                required=True,
                width=_PIN,
            ),
        },
        on_change=errors.safely(lambda: _pinned(key, weights, {said: name for name, said in words.items()})),
    )


def _pinned(key: str, weights: list[str], names: Mapping[str, str]) -> None:
    pins = dict(OWNER.state.pins)
    for row, changed in written(key, lambda lines: all(row < len(weights) for row in lines)).items():
        if "recipe" in changed:
            pins.pop(weights[row], None)
            if changed["recipe"] in names:
                pins[weights[row]] = names[changed["recipe"]]
    st.session_state[_TOLD] = changed_pins = tuple(pins.items())
    OWNER.change(pins=changed_pins)


def _sensitivities(uploaded: Any, table: TypedTable) -> Mapping[str, float]:
    """Return α of the tensors from the uploaded file, which is on the disk only meanwhile."""
    from quantviz.checkpoints.allocation.offers import Offers
    from quantviz.checkpoints.allocation.sensitivities import alphas, weights_in

    # The name is untrusted: only its suffix, which marks the format, is used.
    with TemporaryDirectory(prefix="quantviz-") as folder:
        path = Path(folder) / f"alpha{PurePath(uploaded.name).suffix.lower()}"
        content = uploaded.getvalue()
        path.write_bytes(content)
        try:
            key = "alpha", uploaded.name, hashlib.sha256(content).digest()
            return alphas(read_file(partial(weights_in, path), key, uploaded.name), Offers.of(table))
        except QuantVizError as problem:
            if "file" not in problem.params:
                raise
            raise QuantVizError(problem.key, **{**problem.params, "file": visible(uploaded.name)}) from None
