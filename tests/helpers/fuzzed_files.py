"""Small files to damage, by reader, and what reads all that such a file has: a sentence or tensors."""

import io
import warnings

import ml_dtypes
import numpy
import torch
from safetensors.torch import save

from quantviz.errors import QuantVizError
from quantviz.sources.files import READERS, Limits, open_tensors
from quantviz.sources.files.gguf_blocks import BLOCK_TYPES
from quantviz.sources.image import CHANNELS, read_image
from quantviz.sources.layouts.decoded import model_tensors
from quantviz.text import languages
from tests.helpers import written_layouts
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.hostile import CASES, FILES, PICTURES, Case

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
    for case, said in written_layouts.CASES.items():
        own = {
            f"x.{name.removeprefix(f'{case}/')}": tensor[:64].contiguous() if tensor.dim() else tensor
            for name, tensor in written_layouts.TENSORS.items()
            if name.startswith(f"{case}/") and not name.endswith("/expected")
        }
        yield save(own, metadata=said["header"] or None)


def gguf_files():
    """Two rows of every type, of any bytes."""
    for kind in BLOCK_TYPES.values():
        raw = numpy.random.default_rng(kind.id).bytes(2 * kind.size)
        yield gguf_file([Entry("x", (kind.length, 2), kind.id, raw)])


#: What makes files of quantized weights for a reader.
QUANTIZED = {
    "gguf": gguf_files,
    "layouts": layout_files,
    "npy": numpy_files,
    "onnx": onnx_files,
    "tflite": tflite_files,
}
#: The readers' suffixes without their dot, quantized weights in safetensors, and pictures.
FUZZED = (*(reader.suffixes[0][1:] for reader in dict.fromkeys(READERS.values())), "layouts", "picture")
#: Small, so that what is read stays small.
LIMITS = Limits(elements=2**20)


def seeds(reader):
    """The valid and the hostile files of a reader."""
    if reader == "picture":
        return list(filter(None, (Case(*each).content for each in PICTURES.values())))
    quantized = QUANTIZED[reader]() if reader in QUANTIZED else []
    names = [name for name in {**FILES, **CASES} if name.endswith(f".{reader}")]
    made = [FILES[name] if name in FILES else CASES[name].content for name in names]
    return [data for data in (*made, *quantized) if 0 < len(data) < 2**17]


def read_all(reader, data):
    """Read everything in the file; what it said, if it was refused."""
    if reader == "picture":
        try:
            for channel in CHANNELS:
                read_image(data, channel, filename="x.png", longest_side=64)
        except QuantVizError as error:
            return said(error, "x.png")
        return "read"
    filename = "x.safetensors" if reader == "layouts" else f"x.{reader}"
    if reader in QUANTIZED:
        read_weights(data, filename)
    fate = "read"
    try:
        with open_tensors(data, filename, limits=LIMITS) as catalog:
            for name in catalog.names[:20]:
                try:
                    _read_whole_and_in_parts(catalog, name)
                except QuantVizError as error:
                    fate = said(error, filename)
    except QuantVizError as error:
        return said(error, filename)
    return fate


def _read_whole_and_in_parts(catalog, name):
    tensor = catalog.load(name)
    assert tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)
    assert tuple(tensor.shape) == catalog.info(name).shape
    if tensor.dim() and len(tensor):
        assert torch.equal(catalog.load(name, (slice(0, 1),)).nan_to_num(), tensor[:1].nan_to_num())
    if tensor.numel() and 1 <= tensor.dim() <= 4:
        stored = catalog.stored(name)
        assert torch.equal(
            torch.from_numpy(stored.run(0, stored.count).copy()).nan_to_num(),
            tensor.float().flatten().nan_to_num(),
        )


def said(error, filename):
    for language in languages():
        message = error.message(language)
        assert filename in message or "input_" in error.key, message
        assert len(message) < 500, message
        assert "weights_only" not in message, message
    return error.key


def read_weights(data, filename):
    """Decode some of each weight of a file, which may be damaged: a `QuantVizError` is an answer."""
    try:
        with open_tensors(data, filename, limits=LIMITS, stored_as="float8_e4m3fn") as opened:
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
