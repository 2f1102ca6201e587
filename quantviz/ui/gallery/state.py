"""The state of the gallery, and what its controls do to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, cast

from quantviz.lab.page_state import Codec, PageState, Reading, field, whole_number
from quantviz.sources.random import LARGEST_SEED
from quantviz.ui.shell.page_owner import PageOwner

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug, ProgramCase

#: The choice of the tensor that a hand drags; no case has this id.
DRAG = "drag"
#: A number of a puzzle has at most so many digits; whether there is such a puzzle says `puzzle`.
_LARGEST_PUZZLE = 99_999


def _gallery() -> ModuleType:
    """Return the module of the bugs, which needs torch."""
    from quantviz.teaching import gallery

    return gallery


def _handles() -> ModuleType:
    """Return the module of the handles, which needs torch."""
    from quantviz.teaching import bug_handles

    return bug_handles


def _has_handle(bug: str) -> bool:
    return bug in _handles().HANDLES


def _read_puzzle(form: str, reading: Reading[GalleryState]) -> int:
    number = int(form) if form.isascii() and form.isdigit() and int(form) <= _LARGEST_PUZZLE else 0
    _gallery().puzzle(number)
    return number


def _write_case(_: str, state: GalleryState) -> str:
    if state.spotting or state.at is not None:
        return ""
    bug = bug_of(state)
    case = case_of(state, bug)
    return "" if case is bug.cases[0] else case.id


def _write_seed(seed: int | None, state: GalleryState) -> str:
    if seed is None or state.spotting or state.at is not None:
        return ""
    own = own_seed(case_of(state, bug_of(state)))
    return "" if own in (None, seed) else str(seed)


_SEED = whole_number(LARGEST_SEED, key="bugs.bad_seed")


@dataclass(frozen=True)
class GalleryState(PageState):
    """The choices of the gallery; an empty id is the first one there is.

    The link of a puzzle does not reveal its bug.
    """

    page = "bugs"

    bug: str = field(
        "",
        link="bug",
        codec=Codec(
            lambda form, _: _gallery().find_bug(form).id,
            lambda _, state: "" if state.spotting else bug_of(state).id,
        ),
        always=True,
    )
    case: str = field(
        "",
        link="case",
        codec=Codec(lambda form, reading: _gallery().find_bug(reading.state.bug).case(form).id, _write_case),
        always=True,
        of="bug",
    )
    #: The seed of a random tensor; none for the case's own.
    seed: int | None = field(None, link="seed", codec=Codec(_SEED.read, _write_seed), always=True, of="bug")
    #: The value of the bug's handle; none where one of the bug's cases is shown.
    at: float | None = field(
        None,
        link="at",
        codec=Codec(
            lambda form, reading: (
                _handles().value_written(reading.state.bug, form) if _has_handle(reading.state.bug) else None
            ),
            lambda at, state: "" if at is None or state.spotting else f"{at:g}",
        ),
        always=True,
        of="bug",
    )
    #: The puzzle's number, from 1.
    puzzle: int = field(
        1,
        link="spot",
        codec=Codec(_read_puzzle, lambda number, state: str(number) if state.spotting else ""),
        always=True,
    )
    spotting: bool = field(False)
    #: Row and column of the cell looked at; none for the one where the results lie farthest apart.
    cell: tuple[int, int] | None = field(None, looks=True)
    #: The lines pointed at in each puzzle, by number, the last one last: solved puzzles stay solved.
    tries: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}), looks=True)

    @classmethod
    def opening(cls) -> GalleryState:
        """Return the first bug as it is first shown."""
        return cls().of_bug(bug_of(cls()).id)

    def of_bug(self, bug: str) -> GalleryState:
        """Return the state with a bug as it is first shown: by its handle, or in its first case."""
        at = _handles().first_shown(bug).value if _has_handle(bug) else None
        return self.replace(bug=bug, case="", seed=None, cell=None, at=at)

    def reached(self, name: str, form: str) -> GalleryState:
        """Return the state after a choice: of a bug or a mode, of one of its cases or the handle, of the next
        puzzle, or of a seed.
        """
        bug = bug_of(self)
        match name:
            case "bug":
                return self.of_bug(_gallery().find_bug(form).id)
            case "mode":
                return self.replace(spotting=form == "spot", cell=None)
            case "another":
                return self.replace(puzzle=self.puzzle % len(_gallery().BUGS) + 1, cell=None)
            case "case" if form == DRAG:
                return self.of_bug(bug.id)
            case "case":
                return self.replace(case=bug.case(form).id, seed=None, cell=None, at=None)
        return super().reached(name, form).replace(cell=None)

    def completed(self, reading: Reading[GalleryState]) -> GalleryState:
        """Return the state of a link: of a puzzle alone, or of a bug by either its handle or a case."""
        params = reading.params
        if "spot" in params:
            return self.opening().replace(spotting=True, puzzle=self.puzzle)
        if "bug" not in params.keys() - reading.lost:
            return self.opening()
        if "at" in params and _has_handle(self.bug):
            at = _handles().HANDLES[self.bug].start if "at" in reading.lost else self.at
            return self.replace(at=at, case="", seed=None)
        return self.replace(at=None)


OWNER = PageOwner(GalleryState)


def bug_of(state: GalleryState) -> Bug:
    """Return the bug that is shown."""
    if state.spotting:
        return cast("Bug", _gallery().puzzle(state.puzzle))
    bugs = _gallery().BUGS
    return cast("Bug", bugs[state.bug] if state.bug else next(iter(bugs.values())))


def case_of(state: GalleryState, bug: Bug) -> ProgramCase:
    """Return the case of a bug that is shown."""
    return bug.case(state.case) if state.case and not state.spotting else bug.cases[0]


def own_seed(case: ProgramCase) -> int | None:
    """Return the seed of a case's random tensor, if it has one."""
    return getattr(case.source, "seed", None)
