""".onnx: every dtype in every field that may hold it reads as the onnx package reads it, and bad models get a
sentence.
"""

import math

import numpy
import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.sources.files import Limits, cut_out_snippet, open_tensors
from quantviz.sources.files.file_data import FileData
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.onnx_schema import DTYPES
from quantviz.tensors.lazy import InMemory

onnx = pytest.importorskip("onnx")
helper, proto = onnx.helper, onnx.TensorProto

NUMBERS = [
    number
    for number, dtype in DTYPES.items()
    if dtype.name not in ("string", "bool", "complex64", "complex128")
]
#: A shape whose rows begin within a byte where elements are shorter than one, and whose end fills no unit.
SHAPE = (5, 3, 3)


def model(*tensors, **more):
    return helper.make_model(
        helper.make_graph([], "graph", [], [], list(tensors), **more)
    ).SerializeToString()


def tensor_of(number, raw):
    """A tensor of that dtype: any bits where it is short, but for NaN and infinity, and whole numbers and
    quarters where it is long.
    """
    dtype, count = DTYPES[number], math.prod(SHAPE)
    kind = helper.tensor_dtype_to_np_dtype(number)
    codes = numpy.random.default_rng(number).integers(
        0, min(2**dtype.bits, 120), size=count, dtype=numpy.uint8
    )
    small_float = "float" in dtype.name and dtype.bits <= 8
    array = (
        codes.view(kind)
        if small_float
        else codes.astype(kind) / kind.type(4)
        if "float" in dtype.name
        else codes.astype(kind)
    )
    made = helper.make_tensor("x", number, SHAPE, array.reshape(SHAPE), raw=True)
    return made if raw else unraw(made, array)


def unraw(made, array):
    """The same elements in the field of their dtype, which bits of floats go to as whole numbers."""
    dtype = DTYPES[made.data_type]
    elements = getattr(made, made.DESCRIPTOR.fields_by_number[dtype.field].name)
    if dtype.bits == 6:
        elements.extend(array.view(numpy.uint8).tolist())
    elif dtype.field == 5 and ("float" in dtype.name or dtype.bits < 8):
        elements.extend(numpy.frombuffer(made.raw_data, dtype=f"u{max(1, dtype.bits // 8)}").tolist())
    else:
        elements.extend(array.tolist())
    made.ClearField("raw_data")
    return made


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "field"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: DTYPES[number].name)
def test_every_dtype_is_read_as_onnx_reads_it(number, raw, tmp_path):
    made = tensor_of(number, raw)
    expected = torch.from_numpy(onnx.numpy_helper.to_array(made).astype(numpy.float32))
    (tmp_path / "m.onnx").write_bytes(model(made))
    with open_tensors(tmp_path / "m.onnx") as catalog:
        info = catalog.info("x")
        assert (info.dtype, info.shape, info.problem) == (DTYPES[number].name, SHAPE, None)
        assert torch.equal(catalog.load("x"), expected)
        assert torch.equal(catalog.load("x", (slice(1, 5, 2), 2)), expected[1:5:2, 2])
        stored = catalog.stored("x")
    # It outlives the file's being open, and any part of it is the part.
    assert torch.equal(torch.from_numpy(stored.run(4, 41).copy()), expected.flatten()[4:41])
    assert torch.equal(stored.read((slice(1, 4), 2, slice(1, 3))), expected[1:4, 2, 1:3])


def test_floats_stay_where_they_lie_and_integers_of_varying_length_do_not():
    x = torch.randn(64, 64)
    with open_tensors(
        model(
            onnx.numpy_helper.from_array(x.numpy(), "raw"),
            helper.make_tensor("field", proto.FLOAT, (64, 64), x.flatten()),
        )
    ) as catalog:
        for name in ("raw", "field"):
            stored = catalog.stored(name)
            assert not isinstance(stored, InMemory)
            assert torch.equal(torch.from_numpy(stored.run(0, 4096).copy()), x.flatten())
    with open_tensors(model(helper.make_tensor("x", proto.INT8, (3,), [-128, 0, 127]))) as catalog:
        assert isinstance(catalog.stored("x"), InMemory)
        assert catalog.stored("x").run(0, 3).tolist() == [-128, 0, 127]


def field(number, wire, body):
    return varint(number << 3 | wire) + body


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(number, body):
    return field(number, 2, varint(len(body)) + body)


def by_hand(*tensor_fields):
    """A model with one initializer of these fields."""
    return field(1, 0, varint(8)) + message(7, message(5, b"".join(tensor_fields) + message(8, b"x")))


def dims(*lengths):
    return b"".join(field(1, 0, varint(length)) for length in lengths)


def of_type(number):
    return field(2, 0, varint(number))


def test_elements_may_come_one_by_one_and_in_pieces():
    floats = numpy.array([1.5, -2.5, 3.5], dtype="<f4").tobytes()
    one_by_one = by_hand(dims(3), of_type(1), *(field(4, 5, floats[at : at + 4]) for at in (0, 4, 8)))
    in_pieces = by_hand(dims(3), of_type(1), message(4, floats[:4]), message(4, floats[4:]))
    packed_dims = by_hand(message(1, varint(3)), of_type(1), message(9, floats))
    for data in (one_by_one, in_pieces, packed_dims):
        with open_tensors(data, "m.onnx") as catalog:
            assert catalog.load("x").tolist() == [1.5, -2.5, 3.5]
    negative = varint(2**64 - 5)
    integers = by_hand(dims(3), of_type(6), field(5, 0, varint(7)), message(5, negative + varint(9)))
    with open_tensors(integers, "m.onnx") as catalog:
        assert catalog.load("x").tolist() == [7, -5, 9]


def test_integers_of_varying_length_are_decoded_up_to_the_limit():
    """All of them are decoded, whatever part is wanted."""
    data = by_hand(dims(101), of_type(6), message(5, bytes(101)))
    for elements, key in ((101, None), (100, "file.tensor_too_large")):
        with open_tensors(data, "m.onnx", limits=Limits(elements=elements)) as catalog:
            problem = catalog.info("x").problem
            assert (problem and problem.key) == key
    assert problem.params["setting"] == "QUANTVIZ_MAX_ELEMENTS"


def array_tensor(name, *shape, seed=0):
    return onnx.numpy_helper.from_array(numpy.random.default_rng(seed).normal(size=shape).astype("f4"), name)


def constant(seed, name=None, *shape):
    return helper.make_node(
        "Constant", [], [f"c{seed}"], name=name, value=array_tensor("", *(shape or (2, 3)), seed=seed)
    )


def branching(depth, name="weight"):
    """A graph of an initializer and, `depth` times, an If with such graphs."""
    nodes = (
        [
            helper.make_node(
                "If",
                ["c"],
                ["y"],
                then_branch=branching(depth - 1),
                else_branch=branching(depth - 1, "other"),
            )
        ]
        if depth
        else []
    )
    return helper.make_graph(nodes, "", [], [], [array_tensor(name, 2, 2, seed=depth)])


def everywhere():
    """A model with tensors wherever one may be."""
    sparse = helper.make_sparse_tensor(
        array_tensor("", 1), onnx.numpy_helper.from_array(numpy.zeros(1, "i8"), ""), [4, 5]
    )
    body = helper.make_graph(
        [constant(1), constant(2, "named", 3)], "", [], [], [array_tensor("w", 4, seed=3)]
    )
    nodes = [
        constant(4),
        helper.make_node("Constant", [], ["n"], value_floats=[1.5, -2.0, 0.25]),
        helper.make_node("Constant", [], ["i"], value_ints=[3, -5, 300]),
        helper.make_node("Constant", [], ["f"], value_float=1.5),
        helper.make_node("Constant", [], ["o"], value=onnx.numpy_helper.from_array(numpy.float32(2.5), "")),
        helper.make_node("Clip", ["x"], ["y"], name="loud", lowest=[1.0, 2.0]),
        helper.make_node("If", ["c"], ["y"], then_branch=branching(1), else_branch=branching(0)),
        helper.make_node("Loop", ["n"], ["y"], name="encoder/Loop", body=body),
        helper.make_node("Constant", [], ["s"], sparse_value=sparse),
        helper.make_node(
            "Custom",
            [],
            [],
            name="twice",
            domain="own",
            weights=[array_tensor("", 2, seed=5), array_tensor("", 3, seed=6)],
        ),
        helper.make_node("Custom", [], [], name="twice", domain="own", weights=[array_tensor("", 2, seed=7)]),
    ]
    function = helper.make_function(
        "own",
        "Layer",
        [],
        ["y"],
        [constant(8)],
        [helper.make_opsetid("", 21)],
        attribute_protos=[helper.make_attribute("bias", array_tensor("", 2, seed=9))],
    )
    whole = helper.make_model(
        helper.make_graph(nodes, "g", [], [], [array_tensor("w", 2)]), functions=[function]
    )
    whole.training_info.add().initialization.CopyFrom(
        helper.make_graph([], "", [], [], [array_tensor("start", 2, seed=10)])
    )
    return whole


def tensors_in(graph, path, seen):
    """What the onnx package finds in a graph, by path."""
    for each in graph.initializer:
        yield path + each.name, onnx.numpy_helper.to_array(each)
    yield from tensors_in_nodes(graph.node, path or "graph/", seen)


def tensors_in_nodes(nodes, path, seen):
    for place, node in enumerate(nodes):
        for attribute in node.attribute:
            below = f"{path}{node.name or f'{node.op_type}_{place}'}/{attribute.name}"
            value = helper.get_attribute_value(attribute)
            for number, each in enumerate(value if isinstance(value, list) else [value]):
                at = f"{below}/{number}" if isinstance(value, list) else below
                if isinstance(each, onnx.GraphProto):
                    yield from tensors_in(each, f"{at}/", seen)
                elif isinstance(each, proto):
                    seen.append(at)
                    yield (
                        at + (f"#{seen.count(at)}" if seen.count(at) > 1 else ""),
                        onnx.numpy_helper.to_array(each),
                    )
            if node.op_type == "Constant" and isinstance(value, list):
                yield below, numpy.array(value, "f4")


def test_tensors_in_nodes_branches_and_functions_are_listed_by_their_path(tmp_path):
    whole, seen = everywhere(), []
    expected = dict(tensors_in(whole.graph, "", seen)) | dict(
        tensors_in(whole.training_info[0].initialization, "training/0/initialization/", seen)
    )
    expected |= {
        "functions/own.Layer/bias": onnx.numpy_helper.to_array(whole.functions[0].attribute_proto[0].t)
    }
    expected |= dict(tensors_in_nodes(whole.functions[0].node, "functions/own.Layer/", seen))
    # A number alone is no tensor here.
    expected = {name: array for name, array in expected.items() if array.ndim}
    assert {
        "w",
        "graph/Constant_0/value",
        "graph/If_6/then_branch/weight",
        "graph/If_6/then_branch/If_0/else_branch/other",
    } < set(expected)
    assert {
        "graph/encoder/Loop/body/named/value",
        "graph/twice/weights/1",
        "graph/twice/weights/0#2",
        "graph/Constant_1/value_floats",
    } < set(expected)
    (tmp_path / "m.onnx").write_bytes(whole.SerializeToString())
    with open_tensors(tmp_path / "m.onnx") as catalog:
        assert set(catalog.names) == {*expected, "graph/Constant_8/sparse_value"}
        assert (catalog.kind, catalog.names[0]) == ("ONNX", "w")
        for name, array in expected.items():
            assert catalog.info(name).shape == array.shape
            assert torch.equal(catalog.load(name), torch.from_numpy(array.astype("f4"))), name
        sparse = catalog.info("graph/Constant_8/sparse_value")
        assert (sparse.shape, sparse.problem.key) == ((4, 5), "file.not_numbers")


def test_what_is_nested_has_limits():
    deep = helper.make_model(branching(6)).SerializeToString()
    cases = [
        (Limits(depth=5), "file.too_deep"),
        (Limits(tensors=100), "file.too_many_tensors"),
        (Limits(header_bytes=10_000), "file.header_too_large"),
    ]
    for limits, key in cases:
        with pytest.raises(QuantVizError) as caught, open_tensors(deep, "m.onnx", limits=limits):
            pass
        assert caught.value.key == key
    with open_tensors(deep, "m.onnx", limits=Limits(depth=6)) as catalog:
        assert len(catalog.names) == 2**7 - 1
    # Names that are repeated for each tensor below them count as often as that.
    graph = helper.make_graph(
        [
            helper.make_node(
                "If",
                [],
                [],
                name="n" * 60_000,
                then_branch=helper.make_graph([], "", [], [], [array_tensor(str(i), 1) for i in range(1200)]),
            )
        ],
        "",
        [],
        [],
    )
    with (
        pytest.raises(QuantVizError) as caught,
        open_tensors(helper.make_model(graph).SerializeToString(), "m.onnx"),
    ):
        pass
    assert caught.value.key == "file.header_too_large"

    # So do those of values: each is known by the path of its graph.
    inner = helper.make_graph([helper.make_node("Relu", ["a"], ["a"])] * 1200, "", [], [])
    graph = helper.make_graph(
        [helper.make_node("If", [], [], name="n" * 60_000, then_branch=inner)], "", [], []
    )
    with (
        pytest.raises(QuantVizError) as caught,
        open_tensors(helper.make_model(graph).SerializeToString(), "m.onnx"),
    ):
        pass
    assert caught.value.key == "file.header_too_large"


def test_a_cut_model_is_known_by_its_first_fields():
    """Else every field of a file of any length was looked at."""
    graph = varint(7 << 3 | 2) + varint(10**6)
    for count, wanted in ((5_000, 10_000 + len(graph) + 10**6), (10_000, None)):
        assert OnnxCatalog.wanted(FileData(b"\x08\x01" * count + graph, "m.onnx")) == wanted


def test_numbers_of_an_attribute_may_be_packed():
    floats = numpy.array([1.5, -2.5], dtype="<f4").tobytes()
    for name, content, expected in (
        (b"value_floats", message(7, floats), [1.5, -2.5]),
        (b"value_ints", message(8, varint(300) + varint(2**64 - 1)), [300, -1]),
    ):
        node = message(4, b"Constant") + message(5, message(1, name) + content)
        with open_tensors(message(7, message(1, node)), "m.onnx") as catalog:
            assert catalog.load(f"graph/Constant_0/{name.decode()}").tolist() == expected
    many = message(4, b"Constant") + message(5, message(1, b"v") + field(7, 5, bytes(4)) * 5000)
    with open_tensors(message(7, message(1, node) + message(1, many)), "m.onnx") as catalog:
        assert catalog.info("graph/Constant_1/v").problem.key == "file.tensor_damaged"


def test_what_cannot_be_read_is_listed_with_its_reason():
    external = proto(name="far", data_type=1, dims=[2], data_location=1)
    external.external_data.add(key="location", value="../../etc/passwd")
    ones = onnx.numpy_helper.from_array(numpy.ones(1, "f4"), "few")
    sparse = helper.make_sparse_tensor(ones, onnx.numpy_helper.from_array(numpy.zeros(1, "i8"), "at"), [4])
    text = helper.make_tensor("text", proto.STRING, (1,), ["a"])
    whole = model(
        external,
        text,
        helper.make_tensor("truth", proto.BOOL, (1,), [True]),
        ones.__class__(name="odd", data_type=99),
        sparse_initializer=[sparse],
    )
    with open_tensors(whole, "m.onnx") as catalog:
        keys = {name: catalog.info(name).problem.key for name in catalog.names}
        assert catalog.info("few").shape == (4,)
    assert keys == {
        "far": "file.shard_outside",
        "few": "file.not_numbers",
        "text": "file.not_numbers",
        "truth": "file.not_numbers",
        "odd": "file.not_numbers",
    }


def test_the_snippet_cuts_out_what_it_says(tmp_path, monkeypatch):
    (tmp_path / "m.onnx").write_bytes(model(tensor_of(1, raw=True)))
    monkeypatch.chdir(tmp_path)
    exec(cut_out_snippet("m.onnx", "x"), {})
    with open_tensors("cut_out.npy") as catalog, open_tensors("m.onnx") as whole:
        assert torch.equal(catalog.load("cut_out"), whole.load("x"))
