"""The tabs of a layer: the products of an output, its channels, its integers, and schemes side by side."""

from __future__ import annotations

import html
import math
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.layer_plots import (
    MIRRORED,
    PARTS,
    PairPoint,
    channels_figure,
    pairs_figure,
    part_colours,
)
from quantviz.figures.line_plots import range_curve
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_sources import LayerWeight
from quantviz.lab.layer_state import MOST_PAIRS, NEAREST, PAIRS, LayerState, SchemePair, pairs_compared
from quantviz.lab.state import LabState
from quantviz.layers.causes import Channels, Products, note_on_culprit
from quantviz.layers.integer_engines import ACTIVATIONS, INTEGER_ENGINES
from quantviz.layers.integer_explanation import IntegerExplanation, rows_of_steps
from quantviz.layers.integer_result import IntegerResult
from quantviz.layers.integers_of_layer import OUTPUT_FORMATS, activated, operated_output, operators_after
from quantviz.layers.layer_numbers import ranges_over_tokens
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.views import View
from quantviz.ui.components.cell import steps_html
from quantviz.ui.components.controls import (
    choose_among,
    field_control,
    hold_choice,
    place_controls,
    show_controls,
    switch,
)
from quantviz.ui.components.phone_tables import TableColumn, show_table
from quantviz.ui.components.small_parts import (
    legend_html,
    show_button,
    show_figure,
    show_folded,
    table_html,
    term,
)
from quantviz.ui.components.tensor_cache import loudness_of
from quantviz.ui.layers.method_tab import Picture, show_method, show_method_choice
from quantviz.ui.layers.picture import (
    both_bits,
    offer_page,
    select,
    settled,
    show_finding,
    show_hand,
    show_numbers,
    show_picture,
    show_remedy,
)
from quantviz.ui.layers.state import OWNER, SeenLayer, seen_layer
from quantviz.ui.layers.words import (
    decibels,
    pair_name,
    share_of,
    show_sentence,
    stacked_bar,
)
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.words import (
    count_text,
    language,
    number,
    plain,
    say,
    say_error,
    say_note,
    sentences,
    theme,
)

#: The pair that the button applies where the chosen schemes have no integer layer.
_FITTING = "w8a8_static"
#: Products that are written out; of more, those of largest magnitude.
_MOST_WRITTEN = 4
#: Digits of a real number: those of a float32, nearly.
_DIGITS = 7
#: Rounding moves an output by half a step at most; more than this is the work of something else.
_ROUNDING = 0.501


def show_integer(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the steps of the selected output."""
    try:
        layer = seen.integers(state.engine, state.output_format, state.activation)
    except QuantVizError as problem:
        _show_choices(state)
        st.markdown(say_error(problem))
        name = pair_name(PAIRS[_FITTING])
        show_button(
            say("layers.integer.apply", pair=name),
            "layers_integer_apply",
            lambda: OWNER.change(pair=PAIRS[_FITTING], engine="onnxruntime"),
            type="primary",
        )
        return
    _show_choices(state)
    why = layer.explain(*cell)
    with st.container(key="layers_integer_answer"):
        st.markdown(sentences(_answer(seen, why, state, cell), _about_formats(seen, layer)))
    _show_integers(_rows_of_steps(why))
    for note in layer.notes:
        st.caption(say_note(note))
    if operators := operators_after(layer):
        words = say("layers.integer.operator")
        show_folded(words, "layers_operator", _show_operator, seen, layer, cell, operators)


def _show_integers(rows: Iterable[str]) -> None:
    heads = [say(f"cell.{name}") for name in ("step", "numbers", "gives")]
    table = table_html(heads, rows)
    st.html(f'<div class="qv-products qv-integers" tabindex="0">{table}</div>')


def _show_operator(
    seen: SeenLayer, layer: IntegerResult, cell: tuple[int, int], operators: Sequence[str]
) -> None:
    """Show the output after an operator that follows the layer."""
    names = {name: say(f"layers.integer.operators.{name}") for name in operators}
    label = say("layers.integer.then")
    operator = hold_choice("layers_operator_name", "list", label, names, operators[0], look="qv-inside")
    try:
        found = operated_output(seen.result, layer, operator, *cell)
    except QuantVizError as problem:
        st.markdown(say_error(problem))
        return
    scales = (layer.outputs.scale, layer.inputs.scale, found.params.scale)
    a, b, y = (short_number(float(scale)) for scale in scales)
    key = "operator_with_input" if operator in ("add", "mul") else "operator_alone"
    st.caption(say(f"layers.integer.{key}", channel=cell[1], a=a, b=b, y=y))
    _show_integers(
        _row(row.words, row.code_line, _read(row.inputs), _written(row.output), row.dtype)
        for row in rows_of_steps(found.steps, language())
    )


def _show_choices(state: LayerState) -> None:
    """Show the engine, the format of the outputs' codes, and the activation."""
    choices = {
        "engine": {name: say(f"integer_engines.{name}.name") for name in INTEGER_ENGINES},
        "output_format": {name: name for name in OUTPUT_FORMATS},
        "activation": {name: say(f"layers.integer.activations.{name}") for name in ACTIVATIONS},
    }
    about = {field: say(f"layers.integer.{field}_help") for field in choices}
    engine = choices["engine"][state.engine]
    about["engine"] += f" {engine}: {say(f'integer_engines.{state.engine}.help')}."
    controls = (
        field_control(OWNER, field, "list", say(f"layers.integer.{field}"), names, help=about[field])
        for field, names in choices.items()
    )
    show_controls("layers_integer", OWNER, *controls, look="qv-inside")


def _answer(seen: SeenLayer, why: IntegerExplanation, state: LayerState, cell: tuple[int, int]) -> str:
    """Return the sentence on the output's code, and on what moved it most."""
    token, output = cell
    y_hat = seen.result.cells(slice(token, token + 1), slice(output, output + 1)).y_hat
    wanted = float(activated(y_hat, state.activation))
    step = float(why.given["s_y"])
    values = {"q": _written(why.q), "y": short_number(why.y, 4), "wanted": short_number(wanted, 4)}
    found = int([step.output for step in why.steps if step.name == "acc"][-1])  # without a real bias
    exact = int(why.exact_accumulator)
    if why.step("integer_pairs") and found != exact:
        sums = {"sum": _written(found), "exact": _written(exact)}
        return plain(say("layers.integer.saturates", **values, **sums))
    away = why.y - wanted
    moved = number(away, 2, signed=True)
    if abs(away) > _ROUNDING * step and why.q in (why.given["low"], why.given["high"]):
        return plain(say("layers.integer.clamped", **values, moved=moved))
    return plain(say("layers.integer.rounded", **values, moved=moved, half=short_number(step / 2)))


def _about_formats(seen: SeenLayer, layer: IntegerResult) -> str:
    """Return the sentences on an engine whose pairs saturate: its uint8 inputs, and pairs that all fit."""
    if INTEGER_ENGINES[layer.engine].pairs == "exact":
        return ""
    fit = "" if bool(layer.saturated_pairs.any()) else say("layers.integer.pairs_fit")
    scheme = seen.result.inputs.scheme
    moved = scheme is not None and scheme.format != layer.inputs.number_format
    return sentences(say("layers.integer.unsigned") if moved else "", fit)


def _rows_of_steps(why: IntegerExplanation) -> Iterator[str]:
    """Yield the steps as lines of a table, and at last that from the code to its value."""
    for row in why.rows(language()):
        numbers = _read(row.inputs)
        if row.code_line.startswith("acc = int32(dot"):
            numbers = _products(why)
        yield _row(row.words, row.code_line, numbers, _written(row.output), row.dtype)
    values = {"q": why.q, "S_y": why.given["s_y"], "Z_y": why.given["z_y"]}
    words = say("layers.integer.value")
    yield _row(words, "y_hat = s_y * (q - z_y)", _read(values.items()), _written(why.y), "float32")


def _row(words: str, line: str, numbers: str, gives: str, dtype: str) -> str:
    return (
        f"<tr><td>{html.escape(words)}<br><code>{html.escape(line)}</code></td>"
        f"<td>{html.escape(numbers)}</td><td><b>{gives}</b> <small>{dtype}</small></td></tr>"
    )


def _read(values: Iterable[tuple[str, float | int]]) -> str:
    """Return the values that a line reads, each with its symbol."""
    return ", ".join(f"{symbol} = {_written(value)}" for symbol, value in values)


def _products(why: IntegerExplanation) -> str:
    """Return the products of the codes: all of a few, or the largest of many."""
    count = len(why.products)
    order = list(range(count))
    if count > _MOST_WRITTEN:
        order = why.products.abs().argsort(descending=True, stable=True)[:_MOST_WRITTEN].tolist()
    written = " + ".join(f"{_factor(int(why.q_x[at]))}·{_factor(int(why.q_w[at]))}" for at in order)
    if count <= _MOST_WRITTEN:
        return written
    return say("layers.integer.products", count=count_text(count), largest=written)


def _factor(code: int) -> str:
    return f"({_written(code)})" if code < 0 else _written(code)


def _written(value: float | int) -> str:
    """Return a whole number in full, and a real one to seven digits."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    return number(value, _DIGITS)


_LAB = "pages/lab/playground.py"
_HEIGHT = 256
_CURVE_HEIGHT = 200
#: Loud channels that are named.
_MOST_NAMED = 4


def show_channels(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the channels as mirrored bars."""
    with st.container(key="layers_channels_look", horizontal=True, gap="small"):
        views = {name: say(f"layers.channels.{name}") for name in MIRRORED}
        mirrored = switch("layers_mirrored", say("layers.channels.view"), views)
        orders = {name: say(f"layers.channels.{name}") for name in ("ranked", "in_place")}
        order = switch("layers_order", say("layers.channels.order"), orders)
    channels = seen.channels
    st.markdown(_loud_words(channels) if mirrored == "size" else _cost_words(channels))
    alt = say(f"layers.channels.{mirrored}_alt")
    draw = partial(channels_figure, ranked=order == "ranked", height=_HEIGHT)
    show_figure(draw, "layers_channels", alt, channels, mirrored)
    st.caption(say(f"layers.channels.{mirrored}_help"))
    show_button(say("layers.channels.in_lab"), "layers_in_lab", _open_in_lab, channels)
    show_folded(say("layers.channels.batches"), "layers_batches", _show_batches, seen)


def _show_batches(seen: SeenLayer) -> None:
    """Show how the one static scale of X grows with the tokens that it is chosen on."""
    found = seen.found("ranges over tokens", ranges_over_tokens)
    if found is None:
        st.caption(say("layers.channels.no_batches"))
        return
    count = len(found.scale)
    words = "unsettled" if found.settled is None else "settled"
    st.markdown(say(f"layers.channels.{words}", settled=found.settled, count=count))
    alt = say("range_curve.alt", count=count, scale=short_number(float(found.scale[-1])))
    show_figure(range_curve, "layers_batches_curve", alt, found, height=_CURVE_HEIGHT)


def _open_in_lab(channels: Channels) -> None:
    """Open the weight in the Lab, where its error is weighted by what the layer sees, at the worst cell."""
    state = OWNER.state
    scheme, _ = state.pair.schemes()
    weight = LayerWeight(state.source)
    view = View.of(weight.shape)
    cell = channels.worst_weight(loudness_of(weight))
    session.put_in_lab(LabState(weight, scheme or Scheme("int8"), view, cell, error_view="seen"))
    turn_to(_LAB)


def _loud_words(channels: Channels) -> str:
    """Return the sentence that names the loud channels of the inputs and of the weight."""
    found = []
    sides = {"x": (channels.loud_inputs, channels.x_max), "w": (channels.loud_weights, channels.w_max)}
    for side, (loud, sizes) in sides.items():
        if not loud:
            found.append(say(f"layers.channels.none_loud_{side}"))
            continue
        named = say("layers.channels.between").join(
            say("layers.channels.one", channel=each, size=short_number(float(sizes[each])))
            for each in loud[:_MOST_NAMED]
        )
        key = "many" if len(loud) > _MOST_NAMED else "few"
        median = short_number(float(sizes.median()))
        found.append(say(f"layers.channels.loud_{side}_{key}", named=named, count=len(loud), median=median))
    return plain(sentences(*found))


def _cost_words(channels: Channels) -> str:
    """Return the sentence on the channel whose weight error costs most, beside its share of that error."""
    cost = channels.cost
    total = float(cost.sum())
    if not total:
        return say("layers.channels.no_cost")
    channel = int(cost.argmax())
    return plain(
        say(
            "layers.channels.costs",
            channel=channel,
            cost=share_of(float(cost[channel]) / total),
            error=share_of(float(channels.weight_error[channel] / channels.weight_error.sum())),
        )
    )


_DOTS = "layers_dots"
_TABLE = "layers_table"
_DOTS_HEIGHT = 210
#: CSS pixels of half a laptop's page: the table stands beside the picture.
_WIDTH = 570
#: Decibels between the two numbers of a pair from which the sentence tells it.
_FAR = 3.0


def show_compare(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the pairs as a table, and as dots beside the diagonal."""
    pairs = []
    found = []
    for pair in pairs_compared(state):
        try:
            found.append(seen_layer(state, pair))
            pairs.append(pair)
        except QuantVizError:
            continue  # its own choice above tells why
    points = [
        PairPoint(string.ascii_uppercase[at], pair_name(pair), seen.weight_db, seen.output_db)
        for at, (pair, seen) in enumerate(zip(pairs, found, strict=True))
    ]
    show_sentence(_lesson(points))
    _show_buttons(state)
    show_figure(
        pairs_figure,
        _DOTS,
        say("layers.compare.alt"),
        points,
        0,
        take=lambda pair: OWNER.change(pair=pair),
        marks=pairs,
        height=_DOTS_HEIGHT,
    )
    _show_table(points, found, pairs)


def _show_table(points: list[PairPoint], found: list[SeenLayer], pairs: list[SchemePair]) -> None:
    """Show the pairs as a table, in which a click takes one."""
    errors_out = [seen.result.rel_out for seen in found]
    weight_db = [each.weight_db if math.isfinite(each.weight_db) else None for each in points]
    columns = (
        TableColumn("letter", [each.letter for each in points], 30, on_phone=True),
        TableColumn("pair", [each.name for each in points], 222, on_phone=True, names_lines=True),
        TableColumn("held_back", [100 * each.held_back for each in errors_out], 84, "%.3g %%", on_phone=True),
        TableColumn("used", [100 * each.used for each in errors_out], 76, "%.3g %%"),
        TableColumn("weight_db", weight_db, 60, "%.1f", on_phone=True),
        TableColumn("bits", list(map(both_bits, found)), 80, align_right=True),
    )
    show_table(
        _TABLE,
        columns,
        _WIDTH,
        words="layers.compare.heads",
        alt=say("layers.compare.table_alt"),
        take=lambda line: OWNER.change(pair=pairs[line]),
    )


def _lesson(points: list[PairPoint]) -> str:
    """Return the sentence on the pair whose weight SQNR promises most beyond what its outputs keep."""
    known = [each for each in points if math.isfinite(each.weight_db) and math.isfinite(each.output_db)]
    if not known:
        return say("layers.compare.nothing")
    worst = max(known, key=lambda each: each.weight_db - each.output_db)
    best = max(known, key=lambda each: each.output_db - each.weight_db)
    told = worst if worst.weight_db - worst.output_db >= best.output_db - best.weight_db else best
    gap = told.output_db - told.weight_db
    if abs(gap) < _FAR:
        return say("layers.compare.on_the_diagonal")
    return say(
        "layers.compare.below" if gap < 0 else "layers.compare.above",
        letter=told.letter,
        pair=told.name,
        weight=decibels(told.weight_db),
        output=decibels(told.output_db),
    )


def _show_buttons(state: LayerState) -> None:
    with st.container(key="layers_compare", horizontal=True, gap="small"):
        if state.pair in state.compared:
            show_button(say("layers.compare.drop"), "layers_drop", _compare, False)
        else:
            full = len(state.compared) >= MOST_PAIRS
            show_button(say("layers.compare.keep"), "layers_keep", _compare, True, disabled=full)
        if state.compared:
            show_button(say("layers.compare.usual"), "layers_usual", lambda: OWNER.change(compared=()))


def _compare(kept: bool) -> None:
    """Keep the pair among the compared ones, or drop it. A choice of a pair may have come with the press."""
    state = OWNER.state
    others = tuple(each for each in state.compared if each != state.pair)
    OWNER.change(compared=(*others, state.pair)[:MOST_PAIRS] if kept else others)


#: Products that are shown at once, and those that unfold.
_LISTED = 3
_MOST_LISTED = 512


def show_cell(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the selected output."""
    products = seen.products(cell)
    _show_place(seen, cell)
    error = float(products.contributions.sum())
    said = say_note(note_on_culprit(products, seen.channels)) if error else say("layers.cell.no_error")
    loudest = float(products.shares[0])
    cancels = say("layers.cell.cancels") if abs(loudest) > 1 or loudest < 0 else ""
    with st.container(key="layers_sentence"):
        st.markdown(sentences(said, cancels))
    chosen = int(products.channels[0]) if state.channel is None else state.channel
    shades = part_colours(theme())
    st.html(f'<div class="qv-products">{_table(products, chosen, shades, _LISTED)}</div>')
    with st.container(key="layers_folds", horizontal=True, gap="small"):
        words = say("layers.cell.all", count=len(products.channels))
        opened = st.expander(words, key="layers_products", on_change="rerun")
        if opened.open:
            legend = legend_html((say(f"layer_plots.parts.{name}"), shades[name]) for name in PARTS)
            listed = _table(products, chosen, shades, _MOST_LISTED)
            opened.html(f'<p class="qv-small">{legend}</p>')
            opened.html(f'<div class="qv-products" tabindex="0">{listed}</div>')
        show_folded(say("layers.cell.steps", channel=chosen), "layers_steps", _show_steps, seen, cell, chosen)


def _show_place(seen: SeenLayer, cell: tuple[int, int]) -> None:
    """Show the cell's place as numbers that can be typed over, and its values."""

    def take(axis: int, to: int) -> None:
        token, output = OWNER.state.cell or cell
        select(*((to, output) if axis == 0 else (token, to)))

    tokens, _, outputs = seen.result.shape
    token, output = cell
    with st.container(key="layers_place", horizontal=True, vertical_alignment="center", gap="small"):
        names = {f"layers_{name}": say(f"layers.cell.{name}") for name in ("token", "output")}
        controls = place_controls(names, cell, (tokens, outputs), take)
        show_controls("layers_cell", OWNER, *controls, look="qv-beside")
        cells = seen.result.cells(slice(token, token + 1), slice(output, output + 1))
        y, y_hat, error = (float(each[0, 0]) for each in (cells.y, cells.y_hat, cells.error))
        side = "held_back" if seen.result.held_back[token] else "used"
        words = say(
            "layers.cell.values",
            y=short_number(y, 4),
            y_hat=short_number(y_hat, 4),
            error=number(error, 3, signed=True),
        )
        about = term(say(f"layers.cell.{side}"), say(f"layers.cell.{side}_help"), key="layers_side")
        st.html(
            f'<p class="qv-values"><b>{html.escape(words)}</b><br><small>{about}</small></p>', width="stretch"
        )


def _table(products: Products, chosen: int, shades: Mapping[str, str], most: int) -> str:
    """Return the products as a table, those that contribute most first; a click on a line chooses it."""
    names = ("weights", "inputs", "cross", "x", "x_hat", "w", "w_hat")
    count = min(most, len(products.channels))
    columns = {name: getattr(products, name)[:count].tolist() for name in names}
    sums = products.contributions[:count].tolist()
    shares = products.shares[:count].tolist()
    parts = list(zip(*(columns[name] for name in shades), strict=True))
    low = min(sum(min(value, 0.0) for value in each) for each in parts)
    high = max(sum(max(value, 0.0) for value in each) for each in parts)
    rows = []
    for at, channel in enumerate(products.channels[:count].tolist()):
        numbers = "".join(f"<td>{short_number(columns[name][at])}</td>" for name in names)
        marked = ' class="qv-selected"' if channel == chosen else ""
        bar = stacked_bar(parts[at], tuple(shades.values()), low, high)
        rows.append(
            f'<tr data-channel="{channel}"{marked}><td><button type="button">{channel}</button></td>'
            f'<td class="qv-bar-cell"><i style="background:{bar}"></i></td>'
            f"<td>{share_of(shares[at])}</td><td>{short_number(sums[at])}</td>{numbers}</tr>"
        )
    heads = ("channel", "parts", "share", "contributions", *names)
    return table_html([say(f"layers.cell.heads.{name}") for name in heads], rows)


def _show_steps(seen: SeenLayer, cell: tuple[int, int], channel: int) -> None:
    """Show every step of the rounding of one weight and one input."""
    token, output = cell
    result = seen.result
    for side, place in (("weights", (output, channel)), ("inputs", (token, channel))):
        operand = getattr(result, side)
        st.markdown(f"**{say(f'layers.cell.steps_{side}', line=place[0], channel=channel)}**")
        if operand.scheme is None:
            st.caption(say("layers.cell.not_rounded"))
        else:
            st.html(steps_html(operand.explain(place)))


# ---- the page below its choices ------------------------------------------------------------------------


#: The tabs of the stage by their ids, in their order, each with the function that shows it.
TABS: Mapping[str, Picture] = MappingProxyType(
    {
        "cell": show_cell,
        "channels": show_channels,
        "integer": show_integer,
        "method": show_method,
        "compare": show_compare,
    }
)


def _seen(state: LayerState) -> SeenLayer:
    """Return the layer of the state; where its method cannot work, show the choice of another one."""
    try:
        return seen_layer(state)
    except QuantVizError:
        if state.method != NEAREST:
            show_method_choice(state)
        raise


def show_layer(state: LayerState, look: str, finding: Any, actions: Any) -> None:
    """Show the layer of the state, with its finding, which has a `look`, and its page in their places."""
    seen = _seen(state)
    state = settled(seen, state)
    OWNER.amend(state)
    with finding:
        show_finding(seen, look)
    with actions:
        offer_page(seen, state)
    cell = state.cell or seen.worst
    channel = int(seen.products(cell).channels[0]) if state.channel is None else state.channel
    with st.container(key="layers_scene"):
        with st.container(key="layers_left", gap="xsmall"):
            hand = show_hand(seen, state, (*cell, channel))
            # With knobs, the picture leaves them room.
            with st.container(key="layers_view_hand" if hand else "layers_view", gap="xsmall"):
                show_picture(seen, state, (*cell, channel if hand else state.channel), hand=hand)
        with st.container(key="layers_right", gap="xsmall"):
            with st.container(key="layers_numbers", gap="xsmall"):
                show_numbers(seen)
                show_remedy(seen, state)
            _show_stage(seen, state, cell)
            for note in seen.notes:
                st.caption(say_note(note))


def _show_stage(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the tabs and the open one."""
    with st.container(key="layers_stage", gap="xsmall"):
        with st.container(key="layers_tabs"):
            tab = choose_among(
                "layers_tab_choice",
                "row",
                say("layers.tabs"),
                {name: say(f"layers.tab.{name}") for name in TABS},
                state.open_tab,
                lambda tab: OWNER.change(tab=tab),
                look="qv-unnamed qv-tabs",
            )
        with st.container(key=f"layers_tab_{tab}", gap="xsmall"):
            TABS[tab](seen, state, cell)
