"""The load of a class on a room: `python -m tests.bench.classroom room`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from quantviz.rooms.plan import PLANS
from quantviz.rooms.room import Room
from quantviz.rooms.serving import RoomLimits, Rooms
from quantviz.rooms.stores import RedisStore, SqliteStore
from tests.bench.runner import judged, p95, row
from tests.bench.servers import server_process
from tests.helpers.redis_server import redis_server

#: Seconds between two looks for news, of a phone and of the lecturer.
_NEWS, _LOOK = 2.0, 1.0
_ANSWERS = {"choice": lambda draw: draw.randrange(3), "number": lambda draw: draw.choice([0.5, 1.5, 3.58])}
#: Question in which a server is killed.
_KILLED_AT = 2


class Lost(Exception):
    """There was no answer."""


@dataclasses.dataclass
class Servers:
    """The addresses of a room's servers that are there, and where it is kept."""

    addresses: list[str]
    processes: list[int]
    kept: Rooms
    room: Room


class Client:
    """One connection to a server, made again when it is lost."""

    def __init__(self, servers: Servers, number: int) -> None:
        self.servers, self.number = servers, number
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, said: object = None, key: str = "") -> tuple[int, bytes]:
        """Return the number and the body of an answer."""
        try:
            async with asyncio.timeout(10):
                if self._streams is None:
                    address = self.servers.addresses[self.number % len(self.servers.addresses)]
                    port = int(address.rpartition(":")[2])
                    self._streams = await asyncio.open_connection("127.0.0.1", port)
                reader, writer = self._streams
                body = b"" if said is None else json.dumps(said).encode()
                head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                head += f"X-Room-Key: {key}\r\n" if key else ""
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(answer.partition("content-length: ")[2].partition("\r\n")[0] or 0)
                return int(answer.split()[1]), await reader.readexactly(length)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, IndexError) as error:
            self.drop()
            raise Lost from error

    def drop(self) -> None:
        """Lose the connection."""
        if self._streams:
            self._streams[1].close()
        self._streams = None


@dataclasses.dataclass
class Found:
    """What was measured, in seconds, and the answers that were acknowledged."""

    posts: list[float] = dataclasses.field(default_factory=list)
    acts: list[float] = dataclasses.field(default_factory=list)
    health: list[float] = dataclasses.field(default_factory=list)
    tallied: list[float] = dataclasses.field(default_factory=list)
    back: list[float] = dataclasses.field(default_factory=list)
    #: The last answer of each device that was acknowledged, by stop and round.
    answers: dict[tuple[int, int], dict[str, Any]] = dataclasses.field(default_factory=dict)
    #: When each device's first answer to the running question was sent.
    sent: list[float] = dataclasses.field(default_factory=list)
    late: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)


class Phone:
    """One device of the class."""

    def __init__(self, servers: Servers, number: int, found: Found, seconds: float) -> None:
        self.client, self.found, self.seconds = Client(servers, number), found, seconds
        self.random = random.Random(number)
        self.device, self.room = f"device-{number:04}", servers.room
        self.version = 0

    async def run(self) -> None:
        """Ask for news until the class ends, and answer what is asked."""
        await asyncio.sleep(self.random.uniform(0, _NEWS))
        answered, status = None, 200
        while status != 404:
            with contextlib.suppress(Lost):
                path = f"/room/{self.room.code}?v={self.version}&device={self.device}"
                status, body = await self.client.ask("GET", path)
                if status == 200:
                    news = json.loads(body)
                    self.version = news["version"]
                    question = (news["stop"], news["round"])
                    if news["phase"] in ("ask", "again") and question != answered:
                        answered = question
                        await self._answer(*question)
                elif status not in (304, 404):
                    self.found.wrong.append(f"news: {status}")
            if self.random.random() < 0.1:
                self.client.drop()
            await asyncio.sleep(_NEWS)

    async def _answer(self, stop: int, round: int) -> None:
        kind = self.room.asked[stop].kind
        await asyncio.sleep(self.random.uniform(0, self.seconds / 3))
        for _ in range(1 + (self.random.random() < 0.2)):
            answer = _ANSWERS.get(kind, lambda draw: f"s=int{draw.randrange(2, 9)}")(self.random)
            said = {"stop": stop, "round": round, "answer": answer, "sure": self.random.random() < 0.5}
            for _ in range(1 + (self.random.random() < 0.1)):
                if not await self._post({**said, "device": self.device}):
                    return
            await asyncio.sleep(self.random.uniform(0, self.seconds / 4))

    async def _post(self, said: dict[str, Any]) -> bool:
        unsure = False
        while True:
            start = time.monotonic()
            try:
                status, _ = await self.client.ask("POST", f"/room/{self.room.code}/answer", said)
            except Lost:
                unsure = True
                await asyncio.sleep(0.3)
                continue
            self.found.posts.append(time.monotonic() - start)
            if status == 204:
                answers = self.found.answers.setdefault((said["stop"], said["round"]), {})
                if self.device not in answers:
                    self.found.sent.append(start)
                answers[self.device] = (said["answer"], said["sure"])
            elif status == 409:
                self.found.late += 1
                # Nobody knows whether it was kept before its acknowledgement was lost.
                if unsure:
                    self.found.answers.get((said["stop"], said["round"]), {}).pop(self.device, None)
            else:
                self.found.wrong.append(f"answer: {status}")
            return status == 204


class Lecturer:
    """The lecturer's device."""

    def __init__(self, servers: Servers, found: Found, seconds: float) -> None:
        self.client, self.found, self.seconds = Client(servers, 1), found, seconds
        self.servers, self.room, self.version = servers, servers.room, 1

    async def act(self, word: str) -> None:
        start = time.monotonic()
        said = {"act": word, "version": self.version}
        path = f"/room/{self.room.code}/act"
        status, body = await self.client.ask("POST", path, said, self.room.key)
        self.found.acts.append(time.monotonic() - start)
        if status == 200:
            self.version = json.loads(body)["version"]
        else:
            self.found.wrong.append(f"{word}: {status}")

    async def run(self, killer: Any) -> None:
        """Lead the class through the plan, in two rounds a stop."""
        questions = 0
        for stop in range(len(self.room.plan.stops)):
            for round in (1, 2):
                if round == 2:
                    await self.act("again")
                if questions == _KILLED_AT and killer:
                    await asyncio.gather(self._watch(), killer())
                else:
                    await self._watch()
                questions += 1
                await self.act("close")
                await asyncio.sleep(0.5)
                await self._check(stop, round)
            await self.act("tell")
            if stop + 1 < len(self.room.plan.stops):
                await self.act("next")
        await self.act("end")

    async def _watch(self) -> None:
        """Look at the number of answers: one is tallied when the number has reached it."""
        self.found.sent.clear()
        seen, start = 0, time.monotonic()
        while time.monotonic() < start + self.seconds:
            with contextlib.suppress(Lost):
                _, body = await self.client.ask("GET", f"/room/{self.room.code}", key=self.room.key)
                answered, now = json.loads(body).get("answered", 0), time.monotonic()
                self.found.tallied += [now - sent for sent in self.found.sent[seen:answered]]
                seen = max(seen, answered)
            await asyncio.sleep(_LOOK)

    async def _check(self, stop: int, round: int) -> None:
        """Hold the tally against the answers that phones know to be acknowledged."""
        path = f"/room/{self.room.code}"
        counts = json.loads((await self.client.ask("GET", path, key=self.room.key))[1])
        stored = self.servers.kept.store.votes(self.room.code, f"{stop}.{round}")
        kept = {device: tuple(json.loads(vote)) for device, vote in stored.items()}
        wanted = self.found.answers.get((stop, round), {})
        told = sum(sure + guessed for _, sure, guessed, _ in counts["rounds"][round - 1])
        if counts["answered"] != len(kept) or told != len(kept):
            self.found.wrong.append(f"{stop}.{round}: {len(kept)} devices, counted {counts}")
        for device in wanted:
            if kept.get(device) != wanted[device]:
                self.found.wrong.append(f"{stop}.{round} {device}: {kept.get(device)}, sent {wanted[device]}")


async def _probe(servers: Servers, found: Found) -> None:
    client = Client(servers, 1)
    while True:
        with contextlib.suppress(Lost):
            start = time.monotonic()
            await client.ask("GET", "/_stcore/health")
            found.health.append(time.monotonic() - start)
        await asyncio.sleep(0.1)


async def measure_room(
    devices: int, seconds: float, redis: bool, kill: bool, others: Callable[[str], Coroutine[Any, Any, None]]
) -> Found:
    """Have a class go through the plan of an hour, each question open for some seconds, beside others."""
    found = Found()
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(_served(redis))

        async def killer() -> None:
            await asyncio.sleep(seconds / 4)
            os.kill(servers.processes[0], signal.SIGKILL)
            killed = time.monotonic()
            if redis:
                servers.addresses.pop(0)
            else:
                port = int(servers.addresses[0].rpartition(":")[2])
                env = {"QUANTVIZ_CACHE_DIR": os.environ["QUANTVIZ_BENCH_FOLDER"]}
                again = server_process(env=env, port=port)
                await asyncio.to_thread(stack.enter_context, again)
            client = Client(servers, 0)
            while True:
                with contextlib.suppress(Lost):
                    if (await client.ask("GET", f"/room/{servers.room.code}"))[0] == 200:
                        break
                await asyncio.sleep(0.05)
            found.back.append(time.monotonic() - killed)

        phones = [Phone(servers, number, found, seconds) for number in range(devices)]
        tasks = [asyncio.create_task(phone.run()) for phone in phones]
        beside = [
            asyncio.create_task(each) for each in (_probe(servers, found), others(servers.addresses[-1]))
        ]
        await Lecturer(servers, found, seconds).run(killer if kill else None)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        for each in beside:
            each.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    return found


@contextlib.contextmanager
def _served(redis: bool) -> Iterator[Servers]:
    """A server with its file, or two on one Redis, and a room."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store: RedisStore | SqliteStore
        if redis:
            address, _ = stack.enter_context(redis_server())
            store, env = RedisStore(address), {"QUANTVIZ_REDIS_URL": address}
        else:
            rooms = folder / "rooms"
            rooms.mkdir(mode=0o700)
            store, env = SqliteStore(rooms / "rooms.sqlite"), {"QUANTVIZ_CACHE_DIR": str(folder)}
            os.environ["QUANTVIZ_BENCH_FOLDER"] = str(folder)
        both = [stack.enter_context(server_process(env=env)) for _ in range(1 + redis)]
        kept = Rooms(store, RoomLimits())
        room = kept.open(PLANS["single_hour"])
        yield Servers([each for each, _ in both], [process for _, process in both], kept, room)


def room_report(found: Found) -> bool:
    """Print what was measured; return whether a bar was missed."""
    post, health = p95(found.posts), p95(found.health)
    tallied, act = max(found.tallied), max(found.acts)
    middle = [1000 * statistics.median(each) for each in (found.posts, found.health)]
    row("answers, 95 %", f"{judged(1000 * post, 100, 0)} ms", f"{post / health:.1f} × a health check")
    row("answers, median", f"{middle[0]:.0f} ms", f"{len(found.posts)} sent")
    row("health checks, 95 %", f"{1000 * health:.0f} ms", f"median {middle[1]:.0f} ms")
    row("answer to tally, slowest", f"{judged(tallied, 3)} s", f"95 % {p95(found.tallied):.2f} s")
    row("the lecturer's acts, slowest", f"{judged(1000 * act, 500, 0)} ms", f"{len(found.acts)} acts")
    counted = sum(map(len, found.answers.values()))
    row("acknowledged", counted, f"after the close {found.late}, lost or wrong {len(found.wrong)}")
    if found.back:
        row("back after kill -9", f"{judged(found.back[0], 5)} s")
    print(*found.wrong[:10], sep="\n")
    slow_back = bool(found.back and found.back[0] > 5)
    return bool(found.wrong) or post > 0.1 or tallied > 3 or act > 0.5 or slow_back
