"""What every reader of a file format shares: the file's bytes, its list of tensors, windows into them."""

from __future__ import annotations

import difflib
import itertools
import math
import mmap
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, BinaryIO, ClassVar, NamedTuple

from quantviz.errors import Note, QuantVizError
from quantviz.granularity import Shape, Window

if TYPE_CHECKING:
    import torch

#: One number or slice an axis; axes that are not named are taken whole.
Index = Sequence[int | slice]

#: Dtypes whose values are real numbers that can be converted to float32.
REAL_DTYPES = frozenset(
    {
        *("float64", "float32", "float16", "bfloat16", "float4_e2m1fn", "decimal"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    }
)

#: Bytes copied at a time while a window is cut out of long rows.
_CHUNK_BYTES = 2**24
#: Names among which near ones are looked for.
_NAMES_COMPARED = 500
#: Longest part of a name that is repeated in a sentence.
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Limits:
    """What a file may ask for. Each is checked against what the file declares, before anything is allocated."""

    #: Elements of what is loaded at once: of the window, or of the whole tensor where the format has no windows.
    elements: int = 2**28
    #: Tensors in one file.
    tensors: int = 100_000
    #: Bytes of a header or of one entry's header.
    header_bytes: int = 2**25
    #: Bytes of a table in text.
    table_bytes: int = 2**26
    #: Bytes of a JSON file: parsed it takes some thirty times as much.
    json_bytes: int = 2**24
    #: Depth of dicts and lists of tensors.
    depth: int = 32


@dataclass(frozen=True, eq=False)
class TensorInfo:
    """What is known of a tensor before it is loaded."""

    #: Name of the dtype in the file, as torch spells it where torch has it; "decimal" for numbers in text.
    dtype: str
    #: Its lengths; () for a single number.
    shape: Shape
    #: The quantized type it was decoded from, "" if it was not.
    source_type: str = ""
    #: What a person should know.
    notes: tuple[Note, ...] = ()
    #: Why it cannot be loaded, None if it can.
    problem: QuantVizError | None = None

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


class Loaded(NamedTuple):
    """A tensor that was read: float32, with its own memory."""

    tensor: torch.Tensor
    notes: tuple[Note, ...]


class FileData:
    """The bytes of a file, on disk or uploaded, and its name for sentences."""

    def __init__(self, path_or_bytes: str | PurePath | bytes | bytearray | memoryview, filename: str | None) -> None:
        self.path = Path(path_or_bytes) if isinstance(path_or_bytes, str | PurePath) else None
        #: The name without its folders: an error never shows where a server keeps its files.
        self.name = (PurePath(filename.replace("\\", "/")).name if filename else self.path.name if self.path else "") or "?"
        self._map: mmap.mmap | None = None
        self._content = b"" if isinstance(path_or_bytes, str | PurePath) else bytes(path_or_bytes)
        self._view = memoryview(self._content)
        if self.path:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                if path.stat().st_size:
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    self._view = memoryview(self._map)
        except FileNotFoundError:
            raise self.error("missing") from None
        except (OSError, ValueError):
            raise self.error("not_readable") from None

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self._view)

    @property
    def suffix(self) -> str:
        """The end of its name from the last dot on, in lower case."""
        return PurePath(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        """The name without suffix: what a format that names no tensors calls its one tensor."""
        return PurePath(self.name).stem

    @property
    def view(self) -> memoryview:
        """All its bytes, read-only, from the disk as they are looked at."""
        return self._view

    def stream(self) -> BinaryIO:
        """A stream of its own over the bytes."""
        return self.path.open("rb") if self.path else BytesIO(self._content)

    def close(self) -> None:
        """Let go of the file."""
        # A view of the map that is still in use, in a traceback perhaps, holds it open until it is gone itself.
        with suppress(BufferError):
            self._view.release()
            if self._map:
                self._map.close()

    def error(self, key: str, /, **params: object) -> QuantVizError:
        """The error `file.<key>` that names this file."""
        return QuantVizError(f"file.{key}", file=clipped(self.name), **params)


def clipped(name: str) -> str:
    """A name short enough for a sentence."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


class Catalog(ABC):
    """The tensors of one open file. A format is one subclass."""

    #: What people call the format.
    kind: ClassVar[str]
    #: How names of its files end.
    suffixes: ClassVar[tuple[str, ...]]
    #: Python lines that cut one tensor out of a file, with {file!r} and {name!r}.
    snippet: ClassVar[str] = ""

    def __init__(self, data: FileData, limits: Limits) -> None:
        self._data = data
        self._limits = limits
        with guarded(data, self.kind):
            self._infos = dict(self._list())
        if not self._infos:
            raise data.error("empty")

    @classmethod
    @abstractmethod
    def recognises(cls, data: FileData) -> bool:
        """Whether the bytes begin as this format's do."""

    @abstractmethod
    def _list(self) -> Mapping[str, TensorInfo]:
        """All tensors. Anything but a `QuantVizError` raised here is told as damage."""

    @abstractmethod
    def _window(self, name: str, index: Window) -> torch.Tensor:
        """That part of a tensor in its stored dtype, not sharing memory with the file."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors' names, in the file's order."""
        return tuple(self._infos)

    def info(self, name: str) -> TensorInfo:
        """What is known of a tensor without loading it; `QuantVizError` for an unknown name."""
        if name not in self._infos:
            # Among the first only: looking through all names of a large checkpoint would take long.
            some = list(itertools.islice(self._infos, _NAMES_COMPARED))
            nearest = difflib.get_close_matches(name[:200], some, n=3, cutoff=0) or some[:3]
            raise self._data.error("no_tensor", name=clipped(name), nearest=", ".join(repr(clipped(each)) for each in nearest))
        return self._infos[name]

    def load(self, name: str, index: Index | None = None) -> torch.Tensor:
        """The tensor, or the part of it at `index`, as float32; see `read`."""
        return self.read(name, index).tensor

    def read(self, name: str, index: Index | None = None) -> Loaded:
        """The tensor, or the part of it at `index`, as float32, and notes that count the values changed by that.

        `index` has one number or slice an axis, as in `x[2, 0:512]`; numbers take their axis away.
        Only that window is read where the format allows it. NaN and Inf come through. `QuantVizError` for
        what is no real number, for more elements than `Limits.elements`, and for values beyond float32.
        """
        info = self.info(name)
        if info.problem:
            raise QuantVizError(info.problem.key, **info.problem.params)
        window = self._resolve(name, info.shape, index)
        lengths = window_shape(window)
        count = math.prod(lengths)
        if count > self._limits.elements:
            raise self._data.error("tensor_too_large", name=clipped(name), got=count, most=self._limits.elements)
        with guarded(self._data, self.kind):
            stored = self._window(name, window) if count else _empty(lengths)
        return Loaded(*self._as_float32(name, stored, info))

    def _resolve(self, name: str, shape: Shape, index: Index | None) -> Window:
        """`index` with a number or a full slice for each axis."""
        given = () if index is None else index if isinstance(index, tuple) else (index,)
        try:
            if len(given) > len(shape):
                raise IndexError
            everything = (slice(None),) * (len(shape) - len(given))
            return tuple(_resolved(part, length) for part, length in zip((*given, *everything), shape, strict=True))
        except (IndexError, TypeError, ValueError):
            raise self._data.error("index", name=clipped(name), shape=shape, index=clipped(str(given))) from None

    def _as_float32(self, name: str, stored: torch.Tensor, info: TensorInfo) -> tuple[torch.Tensor, tuple[Note, ...]]:
        import torch

        from quantviz.tensors import as_float32

        values, notes = as_float32(stored)
        if stored.dtype == torch.float64:
            beyond = torch.nonzero(torch.isinf(values) & torch.isfinite(stored))
            if len(beyond):
                first = tuple(beyond[0].tolist())
                raise self._data.error("beyond_float32", name=clipped(name), count=len(beyond), value=stored[first].item(), index=first)
        return values, (*info.notes, *notes)

    def _unreadable(self, name: str, dtype: str) -> QuantVizError:
        return self._data.error("not_numbers", name=clipped(name), dtype=clipped(dtype))

    def _info(self, name: str, dtype: str, shape: Shape, notes: tuple[Note, ...] = ()) -> TensorInfo:
        """The info of a tensor, with its problem where the dtype is not one of real numbers."""
        return TensorInfo(dtype, shape, notes=notes, problem=None if dtype in REAL_DTYPES else self._unreadable(name, dtype))

    def _check_count(self, count: int) -> None:
        if count > self._limits.tensors:
            raise self._data.error("too_many_tensors", got=count, most=self._limits.tensors)


@contextmanager
def guarded(data: FileData, kind: str) -> Iterator[None]:
    """Whatever a damaged file makes a library raise becomes one sentence of ours."""
    try:
        yield
    except QuantVizError:
        raise
    except Exception:
        raise data.error("damaged", kind=kind) from None


def _resolved(part: int | slice, length: int) -> int | slice:
    if not isinstance(part, slice):
        place = operator.index(part)
        if not -length <= place < length:
            raise IndexError
        return place % length
    start, stop, step = part.indices(length)
    if step < 1 or (length and not range(start, stop, step)):
        raise IndexError
    return slice(start, stop, step)


def window_shape(window: Window) -> Shape:
    """The shape of what a window cuts out.

    >>> window_shape((slice(0, 4, 2), 3, slice(1, 2, 1)))
    (2, 1)
    """
    return tuple(len(range(part.start, part.stop, part.step)) for part in window if isinstance(part, slice))


def _empty(shape: Shape) -> torch.Tensor:
    import torch

    return torch.empty(shape)


def raw_window(view: memoryview, dtype: torch.dtype, shape: Shape, window: Window, *, swapped: bool = False) -> torch.Tensor:
    """A window, not an empty one, of a tensor that lies in `view` row by row.

    Only the bytes of its rows are copied, a chunk at a time. `swapped` says that the bytes of each
    element are in the order this machine does not use.

    >>> import torch
    >>> raw_window(memoryview(bytes(range(12))), torch.uint8, (3, 4), (slice(1, 3, 1), 2))
    tensor([ 6, 10], dtype=torch.uint8)
    """
    import torch

    if not shape:
        return _rows(view, dtype, (1,), range(1), swapped)[0]
    first, rest = window[0], window[1:]
    if isinstance(first, int):
        return _rows(view, dtype, shape, range(first, first + 1), swapped)[(0, *rest)].clone()
    rows = range(first.start, first.stop, first.step)
    at_once = max(1, _CHUNK_BYTES // (dtype.itemsize * math.prod(shape[1:]) * rows.step))
    if len(rows) <= at_once or (rows.step == 1 and window_shape(rest) == shape[1:]):
        return _rows(view, dtype, shape, rows, swapped)[(slice(None), *rest)].contiguous()
    cut = torch.empty(window_shape(window), dtype=dtype)
    for start in range(0, len(rows), at_once):
        some = rows[start : start + at_once]
        cut[start : start + len(some)] = _rows(view, dtype, shape, some, swapped)[(slice(None), *rest)]
    return cut


def _rows(view: memoryview, dtype: torch.dtype, shape: Shape, rows: range, swapped: bool) -> torch.Tensor:
    """Those rows, in memory of their own."""
    import torch

    row_bytes = dtype.itemsize * math.prod(shape[1:])
    raw = torch.frombuffer(bytearray(view[rows[0] * row_bytes : (rows[-1] + 1) * row_bytes]), dtype=torch.uint8)
    if swapped:
        raw = raw.reshape(-1, dtype.itemsize).flip(1).reshape(-1)
    return raw.view(dtype).reshape(-1, *shape[1:])[:: rows.step]
