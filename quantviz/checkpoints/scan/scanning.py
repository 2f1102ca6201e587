"""Scans a checkpoint: plans, reads ahead, measures missing rows, keeps each tensor as it is done."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import torch
import xxhash

from quantviz.budget import is_dropped
from quantviz.checkpoints.allocation.file_size import file_sizes, has_header
from quantviz.checkpoints.model.account import Account, with_outcome
from quantviz.checkpoints.model.coverage_words import coverage_of_scan
from quantviz.checkpoints.model.opening import known_as
from quantviz.checkpoints.profiles import profile_named
from quantviz.checkpoints.results.store import Results, stamp_of
from quantviz.checkpoints.results.stored_rows import ScanProgress
from quantviz.checkpoints.results.typed_values import sentences
from quantviz.checkpoints.scan import cluster
from quantviz.checkpoints.scan.cluster import Done, Elsewhere, ScanJobs, joined
from quantviz.checkpoints.scan.listing import Entry, Unmeasured, list_checkpoint
from quantviz.checkpoints.scan.measuring import (
    ContentMeasurement,
    measure_for_now,
    measure_loaded,
    speed_notes,
)
from quantviz.checkpoints.scan.planning import MOST_TOGETHER, plan, smallest_first
from quantviz.checkpoints.scan.reading import Buffer, FileCache, GroupReader, LoadedTensor, read_tensor
from quantviz.checkpoints.scan.recipes import recipes_named, refusal_of
from quantviz.checkpoints.scan.selection import ALL_QUANTIZED, Selection, selected
from quantviz.checkpoints.scan.tasks import ScanTask, measure_read
from quantviz.errors import Note, QuantVizError
from quantviz.public_calls import public_but
from quantviz.quantization.input_dtype import input_notes
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.orientation import Named
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.sources.stores.addresses import is_address
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import has_kernels
from quantviz.streaming.readiness import is_compiled
from quantviz.streaming.tensor_facts import OnePassFacts
from quantviz.tensors.lazy import InMemory

if TYPE_CHECKING:
    import pandas

_BETWEEN_RATES = 0.25
#: Rows and columns of a warm-up's tensor: as many as kernels of large tensors take.
_SIDE = 1024


@dataclass(frozen=True)
class Execution:
    verify: bool = False
    threads: int | None = None
    scheduler: str | None = None

    def workers(self) -> AbstractContextManager[Elsewhere | None]:
        return joined(self.scheduler, threads=self.threads) if self.scheduler else nullcontext()


HERE = Execution()


@public_but("outputs_axis")
def scan(
    path: str | PurePath,
    recipes: str | Scheme | Iterable[str | Scheme],
    *,
    results: str | PurePath | None = None,
    verify: bool = False,
    threads: int | None = None,
    scheduler: str | None = None,
    outputs_axis: Named = None,
    engine: str | None = None,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    imatrix: str | PurePath | None = None,
) -> pandas.DataFrame:
    """Measure every tensor of a checkpoint under recipes, and return a long table.

    Tensors of the same bytes, dtype and shape as measured before are not measured again, in whatever file.

    Args:
        path: A file of tensors, an index of shards, a folder of files, or any part of a split .gguf; or the
            address of one, such as https://host/model.safetensors or s3://bucket/model/, of which byte ranges
            are read. Addresses that are not on the web need `quantviz[cluster]` and fsspec's package for
            their store.
        recipes: Recipes by id or name, schemes, or their text forms.
        results: The file that keeps the measurements; by default one in the user's cache folder.
        verify: Read every tensor, also of files that have not changed since they were read.
        threads: How many threads measure; the numbers have the same bits for any.
        scheduler: The address of a Dask scheduler whose workers measure, such as tcp://10.0.0.5:8786; they
            must see the same files under the same paths. Without one this process measures.
        outputs_axis: The axis of the output channels, where the files do not contain it or are wrong: 1 for
            inputs × outputs, several for stacked experts, as (0, 2); or a mapping by tensors with `*` for any
            text, as {"*.c_proj.weight": 1}. Where it does not fit a tensor, the axis of the files is used.
        engine: The engine whose tensors are measured, such as "llama.cpp", each in the type that it falls
            back to where a recipe does not fit. Without one: the matrices that engines quantize.
        include: Names, or patterns with `*`: only these are measured, whatever they are.
        exclude: And these are not.
        imatrix: llama.cpp's importance matrix, for recipes that weigh columns' errors in a search for scales.

    Returns:
        A row for each tensor under each recipe, in the checkpoint's order. The columns are
        `quantviz.checkpoints.results.table.COLUMNS`: status is "ok", "left_aside", "refused", "not_read" or
        "problem", fallback the recipe that the engine uses in its place, bits those of the whole tensor. NaN
        and Inf are counted, and other values measured. `attrs["notes"]` has notes on the files.

    Raises:
        QuantVizError: The checkpoint, the results or the scheduler cannot be opened, or a recipe is unknown.
            A problem with a single tensor is in its rows.
    """
    with Results(results) as opened:
        selection = selection_of(engine, include, exclude, imatrix)
        execution = Execution(verify, threads, scheduler)
        number = run_scan(opened, path, recipes, execution, outputs_axis=outputs_axis, selection=selection)
        return opened.table(number)


def selection_of(
    engine: str | None = None,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    imatrix: str | PurePath | None = None,
) -> Selection:
    included, excluded = (
        tuple([pattern] if isinstance(pattern, str) else pattern) for pattern in (include, exclude)
    )
    matrix = "" if imatrix is None else os.path.abspath(imatrix)
    return Selection(profile_named(engine).id if engine else "", included, excluded, matrix)


def run_scan(
    results: Results,
    path: str | PurePath,
    recipes: str | Scheme | Iterable[str | Scheme],
    execution: Execution = HERE,
    *,
    outputs_axis: Named = None,
    selection: Selection = ALL_QUANTIZED,
    cancelled: Callable[[], bool] = lambda: False,
    report: Callable[[ScanProgress], object] = lambda progress: None,
) -> int:
    """Scan a checkpoint into `results` and return the scan's number there.

    `cancelled` is called after each tensor under each recipe; once it is true the scan ends in the state
    "cancelled", and its measurements are kept. `report` is called with the progress, a few times a second at
    most.
    """
    named = recipes_named(recipes)
    listing = selected(list_checkpoint(path, outputs_axis), selection, named)
    entries = listing.entries
    measured = [entry for entry in entries if entry.unmeasured is None]
    every_note = (
        *listing.notes,
        *_dtype_notes(named, measured),
        *_size_notes(selection, named, entries),
        *(() if execution.scheduler else speed_notes(math.prod(entry.shape) for entry in measured)),
    )
    with execution.workers() as elsewhere:
        number = results.begin(known_as(path), named, entries, map(sentences, every_note), selection)
        schemes = tuple(scheme for _, scheme in named)
        unfit = dict(_unfit(measured, schemes))
        account = with_outcome(listing.account, "unfit", unfit, of=["compared"])
        _note_coverage(results, number, account)
        run = _ScanRun(results, number, entries, execution, cancelled, report, elsewhere)
        try:
            done = run.all(schemes)
        except BaseException:
            # The disk may have no room for this either: then readers see that the process has ended.
            with suppress(QuantVizError):
                results.end(number, "cancelled")
            raise
    _note_coverage(results, number, with_outcome(account, "not_read", run.unread))
    results.end(number, "done" if done else "cancelled")
    report(results.scan(number).progress)
    return number


def _unfit(measured: Iterable[Entry], schemes: tuple[Scheme, ...]) -> Iterator[tuple[str, QuantVizError]]:
    for entry in measured:
        fitting = (scheme for scheme in entry.schemes(schemes) if scheme is not None)
        reason = next((refusal_of(scheme, entry.shape, entry.outputs) for scheme in fitting), None)
        if reason is not None and not entry.fitting(schemes):
            yield entry.name, reason


def _note_coverage(results: Results, number: int, account: Account) -> None:
    results.note_coverage(number, sentences(coverage_of_scan(account)), account.is_complete)


def _size_notes(
    selection: Selection, named: Sequence[tuple[str, Scheme]], entries: Sequence[Entry]
) -> Iterator[Note]:
    profile = selection.profile
    if profile is None or profile.files is None:
        return
    sizes = file_sizes(entries, named, profile.files)
    if not sizes:
        return
    amounts = ", ".join(f"{name} {size / 1e6:,.4g} MB" for name, size in sizes.items())
    key = "whole_file" if has_header(entries, profile.files) else "whole_file_without_header"
    yield Note.of(f"checkpoint.{key}", engine=profile.name, sizes=amounts)


def _dtype_notes(named: Iterable[tuple[str, Scheme]], measured: Iterable[Entry]) -> Iterator[Note]:
    """Yield a note for each reason and dtype, on the recipes that widen tensors of half precision."""
    names: dict[tuple[str, str], list[str]] = {}
    there = {entry.dtype for entry in measured}
    for dtype, (name, scheme) in itertools.product([half for half in HALVES if half in there], named):
        for note in input_notes(scheme, dtype):
            if note.key != "input_as_engine":
                names.setdefault((note.key, dtype), []).append(name)
    for (key, widened), recipes in names.items():
        yield Note.of("of_recipes", recipes=", ".join(recipes), note=Note.of(key, dtype=widened))


class _ScanRun:
    def __init__(
        self,
        results: Results,
        number: int,
        entries: Sequence[Entry],
        execution: Execution,
        cancelled: Callable[[], bool],
        report: Callable[[ScanProgress], object],
        elsewhere: Elsewhere | None,
    ) -> None:
        self._results = results
        self._number = number
        self._entries = entries
        self._execution = execution
        self._cancelled = cancelled
        self._report = report
        self._elsewhere = elsewhere
        self._stamps = _stamps(entries)
        #: Tensors that turned out not to be readable, and why.
        self.unread: dict[str, QuantVizError] = {}
        self._pace = Pace()
        self._noted = 0.0

    def all(self, schemes: tuple[Scheme, ...]) -> bool:
        contents = self._known_contents()
        with self._results.together():
            for at, entry in enumerate(self._entries):
                if entry.unmeasured:
                    self._finish(at, entry, unmeasured=entry.unmeasured)
                elif not entry.fitting(schemes):
                    # Each row has its reason; nothing need be read.
                    self._finish(at, entry)
        missing = {
            at: set(map(self._entries[at].key, self._entries[at].fitting(schemes)))
            - self._results.known(content)
            for at, content in contents.items()
        }

        def wanted(at: int, scheme: Scheme) -> bool:
            return at not in missing or self._entries[at].key(scheme) in missing[at]

        if self._elsewhere is None:
            tasks = plan(self._entries, schemes, wanted)
        else:
            # A store sends small tensors together, but not more than a group of them.
            remote = any(is_address(entry.file) for entry in self._entries)
            most = MOST_TOGETHER if remote else math.inf
            tasks = plan(self._entries, schemes, wanted, work=cluster.WORK, together=most)
        tasks = smallest_first(tasks)
        waiting = {at for task in tasks for at in task.positions}
        with self._results.together():
            for at, content in contents.items():
                if at not in waiting:
                    self._finish(at, self._entries[at], content)
        self._report(self._results.scan(self._number).progress)
        if not tasks:
            return not self._cancelled()
        if self._elsewhere is not None:
            with closing(self._elsewhere(ScanJobs(tasks, self._results.known))) as coming:
                return all(self._of_task(done) for done in coming)
        self._show_first(tasks[0])
        for task, group in zip(tasks, GroupReader([task.entries for task in tasks]), strict=True):
            if not self._of_group(task, group):
                return False
        return not self._cancelled()

    def _show_first(self, task: ScanTask) -> None:
        """Show one row of the smallest tensor at once, where measuring it must wait for kernels."""
        entry = task.entries[0]
        scheme = task.schemes[0][0]
        if not limits.FUSED < math.prod(entry.shape) <= limits.SMALL or not has_kernels():
            return
        scheme_read = scheme.on_input(entry.dtype_read)
        if is_compiled(scheme_read, entry.seen, by_axis=False, counted=True):
            return
        with FileCache() as files:
            loaded = read_tensor(entry, files, Buffer.of([entry]), by_kernels=False)
        if loaded.values is not None and entry.key(scheme) not in self._results.known(loaded.content):
            self._results.show_for_now(self._number, task.positions[0], measure_for_now(loaded, scheme))

    def _of_group(self, task: ScanTask, group: Sequence[LoadedTensor]) -> bool:
        for position, loaded, schemes in zip(task.positions, group, task.schemes, strict=True):
            if self._cancelled():
                return False
            if loaded.problem is not None:
                self._finish(position, loaded.entry, unmeasured=Unmeasured("problem", loaded.problem))
                continue
            keys = self._results.known(loaded.content)
            missing = [scheme for scheme in schemes if loaded.entry.key(scheme) not in keys]
            threads = self._execution.threads
            try:
                rows = [*measure_read(loaded, missing, threads=threads, cancelled=self._cancelled)]
            except QuantVizError as problem:
                self._finish(position, loaded.entry, unmeasured=Unmeasured("problem", problem.again()))
                continue
            if len(rows) < len(missing):
                self._results.add(rows)
                return False
            self._finish(position, loaded.entry, loaded.content, rows=rows)
            self._note(loaded.entry)
        return True

    def _of_task(self, done: Done | None) -> bool:
        for position, result in zip(done.task.positions, done.measures, strict=True) if done else ():
            keys = self._results.known(result.content)
            rows = [row for row in result.rows if row.key not in keys]
            problem = Unmeasured("problem", result.problem) if result.problem else None
            self._finish(position, result.entry, result.content, problem, rows)
            self._note(result.entry)
        return not self._cancelled()

    def _finish(
        self,
        position: int,
        entry: Entry,
        content: str = "",
        unmeasured: Unmeasured | None = None,
        rows: Sequence[ContentMeasurement] = (),
    ) -> None:
        if unmeasured and unmeasured.status == "problem" and not entry.unmeasured:
            self.unread[entry.name] = unmeasured.reason
        stamp = None if _is_of_several(entry) else self._stamps.get(entry.file)
        unchanged = stamp is not None and stamp.startswith(stamp_of(entry.file, entry.version) or "-")
        file = stamp if stamp and unchanged else ""
        self._results.finish_tensor(self._number, position, entry, content, unmeasured, rows, file=file)

    def _note(self, entry: Entry) -> None:
        now = time.monotonic()
        self._pace.finished(entry.size, math.prod(entry.shape), now)
        if now - self._noted > _BETWEEN_RATES:
            self._noted = now
            self._results.note_rate(self._number, *self._pace.rate)
            self._report(self._results.scan(self._number).progress)

    def _known_contents(self) -> dict[int, str]:
        """Return the content hashes by tensors' places, for files unchanged since they were read."""
        contents: dict[int, str] = {}
        for at, entry in enumerate(self._entries):
            skipped = self._execution.verify or entry.unmeasured or _is_of_several(entry)
            stamp = None if skipped else self._stamps.get(entry.file)
            content = self._results.content(stamp, entry.name) if stamp else None
            if content:
                contents[at] = content
        return contents


def _is_of_several(entry: Entry) -> bool:
    """Return whether a tensor depends on other files: a configuration, other shards or other ranks."""
    return entry.decoded or entry.spread


def _stamps(entries: Iterable[Entry]) -> dict[str, str]:
    """Return a text for each file that changes when the file does: by its place on the disk, its size, its
    times, and its header. A file that was changed just now has none.
    """
    digests: dict[str, xxhash.xxh3_128] = {}
    stamps: dict[str, str] = {}
    for entry in entries:
        if _is_of_several(entry):
            continue
        if entry.file not in digests and (stamp := stamp_of(entry.file, entry.version)):
            stamps[entry.file] = stamp
        digest = digests.setdefault(entry.file, xxhash.xxh3_128())
        stamped = (entry.name, entry.dtype, entry.shape, *([] if entry.outputs == (0,) else [entry.outputs]))
        digest.update(repr(stamped).encode("utf-8", "backslashreplace"))
    return {file: f"{stamp} {digests[file].hexdigest()}" for file, stamp in stamps.items()}


class Pace:
    """Counts bytes and seconds from the first tensor on that kernels have measured.

    Until then kernels are compiled, once for all tensors: a rate of that time would estimate hours for a scan
    that takes a minute.

    >>> pace = Pace()
    >>> pace.finished(4096, 1024, now=30.0)
    >>> pace.finished(10**6, 2**20, now=60.0)  # its kernels were compiled
    >>> pace.rate
    (0, 0.0)
    >>> pace.finished(10**6, 2**20, now=60.5)
    >>> pace.rate
    (1000000, 0.5)
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._bytes = 0
        self._seconds = 0.0

    @property
    def rate(self) -> tuple[int, float]:
        return self._bytes, self._seconds

    def finished(self, size: int, elements: int, now: float) -> None:
        if self._began is not None:
            self._bytes += size
            self._seconds = now - self._began
        elif elements > limits.FUSED:
            self._began = now


def scan_as_job(path: str, recipes: Iterable[str], engine: str, imatrix: str, results: str | None) -> None:
    """Scan a checkpoint as a job, which keeps its measurements where it is cancelled; "" is no engine or no
    matrix.
    """
    with Results(results) as opened:
        selection = selection_of(engine or None, imatrix=imatrix or None)
        run_scan(opened, path, recipes, selection=selection, cancelled=is_dropped)


def make_ready(recipes: Iterable[str]) -> None:
    """Load the kernels of recipes, compiling those that no process has, until the job is dropped."""
    x = torch.linspace(-1, 1, _SIDE).half().float().expand(_SIDE, _SIDE).contiguous()
    OnePassFacts().take(np.empty(0, np.uint8), None, x.numpy().ravel(), 0)
    for dtype in ("float32", *HALVES):
        tried = LoadedTensor(Entry("", "", dtype, (_SIDE, _SIDE), 0), values=InMemory(x, dtype=dtype))
        for _ in measure_loaded(tried, [as_scheme(name) for name in recipes]):
            if is_dropped():
                return
