"""Rows of a results file as typed data: the one place where they are parsed.

A row that does not parse is a row with a problem and its reason; a scan that does not parse is none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from quantviz.checkpoints.profiles import PROFILES
from quantviz.checkpoints.results import typed_values as values
from quantviz.checkpoints.results.rows import STATUSES, ResultRow
from quantviz.checkpoints.results.typed_tables import COLUMNS, KINDS, NUMBERS
from quantviz.checkpoints.scan.listing import Entry
from quantviz.checkpoints.scan.measuring import ContentMeasurement
from quantviz.checkpoints.scan.selection import ALL_QUANTIZED, Selection
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme

if TYPE_CHECKING:
    import pandas

STATES = ("running", "done", "cancelled")
#: Key of the note on a scan's coverage: whether that is complete.
COVERAGE = "complete"
_LAST_PROCESS = 2**31 - 1

#: Columns of the tables, after their keys.
SCAN_COLUMNS = (
    "path", "recipes", "notes", "state", "process", "started", "updated", "bytes", "bytes_done", "measured",
    "bytes_read", "seconds",
)  # fmt: skip
TENSOR_COLUMNS = ("tensor", "file", "dtype", "shape", "content", "status", "reason")
MEASURED_COLUMNS = ("status", "reason", "numbers", "place")

_status = values.one_of(STATUSES)
_state = values.one_of(STATES)
_text = values.text
_json = values.json_value
_optional_text = values.optional(values.text)


@dataclass(frozen=True)
class ScanProgress:
    #: Tensors with a row for each recipe, and all of them; the same in bytes of the files.
    tensors_done: int
    tensors: int
    bytes_done: int
    bytes: int
    #: Rows that this run measured; all others were known.
    measured: int
    #: Of this run, and seconds left at this rate; None before there is a rate.
    bytes_per_second: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class Scan:
    id: int
    path: str
    #: Names as the user gave them, with the schemes.
    recipes: tuple[tuple[str, Scheme], ...]
    #: "running", "done", "cancelled" (also by a full disk), or "killed" where its process has just ended.
    state: str
    process: int
    #: Seconds since the epoch.
    started: float
    updated: float
    progress: ScanProgress
    #: By language.
    notes: tuple[dict[str, str], ...]
    #: By language; empty in older files.
    coverage: dict[str, str] = field(default_factory=dict)
    is_complete: bool = True
    selection: Selection = ALL_QUANTIZED


class Listed(NamedTuple):
    """A tensor of a scan: see `Entry`. Content and status are None as long as it waits."""

    position: int
    tensor: str
    file: str
    dtype: str
    shape: Shape
    content: str | None
    status: str | None
    outputs: tuple[int, ...] = (0,)
    instead: Mapping[int, Scheme | None] = MappingProxyType({})
    #: By language.
    reason: Mapping[str, str] | None = None
    #: The mark of its columns' importance, or "".
    importance: str = ""
    refused: Collection[int] = ()


def scan_of(number: int, row: Sequence[Any], tensors_done: int, tensors: int) -> Scan:
    """Return a scan from its row of `SCAN_COLUMNS`; `QuantVizError` for a value that cannot be one of
    ours.
    """
    raw = dict(zip(SCAN_COLUMNS, row, strict=True))
    counts = {name: values.whole(raw[name], name) for name in ("bytes", "bytes_done", "measured")}
    bytes_read = values.whole(raw["bytes_read"], "bytes_read")
    took = values.seconds(raw["seconds"], "seconds")
    rate = bytes_read / took if took and bytes_read else None
    state = _state(raw["state"], "state")
    process = values.whole(raw["process"], "process", _LAST_PROCESS)
    if state == "running" and not _alive(process):
        state = "killed"
    left = None
    if rate and state == "running":
        left = max(counts["bytes"] - counts["bytes_done"], 0) / rate
    notes = [_note(stored_note) for stored_note in values.elements(_json(raw["notes"], "notes"), "notes")]
    coverage, is_complete = next((note for note in notes if note[1] is not None), ({}, True))
    written = _json(raw["recipes"], "recipes")
    recipes = written if isinstance(written, dict) else {"recipes": written}
    return Scan(
        number,
        _text(raw["path"], "path"),
        _pairs(recipes.get("recipes")),
        state,
        process,
        values.seconds(raw["started"], "started"),
        values.seconds(raw["updated"], "updated"),
        ScanProgress(tensors_done, tensors, **counts, bytes_per_second=rate, seconds_left=left),
        tuple(words for words, marked in notes if marked is None),
        coverage,
        bool(is_complete),
        _selection(recipes),
    )


def frame_of(scan: Scan, rows: Iterable[ResultRow], language: str) -> pandas.DataFrame:
    """Return the rows of a scan as a table of `COLUMNS`, with the scan's notes in `attrs`."""
    pd = load_pandas()
    rows = tuple(rows)
    frame: pandas.DataFrame = pd.DataFrame(
        {name: pd.Series([row.value(name) for row in rows], dtype=KINDS[name].dtype) for name in COLUMNS}
    )
    frame.attrs["notes"] = [note[language] for note in scan.notes]
    frame.attrs["coverage"] = dict(scan.coverage)
    return frame


def listed_of(at: int, position: Any, row: Sequence[Any]) -> Listed:
    """Return a tensor from its row of `TENSOR_COLUMNS` after `at` others; one that does not parse has a
    problem, and one without a position −1 − `at`.
    """
    raw = dict(zip(TENSOR_COLUMNS, row, strict=True))
    place = position if isinstance(position, int) and position >= 0 else -1 - at
    try:
        name = values.name(raw["tensor"], "tensor")
    except QuantVizError:
        name = f"#{at + 1}"
    try:
        values.whole(position, "position")
        shape, outputs, instead, importance, refused = _shape_of(raw["shape"])
        return Listed(
            place,
            values.name(raw["tensor"], "tensor"),
            _text(raw["file"], "file"),
            _text(raw["dtype"], "dtype"),
            shape,
            _optional_text(raw["content"], "content"),
            values.optional(_status)(raw["status"], "status"),
            outputs,
            instead,
            _reason(raw["reason"]),
            importance,
            refused,
        )
    except QuantVizError as problem:
        return Listed(place, name, "", "", (), None, "problem", reason=values.sentences(problem))


def measured_of(row: Sequence[Any], shape: Shape | None = None) -> ContentMeasurement:
    """Return the measurement in a row of `MEASURED_COLUMNS`, its place within the `shape` if that is given;
    `QuantVizError` for a value that cannot be one of ours.
    """
    content, key, arithmetic, status, reason, written, at = row
    status = _status(status, "status")
    numbers = _json(written, "numbers")
    if not isinstance(numbers, dict):
        raise QuantVizError("rows.not_number", field="numbers", got=numbers)
    parsed = {
        name: KINDS[name].parse(numbers[name], name) for name in (*METRICS, *NUMBERS) if name in numbers
    }
    place = None if at is None else values.lengths(_json(at, "place"), "place")
    if status == "ok":
        for name in ("max_abs_error", "mse", "sqnr_db"):
            values.number(parsed.get(name), name)
        if place is not None and shape is not None:
            within = (at < most for at, most in zip(place, shape, strict=True))
            if len(place) != len(shape) or not all(within):
                raise QuantVizError("rows.place_outside", got=place, shape=shape)
    return ContentMeasurement(
        content, key, status, _reason(reason), MappingProxyType(parsed), place, arithmetic
    )


def shape_form(entry: Entry) -> Any:
    """Return the stored form of a tensor's shape, with all that is not as usual."""
    more: dict[str, Any] = {}
    if entry.outputs != (0,):
        more["outputs"] = entry.outputs
    if entry.instead:
        more["instead"] = {at: scheme and str(scheme) for at, scheme in entry.instead}
    if entry.refused:
        more["refused"] = entry.refused
    if entry.importance is not None:
        more["importance"] = entry.importance.mark
    return {"shape": entry.shape, **more} if more else entry.shape


def recipes_form(recipes: Sequence[tuple[str, Scheme]], selection: Selection) -> Any:
    listed = [[name, str(scheme)] for name, scheme in recipes]
    return {"recipes": listed, **selection.record()} if selection.record() else listed


def _shape_of(
    written: Any,
) -> tuple[Shape, tuple[int, ...], Mapping[int, Scheme | None], str, tuple[int, ...]]:
    stored = _json(written, "shape")
    if not isinstance(stored, dict):
        return values.lengths(stored, "shape"), (0,), MappingProxyType({}), "", ()
    shape = values.lengths(stored.get("shape"), "shape")
    outputs = values.lengths(stored.get("outputs", [0]), "outputs")
    if not outputs or len(set(outputs)) < len(outputs) or max(outputs) >= max(len(shape), 1):
        raise QuantVizError("rows.not_shape", field="outputs", got=outputs)
    instead = stored.get("instead", {})
    if not isinstance(instead, dict) or len(instead) > values.RESULT_RECIPES:
        raise QuantVizError("rows.not_json", field="instead", got=instead)
    importance = _text(stored.get("importance", ""), "importance")
    refused = values.lengths(stored.get("refused", []), "refused")
    return shape, outputs, MappingProxyType(dict(map(_instead, instead.items()))), importance, refused


def _instead(entry: tuple[str, Any]) -> tuple[int, Scheme | None]:
    at, form = entry
    place = values.whole(values.from_digits(at, "instead"), "instead")
    return place, None if form is None else Scheme.parse(_text(form, "instead"))


def _selection(record: Mapping[str, Any]) -> Selection:
    patterns = [record.get(name, []) for name in ("include", "exclude")]
    for group in patterns:
        if not isinstance(group, list):
            raise QuantVizError("rows.not_text", field="recipes", got=group)
    include, exclude = (tuple(_text(pattern, "recipes") for pattern in group) for group in patterns)
    engine = values.one_of(("", *PROFILES))(record.get("engine", ""), "engine")
    return Selection(engine, include, exclude, _text(record.get("imatrix", ""), "imatrix"))


def _pairs(written: Any) -> tuple[tuple[str, Scheme], ...]:
    listed = values.elements(written, "recipes")
    if not 0 < len(listed) <= values.RESULT_RECIPES:
        raise QuantVizError("rows.recipes", count=len(listed), most=values.RESULT_RECIPES)
    pairs = []
    for pair in listed:
        if not isinstance(pair, list) or len(pair) != 2:
            raise QuantVizError("rows.not_text", field="recipes", got=pair)
        name, form = pair
        pairs.append((_text(name, "recipes"), Scheme.parse(_text(form, "recipes"))))
    if len({name for name, _ in pairs}) < len(pairs):
        raise QuantVizError("rows.not_text", field="recipes", got=listed)
    return tuple(pairs)


def _note(written: Any) -> tuple[dict[str, str], bool | None]:
    words = values.in_each_language(written, "notes")
    marked = written.get(COVERAGE) if COVERAGE in written else None
    if not isinstance(marked, bool | None):
        raise QuantVizError("rows.not_sentence", field="notes", got=written)
    return words, marked


def _reason(written: Any) -> Mapping[str, str] | None:
    return None if written is None else values.in_each_language(_json(written, "reason"), "reason")


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True
    if process < 1:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # there is one, of another user
        return True
    return True
