"""Findings of an audit in words: the verdict, and notes on coverage and oddities."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from quantviz.checkpoints.audit.one_scale import losses_to_one_scale
from quantviz.checkpoints.audit.tensor_audit import ODDITIES, OTHER, TensorAudit
from quantviz.checkpoints.model.account import Account, Side
from quantviz.checkpoints.model.coverage_words import everything_read, not_read
from quantviz.checkpoints.scan.recipes import recipe_id
from quantviz.errors import Note
from quantviz.schemes.granularity import Flat, Granularity, PerBlock, PerChannel, PerGroup
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.schemes.scheme import Scheme

#: Share of different weights from which the whole file is another model.
_MOST = 0.5
_LISTED = 3
_SIDES: tuple[Side, ...] = ("quantized", "original")
#: The reason of a tensor of an optimizer, and the sentence on all of them.
_TRAINING = "audit.aside.training"
_TRAINING_ASIDE = "checkpoint.training_aside"
#: Values that are off by more than so many steps on average have the zero points of another version.
_OFF_BY = 0.5


def findings(tensors: Sequence[TensorAudit], account: Account) -> tuple[Note, ...]:
    is_complete = account.is_complete
    notes = [] if is_complete else [not_read(account, "audit")]
    verdict = _verdict(tensors, everything_read(account, "audit") if is_complete else "")
    if verdict is not None:
        notes.append(verdict)
    compared = _sound(tensors)
    other = _with_status(tensors, "not_same")
    notes += _odd(tensors)
    if other and (compared or verdict is None or verdict.key != "audit.not_same"):
        notes.append(_listed("audit.some_other", other))
    notes += _rescaled(tensors, verdict)
    notes += _rounded(tensors)
    if shifted := [tensor for tensor in (*compared, *other) if _off_by_a_step(tensor)]:
        notes.append(_listed("audit.zero_points", shifted))
    notes += losses_to_one_scale([*compared, *other])
    notes += _done(tensors)
    saturated = [tensor for tensor in compared if tensor.saturated_blocks]
    if saturated:
        total, count = (
            sum(values)
            for values in zip(*((tensor.saturated_blocks, tensor.blocks) for tensor in compared), strict=True)
        )
        most = max(saturated, key=lambda tensor: tensor.saturated_blocks / tensor.blocks)
        notes.append(Note.of("audit.saturated", blocks=total, of=count, tensor=most.tensor))
    if changed := _with_status(tensors, "changed"):
        worst = _worst(changed)
        notes.append(
            Note.of(
                "audit.changed", count=len(changed), tensor=worst.tensor, sqnr_db=worst.metrics["sqnr_db"]
            )
        )
    alone = _with_status(tensors, "unmatched")
    if alone:
        quantized = sum(1 for tensor in alone if tensor.tensor)
        names = ", ".join(tensor.tensor or tensor.original for tensor in alone[:_LISTED])
        notes.append(
            Note.of("audit.unmatched", quantized=quantized, original=len(alone) - quantized, names=names)
        )
    if training := [tensor for tensor in tensors if tensor.reason and tensor.reason.key == _TRAINING]:
        notes.append(_listed(_TRAINING_ASIDE, training))
    notes += _matched(tensors)
    aside = [entry for side in _SIDES for entry in account.of("left_aside", side)]
    compared_names = _names_in(tensors)
    whole = [entry for entry in aside if not entry.tensor and entry.reason is not None]
    # Tensors that lie in a file of the model and that its index leaves aside.
    strays = [entry for entry in aside if entry.tensor and entry.tensor not in compared_names]
    notes += [
        Note.of(f"audit.beside.{entry.side}", reason=entry.reason)
        for entry in (*whole, *(entry for entry in strays if isinstance(entry.reason, Note)))
    ]
    return tuple(notes)


def _names_in(tensors: Sequence[TensorAudit]) -> set[str]:
    joined = (name for tensor in tensors if tensor.match for name in tensor.match.joined)
    return {name for tensor in tensors for name in (tensor.tensor, tensor.original)}.union(joined)


def _sound(tensors: Sequence[TensorAudit]) -> list[TensorAudit]:
    return [tensor for tensor in _with_status(tensors, "ok") if tensor.is_weight and not tensor.oddities]


def _odd(tensors: Sequence[TensorAudit]) -> Iterator[Note]:
    """Yield sentences on odd values of weights: a file of zeros has no error, and is useless."""
    for oddity in ODDITIES:
        odd = [tensor for tensor in tensors if oddity in tensor.oddities]
        if odd:
            yield _listed(f"audit.odd.{oddity}", odd)


def _rescaled(tensors: Sequence[TensorAudit], verdict: Note | None) -> Iterator[Note]:
    kinds: dict[str, list[TensorAudit]] = {}
    for tensor in _with_status(tensors, "rescaled"):
        kinds.setdefault(tensor.notes[-1].key, []).append(tensor)
    for rescaled in kinds.values():
        note = _of_rescaled(rescaled, tensors, "")
        if verdict is None or note.params["what"] != verdict.params.get("what"):
            yield note


def _of_rescaled(
    rescaled: Sequence[TensorAudit], tensors: Sequence[TensorAudit], coverage: Note | str
) -> Note:
    worst = _worst(rescaled)
    return Note.of(
        "audit.rescaled",
        count=len(rescaled),
        of=len(_weights(tensors)),
        tensor=worst.tensor,
        sqnr_db=worst.metrics["sqnr_db"],
        what=worst.notes[-1],
        coverage=coverage,
    )


def _rounded(tensors: Sequence[TensorAudit]) -> Iterator[Note]:
    kinds: dict[object, list[TensorAudit]] = {}
    for tensor in _with_status(tensors, "rounded"):
        kinds.setdefault(tensor.notes[-1].params["dtype"], []).append(tensor)
    for dtype, rounded in kinds.items():
        worst = _worst(rounded)
        sqnr_db = worst.metrics["sqnr_db"]
        yield Note.of("audit.rounded", count=len(rounded), dtype=dtype, sqnr_db=sqnr_db, tensor=worst.tensor)


def _weights(tensors: Sequence[TensorAudit]) -> list[TensorAudit]:
    """Return the tensors that were compared: weights, and others that are not the original's."""
    compared = (tensor for tensor in tensors if tensor.became in ("compared", "equal", "not_quantized_here"))
    return [tensor for tensor in compared if tensor.is_weight or tensor.status in OTHER]


def _worst(tensors: Sequence[TensorAudit]) -> TensorAudit:
    return min(tensors, key=lambda tensor: _or_least(tensor.metrics["sqnr_db"]))


def _done(tensors: Sequence[TensorAudit]) -> Iterator[Note]:
    """Yield the changes to originals before the comparison, each kind once, with its smallest percentage."""
    kinds: dict[str, list[Note]] = {}
    for tensor in tensors:
        for note in tensor.done:
            kinds.setdefault(note.key, []).append(note)
    for notes in kinds.values():
        least = min(notes, key=lambda note: float(str(note.params.get("percent", 0))))
        yield Note.of("audit.in_tensors", count=len(notes), what=least)


def _matched(tensors: Sequence[TensorAudit]) -> Iterator[Note]:
    matches = [tensor.match for tensor in tensors if tensor.match is not None]
    leads = Counter((match.here, match.there) for match in matches if match.how == "ends")
    for (here, there), count in leads.items():
        if here != there:
            one_side = "quantized" if here else "original"
            key = "both" if here and there else one_side
            yield Note.of(f"audit.matched.lead_{key}", count=count, here=here, there=there)
    inside = Counter(part for match in matches for part in match.inside)
    for part, count in inside.items():
        yield Note.of("audit.matched.inside", count=count, part=part)
    experts = sum(
        1
        for tensor in tensors
        if tensor.match and tensor.tensor.endswith("]") != tensor.original.endswith("]")
    )
    if experts:
        yield Note.of("audit.matched.experts", count=experts)
    for key, field in (("parts", "part"), ("joined", "joined")):
        merged = [tensor for tensor in tensors if tensor.match and getattr(tensor.match, field)]
        if merged:
            yield _listed(f"audit.matched.{key}", merged)
    for tensor in tensors:
        if tensor.match and tensor.match.how == "tied":
            yield Note.of("audit.matched.tied", tensor=tensor.tensor, original=tensor.original)
    for how in ("converter", "graph"):
        if count := sum(1 for match in matches if match.how == how):
            yield Note.of(f"audit.matched.{how}", count=count)


def _verdict(tensors: Sequence[TensorAudit], coverage: Note | str) -> Note | None:
    compared = _sound(tensors)
    other = _with_status(tensors, "not_same")
    rescaled = _with_status(tensors, "rescaled")
    count = len(_weights(tensors))
    if other and len(other) >= _MOST * count:
        worst = min(other, key=lambda tensor: _or_least(tensor.metrics["cosine"]))
        return Note.of(
            "audit.not_same",
            count=len(other),
            of=count,
            tensor=worst.tensor,
            sqnr_db=worst.metrics["sqnr_db"],
            cosine=worst.metrics["cosine"],
            coverage=coverage,
        )
    if rescaled and (not compared or len(rescaled) >= _MOST * count):
        return _of_rescaled(rescaled, tensors, coverage)
    if not compared:
        odd = [tensor for tensor in tensors if set(tensor.oddities) - {"zero_lines"}]
        if odd:
            return _listed("audit.only_odd", odd, coverage=coverage)
        same, rounded, *others = (
            _with_status(tensors, status) for status in ("same", "rounded", "changed", "folded", "not_same")
        )
        of = sum(map(len, (same, rounded, *others)))
        if not of and not coverage:
            return None
        return Note.of(
            "audit.nothing_quantized", same=len(same), rounded=len(rounded), of=of, coverage=coverage
        )
    worst = _worst(compared)
    return Note.of(
        "audit.verdict",
        count=len(compared),
        scheme=_scheme_words(compared),
        median_db=statistics.median(_or_least(tensor.metrics["sqnr_db"]) for tensor in compared),
        worst_db=worst.metrics["sqnr_db"],
        tensor=worst.tensor,
        rounding=_rounding_words(compared),
        coverage=coverage,
    )


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _with_status(tensors: Sequence[TensorAudit], status: str) -> list[TensorAudit]:
    return [tensor for tensor in tensors if tensor.status == status]


def _listed(key: str, tensors: Sequence[TensorAudit], **more: object) -> Note:
    names = ", ".join(tensor.tensor or tensor.original for tensor in tensors[:_LISTED])
    return Note.of(key, count=len(tensors), names=names, **more)


def _off_by_a_step(tensor: TensorAudit) -> bool:
    """Return whether all values lie a step too high or too low, as GPTQ's do under the other version's zero
    points: the mean error is most of the error.
    """
    mean = abs(tensor.metrics["mean_error"])
    rms = tensor.metrics["rmse"]
    return tensor.layout == "gptq" and tensor.metrics["rmse_steps"] > _OFF_BY and mean > _OFF_BY * rms


def type_of(scheme: Scheme | None) -> str | None:
    """Return the recipe that a weight is stored as, such as "q4_k"; None where it has none."""
    recipe = None if scheme is None else recipe_id(scheme)
    return recipe if recipe in ALL_RECIPES else None


def _scheme_words(compared: Sequence[TensorAudit]) -> Note:
    types = Counter(type_of(tensor.scheme) if tensor.layout == "gguf" else None for tensor in compared)
    if None not in types:
        listed = ", ".join(f"{count} × {name}" for name, count in types.most_common())
        return Note.of("audit.types", layout=Note.of("layouts.names.gguf"), types=listed)
    kinds = Counter((tensor.layout, tensor.scheme, tensor.symmetric) for tensor in compared)
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
    if isinstance(granularity, PerGroup | Flat):
        return Note.of("audit.per_group", size=granularity.size)
    if isinstance(granularity, PerBlock):
        return Note.of("audit.per_block", rows=granularity.rows, cols=granularity.cols)
    return Note.of("audit.per_row" if isinstance(granularity, PerChannel) else "audit.per_tensor")


def _rounding_words(compared: Sequence[TensorAudit]) -> Note:
    kinds = Counter(tensor.rounding for tensor in compared if tensor.rounding)
    if not kinds:
        return Note.of("audit.rounding.unknown")
    if len(kinds) == 1:
        return Note.of(f"audit.rounding.{next(iter(kinds))}")
    return Note.of("audit.rounding.mixed", **{kind: kinds[kind] for kind in ("nearest", "gptq", "other")})
