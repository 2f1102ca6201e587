"""The layers of a capture: the error of their weights beside that of their outputs, as two maps; a square
opens its layer. And the best method for each layer: measured when it is asked for, one after the other.
"""

from __future__ import annotations

import html
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import DROPPED
from quantviz.lab.layer_state import (
    NEAREST,
    PAIRS,
    LayerState,
    SchemePair,
    read_pair,
)
from quantviz.quoting import operand, shell_command
from quantviz.sources.local import local_version
from quantviz.text import visible
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.components.controls import choose_among, show_controls
from quantviz.ui.components.phone_tables import TableColumn, numbers_written, show_table
from quantviz.ui.components.small_parts import SteppedWork, show_button, show_plot, show_refused
from quantviz.ui.components.tensor_cache import catalog_of
from quantviz.ui.lab.dropped_files import CAPTURE, DroppedFiles, dropped_files
from quantviz.ui.layers import state as layers
from quantviz.ui.layers.own_layer import keep_layer, layer_in_folder, layer_of_upload
from quantviz.ui.layers.state import kept_fact
from quantviz.ui.layers.words import pair_controls, percent
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.bounds import HEAVY_PRODUCTS, HEAVY_SECONDS
from quantviz.ui.shell.long_work import heavily, read_file
from quantviz.ui.shell.words import language, method_name, plain, say, sentences, theme

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


_LAYERS = "pages/explore/layers.py"
_ATTENTION = "pages/explore/attention.py"
_READ = "checkpoints_capture_read"
#: Seconds without a sign of how far the work is.
_QUIET_SECONDS = 0.5
#: Columns of the table with numbers, as they are written.
_FORMATS = {
    "weight_sqnr_db": "%.1f",
    "output_db": "%.1f",
    "rel_out_held_back": "%.3g %%",
    "rel_out_used": "%.3g %%",
    "loud_input_times": "%.1f",
}
_HEIGHT = 320


def is_capture(chosen: str) -> bool:
    """Return whether a choice is a file of layers with their inputs, in the server's folder or uploaded."""
    if chosen == CAPTURE:
        return True
    if not chosen.endswith((".safetensors", ".npz")):
        return False
    from quantviz.layers import captures

    try:
        return captures.has_layers(catalog_of(chosen))
    except QuantVizError:  # the page of a checkpoint says it
        return False


def show_capture(state: CheckpointsState) -> None:
    """Show the maps of the chosen capture, and what they leave out.

    Raises:
        QuantVizError: The file cannot be read.
    """
    pair = pair_of(state)
    key, layers = _opened(state.chosen)
    capture = Capture(key, layers, pair, shared=state.chosen != CAPTURE)
    with st.container(key="checkpoints_capture_sentence"):
        rows = _numbers(capture)
        _show_sentence(state.chosen, rows, pair)
        _offer_heads(state.chosen, layers)
    _show_maps(state.chosen, rows, pair)
    _show_coverage(rows, layers.notes_under(*pair.schemes()))
    forms = show_best_methods(capture, rows, lambda name, form: _open(state.chosen, name, pair, method=form))
    st.markdown(f"## {say('checkpoints.capture.table')}")
    with st.container(key="checkpoints_capture_table"):
        _show_table(rows)
    if capture.shared:
        st.caption(plain(say("checkpoints.capture.command")))
        command = ["quantviz", "layers", operand(state.chosen), "-w", pair.weights, "-a", pair.inputs]
        dynamic = [] if pair.static else ["--dynamic"]
        methods = ["--methods", ",".join(forms)] if forms else []
        st.code(
            shell_command([*command, *dynamic, *methods, "-o", "layers.html"]), language="sh", wrap_lines=True
        )


# ---- the schemes -------------------------------------------------------------------------------------


def pair_of(state: CheckpointsState) -> SchemePair:
    """Return the schemes of a state; the first ones fit layers of any size."""
    return read_pair(state.pair) if state.pair else PAIRS["w8a8_static"]


def show_pair() -> None:
    """Show the pairs with a name, and the schemes of each side."""
    controls = pair_controls(
        "checkpoints_capture", lambda: pair_of(OWNER.state), lambda pair: OWNER.change(pair=str(pair))
    )
    for each in controls:
        show_controls(each.field, None, each)


# ---- the numbers -------------------------------------------------------------------------------------


def _opened(chosen: str) -> tuple[str, Layers]:
    """Return the key of a capture, and its layers."""
    from quantviz.layers.captures import captured_in
    from quantviz.sources.sandbox import Held
    from quantviz.sources.sandboxed import Sandboxed

    if chosen != CAPTURE:
        return f"{chosen!a} {local_version(chosen)}", captured_in(catalog_of(chosen))
    dropped = dropped_files(CAPTURE)
    read = cast("tuple[DroppedFiles, Layers] | None", st.session_state.get(_READ))
    if read is None or read[0] is not dropped:
        (file,) = dropped.files
        read = dropped, captured_in(Sandboxed(Held(file.name, file.path), read_file))
        st.session_state[_READ] = read
    return str(dropped.path), read[1]


def _numbers(capture: Capture) -> list[dict[str, Any]]:
    """Return the record of each layer under a pair, with reasons as text; say how far it is meanwhile."""
    from quantviz.layers.layer_numbers import record_unread

    place = st.empty()
    begun = time.monotonic()
    rows = []
    for done, layer in enumerate(capture.layers):
        if time.monotonic() - begun > _QUIET_SECONDS:
            words = say("checkpoints.capture.progress", done=done, all=len(capture.layers))
            place.progress(done / len(capture.layers), words)
        rows.append(capture.record(layer))
    place.empty()
    rows += map(record_unread, capture.layers.unread)
    return [{**row, "reason": row["reason"] and row["reason"].message(language())} for row in rows]


# ---- what is shown -----------------------------------------------------------------------------------


def _show_sentence(chosen: str, rows: list[dict[str, Any]], pair: SchemePair) -> None:
    """Show the layer with the largest output error, where its weight's error stands, and the way to it."""
    from quantviz.figures.layer_map import decibels_in

    known = [row for row in rows if row["status"] == "ok"]
    if not known:
        st.markdown(plain(say("checkpoints.capture.nothing")))
        return
    worst = min(known, key=lambda row: row["output_db"])
    if worst["output_db"] == math.inf:
        st.markdown(plain(say("checkpoints.capture.no_error")))
        return
    weight = decibels_in(worst, "weight_sqnr_db")
    rank = 1 + sum(cast("float", decibels_in(row, "weight_sqnr_db")) < cast("float", weight) for row in known)
    words = say(
        "checkpoints.capture.worst",
        layer=visible(worst["layer"]),
        error=percent(worst["rel_out_held_back"]),
        rank=rank,
        all=len(known),
    )
    st.html(f'<p class="qv-finding">{html.escape(words)}</p>')
    label = say("checkpoints.capture.open", layer=plain(visible(worst["layer"])))
    show_button(label, "checkpoints_capture_open", _open, chosen, worst["layer"], pair)


def _offer_heads(chosen: str, layers: Layers) -> None:
    """Show the way to the attention of the queries, keys and values that layers of the capture make."""
    from quantviz.models.heads import names_of_projections

    if names_of_projections(layers.names):
        opens = {"f": DROPPED, **({} if chosen == CAPTURE else {"o": chosen})}
        label = say("checkpoints.capture.heads")
        show_button(label, "checkpoints_capture_heads", turn_to, _ATTENTION, opens, type="tertiary")


def _show_maps(chosen: str, rows: list[dict[str, Any]], pair: SchemePair) -> None:
    from quantviz.figures.layer_map import MAPPED, error_maps

    figures = error_maps(rows, language=language(), theme=theme())
    for column, name, figure in zip(st.columns(2, gap="medium"), MAPPED, figures, strict=True):
        with column:
            st.markdown(f"**{say(f'layers_map.{name}')}**")
            # The chart starts afresh after a click, or a second one on the same square would take it back.
            show_plot(
                figure,
                f"checkpoints_capture_{name}",
                say("layers_map.alt", what=say(f"layers_map.{name}")),
                take=lambda row: _open(chosen, row["layer"], pair),
                marks=rows,
                afresh=True,
            )
    st.caption(plain(say("layers_map.about")))


def _show_coverage(rows: list[dict[str, Any]], notes: tuple[Note, ...]) -> None:
    """Say how many layers have a number, and which parts of the model have none."""
    known = sum(row["status"] == "ok" for row in rows)
    st.caption(plain(say("checkpoints.capture.coverage", known=known, all=len(rows))))
    for note in notes:
        st.caption(plain(note.message(language())))


def _show_table(rows: list[dict[str, Any]]) -> None:
    """Show all layers, those with the largest output error first and those without a number before them."""
    ordered = sorted(rows, key=lambda row: row.get("output_db", -math.inf))
    names = ["layer", *_FORMATS, "loud_input"]
    if any(row["reason"] for row in rows):
        names.append("reason")
    columns = {name: [row.get(name) for row in ordered] for name in names}
    for name in ("rel_out_held_back", "rel_out_used"):
        columns[name] = [None if each is None else 100 * each for each in columns[name]]
    columns["layer"] = [visible(row["layer"]) for row in ordered]
    st.dataframe(
        numbers_written(columns, _FORMATS),
        hide_index=True,
        height="content" if len(rows) <= 8 else _HEIGHT,
        column_config={name: say(f"layers_map.column.{name}") for name in names},
        placeholder="",
    )


def _open(chosen: str, name: str, pair: SchemePair, method: str = NEAREST) -> None:
    """Open a layer of the capture on the page of layers, under the same schemes and a chain of methods."""
    if chosen == CAPTURE:
        layer, uploads = layer_of_upload(dropped_files(CAPTURE).files[0], name)
    else:
        layer, uploads = layer_in_folder(chosen, name), {}
    keep_layer(layer, uploads)
    layers.OWNER.open(LayerState(layer, pair, method=method).fitting())
    turn_to(_LAYERS)
