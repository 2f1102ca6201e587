"""The page of checkpoints: a sentence on the worst tensors, the map, the table, and the way into the Lab.

The page never measures: it starts the command in a process and shows that one's results.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.example import EXAMPLE
from quantviz.checkpoints.model_map import AUDIT, audited_model, model_map
from quantviz.errors import QuantVizError
from quantviz.figures.model_map_plot import model_map_figure
from quantviz.figures.numbers import time_words
from quantviz.jobs import Cost, Job, runner
from quantviz.sources.local import FOLDER, folder_offered
from quantviz.ui.checkpoints.captured import is_capture, show_capture
from quantviz.ui.checkpoints.choices import (
    begin_example,
    choices_words,
    show_beside,
    show_choices,
    show_colours,
)
from quantviz.ui.checkpoints.model_room import show_model
from quantviz.ui.checkpoints.model_state import ADDERS, RUNNING, ModelState
from quantviz.ui.checkpoints.reading import (
    cancel_scan,
    find_scan,
    is_results,
    is_scan_of,
    is_starting,
    look_beside,
    look_now,
    name_of,
    offered_now,
    path_of,
    scan_of,
    scan_problems,
)
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import choose_field, show_undo
from quantviz.ui.components.drop_zone import show_drop_zone
from quantviz.ui.components.page_header import show_header, write_title
from quantviz.ui.components.phone_tables import number_column, numbers_written
from quantviz.ui.components.small_parts import problem_instead, show_button, show_figure, show_page_errors
from quantviz.ui.lab.dropped_files import CAPTURE, MODEL, RUNS, DroppedFiles, dropped_files, dropped_kind
from quantviz.ui.shell.address import go_on
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.long_work import read_file
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.streamlit_private import has_sessions
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, plain, say, say_error

if TYPE_CHECKING:
    import pandas

    from quantviz.checkpoints.audit.auditing import AuditAnswer
    from quantviz.checkpoints.results.stored_rows import Scan


_TABLE_HEIGHT = 320
#: The cost of an audit; and audits that have ended, of which the last are known.
_AUDITS = Cost(queue="audits")
_MOST_KEPT = 8
#: Most sentences that are shown after the verdict.
_MOST_SAID = 12
#: Outcomes of tensors, in the order of the table.
_ORDER = ("not_read", "refused", "not_quantized_here", "compared", "unfit", "equal", "left_aside")


@st.cache_resource(show_spinner=False)
def audits() -> OrderedDict[tuple[str, str], Job[AuditAnswer]]:
    """Return this server's last audit of each two checkpoints."""
    return OrderedDict()


def is_auditing(state: CheckpointsState) -> bool:
    """Return whether the audit that the page shows is running."""
    job = _job(state)
    return job is not None and job.state != "ended"


def show_audit(state: CheckpointsState) -> None:
    """Show the section: the choice of an original, and the results of the comparison."""
    if is_results(state.chosen) or state.chosen == EXAMPLE:
        return
    others = tuple(name for name in offered_now().checkpoints if name != state.chosen)
    if not others:
        return
    st.markdown(f"## {say('checkpoints.audit.title')}")
    try:
        _show_choice(state, others)
        job = _job(state)
        if job is None:
            st.caption(plain(say("checkpoints.audit.about")))
        elif job.state != "ended":
            _show_audit_progress(job)
        elif job.found is None:
            st.caption(say("checkpoints.audit.cancelled"))
        else:
            _show_outcome(job.found)
    except QuantVizError as problem:
        lost = problem.key == "work.lost"
        st.error(say("checkpoints.audit.ended") if lost else say_error(problem))


def _show_audit_progress(job: Job[AuditAnswer]) -> None:
    done, count = round(job.done), round(job.whole)
    with st.container(key="checkpoints_audit_progress", horizontal=True, vertical_alignment="center"):
        if count:
            st.progress(done / count, text=say("checkpoints.progress", done=done, all=count))
        else:
            st.progress(0.0, text=say("checkpoints.audit.starting"))
        words = say("checkpoints.audit.cancel_help")
        show_button(say("checkpoints.cancel"), "checkpoints_audit_cancel", _cancel, help=words)


def _cancel() -> None:
    job = _job(OWNER.state)
    if job is not None:
        job.cancel()


def _job(state: CheckpointsState) -> Job[AuditAnswer] | None:
    if not state.original or is_results(state.chosen) or state.chosen == EXAMPLE:
        return None
    try:
        return audits().get(_pair(state))
    except QuantVizError:  # it is shown with the choice
        return None


def _show_choice(state: CheckpointsState, others: tuple[str, ...]) -> None:
    options = ("", *others) if state.original in ("", *others) else ("", state.original, *others)
    names = {name: name_of(name) if name else say("checkpoints.nothing_beside") for name in options}
    with st.container(key="checkpoints_audit", horizontal=True, vertical_alignment="bottom", gap="small"):
        about = say("checkpoints.audit.original_help")
        choose_field(OWNER, "original", "list", say("checkpoints.audit.original"), names, help=about)
        waits = not state.original or is_auditing(state)
        show_button(say(_begin_words(_job(state))), "checkpoints_audit_begin", _begin, disabled=waits)
    if state.original:
        path_of(state.original)


def _begin_words(job: Job[AuditAnswer] | None) -> str:
    """Return the key of the button's words: whether an audit begins, goes on or is done again."""
    if job is None or job.state != "ended":
        return "checkpoints.audit.begin"
    return "checkpoints.resume" if job.dropped else "checkpoints.audit.again"


def _begin() -> None:
    from quantviz.checkpoints.audit.auditing import audit_as_job

    pair = _pair(OWNER.state)
    kept = audits()
    kept.pop(pair, None)
    kept[pair] = runner().submit(partial(audit_as_job, *pair), ("audit", pair), _AUDITS, stays=True)
    for old in [each for each, job in kept.items() if job.state == "ended"][:-_MOST_KEPT]:
        del kept[old]


def _pair(state: CheckpointsState) -> tuple[str, str]:
    return str(path_of(state.chosen)), str(path_of(state.original))


def _show_outcome(answer: AuditAnswer) -> None:
    show_verdict(answer.messages[language()], is_sound=answer.is_sound)
    model = audited_model(answer.rows[language()])
    data = model_map(model, AUDIT, AUDIT)
    show_figure(model_map_figure, "checkpoints_audit_map", say("checkpoints.audit.map_alt"), data)
    st.caption(say("checkpoints.audit.map_about"))
    rows = answer.rows[language()]
    sqnr = say("checkpoints.audit.columns.sqnr_db")
    st.dataframe(
        numbers_written(_frame(rows), {sqnr: "%.1f"}),
        key="checkpoints_audit_table",
        hide_index=True,
        height=_TABLE_HEIGHT,
        column_config={sqnr: number_column(sqnr, "%.1f", len(rows))},
        placeholder="",
        alt=say("checkpoints.table_alt", count=len(model.tensors)),
    )


def show_verdict(messages: Sequence[str], *, is_sound: bool) -> None:
    """Show the findings of an audit, the verdict in a box whose colour is that of the exit status."""
    verdict, *rest = messages
    (st.success if is_sound else st.warning)(plain(verdict))
    for sentence in rest[:_MOST_SAID]:
        st.caption(plain(sentence))


def _frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """Return the outcome of each tensor as a table: unread tensors first, then those of lowest SQNR."""
    import pandas as pd

    listed = sorted(rows, key=_rank)
    columns = {
        "tensor": [row["tensor"] or "–" for row in listed],
        "coverage": [say(f"checkpoints.audit.became.{row['coverage']}") for row in listed],
        "type": [row["type"] or "–" for row in listed],
        "sqnr_db": pd.Series([row["sqnr_db"] for row in listed], dtype="float64"),
        "reason": [row["reason"] or "" for row in listed],
        # Last: nearly always the name again, and a phone has no room for both.
        "original": [row["original"] or "–" for row in listed],
    }
    return pd.DataFrame({say(f"checkpoints.audit.columns.{name}"): each for name, each in columns.items()})


def _rank(row: dict[str, Any]) -> tuple[int, float]:
    """Return the place of a row in the table: that of its outcome, then its SQNR."""
    sqnr_db = row["sqnr_db"]
    return _ORDER.index(row["coverage"]), math.inf if sqnr_db is None or math.isnan(sqnr_db) else sqnr_db


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


#: Seconds between two looks at a scan that runs.
_BETWEEN_LOOKS = 1.0
#: Height of the report on dropped runs in pixels; it scrolls.
_HEIGHT = 900
_REPORT = "checkpoints_runs_report"
#: Choices with which nothing of one's own is open, where nothing was dropped: no link carries dropped files.
_NOTHING_OWN = ("", EXAMPLE, MODEL, CAPTURE, RUNS)


def show_page() -> None:
    """Show the results so far of the chosen checkpoint's scan."""
    st.html(Path(__file__).with_name("checkpoints.css"))
    words, actions = show_header(say("pages.checkpoints"), say("checkpoints.hint"))
    with actions:
        show_undo(OWNER)
        show_copy_link()
    # The menu has it once something of one's own is open.
    with st.sidebar if dropped_kind() or OWNER.state.chosen not in _NOTHING_OWN else nullcontext():
        show_drop_zone()
    choices = st.container(
        key="checkpoints_choices", horizontal=True, vertical_alignment="bottom", gap="small"
    )
    answer = st.container(key="checkpoints_answer")
    warm_up()
    state = OWNER.state
    with choices:
        state = show_choices(state, offered_now())
    title = f"{say('pages.checkpoints')} › {name_of(state.chosen)}"
    name_tab(say("pages.checkpoints"), name_of(state.chosen))
    captured = is_capture(state.chosen)
    hint = "checkpoints.hint"
    if captured:
        hint = "checkpoints.capture.hint"
    elif state.chosen in RUNNING:
        hint = "models.hint_adder" if RUNNING[state.chosen] in ADDERS else "models.hint"
    write_title(words, title, say(hint))
    if state.chosen in RUNNING:
        with answer:
            show_model(state.chosen)
        return
    if captured or state.chosen == RUNS:
        with answer:
            _show_dropped(state, show_capture if captured else lambda _: _show_runs())
        return
    if has_sessions():
        runner().prepare()
    with answer:
        show_page_errors(*OWNER.problems)
        with problem_instead():
            for problem in scan_problems(state.chosen):
                st.warning(say_error(problem))
            scan = find_scan(state)
            if scan is None and has_sessions():
                begin_example(state)
            running = is_running(state, scan) or is_auditing(state)
            fragment(_show_answer, _BETWEEN_LOOKS if running else None)(running)
    _put_address()


def _show_dropped(state: CheckpointsState, show: Callable[[CheckpointsState], None]) -> None:
    """Show the layers of a capture, or runs, or the error in their place; only what is theirs is in the
    address.
    """
    show_page_errors(*OWNER.problems)
    with problem_instead():
        show(state)
    OWNER.show_link(CheckpointsState(state.chosen, pair=state.pair))


def _put_address() -> None:
    OWNER.show_link(OWNER.state.replace(model=ModelState()))


@problem_instead()  # Streamlit would show an error that leaves this part of the page in its own words.
def _show_answer(was_running: bool) -> None:
    """Show a scan so far; before there is one, its checkpoint."""
    go_on()  # this part of the page may run by itself
    from quantviz.ui.checkpoints.answer import show_details, show_map, show_verdict

    state = OWNER.state
    seen = look_now(state, was_running)
    running = is_running(state, seen.scan)
    goes_on = running or is_auditing(state)
    if was_running != goes_on:
        st.rerun()  # so that the page looks again and again, or no longer
    beside = look_beside(state) if seen.scan else None
    # The progress of a scan and its verdict share a place, so that the map below it does not move.
    with st.container(key="checkpoints_sentence"):
        show_progress(state, seen.scan)
        if running:
            st.caption(say("checkpoints.waiting"))
        elif seen.scan is None:
            st.markdown(
                plain(say("checkpoints.begin_example" if state.chosen == EXAMPLE else "checkpoints.begin"))
            )
        else:
            if not (goes_on or is_results(state.chosen) or is_scan_of(seen.scan, state)):
                st.caption(plain(say("checkpoints.other_scan", choices=choices_words(seen.scan))))
            show_verdict(seen.model, state.shown(seen.model.recipes), seen.scan)
    with st.container(key="checkpoints_colours", horizontal=True, vertical_alignment="bottom", gap="small"):
        show_colours(state, seen.model)
        show_beside(state, beside)
    # After a few of many tensors there is none.
    verdict = seen.scan is not None and not running
    show_map(state, seen, beside, verdict=verdict)
    show_details(state, seen, verdict=verdict)
    show_audit(state)
    if not folder_offered():
        # Colouring the code takes a phone more than a second.
        opened = st.expander(say("checkpoints.folder"), key="checkpoints_folder", on_change="rerun")
        if opened.open:
            opened.markdown(plain(say("checkpoints.no_folder", variable=FOLDER)))
            opened.code(f"{FOLDER}=~/models python -m quantviz serve", language="sh", wrap_lines=True)
    # Where this part ran alone: a link that is copied now has the choices made in it.
    _put_address()


# ---- dropped runs ----------------------------------------------------------------------------------


def _show_runs() -> None:
    """Show the dropped runs beside the first one, which is taken for the reference.

    Raises:
        QuantVizError: They cannot be compared.
    """
    dropped = dropped_files(RUNS)
    st.caption(plain(say("drop.reference", file=dropped.files[0].name)))
    st.iframe(_report(dropped), height=_HEIGHT)


def _report(dropped: DroppedFiles) -> str:
    """Return the report of the dropped runs, made once for a session and its language."""
    key = dropped, language()
    made = st.session_state.get(_REPORT)
    if made is None or made[0] != key:
        from quantviz.export.runs_report import report_of_runs

        work = partial(report_of_runs, [str(each.path) for each in dropped.files], language())
        made = key, read_file(work, ("runs", dropped.folder, language()), dropped.files[0].name)
        st.session_state[_REPORT] = made
    return str(made[1])
