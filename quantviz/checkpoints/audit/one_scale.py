"""Weights under a kernel that takes one scale for all siblings, and their loss by it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from quantviz.checkpoints.audit.originals import Original, original_of
from quantviz.checkpoints.audit.tensor_audit import TensorAudit, audit_weight
from quantviz.checkpoints.profiles.siblings import Rule, rule_of, siblings_of
from quantviz.errors import Note, QuantVizError
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts import Coded, QuantizedWeight
from quantviz.sources.layouts.decoded import ModelTensors
from quantviz.sources.layouts.weight import values_only

#: A loss below this is not worth a sentence, in dB.
_LEAST_LOSS = 0.5


def under_one_scale(weight: QuantizedWeight, siblings: Sequence[QuantizedWeight]) -> QuantizedWeight | None:
    """Return the values of a weight in a kernel of one scale for `siblings`, itself among them, in the
    kernel's order; None where it has the file's own there.
    """
    rule = _rule(weight)
    scales = _scales(siblings)
    if rule is None or scales is None:
        return None
    scale = scales[[sibling.name for sibling in siblings].index(weight.name)]
    if rule == "requantized":
        largest = torch.tensor(max(scales))

        def coded(start: int, stop: int) -> Coded:
            return values_only(_requantized(weight.coded(start, stop).q, torch.tensor(scale), largest))
    else:
        taken = {"largest": max(scales), "smallest": min(scales), "first": scales[0]}[rule]
        if taken == scale:
            return None

        def coded(start: int, stop: int) -> Coded:
            return values_only(weight.coded(start, stop).x_hat * (taken / scale))

    return dataclasses.replace(weight, scheme=None, coded=coded)


def _requantized(codes: torch.Tensor, scale: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """Return the values of FP8 codes quantized again at the largest scale of the siblings. They are
    dequantized in float16, the product of which rounds the scale to float16 too.
    """
    most = torch.finfo(torch.float8_e4m3fn).max
    values = codes.view(torch.float8_e4m3fn).to(torch.float16) * scale
    again = (values.float() * (1 / largest)).clamp(-most, most).to(torch.float8_e4m3fn)
    return again.float() * largest


def with_one_scale(
    audit: TensorAudit,
    weight: QuantizedWeight,
    x: Original,
    weights: Mapping[str, QuantizedWeight],
    threads: int | None = None,
) -> TensorAudit:
    fused = under_one_scale(weight, [weights[name] for name in siblings_of(weight.name, weights)])
    if fused is None:
        return audit
    metrics = audit_weight(fused, x, audit.original, threads=threads).metrics
    return dataclasses.replace(audit, fused_sqnr_db=metrics["sqnr_db"])


def losses_to_one_scale(tensors: Iterable[TensorAudit]) -> Iterator[Note]:
    by_rule: dict[Rule, list[tuple[float, TensorAudit]]] = {}
    for tensor in tensors:
        rule = tensor.scheme and rule_of(tensor.layout, tensor.scheme.format, tensor.tensor)
        fused_db = tensor.fused_sqnr_db
        if rule and fused_db is not None and tensor.metrics["sqnr_db"] - fused_db >= _LEAST_LOSS:
            by_rule.setdefault(rule, []).append((fused_db, tensor))
    for rule, lost in by_rule.items():
        fused_db, worst = min(lost, key=lambda loss: loss[0])
        yield Note.of(
            "audit.one_scale",
            count=len(lost),
            tensor=clipped(worst.tensor),
            fused_db=fused_db,
            sqnr_db=worst.metrics["sqnr_db"],
            engines=Note.of(f"audit.one_scale_rule.{rule}"),
        )


def siblings_apart(tensors: ModelTensors) -> Note | None:
    """Return a note on the siblings of a checkpoint whose scales lie farthest apart; None where none
    differ.

    Its SQNR is that of the worst of them in one kernel, against the file's own values.
    """
    named = {siblings_of(name, tensors.weights) for name in tensors.weights}
    groups = [[tensors.weights[name] for name in group] for group in sorted(named)]
    tensors.file.expect(
        part for group in groups for sibling in group if _rule(sibling) for part in sibling.parts
    )
    apart = [(max(scales) / min(scales), at) for at, group in enumerate(groups) if (scales := _scales(group))]
    if not apart:
        return None
    ratio, at = max(apart)
    losses: dict[str, float] = {}
    for weight in groups[at]:
        fused = under_one_scale(weight, groups[at])
        if fused is not None:
            x = original_of(tensors, weight.name, 2)
            losses[weight.name] = audit_weight(fused, x, weight.name).metrics["sqnr_db"]
    worst = min(losses, key=losses.__getitem__)
    return Note.of(
        "checkpoint.one_scale",
        count=len(apart),
        ratio=ratio,
        tensor=clipped(worst),
        sqnr_db=losses[worst],
        engines=Note.of(f"audit.one_scale_rule.{_rule(groups[at][0])}"),
    )


def _rule(weight: QuantizedWeight) -> Rule | None:
    """Return the rule of a kernel for a weight and its siblings; None where scales stay apart."""
    if weight.problem or weight.scheme is None or weight.of_all is None:
        return None
    return rule_of(weight.layout, weight.scheme.format, weight.name)


def _scales(siblings: Sequence[QuantizedWeight]) -> list[float] | None:
    """Return the scales of the weights of one kernel; None where they are alike, or no kernel takes them."""
    kinds = {(_rule(sibling), sibling.shape[-1:]) for sibling in siblings}
    if len(kinds) != 1 or _rule(siblings[0]) is None:
        return None
    try:
        scales = [sibling.of_all() for sibling in siblings if sibling.of_all]
    except QuantVizError:  # the audit of that weight raises it
        return None
    usable = all(math.isfinite(scale) and scale > 0 for scale in scales)
    return scales if usable and len(set(scales)) > 1 else None
