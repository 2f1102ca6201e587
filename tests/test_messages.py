"""What a browser may say: every message has a declared shape, and nothing else comes through."""

import ast
import itertools
import json
import math
import re
from functools import cache
from pathlib import Path

import pytest

from quantviz.browser import FOLDER, read_script
from quantviz.browser.messages import (
    ELEMENTS,
    LONGEST_PROGRESS,
    MESSAGES,
    Either,
    FixedList,
    Flag,
    Items,
    Kinds,
    Maybe,
    Named,
    Number,
    Record,
    Text,
    Unfit,
    Whole,
    Word,
    decoded,
)
from quantviz.teaching.lessons.progress import LONGEST
from tests.helpers.code import parsed

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.js"))
#: How a script says something: by Streamlit's functions, or by what holds them for its parts.
SAID = re.compile(r"\b(?:setTriggerValue|setStateValue|send|keep)\(\s*\"(\w+)\"")
IN_WIDGET = re.compile(r"model\.send\(\{ (\w+)")
#: Where the app's Python hears the browser.
HEARS = ROOT / "quantviz" / "ui" / "components" / "component.py"


@cache
def python_files():
    """Every file of the app's pages with its syntax."""
    files = [*(ROOT / "quantviz" / "ui").rglob("*.py"), *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"]
    return {path: parsed(path) for path in files}


# ---- every message has a shape ------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_message_of_a_script_has_a_shape(script):
    """To mend it, add the message to `MESSAGES` in quantviz/browser/messages.py, or take it out there."""
    source = read_script(script)
    # A page without a server hears itself; a widget's messages have their names inside.
    said = set() if script == "alone" else set(SAID.findall(source) + IN_WIDGET.findall(source))
    assert said == set(MESSAGES.get(script, {}))
    # Nothing is said by a name that only the browser knows.
    calls = re.findall(r"\b(?:setTriggerValue|setStateValue|(?<!model)\.send|\.keep)\((?!\s*\")", source)
    assert not calls, "a message whose name is not written out"


def test_messages_are_of_scripts_that_are_there():
    assert set(MESSAGES) <= set(SCRIPTS)


def test_every_callback_is_of_a_message_that_its_script_says():
    heard = {name for messages in MESSAGES.values() for name in messages}
    for path, tree in python_files().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
                names = [word.arg or "" for word in node.keywords]
                on = [re.fullmatch(r"on_(\w+)_change", name) for name in names]
                assert {found[1] for found in on if found} <= heard, path


def test_components_are_heard_in_one_place():
    """What a component, a chart or a table says is read through the decoder, and nowhere beside it."""
    beside = re.compile(
        r"\"(?:selection|edited_rows|added_rows|deleted_rows)\"|\.selection\.(?:points|rows|columns|cells)\b"
    )
    for path in python_files():
        source = path.read_text(encoding="utf-8")
        if path == HEARS:
            continue
        # Letting go of a selection writes one, and reads none.
        read = [line for line in source.splitlines() if beside.search(line) and "] = {" not in line]
        assert read == [], path
        mounts = "components.v2.component(" in source or "components.v1" in source
        if mounts and path.name == "clipboard.py":
            assert "setTriggerValue" not in source
            assert "setStateValue" not in source
        else:
            assert not mounts, path


def test_a_progress_that_is_too_long_still_comes_through_to_be_told_of():
    assert LONGEST < LONGEST_PROGRESS


# ---- the decoder --------------------------------------------------------------------------------

DEEP = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize(
    ("shape", "said", "heard"),
    [
        (Flag(), True, True),
        (Whole(), 0, 0),
        (Whole(-3, 3), -3, -3),
        (Number(), 3, 3.0),
        (Number(0, 1), 1.0, 1.0),
        (Text(3), "abc", "abc"),
        (Text(3), "a\ud800", "a?"),
        (Word(("a", "b")), "b", "b"),
        (Items(Whole(), 1, 2), [1, 2], [1, 2]),
        (FixedList((Whole(), Text(2))), [1, "x"], [1, "x"]),
        (Named(Whole(), Text(2), 1), {"a": 1}, {"a": 1}),
        (Record({"a": Whole(), "b": Whole()}, ("b",)), {"a": 1, "c": DEEP}, {"a": 1}),
        (Kinds({"k": Record({"a": Flag()})}), {"kind": "k", "a": False}, {"kind": "k", "a": False}),
        (Maybe(Whole()), None, None),
        (Either((Whole(), Text(2))), "x", "x"),
    ],
)
def test_what_fits_is_heard(shape, said, heard):
    found = decoded(shape, said)
    assert (found, type(found)) == (heard, type(heard))


@pytest.mark.parametrize(
    ("shape", "said"),
    # Numbered: of some of these pytest could not write a name.
    [
        *((Flag(), each) for each in (None, 0, 1, "true", [], DEEP)),
        *((Whole(0, 9), each) for each in (None, True, -1, 10, 10**5000, 1.0, math.nan, "1", [1], DEEP)),
        *(
            (Number(0, 9), each)
            for each in (None, False, -0.1, 9.1, math.nan, math.inf, 10**400, -(10**400), "1")
        ),
        *((Number(), each) for each in (math.nan, math.inf, -math.inf, 10**400)),
        *((Text(3), each) for each in (None, 1, "abcd", ["a"], b"a")),
        *((Word(("a",)), each) for each in (None, "b", ["a"], {}, DEEP)),
        *((Items(Whole(), 1, 2), each) for each in (None, [], [1, 2, 3], ["1"], "12", {"0": 1}, DEEP)),
        *((FixedList((Whole(), Whole())), each) for each in (None, [1], [1, 2, 3], [1, None], "ab")),
        *((Named(Whole(), Text(2), 1), each) for each in (None, {"a": 1, "b": 2}, {"abc": 1}, {1: 1}, [])),
        *((Record({"a": Whole()}), each) for each in (None, {}, {"a": None}, {"a": "1"}, [], "a")),
        *((Kinds({"k": Record({})}), each) for each in (None, {}, {"kind": ["k"]}, {"kind": "x"})),
        *((Either((Whole(), Flag())), each) for each in (None, "x", 1.5, DEEP)),
    ],
    ids=itertools.count(),
)
def test_what_does_not_fit_is_not(shape, said):
    with pytest.raises(Unfit):
        decoded(shape, said)


def test_what_elements_of_streamlit_say_has_a_shape():
    assert decoded(ELEMENTS["cells"], [(3, "name")]) == [[3, "name"]]
    assert decoded(ELEMENTS["points"], [{"x": 1, "customdata": ["int4", None]}]) == [
        {"customdata": ["int4", None]}
    ]
    assert decoded(ELEMENTS["points"], [{"x": 1}]) == [{}]
    assert decoded(ELEMENTS["edited_rows"], {2: {"0": 1.5, "1": None}}) == {2: {"0": 1.5, "1": None}}
