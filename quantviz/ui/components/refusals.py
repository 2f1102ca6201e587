"""Show errors beside controls, and refused choices: one line a reason, with every choice it excludes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import plain, say, say_error, sentences


def error_beside(field: str) -> QuantVizError | None:
    """Return the error of the last input in the controls of `field`, or None."""
    return errors.input_errors().get(field)


def show_page_errors(*more: QuantVizError) -> None:
    """Show some errors and those above the page."""
    for error in (*more, *errors.page_errors()):
        st.warning(say_error(error))


def show_error_beside(field: str) -> bool:
    """Show the error of the last input in the controls of `field`; return whether there is one."""
    error = error_beside(field)
    if error:
        st.error(say_error(error))
    return error is not None


def show_refused(refused: Iterable[tuple[str, QuantVizError | None]], label: str, **words: Any) -> None:
    """Show in one line how many of these names have a problem, which unfolds to the names by their problem.

    `label` is the key of the line, which has the count and `words`.
    """
    names: dict[str, list[str]] = {}
    for name, problem in refused:
        if problem:
            names.setdefault(say_error(problem), []).append(name)
    if not names:
        return
    with st.expander(plain(say(label, count=sum(map(len, names.values())), **words)), key=label):
        for reason, kept_out in names.items():
            refusal = say("recipes.not_fitting", names=plain(say("recipes.between").join(kept_out)))
            st.caption(sentences(refusal, reason))
