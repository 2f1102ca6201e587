"""A teacher's choices in a link: hidden and locked parts, whether answers are shown, and the projector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quantviz.errors import QuantVizError
from quantviz.lab.picture_parts import CELL_PARTS, PANEL_PARTS, TILE_PARTS

#: Sections that a link can leave out of the Lab, beside parts of the picture.
CONTROLS = ("tensor", "scheme", "range", "recipes", "compare", "actions", "below")
#: Groups of parts by name: a link has one word for all of a group, which keeps it short.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "controls": CONTROLS,
    "panels": tuple(name for name in PANEL_PARTS if name != "x"),
    "tiles": TILE_PARTS,
    "cell": CELL_PARTS,
}
HIDEABLE = tuple(name for names in GROUPS.values() for name in names)
#: Sections that can be visible but locked.
LOCKABLE = ("tensor", "scheme", "range")
#: All parts that show a result: without them a class has the tensor and the scheme to predict from.
RESULTS = frozenset(HIDEABLE) - {"tensor", "scheme", "range", "actions"}
#: Most characters of a question to the class.
LONGEST_PROMPT = 120
#: When a lesson shows its answers: as usual after the learner's, not at all, or at once.
ANSWERS = ("after", "withheld", "shown")
_PROJECTOR = "projector"
_HIDE = "no-"
_LOCK = "lock-"


@dataclass(frozen=True)
class Classroom:
    """A teacher's choices for those who open the link.

    >>> hidden, locked = frozenset({"below"}), frozenset({"scheme"})
    >>> room = Classroom(hidden=hidden, locked=locked, answers="withheld", projector=True)
    >>> str(room)
    '4.projector.withheld.no-below.lock-scheme.4'
    >>> Classroom.parse(str(room)) == room
    True
    >>> str(Classroom()), str(Classroom(hidden=frozenset(TILE_PARTS)))
    ('', 'no-tiles')
    """

    hidden: frozenset[str] = frozenset()
    locked: frozenset[str] = frozenset()
    answers: str = ANSWERS[0]
    #: Large type, high contrast, no sidebar.
    projector: bool = False
    #: The teacher's question to those who open the Lab. A parameter of its own: the text form has ids only.
    prompt: str = ""
    #: The code of the room that a phone is in, or a wall follows. A parameter of its own too.
    room: str = ""

    @property
    def asks_to_predict(self) -> bool:
        """Return whether every result is left out, and the tensor is there to predict from."""
        return self.hidden >= RESULTS and "tensor" not in self.hidden

    def __str__(self) -> str:
        parts = [_PROJECTOR] if self.projector else []
        parts += [self.answers] if self.answers != ANSWERS[0] else []
        parts += [_HIDE + name.replace(".", "-") for name in self._hidden_words()]
        parts += [_LOCK + name for name in LOCKABLE if name in self.locked]
        if len(parts) < 2:
            return ".".join(parts)
        # The number of words at both ends: a link that was cut off between two of them, from either end, is
        # not taken for a whole one.
        count = str(len(parts))
        return ".".join([count, *parts, count])

    def _hidden_words(self) -> Iterator[str]:
        whole = {
            name: group for group, names in GROUPS.items() if self.hidden.issuperset(names) for name in names
        }
        yield from dict.fromkeys(whole.get(name, name) for name in HIDEABLE if name in self.hidden)

    @classmethod
    def parse_all(cls, forms: Sequence[str]) -> Classroom:
        """Return the choice of an address that has `forms`, usually one or none. Of several different ones
        none is believed, nor is an empty one: no link of ours has them.
        """
        if len({*forms}) > 1 or (forms and not forms[0]):
            # A space is in none of its words.
            return cls.parse(" ".join((*forms, "")))
        return cls.parse(forms[0] if forms else "")

    @classmethod
    def parse(cls, form: str) -> Classroom:
        """Return the choices written as `form`; raise `QuantVizError` for any other text.

        Older links have a number in front only, or none: they mean what they meant. A form that lost the
        numbers of both ends is taken for one of these: an address is cut at its end, and `k=` stands before
        the form.
        """
        hide = {_HIDE + name.replace(".", "-"): (name,) for name in HIDEABLE} | {
            _HIDE + group: names for group, names in GROUPS.items()
        }
        lock = {_LOCK + name: name for name in LOCKABLE}
        hidden: set[str] = set()
        locked: set[str] = set()
        projector = False
        # Two different ones are no link of ours: the later one must not open parts that the earlier one
        # closed.
        said: str | None = None
        for part in _whole(form.split(".")) if form else ():
            if part in hide:
                hidden.update(hide[part])
            elif part in lock:
                locked.add(lock[part])
            elif part in ANSWERS and said in (None, part):
                said = part
            elif part == _PROJECTOR:
                projector = True
            else:
                raise QuantVizError(
                    "link.classroom", got=part, known=", ".join((_PROJECTOR, *ANSWERS, *hide, *lock))
                )
        return cls(frozenset(hidden), frozenset(locked), said or ANSWERS[0], projector)


def _whole(words: list[str]) -> list[str]:
    """Return a link's words without their numbers; `QuantVizError` where a number counts more of them."""
    starts = words[0].isdigit()
    ends = len(words) > 1 and words[-1].isdigit()
    inner = words[starts : len(words) - ends]
    if ends and not starts:
        raise QuantVizError("link.classroom_start", got=words[0])
    for counted in words[:starts] + words[len(words) - ends :]:
        if counted != str(len(inner)):
            raise QuantVizError("link.classroom_cut", got=len(inner), counted=counted)
    return inner


def read_prompt(form: str) -> str:
    """Return a question to the class as one line; `QuantVizError` where it is too long.

    >>> read_prompt("  Which column\\n suffers most?  ")
    'Which column suffers most?'
    """
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in form).split())
    if len(line) > LONGEST_PROMPT:
        raise QuantVizError("link.prompt", got=len(line), longest=LONGEST_PROMPT)
    return line


def read_code(form: str) -> str:
    """Return the code of a room in an address in capitals; "" for what is none.

    >>> read_code("k7qf"), read_code("../act")
    ('K7QF', '')
    """
    return form.upper() if form.isascii() and form.isalnum() and len(form) == 4 else ""


#: The classroom of a damaged link: changing `k` in the address must not open the parts that it closed.
CLOSED = Classroom(frozenset(HIDEABLE), frozenset(LOCKABLE), "withheld")
