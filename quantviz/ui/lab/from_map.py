"""The way from a model's map into the Lab, and there from one tensor to the next worst."""

from __future__ import annotations

from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.checkpoints.tensor_source import source_of
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import as_scheme
from quantviz.tensors.views import View
from quantviz.ui.shell import session
from quantviz.ui.shell.origin import MapPlace


def open_place(place: MapPlace) -> None:
    """Take the tensor at a place in the Lab, under the scheme of the scan, at its largest error.

    Raises:
        QuantVizError: Its file is not below the server's folder.
    """
    tensor = place.tensor
    source = source_of(place.walk.chosen, tensor.name, tensor.file)
    # The measured scheme, where the engine has another type for this tensor.
    scheme = as_scheme(tensor.scheme) if tensor.scheme else scheme_named(place.walk.recipe)
    state = LabState(source, scheme, View.of(source.shape), source.cell_of(tensor.worst_cell))
    session.put_from_map(state.with_scheme(scheme), place)
