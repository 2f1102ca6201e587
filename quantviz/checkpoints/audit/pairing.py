"""Each tensor of a quantized checkpoint with its partner in the original, and how it was found.

Names are the same, or llama.cpp's for the other's, or have the same ends; experts in one tensor are those one
by one; matrices that one of the two has as one (query, key and value; gate and up) are parts of it. The rest
is searched for reasons why it needs no partner.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import xxhash

from quantviz.checkpoints.audit.by_graph import is_of_inputs, matched_by_graph, modules_of
from quantviz.checkpoints.audit.matching import TOGETHER, FusedPart, Match, matched_by_ends, places_of
from quantviz.checkpoints.audit.originals import tensor_of
from quantviz.checkpoints.model.gguf_names import OtherNames
from quantviz.checkpoints.model.items import ModelItem
from quantviz.checkpoints.model.layer_names import NAMES
from quantviz.checkpoints.model.opening import OpenModel
from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.file_data import clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.mapped import Raw, ends_of, same_bytes
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.layouts import OF_INPUTS

#: Buffers that a model computes from its configuration: kept in some files and not in others.
_COMPUTED = re.compile(
    r"(.*\.)?(rotary_emb\.(inv_freq|original_inv_freq)|rope_freqs\.weight|rope_factors_(long|short)\.weight"
    r"|masked_bias|attn\.bias|position_ids|num_batches_tracked)",
    re.ASCII,
)
#: Tensors that a quantizer adds for inputs and caches, or as the mark of a file.
_OF_QUANTIZER = re.compile(
    r"(.*[._])?((input|output|activation|act|k|v|kv|q|prob)_?(scale|zero_point|amax)s?(_inv)?|scaled_fp8)",
    re.ASCII,
)
_TIED = "tie_word_embeddings"
#: Last parts of the names of an output layer, and of its embedding.
_HEADS, _EMBEDDINGS = (frozenset(NAMES["modules"][key]) for key in ("heads", "embeddings"))
#: Most tensors with the same bytes at both ends that are compared as a whole.
_MOST_TWINS = 4
_NO_WEIGHTS = ("whole", "training")
#: Most elements of a tensor that is checked for being all zero.
_SMALL = 2**20


@dataclass(frozen=True, eq=False)
class TensorPair:
    item: ModelItem | None
    partner: ModelItem | None
    match: Match | None = None
    #: Reason why it needs no partner.
    aside: Note | None = None
    #: All of its partners, in order, where it holds several tensors of the original.
    joined: tuple[ModelItem, ...] = ()

    @property
    def partners(self) -> tuple[ModelItem, ...]:
        return self.joined or ((self.partner,) if self.partner else ())


def pairs_of(
    quantized: OpenModel, original: OpenModel, items: Sequence[ModelItem], others: Sequence[ModelItem]
) -> tuple[TensorPair, ...]:
    """Return each tensor of the quantized model, one of `items`, with its partner, then the rest of
    `others`.
    """
    return _Pairing(quantized, original, items, others).pairs()


class _Pairing:
    def __init__(
        self,
        quantized: OpenModel,
        original: OpenModel,
        items: Sequence[ModelItem],
        others: Sequence[ModelItem],
    ) -> None:
        self._quantized = quantized
        self._original = original
        self._items = list(items)
        self._there = {item.name: item for item in others if item.kind != "whole"}
        self._found: dict[str, Match] = {}
        #: Taken names of the original, a stack's as those of its experts.
        self._taken = set[str]()
        #: The remaining shape of a matrix of which some parts have a partner.
        self._remainder: dict[str, Shape] = {}
        #: PyTorch names of an ONNX model's weights, by the nodes that use them.
        self._modules: Mapping[str, str] = {}

    def pairs(self) -> tuple[TensorPair, ...]:
        self._by_graph()
        self._by_name()
        self._by_converter()
        self._by_ends()
        self._as_parts()
        self._as_wholes()
        self._by_tie()
        pairs = []
        matched = _Twins(self._quantized, (item for item in self._items if item.name in self._found))
        for item in self._items:
            match = self._found.get(item.name)
            if match is not None:
                joined = tuple(map(self._partner, match.joined))
                pairs.append(TensorPair(item, self._partner(match.original), match, joined=joined))
            elif item.kind == "whole":
                pairs.append(TensorPair(item, None, None, Note.of("audit.aside.whole", dtype=item.dtype)))
            else:
                pairs.append(TensorPair(item, None, None, self._reason(matched, item)))
        twins = _Twins(self._original, (item for name, item in self._there.items() if name in self._taken))
        rest = [TensorPair(None, item, None, self._reason(twins, item)) for item in self._rest()]
        return (*pairs, *rest)

    def _partner(self, name: str) -> ModelItem:
        tensor, expert = tensor_of(self._there, name)
        item = self._there[tensor]
        return item if expert is None else replace(item, name=name, shape=item.shape[1:])

    def _take(self, name: str, match: Match) -> None:
        self._found[name] = match
        self._taken.update(match.joined or (match.original,))

    def _by_graph(self) -> None:
        """Find partners by the nodes of ONNX models; beside another format nodes give more names."""
        file = self._quantized.tensors.file
        other = self._original.tensors.file
        if not isinstance(file, OnnxCatalog):
            return
        if not isinstance(other, OnnxCatalog):
            self._modules = modules_of(file.graph, self._items)
            return
        for name, partner in matched_by_graph(
            file.graph, self._items, other.graph, self._there.values()
        ).items():
            self._take(name, Match(partner, "name" if partner == name else "graph"))

    def _by_name(self) -> None:
        by_graph = frozenset(self._taken)
        for item in self._items:
            if item.kind == "training" or item.name in self._found:
                continue
            for name in self._names(item):
                if name not in by_graph and self._is_there(name):
                    is_module = name == self._modules.get(item.name) != item.name
                    self._take(item.name, Match(name, "graph" if is_module else "name"))
                    break

    def _names(self, item: ModelItem) -> Iterator[str]:
        yield from _names(item)
        if item.name in self._modules:
            yield self._modules[item.name]

    def _is_there(self, name: str) -> bool:
        tensor, expert = tensor_of(self._there, name)
        if tensor not in self._there:
            return False
        shape = self._there[tensor].shape
        return expert is None or (len(shape) == 3 and expert < shape[0])

    def _by_converter(self) -> None:
        of_gguf = isinstance(self._quantized.tensors.file, GgufCatalog)
        if of_gguf:
            free = self._free()
            others = OtherNames(tuple(free))
            for item in self._left():
                name = others.of(item.name)
                if name is not None and not _holds_more(item, name, free[name]):
                    self._take(item.name, Match(name, "converter"))
        elif isinstance(self._original.tensors.file, GgufCatalog):
            other_names = OtherNames(tuple(item.name for item in self._left()))
            for name in self._free():
                here = other_names.of(name)
                if here is not None and here not in self._found:
                    self._take(here, Match(name, "converter"))

    def _by_ends(self) -> None:
        here: dict[str, Shape | None] = {}
        alias: dict[str, str] = {}
        for item in self._left():
            for name in self._names(item):
                here[name] = None if item.kind == "unread" else item.shape
                alias[name] = item.name
        same = [(name, match.original) for name, match in self._found.items() if match.how == "name"]
        for name, match in matched_by_ends(here, self._free(), same).items():
            if alias[name] not in self._found:
                self._take(alias[name], match)

    def _as_parts(self) -> None:
        """Find tensors in a matrix that the original has of several: q in one of q, k and v."""
        parts: dict[str, dict[int, ModelItem]] = {}
        counts: dict[str, int] = {}
        for item in self._left():
            for place in places_of(item.name):
                if place.number is not None:
                    parts.setdefault(place.key, {}).setdefault(place.number, item)
                    counts[place.key] = place.of
        free = self._free()
        wholes = {place.key: name for name in free for place in places_of(name) if place.number is None}
        if not parts or not wholes:
            return
        for key, match in self._alike(parts, wholes, free, is_one=True).items():
            siblings = {n: item for n, item in parts[key].items() if item.name not in self._found}
            if not siblings or match.original in self._taken:
                continue
            sizes = _sizes(siblings, counts[key], free[match.original])
            for number, item in siblings.items():
                self._take(item.name, replace(match, part=FusedPart(number, sizes)))
            lacking = sum(sizes[n] for n in range(counts[key]) if n not in siblings) if sizes else 0
            if lacking:
                self._remainder[match.original] = (lacking, *siblings[min(siblings)].shape[1:])

    def _as_wholes(self) -> None:
        wholes: dict[str, ModelItem] = {}
        for item in self._left():
            for place in places_of(item.name):
                if place.number is None:
                    wholes.setdefault(place.key, item)
        parts: dict[str, dict[int, str]] = {}
        counts: dict[str, int] = {}
        free = self._free() if wholes else {}
        for name in free:
            for place in places_of(name):
                if place.number is not None:
                    parts.setdefault(place.key, {}).setdefault(place.number, name)
                    counts[place.key] = place.of
        complete = {key: items for key, items in parts.items() if len(items) == counts[key]}
        for key, match in self._alike(wholes, complete, free, is_one=False).items():
            names = tuple(complete[match.original][n] for n in range(counts[match.original]))
            if wholes[key].name not in self._found and not self._taken.intersection(names):
                self._take(wholes[key].name, replace(match, original=names[0], joined=names))

    def _by_tie(self) -> None:
        """Find the original of a head where the original's head is its embedding."""
        heads = [item for item in self._left() if any(_last(alias) in _HEADS for alias in _names(item))]
        if not heads or not _ties(self._original):
            return
        for item in heads:
            embeddings = [
                name
                for name, other in self._there.items()
                if _last(name) in _EMBEDDINGS and item.shape in ((), other.shape) and other.kind != "unread"
            ]
            if len(embeddings) == 1:
                self._take(item.name, Match(embeddings[0], "tied"))

    def _alike(
        self,
        here: Collection[str],
        there: Mapping[str, object],
        free: Mapping[str, Shape | None],
        *,
        is_one: bool,
    ) -> dict[str, Match]:
        """Return the matches of keys: by the original's name where that is one tensor, else by its key."""

        def named(key: str) -> str:
            return str(there[key]) if is_one else key

        matches = {key: Match(named(key), "name") for key in here if key in there}
        if isinstance(self._quantized.tensors.file, GgufCatalog):
            others = OtherNames(tuple(free))
            for key in here:
                names = [others.of(name) for name in _of_converter(key, is_one=is_one)]
                if not names or not all(names) or key in matches:
                    continue
                if is_one:
                    matches[key] = Match(str(names[0]), "converter")
                else:
                    whole_key = next(
                        (place.key for place in places_of(str(names[0])) if place.key in there), None
                    )
                    if whole_key is not None:
                        matches[key] = Match(whole_key, "converter")
        same = [(name, match.original) for name, match in self._found.items() if match.how == "name"]
        left = dict.fromkeys((key for key in here if key not in matches), None)
        by_ends = matched_by_ends(left, dict.fromkeys(there, None), same)
        return matches | {
            key: replace(match, original=named(match.original)) for key, match in by_ends.items()
        }

    def _left(self) -> Iterator[ModelItem]:
        return (item for item in self._items if item.name not in self._found and item.kind not in _NO_WEIGHTS)

    def _free(self) -> dict[str, Shape | None]:
        """Return the untaken names of the original with their shapes, each expert of a stack by itself."""
        shapes: dict[str, Shape | None] = {}
        for name, item in self._there.items():
            if item.kind == "training":
                continue
            if item.kind == "plain" and len(item.shape) == 3 and name not in self._taken:
                experts = {f"{name}[{k}]": item.shape[1:] for k in range(item.shape[0])}
                shapes |= {expert: shape for expert, shape in experts.items() if expert not in self._taken}
            if name not in self._taken:
                shapes[name] = None if item.kind == "unread" else item.shape
        return shapes

    def _rest(self) -> Iterator[ModelItem]:
        """Yield the unpaired tensors of the original; of a stack in part paired, the other experts."""
        for name, item in self._there.items():
            if name in self._remainder:
                yield replace(item, shape=self._remainder[name])
            if name in self._taken:
                continue
            experts = [f"{name}[{k}]" for k in range(item.shape[0])] if len(item.shape) == 3 else []
            if not any(expert in self._taken for expert in experts):
                yield item
                continue
            for expert in experts:
                if expert in self._remainder:
                    yield replace(item, name=expert, shape=self._remainder[expert])
                elif expert not in self._taken:
                    yield replace(item, name=expert, shape=item.shape[1:])

    def _reason(self, others: _Twins, item: ModelItem) -> Note | None:
        """Return the reason why a tensor needs no partner, or None. `others` are those with partners."""
        model = others.model
        if item.kind in ("inputs", "training"):
            return Note.of(f"audit.aside.{item.kind}")
        if _COMPUTED.fullmatch(item.name):
            return Note.of("audit.aside.computed")
        if item.kind == "plain" and not item.is_weight:
            last = item.name.rpartition(".")[2]
            file = model.tensors.file
            by_node = isinstance(file, OnnxCatalog) and is_of_inputs(file.graph, item)
            if by_node or _OF_QUANTIZER.fullmatch(item.name) or last in OF_INPUTS:
                return Note.of("audit.aside.quantizer")
            if model is self._quantized and item.name.endswith("bias") and _is_zero(model, item):
                return Note.of("audit.aside.zero")
        twin = others.of(item)
        return Note.of("audit.aside.tied", other=clipped(twin)) if twin else None


def _last(name: str) -> str:
    head, _, attribute = name.rpartition(".")
    return head.rpartition(".")[2] if attribute == "weight" else ""


def _ties(model: OpenModel) -> bool:
    """Return whether a model without a head uses its embedding. transformers writes the key only where it
    differs from the default, which is true; llama.cpp does so always.
    """
    if isinstance(model.tensors.file, GgufCatalog):
        return True
    try:
        config = model.tensors.file.json_beside("config.json")
    except QuantVizError:
        return False
    if not isinstance(config, dict):
        return False
    nested = config.get("text_config")
    of_text = nested if isinstance(nested, dict) else {}
    return bool(of_text.get(_TIED, config.get(_TIED, True)))


def _holds_more(item: ModelItem, name: str, shape: Shape | None) -> bool:
    is_one = any(place.number is None for place in places_of(name))
    return is_one and item.kind != "unread" and shape is not None and math.prod(shape) > item.elements


def _of_converter(key: str, *, is_one: bool) -> tuple[str, ...]:
    """Return llama.cpp's names of the matrix that a key stands for, or of those that it holds."""
    found = (mark for mark, together in TOGETHER.items() if together.kind and f".{mark}." in key)
    if (mark := next(found, None)) is None:
        return ()
    kinds = [TOGETHER[mark].kind] if is_one else TOGETHER[mark].kinds
    return tuple(key.replace(f".{mark}.", f".{kind}.") for kind in kinds)


def _sizes(parts: Mapping[int, ModelItem], count: int, whole: Shape | None) -> tuple[int, ...]:
    """Return the row counts of the matrices in one, a missing one with the rest; () if undetermined."""
    sizes = {number: item.shape[0] for number, item in parts.items() if item.kind != "unread" and item.shape}
    if len(sizes) == count:
        return tuple(sizes[number] for number in range(count))
    if not sizes or whole is None:
        return ()
    inputs = parts[min(sizes)].shape[1:]
    total = next((whole[at] for at in (0, -1) if (*whole[:at], *whole[at:][1:]) == inputs), 0)
    rest = total - sum(sizes.values())
    missing = count - len(sizes)
    if rest <= 0 or rest % missing or (missing > 1 and len({*sizes.values(), rest // missing}) > 1):
        return ()
    return tuple(sizes.get(number, rest // missing) for number in range(count))


def _names(item: ModelItem) -> Iterator[str]:
    """Yield the names that a tensor's partner may have: of codes in an unknown layout that of the weight."""
    yield item.name
    if item.kind != "unread":
        return
    head, _, last = item.name.rpartition(".")
    if last != "weight" and head:
        yield f"{head}.weight"
    stem = last.rpartition("_")[0]
    if stem:
        yield f"{head}.{stem}" if head else stem


def _is_zero(model: OpenModel, item: ModelItem) -> bool:
    if item.elements > _SMALL:
        return False
    try:
        return not bool(model.tensors.read(item.name).tensor.any())
    except QuantVizError:
        return False


class _Twins:
    def __init__(self, model: OpenModel, items: Iterable[ModelItem]) -> None:
        self.model = model
        self._of_shape: dict[tuple[str, Shape], list[str]] = {}
        for item in items:
            if item.kind == "plain":
                self._of_shape.setdefault((item.dtype, item.shape), []).append(item.name)
        self._by_ends: dict[tuple[str, Shape], dict[bytes, list[str]]] = {}

    def of(self, item: ModelItem) -> str | None:
        alike = (item.dtype, item.shape)
        content = None
        if item.kind == "plain" and item.is_weight and alike in self._of_shape:
            content = self.model.tensors.file.raw(item.name)
        if content is None:
            return None
        if alike not in self._by_ends:
            self._by_ends[alike] = self._sorted(self._of_shape[alike])
        # Few have both ends in common and differ between them.
        for name in self._by_ends[alike].get(_digest(content), ())[:_MOST_TWINS]:
            raw = self.model.tensors.file.raw(name)
            if raw is not None and same_bytes(content, raw):
                return name
        return None

    def _sorted(self, names: Iterable[str]) -> dict[bytes, list[str]]:
        by_digest: dict[bytes, list[str]] = {}
        for name in names:
            raw = self.model.tensors.file.raw(name)
            if raw is not None:
                by_digest.setdefault(_digest(raw), []).append(name)
        return by_digest


def _digest(raw: Raw) -> bytes:
    return xxhash.xxh3_128_digest(ends_of(raw))
