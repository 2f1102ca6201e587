"""The schema of `onnx.proto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quantviz.sources.files.catalog import bits_of
from quantviz.sources.files.protobuf import BYTES, FIXED32, FIXED64, VARINT

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
GRAPH_OUTPUT = 12
VALUE_NAME = 1
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
#: The fields of an attribute that hold one tensor, sparse tensor or graph, and their lists.
ONE = 5
ONE_SPARSE = 22
ONE_GRAPH = 6
SEVERAL = {10: ONE, 23: ONE_SPARSE, 11: ONE_GRAPH}
HOLDERS = frozenset((ONE, ONE_SPARSE, ONE_GRAPH, *SEVERAL))
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

    name: str
    bits: int
    #: The field that holds its elements where `raw_data` does not.
    field: int


#: The dtypes in the order of their numbers, from 1.
_NAMES = (
    *("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16"),
    *("float64", "uint32", "uint64", "complex64", "complex128", "bfloat16"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4"),
    *("float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2", "float6_e2m3fn", "float6_e3m2fn"),
)
#: The fields of elements of some dtypes; those of all others are in `int32_data`.
_FIELDS = {
    **{"float32": FLOATS, "complex64": FLOATS, "float64": DOUBLES, "complex128": DOUBLES},
    **{"int64": INT64S, "uint32": UINT64S, "uint64": UINT64S, "string": STRINGS},
}
DTYPES: Mapping[int, ElementType] = {
    number: ElementType(name, bits_of(name), _FIELDS.get(name, INT32S))
    for number, name in enumerate(_NAMES, 1)
}
FLOAT32 = 1
INT64 = 7


@dataclass(slots=True)
class DeclaredTensor:
    name: str = ""
    dims: list[int] = field(default_factory=list)
    axes: int = 0
    data_type: int = 0
    #: Of elements in another file: location, offset, length.
    external: dict[str, str] = field(default_factory=dict)
    sparse: bool = False
    segment: bool = False
    #: The start and stop of elements, by field; integers of varying length include their tags.
    data: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


def entry_count(dtype: ElementType, count: int) -> int:
    """Return the entries of a field of integers for `count` elements; small codes share one."""
    return -(-count * dtype.bits // 8) if dtype.bits in (2, 4) else count


def entry_range(dtype: ElementType) -> tuple[int, int]:
    if dtype.field != INT32S:
        return 0, 2**dtype.bits - 1  # an int64 is written as its two's complement
    if dtype.bits in (2, 4):
        return -128, 255  # the writer may have taken the byte for a signed one
    if dtype.name.startswith("int"):
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1
