"""onnxruntime's integer kernels: of layers, and of what stands between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

import quantviz as qv
from tests.engines.integer import Path, by_token_path, grouped_path, layer_path, operators, recorded, result
from tests.engines.integer.layers import (
    ENDS,
    Grouped,
    Layer,
    convolutions,
    grouped_convolutions,
    layers,
    near_ties,
    saturating_layers,
)

PRODUCER = "onnxruntime"
#: What kernels of AVX2 answered, made by `record_onnxruntime`.
RECORD = FilePath(__file__).with_name("saturation_onnxruntime.npz")

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


def _qlinear_conv(layer: Layer, groups: int = 1) -> np.ndarray:
    convolution = layer.convolution
    assert convolution is not None
    assert layer.bias is not None
    channels = convolution.pictures.shape[1] // groups
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
        group=groups,
    )
    return answer[0].reshape(len(layer.q_w), -1).T


def _all_convolutions() -> list[Layer]:
    return [layer for pair in _PAIRS for layer in convolutions(*pair, weight_zeros=True)]


def _all_grouped(*, depthwise: bool) -> list[Grouped]:
    return [
        each
        for pair in _PAIRS
        for each in grouped_convolutions(*pair, depthwise=depthwise, weight_zeros=True)
    ]


#: A sum of codes: two terms with their parameters and those of the sum, and the format.
Sum = tuple[np.ndarray, tuple[float, int], np.ndarray, tuple[float, int], tuple[float, int], str]


#: Codes (places, n) with their parameters, those of the averages, and the format.
Average = tuple[np.ndarray, tuple[float, int], tuple[float, int], str]
#: Codes of inputs (tokens, blocks, inputs) and scales (tokens, blocks); codes of weights (outputs, blocks,
#: inputs), their scales and zero points.
Blocked = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def sums(seed: int = 51) -> list[Sum]:
    """Return sums of codes whose scales have ratios of few digits."""
    draw = np.random.default_rng(seed)
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


def our_sum(terms: Sum, arithmetic: str) -> torch.Tensor:
    """Return our codes of a sum."""
    a, a_params, b, b_params, params, kind = terms
    pairs = [qv.QParams(*each) for each in (a_params, b_params, params)]
    return qv.add_codes(a, pairs[0], b, pairs[1], pairs[2], number_format=kind, arithmetic=arithmetic)


def averages(seed: int = 71) -> list[Average]:
    """Return codes to be averaged: patches of pictures, with scales that differ."""
    draw = np.random.default_rng(seed)
    made: list[Average] = []
    for number in range(36):
        kind = ("int8", "uint8")[number % 2]
        places, count = ((1, 1), (64, 6), (33, 9), (7, 49), (128, 4), (5, 12))[number % 6]
        params = (float(np.float32(draw.uniform(0.01, 0.1))), int(draw.integers(*ENDS[kind], endpoint=True)))
        scale = params[0] * (1.0, 0.5, float(draw.uniform(0.2, 1.2)))[number % 3]
        zero = int(draw.integers(*ENDS[kind], endpoint=True))
        codes = draw.integers(*ENDS[kind], (places, count), endpoint=True)
        made.append((codes, params, (float(np.float32(scale)), zero), kind))
    return made


def tied_averages() -> list[Average]:
    """Return averages of int8 whose multiplier is a power of two in real numbers: it ties if it is exact."""
    draw = np.random.default_rng(73)
    made: list[Average] = []
    for count in (3, 5, 6, 7, 9, 11, 41, 47, 49, 55, 61, 82, 83, 97):
        codes = draw.integers(-128, 128, (33, count)) // (1 + count // 2)
        outputs = (2.0**-4, int(draw.integers(-20, 20)))
        made.append((codes, (count * 2.0 ** -int(draw.integers(5, 8)), 0), outputs, "int8"))
    return made


def our_average(average: Average, arithmetic: str) -> torch.Tensor:
    """Return our codes of an average."""
    codes, params, outputs, kind = average
    pairs = (qv.QParams(*params), qv.QParams(*outputs))
    return qv.average_codes(codes, *pairs, number_format=kind, arithmetic=arithmetic)


def _average_feeds(average: Average) -> dict[str, np.ndarray]:
    codes, params, outputs, kind = average
    # Each place is a channel of a picture of one row.
    feeds = {"x": codes.astype(kind)[None, :, None, :]}
    for name, (scale, zero) in (("x", params), ("y", outputs)):
        feeds[f"{name}_scale"] = np.asarray(scale, np.float32)
        feeds[f"{name}_zero"] = np.asarray(zero, kind)
    return feeds


def _global_average(average: Average) -> np.ndarray:
    answer = run("QLinearGlobalAveragePool", _average_feeds(average), average[3], domain=_MICROSOFT)
    return answer.ravel()


def _pooled_average(average: Average) -> np.ndarray:
    # The places lie one after the other in one row, between two others: of a picture that one place fills,
    # the kernel of the global average answers.
    count = average[0].shape[1]
    feeds = _average_feeds(average)
    row = np.pad(feeds["x"].ravel(), count)
    feeds["x"] = row[None, None, None]
    how = {"kernel_shape": [1, count], "strides": [1, count]}
    return run("QLinearAveragePool", feeds, average[3], domain=_MICROSOFT, **how).ravel()[1:-1]


def _blocked() -> list[Blocked]:
    """Return inputs and 4-bit weights with a scale for each block of inputs, whose sums are exact in float32:
    scales are powers of two, and each block of inputs is exact in int8.
    """
    draw = np.random.default_rng(81)
    made: list[Blocked] = []
    for number in range(32):
        size, blocks = ((16, 1), (32, 3), (64, 2), (128, 5), (32, 1), (16, 7))[number % 6]
        tokens, outputs = ((1, 1), (2, 3), (7, 16), (1, 33), (3, 5))[number % 5]
        codes = draw.integers(-127, 128, (tokens, blocks, size))
        # The largest input of a block is 127 steps: DynamicQuantize then finds these codes.
        codes[..., 0] = 127 * draw.choice((-1, 1), codes.shape[:2])
        x_scale = np.exp2(draw.integers(-3, 3, codes.shape[:2])).astype(np.float32)
        weights = draw.integers(0, 16, (outputs, blocks, size))
        w_scale = np.exp2(draw.integers(-3, 3, weights.shape[:2])).astype(np.float32)
        zeros = draw.integers(0, 16, weights.shape[:2]) if number % 2 else np.full(weights.shape[:2], 8)
        made.append((codes, x_scale, weights, w_scale, zeros))
    return made


def _matmul_nbits(blocked: Blocked, level: int) -> np.ndarray:
    codes, x_scale, weights, w_scale, zeros = blocked
    tokens, blocks, size = codes.shape
    wide = np.pad(zeros, ((0, 0), (0, blocks % 2)))
    feeds = {
        "a": (codes * x_scale[..., None]).reshape(tokens, -1).astype(np.float32),
        "b": (weights[..., ::2] | weights[..., 1::2] << 4).astype(np.uint8),
        "s": w_scale.ravel(),
        "z": (wide[:, ::2] | wide[:, 1::2] << 4).astype(np.uint8).ravel(),
    }
    sizes = {"K": blocks * size, "N": len(weights), "bits": 4, "block_size": size}
    known = ("b", "s", "z")
    return run(
        "MatMulNBits", feeds, "float", domain=_MICROSOFT, constants=known, accuracy_level=level, **sizes
    )


def _our_blocks(blocked: Blocked) -> torch.Tensor:
    """Return the integer products of each block, times both scales, added up."""
    codes, x_scale, weights, w_scale, zeros = blocked
    total = torch.zeros(len(codes), len(weights))
    for block in range(codes.shape[1]):
        W = qv.Codes(weights[:, block], 1.0, zeros[:, block], "uint4")
        products = qv.integer_layer(W, qv.Codes(codes[:, block], 1.0), qv.QParams(1.0)).products
        total += products * torch.from_numpy(np.outer(x_scale[:, block], w_scale[:, block]))
    return total


@cache
def without_vnni() -> tuple[Layer, ...]:
    """Return the layers that were asked of kernels of AVX2: uint8 inputs with int8 weights."""
    return (*saturating_layers(), *layers("uint8", "int8", weight_zeros=True))


#: The kernels of which the record has answers on a processor with AVX2 and without VNNI.
AVX2 = {"MatMulInteger": _matmul_integer, "QGemm": _qgemm}


def _recorded(layer: Layer, kernel: str) -> np.ndarray:
    return recorded(RECORD, kernel, without_vnni())[id(layer)]


PATHS = (
    Path(
        "MatMulInteger",
        "the products of every engine with exact pairs",
        lambda: _all_pairs(bias=False),
        _matmul_integer,
        lambda layer: result(layer, "onnxruntime").products,
    ),
    Path(
        "MatMulInteger, AVX2 (recorded)",
        "the products of `onnxruntime_avx2`",
        without_vnni,
        partial(_recorded, kernel="MatMulInteger"),
        lambda layer: result(layer, "onnxruntime_avx2").products,
    ),
    layer_path("QLinearMatMul", "onnxruntime", lambda: _all_pairs(bias=False), _qlinear_matmul),
    layer_path("QGemm", "onnxruntime", _all_pairs, _qgemm),
    layer_path(
        "QGemm, AVX2 (recorded)", "onnxruntime_avx2", without_vnni, partial(_recorded, kernel="QGemm")
    ),
    layer_path(
        "QGemm, accumulators next to a tie",
        "onnxruntime",
        lambda: [*near_ties("int8"), *near_ties("uint8", by_output=True)],
        _qgemm,
    ),
    by_token_path("QGemm", "onnxruntime", partial(layers, "uint8", "int8", weight_zeros=True), _qgemm),
    layer_path("QLinearConv", "onnxruntime", _all_convolutions, _qlinear_conv),
    *(
        grouped_path(
            f"QLinearConv, {kind}", "onnxruntime", partial(_all_grouped, depthwise=depthwise), _qlinear_conv
        )
        for kind, depthwise in (("in groups", False), ("depthwise", True))
    ),
    Path("QLinearAdd", "`add_codes`", sums, _qlinear_add, partial(our_sum, arithmetic="onnxruntime")),
    *(
        Path(kernel, "`average_codes`", averages, theirs, partial(our_average, arithmetic=arithmetic))
        for kernel, theirs, arithmetic in (
            ("QLinearGlobalAveragePool", _global_average, "onnxruntime_global"),
            ("QLinearAveragePool", _pooled_average, "onnxruntime_pool"),
        )
    ),
    *operators.of_onnxruntime(run),
    *(
        Path(
            f"MatMulNBits, accuracy_level {level}",
            "products of each block, of layers that are exact in float32",
            _blocked,
            partial(_matmul_nbits, level=level),
            _our_blocks,
        )
        for level in (0, 4)
    ),
)
