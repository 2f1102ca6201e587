"""llama.cpp's importance matrix for a scan: one that lies in the server's folder, or one that is uploaded."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import streamlit as st
import xxhash

from quantviz.checkpoints.offered import below_folder
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.errors import QuantVizError
from quantviz.sources.local import real_path
from quantviz.text import visible
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.components.controls import choose_field
from quantviz.ui.shell import errors
from quantviz.ui.shell.bounds import UPLOADED_IMATRICES
from quantviz.ui.shell.long_work import read_file
from quantviz.ui.shell.words import plain, say, say_error
from quantviz.whole_files import own_folder, put_whole

if TYPE_CHECKING:
    from quantviz.checkpoints.results.stored_rows import Scan

#: Before the name of an upload: a hash of its content, with the file's ending.
_UPLOAD = "upload:"
_ENDINGS = (".gguf", ".dat", ".imatrix")
_UPLOADED = "checkpoints_imatrix_upload"
_PROBLEM = "checkpoints_imatrix_problem"


def is_heeded(state: CheckpointsState) -> bool:
    """Return whether a recipe of a state uses importance."""
    return any(scheme_named(name).weighs_columns for name in state.recipes)


def imatrix_path(state: CheckpointsState) -> str:
    """Return the path of the importance matrix of a state's scan; "" where it has none or no recipe uses it.

    Raises:
        QuantVizError: It is not there.
    """
    if not state.imatrix or not is_heeded(state):
        return ""
    if not state.imatrix.startswith(_UPLOAD):
        return str(real_path(state.imatrix))
    folder = own_folder("imatrix")
    name = state.imatrix.removeprefix(_UPLOAD)
    if folder is None or name != PurePath(name).name or not (folder / name).is_file():
        raise QuantVizError("checkpoint.upload_gone", file=name[:60])
    return str(folder / name)


def imatrix_of(scan: Scan, offered: tuple[str, ...]) -> str:
    """Return a scan's importance matrix as a state has it; "" where it has none, or it lies elsewhere."""
    path = scan.selection.imatrix
    below = below_folder(path) if path else None
    return below if below and below in offered else upload_of(scan)


def upload_of(scan: Scan) -> str:
    """Return a scan's uploaded importance matrix as a state has it; "" where it was measured without one.

    Only the session that uploaded it has its name, a hash of the content.
    """
    path = Path(scan.selection.imatrix)
    return _UPLOAD + path.name if path.name and path.parent == own_folder("imatrix") else ""


def show_importance(state: CheckpointsState, offered: tuple[str, ...]) -> None:
    """Show which importance matrix a scan takes, where a recipe uses one."""
    if not is_heeded(state):
        return
    options = ("", *offered)
    if state.imatrix not in options:
        options = (*options, state.imatrix)
    with st.popover(plain(say("checkpoints.imatrix.label", name=_name(state.imatrix)))):
        names = {imatrix: _name(imatrix) for imatrix in options}
        choose_field(OWNER, "imatrix", "list", say("checkpoints.imatrix.which"), names, now=state.imatrix)
        st.file_uploader(
            say("checkpoints.imatrix.upload"),
            type=[ending.removeprefix(".") for ending in _ENDINGS],
            key=_UPLOADED,
            on_change=errors.safely(_take_upload),
        )
        if st.session_state.get(_PROBLEM):
            st.error(say_error(st.session_state[_PROBLEM]))
        st.caption(say("checkpoints.imatrix.about"))


def _name(imatrix: str) -> str:
    if not imatrix:
        return say("checkpoints.imatrix.none")
    if imatrix.startswith(_UPLOAD):
        uploaded = st.session_state.get(_UPLOADED)
        return visible(uploaded.name) if uploaded is not None else say("checkpoints.imatrix.uploaded")
    return visible(PurePath(imatrix).name)


def _take_upload() -> None:
    uploaded = st.session_state.get(_UPLOADED)
    st.session_state[_PROBLEM] = None
    if uploaded is None:
        return
    try:
        OWNER.change(imatrix=_UPLOAD + keep(uploaded.name, uploaded.getvalue()))
    except QuantVizError as problem:
        st.session_state[_PROBLEM] = problem


def keep(name: str, content: bytes) -> str:
    """Store an uploaded importance matrix for a scan and return its file name. Only the last few uploads are
    kept.

    Raises:
        QuantVizError: The file is no importance matrix, or there is no folder for it.
    """
    from quantviz.checkpoints.scan.importance import importances_in

    folder = own_folder("imatrix")
    if folder is None:
        raise QuantVizError("checkpoint.no_cache")
    # The name is untrusted: only its ending, which marks the format, is used.
    ending = next((each for each in _ENDINGS if name.lower().endswith(each)), _ENDINGS[-1])
    digest = xxhash.xxh3_128_hexdigest(content)
    path = folder / f"{digest}{ending}"
    read_file(partial(importances_in, content, visible(name)), ("importances", digest, name), name)
    put_whole(path, content)
    with suppress(FileNotFoundError):  # another session's upload is put in its place, or goes, meanwhile
        uploads = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        for each in uploads[UPLOADED_IMATRICES:]:
            each.unlink(missing_ok=True)
    return path.name
