"""The state of the gallery, and what its controls do to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.lab.page_state import Codec, PageState, Reading, field, whole_number
from quantviz.sources.random import LARGEST_SEED
from quantviz.ui.shell.page_owner import PageOwner

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug, Case

#: A number of a puzzle has at most so many digits; whether there is such a puzzle says `puzzle`.
_LARGEST_PUZZLE = 99_999


def _read_bug(form: str, _: Reading[GalleryState]) -> str:
    from quantviz.teaching.gallery import find_bug

    return find_bug(form).id


def _read_case(form: str, reading: Reading[GalleryState]) -> str:
    from quantviz.teaching.gallery import find_bug

    return find_bug(reading.state.bug).case(form).id


def _read_value(form: str, reading: Reading[GalleryState]) -> float | None:
    from quantviz.teaching.bug_handles import HANDLES, value_written

    return value_written(reading.state.bug, form) if reading.state.bug in HANDLES else None


def _read_puzzle(form: str, reading: Reading[GalleryState]) -> int:
    from quantviz.teaching.gallery import puzzle

    number = int(form) if form.isascii() and form.isdigit() and int(form) <= _LARGEST_PUZZLE else 0
    puzzle(number)
    return number


def _write_case(_: str, state: GalleryState) -> str:
    bug = bug_of(state)
    case = case_of(state, bug)
    return "" if state.spotting or state.at is not None or case is bug.cases[0] else case.id


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
        codec=Codec(_read_bug, lambda _, state: "" if state.spotting else bug_of(state).id),
        always=True,
    )
    case: str = field("", link="case", codec=Codec(_read_case, _write_case), always=True, of="bug")
    #: The seed of a random tensor; none for the case's own.
    seed: int | None = field(None, link="seed", codec=Codec(_SEED.read, _write_seed), always=True, of="bug")
    #: The value of the bug's handle; none where one of the bug's cases is shown.
    at: float | None = field(
        None,
        link="at",
        codec=Codec(_read_value, lambda at, state: "" if at is None or state.spotting else f"{at:g}"),
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
        from quantviz.teaching.bug_handles import HANDLES, first_shown

        at = first_shown(bug).value if bug in HANDLES else None
        return self.replace(bug=bug, case="", seed=None, cell=None, at=at)

    def completed(self, reading: Reading[GalleryState]) -> GalleryState:
        """Return the state of a link: of a puzzle alone, or of a bug by either its handle or a case."""
        from quantviz.teaching.bug_handles import HANDLES

        params = reading.params
        if "spot" in params:
            return self.opening().replace(spotting=True, puzzle=self.puzzle)
        if "bug" not in params.keys() - reading.lost:
            return self.opening()
        if "at" in params and self.bug in HANDLES:
            at = HANDLES[self.bug].start if "at" in reading.lost else self.at
            return self.replace(at=at, case="", seed=None)
        return self.replace(at=None)


OWNER = PageOwner(GalleryState)


def change_state(**changes: Any) -> None:
    """Change fields of the state."""
    OWNER.change(**changes)


def bug_of(state: GalleryState) -> Bug:
    """Return the bug that is shown."""
    from quantviz.teaching.gallery import BUGS, puzzle

    if state.spotting:
        return puzzle(state.puzzle)
    return BUGS[state.bug] if state.bug else next(iter(BUGS.values()))


def case_of(state: GalleryState, bug: Bug) -> Case:
    """Return the case of a bug that is shown."""
    return bug.case(state.case) if state.case and not state.spotting else bug.cases[0]


def own_seed(case: Case) -> int | None:
    """Return the seed of a case's random tensor, if it has one."""
    return getattr(case.source, "seed", None)
