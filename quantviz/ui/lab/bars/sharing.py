"""Contents of *Share*: the link, pictures, data, Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.lab.classroom import HIDEABLE
from quantviz.lab.state import LabState
from quantviz.live.hand_words import Looks
from quantviz.tensors.views import MOST_PART
from quantviz.ui.components.clipboard import copy_button, picture_button, show_copy_link
from quantviz.ui.components.small_parts import show_python
from quantviz.ui.shell.classroom import is_open, visible
from quantviz.ui.shell.words import language, say, say_error, shape_text, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData
    from quantviz.quantization.result import QuantResult

#: Cells up to which there is a .csv: a line each, held in memory while it is made.
_MOST_CSV = 2**20


def show_share(study: Study, state: LabState, chart: str, whole: Callable[[], PanelsData]) -> None:
    """Show downloads and links that a teacher has not hidden; pictures are of `chart` or `whole`."""
    if visible("actions"):
        show_copy_link("lab.link")
    if not visible("below"):
        return
    with st.container(key="share_pictures", horizontal=True, gap="small"):
        _pictures(state, study, chart, whole)
    with st.container(key="share_data", horizontal=True, gap="small"):
        _data(study, state)
    from quantviz.export.files import python_lines

    lines = python_lines(state, language=language())
    copy_button("copy_python", say("below.copy_python"), say("lab.copied"), text=lines)
    show_python(say("below.python"), "python", lambda: lines)


def _data(study: Study, state: LabState) -> None:
    from quantviz.analysis.study import Study
    from quantviz.evaluation.tables import PartPosition, as_csv, as_npz
    from quantviz.export.files import file_name, notebook_text
    from quantviz.live.standalone import LivePage

    # Of a large tensor it is the part in view that leaves.
    index = state.view.index_of(study.shape)
    result = study.result
    rows, cols = state.view.size(study.shape)
    count = rows * cols if result is None else result.x.numel()

    def exported() -> QuantResult:
        return study.part(index) if result is None else result

    # Made on request, so that nobody waits for an unwanted file.
    within = PartPosition(index, study.shape) if result is None else None
    for ending, write, most in (
        ("npz", partial(as_npz, within=within), MOST_PART),
        ("csv", partial(as_csv, within=within), _MOST_CSV),
    ):
        too_many = count > most
        about = say("below.of_the_slice") if result is None else None
        if too_many:
            about = say("below.too_many", most=most)
        st.download_button(
            say(f"below.{ending}"),
            lambda write=write: write(exported()),  # type: ignore[misc]
            file_name(state.source, state.scheme, ending),
            key=f"download_{ending}",
            on_click="ignore",
            disabled=too_many,
            help=about,
        )
    title = f"{state.source.title(language())} · {shape_text(study.shape)}"
    # They show everything: also what a teacher has hidden.
    if all(map(visible, HIDEABLE)) and result is not None:
        st.download_button(
            say("below.notebook"),
            notebook_text(state, title, language=language()),
            file_name(state.source, state.scheme, "ipynb"),
            key="download_ipynb",
            on_click="ignore",
        )
    if is_open():
        # The page is made when it is asked for, when the session's own cache is not at hand.
        own = study if study.result is None or study.of_file else Study.of_result(study.result)
        page = LivePage(own, title, state.cell, Looks(language(), theme()))
        st.download_button(
            say("below.page"),
            page.html,
            file_name(state.source, state.scheme, "html"),
            key="download_html",
            on_click="ignore",
            disabled=page.problem is not None,
            help=say("below.page_help") if page.problem is None else say_error(page.problem),
        )


def _pictures(state: LabState, study: Study, chart: str, whole: Callable[[], PanelsData]) -> None:
    """Show the panels as files that need no browser."""
    figure = None
    windowed = state.view.size(study.shape) != state.view.matrix(study.shape)
    if windowed and st.session_state.get("picture_whole", False):
        from quantviz.figures.arrangement import PanelsStyle
        from quantviz.figures.panels import panels_figure

        # As the page has it side by side, on a phone too.
        figure = panels_figure(whole(), PanelsStyle(language(), theme())).to_json()  # type: ignore[no-untyped-call]
    for ending in ("png", "svg"):
        picture_button(f"picture_{ending}", say(f"below.picture_{ending}"), chart, ending, figure)
    if windowed:
        st.toggle(say("below.picture_whole"), key="picture_whole", help=say("below.picture_whole_help"))
