"""The sidebar: the tensor, also a typed one, its slice, whose arithmetic, the range, the language."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import MOST_CELLS
from quantviz.lab.controls import calibrations, with_calibration
from quantviz.lab.scenarios import SCENARIOS, scenario_of
from quantviz.lab.state import LabState, opening
from quantviz.schemes.calibration import FLOAT32_EXACT_INTEGER, Given, ManualRange, Percentile
from quantviz.schemes.orientation import MOST_WEIGHT_AXES, Orientation
from quantviz.sources import SOURCES, AsMatrix, Builtin, Source
from quantviz.sources.builtin import BUILTINS
from quantviz.sources.hubs.hosts import hubs_offered
from quantviz.sources.local import folder_offered
from quantviz.sources.tensor_text import parse_tensor
from quantviz.sources.typed import Typed
from quantviz.tensors.views import View
from quantviz.text import templates
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.component import written
from quantviz.ui.components.controls import (
    Control,
    choice_control,
    choose_among,
    number_control,
    show_controls,
)
from quantviz.ui.components.page_header import show_language
from quantviz.ui.components.scheme_words import calibration_words
from quantviz.ui.components.small_parts import error_beside, show_button, show_error_beside, term
from quantviz.ui.components.tensor_cache import tensor_of
from quantviz.ui.lab.bars.scheme_bar import show_arithmetic
from quantviz.ui.lab.learning import learn, learn_address, terms_of
from quantviz.ui.lab.sidebar.files import catalog_beside, show_file, show_folder, show_hub, show_image
from quantviz.ui.lab.sidebar.nonfinite import heeded, show_choice, show_nonfinite, take
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.words import language, number, plain, say, say_axis, say_error, shape_text

#: The largest side whose cells can be edited in place.
EDITABLE = 16

_TEXT = "typed_text"
_BASE = "cells_base"
_VERSION = "cells_version"

#: Edited cells that are named.
_NAMED = 4


def start_typing() -> None:
    """Begin with a copy of the tensor at hand where it is small, else with a small example."""
    now = session.state()
    small = math.prod(now.source.shape) <= EDITABLE * EDITABLE
    typed = Typed.of(tensor_of(now.source).tolist()) if small else Typed.of([[0.5, -1.25], [2.0, 0.75]])
    kept = now.replace(source=typed, held=None) if small else now.with_source(typed)
    session.put(kept)


def show_typed(state: LabState) -> None:
    """Show the text, and below it the cells while they are few."""
    typed = state.source.original
    if not isinstance(typed, Typed):
        return
    if error_beside(_TEXT) is None and st.session_state.get("typed_shown") != typed:
        st.session_state[_TEXT] = typed.to_text()
        st.session_state["typed_shown"] = typed
    fixed = locked("tensor")
    st.text_area(
        say("typed.label"),
        key=_TEXT,
        height=120,
        on_change=errors.safely(_read),
        help=say("typed.help"),
        disabled=fixed,
    )
    _complaint()
    if len(typed.shape) <= 2 and max(typed.shape) <= EDITABLE and not fixed:
        _cells(typed)


def _read(decimal_comma: bool | None = None) -> None:
    with errors.caught_beside(_TEXT):
        typed = parse_tensor(st.session_state[_TEXT], decimal_comma=decimal_comma)
        take(session.state().with_source(typed))
        # An ambiguous decimal comma is shown as it was read; else the text stays as it was typed.
        st.session_state["typed_shown"] = typed if decimal_comma is None else None


def _complaint() -> None:
    error = error_beside(_TEXT)
    if not error:
        return
    st.error(say_error(error))
    show_choice("typed")
    if error.key == "typed.comma_ambiguous":
        with st.container(horizontal=True):
            show_button(say("typed.decimal_comma"), "typed_decimal", _read, True)
            show_button(say("typed.separating_comma"), "typed_separating", _read, False)


# ---- cells --------------------------------------------------------------------------------------


def _cells(typed: Typed) -> None:
    """Show a grid of cells; edits are laid over a base, so that typing on keeps the place in the grid."""
    base = st.session_state.get(_BASE)
    if base is None or _edited(base, _edits(base)) != typed:
        base = st.session_state[_BASE] = typed
        st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    rows = typed.shape[0] if len(typed.shape) == 2 else 1
    cols = typed.shape[-1]
    st.data_editor(
        {str(col): [base.values[row * cols + col] for row in range(rows)] for col in range(cols)},
        key=_editor_key(),
        on_change=errors.safely(_take_edits),
        hide_index=True,
        num_rows="fixed",
        column_config={
            str(col): st.column_config.NumberColumn(width=56, format="%.6g") for col in range(cols)
        },
        alt=say("typed.cells"),
    )


def _editor_key() -> str:
    return f"cells_{st.session_state.get(_VERSION, 0)}"


def _edits(base: Typed) -> Mapping[int, Mapping[str, float | None]]:
    """Return the edits of a base: the numbers by row and column."""
    rows, cols = (1, *base.shape)[-2:]
    columns = frozenset(map(str, range(cols)))

    def fits(lines: Mapping[int, Mapping[str, object]]) -> bool:
        numbers = (value for changed in lines.values() for value in changed.values())
        return all(row < rows and changed.keys() <= columns for row, changed in lines.items()) and not any(
            isinstance(value, str) for value in numbers
        )

    return written(_editor_key(), fits)


def _take_edits() -> None:
    with errors.caught_beside(_TEXT):
        base = st.session_state[_BASE]
        new = _edited(base, _edits(base))
        now = session.state()
        if new == now.source:  # a cell was emptied: a tensor has no holes, so it shows its value again
            st.session_state[_BASE] = None
        else:
            session.put(now.replace(source=new, held=None))


def _edited(base: Typed, edits: Mapping[int, Mapping[str, float | None]]) -> Typed:
    values = list(base.values)
    cols = base.shape[-1]
    for row, changed in edits.items():
        for col, value in changed.items():
            # A cell that was emptied keeps its value: a tensor has no holes.
            if value is not None:
                values[row * cols + int(col)] = value
    return Typed(tuple(values), base.shape)


def show_edits(state: LabState) -> None:
    """Say which cells were set by hand, with a button that puts their values back; nothing where none was."""
    edits = state.source.edits
    if not edits:
        return
    cells = say("edited.comma").join(
        say("edited.cell", place=", ".join(map(str, cell)), value=number(value, 7))
        for cell, value in edits[:_NAMED]
    )
    key = "edited.all" if len(edits) <= _NAMED else "edited.first"
    st.caption(plain(say(key, count=len(edits), cells=cells)))
    fixed = locked("tensor")
    show_button(say("edited.put_back"), "put_back", _put_back, disabled=fixed, width="stretch")


def _put_back() -> None:
    now = session.state()
    session.put(now.replace(source=now.source.unedited))


#: Characters of a name that are shown.
_LONGEST_NAME = 80
_RANDOM = tuple(name for name, source in SOURCES.items() if source.kind == "random")
#: Kinds of tensors that lie in a file.
_OF_FILES = ("file", "folder", "hub")
#: Calibrations whose numbers can be set by hand.
BY_HAND = (ManualRange, Given, Percentile)
_COURSE = tuple(name for name in BUILTINS if name.startswith("course_"))


def show_sidebar(state: LabState) -> None:
    """Show tensor, slice, arithmetic, range and language."""
    with st.sidebar:
        if visible("tensor"):
            st.markdown(f"## {say('sidebar.tensor')}")
            _tensor(state)
            show_lock("tensor")
            _slice(state)
        if visible("scheme"):
            show_arithmetic(state)
        if visible("range"):
            show_range(state)
        show_language()


# ---- tensor -------------------------------------------------------------------------------------


def _tensor(state: LabState) -> None:
    own = state.replace(source=state.source.unedited)
    kind = st.session_state.get(session.KIND_CHOSEN) or (
        "scenario" if scenario_of(own.source) else own.source.kind
    )
    kinds = (each for each in KINDS if each not in OFFERED or OFFERED[each]())
    _tensor_choice("source", {name: say(f"sidebar.kinds.{name}") for name in kinds}, "kind", kind, _set_kind)
    KINDS[kind](own)
    # As HTML: a file's name is untrusted text, and Markdown would make links of texts that look like one.
    name = html.escape(state.source.title(language())[:_LONGEST_NAME])
    stored_as = state.source.stored_as
    decoded = f" · {html.escape(stored_as)} → float32" if stored_as else ""
    shape = term(
        _shape(state),
        say("glossary.tensor.meaning"),
        key="tensor",
        more=(say("glossary.learn", terms=say("glossary.tensor.name")), learn_address("tensor")),
    )
    st.html(f'<p class="qv-name"><b>{shape}</b> · <bdi>{name}</bdi>{decoded}</p>')
    show_edits(state)


def _shape(state: LabState) -> str:
    """Return the tensor's shape, and the shape that it is seen in."""
    source = state.source
    own = shape_text(source.original.shape)
    return own if source.original is source else f"{own} → {shape_text(source.shape)}"


def _tensor_choice(
    name: str, words: Mapping[str, str], key: str, value: str | None, change: Callable[[str], None]
) -> None:
    """Show a choice among tensors or their kinds; its label is for screen readers alone."""
    label = say(f"sidebar.{name}")
    choose_among(key, "list", label, words, value, change, lock="tensor", look="qv-unnamed")


def _set_kind(kind: str) -> None:
    """Change the kind of source and its controls; a kind with a usual tensor loads it at once."""
    st.session_state[session.KIND_CHOSEN] = kind if kind in ("image", "file", *OFFERED) else None
    if kind == "scenario":
        session.put(opening())
    elif kind == "course":
        session.put_source(Builtin("course_randn_3x3"))
    elif kind == "random":
        session.put_source(SOURCES[_RANDOM[0]]())
    elif kind == "typed":
        start_typing()


def _scenario(state: LabState) -> None:
    def take(name: str) -> None:
        session.put(opening(name))

    words = {name: say(f"scenarios.{name}.name") for name in SCENARIOS}
    _tensor_choice("scenario", words, "scenario", scenario_of(state.source), take)


def _course(state: LabState) -> None:
    def take(name: str) -> None:
        session.put(state.with_source(Builtin(name)))

    words = {name: say(f"sources.builtin.{name}.name") for name in _COURSE}
    now = state.source.name if isinstance(state.source, Builtin) else _COURSE[0]
    _tensor_choice("course", words, "course", now, take)


def _random(state: LabState) -> None:
    source = state.source
    words = {name: say(f"sources.{name}.name") for name in _RANDOM}
    now = source.id if source.id in words else _RANDOM[0]
    _tensor_choice("distribution", words, "distribution", now, _set_distribution)
    fields = sorted(dataclasses.fields(source), key=lambda field: field.name != "seed")  # type: ignore[arg-type]
    show_controls("random_fields", None, *(_random_field(source, field) for field in fields), look="qv-pairs")
    show_error_beside("random")


def _random_field(source: Any, field: dataclasses.Field[Any]) -> Control:
    limits = source.limits[field.name]
    return number_control(
        f"random_{field.name}",
        say(f"source_fields.{field.name}"),
        getattr(source, field.name),
        partial(_set_random, field.name),
        whole="int" in str(field.type),
        lowest=limits.lowest,
        highest=limits.highest,
        lock="tensor",
        wrong="random" in errors.input_errors(),
    )


def _set_distribution(name: str) -> None:
    now = session.state().source.unedited
    wanted = SOURCES[name]
    fields = {field.name for field in dataclasses.fields(wanted)} & {"rows", "cols", "seed"}
    same = {field: getattr(now, field) for field in fields if hasattr(now, field)}
    session.put(session.state().with_source(wanted(**same)))


def _typed(place: str, name: str, value: float) -> dict[str, float]:
    """Return a number that was typed in a `place`, with those beside it that were refused so far."""
    typed: dict[str, float] = st.session_state.setdefault(f"{place}_typed", {})
    if place not in errors.input_errors():
        typed.clear()
    typed[name] = value
    return dict(typed)


def _set_random(name: str, value: float) -> None:
    now = session.state().source.unedited
    if not hasattr(now, name):  # it was typed for another kind of tensor
        return
    typed = _typed("random", name, value)
    with errors.caught_beside("random"):
        new: Source = dataclasses.replace(cast("Any", now), **typed)
        for problem in new.problems():
            raise problem
        session.put(session.state().with_source(new))


#: The controls for each kind of source, in the order they are offered. A source has its kind as a field.
KINDS: Mapping[str, Callable[[LabState], None]] = {
    "scenario": _scenario,
    "course": _course,
    "random": _random,
    "typed": show_typed,
    "image": show_image,
    "file": show_file,
    "folder": show_folder,
    "hub": show_hub,
}
#: Kinds that the server's operator has to allow, each with a test whether it is allowed.
OFFERED: Mapping[str, Callable[[], bool]] = {"folder": folder_offered, "hub": hubs_offered}


# ---- slice --------------------------------------------------------------------------------------


def _slice(state: LabState) -> None:
    shape = state.source.shape
    view = state.view
    # A tensor of five axes is quantized only as a matrix.
    if 2 < len(state.source.original.shape) < MOST_WEIGHT_AXES:
        choose_among(
            "seen_as",
            "row",
            say("sidebar.seen_as"),
            {name: say(f"sidebar.seen_as_{name}") for name in ("matrix", "axes")},
            "axes" if state.source.original is state.source else "matrix",
            _set_seen_as,
            lock="tensor",
            help=say("sidebar.seen_as_help"),
        )
    _outputs(state)
    if len(shape) > 2:
        axes = {axis: say_axis(state.source, axis) for axis in range(len(shape))}
        shown = [
            choice_control(
                f"view_{name}",
                "list",
                say(f"sidebar.{name}"),
                axes,
                getattr(view, name),
                partial(_set_axes, name, other),
            )
            for name, other in (("rows", "cols"), ("cols", "rows"))
        ]
        shown += [
            number_control(
                f"view_at_{axis}",
                words,
                view.at[axis],
                partial(_set_at, axis),
                lowest=0,
                highest=shape[axis] - 1,
            )
            for axis, words in axes.items()
            if axis not in (view.rows, view.cols)
        ]
        show_controls("view_axes", None, *shown, look="qv-pairs")
    _window(state)


def _window(state: LabState) -> None:
    """Show the window of a large matrix as numbers, as an alternative to dragging."""
    view = state.view
    shape = state.source.shape
    matrix = view.matrix(shape)
    size = view.size(shape)
    if max(matrix) <= MOST_CELLS and size == matrix:
        return
    with st.expander(say("sidebar.window", rows=size[0], cols=size[1]), key="window_expander"):
        fields = (
            ("top", view.top, 0, matrix[0] - 1),
            ("height", size[0], 1, matrix[0]),
            ("left", view.left, 0, matrix[1] - 1),
            ("width", size[1], 1, matrix[1]),
        )
        controls = (
            number_control(
                f"view_{name}",
                say(f"sidebar.{name}"),
                now,
                partial(_set_window, name),
                lowest=lowest,
                highest=highest,
            )
            for name, now, lowest, highest in fields
            if lowest < highest
        )
        show_controls("view_window", None, *controls, look="qv-pairs")


def _outputs(state: LabState) -> None:
    """Choose which axis of a weight in a file has the output channels, where it is seen as a matrix."""
    own = state.source.original
    as_axes = len(own.shape) > 2 and state.source is own
    if own.kind not in _OF_FILES or len(own.shape) < 2 or own.picture or as_axes:
        return
    now = state.source.orientation
    stacked = [(0, 1), (0, 2)] if len(own.shape) == 3 else []
    offered = [Orientation(axes).text for axes in (*((axis,) for axis in range(len(own.shape))), *stacked)]
    words = {form: say("sidebar.outputs_axis", axes=form.replace(".", ", ")) for form in (*offered, now.text)}
    label = say("sidebar.outputs")
    about = say("sidebar.outputs_help")
    choose_among("outputs", "list", label, words, now.text, _set_outputs, lock="tensor", help=about)
    if now.is_usual and _is_guessed(own):
        st.caption(say("sidebar.outputs_guessed"))


def _is_guessed(own: Source) -> bool:
    """Return whether the axis of a tensor's outputs is a guess, since its file does not contain it."""
    try:
        orientation = own.file_orientation(catalog_beside(own))
    except QuantVizError:
        return False  # the problem with the file is shown where it is opened
    return orientation is not None and orientation.by == "guess"


def _set_outputs(form: str) -> None:
    own = session.state().source.original
    wanted = Orientation.parse(form)
    assert wanted
    _see_as(own if wanted.is_usual and len(own.shape) == 2 else AsMatrix(own, wanted.outputs))


def _set_seen_as(name: str) -> None:
    own = session.state().source.original
    _see_as(AsMatrix(own) if name == "matrix" else own)


def _see_as(new: Source) -> None:
    """Show the same tensor, and the same cell of it, in its own axes or as another matrix."""
    now = session.state()
    if new == now.source:
        return
    cell = new.cell_of(now.source.place_of(now.cell))
    seen = now.with_source(new)
    session.put(seen.replace(cell=cell, view=seen.view.showing(cell, new.shape), held=now.held))


def _set_axes(changed: str, other: str, wanted: int) -> None:
    view = session.state().view
    axes = {changed: wanted, other: getattr(view, other)}
    if axes[other] == wanted:  # the other one takes the place that was left
        axes[other] = getattr(view, changed)
    _look(dataclasses.replace(view, **axes, top=0, left=0, height=None, width=None))


def _set_at(axis: int, place: int) -> None:
    view = session.state().view
    at = tuple(place if i == axis else n for i, n in enumerate(view.at))
    _look(dataclasses.replace(view, at=at))


def _set_window(name: str, value: int) -> None:
    now = session.state()
    shape = now.source.shape
    rows, cols = now.view.size(shape)
    asked = {"top": now.view.top, "left": now.view.left, "height": rows, "width": cols, name: value}
    top, left, height, width = asked.values()
    session.look(now.view.window(top, left, height, width, shape))


def _look(view: View) -> None:
    """Look at another matrix of the tensor; the selected cell goes along into it."""
    now = session.state()
    if not view.fits(now.source.shape):  # it was requested before the tensor changed
        return
    row, col = now.view.place(now.cell) or (0, 0)
    rows, cols = view.matrix(now.source.shape)
    session.look(view, view.index(min(row, rows - 1), min(col, cols - 1)))


# ---- range --------------------------------------------------------------------------------------


def range_words(state: LabState) -> str:
    """Return the range in one line, with the choice for NaN and Inf where there is one."""
    return _beside_nonfinite(calibration_words(state.scheme.calibration), state)


def range_lines(state: LabState) -> dict[str, str]:
    """Return the same line with its braces for each calibration whose numbers a hand sets, by its id."""
    lines = {kind.id: templates(f"calibrations.{kind.id}", language())["line"] for kind in BY_HAND}
    return {name: _beside_nonfinite(line, state) for name, line in lines.items()}


def _beside_nonfinite(chosen: str, state: LabState) -> str:
    if not heeded(state):
        return chosen
    return say("nonfinite.beside", range=chosen, choice=say(f"nonfinite.{state.scheme.nonfinite}.name"))


def show_range(state: LabState) -> None:
    """Show the range, which unfolds into its controls."""
    calibration = state.scheme.calibration
    chosen = plain(range_words(state))
    with st.expander(
        say("app.labelled", name=say("sidebar.range"), value=f"**{chosen}**"), key="range_expander"
    ):
        control = Control(
            "calibration",
            "list",
            say("sidebar.range"),
            value=calibration.id,
            choices={name: say(f"calibrations.{name}.name") for name in calibrations(state)},
            disabled=locked("range"),
            take=_set_calibration,
        )
        show_controls("calibration", session.OWNER, control, look="qv-unnamed")
        st.caption(plain(say(f"calibrations.{calibration.id}.help")))
        show_lock("range")
        of = dataclasses.fields(calibration)  # type: ignore[arg-type]
        show_controls("range_fields", None, *(_range_field(state, field) for field in of))
        show_nonfinite(state)
        show_error_beside("range")
        fields = (f"range_{field.name}" for field in dataclasses.fields(calibration))  # type: ignore[arg-type]
        st.caption(learn(*(each for key in ("calibration", *fields) for each in terms_of(key))))


def _range_field(state: LabState, field: dataclasses.Field[Any]) -> Control:
    calibration = state.scheme.calibration
    zero_point = field.name == "zero_point"
    value = getattr(calibration, field.name)
    label = say(f"calibrations.{calibration.id}.fields.{field.name}")
    key = f"range_{field.name}"
    take = partial(_set_range, field.name)
    if isinstance(value, bool):
        fixed = locked("range")
        shown = "1" if value else ""
        return Control(key, "switch", label, value=shown, disabled=fixed, take=lambda form: take(form == "1"))
    # A zero point is a code or a value, as the convention has it.
    whole = state.scheme.arithmetic.zero_domain == "code_int" if zero_point else field.type in ("int", int)
    fixed = zero_point and state.scheme.mode == "symmetric"
    return number_control(
        key,
        label,
        int(value) if whole else float(value),
        take,
        whole=whole,
        # The scheme checks all else.
        lowest=-FLOAT32_EXACT_INTEGER if whole else None,
        highest=FLOAT32_EXACT_INTEGER if whole else None,
        lock="range",
        disabled=fixed or locked("range"),
        help=say("calibrations.given.fields.zero_point_symmetric") if fixed else "",
        wrong="range" in errors.input_errors(),
    )


def _set_calibration(name: str) -> None:
    """Start another calibration from the tensor's ends, or from the selected cell's scale and zero point."""
    known = st.session_state.get(session.FACTS, {})
    if name not in calibrations(session.state()):
        return
    with errors.caught_beside("range"):
        session.put_scheme(calibration=with_calibration(session.state(), name, known).calibration)


def _set_range(name: str, value: float) -> None:
    calibration = session.state().scheme.calibration
    # Not one that was shown with another calibration.
    if hasattr(calibration, name) and not locked("range"):
        typed = _typed("range", name, value)
        with errors.caught_beside("range"):
            session.put_scheme(calibration=dataclasses.replace(cast("Any", calibration), **typed))
