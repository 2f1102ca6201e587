"""A layer of one's own: the Lab's tensor or a drawn one with inputs of any origin, or a captured layer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.lab.layer_sources import LayerSource, OwnLayer
from quantviz.lab.layer_state import NEAREST
from quantviz.sources import SOURCES, LocalTensor, Source
from quantviz.sources.local import data_folder
from quantviz.sources.matrix import AsMatrix, as_opened
from quantviz.sources.tensor_text import parse_tensor
from quantviz.sources.upload import UploadedFile
from quantviz.text import visible
from quantviz.ui.components.controls import switch
from quantviz.ui.components.small_parts import show_button, show_page_errors
from quantviz.ui.components.tensor_cache import catalog_of, keep_uploads
from quantviz.ui.lab.sidebar.files import (
    choose_file,
    choose_tensor,
    listing,
    open_upload,
    read_upload,
    show_dtype,
    tensors_in,
    upload_of,
)
from quantviz.ui.layers.state import OWNER, seen_layer
from quantviz.ui.shell import session
from quantviz.ui.shell.long_work import prepare_reading, read_file
from quantviz.ui.shell.words import say, say_error, shape_text

if TYPE_CHECKING:
    from quantviz.checkpoints.scan.importance import Importance
    from quantviz.schemes.orientation import Orientation
    from quantviz.sources.files import Catalog
    from quantviz.sources.upload import Upload
    from quantviz.tensors.lazy import Stored


#: Uploads with their values.
Uploads: TypeAlias = "Mapping[Source, Stored]"

_TEXT = "layers_own_text"
_INPUTS_FILE = "layers_own_file"
_WEIGHT_FILE = "layers_own_weight_file"
_IMATRIX = "layers_own_imatrix"
_CAPTURE_UPLOAD = "layers_own_capture"
_CAPTURE_FILE = "layers_own_capture_file"
#: Words in the names of tensors that are offered first.
_LIKELY = {_INPUTS_FILE: "input", _WEIGHT_FILE: "weight"}
#: The parts of a captured layer, by the ends of their tensors' names.
_PARTS = ("weight", "inputs", "bias")


@dataclass(frozen=True)
class InputControls:
    """A way to give the inputs of a layer."""

    #: Shows its controls.
    show: Callable[[], None]
    #: Returns the inputs, and the values of an upload; for so many tokens where it leaves their number open.
    read: Callable[[int], tuple[Source, Uploads]]
    #: The sizes of the layer that follow from it.
    sizes: frozenset[str]


# ---- inputs ------------------------------------------------------------------------------------------


def _show_text() -> None:
    st.text_area(
        say("layers.own.text"),
        key=_TEXT,
        height=100,
        placeholder="0.5 -1.25 3\n2 0.75 -1",
        help=say("typed.help"),
    )


def _show_file(key: str) -> None:
    """Show the upload of a file of any format in the widget `key`, and the choice of one of its tensors."""

    def likely_first(uploaded: Any) -> dict[str, str]:
        found = tensors_in(uploaded, open_upload(uploaded))[0]
        order = sorted(found, key=lambda name: _LIKELY[key] not in name.lower())
        return {name: found[name] for name in order}

    uploaded = _choose_of_upload(key, likely_first)
    name = st.session_state.get(f"{key}_name")
    if uploaded is not None and name is not None:
        show_dtype(uploaded, f"{key}_read_as", name, _nothing)


def _read_file(key: str) -> tuple[Upload, Stored, Orientation]:
    uploaded, name = _chosen(key)
    return read_upload(uploaded, name, st.session_state.get(f"{key}_read_as") or "")


def _read_inputs(tokens: int) -> tuple[Source, Uploads]:
    # The axes of X are tokens and channels: none is one of outputs.
    upload, values, _ = _read_file(_INPUTS_FILE)
    return upload, {upload: values}


def _weights_in(uploaded: Any) -> dict[str, str]:
    """Return the weights of an importance matrix, with the numbers of their inputs; none of many experts."""
    found = _importances_in(uploaded)
    return {
        name: f"{visible(name)}  [{each.squares.shape[1]}]"
        for name, each in found.items()
        if each.experts == 1
    }


def _importances_in(uploaded: Any) -> dict[str, Importance]:
    from quantviz.checkpoints.scan.importance import importances_in

    content = uploaded.getvalue()
    key = "importances", hashlib.sha256(content).digest(), uploaded.name
    return read_file(partial(importances_in, content, uploaded.name), key, uploaded.name)


def _read_imatrix(tokens: int) -> tuple[Source, Uploads]:
    from quantviz.layers.layer_numbers import inputs_of_moments
    from quantviz.tensors.lazy import InMemory

    uploaded, name = _chosen(_IMATRIX)
    moments = _importances_in(uploaded)[name].columns(0, ())
    note = Note.of("layer_drawn_inputs", file=visible(uploaded.name), name=visible(name))
    values = InMemory(inputs_of_moments(moments, tokens), (note,))
    shown = say("layers.own.drawn_after", name=f"{uploaded.name} · {name}", tokens=tokens)
    upload = upload_of(uploaded.getvalue(), UploadedFile(uploaded.name, name), shown, values.shape)
    return upload, {upload: values}


#: The ways to give inputs, by their ids.
GIVEN: Mapping[str, InputControls] = MappingProxyType(
    {
        "typed": InputControls(
            _show_text,
            lambda _: (parse_tensor(st.session_state.get(_TEXT) or ""), {}),
            frozenset({"tokens", "channels"}),
        ),
        "file": InputControls(
            lambda: _show_file(_INPUTS_FILE), _read_inputs, frozenset({"tokens", "channels"})
        ),
        "imatrix": InputControls(
            lambda: _choose_of_upload(_IMATRIX, _weights_in), _read_imatrix, frozenset({"channels"})
        ),
    }
)


# ---- a capture ---------------------------------------------------------------------------------------


def show_capture() -> None:
    """Show the file of a capture, in the server's folder or uploaded, and the choice of one of its layers."""
    files = [each for each in listing(str(data_folder())).files if each.endswith((".safetensors", ".npz"))]
    if files:
        choose_file(_CAPTURE_FILE, say("layers.own.capture.file"), files, _nothing)
    file = st.session_state.get(_CAPTURE_FILE)
    if file is None:
        _choose_of_upload(_CAPTURE_UPLOAD, lambda file: _layers_in(open_upload(file)))
    else:
        _choose_name(_CAPTURE_UPLOAD, _labels(file, lambda file: _layers_in(catalog_of(file))))


def _layers_in(catalog: Catalog) -> dict[str, str]:
    from quantviz.layers.captures import captured_in

    found = captured_in(catalog)
    labels = {each.name: f"{visible(each.name)}  [{shape_text(each.shape)}]" for each in found}
    unread = say("layers.own.capture.unread")
    return labels | {each.name: f"{visible(each.name)}  [{unread}]" for each in found.unread}


def captured_layer() -> tuple[OwnLayer, Uploads]:
    """Return the chosen layer of a capture, and its values if it is uploaded.

    Raises:
        QuantVizError: None is chosen, or it cannot be read.
    """
    file = st.session_state.get(_CAPTURE_FILE)
    if file is None:
        return layer_of_upload(*_chosen(_CAPTURE_UPLOAD))
    name = st.session_state.get(f"{_CAPTURE_UPLOAD}_name")
    if name is None:
        raise QuantVizError("layer.no_upload")
    return layer_in_folder(file, name), {}


def layer_of_upload(uploaded: Any, name: str) -> tuple[OwnLayer, Uploads]:
    """Return a layer of an uploaded capture, and its values.

    Raises:
        QuantVizError: It cannot be read.
    """
    from quantviz.layers.captures import captured_in
    from quantviz.tensors.lazy import as_stored

    content = uploaded.getvalue()
    layer = captured_in(open_upload(uploaded))[name]
    uploads: dict[Source, Stored] = {}
    for end in _PARTS:
        part = getattr(layer, end)
        if part is not None:
            values, _ = as_stored(part)
            place = UploadedFile(uploaded.name, f"{name}.{end}")
            uploads[upload_of(content, place, place.tensor, values.shape)] = values
    return OwnLayer(*uploads), uploads


def layer_in_folder(file: str, name: str) -> OwnLayer:
    """Return a layer of a capture in the server's folder: a link can carry it."""
    from quantviz.layers.captures import names_of_layer

    catalog = catalog_of(file)
    named = names_of_layer(catalog, name)
    weight, inputs = (LocalTensor.of(file, each, catalog) for each in (named.weight, named.inputs))
    bias = LocalTensor.of(file, named.bias, catalog) if named.bias else None
    return OwnLayer(
        AsMatrix(weight, (named.outputs,)) if named.outputs else weight,
        AsMatrix(inputs, tuple(range(named.token_axes))) if named.token_axes > 1 else inputs,
        bias,
    )


# ---- an uploaded file --------------------------------------------------------------------------------


def _choose_of_upload(key: str, read: Callable[[Any], dict[str, str]]) -> Any:
    """Show the upload of a file in the widget `key`, and the choice of one of the names that `read` finds in
    it, which have labels; return the file, None where there is none that can be read.
    """
    prepare_reading()
    words = key.replace("layers_own_", "layers.own.")
    uploaded = st.file_uploader(say(f"{words}.upload"), key=key, help=say("upload.private"))
    st.caption(say(f"{words}.about"))
    if uploaded is None:
        return None
    kept = f"{key}_labels"
    if st.session_state.get(kept, ("",))[0] != uploaded.file_id:
        st.session_state[kept] = (uploaded.file_id, _labels(uploaded, read))
    found = st.session_state[kept][1]
    _choose_name(key, found)
    return None if isinstance(found, QuantVizError) else uploaded


def _choose_name(key: str, found: dict[str, str] | QuantVizError) -> None:
    """Show the choice of one of the labelled names in a file, or the reason why there are none."""
    if isinstance(found, QuantVizError):
        st.error(say_error(found))
        return
    title = say(f"{key.replace('layers_own_', 'layers.own.')}.which")
    choose_tensor(f"{key}_name", tuple(found), found.__getitem__, _nothing, title)


def _labels(file: Any, read: Callable[[Any], dict[str, str]]) -> dict[str, str] | QuantVizError:
    """Return the names in a file with their labels, or the reason why there are none."""
    try:
        return read(file)
    except QuantVizError as problem:
        return problem


def _nothing() -> None:
    """Do nothing: the button opens the layer."""


def _chosen(key: str) -> tuple[Any, str]:
    """Return the file in the widget `key`, and the name that was chosen in it."""
    uploaded = st.session_state.get(key)
    name = st.session_state.get(f"{key}_name")
    if uploaded is None or name is None:
        raise QuantVizError("layer.no_upload")
    return uploaded, name


#: The popover in which these choices stand.
MORE = "layers_more"
#: Multiplications of a layer that the page takes: about two seconds of one core.
MOST_WORK = 2**29
#: The weight that is the tensor open in the Lab.
_LAB = "lab"
#: The weight from an uploaded file, and the layer that is one of an uploaded capture.
_FILE = "file"
_CAPTURE = "capture"
#: Weights and inputs that can be drawn, by the ids of their sources.
_WEIGHTS = ("normal", "student_t", "loud_channels")
_INPUTS = ("normal", "loud_channels", "after_gelu")
#: The sizes of a layer, the number that each control begins with, and the most that can be asked for.
_SIZES = ("tokens", "channels", "outputs")
_USUAL = 64
_MOST = 1_000_000


def show_own_layer() -> None:
    """Show the choices of a layer of one's own, and the button that opens it."""
    st.markdown(f"**{say('layers.own.title')}**")
    tensor = session.opened_tensor()
    weights = {name: say(f"layers.own.drawn.{name}") for name in _WEIGHTS}
    if tensor is not None:
        weights = {_LAB: say("layers.own.lab", shape=shape_text(tensor.shape)), **weights}
    weights |= {name: say(f"layers.own.given.{name}") for name in (_FILE, _CAPTURE)}
    weight = switch("layers_own_weight", say("layers.own.weight"), weights, look="")
    if weight == _CAPTURE:
        show_capture()
        _show_open(lambda: _take(*captured_layer()))
        return
    if weight == _FILE:
        _show_file(_WEIGHT_FILE)
    inputs = {name: say(f"layers.own.drawn.{name}") for name in _INPUTS}
    inputs |= {name: say(f"layers.own.given.{name}") for name in GIVEN}
    chosen = switch("layers_own_inputs", say("layers.own.inputs"), inputs, look="")
    if chosen in GIVEN:
        GIVEN[chosen].show()
    sizes = _ask_sizes(weight, chosen)
    _show_open(lambda: _open(weight, chosen, sizes))


def _show_open(open_layer: Callable[[], None]) -> None:
    """Show the button that opens the layer, and the errors above the page, which the choices may cover."""
    show_button(say("layers.own.open"), "layers_own_open", open_layer, type="primary")
    show_page_errors()


def _ask_sizes(weight: str, inputs: str) -> dict[str, int]:
    """Show the sizes of a layer but for those that follow from W or X, and return them."""
    of_weight = {"channels", "outputs"} if weight in (_LAB, _FILE) else set()
    of_inputs = GIVEN[inputs].sizes if inputs in GIVEN else frozenset()
    sizes = dict.fromkeys(_SIZES, _USUAL)
    with st.container(key="layers_own_sizes", horizontal=True, gap="small"):
        for name in _SIZES:
            if name not in of_weight | of_inputs:
                label = say(f"layers.own.{name}")
                sizes[name] = int(st.number_input(label, 1, _MOST, _USUAL, key=f"layers_own_{name}"))
    return sizes


def _open(weight: str, inputs: str, sizes: dict[str, int]) -> None:
    """Take the layer of these sources.

    Raises:
        QuantVizError: They are not those of a layer, or it is too large.
    """
    own = session.opened_tensor() if weight == _LAB else None
    uploads: dict[Source, Stored] = {}
    if weight == _FILE:
        upload, weights, orientation = _read_file(_WEIGHT_FILE)
        own = as_opened(upload, orientation)
        uploads[upload] = weights
    # A tensor without axes is no weight, and says so below.
    channels = sizes["channels"] if own is None else math.prod(own.shape[-1:])
    if inputs in GIVEN:
        x, values = GIVEN[inputs].read(sizes["tokens"])
        uploads |= values
        channels = x.shape[-1]
    else:
        x = _drawn(inputs, sizes["tokens"], channels, 1)
    _take(OwnLayer(own or _drawn(weight, sizes["outputs"], channels, 0), x), uploads)


def _take(layer: OwnLayer, uploads: Mapping[Source, Stored]) -> None:
    keep_layer(layer, uploads)
    new = OWNER.state.of_layer(layer)
    # With NaN or Inf in it, it raises an error while the layer before is still open.
    seen_layer(new, method=NEAREST)
    OWNER.put(new)
    # Its choices lie over the layer.
    st.session_state[MORE] = False


def keep_layer(layer: OwnLayer, uploads: Mapping[Source, Stored]) -> None:
    """Keep the values of those parts of a layer that were uploaded, once it is known to be one.

    Raises:
        QuantVizError: Its parts are not those of a layer, or it is too large.
    """
    for problem in layer.problems():
        raise problem
    refuse_large(layer)
    opened = session.opened_tensor()
    keep_uploads(uploads, *layer.parts, *([] if opened is None else [opened]))


def _drawn(name: str, rows: int, cols: int, seed: int) -> Source:
    source: Source = SOURCES[name](rows=rows, cols=cols, seed=seed)
    return source


def refuse_large(layer: LayerSource) -> None:
    """Raise an error for a layer that would keep others waiting.

    Raises:
        QuantVizError: It has more than `MOST_WORK` multiplications.
    """
    work = math.prod(layer.shape)
    if work > MOST_WORK:
        raise QuantVizError("layer.too_large", shape=layer.shape, got=work, most=MOST_WORK)
