"""A room as a value: where the class stands in its plan, which votes are open, and what may be seen of them.

Votes are not part of it: a store keeps each beside it, by stop, round and device, so that two hundred answers
never wait for one another. `Room.open` names the places whose votes are still taken.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, TypeAlias

from quantviz.browser.messages import (
    FixedList,
    Flag,
    Items,
    Maybe,
    Number,
    Record,
    Text,
    Unfit,
    Whole,
    Word,
    decoded,
)
from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS
from quantviz.quoting import csv_text
from quantviz.rooms.plan import LONGEST, MOST_STOPS, Asked, Plan, Stop, say_answer

#: None is read for another.
SIGNS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_SIGNS = 4
PHASES = ("ask", "closed", "again", "told")
_OPEN = ("ask", "again")
MOST_ROUNDS = 2
#: Answers below which no counts are shown: with fewer, neighbours could work out who chose what.
FEWEST = 3
#: Rows of counts that a lecturer has in words: each costs a quantization.
MOST_IN_WORDS = 8
LONGEST_DEVICE = 40
#: The place at which a store keeps when each device was last there.
HERE = "here"

Answer: TypeAlias = int | float | str | tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    phase: str = PHASES[0]
    round: int = 1
    #: The class sees the counts of rounds that are over.
    shown: bool = False

    @property
    def is_open(self) -> bool:
        return self.phase in _OPEN


@dataclass(frozen=True)
class Vote:
    """One device's answer in a round. A later one of the same device takes its place."""

    stop: int
    round: int
    answer: Answer
    #: It only guessed otherwise.
    sure: bool
    #: A random id that the browser has made: no account, name or address.
    device: str

    @property
    def place(self) -> str:
        return f"{self.stop}.{self.round}"

    @property
    def stored(self) -> str:
        return json.dumps([self.answer, self.sure])


@dataclass(frozen=True)
class Room:
    code: str
    #: The secret of the lecturer's devices.
    key: str
    plan: Plan
    asked: tuple[Asked, ...]
    #: Unix time in seconds.
    until: float
    turns: tuple[Turn, ...]
    #: From 0.
    stop: int = 0
    #: Phones are dimmed, so that all look at the wall.
    looking: bool = False
    #: The last stop that each may reach at an own pace; None where all are at the same one.
    pace: int | None = None
    #: When phones show the answers of lessons: by default when the lecturer shows them.
    answers: str = "withheld"
    version: int = 1

    @property
    def turn(self) -> Turn:
        return self.turns[self.stop]

    @property
    def open(self) -> tuple[str, ...]:
        asked = (
            f"{number}.{turn.round}"
            for number, turn in enumerate(self.turns)
            if turn.is_open and self.is_reached(number)
        )
        return (HERE, *asked)

    def is_reached(self, stop: int) -> bool:
        return stop == self.stop or (self.pace is not None and stop <= self.pace)

    def tells(self, stop: int) -> bool:
        return self.turns[stop].phase == "told" or self.answers == "shown"

    def shows(self, stop: int, round: int, *, to_lecturer: bool = False) -> bool:
        """Return whether the counts of a round may be seen: nobody sees those of one that goes on.

        The class sees others once the lecturer shows them, and not before a second round is over: who has
        seen the first one's would follow the many.
        """
        turn = self.turns[stop]
        is_over = round < turn.round or (round == turn.round and not turn.is_open)
        return is_over and (turn.shown or to_lecturer)

    def vote(self, said: object) -> Vote:
        """Return the vote that a phone has sent.

        Raises:
            QuantVizError: It has not the shape of one, there is no such stop, its answer is none to its
                question, or its round is over or has not begun.
        """
        try:
            parts = decoded(_VOTE, said)
            stop = parts["stop"]
            if stop >= len(self.asked):
                raise QuantVizError("rooms.no_stop", got=stop + 1, count=len(self.asked))
            shape = self.asked[stop].answers
            if shape is None:
                raise Unfit
            answer = decoded(shape, said.get("answer") if isinstance(said, Mapping) else None)
        except Unfit:
            raise QuantVizError("rooms.answer") from None
        vote = Vote(stop, parts["round"], frozen(answer), parts["sure"], parts["device"])
        if not vote.device or vote.place not in self.open:
            raise QuantVizError("rooms.closed")
        return vote

    # ---- acts of the lecturer ---------------------------------------------------------------------------

    def acted(self, act: str, stop: int | None = None) -> Room:
        """Return the room after an act of `ACTS`; `stop`, from 0, is that of "go" and "pace".

        Raises:
            QuantVizError: There is no such act or stop, or the act has no place in the present phase.
        """
        if act not in ACTS:
            raise QuantVizError("rooms.act", got=act, known=", ".join(ACTS))
        to = self.stop + (act == "next") if stop is None or act == "next" else stop
        if not 0 <= to < len(self.turns):
            raise QuantVizError("rooms.no_stop", got=to + 1, count=len(self.turns))
        return dataclasses.replace(ACTS[act](self, to), version=self.version + 1)

    def turned(self, *phases: str, **changes: Any) -> Room:
        """Return the room with the turn of its stop changed; `QuantVizError` unless it is in a phase."""
        if self.turn.phase not in phases:
            raise QuantVizError("rooms.not_now", phase=QuantVizError(f"rooms.phases.{self.turn.phase}"))
        turns = list(self.turns)
        turns[self.stop] = dataclasses.replace(self.turn, **changes)
        return dataclasses.replace(self, turns=tuple(turns))

    def closed(self) -> Room:
        """The counts of a second round are shown at once."""
        return self.turned(*_OPEN, phase="closed", shown=self.turn.round == MOST_ROUNDS)

    def at(self, stop: int) -> Room:
        """The vote that is left is closed, unless phones have their own pace."""
        left = self.closed() if self.turn.is_open and self.pace is None and stop != self.stop else self
        return dataclasses.replace(left, stop=stop, looking=False)

    def gathered(self) -> Room:
        """All phones go to the room's stop; open votes of others are closed."""
        turns = (
            dataclasses.replace(turn, phase="closed")
            if turn.is_open and number != self.stop and self.is_reached(number)
            else turn
            for number, turn in enumerate(self.turns)
        )
        return dataclasses.replace(self, turns=tuple(turns), pace=None)

    # ---- as a store keeps it ----------------------------------------------------------------------------

    def record(self) -> str:
        return json.dumps({**dataclasses.asdict(self), "plan": str(self.plan)}, ensure_ascii=False)


def new_room(code: str, key: str, plan: Plan, until: float) -> Room:
    """Its questions are kept with their numbers."""
    return Room(code, key, plan, tuple(stop.asked for stop in plan.stops), until, (Turn(),) * len(plan.stops))


def _answering(when: str, room: Room, _: int) -> Room:
    return dataclasses.replace(room, answers=when)


#: Acts of the lecturer by the word that a device sends: from a room and a stop to the room after it.
ACTS: Mapping[str, Callable[[Room, int], Room]] = MappingProxyType(
    {
        "close": lambda room, _: room.closed(),
        "again": lambda room, _: room.turned("ask", "closed", phase="again", round=MOST_ROUNDS, shown=False),
        "show": lambda room, _: room.turned("closed", shown=True),
        "tell": lambda room, _: room.turned(*PHASES, phase="told", shown=True),
        "look": lambda room, _: dataclasses.replace(room, looking=not room.looking),
        "next": Room.at,
        "go": Room.at,
        "pace": lambda room, stop: dataclasses.replace(room, pace=stop, looking=False),
        "gather": lambda room, _: room.gathered(),
        **{when: partial(_answering, when) for when in ANSWERS},
    }
)

_STOP = Whole(0, MOST_STOPS - 1)
_VOTE = Record(
    {"stop": Whole(), "round": Whole(1, MOST_ROUNDS), "sure": Flag(), "device": Text(LONGEST_DEVICE)}
)
_ASKED = Record(
    {"kind": Text(20), "options": Whole(), "words": Items(FixedList((Text(10), Text(2000))), 0, 9)}
)
_TURN = Record({"phase": Word(PHASES), "round": Whole(1, MOST_ROUNDS), "shown": Flag()})
_ROOM = Record(
    {
        "code": Text(CODE_SIGNS),
        "key": Text(100),
        "plan": Text(LONGEST),
        "asked": Items(_ASKED, 1, MOST_STOPS),
        "until": Number(),
        "turns": Items(_TURN, 1, MOST_STOPS),
        "stop": _STOP,
        "looking": Flag(),
        "pace": Maybe(_STOP),
        "answers": Word(ANSWERS),
        "version": Whole(1),
    }
)


@lru_cache(maxsize=64)
def read_room(record: str) -> Room:
    try:
        parts = decoded(_ROOM, json.loads(record))
        asked = (Asked(**{**each, "words": tuple(map(tuple, each["words"]))}) for each in parts["asked"])
        turns = tuple(Turn(**each) for each in parts["turns"])
        return Room(**{**parts, "plan": Plan.read(parts["plan"]), "asked": tuple(asked), "turns": turns})
    except (Unfit, ValueError, RecursionError):
        raise QuantVizError("rooms.damaged") from None


# ---- counts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoomCounts:
    """The answers of a round, without anybody's name."""

    answered: int
    #: Each answer with how many were sure and how many guessed; none below `FEWEST` answers.
    rows: tuple[tuple[Answer, int, int], ...] = ()

    @classmethod
    def of(cls, stored: Iterable[str], asked: Asked) -> RoomCounts:
        """Return the counts of votes as a store keeps them; of a choice each option has its row.

        >>> RoomCounts.of(['[1, true]', '[1, false]', '[0, true]'], Asked("choice", 3))
        RoomCounts(answered=3, rows=((0, 1, 0), (1, 1, 1), (2, 0, 0)))
        """
        votes = Counter((frozen(answer), sure) for answer, sure in map(json.loads, stored))
        if votes.total() < FEWEST:
            return cls(votes.total())
        options = range(asked.options) if asked.kind == "choice" else ()
        answers = sorted({*options, *(answer for answer, _ in votes)})
        rows = ((answer, votes[answer, True], votes[answer, False]) for answer in answers)
        return cls(votes.total(), tuple(rows))

    def in_words(self, stop: Stop, language: str) -> list[list[Any]]:
        """Return the rows for the lecturer; the most frequent answers are in words."""
        most = sorted(self.rows, key=lambda row: -row[1] - row[2])[:MOST_IN_WORDS]
        return [[*row, say_answer(stop, row[0], language) if row in most else ""] for row in self.rows]


def frozen(answer: Any) -> Answer:
    return tuple(answer) if isinstance(answer, list) else answer


def write_table(room: Room, counts: Mapping[tuple[int, int], RoomCounts], language: str) -> str:
    """Return counts as CSV, by stop and round: a row for each answer, with its words in a language."""
    written = io.StringIO()
    table = csv.writer(written)
    table.writerow(
        ("stop", "kind", "at", "question", "round", "answered", "answer", "words", "sure", "guessed")
    )
    for (number, round), each in counts.items():
        stop, asked = room.plan.stops[number], room.asked[number]
        head = (number + 1, stop.kind, stop.at, asked.kind, round, each.answered)
        for answer, sure, guessed in each.rows or (("", "", ""),):
            words = say_answer(stop, answer, language) if each.rows else ""
            row = (*head, answer, words, sure, guessed)
            table.writerow([csv_text(each) if isinstance(each, str) else each for each in row])
    return written.getvalue()
