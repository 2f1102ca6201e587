"""Run a model, and write the output of each of its operations into a file of a run."""

from __future__ import annotations

import fnmatch
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import torch
from torch import nn

from quantviz.errors import QuantVizError
from quantviz.layers.collecting import iterated, run_batch
from quantviz.models.onnx_capturing import run_onnx
from quantviz.models.run_file import CapturedRun, RunWriter
from quantviz.public_calls import public

#: The name of the outputs of the model itself.
OUTPUT = "output"
#: The axes of an output by its operation: those of sequences, and of pictures.
_OF_SEQUENCES = ("Linear", "LayerNorm", "RMSNorm", "Embedding", "Conv1D", "Dropout", "GELUActivation")
_OF_PICTURES = ("Conv2d", "BatchNorm2d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d")
_SEQUENCE = {2: ("token", "channel"), 3: ("batch", "token", "channel")}
_PICTURE = ("batch", "channel", "height", "width")


@public
def capture(
    model: Any, batches: Any, path: str | PurePath, names: Sequence[str] | None = None
) -> CapturedRun:
    """Run a model, and write the output of every operation into one .safetensors, in order of execution.

    Of a torch model these are the outputs of its modules; one that hands on another's output is not written
    again. The further tensors of an output have a number, `NAME[1]`, or their key, `NAME[key]`. Of an
    ONNX model they are the outputs of all nodes of its graph, computed by ONNX Runtime without fusing any; a
    value that is quantized and dequantized again is what the nodes after it take.
    Outputs are written as they come, in their own dtype: one module's, or those of a few nodes, are in memory
    at a time. Batches are joined along the first axis.

    Args:
        model: A `torch.nn.Module` in evaluation mode, or the path of an .onnx.
        batches: An iterable of the model's inputs: a tensor each, a tuple of positional or a dict of named
            ones.
        path: The file that is written.
        names: Names of the outputs, with * for any text; None takes all.

    Returns:
        The run in that file, for `compare_runs`; its notes name the outputs that were left aside.

    Raises:
        QuantVizError: It is no model, is in training mode, or fails; no output has such a name; the file
            cannot be written; or ONNX Runtime is not installed.

    >>> import os, tempfile
    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = capture(model, [torch.ones(5, 8)], os.path.join(folder, "float.safetensors"))
    >>> [(each.name, each.op, each.shape) for each in run]
    [('0', 'Linear', (5, 16)), ('1', 'ReLU', (5, 16)), ('output', 'Sequential', (5, 16))]
    """
    is_file = isinstance(model, str | PurePath)
    if not is_file and not isinstance(model, nn.Module):
        raise QuantVizError("runs.no_model", got=type(model).__name__)
    if isinstance(model, nn.Module) and model.training:
        raise QuantVizError("collect.training")
    if names is not None and not names:
        raise QuantVizError("runs.no_names")
    with RunWriter(path) as writer:
        if isinstance(model, nn.Module):
            _run_torch(model, batches, writer, names)
        else:
            run_onnx(str(model), iterated(batches), writer, names)
        return writer.finish()


def _run_torch(model: nn.Module, batches: Any, writer: RunWriter, names: Sequence[str] | None) -> None:
    watched = _CapturedOutputs(writer, names)
    with ExitStack() as hooks, torch.no_grad():
        for name, module in model.named_modules():
            handle = module.register_forward_hook(watched.hook_of(name), always_call=False)
            hooks.callback(handle.remove)
        for number, batch in enumerate(iterated(batches)):
            writer.begin_batch()
            watched.written.clear()
            run_batch(model, batch, number)
    watched.check_names()


class _CapturedOutputs:
    """The outputs of modules, written as they come."""

    def __init__(self, writer: RunWriter, names: Sequence[str] | None) -> None:
        self._writer = writer
        self._names = names
        self._unknown = dict.fromkeys(names or ())
        self._seen: dict[str, None] = {}
        #: The tensors of this batch that were written, and `_changes` of each by then.
        self.written: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}

    def hook_of(self, name: str) -> Any:
        """Return the hook of a module of that name, "" for the model."""

        def hook(module: nn.Module, _: object, output: Any) -> None:
            for key, tensor in tensors_in(output):
                if not isinstance(tensor, torch.Tensor):
                    if self._names is None:
                        self._writer.leave_aside(_name_of(name, key))
                    continue
                changed = _changes(tensor)
                before = self.written.get(id(tensor))
                handed_on = before is not None and before[0]() is tensor and before[1] == changed
                if not handed_on or not name:
                    self._add(_name_of(name, key), type(module).__name__, tensor)
                self.written[id(tensor)] = (weakref.ref(tensor), changed)

        return hook

    def _add(self, name: str, op: str, tensor: torch.Tensor) -> None:
        self._seen[name] = None
        fitting = [form for form in self._names or () if fnmatch.fnmatchcase(name, form)]
        for form in fitting:
            self._unknown.pop(form, None)
        if self._names is None or fitting:
            axes: tuple[str, ...] = ()
            if op in _OF_SEQUENCES:
                axes = _SEQUENCE.get(tensor.dim(), ())
            elif op in _OF_PICTURES:
                axes = _PICTURE
            self._writer.add(name, op, axes, tensor)

    def check_names(self) -> None:
        for form in self._unknown:
            if self._seen:
                raise QuantVizError("runs.unknown", got=form, known=", ".join(self._seen))


def _changes(tensor: torch.Tensor) -> int:
    """Return a number that differs after a change in place.

    A tensor made under inference mode keeps no count of its changes, so the number is one of its values.
    """
    if not tensor.is_inference():
        return tensor._version
    try:
        return zlib.crc32(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    except RuntimeError:
        # A sparse tensor, which is not written anyway.
        return 0


def tensors_in(output: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the tensors of an output, each with its keys and numbers in what holds it.

    An unknown object, which may hold some, is yielded too.
    """
    if is_dataclass(output) and not isinstance(output, type | Mapping):
        output = {each.name: getattr(output, each.name) for each in fields(output)}
    if isinstance(output, torch.Tensor):
        yield key, output
    elif isinstance(output, Mapping):
        for name, each in output.items():
            yield from tensors_in(each, (*key, str(name)))
    elif isinstance(output, tuple | list):
        for number, each in enumerate(output):
            yield from tensors_in(each, (*key, str(number)))
    elif output is not None and not isinstance(output, str | bytes | bool | int | float):
        yield key, output


def _name_of(module: str, key: tuple[str, ...]) -> str:
    """Return the name of a tensor: its module's where it is the first, else with its place in the output.

    >>> _name_of("a.b", ()), _name_of("a.b", ("1",)), _name_of("", ("logits",)), _name_of("", ("0",))
    ('a.b', 'a.b[1]', 'logits', 'output')
    """
    if not module and key and not key[0].isdecimal():
        module = key[0]
        key = key[1:]
    while key and key[0] == "0":
        key = key[1:]
    return (module or OUTPUT) + "".join(f"[{each}]" for each in key)
