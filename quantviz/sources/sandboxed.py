"""The tensors of a file from outside, listed and cut within the boundary of `sandbox`."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape, Window
from quantviz.schemes.orientation import Orientation
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.catalog import Catalog, Index, LazyInfos, Loaded, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped
from quantviz.sources.layouts.decoded import DECODED
from quantviz.sources.limits import Limits
from quantviz.sources.sandbox import OutsideFile, Read, read_apart
from quantviz.sources.stores.addresses import beside
from quantviz.tensors.lazy import OwnScales, Stored, Values

if TYPE_CHECKING:
    import torch

    from quantviz.errors import Note
    from quantviz.sources.layouts.decoded import ModelTensors

T = TypeVar("T")

#: Files whose tensors a process has at hand.
_MOST_OPEN = 2


class _Listing(NamedTuple):
    #: The facts of each tensor, or the reason why its part of the model cannot be read.
    infos: dict[str, TensorInfo | QuantVizError]
    model_names: tuple[str, ...]


class _SandboxedRows(NamedTuple):
    #: The name of another file beside the one that lists it; "" for that one.
    file: str
    start: int
    packing: str
    dtype: str
    notes: tuple[Note, ...]


class _Decoded(NamedTuple):
    shape: Shape
    dtype: str
    notes: tuple[Note, ...]
    own_scheme: Scheme | None


class Sandboxed(Catalog):
    """The tensors of a file from outside, quantized weights decoded among them.

    Only rows of plain numbers are read in this process, from the place in the file that the listing gives.
    """

    def __init__(self, place: OutsideFile, read: Read = read_apart) -> None:
        self._place = place
        self._read = read
        self._data = place.data()
        self._version = place.version
        self._limits = Limits.of_environment()
        listing: _Listing = self._ask(_listing)
        self._data.header_read()
        self._listed = listing.infos
        self._infos = LazyInfos(self._listed, self._known)
        self._model_names = listing.model_names

    def _ask(self, work: Callable[[ModelTensors], T]) -> T:
        asked = partial(_answer, _SandboxedName(self._version, self._place), work)
        key = self._version, self._limits, repr(work)
        found: T = self._read(asked, key, self._data.name, answers=self._data.answered)
        return found

    def _known(self, name: str) -> TensorInfo:
        found = self._listed[name]
        if isinstance(found, QuantVizError):
            raise found.again()
        return found

    def info(self, name: str) -> TensorInfo:
        # Older links have a decoded weight's name with an end.
        weight = str(name).removesuffix(DECODED)
        return super().info(name if name in self._listed or weight not in self._listed else weight)

    @property
    def model_names(self) -> tuple[str, ...]:
        return self._model_names

    def orientation(self, name: str) -> Orientation:
        self.info(name)
        found: Orientation = self._ask(methodcaller("orientation", name))
        return found

    def header_texts(self, name: str) -> Mapping[str, str]:
        return self._ask(methodcaller("header_texts", name))

    def stored_bytes(self, name: str) -> int:
        count: int = self._ask(methodcaller("stored_bytes", name))
        return count

    def read(self, name: str, index: Index | None = None) -> Loaded:
        self._data.check()
        window, _ = self._window_at(name, index)
        found: Loaded = self._ask(methodcaller("read", name, window))
        return found

    def stored_now(self, name: str) -> Stored:
        """Return a tensor; all parts of a decoded weight on another machine are fetched first."""
        self._ask(methodcaller("fetch", name))
        return self.stored(name)

    def stored(self, name: str) -> Stored:
        from quantviz.sources.files.mapped import Mapped, StoredRows, packing_of

        self._data.check()
        info = self._readable(name)
        found = self._ask(partial(_stored, name))
        if isinstance(found, Stored):
            return found
        if isinstance(found, _Decoded):
            return _Apart(found, self._ask, self._data, name)
        data = self._data.beside(found.file) if found.file else self._data
        data.header_read()
        rows = StoredRows(found.start, packing_of(found.packing))
        if not 0 <= found.start <= data.size - rows.packing.byte_count(info.count):
            raise data.error("tensor_damaged", name=clipped(name))
        return Mapped(data, name, rows, info.shape, found.dtype, found.notes, self._limits)


class _Apart(Stored):
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
        found: OwnScales | None = self._part("own_scales", self._own)
        return found

    def check(self) -> None:
        self._data.check()

    def run(self, start: int, stop: int) -> Values:
        self.check()
        values: Values = self._part("run", start, stop)
        return values

    def read(self, index: Window) -> torch.Tensor:
        self.check()
        part: torch.Tensor = self._part("read", index)
        return part

    def _part(self, method: str, *given: Any) -> Any:
        return self._ask(partial(_of_stored, self._name, methodcaller(method, *given)))


# ---- in the process that reads -----------------------------------------------------------------------


@dataclass(frozen=True)
class _SandboxedName:
    version: Hashable
    place: OutsideFile = field(compare=False)


def _answer(named: _SandboxedName, work: Callable[[ModelTensors], T]) -> T:
    return work(_opened(named, Limits.of_environment()))


@lru_cache(_MOST_OPEN)
def _opened(named: _SandboxedName, limits: Limits) -> ModelTensors:
    from quantviz.sources.files import catalog_of
    from quantviz.sources.layouts.decoded import model_tensors
    from quantviz.sources.stores.store_data import StoreData, reader_at

    data = named.place.data()
    # Of a file on another machine its name decides: others' beginnings are not fetched.
    reader = reader_at(data.name) if isinstance(data, StoreData) else None
    return model_tensors(catalog_of(data, limits=limits, reader=reader))


def _listing(tensors: ModelTensors) -> _Listing:
    def known(name: str) -> TensorInfo | QuantVizError:
        try:
            return tensors.info(name)
        except QuantVizError as problem:
            return problem.again()

    return _Listing({name: known(name) for name in tensors.names}, tensors.model_names)


def _stored(name: str, tensors: ModelTensors) -> Stored | _SandboxedRows | _Decoded:
    from quantviz.sources.files.mapped import Mapped
    from quantviz.tensors.lazy import InMemory

    found = tensors.stored(name)
    if isinstance(found, InMemory):
        return found
    if isinstance(found, Mapped) and found.lies.packing.named:
        listing = tensors.data_of(name)
        if found.data is listing or _is_beside(listing, found.data):
            name_beside = "" if found.data is listing else found.data.name
            return _SandboxedRows(
                name_beside, found.lies.start, found.lies.packing.named, found.dtype, found.notes
            )
    return _Decoded(found.shape, found.dtype, found.notes, found.own_scheme)


def _is_beside(listing: FileData, data: FileData) -> bool:
    """Return whether a file is the one of its name beside another, and not in a folder below."""
    from quantviz.sources.stores.store_data import StoreData

    if isinstance(data, StoreData) and isinstance(listing, StoreData):
        return data.address == beside(listing.address, data.name)
    if data.opened is None or not listing.is_beside(data.name):
        return False
    there = listing.beside(data.name).opened
    return there is not None and os.path.samestat(*(os.fstat(at.descriptor) for at in (data.opened, there)))


def _of_stored(name: str, ask: Callable[[Stored], T], tensors: ModelTensors) -> T:
    return ask(tensors.stored(name))
