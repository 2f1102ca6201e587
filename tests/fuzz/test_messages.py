"""Forged and damaged messages of the browser: of every message that is declared, and to every page.

What does not fit is dropped: nobody sees an error of ours, and the page goes on.
"""

import collections
import json
import logging
import random

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

from quantviz.browser.messages import ELEMENTS, MESSAGES, Unfit, decoded
from quantviz.lab.state import opening
from quantviz.schemes import names
from quantviz.sources.typed import Typed
from quantviz.ui.components.controls import finder
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from tests.helpers.controls import choose
from tests.helpers.messages import components, damaged, events_of, right, send, state_of, written
from tests.helpers.sample import sample_of
from tests.helpers.session import opened

TRIES, A_RUN = 3000, 60
#: For each page: rounds of messages to everything on it.
ROUNDS, ROUNDS_A_RUN = 60, 4
DECLARED = {
    **{
        f"{script}.{name}": shape for script, messages in MESSAGES.items() for name, shape in messages.items()
    },
    **ELEMENTS,
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_message_is_decoded_or_does_not_fit(name):
    shape, fates = DECLARED[name], collections.Counter()
    for seed in sample_of(range(TRIES), A_RUN):
        chance = random.Random(f"{name} {seed}")
        whole = right(shape, chance)
        assert decoded(shape, decoded(shape, whole)) == decoded(shape, whole)
        said = damaged(whole, chance)
        try:
            heard = decoded(shape, said)
        except Unfit:
            fates["dropped"] += 1
        else:
            fates["heard"] += 1
            # What is heard has the shape, can be sent on, and is no larger than what was said.
            assert decoded(shape, heard) == heard
            text = json.dumps(heard, allow_nan=False)
            text.encode()
            assert len(text) < 2**21
    assert fates["dropped"], fates


# ---- to a page ----------------------------------------------------------------------------------

LARGE = {"t": "one_outlier(rows=300,cols=260,value=40,row=271,col=13)"}
TYPED = opening().with_source(Typed((1.0, -2.0, 0.5, 4.0), (2, 2))).written()
#: Pages with what says something on them: the file, what the address asks for, and the tab that is open.
PAGES = {
    "home": ("pages/home/home.py", {}, ""),
    "formats": ("pages/learn/formats.py", {}, ""),
    "bugs": ("pages/learn/bugs.py", {}, ""),
    "lessons": ("pages/learn/lessons.py", {"l": "range_to_grid", "p": "2"}, ""),
    "lab": (None, {}, "cell"),
    "ranges": (None, {}, "range"),
    "blame": (None, {}, "blame"),
    "compared": (None, {}, "compare"),
    "large": (None, LARGE, "cell"),
    "typed": (None, TYPED, "cell"),
    "checkpoints": ("pages/explore/checkpoints.py", {}, ""),
}
#: The scripts of components by their names, to which the page's is added.
SCRIPTS = {
    "quantviz_cells": "panels_bridge",
    "quantviz_bridge": "panels_bridge",
    "quantviz_hand": "hand_component",
    "quantviz_controls": "controls_component",
    "quantviz_curve": "curve_component",
    "quantviz_ruler": "ruler_component",
    "quantviz_minimap": "minimap",
    "quantviz_formats": "formats_bridge",
    "quantviz_gallery": "gallery_component",
    "quantviz_home": "home_component",
    "quantviz_continue": "continue_component",
    "quantviz_progress": "progress",
    "quantviz_letters": "letters",
    "quantviz_copy": "",
    "quantviz_save": "",
}


def script_of(name):
    """The script of a component by the name it is registered by."""
    return next(script for known, script in SCRIPTS.items() if name == known or name.startswith(f"{known}_"))


def forged(at, chance):
    """Messages of everything on a page that says something, half of them right by themselves."""

    def value(shape):
        whole = right(shape, chance)
        return whole if chance.random() < 0.5 else damaged(whole, chance)

    for widget_id, name in components(at).items():
        shapes = MESSAGES.get(script_of(name), {})
        values = {message: value(shape) for message, shape in shapes.items()}
        events = [{"event": message, "value": each} for message, each in values.items()]
        yield events_of(
            widget_id, written(events if chance.random() < 0.9 else damaged(events, chance), chance)
        )
        state = {message: value(shape) for message, shape in shapes.items() if chance.random() < 0.5}
        yield state_of(widget_id, written(state if chance.random() < 0.9 else damaged(state, chance), chance))
    for element in (*at.get("plotly_chart"), *at.dataframe):
        if element.proto.id:
            parts = {name: value(shape) for name, shape in ELEMENTS.items()}
            said = {"selection": parts, "edited_rows": parts["edited_rows"]}
            said = said if chance.random() < 0.8 else damaged(said, chance)
            yield WidgetState(id=element.proto.id, string_value=written(said, chance))


@pytest.mark.parametrize("page", sample_of(PAGES, 1))
def test_a_page_goes_on_whatever_is_sent_to_it(page, caplog):
    file, params, tab = PAGES[page]
    at = opened(file, **params)
    if tab:
        choose(at, ("stage_tab", tab))
    for seed in sample_of(range(ROUNDS), ROUNDS_A_RUN):
        chance = random.Random(f"{page} {seed}")
        send(at, *forged(at, chance))
        failed = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert (seed, failed, list(at.exception)) == (seed, [], [])


def test_what_is_dropped_is_counted_in_the_log_and_what_fits_is_still_heard(caplog):
    at = opened("pages/learn/bugs.py")
    board = next(widget for widget, name in components(at).items() if name.startswith("quantviz_gallery"))

    def cell_after(text):
        send(at, events_of(board, text))
        return at.session_state["bugs_state"].now.cell

    heard = '[{"event": "cell", "value": {"row": 1, "col": 2}}]'
    assert cell_after(heard) == (1, 2)
    lies = (
        '{"row": 1}',
        '{"row": 1, "col": 10000}',
        '{"row": -1, "col": 0}',
        '{"row": NaN, "col": 0}',
        '"x"',
    )
    for lie in lies:
        assert cell_after(f'[{{"event": "cell", "value": {lie}}}]') == (1, 2)
    for text in ("[" * 10**5, '[{"value": 1}]', "{", f"[1{'0' * 5000}]"):
        assert cell_after(text) == (1, 2)
    assert at.session_state["dropped_messages"].count == 9
    # A name that no message has: what stands beside it is heard.
    assert cell_after(
        '[{"event": "nonsense", "value": 1}, {"event": "cell", "value": {"row": 0, "col": 1}}]'
    ) == (
        0,
        1,
    )
    send(at, state_of(board, '{"nonsense": 1}'))
    assert at.session_state["dropped_messages"].count == 11
    assert cell_after(heard) == (1, 2)
    told = [record.getMessage() for record in caplog.records if record.name == "quantviz"]
    assert [said.partition(": ")[2] for said in told] == [
        "gallery_component.cell (1 in this session)",
        "gallery_component.cell (2 in this session)",
        "gallery_component.cell (4 in this session)",
        "json_trigger_value (8 in this session)",
    ]
    assert cell_after(heard.replace("2", "0")) == (1, 0)
    assert list(at.exception) == list(at.error) == []


def test_what_is_typed_to_find_names_is_short_whatever_is_sent(monkeypatch):
    """Each word is looked for in each of many names: a million of them would take the server for hours."""

    class Name(str):
        looked_at = 0

        def lower(self):
            return self

        def __contains__(self, word):
            Name.looked_at += 1
            return True

    assert finder("a b " * 10**6)(Name("ab"))
    assert finder("".join(f"{k} " for k in range(10**6)))(Name("ab"))
    assert 0 < Name.looked_at <= 2 * FIND_CHARACTERS
    assert not finder("nowhere")("ab")
    folded = []
    monkeypatch.setattr(names, "folded", lambda text: folded.append(len(text)) or text)
    assert not names.contains("a name", "a b " * 10**6)
    assert max(folded, default=0) <= FIND_CHARACTERS
