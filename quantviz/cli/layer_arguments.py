from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from quantviz.cli.lab_source import lab_source
from quantviz.cli.output import Bound, complain, language, say
from quantviz.cli.tensors import open_tensor, written_source
from quantviz.errors import Note, QuantVizError
from quantviz.schemes.orientation import Orientation
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    import torch

    from quantviz.lab.layer_sources import LayerSource
    from quantviz.layers.captures import Captured, Layers
    from quantviz.layers.layer_result import LayerResult
    from quantviz.schemes.scheme import Scheme
    from quantviz.tensors.lazy import Stored

#: A layer as links name it, and the folders that the app must offer to open it.
Found: TypeAlias = "tuple[LayerSource, list[str]]"
_F = TypeVar("_F", bound=Callable[..., Any])
#: The word for values that are not quantized.
_FLOAT = "none"

_takes_weight_scheme = click.option(
    "-w",
    "--weight-scheme",
    default="int4_g128",
    show_default=True,
    metavar="SCHEME",
    help="The weight's scheme: a recipe such as int8_per_output, a scheme's text form, or none.",
)
_takes_input_scheme = click.option(
    "-a",
    "--input-scheme",
    default="int8_per_token",
    show_default=True,
    metavar="SCHEME",
    help="The inputs' scheme, likewise: int8_per_tensor, int8_per_token, fp8_e4m3_per_tensor, none.",
)
_takes_dynamic = click.option(
    "--dynamic",
    is_flag=True,
    help="Choose what tokens share on all of them, as an engine does that scales each batch when it runs; "
    "else on the three quarters that are not held back: a scale of all inputs, of a channel or of a group of "
    "tokens, and NVFP4's scale over all blocks. A token's own scales are dynamic either way.",
)
_takes_bound = click.option(
    "--fail-over",
    type=Bound(),
    metavar="REL_OUT",
    help="End with status 1 if rel_out on the tokens held back is above this, such as 0.01.",
)


def takes_layer_schemes(command: _F) -> _F:
    """Add `-w`, `-a`, `--dynamic` and `--fail-over` to a command."""
    return _takes_weight_scheme(_takes_input_scheme(_takes_dynamic(_takes_bound(command))))


def scheme_named(form: str, operand: str) -> Scheme | None:
    """Return the scheme written as `form` for "weights" or "inputs"; None for "none"."""
    from quantviz.layers.operands import scheme_of

    return None if form.casefold() == _FLOAT else scheme_of(form, operand)


def open_layers(file: str) -> Layers:
    """Return the layers of a file that `collect` wrote, or of a link's form, `builtin(name=…)` or
    `layer(W,X)`.

    Raises:
        QuantVizError: There are none.
    """
    from quantviz.layers.captures import Layers

    if is_layer_form(file):
        from quantviz.lab.layer_sources import parse_layer

        return Layers((parse_layer(file).open(),))
    return Layers.open(file)


def open_layer(file: str, name: str | None) -> Captured:
    """Return the layer of that name in a file of layers, or the only one there.

    Raises:
        QuantVizError: It cannot be opened, or there is no such layer.
    """
    layers = open_layers(file)
    names = layers.names_listed
    if name is None and len(names) > 1:
        raise QuantVizError("cli.which_layer", file=file, count=len(names), names=", ".join(names))
    return layers[name or layers.names[0]]


def is_layer_form(form: str) -> bool:
    return form.startswith(("builtin(", "layer(", "model("))


def captured_source(file: str, name: str) -> Found:
    """Return a layer of a file as links name it, and the folders that the app must offer."""
    from quantviz.lab.layer_sources import OwnLayer
    from quantviz.sources.files import open_tensors

    with open_tensors(file) as catalog:
        ends = [end for end in ("weight", "inputs", "bias") if f"{name}.{end}" in catalog]
    parts = [lab_source(file, f"{name}.{end}", Orientation(by="user")) for end in ends]
    folders = [folder for _, folder in parts if folder is not None]
    return OwnLayer(*(source for source, _ in parts)), folders


def say_address(app: str, found: Found, result: LayerResult, cell: tuple[int, int]) -> None:
    """Print the address of the page of layers in an app, on stderr."""
    from quantviz.lab.layer_state import AS_IT_IS, LayerState, SchemePair
    from quantviz.lab.share_links import write_address

    source, folders = found
    weights = str(result.weights.scheme or AS_IT_IS)
    inputs = str(result.inputs.scheme or AS_IT_IS)
    pair = SchemePair(weights, inputs, result.static)
    state = LayerState(source, pair, str(result.method), result.seed, cell)
    parameters = state.written()
    if language() != DEFAULT_LANGUAGE:
        parameters["lang"] = language()
    click.echo(write_address(app, "layers", parameters), err=True)
    for folder in dict.fromkeys(folders):
        say("cli.link_folder", folder=folder)


def own_layer(weights: str, inputs: str, outputs_axis: Orientation | None) -> Captured:
    from quantviz.layers.captures import Captured

    name, weight = weight_of(weights, outputs_axis)
    file, tensor = file_and_name(inputs)
    found = open_tensor(file, tensor, Orientation(by="user")).stored
    return Captured(name, "linear", weight, found, seen=found.shape[0])


def weight_of(form: str, outputs_axis: Orientation | None) -> tuple[str, Stored]:
    file, tensor = file_and_name(form)
    chosen = open_tensor(file, tensor, outputs_axis)
    return chosen.name, chosen.stored


def file_and_name(form: str) -> tuple[str, str | None]:
    """Return the file and the name of a tensor written as FILE:NAME; no name where there is only a file.

    >>> file_and_name("no_such.safetensors:layers.0.weight"), file_and_name("https://host/x.safetensors")
    (('no_such.safetensors', 'layers.0.weight'), ('https://host/x.safetensors', None))
    >>> file_and_name("builtin(name=picture)")
    ('builtin(name=picture)', None)
    """
    file, mark, name = form.rpartition(":")
    if not mark or not name or name.startswith(("//", "\\")) or os.path.exists(form) or written_source(form):
        return form, None
    return file, name


def moments_of(imatrix: str, name: str) -> torch.Tensor:
    """Return the mean squares of a weight's inputs in llama.cpp's importance matrix, (inputs,).

    Raises:
        QuantVizError: The file is none, has none of this weight, or has several experts of it.
    """
    from pathlib import Path

    from quantviz.checkpoints.scan.importance import by_tensor, importances

    every = importances(Path(imatrix))
    found = by_tensor(every, [name]).get(name)
    if found is None or found.experts != 1:
        raise QuantVizError("cli.no_moments", file=imatrix, name=name, known=", ".join(every))
    return found.columns(0, ())


def say_bound(name: str, rel_out: float, most: float | None, silent: Note | None = None) -> str:
    """Print the sentence for a layer above the bound, and the note on one whose held-back tokens cannot show
    an error. Return the reason why the bound is not kept, which the note is too; "" where it is kept.
    """
    if silent is not None:
        complain(silent)
    if most is None:
        return ""
    if rel_out <= most:
        return "" if silent is None else silent.message(language())
    say("cli.above", layer=name, rel_out=rel_out, most=most)
    return text("cli.above", language(), layer=name, rel_out=rel_out, most=most)
