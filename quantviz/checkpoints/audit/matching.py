"""Matching of the tensors of two checkpoints whose names differ.

Names that differ only in their beginning, or in parts that only one of the two lists has, are matched by
their longest common ends: a trainer's wrappers (`module.`, `_orig_mod.`), a model within a model
(`language_model.`) and an adapter's (`base_model.model.`) need not be known. A pair counts where most names
of its part of the model are matched in the same way: a missing tensor gets no other one's partner. Experts in
one tensor and experts one by one are matched by their numbers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quantviz.checkpoints.model.layer_names import NAMES
from quantviz.schemes.granularity import Shape

#: Most parts of a name's end that are compared, and most names with one end and one shape: of more nothing
#: tells which is meant.
_MOST_PARTS = 64
_MOST_ALIKE = 64
_PLAIN_ENDS = frozenset(("weight", "bias"))
#: The number of an expert in a tensor that holds all of them, as it ends a name.
_OF_STACK = re.compile(r"(.*)\[(\d{1,9})\]", re.ASCII | re.DOTALL)


class Together(NamedTuple):
    """Names of matrices that some files have as one."""

    wholes: Sequence[str]
    #: In the order in which they lie in the whole.
    parts: Sequence[Sequence[str]]
    #: llama.cpp's kind of the joined tensor, and of its parts, if any.
    kind: str = ""
    kinds: Sequence[str] = ()


#: Query, key and value, key and value, gate and up, and DeepSeek's two first projections.
TOGETHER = {mark: Together(**names) for mark, names in NAMES["together"].items()}
#: A part of a name up to a dot, or before the suffix of PyTorch's attention: `in_proj_weight`.
_WORD = re.compile(r"(?<![^./])([^./\[\]]+?)(?:(?=[./\[])|$|_(?=(?:weight|bias)$))")


class FusedPosition(NamedTuple):
    """Position of a tensor among matrices that some files store as one."""

    #: The name of the whole and of its parts, with a mark for the matrices.
    key: str
    #: Its number among the parts, and their count; None for the whole.
    number: int | None
    of: int


def places_of(name: str) -> Iterator[FusedPosition]:
    """Yield the possible positions of a tensor, by its name, among matrices that some files store as one.

    >>> [(place.key, place.number) for place in places_of("layers.0.attn.v_proj.weight")]
    [('layers.0.attn.q+k+v.weight', 2), ('layers.0.attn.k+v.weight', 1)]
    >>> [(place.key, place.number) for place in places_of("attn.in_proj_weight")]
    [('attn.q+k+v.weight', None)]
    """
    for match in _WORD.finditer(name):
        before = name[: match.start()]
        word = match[1]
        after = name[match.end() :]
        dot = "." if match[0].endswith("_") else ""
        for mark, together in TOGETHER.items():
            key = f"{before}{mark}{dot}{after}"
            siblings = next((parts for parts in together.parts if word in parts), None)
            if siblings is not None:
                yield FusedPosition(key, siblings.index(word), len(siblings))
            elif word in together.wholes:
                yield FusedPosition(key, None, len(together.parts[0]))


#: First parts of the names of a pair, in one list and in the other.
Rule = tuple[tuple[str, ...], tuple[str, ...]]
_SAME: Rule = ((), ())


class NameParts(NamedTuple):
    #: Without the parts that only announce an expert's number.
    parts: tuple[str, ...]
    expert: str = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*(part for part in self.parts if part.isdigit()), *((self.expert,) if self.expert else ()))


class FusedPart(NamedTuple):
    number: int
    #: The rows of each; () if unknown.
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Match:
    original: str
    #: "name", "ends", "converter" (by llama.cpp's names), "graph" (by an ONNX model's nodes) or "tied" (a
    #: head by the embedding).
    how: str
    #: First parts of the names where ends were matched, and the parts in them that only one list has.
    here: str = ""
    there: str = ""
    inside: tuple[str, ...] = ()
    #: Its place in a matrix of the original that holds several.
    part: FusedPart | None = None
    #: All tensors of the original that it holds, in order, `original` first; () where that is all.
    joined: tuple[str, ...] = ()


def parts_of(name: str) -> NameParts:
    """Return the parts of a name, the number of an expert apart from them.

    >>> parts_of("mlp.experts.3.up_proj.weight")
    NameParts(parts=('mlp', 'up_proj'), expert='3')
    >>> parts_of("mlp.experts.up_proj[3]") == parts_of("mlp.experts.3.up_proj.weight")
    True
    >>> parts_of("layers.3.norm.weight")
    NameParts(parts=('layers', '3', 'norm', 'weight'), expert='')
    """
    stacked = _OF_STACK.fullmatch(name)
    parts = re.split(r"[./]", stacked[1] if stacked else name)
    number = stacked[2] if stacked else ""
    if not number:
        at = next(
            (i for i in range(1, len(parts)) if parts[i].isdigit() and "expert" in parts[i - 1].lower()), None
        )
        if at is None:
            return NameParts(tuple(parts))
        number = parts.pop(at)
    if parts[-1] == "weight" and len(parts) > 1:
        parts.pop()
    return NameParts(tuple(part for part in parts if "expert" not in part.lower()), number)


def matched_by_ends(
    here: Mapping[str, Shape | None], there: Mapping[str, Shape | None], pairs: Iterable[tuple[str, str]] = ()
) -> dict[str, Match]:
    """Return the partners of names in one list among those in another, each name with its shape, or None if
    unknown.

    `pairs` are matched already: they count in the most common beginning of names in a part of the model.

    >>> there = {f"module._orig_mod.{name}": (8, 8) for name in ("a.x.weight", "a.y.weight")}
    >>> found = matched_by_ends({"a.x.weight": (8, 8), "a.z.weight": (8, 8)}, there)
    >>> found["a.x.weight"].original, found["a.x.weight"].there, len(found)
    ('module._orig_mod.a.x.weight', 'module._orig_mod', 1)
    """
    return _SuffixMatcher(here, there, tuple(pairs)).matches()


class _Candidate(NamedTuple):
    here: str
    there: str
    rule: Rule
    #: The common end, and parts inside of it that one of them alone has.
    end: tuple[str, ...]
    inside: tuple[str, ...]


class _SuffixMatcher:
    def __init__(
        self,
        here: Mapping[str, Shape | None],
        there: Mapping[str, Shape | None],
        pairs: tuple[tuple[str, str], ...],
    ) -> None:
        self._here = here
        self._there = there
        self._pairs = pairs
        known = {name: parts_of(name) for pair in pairs for name in pair}
        self._of_here = {name: parts_of(name) for name in here}
        self._of_there = {name: parts_of(name) for name in there}
        own = [known[one] for one, _ in pairs] + list(self._of_here.values())
        others = [known[other] for _, other in pairs] + list(self._of_there.values())
        #: Parts that either list has anywhere.
        self._in_here = {part for parts in own for part in parts.parts}
        self._in_there = {part for parts in others for part in parts.parts}

    def matches(self) -> dict[str, Match]:
        candidates = list(self._candidates())
        votes = Counter(candidate.rule for candidate in candidates)
        votes[_SAME] += sum(1 for one, other in self._pairs if one == other)
        leading = self._leading(candidates, votes)
        sound = [candidate for candidate in candidates if leading(candidate)]
        chosen = _best(sound, votes, lambda candidate: candidate.here)
        chosen = _best(chosen, votes, lambda candidate: candidate.there)
        return {
            candidate.here: Match(
                candidate.there,
                "ends",
                ".".join(candidate.rule[0]),
                ".".join(candidate.rule[1]),
                tuple(candidate.inside),
            )
            for candidate in chosen
        }

    def _candidates(self) -> Iterator[_Candidate]:
        by_end: dict[tuple[tuple[str, ...], str], dict[Shape | None, list[str]]] = {}
        for name, parts in self._of_there.items():
            shape = _either_way(self._there[name])
            for end in _ends(_kept(parts, self._in_here)):
                by_end.setdefault((end, parts.expert), {}).setdefault(shape, []).append(name)
        ranks = {name: rank for rank, name in enumerate(self._there)}
        for name, parts in self._of_here.items():
            shape = _either_way(self._here[name])
            for end in _ends(_kept(parts, self._in_there)):
                if not set(end) - _PLAIN_ENDS:
                    break
                by_shape = by_end.get((end, parts.expert), {})
                alike = by_shape if shape is None else (shape, None)
                others = [other for shape in alike for other in by_shape.get(shape, ())]
                if len(others) > _MOST_ALIKE:
                    break
                candidates = [
                    candidate
                    for other in sorted(others, key=ranks.__getitem__)
                    if (candidate := self._candidate(name, other, len(end))) is not None
                ]
                yield from candidates
                if candidates:
                    break

    def _candidate(self, name: str, other: str, length: int) -> _Candidate | None:
        """Return two names as a pair; None where they cannot be one tensor."""
        here = self._of_here[name]
        there = self._of_there[other]
        if not _alike(self._here[name], self._there[other]):
            return None
        own = _kept(here, self._in_there)[-length:]
        others = _kept(there, self._in_here)[-length:]
        # Parts before one that only one of the names has count as their beginning, up to the layers.
        begin = 0
        inside = dict[int, tuple[str, ...]]()
        layer = next((at for at, (_, part) in enumerate(own) if part.isdigit()), length)
        for at, (of_own, of_other) in enumerate(zip(_gaps(here, own), _gaps(there, others), strict=True)):
            # One part replaces another, or the ends differ: no evidence for the same tensor.
            if (of_own and of_other) or ((of_own or of_other) and at + 1 == length):
                return None
            if of_own or of_other:
                inside[at] = (*of_own, *of_other)
                begin = at + 1 if at + 1 < min(layer, length) else begin
        lead = here.parts[: own[begin][0]], there.parts[: others[begin][0]]
        if any(map(str.isdigit, lead[0])) and any(map(str.isdigit, lead[1])):
            return None
        rest = tuple(part for at, gap in inside.items() if at >= begin for part in gap)
        if any(map(str.isdigit, rest)):
            return None
        return _Candidate(name, other, lead, tuple(part for _, part in own[begin:]), rest)

    def _leading(
        self, candidates: Sequence[_Candidate], votes: Mapping[Rule, int]
    ) -> Callable[[_Candidate], bool]:
        """Return the test whether a pair follows the main rule of its part of the model, on both sides."""
        most: dict[tuple[int, tuple[str, ...]], Rule] = {}

        def note(side: int, place: tuple[str, ...], rule: Rule) -> None:
            if (side, place) not in most or votes[rule] > votes[most[side, place]]:
                most[side, place] = rule

        for one, other in self._pairs:
            if one == other:
                for place in _places((), parts_of(one).parts):
                    note(0, place, _SAME)
                    note(1, place, _SAME)
        for candidate in candidates:
            for side in (0, 1):
                for place in _places(candidate.rule[side], candidate.end):
                    note(side, place, candidate.rule)

        def is_leading(candidate: _Candidate) -> bool:
            return all(
                most[side, (*candidate.rule[side], candidate.end[0])] == candidate.rule for side in (0, 1)
            )

        return is_leading


def _kept(parts: NameParts, others: set[str]) -> list[tuple[int, str]]:
    return [(at, part) for at, part in enumerate(parts.parts) if part in others]


def _ends(kept: Sequence[tuple[int, str]]) -> Iterator[tuple[str, ...]]:
    last = tuple(part for _, part in kept[-_MOST_PARTS:])
    return (last[start:] for start in range(len(last)))


def _either_way(shape: Shape | None) -> Shape | None:
    """Return the smaller of a shape and the turned one: equal for two that are `_alike`."""
    return shape if shape is None else min(shape, shape[::-1])


def _gaps(parts: NameParts, kept: Sequence[tuple[int, str]]) -> list[tuple[str, ...]]:
    places = [at for at, _ in kept]
    return [parts.parts[at + 1 : after] for at, after in zip(places, [*places[1:], None], strict=True)]


def _places(lead: tuple[str, ...], end: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield each beginning of a name up to its first number: the parts of a model that it lies in."""
    for count in range(1, len(end) + 1):
        yield (*lead, *end[:count])
        if count < len(end) and end[count].isdigit():
            return


def _alike(one: Shape | None, other: Shape | None) -> bool:
    return one is None or other is None or one == other or one == other[::-1]


def _best(
    candidates: Iterable[_Candidate], votes: Mapping[Rule, int], key: Callable[[_Candidate], str]
) -> list[_Candidate]:
    by_key: dict[str, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_key[key(candidate)].append(candidate)
    chosen: list[_Candidate] = []
    for group in by_key.values():
        most = max(votes[candidate.rule] for candidate in group)
        best = [candidate for candidate in group if votes[candidate.rule] == most]
        if len(best) == 1:
            chosen += best
    return chosen
