"""Changes of the Lab's state: one that can be undone, and one that brought others with it."""

from __future__ import annotations

from dataclasses import dataclass

from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme

#: The fields that a scheme is chosen by.
SCHEME_FIELDS = ("format", "mode", "granularity", "calibration", "convention")


@dataclass(frozen=True)
class UndoStep:
    """A change of the state that can be undone."""

    before: LabState
    after: LabState

    def turned(self, now: LabState, *, back: bool) -> LabState:
        """Return the state on the one side of this step, reached from `now` on the other: where a person
        looks stays, unless the step moved it.
        """
        wanted = self.before if back else self.after
        moved = (self.before.source, self.before.view, self.before.cell) != (
            self.after.source,
            self.after.view,
            self.after.cell,
        )
        return (
            wanted if moved or now.source != wanted.source else wanted.replace(view=now.view, cell=now.cell)
        )


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
