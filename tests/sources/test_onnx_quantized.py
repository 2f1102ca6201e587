"""Quantized weights of ONNX models are what ONNX Runtime multiplies by, whichever way the graph has them. The
graph tells which axis has the outputs; tensors in other files are read where they lie.
"""

import itertools
import json

import numpy
import pytest
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.cli import quantviz
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import onnx as onnx_reader
from quantviz.sources.files import open_tensors
from quantviz.sources.layouts import quantized_weights
from quantviz.sources.layouts.decoded import model_tensors

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper, proto, numpy_helper = onnx.helper, onnx.TensorProto, onnx.numpy_helper

INPUTS, OUTPUTS = 64, 24
DOMAINS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
W = numpy.random.default_rng(0).standard_normal((INPUTS, OUTPUTS)).astype("f4") * 0.02
SHAPE = [1, INPUTS]


def model(nodes, tensors, shape=SHAPE, out=OUTPUTS):
    """A model of one input, which is in float, and one output."""
    x = helper.make_tensor_value_info("x", proto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", proto.FLOAT, None)
    initializers = [
        each if isinstance(each, proto) else numpy_helper.from_array(each, name)
        for name, each in tensors.items()
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=DOMAINS, ir_version=10)


def run(made, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def matrix_of(made, inputs=INPUTS):
    """What a model multiplies by, outputs × inputs: its answers to each input alone."""
    rows = [run(made, row[None]) for row in numpy.eye(inputs, dtype="f4")]
    return torch.from_numpy(numpy.concatenate(rows).T.copy())


def only(made):
    """The one quantized weight of a model, and its values."""
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        (weight,) = quantized_weights(catalog)
        assert weight.problem is None, str(weight.problem)
        stored = model_tensors(catalog).stored(weight.name)
        values = torch.from_numpy(stored.run(0, stored.count).copy()).reshape(stored.shape)
        # Rows by themselves are the same.
        for start in range(0, weight.shape[0], max(weight.row_step, 5)):
            stop = min(start + max(weight.row_step, 5), weight.shape[0])
            assert torch.equal(weight.coded(start, stop).x_hat, values[start:stop])
        result = weight.coded(0, weight.shape[0])
        return weight, values, result


def codes_and_scale(x, dtype, axis=None, block=0, zero=0):
    info = numpy.iinfo(dtype)
    if block:
        rows, columns = x.shape
        largest = numpy.abs(x.reshape(rows // block, block, columns)).max(1) if axis == 0 else None
        scale = (largest / info.max).astype("f4")
        spread = scale.repeat(block, 0)
    else:
        others = tuple(k for k in range(x.ndim) if k != axis)
        scale = (numpy.abs(x).max(others if axis is not None else None) / (info.max - zero)).astype("f4")
        line = [1] * x.ndim
        if axis is not None:
            line[axis] = -1
        spread = scale.reshape(line) if axis is not None else scale
    return (numpy.rint(x / spread) + zero).clip(info.min, info.max).astype(dtype), scale


def packed4(x, signed):
    kind = proto.INT4 if signed else proto.UINT4
    return lambda name: helper.make_tensor(name, kind, x.shape, x.ravel())


MATMUL = helper.make_node("MatMul", ["x", "fc.weight"], ["y"], "fc")


def dequantize(name="fc.weight", zero=True, **attributes):
    inputs = [f"{name}_quantized", f"{name}_scale", *([f"{name}_zero_point"] if zero else [])]
    return helper.make_node("DequantizeLinear", inputs, [name], f"{name}_dq", **attributes)


def qdq(codes, scale, zero=None, nodes=(MATMUL,), **attributes):
    tensors = {"fc.weight_quantized": codes, "fc.weight_scale": scale}
    if zero is not None:
        tensors["fc.weight_zero_point"] = zero
    return model([dequantize(zero=zero is not None, **attributes), *nodes], tensors)


def check(made, granularity, fmt, mode="symmetric", tolerance=1e-6, inputs=INPUTS):
    weight, values, result = only(made)
    assert (weight.layout, weight.name) == ("onnx", "fc.weight")
    assert torch.allclose(values, matrix_of(made, inputs), rtol=1e-5, atol=tolerance)
    assert (weight.scheme.format, weight.scheme.mode, weight.scheme.granularity) == (fmt, mode, granularity)
    # Its own scheme with its own scales and zero points gives its codes and values.
    params = qv.QParams(result.scale, result.zero_point)
    again = qv.quantize(values, weight.scheme.replace(nonfinite="ignore"), qparams=params)
    assert torch.equal(again.q, result.q)
    assert torch.allclose(again.x_hat, values, atol=tolerance)
    return weight


# ---- each way a graph has them ------------------------------------------------------------------


def test_one_scale_for_all():
    codes, scale = codes_and_scale(W, "i1")
    check(qdq(codes, scale), qv.PerTensor(), "int8")
    codes, scale = codes_and_scale(W, "u1", zero=130)
    check(qdq(codes, scale, numpy.uint8(130)), qv.PerTensor(), "uint8", "asymmetric")


def test_a_scale_for_each_output():
    codes, scale = codes_and_scale(W, "i1", axis=1)
    zeros = numpy.zeros(OUTPUTS, "i1")
    check(qdq(codes, scale, zeros, axis=1), qv.PerChannel(0), "int8")
    check(qdq(codes, scale, zeros, axis=-1), qv.PerChannel(0), "int8")
    zeros = numpy.arange(OUTPUTS, dtype="i1")
    check(qdq(codes, scale, zeros, axis=1), qv.PerChannel(0), "int8", "asymmetric")


def test_a_scale_for_each_input():
    codes, scale = codes_and_scale(W, "i1", axis=0)
    check(qdq(codes, scale, axis=0), qv.PerChannel(1), "int8")


def test_blocks_along_the_inputs():
    codes, scale = codes_and_scale(W, "i1", axis=0, block=16)
    check(qdq(codes, scale, axis=0, block_size=16), qv.PerGroup(16), "int8")


def test_blocks_along_the_outputs():
    codes = numpy.random.default_rng(3).integers(-127, 128, W.shape).astype("i1")
    scale = (0.1 + numpy.random.default_rng(4).random((INPUTS, OUTPUTS // 8))).astype("f4")
    check(qdq(codes, scale, axis=1, block_size=8), qv.PerBlock(8, 1), "int8", tolerance=1e-4)


def test_the_weight_may_lie_outputs_first():
    """As Gemm takes it with transB, or MatMul behind a Transpose."""
    codes, scale = codes_and_scale(numpy.ascontiguousarray(W.T), "i1", axis=0)
    gemm = helper.make_node("Gemm", ["x", "fc.weight"], ["y"], "fc", transB=1)
    check(qdq(codes, scale, nodes=(gemm,), axis=0), qv.PerChannel(0), "int8")
    turned = helper.make_node("Transpose", ["fc.weight"], ["t"], perm=[1, 0])
    matmul = helper.make_node("MatMul", ["x", "t"], ["y"], "fc")
    check(qdq(codes, scale, nodes=(turned, matmul), axis=0), qv.PerChannel(0), "int8")
    gemm = helper.make_node("Gemm", ["x", "fc.weight"], ["y"], "fc")
    codes, scale = codes_and_scale(W, "i1", axis=1)
    check(qdq(codes, scale, nodes=(gemm,), axis=1), qv.PerChannel(0), "int8")


@pytest.mark.parametrize("signed", [True, False])
def test_codes_of_four_bits(signed):
    codes = numpy.random.default_rng(1).integers(-8 if signed else 0, 8 if signed else 16, W.shape)
    scale = numpy.full(OUTPUTS, 0.5, "f4")
    zero = (
        None if signed else helper.make_tensor("fc.weight_zero_point", proto.UINT4, [OUTPUTS], [7] * OUTPUTS)
    )
    made = qdq(packed4(codes, signed)("fc.weight_quantized"), scale, zero, axis=1)
    weight, values, _ = only(made)
    expected = (codes - (0 if signed else 7)) * 0.5
    assert torch.equal(values, torch.from_numpy(expected.T.astype("f4").copy()))
    assert weight.scheme.format == ("int4" if signed else "uint4")
    assert weight.stored_bits == pytest.approx(4 + 32 / INPUTS + (0 if signed else 4 / INPUTS), abs=0.1)


def test_codes_of_fp8():
    codes = helper.make_tensor("fc.weight_quantized", proto.FLOAT8E4M3FN, W.shape, (W * 100).ravel())
    weight, values, result = only(qdq(codes, numpy.float32(0.01)))
    expected = numpy_helper.to_array(codes).astype("f4").T * numpy.float32(0.01)
    assert torch.equal(values, torch.from_numpy(expected.copy()))
    assert weight.scheme.format == "float8_e4m3fn"
    assert result.q.dtype == torch.uint8


def test_a_convolutions_weight_is_outputs_by_all_the_rest():
    x = numpy.random.default_rng(2).standard_normal((OUTPUTS, 4, 2, 2)).astype("f4")
    codes, scale = codes_and_scale(x, "i1", axis=0)
    conv = helper.make_node("Conv", ["r", "fc.weight"], ["c"], "fc")
    shapes = {"s": numpy.array([1, 4, 2, 2]), "f": numpy.array([1, OUTPUTS])}
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["r"]), dequantize(zero=False, axis=0), conv,
        helper.make_node("Reshape", ["c", "f"], ["y"]),
    ]  # fmt: skip
    made = model(nodes, {"fc.weight_quantized": codes, "fc.weight_scale": scale, **shapes}, [1, 16])
    check(made, qv.PerChannel(0), "int8", inputs=16)


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_a_weight_in_float_that_the_model_rounds(dtype):
    """As TensorRT's models have it: QuantizeLinear and DequantizeLinear after a weight in float."""
    _, scale = codes_and_scale(W, "i1", axis=1)
    zeros = numpy.full(OUTPUTS, 0 if dtype == "i1" else 128, dtype)
    # Halves and values beyond the range: rounded to even, clamped.
    w = W.copy()
    w[0], w[1] = 2.5 * scale, 1000 * scale
    nodes = [
        helper.make_node("QuantizeLinear", ["fc.weight", "s", "z"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"], "fc"),
    ]
    made = model(nodes, {"fc.weight": w, "s": scale, "z": zeros})
    mode = "symmetric" if dtype == "i1" else "asymmetric"
    weight = check(made, qv.PerChannel(0), "int8" if dtype == "i1" else "uint8", mode, tolerance=1e-5)
    assert [note.key for note in weight.notes] == ["layouts.onnx_rounded"]


def test_what_onnxruntimes_quantizer_writes(tmp_path):
    """The nodes that multiply integers, and their scales by name."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    made = model([MATMUL], {"fc.weight": W})
    onnx.save(made, tmp_path / "float.onnx")
    for per_channel, kind in itertools.product((True, False), (QuantType.QInt8, QuantType.QUInt8)):
        path = tmp_path / f"{per_channel}{kind}.onnx"
        quantize_dynamic(tmp_path / "float.onnx", path, per_channel=per_channel, weight_type=kind)
        written = onnx.load(path)
        names = {each.name: numpy_helper.to_array(each) for each in written.graph.initializer}
        zero = names["fc.weight_zero_point"].astype("f4")
        expected = (names["fc.weight_quantized"].astype("f4") - zero) * names["fc.weight_scale"]
        weight, values, _ = only(written)
        assert weight.name == "fc.weight"
        assert torch.allclose(values, torch.from_numpy(expected.T.copy()), atol=1e-7)
        found = qv.audit(path, tmp_path / "float.onnx")
        (each,) = (each for each in found.tensors if each.status == "ok")
        assert each.metrics["sqnr_db"] > 30


def test_qlinear_nodes_have_the_scales_beside():
    codes, scale = codes_and_scale(W, "i1", axis=1)
    one, nil = numpy.float32(0.01), numpy.uint8(0)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "a", "az"], ["xq"]),
        helper.make_node(
            "QLinearMatMul", ["xq", "a", "az", "fc.weight_quantized", "s", "z", "o", "oz"], ["yq"]
        ),
        helper.make_node("DequantizeLinear", ["yq", "o", "oz"], ["y"]),
    ]
    tensors = {
        "a": one, "az": nil, "fc.weight_quantized": codes, "s": scale, "z": numpy.zeros(OUTPUTS, "i1"),
        "o": one, "oz": numpy.uint8(128),
    }  # fmt: skip
    weight, values, _ = only(model(nodes, tensors))
    assert (weight.name, weight.scheme.granularity) == ("fc.weight", qv.PerChannel(0))
    assert torch.equal(values, torch.from_numpy((codes.astype("f4") * scale).T.copy()))


# ---- MatMulNBits --------------------------------------------------------------------------------


def n_bits(bits, size, inputs, zeros=None, order=None, seed=0):
    rng = numpy.random.default_rng(seed)
    blocks = -(-inputs // size)
    codes = rng.integers(0, 2**bits, (OUTPUTS, blocks * size)).astype("u1")
    scales = (0.1 + rng.random((OUTPUTS, blocks))).astype("f4")

    def pack(x):
        x = numpy.pad(x, ((0, 0), (0, -x.shape[1] % (8 // bits))))
        each = x.reshape(x.shape[0], -1, 8 // bits).astype("u1")
        return sum(each[..., k] << numpy.uint8(k * bits) for k in range(8 // bits)).astype("u1")

    tensors = {"fc.weight_Q4": pack(codes).reshape(OUTPUTS, blocks, -1), "fc.weight_scales": scales.ravel()}
    names = ["x", "fc.weight_Q4", "fc.weight_scales"]
    middle = numpy.full((OUTPUTS, blocks), 2 ** (bits - 1), "f4")
    if zeros is not None:
        middle = rng.integers(0, 2**bits, (OUTPUTS, blocks)).astype("f4")
        packed = zeros == "packed"
        tensors["fc.zeros"] = (
            pack(middle.astype("u1")).ravel() if packed else middle.ravel() + numpy.float32(0.25)
        )
        middle += 0 if packed else 0.25
        names.append("fc.zeros")
    group = numpy.arange(inputs) // size
    if order is not None:
        group = rng.permutation(group)
        tensors["fc.g_idx"] = group.astype("i4")
        names += [""] * (4 - len(names)) + ["fc.g_idx"]
    node = helper.make_node(
        "MatMulNBits",
        names,
        ["y"],
        "fc_Q4",
        domain="com.microsoft",
        K=inputs,
        N=OUTPUTS,
        bits=bits,
        block_size=size,
    )
    expected = (codes[:, :inputs].astype("f4") - middle[:, group]) * scales[:, group]
    return model([node], tensors, [1, inputs]), torch.from_numpy(expected)


@pytest.mark.parametrize("zeros", [None, "packed", "float"])
@pytest.mark.parametrize(
    ("bits", "size", "inputs"), [(4, 32, 64), (4, 16, 72), (4, 32, 96), (8, 32, 64), (2, 64, 128)]
)
def test_matmul_n_bits(bits, size, inputs, zeros):
    made, expected = n_bits(bits, size, inputs, zeros)
    weight, values, _ = only(made)
    assert (weight.name, weight.shape) == ("fc.weight", (OUTPUTS, inputs))
    assert torch.allclose(values, expected, rtol=1e-6, atol=1e-6)
    if zeros == "float":
        assert weight.scheme is None
    else:
        assert (weight.scheme.format, weight.scheme.granularity) == (f"uint{bits}", qv.PerGroup(size))
    if bits == 4 and inputs % size == 0 and zeros != "float":
        assert torch.allclose(values, matrix_of(made, inputs), rtol=1e-4, atol=1e-3)


def test_groups_that_are_no_neighbours():
    made, expected = n_bits(4, 32, 96, order=True)
    weight, values, _ = _decoded(made)
    assert weight.columns is not None
    assert torch.allclose(values, expected, atol=1e-6)


def _decoded(made):
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        (weight,) = quantized_weights(catalog)
        stored = model_tensors(catalog).stored(weight.name)
        values = torch.from_numpy(stored.run(0, stored.count).copy()).reshape(stored.shape)
        return weight, values, None


EMBEDDINGS = [
    ("uint8", 4, 32, False),
    ("uint8", 4, 32, True),
    ("uint8", 2, 16, True),
    ("uint8", 8, 32, False),
    ("uint8", 8, 32, True),
    ("int4", 4, 32, False),
    ("uint4", 4, 16, True),
    ("float8e4m3fn", 8, 32, False),
    ("float8e4m3fn", 8, 0, False),
]


def gathered(dtype, bits, block, zeros, rows=40, columns=96):
    """An embedding of random codes, scales and zero points."""
    random = numpy.random.default_rng(bits)
    blocks = columns // block if block else 1
    scales = numpy.abs(random.standard_normal((rows, blocks))).astype("f4") + 0.1
    low, high = (-8, 8) if dtype == "int4" else (0, 1 << bits)
    tensors, kind = {"scales": scales}, getattr(proto, dtype.upper())
    for name, width in (("embed_Q4", columns), *((("zero", blocks),) if zeros else ())):
        codes = random.integers(low, high, (rows, width))
        if dtype == "uint8":
            a_byte = 8 // bits
            padded = numpy.pad(codes, ((0, 0), (0, -width % a_byte))).reshape(rows, -1, a_byte)
            tensors[name] = (padded << (numpy.arange(a_byte) * bits)).sum(-1).astype("u1")
        elif dtype.startswith("float"):
            codes = random.standard_normal((rows, width)).astype("f4") * 9
            tensors[name] = helper.make_tensor(name, kind, codes.shape, codes.flatten().tolist())
        else:
            tensors[name] = helper.make_tensor(name, kind, codes.shape, codes.flatten().tolist())
    inputs = ["embed_Q4", "x", "scales", *(["zero"] if zeros else [])]
    more = {"bits": bits} if dtype == "uint8" else {}
    node = helper.make_node(
        "GatherBlockQuantized",
        inputs,
        ["y"],
        domain="com.microsoft",
        block_size=block,
        quantize_axis=1,
        gather_axis=0,
        **more,
    )
    made = model([node], tensors, shape=[None])
    made.graph.input[0].type.tensor_type.elem_type = proto.INT64
    return made


@pytest.mark.parametrize(("dtype", "bits", "block", "zeros"), EMBEDDINGS)
def test_embeddings_of_gather_block_quantized(dtype, bits, block, zeros):
    made = gathered(dtype, bits, block, zeros)
    weight, values, result = only(made)
    theirs = torch.from_numpy(run(made, numpy.arange(40, dtype="i8")))
    assert (weight.name, weight.shape) == ("embed", (40, 96))
    assert torch.allclose(values, theirs, rtol=1e-6, atol=0)
    assert weight.scheme.granularity.size == (block or 96)
    assert result.q.shape == weight.shape


@pytest.mark.parametrize("bits", [3, 5, 6, 7])
def test_bits_that_onnxruntime_does_not_run_are_not_read(bits):
    made = n_bits(4, 32, INPUTS)[0]
    node = next(each for each in made.graph.node if each.op_type == "MatMulNBits")
    next(each for each in node.attribute if each.name == "bits").i = bits
    with pytest.raises(Exception, match="bits"):
        run(made, numpy.zeros((1, INPUTS), "f4"))
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        (weight,) = quantized_weights(catalog)
        assert weight.problem.key in ("layouts.onnx_n_bits", "layouts.damaged")


def test_weights_that_lie_as_a_kernel_wants_them_are_not_read():
    made = n_bits(4, 32, INPUTS)[0]
    node = next(each for each in made.graph.node if each.op_type == "MatMulNBits")
    node.attribute.append(helper.make_attribute("weight_prepacked", 1))
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        (weight,) = quantized_weights(catalog)
        assert weight.problem.key == "layouts.kernels"


def test_what_only_its_kernels_decode_is_named():
    node = helper.make_node(
        "MatMulBnb4", ["x", "fc.weight_Bnb4", "a"], ["y"], domain="com.microsoft", K=64, N=24
    )
    made = model([node], {"fc.weight_Bnb4": numpy.zeros(768, "u1"), "a": numpy.ones(24, "f4")})
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        (weight,) = quantized_weights(catalog)
    assert weight.problem.key == "layouts.kernels"
    assert "MatMulBnb4" in str(weight.problem)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"fc.weight_scale": numpy.ones(OUTPUTS + 1, "f4")}, "layouts.scales"),
        ({"fc.weight_scale": numpy.ones((2, 2), "f4")}, "layouts.scales"),
        ({"fc.weight_zero_point": numpy.zeros(3, "i1")}, "layouts.scales"),
    ],
)
def test_tensors_that_do_not_fit_are_said(change, key):
    codes, scale = codes_and_scale(W, "i1", axis=1)
    tensors = {
        "fc.weight_quantized": codes,
        "fc.weight_scale": scale,
        "fc.weight_zero_point": numpy.zeros(OUTPUTS, "i1"),
    }
    made = model([dequantize(axis=1), MATMUL], tensors | change)
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        (weight,) = quantized_weights(catalog)
    assert weight.problem.key == key
    for attributes in ({"axis": 9}, {"axis": 0, "block_size": 7}, {"axis": 1, "block_size": -3}):
        made = model([dequantize(**attributes), MATMUL], tensors)
        with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
            (weight,) = quantized_weights(catalog)
        assert weight.problem is not None


# ---- the graph tells the outputs ------------------------------------------------------------------


def orientations(nodes, **shapes):
    made = model(nodes, {name: numpy.zeros(shape, "f4") for name, shape in shapes.items()})
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        return {name: catalog.orientation(name) for name in shapes}


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "shape", "outputs"),
    [
        ("MatMul", ["x", "w"], {}, (4, 6), (1,)),
        ("MatMul", ["w", "x"], {}, (4, 6), (0,)),
        ("MatMul", ["x", "w"], {}, (3, 4, 6), (0, 2)),
        ("Gemm", ["x", "w"], {}, (4, 6), (1,)),
        ("Gemm", ["x", "w"], {"transB": 1}, (4, 6), (0,)),
        ("Gemm", ["w", "x"], {}, (4, 6), (0,)),
        ("Gemm", ["w", "x"], {"transA": 1}, (4, 6), (1,)),
        ("Conv", ["x", "w"], {}, (4, 6, 3, 3), (0,)),
        ("ConvTranspose", ["x", "w"], {}, (4, 6, 3, 3), (1,)),
        ("LSTM", ["x", "w", "r"], {}, (1, 8, 6), (0, 1)),
    ],
)
def test_the_operator_tells_the_outputs(operator, inputs, attributes, shape, outputs):
    found = orientations([helper.make_node(operator, inputs, ["y"], **attributes)], w=shape)
    assert found["w"] == Orientation(outputs, "graph")


def test_nodes_between_are_followed():
    nodes = [
        helper.make_node("Cast", ["w"], ["a"], to=1),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("Identity", ["b"], ["c"]),
        helper.make_node("MatMul", ["x", "c"], ["y"]),
    ]
    assert orientations(nodes, w=(4, 6))["w"] == Orientation((0,), "graph")
    # An embedding that the last layer shares is a lookup besides, which tells nothing.
    shared = [
        helper.make_node("Gather", ["w", "x"], ["e"]),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["e", "t"], ["y"]),
    ]
    assert orientations(shared, w=(50, 6))["w"] == Orientation((0,), "graph")
    both = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Gemm", ["x", "w"], ["y"], transB=1),
    ]
    assert orientations(both, w=(4, 6))["w"].by == "guess"
    # Nodes in a circle end.
    loop = [helper.make_node("Identity", ["w"], ["a"]), helper.make_node("Identity", ["a"], ["a"])]
    assert orientations(loop, w=(4, 6))["w"].by == "guess"


def test_a_name_of_an_inner_graph_is_its_own():
    inner = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["z"], transB=1)],
        "i",
        [],
        [],
        [numpy_helper.from_array(W, "w")],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("If", ["c"], ["v"], "if", then_branch=inner),
    ]
    made = model(nodes, {"w": W})
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        assert catalog.orientation("w").outputs == (1,)
        assert catalog.orientation("graph/if/then_branch/w").outputs == (0,)


def test_a_constant_is_a_weight_too():
    constant = helper.make_node("Constant", [], ["w"], "c", value=numpy_helper.from_array(W, ""))
    made = model([constant, helper.make_node("MatMul", ["x", "w"], ["y"])], {})
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        assert catalog.orientation("graph/c/value") == Orientation((1,), "graph")


# ---- tensors in other files -----------------------------------------------------------------------


def saved_apart(folder, **options):
    made = model([MATMUL], {"fc.weight": W, "b": numpy.arange(OUTPUTS, dtype="f4")})
    options = {"location": "weights.data", "size_threshold": 0} | options
    onnx.save(made, folder / "model.onnx", save_as_external_data=True, **options)
    return folder / "model.onnx"


@pytest.mark.parametrize("together", [True, False])
def test_external_data_is_read_where_it_lies(tmp_path, together, monkeypatch):
    monkeypatch.setattr(onnx_reader, "_MOST_OPEN", 1)
    path = saved_apart(tmp_path, all_tensors_to_one_file=together)
    with open_tensors(path) as catalog:
        assert torch.equal(catalog.load("fc.weight"), torch.from_numpy(W))
        assert torch.equal(catalog.load("b", (slice(3, 6),)), torch.arange(3.0, 6.0))
        assert torch.equal(catalog.load("fc.weight", (slice(2, 4), 5)), torch.from_numpy(W[2:4, 5].copy()))
        stored = catalog.stored("fc.weight")
        assert catalog.raw("b").source is not None
    # It outlives the file's being open.
    assert numpy.array_equal(stored.run(0, W.size), W.ravel())
    found = qv.scan(path, ["int8_per_row"], results=tmp_path / "r.sqlite")
    row = found[found.tensor == "fc.weight"].iloc[0]
    right = qv.metrics(qv.quantize(torch.from_numpy(W.T.copy()), qv.RECIPES["int8_per_row"]))
    assert row.sqnr_db == pytest.approx(right["sqnr_db"], abs=1e-6)


def test_external_data_may_lie_below_and_be_links(tmp_path):
    path = saved_apart(tmp_path)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "weights.data").rename(tmp_path / "blobs" / "0a1b")
    (tmp_path / "weights.data").symlink_to(tmp_path / "blobs" / "0a1b")
    with open_tensors(path) as catalog:
        assert torch.equal(catalog.load("fc.weight"), torch.from_numpy(W))
    made = onnx.load(path, load_external_data=False)
    for each in made.graph.initializer:
        next(entry for entry in each.external_data if entry.key == "location").value = "blobs/0a1b"
    onnx.save(made, tmp_path / "below.onnx")
    with open_tensors(tmp_path / "below.onnx") as catalog:
        assert torch.equal(catalog.load("fc.weight"), torch.from_numpy(W))


@pytest.mark.parametrize(
    ("entries", "key"),
    [
        ({"location": "../secret.data"}, "shard_outside"),
        ({"location": "/etc/passwd"}, "shard_outside"),
        ({"location": ".hidden"}, "shard_outside"),
        ({"location": "a/../../secret.data"}, "shard_outside"),
        ({"location": "C:\\secret"}, "shard_outside"),
        ({"location": ""}, "shard_outside"),
        ({"location": "gone.data"}, "missing"),
        ({"location": "folder"}, "is_folder"),
        ({"location": "pointer.data"}, "is_lfs"),
        ({"location": "short.data"}, "cut_short"),
        ({"location": "weights.data", "offset": "99999999999999"}, "cut_short"),
        ({"location": "weights.data", "offset": "-4"}, "tensor_damaged"),
        ({"location": "weights.data", "offset": "1e3"}, "tensor_damaged"),
        ({"location": "weights.data", "offset": "9" * 30}, "tensor_damaged"),
        ({"location": "weights.data", "length": "8"}, "tensor_damaged"),
    ],
)
def test_external_data_is_taken_for_hostile(tmp_path, entries, key):
    folder = tmp_path / "model"
    folder.mkdir()
    saved_apart(folder)
    (folder / "folder").mkdir()
    (tmp_path / "secret.data").write_bytes(W.tobytes())
    (folder / ".hidden").write_bytes(W.tobytes())
    (folder / "short.data").write_bytes(b"\1" * 100)
    (folder / "pointer.data").write_text("version https://git-lfs.github.com/spec/v1\nsize 9\n")
    far = proto(name="w", data_type=1, dims=W.shape, data_location=1)
    for name, value in entries.items():
        far.external_data.add(key=name, value=value)
    onnx.save(model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": far}), folder / "far.onnx")
    with open_tensors(folder / "far.onnx") as catalog:
        assert catalog.info("w").problem.key == f"file.{key}"
        with pytest.raises(QuantVizError) as caught:
            catalog.load("w")
        assert caught.value.key == f"file.{key}"


def test_an_upload_says_that_its_data_are_elsewhere(tmp_path):
    with open_tensors(saved_apart(tmp_path).read_bytes(), "model.onnx") as catalog:
        problem = catalog.info("fc.weight").problem
    assert (problem.key, problem.params["location"]) == ("file.onnx_external", "weights.data")


# ---- every way in -------------------------------------------------------------------------------


def test_an_audit_of_what_people_ship(tmp_path):
    """The float model beside it lies inputs × outputs, or outputs × inputs as PyTorch has it."""
    import safetensors.torch

    codes, scale = codes_and_scale(W, "i1", axis=1)
    onnx.save(qdq(codes, scale, numpy.zeros(OUTPUTS, "i1"), axis=1), tmp_path / "qdq.onnx")
    onnx.save(model([MATMUL], {"fc.weight": W}), tmp_path / "float.onnx")
    safetensors.torch.save_file({"fc.weight": torch.from_numpy(W.T.copy())}, tmp_path / "float.safetensors")
    right = 10 * numpy.log10((W**2).sum() / ((codes * scale - W) ** 2).sum())
    for original in ("float.onnx", "float.safetensors"):
        done = CliRunner().invoke(
            quantviz, ["compare", str(tmp_path / "qdq.onnx"), str(tmp_path / original), "--format", "json"]
        )
        assert done.exit_code == 0, done.output
        (row,) = json.loads(done.stdout)
        assert row["sqnr_db"] == pytest.approx(right, abs=0.01)
        assert (row["layout"], row["format"], row["rounding"]) == ("onnx", "int8", "nearest")
    measured = CliRunner().invoke(
        quantviz,
        ["measure", str(tmp_path / "qdq.onnx"), "fc.weight", "-s", "int8_per_row", "--format", "json"],
    )
    assert json.loads(measured.stdout)[0]["shape"] == [OUTPUTS, INPUTS]


@pytest.mark.parametrize("one_scale", [False, True])
def test_a_bias_of_int32_is_read_with_its_scale_and_counts_as_no_weight(tmp_path, one_scale):
    codes, scale = codes_and_scale(W, "i1", axis=1)
    bias = numpy.random.default_rng(1).standard_normal(OUTPUTS).astype("f4")
    of_bias = numpy.float32(0.001) if one_scale else (scale * numpy.float32(0.01))
    nodes = [
        helper.make_node("DequantizeLinear", ["fc.weight_quantized", "s"], ["fc.weight"], axis=1),
        helper.make_node("DequantizeLinear", ["fc.bias_quantized", "s_bias"], ["fc.bias"], axis=0),
        helper.make_node("MatMul", ["x", "fc.weight"], ["z"]),
        helper.make_node("Add", ["z", "fc.bias"], ["y"]),
    ]
    whole = numpy.rint(bias / of_bias).astype("i4")
    tensors = {"fc.weight_quantized": codes, "s": scale, "fc.bias_quantized": whole, "s_bias": of_bias}
    made = model(nodes, tensors)
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        stored = model_tensors(catalog).stored("fc.bias")
        assert stored.shape == (OUTPUTS,)
        assert stored.run(3, 7).tolist() == stored.read((slice(3, 7),)).tolist()
        theirs = run(made, numpy.zeros((1, INPUTS), "f4"))[0]
        assert numpy.allclose(stored.run(0, OUTPUTS), theirs, rtol=1e-6)
    onnx.save(made, tmp_path / "qdq.onnx")
    float_nodes = nodes[2:]
    onnx.save(model(float_nodes, {"fc.weight": W, "fc.bias": bias}), tmp_path / "float.onnx")
    audit = qv.audit(tmp_path / "qdq.onnx", tmp_path / "float.onnx")
    assert audit.is_sound, audit.messages()
    assert {each.tensor: each.status for each in audit.tensors} == {"fc.weight": "ok", "fc.bias": "ok"}
    assert next(each for each in audit.tensors if each.tensor == "fc.bias").metrics["sqnr_db"] > 40
    assert audit.verdict.startswith("1 quantized weight compared")
    assert audit.account.coverage("quantized").whole.weights == 1


def test_a_bias_of_codes_that_are_multiplied_has_the_product_of_both_scales():
    """With zeros as inputs ONNX Runtime gives the bias, in codes of this very scale."""
    scales = {"s_x": numpy.float32(0.5), "s_w": numpy.float32(0.25), "s_y": numpy.float32(0.125)}
    zeros = {name: numpy.zeros((), "i1") for name in ("z_x", "z_w", "z_y")}
    codes = numpy.random.default_rng(0).integers(-9, 9, (OUTPUTS, INPUTS)).astype("i1")
    whole = numpy.arange(-12, OUTPUTS - 12, dtype="i4")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s_x", "z_x"], ["x_q"]),
        helper.make_node(
            *(
                "QGemm",
                ["x_q", "s_x", "z_x", "w_q", "s_w", "z_w", "fc.bias_quantized", "s_y", "z_y"],
                ["y_q"],
            ),
            domain="com.microsoft",
            transB=1,
        ),
        helper.make_node("DequantizeLinear", ["y_q", "s_y", "z_y"], ["y"]),
    ]
    made = model(nodes, {**scales, **zeros, "w_q": codes, "fc.bias_quantized": whole})
    with open_tensors(made.SerializeToString(), "m.onnx") as catalog:
        weights = {weight.name: weight for weight in quantized_weights(catalog)}
        assert weights["fc.bias"].parts == ("fc.bias_quantized", "s_x", "s_w")
        stored = model_tensors(catalog).stored("fc.bias")
        theirs = run(made, numpy.zeros((1, INPUTS), "f4"))[0]
        assert stored.run(0, OUTPUTS).tolist() == theirs.tolist() == (whole * 0.125).tolist()
