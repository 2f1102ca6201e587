"""The Lab's controls lead to the lessons: each to a step that introduces what it is about."""

import re

import pytest

from quantviz.teaching.lessons import lessons, term_home
from quantviz.text import catalogue
from quantviz.ui.lab.learning import CAUSES, TERMS, terms_of
from tests.helpers.controls import controls
from tests.helpers.session import address, opened

#: Kinds of widgets that choose something; buttons beside those of "one scale for each" act.
WIDGETS = (
    "button_group",
    "checkbox",
    "multiselect",
    "number_input",
    "radio",
    "select_slider",
    "selectbox",
    "slider",
    "text_area",
    "text_input",
)
#: What no lesson speaks of: the app's own, what becomes of NaN, and a hub's or a folder's files.
NOT_TAUGHT = (
    "drop_anywhere",
    "language_choice",
    "nonfinite",
    "revision",
    "undo",
    "redo",
    "settings",
)
#: The address of each state, and a control that only it has.
STATES = {
    "opening": ({}, "scenario"),
    "group": (
        {
            "t": "builtin(name=course_4x4_a)",
            "s": "int4,asymmetric,per_group(size=2,axis=1),percentile(p=99.0),course",
        },
        "group_size",
    ),
    "given": (
        {
            "t": "normal(rows=8,cols=8)",
            "s": "int8,asymmetric,per_block(rows=2,cols=2),given(scale=0.1,zero_point=3),course",
        },
        "range_zero_point",
    ),
}


def linked(at):
    """The terms that links on the page lead to."""
    sent = " ".join(str(getattr(element, "proto", "")) for part in (at.main, at.sidebar) for element in part)
    return set(re.findall(r"lessons\?term=(\w+)", sent))


@pytest.mark.parametrize("name", STATES)
def test_every_control_leads_to_the_step_that_explains_it(name):
    link, own = STATES[name]
    at = opened(lang="zh" if name == "given" else "en", **({"v": "1"} if link else {}), **link)
    widgets = [*(each.key for kind in WIDGETS for each in at.get(kind)), *controls(at)]
    shown = [key for key in widgets if key and not key.startswith(NOT_TAUGHT)]
    assert {"format", "mode", "recipe", "convention", "calibration", "stage_tab", "kind", own} <= set(shown)
    found = linked(at)
    for control in shown:
        assert terms_of(control), control
        assert set(terms_of(control)) <= found, control


def test_every_term_has_a_step_that_introduces_it():
    known = lessons()
    for term in {term for terms in (*TERMS.values(), *CAUSES.values()) for term in terms}:
        lesson, step = term_home(term)
        assert (term, True) in known[lesson].steps[step].terms


def test_a_term_opens_its_step():
    at = opened("pages/learn/lessons.py", term="zero_point", lang="en")
    lesson, step = term_home("zero_point")
    assert address(at) == {"l": lesson, "p": str(step + 1), "lang": "en"}
    at = opened("pages/learn/lessons.py", term="no_such_term", lang="en")
    start = catalogue("en")["errors.lessons.term_without_step"].partition("{")[0]
    assert [each.value.startswith(start) for each in at.warning] == [True]
