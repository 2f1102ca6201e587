"""What one person uploads: no other sees it, and it is gone when their session ends."""

import asyncio
import io
import os
import time
import tomllib
import urllib.request
import uuid
from pathlib import Path

import numpy as np
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import FileUploaderState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.web.server.starlette.starlette_app_utils import generate_xsrf_token_string

from quantviz.ui.shell import startup
from tests.bench.classroom import Session
from tests.bench.servers import ROOT, server_process
from tests.helpers.browser import finished

SECRET, VALUE = "my-secret-weights.npy", 54321.0
MEBIBYTES = 64


def resident(process):
    """The bytes of a process in memory; a share of what others map too would grow as they end."""
    pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def settled(process):
    """The bytes of a process once a second adds no mebibyte: a server goes on importing for a while."""
    last, now = 0, resident(process)
    while now - last > 2**20:
        await asyncio.sleep(1)
        last, now = now, resident(process)
    return now


class Tab(Session):
    """A tab that remembers all it was told."""

    def __init__(self, address, query="", seed=0):
        super().__init__(address, "lab", query, seed)
        self.told = b""

    def _take(self, message):
        self.told += message.SerializeToString()
        super()._take(message)

    def widget(self, key):
        return next(name for name in self._widgets if name.endswith(f"-{key}"))

    async def choose(self, field, form):
        (chosen,) = (self.choice(name, field, form) for name in self.bars(field))
        await self._ask(chosen)

    async def upload(self, data):
        """As the browser: ask where to, send the bytes there, tell the widget."""
        message = BackMsg()
        message.file_urls_request.request_id = str(uuid.uuid4())
        message.file_urls_request.file_names.append(SECRET)
        message.file_urls_request.session_id = self.id
        await self.socket.send(message.SerializeToString())
        while True:
            answer = ForwardMsg.FromString(await self.socket.recv())
            if answer.WhichOneof("type") == "file_urls_response":
                break
        urls = answer.file_urls_response.file_urls[0]
        await asyncio.to_thread(put, f"{self.address}{urls.upload_url}", data)
        state = FileUploaderState()
        state.uploaded_file_info.add(name=SECRET, size=len(data), file_id=urls.file_id, file_urls=urls)
        await self.show_file(state)
        return state

    async def show_file(self, state):
        await self._ask(WidgetState(id=self.widget("tensor_file"), file_uploader_state_value=state))


def put(url, data):
    token = generate_xsrf_token_string()
    part = (
        f'--x\r\nContent-Disposition: form-data; name="file"; filename="{SECRET}"\r\n\r\n'.encode()
        + data
        + b"\r\n--x--\r\n"
    )
    headers = {
        "Content-Type": "multipart/form-data; boundary=x",
        "X-Xsrftoken": token,
        "Cookie": f"_streamlit_xsrf={token}",
    }
    urllib.request.urlopen(
        urllib.request.Request(url, data=part, headers=headers, method="PUT"), timeout=120
    ).close()


def weights():
    file, values = io.BytesIO(), np.zeros((MEBIBYTES * 2**20 // 4 // 4096, 4096), np.float32)
    values[0, 0] = VALUE
    np.save(file, values)
    return file.getvalue()


def test_what_a_closed_tab_held_is_let_go_within_a_minute():
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["disconnectedSessionTTL"] + startup._BETWEEN_LOOKS < 60


@pytest.mark.slow
def test_an_upload_is_its_sessions_own_and_goes_with_it(monkeypatch):
    # Seconds that Streamlit waits for somebody whose connection broke.
    monkeypatch.setenv("STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL", "1")

    async def both(address, process):
        mine = Tab(address)
        await mine.open()
        await mine.choose("kind", "file")
        before = await settled(process)
        state = await mine.upload(weights())
        assert SECRET.encode() in mine.told
        assert b"54321" in mine.told
        assert not mine.errors
        held = await settled(process)
        assert held - before > MEBIBYTES * 2**20

        # The other knows all that there is to know: the address that the page shows now, and the file's name
        # at the server.
        other = Tab(address, mine.shown_query)
        await other.open()
        await other.choose("kind", "file")
        await other.show_file(state)
        assert b"bits" in other.told
        assert SECRET.encode() not in other.told
        assert b"54321" not in other.told

        await mine.close()
        await other.close()
        until = time.monotonic() + 120
        while held - resident(process) < 0.9 * MEBIBYTES * 2**20:
            assert time.monotonic() < until, (before, held, resident(process))
            await asyncio.sleep(0.2)

    with server_process(ROOT / "app.py", cwd=ROOT) as (address, process):
        finished(both(address, process))
