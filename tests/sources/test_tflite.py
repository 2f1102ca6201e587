"""TFLite: constant tensors and quantized weights are what LiteRT has; damaged models get a sentence."""

import time
import warnings

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.layouts import quantized_weights
from quantviz.sources.layouts.decoded import model_tensors

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    flatbuffers = pytest.importorskip("flatbuffers")

FLOAT, HALF, INT32, UINT8, INT8, INT4 = 0, 1, 2, 3, 9, 17
DTYPES = {"float32": FLOAT, "float16": HALF, "int32": INT32, "uint8": UINT8, "int8": INT8}
CONV, DEPTHWISE, DEQUANTIZE, FULLY_CONNECTED, BATCH_MATMUL = 3, 4, 6, 9, 126
W = np.random.default_rng(0).standard_normal((24, 64)).astype("f4") * 0.02


def written(tensors, operators=(), inputs=(), outputs=(), more_graphs=()):
    """A model of tensors (name, array or shape, changes) and operators (code, inputs, outputs, options)."""
    model = schema.ModelT()
    model.version, model.description = 3, b"made by a test"
    model.buffers, model.operatorCodes = [schema.BufferT()], []

    def graph(tensors, operators, inputs, outputs):
        made = schema.SubGraphT()
        made.tensors, made.operators = [], []
        made.inputs, made.outputs = list(inputs), list(outputs)
        for name, content, *more in tensors:
            tensor = schema.TensorT()
            tensor.name, tensor.buffer = name, 0
            tensor.shape = list(content if isinstance(content, tuple) else content.shape)
            if not isinstance(content, tuple):
                tensor.type = DTYPES.get(str(content.dtype), FLOAT)
                buffer = schema.BufferT()
                buffer.data = np.frombuffer(np.ascontiguousarray(content).tobytes(), "u1")
                tensor.buffer = len(model.buffers)
                model.buffers.append(buffer)
            for change in more:
                change(tensor)
            made.tensors.append(tensor)
        for code, taken, given, *options in operators:
            operator, opcode = schema.OperatorT(), schema.OperatorCodeT()
            opcode.builtinCode, opcode.deprecatedBuiltinCode, opcode.version = code, min(code, 127), 1
            operator.opcodeIndex = len(model.operatorCodes)
            model.operatorCodes.append(opcode)
            operator.inputs, operator.outputs = list(taken), list(given)
            if options:
                operator.builtinOptionsType, operator.builtinOptions = options
            made.operators.append(operator)
        return made

    model.subgraphs = [graph(tensors, operators, inputs, outputs), *(graph(*each) for each in more_graphs)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def quantization(scales, zeros=None, axis=0, details=None):
    def change(tensor):
        made = schema.QuantizationParametersT()
        made.scale, made.quantizedDimension = np.asarray(scales, "f4"), axis
        made.zeroPoint = np.asarray(np.zeros(len(scales)) if zeros is None else zeros, "i8")
        if details is not None:
            made.detailsType, made.details = details
        tensor.quantization = made

    return change


def with_type(number, shape=None):
    def change(tensor):
        tensor.type = number
        if shape is not None:
            tensor.shape = list(shape)

    return change


def fully_connected():
    options = schema.FullyConnectedOptionsT()
    return 8, options  # BuiltinOptions.FullyConnectedOptions


def layer(weight, *changes):
    """A fully connected layer; the weight is dequantized before, so that LiteRT computes in float."""
    tensors = [("x", (1, 64)), ("w", weight, *changes), ("d", (24, 64)), ("y", (1, 24))]
    operators = [(DEQUANTIZE, [1], [2]), (FULLY_CONNECTED, [0, 2, -1], [3], *fully_connected())]
    return written(tensors, operators, [0], [3])


def run(content, x):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def only(content):
    with open_tensors(content, "m.tflite") as catalog:
        (weight,) = quantized_weights(catalog)
        assert weight.problem is None, str(weight.problem)
        stored = model_tensors(catalog).stored(weight.name)
        values = torch.from_numpy(stored.run(0, stored.count).copy()).reshape(stored.shape)
        return weight, values, weight.coded(0, weight.shape[0])


def rounded(x, axis=None, dtype="i1"):
    largest = np.abs(x).max() if axis is None else np.abs(x).max(tuple(k for k in range(x.ndim) if k != axis))
    scale = np.atleast_1d(largest / 127).astype("f4")
    line = [1] * x.ndim
    line[axis or 0] = -1
    return np.rint(x / scale.reshape(line)).astype(dtype), scale


# ---- tensors ------------------------------------------------------------------------------------


def test_constant_tensors_are_read_as_litert_has_them(tmp_path):
    half = W.astype("f2")
    content = written(
        [("x", (1, 64)), ("w", W), ("h", half), ("b", np.arange(5, dtype="i4")), ("y", (1, 24))]
    )
    (tmp_path / "m.tflite").write_bytes(content)
    with open_tensors(tmp_path / "m.tflite") as catalog:
        assert (catalog.kind, catalog.names) == ("TFLite", ("w", "h", "b"))
        assert [catalog.info(name).dtype for name in catalog.names] == ["float32", "float16", "int32"]
        assert torch.equal(catalog.load("w"), torch.from_numpy(W))
        assert torch.equal(catalog.load("w", (slice(2, 9, 3), 5)), torch.from_numpy(W[2:9:3, 5].copy()))
        assert torch.equal(catalog.load("h"), torch.from_numpy(half.astype("f4")))
        assert catalog.load("b").tolist() == [0, 1, 2, 3, 4]
        stored = catalog.stored("w")
    assert np.array_equal(stored.run(64, 128), W[1])


def test_names_that_come_twice_and_other_graphs():
    content = written([("w", W), ("w", W + 1)], more_graphs=[([("w", W + 2)], (), (), ())])
    with open_tensors(content, "m.bin") as catalog:
        assert catalog.names == ("w", "w#2", "subgraph/1/w")
        assert [float(catalog.load(name)[0, 0] - W[0, 0]) for name in catalog.names] == pytest.approx(
            [0, 1, 2]
        )


def test_one_name_for_many_tensors_takes_no_longer():
    """One tensor listed again and again: 4,000 times, in 16 KB, took 1.2 s, and 8,000 times 5 s."""
    count = 30_000
    builder = flatbuffers.Builder(1024)

    def vector(size, items, add):
        builder.StartVector(size, len(items), size)
        for each in reversed(items):
            add(each)
        return builder.EndVector()

    def table(**fields):
        builder.StartObject(8)
        for slot, offset in fields.items():
            builder.PrependUOffsetTRelativeSlot(int(slot[1:]), offset, 0)
        return builder.EndObject()

    offset = builder.PrependUOffsetTRelative
    name, shape = builder.CreateString("x"), vector(4, [4], builder.PrependInt32)
    buffer = table(_0=vector(1, bytes(16), builder.PrependUint8))
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(0, shape, 0)
    builder.PrependUint32Slot(2, 1, 0)
    builder.PrependUOffsetTRelativeSlot(3, name, 0)
    tensors = vector(4, [builder.EndObject()] * count, offset)
    graphs, buffers = vector(4, [table(_0=tensors)], offset), vector(4, [table(), buffer], offset)
    builder.Finish(table(_2=graphs, _4=buffers), b"TFL3")
    start = time.process_time()
    with open_tensors(bytes(builder.Output()), "m.tflite") as catalog:
        assert catalog.names[-1] == f"x#{count}"
    assert time.process_time() - start < 20


def test_tensors_of_a_large_model_lie_behind_it():
    """Above 2 GB their bytes follow the model, at a place that the buffer names."""
    model_end = written([("w", W)])

    def elsewhere(offset):
        made = schema.ModelT.InitFromPackedBuf(model_end, 0)
        made.buffers[1].data, made.buffers[1].offset, made.buffers[1].size = None, offset, W.nbytes
        builder = flatbuffers.Builder(1024)
        builder.Finish(made.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    # The length of the model does not change with the number in it.
    length = len(elsewhere(2**20))
    content = elsewhere(length) + W.tobytes()
    with open_tensors(content, "m.tflite") as catalog:
        assert torch.equal(catalog.load("w"), torch.from_numpy(W))
    with open_tensors(content[:-1], "m.tflite") as catalog:
        assert catalog.info("w").problem.key == "file.cut_short"


# ---- quantized weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0])
def test_a_fully_connected_weight_is_what_litert_multiplies_by(axis):
    codes, scale = rounded(W, axis)
    content = layer(codes, quantization(scale))
    weight, values, result = only(content)
    rows = [run(content, row[None])[0] for row in np.eye(64, dtype="f4")]
    assert torch.allclose(values, torch.from_numpy(np.stack(rows, 1)), atol=1e-7)
    assert weight.scheme.format == "int8"
    assert weight.scheme.granularity == (qv.PerTensor() if axis is None else qv.PerChannel(0))
    again = qv.quantize(values, weight.scheme, qparams=qv.QParams(result.scale, result.zero_point))
    assert torch.equal(again.q, result.q)
    assert weight.stored_bits == pytest.approx(8 + 32 * len(scale) / W.size)


def test_zero_points_are_taken_off():
    codes = np.random.default_rng(1).integers(0, 256, W.shape).astype("u1")
    weight, values, _ = only(layer(codes, quantization([0.5], [130])))
    assert torch.equal(values, torch.from_numpy((codes.astype("f4") - 130) * np.float32(0.5)))
    assert (weight.scheme.format, weight.scheme.mode) == ("uint8", "asymmetric")


def test_codes_of_four_bits_lie_two_in_a_byte():
    codes = np.random.default_rng(2).integers(-8, 8, W.shape)
    scale = (0.1 + np.random.default_rng(3).random(24)).astype("f4")
    nibbles = (codes & 15).astype("u1").reshape(24, 32, 2)
    packed = nibbles[..., 0] | (nibbles[..., 1] << 4)
    weight, values, _ = only(layer(packed, with_type(INT4, W.shape), quantization(scale)))
    assert torch.equal(values, torch.from_numpy(codes.astype("f4") * scale[:, None]))
    assert weight.scheme.format == "int4"


@pytest.mark.parametrize(("code", "shape", "axis"), [(CONV, (8, 3, 3, 4), 0), (DEPTHWISE, (1, 3, 3, 8), 3)])
def test_a_convolutions_weight_has_its_outputs_first_or_last(code, shape, axis):
    x = np.random.default_rng(4).standard_normal(shape).astype("f4")
    codes, scale = rounded(x, axis)
    content = written(
        [("x", (1, 8, 8, 4)), ("w", codes, quantization(scale, axis=axis)), ("y", (1, 8, 8, 8))],
        [(code, [0, 1, -1], [2])],
    )
    weight, values, _ = only(content)
    expected = np.moveaxis(
        codes * scale.reshape([-1 if k == axis else 1 for k in range(4)]), axis, 0
    ).reshape(8, -1)
    assert torch.allclose(values, torch.from_numpy(expected.astype("f4").copy()))
    assert weight.scheme.granularity == qv.PerChannel(0)


def test_what_ai_edge_quantizer_writes(tmp_path):
    """Each of its recipes on one layer; its own dequantizing gives the same values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ai_edge_quantizer import quantizer, recipe

        tensors = [("x", (1, 64)), ("w", W), ("y", (1, 24))]
        content = written(tensors, [(FULLY_CONNECTED, [0, 1, -1], [2], *fully_connected())], [0], [2])
        (tmp_path / "float.tflite").write_bytes(content)
        made = {}
        for name in ("weight_only_wi8_afp32", "weight_only_wi4_afp32", "dynamic_wi8_afp32"):
            asked = quantizer.Quantizer(str(tmp_path / "float.tflite"))
            asked.load_quantization_recipe(getattr(recipe, name)())
            made[name] = bytes(asked.quantize().quantized_model)
    for name, content in made.items():
        weight, values, _ = only(content)
        scale = np.abs(W).max(1, keepdims=True) / (7 if "wi4" in name else 127)
        assert weight.scheme.format == ("int4" if "wi4" in name else "int8"), name
        assert weight.scheme.granularity == qv.PerChannel(0)
        assert np.abs(values.numpy() - W).max() <= 0.51 * scale.max()
        (tmp_path / "q.tflite").write_bytes(content)
        found = qv.audit(tmp_path / "q.tflite", tmp_path / "float.tflite")
        (each,) = (each for each in found.tensors if each.layout == "tflite")
        assert each.status == "ok"
        assert each.metrics["sqnr_db"] > (15 if "wi4" in name else 38)
        if name == "weight_only_wi8_afp32":
            rows = [run(content, row[None])[0] for row in np.eye(64, dtype="f4")]
            assert torch.allclose(values, torch.from_numpy(np.stack(rows, 1)), atol=1e-6)


def test_blocks_have_their_scales_in_another_tensor():
    codes = np.random.default_rng(5).integers(-127, 128, W.shape).astype("i1")
    scale = (0.1 + np.random.default_rng(6).random((24, 2))).astype("f2")
    details = schema.BlockwiseQuantizationT()
    details.scales, details.zeroPoints, details.blockSize = 2, -1, 32
    tensors = [
        ("x", (1, 64)),
        ("w", codes, quantization([], details=(2, details))),
        ("s", scale),
        ("y", (1, 24)),
    ]
    weight, values, _ = only(written(tensors, [(FULLY_CONNECTED, [0, 1, -1], [3], *fully_connected())]))
    assert (weight.scheme.granularity, weight.parts) == (qv.PerGroup(32), ("w", "s"))
    assert torch.equal(values, torch.from_numpy(codes * scale.astype("f4").repeat(32, 1)))


# ---- outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "place", "shape", "turned", "outputs"),
    [
        (FULLY_CONNECTED, 1, (4, 6), None, (0,)),
        (CONV, 1, (4, 3, 3, 6), None, (0,)),
        (DEPTHWISE, 1, (1, 3, 3, 6), None, (3,)),
        (67, 1, (4, 3, 3, 6), None, (0,)),
        (BATCH_MATMUL, 1, (4, 6), False, (1,)),
        (BATCH_MATMUL, 1, (4, 6), True, (0,)),
        (BATCH_MATMUL, 0, (4, 6), False, (0,)),
        (BATCH_MATMUL, 1, (2, 4, 6), False, (0, 2)),
        (44, 3, (4, 6), None, (0,)),
    ],
)
def test_the_operator_tells_the_outputs(code, place, shape, turned, outputs):
    inputs = [0] * place + [1]
    options = []
    if turned is not None:
        made = schema.BatchMatMulOptionsT()
        made.adjX, made.adjY = turned and place == 0, turned and place == 1
        options = [schema.BuiltinOptions.BatchMatMulOptions, made]
    content = written([("x", (1, 4)), ("w", np.zeros(shape, "f4"))], [(code, inputs, [], *options)])
    with open_tensors(content, "m.tflite") as catalog:
        assert catalog.orientation("w") == Orientation(outputs, "graph")


def test_a_tensor_that_no_operator_takes_is_a_guess():
    with open_tensors(written([("w", W)]), "m.tflite") as catalog:
        assert catalog.orientation("w").by == "guess"


# ---- damaged models -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        quantization([0.1] * 5),
        quantization([0.1] * 24, axis=9),
        quantization([0.1] * 24, axis=-1),
        quantization([0.1] * 24, [1] * 3),
    ],
)
def test_scales_that_do_not_fit_are_said(change):
    with open_tensors(layer(rounded(W)[0], change), "m.tflite") as catalog:
        (weight,) = quantized_weights(catalog)
    assert weight.problem.key == "layouts.scales"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (with_type(5), "file.not_numbers"),
        (with_type(99), "file.not_numbers"),
        (with_type(FLOAT, (25, 64)), "file.tensor_damaged"),
        (with_type(FLOAT, (2**31 - 1,) * 4), "file.tensor_damaged"),
    ],
)
def test_a_tensor_that_cannot_be_read_is_listed_with_its_reason(change, key):
    with open_tensors(written([("w", W, change), ("ok", W)]), "m.tflite") as catalog:
        assert catalog.info("w").problem.key == key
        assert torch.equal(catalog.load("ok"), torch.from_numpy(W))


def test_limits():
    content = written([(str(i), np.ones(2, "f4")) for i in range(50)])
    for limits, key in (
        (Limits(tensors=49), "too_many_tensors"),
        (Limits(header_bytes=1000), "header_too_large"),
    ):
        with pytest.raises(QuantVizError) as caught, open_tensors(content, "m.tflite", limits=limits):
            pass
        assert caught.value.key == f"file.{key}"


def test_a_bias_of_int32_is_read_with_the_scales_in_its_description():
    codes = np.arange(-12, 12, dtype="i4")
    scales = (np.arange(24) + 1).astype("f4") / 64
    made = written([("b", codes, quantization(scales))])
    with open_tensors(made, "m.tflite") as catalog:
        stored = model_tensors(catalog).stored("b")
        assert stored.shape == (24,)
        assert stored.run(0, 24).tolist() == (codes * scales).tolist()
