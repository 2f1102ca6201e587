"""The Lab page, one screen: title, scheme, numbers, panels and the stage; then the part below the fold.

The controls and the frame are painted before anything heavy is imported; then the panels, which a
change is waited for; then the rest.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.evaluation.tables import PartPosition, as_csv, as_npz, metrics_csv
from quantviz.export.files import file_name, notebook_text, python_lines, scope_of
from quantviz.figures.arrangement import PanelsStyle
from quantviz.lab.classroom import GROUPS, HIDEABLE
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.live.hand_words import Looks
from quantviz.schemes.arithmetic_changes import TensorTraits
from quantviz.tensors.views import MOST_PART
from quantviz.ui.components.classroom_signs import show_prompt
from quantviz.ui.components.clipboard import copy_button, picture_button, show_copy_link
from quantviz.ui.components.phone_tables import number_column, numbers_written
from quantviz.ui.components.small_parts import (
    offer_file,
    show_button,
    show_folded,
    show_page_errors,
    show_plot,
    show_python,
    show_save_page,
)
from quantviz.ui.components.tensor_cache import kept, notes_of, stored_of, study_of
from quantviz.ui.lab.bars.answers import show_answers
from quantviz.ui.lab.bars.scheme_bar import show_scheme
from quantviz.ui.lab.bars.title_line import show_title, tensor_name
from quantviz.ui.lab.learning import learn, terms_of
from quantviz.ui.lab.numbers.tiles import show_numbers, tiles
from quantviz.ui.lab.picture.tensor_panels import (
    PANELS_KEY,
    block_words,
    error_end,
    height_to_come,
    show_error_choices,
    show_tensor_panels,
    show_value_choices,
    show_worst,
    whole_panels,
)
from quantviz.ui.lab.sidebar.nonfinite import found_in, show_choice, show_note
from quantviz.ui.lab.sidebar.sidebar import show_sidebar
from quantviz.ui.lab.stage import Stage, comparing, fill_stage, has_hand, lit_in_view, show_stage
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.address import keep_place
from quantviz.ui.shell.bounds import HEAVY_ELEMENTS
from quantviz.ui.shell.classroom import classroom, embedded, is_open, visible
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.long_work import prepare
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, say, say_error, shape_text, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.evaluation.histogram_bins import HistogramData
    from quantviz.figures.panels_data import PanelsData
    from quantviz.quantization.result import QuantResult

#: Blocks up to which the scales are listed without asking.
_FEW_BLOCKS = 16
#: Blocks that are listed at most.
_MOST_LISTED = 10_000


# ---- histograms, scales -------------------------------------------------------------------------


def _show_histograms(study: Study, state: LabState) -> None:
    """Show x over the grid, and the error in steps: two more charts make a change of the scheme take a third
    longer in the browser, and a large tensor takes one more pass for them.
    """
    from quantviz.figures.histograms import HISTOGRAM_CONFIG, histogram_figure

    seen = "" if scope_of(state) == "tensor" else state.view.index_of(study.shape)
    data = kept(state.source, f"histograms {state.scheme} {seen}", lambda: _histograms(study, state))
    log_counts = bool(st.session_state.get("log_counts"))
    for which, column in zip(("values", "errors"), st.columns(2, gap="medium"), strict=True):
        with column:
            figure = histogram_figure(data, which, language=language(), theme=theme(), log_counts=log_counts)
            show_plot(figure, f"histogram_{which}", say(f"below.histogram_{which}"), config=HISTOGRAM_CONFIG)
    st.toggle(say("below.log_counts"), key="log_counts")


def _histograms(study: Study, state: LabState) -> HistogramData:
    """Show the histograms of the cells that the tiles count."""
    import torch

    from quantviz.figures.histograms import histogram_data

    index = state.view.index_of(study.shape)
    if scope_of(state) == "tensor":
        return study.survey.histograms if study.result is None else histogram_data(study.result)
    if study.result is None:
        return histogram_data(study.part(index))
    mask = torch.zeros(study.shape, dtype=torch.bool)
    mask[index] = True
    return histogram_data(study.result, mask)


def _show_scales(study: Study, state: LabState) -> None:
    """Scale and zero point of each block."""
    columns = {name: values[:_MOST_LISTED] for name, values in study.scales(_MOST_LISTED).items()}
    # The place in the tensor is clearer than that in the grid of blocks, an axis each.
    axes = range(len(study.layout.grid_shape))
    grid = zip(*(columns.pop(f"axis_{axis}") for axis in axes), strict=True)
    places = [block_words(study.layout, study.shape, state.view, block) for block in grid]
    table = {"block": columns.pop("block"), "place": places, **columns}
    forms = dict.fromkeys(("block", *columns), "%.6g")
    st.dataframe(
        numbers_written(table, forms),
        key="scales_table",
        hide_index=True,
        row_height=29,
        column_config={
            "place": st.column_config.TextColumn(say("places.columns.index")),
            **{
                name: number_column(say(f"export.column.{name}"), form, len(places))
                for name, form in forms.items()
            },
        },
        alt=say("below.scales_alt"),
    )
    count = study.layout.block_count
    if count > _MOST_LISTED:
        key = "below.scales_cut" if study.result else "below.scales_cut_large"
        st.caption(say(key, listed=_MOST_LISTED, count=count))


# ---- metrics ----------------------------------------------------------------------------------------


def _show_metrics(study: Study, state: LabState) -> None:
    """Show every metric with its meaning: some take a pass over a large tensor."""
    from quantviz.evaluation.metric_formulas import METRICS

    found = study.metrics
    rows = [
        (say(f"metrics.{name}.name"), found[name], each.unit, say(f"metrics.{name}.help"))
        for name, each in METRICS.items()
    ]
    st.dataframe(
        {
            "metric": [name for name, _, _, _ in rows],
            "value": [number(100 * value if unit == "share" else value, 6) for _, value, unit, _ in rows],
            "unit": [say(f"metrics.units.{unit or 'none'}") for _, _, unit, _ in rows],
            "meaning": [meaning for _, _, _, meaning in rows],
        },
        key="metrics_table",
        hide_index=True,
        row_height=29,
        height="content",
        column_config={
            name: st.column_config.TextColumn(
                say(f"metrics.{name}"), alignment="right" if name == "value" else "left"
            )
            for name in ("metric", "value", "unit", "meaning")
        },
        alt=say("metrics.alt"),
    )
    file = file_name(state.source, state.scheme, "metrics.csv")
    offer_file("metrics.csv", lambda: metrics_csv(found), file, "download_metrics")


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

    lines = python_lines(state, language=language())
    copy_button("copy_python", say("below.copy_python"), say("lab.copied"), text=lines)
    show_python(say("below.python"), "python", lambda: lines)


def _data(study: Study, state: LabState) -> None:
    from quantviz.analysis.study import Study
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
        offer_file(
            f"below.{ending}",
            lambda write=write: write(exported()),  # type: ignore[misc]
            file_name(state.source, state.scheme, ending),
            f"download_{ending}",
            problem=say("below.too_many", most=most) if count > most else "",
            help=say("below.of_the_slice") if result is None else None,
        )
    title = f"{state.source.title(language())} · {shape_text(study.shape)}"
    # They show everything: also what a teacher has hidden.
    if all(map(visible, HIDEABLE)) and result is not None:
        make = partial(notebook_text, state, title, language=language())
        offer_file("below.notebook", make, file_name(state.source, state.scheme, "ipynb"), "download_ipynb")
    if is_open():
        # The page is made when it is asked for, when the session's own cache is not at hand.
        own = study if study.result is None or study.of_file else Study.of_result(study.result)
        page = LivePage(own, title, state.cell, Looks(language(), theme()))
        file = file_name(state.source, state.scheme, "html")
        show_save_page(page, file, "download_html", "below.page_help")


def _pictures(state: LabState, study: Study, chart: str, whole: Callable[[], PanelsData]) -> None:
    """Show the panels as files that need no browser."""
    figure = None
    windowed = state.view.size(study.shape) != state.view.matrix(study.shape)
    if windowed and st.session_state.get("picture_whole", False):
        from quantviz.figures.panels import panels_figure

        # As the page has it side by side, on a phone too.
        figure = panels_figure(whole(), PanelsStyle(language(), theme())).to_json()  # type: ignore[no-untyped-call]
    for ending in ("png", "svg"):
        picture_button(f"picture_{ending}", say(f"below.picture_{ending}"), chart, ending, figure)
    if windowed:
        st.toggle(say("below.picture_whole"), key="picture_whole", help=say("below.picture_whole_help"))


#: The controls whose links are in their help, and those of *More*.
_HELPED = ("format", "bits", "mode", "granularity", "convention", "value_scale", "error")


@dataclass(frozen=True, eq=False)
class Areas:
    """Places of the parts that are filled after the frame was painted."""

    #: Contents of *Share* and *More*; None where they are not shown.
    share: Any
    more: Any
    numbers: Any
    #: The bridge stands before the panels: on a phone it shows the switch between them.
    bridge: Any
    panels: Any
    stage: Stage


def show_controls(state: LabState) -> Areas:
    """Show title, scheme, sidebar and the empty frame: without torch, but for a tensor from a file."""
    # There for every tensor: the parts below it keep their place while one is opened.
    opening = st.container(key="opening")
    if not state.source.finite:
        with opening:
            _open(state)
    st.html(Path(__file__).with_name("lab.css"))
    name_tab(say("pages.lab"), tensor_name(state))
    alone = classroom().projector or embedded()
    share, more = (None, None) if alone else show_title(state)
    with st.container(key="problems"):
        show_page_errors(*session.OWNER.problems)
        if errors.page_errors():
            show_choice("page")
    show_prompt()
    show_sidebar(state)
    if visible("scheme"):
        show_scheme(state, changes=classroom().projector)
    # An empty container has no place on the page: what comes after it would move when it is filled.
    numbers = st.container(key="numbers")
    if any(map(visible, GROUPS["tiles"])):
        numbers.empty()
    bridge = st.container(key="bridge")
    bridge.empty()
    panels = st.container(key=PANELS_KEY)
    if "lab_painted" not in st.session_state:
        panels = panels.skeleton(height=height_to_come(state))
        st.session_state["lab_painted"] = True
    stage = show_stage(state)
    warm_up()
    return Areas(share, more, numbers, bridge, panels, stage)


def _open(state: LabState) -> None:
    """Open a tensor that lies in a file or with a hub, and go back to the one before where that fails."""
    try:
        with st.spinner(say("lab.reading"), show_time=True):
            found_in(state.source)
    except QuantVizError as error:
        session.refuse(error)
        st.session_state[session.KIND_CHOSEN] = state.source.kind
        st.rerun()


def show_result(state: LabState, areas: Areas) -> Study:
    """Show numbers, panels and stage of the state's tensor under its scheme."""
    if math.prod(state.source.shape) >= HEAVY_ELEMENTS:
        prepare()
    try:
        with _working(state):
            study = study_of(state)
            why = study.explain(state.cell)
            # An engine's own infinities are found where all of the tensor is looked at.
            found = tiles(study, state)
    except QuantVizError as error:
        session.refuse(error)
        st.rerun()
    session.accept()
    _remember_facts(study, why)
    end = error_end(study, state) if visible("error") else None
    compared = comparing(state, areas.stage)
    lit = lit_in_view(state, areas.stage, compared)
    panels = show_tensor_panels(study, state, end, areas.bridge, areas.panels, lit)
    with areas.numbers:
        show_numbers(found, state)
    fill_stage(study, why, state, areas.stage, compared, panels)
    tensor = TensorTraits(study.x.dtype, finite=not study.facts.nonfinite)
    for note in (*session.mended_since(tensor), *study.notes, *notes_of(state.source)):
        show_note(note)
    return study


@contextlib.contextmanager
def _working(state: LabState) -> Iterator[None]:
    """Show the name of the work, where that takes longer than half a second."""
    work = f"{state.source.key} {state.scheme}"
    if not state.large or st.session_state.get("lab_worked") == work:
        yield
        return
    from quantviz.streaming import readiness

    scheme = state.scheme.on_input(stored_of(state.source).dtype)
    shape = state.source.shape
    compiles = not scheme.problems(shape) and readiness.compiles(scheme, shape, by_axis=True)
    words = say("lab.compiling" if compiles else "lab.reading")
    with st.container(key="working"), st.spinner(words, show_time=True):
        yield
    st.session_state["lab_worked"] = work


def _remember_facts(study: Study, why: Any) -> None:
    """Remember the start of a range set by hand: the tensor's ends, the block's scale and zero point."""
    lo = study.facts.lo
    ends = {"lo": lo, "hi": study.facts.hi if study.facts.hi > lo else lo + 1.0}
    block = {"scale": abs(why.scale) or 1.0, "zero_point": round(why.zero_point)}
    st.session_state[session.FACTS] = ends | block


def show_below(study: Study, state: LabState, areas: Areas) -> None:
    """Show the contents of *Share* and *More*; below the fold the worst cells, histograms and scales."""
    if areas.share is not None:
        with areas.share:
            show_share(study, state, PANELS_KEY, lambda: whole_panels(study, state))
    if areas.more is not None:
        with areas.more:
            _more(state)
    if has_hand(study, state, areas.stage):
        show_answers(study, state)
    if visible("below"):
        count = study.layout.block_count
        scales = say("below.scales", count=count)
        show_folded(say("places.worst"), "worst", show_worst, study, state)
        show_folded(say("below.histograms"), "histograms", _show_histograms, study, state)
        show_folded(scales, "scales", _show_scales, study, state, expanded=1 < count <= _FEW_BLOCKS)
        if all(map(visible, TILE_PARTS)):  # a class guesses the hidden numbers
            show_folded(say("metrics.title"), "metrics", _show_metrics, study, state)
        st.caption(say("lab.purpose"))
        if state.large:
            st.caption(say(f"lab.paths.{_way(study)}", count=study.x.count))


def _way(study: Study) -> str:
    """Return the path by which a large tensor was measured, or the reason why not by compiled code."""
    from quantviz.streaming.readiness import why_not_compiled

    path = study.measured.path
    return why_not_compiled(study.scheme, study.shape) if path == "chunked" else path


def _more(state: LabState) -> None:
    """Show the controls that are rarely needed."""
    if visible("actions"):
        show_button(say("lab.reset"), "reset", session.reset, help=say("lab.reset_help"))
    if visible("x") or visible("x_hat"):
        show_value_choices(state)
    if visible("error"):
        show_error_choices(state)
    # For users of the keyboard, who cannot reach the text of a help.
    st.caption(learn(*(term for control in _HELPED for term in terms_of(control))))


def show_link() -> None:
    """Write the address bar, have the browser keep the place, and list the parts that a link cannot carry."""
    problem = session.write_address()
    if problem:
        st.info(say_error(problem))
    elif not (classroom().projector or embedded()):
        keep_place("lab", tensor_name(session.state()), st.query_params.to_dict())
