"""The comparison that the Lab's state asks for: kept in the session, and shown in the panels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.conventions import CONVENTIONS, Convention
from quantviz.tensors.views import View
from quantviz.ui.components.scheme_words import convention_words, field_name
from quantviz.ui.components.tensor_cache import tensor_of
from quantviz.ui.shell.classroom import visible
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    import torch

    from quantviz.analysis.engine_comparison import Comparison, Difference, Fields
    from quantviz.errors import QuantVizError
    from quantviz.figures.panels_data import PanelsData, PixelCells


T = TypeVar("T")
#: Kinds of differences.
LIGHTS = ("either", "code")
#: Sides of lit cells up to which they are framed: each is drawn in four panels, twice.
_MOST_SIDES = 8000
_KEPT = "lab_comparison"
LEFT_OUT = "lab_compare_left_out"


@dataclass(frozen=True, eq=False)
class EngineComparisonResults:
    """A comparison, with the results that were computed about it so far."""

    key: str
    comparison: Comparison
    #: Those that offer the scheme, chosen or not.
    offering: tuple[str, ...]
    refused: dict[str, QuantVizError]
    results: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def once(self, work: Callable[..., T], *args: Any) -> T:
        """Return the result of `work` on `args`, computed once."""
        key = (work, *args)
        if key not in self.results:
            self.results[key] = work(*args)
        return cast(T, self.results[key])


@dataclass(frozen=True, eq=False)
class ComparisonView:
    """A comparison as it is looked at."""

    kept: EngineComparisonResults
    #: The convention of the Lab's own scheme.
    present: str
    #: The convention to compare with; None for all others.
    other: str | None
    #: Kind of differences, one of `LIGHTS`.
    light: str

    @property
    def comparison(self) -> Comparison:
        return self.kept.comparison

    @property
    def lit(self) -> torch.Tensor:
        """Return the cells that differ, bool of the tensor's shape."""
        return self.cells(self.other, self.light)

    def cells(self, other: str | None, light: str) -> torch.Tensor:
        """Return the cells in which the present convention and another differ; without `other`, any two."""
        if other is None:
            return self.comparison.codes_differ if light == "code" else self.comparison.lit
        apart = self.apart(other)
        return apart.codes if light == "code" else apart.either

    def apart(self, other: str) -> Difference:
        """Return the differences between the present convention and another."""
        from quantviz.analysis.engine_comparison import difference

        results = self.comparison.results
        return self.kept.once(difference, results[self.present], results[other])

    @property
    def others(self) -> tuple[str, ...]:
        """Return the first of each group but the present one's."""
        return tuple(group[0] for group in self.comparison.groups if self.present not in group)


def comparing(state: LabState) -> ComparisonView | None:
    """Return the comparison that the state asks for."""
    if state.compared is None or state.large or not visible("compare"):
        return None
    kept = _kept(state)
    present = str(state.scheme.chosen)
    # One that agrees in everything stands for its group.
    group = next((group for group in kept.comparison.groups if state.compared in group), ())
    other = group[0] if group and present not in group else None
    light = cast(str, st.session_state.get("lab_compare_light", LIGHTS[0]))
    return ComparisonView(kept, present, other, light)


def _kept(state: LabState) -> EngineComparisonResults:
    from quantviz.analysis.engine_comparison import compare

    left_out = cast("frozenset[str]", st.session_state.get(LEFT_OUT, frozenset()))
    key = f"{state.source.key} {state.scheme} {','.join(sorted(left_out))}"
    found = cast("EngineComparisonResults | None", st.session_state.get(_KEPT))
    if found is None or found.key != key:
        own = state.scheme.chosen
        engines: tuple[Convention, ...] = (own, *(each for each in CONVENTIONS.values() if each != own))
        x = tensor_of(state.source)
        whole = compare(x, state.scheme, engines)
        chosen = [each for each in engines if each == own or str(each) not in left_out]
        comparison = whole if len(chosen) == len(engines) else compare(x, state.scheme, chosen)
        found = st.session_state[_KEPT] = EngineComparisonResults(
            key, comparison, tuple(whole.results), dict(whole.refused)
        )
    return found


def differing(shown: ComparisonView | None, view: View) -> Any:
    """Return the mask of the differing cells in view, bool of its rows and columns; None where hidden."""
    return None if shown is None or not visible("compare") else seen(shown.lit, view)


def lighted(data: PanelsData, lit: Any) -> PanelsData:
    """Return the panels with the cells in view framed that are `lit`, or with a map of them if too many."""
    if lit is None:
        return data
    if data.pixels is not None:
        return dataclasses.replace(data, lit_share=_lit_share(lit, data.pixels))
    return dataclasses.replace(data, **({"lit": lit} if _sides(lit) <= _MOST_SIDES else {"lit_share": lit}))


def _lit_share(lit: Any, pixels: PixelCells) -> Any:
    """Return the share of the cells of each pixel that is lit."""
    import numpy as np

    rows = pixels.row_edges - pixels.row_edges[0]
    cols = pixels.col_edges - pixels.col_edges[0]
    counts = np.add.reduceat(np.add.reduceat(lit.astype(np.float32), rows[:-1], 0), cols[:-1], 1)
    return counts / np.outer(np.diff(rows), np.diff(cols))


def seen(lit: torch.Tensor, view: View) -> Any:
    from quantviz.tensors import blocks

    rows, cols = view.size(tuple(lit.shape))
    whole = blocks.matrix(lit, view.rows, view.cols, view.at)
    return whole[view.top : view.top + rows, view.left : view.left + cols].contiguous().numpy()


def can_be_framed(lit: torch.Tensor, view: View) -> bool:
    """Return whether the lit cells in view are not too many to be framed."""
    return _sides(seen(lit, view)) <= _MOST_SIDES


def _sides(cells: Any) -> int:
    """Return the number of borders between lit and unlit cells."""
    return int((cells[1:] != cells[:-1]).sum() + (cells[:, 1:] != cells[:, :-1]).sum())


def engine_name(name: str) -> str:
    """Return a convention, named by its text form, for people."""
    return convention_words(Convention.parse(name))


def engine_names(group: Iterable[str]) -> str:
    return " · ".join(map(engine_name, group))


def rule_name(fields: Fields) -> str:
    return say("compare.with").join(map(field_name, fields))
