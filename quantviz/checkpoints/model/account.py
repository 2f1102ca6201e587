"""Account of every tensor and byte of a checkpoint: each number states the share it covers.

    account.coverage("quantized").not_read.weights
    account.coverage("quantized").share("not_read", "size")
    [each.tensor for each in account.of("not_read")]

"Not read" is never counted as fine: a tensor that holds codes and that no layout claims, a weight of which a
part is unknown, a weight without a partner, a file that cannot be opened.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Literal, get_args

from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import is_matrix

#: Outcomes of a tensor of a file.
#:
#: compared            a part of a quantized weight whose values were compared with the original's (in a scan:
#:                     a tensor that was measured)
#: equal               not quantized, and the same values on both sides
#: not_quantized_here  not quantized, read on both sides, and not the same values
#: unfit               no recipe of a scan fits its shape, so it was not measured
#: left_aside          no part of the model, or nothing to compare it with by design: positions, masks,
#:                     buffers, a second copy of another tensor, a file that is not of this model
#: refused             it holds no numbers, or has more axes than any weight
#: not_read            its values could not be read, with the reason
Became = Literal["compared", "equal", "not_quantized_here", "unfit", "left_aside", "refused", "not_read"]
BECAME: tuple[Became, ...] = get_args(Became)
#: Side of a tensor: one of the two of an audit, or the checkpoint of a scan.
Side = Literal["quantized", "original", "scanned"]
#: Outcomes that leave an account incomplete.
_UNREAD: tuple[Became, ...] = ("not_read", "refused")
#: Reason why a tensor was not read, or was left aside.
Reason = QuantVizError | Note


@dataclass(frozen=True)
class TensorOutcome(Picklable):
    became: Became
    reason: Reason | None = None
    #: Whether its values are the original's up to rounding: not another weight, constant or not finite.
    is_sound: bool = True
    #: SQNR in dB against the original where the values differ, NaN where there is none; else None.
    sqnr_db: float | None = None
    #: The tensors of the other side that it was compared with.
    partners: tuple[str, ...] = ()
    #: The number of its values; None to take its file's.
    elements: int | None = None


@dataclass(frozen=True)
class Accounted(Picklable):
    side: Side
    #: Its name in the file; "" where it is the whole file.
    tensor: str
    outcome: TensorOutcome
    #: Bytes in the file; 0 if unknown.
    size: int
    #: The weight that it is, or is a part of; "" for others, such as a norm, a bias or a mask.
    weight: str = ""
    #: Values of that weight, counted at the first of its tensors.
    elements: int = 0
    #: "" where the checkpoint is one file.
    file: str = ""
    #: Whether its values, and its bytes, are known: of a missing file they may not be.
    is_counted: bool = True
    is_sized: bool = True

    @property
    def became(self) -> Became:
        return self.outcome.became

    @property
    def reason(self) -> Reason | None:
        return self.outcome.reason

    @property
    def name(self) -> str:
        """Return its name in sentences: that of its weight, its own or its file's."""
        return self.weight or self.tensor or self.file


@dataclass(frozen=True)
class OutcomeTotal(Picklable):
    tensors: int = 0
    weights: int = 0
    elements: int = 0
    size: int = 0
    #: Tensors and files with an unknown number of values, and of bytes.
    uncounted: int = 0
    unsized: int = 0


@dataclass(frozen=True)
class Coverage(Picklable):
    compared: OutcomeTotal = OutcomeTotal()
    equal: OutcomeTotal = OutcomeTotal()
    not_quantized_here: OutcomeTotal = OutcomeTotal()
    unfit: OutcomeTotal = OutcomeTotal()
    left_aside: OutcomeTotal = OutcomeTotal()
    refused: OutcomeTotal = OutcomeTotal()
    not_read: OutcomeTotal = OutcomeTotal()

    @property
    def whole(self) -> OutcomeTotal:
        return added(self.part(became) for became in BECAME)

    def part(self, became: str) -> OutcomeTotal:
        part: OutcomeTotal = getattr(self, became)
        return part

    def share(self, became: str, of: Literal["tensors", "weights", "elements", "size"]) -> float:
        """Return a part as a share of the whole, 0 to 1; 0 where there is nothing, NaN where a part is not
        known.

        >>> read = OutcomeTotal(weights=3, size=3)
        >>> Coverage(compared=read, not_read=OutcomeTotal(weights=5)).share("not_read", "weights")
        0.625
        >>> Coverage(compared=read, not_read=OutcomeTotal(unsized=1)).share("not_read", "size")
        nan
        """
        if not is_known(self.whole, of):
            return math.nan
        whole = getattr(self.whole, of)
        return getattr(self.part(became), of) / whole if whole else 0.0


@dataclass(frozen=True)
class Account(Picklable):
    tensors: tuple[Accounted, ...] = ()

    def of(self, became: Became, side: Side | None = None) -> tuple[Accounted, ...]:
        return tuple(
            tensor for tensor in self.tensors if tensor.became == became and side in (None, tensor.side)
        )

    def coverage(self, side: Side) -> Coverage:
        return Coverage(**{became: _part(self.of(became, side)) for became in BECAME})

    @property
    def unread(self) -> tuple[Accounted, ...]:
        """Return the tensors that were not read, or hold no numbers; one of the original only where its
        partner is not among them.
        """
        unread = [tensor for tensor in self.tensors if tensor.became in _UNREAD]
        named = {tensor.name for tensor in unread if tensor.side != "original"}
        return tuple(
            tensor
            for tensor in unread
            if tensor.side != "original" or named.isdisjoint(tensor.outcome.partners)
        )

    @property
    def is_complete(self) -> bool:
        return not self.unread

    @property
    def is_sound(self) -> bool:
        return self.is_complete and all(tensor.outcome.is_sound for tensor in self.tensors)

    def below(self, least: float) -> tuple[Accounted, ...]:
        """Return the tensors with an SQNR below `least` dB, or with none although they were compared; of one
        in several tensors the first.
        """
        lossy: dict[str, Accounted] = {}
        for tensor in self.tensors:
            sqnr_db = tensor.outcome.sqnr_db
            # NaN is below as well.
            if sqnr_db is not None and not sqnr_db >= least:
                lossy.setdefault(tensor.name, tensor)
        return tuple(lossy.values())


def with_outcome(
    account: Account, became: Became, reasons: Mapping[str, QuantVizError], of: Collection[Became] = BECAME
) -> Account:
    """Change the outcome of the tensors that have a reason, where theirs is one `of` those given."""

    def changed(tensor: Accounted) -> Accounted:
        reason = reasons.get(tensor.weight) or reasons.get(tensor.tensor)
        is_kept = reason is None or tensor.became not in of
        return tensor if is_kept else replace(tensor, outcome=TensorOutcome(became, reason))

    return Account(tuple(map(changed, account.tensors))) if reasons else account


def added(parts: Iterable[OutcomeTotal]) -> OutcomeTotal:
    return OutcomeTotal(*map(sum, zip(*map(astuple, parts), strict=True)))


def is_known(part: OutcomeTotal, of: str) -> bool:
    return not {"elements": part.uncounted, "size": part.unsized}.get(of)


def _part(tensors: tuple[Accounted, ...]) -> OutcomeTotal:
    return OutcomeTotal(
        sum(1 for tensor in tensors if tensor.tensor),
        len({tensor.weight for tensor in tensors if tensor.weight}),
        sum(tensor.elements for tensor in tensors),
        sum(tensor.size for tensor in tensors),
        sum(not tensor.is_counted for tensor in tensors),
        sum(not tensor.is_sized for tensor in tensors),
    )


def counts_as_weight(name: str, shape: Shape) -> bool:
    """Return whether a tensor that is not quantized counts as a weight: a matrix that is no bias or norm, as
    those of many experts in one tensor are.

    >>> counts_as_weight("q_proj.weight", (8, 8)), counts_as_weight("experts.up_proj_bias", (8, 8))
    (True, False)
    """
    last = name.rpartition(".")[2]
    return is_matrix(shape) and not last.endswith("bias") and "norm" not in name.rpartition(".")[0][-20:]
