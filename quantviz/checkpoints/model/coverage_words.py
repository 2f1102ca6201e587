"""Coverage of a checkpoint in words: the first sentence of an audit and of a scan."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from quantviz.checkpoints.model.account import Account, Accounted, Reason, Side, added
from quantviz.errors import Note
from quantviz.sources.files.file_data import clipped

_LISTED = 3
_REASONS = 4
#: Subject of a sentence: both sides of an audit, or a scanned checkpoint.
Of = Literal["audit", "scan"]


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


def everything_read(account: Account, of: Of) -> Note:
    assert account.is_complete
    return Note.of(f"coverage.{of}.all", count=len(_weights(account)), bytes=percent(1))


def not_read(account: Account, of: Of) -> Note:
    unread = [*{entry.name: entry for entry in reversed(account.unread)}.values()][::-1]
    weights = [entry for entry in unread if entry.weight]
    tensors = [entry for entry in unread if entry.tensor]
    kinds = {"not_read": weights, "others_not_read": tensors, "files_not_read": unread}
    kind, named = next((kind, entries) for kind, entries in kinds.items() if entries)
    others = len(tensors) - len(weights)
    rest = len(named) - _LISTED
    names = ", ".join(clipped(entry.name) for entry in named[:_LISTED])
    return Note.of(
        f"coverage.{of}.{kind}",
        count=len(named),
        of=len(_weights(account)),
        share=_share(account, weights),
        names=names if rest <= 0 else Note.of("coverage.and_more", names=names, count=rest),
        others=Note.of("coverage.others", count=others) if weights and others else "",
        reasons=_reasons((*named, *unread)),
    )


def _share(account: Account, unread: Iterable[Accounted]) -> Note:
    """Return the unread shares of values of weights and of bytes, as far as they are known."""
    weights = _weights(account)
    missed = sum(weights.get((entry.side, entry.weight), 0) for entry in unread)
    sides = [account.coverage(side) for side in ("quantized", "original", "scanned")]
    whole = added(side.whole for side in sides)
    size = added((*(side.not_read for side in sides), *(side.refused for side in sides))).size
    read = whole.size - added(side.left_aside for side in sides).size
    shares = {}
    if missed and not whole.uncounted:
        shares["elements"] = percent(missed / sum(weights.values()))
    if not whole.unsized:
        shares["bytes"] = percent(size / read if read else 0.0)
    return Note.of(f"coverage.share.{'_and_'.join(shares) or 'unknown'}", **shares)


def coverage_of_scan(account: Account) -> Note:
    if not account.is_complete:
        return not_read(account, "scan")
    unfit = {entry.name: entry for entry in account.of("unfit")}
    if not unfit:
        return everything_read(account, "scan")
    names = ", ".join(clipped(name) for name in [*unfit][:_LISTED])
    return Note.of(
        "coverage.scan.unfit",
        count=len(unfit),
        names=names,
        read=everything_read(account, "scan"),
        reasons=_reasons(unfit.values()),
    )


def _weights(account: Account) -> dict[tuple[Side, str], int]:
    """Return the weights of a model with their values; of the original those without a partner, or unread."""
    unread = {entry.name for entry in account.unread if entry.side == "original"}
    elements: dict[tuple[Side, str], int] = {}
    for entry in account.tensors:
        is_partner = entry.side == "original" and entry.outcome.partners and entry.name not in unread
        if entry.weight and entry.became != "left_aside" and not is_partner:
            key = entry.side, entry.weight
            elements[key] = elements.get(key, 0) + entry.elements
    return elements


def _reasons(unread: Iterable[Accounted]) -> Note | str:
    """Return the reasons, each kind once with the first tensor that has it."""
    first: dict[str, Reason] = {}
    for entry in unread:
        if entry.reason is not None:
            first.setdefault(entry.reason.key, entry.reason)
    words: Note | str = ""
    for reason in list(first.values())[:_REASONS]:
        words = Note.of("coverage.reason", before=words, reason=reason)
    return words
