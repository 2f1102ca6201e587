"""Small files of quantized weights, by reader, and what reads all that such a file has."""

import io
import warnings

import ml_dtypes
import numpy
from safetensors.torch import save

from quantviz.errors import QuantVizError
from quantviz.sources.files import open_tensors
from quantviz.sources.layouts.decoded import model_tensors
from quantviz.text import languages
from tests.helpers.written_layouts import CASES, TENSORS

#: Rows of a damaged weight that are decoded.
_ROWS = 2**10


def onnx_files():
    """QDQ by axis and in blocks, MatMulNBits and GatherBlockQuantized."""
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(0)
    codes, scale = random.integers(-127, 128, (64, 24), "i1"), random.random(24).astype("f4")
    packed = random.integers(0, 256, (24, 2, 16)).astype("u1")
    blocks = random.random((2, 24)).astype("f4")
    multiply = helper.make_node("MatMul", ["x", "w"], ["y"])
    models = {
        "axis": ([helper.make_node("DequantizeLinear", ["w_q", "s"], ["w"], axis=1), multiply], codes, scale),
        "blocks": (
            [helper.make_node("DequantizeLinear", ["w_q", "s"], ["w"], axis=0, block_size=32), multiply],
            codes,
            blocks,
        ),
        "bits": (
            [
                helper.make_node(
                    *("MatMulNBits", ["x", "w_q", "s"], ["y"]),
                    domain="com.microsoft",
                    K=64,
                    N=24,
                    bits=4,
                    block_size=32,
                )
            ],
            packed,
            blocks.T.copy(),
        ),
        "gather": (
            [
                helper.make_node(
                    *("GatherBlockQuantized", ["w_q", "x", "s"], ["y"]),
                    domain="com.microsoft",
                    block_size=32,
                    quantize_axis=1,
                )
            ],
            packed[:, 0],
            blocks.T.copy()[:, :1],
        ),
    }
    for nodes, weight, scales in models.values():
        tensors = [numpy_helper.from_array(weight, "w_q"), numpy_helper.from_array(scales, "s")]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        yield helper.make_model(helper.make_graph(nodes, "g", [x], [y], tensors)).SerializeToString()


def tflite_files():
    """A weight of int8 with scales by axis, one of int4, and one in float."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ai_edge_litert.schema_py_generated as schema
        import flatbuffers
    for kind, bits in ((9, 8), (17, 4), (0, 32)):
        tensor, quantization, buffer = schema.TensorT(), schema.QuantizationParametersT(), schema.BufferT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = "w", [8, 16], kind, 1
        if bits < 32:
            quantization.scale, quantization.zeroPoint = [0.5] * 8, [0] * 8
            quantization.quantizedDimension = 0
            tensor.quantization = quantization
        buffer.data = numpy.arange(8 * 16 * bits // 8, dtype="u1")
        graph, model = schema.SubGraphT(), schema.ModelT()
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [tensor], [], [], []
        model.version, model.subgraphs, model.operatorCodes = 3, [graph], []
        model.buffers = [schema.BufferT(), buffer]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        yield bytes(builder.Output())


def numpy_files():
    """Arrays of ml_dtypes, whose headers tell the dtype or do not."""
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "int4"):
        stream = io.BytesIO()
        numpy.save(stream, numpy.arange(12).reshape(3, 4).astype("f4").astype(getattr(ml_dtypes, name)))
        yield stream.getvalue()


def layout_files():
    """Weights of every layout that a library wrote, one file each."""
    for case, said in CASES.items():
        own = {
            f"x.{name.removeprefix(f'{case}/')}": tensor[:64].contiguous() if tensor.dim() else tensor
            for name, tensor in TENSORS.items()
            if name.startswith(f"{case}/") and not name.endswith("/expected")
        }
        yield save(own, metadata=said["header"] or None)


#: What makes the files of a reader.
QUANTIZED = {"onnx": onnx_files, "tflite": tflite_files, "npy": numpy_files, "layouts": layout_files}


def read_weights(data, filename, limits):
    """Decode some of each weight of a file, which may be damaged: a `QuantVizError` is an answer."""
    try:
        with open_tensors(data, filename, limits=limits, stored_as="float8_e4m3fn") as opened:
            model = model_tensors(opened)
            for name in model.names[:20]:
                _read_some(model, name)
    except QuantVizError as error:
        _check_words(error)


def _read_some(model, name):
    try:
        info = model.info(name)
        if info.problem:
            raise info.problem.again()
        if len(info.shape) == 2 and info.count:
            rows = min(info.shape[0], max(1, _ROWS // info.shape[1]))
            assert model.load(name, (slice(0, rows),)).shape == (rows, info.shape[1])
    except QuantVizError as error:
        _check_words(error)


def _check_words(error):
    for language in languages():
        assert 0 < len(error.message(language)) < 1000
