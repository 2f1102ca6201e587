"""Weights of ONNX models find their partners by the graph, whatever they are called."""

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.text import languages

onnx = pytest.importorskip("onnx")
quantization = pytest.importorskip("onnxruntime.quantization")
helper = onnx.helper

NAMES = ("onnx::MatMul_7", "onnx::MatMul_9", "onnx::MatMul_12", "onnx::MatMul_15")
NODES = tuple(
    f"/model/layers.0/{each}/MatMul" for each in ("mlp/gate_proj", "mlp/up_proj", "mlp/down_proj", "o")
)
EXCHANGED = (NAMES[1], NAMES[0], NAMES[3], NAMES[2])
RENUMBERED = ("onnx::MatMul_9", "onnx::MatMul_12", "onnx::MatMul_15", "onnx::MatMul_18")
SIZE = 32


def weights():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(SIZE, SIZE, generator=generator) for _ in NAMES]


def float_model(path, names=NAMES, nodes=NODES):
    """Write sigmoid(x·gate) · (x·up) · down · o, all weights of one shape, and return the path."""
    gate, up, down, o = names
    products = [("x", gate, "g"), ("x", up, "u"), ("h", down, "d"), ("d", o, "y")]
    made = [
        helper.make_node("MatMul", [x, w], [y], name=name)
        for (x, w, y), name in zip(products, nodes, strict=True)
    ]
    made[2:2] = [helper.make_node("Sigmoid", ["g"], ["s"]), helper.make_node("Mul", ["s", "u"], ["h"])]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", SIZE]) for n in "xy")
    tensors = [
        onnx.numpy_helper.from_array(w.numpy(), name) for w, name in zip(weights(), names, strict=True)
    ]
    graph = helper.make_graph(made, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Reader(quantization.CalibrationDataReader):
    def __init__(self):
        self.given = iter([{"x": torch.randn(8, SIZE, generator=torch.Generator().manual_seed(0)).numpy()}])

    def get_next(self):
        return next(self.given, None)


def by_blocks(source, target):
    """Write the model as ONNX Runtime's quantizer to MatMulNBits does: other names of nodes and tensors."""
    model = onnx.load(source)
    tensors = {each.name: each for each in model.graph.initializer}
    for node in [each for each in model.graph.node if each.op_type == "MatMul"]:
        name = node.input[1]
        w = torch.from_numpy(onnx.numpy_helper.to_array(tensors[name]).T.copy()).reshape(SIZE, -1, 16)
        scale = w.abs().amax(-1, keepdim=True) / 127
        parts = {
            f"{name}_Q8G16": (w / scale).round().add(128).byte(),
            f"{name}_Q8G16_scales": scale.flatten(),
        }
        model.graph.initializer.remove(tensors[name])
        model.graph.initializer.extend(onnx.numpy_helper.from_array(x.numpy(), n) for n, x in parts.items())
        made = helper.make_node(
            *("MatMulNBits", [node.input[0], *parts], list(node.output)),
            **{"name": node.name and f"{node.name}_Q8", "domain": "com.microsoft"},
            **{"N": SIZE, "K": SIZE, "bits": 8, "block_size": 16},
        )
        node.CopyFrom(made)
    onnx.save(model, target)


def static(form):
    return lambda source, target: quantization.quantize_static(source, target, Reader(), quant_format=form)


QUANTIZERS = {
    "QDQ": static(quantization.QuantFormat.QDQ),
    "QOperator": static(quantization.QuantFormat.QOperator),
    "dynamic": lambda source, target: quantization.quantize_dynamic(source, target),
    "MatMulNBits": by_blocks,
}


@pytest.mark.parametrize("how", QUANTIZERS)
@pytest.mark.parametrize("nodes", [NODES, ("",) * 4], ids=["named", "nameless"])
@pytest.mark.parametrize("names", [NAMES, EXCHANGED, RENUMBERED], ids=["same", "exchanged", "renumbered"])
def test_weights_of_one_shape_find_their_own_by_the_graph(tmp_path, how, nodes, names):
    source = float_model(tmp_path / "again.onnx", names, nodes)
    QUANTIZERS[how](source, tmp_path / "int8.onnx")
    audit = qv.audit(tmp_path / "int8.onnx", float_model(tmp_path / "float.onnx", nodes=nodes))
    found = {each.original: each for each in audit.tensors if each.is_weight}
    assert set(found) == set(NAMES)
    assert all(each.metrics["sqnr_db"] > 25 for each in found.values())
    assert audit.is_sound
    assert audit.is_complete
    for language in languages():
        said = any("graph" in message or "计算图" in message for message in audit.messages(language))
        assert said == (names is not NAMES)


def test_nodes_in_another_order_are_told_by_their_names(tmp_path):
    """Fusions exchange the operands of a product: gate and up then come in the other order."""
    path = float_model(tmp_path / "float.onnx")
    model = onnx.load(path)
    node = next(each for each in model.graph.node if each.op_type == "Mul")
    node.input[0], node.input[1] = node.input[1], node.input[0]
    onnx.save(model, tmp_path / "turned.onnx")
    audit = qv.audit(tmp_path / "turned.onnx", path)
    assert all(each.tensor == each.original and each.status == "same" for each in audit.tensors)


@pytest.mark.parametrize("how", QUANTIZERS)
def test_nodes_name_the_modules_of_pytorch(tmp_path, how):
    QUANTIZERS[how](float_model(tmp_path / "float.onnx"), tmp_path / "int8.onnx")
    modules = [node.removesuffix("/MatMul")[1:].replace("/", ".") for node in NODES]
    tensors = {f"{name}.weight": w.T.contiguous() for name, w in zip(modules, weights(), strict=True)}
    for lead in ("", "base."):
        save_file({lead + name: w for name, w in tensors.items()}, tmp_path / "model.safetensors")
        audit = qv.audit(tmp_path / "int8.onnx", tmp_path / "model.safetensors")
        found = {each.original: each for each in audit.tensors if each.is_weight}
        assert set(found) == {lead + name for name in tensors}
        assert all(each.metrics["sqnr_db"] > 25 for each in found.values())
        assert audit.is_sound
