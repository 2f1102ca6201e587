"""The page of layers, one screen: title, schemes, numbers; the multiplication, and the stage beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import LayerState, write_link
from quantviz.layers.built_in import BuiltInLayer
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.page_header import show_header, title_words
from quantviz.ui.layers.choices import show_choices, show_history
from quantviz.ui.layers.state import current_state, problems, put_state
from quantviz.ui.shell import address, errors
from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say, say_error, say_note

if TYPE_CHECKING:
    from quantviz.ui.layers.reading import SeenLayer


def show_page() -> None:
    """Show the layer of the state under its schemes."""
    st.html(Path(__file__).with_name("layers.css"))
    words, actions = show_header(say("pages.layers"), say("layers.hint"))
    warm_up()
    from quantviz.ui.layers.reading import seen_layer

    state = current_state()
    layer = state.source.title(language())
    title = " › ".join((say("pages.checkpoints"), say("pages.layers"), layer))
    name_tab(say("pages.layers"), layer)
    words.html(title_words(title, _hint(state)), width="stretch")
    with actions:
        show_history()
        show_copy_link()
    show_choices(state)
    for problem in (*problems(), *errors.page_errors()):
        st.warning(say_error(problem))
    try:
        seen = seen_layer(state)
        if state.cell is None:
            # From now on it stays where it is, whatever the schemes.
            state = state.replace(cell=seen.worst)
            put_state(state, step=False)
        _show_layer(state, seen)
    except QuantVizError as problem:
        st.error(say_error(problem))
    address.write({**write_link(state), "lang": language(), **parameters()})


def _hint(state: LayerState) -> str:
    """Return the sentence on what a built-in layer shows, or on the page."""
    source = state.source
    return source.look(language()) if isinstance(source, BuiltInLayer) else say("layers.hint")


def _show_layer(state: LayerState, seen: SeenLayer) -> None:
    from quantviz.ui.layers.numbers import show_numbers
    from quantviz.ui.layers.picture import show_picture
    from quantviz.ui.layers.stage import Scene, show_stage

    cell = state.cell or seen.worst
    with st.container(key="layers_numbers"):
        show_numbers(seen)
    with st.container(key="layers_scene"):
        with st.container(key="layers_left", gap="xsmall"):
            show_picture(seen, state, cell)
        with st.container(key="layers_right"):
            show_stage(Scene(state, seen, cell))
    for note in seen.result.notes:
        st.caption(say_note(note))
