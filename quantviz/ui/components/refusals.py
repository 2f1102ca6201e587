"""Show the choices that are refused here by reason: one line a reason, with every choice it excludes."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.ui.shell.words import plain, say, say_error, sentences


def show_refused(refused: Iterable[tuple[str, QuantVizError | None]]) -> None:
    """Show names with their problems, those with the same problem together."""
    names: dict[str, list[str]] = {}
    for name, problem in refused:
        if problem:
            names.setdefault(say_error(problem), []).append(name)
    for reason, kept_out in names.items():
        refusal = say("recipes.not_fitting", names=plain(say("recipes.between").join(kept_out)))
        st.caption(sentences(refusal, reason))
