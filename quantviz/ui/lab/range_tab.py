"""The tab Range: what another range, or finer scales, would bring on this very tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.analysis.better_schemes import best_of, gain_db, ranges_to_try
from quantviz.analysis.recipe_ranking import RecipeRow
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import Percentile
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.scheme_words import part_words
from quantviz.ui.lab.scheme_bar import other_granularities
from quantviz.ui.lab.tensor import kept, stored_of, study_of
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import number, plain, say

if TYPE_CHECKING:
    from quantviz.analysis.study import Study

#: Percentiles that are tried on a large tensor, each of which takes passes of its own.
_FEW = (99.9, 99.0)


@dataclass(frozen=True)
class _Found:
    """The best of what was tried."""

    range: RecipeRow | None
    scales: RecipeRow | None


def show_range(study: Study, state: LabState, sentence: Any, action: Any) -> None:
    """Say what another range and finer scales would bring, and offer the better of the two."""
    with sentence:
        found = _found(state)
        now = study.measured.metrics["sqnr_db"]
        by_range, by_scales = gain_db(found.range, now), gain_db(found.scales, now)
        told = []
        if found.range and by_range:
            told.append(
                say("stage.range.by_range", what=_range_words(found.range, state), gain=_gain(by_range))
            )
        if found.scales and by_scales:
            told.append(
                say(
                    "stage.range.by_scales",
                    what=_scales(found.scales.scheme, state),
                    gain=_gain(by_scales),
                    bits=f"{found.scales.bits:.4g}",
                )
            )
        words = say("stage.range.and").join(told) + say("stage.range.end")
        st.markdown(plain(_capital(words)) if told else say("stage.range.none"))
    if not told:
        return
    scales = by_scales > by_range
    best = found.scales if scales else found.range
    assert best is not None
    group = "scheme" if scales else "range"
    with action:
        st.button(
            plain(_capital(_scales(best.scheme, state))) if scales else say("stage.range.use_range"),
            key="range_use",
            on_click=session.safely(_take),
            args=(best.scheme,),
            disabled=locked(group),
            help=say("room.locked") if locked(group) else None,
        )


def _take(scheme: Scheme) -> None:
    session.change(scheme=scheme)


def _found(state: LabState) -> _Found:
    """Return the best range and the best scales for this tensor and scheme: computed once for both."""
    source, scheme = state.source, state.scheme

    def look() -> _Found:
        x = stored_of(source)
        finer = (scheme.replace(granularity=each) for each in other_granularities(state))
        ranges = ranges_to_try(scheme, _FEW) if state.large else ranges_to_try(scheme)
        return _Found(best_of(x, ranges), best_of(x, finer))

    with st.spinner(say("stage.range.trying"), show_time=True):
        return kept(source, f"better {scheme}", look, aside=True)


def _gain(gain: float) -> str:
    return number(gain, 2, signed=True)


def _range_words(row: RecipeRow, state: LabState) -> str:
    """Return a range as what is done: where one block has one, it is told by its ends."""
    calibration = row.scheme.calibration
    if not isinstance(calibration, Percentile):
        return say("stage.range.all_values")
    ends = study_of(state, row.scheme).range
    if ends is None or ends.lo.numel() != 1:
        return say("stage.range.clip_outermost", share=f"{100 - calibration.p:.3g}")
    lo, hi = float(ends.lo), float(ends.hi)
    at = f"±{number(hi, 3)}" if lo == -hi else say("stage.range.ends", lo=number(lo, 3), hi=number(hi, 3))
    return say("stage.range.clip_at", at=at)


def _scales(scheme: Scheme, state: LabState) -> str:
    """Return what one scale is for, such as "one scale for each column"."""
    return part_words(scheme, "granularity", state.source)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
