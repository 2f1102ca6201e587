""".onnx: the initializers of a model's graphs and the tensors in its nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Window
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import onnx_schema as schema
from quantviz.sources.files.catalog import MOST_AXES, Catalog, TensorInfo
from quantviz.sources.files.file_data import MOST_LIKELY, FileData, clipped, cut_short
from quantviz.sources.files.onnx_graph import KEPT, Graph, Node
from quantviz.sources.files.onnx_schema import (
    DTYPES,
    DeclaredTensor,
    ElementType,
    entry_count,
    entry_range,
    packing_of,
)
from quantviz.sources.files.protobuf import (
    BYTES,
    LONGEST_VARINT,
    VARINT,
    DamagedMessage,
    Field,
    message_fields,
    read_varint,
    read_varints,
)
from quantviz.sources.files.stand_ins import stand_in

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from quantviz.sources.files.mapped import Lies

#: Longest name of a tensor, in bytes.
_LONGEST_NAME = 2**16
#: What a field counts at least against the limit of the header: each takes time, however short it is.
_FIELD_COST = 32
#: The same of a field of a node or of its attributes, of which a large model has a million.
_NODE_FIELD_COST = 16
#: What a node that is kept counts besides: its names take memory.
_KEPT_COST = 256
#: Most files of tensors that are open at once, and digits of a place in one.
_MOST_OPEN, _MOST_DIGITS = 32, 18
#: Fields that are looked at to tell whether a file is a model; a model has a handful besides its functions
#: and metadata.
_FIELDS_COMPARED = 10_000
#: Most pieces of a tensor's elements. Nothing that writes models writes more than one.
_MOST_PIECES = 2**12
#: How a model begins that some program wrote: with the version of its format.
_VERSION_FIRST = b"\x08"
#: Longest list of whole numbers of an attribute that is kept, in bytes: axes, pads and the like.
_LONGEST_LIST = 2**9
#: Bytes after which an integer of varying length goes on.
_GOES_ON = bytes(range(0x80, 0x100))


class _Infos(Mapping[str, TensorInfo]):
    """What is known of each tensor; the file of one that lies beside the model is opened for it."""

    def __init__(self, catalog: OnnxCatalog, found: Mapping[str, TensorInfo]) -> None:
        self._catalog, self._found = catalog, found

    def __getitem__(self, name: str) -> TensorInfo:
        return self._catalog.info_of(name)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _signed(number: int) -> int:
    """Return the whole number that a varint stands for."""
    return number - 2**64 if number >= 2**63 else number


class OnnxCatalog(Catalog):
    """The initializers of a model's main graph by name, then the tensors in nodes, in their graphs and in
    functions by their path.

    A path is `graph/<node>/<attribute>`, and goes on after an attribute that is a graph:
    `graph/If_3/then_branch/weight`. A node without a name is called by its operator and its place. What a
    node holds as a single number is no tensor here.

    A tensor's elements may lie in another file, in the model's folder or below it. The `onnx` package's
    protobuf classes read all of a model into memory, up to 2 GB; here only its structure is walked, within
    limits, and parts of a tensor are read where they lie.
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
            for field in message_fields(data.view, 0, data.size):
                seen += 1
                graphs += field.number == schema.GRAPH and field.wire == BYTES
                if field.number not in schema.MODEL_FIELDS or seen > _FIELDS_COMPARED:
                    return False
        except DamagedMessage:
            return False
        return graphs == 1

    @classmethod
    def wanted(cls, data: FileData) -> int | None:
        if bytes(data.view[:1]) != _VERSION_FIRST:
            return None
        try:
            for field in message_fields(data.view, 0, data.size, cut=True):
                if field.number not in schema.MODEL_FIELDS:
                    return None
                if field.stop > data.size:
                    of_graph = field.number == schema.GRAPH and field.wire == BYTES
                    return field.stop if of_graph and field.stop <= MOST_LIKELY else None
        except DamagedMessage:
            pass
        return None

    def _list(self) -> Mapping[str, TensorInfo]:
        #: Bytes of the header so far.
        self._header = 0
        self._tensors: dict[str, tuple[DeclaredTensor, ElementType]] = {}
        self._found: dict[str, TensorInfo] = {}
        #: How many paths began alike: nodes may have the same name.
        self._paths: Counter[str] = Counter()
        self.graph = Graph()
        #: The paths of the graphs that are being read, the innermost first.
        self._scopes: tuple[str, ...] = ()
        #: The files of tensors beside the model that are open, by their names; the last one used is last.
        self._files: dict[str, FileData] = {}
        self._beside: dict[str, TensorInfo] = {}
        fields = list(self._walk(0, self._data.size))
        graph = next(field for field in fields if field.number == schema.GRAPH)
        self._graph(graph, "", 0)
        for number, field in enumerate(field for field in fields if field.number == schema.TRAINING):
            for inner in self._messages(field, _FIELD_COST):
                if inner.number in schema.TRAINING_GRAPHS:
                    self._graph(inner, f"training/{number}/{schema.TRAINING_GRAPHS[inner.number]}/", 1)
        for field in fields:
            if field.number == schema.FUNCTION:
                self._function(field)
        self.graph.listed = self._found
        return _Infos(self, self._found)

    def _walk(self, start: int, stop: int, cost: int = _FIELD_COST) -> Iterator[Field]:
        for field in message_fields(self._data.view, start, stop):
            self._header += cost
            self._check_header(self._header)
            yield field

    def _messages(self, field: Field, cost: int) -> Iterator[Field]:
        """Return the fields of the message that a field holds."""
        if field.wire != BYTES:
            raise DamagedMessage
        return self._walk(field.start, field.stop, cost)

    def _text(self, field: Field) -> str:
        if field.wire != BYTES or field.stop - field.start > _LONGEST_NAME:
            raise DamagedMessage
        return bytes(self._data.view[field.start : field.stop]).decode("utf-8")

    # ---- where tensors are ----------------------------------------------------------------------

    def _add(self, field: Field, path: str, *, sparse: bool = False, named: bool = False) -> None:
        """List a tensor under `path`, behind which its own name is put where it is `named`."""
        if field.wire != BYTES:
            raise DamagedMessage
        self._check_count(len(self._found) + 1)
        tensor = self._sparse(field.start, field.stop) if sparse else self._tensor(field.start, field.stop)
        # A number that an operator takes is no weight.
        if named or tensor.axes:
            self._add_tensor(tensor, path + tensor.name if named else self._unique(path))

    def _add_tensor(self, tensor: DeclaredTensor, name: str) -> None:
        if name in self._found:
            raise self._data.error("duplicate_name", name=clipped(name))
        # A long path is repeated in the name of everything below it.
        self._header += len(name) - len(tensor.name)
        self._check_header(self._header)
        self._found[name] = self._tensor_info(tensor, name)

    def _unique(self, path: str) -> str:
        self._paths[path] += 1
        return path if self._paths[path] == 1 else f"{path}#{self._paths[path]}"

    def _graph(self, graph: Field, path: str, depth: int) -> None:
        """List the initializers of a graph, then what is in its nodes; `path` is empty for the main graph."""
        if depth > self._limits.depth:
            raise self._data.beyond("too_deep", self._limits, "depth", depth)
        nodes = []
        for field in self._messages(graph, _FIELD_COST):
            if field.number in (schema.INITIALIZER, schema.SPARSE_INITIALIZER):
                self._add(field, path, sparse=field.number == schema.SPARSE_INITIALIZER, named=True)
            elif field.number == schema.NODE:
                nodes.append(field)
        outer, self._scopes = self._scopes, (path, *self._scopes)
        for place, node in enumerate(nodes):
            self._node(node, path or "graph/", place, depth)
        self._scopes = outer

    def _function(self, function: Field) -> None:
        names = dict.fromkeys(schema.FUNCTION_NAMES.values(), "")
        nodes, attributes = [], []
        for field in self._messages(function, _FIELD_COST):
            if field.number in schema.FUNCTION_NAMES:
                names[schema.FUNCTION_NAMES[field.number]] = self._text(field)
            elif field.number == schema.FUNCTION_NODE:
                nodes.append(field)
            elif field.number == schema.FUNCTION_ATTRIBUTE:
                attributes.append(field)
        path = f"functions/{self._unique('.'.join(filter(None, names.values())))}/"
        for attribute in attributes:
            self._attribute(attribute, path, False, 0)
        self._scopes = (path,)
        for place, node in enumerate(nodes):
            self._node(node, path, place, 0)

    def _node(self, node: Field, path: str, place: int, depth: int) -> None:
        name = operator = ""
        attributes, inputs, outputs = [], [], []
        for field in self._messages(node, _NODE_FIELD_COST):
            if field.number == schema.NODE_NAME:
                name = self._text(field)
            elif field.number == schema.NODE_INPUT:
                inputs.append(field)
            elif field.number == schema.NODE_OUTPUT:
                outputs.append(field)
            elif field.number == schema.OP_TYPE:
                operator = self._text(field)
            elif field.number == schema.ATTRIBUTE:
                attributes.append(field)
        below = f"{path}{name or f'{operator}_{place}'}/"
        found = len(self._found)
        numbers: dict[str, tuple[int, ...]] = {}
        for attribute in attributes:
            numbers |= self._attribute(attribute, below, operator == "Constant", depth)
        if operator == "Constant" and len(outputs) == 1 and len(self._found) == found + 1:
            self.graph.constants[self._scopes[0] + self._text(outputs[0])] = next(reversed(self._found))
        if operator in KEPT:
            taken, given = (tuple(map(self._text, each)) for each in (inputs, outputs))
            self._header += _KEPT_COST + sum(map(len, (*taken, *given)))
            self._check_header(self._header)
            self.graph.nodes.append(Node(operator, taken, given, numbers, self._scopes))

    def _attribute(
        self, attribute: Field, path: str, constant: bool, depth: int
    ) -> dict[str, tuple[int, ...]]:
        """List the tensors and graphs of an attribute, and return its whole numbers by its name.

        Of a constant its lists of numbers are listed too, which are tensors of one axis.
        """
        name = ""
        held = []
        whole: list[int] = []
        numbers = {
            schema.ATTRIBUTE_FLOATS: DeclaredTensor.of(schema.FLOAT32, schema.FLOATS),
            schema.ATTRIBUTE_INTS: DeclaredTensor.of(schema.INT64, schema.INT64S),
        }
        for field in self._messages(attribute, _NODE_FIELD_COST):
            if field.number == schema.ATTRIBUTE_NAME:
                name = self._text(field)
            elif (
                field.number in (schema.ONE, schema.ONE_SPARSE, schema.ONE_GRAPH)
                or field.number in schema.SEVERAL
            ):
                held.append(field)
            elif constant and field.number in numbers:
                self._add_number(numbers[field.number], field)
            elif field.number == schema.ATTRIBUTE_INT and field.wire == VARINT:
                whole.append(_signed(field.value))
            elif field.number == schema.ATTRIBUTE_INTS and field.stop - field.start <= _LONGEST_LIST:
                whole += map(_signed, self._numbers(field))
        seen: Counter[int] = Counter()
        for field in held:
            kind = schema.SEVERAL.get(field.number, field.number)
            below = f"{path}{name}/{seen[field.number]}" if field.number in schema.SEVERAL else path + name
            seen[field.number] += 1
            if kind == schema.ONE_GRAPH:
                self._graph(field, f"{below}/", depth + 1)
            else:
                self._add(field, below, sparse=kind == schema.ONE_SPARSE)
        for tensor in numbers.values():
            if tensor.dims[0]:
                self._check_count(len(self._found) + 1)
                self._add_tensor(tensor, self._unique(path + name))
        return {name: tuple(whole[:MOST_AXES])} if whole else {}

    def _add_number(self, tensor: DeclaredTensor, field: Field) -> None:
        """Add a number of an attribute's list, or all of them packed."""
        number = next(iter(tensor.data))
        if field.wire not in schema.DATA_WIRES[number]:
            raise DamagedMessage
        run = self._data.view[field.start : field.stop]
        tensor.dims[0] += (
            len(run) // 4 if number == schema.FLOATS else len(bytes(run).translate(None, _GOES_ON))
        )
        tensor.data[number].append((field.start, field.stop))

    # ---- what a tensor declares -----------------------------------------------------------------

    def _sparse(self, start: int, stop: int) -> DeclaredTensor:
        """Return the values of a sparse tensor with the shape of the whole, which is not read."""
        values, whole = DeclaredTensor(), DeclaredTensor()
        for field in self._walk(start, stop):
            if field.number == schema.SPARSE_VALUES:
                values = self._tensor(field.start, field.stop) if field.wire == BYTES else values
            elif field.number == schema.SPARSE_DIMS:
                self._add_lengths(whole, field)
        whole.name, whole.sparse = values.name, True
        return whole

    def _add_lengths(self, tensor: DeclaredTensor, field: Field) -> None:
        numbers = self._numbers(field)
        tensor.axes += len(numbers)
        # The name of one with too many comes later; what it declares until then is not kept.
        tensor.dims += numbers if tensor.axes <= MOST_AXES else []
        if max(numbers, default=0) >= 2**63:
            raise DamagedMessage

    def _tensor_info(self, tensor: DeclaredTensor, name: str) -> TensorInfo:
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
            self._tensors[name] = tensor, dtype
            return TensorInfo(dtype.name, shape)
        if max(map(len, tensor.data.values()), default=0) > _MOST_PIECES:
            return TensorInfo(
                dtype.name, shape, problem=self._data.error("tensor_damaged", name=clipped(name))
            )
        if tensor.segment or not self._holds(tensor, dtype, math.prod(shape)):
            return TensorInfo(
                dtype.name, shape, problem=self._data.error("tensor_damaged", name=clipped(name))
            )
        self._tensors[name] = tensor, dtype
        # Integers of varying length are all decoded, whatever part is wanted.
        if info.count > self._limits.elements and self._elements(name)[0] not in schema.AS_STORED:
            return TensorInfo(dtype.name, shape, problem=self._too_large(name, info.count))
        return TensorInfo(dtype.name, shape)

    def _tensor(self, start: int, stop: int) -> DeclaredTensor:
        tensor = DeclaredTensor()
        for field in self._walk(start, stop):
            if field.number == schema.DIMS:
                self._add_lengths(tensor, field)
            elif field.number == schema.DATA_TYPE and field.wire == VARINT:
                tensor.data_type = field.value
            elif field.number == schema.NAME and field.wire == BYTES:
                tensor.name = self._text(field)
            elif field.number == schema.EXTERNAL_DATA and field.wire == BYTES:
                entry = {each.number: self._text(each) for each in self._walk(field.start, field.stop)}
                tensor.external[entry.get(schema.ENTRY_KEY, "")] = entry.get(schema.ENTRY_VALUE, "")
            elif field.number == schema.DATA_LOCATION and field.value:
                tensor.external.setdefault("location", "")
            elif field.number == schema.SEGMENT:
                tensor.segment = True
            elif field.number in schema.DATA_WIRES:
                self._add_data(tensor, field)
        return tensor

    def _add_data(self, tensor: DeclaredTensor, field: Field) -> None:
        if field.wire not in schema.DATA_WIRES[field.number]:
            raise DamagedMessage
        chunks = tensor.data.setdefault(field.number, [])
        if field.number == schema.RAW:
            chunks.clear()  # of what should come once the last one counts
        if field.start < field.stop:
            chunks.append((field.start, field.stop))
        if len(chunks) > _MOST_PIECES:
            raise DamagedMessage

    def _numbers(self, field: Field) -> list[int]:
        """Return the integers of a repeated field, which may come one by one or packed."""
        if field.wire == VARINT:
            return [field.value]
        if field.wire != BYTES or field.stop - field.start > MOST_AXES * LONGEST_VARINT:
            raise DamagedMessage
        numbers, at = [], field.start
        while at < field.stop:
            number, at = read_varint(self._data.view, at, field.stop)
            numbers.append(number)
        return numbers

    def _holds(self, tensor: DeclaredTensor, dtype: ElementType, count: int) -> bool:
        """Return whether one field holds the elements, the right one, and as many as the shape says."""
        fields = [number for number, chunks in tensor.data.items() if chunks]
        if not count or not fields:
            return not count and not fields
        got = sum(stop - start for start, stop in tensor.data[fields[0]])
        if fields == [schema.RAW]:
            return got == -(-count * dtype.bits // 8)
        if fields != [dtype.field]:
            return False
        if dtype.field in (schema.FLOATS, schema.DOUBLES):
            return got == count * dtype.bits // 8
        # Integers take a byte at least; how many there are is seen when they are read.
        return got >= entry_count(dtype, count)

    # ---- tensors in other files -----------------------------------------------------------------

    def info_of(self, name: str) -> TensorInfo:
        """Return what is known of a tensor that is listed; its file is opened where it lies in another."""
        info = self._found[name]
        if info.problem or name not in self._tensors or not self._tensors[name][0].external:
            return info
        if name not in self._beside:
            problem: QuantVizError | None = None
            try:
                self._external(name)
            except QuantVizError as caught:
                problem = caught.again()
            self._beside[name] = TensorInfo(info.dtype, info.shape, problem=problem)
        return self._beside[name]

    def _external(self, name: str) -> tuple[FileData, int]:
        """Return the file beside the model in which a tensor lies, and where in it.

        Raises:
            QuantVizError: There is no such file, it is not beside the model, or it is too short.
        """
        tensor, dtype = self._tensors[name]
        size = packing_of(dtype).byte_count(math.prod(tensor.dims))
        places = [
            tensor.external.get(key) or str(otherwise) for key, otherwise in (("offset", 0), ("length", size))
        ]
        if not all(place.isascii() and place.isdecimal() and len(place) <= _MOST_DIGITS for place in places):
            raise self._data.error("tensor_damaged", name=clipped(name))
        offset, length = map(int, places)
        if length != size:
            raise self._data.error("tensor_damaged", name=clipped(name))
        data = self._file(tensor.external.get("location", ""))
        if offset + length > data.size:
            raise cut_short(data, offset + length)
        return data, offset

    def _file(self, location: str) -> FileData:
        """Return an open file beside the model; of many the least recently used is let go of."""
        data = self._files.pop(location, None)
        if data is None:
            try:
                data = self._data.beside(location)
            except QuantVizError as problem:
                if problem.key == "file.shards_elsewhere":
                    raise self._data.error("onnx_external", location=clipped(location)) from None
                raise
            if (in_place := stand_in(data)) is not None:
                data.close()
                raise in_place
            while len(self._files) >= _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
        self._files[location] = data
        return data

    def data_of(self, name: str) -> FileData:
        """Return the file in which a tensor lies."""
        return self._external(name)[0] if self._tensors[name][0].external else self._data

    def _told_orientation(self, name: str) -> Orientation | None:
        return self.graph.orientation(name, len(self._found[name].shape))

    def close(self) -> None:
        for data in self._files.values():
            data.close()
        self._files = {}
        super().close()

    # ---- its elements ---------------------------------------------------------------------------

    def _lies(self, name: str) -> Lies | None:
        from quantviz.sources.files.mapped import Lies

        tensor, of_external = self._tensors[name]
        if tensor.external:
            return Lies(self._external(name)[1], packing_of(of_external))
        field, chunks, dtype, count = self._elements(name)
        packing = packing_of(dtype)
        whole = len(chunks) == 1 and chunks[0][1] - chunks[0][0] == packing.byte_count(count)
        return Lies(chunks[0][0], packing) if whole and field in schema.AS_STORED else None

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        from quantviz.sources.files.mapped import by_table, cut, values_of

        if self._lies(name):
            return super()._cutter(name)
        field, chunks, dtype, count = self._elements(name)
        packing, shape = packing_of(dtype), self._infos[name].shape
        if field in schema.AS_STORED:
            joined = b"".join(self._data.view[start:stop] for start, stop in chunks)
            # Codes of 6 bits may end within the unit of 3 bytes.
            raw = memoryview(joined.ljust(packing.byte_count(count), b"\0"))
        else:
            raw = memoryview(self._integers(name).view("uint8"))  # type: ignore[arg-type]
            if 4 < dtype.bits < 8:  # a byte each
                packing = by_table(values_of(dtype.name))
        return lambda window: cut(raw, packing, shape, window)

    def _elements(self, name: str) -> tuple[int, list[tuple[int, int]], ElementType, int]:
        """Return the field of its elements, where they are, their dtype and their count."""
        tensor, dtype = self._tensors[name]
        field = next(number for number, chunks in tensor.data.items() if chunks)
        return field, tensor.data[field], dtype, math.prod(tensor.dims)

    def _integers(self, name: str) -> npt.NDArray[np.unsignedinteger]:
        """Return the entries of a field of integers, each in as many bits as the dtype has, at least 8."""
        import numpy as np

        _, chunks, dtype, count = self._elements(name)
        entries = np.empty(entry_count(dtype, count), dtype=f"uint{max(8, dtype.bits)}")
        lowest, highest = entry_range(dtype)
        at = 0
        for start, stop in chunks:
            for numbers in read_varints(self._data.view[start:stop]):
                # An int32 is written as 64 bits where it is negative, of which the lower 32 count.
                values = numbers.astype(np.uint32).view(np.int32) if dtype.field == schema.INT32S else numbers
                if at + len(values) > len(entries) or values.min() < lowest or values.max() > highest:
                    raise self._data.error("tensor_damaged", name=clipped(name))
                entries[at : at + len(values)] = values.astype(entries.dtype)
                at += len(values)
        if at < len(entries):
            raise self._data.error("tensor_damaged", name=clipped(name))
        return entries
