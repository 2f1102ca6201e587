"""A quantized file beside its original: every tensor with its partner, and a verdict in one sentence.

audit = qv.audit("model-Q4_K_M.gguf", "model/")
audit.verdict, audit.is_complete, audit.account.coverage("quantized").share("compared", "size")
audit.table()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from quantviz.checkpoints.account import Account, Became, Reason
from quantviz.checkpoints.audit_verdict import findings
from quantviz.checkpoints.folded_scales import unfolded
from quantviz.checkpoints.folders import name_of
from quantviz.checkpoints.items import Item, accounted, items_of
from quantviz.checkpoints.opening import OpenModel, open_model
from quantviz.checkpoints.originals import (
    Original,
    as_converted,
    joined,
    nearest,
    oriented,
    original_of,
    parts_of_one,
    tensor_of,
)
from quantviz.checkpoints.pairing import Pair, pairs_of
from quantviz.checkpoints.recipes import recipe_id
from quantviz.checkpoints.tensor_audit import (
    BECAME_OF,
    TensorAudit,
    audit_plain,
    audit_weight,
    band_of,
)
from quantviz.door import checked_fields, public, public_but, public_class
from quantviz.errors import Note, QuantVizError, known_language
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.pickling import Picklable
from quantviz.quantization.result import QuantResult
from quantviz.schemes import text_form
from quantviz.schemes.orientation import Named, named_outputs
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts import QuantizedWeight
from quantviz.sources.layouts.decoded import ModelTensors, values_of
from quantviz.streaming.comparing import result_of_band
from quantviz.text import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    import pandas
    import torch

#: Columns of the table that are counts.
_COUNTS = ("blocks", "saturated_blocks", "unused_codes", "elements", "stored_bytes")
#: A weight is looked at for folded scales where its SQNR is below what so many bits give in the least, or its
#: layout is one of these.
_LOW_DB, _LOW_DB_A_BIT, _FOLDING = -10.0, 5.0, ("awq",)


class Unmatched(NamedTuple):
    """Names of tensors that have no partner, on both sides."""

    quantized: tuple[str, ...]
    original: tuple[str, ...]


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class Audit(Picklable):
    """What was found of a quantized file beside its original."""

    #: In the order of the quantized file, quantized tensors first; then what has no partner.
    tensors: tuple[TensorAudit, ...]
    #: What is to be said, the verdict first.
    findings: tuple[Note, ...]
    #: What became of every tensor and byte of both sides.
    account: Account = field(default_factory=Account)

    def __repr__(self) -> str:
        return f"Audit({len(self.tensors)} tensors: {self.verdict})"

    @property
    def verdict(self) -> str:
        """Return the verdict in one sentence."""
        return self.findings[0].message()

    @property
    def is_complete(self) -> bool:
        """Return whether all that either side holds of the model was read and compared."""
        return self.account.is_complete and all(BECAME_OF[each.status] != "not_read" for each in self.tensors)

    @property
    def is_sound(self) -> bool:
        """Return whether it is complete, and all weights are the original's, none constant or not finite."""
        return self.is_complete and not any(
            each.status in ("not_same", "problem") or each.oddities for each in self.tensors
        )

    @property
    def unmatched(self) -> Unmatched:
        """Return the tensors that have no partner."""
        alone = [each for each in self.tensors if each.status == "unmatched"]
        return Unmatched(
            tuple(each.tensor for each in alone if each.tensor),
            tuple(each.original for each in alone if each.original),
        )

    def messages(self, language: str = DEFAULT_LANGUAGE) -> tuple[str, ...]:
        """Return all that is to be said, the verdict first."""
        return tuple(note.message(language) for note in self.findings)

    def rows(self, language: str = DEFAULT_LANGUAGE) -> list[dict[str, object]]:
        """Return a row for each tensor, as `table` has them."""
        return [_row(each, known_language(language)) for each in self.tensors]

    def table(self, language: str = DEFAULT_LANGUAGE) -> pandas.DataFrame:
        """Return a row for each tensor: its names, layout, status and scheme, how its codes were chosen, and
        every metric by its id.

        Raises:
            QuantVizError: pandas is not installed.
        """
        frame: pandas.DataFrame = load_pandas().DataFrame(self.rows(language))
        return frame.astype(dict.fromkeys(_COUNTS, "Int64"))


@public_but("outputs_axis")
def audit(
    quantized_path: str | PurePath,
    original_path: str | PurePath,
    *,
    outputs_axis: Named = None,
    report: Callable[[int, int], object] = lambda done, count: None,
) -> Audit:
    """Compare a quantized checkpoint with its original, tensor by tensor.

    GPTQ, AWQ, compressed-tensors, FP8 by blocks, bitsandbytes and GGUF are decoded. What their makers did
    besides is undone: llama.cpp's names and order of rows, 1 added to Gemma's norms, AWQ's folded scales.

    Args:
        quantized_path: A file, an index of shards, a folder, or any part of a split .gguf; or the address of
            one, such as https://host/model.gguf, of which byte ranges are read.
        original_path: The same.
        outputs_axis: The axis of the output channels in the original, where its files do not tell; see
            `scan`.
        report: Told how many tensors are done, and of how many, after each.

    Returns:
        A verdict, what else is to be said, and a row for each tensor. Errors are those of the weights as the
        file's maker had them: where scales were folded, the original is scaled in the same way.

    Raises:
        QuantVizError: A checkpoint cannot be opened, the original is the quantized one, or no tensor of one
            has a partner in the other. What is wrong with a single tensor is in its row.
    """
    with _both(quantized_path, original_path) as (quantized, original):
        original.tensors.file.name_outputs(named_outputs(outputs_axis))
        items, others = items_of(quantized), items_of(original)
        if not any(item.kind in ("weight", "unread") for item in items):
            count = sum(1 for item in others if item.kind == "weight")
            if count:
                first, second = (clipped(name_of(str(path))) for path in (quantized_path, original_path))
                raise QuantVizError("audit.swapped", quantized=first, original=second, count=count)
        pairs = pairs_of(quantized, original, items, others)
        if not any(pair.match for pair in pairs):
            raise QuantVizError(
                "audit.no_partner", quantized=clipped(items[0].name), original=clipped(others[0].name)
            )
        tensors: list[TensorAudit] = []
        for done, pair in enumerate(pairs):
            tensors.append(_audited(pair, quantized, original))
            report(done + 1, len(pairs))
        account = _account(tensors, pairs, quantized, original, items, others)
    return Audit(tuple(tensors), findings(tensors, account), account)


@public
def audited_result(quantized_path: str | PurePath, original_path: str | PurePath, tensor: str) -> QuantResult:
    """Return a quantized tensor's own codes, scales and values beside its original's.

    It is a result as `quantize` gives one, so figures and `explain` show what the file has. Where GPTQ's
    act-order moved columns, they are in the order of groups.

    Args:
        quantized_path: As in `audit`.
        original_path: The same.
        tensor: Its name in the quantized file, as `audit` has it.

    Raises:
        QuantVizError: There is no such quantized tensor, it has no partner, or it cannot be decoded.
    """
    with _both(quantized_path, original_path) as (quantized, original):
        pairs = pairs_of(quantized, original, items_of(quantized), items_of(original))
        weights = {
            pair.item.name: pair
            for pair in pairs
            if pair.item and pair.partner and pair.item.name in quantized.tensors.weights
        }
        pair = weights.get(tensor)
        if pair is None:
            raise QuantVizError("audit.no_tensor", got=tensor, known=", ".join(weights))
        weight = quantized.tensors.weights[tensor]
        if weight.problem:
            raise weight.problem.again()
        x = _original(pair, weight, quantized.tensors, original.tensors)[0]
        result = result_of_band(band_of(weight, x, 0, weight.shape[0]))[0]
        return dataclasses.replace(result, notes=(*result.notes, *x.done, *weight.notes))


@contextmanager
def _both(quantized: str | PurePath, original: str | PurePath) -> Iterator[tuple[OpenModel, OpenModel]]:
    """Open both checkpoints while the `with` block lasts, quantized weights decoded in either."""
    with open_model(quantized) as one, open_model(original) as other:
        one.check_names()
        other.check_names()
        yield one, other


def _audited(pair: Pair, quantized: OpenModel, original: OpenModel) -> TensorAudit:
    """Return what is found of one pair; whatever is wrong with it is in its row."""
    found = _compared(pair, quantized.tensors, original.tensors)
    # How many values codes in an unknown layout stand for, the original knows.
    known = pair.item if pair.item and pair.item.kind != "unread" else pair.partner or pair.item
    assert known is not None
    is_weight = known.is_weight or bool(pair.item and pair.item.is_weight)
    changes: dict[str, object] = {"is_weight": is_weight, "elements": known.elements}
    if pair.match:
        changes["matched"] = pair.match.how
        changes["match"] = pair.match
    if pair.item:
        parts = (part for part in pair.item.parts if part in quantized.files)
        changes["stored_bytes"] = sum(quantized.tensors.file.stored_bytes(part) for part in parts)
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type]


def _compared(pair: Pair, quantized: ModelTensors, original: ModelTensors) -> TensorAudit:
    item, partner = pair.item, pair.partner
    if item is None:
        assert partner is not None
        status = "left_aside" if pair.aside else "unmatched"
        why = pair.aside or Note.of("audit.alone", name=clipped(partner.name))
        return TensorAudit("", partner.name, "", status, why, partner.shape)
    weight = quantized.weights.get(item.name)
    layout = weight.layout if weight else "plain" if item.kind in ("plain", "whole") else "unknown"
    problem = item.reason or next((each.reason for each in pair.partners if each.reason), None)
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
        original.expect(tensor_of(original, each.name)[0] for each in pair.partners)
        if weight is None:
            return _of_plain(pair, quantized, original)
        x, found = _original(pair, weight, quantized, original)
        return found if x.done == found.done else audit_weight(weight, x, partner.name)
    except QuantVizError as found:
        return TensorAudit(item.name, _partner_of(pair), layout, _status_of(found), found.again(), item.shape)


def _status_of(problem: QuantVizError) -> str:
    return "refused" if problem.key == "file.not_numbers" else "problem"


def _original(
    pair: Pair, weight: QuantizedWeight, quantized: ModelTensors, original: ModelTensors
) -> tuple[Original, TensorAudit]:
    """Return the original as the file's maker had it, and what was found before scales were unfolded."""
    x = _as_stored(
        pair, weight.shape, quantized, original, lambda start, stop: values_of(weight, start, stop)
    )
    partner = _partner_of(pair)
    found = audit_weight(weight, x, partner)
    if found.status == "not_same" and x.shape == x.shape[::-1] and not x.turned:
        # A square one may be turned: its shape does not tell.
        other = x.replace(Note.of("audit.turned_inputs"), turned=True)
        turned = audit_weight(weight, other, partner)
        if turned.status == "ok":
            x, found = other, turned
    sqnr_db = found.metrics["sqnr_db"]
    low_db = _LOW_DB + _LOW_DB_A_BIT * weight.bits
    if weight.layout == "gguf" or (weight.layout not in _FOLDING and sqnr_db >= low_db):
        return x, found
    return unfolded(weight, x, partner, (quantized, original), sqnr_db) or x, found


def _of_plain(pair: Pair, quantized: ModelTensors, original: ModelTensors) -> TensorAudit:
    assert pair.item
    name = pair.item.name
    values = original_of(quantized, name, 1)
    x = _as_stored(pair, values.shape, quantized, original, values.read)
    return audit_plain(name, values, x, _partner_of(pair), pair.item.dtype)


def _as_stored(
    pair: Pair,
    shape: tuple[int, ...],
    quantized: ModelTensors,
    original: ModelTensors,
    rows: Callable[[int, int], torch.Tensor],
) -> Original:
    """Return the original in the order and the orientation of the quantized tensor.

    Raises:
        QuantVizError: It has another shape.
    """
    assert pair.item
    assert pair.partner
    assert pair.match
    # A convolution's weight is compared as a matrix where the quantized one is one.
    axes = 2 if len(shape) == 2 else 1
    found = [original_of(original, partner.name, axes) for partner in pair.partners]
    x, forms = found[0], found[:1]
    if pair.joined:
        forms = joined(shape, found)
    elif pair.match.part is not None:
        forms = parts_of_one(shape, x, *pair.match.part)
    fitting = [
        each
        for form in forms
        if (each := oriented(shape, as_converted(quantized.file, pair.item.name, shape, rows, form))).shape
        == shape
    ]
    if fitting:
        return nearest(rows, shape[0], fitting)
    got = x.stored.shape
    raise QuantVizError("audit.shapes", name=pair.item.name, got=shape, original=_partner_of(pair), shape=got)


def _partner_of(pair: Pair) -> str:
    """Return the names of the tensors of the original that one is compared with."""
    return " + ".join(partner.name for partner in pair.partners)


def _account(
    tensors: list[TensorAudit],
    pairs: tuple[Pair, ...],
    quantized: OpenModel,
    original: OpenModel,
    items: tuple[Item, ...],
    others: tuple[Item, ...],
) -> Account:
    """Return what became of every tensor of both sides."""
    of_items: dict[str, tuple[Became, Reason | None]] = {}
    of_others: dict[str, list[tuple[Became, Reason | None]]] = {}
    known = {item.name for item in others}
    for found, pair in zip(tensors, pairs, strict=True):
        what = BECAME_OF[found.status], found.reason
        if pair.item:
            of_items[pair.item.name] = what
        for partner in pair.partners:
            of_others.setdefault(tensor_of(known, partner.name)[0], []).append(what)
    rest: dict[str, tuple[Became, Reason | None]] = {}
    for item in others:
        # Of several experts in one tensor the one of which least is known.
        whole = Note.of("audit.aside.whole", dtype=item.dtype)
        each = of_others.get(item.name, [("left_aside", whole)])
        rest[item.name] = max(each, key=lambda one: _ORDER.index(one[0]))
    return Account(
        (
            *accounted(quantized, "quantized", items, of_items),
            *accounted(original, "original", others, rest),
        )
    )


#: What counts for a tensor of which parts came to several things, the last one most.
_ORDER: tuple[Became, ...] = (
    *("left_aside", "equal", "compared", "not_quantized_here", "refused", "not_read"),
)


def _type_of(scheme: Scheme | None) -> str | None:
    """Return the name of the recipe that a weight is stored as, such as "q4_k"; None where it has none."""
    recipe = None if scheme is None else recipe_id(scheme)
    return recipe if recipe in ALL_RECIPES else None


def _row(each: TensorAudit, language: str) -> dict[str, object]:
    """Return a row of the table: None where a column has no value."""
    scheme = each.scheme
    return {
        "tensor": each.tensor or None,
        "original": each.original or None,
        "status": each.status,
        "coverage": BECAME_OF[each.status],
        "reason": each.reason and each.reason.message(language),
        "matched": each.matched or None,
        "layout": each.layout or None,
        "type": _type_of(scheme),
        "shape": each.shape or None,
        "elements": each.elements,
        "stored_bytes": each.stored_bytes,
        "format": scheme and scheme.format,
        "granularity": scheme and text_form.write(scheme.granularity),
        "symmetric": each.symmetric,
        "scale_dtype": each.scale_dtype or None,
        "bits": None if scheme is None else each.bits,
        "rounding": each.rounding or None,
        "nearest_share": None if scheme is None else each.nearest_share,
        "blocks": None if scheme is None else each.blocks,
        "saturated_blocks": None if scheme is None else each.saturated_blocks,
        "unused_codes": None if scheme is None else each.unused_codes,
        "oddities": list(each.oddities),
        **{name: each.metrics.get(name) for name in METRICS if name != "effective_bits"},
        "done": [note.message(language) for note in (*each.done, *each.notes)],
    }
