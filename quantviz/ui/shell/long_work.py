"""Long work of a page: a job, as long as a run of some session waits for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from quantviz.budget import Ended
from quantviz.jobs import SHORT, Cost, no_answer, runner
from quantviz.sources.sandbox import READING, read_apart
from quantviz.streaming.compiling import run_without_compiling
from quantviz.ui.shell import streamlit_private
from quantviz.ui.shell.bounds import HEAVY_BYTES, HEAVY_SECONDS
from quantviz.ui.shell.imports import ahead
from quantviz.ui.shell.startup import run_queue

T = TypeVar("T")


def prepare() -> None:
    """Have a process ready for this session's long work, where this process serves sessions."""
    if streamlit_private.has_sessions():
        runner().prepare(ahead().long_work)


def prepare_reading() -> None:
    """Have a process ready for the files that this session may bring."""
    if streamlit_private.has_sessions():
        runner().prepare(("quantviz.sources.sandboxed", "quantviz.sources.layouts.decoded"), confined=True)


def read_file(
    work: Callable[[], T],
    key: Hashable,
    file: str,
    *,
    cost: Cost = READING,
    answers: Callable[[Any], Any] = no_answer,
) -> T:
    """Return the result of work that reads a file from outside, for this session: see `read_apart`."""
    is_wanted, owner = streamlit_private.is_awaited(), streamlit_private.session_id()
    try:
        with run_queue().leave():
            return read_apart(work, key, file, owner=owner, is_wanted=is_wanted, cost=cost, answers=answers)
    except Ended as end:
        streamlit_private.end_if_asked()
        raise end.problem.again() from None


def heavily(
    name: str,
    work: Callable[[], T],
    on_share: Callable[[float], None] = lambda share: None,
    products: float = SHORT,
) -> T:
    """Return the result of long work for this session.

    Args:
        name: Its key: what has the same one is computed once for all sessions.
        work: A function that can be pickled.
        on_share: Gets the share of it that is done now and then, where the work knows it.
        products: Its multiplications, where they are known: short work passes by long work.

    Raises:
        QuantVizError: It takes too long or too much memory.
    """
    cost = Cost(products, HEAVY_SECONDS, HEAVY_BYTES, threads=1)
    is_wanted = streamlit_private.is_awaited()
    try:
        with run_queue().leave():
            job = runner().submit(
                partial(run_without_compiling, work), name, cost, owner=streamlit_private.session_id()
            )
            return job.result(is_wanted, on_share)
    except Ended as end:
        if end.problem.key == "work.dropped":
            streamlit_private.end_if_asked()
        raise end.problem.again() from None
