""".tflite: the constant tensors of a model of LiteRT (TensorFlow Lite), with how they are quantized.

Source: the format's schema, `schema.fbs` of TensorFlow, as ai-edge-litert 2.3 has it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files.catalog import MOST_AXES, Catalog, TensorInfo, bits_of
from quantviz.sources.files.file_data import FileData
from quantviz.sources.files.flatbuffer import FlatBuffer, FlatbufferTable

MAGIC = b"TFL3"
_LONGEST_NAME = 2**16
_MOST_OPERANDS = 2**12
#: Most scales of a tensor that are kept: as many as a tensor of this many outputs has.
_MOST_SCALES = 2**24

_Model = IntEnum("_Model", {"OPERATOR_CODES": 1, "SUBGRAPHS": 2, "BUFFERS": 4})
_SubGraph = IntEnum("_SubGraph", {"TENSORS": 0, "OPERATORS": 3})
_Tensor = IntEnum(
    "_Tensor", {"SHAPE": 0, "TYPE": 1, "BUFFER": 2, "NAME": 3, "QUANTIZATION": 4, "SPARSITY": 6}
)
_Quantization = IntEnum(
    "_Quantization", {"SCALE": 2, "ZERO_POINT": 3, "DETAILS_TYPE": 4, "DETAILS": 5, "DIMENSION": 6}
)
_Blockwise = IntEnum("_Blockwise", {"SCALES": 0, "ZERO_POINTS": 1, "BLOCK_SIZE": 2})
_Buffer = IntEnum("_Buffer", {"DATA": 0, "OFFSET": 1, "SIZE": 2})
_Operator = IntEnum("_Operator", {"OPCODE": 0, "INPUTS": 1, "OUTPUTS": 2, "OPTIONS": 4})
_OperatorCode = IntEnum("_OperatorCode", {"OLD": 0, "BUILTIN": 3})
_BatchMatMul = IntEnum("_BatchMatMul", {"ADJOINT_LEFT": 0, "ADJOINT_RIGHT": 1})
#: The number of blockwise quantization among the kinds of details.
_BLOCKWISE = 2
#: The dtypes in the order of their numbers, from 0.
_TYPES = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8"),
    *("float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16"),
    *("int2", "uint4", "float8_e4m3fn", "float8_e5m2"),
)
_DEQUANTIZE = 6
_BATCH_MATMUL = 126
#: The outputs of the weights that operators take, by the operator's number and the weight's place.
_OUTPUTS_OF: Mapping[int, tuple[int, int]] = {3: (1, 0), 4: (1, 3), 9: (1, 0), 67: (1, 0)}
#: Recurrent layers, whose weights from the first to before the second place have outputs first.
_RECURRENT: Mapping[int, tuple[int, int]] = {16: (1, 9), 24: (1, 3), 44: (1, 9)}


class TensorQuantization(NamedTuple):
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    #: The axis that scales are along.
    axis: int
    #: Values of a block along it, and the tensors of scales and zero points.
    block: int = 0
    scale_tensor: str = ""
    zero_tensor: str = ""
    #: The scales are stored in an unknown form.
    unknown: bool = False


class TfliteCatalog(Catalog):
    """The constant tensors of the main graph by name, of others by `subgraph/<number>/<name>`."""

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
        model = buffer.table(buffer.number("I", 0))
        codes = [self._operator(each) for each in model.tables(_Model.OPERATOR_CODES)]
        buffers = [self._bytes_of(each) for each in model.tables(_Model.BUFFERS)]
        self._starts: dict[str, tuple[int, str]] = {}
        self.quantized: dict[str, TensorQuantization] = {}
        #: How often each name has come again.
        self._named: Counter[str] = Counter()
        #: The outputs of each tensor as operators take it.
        self._outputs: dict[str, set[tuple[int, ...]]] = {}
        found: dict[str, TensorInfo] = {}
        for number, graph in enumerate(model.tables(_Model.SUBGRAPHS)):
            names: list[str] = []
            kept: list[tuple[FlatbufferTable, str]] = []
            for tensor in graph.tables(_SubGraph.TENSORS):
                name = self._add(tensor, f"subgraph/{number}/" if number else "", buffers, found)
                names.append(name)
                if name:
                    kept.append((tensor, name))
            for tensor, name in kept:
                quantization = tensor.table(_Tensor.QUANTIZATION)
                if quantization is not None:
                    self._add_quantized(name, quantization, names)
            self._add_outputs(graph, codes, names, found)
        return found

    def _operator(self, code: FlatbufferTable) -> int:
        """Return the number, which has two fields: the older one ends at 127."""
        return max(code.number(_OperatorCode.OLD, "b"), code.number(_OperatorCode.BUILTIN, "i"))

    def _bytes_of(self, buffer: FlatbufferTable) -> tuple[int, int]:
        """Return the offset and the number of bytes, which lie in the buffer or behind the model."""
        offset = buffer.number(_Buffer.OFFSET, "Q")
        size = buffer.number(_Buffer.SIZE, "Q")
        return (offset, size) if offset > 1 and size else buffer.place(_Buffer.DATA, 1)

    def _add(
        self, tensor: FlatbufferTable, path: str, buffers: list[tuple[int, int]], found: dict[str, TensorInfo]
    ) -> str:
        """List a tensor that has constant values, and return its name; "" for any other."""
        at = tensor.number(_Tensor.BUFFER, "I")
        start, size = buffers[at] if at < len(buffers) else (0, 0)
        lengths = tensor.numbers(_Tensor.SHAPE, "i", MOST_AXES)
        if not size or not lengths:
            return ""
        name = own = path + tensor.text(_Tensor.NAME, _LONGEST_NAME)
        while name in found:  # names may come twice
            self._named[own] += 1
            name = f"{own}#{self._named[own] + 1}"
        self._check_count(len(found) + 1)
        shape: Shape = self._shape(name, [int(length) for length in lengths])
        if min(shape) < 0:
            raise self._data.error("damaged", kind=self.kind)
        code = tensor.number(_Tensor.TYPE, "b")
        dtype = _TYPES[code] if 0 <= code < len(_TYPES) else "unknown"
        found[name] = self._info_of(tensor, name, dtype, shape, start, size)
        return name

    def _info_of(
        self, tensor: FlatbufferTable, name: str, dtype: str, shape: Shape, start: int, size: int
    ) -> TensorInfo:
        if tensor.table(_Tensor.SPARSITY) is not None:
            return TensorInfo("sparse", shape, problem=self._unreadable(name, "sparse"))
        info = self._info(name, dtype, shape)
        bits = bits_of(dtype)
        if info.problem and not 0 < bits < 8:
            return info
        problem: QuantVizError | None = None
        if size != -(-math.prod(shape) * bits // 8):
            problem = self._damaged(name)
        elif start + size > self._data.size:
            problem = self._cut_short(name, start + size)
        else:
            self._starts[name] = start, dtype
        return TensorInfo(dtype, shape, problem=problem)

    def _add_quantized(self, name: str, table: FlatbufferTable, names: list[str]) -> None:
        axis = table.number(_Quantization.DIMENSION, "i")
        kind = table.number(_Quantization.DETAILS_TYPE, "B")
        details = table.table(_Quantization.DETAILS) if kind else None
        if kind == _BLOCKWISE and details is not None:
            scale, zero = (
                names[at] if 0 <= (at := details.number(each, "i", -1)) < len(names) else ""
                for each in (_Blockwise.SCALES, _Blockwise.ZERO_POINTS)
            )
            size = details.number(_Blockwise.BLOCK_SIZE, "i")
            self.quantized[name] = TensorQuantization(
                (), (), axis, size, scale, zero, unknown=not scale or size < 1
            )
            return
        scales = tuple(map(float, table.numbers(_Quantization.SCALE, "f", _MOST_SCALES)))
        if scales or kind:
            zeros = tuple(map(int, table.numbers(_Quantization.ZERO_POINT, "q", _MOST_SCALES)))
            self.quantized[name] = TensorQuantization(scales, zeros, axis, unknown=bool(kind))

    def _add_outputs(
        self, graph: FlatbufferTable, codes: list[int], names: list[str], found: Mapping[str, TensorInfo]
    ) -> None:
        """Note which axes of weights are outputs, by the operators that take them."""
        #: The tensor that a value is made of without a change of its axes.
        same: dict[int, int] = {}
        operators = []
        for each in graph.tables(_SubGraph.OPERATORS):
            at = each.number(_Operator.OPCODE, "I")
            code = codes[at] if at < len(codes) else -1
            if code not in (*_OUTPUTS_OF, *_RECURRENT, _DEQUANTIZE, _BATCH_MATMUL):
                continue
            inputs = tuple(map(int, each.numbers(_Operator.INPUTS, "i", _MOST_OPERANDS)))
            if code == _DEQUANTIZE and inputs:
                outputs = tuple(map(int, each.numbers(_Operator.OUTPUTS, "i", _MOST_OPERANDS)))
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
        outputs = self._outputs.get(name, set())
        return Orientation(next(iter(outputs)), "graph") if len(outputs) == 1 else None


def _own_outputs(code: int, place: int, axes: int, operator: FlatbufferTable) -> tuple[int, ...] | None:
    """Return the axes of outputs of a weight; None if the input is not a weight."""
    if axes < 2:
        return None
    if code in _RECURRENT:
        first, last = _RECURRENT[code]
        return (0,) if first <= place < last and axes == 2 else None
    if code == _BATCH_MATMUL:
        options = operator.table(_Operator.OPTIONS)
        turned = bool(
            options
            and options.number((_BatchMatMul.ADJOINT_LEFT, _BatchMatMul.ADJOINT_RIGHT)[place == 1], "B")
        )
        if place not in (0, 1):
            return None
        last = axes - 1 if (place == 1) != turned else axes - 2
        return (*range(axes - 2), last)
    wanted, axis = _OUTPUTS_OF[code]
    return (axis,) if place == wanted and axis < axes else None
