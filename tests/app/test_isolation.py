"""What one person uploads: no other sees it, and it is gone when their session ends."""

import asyncio
import io
import time
import tomllib
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import FileUploaderState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.web.server.starlette.starlette_app_utils import generate_xsrf_token_string

from quantviz.ui.shell import startup
from tests.bench.classroom import Session, controls_of
from tests.bench.servers import ROOT, server_process
from tests.helpers.browser import finished

SECRET, VALUE = "my-secret-weights.npy", 54321.0
MEBIBYTES = 8
#: Places of the file that are looked for, and seconds between two looks: each reads all of the process.
PIECES, BETWEEN_LOOKS = 12, 2.0


def share_held(process, data):
    """The share of some places of a file whose bytes are in what a process may read. What it imports
    meanwhile and what others map change its size, not this.
    """
    pieces = {data[at : at + 32] for at in range(0, len(data) - 32, len(data) // PIECES)}
    found = set()
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines():
            span, rights = line.split()[:2]
            first, last = (int(end, 16) for end in span.split("-"))
            if rights.startswith("r") and "[v" not in line and ".so" not in line:
                with suppress(OSError):  # given back since the list was made
                    memory.seek(first)
                    held = memory.read(last - first)
                    found |= {piece for piece in pieces - found if piece in held}
    return len(found) / len(pieces)


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
        (row,) = (
            name
            for name, element in self._widgets.items()
            if field in (each["field"] for each in controls_of(*element).get("controls", ()))
        )
        await self._ask(self.choice(row, field, form))

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
    shape = MEBIBYTES * 2**20 // 4 // 4096, 4096
    file, values = io.BytesIO(), np.random.default_rng(0).standard_normal(shape, np.float32)
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
        file = weights()
        state = await mine.upload(file)
        assert SECRET.encode() in mine.told
        assert b"54321" in mine.told
        assert not mine.errors
        assert share_held(process, file) == 1

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
        while share_held(process, file) > 0.1:
            assert time.monotonic() < until
            await asyncio.sleep(BETWEEN_LOOKS)

    with server_process(ROOT / "app.py", cwd=ROOT) as (address, process):
        finished(both(address, process))
