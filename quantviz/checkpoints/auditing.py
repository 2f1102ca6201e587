"""A quantized file beside its original: every tensor with its partner, and a verdict in one sentence.

audit = qv.audit("model-Q4_K_M.gguf", "model/")
audit.verdict, audit.unmatched.original
audit.table()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from quantviz.checkpoints.audit_verdict import findings
from quantviz.checkpoints.folded_scales import unfolded
from quantviz.checkpoints.gguf_names import OtherNames
from quantviz.checkpoints.opening import name_of, open_checkpoint
from quantviz.checkpoints.originals import Original, as_converted, original_of, tensor_of
from quantviz.checkpoints.tensor_audit import TensorAudit, audit_plain, audit_weight, result_of_rows
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.pickling import Picklable
from quantviz.quantization.result import QuantResult
from quantviz.schemes import text_form
from quantviz.sources.files import Catalog
from quantviz.sources.files.file_data import clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.layouts import QuantizedWeight
from quantviz.sources.layouts.decoded import ModelTensors, model_tensors, values_of
from quantviz.text import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    import pandas

#: Dtypes of tensors that are no weights, such as positions and masks.
_NO_WEIGHTS = ("int", "uint", "bool")
#: Columns of the table that are counts.
_COUNTS = ("blocks", "saturated_blocks", "unused_codes")
#: What names may begin with in one file and not in the other.
_PREFIXES = ("model.", "bert.", "transformer.")
#: A weight is looked at for folded scales where its SQNR is below what so many bits give in the least, or its
#: layout is one of these.
_LOW_DB, _LOW_DB_A_BIT, _FOLDING = -10.0, 5.0, ("awq",)


class Unmatched(NamedTuple):
    """Names of tensors that have no partner, on both sides."""

    quantized: tuple[str, ...]
    original: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Audit(Picklable):
    """What was found of a quantized file beside its original."""

    #: In the order of the quantized file, quantized tensors first; then what has no partner.
    tensors: tuple[TensorAudit, ...]
    #: What is to be said, the verdict first.
    findings: tuple[Note, ...]

    def __repr__(self) -> str:
        return f"Audit({len(self.tensors)} tensors: {self.verdict})"

    @property
    def verdict(self) -> str:
        """Return the verdict in one sentence."""
        return self.findings[0].message()

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
        return [_row(each, language) for each in self.tensors]

    def table(self, language: str = DEFAULT_LANGUAGE) -> pandas.DataFrame:
        """Return a row for each tensor: its names, layout, status and scheme, how its codes were chosen, and
        every metric by its id.

        Raises:
            QuantVizError: pandas is not installed.
        """
        frame: pandas.DataFrame = load_pandas().DataFrame(self.rows(language))
        return frame.astype(dict.fromkeys(_COUNTS, "Int64"))


def audit(
    quantized_path: str | PurePath,
    original_path: str | PurePath,
    *,
    report: Callable[[int, int], object] = lambda done, count: None,
) -> Audit:
    """Compare a quantized checkpoint with its original, tensor by tensor.

    GPTQ, AWQ, compressed-tensors, FP8 by blocks, bitsandbytes and GGUF are decoded. What their makers did
    besides is undone: llama.cpp's names and order of rows, 1 added to Gemma's norms, AWQ's folded scales.

    Args:
        quantized_path: A file, an index of shards, a folder, or any part of a split .gguf; or the address of
            one, such as https://host/model.gguf, of which byte ranges are read.
        original_path: The same.
        report: Told how many tensors are done, and of how many, after each.

    Returns:
        A verdict, what else is to be said, and a row for each tensor. Errors are those of the weights as the
        file's maker had them: where scales were folded, the original is scaled in the same way.

    Raises:
        QuantVizError: A checkpoint cannot be opened, the original is the quantized one, or no tensor of one
            has a partner in the other. What is wrong with a single tensor is in its row.
    """
    with _both(quantized_path, original_path) as (quantized, original):
        weights = tuple(quantized.weights.values())
        if not weights and (other := original.weights):
            names = (name_of(str(path)) for path in (quantized_path, original_path))
            first, second = map(clipped, names)
            raise QuantVizError("audit.swapped", quantized=first, original=second, count=len(other))
        pairs, alone = _paired(quantized, original, weights)
        if not any(pair.original for pair in pairs):
            raise QuantVizError(
                "audit.no_partner",
                quantized=pairs[0].name if pairs else quantized.names[0],
                original=original.names[0],
            )
        tensors = []
        for done, pair in enumerate(pairs):
            tensors.append(_audited(pair, quantized, original))
            report(done + 1, len(pairs))
    tensors += [TensorAudit("", name, "", "unmatched") for name in alone]
    return Audit(tuple(tensors), findings(tensors))


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
        weights = quantized.weights
        pairs, _ = _paired(quantized, original, tuple(weights.values()))
        pair = next((pair for pair in pairs if pair.name == tensor and pair.weight and pair.original), None)
        if pair is None or pair.weight is None:
            known = ", ".join(each.name for each in pairs if each.weight and each.original)
            raise QuantVizError("audit.no_tensor", got=tensor, known=known)
        if pair.weight.problem:
            raise pair.weight.problem.again()
        x = _original(pair, pair.weight, quantized, original)[0]
        result = result_of_rows(pair.weight, x, 0, pair.weight.shape[0])[0]
        return dataclasses.replace(result, notes=(*result.notes, *x.done, *pair.weight.notes))


@contextmanager
def _both(quantized: str | PurePath, original: str | PurePath) -> Iterator[tuple[ModelTensors, ModelTensors]]:
    """Open both checkpoints while the `with` block lasts, quantized weights decoded in either."""
    with open_checkpoint(quantized) as one, open_checkpoint(original) as other:
        yield model_tensors(one), model_tensors(other)


@dataclass(frozen=True, eq=False)
class _Pair:
    #: The name in the quantized file, the quantized weight where it is one, and the name in the original.
    name: str
    weight: QuantizedWeight | None
    original: str


def _paired(
    quantized: ModelTensors, original: ModelTensors, weights: tuple[QuantizedWeight, ...]
) -> tuple[list[_Pair], list[str]]:
    """Return each tensor of the quantized file with its partner, and what is left of the original."""
    listed = tuple(name for name in original.model_names if _is_weight(original, name))
    there, others = set(listed), OtherNames(listed)
    of_gguf = isinstance(quantized.file, GgufCatalog)

    def partner(name: str) -> str:
        trimmed = [name[len(each) :] for each in _PREFIXES if name.startswith(each)]
        for candidate in (name, *trimmed, *(each + name for each in _PREFIXES)):
            tensor, expert = tensor_of(original, candidate)
            if tensor in there and (expert is None or _has_expert(original, tensor, expert)):
                return candidate
        return (others.of(name) if of_gguf else None) or ""

    pairs = [_Pair(weight.name, weight, partner(weight.name)) for weight in weights]
    pairs += [_Pair(name, None, partner(name)) for name in quantized.plain if _is_weight(quantized, name)]
    matched = {tensor_of(original, pair.original)[0] for pair in pairs}
    return pairs, [name for name in listed if name not in matched]


def _has_expert(catalog: Catalog, tensor: str, expert: int) -> bool:
    shape = catalog.info(tensor).shape
    return len(shape) == 3 and expert < shape[0]


def _is_weight(catalog: Catalog, name: str) -> bool:
    return not catalog.info(name).dtype.startswith(_NO_WEIGHTS)


def _audited(pair: _Pair, quantized: ModelTensors, original: ModelTensors) -> TensorAudit:
    weight = pair.weight
    layout = weight.layout if weight else "plain"
    try:
        # Of a file on another machine small tensors come together.
        quantized.expect((pair.name,))
        original.expect((tensor_of(original, pair.original)[0],) if pair.original else ())
        if weight and weight.problem:
            raise weight.problem.again()
        if not pair.original:
            return TensorAudit(pair.name, "", layout, "unmatched", shape=weight.shape if weight else ())
        return (
            _of_weight(pair, weight, quantized, original) if weight else _of_plain(pair, quantized, original)
        )
    except QuantVizError as problem:
        return TensorAudit(pair.name, pair.original, layout, "problem", problem)


def _of_weight(
    pair: _Pair, weight: QuantizedWeight, quantized: ModelTensors, original: ModelTensors
) -> TensorAudit:
    x, found = _original(pair, weight, quantized, original)
    return found if x.done == found.done else audit_weight(weight, x, pair.original)


def _original(
    pair: _Pair, weight: QuantizedWeight, quantized: ModelTensors, original: ModelTensors
) -> tuple[Original, TensorAudit]:
    """Return the original as the file's maker had it, and what was found before scales were unfolded."""
    x = as_converted(
        quantized.file,
        pair.name,
        weight.shape,
        lambda start, stop: values_of(weight, start, stop),
        original_of(original, pair.original, 2),
    )
    _check_shapes(pair, weight.shape, x)
    found = audit_weight(weight, x, pair.original)
    sqnr_db = found.metrics["sqnr_db"]
    low_db = _LOW_DB + _LOW_DB_A_BIT * weight.bits
    if weight.layout == "gguf" or (weight.layout not in _FOLDING and sqnr_db >= low_db):
        return x, found
    return unfolded(weight, x, pair.original, (quantized, original), sqnr_db) or x, found


def _of_plain(pair: _Pair, quantized: ModelTensors, original: ModelTensors) -> TensorAudit:
    values = original_of(quantized, pair.name, 1)
    own = original_of(original, pair.original, 1)
    x = as_converted(quantized.file, pair.name, values.shape, values.read, own)
    _check_shapes(pair, values.shape, x)
    return audit_plain(pair.name, values, x, pair.original, quantized.info(pair.name).dtype)


def _check_shapes(pair: _Pair, shape: tuple[int, ...], x: Original) -> None:
    if shape != x.shape:
        raise QuantVizError("audit.shapes", name=pair.name, got=shape, original=pair.original, shape=x.shape)


def _row(each: TensorAudit, language: str) -> dict[str, object]:
    """Return a row of the table: None where a column has no value."""
    scheme = each.scheme
    return {
        "tensor": each.tensor or None,
        "original": each.original or None,
        "status": each.status,
        "reason": each.reason and each.reason.message(language),
        "layout": each.layout or None,
        "shape": each.shape or None,
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
        **{name: each.metrics.get(name) for name in METRICS if name != "effective_bits"},
        "done": [note.message(language) for note in (*each.done, *each.notes)],
    }
