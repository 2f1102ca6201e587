"""Pictures and files: read once, kept in this session only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import cut_out_snippet, reader_of
from quantviz.sources.image import CHANNELS, read_image
from quantviz.sources.matrix import as_opened
from quantviz.sources.sandbox import Held
from quantviz.sources.upload import Upload, UploadedFile
from quantviz.text import visible
from quantviz.ui.components.controls import hold_choice
from quantviz.ui.components.tensor_cache import keep_uploads
from quantviz.ui.lab.sidebar.folder import choose_dtype, choose_tensor, first_readable, label_of
from quantviz.ui.lab.sidebar.nonfinite import show_error_and_choice, take
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.long_work import prepare_reading, read_file
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog
    from quantviz.tensors.lazy import Stored

#: A file that was dropped on another page; a file in the uploader of its kind goes before it.
_DROPPED_PICTURE = "dropped_picture"
_DROPPED_FILE = "dropped_file"
_USUAL = Orientation()
#: Suffixes of pictures.
PICTURES = (".png", ".jpg", ".jpeg")

#: The control of the dtype of an array whose file does not contain it.
_READ_AS = "file_read_as"


def open_dropped(uploaded: Any) -> None:
    """Open a file that was dropped on another page: a picture, else the first tensor of it."""
    picture = uploaded.name.lower().endswith(PICTURES)
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
    prepare_reading()
    st.file_uploader(
        say("upload.image"),
        type=[each.removeprefix(".") for each in PICTURES],
        key="image_file",
        on_change=errors.safely(_read_image),
        help=say("upload.private"),
    )
    words = {name: say(f"upload.channels.{name}") for name in CHANNELS}
    hold_choice("image_channel", "list", say("upload.channel"), words, next(iter(CHANNELS)), _read_image)
    show_error_and_choice("image")


def _read_image() -> None:
    uploaded = _picture()
    if uploaded is None:
        return
    from quantviz.tensors.lazy import InMemory

    data = uploaded.getvalue()
    channel = st.session_state.get("image_channel", "grey")
    with errors.caught_beside("image"):
        place = UploadedFile(uploaded.name, channel=channel)
        name = f"{uploaded.name} · {say(f'upload.channels.{channel}')}"
        work = partial(read_image, data, channel, filename=uploaded.name)
        key = "picture", hashlib.sha256(data).digest(), channel, uploaded.name
        tensor = InMemory(*read_file(work, key, uploaded.name))
        _take(upload_of(data, place, name, tensor.shape), tensor)


def show_file(state: LabState) -> None:
    """Upload a file and choose one of its tensors."""
    prepare_reading()
    st.file_uploader(
        say("upload.file"),
        key="tensor_file",
        on_change=errors.safely(_open_file),
        help=say("upload.private"),
    )
    listed: dict[str, str] = st.session_state.get("file_tensors", {}) if _file() is not None else {}
    if listed:
        choose_tensor("file_tensor", tuple(listed), listed.__getitem__, _load_tensor)
        show_dtype(_file(), _READ_AS, st.session_state.get("file_tensor"), _load_tensor)
    show_error_and_choice("file")
    with st.expander(say("upload.too_large"), expanded="file" in errors.input_errors()):
        uploaded = _file()
        # A file that is no tensor file has been refused above: nothing can be cut out of it.
        file = "model.safetensors"
        tensor = "layer.weight"
        if uploaded is not None and reader_of(uploaded.name):
            file = uploaded.name
            tensor = st.session_state.get("file_tensor") or tensor
        st.code(cut_out_snippet(file, tensor), language="python", wrap_lines=True)


def show_dtype(uploaded: Any, key: str, name: str | None, change: Callable[[], None]) -> None:
    """Show the choice of a tensor's dtype in the widget `key`, where the uploaded file does not have it."""
    if uploaded.name.lower().endswith((".npy", ".npz")):
        choose_dtype(key, open_upload(uploaded), name, change)


def _open_file() -> None:
    uploaded = _file()
    st.session_state["file_tensors"] = {}
    st.session_state[_READ_AS] = ""
    if uploaded is None:
        return
    with errors.caught_beside("file"):
        catalog = open_upload(uploaded)
        listed, first = tensors_in(uploaded, catalog)
        st.session_state["file_tensors"] = listed
        st.session_state["file_tensor"] = first
        st.session_state["file_tensor_filter"] = ""
        _load(uploaded, first, catalog)


def open_upload(uploaded: Any, read_as: str = "") -> Catalog:
    """Return the tensors of an uploaded file.

    Raises:
        QuantVizError: It is no file of tensors.
    """
    from quantviz.sources.sandboxed import Sandboxed

    return Sandboxed(Held(uploaded.name, uploaded.getvalue(), read_as), read_file)


def tensors_in(uploaded: Any, catalog: Catalog) -> tuple[dict[str, str], str]:
    """Return the tensors of an uploaded file with their labels, and the first readable one."""
    listed = {name: label_of(name or uploaded.name, catalog.info(name)) for name in catalog.names}
    return listed, first_readable(catalog)


def _load_tensor() -> None:
    uploaded = _file()
    if uploaded is not None:
        with errors.caught_beside("file"):
            _load(uploaded, st.session_state["file_tensor"])


def _load(uploaded: Any, name: str, catalog: Catalog | None = None) -> None:
    read_as = st.session_state.get(_READ_AS) or ""
    upload, tensor, orientation = read_upload(uploaded, name, read_as, catalog)
    _take(upload, tensor, orientation)


def read_upload(
    uploaded: Any, name: str, read_as: str = "", catalog: Catalog | None = None
) -> tuple[Upload, Stored, Orientation]:
    """Return a tensor of an uploaded file, its values, and its axes of outputs.

    Args:
        uploaded: The file.
        name: The tensor's name in it.
        read_as: The dtype of arrays whose file does not have it.
        catalog: The tensors of the file, where it is open; None to open it.

    Raises:
        QuantVizError: It cannot be read.
    """
    catalog = open_upload(uploaded, read_as) if catalog is None else catalog
    info = catalog.info(name)
    tensor = catalog.stored(name)
    place = UploadedFile(uploaded.name, name, source_type=info.source_type, read_as=read_as)
    shown = f"{uploaded.name} · {name}" if name else uploaded.name
    return upload_of(uploaded.getvalue(), place, shown, tensor.shape), tensor, catalog.orientation(name)


def upload_of(data: bytes, place: UploadedFile, name: str, shape: Shape) -> Upload:
    """Return the source of a tensor in the content of an uploaded file; `name` is that for people."""
    return Upload(hashlib.sha256(data).hexdigest()[:16], visible(name), shape, place)


def _take(upload: Upload, tensor: Stored, orientation: Orientation = _USUAL) -> None:
    """Open a tensor; if it cannot be quantized the one before stays, and with NaN or Inf it waits."""
    keep_uploads({upload: tensor}, session.state().source)
    place = upload.place_in_file
    take(session.state().with_source(upload if place.channel else as_opened(upload, orientation)))
