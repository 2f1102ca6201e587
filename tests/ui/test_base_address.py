"""The look for the server below a page's address is no error in the browser's console, and no success."""

import asyncio

import pytest

from quantviz.ui.shell.server import ProbeAnswers

THERE = {"/_stcore/health", "/_stcore/host-config", "/lab"}


def answered(path):
    """The status with which a server that has `THERE` answers."""
    statuses = []

    async def server(scope, receive, send):
        await send({"type": "http.response.start", "status": 200 if scope["path"] in THERE else 404})
        await send({"type": "http.response.body", "body": b""})

    async def send(message):
        statuses.append(message.get("status"))

    asyncio.run(ProbeAnswers(server)({"type": "http", "path": path}, None, send))
    return statuses[0]


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
