"""Coverage of a checkpoint in words: the first sentence of an audit and of a scan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quantviz.checkpoints.model.account import Account, Reason, Side, added, is_known
from quantviz.errors import Note
from quantviz.sources.files.file_data import clipped

#: Names that a sentence lists, and reasons.
_LISTED = 3
_REASONS = 4


@dataclass(frozen=True)
class Unread:
    """A tensor that was not read or not compared, and why."""

    name: str
    reason: Reason | None
    is_weight: bool
    #: Whether it is a file of the model.
    is_file: bool = False


def percent(share: float) -> str:
    """Return a share in percent, never rounded to none or to all; "?" for NaN.

    >>> percent(0.625), percent(0.99996), percent(0.0001), percent(1), percent(0), percent(math.nan)
    ('62.5', '99.9', '0.1', '100', '0', '?')
    """
    if math.isnan(share):
        return "?"
    if share in (0, 1):
        return "100" if share else "0"
    return f"{min(max(100 * share, 0.1), 99.9):.1f}"


def read_share(account: Account, sides: Sequence[Side], of: str) -> float:
    """Return the share of the model, without tensors left aside, that was read: of "elements" or "size"; NaN
    where not all of it is known.
    """
    parts = [account.coverage(side) for side in sides]
    if not all(is_known(each.whole, of) for each in parts):
        return math.nan
    unread = getattr(added(each.not_read for each in parts), of)
    whole = getattr(added(each.whole for each in parts), of) - getattr(
        added(each.left_aside for each in parts), of
    )
    return 1 - unread / whole if whole else 1.0


def not_read(unread: Iterable[Unread], weights: int, elements: float, size: float, key: str) -> Note:
    """Return the sentence on weights that were not read: how many, which, and why.

    Args:
        unread: The tensors and files that were not read.
        weights: How many weights there are in all.
        elements: The share of the weights' values that were not read; NaN where that is not known.
        size: The share of bytes; NaN likewise.
        key: "audit" or "scan".
    """
    listed = sorted(unread, key=lambda each: (not each.is_weight, each.is_file))
    own = [each for each in listed if each.is_weight]
    tensors = [each for each in listed if not each.is_file]
    others = len(tensors) - len(own)
    kinds = {"not_read": own, "others_not_read": tensors, "files_not_read": listed}
    kind, named = next((kind, found) for kind, found in kinds.items() if found)
    rest = len(named) - _LISTED
    names = ", ".join(clipped(each.name) for each in named[:_LISTED])
    return Note.of(
        f"coverage.{key}.{kind}",
        count=len(named),
        of=weights,
        share=_share(elements, size, of_weights=bool(own)),
        names=names if rest <= 0 else Note.of("coverage.and_more", names=names, count=rest),
        others=Note.of("coverage.others", count=others) if own and others else "",
        reasons=_reasons(listed),
    )


def _share(elements: float, size: float, *, of_weights: bool) -> Note:
    """Return the shares of values and bytes that were not read, as far as they are known."""
    known = {"elements": elements} if of_weights and not math.isnan(elements) else {}
    known |= {} if math.isnan(size) else {"bytes": size}
    key = "_and_".join(known) or "unknown"
    return Note.of(f"coverage.share.{key}", **{name: percent(share) for name, share in known.items()})


def _reasons(unread: Sequence[Unread]) -> Note | str:
    """Return the reasons, each kind once with the first tensor that has it."""
    first: dict[str, Reason] = {}
    for each in unread:
        if each.reason is not None:
            first.setdefault(each.reason.key, each.reason)
    words: Note | str = ""
    for reason in list(first.values())[:_REASONS]:
        words = Note.of("coverage.reason", before=words, reason=reason)
    return words


def coverage_of_scan(account: Account) -> Note:
    """Return the sentence on the share of a scanned checkpoint that was read."""
    whole = account.coverage("scanned").whole
    aside = account.coverage("scanned").left_aside
    weights = whole.weights - aside.weights
    size = read_share(account, ("scanned",), "size")
    if account.is_complete:
        return Note.of("coverage.scan.all", count=weights, bytes=percent(size))
    unread: dict[str, Unread] = {}
    for each in account.of("not_read"):
        name = each.weight or each.tensor or each.file
        unread.setdefault(name, Unread(name, each.reason, bool(each.weight), not each.tensor))
    elements = read_share(account, ("scanned",), "elements")
    return not_read(unread.values(), weights, 1 - elements, 1 - size, "scan")
