""".tflite: the constant tensors of a model of LiteRT (TensorFlow Lite), with how they are quantized.

Source: the format's schema, `schema.fbs` of TensorFlow, as ai-edge-litert 2.3 has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files.catalog import MOST_AXES, Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData
from quantviz.sources.files.flatbuffer import FlatBuffer, Table

if TYPE_CHECKING:
    from quantviz.sources.files.mapped import StoredRows

MAGIC = b"TFL3"
#: Longest name of a tensor, in bytes, and most operands of an operator.
_LONGEST_NAME = 2**16
_MOST_OPERANDS = 2**12
#: Most scales of a tensor that are kept: as many as a tensor of this many outputs has.
_MOST_SCALES = 2**24

# Fields of the tables, by their number in the schema.
_OPERATOR_CODES = 1
_SUBGRAPHS = 2
_BUFFERS = 4
_TENSORS = 0
_OPERATORS = 3
_SHAPE = 0
_TYPE = 1
_BUFFER = 2
_NAME = 3
_QUANTIZATION = 4
_SPARSITY = 6
_SCALE = 2
_ZERO_POINT = 3
_DETAILS_TYPE = 4
_DETAILS = 5
_DIMENSION = 6
_BLOCK_SCALES = 0
_BLOCK_ZEROS = 1
_BLOCK_SIZE = 2
_BLOCKWISE = 2
_DATA = 0
_DATA_OFFSET = 1
_DATA_SIZE = 2
_OPCODE = 0
_INPUTS = 1
_OUTPUTS = 2
_OPTIONS = 4
_OLD_CODE = 0
_CODE = 3
_ADJOINT_LEFT = 0
_ADJOINT_RIGHT = 1

#: The dtypes by their number; 0 bits for those that are not read.
_TYPES: Mapping[int, tuple[str, int]] = {
    0: ("float32", 32),
    1: ("float16", 16),
    2: ("int32", 32),
    3: ("uint8", 8),
    4: ("int64", 64),
    5: ("string", 0),
    6: ("bool", 8),
    7: ("int16", 16),
    8: ("complex64", 64),
    9: ("int8", 8),
    10: ("float64", 64),
    11: ("complex128", 128),
    12: ("uint64", 64),
    13: ("resource", 0),
    14: ("variant", 0),
    15: ("uint32", 32),
    16: ("uint16", 16),
    17: ("int4", 4),
    18: ("bfloat16", 16),
    19: ("int2", 2),
    20: ("uint4", 4),
    21: ("float8_e4m3fn", 8),
    22: ("float8_e5m2", 8),
}
_DEQUANTIZE = 6
_BATCH_MATMUL = 126
#: The outputs of the weights that operators take, by the operator's number and the weight's place.
_OUTPUTS_OF: Mapping[int, tuple[int, int]] = {3: (1, 0), 4: (1, 3), 9: (1, 0), 67: (1, 0)}
#: Recurrent layers, whose weights from the first to before the second place have outputs first.
_RECURRENT: Mapping[int, tuple[int, int]] = {16: (1, 9), 24: (1, 3), 44: (1, 9)}


class Quantized(NamedTuple):
    """The quantization of a tensor."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    #: The axis that scales are along.
    axis: int
    #: The number of values of each block along it, and the tensors of the blocks' scales and zero points.
    block: int = 0
    scale_tensor: str = ""
    zero_tensor: str = ""
    #: Whether the scales are stored in an unknown form.
    unknown: bool = False


class TfliteCatalog(Catalog):
    """The constant tensors of a model: of the main graph by name, of others by `subgraph/<number>/<name>`."""

    kind = "TFLite"
    suffixes = (".tflite",)
    snippet = (
        "import numpy\nfrom ai_edge_litert.interpreter import Interpreter\n"
        "m = Interpreter({file!r}); numpy.save('cut_out.npy', m.get_tensor(next(each['index'] for each in"
        " m.get_tensor_details() if each['name'] == {name!r}))[:512])"
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.part(4, 8)) == MAGIC

    def _list(self) -> Mapping[str, TensorInfo]:
        buffer = FlatBuffer(self._data, self._check_header)
        model = buffer.root()
        codes = [self._operator(each) for each in model.tables(_OPERATOR_CODES)]
        buffers = [self._bytes_of(each) for each in model.tables(_BUFFERS)]
        #: The place of each tensor, with its dtype.
        self._starts: dict[str, tuple[int, str, int]] = {}
        #: The quantization of each quantized tensor.
        self.quantized: dict[str, Quantized] = {}
        #: The outputs of each tensor as operators take it.
        self._outputs: dict[str, set[tuple[int, ...]]] = {}
        found: dict[str, TensorInfo] = {}
        for number, graph in enumerate(model.tables(_SUBGRAPHS)):
            names: list[str] = []
            kept: list[tuple[Table, str]] = []
            for tensor in graph.tables(_TENSORS):
                name = self._add(tensor, f"subgraph/{number}/" if number else "", buffers, found)
                names.append(name)
                if name:
                    kept.append((tensor, name))
            for tensor, name in kept:
                quantization = tensor.table(_QUANTIZATION)
                if quantization is not None:
                    self._add_quantized(name, quantization, names)
            self._add_outputs(graph, codes, names, found)
        return found

    def _operator(self, code: Table) -> int:
        """Return an operator's number, which has two fields: the older one ends at 127."""
        return max(code.number(_OLD_CODE, "b"), code.number(_CODE, "i"))

    def _bytes_of(self, buffer: Table) -> tuple[int, int]:
        """Return the offset and the number of a buffer's bytes, which lie in it or behind the model."""
        offset = buffer.number(_DATA_OFFSET, "Q")
        size = buffer.number(_DATA_SIZE, "Q")
        return (offset, size) if offset > 1 and size else buffer.place(_DATA, 1)

    def _add(
        self, tensor: Table, path: str, buffers: list[tuple[int, int]], found: dict[str, TensorInfo]
    ) -> str:
        """List a tensor that has constant values, and return its name; "" for any other."""
        at = tensor.number(_BUFFER, "I")
        start, size = buffers[at] if at < len(buffers) else (0, 0)
        lengths = tensor.numbers(_SHAPE, "i", MOST_AXES)
        if not size or not lengths:
            return ""
        own = path + tensor.text(_NAME, _LONGEST_NAME)
        name = own
        number = 1
        while name in found:  # names may come twice
            number += 1
            name = f"{own}#{number}"
        self._check_count(len(found) + 1)
        shape: Shape = self._shape(name, [int(length) for length in lengths])
        if min(shape) < 0:
            raise self._data.error("damaged", kind=self.kind)
        dtype, bits = _TYPES.get(tensor.number(_TYPE, "b"), ("unknown", 0))
        found[name] = self._info_of(tensor, name, dtype, bits, shape, start, size)
        return name

    def _info_of(
        self, tensor: Table, name: str, dtype: str, bits: int, shape: Shape, start: int, size: int
    ) -> TensorInfo:
        if tensor.table(_SPARSITY) is not None:
            return TensorInfo("sparse", shape, problem=self._unreadable(name, "sparse"))
        info = self._info(name, dtype, shape)
        small = 0 < bits < 8
        if info.problem and not small:
            return info
        problem: QuantVizError | None = None
        if size != -(-math.prod(shape) * bits // 8):
            problem = self._damaged(name)
        elif start + size > self._data.size:
            problem = self._cut_short(name, start + size)
        else:
            self._starts[name] = start, dtype, bits
        return TensorInfo(dtype, shape, problem=problem)

    def _add_quantized(self, name: str, table: Table, names: list[str]) -> None:
        axis = table.number(_DIMENSION, "i")
        kind = table.number(_DETAILS_TYPE, "B")
        details = table.table(_DETAILS) if kind else None
        if kind == _BLOCKWISE and details is not None:
            scale, zero = (
                names[at] if 0 <= (at := details.number(each, "i", -1)) < len(names) else ""
                for each in (_BLOCK_SCALES, _BLOCK_ZEROS)
            )
            size = details.number(_BLOCK_SIZE, "i")
            self.quantized[name] = Quantized((), (), axis, size, scale, zero, unknown=not scale or size < 1)
            return
        scales = tuple(map(float, table.numbers(_SCALE, "f", _MOST_SCALES)))
        if scales or kind:
            zeros = tuple(map(int, table.numbers(_ZERO_POINT, "q", _MOST_SCALES)))
            self.quantized[name] = Quantized(scales, zeros, axis, unknown=bool(kind))

    def _add_outputs(
        self, graph: Table, codes: list[int], names: list[str], found: Mapping[str, TensorInfo]
    ) -> None:
        """Note which axes of weights are outputs, by the operators that take them."""
        #: The tensor that a value is made of without a change of its axes.
        same: dict[int, int] = {}
        operators = []
        for each in graph.tables(_OPERATORS):
            at = each.number(_OPCODE, "I")
            code = codes[at] if at < len(codes) else -1
            if (
                code not in _OUTPUTS_OF
                and code not in _RECURRENT
                and code not in (_DEQUANTIZE, _BATCH_MATMUL)
            ):
                continue
            inputs = tuple(map(int, each.numbers(_INPUTS, "i", _MOST_OPERANDS)))
            if code == _DEQUANTIZE and inputs:
                outputs = tuple(map(int, each.numbers(_OUTPUTS, "i", _MOST_OPERANDS)))
                same |= dict.fromkeys(outputs, inputs[0])
            else:
                operators.append((code, inputs, each))
        for code, inputs, each in operators:
            for place, value in enumerate(inputs):
                value = same.get(value, value)
                name = names[value] if 0 <= value < len(names) else ""
                if name:
                    outputs_of = _own_outputs(code, place, len(found[name].shape), each)
                    if outputs_of is not None:
                        self._outputs.setdefault(name, set()).add(outputs_of)

    def _declared_orientation(self, name: str) -> Orientation | None:
        told = self._outputs.get(name, set())
        return Orientation(next(iter(told)), "graph") if len(told) == 1 else None

    def _stored_rows(self, name: str) -> StoredRows:
        from quantviz.sources.files.mapped import StoredRows, packing_of

        start, dtype, bits = self._starts[name]
        return StoredRows(start, packing_of(dtype, bits))


def _own_outputs(code: int, place: int, axes: int, operator: Table) -> tuple[int, ...] | None:
    """Return the axes of outputs of a weight that an operator takes; none if the input is not a weight."""
    if axes < 2:
        return None
    if code in _RECURRENT:
        first, last = _RECURRENT[code]
        return (0,) if first <= place < last and axes == 2 else None
    if code == _BATCH_MATMUL:
        options = operator.table(_OPTIONS)
        turned = bool(options and options.number((_ADJOINT_LEFT, _ADJOINT_RIGHT)[place == 1], "B"))
        if place not in (0, 1):
            return None
        last = axes - 1 if (place == 1) != turned else axes - 2
        return (*range(axes - 2), last)
    wanted, axis = _OUTPUTS_OF[code]
    return (axis,) if place == wanted and axis < axes else None
