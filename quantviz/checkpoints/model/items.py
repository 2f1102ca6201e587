"""The tensors of a model one by one, of all kinds: weights, other tensors, and unreadable ones.

with open_model(path) as model:
    for item in items_of(model):
        item.name, item.kind, item.parts
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from quantviz.checkpoints.model.account import Accounted, Outcome, Side, counts_as_weight
from quantviz.checkpoints.model.folders import name_of
from quantviz.checkpoints.model.opening import OpenModel
from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import is_whole
from quantviz.sources.files.file_data import clipped

#: Kinds of a model's tensors:
#:
#: weight   quantized in a known layout, to be decoded
#: plain    numbers as they are
#: whole    indices, counts or masks
#: inputs   what a captured layer took
#: unread   a weight that cannot be read: an unknown layout or one that does not fit, a damaged file
Kind = Literal["weight", "plain", "whole", "inputs", "unread"]


@dataclass(frozen=True, eq=False)
class Item:
    """One tensor of a model."""

    name: str
    kind: Kind
    #: Its tensors in the files; its name where they cannot be read.
    parts: tuple[str, ...]
    shape: Shape
    #: Its dtype in the file; of a quantized weight its layout and the format of its codes.
    dtype: str
    #: The file that holds its first part, with its folder.
    file: str
    #: Reason why it cannot be read.
    reason: QuantVizError | None = None

    @property
    def elements(self) -> int:
        """Return its values; of one that cannot be read those of its codes."""
        return math.prod(self.shape)

    @property
    def is_weight(self) -> bool:
        """Return whether it counts as a weight: not a norm, a bias, an index, a mask or inputs."""
        if self.kind == "weight":
            return len(self.shape) > 1
        return self.kind == "unread" or (self.kind == "plain" and counts_as_weight(self.name, self.shape))


def items_of(model: OpenModel, *, stacked: bool = False) -> tuple[Item, ...]:
    """Return the tensors of a model in the order of its files, also those that are not there.

    With `stacked`, experts in one tensor of a .gguf are one item, as the file has them.
    """
    tensors = model.tensors
    items: list[Item] = []
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
            items.append(
                Item(name, kind, weight.parts, info.shape, f"{weight.layout} {codes}", file, weight.problem)  # type: ignore[arg-type]
            )
        else:
            items.append(_plain(model, name))
    # Of a weight whose codes are not there other parts may be.
    items += (
        Item(name, "unread", (name,), (), "", file, why)
        for name, (file, why) in model.unread.items()
        if name not in tensors.weights
    )
    places = ((item.file, item.parts[0]) for item in items)
    return tuple(items[k] for k in model.in_order(places))


def _plain(model: OpenModel, name: str) -> Item:
    """Return a tensor that is read as the file has it."""
    info = model.tensors.file.info(name)
    file = model.files[name]
    if is_whole(info.dtype):
        return Item(name, "whole", (name,), info.shape, info.dtype, file, info.problem)
    kind: Kind = "unread" if info.problem else "plain"
    if name.endswith(".inputs") and not info.problem:
        from quantviz.layers.captures import is_inputs

        kind = "inputs" if is_inputs(model.tensors.file, name) else kind
    return Item(name, kind, (name,), info.shape, info.dtype, file, info.problem)


def accounted(
    model: OpenModel, side: Side, items: Iterable[Item], outcomes: Mapping[str, Outcome]
) -> Iterator[Accounted]:
    """Yield the outcome of every tensor of a model's files, and of the files beside them.

    `outcomes` are those of its `items` by name.
    """
    listed = tuple(items)
    sharing = Counter(part for item in listed for part in item.parts)
    given = Counter[str]()
    for item in listed:
        outcome = outcomes[item.name]
        elements = item.elements if outcome.elements is None else outcome.elements
        for number, part in enumerate(item.parts):
            whole = bytes_of(model, part)
            # Experts in one tensor have equal shares of it, the last one the rest.
            given[part] += 1
            share = whole // sharing[part]
            size = whole - share * (sharing[part] - 1) if given[part] == sharing[part] else share
            yield Accounted(
                side,
                part,
                outcome,
                size,
                item.name if item.is_weight else "",
                elements if not number and item.is_weight else 0,
                clipped(name_of(model.files.get(part, item.file))),
            )
    for stray in model.strays:
        what = "not_read" if isinstance(stray.reason, QuantVizError) else "left_aside"
        outcome = Outcome(what, stray.reason)  # type: ignore[arg-type]
        yield Accounted(side, stray.name, outcome, stray.size, file=clipped(name_of(stray.file)))
    for aside in model.aside:
        outcome = Outcome("left_aside", aside.reason)
        yield Accounted(side, "", outcome, aside.size, file=clipped(name_of(aside.file)))


def bytes_of(model: OpenModel, tensor: str) -> int:
    """Return the bytes that a tensor takes in its file: by its dtype where it does not lie there in one
    piece; 0 where it is not there.
    """
    if tensor not in model.files:
        return 0
    info = model.tensors.file.info(tensor)
    lying = 0 if info.problem else model.tensors.file.stored_bytes(tensor)
    bits = re.search(r"\d+", info.dtype)
    return lying or info.count * int(bits[0] if bits else 32) // 8
