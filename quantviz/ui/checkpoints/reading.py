"""Scans as the page sees them: their list, and the results of each so far.

Nothing is measured here. Rows that were read are kept, so that a look at a running scan reads new rows only.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.checkpoints.example import EXAMPLE, example_file
from quantviz.checkpoints.model_map import ScannedModel, read_model
from quantviz.checkpoints.offered import RESULTS, OfferedFiles, checkpoint_path, offered, offered_as
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.errors import QuantVizError
from quantviz.jobs import Cost, Job, no_answer, runner
from quantviz.sources.hubs.addresses import published_name, published_place
from quantviz.sources.local import data_folder, folder_offered, real_path
from quantviz.sources.sandbox import READING
from quantviz.sources.stores.addresses import is_address
from quantviz.text import visible
from quantviz.ui.checkpoints.importance import imatrix_path, upload_of
from quantviz.ui.checkpoints.model_state import RUNNING
from quantviz.ui.checkpoints.state import FIRST_LOOK, USUAL, CheckpointsState
from quantviz.ui.lab.dropped_files import CAPTURE, MODEL, RUNS, dropped_files, dropped_kind
from quantviz.ui.shell.bounds import RESULT_ROWS
from quantviz.ui.shell.long_work import read_file
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import language, say

if TYPE_CHECKING:
    from quantviz.checkpoints.results.store import Results
    from quantviz.checkpoints.results.stored_rows import Scan
    from quantviz.checkpoints.scan.listing import Entry

#: Seconds for which the listing of the folder is cached.
_LISTING_SECONDS = 5
#: Scans whose rows are kept, and files of results in which scans are looked for.
_MOST_KEPT = 12
_MOST_FILES = 20
#: The cost of a scan, which has time to store what it measured; and scans that have ended and are known.
SCANS = Cost(queue="scans", grace=20.0)
_MOST_ENDED = 16
#: The cost of reading a stranger's file of results, which may be copied.
_RESULTS = replace(READING, scratch=2**30)
#: Seconds to wait for the first square, and between two looks for it.
_FIRST_SECONDS = 0.8
_LOOK_SECONDS = 0.04
#: Content and status of a tensor that is not read yet.
_NOTHING = None, None
#: Between a file of results and the number of a scan in it.
NUMBERED = "#"
SAME = "."


@dataclass(frozen=True, eq=False)
class ScanView:
    """A scan so far; None as long as there is only the checkpoint."""

    scan: Scan | None
    model: ScannedModel


@dataclass(eq=False)
class _CachedScan:
    rows: dict[int, tuple[tuple[str | None, str | None], list[ResultRow]]] = field(default_factory=dict)
    seen: ScanView | None = None
    lock: Any = field(default_factory=threading.Lock)


@st.cache_resource(show_spinner=False)
def _scans() -> OrderedDict[str, Job[None]]:
    """Return this server's last scan of each checkpoint."""
    return OrderedDict()


def scan_of(chosen: str) -> Job[None] | None:
    """Return this server's last scan of the chosen checkpoint; None where none is known."""
    return None if is_results(chosen) else _scans().get(str(path_of(chosen)))


def start_scan(
    path: str | Path, recipes: Iterable[str], engine: str = "", imatrix: str = "", results: Path | None = None
) -> None:
    """Begin a scan, after those that were requested before; what was requested already is not begun again.

    Args:
        path: The checkpoint's path or address.
        recipes: Recipes by id.
        engine: The id of an engine, of whose tensors it then is.
        imatrix: The path of an importance matrix.
        results: The file of results, by default the usual one.
    """
    from quantviz.checkpoints.scan.scanning import scan_as_job

    asked = (str(path), tuple(recipes), engine, imatrix, None if results is None else str(results))
    work = partial(scan_as_job, *asked)
    scans = _scans()
    scans[asked[0]] = runner().submit(work, ("scan", asked), SCANS, stays=True)
    scans.move_to_end(asked[0])
    for old in [each for each, job in scans.items() if job.state == "ended"][:-_MOST_ENDED]:
        del scans[old]


def prepare_scans() -> Job[None]:
    """Have a process ready for the first scan, with the kernels of its usual recipes; return that job."""
    from quantviz.checkpoints.scan.scanning import make_ready

    work = partial(make_ready, tuple(dict.fromkeys((*FIRST_LOOK, *USUAL))))
    return runner().submit(work, "ready for scans", SCANS, ahead=True)


def cancel_scan(path: str | Path) -> None:
    """End the last scan of a checkpoint, or its wait: its measurements are kept."""
    job = _scans().get(str(path))
    if job is not None:
        job.cancel()


def is_starting(chosen: str) -> bool:
    """Return whether this server scans this checkpoint, or will when the scans before it have ended."""
    job = scan_of(chosen)
    return job is not None and job.state != "ended"


@st.cache_resource(max_entries=_MOST_KEPT, show_spinner=False)
def _kept(results: str, inode: int, scan: int, language: str) -> _CachedScan:
    """Return the rows of a scan in a file of results, in a language, that were read before."""
    return _CachedScan()


@st.cache_data(ttl=_LISTING_SECONDS, show_spinner=False)
def _offered(folder: str) -> OfferedFiles:
    return offered()


def offered_now() -> OfferedFiles:
    """Return the files to choose from in the server's folder; none where no folder is set."""
    return _offered(str(data_folder())) if folder_offered() else OfferedFiles()


def is_results(chosen: str) -> bool:
    """Return whether a file of results is chosen."""
    return chosen.endswith(RESULTS)


def path_of(chosen: str) -> str | Path:
    """Return the path or the address of the chosen checkpoint; `QuantVizError` where it is not offered."""
    if is_address(chosen):
        published_place(chosen)
        return chosen
    if chosen == EXAMPLE:
        return example_file()
    if chosen == MODEL:
        return dropped_files(MODEL).path
    there = offered_now()
    if is_results(chosen) and chosen in there.results:
        return real_path(chosen)
    if chosen not in there.checkpoints:
        raise QuantVizError("checkpoint.not_offered", file=chosen[:200])
    return checkpoint_path(chosen)


def name_of(chosen: str) -> str:
    """Return the label of a choice."""
    if chosen == EXAMPLE:
        return say("checkpoints.example")
    if chosen in (MODEL, CAPTURE, RUNS):
        return dropped_files(chosen).name if dropped_kind() == chosen else say("drop.none")
    if chosen in RUNNING:
        return say(f"models.names.{RUNNING[chosen]}")
    if is_address(chosen):
        return visible(published_name(chosen))
    name = chosen.removesuffix(".safetensors.index.json").removesuffix(".bin.index.json").removesuffix("/")
    for usual in ("/model", "/pytorch_model"):
        name = name.removesuffix(usual)
    return visible(name.removesuffix("/model.safetensors") or chosen)


class _Strangers:
    """A stranger's file of results: the methods of `Results`, each called apart from here."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._read, method)

    def _read(self, method: str, *given: Any) -> Any:
        facts = self.path.stat()
        key = self.path, facts.st_size, facts.st_mtime_ns, method, repr(given)
        work = partial(_answer, self.path, methodcaller(method, *given))
        return read_file(work, key, self.path.name, cost=_RESULTS)


def _answer(path: Path, ask: Callable[[Results], Any]) -> Any:
    from quantviz.checkpoints.results.store import Results

    with Results(path, read_only=True) as results:
        found = ask(results)
        return list(found) if isinstance(found, Iterator) else found


@contextmanager
def _results_of(chosen: str) -> Iterator[Results | None]:
    """Open the results that hold the scans of a choice; None before the first scan."""
    from quantviz.checkpoints.results.store import Results, default_results

    if is_results(chosen):
        yield cast("Results", _Strangers(Path(path_of(chosen))))
        return
    path = dropped_files(MODEL).results if chosen == MODEL else default_results()
    if not path.is_file():
        yield None
        return
    with Results(path, read_only=True) as results:
        yield results


def _newest(results: Results, chosen: str) -> list[Scan]:
    if is_results(chosen):
        return list(results.scans())
    from quantviz.checkpoints.model.opening import known_as
    from quantviz.checkpoints.results.store import stored_text

    path = stored_text(known_as(path_of(chosen)))
    return [scan for scan in results.scans() if scan.path == path]


def scans_of(chosen: str) -> tuple[Scan, ...]:
    """Return the scans of a choice, the last first."""
    with _results_of(chosen) as results:
        return tuple(_newest(results, chosen)) if results else ()


def scan_problems(chosen: str) -> tuple[QuantVizError, ...]:
    """Return the reasons why scans of a chosen file of results cannot be read."""
    if not is_results(chosen):
        return ()
    with _results_of(chosen) as results:
        return results.problems() if results else ()


def find_scan(state: CheckpointsState) -> Scan | None:
    """Return the scan of a state: that of its recipes, else the last of its checkpoint; None before the
    first scan.

    Raises:
        QuantVizError: The results cannot be read, or a file of results has no scan that can be.
    """
    if not state.chosen:
        return None
    scans = scans_of(state.chosen)
    if is_results(state.chosen):
        if not scans:
            raise QuantVizError("allocate.no_scan", file=state.chosen)
        return next((scan for scan in scans if scan.id == state.number), scans[0])
    # Numbers measured with somebody's upload are shown to whoever has it.
    scans = tuple(scan for scan in scans if upload_of(scan) in ("", state.imatrix))
    of_these = next((scan for scan in scans if is_scan_of(scan, state)), None)
    return of_these or (scans[0] if scans else None)


def is_scan_of(scan: Scan, state: CheckpointsState) -> bool:
    """Return whether a scan is one of the engine, the recipes and the importance that a state asks for."""
    from quantviz.checkpoints.scan.selection import Selection

    selection = Selection(state.engine, imatrix=imatrix_path(state))
    return names_of(scan) == state.recipes and scan.selection == selection


def _mark_of(path: str | Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of a checkpoint's files: cache key of its headers, which read slowly.
    Files at a commit never change.

    Raises:
        QuantVizError: The folder cannot be listed.
    """
    if isinstance(path, str):
        return ()
    folder = path if path.is_dir() else path.parent
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise QuantVizError("allocate.cannot_read", file=folder.name, reason=error.strerror) from None
    marks = []
    for name in names:
        try:
            looked = (folder / name).stat()
        except OSError:
            continue  # it has just gone: that differs, too
        if stat.S_ISREG(looked.st_mode):
            marks.append((name, looked.st_size, looked.st_mtime_ns))
    return tuple(marks)


@st.cache_data(max_entries=4, show_spinner=False)
def _headers(path: str, engine: str, mark: object) -> tuple[Entry, ...]:
    """Return the tensors of a checkpoint, whose files have that mark."""
    from quantviz.checkpoints.scan.selection import entries_of
    from quantviz.sources.stores.store import answered
    from quantviz.sources.stores.web import store_of

    work = partial(entries_of, path, engine)
    if path == str(example_file()):  # it comes with the program
        return work()
    answers = partial(answered, store_of(path), path) if is_address(path) else no_answer
    return read_file(work, ("headers", path, engine, mark), PurePath(path).name, answers=answers)


def look_at_headers(state: CheckpointsState) -> ScannedModel:
    """Return a checkpoint before any measurement, from the headers of its files."""
    path = path_of(state.chosen)
    listed = _headers(str(path), state.engine, _mark_of(path))
    aside = (
        ResultRow(each.name, recipe, "left_aside", shape=each.shape, dtype=each.dtype, file=each.file)
        for each in listed
        if each.unmeasured is not None and each.unmeasured.status == "left_aside"
        for recipe in state.recipes
    )
    tensors = ((each.name, each.shape, each.dtype, each.file) for each in listed)
    return read_model(tensors, aside, state.recipes)


def names_of(scan: Scan) -> tuple[str, ...]:
    """Return the recipes of a scan as they are called."""
    return tuple(name for name, _ in scan.recipes)


def look_now(state: CheckpointsState, wait: bool) -> ScanView:
    """Return the results of a scan so far, or the checkpoint alone where it has not begun.

    With `wait` it waits a moment for the first result.
    """
    until = time.monotonic() + _FIRST_SECONDS
    with run_queue().leave():
        while True:
            scan = find_scan(state)
            seen = look(state.chosen, scan) if scan else None
            begins = seen is None or (is_starting(state.chosen) and not _has_begun(seen))
            if not wait or not begins or time.monotonic() > until:
                return seen or ScanView(None, look_at_headers(state))
            time.sleep(_LOOK_SECONDS)


def _has_begun(seen: ScanView) -> bool:
    return any(row.status == "ok" for tensor in seen.model.tensors for row in tensor.rows.values())


def look(chosen: str, scan: Scan) -> ScanView:
    """Return the results of a scan so far."""
    with _results_of(chosen) as results:
        assert results is not None
        kept = _kept(str(results.path), results.path.stat().st_ino, scan.id, language())
        with kept.lock:
            return _looked(results, scan.id, kept)


def _looked(results: Results, number: int, kept: _CachedScan) -> ScanView:
    scan = results.scan(number)
    listed = results.listed(number)
    marks: dict[int, tuple[str | None, str | None]] = {
        each.position: (each.content, each.status) for each in listed
    }
    new = {
        position
        for position, mark in marks.items()
        if mark != _NOTHING and (position not in kept.rows or kept.rows[position][0] != mark)
    }
    gone = [position for position in kept.rows if marks.get(position, _NOTHING) == _NOTHING]
    for position in gone:
        del kept.rows[position]
    if new:
        if len(listed) * len(scan.recipes) > RESULT_ROWS:
            raise QuantVizError("checkpoint.results_too_many_rows", file=results.path.name, most=RESULT_ROWS)
        read: dict[int, list[ResultRow]] = {position: [] for position in new}
        for position, rows in results.rows_by_position(number, language(), new):
            read[position] += rows
        for position, rows in read.items():
            kept.rows[position] = marks[position], rows
    if new or gone or kept.seen is None or len(kept.seen.model.tensors) != len(listed):
        tensors = ((each.tensor, each.shape, each.dtype, each.file) for each in listed)
        measured = (row for _, rows in kept.rows.values() for row in rows)
        kept.seen = ScanView(scan, read_model(tensors, measured, names_of(scan)))
    else:
        kept.seen = ScanView(scan, kept.seen.model)
    return kept.seen


# ---- two beside each other ------------------------------------------------------------------------


def others() -> dict[str, Scan]:
    """Return the scans that can stand beside another, by their names in links."""
    there = offered_now()
    scans: dict[str, Scan] = {}
    example = str(path_of(EXAMPLE))
    with _results_of("") as results:
        for scan in results.scans() if results else ():
            name = EXAMPLE if scan.path == example else offered_as(scan.path, there.checkpoints)
            if name is not None and name not in scans and not upload_of(scan):
                scans[name] = scan
    for file in there.results[:_MOST_FILES]:
        try:
            scans |= {f"{file}{NUMBERED}{scan.id}": scan for scan in scans_of(file)}
        except QuantVizError:
            continue  # it is shown with the choice
    return scans


def look_beside(state: CheckpointsState) -> tuple[ScanView, str] | None:
    """Return the scan beside the one that is shown, and its recipe; None where there is none."""
    if not state.other:
        return None
    if state.other == SAME:
        scan = find_scan(state)
        chosen = state.chosen
    else:
        scan = others().get(state.other)
        chosen = state.other.partition(NUMBERED)[0]
    if scan is None:
        return None
    seen = look(chosen, scan)
    recipes = seen.model.recipes
    return seen, state.other_recipe if state.other_recipe in recipes else recipes[0]
