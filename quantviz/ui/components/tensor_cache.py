"""The tensor of the session, and results that are kept between runs.

Nothing here is keyed on a tensor. A source with a text form (built-in, random, from the server's folder) is
the same under its name: it is shared by all sessions and never changed. Typed or uploaded tensors stay in the
session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.lab.layer_sources import LayerWeight
from quantviz.lab.state import LabState
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.sources.base import OpenedFiles, of_tensor
from quantviz.sources.local import local_version, open_local
from quantviz.ui.shell import session
from quantviz.ui.shell.bounds import HEAVY_ELEMENTS, SESSION_BYTES, UPLOAD_BYTES
from quantviz.ui.shell.long_work import heavily, read_file
from quantviz.ui.shell.shared_cache import Shared, held_bytes, shared_fact, shared_tensor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from quantviz.analysis.recipe_ranking import RecipeRow
    from quantviz.analysis.study import Study
    from quantviz.quantization.result import QParams
    from quantviz.schemes.calibration import Range
    from quantviz.schemes.granularity import Shape
    from quantviz.sources.files import Catalog
    from quantviz.streaming.tensor_facts import Facts
    from quantviz.tensors.lazy import Stored

T = TypeVar("T")

#: The elements from which others' runs go on during a pass over a tensor, most of which is outside of Python.
_ASIDE_ELEMENTS = 2**16


# ---- tensors ------------------------------------------------------------------------------------


class _Session(OpenedFiles):
    """Data that this session has open: files of the server's folder, and uploads."""

    def catalog(self, file: str, read_as: str = "") -> Catalog:
        return catalog_of(file, read_as)

    def uploaded(self, source: Source) -> Stored:
        found = _uploads().get(source)
        if found is None:
            raise QuantVizError("upload_gone")
        return found


def opened_files() -> OpenedFiles:
    """Return the data that this session has open."""
    return _Session()


def keep_uploads(tensors: Mapping[Source, Stored], *open_now: Source) -> None:
    """Keep uploaded tensors in this session, beside those that are open and, as far as there is room, those
    that undo will ask for.
    """
    kept = _uploads()
    needed = {*tensors, *(each.unedited.original for each in open_now)}
    for upload, tensor in tensors.items():
        kept.pop(upload, None)  # the newest stands last
        kept[upload] = tensor
    room = UPLOAD_BYTES - sum(held_bytes(each) for each in kept.values())
    gone = set()
    for old in [each for each in kept if each not in needed]:
        if room < 0:
            room += held_bytes(kept.pop(old))
            gone.add(old)
    session.forget_steps_to(gone)


def stored_of(source: Source) -> Stored:
    """Return the tensor of a source, not to be changed."""
    own = source.original
    # A view of a shared tensor needs no place of its own among those that are kept.
    tensor = (
        shared_tensor(own.key, lambda: own.open(opened_files())) if own.shared else own.open(opened_files())
    )
    return source.seen(tensor)


def catalog_of(file: str, read_as: str = "") -> Catalog:
    """Return the tensors of a file in the server's folder, open once for all sessions; see `open_local`."""
    # Another version of the file is another file; and not every file's name is text that Streamlit can make a
    # key of.
    return _catalog(f"{file!a} {read_as} {local_version(file)}", file, read_as)


@st.cache_resource(max_entries=8, show_spinner=False)
def _catalog(key: str, _file: str, _read_as: str) -> Catalog:
    return open_local(_file, _read_as, read_file)


def tensor_of(source: Source) -> torch.Tensor:
    """Return all its values, of half precision in their own dtype: for tensors that are sure to be small."""
    from quantviz.tensors.conversion import torch_dtype

    x = stored_of(source)
    values = x.read((slice(None),) * len(x.shape))
    return values.to(torch_dtype(x.dtype)) if x.dtype in HALVES else values


def notes_of(source: Source) -> tuple[Note, ...]:
    """Return notes on changes to the tensor while it was read from its file."""
    return stored_of(source.original).notes


def _uploads() -> dict[Source, Stored]:
    return cast("dict[Source, Stored]", st.session_state.setdefault("lab_uploads", {}))


# ---- results about them --------------------------------------------------------------------------


def kept(
    source: Source, what: Hashable, make: Callable[[], T], *, aside: bool = False, by_job: bool = False
) -> T:
    """Return a cached result about a tensor: `what` is its key with all that it depends on. Never change it.

    Of a shared tensor it is shared; of one's own it stays in the session, for as long as it was used
    lately. `aside`: others' runs go on while it is made, which takes long or is a pass over a large tensor.
    `by_job`: a job makes it, which all who ask wait for.
    """
    key = source.key, what
    aside = aside or math.prod(source.shape) >= _ASIDE_ELEMENTS
    if source.shared:
        return shared_fact(key, make, aside=aside, by_job=by_job)
    facts = cast(Shared, st.session_state.setdefault("lab_found", Shared(SESSION_BYTES)))
    return facts.get(key, make, aside=aside, by_job=by_job)


def heavy_fact(source: Source, what: str, work: Callable[[Stored], T]) -> T:
    """Return the result of long work on a tensor, cached as in `kept`: `work` is a function that can be
    pickled.

    Of a tensor of many elements it is long work, see `long_work`.
    """
    if math.prod(source.shape) < HEAVY_ELEMENTS:
        return kept(source, what, lambda: work(stored_of(source)), aside=True)

    def make() -> T:
        # A source with a text form is opened where the work is done; the session's own data is sent there.
        return heavily(
            f"{source.key} {what}", partial(of_tensor, source if source.shared else stored_of(source), work)
        )

    return kept(source, what, make, by_job=True)


def score_of(source: Source, scheme: Scheme) -> RecipeRow:
    """Return bits and error of a try at golf: for players and the wall of a class the same."""
    from quantviz.teaching.golf import score

    return heavy_fact(source, f"golf {scheme}", partial(score, scheme=scheme))


def facts_of(source: Source) -> Facts:
    """Return the facts of a tensor that hold for every scheme."""
    # Imported here: the page paints its frame before torch comes in.
    from quantviz.streaming import tensor_facts

    return kept(source, "facts", lambda: tensor_facts.facts(stored_of(source)))


def study_of(state: LabState, scheme: Scheme | None = None) -> Study:
    """Return the state's tensor under a scheme, its own if None; `QuantVizError` if it does not fit."""
    from quantviz.analysis.study import Study

    source = state.source
    wanted = scheme or state.scheme

    def keep(what: str, make: Callable[[], T]) -> T:
        return kept(source, what, make)

    return kept(
        source,
        f"study {wanted}",
        lambda: Study.of(
            stored_of(source), wanted, facts=facts_of(source), found=_found(source, wanted), keep=keep
        ),
        aside=searches(wanted),
    )


def inputs_of(source: Source, most: int | None = None) -> torch.Tensor | None:
    """Return the inputs of the weight of a layer, captured or not, float32 (tokens, inputs): of at most so
    many elements evenly spaced tokens. None of any other tensor.
    """
    import torch

    from quantviz.layers.captures import inputs_beside
    from quantviz.streaming.regions import read_whole
    from quantviz.tensors.lazy import as_stored

    weight = source.unedited
    listed = weight.listed(opened_files())
    inputs = inputs_beside(*listed) if listed else None
    if isinstance(weight, LayerWeight):
        inputs, _ = as_stored(weight.layer.open(opened_files()).inputs)
    if inputs is None or most is None or inputs.count <= most:
        return None if inputs is None else read_whole(inputs)
    every = -(-inputs.count // most)
    return torch.cat([inputs.read((slice(k, k + 1), slice(None))) for k in range(0, inputs.shape[0], every)])


def loudness_of(source: Source) -> npt.NDArray[np.float32] | None:
    """Return the root mean square of each input channel of the weight of a layer, captured or not, float32
    (inputs,); None of any other tensor.
    """
    weight = source.unedited
    if weight.checkpoint is None and not isinstance(weight, LayerWeight):
        return None

    def make() -> npt.NDArray[np.float32] | None:
        inputs = inputs_of(weight)
        if inputs is None:
            return None
        found: npt.NDArray[np.float32] = inputs.double().square().mean(0).sqrt().float().numpy()
        return found

    return kept(weight, "loudness of inputs", make, aside=True)


def ask_study_of(state: LabState, what: str, ask: Callable[[Study], T], block: Shape | None = None) -> T:
    """Return the result of long work on the state's tensor, or on a block of it: see `heavy_fact`."""
    from quantviz.analysis.study import ask_study

    source = state.source
    scheme = state.scheme
    found = _found(source, scheme)
    work = partial(ask_study, ask=ask, scheme=scheme, facts=facts_of(source), found=found, block=block)
    return heavy_fact(source, what, work)


def _found(source: Source, scheme: Scheme) -> Range | QParams | None:
    """Return the range or parameters from a search for each block of a large tensor; None without search."""
    from quantviz.analysis.study import search

    if not searches(scheme) or math.prod(source.shape) < HEAVY_ELEMENTS:
        return None
    return heavy_fact(source, f"search {scheme}", partial(search, scheme=scheme, facts=facts_of(source)))


def searches(scheme: Scheme) -> bool:
    """Return whether many ranges are tried for each block."""
    return not scheme.calibration.of_values or scheme.search is not None


# ---- results for normal values --------------------------------------------------------------------


def gaussian_db(scheme: Scheme, shape: tuple[int, ...]) -> float:
    """Return the SQNR of normal tensors of `shape` under a scheme, in dB; nan where that takes too long."""
    from quantviz.evaluation.gaussian import gaussian_sqnr_db

    heavy = searches(scheme) and math.prod(shape) >= HEAVY_ELEMENTS
    name = f"gaussian {shape} {scheme}"
    work = partial(gaussian_sqnr_db, scheme, shape)
    try:
        return shared_fact(name, partial(heavily, name, work) if heavy else work, by_job=heavy)
    except QuantVizError as problem:
        if problem.key != "work.too_long":
            raise
        return math.nan
