"""The tab Integer: the selected output as an inference engine computes it, step by step, in integers."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number, short_number
from quantviz.lab.layer_state import PAIRS, LayerState
from quantviz.ui.components.controls import field_control, hold_choice, show_controls
from quantviz.ui.components.small_parts import show_button, show_folded, table_html
from quantviz.ui.layers.state import OWNER, SeenLayer
from quantviz.ui.layers.words import pair_name
from quantviz.ui.shell.words import count_text, language, plain, say, say_error, say_note, sentences

if TYPE_CHECKING:
    from quantviz.layers.integer_explanation import IntegerExplanation
    from quantviz.layers.integer_result import IntegerResult

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
    from quantviz.layers.integers_of_layer import operators_after

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
    _show_table(_rows(why))
    for note in layer.notes:
        st.caption(say_note(note))
    if operators := operators_after(layer):
        words = say("layers.integer.operator")
        show_folded(words, "layers_operator", _show_operator, seen, layer, cell, operators)


def _show_table(rows: Iterable[str]) -> None:
    heads = [say(f"cell.{name}") for name in ("step", "numbers", "gives")]
    table = table_html(heads, rows)
    st.html(f'<div class="qv-products qv-integers" tabindex="0">{table}</div>')


def _show_operator(
    seen: SeenLayer, layer: IntegerResult, cell: tuple[int, int], operators: Sequence[str]
) -> None:
    """Show the output after an operator that follows the layer."""
    from quantviz.layers.integer_explanation import rows_of_steps
    from quantviz.layers.integers_of_layer import operated_output

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
    _show_table(
        _row(row.words, row.code_line, _read(row.inputs), _written(row.output), row.dtype)
        for row in rows_of_steps(found.steps, language())
    )


def _show_choices(state: LayerState) -> None:
    """Show the engine, the format of the outputs' codes, and the activation."""
    from quantviz.layers.integer_engines import ACTIVATIONS, INTEGER_ENGINES
    from quantviz.layers.integers_of_layer import OUTPUT_FORMATS

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
    from quantviz.layers.integers_of_layer import activated

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
    from quantviz.layers.integer_engines import INTEGER_ENGINES

    if INTEGER_ENGINES[layer.engine].pairs == "exact":
        return ""
    fit = "" if bool(layer.saturated_pairs.any()) else say("layers.integer.pairs_fit")
    scheme = seen.result.inputs.scheme
    moved = scheme is not None and scheme.format != layer.inputs.number_format
    return sentences(say("layers.integer.unsigned") if moved else "", fit)


def _rows(why: IntegerExplanation) -> Iterator[str]:
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
