"""Sessions on one server, without a browser: `python -m tests.bench.classroom CASE`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

from tests.bench.room import measure_room, room_report
from tests.bench.runner import case, main, p95
from tests.helpers.controls import header

#: Seconds between two changes of somebody.
EVERY = 3.0
#: After so many seconds an answer is not waited for any more.
_LOST = 60.0
#: Widths of the panels on screens of 1366, 1536 and 1920 pixels, and how far from what they were laid out for
#: a page does not tell of them.
_WIDTHS, _NEAR = (1066, 1236, 1620), 0.03
#: Runs for which a browser keeps large messages, as Streamlit's own page does.
_KEPT_RUNS = 2
#: What a person sees of a page, and the choices that a person has.
_SHOWN = frozenset(
    {"metric", "html", "markdown", "plotly_chart", "bidi_component", "dataframe", "code", "alert"}
)
_CLICKS = ("trigger_value", "json_trigger_value")
#: What people change on the Lab; on the other pages they choose among all there is but the language.
_LAB, _LANGUAGE = ("bits", "mode", "error_view"), "language_choice"


class Dropped(Exception):
    """The server has closed the connection, or did not answer."""


class Session:
    """One browser tab."""

    def __init__(self, address: str, page: str, query: str, seed: int) -> None:
        self.address, self.page, self.query = address, page, f"lang=en&{query}"
        self.random = random.Random(seed)
        self.socket: ClientConnection | None = None
        self.opened = False
        #: What the server calls it, and the query that the page has put into the address bar.
        self.id = self.shown_query = ""
        self.errors: list[str] = []
        self._script = ""
        #: Elements of the last run: by id what can be chosen, by place what is seen.
        self._widgets: dict[str, tuple[str, Any]] = {}
        self._seen: dict[tuple[int, ...], tuple[str, str]] = {}
        self._states: dict[str, WidgetState] = {}
        self._large: dict[str, tuple[str, Any, int]] = {}
        self._runs = 0
        self._bridge, self._laid_out, self._width = "", 0.0, _WIDTHS[seed % len(_WIDTHS)]

    async def open(self) -> None:
        """Connect, load the page and tell its width."""
        port = self.address.rpartition(":")[2]
        self.socket = await connect(
            f"ws://127.0.0.1:{port}/_stcore/stream",
            subprotocols=[Subprotocol("streamlit")],
            origin=Origin(self.address),
            max_size=None,
            max_queue=None,
            compression=None,
            open_timeout=_LOST,
            ping_interval=None,
        )
        await self._ask()
        self.opened = True

    async def close(self) -> None:
        """Close the tab."""
        if self.socket:
            await self.socket.close()

    async def change(self) -> None:
        """Change something, and see that the answer shows it."""
        before = self._picture()
        what = self._some_change()
        await self._ask(what)
        # A browser forgets what is not on the page any more, and what was but a click.
        self._states = {
            name: state
            for name, state in self._states.items()
            if name in self._widgets and state.WhichOneof("value") not in _CLICKS
        }
        # A question may be answered, or a view chosen that is the same of many cells: that shows in the
        # browser alone.
        if self.page == "lab" and "error_view" not in what.json_trigger_value and self._picture() == before:
            self.errors.append(f"{what.id.rpartition('-')[2]}: nothing changed")

    def _some_change(self) -> WidgetState:
        """Another value of one of the page's choices, or on lessons a button that leads on."""
        changes = [self.choice(*each) for each in self.choices()]
        for name, (kind, element) in self._widgets.items():
            leads_on = kind == "button" and name.rpartition("-")[2].startswith(("go_", "open_"))
            if leads_on and self.page != "lab" and not element.disabled and element.type != "primary":
                changes.append(WidgetState(id=name, trigger_value=True))
        if not changes:
            raise Dropped(f"{self.page}: there is nothing to change")
        return self.random.choice(changes)

    def choices(self) -> list[tuple[str, str, str]]:
        """What a person may choose: a row of controls, a field in it, and a form that is not shown now."""
        return [
            (name, control["field"], form)
            for name, element in self._widgets.items()
            for control in controls_of(*element).get("controls", ())
            if control["kind"] in ("row", "list") and not control.get("disabled")
            if (control["field"] in _LAB if self.page == "lab" else control["field"] != _LANGUAGE)
            for form, _, *why in control["choices"]
            # One bit goes with one of the modes only, and is refused in the other.
            if not why and form not in (control.get("value", ""), "1")
        ]

    def choice(self, name: str, field: str, form: str) -> WidgetState:
        """A choice in a row of controls, as a browser sends it."""
        data = controls_of(*self._widgets[name])
        value = [[data["taken"] + 1, data["owner"], field, form]]
        state = WidgetState(id=f"$$STREAMLIT_INTERNAL_KEY_{name}__events")
        state.json_trigger_value = json.dumps([{"event": "chosen", "value": value}])
        return state

    def _picture(self) -> frozenset[tuple[tuple[int, ...], str]]:
        return frozenset((place, mark) for place, (kind, mark) in self._seen.items() if kind in _SHOWN)

    async def _ask(self, what: WidgetState | None = None) -> None:
        """Send one message, and read until all of its answer has come."""
        if self.socket is None:
            raise Dropped("not connected")
        asked = started = 0
        run = ""
        try:
            async with asyncio.timeout(_LOST):
                await self._send(what)
                asked += 1
                async for data in self.socket:
                    message = ForwardMsg()
                    message.ParseFromString(data)
                    kind = message.WhichOneof("type")
                    if kind == "new_session":
                        started, run = started + 1, message.metadata.run.script_run_id
                        self.id = message.new_session.initialize.session_id or self.id
                        self._runs += 1
                        self._widgets, self._seen = {}, {}
                    elif kind == "navigation":
                        # Which page it is: a new session knows the app's own script only, and a server that
                        # has just started the folder's files.
                        if self.opened and self._script != message.navigation.page_script_hash:
                            self.errors.append(f"{self.page}: answered with another page")
                        self._script = message.navigation.page_script_hash
                    elif kind == "page_info_changed":
                        self.shown_query = message.page_info_changed.query_string
                    elif kind in ("delta", "ref_hash"):
                        self._take(message)
                    elif (
                        kind == "script_finished"
                        and started >= asked
                        and message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
                        and message.metadata.run.script_run_id in ("", run)
                    ):
                        break
                    if (
                        self._bridge
                        and self._bridge not in self._states
                        and abs(self._width - self._laid_out) > _NEAR * self._laid_out
                    ):
                        # A browser tells the width as soon as the bridge is in the page.
                        await self._send(
                            WidgetState(id=self._bridge, json_value=json.dumps({"width": self._width}))
                        )
                        asked += 1
                else:
                    raise Dropped("the connection was closed")
        except (TimeoutError, ConnectionClosed, OSError) as error:
            raise Dropped(repr(error)) from error
        self._large = {mark: kept for mark, kept in self._large.items() if kept[2] >= self._runs - _KEPT_RUNS}

    async def _send(self, what: WidgetState | None) -> None:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string, rerun.page_script_hash = self.shown_query or self.query, self._script
        if not self._script:
            rerun.page_name = self.page
        rerun.context_info.url = f"{self.address}/{self.page}"
        rerun.context_info.locale, rerun.context_info.timezone = "en-US", "UTC"
        rerun.cached_message_hashes.extend(self._large)
        if what is not None:
            self._states[what.id] = what
        rerun.widget_states.widgets.extend(self._states.values())
        assert self.socket is not None
        await self.socket.send(message.SerializeToString())

    def _take(self, message: ForwardMsg) -> None:
        mark, place = message.hash or message.ref_hash, tuple(message.metadata.delta_path)
        if message.ref_hash:
            kind, element, _ = self._large[message.ref_hash]
        elif message.delta.WhichOneof("type") == "new_element":
            kind = message.delta.new_element.WhichOneof("type") or ""
            element = getattr(message.delta.new_element, kind)
        else:
            return
        if message.metadata.cacheable or message.ref_hash:
            self._large[mark] = (kind, element, self._runs)
        self._seen[place] = (kind, mark)
        if kind == "exception" or (kind == "alert" and element.format == element.ERROR):
            self.errors.append(str(element)[:300])
        name = getattr(element, "id", "")
        if not name:
            return
        self._widgets[name] = (kind, element)
        if name.endswith("-panels_bridge"):
            self._bridge, self._laid_out = name, header(element.bytes)["width"]


def controls_of(kind: str, element: Any) -> dict[str, Any]:
    """The data of a row of controls that the browser draws; nothing of another element."""
    if kind != "bidi_component" or not element.component_name.startswith("quantviz_controls"):
        return {}
    data: dict[str, Any] = header(element.bytes)
    return data


@dataclasses.dataclass
class Answers:
    """How long each answer took, in seconds, and what went wrong."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    dropped: list[str] = dataclasses.field(default_factory=list)
    errors: list[str] = dataclasses.field(default_factory=list)

    async def time(self, due: float, work: Callable[[], Awaitable[None]]) -> bool:
        """Do `work` when it is due; whether it was answered."""
        await asyncio.sleep(due - time.monotonic())
        try:
            await work()
        except Dropped as reason:
            self.dropped.append(str(reason))
            return False
        self.seconds.append(time.monotonic() - due)
        return True

    @property
    def p95(self) -> float:
        """95 % took at most so long."""
        return p95(self.seconds) if len(self.seconds) > 1 else self.worst

    @property
    def worst(self) -> float:
        """The slowest."""
        return max(self.seconds, default=math.inf)


async def steady(sessions: Sequence[Session], seconds: float, every: float = EVERY) -> Answers:
    """Each changes something every so many seconds, give or take a third, for `seconds` in all."""
    answers, start = Answers(), time.monotonic()

    async def person(session: Session) -> None:
        due = start + session.random.uniform(0, every)
        while due < start + seconds and await answers.time(due, session.change):
            due += every * session.random.uniform(2 / 3, 4 / 3)

    await asyncio.gather(*map(person, sessions))
    answers.errors = [error for session in sessions for error in session.errors]
    return answers


def memory(process: int) -> int:
    """The bytes of a process: its share of what it maps."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    raise AssertionError("no Pss")


def processor(process: int) -> float:
    """The seconds of the processor that a process has taken, without its children's."""
    told = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


@case
def room(
    devices: int = 200, seconds: float = 8.0, pages: int = 0, redis: bool = False, kill: bool = False
) -> bool:
    """A class that answers every stop of the 45-minute plan, in two rounds, each open for some seconds.

    Each device asks for news every two seconds, answers when it hears of a question, changes its mind one
    time in five, sends one answer in ten twice, and loses its connection one time in ten. The bars: 95 % of
    answers acknowledged within 100 ms, each in the lecturer's tally within 3 s, the lecturer's acts within
    500 ms, no answer lost, none twice. Beside them health checks, as a measure of the machine.

    With `--pages 30` thirty sessions on lessons change something every three seconds meanwhile, so that
    Python has other work; with `--redis` there are two servers on one Redis. With `--kill` the first server
    is killed in the third question: with Redis the other one takes over, else it is started again on its
    file, within 5 s.
    """

    async def others(address: str) -> None:
        sessions = [Session(address, "lessons", f"l=per_channel&p={1 + n % 5}", n) for n in range(pages)]
        await asyncio.gather(*(session.open() for session in sessions))
        with suppress(asyncio.CancelledError):
            while sessions:
                told = await steady(sessions, 6)
                print(f"pages: 95 % {told.p95:.2f} s; {told.dropped} {told.errors[:3]}", flush=True)
        for session in sessions:
            await session.close()

    return room_report(asyncio.run(measure_room(devices, seconds, redis, kill, others)))


if __name__ == "__main__":
    main()
