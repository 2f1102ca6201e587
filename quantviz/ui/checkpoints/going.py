"""From a tensor of a scan to the Lab."""

from __future__ import annotations

from quantviz.checkpoints.example import EXAMPLE, example_tensors
from quantviz.checkpoints.model_map import ModelTensor
from quantviz.checkpoints.offered import below_folder
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.sources import LocalTensor, Source
from quantviz.sources.matrix import as_opened
from quantviz.tensors.views import View
from quantviz.ui.checkpoints.state import current_state
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to

LAB = "pages/lab/playground.py"


def source_of(chosen: str, tensor: ModelTensor) -> Source:
    """Return a tensor of a scan as the Lab opens it.

    Raises:
        QuantVizError: Its file is not below the server's folder.
    """
    if chosen == EXAMPLE:
        return example_tensors()[tensor.name]
    below = below_folder(tensor.file)
    if below is None:
        raise QuantVizError("checkpoint.not_below", name=tensor.name[:200])
    source = LocalTensor.of(below, tensor.name)
    return as_opened(source, source.told_orientation())


def open_in_lab(tensor: ModelTensor, recipe: str) -> None:
    """Turn to the Lab with a tensor under a recipe, at its largest error."""
    source = source_of(current_state().chosen, tensor)
    row = tensor.rows.get(recipe, {})
    # The measured scheme, where the engine has another type for this tensor.
    shape = source.shape
    scheme = as_scheme(row["scheme"]) if row.get("scheme") else scheme_named(recipe)
    worst = row.get("max_error_at")
    cell: Shape = tuple(worst) if worst else (0,) * len(tensor.shape)
    state = LabState(source, scheme, View.of(shape), source.cell_of(cell)).with_scheme(scheme)
    session.put_from_map(state)
    turn_to(LAB)
