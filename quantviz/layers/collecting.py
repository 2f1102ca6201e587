"""Layers of a torch model with some of the inputs that they see, collected while the model runs."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeAlias

import torch
from torch import nn

from quantviz.errors import Note, QuantVizError
from quantviz.layers.captures import Captured, Layers, name_of_group
from quantviz.layers.kernel_places import KernelPlaces, padded, reach, transposed_places
from quantviz.public_calls import public

#: Layers and names that a sentence lists.
_NAMED = 8
#: Groups of a convolution that are captured, each as a layer: of more, those with the largest outputs.
_MOST_GROUPS = 16
_Convolution: TypeAlias = (
    nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
)
_CONVOLUTIONS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


class InputRows(Protocol):
    """Some inputs of a layer, of which a few are read."""

    @property
    def count(self) -> int: ...

    def read(self, places: torch.Tensor) -> torch.Tensor: ...


class _Tokens:
    """Inputs of a linear layer, (…, inputs)."""

    def __init__(self, inputs: torch.Tensor) -> None:
        rows = inputs.detach()
        self._rows = rows[None] if rows.dim() == 1 else rows.flatten(0, -2)
        self.count = len(self._rows)

    def read(self, places: torch.Tensor) -> torch.Tensor:
        return self._rows[places.to(self._rows.device)]


def _places(inputs: torch.Tensor, layer: _Convolution) -> KernelPlaces:
    """Return the inputs of a convolution: each place of its kernel is a token of channels · kernel inputs.

    Only the patches that are read are copied out, where `unfold` would copy all.
    """
    images = inputs.detach()
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    if images.dim() == len(kernel) + 1:
        images = images[None]
    pads = _pads_of(layer)
    if layer.transposed:
        more = zip(pads, layer.output_padding, strict=True)
        cut = [(first, last - added) for (first, last), added in more]
        return transposed_places(images, kernel, stride, cut, dilation)
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return KernelPlaces(padded(images, pads, mode=mode), kernel, stride, dilation)


def rows_of(layer: nn.Module, inputs: torch.Tensor) -> InputRows:
    return _places(inputs, layer) if isinstance(layer, _CONVOLUTIONS) else _Tokens(inputs)


def shaped_as_output(layer: nn.Module, values: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Return the outputs of all tokens of a call, (tokens, outputs), in the form and dtype of the layer's."""
    if isinstance(layer, _CONVOLUTIONS):
        places = math.prod(output.shape[-len(layer.kernel_size) :])
        values = torch.stack(torch.split(values, places)).mT
    return values.reshape_as(output).to(output)


class _Reservoir:
    """A uniform sample of all tokens that come by, of at most `most`: those with the smallest keys.

    Each token gets a key from the seed, whatever the batches are. Layers that see the same tokens keep the
    same ones.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._generator = torch.Generator().manual_seed(seed)
        self.seen = 0
        self._keys = torch.empty(0, dtype=torch.float64)
        self._places = torch.empty(0, dtype=torch.int64)
        self._rows: torch.Tensor | None = None

    def add(self, rows: InputRows) -> None:
        keys = torch.cat([self._keys, torch.rand(rows.count, generator=self._generator, dtype=torch.float64)])
        kept = keys.argsort(stable=True)[: self._most].sort().values
        held = len(self._keys)
        old = kept[kept < held]
        new = kept[kept >= held] - held
        fresh = rows.read(new).to("cpu", copy=True)
        self._rows = fresh if self._rows is None else torch.cat([self._rows[old], fresh])
        self._places = torch.cat([self._places[old], new + self.seen])
        self._keys = keys[kept]
        self.seen += rows.count

    @property
    def rows(self) -> torch.Tensor:
        """Return the tokens that are kept, in the order in which they came."""
        assert self._rows is not None
        return self._rows


class _CollectedLayer:
    def __init__(self, name: str, module: nn.Module, kind: str, most: int, seed: int) -> None:
        self.name = name
        self.module = module
        self.kind = kind
        self.groups = module.groups if isinstance(module, _CONVOLUTIONS) else 1
        self.reservoir = _Reservoir(most, seed)

    def take(self, inputs: torch.Tensor) -> None:
        if not bool(torch.isfinite(inputs).all()):
            raise QuantVizError("collect.nonfinite", name=self.name)
        self.reservoir.add(rows_of(self.module, inputs))

    def captured(self) -> Captured:
        weight, bias = self.module.weight, self.module.bias
        assert isinstance(weight, torch.Tensor)
        matrix = weight.detach().cpu()
        if self.kind == "conv1d":
            matrix = matrix.T
        elif self.kind == "conv_transposed":
            # The first axis has the inputs of each group.
            matrix = torch.cat([torch.stack(part.unbind(1)) for part in matrix.chunk(self.groups)])
        values = bias.detach().cpu() if isinstance(bias, torch.Tensor) else None
        rows, seen = self.reservoir.rows, self.reservoir.seen
        return Captured(self.name, self.kind, matrix.flatten(1), rows, values, seen)


def _groups_of(layer: Captured) -> list[Captured]:
    """Return a layer, or one for each group of a convolution: of many those with the largest outputs."""
    groups, weight, inputs = layer.groups, layer.weight, layer.inputs
    if groups == 1:
        return [layer]
    assert isinstance(weight, torch.Tensor)
    assert isinstance(inputs, torch.Tensor)
    sides = list(zip(weight.chunk(groups), inputs.chunk(groups, 1), strict=True))
    values = [None] * groups if layer.bias is None else layer.bias.chunk(groups)
    kept: Sequence[int] = range(groups)
    if groups > _MOST_GROUPS:
        energy = torch.stack([(x.double() @ w.double().T).square().sum() for w, x in sides])
        kept = energy.topk(_MOST_GROUPS).indices.sort().values.tolist()
    names = [name_of_group(layer.name, group, groups) for group in kept]
    return [
        Captured(name, layer.kind, sides[at][0], sides[at][1].contiguous(), values[at], layer.seen, (layer,))
        for name, at in zip(names, kept, strict=True)
    ]


@public
def collect(
    model: Any, batches: Any, names: Sequence[str] | None = None, rows: int = 512, *, seed: int = 0
) -> Layers:
    """Run a torch model, and return its linear layers with some of the inputs that they saw.

    These are nn.Linear, convolutions of one to three axes and transposed ones as a matrix (outputs,
    channels · kernel), whose tokens are the places of the kernel, and transformers' Conv1D. A convolution
    with groups is a layer for each group, such as "conv.group0of8"; of more than 16 groups, for the 16 with
    the largest outputs. Of each layer all tokens are counted, and `rows` are kept, drawn uniformly. Weights
    are the model's own, not copies, but for those of transposed convolutions. Notes name all other modules
    that have parameters, with the reason.

    Args:
        model: A `torch.nn.Module` in evaluation mode.
        batches: An iterable of what the model is called with: a tensor each, or a tuple of positional or a
            dict of named arguments.
        names: Names of the layers, with * for any text; None takes all.
        rows: The most tokens that are kept of a layer.
        seed: Draws the tokens, the same ones in layers that see the same tokens.

    Returns:
        The layers in the order in which they ran first; its notes name those that were left aside.

    Raises:
        QuantVizError: The model is none, is in training mode, or fails; it has no such layer; none ran, or
            one saw NaN or Inf.

    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    >>> layers = collect(model, [torch.ones(5, 8), torch.ones(3, 8)], rows=6)
    >>> layers.names, layers["2"].inputs.shape, layers["2"].seen
    (('0', '2'), torch.Size([6, 16]), 8)
    """
    found = collected(model, batches, names, rows, seed=seed)
    many = [layer for layer in found if layer.groups > _MOST_GROUPS]
    left = sum(layer.groups - _MOST_GROUPS for layer in many)
    shown = [f"{layer.name} ({_MOST_GROUPS}/{layer.groups})" for layer in many]
    notes = (*note_on_names("collect_groups", shown, left), *found.notes)
    return Layers(tuple(group for layer in found for group in _groups_of(layer)), notes)


def collected(
    model: Any, batches: Any, names: Sequence[str] | None = None, rows: int = 512, *, seed: int = 0
) -> Layers:
    """Return the layers of a model as `collect` does, each convolution with groups as one."""
    if not isinstance(model, nn.Module):
        raise QuantVizError("collect.no_model", got=type(model).__name__)
    if model.training:
        raise QuantVizError("collect.training")
    if rows < 2:
        raise QuantVizError("collect.rows", got=rows)
    wanted, others = _wanted(model, names)
    watched = [_CollectedLayer(*each, rows, seed) for each in wanted]
    order: dict[str, _CollectedLayer] = {}
    with ExitStack() as hooks, torch.no_grad():
        for layer in watched:
            hooks.enter_context(_hooked(layer, order))
        for number, batch in enumerate(iterated(batches)):
            run_batch(model, batch, number)
    if not order:
        raise QuantVizError("collect.nothing_ran", count=len(watched))
    idle = [each.name for each in watched if each.name not in order]
    notes = [
        *note_on_names("collect_idle", idle),
        *(note for key in ("collect_other", "collect_vectors") for note in note_on_names(key, others[key])),
    ]
    return Layers(tuple(each.captured() for each in order.values()), tuple(notes))


def modules_by_name(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules of a model; one that is a layer itself has no name in it, and gets its class's."""
    return {name or type(module).__name__: module for name, module in model.named_modules()}


def kind_of(module: nn.Module) -> str | None:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or not weight.is_floating_point() or weight.is_meta:
        return None
    if isinstance(module, nn.Linear):
        return "linear"
    if isinstance(module, _CONVOLUTIONS):
        own = "conv2d" if isinstance(module, nn.Conv2d) else "conv"
        return "conv_transposed" if module.transposed else own
    # transformers' own class, whose weight is inputs × outputs, is known by its name and not imported.
    return "conv1d" if type(module).__name__ == "Conv1D" and weight.dim() == 2 else None


def _wanted(
    model: nn.Module, names: Sequence[str] | None
) -> tuple[list[tuple[str, nn.Module, str]], dict[str, list[str]]]:
    """Return the layers to collect, (name, module, kind), and the names of other modules with parameters,
    each with its class, by the key of their note.

    Raises:
        QuantVizError: A name is that of no layer, or there are no layers.
    """
    modules = modules_by_name(model)
    kinds = {name: kind for name, module in modules.items() if (kind := kind_of(module))}
    if not kinds:
        raise QuantVizError("collect.no_layers")
    if names is not None and not names:
        raise QuantVizError("collect.unknown", got=[], known=", ".join(kinds))
    for pattern in names or ():
        if not any(fnmatch.fnmatchcase(name, pattern) for name in kinds):
            raise QuantVizError("collect.unknown", got=pattern, known=", ".join(kinds))
    named = [name for name in modules if any(fnmatch.fnmatchcase(name, each) for each in names or "*")]
    others: dict[str, list[str]] = {"collect_other": [], "collect_vectors": []}
    for name in named:
        axes = [each.dim() for each in modules[name].parameters(recurse=False)]
        if name not in kinds and axes:
            key = "collect_other" if max(axes) > 1 else "collect_vectors"
            others[key].append(f"{name} ({type(modules[name]).__name__})")
    return [(name, modules[name], kind) for name, kind in kinds.items() if name in named], others


@contextmanager
def _hooked(layer: _CollectedLayer, order: dict[str, _CollectedLayer]) -> Iterator[None]:
    """Take in the inputs of a layer while the block lasts; `order` has those that ran, first ones first."""

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = args[0] if args else next(iter(kwargs.values()), None)
        if isinstance(inputs, torch.Tensor) and inputs.numel():
            order.setdefault(layer.name, layer)
            layer.take(inputs)

    handle = layer.module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def iterated(batches: Any) -> Iterator[Any]:
    """Return an iterator over batches; raise `QuantVizError` for one batch in place of several."""
    if isinstance(batches, torch.Tensor | Mapping | str | bytes):
        raise QuantVizError("collect.one_batch", got=type(batches).__name__)
    try:
        return iter(batches)
    except TypeError:
        raise QuantVizError("collect.one_batch", got=type(batches).__name__) from None


def run_batch(model: Callable[..., Any], batch: Any, number: int) -> Any:
    """Return the model's output of a batch; a failure becomes a sentence, with its traceback as the cause."""
    try:
        if isinstance(batch, Mapping):
            return model(**batch)
        if isinstance(batch, tuple | list):
            return model(*batch)
        return model(batch)
    except QuantVizError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise QuantVizError("collect.failed", batch=number, reason=reason) from error


def _pads_of(layer: _Convolution) -> list[tuple[int, int]]:
    if layer.padding == "same":
        added = [reach(*each) - 1 for each in zip(layer.kernel_size, layer.dilation, strict=True)]
        return [(each // 2, each - each // 2) for each in added]
    if isinstance(layer.padding, str):
        return [(0, 0)] * len(layer.kernel_size)
    return [(each, each) for each in layer.padding]


def note_on_names(key: str, names: list[str], count: int | None = None) -> list[Note]:
    if not names:
        return []
    some = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
    return [Note.of(key, count=len(names) if count is None else count, names=some)]
