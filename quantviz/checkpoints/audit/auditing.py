"""A quantized file beside its original: every tensor with its partner, and a verdict in one sentence.

audit = qv.audit("model-Q4_K_M.gguf", "model/")
audit.verdict, audit.is_complete, audit.account.coverage("quantized").share("compared", "size")
audit.table()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from quantviz import budget
from quantviz.checkpoints.audit import pair_rows
from quantviz.checkpoints.audit.folded_scales import norms_explained
from quantviz.checkpoints.audit.originals import tensor_of
from quantviz.checkpoints.audit.pair_audit import audited, of_pair, original_as_stored, turned_alone
from quantviz.checkpoints.audit.pair_rows import Keys
from quantviz.checkpoints.audit.pairing import TensorPair, pairs_of
from quantviz.checkpoints.audit.tasks import AuditJobs, AuditTask, both_open
from quantviz.checkpoints.audit.tensor_audit import AuditBands, TensorAudit
from quantviz.checkpoints.audit.verdict import findings, type_of
from quantviz.checkpoints.model.account import Account, Became, TensorOutcome
from quantviz.checkpoints.model.folders import name_of
from quantviz.checkpoints.model.items import ModelItem, accounted, items_of
from quantviz.checkpoints.model.opening import OpenModel
from quantviz.checkpoints.results.store import Results, default_results
from quantviz.checkpoints.scan.cluster import joined
from quantviz.checkpoints.scan.measuring import speed_notes
from quantviz.errors import Note, QuantVizError, known_language
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.jobs import keep_memory
from quantviz.pickling import Picklable
from quantviz.public_calls import checked_fields, public, public_but, public_class
from quantviz.quantization.result import QuantResult
from quantviz.schemes import text_form
from quantviz.schemes.orientation import Named
from quantviz.sources.files.file_data import clipped
from quantviz.sources.stores.addresses import is_address
from quantviz.streaming.comparing import result_of_band
from quantviz.streaming.threads import results_of
from quantviz.text import DEFAULT_LANGUAGE, languages, table

if TYPE_CHECKING:
    import pandas

#: Pairs compared at a time: while two are prepared or read, another one keeps the processors busy.
_PAIRS = 3
_COUNTS = ("blocks", "saturated_blocks", "unused_codes", "elements", "stored_bytes")


class Unmatched(NamedTuple):
    quantized: tuple[str, ...]
    original: tuple[str, ...]


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class Audit(Picklable):
    """Results of comparing a quantized file with its original."""

    #: In the order of the quantized file, quantized tensors first; then tensors without a partner.
    tensors: tuple[TensorAudit, ...]
    #: Sentences on the audit, the verdict first.
    findings: tuple[Note, ...]
    #: Outcomes of all tensors and bytes of both sides.
    account: Account = field(default_factory=Account)

    def __repr__(self) -> str:
        return f"Audit({len(self.tensors)} tensors: {self.verdict})"

    def _repr_html_(self) -> str:
        verdict, *others = self.messages()
        return table([("verdict", verdict), ("tensors", len(self.tensors)), *(("", each) for each in others)])

    @property
    def verdict(self) -> str:
        """Return the verdict in one sentence."""
        return self.findings[0].message()

    @property
    def is_complete(self) -> bool:
        """Return whether all that either side holds of the model was read and compared."""
        return self.account.is_complete

    @property
    def is_sound(self) -> bool:
        """Return whether it is complete, and all weights are the original's, none constant or not finite; and
        remain so in an engine's kernel of one scale for siblings.
        """
        return self.account.is_sound

    @property
    def unmatched(self) -> Unmatched:
        """Return the tensors that have no partner."""
        alone = [tensor for tensor in self.tensors if tensor.status == "unmatched"]
        return Unmatched(
            tuple(tensor.tensor for tensor in alone if tensor.tensor),
            tuple(tensor.original for tensor in alone if tensor.original),
        )

    def messages(self, language: str = DEFAULT_LANGUAGE) -> tuple[str, ...]:
        """Return the findings as sentences, the verdict first."""
        return tuple(note.message(language) for note in self.findings)

    def rows(self, language: str = DEFAULT_LANGUAGE) -> list[dict[str, object]]:
        """Return a row for each tensor, as `table` has them."""
        return [_row(tensor, known_language(language)) for tensor in self.tensors]

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
    results: str | PurePath | None = None,
    verify: bool = False,
    scheduler: str | None = None,
    report: Callable[[int, int], object] = lambda done, count: None,
) -> Audit:
    """Compare a quantized checkpoint with its original, tensor by tensor.

    GPTQ, AWQ, compressed-tensors, FP8 by blocks, bitsandbytes and GGUF are decoded. Other changes by their
    makers are undone: llama.cpp's names and order of rows, 1 added to Gemma's norms, AWQ's folded scales.

    Args:
        quantized_path: A file, an index of shards, a folder, or any part of a split .gguf; or the address of
            one, such as https://host/model.gguf, of which byte ranges are read.
        original_path: The same.
        outputs_axis: The axis of the output channels in the original, where its files do not contain it; see
            `scan`.
        results: The file that keeps the result of each tensor, as a scan's: an audit that was interrupted
            goes on where it was, and a tensor whose files have changed since is compared anew. Without one
            nothing is kept.
        verify: Compare every tensor, also of files that have not changed since.
        scheduler: The address of a Dask scheduler whose workers compare; see `scan`.
        report: Called after each tensor with the number of tensors done, and of all.

    Returns:
        A verdict with further notes, and a row for each tensor. Errors are those of the weights as the
        file's maker had them: where scales were folded, the original is scaled in the same way.

    Raises:
        QuantVizError: A checkpoint, the results or the scheduler cannot be opened, the original is the
            quantized one, or no tensor of one has a partner in the other. A problem with a single tensor
            is in its row.
    """
    with ExitStack() as stack:
        models = stack.enter_context(both_open(quantized_path, original_path, outputs_axis))
        sides = _sides(models, quantized_path, original_path)
        store = None if results is None else stack.enter_context(Results(results))
        keys = Keys(*models, outputs_axis)
        of_pairs = [None if store is None else keys.of(pair) for pair in sides.pairs]
        run = _AuditRun(models, sides.pairs, of_pairs, store, report)
        if not verify:
            run.take_stored()
        missing = run.missing()
        if scheduler and missing:
            workers = stack.enter_context(joined(scheduler))
            jobs = AuditJobs(quantized_path, original_path, outputs_axis, missing)
            run.take_done(stack.enter_context(closing(workers(jobs))))
        else:
            # Of a file on another machine the parts of one pair are read together.
            is_far = any(is_address(str(path)) for path in (quantized_path, original_path))
            run.compare(missing, 1 if is_far else _PAIRS)
        tensors = turned_alone(norms_explained(run.tensors))
        account = _account(tensors, models, sides)
    notes = speed_notes(tensor.elements for tensor in tensors if tensor.scheme) if missing else ()
    joined_ranks = [note for model in models for note in model.of_ranks]
    return Audit(tuple(tensors), (*findings(tensors, account), *joined_ranks, *notes), account)


@dataclass(frozen=True, eq=False)
class _PairedTensors:
    quantized: tuple[ModelItem, ...]
    original: tuple[ModelItem, ...]
    pairs: tuple[TensorPair, ...]


def _sides(
    models: tuple[OpenModel, OpenModel], quantized_path: str | PurePath, original_path: str | PurePath
) -> _PairedTensors:
    """Pair the tensors of two checkpoints; `QuantVizError` where they are swapped, or nothing has a
    partner.
    """
    items, others = (items_of(model) for model in models)
    if not any(item.kind in ("weight", "unread") for item in items):
        count = sum(1 for item in others if item.kind == "weight")
        if count:
            first, second = (clipped(name_of(str(path))) for path in (quantized_path, original_path))
            raise QuantVizError("audit.swapped", quantized=first, original=second, count=count)
    pairs = pairs_of(*models, items, others)
    if not any(pair.match for pair in pairs):
        raise QuantVizError(
            "audit.no_partner", quantized=clipped(items[0].name), original=clipped(others[0].name)
        )
    return _PairedTensors(items, others, pairs)


@dataclass(frozen=True, eq=False)
class AuditAnswer:
    """Results of an audit for a page, by language."""

    messages: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, list[dict[str, Any]]]
    is_sound: bool


def audit_as_job(quantized: str, original: str) -> AuditAnswer:
    keep_memory()
    result = audit(quantized, original, results=default_results(), report=budget.report)
    messages = {language: result.messages(language) for language in languages()}
    rows = {language: result.rows(language) for language in languages()}
    return AuditAnswer(messages, rows, result.is_sound)


@public
def audited_result(quantized_path: str | PurePath, original_path: str | PurePath, tensor: str) -> QuantResult:
    """Return a quantized tensor's own codes, scales and values beside its original's.

    It is a result as `quantize` gives one, so figures and `explain` show the file's codes. Where GPTQ's
    act-order moved columns, they are in the order of groups.

    Args:
        quantized_path: As in `audit`.
        original_path: The same.
        tensor: Its name in the quantized file, as `audit` has it.

    Raises:
        QuantVizError: There is no such quantized tensor, it has no partner, or it cannot be decoded.
    """
    with both_open(quantized_path, original_path) as (quantized, original):
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
        x = original_as_stored(pair, weight, quantized.tensors, original.tensors)[0]
        result = result_of_band(AuditBands(weight, x).band(0, weight.shape[0]))[0]
        return replace(result, notes=(*result.notes, *x.done, *weight.notes))


class _AuditRun:
    """One run of an audit: stored results are taken, all other pairs compared."""

    def __init__(
        self,
        models: tuple[OpenModel, OpenModel],
        pairs: Sequence[TensorPair],
        keys: Sequence[str | None],
        store: Results | None,
        report: Callable[[int, int], object],
    ) -> None:
        self._models = models
        self._pairs = pairs
        self._keys = keys
        self._store = store
        self._report = report
        self._results: dict[int, TensorAudit] = {}

    def take_stored(self) -> None:
        keys = [key for key in self._keys if key is not None]
        stored = self._store.pairs(keys) if self._store is not None else {}
        for at, (pair, key) in enumerate(zip(self._pairs, self._keys, strict=True)):
            record = stored.get(key or "")
            result = None if record is None else pair_rows.read(record, pair)
            if result is not None:
                self._results[at] = of_pair(result, pair, *self._models)
        if self._results:
            self._report(len(self._results), len(self._pairs))

    def missing(self) -> list[tuple[int, TensorPair]]:
        return [(at, pair) for at, pair in enumerate(self._pairs) if at not in self._results]

    def compare(self, missing: Sequence[tuple[int, TensorPair]], workers: int) -> None:
        def work(numbered: tuple[int, TensorPair]) -> TensorAudit:
            return audited(numbered[1], *self._models)

        with closing(results_of(work, missing, workers)) as results:
            for (at, _), result in zip(missing, results, strict=True):
                self.take(at, result)

    def take_done(self, coming: Iterable[tuple[AuditTask, tuple[TensorAudit, ...]] | None]) -> None:
        for task, results in filter(None, coming):
            for at, result in zip(task.positions, results, strict=True):
                self.take(at, result)

    def take(self, at: int, result: TensorAudit) -> None:
        key = self._keys[at]
        record = None if key is None else pair_rows.written(result)
        if self._store is not None and key is not None and record is not None:
            self._store.put_pair(key, record)
        self._results[at] = result
        self._report(len(self._results), len(self._pairs))

    @property
    def tensors(self) -> list[TensorAudit]:
        return [self._results[at] for at in range(len(self._pairs))]


def _account(
    tensors: Sequence[TensorAudit], models: tuple[OpenModel, OpenModel], sides: _PairedTensors
) -> Account:
    quantized: dict[str, TensorOutcome] = {}
    of_parts: dict[str, list[tuple[TensorOutcome, int]]] = {}
    partners: dict[str, list[str]] = {}
    names = {item.name for item in sides.original}
    for tensor, pair in zip(tensors, sides.pairs, strict=True):
        outcome = TensorOutcome(tensor.became, tensor.reason)
        there = [tensor_of(names, partner.name)[0] for partner in pair.partners or (pair.partner,) if partner]
        if pair.item:
            quantized[pair.item.name] = replace(
                outcome,
                is_sound=tensor.is_sound,
                sqnr_db=tensor.gated_db,
                partners=tuple(there),
                elements=tensor.elements,
            )
        for name in there:
            of_parts.setdefault(name, []).append((outcome, tensor.elements))
            partners.setdefault(name, []).extend([pair.item.name] if pair.item else [])
    original: dict[str, TensorOutcome] = {}
    for item in sides.original:
        whole = TensorOutcome("left_aside", Note.of("audit.aside.whole", dtype=item.dtype))
        parts = of_parts.get(item.name, [(whole, item.elements)])
        # Of experts in one tensor the outcome of the least read one, with the elements it lacks.
        worst = max((outcome for outcome, _ in parts), key=lambda outcome: _ORDER.index(outcome.became))
        lost = sum(elements for outcome, elements in parts if outcome.became == worst.became)
        elements = lost if worst.became == "not_read" else item.elements
        original[item.name] = replace(worst, partners=tuple(partners.get(item.name, ())), elements=elements)
    return Account(
        (
            *accounted(models[0], "quantized", sides.quantized, quantized),
            *accounted(models[1], "original", sides.original, original),
        )
    )


#: Precedence of outcomes where the parts of one tensor differ, the last one highest.
_ORDER: tuple[Became, ...] = (
    *("left_aside", "equal", "compared", "not_quantized_here", "refused", "not_read"),
)


def _row(tensor: TensorAudit, language: str) -> dict[str, object]:
    scheme = tensor.scheme
    return {
        "tensor": tensor.tensor or None,
        "original": tensor.original or None,
        "status": tensor.status,
        "coverage": tensor.became,
        "reason": tensor.reason and tensor.reason.message(language),
        "matched": tensor.matched or None,
        "layout": tensor.layout or None,
        "type": type_of(scheme),
        "shape": tensor.shape or None,
        "elements": tensor.elements,
        "stored_bytes": tensor.stored_bytes,
        "format": scheme and scheme.format,
        "granularity": scheme and text_form.write(scheme.granularity),
        "symmetric": tensor.symmetric,
        "scale_dtype": tensor.scale_dtype or None,
        "bits": None if scheme is None else tensor.bits,
        "rounding": tensor.rounding or None,
        "nearest_share": None if scheme is None else tensor.nearest_share,
        "blocks": None if scheme is None else tensor.blocks,
        "saturated_blocks": None if scheme is None else tensor.saturated_blocks,
        "unused_codes": None if scheme is None else tensor.unused_codes,
        "oddities": list(tensor.oddities),
        **{name: tensor.metrics.get(name) for name in METRICS if name != "effective_bits"},
        "fused_sqnr_db": tensor.fused_sqnr_db,
        "done": [note.message(language) for note in (*tensor.done, *tensor.notes)],
    }
