"""The base class of readers: the list of tensors, and windows into them as float32."""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from quantviz.errors import Note, QuantVizError
from quantviz.public_calls import whole
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.granularity import Shape, Window
from quantviz.schemes.orientation import MOST_WEIGHT_AXES, Orientation
from quantviz.sources.files.file_data import MOST_LIKELY, FileData, clipped, cut_short, parsed_json
from quantviz.sources.files.other_formats import stand_in
from quantviz.sources.files.windows import pieces, window_shape
from quantviz.sources.limits import Limits, checked_names
from quantviz.sources.orienting import Orienting
from quantviz.text import visible

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files.mapped import Raw, StoredRows
    from quantviz.tensors.lazy import Stored

#: The name of the dtype of numbers in a text.
_IN_TEXT = "decimal"
#: One number or slice an axis; axes that are not named are taken whole.
Index = Sequence[int | slice]

#: Dtypes whose values are real numbers that can be converted to float32.
REAL_DTYPES = frozenset(
    {
        *("float64", "float32", "float16", "bfloat16", "float4_e2m1fn", _IN_TEXT),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    }
)

#: float32 cannot represent all their values: those that the conversion changes are counted.
_COUNTED_DTYPES = frozenset({"float64", "int32", "int64", "uint32", "uint64"})
#: float32 represents all their values: a note states that nothing changed.
_WHOLE_DTYPES = frozenset({"int8", "int16", "uint8", "uint16"})

#: Numbered files of a model, beside which an index names the tensors of all.
NUMBERED = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\..+)", re.ASCII)
#: Key of an index with the file of each tensor.
WEIGHT_MAP = "weight_map"

#: Most axes that a tensor may declare, as in NumPy. The product of so many lengths is quickly computed.
MOST_AXES = 64

_VALUES_PER_CHUNK = 2**22
#: Names that are searched for a similar one.
_NAMES_COMPARED = 500


@dataclass(frozen=True, eq=False)
class TensorInfo:
    #: Name of the dtype in the file, as torch spells it where torch has it; "decimal" for numbers in text.
    dtype: str
    #: Its lengths; () for a single number.
    shape: Shape
    #: The quantized type it was decoded from, "" if it was not.
    source_type: str = ""
    notes: tuple[Note, ...] = ()
    #: The reason why it cannot be loaded.
    problem: QuantVizError | None = None

    @property
    def count(self) -> int:
        return math.prod(self.shape)


class Loaded(NamedTuple):
    """A tensor as float32, with its own memory."""

    tensor: torch.Tensor
    notes: tuple[Note, ...]


class Catalog:
    """The tensors of one open file. A format is one subclass, with its own `recognises` and `_list`."""

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    #: Python lines that cut one tensor out of a file, with {file!r} and {name!r}.
    snippet: ClassVar[str] = ""
    #: By patterns of names, as the user gave them.
    _named_outputs: Mapping[str, Orientation] = MappingProxyType({})
    #: The offset and the dtype of tensors that lie row by row in this machine's order of bytes.
    _starts: Mapping[str, tuple[int, str]] = MappingProxyType({})
    #: Whether whole numbers in a file of the format are codes of weights, and not numbers of any origin.
    of_models: ClassVar[bool] = True

    def __init__(self, data: FileData, limits: Limits) -> None:
        self._data = data
        self._limits = limits
        with guarded(data, self.kind):
            self._infos = self._list()
            checked_names(self._infos)
        data.header_read()
        if not self._infos and not self.may_be_empty:
            raise data.error("empty")

    @property
    def may_be_empty(self) -> bool:
        return False

    def __repr__(self) -> str:
        closed = ", closed" if self._data.closed else ""
        return f"<{type(self).__name__} {clipped(self._data.name)!r}: {len(self._infos)} tensors{closed}>"

    def close(self) -> None:
        """Close the file. Tensors from `stored` keep it open for themselves."""
        self._data.close()

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        """Return whether the bytes begin as this format's do."""
        return False

    @classmethod
    def wanted(cls, data: FileData) -> int | None:
        """Return the least number of bytes of a file that ends before it can be recognised; None if its
        beginning is another format's, or does not determine that number.
        """
        return None

    @classmethod
    def check_kind(cls, data: FileData) -> None:
        """Raise a `QuantVizError` if the beginning is not of this format."""
        if not data.size:
            raise data.error("empty_file")
        if problem := stand_in(data):
            raise problem
        if not cls.recognises(data):
            wanted = cls.wanted(data)
            raise data.error("damaged", kind=cls.kind) if wanted is None else cut_short(data, wanted)

    def _list(self) -> Mapping[str, TensorInfo]:
        """Return all tensors. Any error but a `QuantVizError` is reported as damage."""
        raise NotImplementedError

    def _stored_rows(self, name: str) -> StoredRows | None:
        """Return the place of a tensor that lies row by row; None if `_cutter` reads it otherwise."""
        from quantviz.sources.files.mapped import StoredRows, packing_of

        if name not in self._starts:
            return None
        start, dtype = self._starts[name]
        return StoredRows(start, packing_of(dtype))

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        """Return a function that cuts windows, not empty, in the stored dtype, with memory of their own."""
        from quantviz.sources.files.mapped import cut_out

        lies = self._stored_rows(name)
        shape = self.info(name).shape
        data = self.data_of(name)
        assert lies
        return lambda window: cut_out(data, lies, shape, window)

    def data_of(self, name: str) -> FileData:
        return self._data

    @property
    def model_names(self) -> tuple[str, ...]:
        """Return the tensors of the model: some may be parts of quantized weights."""
        return self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, in the file's order."""
        return tuple(self._infos)

    def __contains__(self, name: object) -> bool:
        """To look through `names` takes as long as there are names."""
        return name in self._infos

    def info(self, name: str) -> TensorInfo:
        """Return the facts of a tensor without loading it; raise `QuantVizError` for an unknown name."""
        if not isinstance(name, str) or name not in self._infos:
            name = str(name)
            # Among the first only: looking through all names of a large checkpoint would take long.
            some = list(itertools.islice(self._infos, _NAMES_COMPARED))
            nearest = difflib.get_close_matches(name[:200], some, n=3, cutoff=0) or some[:3]
            raise self._data.error(
                "no_tensor", name=clipped(name), nearest=", ".join(repr(clipped(each)) for each in nearest)
            )
        return self._infos[name]

    def orientation(self, name: str) -> Orientation:
        """Return the axes of a weight that are its outputs, with the source of that knowledge.

        Raises:
            QuantVizError: There is no tensor of that name.
        """
        shape = self.info(name).shape
        for pattern, orientation in self._named_outputs.items():
            if orientation.fits(shape) and fnmatchcase(name, pattern):
                return orientation
        return self._declared_orientation(name) or self._orienting.of(name)

    def name_outputs(self, named: Mapping[str, Orientation]) -> None:
        """Use orientations given by patterns of tensor names, ahead of those in the file.

        Raises:
            QuantVizError: No tensor has such a name.
        """
        for pattern in named:
            if not any(fnmatchcase(name, pattern) for name in self.names):
                raise QuantVizError("checkpoint.outputs_unknown", got=pattern, example=clipped(self.names[0]))
        self._named_outputs = named

    def _declared_orientation(self, name: str) -> Orientation | None:
        return None

    @functools.cached_property
    def _orienting(self) -> Orienting:
        return Orienting(self)

    def load(self, name: str, index: Index | None = None) -> torch.Tensor:
        """Return the tensor, or the part of it at `index`, as `read` does; one of half precision in its own
        dtype, because an engine's result can depend on that.
        """
        import torch

        tensor = self.read(name, index).tensor
        dtype = self.info(name).dtype
        return tensor.to(getattr(torch, dtype)) if dtype in HALVES else tensor

    def read(self, name: str, index: Index | None = None) -> Loaded:
        """Return the tensor, or the part of it at `index`, as float32, and notes that count the values that
        the conversion changed.

        `index` has one number or slice an axis, as in `x[2, 0:512]`; a number removes its axis. Only that
        window is read if the format allows it. NaN and Inf stay as they are.

        Raises:
            QuantVizError: The elements are not real numbers, more than `Limits.elements`, or beyond float32.
        """
        window, lengths = self._window_at(name, index)
        with guarded(self._data, self.kind):
            return self._as_float32(name, self._parts(name, window) if math.prod(lengths) else (), lengths)

    def cut(self, name: str, index: Index | None = None) -> torch.Tensor:
        """Return the same in the stored dtype, FP8 as float32: words of packed codes keep all their bits."""
        import torch

        window, lengths = self._window_at(name, index)
        with guarded(self._data, self.kind):
            if not math.prod(lengths):
                return torch.empty(lengths)
            parts = list(self._parts(name, window))
            whole = parts[0] if len(parts) == 1 else torch.cat(parts)
            return whole.reshape(lengths)

    def stored_bytes(self, name: str) -> int:
        """Return the bytes of a tensor in the file; 0 if it does not lie there row by row."""
        lies = self._stored_rows(name)
        info = self._readable(name)
        return lies.packing.byte_count(info.count) if lies else 0

    def header_texts(self, name: str) -> Mapping[str, str]:
        return {}

    def json_beside(self, name: str) -> Any:
        """Return the content of the JSON file `name` in the same folder; None if there is no such file.

        Raises:
            QuantVizError: The file is too large or not JSON.
        """
        if name not in self._read_beside:
            self._read_beside[name] = self._json_beside(name)
        return self._read_beside[name]

    @functools.cached_property
    def _read_beside(self) -> dict[str, Any]:
        # Hundreds of weights may ask, and on another machine each question takes some requests.
        return {}

    def _json_beside(self, name: str) -> Any:
        try:
            data = self._data.beside(name)
        except QuantVizError as problem:
            if problem.key.endswith((".missing", ".no_file", ".shards_elsewhere")):
                return None
            raise
        try:
            if in_place := stand_in(data):
                raise in_place
            if data.size > self._limits.json_bytes:
                raise data.beyond("too_large", self._limits, "json_bytes", data.size)
            with guarded(data, "JSON"):
                return parsed_json(data, data.view, self._limits)
        finally:
            data.close()

    @functools.cached_property
    def apart(self) -> Mapping[str, str]:
        """Return the tensors that an index names in files that are not open here, with the file of each."""
        named = NUMBERED.fullmatch(self._data.name)
        if named is None:
            return {}
        try:
            index = self.json_beside(f"{named['stem']}{named['suffix']}.index.json")
        except QuantVizError:
            return {}  # reading the model by its index raises this error
        places = index.get(WEIGHT_MAP) if isinstance(index, dict) else None
        listed = places.items() if isinstance(places, dict) else ()
        return {name: file for name, file in listed if isinstance(file, str) and name not in self}

    def is_beside(self, file: str) -> bool:
        return self._data.is_beside(file)

    def stored(self, name: str) -> Stored:
        """Return the whole tensor, to be read a part at a time, also after the `with` block.

        It stays in the file or upload where it lies there row by row in a dtype whose values are all float32
        values; else it is read into memory, as `read` does. `QuantVizError` as from `read`, and for anything
        but 1 to 5 axes.
        """
        from quantviz.sources.files.mapped import Mapped
        from quantviz.tensors.lazy import InMemory

        info = self._readable(name)
        if not 1 <= len(info.shape) <= MOST_WEIGHT_AXES:
            raise QuantVizError("input_dims", got=len(info.shape), shape=info.shape)
        if not info.count:
            raise QuantVizError("input_empty", shape=info.shape)
        lies = self._stored_rows(name)
        if lies is None or lies.turned or info.dtype in _COUNTED_DTYPES:
            return InMemory(*self.read(name), "float32" if info.dtype == _IN_TEXT else info.dtype)
        notes = info.notes
        if info.dtype in _WHOLE_DTYPES:
            notes = (*notes, Note.of("stored_as_float32", dtype=info.dtype, changed=0, count=info.count))
        return Mapped(self.data_of(name), name, lies, info.shape, info.dtype, notes, self._limits)

    def raw(self, name: str) -> Raw | None:
        """Return the bytes in the file; None if there are none or they do not lie row by row.

        Raises `QuantVizError` as `read` does.
        """
        from quantviz.sources.files.mapped import Raw

        info = self._readable(name)
        lies = self._stored_rows(name) if info.count else None
        if lies is None or lies.turned:
            return None
        return Raw(lies.packing, self.data_of(name).source, lies.start, lies.packing.byte_count(info.count))

    def expect(self, names: Iterable[str]) -> None:
        """Announce the tensors that are read next: a remote file sends small ones together."""
        ranges = [(raw.start, raw.start + raw.size) for name in names if (raw := self._raw_if_any(name))]
        self._data.expect(ranges)

    def _raw_if_any(self, name: str) -> Raw | None:
        try:
            return self.raw(name)
        except QuantVizError:
            return None  # reading the tensor raises this error

    def version_of(self, name: str) -> str:
        """Return the version of the tensor's file, see `FileData.version`."""
        return self._data.version

    def _window_at(self, name: str, index: Index | None) -> tuple[Window, Shape]:
        """Return the window at `index` and its shape, after a check against the limit."""
        window = self._resolve(name, self._readable(name).shape, index)
        lengths = window_shape(window)
        if (count := math.prod(lengths)) > self._limits.elements:
            raise self._too_large(name, count)
        return window, lengths

    def _readable(self, name: str) -> TensorInfo:
        self._data.check()
        info = self.info(name)
        if info.problem:
            raise info.problem.again()
        return info

    def _resolve(self, name: str, shape: Shape, index: Index | None) -> Window:
        given: tuple[Any, ...] = ()
        if isinstance(index, tuple):
            given = index
        elif index is not None:
            given = (index,)
        try:
            if len(given) > len(shape):
                raise IndexError
            everything = (slice(None),) * (len(shape) - len(given))
            return tuple(
                _resolved(part, length) for part, length in zip((*given, *everything), shape, strict=True)
            )
        except (IndexError, TypeError, ValueError, RuntimeError):  # torch has numbers beyond 64 bits
            raise self._data.error(
                "index", name=clipped(name), shape=shape, index=clipped(str(given))
            ) from None

    def _parts(self, name: str, window: Window) -> Iterator[torch.Tensor]:
        """Yield the window in its stored dtype, in order, some elements at a time."""
        cutter = self._cutter(name)
        for each in pieces(window, _VALUES_PER_CHUNK):
            yield cutter(each).flatten()

    def _as_float32(self, name: str, parts: Iterable[torch.Tensor], lengths: Shape) -> Loaded:
        import torch

        from quantviz.tensors.conversion import as_float32

        tensor = torch.empty(lengths)
        flat = tensor.view(-1)
        at = 0
        changed = 0
        converted = ""
        beyond = 0
        first = (0, 0.0)
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
        notes = self.info(name).notes
        if converted:
            counted = Note.of("stored_as_float32", dtype=converted, changed=changed, count=len(flat))
            notes = (*notes, counted)
        return Loaded(tensor, notes)

    def _unreadable(self, name: str, dtype: str) -> QuantVizError:
        return self._data.error("not_numbers", name=clipped(name), dtype=visible(clipped(dtype)))

    def _too_large(self, name: str, count: int) -> QuantVizError:
        return self._data.beyond("tensor_too_large", self._limits, "elements", count, name=clipped(name))

    def _damaged(self, name: str) -> QuantVizError:
        return self._data.error("tensor_damaged", name=clipped(name))

    def _cut_short(self, name: str, wanted: int) -> QuantVizError:
        """Return the error of a tensor that ends at byte `wanted`, after the file does."""
        if wanted > MOST_LIKELY:
            return self._damaged(name)
        return cut_short(self._data, wanted)

    def _shape(self, name: str, lengths: Sequence[int]) -> Shape:
        """Return the shape that a tensor declares, before anybody multiplies the lengths.

        Raises:
            QuantVizError: It has more than `MOST_AXES`.
        """
        self._check_axes(name, len(lengths))
        return tuple(lengths)

    def _check_axes(self, name: str, count: int) -> None:
        if count > MOST_AXES:
            raise self._data.error("too_many_axes", name=clipped(name), got=count, most=MOST_AXES)

    def _info(self, name: str, dtype: str, shape: Shape, notes: tuple[Note, ...] = ()) -> TensorInfo:
        """Return the info of a tensor, with a problem where the dtype is not one of real numbers."""
        problem = None if dtype in REAL_DTYPES else self._unreadable(name, dtype)
        return TensorInfo(clipped(dtype), shape, notes=notes, problem=problem)

    def _check_count(self, count: int) -> None:
        if count > self._limits.tensors:
            raise self._data.beyond("too_many_tensors", self._limits, "tensors", count)

    def _check_depth(self, depth: int) -> None:
        if depth > self._limits.depth:
            raise self._data.beyond("too_deep", self._limits, "depth", depth)

    def _check_header(self, length: int) -> None:
        if length > self._limits.header_bytes:
            raise self._data.beyond("header_too_large", self._limits, "header_bytes", length)

    def _leaves(self, content: Any, is_leaf: Callable[[Any], bool]) -> dict[str, Any]:
        """Return the leaves in nested dicts and lists, each container once, by dotted names.

        Raises:
            QuantVizError: Two have the same name, or they are too many, too deep or have too long names.
        """
        leaves: dict[str, Any] = {}
        seen: set[int] = set()
        waiting: list[tuple[str, Any, int]] = [("", content, 0)]
        length = 0
        while waiting:
            name, value, depth = waiting.pop()
            if is_leaf(value):
                name = name or self._data.stem
                if name in leaves:
                    raise self._data.error("duplicate_name", name=clipped(name))
                leaves[name] = value
                self._check_count(len(leaves))
            elif isinstance(value, dict | list | tuple) and id(value) not in seen:
                self._check_depth(depth)
                seen.add(id(value))
                inside = []
                for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                    if isinstance(item, dict | list | tuple) or is_leaf(item):
                        inside.append((f"{name}.{key}" if name else str(key), item, depth + 1))
                        # A long name is repeated in the name of everything below it.
                        length += len(inside[-1][0])
                        self._check_header(length)
                waiting.extend(reversed(inside))
        return leaves


class LazyInfos(Mapping[str, TensorInfo]):
    def __init__(self, names: Collection[str], info: Callable[[str], TensorInfo]) -> None:
        self._names = names
        self._info = info

    def __getitem__(self, name: str) -> TensorInfo:
        return self._info(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@contextmanager
def guarded(data: FileData, kind: str) -> Iterator[None]:
    """Turn any error of a library on a damaged file into one `QuantVizError` that names the file."""
    try:
        yield
    except QuantVizError as error:
        if "file" in error.params:
            raise
        raise data.error("inside", problem=error) from None
    except Exception:
        raise data.error("damaged", kind=kind) from None


def bits_of(dtype: str) -> int:
    """Return the bits of an element by the dtype's name; 0 where elements have no fixed size.

    >>> bits_of("float8_e4m3fn"), bits_of("bool"), bits_of("string")
    (8, 8, 0)
    """
    size = re.search(r"\d+", dtype)
    return int(size[0]) if size else 8 * (dtype == "bool")


def is_matrix(shape: Shape) -> bool:
    """Return whether two lengths or more are not 1.

    >>> is_matrix((64, 128)), is_matrix((1, 1, 64)), is_matrix((8, 64, 3, 3))
    (True, False, True)
    """
    return sum(length > 1 for length in shape) > 1


def is_whole(dtype: str) -> bool:
    """Return whether a dtype is one of codes, indices and masks.

    >>> is_whole("uint8"), is_whole("bool"), is_whole("float8_e4m3fn")
    (True, True, False)
    """
    return bool(re.fullmatch(r"u?int\d+|bool", dtype, re.ASCII))


def _resolved(part: int | slice, length: int) -> int | slice:
    if not isinstance(part, slice):
        place = whole(part)
        if place is None or not -length <= place < length:
            raise IndexError
        return place % length
    start, stop, step = part.indices(length)
    if step < 1 or (length and not range(start, stop, step)):
        raise IndexError
    return slice(start, stop, step)
