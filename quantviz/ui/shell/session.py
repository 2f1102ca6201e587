"""The Lab's state in the session: one value, changed in callbacks, written to the address at the end of a
run.

Widgets show the state and change it in their callbacks; nothing is kept in a widget alone. So a
link, a language switch, undo and reset are the same thing: another state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.lab.controls import CONTROLS
from quantviz.lab.scenarios import scenario_of
from quantviz.lab.state import LabState, mended, opening
from quantviz.schemes.granularity import Shape
from quantviz.schemes.mended import AboutTensor
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.tensors.views import View
from quantviz.ui.shell import address, classroom, errors, origin, streamlit_private, undo, widgets
from quantviz.ui.shell.startup import turns
from quantviz.ui.shell.words import language

_STATE = "lab_state"
_ADAPTED = "lab_adapted"
_OPENED = "lab_opened"
_GOOD = "lab_good"
_LINK = "lab_link"
#: The kind of source whose controls are shown although no tensor came from it yet.
KIND_CHOSEN = "kind_chosen"
#: The facts that a range set by hand starts from.
FACTS = "lab_facts"
#: The keys of a workspace, and the pages with one of their own: choices there leave the Lab's as they were.
_IN_WORKSPACE = (
    *(_STATE, _ADAPTED, _OPENED, _GOOD, _LINK, KIND_CHOSEN, FACTS),
    *(*undo.KEYS, *errors.KEYS, *origin.KEYS),
)
_LAB = "lab"
_OWN_WORKSPACES = ("golf",)
#: The workspace of the page on the screen, and the values of the others.
_WORKSPACE = "desk"
_OTHERS = "desks_left"
#: The fields that a scheme is chosen by.
SCHEME_FIELDS = ("format", "mode", "granularity", "calibration", "convention")
#: The errors of NaN and Inf that the scheme refuses.
_NONFINITE = ("input_nonfinite", "input_beyond_float32", "input_beyond_dtype", "input_nothing_finite")


@dataclass(frozen=True)
class Adapted:
    """A change to the scheme that brought others with it."""

    before: Scheme
    after: Scheme
    #: The requested fields; none where another tensor is the reason.
    asked: tuple[str, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """Return the fields that changed without a request."""
        return tuple(
            name
            for name in SCHEME_FIELDS
            if name not in self.asked and getattr(self.before, name) != getattr(self.after, name)
        )


def state() -> LabState:
    """Return the session's state: at first that of the address."""
    current = st.session_state.get(_STATE)
    if current is None:
        with turns().leave():  # a link to a published model may have to ask its hub
            current, problems = LabState.read(dict(st.query_params))
        st.session_state[_LINK] = st.query_params.to_dict()
        st.session_state[_STATE] = st.session_state[_OPENED] = current
        errors.show_above(*problems)
    return cast(LabState, current)


def opened_tensor() -> Source | None:
    """Return the tensor that is open in the Lab, if the session has been there."""
    current = cast("LabState | None", st.session_state.get(_STATE))
    return None if current is None else current.source


def change(**changes: Any) -> None:
    """Replace parts of the state: a step that can be undone."""
    put(state().replace(**changes))


def put(new: LabState) -> None:
    """Take another state, as far as the teacher has not locked it: a step that can be undone."""
    now = state()
    new = _as_locked(new)
    if new != now:
        origin.forget_undone()
        undo.record(now, new)
    _take(new)


def _take(new: LabState) -> None:
    """Make `new` the state, and clear the messages about the one before."""
    if new.source != state().source:
        st.session_state[KIND_CHOSEN] = None
    st.session_state[_STATE] = new
    st.session_state[_ADAPTED] = None
    errors.clear()
    errors.wait(None)


def was_seen() -> bool:
    """Return whether the session has shown the Lab."""
    return _GOOD in st.session_state


def put_from_page(new: LabState, problems: tuple[QuantVizError, ...] = ()) -> None:
    """Take a state from another page, and keep the errors of its link's parts that are not valid."""
    if was_seen():
        put(new)
    else:
        # The Lab was not shown yet: this is its first state, and there is nothing to go back to.
        _take(_as_locked(new))
    errors.show_above(*problems)


def put_in_lab(new: LabState) -> None:
    """Take a state from a page with a desk of its own to the Lab's."""
    _change_workspace(_LAB)
    put_from_page(new)


def lay_out(new: LabState) -> None:
    """Begin with `new`: there is nothing before it to go back to."""
    for name in _IN_WORKSPACE:
        st.session_state.pop(name, None)
    st.session_state[_STATE] = st.session_state[_OPENED] = st.session_state[_GOOD] = new


def put_from_lesson(new: LabState, lesson: str, step: int) -> None:
    """Take the state of a lesson's step, counted from 0, and remember the way back to it."""
    put_from_page(new)
    origin.came_from_lesson(lesson, step, state())


def put_from_map(new: LabState, place: origin.MapPlace) -> None:
    """Take a tensor from a model's map, and remember its place there and the way back."""
    put_from_page(new)
    if state().source == new.source:  # not where a teacher has locked the tensor
        origin.came_from_map(state(), place)


def _as_locked(new: LabState) -> LabState:
    """Return `new` with everything that is locked left as it was, whichever control asks."""
    now = state()
    if classroom.locked("tensor") and new.source != now.source:
        return now  # the rest of it belongs to another tensor
    chosen = now.chosen or now.scheme
    wanted = new.chosen or new.scheme
    kept: dict[str, Any] = {}
    if classroom.locked("scheme"):
        kept |= {name: getattr(chosen, name) for name in ("format", "mode", "granularity", "convention")}
    if classroom.locked("range"):
        kept |= {name: getattr(chosen, name) for name in ("calibration", "nonfinite")}
    if not kept:
        return new
    try:
        scheme = wanted.replace(**kept)
    except QuantVizError:
        if new.source == now.source:
            raise
        scheme = chosen  # another tensor's own range need not go with a locked mode
    return new.with_scheme(scheme)


def look(view: View, cell: Shape | None = None) -> None:
    """Look at another part of the tensor, and select a cell of it. Not a step to undo: looking around must
    not cost the scheme before.
    """
    now = state()
    st.session_state[_STATE] = now.replace(view=view, cell=now.cell if cell is None else cell)


def put_source(source: Source) -> None:
    """Take another tensor; a scenario's tensor brings its whole state."""
    origin.forget()
    name = scenario_of(source)
    if source != state().source:
        put(opening(name) if name else state().with_source(source))
    else:
        put(state())


def put_scheme(**changes: Any) -> None:
    """Change parts of the scheme, as far as it fits the tensor; `QuantVizError` where it cannot be."""
    change(scheme=fitting(state().scheme.replace(**changes)))


def fitting(wanted: Scheme) -> Scheme:
    """Return a scheme for the session's tensor, with everything that is locked left as it was;
    `QuantVizError` where it does not fit.
    """
    now = state()
    scheme = wanted
    if classroom.locked("scheme") or classroom.locked("range"):
        scheme = _as_locked(now.replace(scheme=wanted)).scheme
    for problem in scheme.problems(now.source.shape):
        raise problem
    return scheme


def reached(wanted: Scheme) -> Scheme:
    """Return the session's scheme once `wanted` is chosen, under the present rule for NaN and Inf;
    `QuantVizError` where it cannot be.
    """
    nonfinite = state().scheme.nonfinite
    return fitting(wanted if wanted.nonfinite == nonfinite else wanted.replace(nonfinite=nonfinite))


def _fields(scheme: Scheme) -> dict[str, Any]:
    return {name: getattr(scheme, name) for name in SCHEME_FIELDS}


def adapt_scheme(wanted: Scheme, *asked: str) -> None:
    """Take a scheme of which only the fields `asked` were requested, and remember its other changes;
    `QuantVizError` where it is not valid.
    """
    before = state().scheme
    put_scheme(**_fields(wanted))
    st.session_state[_ADAPTED] = Adapted(before, state().scheme, asked)


def choose(control: str, choice: Any) -> None:
    """Take a choice of one of `CONTROLS`; `QuantVizError` where it is not possible."""
    own = CONTROLS[control]
    adapt_scheme(own.scheme(state(), choice), *own.asked)


def adapted() -> Adapted | None:
    """Return the side effects of the last change to the scheme, or, where the chosen one does not fit the
    tensor or takes too long, the scheme shown in its place.
    """
    now = state()
    return cast("Adapted | None", st.session_state.get(_ADAPTED)) or (
        Adapted(now.chosen, now.scheme, ()) if now.chosen else None
    )


def remember_held(value: float) -> None:
    """Keep the end of the error's colours until the tensor changes. Not a step to undo."""
    st.session_state[_STATE] = state().replace(held=value)


def accept() -> None:
    """Keep the state, which could be computed, as the one that a refused one falls back to."""
    st.session_state[_GOOD] = state()


def refuse(error: QuantVizError) -> None:
    """Go back from a state that cannot be computed to the one before, and show why; where NaN or Inf are the
    reason, it waits for another choice. Where its search takes too long it stays, without the search.
    """
    now = state()
    shown = now.scheme.with_every_value()
    if error.key == "work.too_long" and shown != now.scheme and not shown.problems(now.source.shape):
        st.session_state[_STATE] = now.replace(scheme=shown, chosen=now.chosen or now.scheme)
        errors.show_above(error)
        return
    errors.wait(now if error.key in _NONFINITE else None)
    undo.drop_refused(now)
    # A tensor that was good may be gone: a file of the folder, a model that its hub no longer gives.
    good = st.session_state.get(_GOOD, now)
    st.session_state[_STATE] = good if good != now else opening()
    errors.show_above(error)


def undo_step() -> None:
    """Undo the last step that is not undone: go back to the state before it."""
    step = undo.next_undo()
    if step is not None:
        undo.mark_undone()
        _take(_as_locked(step.turned(state(), back=True)))


def redo_step() -> None:
    """Do the step again that was undone last."""
    step = undo.next_redo()
    if step is not None:
        undo.mark_redone()
        _take(_as_locked(step.turned(state(), back=False)))


def follow_history() -> None:
    """Take the state of the address that the browser went back or forward to.

    Undo or redo where the address is one step away. Keep the state where the address cannot be read any more.
    """
    parameters = st.query_params.to_dict()
    if parameters.pop(address.WENT, None) is None or _STATE not in st.session_state:
        return
    others = (classroom.PARAMETER, classroom.PROMPT, "lang")
    link = {name: value for name, value in parameters.items() if name not in others}
    past = undo.next_undo()
    if past is not None and past.before.written() == link:
        return undo_step()
    future = undo.next_redo()
    if future is not None and future.after.written() == link:
        return redo_step()
    now = state()
    with turns().leave():
        new, problems = LabState.read(parameters)
    if problems:
        return
    if now.replace(view=new.view, cell=new.cell, held=new.held) == new:
        look(new.view, new.cell)
    else:
        put(new)


def reset() -> None:
    """Return to the state of the tensor's scenario, else the first; under locks to the link's."""
    origin.forget()
    if classroom.classroom().locked:
        put(st.session_state[_OPENED])
        return
    name = scenario_of(state().source.unedited)
    put(opening(name) if name else opening())


def remember(schemes: Iterable[Scheme]) -> None:
    """Remember schemes to compare with, as A, B, C …"""
    put(state().remembering(schemes))


def mended_since(tensor: AboutTensor) -> tuple[Note, ...]:
    """Return the corrections of the arithmetic since the link that opened the desk was made, for its tensor:
    as long as tensor and schemes are those of the link.
    """
    link = st.session_state.get(_LINK)
    now = state()
    opened = st.session_state.get(_OPENED)
    if not link or not opened:
        return ()
    same = all(
        getattr(now, name) == getattr(opened, name) for name in ("source", "scheme", "baseline", "others")
    )
    return mended(link, now, tensor) if same else ()


def _change_workspace(name: str) -> None:
    """Have the controls work in a workspace: restore its values, and keep those of the one before."""
    before = st.session_state.get(_WORKSPACE, _LAB)
    if before == name:
        return
    # Not half of it: a message from the browser would end this run at the next look into the session.
    with streamlit_private.uninterrupted():
        others = dict(st.session_state.get(_OTHERS, {}))
        others[before] = {key: st.session_state.pop(key) for key in _IN_WORKSPACE if key in st.session_state}
        for key, value in others.pop(name, {}).items():
            st.session_state[key] = value
        st.session_state[_OTHERS] = others
        st.session_state[_WORKSPACE] = name


def arrive(page: str) -> None:
    """Note which page this run shows, and take its workspace."""
    _change_workspace(page if page in _OWN_WORKSPACES else _LAB)
    address.arrive(page)
    widgets.begin_run()


def leave() -> None:
    """Note that this run came to its end."""
    widgets.end_run()
    address.leave()


def write_address() -> QuantVizError | None:
    """Write the state to the address bar, and return the error on parts that a link cannot carry, if any."""
    address.write({**{**state().written(), "lang": language()}, **classroom.parameters()})
    return state().source.link_problem()
