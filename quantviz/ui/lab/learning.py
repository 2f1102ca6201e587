"""Links from the Lab's controls and numbers to the lessons' terms that explain each of them.

A link names the term, and the lessons' page finds the step that introduces it: nothing of the lessons is read
here, so no control waits for them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from quantviz.lab.classroom import Classroom
from quantviz.ui.shell.classroom import classroom, written
from quantviz.ui.shell.words import language, remembered, say

_READ = tomllib.loads(Path(__file__).with_name("terms.toml").read_text(encoding="utf-8"))
#: The glossary's terms for each control, and for the selected cell's cause.
TERMS: Mapping[str, list[str]] = _READ["terms"]
CAUSES: Mapping[str, list[str]] = _READ["causes"]


def terms_of(control: str) -> tuple[str, ...]:
    """Return the terms that explain a control; none where no lesson has one.

    >>> terms_of("rule_scale_format"), terms_of("rule_ties"), terms_of("undo")
    (('scale',), ('tie',), ())
    """
    parts = control.split("_")
    names = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((tuple(TERMS[name]) for name in names if name in TERMS), ())


def learn_address(term: str) -> str:
    """Return the address of the step that introduces a term."""
    return _address(term, _rest(classroom()))


def learn(*terms: str) -> str:
    """Return links to the steps that introduce terms, as a line of Markdown."""
    rest = _rest(classroom())
    links = (f"[{say(f'glossary.{term}.name')}]({_address(term, rest)})" for term in dict.fromkeys(terms))
    return say("glossary.learn", terms=" · ".join(links))


def _address(term: str, rest: str) -> str:
    return f"lessons?term={term}&{rest}"


@remembered
def _rest(room: Classroom) -> str:
    return urlencode({"lang": language(), **written(room)})


def explained(control: str, words: str) -> str:
    """Return a control's help with the links that belong to it."""
    return f"{words} {learn(*terms_of(control))}"
