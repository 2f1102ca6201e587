"""One contract for every store of rooms."""

import dataclasses
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from quantviz.errors import QuantVizError
from quantviz.rooms.room import new_room
from quantviz.rooms.stores import RedisStore, SqliteStore
from tests.helpers.redis_server import redis_server
from tests.helpers.room_plan import PLAN

ROOT = Path(__file__).parents[2]


def kept(code, version=1, *, closed=False, until=None):
    """A room at the first stop, whose vote is open or closed."""
    room = new_room(code, "key", PLAN, until or time.time() + 60)
    return dataclasses.replace(room.acted("close") if closed else room, version=version)


def test_a_room_is_replaced_by_the_next_version_alone(store):
    assert store.get("K7QF") is None
    room = kept("K7QF")
    assert store.put(room, 9)
    assert store.get("K7QF") == room
    assert not store.put(kept("K7QF"), 9)
    assert not store.put(kept("K7QF", 3), 9)
    second = kept("K7QF", 2, closed=True)
    assert store.put(second, 9)
    assert not store.put(kept("K7QF", 2), 9)
    assert store.get("K7QF") == second
    assert not store.put(kept("2222", 2), 9), "there is none before it"


def test_the_last_vote_of_a_device_counts_while_its_place_is_open(store):
    store.put(kept("K7QF"), 9)
    assert store.vote("K7QF", "0.1", "d1", "[0, true]", 9) == "taken"
    assert store.vote("K7QF", "0.1", "d1", "[1, false]", 9) == "taken"
    assert store.vote("K7QF", "0.1", "d1", "[1, false]", 9) == "taken"
    assert store.vote("K7QF", "0.2", "d1", "[1, true]", 9) == "closed"
    assert store.vote("K7QF", "0", "d1", "[1, true]", 9) == "closed", "a part of a place is none"
    store.put(kept("K7QF", 2, closed=True), 9)
    assert store.vote("K7QF", "0.1", "d1", "[2, true]", 9) == "closed"
    assert store.votes("K7QF", "0.1") == {"d1": "[1, false]"}


def test_one_room_does_not_read_another(store):
    for code in ("K7QF", "2222"):
        store.put(kept(code), 9)
        store.vote(code, "0.1", "d1", f'["{code}", true]', 9)
    store.expire("K7QF")
    assert store.get("K7QF") is None
    assert store.votes("K7QF", "0.1") == {}
    assert store.vote("K7QF", "0.1", "d1", "[0, true]", 9) == "closed"
    assert store.votes("2222", "0.1") == {"d1": '["2222", true]'}


def test_a_room_ends_at_its_time_with_its_votes(store):
    store.put(kept("K7QF", until=time.time() + 0.3), 9)
    store.vote("K7QF", "0.1", "d1", "[0, true]", 9)
    time.sleep(0.35)
    assert store.get("K7QF") is None
    assert store.vote("K7QF", "0.1", "d1", "[0, true]", 9) == "closed"
    assert store.put(kept("K7QF"), 1), "neither its code nor its place is taken"
    assert store.votes("K7QF", "0.1") == {}


def test_rooms_and_devices_are_bounded(store):
    assert store.put(kept("K7QF"), 1)
    with pytest.raises(QuantVizError) as caught:
        store.put(kept("2222"), 1)
    assert caught.value.key == "rooms.full"
    assert store.get("2222") is None
    assert store.put(kept("K7QF", 2), 1)
    assert [store.vote("K7QF", "0.1", each, "[0, true]", 2) for each in "abca"] == [
        *("taken", "taken", "full", "taken")
    ]


def test_answers_at_once_are_all_there_and_no_vote_is_later_than_the_close(store):
    store.put(kept("K7QF"), 9)
    taken = []

    def phone(number):
        for answer in range(20):
            if store.vote("K7QF", "0.1", f"d{number}", f"[{answer}, true]", 99) == "taken":
                taken.append((number, answer))

    threads = [threading.Thread(target=phone, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    closed = store.put(kept("K7QF", 2, closed=True), 9)
    seen = dict(store.votes("K7QF", "0.1"))
    for thread in threads:
        thread.join()
    assert closed
    assert store.votes("K7QF", "0.1") == seen
    assert seen == {f"d{number}": f"[{answer}, true]" for number, answer in taken}


#: Says each vote that is acknowledged, until it is killed.
_VOTER = """
import sys, itertools
from pathlib import Path
from quantviz.rooms.room import new_room
from quantviz.rooms.stores import SqliteStore
from tests.helpers.room_plan import PLAN
store = SqliteStore(Path(sys.argv[1]))
assert store.put(new_room("K7QF", "key", PLAN, 4e9), 9)
for number in itertools.count():
    assert store.vote("K7QF", "0.1", f"d{number}", "[0, true]", 10**6) == "taken"
    print(number, flush=True)
"""


def test_a_process_that_is_killed_loses_no_vote_that_it_acknowledged(tmp_path):
    path = tmp_path / "rooms.sqlite"
    voter = subprocess.Popen([sys.executable, "-c", _VOTER, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    said = [int(voter.stdout.readline()) for _ in range(300)]
    voter.send_signal(signal.SIGKILL)
    said += map(int, voter.stdout.read().split())
    voter.wait()
    voter.stdout.close()
    votes = SqliteStore(path).votes("K7QF", "0.1")
    assert {f"d{number}" for number in said} <= set(votes)
    assert len(votes) <= len(said) + 1


def test_a_store_that_is_away_is_a_sentence_and_comes_back(tmp_path):
    with redis_server() as (address, process):
        store = RedisStore(address)
        assert store.put(kept("K7QF"), 9)
        process.kill()
        process.wait()
        for ask in (
            lambda: store.get("K7QF"),
            lambda: store.put(kept("K7QF", 2), 9),
            lambda: store.vote("K7QF", "0.1", "d", "[0, true]", 9),
            lambda: store.votes("K7QF", "0.1"),
            lambda: store.expire("K7QF"),
        ):
            with pytest.raises(QuantVizError) as caught:
                ask()
            assert caught.value.key == "rooms.away"
    folder = tmp_path / "no_file"
    folder.mkdir()
    with pytest.raises(QuantVizError) as caught:
        SqliteStore(folder).get("K7QF")
    assert caught.value.key == "rooms.away"
    folder.rmdir()


def test_an_address_that_is_none_is_a_sentence():
    with pytest.raises(QuantVizError) as caught:
        RedisStore("http://example").get("K7QF")
    assert caught.value.key == "rooms.away"
