"""A learner's progress: kept in the session and in the learner's browser, and taken along as a file, as text
or as a card.

A session ends a while after its page is closed. `keep_in_browser` mounts a component that hands the next
session the browser's stored answers (`progress.js`), and `take_from_browser` takes them; nothing of them is
kept on the server.
"""

from __future__ import annotations

import html
import secrets
from collections.abc import Mapping
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons import sound_lessons
from quantviz.teaching.lessons.model import Lesson
from quantviz.teaching.lessons.progress import (
    LONGEST,
    VERSION,
    AnswerCounts,
    LearnerAnswer,
    Verdicts,
    as_json,
    as_text,
    asked,
    finished,
    judged,
    merged,
    reached,
    read_json,
    revealed,
)
from quantviz.ui.components import in_room
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.small_parts import offer_file, show_button
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import language, say, say_error, sentences

_ANSWERS = "lesson_answers"
_VERDICTS = "lesson_verdicts"
#: The popover and its uploader, and the outcome of the last file.
_POPOVER = "progress"
_FILE = "progress_load"
_LOADED = "progress_loaded"
_COMPONENT = "quantviz_progress"
_SCRIPT = "progress"
#: Key of the answers in the browser. Another form of them gets another number, and leaves these alone.
_KEY = f"quantviz.teaching.lessons.v{VERSION}"
#: Id of this session, number of readings of the browser's store, whether the browser refuses to keep
#: anything, and whether the learner has just cleared it.
_SESSION = "progress_session"
_READ = "progress_read"
_REFUSED = "progress_refused"
_CLEARED = "progress_cleared"
#: Prefixes of the session's keys for a learner's actions.
_OF_A_LEARNER = ("answer_", "lesson_attempts", "lesson_marks", "lesson_in_hand", "lesson_second_look")
#: Problem with the browser's stored answers.
_UNREADABLE = "progress_unreadable"


def answers() -> list[LearnerAnswer]:
    """Return all answers of the session, in the order they were given."""
    return cast("list[LearnerAnswer]", st.session_state.setdefault(_ANSWERS, []))


def keep_answer(answer: LearnerAnswer) -> None:
    """Remember an answer. One that was given cannot be given again."""
    _take([answer])


def _take(others: list[LearnerAnswer]) -> None:
    st.session_state[_ANSWERS] = merged(answers(), others)
    st.session_state[_CLEARED] = False


# ---- in the browser -----------------------------------------------------------------------------


def keep_in_browser() -> None:
    """Have the browser keep the answers.

    Call it last: it shows the step as soon as the browser has returned its stored answers, and by then the
    step must be drawn with them. Mounted first, it showed the open question for one frame.
    """
    component(_COMPONENT, _SCRIPT)(
        key=_COMPONENT,
        data={
            "key": _KEY,
            "session": st.session_state.setdefault(_SESSION, secrets.token_hex(8)),
            "read": st.session_state.setdefault(_READ, 0),
            "text": as_json(answers()).decode() if answers() else None,
            "cleared": st.session_state.setdefault(_CLEARED, False),
            "refused": refused(),
            # A longer text is not read: the browser need not send all of it for that error.
            "most": LONGEST + 1,
        },
    )


def take_from_browser() -> None:
    """Take the answers that the browser has kept. Call it before anything that shows answers.

    Not in a callback: Streamlit drops the rest of one that another message from the browser overtakes.
    """
    stored = last_message(_COMPONENT, _SCRIPT, "stored")
    if stored is None or stored["count"] == st.session_state.get(_READ):
        return
    try:
        _take(read_json(stored["text"].encode(), sound_lessons())[0])
        st.session_state[_UNREADABLE] = None
    except QuantVizError as problem:
        st.session_state[_UNREADABLE] = problem
    st.session_state[_READ] = stored["count"]


def refused() -> bool:
    """Return whether this browser keeps nothing."""
    st.session_state[_REFUSED] = st.session_state.get(_REFUSED, False) or bool(
        last_message(_COMPONENT, _SCRIPT, "refused")
    )
    return cast(bool, st.session_state[_REFUSED])


def unreadable() -> QuantVizError | None:
    """Return the problem with the browser's stored answers, if any."""
    return cast("QuantVizError | None", st.session_state.get(_UNREADABLE))


def kept_words() -> str:
    """Return the sentence on the place where the answers are kept."""
    return say("lessons.progress.refused" if refused() else "lessons.progress.kept")


# ---- on the page --------------------------------------------------------------------------------


def show_progress(titled: Mapping[str, Lesson]) -> None:
    """Show how far the learner is, and the ways to take the progress along; `titled` are lessons."""
    # Whether the answers are right may have to be computed: only while the list is open.
    popover = st.popover(
        say("lessons.progress.button", count=len(answers())), key=_POPOVER, width="stretch", on_change="rerun"
    )
    if refused():
        st.caption(kept_words())
    # Outside: the button's label has another number now, and with another label it is a new widget, which is
    # closed.
    _show_loaded()
    if not popover.open:
        return
    with popover, st.container(key="progress_body"):
        if answers():
            _show_answers(titled)
        st.file_uploader(
            say("lessons.progress.load"),
            type=["json"],
            max_upload_size=1,
            key=_FILE,
            on_change=errors.safely(_load),
        )
        st.caption(kept_words())


def _show_answers(titled: Mapping[str, Lesson]) -> None:
    judgements = verdicts()
    st.html(_card(titled, judgements))
    with st.container(horizontal=True, gap="small"):
        content = as_json(answers(), judgements)
        offer_file("lessons.progress.download", content, "quantviz_lessons.json", "progress_file")
        copy_button(
            "copy_progress",
            say("lessons.progress.copy"),
            say("lab.copied"),
            text=as_text(answers(), titled, judgements, language()),
        )
        show_button(
            say("lessons.progress.clear"), "progress_clear", _clear, help=say("lessons.progress.clear_help")
        )


def verdicts() -> Verdicts | None:
    """Return whether the visible answers are right; None where a teacher withholds that."""
    how = in_room.answers()
    readable = sound_lessons()
    if how == "withheld":
        return None
    telling = answers() if how == "shown" else revealed(answers(), readable)
    judgements = judged(telling, readable, st.session_state.get(_VERDICTS, {}))
    st.session_state[_VERDICTS] = judgements
    return judgements


def is_finished(name: str, lesson: Lesson) -> bool:
    """Return whether the learner is done with each question of a lesson; a withheld answer is one try."""
    if in_room.answers() != "after":
        return bool(asked(lesson)) and reached(answers(), name) == asked(lesson)
    return finished(answers(), name, lesson, _judge)


def _judge(tries: list[LearnerAnswer]) -> Verdicts:
    known = cast("Verdicts", st.session_state.get(_VERDICTS, {}))
    found = judged(tries, sound_lessons(), known)
    st.session_state[_VERDICTS] = {**known, **found}
    return found


def place_to_go_on() -> tuple[str, int] | None:
    """Return the step after the last one that was answered, as its lesson's id and its number from 0; None
    before the first answer, and at the end of the last lesson.
    """
    readable = sound_lessons(language())
    last = next((each for each in reversed(answers()) if each.lesson in readable), None)
    if last is None:
        return None
    if last.step + 1 < len(readable[last.lesson].steps):
        return last.lesson, last.step + 1
    following = list(readable)[list(readable).index(last.lesson) + 1 :]
    return (following[0], 0) if following else None


def _load() -> None:
    uploaded = st.session_state.get(_FILE)
    if uploaded is None:
        st.session_state[_LOADED] = None
        return
    try:
        if uploaded.size > LONGEST:
            raise QuantVizError("lessons.progress_too_large", got=uploaded.size, longest=LONGEST)
        read, left_out = read_json(uploaded.getvalue(), sound_lessons())
        _take(read)
        st.session_state[_LOADED] = (len(read), left_out)
    except QuantVizError as problem:
        st.session_state[_LOADED] = problem


def _show_loaded() -> None:
    loaded = st.session_state.get(_LOADED)
    if isinstance(loaded, QuantVizError):
        st.error(say_error(loaded))
    elif loaded:
        count, left_out = loaded
        more = [say("lessons.progress.left_out", count=left_out)] if left_out else []
        st.success(sentences(say("lessons.progress.loaded", count=count), *more))


def _clear() -> None:
    """Forget all answers, in the browser too: another learner may sit there next."""
    for name in [
        _ANSWERS,
        _VERDICTS,
        _LOADED,
        *(key for key in st.session_state if str(key).startswith(_OF_A_LEARNER)),
    ]:
        st.session_state.pop(name, None)
    st.session_state[_CLEARED] = True


def _card(titled: Mapping[str, Lesson], verdicts: Verdicts | None) -> str:
    rows = []
    for name, lesson in titled.items():
        done = reached(answers(), name)
        if done:
            right = "" if verdicts is None else f"<td>{AnswerCounts.of(verdicts, name).right} ✓</td>"
            rows.append(
                f"<tr><td>{html.escape(lesson.title)}</td><td>{done} / {asked(lesson)}</td>{right}</tr>"
            )
    table = f'<div class="qv-steps"><table>{"".join(rows)}</table></div>'
    if verdicts is None:
        noted = html.escape(say("lessons.progress.noted", count=len(answers())))
        return f'<div class="qv-card-progress"><b>{noted}</b>{table}</div>'
    tally = AnswerCounts.of(verdicts)
    sure = html.escape(say("lessons.progress.sure", right=tally.sure_right, wrong=tally.sure_wrong))
    guessed = html.escape(
        say("lessons.progress.guessed", right=tally.guessed_right, wrong=tally.guessed_wrong)
    )
    total = html.escape(say("lessons.progress.total", right=tally.right, count=tally.count))
    return f'<div class="qv-card-progress"><b>{total}</b>{table}<p>{sure}<br>{guessed}</p></div>'
