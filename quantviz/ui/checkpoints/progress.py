"""Progress of a scan, and the button that ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.jobs import runner
from quantviz.ui.checkpoints.reading import cancel_scan, is_results, is_starting, path_of, scan_of
from quantviz.ui.checkpoints.state import CheckpointsState
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.shell.words import language, plain, say, say_error

if TYPE_CHECKING:
    from quantviz.checkpoints.results.stored_rows import Scan


def is_running(state: CheckpointsState, scan: Scan | None) -> bool:
    """Return whether a scan is running or about to start."""
    return is_starting(state.chosen) or (scan is not None and scan.state == "running")


def show_progress(state: CheckpointsState, scan: Scan | None) -> None:
    """Show the rate and the time left of a scan that runs, and the ways on from one that has stopped."""
    if scan is not None and not scan.is_complete:
        st.warning(plain(scan.coverage[language()]))
    with st.container(key="checkpoints_progress", horizontal=True, vertical_alignment="center"):
        if is_running(state, scan):
            _show_running(state, scan)
    if not is_running(state, scan):
        show_failure(state)
        if scan is not None and scan.state in ("cancelled", "killed") and not is_results(state.chosen):
            done = scan.progress.tensors_done
            every = scan.progress.tensors
            st.caption(say(f"checkpoints.{scan.state}", done=done, all=every))


def _show_running(state: CheckpointsState, scan: Scan | None) -> None:
    share = 0.0
    words = say("checkpoints.starting")
    job = scan_of(state.chosen)
    if job is not None and job.state == "waits":
        words = say("checkpoints.in_line", count=runner().before(job))
    elif scan is not None and scan.state == "running":
        progress = scan.progress
        share = progress.bytes_done / progress.bytes if progress.bytes else 0.0
        words = say("checkpoints.progress", done=progress.tensors_done, all=progress.tensors)
        if progress.bytes_per_second is not None and progress.seconds_left is not None:
            rate = progress.bytes_per_second / 1e6
            left = time_words(progress.seconds_left)
            words += " " + say("checkpoints.rate", rate=f"{rate:,.0f}", left=left)
    st.progress(min(max(share, 0.0), 1.0), text=plain(words))
    if is_starting(state.chosen):
        show_button(
            say("checkpoints.cancel"),
            "checkpoints_cancel",
            cancel_scan,
            path_of(state.chosen),
            help=say("checkpoints.cancel_help"),
        )
    else:
        st.caption(say("checkpoints.elsewhere"))


def show_failure(state: CheckpointsState) -> None:
    """Show the error of this checkpoint's last scan, if it could not begin."""
    job = scan_of(state.chosen)
    try:
        _ = job and job.found
    except QuantVizError as problem:
        if problem.key == "work.lost":  # then its results say that it was killed
            return
        st.error(plain(say("checkpoints.failed", said=say_error(problem))))


def time_words(seconds: float) -> str:
    """Return a duration as minutes and seconds, or hours, minutes and seconds, rounded up.

    >>> time_words(75.2), time_words(3.2), time_words(7300)
    ('1:16', '0:04', '2:01:40')
    """
    whole = -int(-seconds // 1)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
