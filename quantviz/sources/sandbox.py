"""The one boundary: a file from outside is listed and cut in a confined process with limits of memory and of
processor time, beside the one that asks. What crosses back is typed data, and float32 in shared memory.

    catalog = Sandboxed(Held("model.onnx", content))
    catalog.stored("layers.0.weight")
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from quantviz.budget import Ended
from quantviz.errors import QuantVizError
from quantviz.jobs import Cost, in_job, runner
from quantviz.schemes.granularity import Shape, Window
from quantviz.schemes.orientation import Orientation
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.catalog import Catalog, Index, LazyInfos, Loaded, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped
from quantviz.sources.limits import Limits
from quantviz.tensors.lazy import OwnScales, Stored, Values

if TYPE_CHECKING:
    import torch

    from quantviz.errors import Note
    from quantviz.sources.layouts.decoded import ModelTensors

T = TypeVar("T")

#: What reading a file may take. Three are read at once, each of another person: one that takes long keeps
#: nobody else waiting.
READING = Cost(
    products=0.0, seconds=60.0, bytes=3.0 * 2**30, threads=1, queue="files", places=3, confined=True
)
#: Files whose tensors a process has at hand.
_MOST_OPEN = 2


def read_apart(
    work: Callable[[], T],
    key: Hashable,
    file: str,
    *,
    owner: Hashable = None,
    is_wanted: Callable[[], bool] = lambda: True,
    cost: Cost = READING,
) -> T:
    """Return the result of work that reads a file from outside.

    Args:
        work: A function that can be pickled. Its result is typed data.
        key: Names the work and the version of the file.
        file: The file's name.
        owner: The session that asks.
        is_wanted: Whether it still waits.
        cost: What it may take.

    Raises:
        QuantVizError: It cannot be read, or not within the limits.
        Ended: Nobody waits for it.
    """
    if in_job():
        return work()
    try:
        return runner().submit(work, key, cost, owner=owner).result(is_wanted)
    except Ended as end:
        if end.problem.key == "work.dropped":
            raise
        raise QuantVizError("drop.too_long", file=clipped(file)) from None


class Place(Protocol):
    """Where a file from outside lies; it can be pickled."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def version(self) -> Hashable:
        """Return what differs between two files, and between two ways to read one."""

    def data(self) -> FileData:
        """Return its bytes."""


@dataclass(frozen=True)
class Held:
    """A file whose content is at hand, or the path of one that a person has dropped."""

    name: str
    content: bytes | Path = field(repr=False)
    read_as: str = ""

    @property
    def version(self) -> Hashable:
        if isinstance(self.content, Path):
            facts = self.content.stat()
            return self.name, self.read_as, self.content, facts.st_size, facts.st_mtime_ns
        return self.name, self.read_as, hashlib.sha256(self.content).digest()

    def data(self) -> FileData:
        found = FileData(self.content, self.name)
        found.stored_as = self.read_as
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        content = self.content if isinstance(self.content, Path) else pickle.PickleBuffer(self.content)
        return Held, (self.name, content, self.read_as)


#: Does the work with the key that follows it, on the file of that name: `read_apart`.
Read = Callable[[Callable[[], Any], Hashable, str], Any]


class _Listing(NamedTuple):
    #: The facts of each tensor, or the reason why its part of the model cannot be read.
    infos: dict[str, TensorInfo | QuantVizError]
    model_names: tuple[str, ...]


class _Rows(NamedTuple):
    """A tensor that lies row by row in a file, with its dtype."""

    #: The name of another file beside the one that lists it; "" for that one.
    file: str
    start: int
    packing: str
    dtype: str
    notes: tuple[Note, ...]


class _Decoded(NamedTuple):
    """A tensor whose values are decoded from its file a part at a time."""

    shape: Shape
    dtype: str
    notes: tuple[Note, ...]
    own_scheme: Scheme | None


class Sandboxed(Catalog):
    """The tensors of a file from outside, quantized weights decoded among them, all read apart from here.

    Only rows of plain numbers are read here, from the place in the file that the listing gives.

    Args:
        place: Where the file lies.
        read: Does the work, by default `read_apart`.

    Raises:
        QuantVizError: It cannot be read.
    """

    def __init__(self, place: Place, read: Read = read_apart) -> None:
        self._place = place
        self._read = read
        self._data = place.data()
        self._version = place.version
        self._limits = Limits.of_environment()
        listing: _Listing = self._ask(_listing)
        self._listed = listing.infos
        self._infos = LazyInfos(self._listed, self._known)
        self._model_names = listing.model_names

    def _ask(self, work: Callable[..., T], *given: Hashable) -> T:
        asked = partial(_answer, self._place, self._version, work, given)
        # Slices have no hash.
        key = self._version, self._limits, work.__name__, repr(given)
        found: T = self._read(asked, key, self._data.name)
        return found

    def _known(self, name: str) -> TensorInfo:
        found = self._listed[name]
        if isinstance(found, QuantVizError):
            raise found.again()
        return found

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return False

    def _list(self) -> Mapping[str, TensorInfo]:
        return self._infos

    @property
    def model_names(self) -> tuple[str, ...]:
        return self._model_names

    def orientation(self, name: str) -> Orientation:
        self.info(name)
        return self._ask(_orientation, name)

    def header_texts(self, name: str) -> Mapping[str, str]:
        return self._ask(_header_texts, name)

    def read(self, name: str, index: Index | None = None) -> Loaded:
        self._data.check()
        window, _ = self._window_at(name, index)
        return self._ask(_loaded, name, window)

    def stored(self, name: str) -> Stored:
        from quantviz.sources.files.mapped import Mapped, StoredRows, packing_of

        self._data.check()
        info = self._readable(name)
        found = self._ask(_stored, name)
        if isinstance(found, Stored):
            return found
        if isinstance(found, _Decoded):
            return _Apart(found, partial(self._ask), self._data, name)
        data = self._data.beside(found.file) if found.file else self._data
        rows = StoredRows(found.start, packing_of(found.packing))
        if not 0 <= found.start <= data.size - rows.packing.byte_count(info.count):
            raise data.error("tensor_damaged", name=clipped(name))
        return Mapped(data, name, rows, info.shape, found.dtype, found.notes, self._limits)


class _Apart(Stored):
    """A tensor whose parts are decoded apart from here."""

    def __init__(self, known: _Decoded, ask: Callable[..., Any], data: FileData, name: str) -> None:
        self._shape, self._dtype, self._notes, self._own = known
        self._ask = ask
        self._data = data
        self._name = name

    @property
    def own_scheme(self) -> Scheme | None:
        return self._own

    @property
    def _file_scales(self) -> OwnScales | None:
        found: OwnScales | None = self._ask(_scales, self._name)
        return found

    def check(self) -> None:
        self._data.check()

    def run(self, start: int, stop: int) -> Values:
        self.check()
        values: Values = self._ask(_run, self._name, start, stop)
        return values

    def read(self, index: Window) -> torch.Tensor:
        self.check()
        part: torch.Tensor = self._ask(_part, self._name, index)
        return part


# ---- in the process that reads -----------------------------------------------------------------------


def _answer(place: Place, version: Hashable, work: Callable[..., T], given: tuple[Hashable, ...]) -> T:
    return work(_opened(_Named(version, place), Limits.of_environment()), *given)


@dataclass(frozen=True)
class _Named:
    version: Hashable
    place: Place = field(compare=False)


@lru_cache(_MOST_OPEN)
def _opened(named: _Named, limits: Limits) -> ModelTensors:
    from quantviz.sources.files import catalog_of
    from quantviz.sources.layouts.decoded import model_tensors

    return model_tensors(catalog_of(named.place.data(), limits=limits))


def _listing(tensors: ModelTensors) -> _Listing:
    def known(name: str) -> TensorInfo | QuantVizError:
        try:
            return tensors.info(name)
        except QuantVizError as problem:
            return problem.again()

    return _Listing({name: known(name) for name in tensors.names}, tensors.model_names)


def _orientation(tensors: ModelTensors, name: str) -> Orientation:
    return tensors.orientation(name)


def _header_texts(tensors: ModelTensors, name: str) -> dict[str, str]:
    return dict(tensors.header_texts(name))


def _loaded(tensors: ModelTensors, name: str, index: Index) -> Loaded:
    return tensors.read(name, index)


def _stored(tensors: ModelTensors, name: str) -> Stored | _Rows | _Decoded:
    from quantviz.sources.files.mapped import Mapped
    from quantviz.tensors.lazy import InMemory

    found = tensors.stored(name)
    if isinstance(found, InMemory):
        return found
    if isinstance(found, Mapped) and found.lies.packing.named:
        listing = tensors.data_of(name)
        if found.data is listing or _is_beside(listing, found.data):
            beside = "" if found.data is listing else found.data.name
            return _Rows(beside, found.lies.start, found.lies.packing.named, found.dtype, found.notes)
    return _Decoded(found.shape, found.dtype, found.notes, found.own_scheme)


def _is_beside(listing: FileData, data: FileData) -> bool:
    """Return whether a file is the one of its name beside another, and not in a folder below."""
    if data.opened is None or not listing.is_beside(data.name):
        return False
    beside = listing.beside(data.name).opened
    return beside is not None and os.path.samestat(*(os.fstat(at.descriptor) for at in (data.opened, beside)))


def _scales(tensors: ModelTensors, name: str) -> OwnScales | None:
    found = tensors.stored(name)
    return None if found.own_scheme is None else found.own_scales(found.own_scheme)


def _run(tensors: ModelTensors, name: str, start: int, stop: int) -> Values:
    return tensors.stored(name).run(start, stop)


def _part(tensors: ModelTensors, name: str, index: Window) -> torch.Tensor:
    return tensors.stored(name).read(index)
