"""Files and addresses that were dropped: each is opened on the page that answers it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from quantviz.checkpoints.offered import WEIGHTS
from quantviz.errors import QuantVizError
from quantviz.text import visible
from quantviz.ui.checkpoints.choices import begin_scan
from quantviz.ui.checkpoints.reading import cancel_scan, path_of
from quantviz.ui.checkpoints.state import FIRST_LOOK, OWNER, CheckpointsState
from quantviz.ui.lab.dropped_files import CAPTURE, MODEL, RUNS, dropped_kind, keep_dropped
from quantviz.ui.lab.sidebar.hub import open_address
from quantviz.ui.lab.sidebar.uploads import PICTURES, open_dropped
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.bounds import DROPPED_BYTES

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog
    from quantviz.sources.layouts.decoded import ModelTensors

_LAB = "pages/lab/playground.py"
_MODEL = "pages/explore/checkpoints.py"
#: Suffixes of a folder's files that belong to its model: also an index, and data beside an .onnx file.
_OF_MODEL = (*WEIGHTS, ".json", ".onnx_data", ".data")


def take_brought(brought: Sequence[Any] | str) -> None:
    """Open files, or a published model's address, where they are answered."""
    if isinstance(brought, str):
        _take_address(brought)
    else:
        take(brought)


def _take_address(pasted: str) -> None:
    """Open a published model: one with several weights is scanned where it is no larger than what may be
    dropped.
    """
    from quantviz.sources.hubs.models import published_catalog, published_file

    model, file = published_file(pasted)
    if not _has_several_weights(published_catalog(model, file)):
        open_address(pasted)
        _turn_to_lab()
        return
    _turn_to_model(model.address(file), scans=model.size_with(file) <= DROPPED_BYTES)


def _turn_to_model(chosen: str, *, scans: bool) -> None:
    errors.clear()
    state = CheckpointsState(chosen, recipes=FIRST_LOOK if scans else ())
    OWNER.open(state)
    turn_to(_MODEL, state.written())
    if scans:
        begin_scan(state)


def _turn_to_lab() -> None:
    """Turn to the Lab, where something was opened; raise the error beside its controls otherwise."""
    problem = next(iter(errors.input_errors().values()), None)
    if problem is not None and errors.waiting() is None:
        errors.clear()
        raise problem
    turn_to(_LAB)


def take(files: Sequence[Any]) -> None:
    """Open dropped files where they are answered: a model is scanned, a capture shown as its layers, two runs
    are compared, a picture or a single tensor opens in the Lab.

    Raises:
        QuantVizError: They are too large together, or are none of these.
    """
    every = files
    files = [each for each in every if len(every) == 1 or each.name.lower().endswith((*_OF_MODEL, *PICTURES))]
    if not files:
        raise QuantVizError("drop.nothing", file=visible(every[0].name)[:200])
    size = sum(each.size for each in files)
    if size > DROPPED_BYTES:
        raise QuantVizError("drop.too_large", got=size, most=DROPPED_BYTES)
    kind = kind_of(files)
    if kind is None:
        open_dropped(files[0])
        _turn_to_lab()
        return
    if dropped_kind() == MODEL:  # its scan has nobody who looks at it
        cancel_scan(path_of(MODEL))
    keep_dropped(kind, files)
    _turn_to_model(kind, scans=kind == MODEL)


def kind_of(files: Sequence[Any]) -> str | None:
    """Return the kind of dropped files: `MODEL`, `CAPTURE` or `RUNS`; None for a picture or a single tensor.

    Raises:
        QuantVizError: A file cannot be read.
    """
    if any(each.name.lower().endswith(PICTURES) for each in files):
        if len(files) > 1:
            raise QuantVizError("drop.pictures", file=visible(files[0].name)[:200])
        return None
    from quantviz.layers.captures import has_layers
    from quantviz.models.run_file import is_run
    from quantviz.sources.files import open_tensors
    from quantviz.sources.layouts.decoded import model_tensors

    if len(files) > 1:
        return RUNS if all(_is(each, is_run) for each in files) else MODEL
    with open_tensors(files[0].getvalue(), files[0].name) as catalog:
        if has_layers(catalog):
            return CAPTURE
        if is_run(catalog):
            raise QuantVizError("drop.one_run", file=visible(files[0].name)[:200])
        if catalog.kind == "JSON" and "0.shape" in catalog:  # a list of tensors, as commands write it
            raise QuantVizError("drop.report", file=visible(files[0].name)[:200])
        return MODEL if _has_several_weights(model_tensors(catalog)) else None


def _has_several_weights(model: ModelTensors) -> bool:
    """Return whether a file has two readable matrices."""
    infos = (model.info(name) for name in model.model_names)
    matrices = (info for info in infos if info.problem is None and sum(n > 1 for n in info.shape) > 1)
    return len(list(itertools.islice(matrices, 2))) > 1


def _is(file: Any, asked: Callable[[Catalog], bool]) -> bool:
    """Return whether a file of tensors passes a question; a file of anything else does not."""
    from quantviz.sources.files import open_tensors

    if not file.name.lower().endswith(".safetensors"):
        return False
    with open_tensors(file.getvalue(), file.name) as catalog:
        return asked(catalog)
