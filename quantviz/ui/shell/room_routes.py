"""The addresses of rooms: plain HTTP beside the pages. No answer and no news of a class runs a script."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from quantviz.browser.messages import Maybe, Record, Text, Unfit, Whole, decoded
from quantviz.errors import QuantVizError
from quantviz.lab.classroom import Classroom
from quantviz.text import DEFAULT_LANGUAGE, languages, text
from quantviz.ui.shell.classroom import PARAMETER, ROOM
from quantviz.ui.shell.events import refused
from quantviz.ui.shell.server import base_path

if TYPE_CHECKING:
    from quantviz.rooms.serving import Rooms

T = TypeVar("T")

#: Signs of a code.
CODE = 4
#: A field for thumbs. Without a script of Streamlit's it is there at once, for two hundred at a time.
_JOIN = Path(__file__).with_name("join.html").read_text(encoding="utf-8")

#: The header with the key of a lecturer's device.
KEY = "x-room-key"
#: The parameter by which a room's address leads to its wall, and how a wall shows a stop: its answer comes
#: when the lecturer shows it.
WALL = "wall"
ON_WALL = Classroom(answers="withheld", projector=True)
#: Requests that may wait for a store that does not answer, and the threads that ask it.
_MOST_WAITING, _THREADS = 200, 8
#: HTTP's numbers of errors; others are 400.
_STATUS: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        403: ("rooms.key", "rooms.other_site"),
        404: ("rooms.unknown",),
        409: ("rooms.closed", "rooms.crowded", "rooms.moved_on", "rooms.not_now"),
        413: ("rooms.too_long",),
        415: ("rooms.not_json",),
        429: ("rooms.wait",),
        503: ("rooms.away", "rooms.busy"),
    }
)
_ACT = Record({"act": Text(20), "version": Whole(1), "stop": Maybe(Whole())})


class RoomRoutes:
    """Answers of the addresses of rooms.

    Args:
        opened: Return the rooms; called when the first request has come.
    """

    def __init__(self, opened: Callable[[], Rooms]) -> None:
        self._opened = opened
        self._threads = ThreadPoolExecutor(_THREADS, "quantviz-room")
        self._waiting = 0

    def routes(self) -> list[Route]:
        """Return the routes."""
        base = base_path()
        each: Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {
            ("/room/{code}", "GET"): self._news,
            ("/room/{code}/table", "GET"): self._table,
            ("/room/{code}/answer", "POST"): self._answer,
            ("/room/{code}/act", "POST"): self._act,
            ("/join", "GET"): partial(self._join, base),
        }
        return [
            Route(f"{base}{path}", partial(self._safely, answer), methods=[method])
            for (path, method), answer in each.items()
        ]

    async def _safely(self, answer: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        """Return an answer, which no cache keeps; that of an error has its sentence."""
        try:
            response = await answer(request)
        except QuantVizError as problem:
            refused(problem)
            said = {"error": problem.key, "says": problem.message(_language(request))}
            response = JSONResponse(said, _status(problem))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _ask(self, work: Callable[[], T]) -> T:
        """Return a store's answer, for which a thread waits: neither the server's own nor one for files."""
        if self._waiting >= _MOST_WAITING:
            raise QuantVizError("rooms.busy")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    async def _let_in(self, code: str, who: str) -> Rooms:
        """Return the rooms once a device may look for one: a stranger waits for its turn."""
        rooms = self._opened()
        if not rooms.knows(code, who) and (seconds := rooms.gate.wait()):
            await asyncio.sleep(seconds)
        return rooms

    async def _news(self, request: Request) -> Response:
        code, key, device = _who(request)
        rooms = await self._let_in(code, key or device)

        def look() -> Response:
            room = rooms.lead(code, key) if key else rooms.find(code, device)
            if not key and request.query_params.get("v") == str(room.version):
                return Response(status_code=304)
            language = _language(request)
            news = rooms.news(room, language)
            if not key:
                return Response(news, media_type="application/json")
            return JSONResponse({**json.loads(news), **rooms.lecturers_news(room, language)})

        return await self._ask(look)

    async def _table(self, request: Request) -> Response:
        code, key, _ = _who(request)
        rooms = await self._let_in(code, key)
        table = await self._ask(lambda: rooms.table(rooms.lead(code, key), _language(request)))
        return JSONResponse({"csv": table})

    async def _answer(self, request: Request) -> Response:
        code = _who(request)[0]
        rooms = self._opened()
        try:
            said = await _message(request, rooms.limits.body_bytes)
            await self._let_in(code, str(said.get("device")) if isinstance(said, dict) else "")
            await self._ask(lambda: rooms.answer(code, said))
        except QuantVizError as problem:
            if _status(problem) < 500:  # a store that is away refuses nobody: the phone sends it again
                rooms.refuse(code)
            raise
        return Response(status_code=204)

    async def _act(self, request: Request) -> Response:
        code, key, _ = _who(request)
        rooms = await self._let_in(code, key)
        try:
            said = decoded(_ACT, await _message(request, rooms.limits.body_bytes))
        except Unfit:
            raise QuantVizError("rooms.message") from None
        room = await self._ask(lambda: rooms.act(code, key, said["version"], said["act"], said["stop"]))
        return JSONResponse({"version": room.version if room else 0})

    async def _join(self, base: str, request: Request) -> Response:
        """Lead to the page of a room's stop, as a phone or a wall shows it; without its code ask for it, as a
        page that needs no script.
        """
        code = request.query_params.get("c", "")
        if not code:
            return HTMLResponse(_join_page(request))
        try:
            rooms = await self._let_in(code, "")
            room = await self._ask(lambda: rooms.find(code))
            page, query = room.plan.stops[room.stop].address
            query |= {ROOM: room.code, "lang": _language(request)}
            if WALL in request.query_params:
                query[PARAMETER] = str(ON_WALL)
        except QuantVizError as problem:
            return HTMLResponse(_join_page(request, code, problem), _status(problem))
        return RedirectResponse(f"{base}/{page}?{urlencode(query)}", 303)


def _who(request: Request) -> tuple[str, str, str]:
    """Return the code of the room, and the key and the id of the device that asks, where it has them."""
    device = request.query_params.get("device", "")
    return str(request.path_params["code"]), request.headers.get(KEY, ""), device


async def _message(request: Request, most: int) -> Any:
    """Return the content of a message; `QuantVizError` where it is too long, no JSON, or another site's.

    A form of another site cannot send JSON, and its script not without leave, which is never given.
    """
    origin = request.headers.get("origin")
    hosts = (request.headers.get("host"), request.headers.get("x-forwarded-host"))
    if origin and urlsplit(origin).netloc not in hosts:
        raise QuantVizError("rooms.other_site", got=origin)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise QuantVizError("rooms.not_json")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > most:
            raise QuantVizError("rooms.too_long", most=most)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise QuantVizError("rooms.not_json") from None


def _status(problem: QuantVizError) -> int:
    """Return HTTP's number of an error."""
    return next((number for number, keys in _STATUS.items() if problem.key in keys), 400)


def _join_page(request: Request, code: str = "", problem: QuantVizError | None = None) -> str:
    """Return the page that asks for a code, with what was wrong with the last one."""
    language = _language(request)
    said = f'<p id="problem" role="alert">{html.escape(problem.message(language))}</p>' if problem else ""
    words = {name: html.escape(text(f"room.join.{name}", language)) for name in ("title", "code", "go")}
    return _JOIN.format(lang=language, value=html.escape(code[:CODE]), said=said, size=CODE, **words)


def _language(request: Request) -> str:
    """Return the language that a page asks for, else the browser's own."""
    wanted = request.query_params.get("lang") or request.headers.get("accept-language", "")
    return next((each for each in languages() if wanted.startswith(each)), DEFAULT_LANGUAGE)


def room_routes() -> list[Route]:
    """Return the routes of this server's rooms."""

    def opened() -> Rooms:
        from quantviz.rooms.serving import rooms  # needs all lessons' modules, when a class is there

        return rooms()

    return RoomRoutes(opened).routes()
