"""The Lab's state in the session: one value, changed in callbacks, written to the address at the end of a
run.

Widgets show the state and change it in their callbacks; nothing is kept in a widget alone. So a
link, a language switch, undo and reset are the same thing: another state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.lab.controls import CONTROLS
from quantviz.lab.page_state import History
from quantviz.lab.scenarios import scenario_of
from quantviz.lab.state import LabState, change_notes, opening
from quantviz.schemes.arithmetic_changes import TensorTraits
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.tensors.views import View
from quantviz.ui.shell import classroom, errors, origin
from quantviz.ui.shell.address import lab_desk, on_desk
from quantviz.ui.shell.origin import StepOrigin
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.startup import run_queue

_ADAPTED = "lab_adapted"
_OPENED = "lab_opened"
_GOOD = "lab_good"
_LINK = "lab_link"
#: The kind of source whose controls are shown although no tensor came from it yet.
KIND_CHOSEN = "kind_chosen"
#: The facts that a range set by hand starts from.
FACTS = "lab_facts"
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


class _LabOwner(PageOwner[LabState]):
    """The owner of the Lab's state, and of that on golf's desk."""

    @property
    def key(self) -> str:
        """Return the key of the history on the desk in use."""
        return on_desk(super().key)

    def read(self, params: Mapping[str, str]) -> History[LabState]:
        """Return the history of a link, and remember the link."""
        with run_queue().leave():  # a link to a published model may have to ask its hub
            history = super().read(params)
        st.session_state[on_desk(_LINK)] = dict(params)
        st.session_state[on_desk(_OPENED)] = history.now
        return history

    def follow(self, history: History[LabState], params: Mapping[str, str]) -> History[LabState]:
        """Return the history at the address to which the browser went, as far as it is not locked."""
        with run_queue().leave():
            found = super().follow(history, params)
        return dataclasses.replace(found, now=_as_locked(found.now))

    def put(self, new: LabState) -> None:
        """Take another state, as far as the teacher has not locked it."""
        new = _as_locked(new)
        history = self.history()
        lesson = origin.lesson()
        if history.now.is_step_to(new) and lesson and history.has_undone(lesson.opened):
            origin.forget()  # redo no longer reaches the step that was opened
        self.take(history.take(new))

    def take(self, history: History[LabState]) -> None:
        """Take another history, as far as the teacher has not locked its state."""
        new = _as_locked(history.now)
        if new.source != self.state.source:
            st.session_state[KIND_CHOSEN] = None
        st.session_state[on_desk(_ADAPTED)] = None
        errors.wait(None)
        super().take(dataclasses.replace(history, now=new))


OWNER = _LabOwner(LabState)
put = OWNER.put
change = OWNER.change


def state() -> LabState:
    """Return the Lab's state: at first that of the address."""
    return OWNER.state


def opened_tensor() -> Source | None:
    """Return the tensor that is open in the Lab, if the session has been there."""
    return OWNER.state.source if OWNER.is_begun else None


def was_seen() -> bool:
    """Return whether the session has shown the Lab."""
    return on_desk(_GOOD) in st.session_state


def put_from_page(new: LabState, problems: tuple[QuantVizError, ...] = ()) -> None:
    """Take a state from another page, and keep the errors of its link's parts that are not valid."""
    if was_seen():
        put(new)
        now = OWNER.history()
    else:
        # The Lab was not shown yet: this is its first state, and there is nothing to go back to.
        now = History(_as_locked(new))
    OWNER.take(dataclasses.replace(now, problems=problems))


def put_in_lab(new: LabState) -> None:
    """Take a state from a page with a desk of its own to the Lab's."""
    with lab_desk():
        put_from_page(new)


def lay_out(new: LabState) -> None:
    """Begin with `new`: there is nothing before it to go back to."""
    for name in (_ADAPTED, _LINK):
        st.session_state.pop(on_desk(name), None)
    errors.forget()
    OWNER.keep(History(new))
    st.session_state[on_desk(_OPENED)] = st.session_state[on_desk(_GOOD)] = new


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
    OWNER.keep(OWNER.history().take(now.replace(view=view, cell=now.cell if cell is None else cell)))


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


def choose(control: str, choice: Any) -> None:
    """Take a choice of one of `CONTROLS`, and remember what it changes besides; `QuantVizError` where it is
    not possible.
    """
    before = state().scheme
    wanted = CONTROLS[control].scheme(state(), choice)
    put_scheme(**{name: getattr(wanted, name) for name in SCHEME_FIELDS})
    st.session_state[on_desk(_ADAPTED)] = Adapted(before, state().scheme, CONTROLS[control].asked)


def adapted() -> Adapted | None:
    """Return the side effects of the last change to the scheme, or, where the chosen one does not fit the
    tensor or takes too long, the scheme shown in its place.
    """
    now = state()
    return cast("Adapted | None", st.session_state.get(on_desk(_ADAPTED))) or (
        Adapted(now.chosen, now.scheme, ()) if now.chosen else None
    )


def remember_held(value: float) -> None:
    """Keep the end of the error's colours until the tensor changes. Not a step to undo."""
    OWNER.keep(OWNER.history().take(state().replace(held=value)))


def accept() -> None:
    """Keep the state, which could be computed, as the one that a refused one falls back to."""
    st.session_state[on_desk(_GOOD)] = state()


def refuse(error: QuantVizError) -> None:
    """Go back from a state that cannot be computed to the one before, and show why; where NaN or Inf are the
    reason, it waits for another choice. Where its search takes too long it stays, without the search.
    """
    history = OWNER.history()
    now = history.now
    shown = now.scheme.with_every_value()
    if error.key == "work.too_long" and shown != now.scheme and not shown.problems(now.source.shape):
        left = now.replace(scheme=shown, chosen=now.chosen or now.scheme)
    else:
        errors.wait(now if error.key in _NONFINITE else None)
        history = history.without_step_to(now)
        # A tensor that was good may be gone: a file of the folder, a model that its hub no longer gives.
        good = st.session_state.get(on_desk(_GOOD), now)
        left = good if good != now else opening()
    OWNER.keep(dataclasses.replace(history, now=left))
    errors.show_above(error)


def forget_steps_to(gone: Collection[Source]) -> None:
    """Undo and redo reach no further than to the tensors `gone`, which are no longer there."""
    OWNER.keep(OWNER.history().reaching(lambda each: each.source.unedited.original not in gone))


def lesson_step(now: LabState) -> StepOrigin | None:
    """Return the lesson's step of origin, while its tensor is on the screen and its opening not undone."""
    step = origin.lesson()
    same = step and step.opened.source.unedited == now.source.unedited
    return step if step and same and not OWNER.history().has_undone(step.opened) else None


def way_back(now: LabState) -> StepOrigin | None:
    """Return the step to go back to: the state's origin, or the one an undo has just left."""
    step = origin.lesson()
    return step if step and OWNER.history().has_undone(step.opened) else lesson_step(now)


def reset() -> None:
    """Return to the state of the tensor's scenario, else the first; under locks to the link's."""
    origin.forget()
    if classroom.classroom().locked:
        put(st.session_state[on_desk(_OPENED)])
        return
    name = scenario_of(state().source.unedited)
    put(opening(name) if name else opening())


def remember(schemes: Iterable[Scheme]) -> None:
    """Remember schemes to compare with, as A, B, C …"""
    put(state().remembering(schemes))


def mended_since(tensor: TensorTraits) -> tuple[Note, ...]:
    """Return the corrections of the arithmetic since the link that opened the desk was made, for its tensor:
    as long as tensor and schemes are those of the link.
    """
    link = st.session_state.get(on_desk(_LINK))
    now = state()
    opened = st.session_state.get(on_desk(_OPENED))
    if not link or not opened:
        return ()
    same = all(
        getattr(now, name) == getattr(opened, name) for name in ("source", "scheme", "baseline", "others")
    )
    return change_notes(link, now, tensor) if same else ()


def write_address() -> QuantVizError | None:
    """Write the state to the address bar, and return the error on parts that a link cannot carry, if any."""
    OWNER.show_link()
    return state().source.link_problem()
