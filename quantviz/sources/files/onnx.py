""".onnx: the initializers of a model's graphs and the tensors in its nodes. The protocol-buffer wire format
is read here, field by field.

A message is a list of fields, each a number, a wire type and a value; what is not needed is stepped over.
Field numbers and the rules for each dtype are those of `onnx.proto`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from quantviz.schemes.granularity import Window
from quantviz.sources.files.catalog import MOST_AXES, Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from quantviz.sources.files.mapped import Lies, Packing

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Bytes of the values of fixed size, by wire type.
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

# Fields of ModelProto, TrainingInfoProto, FunctionProto, GraphProto, NodeProto, AttributeProto,
# SparseTensorProto and TensorProto.
_MODEL_FIELDS = frozenset((*range(1, 9), 14, 20, 25, 26))
_GRAPH, _TRAINING, _FUNCTION = 7, 20, 25
_TRAINING_GRAPHS = {1: "initialization", 2: "algorithm"}
_FUNCTION_NAMES, _FUNCTION_NODE, _FUNCTION_ATTRIBUTE = {10: "domain", 1: "name", 13: "overload"}, 7, 11
_NODE, _INITIALIZER, _SPARSE_INITIALIZER = 1, 5, 15
_NODE_NAME, _OP_TYPE, _ATTRIBUTE = 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOATS, _ATTRIBUTE_INTS = 1, 7, 8
#: The fields of an attribute that hold one tensor, sparse tensor or graph, and those that hold a list of
#: them.
_ONE, _ONE_SPARSE, _ONE_GRAPH = 5, 22, 6
_SEVERAL = {10: _ONE, 23: _ONE_SPARSE, 11: _ONE_GRAPH}
_SPARSE_VALUES, _SPARSE_DIMS = 1, 3
_DIMS, _DATA_TYPE, _SEGMENT, _NAME, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 3, 8, 13, 14
_RAW, _FLOATS, _INT32S, _STRINGS, _INT64S, _DOUBLES, _UINT64S = 9, 4, 5, 6, 7, 10, 11
#: How the fields of elements may be written: packed, or one element a field.
_DATA_WIRES = {
    _RAW: (_BYTES,),
    _FLOATS: (_BYTES, _FIXED32),
    _INT32S: (_BYTES, _VARINT),
    _STRINGS: (_BYTES,),
    _INT64S: (_BYTES, _VARINT),
    _DOUBLES: (_BYTES, _FIXED64),
    _UINT64S: (_BYTES, _VARINT),
}

#: Longest name of a tensor, in bytes.
_LONGEST_NAME = 2**16
#: What a field counts at least against the limit of the header: each takes time, however short it is.
_FIELD_COST = 32
#: The same of a field of a node or of its attributes, of which a large model has a million.
_NODE_FIELD_COST = 16
#: Fields that are looked at to tell whether a file is a model; a model has a handful besides its functions
#: and metadata.
_FIELDS_COMPARED = 10_000
#: Bytes of integers of varying length that are decoded at a time.
_AT_ONCE = 2**20
#: Most integers of varying length in a tensor: all of them are decoded, whatever part is wanted.
_MOST_VARINTS = 2**25
#: Most pieces of a tensor's elements. Nothing that writes models writes more than one.
_MOST_PIECES = 2**12
#: Most bytes of such an integer.
_LONGEST_VARINT = 10


class _Dtype(NamedTuple):
    #: As torch and the formats here spell it.
    name: str
    bits: int
    #: The field that holds its elements where `raw_data` does not.
    field: int


#: Every dtype by its number.
DTYPES: Mapping[int, _Dtype] = {
    1: _Dtype("float32", 32, _FLOATS),
    2: _Dtype("uint8", 8, _INT32S),
    3: _Dtype("int8", 8, _INT32S),
    4: _Dtype("uint16", 16, _INT32S),
    5: _Dtype("int16", 16, _INT32S),
    6: _Dtype("int32", 32, _INT32S),
    7: _Dtype("int64", 64, _INT64S),
    8: _Dtype("string", 0, _STRINGS),
    9: _Dtype("bool", 8, _INT32S),
    10: _Dtype("float16", 16, _INT32S),
    11: _Dtype("float64", 64, _DOUBLES),
    12: _Dtype("uint32", 32, _UINT64S),
    13: _Dtype("uint64", 64, _UINT64S),
    14: _Dtype("complex64", 64, _FLOATS),
    15: _Dtype("complex128", 128, _DOUBLES),
    16: _Dtype("bfloat16", 16, _INT32S),
    17: _Dtype("float8_e4m3fn", 8, _INT32S),
    18: _Dtype("float8_e4m3fnuz", 8, _INT32S),
    19: _Dtype("float8_e5m2", 8, _INT32S),
    20: _Dtype("float8_e5m2fnuz", 8, _INT32S),
    21: _Dtype("uint4", 4, _INT32S),
    22: _Dtype("int4", 4, _INT32S),
    23: _Dtype("float4_e2m1fn", 4, _INT32S),
    24: _Dtype("float8_e8m0fnu", 8, _INT32S),
    25: _Dtype("uint2", 2, _INT32S),
    26: _Dtype("int2", 2, _INT32S),
    27: _Dtype("float6_e2m3fn", 6, _INT32S),
    28: _Dtype("float6_e3m2fn", 6, _INT32S),
}


_FLOAT32, _INT64 = 1, 7
#: Bytes after which an integer of varying length goes on.
_GOES_ON = bytes(range(0x80, 0x100))


class _Damaged(Exception):
    pass


class _Field(NamedTuple):
    number: int
    wire: int
    #: Where its value's bytes begin and end.
    start: int
    stop: int
    #: The value of a varint.
    value: int = 0


def _varint(view: memoryview, at: int, stop: int) -> tuple[int, int]:
    """Return the number that begins at `at`, below 2^64, and the place after it."""
    number = 0
    for place in range(at, min(stop, at + _LONGEST_VARINT)):
        byte = view[place]
        number |= (byte & 0x7F) << 7 * (place - at)
        if byte < 0x80:
            if number >= 2**64:
                break
            return number, place + 1
    raise _Damaged


def _fields(view: memoryview, start: int, stop: int) -> Iterator[_Field]:
    """The fields of the message from `start` to before `stop`, in order, each inside it."""
    at = start
    while at < stop:
        tag = view[at]
        # Most are of one byte.
        tag, at = (tag, at + 1) if tag < 0x80 else _varint(view, at, stop)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 2**29:
            raise _Damaged
        value = 0
        if wire == _VARINT:
            value, end = _varint(view, at, stop)
        elif wire == _BYTES:
            length, at = _varint(view, at, stop)
            end = at + length
        elif wire in _FIXED_SIZES:
            end = at + _FIXED_SIZES[wire]
        else:
            raise _Damaged
        if end > stop:
            raise _Damaged
        yield _Field(number, wire, at, end, value)
        at = end


class _Tensor:
    """What a TensorProto says of itself."""

    def __init__(self) -> None:
        self.name = ""
        self.dims: list[int] = []
        #: How many lengths it declares.
        self.axes = 0
        self.data_type = 0
        self.external = False
        self.sparse = False
        self.segment = False
        #: The bytes of its elements, from where to before where, by field; integers of varying length with
        #: their tags too.
        self.data: dict[int, list[tuple[int, int]]] = {}

    @classmethod
    def of(cls, data_type: int, field: int) -> _Tensor:
        """Return one of that dtype with one axis and no elements yet, which come in that field."""
        tensor = cls()
        tensor.dims, tensor.axes, tensor.data_type, tensor.data = [0], 1, data_type, {field: []}
        return tensor


class OnnxCatalog(Catalog):
    """The initializers of a model's main graph by name, then the tensors in nodes, in their graphs and in
    functions by their path.

    A path is `graph/<node>/<attribute>`, and goes on after an attribute that is a graph:
    `graph/If_3/then_branch/weight`. A node without a name is called by its operator and its place. What a
    node holds as a single number is no tensor here.
    """

    kind = "ONNX"
    suffixes = (".onnx",)
    snippet = (
        "import numpy, onnx, onnx.numpy_helper as helper\n"
        "x = helper.to_array(next(each for each in onnx.load({file!r}).graph.initializer"
        " if each.name == {name!r}))[:512]\n"
        'numpy.save("cut_out.npy", x)'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        seen = graphs = 0
        try:
            for field in _fields(data.view, 0, data.size):
                seen += 1
                graphs += field.number == _GRAPH and field.wire == _BYTES
                if field.number not in _MODEL_FIELDS or seen > _FIELDS_COMPARED:
                    return False
        except _Damaged:
            return False
        return graphs == 1

    def _list(self) -> Mapping[str, TensorInfo]:
        #: Bytes of the header so far.
        self._header = 0
        self._tensors: dict[str, tuple[_Tensor, _Dtype]] = {}
        self._found: dict[str, TensorInfo] = {}
        #: How many paths began alike: nodes may have the same name.
        self._paths: Counter[str] = Counter()
        fields = list(self._walk(0, self._data.size))
        graph = next(field for field in fields if field.number == _GRAPH)
        self._graph(graph, "", 0)
        for number, field in enumerate(field for field in fields if field.number == _TRAINING):
            for inner in self._messages(field, _FIELD_COST):
                if inner.number in _TRAINING_GRAPHS:
                    self._graph(inner, f"training/{number}/{_TRAINING_GRAPHS[inner.number]}/", 1)
        for field in fields:
            if field.number == _FUNCTION:
                self._function(field)
        return self._found

    def _walk(self, start: int, stop: int, cost: int = _FIELD_COST) -> Iterator[_Field]:
        for field in _fields(self._data.view, start, stop):
            self._header += cost
            self._check_header(self._header)
            yield field

    def _messages(self, field: _Field, cost: int) -> Iterator[_Field]:
        """The fields of the message that a field holds."""
        if field.wire != _BYTES:
            raise _Damaged
        return self._walk(field.start, field.stop, cost)

    def _text(self, field: _Field) -> str:
        if field.wire != _BYTES or field.stop - field.start > _LONGEST_NAME:
            raise _Damaged
        return bytes(self._data.view[field.start : field.stop]).decode("utf-8")

    # ---- where tensors are ----------------------------------------------------------------------

    def _add(self, field: _Field, path: str, *, sparse: bool = False, named: bool = False) -> None:
        """List a tensor under `path`, behind which its own name is put where it is `named`."""
        if field.wire != _BYTES:
            raise _Damaged
        self._check_count(len(self._found) + 1)
        tensor = self._sparse(field.start, field.stop) if sparse else self._tensor(field.start, field.stop)
        # A number that an operator takes is no weight.
        if named or tensor.axes:
            self._add_tensor(tensor, path + tensor.name if named else self._unique(path))

    def _add_tensor(self, tensor: _Tensor, name: str) -> None:
        if name in self._found:
            raise self._data.error("duplicate_name", name=clipped(name))
        # A long path is repeated in the name of everything below it.
        self._header += len(name) - len(tensor.name)
        self._check_header(self._header)
        self._found[name] = self._tensor_info(tensor, name)

    def _unique(self, path: str) -> str:
        self._paths[path] += 1
        return path if self._paths[path] == 1 else f"{path}#{self._paths[path]}"

    def _graph(self, graph: _Field, path: str, depth: int) -> None:
        """The initializers of a graph, then what is in its nodes; `path` is empty for the main graph."""
        if depth > self._limits.depth:
            raise self._data.error("too_deep")
        nodes = []
        for field in self._messages(graph, _FIELD_COST):
            if field.number in (_INITIALIZER, _SPARSE_INITIALIZER):
                self._add(field, path, sparse=field.number == _SPARSE_INITIALIZER, named=True)
            elif field.number == _NODE:
                nodes.append(field)
        for place, node in enumerate(nodes):
            self._node(node, path or "graph/", place, depth)

    def _function(self, function: _Field) -> None:
        names = dict.fromkeys(_FUNCTION_NAMES.values(), "")
        nodes, attributes = [], []
        for field in self._messages(function, _FIELD_COST):
            if field.number in _FUNCTION_NAMES:
                names[_FUNCTION_NAMES[field.number]] = self._text(field)
            elif field.number == _FUNCTION_NODE:
                nodes.append(field)
            elif field.number == _FUNCTION_ATTRIBUTE:
                attributes.append(field)
        path = f"functions/{self._unique('.'.join(filter(None, names.values())))}/"
        for attribute in attributes:
            self._attribute(attribute, path, False, 0)
        for place, node in enumerate(nodes):
            self._node(node, path, place, 0)

    def _node(self, node: _Field, path: str, place: int, depth: int) -> None:
        name = operator = ""
        attributes = []
        for field in self._messages(node, _NODE_FIELD_COST):
            if field.number == _NODE_NAME:
                name = self._text(field)
            elif field.number == _OP_TYPE:
                operator = self._text(field)
            elif field.number == _ATTRIBUTE:
                attributes.append(field)
        for attribute in attributes:
            self._attribute(
                attribute, f"{path}{name or f'{operator}_{place}'}/", operator == "Constant", depth
            )

    def _attribute(self, attribute: _Field, path: str, constant: bool, depth: int) -> None:
        """The tensors and graphs of an attribute; of a constant its lists of numbers too, which are tensors
        of one axis.
        """
        name = ""
        held = []
        numbers = {
            _ATTRIBUTE_FLOATS: _Tensor.of(_FLOAT32, _FLOATS),
            _ATTRIBUTE_INTS: _Tensor.of(_INT64, _INT64S),
        }
        for field in self._messages(attribute, _NODE_FIELD_COST):
            if field.number == _ATTRIBUTE_NAME:
                name = self._text(field)
            elif field.number in (_ONE, _ONE_SPARSE, _ONE_GRAPH) or field.number in _SEVERAL:
                held.append(field)
            elif constant and field.number in numbers:
                self._add_number(numbers[field.number], field)
        seen: Counter[int] = Counter()
        for field in held:
            kind = _SEVERAL.get(field.number, field.number)
            below = f"{path}{name}/{seen[field.number]}" if field.number in _SEVERAL else path + name
            seen[field.number] += 1
            if kind == _ONE_GRAPH:
                self._graph(field, f"{below}/", depth + 1)
            else:
                self._add(field, below, sparse=kind == _ONE_SPARSE)
        for tensor in numbers.values():
            if tensor.dims[0]:
                self._check_count(len(self._found) + 1)
                self._add_tensor(tensor, self._unique(path + name))

    def _add_number(self, tensor: _Tensor, field: _Field) -> None:
        """A number of an attribute's list, or all of them packed."""
        number = next(iter(tensor.data))
        if field.wire not in _DATA_WIRES[number]:
            raise _Damaged
        run = self._data.view[field.start : field.stop]
        tensor.dims[0] += len(run) // 4 if number == _FLOATS else len(bytes(run).translate(None, _GOES_ON))
        tensor.data[number].append((field.start, field.stop))

    # ---- what a tensor declares -----------------------------------------------------------------

    def _sparse(self, start: int, stop: int) -> _Tensor:
        """Return the values of a sparse tensor with the shape of the whole, which is not read."""
        values, whole = _Tensor(), _Tensor()
        for field in self._walk(start, stop):
            if field.number == _SPARSE_VALUES:
                values = self._tensor(field.start, field.stop) if field.wire == _BYTES else values
            elif field.number == _SPARSE_DIMS:
                self._add_lengths(whole, field)
        whole.name, whole.sparse = values.name, True
        return whole

    def _add_lengths(self, tensor: _Tensor, field: _Field) -> None:
        numbers = self._numbers(field)
        tensor.axes += len(numbers)
        # The name of one with too many comes later; what it declares until then is not kept.
        tensor.dims += numbers if tensor.axes <= MOST_AXES else []
        if max(numbers, default=0) >= 2**63:
            raise _Damaged

    def _tensor_info(self, tensor: _Tensor, name: str) -> TensorInfo:
        self._check_axes(name, tensor.axes)
        shape = tuple(tensor.dims)
        if tensor.sparse:
            return TensorInfo("sparse", shape, problem=self._unreadable(name, "sparse"))
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None:
            return self._info(name, str(tensor.data_type), shape)
        info = self._info(name, dtype.name, shape)
        # Those of fewer than 8 bits are numbers too, and unpacked here.
        if info.problem and not 0 < dtype.bits < 8:
            return info
        if tensor.external:
            return TensorInfo(
                dtype.name, shape, problem=self._data.error("onnx_external", name=clipped(name))
            )
        if max(map(len, tensor.data.values()), default=0) > _MOST_PIECES:
            return TensorInfo(
                dtype.name,
                shape,
                problem=self._data.error(
                    "tensor_too_large", name=clipped(name), got=info.count, most=_MOST_PIECES
                ),
            )
        if tensor.segment or not self._holds(tensor, dtype, math.prod(shape)):
            return TensorInfo(
                dtype.name, shape, problem=self._data.error("tensor_damaged", name=clipped(name))
            )
        self._tensors[name] = tensor, dtype
        if info.count > _MOST_VARINTS and self._elements(name)[0] not in (_RAW, _FLOATS, _DOUBLES):
            too_large = self._data.error(
                "tensor_too_large", name=clipped(name), got=info.count, most=_MOST_VARINTS
            )
            return TensorInfo(dtype.name, shape, problem=too_large)
        return TensorInfo(dtype.name, shape)

    def _tensor(self, start: int, stop: int) -> _Tensor:
        tensor = _Tensor()
        for field in self._walk(start, stop):
            if field.number == _DIMS:
                self._add_lengths(tensor, field)
            elif field.number == _DATA_TYPE and field.wire == _VARINT:
                tensor.data_type = field.value
            elif field.number == _NAME and field.wire == _BYTES:
                tensor.name = self._text(field)
            elif field.number == _EXTERNAL_DATA or (field.number == _DATA_LOCATION and field.value):
                tensor.external = True
            elif field.number == _SEGMENT:
                tensor.segment = True
            elif field.number in _DATA_WIRES:
                self._add_data(tensor, field)
        return tensor

    def _add_data(self, tensor: _Tensor, field: _Field) -> None:
        if field.wire not in _DATA_WIRES[field.number]:
            raise _Damaged
        chunks = tensor.data.setdefault(field.number, [])
        if field.number == _RAW:
            chunks.clear()  # of what should come once the last one counts
        if field.start < field.stop:
            chunks.append((field.start, field.stop))
        if len(chunks) > _MOST_PIECES:
            raise _Damaged

    def _numbers(self, field: _Field) -> list[int]:
        """Return the integers of a repeated field, which may come one by one or packed."""
        if field.wire == _VARINT:
            return [field.value]
        if field.wire != _BYTES or field.stop - field.start > MOST_AXES * _LONGEST_VARINT:
            raise _Damaged
        numbers, at = [], field.start
        while at < field.stop:
            number, at = _varint(self._data.view, at, field.stop)
            numbers.append(number)
        return numbers

    def _holds(self, tensor: _Tensor, dtype: _Dtype, count: int) -> bool:
        """Return whether the elements are in one field, the right one, and it can hold as many as the shape
        says.
        """
        fields = [number for number, chunks in tensor.data.items() if chunks]
        if not count or not fields:
            return not count and not fields
        got = sum(stop - start for start, stop in tensor.data[fields[0]])
        if fields == [_RAW]:
            return got == -(-count * dtype.bits // 8)
        if fields != [dtype.field]:
            return False
        if dtype.field in (_FLOATS, _DOUBLES):
            return got == count * dtype.bits // 8
        # Integers take a byte at least; how many there are is seen when they are read.
        return got >= _entries(dtype, count)

    # ---- its elements ---------------------------------------------------------------------------

    def _lies(self, name: str) -> Lies | None:
        from quantviz.sources.files.mapped import Lies

        field, chunks, dtype, count = self._elements(name)
        packing = _packing(dtype)
        whole = len(chunks) == 1 and chunks[0][1] - chunks[0][0] == packing.byte_count(count)
        return Lies(chunks[0][0], packing) if whole and field in (_RAW, _FLOATS, _DOUBLES) else None

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        from quantviz.sources.files.mapped import by_table, cut, values_of

        if self._lies(name):
            return super()._cutter(name)
        field, chunks, dtype, count = self._elements(name)
        packing, shape = _packing(dtype), self._infos[name].shape
        if field in (_RAW, _FLOATS, _DOUBLES):
            joined = b"".join(self._data.view[start:stop] for start, stop in chunks)
            # Codes of 6 bits may end within the unit of 3 bytes.
            raw = memoryview(joined.ljust(packing.byte_count(count), b"\0"))
        else:
            raw = memoryview(self._integers(name).view("uint8"))  # type: ignore[arg-type]
            if 4 < dtype.bits < 8:  # a byte each
                packing = by_table(values_of(dtype.name))
        return lambda window: cut(raw, packing, shape, window)

    def _elements(self, name: str) -> tuple[int, list[tuple[int, int]], _Dtype, int]:
        """Return the field of its elements, where they are, their dtype and their count."""
        tensor, dtype = self._tensors[name]
        field = next(number for number, chunks in tensor.data.items() if chunks)
        return field, tensor.data[field], dtype, math.prod(tensor.dims)

    def _integers(self, name: str) -> npt.NDArray[np.unsignedinteger]:
        """Return the entries of a field of integers, each in as many bits as the dtype has, at least 8."""
        import numpy as np

        _, chunks, dtype, count = self._elements(name)
        entries = np.empty(_entries(dtype, count), dtype=f"uint{max(8, dtype.bits)}")
        lowest, highest = _entry_range(dtype)
        at = 0
        for start, stop in chunks:
            for numbers in _varints(self._data.view[start:stop]):
                # An int32 is written as 64 bits where it is negative, of which the lower 32 count.
                values = numbers.astype(np.uint32).view(np.int32) if dtype.field == _INT32S else numbers
                if at + len(values) > len(entries) or values.min() < lowest or values.max() > highest:
                    raise self._data.error("tensor_damaged", name=clipped(name))
                entries[at : at + len(values)] = values.astype(entries.dtype)
                at += len(values)
        if at < len(entries):
            raise self._data.error("tensor_damaged", name=clipped(name))
        return entries


def _entries(dtype: _Dtype, count: int) -> int:
    """Return how many entries of a field of integers `count` elements fill: codes of 4 and 2 bits share a
    byte.
    """
    return -(-count * dtype.bits // 8) if dtype.bits in (2, 4) else count


def _entry_range(dtype: _Dtype) -> tuple[int, int]:
    """Return the lowest and highest entry."""
    if dtype.field != _INT32S:
        return 0, 2**dtype.bits - 1  # an int64 is written as its two's complement
    if dtype.bits in (2, 4):
        return -128, 255  # whoever packed them may have taken the byte for a signed one
    if dtype.name.startswith("int"):
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def _packing(dtype: _Dtype) -> Packing:
    import torch

    from quantviz.sources.files.mapped import packed, plain

    return packed(dtype.name) if dtype.bits < 8 else plain(getattr(torch, dtype.name))


def _varints(view: memoryview) -> Iterator[npt.NDArray[np.uint64]]:
    """Integers of varying length side by side, some at a time.

    >>> [numbers.tolist() for numbers in _varints(memoryview(bytes([1, 0x80, 1, 5])))]
    [[1, 128, 5]]
    """
    import numpy as np

    data = np.frombuffer(view, dtype=np.uint8)
    at = 0
    while at < len(data):
        part = data[at : at + _AT_ONCE]
        ends = np.flatnonzero(part < 0x80)
        if not len(ends):
            raise _Damaged
        part = part[: ends[-1] + 1]
        starts = np.concatenate(([0], ends[:-1] + 1))
        place = np.arange(len(part)) - np.repeat(starts, ends - starts + 1)
        # The last byte of ten has room for one bit.
        if place.max() >= _LONGEST_VARINT or (part[place == _LONGEST_VARINT - 1] > 1).any():
            raise _Damaged
        yield np.bitwise_or.reduceat((part & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64), starts)
        at += len(part)
