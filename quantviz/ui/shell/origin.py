"""Origins of the Lab's state: the step of a lesson, a tensor of a model's map, a scenario."""

from __future__ import annotations

from dataclasses import dataclass

from quantviz.lab.scenarios import SCENARIOS, scenario_of
from quantviz.lab.state import LabState
from quantviz.schemes.granularity import Shape
from quantviz.sources import Source
from quantviz.ui.shell.address import on_desk
from quantviz.ui.shell.run_facts import keep, kept

#: The lesson's step that the state was opened from.
_LESSON = "lab_origin"
#: The tensors of a model's map, and those of them that were opened.
_MAP = "lab_from_map"
#: The scenario that this session has seen the state of, as long as its tensor is on the screen.
_SCENARIO = "lab_scenario"


@dataclass(frozen=True)
class StepOrigin:
    """The step of a lesson that a state of the Lab was opened from."""

    lesson: str
    #: Number of the step, from 0.
    step: int
    opened: LabState


@dataclass(frozen=True)
class MapTensor:
    """A tensor of a model's map, with the numbers that the Lab opens it by."""

    name: str
    file: str
    #: The text form of its scheme in the scan; "" where it was not measured.
    scheme: str
    sqnr_db: float
    #: Index of its largest error, of its first value where it was not measured.
    worst_cell: Shape


@dataclass(frozen=True)
class MapWalk:
    """The tensors of a model's map in order of SQNR under a recipe, the worst first."""

    #: The checkpoint as the page of checkpoints offers it.
    chosen: str
    recipe: str
    tensors: tuple[MapTensor, ...]


@dataclass(frozen=True)
class MapPlace:
    """A place in a walk through a map's tensors."""

    walk: MapWalk
    #: Number of the tensor in the walk, from 0.
    at: int

    @property
    def tensor(self) -> MapTensor:
        """Return the tensor at this place."""
        return self.walk.tensors[self.at]

    def beside(self, by: int) -> MapPlace | None:
        """Return the place so many tensors further; None beyond the ends."""
        at = self.at + by
        return MapPlace(self.walk, at) if 0 <= at < len(self.walk.tensors) else None


def came_from_lesson(lesson: str, step: int, opened: LabState) -> None:
    """Remember the way back to a lesson's step, counted from 0."""
    keep(on_desk(_LESSON), StepOrigin(lesson, step, opened))
    keep(on_desk(_SCENARIO), None)


def came_from_map(now: LabState, place: MapPlace) -> None:
    """Remember the tensor's place in a model's map, and the way back to it."""
    opened = _opened_from_map()
    # Those of the same walk stay: an undo goes back to them.
    before = [each for each in opened if each[1].walk is place.walk and each[0] != now.source.unedited]
    keep(_MAP, (*before, (now.source.unedited, place)))


def forget() -> None:
    """Forget the lesson's step, as another tensor is taken."""
    keep(on_desk(_LESSON), None)


def map_place(now: LabState) -> MapPlace | None:
    """Return the tensor's place in a model's map; None where it was not opened from one."""
    source = now.source.unedited
    return next((place for opened, place in _opened_from_map() if opened == source), None)


def _opened_from_map() -> tuple[tuple[Source, MapPlace], ...]:
    return kept(_MAP, ())


def lesson() -> StepOrigin | None:
    """Return the lesson's step that the state was opened from last, also where that was undone."""
    return kept(on_desk(_LESSON), None)


def scenario(now: LabState) -> str | None:
    """Return the seen scenario that the state began with, while its tensor is on the screen."""
    name = scenario_of(now.source.unedited)
    first = SCENARIOS.get(name or "")
    begins = first is not None and (now.scheme, now.baseline) == (first.scheme, first.baseline)
    seen = name if begins or kept(on_desk(_SCENARIO), None) == name else None
    keep(on_desk(_SCENARIO), seen)
    return seen
