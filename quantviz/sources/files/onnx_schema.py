"""The schema of `onnx.proto`: the numbers of its fields, its dtypes, and the declaration of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from quantviz.sources.files.protobuf import BYTES, FIXED32, FIXED64, VARINT

if TYPE_CHECKING:
    from quantviz.sources.files.mapped import Packing

# Fields of ModelProto, TrainingInfoProto, FunctionProto, GraphProto, NodeProto, AttributeProto,
# SparseTensorProto and TensorProto.
MODEL_FIELDS = frozenset((*range(1, 9), 14, 20, 25, 26))
GRAPH = 7
TRAINING = 20
FUNCTION = 25
TRAINING_GRAPHS = {1: "initialization", 2: "algorithm"}
FUNCTION_NAMES = {10: "domain", 1: "name", 13: "overload"}
FUNCTION_NODE = 7
FUNCTION_ATTRIBUTE = 11
NODE = 1
INITIALIZER = 5
SPARSE_INITIALIZER = 15
NODE_INPUT = 1
NODE_OUTPUT = 2
NODE_NAME = 3
OP_TYPE = 4
ATTRIBUTE = 5
ATTRIBUTE_NAME = 1
ATTRIBUTE_INT = 3
ATTRIBUTE_FLOATS = 7
ATTRIBUTE_INTS = 8
#: The fields of an entry of external data, and the values that a person needs to find it.
ENTRY_KEY = 1
ENTRY_VALUE = 2
#: The fields of an attribute that hold one tensor, sparse tensor or graph, and those that hold a list of
#: them.
ONE = 5
ONE_SPARSE = 22
ONE_GRAPH = 6
SEVERAL = {10: ONE, 23: ONE_SPARSE, 11: ONE_GRAPH}
SPARSE_VALUES = 1
SPARSE_DIMS = 3
DIMS = 1
DATA_TYPE = 2
SEGMENT = 3
NAME = 8
EXTERNAL_DATA = 13
DATA_LOCATION = 14
RAW = 9
FLOATS = 4
INT32S = 5
STRINGS = 6
INT64S = 7
DOUBLES = 10
UINT64S = 11
#: Fields of which the bytes are the elements as they are stored.
AS_STORED = frozenset((RAW, FLOATS, DOUBLES))
#: The wire types of the fields of elements: packed, or one element a field.
DATA_WIRES = {
    RAW: (BYTES,),
    FLOATS: (BYTES, FIXED32),
    INT32S: (BYTES, VARINT),
    STRINGS: (BYTES,),
    INT64S: (BYTES, VARINT),
    DOUBLES: (BYTES, FIXED64),
    UINT64S: (BYTES, VARINT),
}


class ElementType(NamedTuple):
    """A dtype as ONNX stores it."""

    #: As torch and the formats here spell it.
    name: str
    bits: int
    #: The field that holds its elements where `raw_data` does not.
    field: int


#: Every dtype by its number.
DTYPES: Mapping[int, ElementType] = {
    1: ElementType("float32", 32, FLOATS),
    2: ElementType("uint8", 8, INT32S),
    3: ElementType("int8", 8, INT32S),
    4: ElementType("uint16", 16, INT32S),
    5: ElementType("int16", 16, INT32S),
    6: ElementType("int32", 32, INT32S),
    7: ElementType("int64", 64, INT64S),
    8: ElementType("string", 0, STRINGS),
    9: ElementType("bool", 8, INT32S),
    10: ElementType("float16", 16, INT32S),
    11: ElementType("float64", 64, DOUBLES),
    12: ElementType("uint32", 32, UINT64S),
    13: ElementType("uint64", 64, UINT64S),
    14: ElementType("complex64", 64, FLOATS),
    15: ElementType("complex128", 128, DOUBLES),
    16: ElementType("bfloat16", 16, INT32S),
    17: ElementType("float8_e4m3fn", 8, INT32S),
    18: ElementType("float8_e4m3fnuz", 8, INT32S),
    19: ElementType("float8_e5m2", 8, INT32S),
    20: ElementType("float8_e5m2fnuz", 8, INT32S),
    21: ElementType("uint4", 4, INT32S),
    22: ElementType("int4", 4, INT32S),
    23: ElementType("float4_e2m1fn", 4, INT32S),
    24: ElementType("float8_e8m0fnu", 8, INT32S),
    25: ElementType("uint2", 2, INT32S),
    26: ElementType("int2", 2, INT32S),
    27: ElementType("float6_e2m3fn", 6, INT32S),
    28: ElementType("float6_e3m2fn", 6, INT32S),
}
#: Numbers of two of them.
FLOAT32 = 1
INT64 = 7


class DeclaredTensor:
    """The fields of a TensorProto."""

    __slots__ = ("axes", "data", "data_type", "dims", "external", "name", "segment", "sparse")

    def __init__(self) -> None:
        self.name = ""
        self.dims: list[int] = []
        #: The number of lengths that it declares.
        self.axes = 0
        self.data_type = 0
        #: The place of its elements in another file: location, offset, length. Empty if they lie here.
        self.external: dict[str, str] = {}
        self.sparse = False
        self.segment = False
        #: The start and stop of the bytes of its elements, by field; integers of varying length include
        #: their tags.
        self.data: dict[int, list[tuple[int, int]]] = {}

    @classmethod
    def of(cls, data_type: int, field: int) -> DeclaredTensor:
        """Return a tensor of that dtype with one axis and no elements yet, which will be in that field."""
        tensor = cls()
        tensor.dims = [0]
        tensor.axes = 1
        tensor.data_type = data_type
        tensor.data = {field: []}
        return tensor


def entry_count(dtype: ElementType, count: int) -> int:
    """Return the number of entries of a field of integers for `count` elements; small codes share one."""
    return -(-count * dtype.bits // 8) if dtype.bits in (2, 4) else count


def entry_range(dtype: ElementType) -> tuple[int, int]:
    """Return the lowest and highest entry."""
    if dtype.field != INT32S:
        return 0, 2**dtype.bits - 1  # an int64 is written as its two's complement
    if dtype.bits in (2, 4):
        return -128, 255  # the writer may have taken the byte for a signed one
    if dtype.name.startswith("int"):
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def packing_of(dtype: ElementType) -> Packing:
    """Return the packing of elements of a dtype in bytes."""
    from quantviz.sources.files import mapped

    return mapped.packing_of(dtype.name, dtype.bits)
