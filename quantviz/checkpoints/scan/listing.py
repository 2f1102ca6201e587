"""The tensors of a checkpoint: of one file, of the files an index names, or of a folder of shards.

A tensor that cannot be measured is listed with its reason: every weight has its rows, and every tensor and
byte is accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from quantviz.checkpoints.audit.one_scale import siblings_apart
from quantviz.checkpoints.model.account import Account, Became, TensorOutcome
from quantviz.checkpoints.model.items import ModelItem, accounted, bytes_of, items_of
from quantviz.checkpoints.model.opening import OpenModel, open_model
from quantviz.checkpoints.scan.importance import Importance
from quantviz.checkpoints.scan.recipes import refusal_of, row_key, seen_shape
from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import MOST_WEIGHT_AXES, Named, named_outputs
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.file_data import clipped

#: Prefix of the keys of reasons for a layout that is not read.
_LAYOUTS = "layouts."
_LISTED = 3


@dataclass(frozen=True)
class Unmeasured(Picklable):
    #: "left_aside" (no weight), "refused" (by all schemes), "not_read" (unknown layout) or "problem".
    status: str
    reason: QuantVizError


@dataclass(frozen=True)
class Entry(Picklable):
    name: str
    #: Path of the file that holds it; of a quantized weight in several files the checkpoint.
    file: str
    #: Its dtype in the file; of a quantized weight its layout and the format of its codes.
    dtype: str
    shape: Shape
    size: int
    unmeasured: Unmeasured | None = None
    #: Version of its file on another machine, see `FileData.version`.
    version: str = ""
    #: Whether it is a quantized weight, of which the decoded values are measured.
    decoded: bool = False
    spread: bool = False

    #: Axes of outputs, the rows as which it is quantized.
    outputs: tuple[int, ...] = (0,)
    #: An engine's substitutes for schemes that do not fit, by the schemes' places: another scheme, or None
    #: where it keeps the tensor.
    instead: tuple[tuple[int, Scheme | None], ...] = ()
    #: The places of schemes for which the engine's tool ends with an error at so many rows.
    refused: tuple[int, ...] = ()
    #: Weights of its columns' errors in a search for scales; None where all are alike.
    importance: Importance | None = None

    @property
    def seen(self) -> Shape:
        return seen_shape(self.shape, self.outputs)

    @property
    def dtype_read(self) -> str:
        """Return the dtype in which it is read: a quantized weight is decoded."""
        return "float32" if self.decoded else self.dtype

    def schemes(self, requested: Sequence[Scheme]) -> tuple[Scheme | None, ...]:
        """Return its scheme for each requested one; None where the tensor is kept as it is."""
        instead = dict(self.instead)
        return tuple(instead.get(at, scheme) for at, scheme in enumerate(requested))

    def key(self, scheme: Scheme) -> str:
        return row_key(scheme, self.importance.mark if self.importance else "")

    def fitting(self, requested: Sequence[Scheme]) -> tuple[Scheme, ...]:
        own = enumerate(self.schemes(requested))
        schemes = dict.fromkeys(each for at, each in own if each is not None and at not in self.refused)
        return tuple(each for each in schemes if refusal_of(each, self.shape, self.outputs) is None)


@dataclass(frozen=True)
class TensorListing(Picklable):
    entries: tuple[Entry, ...]
    notes: tuple[Note, ...] = ()
    #: As it follows from the headers.
    account: Account = field(default_factory=Account)


def list_checkpoint(path: str | PurePath, outputs_axis: Named = None) -> TensorListing:
    """Return the tensors of a checkpoint.

    Args:
        path: A file of any reader, an index of shards, a folder, or any part of a split .gguf; or the address
            of one of these, such as s3://bucket/model/. Of a folder it is the index where it has one, else
            all its files of one kind.
        outputs_axis: The axis of the output channels, where the files do not contain it: of all weights, or
            by name, see `scan`.

    Raises:
        QuantVizError: Nothing can be opened at `path`, or it holds several models.
    """
    with open_model(path) as model:
        model.tensors.file.name_outputs(named_outputs(outputs_axis))
        items = items_of(model, stacked=True)
        entries = [_entry(model, str(path), item) for item in items]
        notes: list[Note] = [each.reason for each in model.aside]
        notes += model.of_ranks
        for stray in model.strays:
            if isinstance(stray.reason, Note):
                notes.append(stray.reason)
                continue
            info = stray.catalog.info(stray.name)
            problem = Unmeasured("problem", stray.reason)
            entries.append(Entry(stray.name, stray.file, info.dtype, info.shape, 0, problem))
        notes += _outputs_notes(model, items)
        apart = siblings_apart(model.tensors)
        notes += [apart] if apart else []
        for kind in ("inputs", "training"):
            if aside := [item.name for item in items if item.kind == kind]:
                listed = ", ".join(map(clipped, aside[:_LISTED]))
                notes.append(Note.of(f"checkpoint.{kind}_aside", count=len(aside), names=listed))
        outcomes = {item.name: _outcome(entry) for item, entry in zip(items, entries, strict=False)}
        account = Account(tuple(accounted(model, "scanned", items, outcomes)))
        # Each where its file has it; of experts in one tensor each where the tensor is.
        parts = [item.parts[0] for item in items]
        places = [*zip((item.file for item in items), parts, strict=True)]
        places += [(entry.file, entry.name) for entry in entries[len(items) :]]
        in_order = tuple(entries[k] for k in model.in_order(places))
        return TensorListing(in_order, tuple(notes), account)


def _entry(model: OpenModel, path: str, item: ModelItem) -> Entry:
    there = [part for part in item.parts if part in model.files]
    spread = bool(model.of_ranks) or len({model.files[part] for part in there}) > 1
    return Entry(
        item.name,
        path if spread else item.file,
        item.dtype,
        item.shape,
        sum(bytes_of(model, part) for part in there),
        _unmeasured(item),
        model.tensors.version_of(item.name) if there else "",
        decoded=item.kind == "weight",
        spread=spread,
        # A decoded weight has its outputs first.
        outputs=model.tensors.file.orientation(item.parts[0]).outputs if _is_plain(model, item) else (0,),
    )


def _is_plain(model: OpenModel, item: ModelItem) -> bool:
    return item.kind == "plain" and item.parts[0] in model.files


def _outputs_notes(model: OpenModel, items: Iterable[ModelItem]) -> Iterator[Note]:
    turned: dict[str, list[str]] = {}
    for item in items:
        if not _is_plain(model, item) or len(item.shape) < 2:
            continue
        orientation = model.tensors.file.orientation(item.parts[0])
        if orientation.is_turned or (orientation.by == "guess" and len(item.shape) == 2):
            turned.setdefault(orientation.by, []).append(item.name)
    for by, names in turned.items():
        key = "checkpoint.outputs_guessed" if by == "guess" else "checkpoint.outputs_turned"
        evidence = Note.of(f"checkpoint.outputs_by.{by}")
        yield Note.of(key, count=len(names), names=", ".join(map(clipped, names[:_LISTED])), told=evidence)


def _unmeasured(item: ModelItem) -> Unmeasured | None:
    if item.kind == "whole":
        reason = QuantVizError("checkpoint.whole_numbers", name=clipped(item.name), dtype=item.dtype)
        return Unmeasured("left_aside", reason)
    if item.kind in ("inputs", "training"):
        return Unmeasured("left_aside", QuantVizError(f"checkpoint.kept.{item.kind}"))
    if item.reason is not None:
        is_layout = item.reason.key.startswith(_LAYOUTS)
        status = "not_read" if is_layout else "problem"
        return Unmeasured("refused" if item.reason.key == "file.not_numbers" else status, item.reason)
    if not item.elements:
        return Unmeasured("left_aside", QuantVizError("input_empty", shape=item.shape))
    if not item.shape:
        return Unmeasured("left_aside", QuantVizError("checkpoint.kept.single"))
    if len(item.shape) > MOST_WEIGHT_AXES:
        return Unmeasured("refused", QuantVizError("input_dims", got=len(item.shape), shape=item.shape))
    return None


def _outcome(entry: Entry) -> TensorOutcome:
    if entry.unmeasured is None:
        return TensorOutcome("compared")
    status = entry.unmeasured.status
    became: Became = status if status in ("left_aside", "refused") else "not_read"  # type: ignore[assignment]
    return TensorOutcome(became, entry.unmeasured.reason)
