"""A published model: paste its address, choose a file and one of its tensors, read from the hub by ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.orientation import MOST_WEIGHT_AXES
from quantviz.sources import HubTensor
from quantviz.sources.hubs.addresses import HubAddress
from quantviz.sources.hubs.hosts import Hosts
from quantviz.sources.matrix import as_opened
from quantviz.text import visible
from quantviz.ui.components.controls import hold_text
from quantviz.ui.components.small_parts import show_error_beside
from quantviz.ui.lab.sidebar.folder import (
    MOST_OFFERED,
    choose_file,
    choose_tensor,
    first_readable,
    tensor_label,
)
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.long_work import read_file
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import plain, say, say_error

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog
    from quantviz.sources.hubs.published import PublishedModel

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
    choose_file("hub_file", say("hub.file"), [each.name for each in model.files], _open_file)
    file = st.session_state.get("hub_file")
    # One that could not be opened is not requested again in each run.
    if file and st.session_state.get(_LISTED) == (model.commit, file):
        with run_queue().leave():
            catalog = published_catalog(model, file, read_file)

        def label(name: str) -> str:
            return visible(name) if file.lower().endswith(_INDEX) else tensor_label(name, catalog, name)

        choose_tensor("hub_tensor", catalog.names, label, _load, example=say("hub.choose"))
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


def _open_file() -> None:
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


def _load() -> None:
    found = st.session_state.get(_FOUND)
    if found is not None:
        with errors.caught_beside("hub_file"):
            _take(found.model)


def _take(model: PublishedModel) -> None:
    """Choose the tensor. The page reads it, and goes back to the one that was open where it cannot."""
    place = HubAddress(model.repo, model.commit, st.session_state["hub_file"], model.host)
    source = HubTensor.of(place, st.session_state["hub_tensor"])
    session.put_source(as_opened(source, source.file_orientation()))
