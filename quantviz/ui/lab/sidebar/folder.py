"""The server's folder and the hubs: choose a file and one of its tensors, read where they lie, or by ranges.
The choice of a tensor is the same for uploads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.orientation import MOST_WEIGHT_AXES
from quantviz.sources import HubTensor, LocalTensor, Source
from quantviz.sources.files.npy import dtypes_of
from quantviz.sources.hubs.addresses import HubAddress
from quantviz.sources.hubs.hosts import Hosts
from quantviz.sources.local import FolderListing, data_folder, list_files, short
from quantviz.sources.matrix import as_opened
from quantviz.text import visible
from quantviz.ui.components.controls import finder, hold_choice, hold_text
from quantviz.ui.components.small_parts import error_beside, show_error_beside
from quantviz.ui.components.tensor_cache import catalog_of
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

#: The control of the dtype of an array whose file does not contain it.
_READ_AS = "folder_read_as"
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
        opened = {"folder_file": source.file, "folder_tensor": source.name, _READ_AS: source.read_as}
        if "folder" not in errors.input_errors():
            st.session_state.update(opened)
    try:
        _choose_file(listing(str(data_folder())))
        file = st.session_state.get("folder_file")
        if file:
            read_as = st.session_state.get(_READ_AS) or ""
            catalog = catalog_of(file, read_as)

            def label(name: str) -> str:
                return tensor_label(name or file, catalog, name)

            choose_tensor("folder_tensor", catalog.names, label, _load)
            choose_dtype(_READ_AS, catalog_of(file), st.session_state.get("folder_tensor"), _load)
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
    choose_file("folder_file", say("folder.file"), files, _open_file, help=say("folder.help"))
    if listed.cut_short:
        st.caption(say("folder.cut_short", count=len(listed.files)))


def choose_file(
    key: str, label: str, files: Sequence[str], change: Callable[[], None], help: str = ""
) -> None:
    """Show a list of files, of which the session keeps one under `key`: none at first."""
    names = {file: visible(file) for file in files}
    example = say("folder.choose")
    hold_choice(key, "list", label, names, None, change, lock="tensor", example=example, help=help)


def _open_file() -> None:
    st.session_state["folder_tensor_filter"] = ""
    st.session_state[_READ_AS] = ""
    _load(first=True)


def _load(first: bool = False) -> None:
    """Look at the chosen tensor, or the file's `first`; on an error the tensor that was open stays open."""
    file = st.session_state["folder_file"]
    if file is None:
        return
    with errors.caught_beside("folder"):
        if first:
            st.session_state["folder_tensor"] = first_readable(catalog_of(file))
        name = st.session_state["folder_tensor"]
        read_as = st.session_state.get(_READ_AS) or ""
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
    _take(model)


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
            _take(found.model)


def _take(model: PublishedModel) -> None:
    """Choose the tensor. The page reads it, and goes back to the one that was open where it cannot."""
    place = HubAddress(model.repo, model.commit, st.session_state["hub_file"], model.host)
    source = HubTensor.of(place, st.session_state["hub_tensor"])
    session.put_source(as_opened(source, source.file_orientation()))
