"""The tensor of the session, and what is worth keeping between runs.

Nothing here is keyed on a tensor. What built-in and random sources give is shared by all sessions
and never changed; what a person typed or uploaded stays in the session.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.export import UploadedFile
from quantviz.link import LabState, Upload
from quantviz.scheme import Scheme
from quantviz.sources import SOURCES, Source, parse_source, write_source
from quantviz.sources.typed import Typed

if TYPE_CHECKING:
    import torch

    from quantviz.quantizer import QuantResult

#: Values drawn for the Gaussian reference of a small shape, as far as 64 draws reach.
_GAUSSIAN_VALUES = 2**14


def keep_upload(upload: Upload, place: UploadedFile, tensor: torch.Tensor, notes: tuple[Note, ...], open_now: Source | Upload) -> None:
    """Keep an uploaded tensor in this session, beside the one that is open, which undo will ask for."""
    kept = _uploads()
    for old in [each for each in kept if each != open_now]:
        del kept[old]
    kept[upload] = (tensor, notes, place)


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
    """The state's tensor under its scheme; the last one is kept in the session, for clicks on cells."""
    from quantviz.quantizer import quantize

    key = f"{source_key(state.source)} {state.scheme}"
    kept = st.session_state.get("lab_result")
    if kept is None or kept[0] != key:
        kept = st.session_state["lab_result"] = (key, quantize(tensor_of(state.source), state.scheme))
    return cast("QuantResult", kept[1])


def gaussian_sqnr_db(scheme: Scheme, shape: tuple[int, ...]) -> float:
    """What normal tensors of `shape` get under `scheme` on average, in dB; nan where the range is set by hand, or where they cannot be quantized so."""
    if scheme.calibration.id in ("manual_range", "given"):
        return math.nan
    return _gaussian(str(scheme), shape)


@st.cache_resource(max_entries=24, show_spinner=False)
def _shared(form: str) -> torch.Tensor:
    return parse_source(form).tensor()


@st.cache_data(max_entries=512, show_spinner=False)
def _gaussian(form: str, shape: tuple[int, ...]) -> float:
    import torch

    from quantviz.quantizer import quantize

    # One small tensor says little: its largest value sets the scale.
    generator, scheme = torch.Generator().manual_seed(0), Scheme.parse(form)
    draws = max(1, min(64, _GAUSSIAN_VALUES // math.prod(shape)))
    signal = noise = 0.0
    for _ in range(draws):
        try:
            r = quantize(torch.randn(shape, generator=generator), scheme)
        except QuantVizError:  # rules of one's own can give what is no number
            return math.nan
        signal += float(r.x.square().sum())
        noise += float(r.error.square().sum())
    return 10 * math.log10(signal / noise) if noise else math.inf
