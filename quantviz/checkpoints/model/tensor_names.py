"""Place of a tensor in a model, from its name: layer, kind, expert; and the map of many by these places."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Last part of the names of a layer's values: the same for nearly all of them, so left out.
_VALUES = "weight"
#: Last parts of a stack's name that only mean "layers".
_LAYERS = frozenset(("layers", "layer", "blocks", "block", "h", "blk", "stages", "model", "transformer"))
_DIGITS = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True, order=True)
class TensorPlace:
    #: Parts before the layer's number, such as "model.layers"; "" where there is none.
    stack: str
    #: −1 for tensors of no layer, such as the embedding.
    layer: int
    #: Name inside its layer, such as "mlp.experts.down_proj".
    kind: str
    #: −1 for tensors of no expert.
    expert: int = -1


def place_of_name(name: str) -> TensorPlace:
    """Return the place of the tensor of that name.

    >>> place_of_name("model.layers.12.self_attn.q_proj.weight")
    TensorPlace(stack='model.layers', layer=12, kind='self_attn.q_proj', expert=-1)
    >>> place_of_name("model.layers.3.mlp.experts.7.down_proj.weight")
    TensorPlace(stack='model.layers', layer=3, kind='mlp.experts.down_proj', expert=7)
    >>> place_of_name("blk.0.attn_q.weight").kind, place_of_name("lm_head.weight").layer
    ('attn_q', -1)
    """
    parts = re.split(r"[./]", name)
    if len(parts) > 1 and parts[-1] == _VALUES:
        parts = parts[:-1]
    expert = next(
        (i for i in range(1, len(parts)) if _DIGITS.fullmatch(parts[i]) and "expert" in parts[i - 1].lower()),
        None,
    )
    number = next((i for i, part in enumerate(parts) if _DIGITS.fullmatch(part) and i != expert), None)
    if number is None or (len(parts) == number + 1 and number == 0):
        return TensorPlace("", -1, ".".join(parts))
    kind = [part for i, part in enumerate(parts) if i > number and i != expert]
    return TensorPlace(
        ".".join(parts[:number]),
        int(parts[number]),
        ".".join(kind) or _VALUES,
        int(parts[expert]) if expert is not None and expert > number else -1,
    )


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest last parts of each name that no other one ends with.

    >>> short_names(["self_attn.q_proj", "self_attn.k_proj", "attention.dense", "dense"])
    ('q_proj', 'k_proj', 'attention.dense', 'dense')
    """
    # Endings are numbered from the last part on, so that each takes one look however long it is.
    numbers: dict[tuple[int, str], int] = {}
    shared: Counter[int] = Counter()
    endings: dict[str, list[int]] = {}
    for name in names:
        if name in endings:
            continue
        ending = 0
        found = []
        for part in reversed(name.split(".")):
            ending = numbers.setdefault((ending, part), len(numbers) + 1)
            found.append(ending)
        shared.update(found)
        endings[name] = found
    short = {}
    for name, found in endings.items():
        alone = [shared[ending] == 1 for ending in found]
        count = alone.index(True) + 1 if True in alone else len(alone)
        short[name] = ".".join(name.split(".")[-count:])
    return tuple(short[name] for name in names)


def trimmed_names(names: Sequence[str]) -> Sequence[str]:
    """Return names without the parts that nearly all have, as long as they still differ.

    >>> trimmed_names(["model.layers.0.q_proj.weight", "lm_head.weight"])
    ['layers.0.q_proj', 'lm_head']
    """
    trimmed = [name.removesuffix(f".{_VALUES}").removeprefix("model.") for name in names]
    return trimmed if len(set(trimmed)) == len(names) else names


def short_stacks(stacks: Sequence[str]) -> tuple[str, ...]:
    """Return the labels before a layer's number: "" where there is one stack, else the parts of the stacks'
    names that differ.

    >>> short_stacks(["model.layers"]), short_stacks(["model.encoder.layers", "model.decoder.layers"])
    (('',), ('encoder', 'decoder'))
    """
    if len(stacks) < 2:
        return ("",) * len(stacks)
    stripped = []
    for stack in stacks:
        parts = stack.split(".")
        while len(parts) > 1 and parts[-1] in _LAYERS:
            parts.pop()
        stripped.append(".".join(parts))
    return short_names(stripped if len(set(stripped)) == len(stripped) else list(stacks))


@dataclass(frozen=True)
class KindMap:
    #: Numbers of a row: the layer, and of an expert its own after it.
    rows: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]
    tensors: Mapping[tuple[tuple[int, ...], str], str]
    others: tuple[str, ...]


def kind_map(tensors: Sequence[str]) -> KindMap:
    """Return the place of each tensor in the map; of two that stand in one place, the second is an other.

    >>> found = kind_map(["embed.weight", "model.layers.0.q.weight", "model.layers.1.q.weight"])
    >>> found.rows, found.kinds, found.others
    (((0,), (1,)), ('q',), ('embed.weight',))
    >>> kind_map(["blk.3.experts.7.up", "blk.3.experts.8.up", "blk.3.q"]).rows
    ((3,), (3, 7), (3, 8))
    """
    placed: dict[TensorPlace, str] = {}
    others = []
    for name in tensors:
        place = place_of_name(name)
        if place.layer < 0 or place in placed:
            others.append(name)
        else:
            placed[place] = name
    stacks = tuple(dict.fromkeys(place.stack for place in placed))
    before = dict(zip(stacks, short_stacks(stacks), strict=True))
    kinds = tuple(dict.fromkeys(f"{before[place.stack]}.{place.kind}".lstrip(".") for place in placed))
    short = dict(zip(kinds, short_names(kinds), strict=True))

    def at(place: TensorPlace) -> tuple[tuple[int, ...], str]:
        numbers = (place.layer,) if place.expert < 0 else (place.layer, place.expert)
        return numbers, short[f"{before[place.stack]}.{place.kind}".lstrip(".")]

    return KindMap(
        rows=tuple(sorted({at(place)[0] for place in placed})),
        kinds=tuple(short.values()),
        tensors={at(place): name for place, name in placed.items()},
        others=tuple(others),
    )
