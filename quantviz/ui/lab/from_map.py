"""The way from a model's map into the Lab, and there from one tensor to the next worst."""

from __future__ import annotations

from pathlib import Path

from quantviz.checkpoints.example import EXAMPLE, example_tensors
from quantviz.checkpoints.offered import below_folder
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import as_scheme
from quantviz.sources import HubTensor, LocalTensor, Source
from quantviz.sources.hubs.addresses import published_place
from quantviz.sources.matrix import as_opened
from quantviz.sources.stores.addresses import is_address
from quantviz.tensors.views import View
from quantviz.ui.components.tensor_cache import keep_uploads
from quantviz.ui.lab.dropped_files import MODEL, dropped_files
from quantviz.ui.lab.sidebar.files import read_upload
from quantviz.ui.shell import session
from quantviz.ui.shell.origin import MapPlace


def open_place(place: MapPlace) -> None:
    """Take the tensor at a place in the Lab, under the scheme of the scan, at its largest error.

    Raises:
        QuantVizError: Its file is not below the server's folder.
    """
    tensor = place.tensor
    chosen = place.walk.chosen
    source = _uploaded(place) if chosen == MODEL else source_of(chosen, tensor.name, tensor.file)
    # The measured scheme, where the engine has another type for this tensor.
    scheme = as_scheme(tensor.scheme) if tensor.scheme else scheme_named(place.walk.recipe)
    state = LabState(source, scheme, View.of(source.shape), source.cell_of(tensor.worst_cell))
    session.put_from_map(state.with_scheme(scheme), place)


def _uploaded(place: MapPlace) -> Source:
    """Return the tensor at a place of a dropped model, whose values stay in the session."""
    name = Path(place.tensor.file).name
    file = next((each for each in dropped_files(MODEL).files if each.name == name), None)
    if file is None:
        raise QuantVizError("drop.gone")
    upload, values, orientation = read_upload(file, place.tensor.name)
    keep_uploads({upload: values}, session.state().source)
    return as_opened(upload, orientation)


def source_of(chosen: str, name: str, file: str) -> Source:
    """Return the tensor `name` of a scan of the checkpoint `chosen`; `file` is the path of its file."""
    if chosen == EXAMPLE:
        return example_tensors()[name]
    below = below_folder(file)
    source: LocalTensor | HubTensor
    if is_address(file):
        source = HubTensor.of(published_place(file), name)
    elif below is None:
        raise QuantVizError("checkpoint.not_below", name=name[:200])
    else:
        source = LocalTensor.of(below, name)
    return as_opened(source, source.file_orientation())
