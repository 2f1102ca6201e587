"""The best method for each layer of a capture: measured when it is asked for, one layer after the other."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST, SchemePair
from quantviz.text import visible
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.phone_tables import TableColumn, show_table
from quantviz.ui.components.small_parts import show_button, show_refused
from quantviz.ui.components.stepped_work import SteppedWork
from quantviz.ui.layers.state import kept_fact
from quantviz.ui.shell.bounds import HEAVY_PRODUCTS, HEAVY_SECONDS
from quantviz.ui.shell.long_work import heavily
from quantviz.ui.shell.words import method_name, plain, say, sentences

if TYPE_CHECKING:
    from quantviz.layers.captures import Captured, Layers

_CHOICE = "checkpoints_methods"
_SEARCH = "checkpoints_methods_search"
#: The methods that are tried at first: one of each kind.
_FIRST = ("gptq", "awq", "smoothquant", "rotation+gptq")
#: CSS pixels of the page for which the table's columns are laid out, and its lines that are seen at once.
_WIDTH = 700
_LINES = 12

#: Opens a layer of the capture under a chain of methods.
Opening = Callable[[str, str], None]


@dataclass(frozen=True)
class Capture:
    """A capture under a pair of schemes."""

    #: Names the file and its version.
    key: str
    layers: Layers
    pair: SchemePair
    #: Whether its numbers are shared by all sessions.
    shared: bool

    def record(
        self, layer: Captured, form: str = NEAREST, on_share: Callable[[float], None] = lambda share: None
    ) -> dict[str, Any]:
        """Return the record of a layer under a chain of methods, with its SQNR; it is cached.

        `on_share` gets the share of long work that is done.
        """
        key = f"capture {self.key} {layer.name} {self.pair} {form}"
        make = partial(self._measured, key, layer, form, on_share)
        return kept_fact(key, make, shared=self.shared, aside=True, by_job=True)

    def _measured(
        self, key: str, layer: Captured, form: str, on_share: Callable[[float], None]
    ) -> dict[str, Any]:
        from quantviz.layers.layer_numbers import numbers_or_reason, output_sqnr_db
        from quantviz.layers.methods.chain import as_chain
        from quantviz.layers.work import products_of, refuse_long

        schemes = self.pair.schemes()
        work = partial(numbers_or_reason, layer, *schemes, method=as_chain(form), static=self.pair.static)
        products = products_of(as_chain(form), layer.shape, schemes)
        try:
            refuse_long(as_chain(form), layer.shape, HEAVY_SECONDS, schemes)
            row = heavily(key, work, on_share, products) if products >= HEAVY_PRODUCTS else work()
        except QuantVizError as problem:
            if problem.key not in ("work.too_long", "method.too_large"):
                raise
            if problem.key == "work.too_long" and form != NEAREST:
                # Its own way out is that of a range.
                problem = QuantVizError("method.too_long", method=form, **problem.params)
            row = {"layer": layer.name, "status": "refused", "reason": problem}
        if row["status"] == "ok":
            row["output_db"] = output_sqnr_db(row["rel_out_held_back"])
        return row


def show_best_methods(capture: Capture, rows: Sequence[dict[str, Any]], take: Opening) -> tuple[str, ...]:
    """Show the choice of methods, the search, and what it found; return the chosen chains.

    Args:
        capture: The capture.
        rows: The record of each layer rounded to nearest.
        take: Opens a layer.
    """
    from quantviz.layers.methods.chain import fitting_chains

    measured = [row for row in rows if row["status"] == "ok"]
    if not measured:
        return ()
    st.markdown(f"## {say('checkpoints.methods.title')}")
    search = cast("SteppedWork | None", st.session_state.get(_SEARCH))
    with st.container(key="checkpoints_methods_bar", horizontal=True, vertical_alignment="bottom"):
        fitting = [form for form in fitting_chains(*capture.pair.schemes()) if form != NEAREST]
        chosen = st.session_state.get(_CHOICE, _FIRST)
        forms = tuple(
            choose_among(
                "checkpoints_methods_choice",
                "picks",
                say("checkpoints.methods.choice"),
                {form: method_name(form) for form in fitting},
                [form for form in chosen if form in fitting],
                lambda forms: st.session_state.update({_CHOICE: forms}),
                example=say("checkpoints.methods.add"),
            )
        )
        key = f"{capture.key} {capture.pair} {forms}"
        if search is None or search.of != key:
            search = None
            show_button(
                say("checkpoints.methods.begin"),
                "checkpoints_methods_begin",
                lambda: st.session_state.update({_SEARCH: SteppedWork(key)}),
                disabled=not forms,
            )
    if search is None:
        st.caption(plain(say("checkpoints.methods.about")))
        return forms
    names = [row["layer"] for row in sorted(measured, key=lambda row: row["output_db"])]
    _measure(capture, search, names, forms)
    _show_found(search, names, forms, take)
    return forms


def _measure(capture: Capture, search: SteppedWork, names: Sequence[str], forms: tuple[str, ...]) -> None:
    """Measure the layers that are left under each chain, and say how far it is meanwhile."""
    layers = {layer.name: layer for layer in capture.layers}

    def words(thing: tuple[str, str]) -> str:
        name, form = thing
        found = {"done": names.index(name), "all": len(names)}
        return say("checkpoints.methods.progress", layer=visible(name), method=method_name(form), **found)

    search.go_through(
        itertools.product(names, (NEAREST, *forms)),
        lambda thing, on_share: capture.record(layers[thing[0]], thing[1], on_share),
        words,
        "checkpoints_methods",
    )


def _show_found(search: SteppedWork, names: Sequence[str], forms: tuple[str, ...], take: Opening) -> None:
    """Show a sentence on what the methods bring, and the best one of each layer that is measured."""
    from quantviz.layers.layer_numbers import best_of

    every = {
        name: [search.found[name, form] for form in (NEAREST, *forms)]
        for name in names
        if not search.missing((name, form) for form in (NEAREST, *forms))
    }
    if len(every) < len(names):
        words = say("checkpoints.methods.cancelled", done=len(every), all=len(names))
        with st.container(key="checkpoints_methods_rest", horizontal=True, vertical_alignment="center"):
            st.markdown(plain(words), width="content")
            show_button(say("checkpoints.methods.go_on"), "checkpoints_methods_go_on", search.go_on)
    if not every:
        return
    rows = [best_of(nearest, others) for nearest, *others in every.values()]
    rows.sort(key=lambda row: row["times_less"] or 1.0, reverse=True)
    st.markdown(_sentence(rows))
    columns = (
        TableColumn("layer", [visible(row["layer"]) for row in rows], 250, on_phone=True, names_lines=True),
        TableColumn("method", [method_name(row["method"]) for row in rows], 190, on_phone=True),
        TableColumn("times_less", [row["times_less"] for row in rows], 90, "%.2f", on_phone=True),
        TableColumn("nearest", [100 * row["rel_out_nearest"] for row in rows], 90, "%.3g %%"),
        TableColumn("best", [100 * row["rel_out_held_back"] for row in rows], 90, "%.3g %%"),
    )
    show_table(
        "checkpoints_methods_table",
        columns,
        _WIDTH,
        words="checkpoints.methods.columns",
        alt=say("checkpoints.methods.table_alt"),
        lines=_LINES,
        take=lambda line: take(rows[line]["layer"], rows[line]["method"]),
    )
    refused = [
        (f"{visible(name)} · {method_name(form)}", record["reason"])
        for name, records in every.items()
        for form, record in zip(forms, records[1:], strict=True)
        if record["status"] != "ok"
    ]
    show_refused(refused, "checkpoints.methods.refused")


def _sentence(rows: Sequence[dict[str, Any]]) -> str:
    """Return the sentences on the method that is best most often, what the best ones bring at the median
    layer, and where none brings anything.
    """
    wins = Counter(row["method"] for row in rows)
    nearest = wins.pop(NEAREST, 0)
    if not wins:
        return plain(say("checkpoints.methods.none", all=len(rows)))
    form, count = wins.most_common(1)[0]
    times = short_number(statistics.median(row["times_less"] or 1.0 for row in rows))
    best = say("checkpoints.methods.found", method=method_name(form), count=count, all=len(rows), times=times)
    rest = say("checkpoints.methods.of_none", count=nearest) if nearest else ""
    return sentences(plain(best), plain(rest)) if rest else plain(best)
