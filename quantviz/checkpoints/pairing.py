"""Each tensor of a quantized checkpoint with its partner in the original, and how it was found.

Names are the same, or llama.cpp's for the other's, or have the same ends; experts in one tensor are those one
by one; gate and up in one matrix are its halves. What is left is looked at for reasons why it needs no
partner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from quantviz.checkpoints.gguf_names import OtherNames
from quantviz.checkpoints.items import Item
from quantviz.checkpoints.matching import FUSED, Match, matched_by_ends
from quantviz.checkpoints.opening import OpenModel
from quantviz.checkpoints.originals import tensor_of
from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.file_data import clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.mapped import same_bytes

#: Buffers that a model computes from its configuration: kept in some files and not in others.
_COMPUTED = re.compile(
    r"(.*\.)?(rotary_emb\.(inv_freq|original_inv_freq)|rope_freqs\.weight|rope_factors_(long|short)\.weight"
    r"|masked_bias|attn\.bias|position_ids|num_batches_tracked)",
    re.ASCII,
)
#: What a quantizer adds for inputs and caches: no tensor of the original.
_OF_QUANTIZER = re.compile(
    r"(.*[._])?(input|output|activation|act|k|v|kv|q|prob)_?(scale|zero_point|amax)s?(_inv)?", re.ASCII
)
#: Elements of a tensor that are looked at, to see whether it is all zero.
_SMALL = 2**20


@dataclass(frozen=True, eq=False)
class Pair:
    """A tensor of the quantized file and its partner in the original; none where there is none on a side."""

    item: Item | None
    partner: Item | None
    match: Match | None = None
    #: Why it needs no partner.
    aside: Note | None = None


def pairs_of(
    quantized: OpenModel, original: OpenModel, items: Sequence[Item], others: Sequence[Item]
) -> tuple[Pair, ...]:
    """Return each tensor of the quantized model with its partner, then what is left of the original.

    Args:
        quantized: The quantized model.
        original: The original.
        items: The tensors of the first.
        others: Those of the other.
    """
    return _Pairing(quantized, original, items, others).pairs()


class _Pairing:
    def __init__(
        self, quantized: OpenModel, original: OpenModel, items: Sequence[Item], others: Sequence[Item]
    ) -> None:
        self._quantized, self._original = quantized, original
        self._items = list(items)
        self._there = {item.name: item for item in others if item.kind != "whole"}
        self._found: dict[str, Match] = {}
        #: Names of the original that are taken, a stack's as those of its experts.
        self._taken = set[str]()

    def pairs(self) -> tuple[Pair, ...]:
        """Return all pairs."""
        self._by_name()
        self._by_converter()
        self._by_ends()
        self._by_halves()
        pairs = []
        matched = [item for item in self._items if item.name in self._found]
        for item in self._items:
            match = self._found.get(item.name)
            if match is not None:
                pairs.append(Pair(item, self._partner(match), match))
            elif item.kind == "whole":
                pairs.append(Pair(item, None, None, Note.of("audit.aside.whole", dtype=item.dtype)))
            else:
                pairs.append(Pair(item, None, None, self._reason(self._quantized, item, matched)))
        known = [item for name, item in self._there.items() if name in self._taken]
        rest = [Pair(None, item, None, self._reason(self._original, item, known)) for item in self._rest()]
        return (*pairs, *rest)

    def _partner(self, match: Match) -> Item:
        tensor, expert = tensor_of(self._there, match.original)
        item = self._there[tensor]
        return item if expert is None else replace(item, name=match.original, shape=item.shape[1:])

    def _take(self, name: str, match: Match) -> None:
        self._found[name] = match
        self._taken.add(match.original)

    def _by_name(self) -> None:
        for item in self._items:
            name = next((each for each in _names(item) if self._is_there(each)), None)
            if name is not None:
                self._take(item.name, Match(name, "name"))

    def _is_there(self, name: str) -> bool:
        tensor, expert = tensor_of(self._there, name)
        if tensor not in self._there:
            return False
        shape = self._there[tensor].shape
        return expert is None or (len(shape) == 3 and expert < shape[0])

    def _by_converter(self) -> None:
        """Find llama.cpp's names, whichever of the two has them."""
        of_gguf = isinstance(self._quantized.tensors.file, GgufCatalog)
        if of_gguf:
            others = OtherNames(tuple(self._free()))
            for item in self._left():
                name = others.of(item.name)
                if name is not None:
                    self._take(item.name, Match(name, "converter"))
        elif isinstance(self._original.tensors.file, GgufCatalog):
            own = OtherNames(tuple(item.name for item in self._left()))
            for name in self._free():
                here = own.of(name)
                if here is not None and here not in self._found:
                    self._take(here, Match(name, "converter"))

    def _by_ends(self) -> None:
        here: dict[str, Shape | None] = {}
        alias: dict[str, str] = {}
        for item in self._left():
            for name in _names(item):
                here[name] = None if item.kind == "unread" else item.shape
                alias[name] = item.name
        same = [(name, match.original) for name, match in self._found.items() if match.how == "name"]
        for name, match in matched_by_ends(here, self._free(), same).items():
            if alias[name] not in self._found:
                self._take(alias[name], match)

    def _by_halves(self) -> None:
        """Find gate and up of an expert in the one matrix that the original has of both."""
        here: dict[str, Shape | None] = {}
        halves: dict[str, list[tuple[str, int]]] = {}
        for item in self._left():
            for whole, parts in FUSED.items():
                for number, part in enumerate(parts):
                    pieces = re.split(r"(?<=[.])", item.name)
                    places = [at for at, piece in enumerate(pieces) if piece.rstrip(".") == part]
                    if not places:
                        continue
                    pieces[places[-1]] = pieces[places[-1]].replace(part, whole)
                    name = "".join(pieces)
                    here[name] = None
                    halves.setdefault(name, []).append((item.name, number))
        same = [(name, match.original) for name, match in self._found.items() if match.how == "name"]
        there = self._free()
        exact = {name: Match(name, "name") for name in here if name in there}
        rest = {name: shape for name, shape in here.items() if name not in exact}
        for name, match in (exact | matched_by_ends(rest, there, same)).items():
            for own, number in halves[name]:
                self._take(own, replace(match, fused=(number, 2)))

    def _left(self) -> Iterator[Item]:
        return (item for item in self._items if item.name not in self._found and item.kind != "whole")

    def _free(self) -> dict[str, Shape | None]:
        """Return the names of the original that are not taken, each expert of a stack by its own, with their
        shapes.
        """
        found: dict[str, Shape | None] = {}
        for name, item in self._there.items():
            if item.kind == "plain" and len(item.shape) == 3 and name not in self._taken:
                experts = {f"{name}[{k}]": item.shape[1:] for k in range(item.shape[0])}
                found |= {each: shape for each, shape in experts.items() if each not in self._taken}
            if name not in self._taken:
                found[name] = None if item.kind == "unread" else item.shape
        return found

    def _rest(self) -> Iterator[Item]:
        """Yield what is left of the original; of a stack of which some experts are taken the others."""
        for name, item in self._there.items():
            if name in self._taken:
                continue
            experts = [f"{name}[{k}]" for k in range(item.shape[0])] if len(item.shape) == 3 else []
            if not any(each in self._taken for each in experts):
                yield item
                continue
            for each in experts:
                if each not in self._taken:
                    yield replace(item, name=each, shape=item.shape[1:])

    def _reason(self, model: OpenModel, item: Item, others: Sequence[Item]) -> Note | None:
        """Return why a tensor needs no partner; none where it should have one. `others` have theirs."""
        if _COMPUTED.fullmatch(item.name):
            return Note.of("audit.aside.computed")
        if item.kind == "plain" and not item.is_weight and model is self._quantized:
            if _OF_QUANTIZER.fullmatch(item.name):
                return Note.of("audit.aside.quantizer")
            if item.name.endswith("bias") and _is_zero(model, item):
                return Note.of("audit.aside.zero")
        twin = _twin(model, item, others)
        return Note.of("audit.aside.tied", other=clipped(twin)) if twin else None


def _names(item: Item) -> Iterator[str]:
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


def _is_zero(model: OpenModel, item: Item) -> bool:
    if item.elements > _SMALL:
        return False
    try:
        return not bool(model.tensors.read(item.name).tensor.any())
    except QuantVizError:
        return False


def _twin(model: OpenModel, item: Item, others: Iterable[Item]) -> str | None:
    """Return another tensor of the model that has the same bytes, as tied embeddings do."""
    if item.kind != "plain" or not item.is_weight:
        return None
    own = None
    for other in others:
        if (other.kind, other.dtype, other.shape) != ("plain", item.dtype, item.shape):
            continue
        own = own or model.tensors.file.raw(item.name)
        raw = model.tensors.file.raw(other.name)
        if own is not None and raw is not None and same_bytes(own, raw):
            return other.name
    return None
