"""Tensors in files: uploads and pictures, which this session alone keeps, the server's folder, hubs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import MOST_WEIGHT_AXES, Orientation
from quantviz.sources import HubTensor, LocalTensor, Source
from quantviz.sources.files import cut_out_snippet, reader_of
from quantviz.sources.files.npy import dtypes_of
from quantviz.sources.hubs.addresses import HubAddress
from quantviz.sources.hubs.hosts import Hosts
from quantviz.sources.image import CHANNELS, read_image
from quantviz.sources.local import FolderListing, data_folder, list_files, short
from quantviz.sources.matrix import as_opened
from quantviz.sources.sandbox import Held
from quantviz.sources.upload import Upload, UploadedFile
from quantviz.text import visible
from quantviz.ui.components.controls import finder, hold_choice, hold_text
from quantviz.ui.components.small_parts import error_beside, show_error_beside
from quantviz.ui.components.tensor_cache import catalog_of, keep_uploads
from quantviz.ui.lab.sidebar.nonfinite import show_error_and_choice, take
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.long_work import prepare_reading, read_file
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import plain, say, say_error, shape_text

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog, TensorInfo
    from quantviz.sources.hubs.published import PublishedModel
    from quantviz.tensors.lazy import Stored


#: The control of the dtype of an array whose file does not contain it.
_FOLDER_READ_AS = "folder_read_as"
#: Names that a list offers at once; of more it offers those that fit the typed text.
MOST_OFFERED = 200
#: Most names of unreadable files in a sentence.
_MOST_NAMED = 5
#: Seconds for which the listing of the folder is cached.
_LISTING_SECONDS = 5


def catalog_beside(source: Source) -> Catalog | None:
    """Return the tensors of the folder's file that a source lies in; none for other sources."""
    return catalog_of(source.file, source.read_as) if isinstance(source, LocalTensor) else None


def show_folder(state: LabState) -> None:
    """Choose a file of the folder and one of its tensors."""
    prepare_reading()
    source = state.source.original
    if isinstance(source, LocalTensor):
        opened = {"folder_file": source.file, "folder_tensor": source.name, _FOLDER_READ_AS: source.read_as}
        if "folder" not in errors.input_errors():
            st.session_state.update(opened)
    try:
        _choose_file(listing(str(data_folder())))
        file = st.session_state.get("folder_file")
        if file:
            read_as = st.session_state.get(_FOLDER_READ_AS) or ""
            catalog = catalog_of(file, read_as)

            def label(name: str) -> str:
                return tensor_label(name or file, catalog, name)

            choose_tensor("folder_tensor", catalog.names, label, _load_of_folder)
            choose_dtype(
                _FOLDER_READ_AS, catalog_of(file), st.session_state.get("folder_tensor"), _load_of_folder
            )
    except QuantVizError as error:
        # The error of a callback is shown below.
        if error_beside("folder") is None:
            st.error(say_error(error))
    show_error_and_choice("folder")


def choose_tensor(
    key: str,
    names: Sequence[str],
    label: Callable[[str], str],
    change: Callable[[], None],
    title: str = "",
    example: str = "",
) -> None:
    """Show a list of tensors, of which the session keeps one under `key`, with a `title` of its own if there
    is one. Of many it offers a part, beside a box for a text that the name must contain. With an `example`
    none is chosen at first.
    """
    offered = names
    wanted = ""
    if len(names) > MOST_OFFERED:
        wanted = hold_text(
            f"{key}_filter",
            say("upload.filter"),
            longest=FIND_CHARACTERS,
            example=say("upload.filter_example"),
            disabled=locked("tensor"),
        )
        offered = list(filter(finder(wanted), names))
        shown = min(len(offered), MOST_OFFERED)
        st.caption(say("upload.offered", shown=shown, fitting=len(offered), count=len(names)))
    # The chosen one stays in the list for any typed text, or the widget would choose another.
    now: str | None = st.session_state.get(key)
    some = list(offered[:MOST_OFFERED])
    if now is not None and now in names and now not in some:
        some.insert(0, now)
    hold_choice(
        key,
        "list",
        title or say("upload.tensor"),
        {name: label(name) for name in some},
        some[0] if some and not example else None,
        change,
        lock="tensor",
        example=example,
    )


def choose_dtype(key: str, catalog: Catalog, name: str | None, change: Callable[[], None]) -> None:
    """Show the choice of a dtype, kept under `key`, where the file does not contain the chosen array's."""
    offered = dtypes_of(catalog.info(name).problem) if name is not None and name in catalog else ()
    if offered:
        hold_choice(
            key,
            "list",
            say("upload.read_as"),
            {dtype: dtype or say("upload.read_as_unknown") for dtype in ("", *offered)},
            "",
            change,
            lock="tensor",
            help=say("upload.read_as_help"),
        )


def tensor_label(shown: str, catalog: Catalog, name: str) -> str:
    """Return a tensor's name with dtype and shape from its header; the name alone if that is unreadable."""
    try:
        return label_of(shown, catalog.info(name))
    except QuantVizError:
        return visible(shown)


def label_of(shown: str, info: TensorInfo) -> str:
    """Return a tensor's name, shape and dtype."""
    return f"{visible(shown)}  [{shape_text(info.shape)}]  {visible(info.dtype)}"


def first_readable(catalog: Catalog) -> str:
    """Return the model's first readable weight among the tensors offered at first, else the first readable
    one, else the first of all.
    """
    some = catalog.model_names[:MOST_OFFERED] or catalog.names
    readable = []
    for name in some:
        with suppress(QuantVizError):  # its shard is not there
            info = catalog.info(name)
            if info.problem is None:
                readable.append(name)
                # No bias, and no norm.
                if sum(length > 1 for length in info.shape) > 1:
                    return name
    return readable[0] if readable else some[0]


def _choose_file(listed: FolderListing) -> None:
    now = st.session_state.get("folder_file")
    files = listed.files if now is None or now in listed.files else (now, *listed.files)
    if listed.skipped:
        some = ", ".join(visible(short(file)) for file in listed.skipped[:_MOST_NAMED])
        st.caption(say("folder.skipped", count=len(listed.skipped), some=plain(some)))
    if not files:
        st.caption(say("folder.none"))
        return
    choose_file("folder_file", say("folder.file"), files, _open_file_of_folder, help=say("folder.help"))
    if listed.cut_short:
        st.caption(say("folder.cut_short", count=len(listed.files)))


def choose_file(
    key: str, label: str, files: Sequence[str], change: Callable[[], None], help: str = ""
) -> None:
    """Show a list of files, of which the session keeps one under `key`: none at first."""
    names = {file: visible(file) for file in files}
    example = say("folder.choose")
    hold_choice(key, "list", label, names, None, change, lock="tensor", example=example, help=help)


def _open_file_of_folder() -> None:
    st.session_state["folder_tensor_filter"] = ""
    st.session_state[_FOLDER_READ_AS] = ""
    _load_of_folder(first=True)


def _load_of_folder(first: bool = False) -> None:
    """Look at the chosen tensor, or the file's `first`; on an error the tensor that was open stays open."""
    file = st.session_state["folder_file"]
    if file is None:
        return
    with errors.caught_beside("folder"):
        if first:
            st.session_state["folder_tensor"] = first_readable(catalog_of(file))
        name = st.session_state["folder_tensor"]
        read_as = st.session_state.get(_FOLDER_READ_AS) or ""
        catalog = catalog_of(file, read_as)
        local = LocalTensor.of(file, name, catalog, read_as=read_as)
        take(session.state().with_source(as_opened(local, catalog.orientation(name))))


@st.cache_data(ttl=_LISTING_SECONDS, show_spinner=False)
def listing(folder: str) -> FolderListing:
    """Return the files of the server's folder, as they were a few seconds ago at most."""
    return list_files()


# ---- tensors of a hub ------------------------------------------------------------------------------


#: Elements of the tensor that is opened first, at most, and the length of its axes at least: enough to be
#: looked at, and soon there.
_FIRST_ELEMENTS = 2**22
_FIRST_SIDE = 8
#: A file that lists the tensors of others, without their dtypes and shapes.
_INDEX = ".index.json"
#: Characters of an address.
_LONGEST = 2000
#: Characters of a commit that are shown.
_COMMIT_SHOWN = 7
#: The model found for the pasted text, and its file whose tensors could be listed.
_FOUND = "hub_found"
_LISTED = "hub_listed"


class PastedModel(NamedTuple):
    """A model, and the text that was pasted for it."""

    pasted: str
    model: PublishedModel


def show_hub(state: LabState) -> None:
    """Paste a model's address, and choose a file and one of its tensors."""
    of = state.source.original
    source = of if isinstance(of, HubTensor) else None
    try:
        found = _found(source)
        if source and found:
            st.session_state.update(hub_address=found.pasted, hub_file=source.file)
            st.session_state[_LISTED] = (source.revision, source.file)
        # One that could not be opened is not open, and can be chosen again.
        st.session_state["hub_tensor"] = source.name if source else None
        _show_address()
        if found:
            _choose(found.model)
    except QuantVizError as error:
        st.error(say_error(error))


def _found(source: HubTensor | None) -> PastedModel | None:
    """Return the model whose files are offered: the one that was pasted, or that of the open tensor."""
    found = cast("PastedModel | None", st.session_state.get(_FOUND))
    if source is None or (found and (found.model.repo, found.model.commit) == (source.repo, source.revision)):
        return found
    from quantviz.sources.hubs.models import find_model

    with run_queue().leave():
        model = find_model(source.place)
    st.session_state[_FOUND] = new = PastedModel(f"{model.repo}@{model.commit}", model)
    return new


def _show_address() -> None:
    hold_text(
        "hub_address",
        say("hub.address"),
        _LONGEST,
        open_address,
        example=say("hub.example"),
        help=plain(say("hub.help", hosts=", ".join(Hosts.of_environment().names))),
        disabled=locked("tensor"),
    )
    show_error_beside("hub_address")


def _choose(model: PublishedModel) -> None:
    """Choose a file of the model, and a tensor of it."""
    from quantviz.sources.hubs.models import published_catalog

    where = say("hub.found", model=model.repo, commit=model.commit[:_COMMIT_SHOWN], host=model.host)
    st.caption(plain(where))
    choose_file("hub_file", say("hub.file"), [each.name for each in model.files], _open_file_of_hub)
    file = st.session_state.get("hub_file")
    # One that could not be opened is not requested again in each run.
    if file and st.session_state.get(_LISTED) == (model.commit, file):
        with run_queue().leave():
            catalog = published_catalog(model, file, read_file)

        def label(name: str) -> str:
            return visible(name) if file.lower().endswith(_INDEX) else tensor_label(name, catalog, name)

        choose_tensor("hub_tensor", catalog.names, label, _load_of_hub, example=say("hub.choose"))
    show_error_beside("hub_file")


def open_address(pasted: str) -> None:
    """Look for the model of a pasted address, and open a tensor of the file that it names, or of one."""
    from quantviz.sources.hubs.models import published_file

    if not pasted.strip():
        return
    with errors.caught_beside("hub_address"):
        model, st.session_state["hub_file"] = published_file(pasted)
        st.session_state[_FOUND] = PastedModel(pasted, model)
        with errors.caught_beside("hub_file"):
            _open_first(model)


def _open_file_of_hub() -> None:
    found = st.session_state.get(_FOUND)
    file = st.session_state["hub_file"]
    if found is not None and file is not None:
        with errors.caught_beside("hub_file"):
            _open_first(found.model)


def _open_first(model: PublishedModel) -> None:
    from quantviz.sources.hubs.models import published_catalog

    st.session_state["hub_tensor_filter"] = ""
    st.session_state["hub_tensor"] = None
    file = st.session_state["hub_file"]
    st.session_state["hub_tensor"] = _first(published_catalog(model, file, read_file))
    st.session_state[_LISTED] = (model.commit, file)
    _take_of_hub(model)


def _first(catalog: Catalog) -> str:
    """Return the first tensor that is a matrix and no large one; else the first that can be read."""
    for name in catalog.model_names[:MOST_OFFERED]:
        info = catalog.info(name)
        is_matrix = 2 <= len(info.shape) <= MOST_WEIGHT_AXES and min(info.shape[:2]) >= _FIRST_SIDE
        if info.problem is None and is_matrix and info.count <= _FIRST_ELEMENTS:
            return name
    return first_readable(catalog)


def _load_of_hub() -> None:
    found = st.session_state.get(_FOUND)
    if found is not None:
        with errors.caught_beside("hub_file"):
            _take_of_hub(found.model)


def _take_of_hub(model: PublishedModel) -> None:
    """Choose the tensor. The page reads it, and goes back to the one that was open where it cannot."""
    place = HubAddress(model.repo, model.commit, st.session_state["hub_file"], model.host)
    source = HubTensor.of(place, st.session_state["hub_tensor"])
    session.put_source(as_opened(source, source.file_orientation()))


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
    uploaded = st.session_state.get("image_file") or st.session_state.get(_DROPPED_PICTURE)
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
