"""Rooms in each kind of store."""

import pytest

from quantviz.rooms.serving import RoomLimits, Rooms
from quantviz.rooms.stores import RedisStore, SqliteStore
from tests.helpers.redis_server import redis_server
from tests.helpers.room_plan import PLAN


@pytest.fixture(scope="session")
def redis_address():
    with redis_server() as (address, _):
        yield address


@pytest.fixture(params=["memory", "file", "redis"])
def store(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "redis":
        import redis

        address = request.getfixturevalue("redis_address")
        redis.Redis.from_url(address).flushall()
        return RedisStore(address)
    return SqliteStore(tmp_path / "rooms.sqlite" if request.param == "file" else None)


@pytest.fixture
def rooms():
    return Rooms(SqliteStore(), RoomLimits())


@pytest.fixture
def room(rooms):
    return rooms.open(PLAN)
