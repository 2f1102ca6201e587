"""The look for the server below a page's address is no error in the browser's console, and no success."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st

from quantviz.ui.shell import classroom
from quantviz.ui.shell import server as servers
from quantviz.ui.shell.server import ANEW, ProbeAnswers, Resumed, Styled
from tests.helpers.browser import finished

THERE = {"/_stcore/health", "/_stcore/host-config", "/lab"}


def answered(path):
    """The status with which a server that has `THERE` answers."""
    statuses = []

    async def server(scope, receive, send):
        await send({"type": "http.response.start", "status": 200 if scope["path"] in THERE else 404})
        await send({"type": "http.response.body", "body": b""})

    async def send(message):
        statuses.append(message.get("status"))

    finished(ProbeAnswers(server)({"type": "http", "path": path}, None, send))
    return statuses[0]


@pytest.mark.parametrize(
    ("parts", "rests", "asked"),
    [
        (("streamlit", "key", "id", ANEW), True, ("streamlit", "key", "id")),
        (("streamlit", "key", "id", ANEW), False, ("streamlit", "key")),
        (("streamlit", "key", "id"), False, ("streamlit", "key", "id")),  # after a lost connection
        (("streamlit", "key"), True, ("streamlit", "key")),
    ],
)
def test_a_page_loaded_anew_has_its_session_where_that_has_come_to_rest(monkeypatch, parts, rests, asked):
    heard = []

    async def has_come_to_rest(session, longest):
        assert (session, longest > 0) == ("id", True)
        return rests

    async def server(scope, receive, send):
        heard.extend(value for name, value in scope["headers"] if name == b"sec-websocket-protocol")

    monkeypatch.setattr(servers, "has_come_to_rest", has_come_to_rest)
    headers = [(b"host", b"here"), (b"sec-websocket-protocol", ", ".join(parts).encode())]
    finished(Resumed(server)({"type": "websocket", "path": "/", "headers": headers}, None, None))
    assert [tuple(map(str.strip, each.decode().split(","))) for each in heard] == [asked]


@pytest.mark.parametrize("name", ["health", "host-config"])
@pytest.mark.parametrize("page", ["/lab", "/lessons", "/quant/lab"])
def test_below_a_page_the_server_is_elsewhere(page, name):
    assert answered(f"/_stcore/{name}") == 200
    # Neither a status that the browser takes for the server's, nor one that it writes to its console.
    assert 300 <= answered(f"{page}/_stcore/{name}") < 400


def test_every_other_answer_stays():
    assert answered("/lab") == 200
    assert answered("/nowhere") == 404
    assert answered("/lab/_stcore/stream") == 404


def test_no_link_begins_at_the_top_of_the_host():
    """The app may be below a path: a link of its own is relative to its page."""
    rooted = re.compile(r"\]\(/\w|href=[\"'`]/\w|location\.\w+\([\"'`]/|fetch\([\"'`]/")
    package = Path(classroom.__file__).parents[2]
    files = [each for end in ("py", "js", "toml", "md") for each in package.rglob(f"*.{end}")]
    found = [each.name for each in files if rooted.search(each.read_text(encoding="utf-8"))]
    assert found == ["controls.py"]  # the example in a docstring


#: The room that a page keeps for its sidebar.
ROOM = "margin-left: var(--qv-sidebar)"


def page_sent(path, accept):
    sent, asked = [], []

    async def server(scope, receive, send):
        asked.append(dict(scope["headers"]))
        headers = [(b"content-type", b"text/html"), (b"content-length", b"15"), (b"etag", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'<div id="root">'})

    async def send(message):
        sent.append(message)

    headers = [(b"accept", accept), (b"accept-encoding", b"gzip"), (b"if-none-match", b"1")]
    styled = Styled(server, {"lab": ("lab/lab.css",)})
    finished(styled({"type": "http", "path": path, "headers": headers}, None, send))
    return asked[0], dict(sent[0]["headers"]), sent[1]["body"].decode()


def test_a_page_comes_with_its_style_and_is_never_an_old_copy():
    """Without it a page was first seen in other places: it moved by a third of the screen."""
    asked, headers, page = page_sent("/lab", b"text/html,*/*")
    every, own, rest = page.split("</style>")
    assert rest == '<div id="root">'
    assert "[data-testid=stMainBlockContainer]" in every
    assert "/* Until its script has come" in every
    assert "--qv-sidebar: 212px" in every
    assert ROOM in every
    assert '</script><style id="qv-first" data-page="lab">/* The Lab is one screen' in own
    assert list(asked) == [b"accept"]
    assert headers == {b"content-type": b"text/html", b"content-length": str(len(page.encode())).encode()}
    # The front door has no sidebar, and a script is no page.
    assert ROOM not in page_sent("/", b"text/html")[2]
    assert "qv-first" not in page_sent("/lessons", b"text/html")[2]
    assert page_sent("/lab", b"*/*")[2] == '<div id="root">'


def test_a_file_to_be_downloaded_goes_on_as_it_comes():
    """A browser asks for it like a page: it was kept until all of it had come."""
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"text/html"),
            (b"content-disposition", b"attachment"),
            (b"content-length", b"15"),
        ],
    }
    pieces = [
        {"type": "http.response.body", "body": b'<div id="', "more_body": True},
        {"type": "http.response.body", "body": b'root">'},
    ]
    sent = []

    async def server(scope, receive, send):
        for message in (start, *pieces):
            before = len(sent)
            await send(message)
            assert len(sent) == before + 1

    async def send(message):
        sent.append(message)

    headers = [(b"accept", b"text/html")]
    finished(Styled(server)({"type": "http", "path": "/media/a.html", "headers": headers}, None, send))
    assert sent == [start, *pieces]


@pytest.mark.parametrize(
    ("written", "room", "letters", "height"),
    [
        ("366_15", 366, 15, 3),
        ("1623_18_768", 1623, 18, 768),
        ("", 1, 2, 3),
        ("99999_99_9", 1, 2, 3),
        ("-5_x_-768", 1, 2, 3),
        ("1e3", 1, 2, 3),
    ],
)
def test_what_a_browser_notes_of_its_pixels_is_believed_within_bounds(
    monkeypatch, written, room, letters, height
):
    monkeypatch.setattr(st, "context", SimpleNamespace(cookies={classroom.NOTED: written}))
    monkeypatch.setattr(st, "session_state", {})
    found = [classroom.noted(what, k) for k, what in enumerate(("room", "letters", "height"), 1)]
    assert found == [room, letters, height]
