"""`quantviz layer`: the error of one layer's outputs, its parts, and the channel that is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.lab_source import lab_source
from quantviz.cli.layer_arguments import (
    Found,
    captured_source,
    file_and_name,
    is_layer_form,
    moments_of,
    open_layer,
    own_layer,
    say_address,
    say_bound,
    scheme_named,
    takes_layer_schemes,
    weight_of,
)
from quantviz.cli.output import FOUND, Output, complain, language, put, say, with_output, write
from quantviz.cli.tensors import takes_outputs_axis
from quantviz.cli.text_table import text_table
from quantviz.errors import Note, QuantVizError
from quantviz.layers.methods.packages import help_table
from quantviz.schemes.orientation import Orientation
from quantviz.text import text

if TYPE_CHECKING:
    from quantviz.layers.layer_result import LayerResult


@click.command(short_help="Print what rounding does to the outputs of a layer.", epilog=help_table())
@click.argument("capture", required=False)
@click.argument("name", required=False)
@takes_layer_schemes
@click.option(
    "-m",
    "--method",
    default="nearest",
    show_default=True,
    metavar="METHOD",
    help="The chain of methods that rounds the layer, such as gptq or rotation+gptq.",
)
@click.option("--weights", metavar="FILE:NAME", help="A weight, in place of a captured layer.")
@click.option("--inputs", metavar="FILE[:NAME]", help="Its inputs, tokens × inputs.")
@click.option(
    "--imatrix",
    type=click.Path(),
    metavar="FILE",
    help="llama.cpp's importance matrix, in place of --inputs: it has their second moments only.",
)
@click.option(
    "--app",
    metavar="ADDRESS",
    help="Where the app is, such as http://localhost:8501/: also print the address of its page of layers, at "
    "the worst output.",
)
@takes_outputs_axis
@with_output(html=".html")
def layer(**arguments: Any) -> None:
    """Print what rounding does to the outputs of a layer.

    CAPTURE is a file of layers, as qv.collect(model, batches).save(FILE) writes it, and NAME a layer in it;
    or a layer as links write it, such as 'builtin(name=minilm_0_output)'. Or give --weights with --inputs or
    --imatrix. rel_out is the squared error as a share of the squared outputs, on the tokens used for scales
    and on those held back. With -o x.html it is a page that works offline, in which a small layer moves.
    """
    request = _LayerArguments(**arguments)
    name, rel_out, silent = _answered(request)
    if say_bound(name, rel_out, request.fail_over, silent):
        raise click.exceptions.Exit(FOUND)


@dataclass(frozen=True)
class _LayerArguments:
    capture: str | None
    name: str | None
    weight_scheme: str
    input_scheme: str
    method: str
    dynamic: bool
    fail_over: float | None
    weights: str | None
    inputs: str | None
    imatrix: str | None
    app: str | None
    outputs_axis: Orientation | None
    output: Output


def _answered(request: _LayerArguments) -> tuple[str, float, Note | None]:
    """Write the answer; return the layer's name, its error, and the note where that measures nothing.

    Raises:
        QuantVizError: The arguments are not those of one layer, or it cannot be opened or quantized.
    """
    from quantviz.layers.layer_numbers import numbers_of

    scheme = scheme_named(request.weight_scheme, "weights")
    beside = (request.weights, request.inputs, request.imatrix)
    if request.capture is not None and not any(beside):
        chosen = open_layer(request.capture, request.name)
    elif request.capture is None and request.weights and request.inputs and not request.imatrix:
        chosen = own_layer(request.weights, request.inputs, request.outputs_axis)
    elif request.capture is None and request.weights and request.imatrix and not request.inputs:
        name, weight = weight_of(request.weights, request.outputs_axis)
        if request.output.format == "html":
            raise QuantVizError("cli.moments_page")
        needing = {
            "--method": request.method != "nearest",
            "--dynamic": request.dynamic,
            "--app": request.app,
        }
        if unused := [option for option, is_given in needing.items() if is_given]:
            raise QuantVizError("cli.moments_only", got=", ".join(unused))
        numbers = _by_moments(name, weight, request.imatrix, scheme)
        write(request.output, numbers)
        return name, numbers["rel_out"], None
    else:
        raise QuantVizError("cli.one_layer")
    inputs = scheme_named(request.input_scheme, "inputs")
    result = chosen.result(scheme, inputs, method=request.method, static=not request.dynamic)
    record = numbers_of(chosen, result)
    cell = _put_layer(request.output, record, result)
    if request.app is not None:
        say_address(request.app, _source_of(request, chosen.name), result, cell)
    return chosen.name, result.rel_out.held_back, record["reason"]


def _source_of(request: _LayerArguments, name: str) -> Found:
    """Return the layer as links name it, and the folders that the app must offer."""
    from quantviz.lab.layer_sources import OwnLayer, parse_layer

    if request.capture is not None and is_layer_form(request.capture):
        return parse_layer(request.capture), []
    if request.capture is not None:
        return captured_source(request.capture, name)
    parts = [
        lab_source(*file_and_name(str(form)), axis)
        for form, axis in ((request.weights, request.outputs_axis), (request.inputs, Orientation(by="user")))
    ]
    folders = [folder for _, folder in parts if folder is not None]
    return OwnLayer(*(source for source, _ in parts)), folders


def _put_layer(output: Output, record: dict[str, Any], result: LayerResult) -> tuple[int, int]:
    """Write a layer's record, or for people its error and its parts with sentences; return the worst output
    cell.
    """
    parts = {name: part for name, part in result.parts.items() if any(part.share)}
    shares = {f"{name}_share": part.share.held_back for name, part in result.parts.items()}
    token = int(result.by_token.nan_to_num(posinf=0).argmax())
    place = int(result.cells(slice(token, token + 1)).error[0].abs().argmax())
    culprit = result.culprit(token, place)
    if output.format == "table":
        rows = [
            [text("cli.layer.error", language()), *result.rel_out],
            *([text(f"cli.layer.{name}", language()), *part.rel_out] for name, part in parts.items()),
        ]
        columns = [text(f"cli.layer.{part}", language()) for part in ("part", "used", "held_back")]
        put(output, f"{text_table(columns, rows, None)[0]}\n")
        _say_facts(record)
    elif output.format == "html":
        put(output, _page(record["layer"], result))
    else:
        reason = record["reason"] and record["reason"].message(language())
        more = {"worst_cell": [token, place], "culprit": culprit.params.get("channel"), "reason": reason}
        write(output, {**record, **shares, **more})
    say("cli.layer.worst", token=token, output=place)
    complain(culprit)
    # The weight and the inputs have the same remarks.
    for note in {str(note): note for note in result.notes}.values():
        complain(note)
    return token, place


def _page(name: str, result: LayerResult) -> str:
    from quantviz.live.hand_words import Looks
    from quantviz.live.layer_page import LayerPage

    if find_spec("plotly") is None:
        raise QuantVizError("cli.needs_plotly")
    shape = " × ".join(map(str, result.shape))
    return LayerPage.of(result, f"{name} · {shape}", Looks(language())).html()


def _say_facts(record: dict[str, Any]) -> None:
    say(
        "cli.layer.sizes", **{name: record[name] for name in ("layer", "tokens", "seen", "inputs", "outputs")}
    )
    if record["weight_sqnr_db"] is not None:
        say("cli.layer.sqnr", sqnr_db=record["weight_sqnr_db"])
    for side in ("input", "weight"):
        if record[f"loud_{side}_times"] is not None:
            say(f"cli.layer.loud_{side}", channel=record[f"loud_{side}"], times=record[f"loud_{side}_times"])


def _by_moments(name: str, weight: Any, imatrix: str, scheme: Any) -> dict[str, Any]:
    from quantviz.layers.layer_numbers import errors_by_moments

    if scheme is None:
        raise QuantVizError("cli.moments_scheme")
    errors = errors_by_moments(weight, moments_of(imatrix, name), scheme)
    for note in errors.notes:
        complain(note)
    channel = int(errors.cost.argmax())
    whole = float(errors.cost.sum())
    return {
        "layer": name,
        "outputs": errors.weights.shape[0],
        "inputs": errors.weights.shape[1],
        "weight_scheme": str(scheme),
        "rel_out": errors.rel_out,
        "weight_sqnr_db": errors.weights.sqnr_db,
        "costliest_channel": channel,
        "its_share": float(errors.cost[channel]) / whole if whole else None,
    }
