"""The browser's look for the app's base address, which asks below each page first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

#: The requests by which Streamlit's page looks for the server. At `/lab` it asks `/lab/_stcore/…` before
#: `/_stcore/…`, for an app might be mounted there.
_ASKED = ("/_stcore/health", "/_stcore/host-config")
#: "Multiple choices" without a place to go: no success, so that the page looks further, and no error, which
#: the browser would write to its console.
_ELSEWHERE = 300

_Message = MutableMapping[str, Any]


class ProbeAnswers:
    """The server's app, whose answer below a page's address is that the server is elsewhere."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(
        self, scope: _Message, receive: object, send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(_ASKED):
            await self._app(scope, receive, send)
            return

        async def send_elsewhere(message: _Message) -> None:
            if message.get("status") == 404:
                message = {**message, "status": _ELSEWHERE}
            await send(message)

        await self._app(scope, receive, send_elsewhere)
