"""The Lab page, one screen: title, scheme, numbers, panels and the stage; then the part below the fold.

The controls and the frame are painted before anything heavy is imported; then the panels, which a
change is waited for; then the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.evaluation.tables import PartPosition, as_csv, as_npz, metrics_csv
from quantviz.export.files import file_name, notebook_text, python_lines, scope_of
from quantviz.figures.arrangement import PanelsStyle
from quantviz.lab.classroom import GROUPS, HIDEABLE
from quantviz.lab.controls import (
    CONTROLS,
    bits_choice,
    calibrations,
    choice_of,
    chosen_granularity,
    with_calibration,
)
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.live.hand_payload import describe_variants, is_light
from quantviz.live.hand_words import Looks
from quantviz.schemes.arithmetic_changes import TensorTraits
from quantviz.schemes.calibration import Given
from quantviz.schemes.conventions import CHOICES
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import current_recipe
from quantviz.schemes.scheme import NONFINITE, Scheme
from quantviz.tensors.views import MOST_PART
from quantviz.ui.components.classroom_signs import show_prompt
from quantviz.ui.components.clipboard import copy_button, picture_button, show_copy_link
from quantviz.ui.components.controls import opened_list, show_controls
from quantviz.ui.components.phone_tables import number_column, numbers_written
from quantviz.ui.components.small_parts import (
    offer_file,
    show_folded,
    show_page_errors,
    show_plot,
    show_python,
    show_save_page,
)
from quantviz.ui.components.tensor_cache import kept, notes_of, stored_of, study_of
from quantviz.ui.lab.bars.scheme_bar import OWN, RULES, show_scheme, with_rule
from quantviz.ui.lab.bars.title_line import show_title, tensor_name
from quantviz.ui.lab.numbers.tiles import show_numbers, tiles
from quantviz.ui.lab.picture.tensor_panels import (
    PANELS_KEY,
    block_words,
    error_end,
    height_to_come,
    show_tensor_panels,
    show_worst,
    whole_panels,
)
from quantviz.ui.lab.sidebar.nonfinite import NOTE, found_in, heeded, note_of, show_choice, show_note
from quantviz.ui.lab.sidebar.sidebar import BY_HAND, range_lines, range_words, show_sidebar
from quantviz.ui.lab.stage import Stage, comparing, fill_stage, has_hand, lit_in_view, show_stage
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.address import keep_place
from quantviz.ui.shell.bounds import HEAVY_ELEMENTS
from quantviz.ui.shell.classroom import classroom, embedded, is_open, left_out, locked, visible
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.long_work import prepare
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, say, say_error, shape_text, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.evaluation.histogram_bins import HistogramData
    from quantviz.quantization.result import QuantResult


_KEY = "answers"
#: The schemes of the choices of each control, by their forms.
_Reached: TypeAlias = dict[str, dict[str, Scheme]]
#: Beginnings of the fields of lists of many schemes, each with a program of its own.
_LONG = ("format", "recipe", "convention", "calibration", "rule_")


@fragment
def show_answers(study: Study, state: LabState) -> None:
    """Send what the controls on the page lead to. It runs by itself when a long list is opened."""
    now = session.state()
    if (now.source, now.scheme) != (state.source, state.scheme):
        return  # the whole page is about to follow
    opened, steps = opened_list(_KEY), _steps(state)
    facts = st.session_state.get(session.FACTS, {})
    # Whoever goes to and fro between two choices asks for the same ones again.
    to_undo = tuple(scheme for each in steps.values() for scheme in each.values())
    room = classroom().locked, left_out(), language()
    key = ("answers", state, opened, tuple(steps), to_undo, tuple(facts.items()), *room)
    answers = kept(state.source, key, lambda: _answers(study, state, opened, steps))
    show_controls(_KEY, None, answers=answers)


def _answers(study: Study, state: LabState, opened: str | None, steps: _Reached) -> dict[str, Any]:
    """Return the schemes that the choices in a page's controls lead to, which the browser shows at once."""
    offered = _offered(state)
    there = {key: each for key, each in offered.items() if key == opened or not key.startswith(_LONG)}
    reached = {key: _reached(key, choices, state) for key, choices in there.items()} | steps
    schemes = dict.fromkeys(each for choices in reached.values() for each in choices.values())
    at_once = (each for each in schemes if _is_at_once(each, study.shape))
    known, programs = describe_variants(at_once, study.shape, study.x.dtype, language=language())
    usual = _words_under(state.scheme, state)
    variants = {
        str(each): {
            **variant,
            "values": tuple(_values_under(each, state).values()),
            "told": dict(_words_under(each, state).items() - usual.items()),
        }
        for each, variant in known.items()
    }
    calibration = {
        "id": state.scheme.calibration.id,
        "numbers": _numbers(state),
        "lines": range_lines(state) if visible("range") else {},
    }
    return {
        # The panels' chart, and the scheme that the choices start from.
        "chart": PANELS_KEY,
        "scheme": str(state.scheme),
        # The controls that follow a scheme, and the words of the page's places under the present one.
        "fields": tuple(_values_under(state.scheme, state)),
        "told": usual,
        # The scheme of each choice, by the control's field and the choice's form; of a button's by "".
        "names": {
            key: {form: str(each) for form, each in choices.items() if each in known}
            for key, choices in reached.items()
        },
        # How the fields of long lists begin; the browser says that one is opened, and gets its choices then.
        "lists": _LONG if offered else (),
        # Its id, its numbers that have fields on the page, and the line of a range set by hand, by its id.
        "calibration": calibration,
        # Programs are made for these.
        "setting": f"{study.shape} {study.x.dtype} {study.nonfinite}",
        # The variant of each scheme with its program, what the fields show under it ("values") and those
        # words that differ ("told").
        "schemes": variants,
        **programs,
    }


def _offered(state: LabState) -> dict[str, Collection[Any]]:
    """Return the choices of each control that is shown and not locked, by its field."""
    offered: dict[str, Collection[Any]] = {}
    if visible("scheme") and not locked("scheme"):
        offered |= {key: control.choices(state) for key, control in CONTROLS.items()}
        offered |= {key: CHOICES[name] for key, name in RULES.items()}
    if visible("range") and not locked("range"):
        offered["calibration"] = calibrations(state)
        offered |= {"nonfinite": NONFINITE} if heeded(state) else {}
    return offered


def _numbers(state: LabState) -> dict[str, float]:
    """Return the numbers of the calibration by the names of their fields, where they can be typed."""
    calibration = state.scheme.calibration
    if not isinstance(calibration, BY_HAND):
        return {}
    return dataclasses.asdict(calibration) if visible("range") and not locked("range") else {}


def _reached(key: str, choices: Collection[Any], state: LabState) -> dict[str, Scheme]:
    """Return the scheme of each choice by its form."""
    found = {}
    for choice in choices:
        with contextlib.suppress(QuantVizError):
            if key == "nonfinite":
                found[choice] = session.fitting(state.scheme.replace(nonfinite=choice))
            else:
                found[str(choice)] = session.reached(_scheme_after(key, choice, state))
    return found


def _scheme_after(key: str, choice: Any, state: LabState) -> Scheme:
    if key == "calibration":
        return with_calibration(state, choice, st.session_state.get(session.FACTS, {}))
    if key in RULES:
        return state.scheme.replace(convention=with_rule(state.scheme.chosen, RULES[key], str(choice)))
    return CONTROLS[key].scheme(state, choice)


def _steps(state: LabState) -> _Reached:
    """Return the schemes of undo and redo, which have no choices."""
    found = {}
    history = session.OWNER.history()
    for name, there in (("undo", history.undo().now), ("redo", history.redo().now)):
        if there == history.now or not visible("actions"):
            continue
        if there.replace(scheme=state.scheme, chosen=state.chosen) == state:
            found[name] = {"": there.scheme}
    return found


def _is_at_once(scheme: Scheme, shape: Shape) -> bool:
    """Return whether a browser quantizes with a scheme within a frame: without a search for a range."""
    calibration = scheme.calibration
    return (calibration.of_values or isinstance(calibration, Given)) and is_light(scheme, shape)


def _values_under(scheme: Scheme, state: LabState) -> dict[str, str]:
    """Return the values of the controls that follow a scheme, by their fields."""
    fmt = scheme.number_format
    return {
        "format": choice_of(fmt),
        "bits": bits_choice(fmt),
        "mode": scheme.mode,
        "granularity": chosen_granularity(state.replace(scheme=scheme)) or "",
        "recipe": current_recipe(scheme, state.source.shape) or OWN,
    }


def _words_under(scheme: Scheme, state: LabState) -> dict[str, str]:
    """Return the range in a line, and the note on NaN and Inf, under a scheme, by their places."""
    there = state.replace(scheme=scheme)
    words = {"range_expander": range_words(there)} if visible("range") else {}
    note = note_of(there)
    return words | ({NOTE: note.message(language())} if note else {})


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


def show_share(study: Study, state: LabState) -> None:
    """Show downloads and links that a teacher has not hidden."""
    if visible("actions"):
        show_copy_link("lab.link")
    if not visible("below"):
        return
    with st.container(key="share_pictures", horizontal=True, gap="small"):
        _pictures(state, study)
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


def _pictures(state: LabState, study: Study) -> None:
    """Show the panels as files that need no browser."""
    figure = None
    windowed = state.view.size(study.shape) != state.view.matrix(study.shape)
    if windowed and st.session_state.get("picture_whole", False):
        from quantviz.figures.panels import panels_figure

        # As the page has it side by side, on a phone too.
        whole = whole_panels(study, state)
        figure = panels_figure(whole, PanelsStyle(language(), theme())).to_json()  # type: ignore[no-untyped-call]
    for ending in ("png", "svg"):
        picture_button(f"picture_{ending}", say(f"below.picture_{ending}"), PANELS_KEY, ending, figure)
    if windowed:
        st.toggle(say("below.picture_whole"), key="picture_whole", help=say("below.picture_whole_help"))


@dataclass(frozen=True, eq=False)
class Areas:
    """Places of the parts that are filled after the frame was painted."""

    #: Contents of *Share*; None where it is not shown.
    share: Any
    numbers: Any
    #: The bridge stands before the panels: on a phone it shows the switch between them.
    bridge: Any
    panels: Any
    stage: Stage


def show_frame(state: LabState) -> Areas:
    """Show title, scheme, sidebar and the empty frame: without torch, but for a tensor from a file."""
    # There for every tensor: the parts below it keep their place while one is opened.
    opening = st.container(key="opening")
    if not state.source.finite:
        with opening:
            _open(state)
    st.html(Path(__file__).with_name("lab.css"))
    name_tab(say("pages.lab"), tensor_name(state))
    alone = classroom().projector or embedded()
    share = None if alone else show_title(state)
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
    return Areas(share, numbers, bridge, panels, stage)


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
    compiles = not scheme.problems(shape) and readiness.compiles(scheme, shape)
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
    """Show *Share* where it is open; below the fold the worst cells, histograms and scales."""
    if areas.share is not None and areas.share.open:
        with areas.share:
            show_share(study, state)
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


def show_link() -> None:
    """Write the address bar, have the browser keep the place, and list the parts that a link cannot carry."""
    problem = session.write_address()
    if problem:
        st.info(say_error(problem))
    elif not (classroom().projector or embedded()):
        keep_place("lab", tensor_name(session.state()), st.query_params.to_dict())
