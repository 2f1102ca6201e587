"""Health, counts of events and a log of lines of JSON, for the operator of a server.

An event is a record of the logger `quantviz.events`, with its labels beside it. Neither counts nor log have
anything of a user in them: no address, no name of a file or tensor, no value.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from quantviz.errors import QuantVizError
from quantviz.jobs import EVENTS
from quantviz.ui.shell import streamlit_private
from quantviz.ui.shell.server import base_path

#: The setting with the form of the server's log, and its one value.
LOG, JSON = "QUANTVIZ_LOG", "json"
#: The counters, by the event that each counts, and what it says of them.
COUNTED = {
    "session": "Sessions that were opened.",
    "job": "Long work that has ended, by queue and outcome.",
    "refusal": "Sentences on an error, by its key in quantviz/text.",
}
_SEEN = "events_seen"


def note_session() -> None:
    """Note the session of this run, once."""
    if _SEEN not in st.session_state:
        st.session_state[_SEEN] = True
        EVENTS.info("session")


def refused(error: QuantVizError) -> None:
    """Note an error that a user is shown: its key alone, for its parameters are the user's."""
    EVENTS.info("refusal", extra={"labels": {"key": error.key}})


class EventCounter(logging.Handler):
    """Counts events by their labels."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record, under the handler's lock."""
        self._counts[str(record.msg), tuple(sorted(getattr(record, "labels", {}).items()))] += 1

    def lines(self) -> list[str]:
        """Return the counts as Prometheus reads them."""
        counts = sorted(dict(self._counts).items())
        lines = []
        for event, told in COUNTED.items():
            name = f"quantviz_{event}s_total"
            lines += [f"# HELP {name} {told}", f"# TYPE {name} counter"]
            for (counted, labels), count in counts:
                if counted == event:
                    inside = ",".join(f'{label}="{value}"' for label, value in labels)
                    lines.append(f"{name}{{{inside}}} {count}" if labels else f"{name} {count}")
        return lines


class JsonLines(logging.Formatter):
    """Writes a record as a line of JSON: its words before anything is filled in, an error by its type."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname, "event": str(record.msg)}
        line |= getattr(record, "labels", {})
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            line["error"] = record.exc_info[0].__name__
            line["at"] = " ".join(f"{Path(each.filename).name}:{each.lineno}" for each in frames)
        return json.dumps(line)


def operator_routes() -> list[Route]:
    """Return the routes of the server's health and counts, and begin to count, and to log where asked to."""
    counter = EventCounter()
    EVENTS.addHandler(counter)
    EVENTS.setLevel(logging.INFO)
    if os.environ.get(LOG) == JSON:
        written = logging.StreamHandler()
        written.setFormatter(JsonLines())
        logger = logging.getLogger("quantviz")
        logger.addHandler(written)
        logger.propagate = False  # another handler would write what was filled in

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def metrics(_: Request) -> Response:
        sessions = len(streamlit_private.expire_sessions()) if streamlit_private.has_sessions() else 0
        now = ["# HELP quantviz_sessions Sessions that are open.", "# TYPE quantviz_sessions gauge"]
        lines = [*now, f"quantviz_sessions {sessions}", *counter.lines(), ""]
        return PlainTextResponse("\n".join(lines), media_type="text/plain; version=0.0.4")

    return [Route(f"{base_path()}/healthz", health), Route(f"{base_path()}/metrics", metrics)]
