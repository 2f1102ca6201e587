"""An ONNX model of two products, and the same one quantized by ONNX Runtime (QDQ)."""

import pytest

from tests.helpers.drawn import normal as drawn


def write_onnx_pair(folder):
    """Write float.onnx, with its weights beside it, and int8.onnx into a folder, and return the folder."""
    onnx = pytest.importorskip("onnx")
    quantization = pytest.importorskip("onnxruntime.quantization")
    helper = onnx.helper
    weights = [
        onnx.numpy_helper.from_array(drawn(*shape, seed=seed).numpy(), name)
        for name, shape, seed in (("W", (8, 16), 1), ("V", (16, 4), 2))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "W"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["act"]),
            helper.make_node("MatMul", ["act", "V"], ["logits"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 4])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "float.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)

    class Reader(quantization.CalibrationDataReader):
        given = iter([{"x": drawn(32, 8).numpy()}])

        def get_next(self):
            return next(self.given, None)

    quantization.quantize_static(
        folder / "float.onnx", folder / "int8.onnx", Reader(), quant_format=quantization.QuantFormat.QDQ
    )
    return folder
