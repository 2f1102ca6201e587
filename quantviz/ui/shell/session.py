"""The Lab's state in the session: one value, changed in callbacks, written to the address at the end of a
run.

Widgets show the state and change it in their callbacks; nothing is kept in a widget alone. So a
link, a language switch, undo and reset are the same thing: another state.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.lab.scenarios import SCENARIOS, scenario_of
from quantviz.lab.state import LabState, mended, opening, read_link, write_link
from quantviz.schemes.granularity import Shape
from quantviz.schemes.mended import AboutTensor
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.streaming.compile_ahead import at_once
from quantviz.tensors.views import View
from quantviz.ui.shell import address, classroom
from quantviz.ui.shell.scheme_changes import SCHEME_FIELDS, Adapted, UndoStep
from quantviz.ui.shell.startup import turns
from quantviz.ui.shell.words import language
from quantviz.ui.shell.workspaces import LAB, change_workspace

_STATE = "lab_state"
_STEPS = "lab_steps"
_DONE = "lab_steps_done"
_NAMED = "lab_named"
_INPUT_ERRORS = "lab_complaints"
_ADAPTED = "lab_adapted"
_WAITING = "lab_waiting"
#: The parameter that `history.js` adds to the Lab's address after the browser's Back or Forward.
_WENT = "went"
_OPENED = "lab_opened"
_GOOD = "lab_good"
_LINK = "lab_link"
_WIDGETS = "widgets"
#: Origin of the state, if it was opened from outside the Lab.
_ORIGIN = "lab_origin"
#: The tensor that was opened from a model's map.
_FROM_MAP = "lab_from_map"
#: The scenario that this session has seen the state of, as long as its tensor is on the screen.
_SCENARIO = "lab_scenario"
#: The kind of source whose controls are shown although no tensor came from it yet.
KIND_CHOSEN = "kind_chosen"
#: The facts that a range set by hand starts from.
FACTS = "lab_facts"
#: The keys of a desk, and the pages with one of their own: choices there leave the Lab's as they were.
_ON_DESK = (
    *(
        _STATE,
        _STEPS,
        _DONE,
        _NAMED,
        _INPUT_ERRORS,
        _ADAPTED,
        _WAITING,
        _OPENED,
        _GOOD,
        _LINK,
        _ORIGIN,
        _SCENARIO,
    ),
    *(KIND_CHOSEN, FACTS),
)
_OWN_DESKS = ("golf",)
#: Steps that undo reaches back.
MOST_STEPS = 50
#: No value that a widget may have.
_UNSET = object()
#: The errors of NaN and Inf that the scheme refuses.
_NONFINITE = ("input_nonfinite", "input_beyond_float32", "input_beyond_dtype", "input_nothing_finite")


@dataclass(frozen=True)
class Origin:
    """The step of a lesson that a state of the Lab was opened from."""

    lesson: str
    #: Number of the step, from 0.
    step: int
    opened: LabState


def state() -> LabState:
    """Return the session's state: at first that of the address."""
    known = st.session_state.get(_STATE)
    if known is None:
        with turns().leave():  # a link to a published model may have to ask its hub
            known, problems = read_link(dict(st.query_params))
        st.session_state[_LINK] = st.query_params.to_dict()
        st.session_state[_STATE] = st.session_state[_OPENED] = known
        st.session_state[_NAMED] = problems
    return cast(LabState, known)


def change(**changes: Any) -> None:
    """Replace parts of the state: a step that can be undone."""
    put(state().replace(**changes))


def put(new: LabState) -> None:
    """Take another state, as far as the teacher has not locked it: a step that can be undone."""
    now = state()
    new = _as_locked(new)
    if new != now:
        if _undone(st.session_state.get(_ORIGIN)):
            st.session_state[_ORIGIN] = None
        steps = (*_steps()[: _done()], UndoStep(now, new))[-MOST_STEPS:]
        st.session_state[_STEPS] = steps
        st.session_state[_DONE] = len(steps)
    _take(new)


def _take(new: LabState) -> None:
    """Make `new` the state, and clear the messages about the one before."""
    if new.source != state().source:
        st.session_state[KIND_CHOSEN] = None
    st.session_state[_STATE] = new
    st.session_state[_NAMED] = ()
    st.session_state[_ADAPTED] = st.session_state[_WAITING] = None
    st.session_state[_INPUT_ERRORS] = {}


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
    st.session_state[_NAMED] = problems


def put_in_lab(new: LabState) -> None:
    """Take a state from a page with a desk of its own to the Lab's."""
    change_workspace(LAB, _ON_DESK)
    put_from_page(new)


def lay_out(new: LabState) -> None:
    """Begin with `new`: there is nothing before it to go back to."""
    for name in _ON_DESK:
        st.session_state.pop(name, None)
    st.session_state[_STATE] = st.session_state[_OPENED] = st.session_state[_GOOD] = new


def put_from_lesson(new: LabState, lesson: str, step: int) -> None:
    """Take the state of a lesson's step, counted from 0, and remember the way back to it."""
    put_from_page(new)
    st.session_state[_ORIGIN] = Origin(lesson, step, state())
    st.session_state[_SCENARIO] = None


def put_from_map(new: LabState) -> None:
    """Take a tensor from a model's map, and remember that there is a way back to it."""
    put_from_page(new)
    st.session_state[_FROM_MAP] = state().source.unedited


def is_from_map() -> bool:
    """Return whether the tensor was opened from a model's map."""
    return bool(st.session_state.get(_FROM_MAP) == state().source.unedited)


def origin() -> Origin | None:
    """Return the step that the state was opened from, as long as its tensor is the one on the screen and its
    opening is not undone.
    """
    found = cast("Origin | None", st.session_state.get(_ORIGIN))
    same = found and found.opened.source.unedited == state().source.unedited
    return found if same and not _undone(found) else None


def way_back() -> Origin | None:
    """Return the step to go back to: where the state came from, or the one of which an undo has just turned
    away.
    """
    found = cast("Origin | None", st.session_state.get(_ORIGIN))
    return found if _undone(found) else origin()


def _undone(found: Origin | None) -> bool:
    """Return whether it was undone that the state was opened from a lesson; redo does it again."""
    return found is not None and any(step.after == found.opened for step in _steps()[_done() :])


def scenario() -> str | None:
    """Return the scenario that the state began with: this session has seen it, and its tensor is still the
    one on the screen.
    """
    now = state()
    name = scenario_of(now.source.unedited)
    if name is not None and (now.scheme, now.baseline) == (SCENARIOS[name].scheme, SCENARIOS[name].baseline):
        st.session_state[_SCENARIO] = name
    elif st.session_state.get(_SCENARIO) != name:
        st.session_state[_SCENARIO] = None
    return cast("str | None", st.session_state.get(_SCENARIO))


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
    st.session_state[_ORIGIN] = None
    name = scenario_of(source)
    if source != state().source:
        put(opening(name) if name else state().with_source(source))
    else:
        put(state())


def put_scheme(**changes: Any) -> None:
    """Change parts of the scheme, as far as it fits the tensor; `QuantVizError` where it cannot be."""
    now = state()
    scheme = _as_locked(now.replace(scheme=now.scheme.replace(**changes))).scheme
    for problem in scheme.problems(now.source.shape):
        raise problem
    change(scheme=scheme)


def adapt_scheme(wanted: Scheme, *asked: str) -> None:
    """Take a scheme of which only the fields `asked` were requested, and remember its other changes;
    `QuantVizError` where it is not valid.
    """
    before = state().scheme
    put_scheme(**{name: getattr(wanted, name) for name in SCHEME_FIELDS})
    st.session_state[_ADAPTED] = Adapted(before, state().scheme, asked)


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
        st.session_state[_NAMED] = (error,)
        return
    wait(state() if error.key in _NONFINITE else None)
    if can_undo() and _steps()[_done() - 1].after == state():
        st.session_state[_STEPS] = _steps()[: _done() - 1]
        st.session_state[_DONE] = _done() - 1
    # A tensor that was good may be gone: a file of the folder, a model that its hub no longer gives.
    good = st.session_state.get(_GOOD, state())
    st.session_state[_STATE] = good if good != state() else opening()
    st.session_state[_NAMED] = (error,)


def wait(new: LabState | None) -> None:
    """Keep a state whose tensor has NaN or Inf that its scheme refuses, until something is chosen or another
    state taken.
    """
    st.session_state[_WAITING] = new


def waiting() -> LabState | None:
    """Return the state that waits for a choice of the treatment of NaN and Inf."""
    return cast("LabState | None", st.session_state.get(_WAITING))


def _steps() -> tuple[UndoStep, ...]:
    """Return the steps that can be undone or done again, the oldest first."""
    return cast("tuple[UndoStep, ...]", st.session_state.get(_STEPS, ()))


def _done() -> int:
    """Return the number of those that are not undone."""
    return cast(int, st.session_state.get(_DONE, 0))


def undo() -> None:
    """Go back to the state before the last step that is not undone."""
    if can_undo():
        step = _steps()[_done() - 1]
        st.session_state[_DONE] = _done() - 1
        _take(_as_locked(step.turned(state(), back=True)))


def redo() -> None:
    """Do the step again that was undone last."""
    if can_redo():
        step = _steps()[_done()]
        st.session_state[_DONE] = _done() + 1
        _take(_as_locked(step.turned(state(), back=False)))


def follow_history() -> None:
    """Take the state of the address that the browser went back or forward to.

    Undo or redo where the address is one step away. Keep the state where the address cannot be read any more.
    """
    asked = st.query_params.to_dict()
    if asked.pop(_WENT, None) is None or _STATE not in st.session_state:
        return
    others = (classroom.PARAMETER, classroom.PROMPT, "lang")
    link = {name: value for name, value in asked.items() if name not in others}
    if can_undo() and write_link(_steps()[_done() - 1].before) == link:
        return undo()
    if can_redo() and write_link(_steps()[_done()].after) == link:
        return redo()
    now = state()
    with turns().leave():
        new, problems = read_link(asked)
    if problems:
        return
    if now.replace(view=new.view, cell=new.cell, held=new.held) == new:
        look(new.view, new.cell)
    else:
        put(new)


def can_undo() -> bool:
    """Return whether there is a step to undo."""
    return _done() > 0


def can_redo() -> bool:
    """Return whether there is a step that was undone."""
    return _done() < len(_steps())


def forget(gone: Collection[Source]) -> None:
    """Undo and redo reach no further than to the tensors `gone`, which are no longer there."""

    def there(step: UndoStep) -> bool:
        return all(each.source.unedited.original not in gone for each in (step.before, step.after))

    past = tuple(itertools.takewhile(there, reversed(_steps()[: _done()])))[::-1]
    st.session_state[_STEPS] = (*past, *itertools.takewhile(there, _steps()[_done() :]))
    st.session_state[_DONE] = len(past)


def reset() -> None:
    """Return to the state this tensor's scenario opens with, else the first scenario's; where a teacher has
    locked something, to the state of the link.
    """
    st.session_state[_ORIGIN] = None
    if classroom.classroom().locked:
        put(st.session_state[_OPENED])
        return
    name = scenario_of(state().source.unedited)
    put(opening(name) if name else opening())


def remember(schemes: Iterable[Scheme]) -> None:
    """Remember schemes to compare with, as A, B, C …"""
    put(state().remembering(schemes))


@contextlib.contextmanager
def catching_errors(field: str) -> Iterator[None]:
    """Keep a `QuantVizError` for showing beside the controls of `field`, and the state as it was."""
    wait(None)
    try:
        yield
    except QuantVizError as error:
        st.session_state[_INPUT_ERRORS] = {field: error}


def clear_errors() -> None:
    """Clear the errors, once they are fixed or left behind."""
    st.session_state[_INPUT_ERRORS] = {}
    st.session_state[_NAMED] = ()


def safely(callback: Callable[..., None]) -> Callable[..., None]:
    """Wrap `callback` for a widget: show any error in it as a sentence, and leave the state as it was.

    Streamlit runs callbacks before the page, where the page's error boundary does not reach.
    """

    @functools.wraps(callback)
    def guarded(*args: Any) -> None:
        try:
            with at_once():
                callback(*args)
        except QuantVizError as error:
            st.session_state[_NAMED] = (error,)
        except Exception:
            logging.getLogger("quantviz").exception("a callback failed")
            st.session_state[_NAMED] = (QuantVizError("callback_failed"),)

    return guarded


def input_errors() -> Mapping[str, QuantVizError]:
    """Return the error of the last input, by control."""
    return cast(Mapping[str, QuantVizError], st.session_state.get(_INPUT_ERRORS, {}))


def named() -> tuple[QuantVizError, ...]:
    """Return the errors of the link's parameters that are not valid."""
    return cast(tuple[QuantVizError, ...], st.session_state.get(_NAMED, ()))


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


def show(key: str, value: object, field: str = "", *, folded: bool = False) -> str:
    """Let the widget `key` show `value`, unless there is an error about the text in its `field`.

    `folded` widgets stand in a popover: the browser makes them when that is opened, and must get their value
    from the run before.
    """
    # A widget must get its value again in another language, and where the browser may not have received it,
    # because the run that showed it was broken off.
    widgets = _widgets()
    again = folded or widgets.language != language() or key not in widgets.shown
    widgets.showing.setdefault(key, ())
    if (again or st.session_state.get(key, _UNSET) != value) and (field or key) not in input_errors():
        if st.session_state.get(key, _UNSET) != value:
            widgets.unseen.add(key)
        st.session_state[key] = value
    return key


def is_behind(repeated: Mapping[str, bool]) -> bool:
    """Return whether the browser sent its message before the answer to the one before was on its screen: its
    widgets, by key, still have the values that the answer has replaced.

    With one such widget it may be a person who wants the value before: then the address decides.
    """
    unseen = _widgets().unseen
    waiting = [repeated[key] for key in unseen if key in repeated]
    behind = address.is_behind() or (len(waiting) > 1 and all(waiting))
    if not behind:
        unseen.clear()
    return behind


def tell_again(key: str, labels: tuple[str, ...]) -> None:
    """Send the choice of the widget `key` to the browser again, where its labels have changed since the last
    run: the browser holds a label.
    """
    widgets = _widgets()
    if widgets.shown.get(key) != labels and key in st.session_state:
        st.session_state[key] = st.session_state[key]
    widgets.showing[key] = labels


@dataclass(eq=False)
class _Widgets:
    """The keys of widgets, and the words of the choices they offered."""

    #: Of the last run that came to its end, and so was received by the browser.
    shown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Of the run that goes on, as far as it is.
    showing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Those whose value the app has changed, and the browser has not been heard of since.
    unseen: set[str] = field(default_factory=set)
    #: The language that the Lab was last shown in.
    language: str | None = None


def _widgets() -> _Widgets:
    known = st.session_state.get(_WIDGETS)
    if known is None:
        known = st.session_state[_WIDGETS] = _Widgets()
    return cast(_Widgets, known)


def arrive(page: str) -> None:
    """Note which page this run shows, and sit down at its desk."""
    change_workspace(page if page in _OWN_DESKS else LAB, _ON_DESK)
    address.arrive(page)
    _widgets().showing = {}


def leave() -> None:
    """Note that this run came to its end."""
    _widgets().shown = dict(_widgets().showing)
    address.leave()


def write_address() -> QuantVizError | None:
    """Write the state to the address bar, and return the error on parts that a link cannot carry, if any."""
    _widgets().language = language()
    address.write({**write_link(state(), language()), **classroom.parameters()})
    return state().source.link_problem()
