"""Stores of rooms: a SQLite file, or Redis for several servers. Both keep each device's vote by itself, so
that two hundred answers never wait for one another; a room's own record is replaced by version alone.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quantviz.errors import QuantVizError
from quantviz.rooms.room import Room, read_room

if TYPE_CHECKING:
    from redis import Redis

#: Seconds that a store may take, and for which one that did not answer is not asked again.
_PATIENCE = 2.0
_REST = 1.0

Taken = Literal["taken", "closed", "full"]


class RoomStore(Protocol):
    """Where a store cannot be reached, each of these raises `QuantVizError`."""

    def get(self, code: str) -> Room | None: ...

    def put(self, room: Room, most: int) -> bool:
        """Keep a room; return whether the version before it, none for the first, was still there.

        Raises:
            QuantVizError: It is a new one, and there are `most` rooms.
        """

    def expire(self, code: str) -> None: ...

    def vote(self, code: str, place: str, device: str, vote: str, most: int) -> Taken:
        """Replace a device's vote at an open place: nobody's beyond `most` devices."""

    def votes(self, code: str, place: str) -> Mapping[str, str]: ...


def _away(error: Exception) -> QuantVizError:
    return QuantVizError("rooms.away", reason=str(error) or type(error).__name__)


def _full(most: int) -> QuantVizError:
    return QuantVizError("rooms.full", most=most)


def _places(room: Room) -> str:
    return f" {' '.join(room.open)} "


_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS rooms (code TEXT PRIMARY KEY, version INT, open TEXT, record TEXT, until REAL);
CREATE TABLE IF NOT EXISTS votes (
  code TEXT, place TEXT, device TEXT, vote TEXT, PRIMARY KEY (code, place, device)
) WITHOUT ROWID;
"""


class SqliteStore:
    """Rooms in a file, which several processes of a computer may share, or in memory.

    An answer is acknowledged once it is committed, which takes some 0.05 ms: a process that is killed loses
    nothing. When the power fails, the last moments before it may be lost.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = str(path or ":memory:")
        self._lock = threading.Lock()

    @cached_property
    def _connection(self) -> sqlite3.Connection:
        made = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        made.executescript(_TABLES)
        return made

    @contextmanager
    def _at_once(self) -> Iterator[sqlite3.Cursor]:
        """Changes of the cursor are made together or not at all."""
        try:
            with self._lock, self._connection as connection, closing(connection.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                yield cursor
        except sqlite3.Error as error:
            raise _away(error) from None

    def get(self, code: str) -> Room | None:
        with self._at_once() as cursor:
            asked = "SELECT record FROM rooms WHERE code = ? AND until > ?"
            found = cursor.execute(asked, (code, time.time())).fetchone()
        return read_room(found[0]) if found else None

    def put(self, room: Room, most: int) -> bool:
        with self._at_once() as cursor:
            if room.version == 1:
                cursor.execute("DELETE FROM rooms WHERE until <= ?", (time.time(),))
                cursor.execute("DELETE FROM votes WHERE code NOT IN (SELECT code FROM rooms)")
                if cursor.execute("SELECT count(*) FROM rooms").fetchone()[0] >= most:
                    raise _full(most)
            asked = "SELECT version FROM rooms WHERE code = ?"
            before = cursor.execute(asked, (room.code,)).fetchone() or (0,)
            if before[0] != room.version - 1:
                return False
            row = (room.code, room.version, _places(room), room.record(), room.until)
            cursor.execute("REPLACE INTO rooms VALUES (?, ?, ?, ?, ?)", row)
            return True

    def expire(self, code: str) -> None:
        with self._at_once() as cursor:
            for table in ("rooms", "votes"):
                cursor.execute(f"DELETE FROM {table} WHERE code = ?", (code,))

    def vote(self, code: str, place: str, device: str, vote: str, most: int) -> Taken:
        with self._at_once() as cursor:
            asked = "SELECT 1 FROM rooms WHERE code = ? AND until > ? AND instr(open, ?)"
            if not cursor.execute(asked, (code, time.time(), f" {place} ")).fetchone():
                return "closed"
            others = "SELECT count(*) FROM votes WHERE code = ? AND place = ? AND device != ?"
            if cursor.execute(others, (code, place, device)).fetchone()[0] >= most:
                return "full"
            cursor.execute("REPLACE INTO votes VALUES (?, ?, ?, ?)", (code, place, device, vote))
            return "taken"

    def votes(self, code: str, place: str) -> Mapping[str, str]:
        with self._at_once() as cursor:
            asked = "SELECT device, vote FROM votes WHERE code = ? AND place = ?"
            return dict(cursor.execute(asked, (code, place)).fetchall())


#: Keeps a room. KEYS are the room, and the list of rooms by the end of each. Returns 1 where it is kept, 0
#: where it is another version, -1 where there are too many.
_PUT = """
redis.call('zremrangebyscore', KEYS[2], '-inf', ARGV[6])
local before = tonumber(redis.call('hget', KEYS[1], 'version') or '0')
if before ~= tonumber(ARGV[1]) - 1 then return 0 end
if before == 0 and redis.call('zcard', KEYS[2]) >= tonumber(ARGV[5]) then return -1 end
redis.call('hset', KEYS[1], 'version', ARGV[1], 'open', ARGV[2], 'record', ARGV[3], 'until', ARGV[4])
redis.call('pexpireat', KEYS[1], ARGV[4])
redis.call('zadd', KEYS[2], ARGV[4], KEYS[1])
return 1
"""
#: Keeps a vote. KEYS are the room, the votes at a place, and the list of such keys. Returns 1 where it is
#: kept, 0 where the place is not open, -1 where there are too many.
_VOTE = """
local open = redis.call('hget', KEYS[1], 'open') or ''
if not string.find(open, ' ' .. ARGV[1] .. ' ', 1, true) then return 0 end
local known = redis.call('hexists', KEYS[2], ARGV[2])
if known == 0 and redis.call('hlen', KEYS[2]) >= tonumber(ARGV[4]) then return -1 end
redis.call('hset', KEYS[2], ARGV[2], ARGV[3])
redis.call('sadd', KEYS[3], KEYS[2])
local till = redis.call('hget', KEYS[1], 'until')
redis.call('pexpireat', KEYS[2], till)
redis.call('pexpireat', KEYS[3], till)
return 1
"""


class RedisStore:
    """Rooms for several servers. An answer is acknowledged once Redis has it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._away_until = 0.0

    @cached_property
    def _redis(self) -> Redis:
        try:
            import redis
        except ImportError:
            raise QuantVizError("rooms.needs_redis") from None
        return redis.Redis.from_url(
            self._address,
            decode_responses=True,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
        )

    def _ask(self, command: str, *given: Any) -> Any:
        """A Redis that did not answer is left alone for a moment, or all threads would wait for it."""
        if time.monotonic() < self._away_until:
            raise QuantVizError("rooms.away", reason="Redis")
        from redis import RedisError

        try:
            return self._redis.execute_command(command, *given)
        except ValueError as error:  # no address of a Redis
            raise _away(error) from None
        except RedisError:
            # Its own words name the address, which is no student's.
            self._away_until = time.monotonic() + _REST
            raise QuantVizError("rooms.away", reason="Redis") from None

    def get(self, code: str) -> Room | None:
        record = self._ask("HGET", _room(code), "record")
        return read_room(record) if record else None

    def put(self, room: Room, most: int) -> bool:
        ends, now = (int(1000 * seconds) for seconds in (room.until, time.time()))
        given = (room.version, _places(room), room.record(), ends, most, now)
        done = self._ask("EVAL", _PUT, 2, _room(room.code), "quantviz:rooms", *given)
        if done < 0:
            raise _full(most)
        return bool(done)

    def expire(self, code: str) -> None:
        places = f"{_room(code)}:places"
        self._ask("DEL", _room(code), places, *self._ask("SMEMBERS", places))
        self._ask("ZREM", "quantviz:rooms", _room(code))

    def vote(self, code: str, place: str, device: str, vote: str, most: int) -> Taken:
        keys = (_room(code), f"{_room(code)}:{place}", f"{_room(code)}:places")
        answers: dict[int, Taken] = {1: "taken", 0: "closed", -1: "full"}
        return answers[self._ask("EVAL", _VOTE, 3, *keys, place, device, vote, most)]

    def votes(self, code: str, place: str) -> Mapping[str, str]:
        return dict(self._ask("HGETALL", f"{_room(code)}:{place}"))


def _room(code: str) -> str:
    return f"quantviz:room:{code}"
