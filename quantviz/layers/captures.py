"""Captured layers in a file: each layer's weight, its bias, and some of the inputs that it saw.

The file is a .safetensors. A layer called NAME has the tensors

    NAME.weight   (outputs, inputs)
    NAME.inputs   (tokens, inputs)
    NAME.bias     (outputs,), where it has one

and the header's `__metadata__` has three texts. `format` is "quantviz layers 1". `layers` is a JSON list with
an object for each layer, in the order in which they ran: its `name`, its `kind` ("linear", "conv2d" or
"conv1d") and the number of tokens that it saw, `seen`. `axes` is a JSON object with the names of the axes of
each tensor.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.sources.files import Catalog
from quantviz.tensors.lazy import Stored, as_stored
from quantviz.whole_files import write_file

Values: TypeAlias = torch.Tensor | Stored

#: The text that marks a file of layers, with the version of its form.
FORMAT = "quantviz layers 1"
#: The kinds of layers: a linear one, a convolution as a matrix, and a linear one stored inputs × outputs.
KINDS = ("linear", "conv2d", "conv1d")
#: The axes of each tensor of a layer, by the end of its name.
_AXES = {"weight": ("output", "input"), "inputs": ("token", "input"), "bias": ("output",)}
#: The dtypes that are written, by torch's name.
_DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
#: The header's length is a multiple of this, in bytes, so that values lie on their own boundaries.
_ALIGNED = 8


@dataclass(frozen=True, eq=False)
class Captured(Picklable):
    """A layer with some of its inputs."""

    name: str
    #: One of `KINDS`.
    kind: str
    #: W, (outputs, inputs).
    weight: Values
    #: X, (tokens, inputs).
    inputs: Values
    #: (outputs,), if the layer has one.
    bias: torch.Tensor | None = None
    #: Number of tokens that the layer saw, of which `inputs` has some.
    seen: int = 0

    def __repr__(self) -> str:
        tokens, inputs, outputs = self.shape
        size = f"{tokens} of {self.seen} tokens × {inputs} inputs × {outputs} outputs"
        return f"Captured({self.name}, {self.kind}: {size})"

    @property
    def shape(self) -> Shape:
        """Return the numbers of tokens, of input channels and of outputs."""
        return (*self.inputs.shape, self.weight.shape[0])


def write_capture(path: str | os.PathLike[str], layers: Iterable[Captured]) -> None:
    """Write layers into one file, in their order; an old file is replaced as a whole.

    Raises:
        QuantVizError: The file cannot be written.
    """
    listed = list(layers)
    header: dict[str, Any] = {
        "__metadata__": {
            "format": FORMAT,
            "layers": json.dumps(
                [{"name": each.name, "kind": each.kind, "seen": each.seen} for each in listed]
            ),
            "axes": json.dumps(_AXES),
        }
    }
    parts = []
    at = 0
    for name, tensor in _tensors(listed):
        raw = tensor.view(torch.uint8).numpy().tobytes()
        dtype = _DTYPES[str(tensor.dtype).removeprefix("torch.")]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % _ALIGNED)
    write_file(path, b"".join((struct.pack("<Q", len(written)), written, *parts)))


def captured_in(catalog: Catalog) -> tuple[Captured, ...]:
    """Return the layers of an open file of layers, in the order in which they ran.

    Their weights and inputs stay in the file, also once it is closed.

    Raises:
        QuantVizError: The file has no captured layers, or is damaged.
    """
    texts = catalog.header_texts(catalog.names[0]) if catalog.names else {}
    if texts.get("format") != FORMAT:
        raise QuantVizError("capture.no_layers", wanted=FORMAT)
    return tuple(_layer_in(catalog, entry) for entry in _entries(texts.get("layers", "")))


def _tensors(layers: list[Captured]) -> Iterator[tuple[str, torch.Tensor]]:
    for layer in layers:
        for end in _AXES:
            values = getattr(layer, end)
            if values is None:
                continue
            stored, _ = as_stored(values)
            whole = stored.read((slice(None),) * len(stored.shape))
            dtype = getattr(torch, stored.dtype) if stored.dtype in _DTYPES else torch.float32
            yield f"{layer.name}.{end}", whole.to(dtype).contiguous()


def _entries(listed: str) -> list[dict[str, Any]]:
    """Return the entries of the list of layers; raise `QuantVizError` if one is not as it must be."""
    try:
        entries = json.loads(listed)
    except (ValueError, RecursionError):
        raise QuantVizError("capture.damaged", entry="layers") from None
    if not isinstance(entries, list) or not entries:
        raise QuantVizError("capture.damaged", entry="layers")
    for entry in entries:
        whole = (
            isinstance(entry, dict)
            and isinstance(entry.get("name"), str)
            and entry.get("kind") in KINDS
            and type(entry.get("seen")) is int
            and entry["seen"] >= 0
        )
        if not whole:
            raise QuantVizError("capture.damaged", entry=str(entry))
    return entries


def _layer_in(catalog: Catalog, entry: dict[str, Any]) -> Captured:
    name = entry["name"]
    weight = catalog.stored(f"{name}.weight")
    inputs = catalog.stored(f"{name}.inputs")
    if len(weight.shape) != 2 or len(inputs.shape) != 2 or weight.shape[1] != inputs.shape[1]:
        raise QuantVizError("capture.damaged", entry=name)
    bias = catalog.load(f"{name}.bias") if f"{name}.bias" in catalog else None
    if bias is not None and tuple(bias.shape) != weight.shape[:1]:
        raise QuantVizError("capture.damaged", entry=name)
    return Captured(name, entry["kind"], weight, inputs, bias, entry["seen"])
