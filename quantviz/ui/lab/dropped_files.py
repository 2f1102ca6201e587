"""Files that a person has dropped for the page of models: in a folder of this session, and gone with it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import streamlit as st

from quantviz.checkpoints.offered import WEIGHTS
from quantviz.errors import QuantVizError
from quantviz.text import visible
from quantviz.whole_files import put_whole

#: The choices of dropped files among checkpoints, by their kind; no file below a folder is called so.
MODEL, CAPTURE, RUNS = "model:upload", "capture:upload", "runs:upload"
#: The kind of a file of queries, keys and values, which has a page of its own.
HEADS = "heads:upload"
_KEPT = "dropped_files"


@dataclass(frozen=True)
class StoredFile:
    """A dropped file on the disk, with the attributes of Streamlit's uploads that readers ask for."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def getvalue(self) -> bytes:
        """Return its content."""
        return self.path.read_bytes()


@dataclass(frozen=True, eq=False)
class DroppedFiles:
    """Files that were dropped together; no other session sees them."""

    #: `MODEL`, `CAPTURE`, `RUNS` or `HEADS`.
    kind: str
    #: Its name for people.
    name: str
    files: tuple[StoredFile, ...]
    #: The folder with all of it, removed when the session is freed.
    folder: Path

    @property
    def path(self) -> Path:
        """Return the path of the one file, or of the folder of several."""
        first = self.files[0].path
        return first if len(self.files) == 1 else first.parent

    @property
    def results(self) -> Path:
        """Return the path of the results of its scans."""
        return self.folder / "results.sqlite"


def keep_dropped(kind: str, files: Sequence[Any]) -> None:
    """Write uploaded files into a folder of this session, in place of those before.

    Raises:
        QuantVizError: Two files have the same name.
    """
    # The names are untrusted: nothing but their last part is used.
    names = [PurePosixPath(each.name.replace("\\", "/")).name for each in files]
    for name in names:
        if name in ("", "..") or names.count(name) > 1:
            raise QuantVizError("drop.name", file=visible(name)[:200])
    folder = Path(tempfile.mkdtemp(prefix="quantviz-"))
    within = folder / "files"
    within.mkdir()
    stored = [StoredFile(within / name) for name in names]
    others = f" + {len(stored) - 1}" if len(stored) > 1 else ""
    of_weights = (each.name for each in stored if each.name.lower().endswith(WEIGHTS))
    name = f"{visible(next(of_weights, names[0]))}{others}"
    kept = DroppedFiles(kind, name, tuple(stored), folder)
    # First of all: they may not fit on the disk.
    weakref.finalize(kept, shutil.rmtree, folder, ignore_errors=True)
    for file, each in zip(stored, files, strict=True):
        put_whole(file.path, each.getvalue())
    st.session_state[_KEPT] = kept


def dropped_files(kind: str) -> DroppedFiles:
    """Return the files of a kind that this session has.

    Raises:
        QuantVizError: It has none: a link carries no file.
    """
    kept = st.session_state.get(_KEPT)
    if not isinstance(kept, DroppedFiles) or kept.kind != kind:
        raise QuantVizError("drop.gone")
    return kept


def dropped_kind() -> str | None:
    """Return the kind of the files that this session has; None where it has none."""
    kept = st.session_state.get(_KEPT)
    return kept.kind if isinstance(kept, DroppedFiles) else None
