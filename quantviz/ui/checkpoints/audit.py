"""The audit beside the scan: a checkpoint and its original, one verdict, a map with unread tensors marked."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.example import EXAMPLE
from quantviz.checkpoints.model_map import AUDIT, audited_model, model_map
from quantviz.errors import QuantVizError
from quantviz.figures.model_map_plot import model_map_figure
from quantviz.jobs import Cost, Job, runner
from quantviz.ui.checkpoints.reading import is_results, name_of, offered_now, path_of
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.components.controls import choose_field
from quantviz.ui.components.phone_tables import number_column, numbers_written
from quantviz.ui.components.small_parts import show_button, show_figure
from quantviz.ui.shell.words import language, plain, say, say_error

if TYPE_CHECKING:
    import pandas

    from quantviz.checkpoints.audit.auditing import AuditAnswer

_HEIGHT = 320
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
            _show_running(job)
        elif job.found is None:
            st.caption(say("checkpoints.audit.cancelled"))
        else:
            _show_answer(job.found)
    except QuantVizError as problem:
        lost = problem.key == "work.lost"
        st.error(say("checkpoints.audit.ended") if lost else say_error(problem))


def _show_running(job: Job[AuditAnswer]) -> None:
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


def _show_answer(answer: AuditAnswer) -> None:
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
        height=_HEIGHT,
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
