"""Rooms as a server keeps them: opened, looked at, voted in, and led by their lecturer."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.rooms.plan import Plan
from quantviz.rooms.room import (
    CODE_SIGNS,
    HERE,
    LONGEST_DEVICE,
    MOST_ROUNDS,
    SIGNS,
    Room,
    RoomCounts,
    new_room,
    write_table,
)
from quantviz.rooms.stores import RedisStore, RoomStore, SqliteStore
from quantviz.sources.limits import read_limits
from quantviz.text import DEFAULT_LANGUAGE
from quantviz.whole_files import own_folder

REDIS = "QUANTVIZ_REDIS_URL"
ROOM_LIMIT_VARIABLE = "QUANTVIZ_ROOM_"
#: Bytes of the news that a phone asks for every two seconds.
LONGEST_NEWS = 400
#: Seconds after which a device that asks for news is noted again, and after which it is not there any more.
_NOTED_EVERY, _GONE_AFTER = 5.0, 12.0
#: Wrong codes that are answered at once, the seconds in which they are forgiven, and the seconds between two
#: strangers' looks after twice as many, which double with each further dozen up to the longest.
_FREE, _FORGIVEN, _FIRST_GAP, _DOZEN, _LONGEST_GAP = 40, 60.0, 0.01, 12, 0.1
#: Seconds that a stranger waits for its look at most.
_LONGEST_WAIT = 8.0


@dataclass(frozen=True)
class RoomLimits:
    """Limits of rooms: `QUANTVIZ_ROOM_` and the field's name in capitals, a whole number above 0."""

    #: Rooms at a time.
    rooms: int = 200
    #: Devices of a room, and so the answers to a stop in a round.
    devices: int = 1000
    #: Bytes of a phone's or a lecturer's message.
    body_bytes: int = 2048
    #: Hours after which a room is deleted.
    hours: int = 12

    @classmethod
    def of_environment(cls) -> RoomLimits:
        return read_limits(cls, ROOM_LIMIT_VARIABLE)


class RoomGate:
    """Gaps between strangers' looks for a room: longer, the more wrong codes have come of late.

    A device that was in its room before passes by: a class that is in a room notices nothing of those who
    guess, wherever they are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wrong = 0.0
        self._at = self._next = time.monotonic()

    def wrong(self) -> None:
        with self._lock:
            self._fade()
            self._wrong += 1

    def wait(self) -> float:
        """Return the seconds after which a stranger may look; `QuantVizError` where they are too many."""
        with self._lock:
            self._fade()
            beyond = self._wrong - _FREE
            gap = min(_FIRST_GAP * 2.0 ** (beyond / _DOZEN), _LONGEST_GAP) if beyond > 0 else 0.0
            now = time.monotonic()
            turn = max(now, self._next) + gap
            if turn - now > _LONGEST_WAIT:
                raise QuantVizError("rooms.wait")
            self._next = turn if gap else now
            return turn - now

    def _fade(self) -> None:
        now = time.monotonic()
        self._wrong *= 0.5 ** ((now - self._at) / _FORGIVEN)
        self._at = now


class Rooms:
    def __init__(self, store: RoomStore, limits: RoomLimits | None = None) -> None:
        self.store = store
        self.limits = limits or RoomLimits.of_environment()
        self.gate = RoomGate()
        self._seen: dict[tuple[str, str], float] = {}
        #: By the codes of rooms that were found.
        self._refused: dict[str, int] = {}

    def open(self, plan: Plan) -> Room:
        """Return a new room at the first stop; raise `QuantVizError` where the plan has none."""
        until = time.time() + 3600 * self.limits.hours
        first = new_room("", secrets.token_urlsafe(16), Plan.parse(str(plan)), until)
        while True:
            code = "".join(secrets.choice(SIGNS) for _ in range(CODE_SIGNS))
            room = dataclasses.replace(first, code=code)
            if self.store.put(room, self.limits.rooms):
                self._refused[code] = 0
                return room

    def find(self, code: str, who: str = "") -> Room:
        """Return the room of a code in letters of either size, in which a device `who` is known from now on.

        Raises:
            QuantVizError: There is none.
        """
        code = code.upper()[: CODE_SIGNS + 1]
        room = self.store.get(code)
        if room is None:
            self.gate.wrong()
            raise QuantVizError("rooms.unknown", got=code)
        self._refused.setdefault(code, 0)
        if who:
            self._note(room, who[:LONGEST_DEVICE])
        return room

    def knows(self, code: str, who: str) -> bool:
        """Return whether a device, or a lecturer's key, was in a room before."""
        return (code.upper(), who) in self._seen

    def _note(self, room: Room, device: str) -> None:
        """Note that a device is there, in the store from time to time."""
        now = time.time()
        before = self._seen.get((room.code, device), 0.0)
        if now - before < _NOTED_EVERY:
            return
        if len(self._seen) > self.limits.rooms * self.limits.devices:
            self._seen = {}
        self._seen[room.code, device] = now
        if device != room.key:
            self.store.vote(room.code, HERE, device, str(now), self.limits.devices)

    # ---- phones -----------------------------------------------------------------------------------------

    def answer(self, code: str, said: object) -> None:
        room = self.find(code)
        vote = room.vote(said)
        taken = self.store.vote(room.code, vote.place, vote.device, vote.stored, self.limits.devices)
        if taken != "taken":
            raise QuantVizError("rooms.closed") if taken == "closed" else QuantVizError("rooms.crowded")

    def refuse(self, code: str) -> None:
        if code.upper() in self._refused:
            self._refused[code.upper()] += 1

    def news(self, room: Room, language: str = DEFAULT_LANGUAGE) -> bytes:
        """Return the news for a phone, as JSON: at most `LONGEST_NEWS` bytes.

        The words of the question come with it, cut where they are long, so that the phone shows them at once.
        """
        turn, asked = room.turn, room.asked[room.stop]
        news: dict[str, Any] = {
            "version": room.version,
            "stop": room.stop,
            "phase": turn.phase,
            "round": turn.round,
            "look": room.looking,
            "pace": room.pace,
            "answers": room.answers,
        }
        if room.shows(room.stop, turn.round) and asked.kind == "choice":
            counts = self.counts(room, room.stop, turn.round)
            news["counts"] = [row[1:] for row in counts.rows]
        words = dict(asked.words).get(language, "")
        while words and len(_json({**news, "words": words})) > LONGEST_NEWS:
            words = f"{words[:-2]}…"
        return _json({**news, "words": words})

    # ---- the lecturer -----------------------------------------------------------------------------------

    def lead(self, code: str, key: str) -> Room:
        """Return a room to one who has its key; raise `QuantVizError` for any other."""
        room = self.find(code)
        if not secrets.compare_digest(key.encode(), room.key.encode()):
            raise QuantVizError("rooms.key")
        self._note(room, key)
        return room

    def act(self, code: str, key: str, version: int, act: str, stop: int | None = None) -> Room | None:
        """Return the room after an act on a version of it; None after "end", which deletes it with its votes.

        Raises:
            QuantVizError: The key is wrong, the room is another version by now, or it is not the time for it.
        """
        room = self.lead(code, key)
        if act == "end":
            self.store.expire(room.code)
            self._refused.pop(room.code, None)
            return None
        after = room.acted(act, stop)
        if room.version != version or not self.store.put(after, self.limits.rooms):
            raise QuantVizError("rooms.moved_on")
        return after

    def counts(self, room: Room, stop: int, round: int) -> RoomCounts:
        votes = self.store.votes(room.code, f"{stop}.{round}")
        return RoomCounts.of(votes.values(), room.asked[stop])

    def seen_counts(self, room: Room, stop: int, *, to_lecturer: bool) -> list[RoomCounts]:
        """Return the counts of the rounds as they may be seen: of others the number of answers alone."""
        found = [self.counts(room, stop, round) for round in range(1, room.turns[stop].round + 1)]
        return [
            each if room.shows(stop, round, to_lecturer=to_lecturer) else RoomCounts(each.answered)
            for round, each in enumerate(found, 1)
        ]

    def lecturers_news(self, room: Room, language: str) -> dict[str, Any]:
        """Return numbers of devices and answers, and the counts of rounds that are over, in words."""
        now = time.time()
        here = self.store.votes(room.code, HERE).values()
        rounds = self.seen_counts(room, room.stop, to_lecturer=True)
        return {
            "here": sum(now - float(seen) < _GONE_AFTER for seen in here),
            "answered": rounds[-1].answered,
            "refused": self._refused.get(room.code, 0),
            "rounds": [each.in_words(room.plan.stops[room.stop], language) for each in rounds],
        }

    def table(self, room: Room, language: str = DEFAULT_LANGUAGE) -> str:
        places = ((stop, round) for stop in range(len(room.turns)) for round in range(1, MOST_ROUNDS + 1))
        counts = {
            place: self.counts(room, *place) for place in places if room.shows(*place, to_lecturer=True)
        }
        return write_table(room, counts, language)


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


@cache
def rooms() -> Rooms:
    """Return this server's rooms: in Redis where it is set, else in the cache folder, else in memory."""
    if address := os.environ.get(REDIS):
        return Rooms(RedisStore(address))
    folder = own_folder("rooms")
    return Rooms(SqliteStore(folder / "rooms.sqlite" if folder else None))
