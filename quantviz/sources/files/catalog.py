"""What every reader of a file format shares: the file's bytes, its list of tensors, windows into them."""

from __future__ import annotations

import difflib
import functools
import itertools
import json
import math
import mmap
import operator
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, cast

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape, Window
from quantviz.sources.limits import Limits as Limits
from quantviz.text import visible

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files.mapped import Lies
    from quantviz.tensors.lazy import Stored

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

#: Those of which float32 does not hold every value: what changes in converting them is counted.
_COUNTED_DTYPES = frozenset({"float64", "int32", "int64", "uint32", "uint64"})
#: Those of which it does although they are no floats; people are told that nothing changed.
_WHOLE_DTYPES = frozenset({"int8", "int16", "uint8", "uint16"})

#: Most axes a tensor may declare, as many as numpy has. The product of so many lengths is soon worked out.
MOST_AXES = 64

#: Values that are converted at a time.
_AT_ONCE = 2**22
#: Lists and objects in a text of JSON: an empty one takes thirty times its two characters.
_MOST_BRACKETS = 2**20
#: Names among which near ones are looked for.
_NAMES_COMPARED = 500
#: Longest part of a name that is repeated in a sentence.
_LONGEST_NAME = 80


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
        """Return how many elements it has."""
        return math.prod(self.shape)


class Loaded(NamedTuple):
    """A tensor that was read: float32, with its own memory."""

    tensor: torch.Tensor
    notes: tuple[Note, ...]


#: How files are opened. Without waiting: a pipe with nobody at its other end would keep us for ever.
READ_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


class OpenFile:
    """A plain file on disk that is open as long as somebody keeps this, and whether it still is what it was.

    What is mapped of a file that somebody cuts short kills the process at the next look, so whoever keeps a
    part of it asks `check` first.
    """

    def __init__(self, descriptor: int, name: str, path: Path) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._name = name
        #: A path that leads to this very file, whatever has taken its place meanwhile, where the system has
        #: such paths.
        by_number = Path(f"/dev/fd/{descriptor}")
        self.path = by_number if by_number.exists() else path
        self._first = os.fstat(self.descriptor)
        if stat.S_ISDIR(self._first.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(self._first.st_mode):
            raise OSError

    @property
    def size(self) -> int:
        """Return its length in bytes when it was opened."""
        return self._first.st_size

    def check(self) -> None:
        """`QuantVizError` if the file has been changed since it was opened."""
        now = os.fstat(self.descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._first.st_size, self._first.st_mtime_ns):
            raise QuantVizError("file.changed", file=clipped(self._name))


class FileData:
    """The bytes of a file, on disk or uploaded, and its name for sentences.

    `beside` opens a file of the same folder by its name; of a path given here that is its folder, and an
    upload has none.
    """

    def __init__(
        self,
        content: str | PurePath | bytes | bytearray | memoryview | OpenFile,
        filename: str | None,
        *,
        beside: Callable[[str], FileData] | None = None,
    ) -> None:
        check_kinds(content, filename)
        path = Path(content) if isinstance(content, str | PurePath) else None
        #: The name without its folders: an error never shows where a server keeps its files.
        self.name = (
            PurePath(filename.replace("\\", "/")).name if filename else path.name or str(path) if path else ""
        ) or "?"
        #: The names of its members where it is a zip and somebody has looked: each reader asks for them.
        self.members: list[str] | None = None
        self._map: mmap.mmap | None = None
        self._content = b"" if path or isinstance(content, OpenFile) else bytes(cast("bytes", content))
        self._view = memoryview(self._content)
        self._beside = beside or (functools.partial(_beside, path) if path else None)
        #: The file on disk; none for an upload, which nobody can change.
        self.opened = self._opened(path) if path else content if isinstance(content, OpenFile) else None
        #: Whether it was let go of.
        self.closed = False
        #: Where a library can open it.
        self.path = self.opened.path if self.opened else None
        if self.opened and self.opened.size:
            try:
                self._map = mmap.mmap(self.opened.descriptor, 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                raise self.error("not_readable") from None
            self._view = memoryview(self._map)

    def _opened(self, path: Path) -> OpenFile:
        try:
            return OpenFile(os.open(path, READ_FLAGS), self.name, path)
        except (FileNotFoundError, NotADirectoryError):
            raise self.error("missing") from None
        except IsADirectoryError:
            raise self.error("is_folder") from None
        except (OSError, ValueError):
            raise self.error("not_readable") from None

    def beside(self, name: str) -> FileData:
        """Return the file of that name, which has no folder, beside this one; `QuantVizError` where there is
        none to be had.
        """
        if self._beside is None:
            raise self.error("shards_elsewhere")
        return self._beside(name)

    def check(self) -> None:
        """`QuantVizError` if the file was closed, or has been changed since it was opened."""
        if self.closed:
            raise self.error("closed")
        if self.opened:
            self.opened.check()

    @property
    def size(self) -> int:
        """Return its length in bytes."""
        return len(self._view)

    @property
    def suffix(self) -> str:
        """Return the end of its name from the last dot on, in lower case."""
        return PurePath(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        """Return the name without suffix: what a format that names no tensors calls its one tensor."""
        return PurePath(self.name).stem

    @property
    def view(self) -> memoryview:
        """Return all its bytes, read-only, from the disk as they are looked at."""
        return self._view

    def stream(self) -> BinaryIO:
        """Return a stream of its own over the bytes."""
        return self.path.open("rb") if self.path else BytesIO(self._content)

    def close(self) -> None:
        """Let go of the file."""
        self.closed = True
        # A view of the map that is still in use, in a traceback perhaps, holds it open until it is gone
        # itself.
        with suppress(BufferError):
            self._view.release()
            if self._map:
                self._map.close()
        self.opened = None

    def error(self, key: str, /, **params: object) -> QuantVizError:
        """Return the error `file.<key>` that names this file."""
        return QuantVizError(f"file.{key}", file=clipped(self.name), **params)


def check_kinds(content: object, filename: object) -> None:
    """Refuse what is no path and no bytes, as people give it from Python."""
    if not isinstance(content, str | PurePath | bytes | bytearray | memoryview | OpenFile):
        raise QuantVizError("file.no_path", got=type(content).__name__)
    if filename is not None and not isinstance(filename, str):
        raise QuantVizError("file.no_filename", got=type(filename).__name__)
    # Path("") is the folder one is in.
    if content == "":
        raise QuantVizError("file.no_path", got="''")


def _beside(path: Path, name: str) -> FileData:
    try:
        folder, other = path.parent.resolve(), (path.parent / name).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte
        raise QuantVizError("file.not_readable", file=clipped(name)) from None
    if other.parent != folder:
        raise QuantVizError("file.shard_outside", shard=clipped(name), file=clipped(path.name))
    return FileData(other, name)


class _DuplicateName(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise _DuplicateName(name)
        entries[name] = value
    return entries


class _Beyond(float):
    """Infinity, where a number stands that is too large for Python; the word Infinity gives a plain one."""

    _digits: str

    def __new__(cls, digits: str) -> _Beyond:
        beyond = super().__new__(cls, digits)
        beyond._digits = digits
        return beyond

    def __str__(self) -> str:
        return self._digits


def _number(digits: str) -> float:
    value = float(digits)
    return _Beyond(digits) if math.isinf(value) else value


def parsed_json(data: FileData, view: memoryview) -> Any:
    """What a part of the file says in JSON; an object must not have two entries of one name."""
    raw = bytes(view)
    if (brackets := raw.count(b"[") + raw.count(b"{")) > _MOST_BRACKETS:
        raise data.error("too_many_lists", got=brackets, most=_MOST_BRACKETS)
    try:
        return json.loads(raw, object_pairs_hook=_no_duplicates, parse_float=_number)
    except _DuplicateName as duplicate:
        raise data.error("duplicate_name", name=clipped(str(duplicate))) from None


def clipped(name: str) -> str:
    """Return a name short enough for a sentence."""
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
            self._infos = self._list()
        if not self._infos:
            raise data.error("empty")

    def __repr__(self) -> str:
        closed = ", closed" if self._data.closed else ""
        return f"<{type(self).__name__} {clipped(self._data.name)!r}: {len(self._infos)} tensors{closed}>"

    def close(self) -> None:
        """Let go of the file. What was stored keeps it open for itself."""
        self._data.close()

    @classmethod
    @abstractmethod
    def recognises(cls, data: FileData) -> bool:
        """Return whether the bytes begin as this format's do."""

    @abstractmethod
    def _list(self) -> Mapping[str, TensorInfo]:
        """Return all tensors. Anything but a `QuantVizError` raised here is told as damage."""

    def _lies(self, name: str) -> Lies | None:
        """Return where the tensor lies in the file row by row; none where `_cutter` has another way to it."""
        return None

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        """What gives parts of the tensor, none of them empty, in its stored dtype; they may share memory with
        it.
        """
        from quantviz.sources.files.mapped import cut

        lies, shape = self._lies(name), self.info(name).shape
        assert lies
        return lambda window: cut(
            self._data.view[lies.start :], lies.packing, shape, window, turned=lies.turned
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, in the file's order."""
        return tuple(self._infos)

    def info(self, name: str) -> TensorInfo:
        """What is known of a tensor without loading it; `QuantVizError` for an unknown name."""
        if not isinstance(name, str) or name not in self._infos:
            name = str(name)
            # Among the first only: looking through all names of a large checkpoint would take long.
            some = list(itertools.islice(self._infos, _NAMES_COMPARED))
            nearest = difflib.get_close_matches(name[:200], some, n=3, cutoff=0) or some[:3]
            raise self._data.error(
                "no_tensor", name=clipped(name), nearest=", ".join(repr(clipped(each)) for each in nearest)
            )
        return self._infos[name]

    def load(self, name: str, index: Index | None = None) -> torch.Tensor:
        """Return the tensor, or the part of it at `index`, as float32; see `read`."""
        return self.read(name, index).tensor

    def read(self, name: str, index: Index | None = None) -> Loaded:
        """Return the tensor, or the part of it at `index`, as float32, and notes that count the values
        changed by that.

        `index` has one number or slice an axis, as in `x[2, 0:512]`; numbers take their axis away.
        Only that window is read where the format allows it. NaN and Inf come through. `QuantVizError` for
        what is no real number, for more elements than `Limits.elements`, and for values beyond float32.
        """
        info = self._readable(name)
        window = self._resolve(name, info.shape, index)
        lengths = window_shape(window)
        count = math.prod(lengths)
        if count > self._limits.elements:
            raise self._data.error(
                "tensor_too_large", name=clipped(name), got=count, most=self._limits.elements
            )
        self._data.check()
        with guarded(self._data, self.kind):
            return self._as_float32(name, self._parts(name, window) if count else (), lengths)

    def stored(self, name: str) -> Stored:
        """Return the whole tensor, to be read a part at a time, also after the `with` block.

        It stays in the file or upload where it lies there row by row in a dtype whose values are all float32
        values; else it is read into memory, as `read` does. `QuantVizError` as from `read`, and for anything
        but 1 to 4 axes.
        """
        from quantviz.sources.files.mapped import Mapped
        from quantviz.tensors.lazy import InMemory

        info = self._readable(name)
        if not 1 <= len(info.shape) <= 4:
            raise QuantVizError("input_dims", got=len(info.shape), shape=info.shape)
        if not info.count:
            raise QuantVizError("input_empty", shape=info.shape)
        lies = self._lies(name)
        if lies is None or lies.turned or info.dtype in _COUNTED_DTYPES:
            return InMemory(*self.read(name))
        notes = info.notes
        if info.dtype in _WHOLE_DTYPES:
            notes = (*notes, Note.of("stored_as_float32", dtype=info.dtype, changed=0, count=info.count))
        return Mapped(self._data, name, lies, info.shape, notes, self._limits.elements)

    def _readable(self, name: str) -> TensorInfo:
        self._data.check()
        info = self.info(name)
        if info.problem:
            raise info.problem.again()
        return info

    def _resolve(self, name: str, shape: Shape, index: Index | None) -> Window:
        """`index` with a number or a full slice for each axis."""
        given = () if index is None else index if isinstance(index, tuple) else (index,)
        try:
            if len(given) > len(shape):
                raise IndexError
            everything = (slice(None),) * (len(shape) - len(given))
            return tuple(
                _resolved(part, length) for part, length in zip((*given, *everything), shape, strict=True)
            )
        except (IndexError, TypeError, ValueError):
            raise self._data.error(
                "index", name=clipped(name), shape=shape, index=clipped(str(given))
            ) from None

    def _parts(self, name: str, window: Window) -> Iterator[torch.Tensor]:
        """The window in its stored dtype, in the order of its elements, some at a time."""
        from quantviz.sources.files.mapped import pieces

        cutter = self._cutter(name)
        for each in pieces(window, _AT_ONCE):
            yield cutter(each).flatten()

    def _as_float32(self, name: str, parts: Iterable[torch.Tensor], lengths: Shape) -> Loaded:
        import torch

        from quantviz.tensors.conversion import as_float32

        tensor = torch.empty(lengths)
        flat, at = tensor.view(-1), 0
        changed, converted = 0, ""
        beyond, first = 0, (0, 0.0)
        for stored in parts:
            values, notes = as_float32(stored)
            for note in notes:
                converted = str(note.params["dtype"])
                changed += int(str(note.params["changed"]))
            if stored.dtype == torch.float64:
                lost = torch.nonzero(torch.isinf(values) & torch.isfinite(stored)).flatten().tolist()
                if lost and not beyond:
                    first = at + lost[0], stored[lost[0]].item()
                beyond += len(lost)
            flat[at : at + len(values)] = values
            at += len(values)
        if beyond:
            index = tuple(place.item() for place in torch.unravel_index(torch.tensor(first[0]), lengths))
            raise self._data.error(
                "beyond_float32", name=clipped(name), count=beyond, value=first[1], index=index
            )
        counted = (
            (Note.of("stored_as_float32", dtype=converted, changed=changed, count=len(flat)),)
            if converted
            else ()
        )
        return Loaded(tensor, (*self.info(name).notes, *counted))

    def _unreadable(self, name: str, dtype: str) -> QuantVizError:
        return self._data.error("not_numbers", name=clipped(name), dtype=visible(clipped(dtype)))

    def _shape(self, name: str, lengths: Sequence[int]) -> Shape:
        """Return the shape that a tensor declares. Every reader takes it from here before it multiplies the
        lengths.

        `QuantVizError` for more than `MOST_AXES`.
        """
        self._check_axes(name, len(lengths))
        return tuple(lengths)

    def _check_axes(self, name: str, count: int) -> None:
        if count > MOST_AXES:
            raise self._data.error("too_many_axes", name=clipped(name), got=count, most=MOST_AXES)

    def _info(self, name: str, dtype: str, shape: Shape, notes: tuple[Note, ...] = ()) -> TensorInfo:
        """Return the info of a tensor, with its problem where the dtype is not one of real numbers."""
        return TensorInfo(
            clipped(dtype),
            shape,
            notes=notes,
            problem=None if dtype in REAL_DTYPES else self._unreadable(name, dtype),
        )

    def _check_count(self, count: int) -> None:
        if count > self._limits.tensors:
            raise self._data.error("too_many_tensors", got=count, most=self._limits.tensors)

    def _check_header(self, length: int) -> None:
        if length > self._limits.header_bytes:
            raise self._data.error("header_too_large", got=length, most=self._limits.header_bytes)


@contextmanager
def guarded(data: FileData, kind: str) -> Iterator[None]:
    """Whatever a damaged file makes a library raise becomes one sentence of ours that names the file."""
    try:
        yield
    except QuantVizError as error:
        if "file" in error.params:
            raise
        raise data.error("inside", problem=error) from None
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
    """Return the shape of what a window cuts out.

    >>> window_shape((slice(0, 4, 2), 3, slice(1, 2, 1)))
    (2, 1)
    """
    return tuple(len(range(part.start, part.stop, part.step)) for part in window if isinstance(part, slice))
