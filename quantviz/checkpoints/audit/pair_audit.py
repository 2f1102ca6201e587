"""One pair of an audit: a quantized tensor beside its partner, as the file's maker had that."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import torch

from quantviz.checkpoints.audit import originals
from quantviz.checkpoints.audit.folded_scales import NeighbourScales, decibels, factors_of, unfolded
from quantviz.checkpoints.audit.one_scale import with_one_scale
from quantviz.checkpoints.audit.originals import Original, tensor_of
from quantviz.checkpoints.audit.pairing import TensorPair
from quantviz.checkpoints.audit.tensor_audit import TensorAudit, audit_plain, audit_weight
from quantviz.checkpoints.model.opening import OpenModel
from quantviz.errors import Note, QuantVizError
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts import QuantizedWeight
from quantviz.sources.layouts.decoded import ModelTensors, values_of

#: The layers around a weight are searched for its scales where its SQNR is below this line by bits, or its
#: layout is one of these.
_LOW_DB = -10.0
_LOW_DB_A_BIT = 5.0
_FOLDING = ("awq",)
_PLAIN_BITS = 8
#: Least cosine of a weight that is the original's, whatever its scales.
_ALIKE = 0.5
#: Notes on an original that was turned to fit, where its file does not tell.
_GUESSED = frozenset(("audit.turned", "audit.turned_to_fit"))
#: Layers that a model stores as inputs × outputs beside others that it does not: GPT-2's, Flax's and experts.
_INPUTS_FIRST = re.compile(r"(.*\.)?((c_attn|c_proj|c_fc|q_attn)\.weight|kernel)|.*experts.*|.*\]", re.ASCII)
#: Layers have a number in their names; embeddings and heads have none.
_OF_LAYER = re.compile(r"\.\d+\.", re.ASCII)
_READ = ("ok", "rescaled", "same", "rounded", "changed")
#: Gain in dB from which factors are looked for.
_GAIN_DB = 3.0


def audited(
    pair: TensorPair, quantized: OpenModel, original: OpenModel, *, threads: int | None = None
) -> TensorAudit:
    """Return the audit of one pair, any problem included, of the same bits for any number of threads."""
    result = _compared(pair, quantized.tensors, original.tensors, threads)
    return of_pair(result, pair, quantized, original)


def of_pair(result: TensorAudit, pair: TensorPair, quantized: OpenModel, original: OpenModel) -> TensorAudit:
    # The number of values behind codes in an unknown layout comes from the original.
    item = pair.item if pair.item and pair.item.kind != "unread" else pair.partner or pair.item
    assert item is not None
    is_weight = item.is_weight or bool(pair.item and pair.item.is_weight)
    changes: dict[str, object] = {"is_weight": is_weight, "elements": item.elements}
    if pair.match:
        changes["matched"] = pair.match.how
        changes["match"] = pair.match
        if len(pair.partners) == 1:
            name = tensor_of(original.files, pair.partners[0].name)[0]
            changes["original_file"] = original.files.get(name, "")
    if pair.item:
        file = quantized.tensors.file
        parts = (part for part in pair.item.parts if part in quantized.files and not file.info(part).problem)
        changes["stored_bytes"] = sum(map(file.stored_bytes, parts))
    return dataclasses.replace(result, **changes)  # type: ignore[arg-type]


def _compared(
    pair: TensorPair, quantized: ModelTensors, original: ModelTensors, threads: int | None
) -> TensorAudit:
    item = pair.item
    partner = pair.partner
    if item is None:
        assert partner is not None
        status = "left_aside" if pair.aside else "unmatched"
        why = pair.aside or partner.reason or Note.of("audit.alone", name=clipped(partner.name))
        return TensorAudit("", partner.name, "", status, why, partner.shape)
    weight = quantized.weights.get(item.name)
    if weight:
        layout = weight.layout
    elif item.kind in ("plain", "whole", "inputs", "training"):
        layout = "plain"
    else:
        layout = "unknown"
    problem = item.reason or next((partner.reason for partner in pair.partners if partner.reason), None)
    if item.kind == "whole" and partner is not None and problem is None:
        problem = QuantVizError("audit.whole", name=clipped(item.name), dtype=item.dtype)
    try:
        if problem is not None:
            raise problem.again()
        if partner is None or pair.match is None:
            status = "left_aside" if pair.aside else "unmatched"
            why = pair.aside or Note.of("audit.alone", name=clipped(item.name))
            return TensorAudit(item.name, "", layout, status, why, item.shape)
        # Of a file on another machine small tensors come together.
        quantized.expect((item.name,))
        original.expect(tensor_of(original, partner.name)[0] for partner in pair.partners)
        if weight is None:
            return _of_plain(pair, quantized, original)
        x, result = original_as_stored(pair, weight, quantized, original, threads)
        return with_one_scale(result, weight, x, quantized.weights, threads)
    except QuantVizError as found:
        status = "refused" if found.key == "file.not_numbers" else "problem"
        return TensorAudit(item.name, partner_of(pair), layout, status, found.again(), item.shape)


def original_as_stored(
    pair: TensorPair,
    weight: QuantizedWeight,
    quantized: ModelTensors,
    original: ModelTensors,
    threads: int | None = None,
) -> tuple[Original, TensorAudit]:
    assert pair.item
    x = _as_stored(pair, weight.shape, quantized, original, partial(values_of, weight))
    partner = partner_of(pair)
    result = audit_weight(weight, x, partner, threads=threads)
    if result.status == "not_same" and x.shape == x.shape[::-1] and not x.turned:
        # A square one may be turned, which its shape does not show.
        other = x.replace(Note.of("audit.turned_to_fit"), turned=True)
        turned = audit_weight(weight, other, partner, threads=threads)
        # Whether its scales are right is another question.
        if turned.metrics["cosine"] >= max(_ALIKE, result.metrics["cosine"]):
            x = other
            result = turned
    values = originals.original_of(quantized, pair.item.name, 2)
    low_db = math.inf if weight.layout in _FOLDING else _LOW_DB + _LOW_DB_A_BIT * weight.bits

    def again(other: Original) -> TensorAudit:
        return audit_weight(weight, other, partner, threads=threads)

    return _scaled(pair, result, x, values, Both(quantized, original), low_db, again)


def _of_plain(pair: TensorPair, quantized: ModelTensors, original: ModelTensors) -> TensorAudit:
    assert pair.item
    name = pair.item.name
    dtype = pair.item.dtype
    if not math.prod(pair.item.shape) and pair.partners[0].shape == pair.item.shape:
        return TensorAudit(name, partner_of(pair), "plain", "same", shape=pair.item.shape)
    values = originals.original_of(quantized, name, 1)
    x = _as_stored(pair, values.shape, quantized, original, values.read)

    def again(other: Original) -> TensorAudit:
        return audit_plain(name, values, other, partner_of(pair), dtype)

    result = again(x)
    if result.status in ("same", "rounded"):
        return result
    low_db = _LOW_DB + _LOW_DB_A_BIT * _PLAIN_BITS
    return _scaled(pair, result, x, values, Both(quantized, original), low_db, again)[1]


class Both(NamedTuple):
    quantized: ModelTensors
    original: ModelTensors


def _scaled(
    pair: TensorPair,
    result: TensorAudit,
    x: Original,
    values: Original,
    both: Both,
    low_db: float,
    again: Callable[[Original], TensorAudit],
) -> tuple[Original, TensorAudit]:
    assert pair.item
    assert pair.partner
    beside = NeighbourScales(*both, pair.item.name, pair.partner.name)
    folded = unfolded(x, values, beside, result.metrics["sqnr_db"], low_db)
    if folded is not x:
        result = again(folded)
    sqnr_db = result.metrics["sqnr_db"]
    # The best one factor for all values leaves an error of the angle alone.
    explained = torch.tensor(result.metrics["cosine"], dtype=torch.float64).square()
    best_db = decibels(explained, (1 - explained).clamp(min=0))
    is_near = sqnr_db >= low_db and best_db < sqnr_db + _GAIN_DB
    if not is_near and not folded.misplaced:
        note = factors_of(folded, values, beside, sqnr_db)
        if note is not None:
            result = dataclasses.replace(result, status="rescaled", notes=(*result.notes, note))
    return folded, result


def _as_stored(
    pair: TensorPair,
    shape: tuple[int, ...],
    quantized: ModelTensors,
    original: ModelTensors,
    rows: Callable[[int, int], torch.Tensor],
) -> Original:
    """Return the original in the quantized tensor's order and orientation; `QuantVizError` for another
    shape.
    """
    assert pair.item
    assert pair.partner
    assert pair.match
    # A convolution's weight is compared as a matrix where the quantized one is one.
    axes = 2 if len(shape) == 2 else 1
    name = pair.item.name
    forms = [originals.original_of(original, partner.name, axes) for partner in pair.partners]
    own_shape = forms[0].stored.shape
    if pair.joined:
        forms = originals.joined(shape, forms)
    elif pair.match.part is not None:
        forms = originals.parts_of_one(shape, forms[0], *pair.match.part)
    else:
        forms = forms[:1]
    converted = (
        originals.as_converted(quantized.file, name, shape, rows, form, pair.partner.name) for form in forms
    )
    fitting = [
        candidate
        for candidate in (originals.oriented(shape, x) for x in converted)
        if candidate.shape == shape
    ]
    if fitting:
        return originals.nearest(rows, shape[0], fitting)
    raise QuantVizError("audit.shapes", name=name, got=shape, original=partner_of(pair), shape=own_shape)


def partner_of(pair: TensorPair) -> str:
    return " + ".join(partner.name for partner in pair.partners)


def turned_alone(tensors: Iterable[TensorAudit]) -> list[TensorAudit]:
    """Return all audits; weights that lie otherwise than those of their layout are not the original's."""
    listed = list(tensors)
    straight = {
        tensor.layout
        for tensor in listed
        if _is_of_layer(tensor) and not any("turned" in note.key for note in tensor.done)
    }

    def checked(tensor: TensorAudit) -> TensorAudit:
        guessed = any(note.key in _GUESSED for note in tensor.done)
        if not guessed or tensor.layout not in straight or not _is_of_layer(tensor):
            return tensor
        note = Note.of("audit.turned_alone")
        return dataclasses.replace(tensor, status="not_same", done=(*tensor.done, note))

    return [checked(tensor) for tensor in listed]


def _is_of_layer(tensor: TensorAudit) -> bool:
    is_matrix = len(tensor.shape) == 2 and min(tensor.shape) > 1
    of_layer = _OF_LAYER.search(tensor.original) and not _INPUTS_FIRST.fullmatch(tensor.original)
    return tensor.status in _READ and is_matrix and bool(of_layer)
