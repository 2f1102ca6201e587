"""Captured layers in a file: each layer's weight, its bias, and some of the inputs that it saw.

The file is a .safetensors. A layer called NAME has the tensors

    NAME.weight   (outputs, inputs)
    NAME.inputs   (tokens, inputs)
    NAME.bias     (outputs,), where it has one
and texts in the header's `__metadata__`:

    format      "quantviz layers 1"
    layers      a JSON list with an object for each layer, in the order in which they ran: its `name`, its
                `kind` (one of `KINDS`) and `seen`, the number of tokens that it saw
    axes        a JSON object with the names of the axes of each tensor
    left_aside  where layers of the model were left aside: a JSON list with an object for each reason, its
                `key`, and the `count` and the `names` of the layers

A group of a convolution is a layer called `NAME.group3of8`. A file of any format without these texts is read
by the names of its tensors (`named_layers`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeAlias

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.layer_result import LayerResult, layer
from quantviz.layers.methods.chain import Chain, as_chain
from quantviz.layers.operands import Operand, input_operand, scheme_of, shares_scales_beyond, weight_operand
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public_class
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import PerTensor, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files import Catalog, open_tensors
from quantviz.sources.files.safetensors import written_header
from quantviz.streaming.regions import read_whole
from quantviz.tensors.lazy import Stored, as_matrix, as_stored
from quantviz.whole_files import write_file

Values: TypeAlias = torch.Tensor | Stored

FORMAT = "quantviz layers 1"
#: A linear layer; a convolution of two axes, of one or three, and a transposed one, each as a matrix; and a
#: linear layer stored inputs × outputs, as transformers' Conv1D.
KINDS = ("linear", "conv2d", "conv", "conv_transposed", "conv1d")
_OF_LAYER = ("name", "kind", "seen")
_AXES = {"weight": ("output", "input"), "inputs": ("token", "input"), "bias": ("output",)}
#: Reasons to leave layers out of a capture: keys of notes.
LEFT_ASIDE = (
    *("collect_grouped", "collect_groups", "collect_idle", "collect_no_inputs", "collect_other"),
    "collect_vectors",
)
_DTYPES = ("float16", "bfloat16", "float32")


#: The words in a tensor's name that say which part of a layer it is.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "weight": ("weight", "weights", "w"),
    "inputs": ("inputs", "input", "in", "x", "activations", "activation", "acts", "act"),
    "bias": ("bias", "b"),
}
_PART = {word: part for part, words in _WORDS.items() for word in words}
#: The end of the name of a layer that is one group of a convolution. Files and links keep little but names.
_GROUP = re.compile(r"\.group(\d{1,9})of([1-9]\d{0,8})(?:\.weight)?$")
#: A word or a number of a name: `fc1_input` has "fc", "1" and "input".
_PIECE = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True, eq=False)
class Captured(Picklable):
    name: str
    kind: str
    #: W, (outputs, inputs).
    weight: Values
    #: X, (tokens, inputs).
    inputs: Values
    bias: torch.Tensor | None = None
    #: Number of tokens that the layer saw, of which `inputs` has some.
    seen: int = 0
    #: The convolution of which this layer is a group, if the file has all of it: as one layer, or as groups.
    convolution: tuple[Captured, ...] = ()

    def __repr__(self) -> str:
        tokens, inputs, outputs = self.shape
        size = f"{tokens} of {self.seen} tokens × {inputs} inputs × {outputs} outputs"
        return f"Captured({self.name}, {self.kind}: {size})"

    @property
    def shape(self) -> Shape:
        """Return the numbers of tokens, of input channels and of outputs."""
        return (*self.inputs.shape, self.weight.shape[0])

    @property
    def groups(self) -> int:
        """Return the number of groups of a convolution, whose inputs are side by side."""
        return self.inputs.shape[1] // self.weight.shape[1]

    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all of W and X, float32."""
        weight, inputs = (read_whole(as_stored(stored)[0]) for stored in (self.weight, self.inputs))
        return weight, inputs

    def result(
        self,
        weights: Scheme | str | None = "int4_g128",
        inputs: Scheme | str | None = "int8_per_token",
        *,
        method: Chain | str | None = None,
        static: bool = True,
        seed: int = 0,
    ) -> LayerResult:
        """Return the layer's output error under schemes and a chain of methods, as `layer` does.

        Raises:
            QuantVizError: A scheme does not fit, or a value is NaN or Inf.
        """
        sides = (self.weight, self.inputs)
        chain = as_chain(method)
        schemes = (scheme_of(weights, "weights"), scheme_of(inputs, "inputs"))
        if not chain.bases:
            schemes = self.shared(*schemes, static=static, seed=seed)
        result = layer(*sides, *schemes, self.bias, method=chain, static=static, seed=seed)
        notes = self.notes_under(result.weights.scheme, result.inputs.scheme)
        return replace(result, applied=replace(result.applied, notes=(*result.applied.notes, *notes)))

    def shared(
        self, weights: Scheme | None, inputs: Scheme | None, *, static: bool = True, seed: int = 0
    ) -> tuple[Scheme | None, Scheme | None]:
        """Return schemes with one scale over all groups of a convolution, as engines have it, if it is at
        hand.
        """
        if not self.convolution:
            return weights, inputs
        of_weights, of_inputs = zip(*(part.whole() for part in self.convolution), strict=True)
        w, x = torch.cat(of_weights), torch.cat(of_inputs, 1)
        return (
            _with_scale(weights, lambda scheme: weight_operand(w, scheme)),
            _with_scale(inputs, lambda scheme: input_operand(x, scheme, x.shape[1], seed, static=static)),
        )

    def chosen_alone(self, scheme: Scheme | None) -> Scheme | None:
        """Return a scheme whose scales are of this layer alone; None where `shared` has the convolution's."""
        return None if scheme and self.convolution and _has_one_scale(scheme) else scheme

    def notes_under(self, weights: Scheme | None, inputs: Scheme | None) -> tuple[Note, ...]:
        """Return the note that a group of a convolution has scales of its own where engines share them."""
        found = _GROUP.search(self.name)
        if found is None:
            return ()
        groups = int(found[2])
        (outputs, width), tokens = self.weight.shape, self.inputs.shape[0]
        sides = (
            ("W", weights, (outputs, width), (outputs * groups, width)),
            ("X", inputs, (tokens, width), (tokens, width * groups)),
        )
        names = [
            name
            for name, scheme, own, whole in sides
            if scheme is not None
            and scheme.calibration.of_values
            and not any(scheme.problems(own))
            and shares_scales_beyond(scheme, own, whole)
        ]
        return (Note.of("layer_group", names=", ".join(names), groups=groups),) if names else ()


def _has_one_scale(scheme: Scheme) -> bool:
    return isinstance(scheme.granularity, PerTensor) and scheme.calibration.of_values


def _with_scale(scheme: Scheme | None, whole: Callable[[Scheme], Operand]) -> Scheme | None:
    """Return a scheme with the scale and zero point of a whole matrix, if that has a single one."""
    if scheme is None or not _has_one_scale(scheme):
        return scheme
    study = whole(scheme).study
    assert study is not None
    return scheme.replace(calibration=Given(study.qparams.scale.item(), study.qparams.zero_point.item()))


@dataclass(frozen=True, eq=False)
class UnreadLayer(Picklable):
    name: str
    kind: str
    reason: QuantVizError


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class Layers(Picklable):
    """Layers with some of their inputs, in the order in which they ran: by name, or one after the other."""

    layers: tuple[Captured, ...]
    notes: tuple[Note, ...] = ()
    #: The layers of a file that cannot be read.
    unread: tuple[UnreadLayer, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        unread = ", ".join(captured.name for captured in self.unread)
        return f"Layers({len(self.layers)}: {', '.join(self.names)}{unread and f'; not read: {unread}'})"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the layers."""
        return tuple(captured.name for captured in self.layers)

    @property
    def names_listed(self) -> tuple[str, ...]:
        """Return the names of the layers, and of those that cannot be read."""
        return (*self.names, *(captured.name for captured in self.unread))

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Captured]:
        return iter(self.layers)

    def __getitem__(self, name: str) -> Captured:
        """Return the layer of that name; raise `QuantVizError` if there is none, or it cannot be read."""
        for captured in self.layers:
            if captured.name == name:
                return captured
        for unread in self.unread:
            if unread.name == name:
                raise unread.reason
        raise QuantVizError("capture.no_layer", got=name, known=", ".join(self.names_listed))

    def notes_under(self, weights: Scheme | None, inputs: Scheme | None) -> tuple[Note, ...]:
        """Return the remarks, and those of the layers under schemes, rounded to nearest, each once."""
        of_layers = (
            note
            for captured in self.layers
            for note in captured.notes_under(*map(captured.chosen_alone, (weights, inputs)))
        )
        return tuple({str(note): note for note in (*self.notes, *of_layers)}.values())

    def fused(self, names: Sequence[str], stored: Scheme | str | None = None) -> Captured:
        """Return layers that read the same inputs as one layer, with their outputs one after the other.

        Engines multiply by q, k and v, by gate and up, or by a block's experts at once. What a method or a
        scheme chooses for this layer serves all of them: SmoothQuant's and AWQ's scales of channels, NVFP4's
        scale over all blocks, one scale of the weight.

        Args:
            names: Names of two layers or more; their outputs keep this order.
            stored: The scheme by which a checkpoint has each of them by itself; None leaves them as they
                are. Under one FP8 scale, the layer's error is then that of requantizing to the largest of
                their scales, as vLLM does when it loads them (`requantize_with_max_scale`).

        Raises:
            QuantVizError: There is no such layer, there are fewer than two, they saw other inputs, or the
                scheme does not fit.

        >>> x = torch.ones(4, 2)
        >>> layers = Layers((Captured("q", "linear", torch.ones(3, 2), x), Captured("k", "linear", x, x)))
        >>> layers.fused(("q", "k"))
        Captured(q+k, linear: 4 of 0 tokens × 2 inputs × 7 outputs)
        """
        siblings = [self[name] for name in names]
        sides = [sibling.whole() for sibling in siblings]
        if len(set(names)) < 2 or any(not torch.equal(inputs, sides[0][1]) for _, inputs in sides):
            raise QuantVizError("capture.not_siblings", names=", ".join(names))
        bias = None
        if any(sibling.bias is not None for sibling in siblings):
            zeros = [torch.zeros(sibling.weight.shape[0]) for sibling in siblings]
            of_each = zip(siblings, zeros, strict=True)
            bias = torch.cat([none if each.bias is None else each.bias.to(none) for each, none in of_each])
        scheme = scheme_of(stored, "weights")
        kept = (weight if scheme is None else quantize(weight, scheme).x_hat for weight, _ in sides)
        weight = torch.cat(list(kept))
        seen = min(sibling.seen for sibling in siblings)
        return Captured("+".join(names), siblings[0].kind, weight, sides[0][1], bias, seen)

    def save(self, path: str | PurePath) -> None:
        """Write the layers into one .safetensors, which `open`, the command and the app read.

        Raises:
            QuantVizError: The file cannot be written.
        """
        write_capture(path, self.layers, self.notes)

    @classmethod
    def open(cls, path: str | PurePath) -> Layers:
        """Return the layers of such a file, and its notes on those left aside; their values stay in it.

        Raises:
            QuantVizError: It cannot be read, or has no layer that can be.
        """
        with open_tensors(path) as catalog:
            return captured_in(catalog)


@dataclass(frozen=True)
class NamedLayer:
    """The names of a layer's tensors in a file."""

    weight: str
    inputs: str
    bias: str | None = None
    #: The axis of the weight's outputs: 1 where only that fits the inputs, as for `x @ w`.
    outputs: int = 0
    #: The axes of the inputs before the last one.
    token_axes: int = 1


def name_of_group(layer: str, group: int, groups: int) -> str:
    return f"{layer}.group{group}of{groups}"


def write_capture(
    path: str | os.PathLike[str], layers: Iterable[Captured], notes: Iterable[Note] = ()
) -> None:
    """Write layers in their order, with the notes on those left aside; an old file is replaced as a whole.

    Raises:
        QuantVizError: The file cannot be written.
    """
    listed = list(layers)
    tensors = dict(_tensors(listed))
    entries = [{key: getattr(captured, key) for key in _OF_LAYER} for captured in listed]
    texts = {"format": FORMAT, "layers": json.dumps(entries), "axes": json.dumps(_AXES)}
    aside = [{"key": note.key, **note.params} for note in notes if note.key in LEFT_ASIDE]
    if aside:
        texts["left_aside"] = json.dumps(aside)
    declared = {name: (_dtype_of(values), tuple(values.shape)) for name, values in tensors.items()}
    write_file(path, _parts(written_header(texts, declared), tensors))


def is_capture(catalog: Catalog) -> bool:
    return bool(catalog.names) and catalog.header_texts(catalog.names[0]).get("format") == FORMAT


def has_layers(catalog: Catalog) -> bool:
    return is_capture(catalog) or bool(_by_name(catalog))


def is_inputs(catalog: Catalog, name: str) -> bool:
    return name.endswith(".inputs") and catalog.header_texts(name).get("format") == FORMAT


def captured_in(catalog: Catalog) -> Layers:
    """Return the layers of an open file in the order in which they ran; their values stay in the file.

    Raises:
        QuantVizError: The file has no weight with its inputs, its lists are damaged, or none of its layers
            can be read.
    """
    if is_capture(catalog):
        listed = catalog.header_texts(catalog.names[0]).get("layers", "")
        layers = [
            _layer_in(catalog, _captured(catalog, each["name"]), *(each[key] for key in _OF_LAYER))
            for each in _entries(listed)
        ]
        notes = _left_aside_in(catalog)
    else:
        named = _by_name(catalog)
        if not named:
            raise QuantVizError("capture.no_layers", wanted=FORMAT)
        layers = [_layer_in(catalog, names, name) for name, names in named.items()]
        taken = {name for names in named.values() for name in (names.weight, names.inputs)}
        names = [name for name in catalog.names if name not in taken and len(catalog.info(name).shape) > 1]
        notes = (Note.of("collect_no_inputs", count=len(names), names=", ".join(names)),) if names else ()
    unread = tuple(captured for captured in layers if isinstance(captured, UnreadLayer))
    if len(unread) == len(layers):
        raise unread[0].reason
    read = tuple(captured for captured in layers if isinstance(captured, Captured))
    return Layers(_with_convolutions(read), notes, unread)


def _with_convolutions(layers: tuple[Captured, ...]) -> tuple[Captured, ...]:
    """Return layers; each group of a convolution has all of its groups, if the file has them."""
    groups: dict[tuple[str, int], dict[int, Captured]] = {}
    for captured in layers:
        if found := _GROUP.search(captured.name):
            of = captured.name[: found.start()], int(found[2])
            groups.setdefault(of, {})[int(found[1])] = captured
    whole: dict[str, tuple[Captured, ...]] = {}
    for (_, count), parts in groups.items():
        shapes = {(part.inputs.shape[0], part.weight.shape) for part in parts.values()}
        # `count` is a number of the name alone: no list is made of so many.
        if len(parts) == count > max(parts) and len(shapes) == 1:
            whole |= dict.fromkeys((part.name for part in parts.values()), tuple(parts.values()))
    return tuple(replace(captured, convolution=whole.get(captured.name, ())) for captured in layers)


def named_layers(catalog: Catalog) -> dict[str, NamedLayer]:
    """Return the layers of a file by their names, in its order, such as `fc1.weight` beside `fc1.input`.

    A weight is (outputs, inputs) or (inputs, outputs), its inputs are (…, tokens, inputs).
    """
    places: dict[tuple[str, ...], dict[str, str]] = {}
    for name in catalog.names:
        part, key = _part_of(name)
        places.setdefault(key, {}).setdefault(part, name)
    named = {}
    for parts in places.values():
        weight, inputs = parts.get("weight"), parts.get("inputs")
        if weight is None or inputs is None:
            continue
        sizes = catalog.info(weight).shape
        shape = catalog.info(inputs).shape
        if len(sizes) != 2 or len(shape) < 2:
            continue
        outputs = next((axis for axis in (0, 1) if sizes[1 - axis] == shape[-1]), None)
        if outputs is not None:
            name = _name_of_layer(weight)
            named[name] = NamedLayer(weight, inputs, parts.get("bias"), outputs, len(shape) - 1)
    return named


def _name_of_layer(weight: str) -> str:
    """Return a weight's name without its last word if that says so; one pass, however long names are."""
    pieces = list(_PIECE.finditer(weight))
    if len(pieces) < 2 or pieces[-1].end() < len(weight) or _PART.get(pieces[-1][0].casefold()) != "weight":
        return weight
    return weight[: pieces[-2].end()]


def _part_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the part of a layer that a tensor is by its name, else "weight", and the layer's words.

    >>> _part_of("net/fc1_input"), _part_of("W1"), _part_of("fc1")
    (('inputs', ('net', 'fc', '1')), ('weight', ('1',)), ('weight', ('fc', '1')))
    """
    words = [word.casefold() for word in _PIECE.findall(name)]
    parts = {_PART[word]: at for at, word in enumerate(words) if word in _PART}
    for part in ("weight", "bias", "inputs"):
        if part in parts:
            return part, (*words[: parts[part]], *words[parts[part] + 1 :])
    return "weight", tuple(words)


def inputs_beside(catalog: Catalog, name: str) -> Stored | None:
    """Return the inputs of the layer whose weight is a tensor of an open file; None where there are none."""
    layer, _, end = name.rpartition(".")
    if end != "weight" or f"{layer}.inputs" not in catalog or not is_capture(catalog):
        return None
    inputs = catalog.stored(f"{layer}.inputs")
    shape = catalog.info(name).shape
    return inputs if len(shape) == len(inputs.shape) == 2 and shape[1] == inputs.shape[1] else None


def _left_aside_in(catalog: Catalog) -> tuple[Note, ...]:
    """Return the notes on layers of the model that a file leaves aside; raise `QuantVizError` for others."""
    written = catalog.header_texts(catalog.names[0]).get("left_aside", "[]")
    try:
        notes = [
            Note.of(note["key"], count=note["count"], names=note["names"]) for note in json.loads(written)
        ]
    except (ValueError, RecursionError, TypeError, KeyError):
        raise QuantVizError("capture.damaged", entry="left_aside") from None
    for note in notes:
        count = note.params["count"]
        if note.key not in LEFT_ASIDE or type(count) is not int or not isinstance(note.params["names"], str):
            raise QuantVizError("capture.damaged", entry="left_aside")
    return tuple(notes)


def _tensors(layers: list[Captured]) -> Iterator[tuple[str, Values]]:
    for captured in layers:
        for end in _AXES:
            values = getattr(captured, end)
            if values is not None:
                yield f"{captured.name}.{end}", values


def _dtype_of(values: Values) -> str:
    """Return the tensor's dtype if the format's header has a name for it."""
    dtype = str(values.dtype).removeprefix("torch.")
    return dtype if dtype in _DTYPES else "float32"


def _parts(header: bytes, tensors: Mapping[str, Values]) -> Iterator[bytes]:
    """Yield the header, then one tensor at a time, so that memory holds only one."""
    yield header
    for values in tensors.values():
        whole = read_whole(values) if isinstance(values, Stored) else values.detach()
        plain = whole.to("cpu", getattr(torch, _dtype_of(values))).contiguous()
        yield plain.flatten().view(torch.uint8).numpy().tobytes()


def _entries(listed: str) -> list[dict[str, Any]]:
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
            and 0 <= entry["seen"] < 2**63
        )
        if not whole:
            raise QuantVizError("capture.damaged", entry=str(entry))
    if len({entry["name"] for entry in entries}) < len(entries):
        raise QuantVizError("capture.damaged", entry="layers")
    return entries


def names_of_layer(catalog: Catalog, name: str) -> NamedLayer:
    return _captured(catalog, name) if is_capture(catalog) else _by_name(catalog)[name]


def _captured(catalog: Catalog, name: str) -> NamedLayer:
    bias = f"{name}.bias"
    return NamedLayer(f"{name}.weight", f"{name}.inputs", bias if bias in catalog else None)


def _by_name(catalog: Catalog) -> dict[str, NamedLayer]:
    """Return the layers of a file that is no capture, nor one of another version."""
    is_other = bool(catalog.names) and "layers" in catalog.header_texts(catalog.names[0])
    return {} if is_other else named_layers(catalog)


def _layer_in(
    catalog: Catalog, named: NamedLayer, name: str, kind: str = "linear", seen: int | None = None
) -> Captured | UnreadLayer:
    try:
        weight = catalog.stored(named.weight)
        inputs = catalog.stored(named.inputs)
        if named.outputs:
            weight = as_matrix(weight, named.outputs)
        if named.token_axes > 1:
            inputs = as_matrix(inputs, tuple(range(named.token_axes)))
        # A bias is read once its size is that of the outputs.
        of_bias = catalog.info(named.bias).shape if named.bias else None
        for wrong in shape_problems(weight.shape, inputs.shape, of_bias):
            return UnreadLayer(name, kind, wrong)
        bias = catalog.load(named.bias) if named.bias else None
    except QuantVizError as problem:
        return UnreadLayer(name, kind, problem)
    return Captured(name, kind, weight, inputs, bias, inputs.shape[0] if seen is None else seen)


def shape_problems(weight: Shape, inputs: Shape, bias: Shape | None) -> Iterator[QuantVizError]:
    if len(weight) != 2:
        yield QuantVizError("layer.weight_axes", shape=weight)
    elif len(inputs) != 2:
        yield QuantVizError("layer.input_axes", shape=inputs)
    elif weight[1] != inputs[1]:
        yield QuantVizError("layer.width", got=inputs[1], wanted=weight[1], shape=inputs)
    elif bias not in (None, weight[:1]):
        yield QuantVizError("layer.bias", shape=bias, outputs=weight[0])
