"""onnxruntime's integer kernels: MatMulInteger, QLinearMatMul, QLinearConv, QGemm, QLinearAdd, averages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

import quantviz as qv
from tests.engines.integer import Path, layer_path, result
from tests.engines.integer.layers import ENDS, Layer, convolutions, layers, near_ties

PRODUCER = "onnxruntime"

#: The formats of inputs and weights that its kernels take.
_PAIRS = (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"))
_MICROSOFT = "com.microsoft"


def run(
    operator: str,
    feeds: Mapping[str, np.ndarray],
    kind: str,
    *,
    domain: str = "",
    constants: Sequence[str] = (),
    **attributes: Any,
) -> np.ndarray:
    """Return the output of one operator; `constants` are the inputs that are known ahead."""
    known = [numpy_helper.from_array(feeds[name], name) for name in constants]
    given = {name: value for name, value in feeds.items() if name not in constants}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
    ]
    output = helper.make_tensor_value_info("y", getattr(TensorProto, kind.upper()), None)
    node = helper.make_node(operator, list(feeds), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "graph", inputs, [output], known)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid(_MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    answer: np.ndarray = session.run(None, dict(given))[0]
    return answer


def _all_pairs(**others: Any) -> list[Layer]:
    return [layer for pair in _PAIRS for layer in layers(*pair, weight_zeros=True, **others)]


def _operands(layer: Layer) -> dict[str, np.ndarray]:
    """Return both sides with their scales and zero points, weights as (inputs, outputs)."""
    single = len(layer.s_w) == 1
    return {
        "a": layer.q_x.astype(layer.x_format),
        "a_scale": np.asarray(layer.s_x, np.float32),
        "a_zero": np.asarray(layer.z_x, layer.x_format),
        "b": np.ascontiguousarray(layer.q_w.T).astype(layer.w_format),
        "b_scale": np.asarray(layer.s_w[0] if single else layer.s_w, np.float32),
        "b_zero": np.asarray(layer.z_w[0] if single else layer.z_w, layer.w_format),
    }


def _result_of(layer: Layer) -> dict[str, np.ndarray]:
    return {
        "y_scale": np.asarray(layer.s_y, np.float32),
        "y_zero": np.asarray(layer.z_y, layer.x_format),
    }


def _matmul_integer(layer: Layer) -> np.ndarray:
    operands = _operands(layer)
    names = ("a", "b", "a_zero", "b_zero")
    return run("MatMulInteger", {name: operands[name] for name in names}, "int32")


def _qlinear_matmul(layer: Layer) -> np.ndarray:
    feeds = {**_operands(layer), **_result_of(layer)}
    return run("QLinearMatMul", feeds, layer.x_format, constants=("b", "b_scale", "b_zero"))


def _qgemm(layer: Layer) -> np.ndarray:
    bias = np.zeros(len(layer.q_w)) if layer.bias is None else layer.bias
    feeds = {**_operands(layer), "c": bias.astype(np.int32), **_result_of(layer)}
    return run(
        "QGemm", feeds, layer.x_format, domain=_MICROSOFT, constants=("b", "b_scale", "b_zero"), alpha=1.0
    )


def _qlinear_conv(layer: Layer) -> np.ndarray:
    convolution = layer.convolution
    assert convolution is not None
    assert layer.bias is not None
    channels = convolution.pictures.shape[1]
    feeds = {
        **_operands(layer),
        "a": convolution.pictures.astype(layer.x_format),
        "b": layer.q_w.reshape(-1, channels, *convolution.kernel).astype(layer.w_format),
        **_result_of(layer),
        "c": layer.bias.astype(np.int32),
    }
    answer = run(
        "QLinearConv",
        feeds,
        layer.x_format,
        constants=("b", "b_scale", "b_zero", "c"),
        kernel_shape=list(convolution.kernel),
        pads=[convolution.padding] * 4,
        strides=[convolution.stride] * 2,
        dilations=[convolution.dilation] * 2,
    )
    return answer[0].reshape(len(layer.q_w), -1).T


def _all_convolutions() -> list[Layer]:
    return [layer for pair in _PAIRS for layer in convolutions(*pair, weight_zeros=True)]


#: A sum of codes: two terms with their parameters and those of the sum, and the format.
Sum = tuple[np.ndarray, tuple[float, int], np.ndarray, tuple[float, int], tuple[float, int], str]


def _sums() -> list[Sum]:
    draw = np.random.default_rng(51)
    made: list[Sum] = []
    for number in range(32):
        kind = ("int8", "uint8")[number % 2]
        scale = np.float32(draw.uniform(0.01, 0.1))
        ratios = draw.integers(1, 64, 2) / draw.choice((2, 4, 8, 10, 20, 40, 100), 2)
        params = [
            (float(np.float32(each)), int(draw.integers(*ENDS[kind], endpoint=True)))
            for each in (*(ratios * scale), scale)
        ]
        shape = ((64, 64), (1, 7), (1, 1), (5, 1), (3, 129))[number % 5]
        terms = [draw.integers(*ENDS[kind], shape, endpoint=True) for _ in range(2)]
        made.append((terms[0], params[0], terms[1], params[1], params[2], kind))
    # By hand the first sum is −113.
    loud = ((0.02534690499305725, -106), (0.035809919238090515, -120), (0.0365859717130661, -105))
    made.append((np.array([[-114]]), loud[0], np.array([[-122]]), loud[1], loud[2], "int8"))
    return made


def _qlinear_add(terms: Sum) -> np.ndarray:
    a, a_params, b, b_params, params, kind = terms
    feeds = {}
    for name, codes, (scale, zero) in (("a", a, a_params), ("b", b, b_params), ("c", None, params)):
        if codes is not None:
            feeds[name] = codes.astype(kind)
        feeds[f"{name}_scale"] = np.asarray(scale, np.float32)
        feeds[f"{name}_zero"] = np.asarray(zero, kind)
    return run("QLinearAdd", feeds, kind, domain=_MICROSOFT)


def _our_sum(terms: Sum) -> torch.Tensor:
    a, a_params, b, b_params, params, kind = terms
    pairs = [qv.QParams(*each) for each in (a_params, b_params, params)]
    return qv.add_codes(a, pairs[0], b, pairs[1], pairs[2], number_format=kind)


PATHS = (
    Path(
        "MatMulInteger",
        "the products of every engine with exact pairs",
        lambda: _all_pairs(bias=False),
        _matmul_integer,
        lambda layer: result(layer, "onnxruntime").products,
    ),
    layer_path("QLinearMatMul", "onnxruntime", lambda: _all_pairs(bias=False), _qlinear_matmul),
    layer_path("QGemm", "onnxruntime", _all_pairs, _qgemm),
    layer_path(
        "QGemm, accumulators next to a tie",
        "onnxruntime",
        lambda: [*near_ties("int8"), *near_ties("uint8", by_output=True)],
        _qgemm,
    ),
    layer_path("QLinearConv", "onnxruntime", _all_convolutions, _qlinear_conv),
    Path("QLinearAdd", "`add_codes`", _sums, _qlinear_add, _our_sum),
)
