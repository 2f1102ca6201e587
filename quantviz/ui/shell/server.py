"""The server's app: its imports, its connections, and its answer to looks for its address."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shlex
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quantviz.browser import FOLDER, read_script
from quantviz.jobs import Job, return_memory
from quantviz.lab.share_links import only_here
from quantviz.sources.hubs.hosts import DISABLED
from quantviz.streaming.compiling import run_without_compiling
from quantviz.streaming.kernel_access import READY_FIRST, wait_for_kernels
from quantviz.ui.shell.classroom import NOTED
from quantviz.ui.shell.imports import Ahead, frames, import_all
from quantviz.ui.shell.streamlit_private import drawing_script, has_come_to_rest, use_navigation

#: The requests by which Streamlit's page looks for the server. At `/lab` it asks `/lab/_stcore/…` before
#: `/_stcore/…`, for an app might be mounted there.
_PROBES = ("/_stcore/health", "/_stcore/host-config")
#: "Multiple choices" without a place to go: no success, so that the page looks further, and no error, which
#: the browser would write to its console.
_ELSEWHERE = 300
#: Folder with the numbers of a process's open files; there is none on Windows.
_OPEN = "/dev/fd"

#: The header of a connection whose third part Streamlit takes for the session that a page had.
_PARTS = b"sec-websocket-protocol"
#: The fourth part, where the page is loaded anew.
ANEW = "anew"
#: Headers with which a browser asks for a page in another form than as it is, or not at all if unchanged.
_OTHER_FORMS = (b"accept-encoding", b"if-none-match", b"if-modified-since")
#: Headers of a page that no longer fit once it has its style.
_OF_THE_FILE = (b"content-length", b"etag", b"last-modified")
#: Notes before anything is shown what gives it other places: Chinese, and a sidebar that was closed in an
#: earlier visit, which Streamlit keeps.
_NOTED = """<script>{
  const page = document.documentElement;
  const lang = new URLSearchParams(location.search).get("lang") ?? navigator.language;
  if (lang.startsWith("zh")) page.lang = "zh-CN";
  const isFolded = ([name, kept]) => name.startsWith("stSidebarCollapsed") && kept === "true";
  try {
    if (Object.entries(localStorage).some(isFolded)) page.dataset.qvFolded = "";
  } catch {}
}</script>"""
#: Notes for the server how wide a page is beside its sidebar and between its edges, how large its letters,
#: and how high the window (`classroom.noted`).
_MEASURED = f"""<script>{{
  const style = getComputedStyle(document.documentElement);
  const letters = parseFloat(style.fontSize);
  const edges = innerWidth > 640 ? 2.5 * letters : 24;
  const room = innerWidth - parseFloat(style.getPropertyValue("--qv-sidebar")) - edges;
  const noted = [room, letters, innerHeight].map(Math.round).join("_");
  document.cookie = `{NOTED}=${{noted}}; path=/; SameSite=Strict`;
}}</script>"""
#: Has a page that is loaded anew, or come back to, ask for the session that it had (`Resumed`): what was
#: dropped into it is there, and the steps that undo takes back.
_RESUMED = f"""<script>{{
  const KEPT = "quantviz.session";
  const isNew = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  // Where a page is loaded anew or come back to, before the app writes another address.
  window.__quantvizArrived = isNew ? null : location.href;
  try {{
    const [address, session] = JSON.parse(sessionStorage.getItem(KEPT)) ?? [];
    sessionStorage.removeItem(KEPT);
    const Usual = window.WebSocket;
    if (address === window.__quantvizArrived)
      window.WebSocket = class extends Usual {{
        constructor(address, protocols) {{
          window.WebSocket = Usual;
          super(address, protocols?.length === 2 ? [...protocols, session, "{ANEW}"] : protocols);
        }}
      }};
    addEventListener("pagehide", () => {{
      const session = window.__quantvizSession;
      if (session) sessionStorage.setItem(KEPT, JSON.stringify([location.href, session]));
    }});
  }} catch {{}} // storage can be switched off: then a reload begins a new session
}}</script>"""
#: Has the browser compile a script while the page does something else, and not when it is needed.
_AHEAD = '<link rel="modulepreload" crossorigin fetchpriority="low" href="./static/js/{}">'
#: Has it compile all functions of a script then, as its first line.
_ALL_FUNCTIONS = b"//# allFunctionsCalledOnLoad\n"
#: The element in which Streamlit shows a page.
_ROOT = b'<div id="root">'
#: For an app whose pages have no style sheets of their own.
NO_SHEETS: Mapping[str, tuple[str, ...]] = {}
#: For an app whose pages draw nothing at once.
NOTHING_DRAWN: Mapping[str, str] = {}

#: Seconds that a server which is to be ready first waits for the job.
_LONGEST = 20.0
#: Seconds that a page loaded anew waits for the last run of its session; then it gets a new one.
_RESTS_WITHIN = 5.0
_Message = MutableMapping[str, Any]
_Send = Callable[[_Message], Awaitable[None]]


def starting(
    ahead: Ahead, then: Callable[[], Job[None] | None] = lambda: None
) -> Callable[[object], contextlib.AbstractAsyncContextManager[None]]:
    """Return the lifespan of a server that begins these imports when it starts, in a thread, and then more.

    Visitors wait for the rest of them. With `READY_FIRST` the server answers nobody before they are there,
    the kernels of every scheme too, and the job that `then` begins has ended. Unless the operator says
    otherwise, hubs are asked without the operator's login: what it may read, all visitors could.
    """

    is_ready_first = os.environ.get(READY_FIRST) == "1"

    def begin() -> None:
        import_all(ahead)
        if is_ready_first:
            run_without_compiling(wait_for_kernels)
        job = then()
        if is_ready_first and job is not None:
            job.wait(_LONGEST)  # beside it the first visitor would wait longer

    @contextlib.asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        os.environ.setdefault(DISABLED, "1")
        send_at_once()
        use_navigation()
        return_memory()
        thread = threading.Thread(target=begin, name="quantviz-import", daemon=True)
        thread.start()
        if is_ready_first:
            await asyncio.to_thread(thread.join)
        yield

    return lifespan


@st.cache_resource(show_spinner=False)
def send_at_once() -> bool:
    """Have the server send each part of an answer when it is written.

    Streamlit makes its socket without a protocol's number, and asyncio then leaves Nagle's algorithm on: the
    second part of an answer, say a script's text after its header, waits until the browser has acknowledged
    the first, which takes 40 ms; a page's ninety scripts take 4 times as long
    (tests/bench/README.md). Connections take the setting from the socket that they come in by.
    """
    for number in map(int, os.listdir(_OPEN) if os.path.isdir(_OPEN) else ()):
        # Some are closed by now. A duplicate of a pipe would stay open, and its reader never see the end.
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as connection:
                if (
                    connection.family in (socket.AF_INET, socket.AF_INET6)
                    and connection.type == socket.SOCK_STREAM
                ):
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return True


#: An address for documentation, which is never reached.
_FAR_AWAY = ("192.0.2.1", 9)
_EVERYWHERE = "0.0.0.0"


def is_local_only() -> bool:
    """Return whether the server answers to this computer alone, by its setting `server.address`."""
    host = st.get_option("server.address") or _EVERYWHERE
    return host not in (_EVERYWHERE, "::") and only_here(f"http://{f'[{host}]' if ':' in host else host}/")


def network_address(address: str) -> str | None:
    """Return an address on this computer with the computer's own host in its network; None without one.

    Nothing is sent: a datagram's socket is only given the way that it would take.
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect(_FAR_AWAY)
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        found = urlunsplit(parts._replace(netloc=f"{way.getsockname()[0]}{port}"))
        return None if only_here(found) else found
    return None


def command_for_all() -> str:
    """Return the command that started the server, for one that answers to other computers too."""
    used = sys.orig_argv if "run" in sys.orig_argv else ["streamlit", "run", "app.py"]
    setting = "--server.address"
    kept = [
        each
        for before, each in zip(("", *used), used, strict=False)
        if setting not in (before, each.partition("=")[0])
    ]
    return shlex.join([*kept, setting, _EVERYWHERE])


# ---- the scripts of components -----------------------------------------------------------------------


@cache
def script_address(name: str) -> str:
    """Return the address of a component's script below the app's own; another text has another one.

    >>> script_address("hand_component").rpartition("-")[0]
    '/scripts/hand_component'
    """
    return f"/scripts/{name}-{hashlib.sha256(read_script(name).encode()).hexdigest()[:16]}.js"


def script_routes() -> list[Route]:
    """Return the route by which a browser fetches each script once, and keeps it."""
    return [Route(f"{base_path()}/scripts/{{file}}", _send_script)]


def base_path() -> str:
    """Return the path below which the server answers, by its setting `server.baseUrlPath`; "" for the top."""
    return f"/{st.get_option('server.baseUrlPath').strip('/')}".rstrip("/")


async def _send_script(request: Request) -> Response:
    file = request.path_params["file"]
    name = file.rpartition("-")[0]
    if (FOLDER / f"{name}.js") not in FOLDER.glob("*.js") or script_address(name) != f"/scripts/{file}":
        return Response(status_code=404)
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(read_script(name), media_type="text/javascript", headers=kept)


class _Answers:
    """The server's app, with some answers to requests for files written anew on their way."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: _Message, receive: object, send: _Send) -> None:
        if scope["type"] == "http":
            scope, send = self.changed(scope, send)
        await self._app(scope, receive, send)

    def changed(self, scope: _Message, send: _Send) -> tuple[_Message, _Send]:
        """Return a request as the app gets it, and what sends the app's answer."""
        return scope, send


class Announced(_Answers):
    """The server's app, which reports each requested file to `frames`, but not requests of health checks."""

    def changed(self, scope: _Message, send: _Send) -> tuple[_Message, _Send]:
        """Report the request."""
        if not scope["path"].endswith("/health"):
            frames().ask()
        return scope, send


class ProbeAnswers(_Answers):
    """The server's app, whose answer below a page's address is that the server is elsewhere."""

    def changed(self, scope: _Message, send: _Send) -> tuple[_Message, _Send]:
        """Change the status of an answer to a probe."""

        async def send_elsewhere(message: _Message) -> None:
            if message.get("status") == 404:
                message = {**message, "status": _ELSEWHERE}
            await send(message)

        return scope, send_elsewhere if scope["path"].endswith(_PROBES) else send


class Resumed:
    """The server's app, in which a page that is loaded anew goes on with the session that it had.

    Streamlit lets a page do so after a lost connection. To one that has nothing yet it would also send what a
    run meant for the page before, and it would stand still: a session goes on once its last run has ended.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: _Message, receive: object, send: _Send) -> None:
        headers = dict(scope.get("headers", ()))
        parts = headers.get(_PARTS, b"").decode("latin-1").split(",")
        if scope["type"] == "websocket" and len(parts) == 4 and parts[3].strip() == ANEW:
            goes_on = await has_come_to_rest(parts[2].strip(), _RESTS_WITHIN)
            headers[_PARTS] = ",".join(parts[: 3 if goes_on else 2]).encode("latin-1")
            scope = {**scope, "headers": list(headers.items())}
        await self._app(scope, receive, send)


class CompiledAhead(_Answers):
    """The server's app, whose script that draws is compiled whole while it is fetched, beside the page.

    It is made of functions in functions, and a browser that compiles a function when it is first called reads
    the inner ones once for each of the outer: half of a second on a laptop, in which the page stands still.
    """

    def changed(self, scope: _Message, send: _Send) -> tuple[_Message, _Send]:
        """Mark the script."""
        asked = scope["method"] == "GET" and scope["path"].rpartition("/")[2]
        if not asked or asked != drawing_script():
            return scope, send
        first = b""

        async def send_marked(message: _Message) -> None:
            nonlocal first
            if message.get("status") == 200:
                first = _ALL_FUNCTIONS
                length = {name: value for name, value in message["headers"] if name == b"content-length"}
                longer = {name: str(int(value) + len(first)).encode() for name, value in length.items()}
                headers = [(name, longer.get(name, value)) for name, value in message["headers"]]
                message = {**message, "headers": headers}
            elif first:
                message, first = {**message, "body": first + message.get("body", b"")}, b""
            await send(message)

        return scope, send_marked


class Styled(_Answers):
    """The server's app, whose pages come with their style: what is seen first has its final place.

    Streamlit shows the first parts of a page before it has run the script that would give it `style.css`.

    Args:
        app: The server's app.
        sheets: Style sheets of a page by the last part of its address, as paths below `quantviz/ui`.
        drawn: What the query has in it at an address whose page draws at once, by the last part of that.
    """

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        sheets: Mapping[str, tuple[str, ...]] = NO_SHEETS,
        drawn: Mapping[str, str] = NOTHING_DRAWN,
    ) -> None:
        super().__init__(app)
        self._sheets = sheets
        self._drawn = drawn

    def changed(self, scope: _Message, send: _Send) -> tuple[_Message, _Send]:
        """Write the style into a page."""
        if b"text/html" not in dict(scope["headers"]).get(b"accept", b""):
            return scope, send
        # After the head, where Streamlit's own style will be, and before what a page brings.
        name = scope["path"].rpartition("/")[2]
        draws = name in self._drawn and self._drawn[name] in scope["query_string"].decode("latin-1")
        ahead = _AHEAD.format(drawing_script()) if draws and drawing_script() else ""
        embedded = b"embed=true" in scope.get("query_string", b"").split(b"&")
        style = (ahead + first_style(name, self._sheets, embedded=embedded)).encode() + _ROOT
        plain = [header for header in scope["headers"] if header[0] not in _OTHER_FORMS]
        started: list[_Message] = []
        parts: list[bytes] = []

        async def send_styled(message: _Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                started.append(message)
                return
            if not started:
                await send(message)
                return
            parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            page = b"".join(parts).replace(_ROOT, style, 1)
            headers = [header for header in started[0]["headers"] if header[0].lower() not in _OF_THE_FILE]
            length = (b"content-length", str(len(page)).encode())
            await send({**started[0], "headers": [*headers, length]})
            await send({**message, "body": page})

        return {**scope, "headers": plain}, send_styled


def _is_page(start: _Message) -> bool:
    """Return whether a response is a page, and no file to be downloaded: a browser asks for both alike."""
    headers = {name.lower(): value for name, value in start["headers"]}
    return b"text/html" in headers.get(b"content-type", b"") and b"content-disposition" not in headers


def first_style(
    page: str, sheets: Mapping[str, tuple[str, ...]] = NO_SHEETS, *, embedded: bool = False
) -> str:
    """Return the style elements of a page, by the last part of its address, until its own have come.

    The front door has no sidebar, nor has a page that is `embedded` in another. The second element is for
    this page alone: `tab.run_scripts` removes it when another is opened.

    >>> len(first_style("lab")) > len(first_style(""))
    True
    """
    room = "" if page in ("", "home") else _sheet("shell/sidebar_room.css")
    if embedded:
        room = _sheet("shell/embedded.css")
    style = f"<style>{_sheet('shell/style.css')}{_sheet('shell/waiting.css')}{room}</style>"
    every = f"{_NOTED}{_RESUMED}{style}{_MEASURED}"
    own = "".join(_sheet(name) for name in sheets.get(page, ()))
    return every + (f'<style id="qv-first" data-page="{page}">{own}</style>' if own else "")


@cache
def _sheet(name: str) -> str:
    return Path(__file__).parents[1].joinpath(name).read_text(encoding="utf-8")
