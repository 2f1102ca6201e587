"""The structure of an ONNX model, and the tensors in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from quantviz.sources.files import onnx_schema as schema
from quantviz.sources.files.catalog import MOST_AXES, Catalog, TensorInfo
from quantviz.sources.files.file_data import clipped
from quantviz.sources.files.onnx_graph import Graph, Node
from quantviz.sources.files.onnx_schema import DeclaredTensor
from quantviz.sources.files.protobuf import (
    BYTES,
    LONGEST_VARINT,
    VARINT,
    DamagedMessage,
    WireField,
    message_fields,
    read_varint,
)

_LONGEST_NAME = 2**16
#: The least cost of a field, in bytes, against the limit of the header: each takes time, however short.
_FIELD_COST = 32
#: The same of a field of a node or of its attributes, of which a large model has a million.
_NODE_FIELD_COST = 16
#: Bytes of a message whose fields are counted together: nearly all are so short.
_SHORT = 2**12
#: The extra cost of a node: its names take memory.
_NODE_COST = 256
#: The extra cost of a tensor that is listed: its description takes time and memory.
_TENSOR_COST = 256
#: Most pieces of a tensor's elements. Nothing that writes models writes more than one.
MOST_PIECES = 2**12
#: Longest list of whole numbers of an attribute that is kept, in bytes: axes, pads and the like.
_LONGEST_LIST = 2**9
#: The data type and the field of the elements of the lists that are tensors of a constant, by their field.
_LISTS = {
    schema.ATTRIBUTE_FLOATS: (schema.FLOAT32, schema.FLOATS),
    schema.ATTRIBUTE_INTS: (schema.INT64, schema.INT64S),
}
#: Bytes after which an integer of varying length continues.
_GOES_ON = bytes(range(0x80, 0x100))


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


class OnnxStructure(Catalog, ABC):
    """A walk through a model within limits: of a tensor's elements only their place is read."""

    def _begin(self) -> None:
        #: Bytes of the header so far.
        self._header = 0
        self._found: dict[str, TensorInfo] = {}
        #: Nodes may have the same name.
        self._paths: Counter[str] = Counter()
        self.graph = Graph()
        #: The paths of the graphs that are being read, the innermost first.
        self._scopes: tuple[str, ...] = ()

    def _model(self) -> None:
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

    @abstractmethod
    def _tensor_info(self, tensor: DeclaredTensor, name: str) -> TensorInfo: ...

    def _walk(self, start: int, stop: int, cost: int = _FIELD_COST) -> Iterable[WireField]:
        """Return the fields, which count against the limit of the header."""
        fields = message_fields(self._data.view, start, stop)
        if stop - start > _SHORT:
            return self._counted(fields, cost)
        found = list(fields)
        self._header += cost * len(found)
        self._check_header(self._header)
        return found

    def _counted(self, fields: Iterator[WireField], cost: int) -> Iterator[WireField]:
        for field in fields:
            self._header += cost
            self._check_header(self._header)
            yield field

    def _messages(self, field: WireField, cost: int) -> Iterable[WireField]:
        if field.wire != BYTES:
            raise DamagedMessage
        return self._walk(field.start, field.stop, cost)

    def _text(self, field: WireField) -> str:
        if field.wire != BYTES or field.stop - field.start > _LONGEST_NAME:
            raise DamagedMessage
        return bytes(self._data.view[field.start : field.stop]).decode("utf-8")

    # ---- where tensors are ----------------------------------------------------------------------

    def _add(self, field: WireField, path: str, *, sparse: bool = False, named: bool = False) -> None:
        """List a tensor under `path`, behind which its own name is put where it is `named`."""
        if field.wire != BYTES:
            raise DamagedMessage
        self._check_count(len(self._found) + 1)
        tensor = self._sparse(field.start, field.stop) if sparse else self._tensor(field.start, field.stop)
        # A single number, which some operator takes, is not a weight.
        if named or tensor.axes:
            self._add_tensor(tensor, path + tensor.name if named else self._unique(path))

    def _add_tensor(self, tensor: DeclaredTensor, name: str) -> None:
        if name in self._found:
            raise self._data.error("duplicate_name", name=clipped(name))
        # A long path is repeated in the name of everything below it.
        self._header += _TENSOR_COST + len(name) - len(tensor.name)
        self._check_header(self._header)
        self._found[name] = self._tensor_info(tensor, name)

    def _unique(self, path: str) -> str:
        self._paths[path] += 1
        return path if self._paths[path] == 1 else f"{path}#{self._paths[path]}"

    def _graph(self, graph: WireField, path: str, depth: int) -> None:
        """List the initializers, then those inside nodes; `path` is empty for the main graph."""
        self._check_depth(depth)
        nodes = []
        for field in self._messages(graph, _FIELD_COST):
            if field.number in (schema.INITIALIZER, schema.SPARSE_INITIALIZER):
                self._add(field, path, sparse=field.number == schema.SPARSE_INITIALIZER, named=True)
            elif field.number == schema.NODE:
                nodes.append(field)
            elif field.number == schema.GRAPH_OUTPUT and not path:
                names = [
                    each for each in self._messages(field, _FIELD_COST) if each.number == schema.VALUE_NAME
                ]
                self.graph.outputs += map(self._text, names)
        outer = self._scopes
        self._scopes = (path, *self._scopes)
        for place, node in enumerate(nodes):
            self._node(node, path or "graph/", place, depth)
        self._scopes = outer

    def _function(self, function: WireField) -> None:
        names = dict.fromkeys(schema.FUNCTION_NAMES.values(), "")
        nodes = []
        attributes = []
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

    def _node(self, node: WireField, path: str, place: int, depth: int) -> None:
        # If a text comes twice, the last one counts, and no other is read.
        texts: dict[int, WireField] = {}
        attributes = []
        inputs = []
        outputs = []
        for field in self._messages(node, _NODE_FIELD_COST):
            if field.number in (schema.NODE_NAME, schema.OP_TYPE):
                texts[field.number] = field
            elif field.number == schema.NODE_INPUT:
                inputs.append(field)
            elif field.number == schema.NODE_OUTPUT:
                outputs.append(field)
            elif field.number == schema.ATTRIBUTE:
                attributes.append(field)
        name, operator = (
            self._text(texts[number]) if number in texts else ""
            for number in (schema.NODE_NAME, schema.OP_TYPE)
        )
        below = f"{path}{name or f'{operator}_{place}'}/"
        found = len(self._found)
        numbers: dict[str, tuple[int, ...]] = {}
        for attribute in attributes:
            numbers |= self._attribute(attribute, below, operator == "Constant", depth)
        if operator == "Constant" and len(outputs) == 1 and len(self._found) == found + 1:
            self.graph.constants[self._scopes[0] + self._text(outputs[0])] = next(reversed(self._found))
        taken, given = (tuple(map(self._text, each)) for each in (inputs, outputs))
        # Each value is known by the path of its graph, which may be long.
        self._header += _NODE_COST + len(path) * len(given) + sum(map(len, (name, *taken, *given)))
        self._check_header(self._header)
        self.graph.nodes.append(Node(name, operator, taken, given, numbers, self._scopes))

    def _attribute(
        self, attribute: WireField, path: str, constant: bool, depth: int
    ) -> dict[str, tuple[int, ...]]:
        """List the tensors and graphs, and return the whole numbers by the attribute's name.

        The lists of numbers of a constant are listed too, as tensors of one axis.
        """
        name = ""
        held = []
        whole: list[int] = []
        numbers: dict[int, DeclaredTensor] = {}
        for field in self._messages(attribute, _NODE_FIELD_COST):
            if field.number == schema.ATTRIBUTE_NAME:
                name = self._text(field)
            elif field.number in schema.HOLDERS:
                held.append(field)
            elif constant and field.number in _LISTS:
                kind, elements = _LISTS[field.number]
                if field.number not in numbers:
                    numbers[field.number] = DeclaredTensor(
                        dims=[0], axes=1, data_type=kind, data={elements: []}
                    )
                self._add_number(numbers[field.number], field)
            elif field.number == schema.ATTRIBUTE_INT and field.wire == VARINT:
                whole.append(_signed(field.value))
            elif field.number == schema.ATTRIBUTE_INTS and field.stop - field.start <= _LONGEST_LIST:
                whole += map(_signed, self._numbers(field))
        seen: dict[int, int] = {}
        for field in held:
            kind = schema.SEVERAL.get(field.number, field.number)
            below = path + name
            if field.number in schema.SEVERAL:
                place = seen.get(field.number, 0)
                below = f"{below}/{place}"
                seen[field.number] = place + 1
            if kind == schema.ONE_GRAPH:
                self._graph(field, f"{below}/", depth + 1)
            else:
                self._add(field, below, sparse=kind == schema.ONE_SPARSE)
        for _, tensor in sorted(numbers.items()):
            if tensor.dims[0]:
                self._check_count(len(self._found) + 1)
                self._add_tensor(tensor, self._unique(path + name))
        return {name: tuple(whole[:MOST_AXES])} if whole else {}

    def _add_number(self, tensor: DeclaredTensor, field: WireField) -> None:
        """Add one number, or all of them packed."""
        number = next(iter(tensor.data))
        if field.wire not in schema.DATA_WIRES[number]:
            raise DamagedMessage
        run = self._data.view[field.start : field.stop]
        tensor.dims[0] += (
            len(run) // 4 if number == schema.FLOATS else len(bytes(run).translate(None, _GOES_ON))
        )
        tensor.data[number].append((field.start, field.stop))

    # ---- the declaration of a tensor ------------------------------------------------------------

    def _sparse(self, start: int, stop: int) -> DeclaredTensor:
        """Return the values with the shape of the whole, which is not read."""
        values = DeclaredTensor()
        whole = DeclaredTensor()
        for field in self._walk(start, stop):
            if field.number == schema.SPARSE_VALUES:
                values = self._tensor(field.start, field.stop) if field.wire == BYTES else values
            elif field.number == schema.SPARSE_DIMS:
                self._add_lengths(whole, field)
        whole.name = values.name
        whole.sparse = True
        return whole

    def _add_lengths(self, tensor: DeclaredTensor, field: WireField) -> None:
        for length in self._numbers(field):
            if length >= 2**63:
                raise DamagedMessage
            tensor.axes += 1
            # The name of a tensor with too many comes later; its declaration until then is not kept.
            if tensor.axes <= MOST_AXES:
                tensor.dims.append(length)

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

    def _add_data(self, tensor: DeclaredTensor, field: WireField) -> None:
        if field.wire not in schema.DATA_WIRES[field.number]:
            raise DamagedMessage
        chunks = tensor.data.setdefault(field.number, [])
        if field.number == schema.RAW:
            chunks.clear()  # the last one of a field that may come only once counts
        if field.start < field.stop:
            chunks.append((field.start, field.stop))
        if len(chunks) > MOST_PIECES:
            raise DamagedMessage

    def _numbers(self, field: WireField) -> Sequence[int]:
        """Return the integers of a repeated field, which may come one by one or packed."""
        if field.wire == VARINT:
            return (field.value,)
        if field.wire != BYTES or field.stop - field.start > MOST_AXES * LONGEST_VARINT:
            raise DamagedMessage
        numbers = []
        at = field.start
        while at < field.stop:
            number, at = read_varint(self._data.view, at, field.stop)
            numbers.append(number)
        return numbers
