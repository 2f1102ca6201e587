"""Stored form of an audit's results for pairs of tensors, and the key of each in a results file.

A key changes when a file that was read for the pair does, or when a metric is added. Stored rows are
untrusted data: a row that does not parse is ignored, and its pair is compared anew.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import xxhash

from quantviz.checkpoints.audit.folded_scales import neighbours
from quantviz.checkpoints.audit.pairing import TensorPair
from quantviz.checkpoints.audit.tensor_audit import ODDITIES, ROUNDINGS, TensorAudit
from quantviz.checkpoints.audit.verdict import findings
from quantviz.checkpoints.model.account import Account
from quantviz.checkpoints.model.opening import OpenModel
from quantviz.checkpoints.profiles.siblings import siblings_of
from quantviz.checkpoints.results import typed_values as values
from quantviz.checkpoints.results.store import stamp_of
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.schemes.orientation import Named, named_outputs
from quantviz.schemes.scheme import Scheme
from quantviz.text import catalogue, languages

#: The version of an audit's arithmetic: rows of another one are not taken.
_VERSION = 5
#: Statuses of compared pairs, which alone are stored.
_COMPARED = ("ok", "not_same", "rescaled", "same", "rounded", "changed")
_FIELDS: Mapping[str, values.Parser] = {
    "status": values.one_of(_COMPARED),
    "shape": values.lengths,
    "rounding": values.one_of(("", *ROUNDINGS)),
    **dict.fromkeys(("layout", "scale_dtype"), values.text),
    **dict.fromkeys(("bits", "nearest_share"), values.number),
    "fused_sqnr_db": values.optional(values.number),
    **dict.fromkeys(("blocks", "saturated_blocks", "unused_codes"), values.whole),
}
#: Files whose weights may lie in other files that the header names.
_SPREAD = ".onnx"
_BESIDE = ("config.json", "quantize_config.json", "hf_quant_config.json")


class Keys:
    def __init__(self, quantized: OpenModel, original: OpenModel, outputs: Named) -> None:
        self._quantized = quantized
        self._original = original
        self._stamps: dict[tuple[int, str], str | None] = {}
        settings = (
            *(_VERSION, ARITHMETIC, tuple(METRICS), dict(named_outputs(outputs))),
            *map(_headers, (quantized, original)),
        )
        self._all = repr(settings)

    def of(self, pair: TensorPair) -> str | None:
        """Return the key of a pair; None where a change of its files could go unnoticed."""
        read: dict[tuple[int, str], None] = {}
        if pair.item is None or not pair.partners:
            return None
        partners = [name for item in pair.partners for name in (*item.parts, *neighbours(item.name))]
        weights = self._quantized.tensors.weights
        siblings = [part for name in siblings_of(pair.item.name, weights) for part in weights[name].parts]
        sides = (
            (self._quantized, [*pair.item.parts, *siblings, *neighbours(pair.item.name)]),
            (self._original, partners),
        )
        for side, (model, names) in enumerate(sides):
            read |= {(side, name): None for name in names if name in model.files}
        stamps = {self._stamp(side, name) for side, name in read}
        if None in stamps:
            return None
        key = (self._all, pair.item.name, pair.item.parts, pair.match, [*read], sorted(map(str, stamps)))
        digest = xxhash.xxh3_128_hexdigest(repr(key).encode("utf-8", "backslashreplace"))
        return f"pair:{digest}"

    def _stamp(self, side: int, name: str) -> str | None:
        model = (self._quantized, self._original)[side]
        file = model.files[name]
        if (side, file) not in self._stamps:
            version = model.tensors.file.version_of(name)
            spread = bool(model.of_ranks) or file.casefold().endswith(_SPREAD)
            self._stamps[side, file] = None if spread else stamp_of(file, version)
        return self._stamps[side, file]


def _headers(model: OpenModel) -> str:
    digest = xxhash.xxh3_128()
    catalog = model.tensors.file
    for name in catalog.names:
        info = catalog.info(name)
        described = name, info.dtype, info.shape, info.source_type
        digest.update(repr(described).encode("utf-8", "backslashreplace"))
    for name in _BESIDE:
        try:
            configuration = catalog.json_beside(name)
        except QuantVizError as problem:
            configuration = problem.key
        digest.update(json.dumps(configuration, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def written(result: TensorAudit) -> str | None:
    if result.status not in _COMPARED:
        return None
    form = None
    if result.scheme is not None:
        try:
            form = str(result.scheme)
        except QuantVizError:
            return None
        if Scheme.parse(form) != result.scheme:
            return None
    record = {
        **{name: getattr(result, name) for name in _FIELDS},
        "scheme": form,
        "symmetric": result.symmetric,
        "oddities": result.oddities,
        "metrics": dict(result.metrics),
        "done": list(map(_of_note, result.done)),
        "notes": list(map(_of_note, result.notes)),
    }
    return json.dumps(record)


def read(record: str, pair: TensorPair) -> TensorAudit | None:
    """Return the result of a pair from its JSON record; None where that does not parse."""
    try:
        result = _parsed(values.json_value(record, "numbers"), pair)
        # The sentences on it must find the numbers and notes that they name.
        findings([dataclasses.replace(result, is_weight=True)], Account())
    except (QuantVizError, LookupError, ZeroDivisionError):
        return None  # it is compared anew
    is_empty = result.status == "same" and not result.metrics  # a tensor without elements
    return result if is_empty or {"sqnr_db", "cosine"} <= result.metrics.keys() else None


def _parsed(record: Any, pair: TensorPair) -> TensorAudit:
    if not isinstance(record, Mapping):
        raise QuantVizError("rows.not_json", field="numbers", got=record)
    assert pair.item is not None
    form = record.get("scheme")
    symmetric = record.get("symmetric")
    if not isinstance(symmetric, bool | None):
        raise QuantVizError("rows.not_allowed", field="symmetric", got=symmetric, allowed="true, false")
    metrics = record.get("metrics")
    if not isinstance(metrics, Mapping):
        raise QuantVizError("rows.not_json", field="metrics", got=metrics)
    oddities = values.elements(record.get("oddities"), "oddities")
    return TensorAudit(
        tensor=pair.item.name,
        original=" + ".join(partner.name for partner in pair.partners),
        scheme=None if form is None else Scheme.parse(values.text(form, "scheme")),
        symmetric=symmetric,
        oddities=tuple(values.one_of(ODDITIES)(oddity, "oddities") for oddity in oddities),
        metrics=MappingProxyType(
            {name: values.number(value, name) for name, value in metrics.items() if name in METRICS}
        ),
        done=tuple(map(_note, values.elements(record.get("done"), "done"))),
        notes=tuple(map(_note, values.elements(record.get("notes"), "notes"))),
        **{name: parse(record.get(name), name) for name, parse in _FIELDS.items()},
    )


def _of_note(note: Note) -> Any:
    return {
        "note": note.key,
        "params": {
            name: _of_note(value) if isinstance(value, Note) else value for name, value in note.params.items()
        },
    }


def _note(stored: Any, inside: int = 0) -> Note:
    key = stored.get("note") if isinstance(stored, Mapping) else None
    params = stored.get("params") if isinstance(stored, Mapping) else None
    is_known = isinstance(key, str) and f"notes.{key}" in catalogue("en")
    if not is_known or not isinstance(params, Mapping) or inside > 1:
        raise QuantVizError("rows.not_sentence", field="done", got=stored)
    note = Note.of(
        str(key),
        **{
            str(name): _note(value, inside + 1) if isinstance(value, Mapping) else value
            for name, value in params.items()
        },
    )
    try:
        for language in languages():
            note.message(language)
    except (LookupError, ValueError, TypeError):
        raise QuantVizError("rows.not_sentence", field="done", got=stored) from None
    return note
