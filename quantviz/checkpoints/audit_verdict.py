"""What an audit has to say: the verdict in one sentence, and what a person should know besides."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from quantviz.checkpoints.tensor_audit import TensorAudit
from quantviz.errors import Note
from quantviz.schemes.granularity import Flat, Granularity, PerBlock, PerChannel, PerGroup

#: From this share of quantized tensors on that are not the same weights, the whole file is said not to be.
_MOST = 0.5
#: Names that a sentence lists.
_LISTED = 3
#: Values that are off by more than so many steps on average have the zero points of another version.
_OFF_BY = 0.5


def findings(tensors: Sequence[TensorAudit]) -> tuple[Note, ...]:
    """Return what is to be said of tensors, the verdict first."""
    said = [_verdict(tensors)]
    compared = [each for each in tensors if each.status == "ok"]
    other = _with_status(tensors, "not_same")
    if other and compared:
        said.append(_listed("audit.some_other", other))
    shifted = [each for each in (*compared, *other) if _off_by_a_step(each)]
    if shifted:
        said.append(_listed("audit.zero_points", shifted))
    done = Counter(note.key for each in tensors for note in each.done)
    said += [Note.of("audit.in_tensors", count=count, what=Note.of(key)) for key, count in done.items()]
    saturated = [each for each in compared if each.saturated_blocks]
    if saturated:
        total, count = (
            sum(values)
            for values in zip(*((each.saturated_blocks, each.blocks) for each in compared), strict=True)
        )
        worst = max(saturated, key=lambda each: each.saturated_blocks / each.blocks)
        said.append(Note.of("audit.saturated", blocks=total, of=count, tensor=worst.tensor))
    for key in ("changed", "problem"):
        if found := _with_status(tensors, key):
            said.append(_listed(f"audit.{key}", found))
    alone = _with_status(tensors, "unmatched")
    if alone:
        quantized = sum(1 for each in alone if each.tensor)
        names = ", ".join(each.tensor or each.original for each in alone[:_LISTED])
        said.append(
            Note.of("audit.unmatched", quantized=quantized, original=len(alone) - quantized, names=names)
        )
    return tuple(said)


def _verdict(tensors: Sequence[TensorAudit]) -> Note:
    compared, other = _with_status(tensors, "ok"), _with_status(tensors, "not_same")
    if other and len(other) >= _MOST * (len(compared) + len(other)):
        worst = min(other, key=lambda each: _known(each.metrics["cosine"]))
        return Note.of(
            "audit.not_same",
            count=len(other),
            of=len(compared) + len(other),
            tensor=worst.tensor,
            sqnr_db=worst.metrics["sqnr_db"],
            cosine=worst.metrics["cosine"],
        )
    if not compared:
        same, changed = _with_status(tensors, "same"), _with_status(tensors, "changed")
        return Note.of("audit.nothing_quantized", same=len(same), of=len(same) + len(changed))
    worst = min(compared, key=lambda each: _known(each.metrics["sqnr_db"]))
    return Note.of(
        "audit.verdict",
        count=len(compared),
        scheme=_scheme_words(compared),
        median_db=statistics.median(_known(each.metrics["sqnr_db"]) for each in compared),
        worst_db=worst.metrics["sqnr_db"],
        tensor=worst.tensor,
        rounding=_rounding_words(compared),
    )


def _known(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _with_status(tensors: Sequence[TensorAudit], status: str) -> list[TensorAudit]:
    return [each for each in tensors if each.status == status]


def _listed(key: str, found: Sequence[TensorAudit]) -> Note:
    return Note.of(key, count=len(found), names=", ".join(each.tensor for each in found[:_LISTED]))


def _off_by_a_step(each: TensorAudit) -> bool:
    """Return whether all values lie a step too high or too low, as GPTQ's do under the other version's zero
    points: the mean error is most of the error.
    """
    mean, rms = abs(each.metrics["mean_error"]), each.metrics["rmse"]
    return each.layout == "gptq" and each.metrics["rmse_steps"] > _OFF_BY and mean > _OFF_BY * rms


def _scheme_words(compared: Sequence[TensorAudit]) -> Note:
    """Return the scheme that most weights have, and how many others there are."""
    kinds = Counter((each.layout, each.scheme, each.symmetric) for each in compared)
    (layout, scheme, symmetric), _ = kinds.most_common(1)[0]
    if scheme is None:  # vectors of a codebook have none
        layout_words = Note.of(f"layouts.names.{layout}")
        return Note.of("audit.values_only", layout=layout_words, others=len(kinds) - 1)
    return Note.of(
        "audit.scheme" if len(kinds) == 1 else "audit.schemes",
        layout=Note.of(f"layouts.names.{layout}"),
        format=scheme.format,
        granularity=granularity_words(scheme.granularity),
        mode=Note.of("audit.symmetric" if symmetric else "audit.asymmetric"),
        others=len(kinds) - 1,
    )


def granularity_words(granularity: Granularity) -> Note:
    """Return what shares a scale, for people."""
    if isinstance(granularity, PerGroup | Flat):
        return Note.of("audit.per_group", size=granularity.size)
    if isinstance(granularity, PerBlock):
        return Note.of("audit.per_block", rows=granularity.rows, cols=granularity.cols)
    return Note.of("audit.per_row" if isinstance(granularity, PerChannel) else "audit.per_tensor")


def _rounding_words(compared: Sequence[TensorAudit]) -> Note:
    kinds = Counter(each.rounding for each in compared if each.rounding)
    if not kinds:
        return Note.of("audit.rounding.unknown")
    if len(kinds) == 1:
        return Note.of(f"audit.rounding.{next(iter(kinds))}")
    return Note.of("audit.rounding.mixed", **{kind: kinds[kind] for kind in ("nearest", "gptq", "other")})
