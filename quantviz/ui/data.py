"""The tensor of the session, and what is worth keeping between runs.

Nothing here is keyed on a tensor. What built-in and random sources give is shared by all sessions
and never changed; what a person typed or uploaded stays in the session.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.errors import Note
from quantviz.export import UploadedFile
from quantviz.link import LabState, Upload
from quantviz.scheme import Scheme
from quantviz.sources import SOURCES, Source, parse_source, write_source
from quantviz.sources.typed import Typed

if TYPE_CHECKING:
    import torch

    from quantviz.quantizer import QuantResult


def keep_upload(upload: Upload, place: UploadedFile, tensor: torch.Tensor, notes: tuple[Note, ...]) -> None:
    """Keep an uploaded tensor in this session, and the one before it for undo."""
    kept = _uploads()
    kept.pop(upload, None)
    kept[upload] = (tensor, notes, place)
    for old in list(kept)[:-2]:
        del kept[old]


def tensor_of(source: Source | Upload) -> torch.Tensor:
    """The tensor of a source: float32 of its shape, not to be changed."""
    if isinstance(source, Upload):
        return _uploads()[source][0]
    return _shared(write_source(source)) if source.id in SOURCES else source.tensor()


def upload_notes(source: Source | Upload) -> tuple[Note, ...]:
    """What was changed when the upload was read."""
    return _uploads()[source][1] if isinstance(source, Upload) else ()


def upload_place(source: Source | Upload) -> UploadedFile | None:
    """The file an upload lies in."""
    return _uploads()[source][2] if isinstance(source, Upload) else None


def _uploads() -> dict[Upload, tuple[torch.Tensor, tuple[Note, ...], UploadedFile]]:
    return cast("dict[Upload, tuple[torch.Tensor, tuple[Note, ...], UploadedFile]]", st.session_state.setdefault("lab_uploads", {}))


def source_key(source: Source | Upload) -> str:
    """What tells this tensor from any other of the session, without reading its values."""
    if isinstance(source, Upload):
        return f"upload {source.digest} {source.name}"
    return f"typed {hash(source)}" if isinstance(source, Typed) else write_source(source)


def result_of(state: LabState) -> QuantResult:
    """The state's tensor under its scheme. Quick enough at this size to do again each time."""
    from quantviz.quantizer import quantize

    return quantize(tensor_of(state.source), state.scheme)


def gaussian_sqnr_db(scheme: Scheme, shape: tuple[int, ...]) -> float:
    """What a normal tensor of `shape` would get under `scheme`, in dB; nan where the range is set by hand."""
    if scheme.calibration.id in ("manual_range", "given"):
        return math.nan
    return _gaussian(str(scheme), shape)


@st.cache_resource(max_entries=24, show_spinner=False)
def _shared(form: str) -> torch.Tensor:
    return parse_source(form).tensor()


@st.cache_data(max_entries=512, show_spinner=False)
def _gaussian(form: str, shape: tuple[int, ...]) -> float:
    import torch

    from quantviz.measures import sqnr_db
    from quantviz.quantizer import quantize

    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return sqnr_db(quantize(x, Scheme.parse(form)))
