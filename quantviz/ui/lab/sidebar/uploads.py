"""Pictures and files: read once, kept in this session only."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.orientation import Orientation
from quantviz.sources.image import CHANNELS
from quantviz.sources.matrix import as_opened
from quantviz.sources.upload import Upload, UploadedFile
from quantviz.text import visible
from quantviz.ui.components.choice import choose_among
from quantviz.ui.lab.sidebar.folder import choose_dtype, choose_tensor, first_readable, label_of
from quantviz.ui.lab.sidebar.nonfinite import show_error_and_choice, take
from quantviz.ui.lab.tensor import keep_upload
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.tensors.lazy import Stored

#: A file that was dropped on another page; a file in the uploader of its kind goes before it.
_DROPPED_PICTURE = "dropped_picture"
_DROPPED_FILE = "dropped_file"
_USUAL = Orientation()
_PICTURES = ("png", "jpg", "jpeg")

#: The control of the dtype of an array whose file does not contain it.
_READ_AS = "file_read_as"


def open_dropped(uploaded: Any) -> None:
    """Open a file that was dropped on another page: a picture, else the first tensor of it."""
    picture = uploaded.name.lower().rpartition(".")[2] in _PICTURES
    st.session_state[_DROPPED_PICTURE] = uploaded if picture else None
    st.session_state[_DROPPED_FILE] = None if picture else uploaded
    if picture:
        _read_image()
    else:
        _open_file()


def _picture() -> Any:
    return st.session_state.get("image_file") or st.session_state.get(_DROPPED_PICTURE)


def _file() -> Any:
    return st.session_state.get("tensor_file") or st.session_state.get(_DROPPED_FILE)


def show_image(state: LabState) -> None:
    """Upload a picture and choose its channel."""
    st.file_uploader(
        say("upload.image"),
        type=list(_PICTURES),
        key="image_file",
        on_change=errors.safely(_read_image),
        help=say("upload.private"),
    )
    words = {name: say(f"upload.channels.{name}") for name in CHANNELS}
    channel = st.session_state.get("image_channel", next(iter(CHANNELS)))
    choose_among(
        st.selectbox, "image_channel", say("upload.channel"), words, channel, lambda _: _read_image()
    )
    show_error_and_choice("image")


def _read_image() -> None:
    uploaded = _picture()
    if uploaded is None:
        return
    from quantviz.sources.image import read_image
    from quantviz.tensors.lazy import InMemory

    data = uploaded.getvalue()
    channel = st.session_state.get("image_channel", "grey")
    with errors.caught_beside("image"):
        place = UploadedFile(uploaded.name, channel=channel)
        name = f"{uploaded.name} · {say(f'upload.channels.{channel}')}"
        _take(data, place, name, InMemory(*read_image(data, channel, filename=uploaded.name)))


def show_file(state: LabState) -> None:
    """Upload a file and choose one of its tensors."""
    st.file_uploader(
        say("upload.file"),
        key="tensor_file",
        on_change=errors.safely(_open_file),
        help=say("upload.private"),
    )
    listed: dict[str, str] = st.session_state.get("file_tensors", {}) if _file() is not None else {}
    if listed:
        choose_tensor("file_tensor", tuple(listed), listed.__getitem__, _load_tensor)
        _show_dtype()
    show_error_and_choice("file")
    with st.expander(say("upload.too_large"), expanded="file" in errors.input_errors()):
        from quantviz.sources.files import cut_out_snippet, reader_of

        uploaded = _file()
        # A file that is no tensor file has been refused above: nothing can be cut out of it.
        file = "model.safetensors"
        tensor = "layer.weight"
        if uploaded is not None and reader_of(uploaded.name):
            file = uploaded.name
            tensor = st.session_state.get("file_tensor") or tensor
        st.code(cut_out_snippet(file, tensor), language="python")


def _show_dtype() -> None:
    """Show the choice of a dtype where the uploaded file does not contain it."""
    uploaded = _file()
    if uploaded is not None and uploaded.name.lower().endswith((".npy", ".npz")):
        from quantviz.sources.files import open_tensors

        with open_tensors(uploaded.getvalue(), uploaded.name) as catalog:
            choose_dtype(_READ_AS, catalog, st.session_state.get("file_tensor"), _load_tensor)


def _open_file() -> None:
    uploaded = _file()
    st.session_state["file_tensors"] = {}
    st.session_state[_READ_AS] = ""
    if uploaded is None:
        return
    from quantviz.sources.files import open_tensors
    from quantviz.sources.layouts.decoded import model_tensors

    with errors.caught_beside("file"):
        with open_tensors(uploaded.getvalue(), uploaded.name) as opened:
            catalog = model_tensors(opened)
            st.session_state["file_tensors"] = {
                name: label_of(name or uploaded.name, catalog.info(name)) for name in catalog.names
            }
            st.session_state["file_tensor"] = first = first_readable(catalog)
        st.session_state["file_tensor_filter"] = ""
        _load(uploaded, first)


def _load_tensor() -> None:
    uploaded = _file()
    if uploaded is not None:
        with errors.caught_beside("file"):
            _load(uploaded, st.session_state["file_tensor"])


def _load(uploaded: Any, name: str) -> None:
    from quantviz.sources.files import catalog_of
    from quantviz.sources.files.file_data import FileData
    from quantviz.sources.layouts.decoded import model_tensors

    data = uploaded.getvalue()
    # It stays open: a quantized weight is decoded a part at a time.
    opened = FileData(data, uploaded.name)
    opened.stored_as = read_as = st.session_state.get(_READ_AS) or ""
    catalog = model_tensors(catalog_of(opened))
    info = catalog.info(name)
    tensor = catalog.stored(name)
    orientation = catalog.orientation(name)
    place = UploadedFile(uploaded.name, name, source_type=info.source_type, read_as=read_as)
    _take(data, place, f"{uploaded.name} · {name}" if name else uploaded.name, tensor, orientation)


def _take(
    data: bytes, place: UploadedFile, name: str, tensor: Stored, orientation: Orientation = _USUAL
) -> None:
    """Open a tensor; if it cannot be quantized the one before stays, and with NaN or Inf it waits."""
    upload = Upload(hashlib.sha256(data).hexdigest()[:16], visible(name), tensor.shape, place)
    keep_upload(upload, tensor, session.state().source.unedited.original)
    take(session.state().with_source(upload if place.channel else as_opened(upload, orientation)))
