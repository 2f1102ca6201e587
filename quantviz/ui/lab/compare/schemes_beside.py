"""Two to four of the compared schemes side by side on held colours, and the map of the smallest errors.

They are zoomed and pointed at together with the Lab's own panels.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from quantviz.lab.state import LabState
from quantviz.live.cells import Picture
from quantviz.schemes.granularity import Granularity, PerChannel
from quantviz.ui.components.controls import choose_among, switch
from quantviz.ui.components.panels import PanelsWords, show_panels
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.components.tensor_cache import study_of
from quantviz.ui.lab.compare.compared_engines import seen
from quantviz.ui.lab.picture.tensor_panels import (
    BRIDGE_KEY,
    PANELS_KEY,
    error_end,
    linked_place,
    panels_of,
    tensor_key,
)
from quantviz.ui.shell.classroom import visible
from quantviz.ui.shell.words import language, number, plain, say, sentences

if TYPE_CHECKING:
    from quantviz.analysis.scheme_comparison import SchemeComparison
    from quantviz.figures.compared_panels import ComparedPanels
    from quantviz.figures.panels_data import PanelsData

_KEY = "beside"
_WHAT = "beside_what"
_WHICH = "beside_which"
#: The schemes shown last, in the order in which they were chosen.
_SHOWN = "lab_beside_shown"


def show_schemes_beside(
    found: SchemeComparison,
    state: LabState,
    names: Sequence[str],
    chosen: tuple[str, tuple[int, ...]],
    parts: Granularity | None,
) -> None:
    """Show some of the compared schemes side by side, and the winner of each of `parts` (cells where none).

    `chosen` is the result of `choose_beside`.
    """
    what, which = chosen
    data = _panels(found, state, parts, what, which)
    letters = string.ascii_uppercase
    words = say(f"contest.what.{what}")
    lettered = [say("contest.name", letter=letters[k], name=name) for k, name in enumerate(names)]
    bridge = st.container(key=f"{_KEY}_place")
    panels = st.container(key=_KEY)
    show_panels(
        data,
        linked_place(_KEY, bridge, panels, PANELS_KEY),
        tensor_key=tensor_key(state),
        selected=state.view.place(state.cell),
        picture=Picture("quantviz-compared", state.source.title(language()), " · ".join(lettered)),
        words=PanelsWords(
            titles=[*(_title(found, k, names[k]) for k in which), say("contest.map")],
            card={
                "labels": {
                    **{
                        letters[k].lower(): say(
                            "contest.card", letter=letters[k], what=say(f"panels.tab.{what}")
                        )
                        for k in which
                    },
                    "winner": say("contest.map"),
                    "lead": say("contest.ahead"),
                },
                "words": {"winner": [*letters[: len(names)], say("contest.tie"), "–"]},
            },
            alt=say("contest.panels_alt", what=words, names=", ".join(lettered[k] for k in which)),
        ),
    )
    pooled = "_pooled" if data.pixels is not None else ""
    st.caption(plain(sentences(say(f"contest.held_{what}"), say(f"contest.map_how{pooled}"))))


def _title(found: SchemeComparison, k: int, name: str) -> str:
    """Return a scheme's letter, its SQNR or MSE, and its name, which is cut where there is no room."""
    metrics = found.measured[k].metrics
    if visible("tiles.sqnr"):
        told = say("contest.db", sqnr=number(metrics["sqnr_db"], 3))
    elif visible("tiles.mse"):
        told = say("contest.mse", mse=number(metrics["mse"], 3))
    else:
        told = ""
    return " · ".join(filter(None, (string.ascii_uppercase[k], told, name)))


def choose_beside(names: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the chosen view of each scheme, and the places of the chosen schemes."""
    from quantviz.figures.compared_panels import COMPARED_VIEWS, MOST_BESIDE

    offered = {each: say(f"contest.what.{each}") for each in COMPARED_VIEWS if visible(each)}
    what = switch(_WHAT, say("contest.what_shown"), offered)
    if len(names) <= MOST_BESIDE:
        return what, tuple(range(len(names)))
    shown = _newest(len(names), MOST_BESIDE)
    letters = {k: string.ascii_uppercase[k] for k in range(len(names))}
    label = say("contest.which", most=MOST_BESIDE)
    take = partial(setitem, st.session_state, _WHICH)
    choose_among(f"{_WHICH}_choice", "many", label, letters, shown, take)
    return what, shown


def _newest(count: int, most: int) -> tuple[int, ...]:
    """Return the places of the shown schemes: of more than `most` those chosen last, of few at least two."""
    before = [k for k in st.session_state.get(_SHOWN, ()) if k < count] or list(range(most))
    now = [k for k in st.session_state.get(_WHICH) or before if k < count]
    chosen = [k for k in before if k in now] + [k for k in now if k not in before]
    st.session_state[_SHOWN] = chosen[-most:] if len(chosen) >= 2 else before
    return tuple(sorted(st.session_state[_SHOWN]))


def _panels(
    found: SchemeComparison, state: LabState, parts: Granularity | None, what: str, which: tuple[int, ...]
) -> ComparedPanels:
    from quantviz.figures.compared_panels import compared_panels

    width = bridge_width(BRIDGE_KEY)
    end = error_end(study_of(state), state)
    states = [state.replace(scheme=scheme) for scheme in found.schemes]

    def of(k: int) -> PanelsData:
        return panels_of(study_of(states[k]), states[k], end, width)

    shown = {k: of(k) for k in which}
    first = next(iter(shown.values()))
    if parts is not None:
        winner, lead = _of_parts(found, state, parts, first)
    else:
        from quantviz.analysis.scheme_comparison import judged
        from quantviz.streaming.frames import Patch

        view = state.view
        patch = Patch(view.top, view.left, *view.size(state.source.shape))

        def errors_of(k: int) -> Any:
            if first.pixels is None:
                return np.abs(shown[k].error if k in shown else of(k).error)
            return study_of(states[k]).overview(patch, first.shape, "rms", view).error

        winner, lead, _ = judged(np.stack([errors_of(k) for k in range(len(states))]))
    return compared_panels(shown, what, winner, lead, len(states))


def _of_parts(
    found: SchemeComparison, state: LabState, parts: Granularity, shown: PanelsData
) -> tuple[Any, Any]:
    """Return the winners of parts, and their leads, as the rows and columns that are shown."""
    from quantviz.figures.compared_panels import strongest_in_pixels

    winner, lead = (_in_view(each, state, parts) for each in (found.winner, found.lead))
    rows, cols = shown.seen
    edges = (
        (np.arange(rows + 1), np.arange(cols + 1))
        if shown.pixels is None
        else (shown.pixels.row_edges - shown.top, shown.pixels.col_edges - shown.left)
    )
    return strongest_in_pixels(winner, lead, len(found.schemes), edges)


def _in_view(values: Any, state: LabState, parts: Granularity) -> Any:
    """Return the parts' values as the rows and columns in view; of channels one line stands for all."""
    import torch

    from quantviz.tensors.blocks import expand

    view = state.view
    shape = state.source.shape
    rows, cols = view.size(shape)
    if isinstance(parts, PerChannel):
        line = values.reshape(-1)
        if parts.axis == view.rows:
            return line[view.top : view.top + rows, None]
        return line[None, view.left : view.left + cols]
    told = expand(torch.from_numpy(values), parts.layout(shape, "short"), shape).expand(shape)
    return seen(told, view)
