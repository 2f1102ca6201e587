"""Files and addresses that were dropped: each is opened on the page that answers it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from quantviz.checkpoints.offered import WEIGHTS
from quantviz.errors import QuantVizError
from quantviz.lab.attention_state import DROPPED, AttentionState
from quantviz.text import visible
from quantviz.ui.checkpoints.choices import begin_scan
from quantviz.ui.checkpoints.reading import cancel_scan, path_of
from quantviz.ui.checkpoints.state import FIRST_LOOK, OWNER, CheckpointsState
from quantviz.ui.lab.dropped_files import CAPTURE, HEADS, MODEL, RUNS, dropped_kind, keep_dropped
from quantviz.ui.lab.sidebar.files import PICTURES, open_address, open_dropped
from quantviz.ui.layers import attention_page as attention
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import lab_desk, turn_to
from quantviz.ui.shell.bounds import DROPPED_BYTES
from quantviz.ui.shell.long_work import read_file

T = TypeVar("T")

_LAB = "pages/lab/playground.py"
_MODEL = "pages/explore/checkpoints.py"
_ATTENTION = "pages/explore/attention.py"
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
    from quantviz.models.content import has_several_weights
    from quantviz.sources.hubs.models import published_catalog, published_file

    model, file = published_file(pasted)
    if not has_several_weights(published_catalog(model, file, read_file)):
        _turn_to_lab(partial(open_address, pasted))
        return
    _turn_to_model(model.address(file), scans=model.size_with(file) <= DROPPED_BYTES)


def _turn_to_model(chosen: str, *, scans: bool) -> None:
    errors.clear()
    state = CheckpointsState(chosen, recipes=FIRST_LOOK if scans else ())
    OWNER.open(state)
    turn_to(_MODEL, state.written())
    if not scans:
        return
    try:
        begin_scan(state)
    except QuantVizError as problem:  # said where the model is, not on the page that is left
        errors.show_above(problem)


def _turn_to_lab(open_there: Callable[[], None]) -> None:
    """Open something in the Lab and turn to it; raise the error beside its controls otherwise."""
    with lab_desk():
        open_there()
        problem = next(iter(errors.input_errors().values()), None)
        if problem is not None and errors.waiting() is None:
            errors.clear()
            raise problem
    turn_to(_LAB)


def take(files: Sequence[Any]) -> None:
    """Open dropped files where they are answered: a model is scanned, a capture shown as its layers, two runs
    are compared, queries with their keys as attention, a picture or a single tensor opens in the Lab.

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
        _turn_to_lab(partial(open_dropped, files[0]))
        return
    if dropped_kind() == MODEL:  # its scan has nobody who looks at it
        cancel_scan(path_of(MODEL))
    keep_dropped(kind, files)
    if kind == HEADS:
        attention.OWNER.open(AttentionState(DROPPED))
        turn_to(_ATTENTION, attention.OWNER.state.written())
        return
    _turn_to_model(kind, scans=kind == MODEL)


def kind_of(files: Sequence[Any]) -> str | None:
    """Return the kind of dropped files: `MODEL`, `CAPTURE`, `RUNS` or `HEADS`; None for a picture or a single
    tensor.

    Raises:
        QuantVizError: A file cannot be read.
    """
    if any(each.name.lower().endswith(PICTURES) for each in files):
        if len(files) > 1:
            raise QuantVizError("drop.pictures", file=visible(files[0].name)[:200])
        return None
    from quantviz.models.content import Content, content_of, is_run_file

    if len(files) > 1:
        named = [each.name.lower().endswith(".safetensors") for each in files]
        return RUNS if all(named) and all(_read(each, is_run_file) for each in files) else MODEL
    found = _read(files[0], content_of)
    kinds = {Content.CAPTURE: CAPTURE, Content.HEADS: HEADS, Content.MODEL: MODEL, Content.TENSOR: None}
    return kinds[found]


def _read(file: Any, work: Callable[[bytes, str], T]) -> T:
    """Return the result of work on the content and the name of a file."""
    content = file.getvalue()
    key = work.__name__, hashlib.sha256(content).digest(), file.name
    return read_file(partial(work, content, file.name), key, file.name)
