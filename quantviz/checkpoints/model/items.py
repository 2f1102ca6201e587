"""The tensors of a model one by one: weights, other tensors, and unreadable ones.

with open_model(path) as model:
    for item in items_of(model):
        item.name, item.kind, item.parts
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from quantviz.checkpoints.model.account import Accounted, Side, TensorOutcome, counts_as_weight
from quantviz.checkpoints.model.folders import name_of, size_of
from quantviz.checkpoints.model.opening import Lost, OpenModel
from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import is_whole
from quantviz.sources.files.file_data import MOST_LIKELY, clipped
from quantviz.sources.layouts.forms import prefix_of
from quantviz.sources.layouts.unclaimed import accompanies, is_of_training

#: Kinds of a model's tensors:
#:
#: weight   quantized in a known layout, to be decoded
#: plain    numbers as they are
#: whole    indices, counts or masks
#: inputs   the inputs of a captured layer
#: training the state of an optimizer, beside the model in its file
#: unread   a weight that cannot be read: an unknown layout or one that does not fit, a damaged file
Kind = Literal["weight", "plain", "whole", "inputs", "training", "unread"]


_ANY_MATRIX = (2, 2)


@dataclass(frozen=True, eq=False)
class ModelItem:
    name: str
    kind: Kind
    #: Its tensors in the files; its name where they cannot be read.
    parts: tuple[str, ...]
    shape: Shape
    #: Its dtype in the file; of a quantized weight its layout and the format of its codes.
    dtype: str
    file: str
    reason: QuantVizError | None = None
    #: Whether it is a file of the model with unknown tensors.
    is_file: bool = False
    #: Whether its shape is known: in a missing file it is not.
    is_known: bool = True

    @property
    def elements(self) -> int:
        """Return the number of its values, or of codes where it cannot be read; 0 where it is missing."""
        return min(math.prod(self.shape), MOST_LIKELY) if self.is_known else 0

    @property
    def is_weight(self) -> bool:
        """Return whether it counts as a weight: not a norm, a bias, an index, a mask or inputs."""
        if self.kind == "weight":
            return len(self.shape) > 1
        if not self.is_known:
            named = not self.is_file and not accompanies(self.name)
            return named and counts_as_weight(self.name, _ANY_MATRIX)
        return self.kind == "unread" or (self.kind == "plain" and counts_as_weight(self.name, self.shape))


def items_of(model: OpenModel, *, stacked: bool = False) -> tuple[ModelItem, ...]:
    """Return the tensors of a model in the order of its files, missing ones included; with `stacked`, experts
    in one tensor of a .gguf are one item.
    """
    tensors = model.tensors
    items: list[ModelItem] = []
    seen = set[str]()
    for name in tensors.model_names:
        weight = tensors.weights.get(name)
        if weight is not None:
            of_gguf = weight.layout == "gguf" and len(weight.parts) == 1
            if of_gguf and stacked:
                if weight.parts[0] not in seen:
                    seen.add(weight.parts[0])
                    items.append(_plain(model, weight.parts[0]))
                continue
            info = tensors.info(name)
            kind = "unread" if weight.problem else "weight"
            scheme = None if weight.problem else weight.scheme
            codes = scheme.format if scheme else info.dtype
            file = model.files[weight.parts[0]]
            dtype = f"{weight.layout} {codes}"
            # Of a weight whose codes are not there other parts may be.
            is_here = name not in tensors.file.apart
            shape = info.shape if is_here else ()
            items.append(
                ModelItem(name, kind, weight.parts, shape, dtype, file, weight.problem, is_known=is_here)  # type: ignore[arg-type]
            )
        else:
            items.append(_plain(model, name))
    with_parts = _with_parts(model, items)
    items = [replace(item, parts=(*item.parts, *with_parts.pop(item.name, ()))) for item in items]
    items += (
        ModelItem(name, "unread", (name, *parts), (), "", *model.unread[name], is_known=False)
        for name, parts in with_parts.items()
    )
    items += (
        ModelItem(
            lost.name, "unread", (lost.name,), (), "", lost.file, lost.reason, is_file=True, is_known=False
        )
        for lost in model.lost
        if not lost.is_named
    )
    places = ((item.file, item.parts[0]) for item in items)
    return tuple(items[k] for k in model.in_order(places))


def _with_parts(model: OpenModel, items: Iterable[ModelItem]) -> dict[str, list[str]]:
    """Return the missing tensors by their weight: scales in a missing file are no tensors of their own where
    their weight is unread too.
    """
    every = {*model.files, *model.unread}
    of_modules: dict[str, list[str]] = {}
    listed = {item.name for item in items if item.kind == "unread"}
    for name in (*listed, *(name for name in model.unread if not accompanies(name) and name not in listed)):
        of_modules.setdefault(prefix_of(name, every), []).append(name)
    by_whole: dict[str, list[str]] = {}
    for name in model.unread:
        peers = of_modules.get(prefix_of(name, every), [])
        near = peers if len(peers) == 1 else [peer for peer in peers if name.startswith(peer)]
        whole = near[0] if accompanies(name) and near else name
        by_whole.setdefault(whole, [])
        if whole != name or name in listed:
            by_whole[whole].append(name)
    return by_whole


def _plain(model: OpenModel, name: str) -> ModelItem:
    """Return a tensor that is read as the file has it."""
    info = model.tensors.file.info(name)
    file = model.files[name]
    if is_of_training(name):
        return ModelItem(name, "training", (name,), info.shape, info.dtype, file)
    if is_whole(info.dtype):
        return ModelItem(name, "whole", (name,), info.shape, info.dtype, file, info.problem)
    kind: Kind = "unread" if info.problem else "plain"
    if name.endswith(".inputs") and not info.problem:
        from quantviz.layers.captures import is_inputs

        kind = "inputs" if is_inputs(model.tensors.file, name) else kind
    return ModelItem(name, kind, (name,), info.shape, info.dtype, file, info.problem)


def accounted(
    model: OpenModel, side: Side, items: Iterable[ModelItem], outcomes: Mapping[str, TensorOutcome]
) -> Iterator[Accounted]:
    """Yield the outcome of every tensor of a model's files, and of the files beside them; `outcomes` are
    those of its `items` by name.
    """
    listed = tuple(items)
    named = [entry for entry in model.lost if entry.is_named]
    sharing = Counter(part for item in listed for part in item.parts)
    shared_out = Counter[str]()
    for item in listed:
        outcome = outcomes[item.name]
        elements = item.elements if outcome.elements is None else outcome.elements
        for number, part in enumerate(item.parts):
            whole = (size_of(item.file) or 0) if item.is_file else bytes_of(model, part)
            # Experts in one tensor have equal shares of it, the last one the rest.
            shared_out[part] += 1
            share = whole // sharing[part]
            size = whole - share * (sharing[part] - 1) if shared_out[part] == sharing[part] else share
            yield Accounted(
                side,
                "" if item.is_file else part,
                outcome,
                size,
                item.name if item.is_weight else "",
                elements if not number and item.is_weight else 0,
                clipped(item.name if item.is_file else name_of(model.files.get(part, item.file))),
                # Bytes in a file that is not there are counted with that file.
                is_counted=bool(elements) or item.is_known or not (item.is_weight or item.is_file),
                is_sized=part in model.files or bool(named) or bool(size),
            )
    for lost, left in zip(named, _sizes_of(named, model), strict=True):
        file = clipped(lost.name)
        outcome = TensorOutcome("not_read", lost.reason)
        yield Accounted(side, "", outcome, left or 0, file=file, is_sized=left is not None)
    for stray in model.strays:
        what = "not_read" if isinstance(stray.reason, QuantVizError) else "left_aside"
        outcome = TensorOutcome(what, stray.reason)  # type: ignore[arg-type]
        yield Accounted(side, stray.name, outcome, stray.size, file=clipped(name_of(stray.file)))
    for aside in model.aside:
        outcome = TensorOutcome("left_aside", aside.reason)
        yield Accounted(side, "", outcome, aside.size, file=clipped(name_of(aside.file)))


def _sizes_of(lost: Sequence[Lost], model: OpenModel) -> Sequence[int | None]:
    """Return the bytes of missing files: equal shares of the index's total less the rest, or None."""
    left = (model.whole_bytes or 0) - sum(bytes_of(model, name) for name in model.files)
    if left <= 0:
        return [None] * len(lost)
    return [left * (k + 1) // len(lost) - left * k // len(lost) for k in range(len(lost))]


def bytes_of(model: OpenModel, tensor: str) -> int:
    """Return the bytes of a tensor in its file: by its dtype where it does not lie there in one piece; 0
    where it is not there.
    """
    if tensor not in model.files:
        return 0
    info = model.tensors.file.info(tensor)
    lying = 0 if info.problem else model.tensors.file.stored_bytes(tensor)
    bits = re.search(r"\d+", info.dtype)
    # A damaged file may declare any length; numbers of bytes must fit 64 bits.
    return lying or min(info.count * int(bits[0] if bits else 32) // 8, MOST_LIKELY)
