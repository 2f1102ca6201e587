"""What an operator watches: health, counts and log, with nothing of a user in them."""

import io
import json
import logging
import time
from functools import partial
from types import SimpleNamespace

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from quantviz.errors import QuantVizError
from quantviz.jobs import EVENTS, Cost, Jobs
from quantviz.streaming.kernel_access import READY_FIRST
from quantviz.ui.shell import events, server
from quantviz.ui.shell.imports import Ahead
from tests.helpers.browser import finished

SECRET = "/home/somebody/secret.safetensors"


@pytest.fixture
def asked(monkeypatch):
    """Asks a server under a path for one of its pages; its handlers are gone afterwards."""
    before = list(EVENTS.handlers)
    monkeypatch.setattr(st, "get_option", lambda name: "quant/bits")
    with TestClient(Starlette(routes=events.operator_routes())) as client:
        yield lambda path: client.get(f"/quant/bits{path}").text
    for handler in EVENTS.handlers[len(before) :]:
        EVENTS.removeHandler(handler)


def test_the_server_is_well(asked):
    assert asked("/healthz") == "ok"


def test_events_are_counted_by_labels_that_name_no_user(asked):
    for _ in range(2):
        events.refused(QuantVizError("unknown_mode", got=SECRET, known="a, b"))
    EVENTS.info("job", extra={"labels": {"queue": "long", "outcome": "found"}})
    lines = asked("/metrics").splitlines()
    assert 'quantviz_refusals_total{key="unknown_mode"} 2' in lines
    assert 'quantviz_jobs_total{outcome="found",queue="long"} 1' in lines
    assert "quantviz_sessions 0" in lines
    assert not [line for line in lines if "secret" in line]


def test_a_job_that_ends_is_counted(asked):
    jobs = Jobs()
    try:
        jobs.submit(partial(int, "7"), "seven", Cost(queue="counted")).result()
    finally:
        jobs.close()
    assert 'quantviz_jobs_total{outcome="found",queue="counted"} 1' in asked("/metrics")


def test_a_line_of_the_log_has_no_value_and_no_message_of_an_error():
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(events.JsonLines())
    logger = logging.Logger("quantviz")
    logger.addHandler(handler)
    logger.warning("a message was dropped: %s", SECRET)
    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("a page failed")
    logger.info("refusal", extra={"labels": {"key": "unknown_mode"}})
    dropped, failed, refusal = map(json.loads, written.getvalue().splitlines())
    assert dropped["event"] == "a message was dropped: %s"
    assert (failed["error"], failed["level"]) == ("ValueError", "ERROR")
    assert failed["at"].startswith("test_events.py:")
    assert (refusal["event"], refusal["key"]) == ("refusal", "unknown_mode")
    assert "secret" not in written.getvalue()


@pytest.mark.parametrize("setting", ["1", "0"])
def test_a_server_that_is_to_be_ready_first_answers_nobody_before(monkeypatch, setting):
    monkeypatch.setenv(READY_FIRST, setting)
    monkeypatch.setenv(server.DISABLED, "1")
    for name in ("send_at_once", "use_navigation"):
        monkeypatch.setattr(server, name, lambda: None)
    monkeypatch.setattr(server, "import_all", lambda ahead: time.sleep(0.2))
    monkeypatch.setattr(server, "wait_for_kernels", lambda: None)
    waited = []
    job = SimpleNamespace(wait=waited.append)

    async def started():
        async with server.starting(Ahead(), lambda: job)(None):
            return bool(waited)

    assert finished(started()) == (setting == "1")
