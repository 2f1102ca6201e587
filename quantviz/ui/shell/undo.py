"""The steps of the Lab's state that can be undone and done again."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.sources import Source

_STEPS = "lab_steps"
_DONE = "lab_steps_done"
#: The session's keys of the steps.
KEYS = (_STEPS, _DONE)
#: Steps that undo reaches back.
MOST_STEPS = 50


@dataclass(frozen=True)
class UndoStep:
    """A change of the state that can be undone."""

    before: LabState
    after: LabState

    def turned(self, now: LabState, *, back: bool) -> LabState:
        """Return the state on one side of this step; the view stays, unless the step moved it."""
        wanted = self.before if back else self.after
        moved = (self.before.source, self.before.view, self.before.cell) != (
            self.after.source,
            self.after.view,
            self.after.cell,
        )
        if moved or now.source != wanted.source:
            return wanted
        return wanted.replace(view=now.view, cell=now.cell)


def _steps() -> tuple[UndoStep, ...]:
    """Return the steps that can be undone or done again, the oldest first."""
    return cast("tuple[UndoStep, ...]", st.session_state.get(_STEPS, ()))


def _done() -> int:
    """Return the number of those that are not undone."""
    return cast(int, st.session_state.get(_DONE, 0))


def _set(steps: tuple[UndoStep, ...], done: int) -> None:
    st.session_state[_STEPS] = steps
    st.session_state[_DONE] = done


def record(before: LabState, after: LabState) -> None:
    """Record a step; those that were undone cannot be done again."""
    steps = (*_steps()[: _done()], UndoStep(before, after))[-MOST_STEPS:]
    _set(steps, len(steps))


def can_undo() -> bool:
    """Return whether there is a step to undo."""
    return _done() > 0


def can_redo() -> bool:
    """Return whether there is a step that was undone."""
    return _done() < len(_steps())


def next_undo() -> UndoStep | None:
    """Return the last step that is not undone, if any."""
    if not can_undo():
        return None
    return _steps()[_done() - 1]


def next_redo() -> UndoStep | None:
    """Return the step that was undone last, if any."""
    if not can_redo():
        return None
    return _steps()[_done()]


def mark_undone() -> None:
    """Count the last step that is not undone among the undone ones."""
    st.session_state[_DONE] = _done() - 1


def mark_redone() -> None:
    """Count the step that was undone last among the others again."""
    st.session_state[_DONE] = _done() + 1


def drop_refused(refused: LabState) -> None:
    """Drop the last step, and all that can be done again, where it led to a state that is refused."""
    last = next_undo()
    if last is not None and last.after == refused:
        _set(_steps()[: _done() - 1], _done() - 1)


def is_undone(opened: LabState) -> bool:
    """Return whether a step that led to this state can be done again."""
    return any(step.after == opened for step in _steps()[_done() :])


def forget(gone: Collection[Source]) -> None:
    """Undo and redo reach no further than to the tensors `gone`, which are no longer there."""

    def there(step: UndoStep) -> bool:
        return all(each.source.unedited.original not in gone for each in (step.before, step.after))

    past = tuple(itertools.takewhile(there, reversed(_steps()[: _done()])))[::-1]
    _set((*past, *itertools.takewhile(there, _steps()[_done() :])), len(past))
