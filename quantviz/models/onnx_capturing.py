"""Run an ONNX model with ONNX Runtime, and write the outputs of all nodes of its graph."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.models.run_file import RunWriter
from quantviz.sources.files import onnx_schema as schema
from quantviz.sources.files.file_data import FileData
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.protobuf import BYTES, DamagedMessage, WireField, message_fields

#: The field of a graph with its outputs, and that of an output with its name.
_GRAPH_OUTPUT = 12
_OUTPUT_NAME = 1
#: Outputs of nodes that are computed, and in memory, at a time.
_OUTPUTS_PER_RUN = 64
#: Nodes whose outputs are the model's own constants, and those that a quantizer puts around a value.
_CONSTANT = "Constant"
_QUANTIZE = "QuantizeLinear"
_DEQUANTIZE = "DequantizeLinear"
#: The end of the name of a value before it is quantized, as ONNX Runtime's quantizer calls it.
_BEFORE = "_QuantizeLinear_Input"


@dataclass(frozen=True)
class _Value:
    name: str
    operator: str


def run_onnx(path: str, batches: Iterator[Any], writer: RunWriter, names: Sequence[str] | None) -> None:
    """Run a model of a file, and write the outputs of its nodes in the order of the file.

    Raises:
        QuantVizError: ONNX Runtime is not installed, the file cannot be read, the model fails, or no output
            has one of the names.
    """
    try:
        import onnxruntime
    except ImportError:
        raise QuantVizError("runs.needs_onnxruntime") from None
    content, values = _read(path)
    wanted = _wanted(values, names)
    options = onnxruntime.SessionOptions()
    # Fused nodes have no outputs of their own.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # It warns of outputs whose type the file does not declare, and prints errors besides raising them.
    options.log_severity_level = 4
    folder = str(Path(path).absolute().parent)
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise QuantVizError("runs.onnx_failed", file=path, reason=_reason(error)) from error
    del content
    inputs = [argument.name for argument in session.get_inputs()]
    for number, batch in enumerate(batches):
        writer.begin_batch()
        feeds = _feeds(batch, inputs, number)
        for at in range(0, len(wanted), _OUTPUTS_PER_RUN):
            part = wanted[at : at + _OUTPUTS_PER_RUN]
            try:
                outputs = session.run(part, feeds)
            except Exception as error:
                raise QuantVizError("collect.failed", batch=number, reason=_reason(error)) from error
            for name in part:
                output = outputs.pop(0)
                if isinstance(output, np.ndarray) and output.dtype.kind in "iufb":
                    writer.add(values[name].name, values[name].operator, (), torch.from_numpy(output))


def _read(path: str) -> tuple[bytes, dict[str, _Value]]:
    """Return a model's bytes with all nodes' outputs as its outputs, and their names in node order."""
    data = FileData(path, None)
    try:
        if not OnnxCatalog.recognises(data):
            raise QuantVizError("runs.no_onnx", file=path)
        raw = bytes(data.view)
    finally:
        data.close()
    view = memoryview(raw)
    try:
        graph = next(
            message for message in message_fields(view, 0, len(view)) if message.number == schema.GRAPH
        )
        fields = list(message_fields(view, graph.start, graph.stop))
        declared = {
            _text(view, message_field, _OUTPUT_NAME)
            for message_field in fields
            if message_field.number == _GRAPH_OUTPUT
        }
        values = _values(list(_nodes(view, fields)), declared)
    except (DamagedMessage, UnicodeDecodeError):
        raise QuantVizError("runs.no_onnx", file=path) from None
    # A message's field that comes again is merged with the first: these outputs are added to the graph's.
    more = (
        _field(_GRAPH_OUTPUT, _field(_OUTPUT_NAME, name.encode())) for name in values if name not in declared
    )
    return raw + _field(schema.GRAPH, b"".join(more)), values


@dataclass(frozen=True)
class _GraphNode:
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def _nodes(view: memoryview, graph: Sequence[WireField]) -> Iterator[_GraphNode]:
    for node in graph:
        if node.number != schema.NODE or node.wire != BYTES:
            continue
        names: dict[int, list[str]] = {schema.NODE_INPUT: [], schema.NODE_OUTPUT: []}
        for message_field in message_fields(view, node.start, node.stop):
            if message_field.number in names:
                names[message_field.number].append(
                    bytes(view[message_field.start : message_field.stop]).decode("utf-8")
                )
        yield _GraphNode(_text(view, node, schema.OP_TYPE), *map(tuple, names.values()))


def _values(nodes: Sequence[_GraphNode], declared: Set[str]) -> dict[str, _Value]:
    """Return the values that nodes make, by their names in the model; `declared` are its own outputs.

    A value that is only quantized has the name of the next nodes' input: the output of its
    DequantizeLinear. A quantizer leaves ReLU to the range of the codes, so its own output lacks that.
    """
    made = {name: node for node in nodes if node.operator != _CONSTANT for name in node.outputs if name}
    values = {name: _Value(name, node.operator) for name, node in made.items()}
    users: dict[str, list[_GraphNode]] = {}
    for node in nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    for name, node in made.items():
        quantizers = users.get(name, [])
        if not quantizers or any(node.operator != _QUANTIZE or node.inputs[0] != name for node in quantizers):
            continue
        after = (node for code in quantizers[0].outputs for node in users.get(code, []))
        taken = next(
            (node.outputs[0] for node in after if node.operator == _DEQUANTIZE and node.outputs), None
        )
        if taken in made and taken not in declared:
            values[taken] = _Value(name, node.operator)
            values[name] = _Value(f"{name}{_BEFORE}", node.operator)
    return values


def _text(view: memoryview, message: WireField, number: int) -> str:
    content = ""
    for message_field in message_fields(view, message.start, message.stop):
        if message_field.number == number and message_field.wire == BYTES:
            content = bytes(view[message_field.start : message_field.stop]).decode("utf-8")
    return content


def _field(number: int, content: bytes) -> bytes:
    """Return a field of bytes as a message has it."""
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _wanted(values: Mapping[str, _Value], names: Sequence[str] | None) -> list[str]:
    shown = {name: value.name for name, value in values.items()}
    for form in names or ():
        if not any(fnmatch.fnmatchcase(name, form) for name in shown.values()):
            raise QuantVizError("runs.unknown", got=form, known=", ".join(shown.values()))
    return [
        name
        for name, shown_name in shown.items()
        if names is None or any(fnmatch.fnmatchcase(shown_name, form) for form in names)
    ]


def _feeds(batch: Any, inputs: Sequence[str], number: int) -> dict[str, Any]:
    """Return a batch as arrays by the names of the model's inputs.

    Raises:
        QuantVizError: Inputs are missing or left over, or one is no array.
    """
    if isinstance(batch, Mapping):
        feeds = dict(batch)
    else:
        listed = batch if isinstance(batch, tuple | list) else (batch,)
        # Those beyond the model's are named by their place.
        feeds = dict(zip((*inputs, *range(len(inputs), len(listed))), listed, strict=False))
    if set(feeds) != set(inputs):
        named = ", ".join(map(str, feeds))
        raise QuantVizError("runs.feeds", batch=number, got=named, wanted=", ".join(inputs))
    try:
        return {
            name: values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
            for name, values in feeds.items()
        }
    except (TypeError, ValueError) as error:
        raise QuantVizError("collect.failed", batch=number, reason=_reason(error)) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}".replace(os.getcwd(), ".")
