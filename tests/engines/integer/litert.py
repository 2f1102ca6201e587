"""LiteRT's integer kernels on CPU: the reference ones, the optimized ones on ruy, and XNNPACK."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flatbuffers
import numpy as np
import torch

from tests.engines.integer import Path, by_token_path, grouped_path, layer_path, operators, result
from tests.engines.integer.layers import (
    Convolution,
    Grouped,
    Layer,
    convolutions,
    grouped_convolutions,
    layers,
    near_ties,
    tied_sixes,
    wide_layers,
)
from tests.engines.integer.onnxruntime import (
    Average,
    Sum,
    averages,
    our_average,
    our_sum,
    sums,
    tied_averages,
)

# It is read by the runtime when it is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ai_edge_litert import interpreter
    from ai_edge_litert import schema_py_generated as schema

PRODUCER = "ai-edge-litert"

_RESOLVERS = interpreter.OpResolverType
_REFERENCE, _RUY, _XNNPACK = (
    _RESOLVERS.BUILTIN_REF,
    _RESOLVERS.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    _RESOLVERS.AUTO,
)
_ACTIVATIONS = {
    "none": schema.ActivationFunctionType.NONE,
    "relu": schema.ActivationFunctionType.RELU,
    "relu6": schema.ActivationFunctionType.RELU6,
}


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model: its shape and type, its scale and zero point, and its values if they are known."""

    shape: Sequence[int]
    kind: str
    scale: Any
    zero: int = 0
    values: np.ndarray | None = None
    #: The axis along which scales differ.
    axis: int = 0


def run(
    operator: tuple[int, int, int],
    options: Any,
    tensors: Sequence[Tensor],
    given: Sequence[np.ndarray],
    resolver: Any,
) -> np.ndarray:
    """Return the output of one operator: the last of the tensors; the first ones are given.

    `operator` is its code, its version and the type of its options.
    """
    made = interpreter.Interpreter(
        model_content=_model(operator, options, tensors),
        experimental_op_resolver_type=resolver,
        num_threads=1,
    )
    made.allocate_tensors()
    for details, values in zip(made.get_input_details(), given, strict=True):
        made.set_tensor(details["index"], values)
    made.invoke()
    answer: np.ndarray = made.get_tensor(made.get_output_details()[0]["index"])
    return answer


def _model(operator: tuple[int, int, int], options: Any, tensors: Sequence[Tensor]) -> bytes:
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = operator[0]
    code.version = operator[1]
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.operatorCodes, model.buffers = 3, [code], [schema.BufferT()]
    graph.tensors = []
    for number, each in enumerate(tensors):
        buffer = 0
        if each.values is not None:
            stored = schema.BufferT()
            stored.data = np.frombuffer(np.ascontiguousarray(each.values).tobytes(), np.uint8)
            model.buffers.append(stored)
            buffer = len(model.buffers) - 1
        graph.tensors.append(_tensor(each, f"t{number}", buffer))
    last = len(tensors) - 1
    node = schema.OperatorT()
    node.opcodeIndex, node.inputs, node.outputs = 0, list(range(last)), [last]
    node.builtinOptionsType, node.builtinOptions = operator[2], options
    graph.operators, graph.outputs = [node], [last]
    graph.inputs = [number for number in range(last) if tensors[number].values is None]
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _tensor(each: Tensor, name: str, buffer: int) -> Any:
    made, quantization = schema.TensorT(), schema.QuantizationParametersT()
    scales = np.atleast_1d(np.asarray(each.scale, np.float32))
    quantization.scale = scales.tolist()
    quantization.zeroPoint = [each.zero] * len(scales)
    quantization.quantizedDimension = each.axis
    made.name, made.shape, made.buffer = name, list(each.shape), buffer
    made.type, made.quantization = getattr(schema.TensorType, each.kind.upper()), quantization
    return made


def _parameters(layer: Layer, kernel: np.ndarray, places: tuple[int, ...], axis: int = 0) -> list[Tensor]:
    """Return weights, whose outputs lie along an axis, bias and output."""
    bias = np.zeros(len(layer.q_w)) if layer.bias is None else layer.bias
    sums = "int64" if layer.x_format == "int16" else "int32"
    return [
        Tensor(kernel.shape, "int8", layer.s_w, 0, kernel.astype(np.int8), axis),
        Tensor((len(bias),), sums, layer.s_w * layer.s_x, 0, bias.astype(sums)),
        Tensor((*places, len(bias)), layer.x_format, layer.s_y, layer.z_y),
    ]


def _kernel(layer: Layer, groups: int = 1) -> np.ndarray:
    """Return the weights with the channels last."""
    if layer.convolution is None:
        return layer.q_w
    channels = layer.convolution.pictures.shape[1] // groups
    return layer.q_w.reshape(-1, channels, *layer.convolution.kernel).transpose(0, 2, 3, 1)


def _connected(layer: Layer, resolver: Any) -> np.ndarray:
    options = schema.FullyConnectedOptionsT()
    options.fusedActivationFunction = _ACTIVATIONS[layer.activation]
    x = layer.q_x.astype(layer.x_format)
    tensors = [
        Tensor(x.shape, layer.x_format, layer.s_x, layer.z_x),
        *_parameters(layer, layer.q_w, x.shape[:1]),
    ]
    of_options = schema.BuiltinOptions.FullyConnectedOptions
    return run((schema.BuiltinOperator.FULLY_CONNECTED, 12, of_options), options, tensors, [x], resolver)


def _convolution(layer: Layer, groups: int = 1, *, resolver: Any, depthwise: bool = False) -> np.ndarray:
    geometry = layer.convolution
    assert geometry is not None
    kind = "DepthwiseConv2D" if depthwise else "Conv2D"
    options = getattr(schema, f"{kind}OptionsT")()
    options.fusedActivationFunction = _ACTIVATIONS[layer.activation]
    options.padding = schema.Padding.SAME if geometry.padding else schema.Padding.VALID
    options.strideH = options.strideW = geometry.stride
    options.dilationHFactor = options.dilationWFactor = geometry.dilation
    x = np.ascontiguousarray(geometry.pictures.transpose(0, 2, 3, 1)).astype(layer.x_format)
    reach = [geometry.dilation * (size - 1) for size in geometry.kernel]
    places = [
        (size + 2 * geometry.padding - far - 1) // geometry.stride + 1
        for size, far in zip(x.shape[1:3], reach, strict=True)
    ]
    kernel = _kernel(layer, groups)
    code = schema.BuiltinOperator.CONV_2D
    if depthwise:
        # The outputs of all channels lie along the last axis.
        options.depthMultiplier = len(kernel) // groups
        kernel = kernel.transpose(3, 1, 2, 0)
        code = schema.BuiltinOperator.DEPTHWISE_CONV_2D
    parameters = _parameters(layer, kernel, (1, *places), 3 if depthwise else 0)
    tensors = [Tensor(x.shape, layer.x_format, layer.s_x, layer.z_x), *parameters]
    of_options = getattr(schema.BuiltinOptions, f"{kind}Options")
    answer = run((code, 5, of_options), options, tensors, [x], resolver)
    return answer.reshape(-1, len(layer.q_w))


def _add(terms: Sum, resolver: Any) -> np.ndarray:
    a, a_params, b, b_params, params, _ = terms
    tensors = [Tensor(a.shape, "int8", *a_params), Tensor(b.shape, "int8", *b_params)]
    tensors.append(Tensor(a.shape, "int8", *params))
    operator = (schema.BuiltinOperator.ADD, 2, schema.BuiltinOptions.AddOptions)
    codes = [each.astype(np.int8) for each in (a, b)]
    return run(operator, schema.AddOptionsT(), tensors, codes, resolver)


def _mean(average: Average, resolver: Any) -> np.ndarray:
    codes, params, outputs, _ = average
    options = schema.ReducerOptionsT()
    options.keepDims = True
    # Each place is a channel of a picture of one row; the channels are last.
    x = np.ascontiguousarray(codes.T)[None, None].astype(np.int8)
    axes = Tensor((2,), "int32", [], 0, np.array([1, 2], np.int32))
    tensors = [Tensor(x.shape, "int8", *params), axes, Tensor((1, 1, 1, len(codes)), "int8", *outputs)]
    operator = (schema.BuiltinOperator.MEAN, 2, schema.BuiltinOptions.ReducerOptions)
    return run(operator, options, tensors, [x], resolver).ravel()


#: Each operator between layers with the name of its code and of its options.
_OPERATORS = {
    "mul": ("MUL", "MulOptions"),
    "concat": ("CONCATENATION", "ConcatenationOptions"),
    "average": ("AVERAGE_POOL_2D", "Pool2DOptions"),
    "sigmoid": ("LOGISTIC", ""),
    "tanh": ("TANH", ""),
    "softmax": ("SOFTMAX", "SoftmaxOptions"),
}


def _operated(case: operators.Case, operator: str, resolver: Any) -> np.ndarray:
    """Return the answer of an operator between layers."""
    code, name = _OPERATORS[operator]
    options = getattr(schema, f"{name}T")() if name else None
    codes = [each.astype(case.kind) for each in case.codes]
    shape = codes[0].shape
    if operator == "concat":
        options.axis = 1
        shape = (shape[0], shape[1] * len(codes))
    elif operator == "softmax":
        options.beta = 1.0
    elif operator == "average":
        # Each row is the one place of a channel of its own.
        codes = [np.ascontiguousarray(codes[0].T)[None, None]]
        options.filterHeight, options.filterWidth = options.strideH, options.strideW = codes[0].shape[1:3]
        shape = (1, 1, 1, shape[0])
    tensors = [Tensor(each.shape, case.kind, *pair) for each, pair in zip(codes, case.params, strict=True)]
    of_options = getattr(schema.BuiltinOptions, name) if name else 0
    number = (getattr(schema.BuiltinOperator, code), 2, of_options)
    answer = run(number, options, [*tensors, Tensor(shape, case.kind, *case.outputs)], codes, resolver)
    return answer.ravel() if operator == "average" else answer


def _operator_cases(operator: str) -> list[operators.Case]:
    kind = "uint8" if operator == "concat" else "int8"
    made = operators.cases(operator, (kind,), operators.FIXED.get(operator))
    return [replace(case, outputs=case.params[0]) if operator == "average" else case for case in made]


def _operator_paths() -> Iterator[Path]:
    """Yield the paths of operators between layers. The reference kernel of SOFTMAX ends the process."""
    for operator, (code, _) in _OPERATORS.items():
        for kernels, resolver, engine in _KERNELS[operator == "softmax" :]:
            arithmetic = "litert_pool" if operator == "average" else "litert"
            if operator in ("mul", "sigmoid", "tanh") and engine == "xnnpack":
                arithmetic = engine
            yield Path(
                f"{code}, {kernels}",
                f'`integer_operator("{operator}")`',
                partial(_operator_cases, operator),
                partial(_operated, operator=operator, resolver=resolver),
                partial(operators.ours, operator=operator, arithmetic=arithmetic),
            )


def _paths_of_16_bits() -> Iterator[Path]:
    """Yield the paths of tables. Of a power of two ruy's kernels compute sigmoid and tanh without a table."""
    for operator, (kernels, resolver, _) in zip(
        ("sigmoid", "tanh", "softmax"), (_KERNELS[0], _KERNELS[0], _KERNELS[1]), strict=True
    ):
        yield Path(
            f"{_OPERATORS[operator][0]} of int16, {kernels}",
            f'`integer_operator("{operator}")`',
            partial(operators.cases_of_16_bits, operator),
            partial(_operated, operator=operator, resolver=resolver),
            partial(operators.ours, operator=operator, arithmetic="litert_16"),
        )


def _sums() -> list[Sum]:
    return [
        *(terms for seed in (51, 52) for terms in sums(seed) if terms[-1] == "int8"),
        *_sums_beyond_16_bits(),
    ]


def _sums_beyond_16_bits() -> Iterator[Sum]:
    """Yield sums whose first term has a step of up to 255 of theirs: some lie beyond 16 bits."""
    draw = np.random.default_rng(53)
    for size in (15, 16, 33, 40, 64, 65):
        scale = np.float32(draw.uniform(0.01, 0.1))
        zeros = (-128, 127, *(int(each) for each in draw.integers(-128, 128, 4)))
        for zero in zeros:
            codes = [draw.integers(-128, 128, (1, size)) for _ in range(2)]
            ratios = draw.uniform(120, 255), draw.uniform(0.01, 2)
            terms = [(float(np.float32(each * scale)), int(zero)) for each in ratios]
            yield codes[0], terms[0], codes[1], terms[1], (float(scale), -zero - 1), "int8"


def _averages() -> list[Average]:
    drawn = [average for seed in (71, 72) for average in averages(seed) if average[-1] == "int8"]
    return [*drawn, *tied_averages()]


def _layers() -> Sequence[Layer]:
    return layers("int8", "int8", activations=tuple(_ACTIVATIONS))


def _convolutions() -> Sequence[Layer]:
    # A convolution of int8 has a scale for each output.
    return convolutions("int8", same_padding=True, activations=tuple(_ACTIVATIONS), by_output=True)


def _paths(kernels: str, resolver: Any, connected: str, convolved: str) -> list[Path]:
    connect, convolve = (partial(each, resolver=resolver) for each in (_connected, _convolution))
    return [
        layer_path(f"FULLY_CONNECTED, {kernels}", connected, _layers, connect),
        layer_path(
            f"FULLY_CONNECTED, {kernels}, accumulators next to a tie",
            connected,
            lambda: [*near_ties("int8"), *near_ties("int8", by_output=True), *tied_sixes()],
            connect,
        ),
        by_token_path(f"FULLY_CONNECTED, {kernels}", connected, _layers, connect),
        layer_path(f"CONV_2D, {kernels}", convolved, _convolutions, convolve),
        layer_path(
            f"CONV_2D, {kernels}, accumulators next to a tie", convolved, _tied_convolutions, convolve
        ),
    ]


def _grouped(*, depthwise: bool) -> Sequence[Grouped]:
    return grouped_convolutions(
        "int8", depthwise=depthwise, same_padding=True, activations=tuple(_ACTIVATIONS), by_output=True
    )


def _tied_convolutions() -> Sequence[Layer]:
    """Return accumulators next to a tie as convolutions of one cell."""
    made = []
    for layer in near_ties("int8", by_output=True):
        pictures = layer.q_x.T.reshape(1, -1, 1, 1)
        made.append(replace(layer, convolution=Convolution(pictures, (1, 1), 1, 0, 1)))
    return made


def _wide_convolutions() -> Sequence[Layer]:
    """Return layers of int16 inputs as convolutions of one cell, whose places are the tokens."""
    made = []
    for layer in wide_layers(by_output=True):
        pictures = layer.q_x.T.reshape(1, -1, len(layer.q_x), 1)
        made.append(replace(layer, convolution=Convolution(pictures, (1, 1), 1, 0, 1)))
    return made


def _grouped_paths() -> list[Path]:
    """Return convolutions in groups: ruy has none and leaves them to the reference kernel."""
    engines = (("reference", _REFERENCE), ("ruy", _RUY), ("XNNPACK", _XNNPACK))
    found = []
    for kernels, resolver in engines:
        engine = "xnnpack" if kernels == "XNNPACK" else "litert_reference"
        in_groups = partial(_grouped, depthwise=False)
        convolve = partial(_convolution, resolver=resolver)
        found.append(grouped_path(f"CONV_2D in groups, {kernels}", engine, in_groups, convolve))
        each_alone = partial(_grouped, depthwise=True)
        convolve = partial(_convolution, resolver=resolver, depthwise=True)
        path = grouped_path(f"DEPTHWISE_CONV_2D, {kernels}", engine, each_alone, convolve)
        if kernels == "ruy":
            both = "`litert_ruy`, the last outputs after vectors of 4 `litert_reference`"
            path = replace(path, arithmetic=both, ours=_in_vectors)
        found.append(path)
    return found


def _in_vectors(grouped: Grouped) -> torch.Tensor:
    """Return our codes of a depthwise convolution on ruy, which rounds vectors of 4 outputs by itself."""
    found = [
        torch.cat([result(part, engine).q for part in grouped.parts], 1)
        for engine in ("litert_ruy", "litert_reference")
    ]
    whole = found[0].shape[1] // 4 * 4
    return torch.cat([found[0][:, :whole], found[1][:, whole:]], 1)


#: The kernels of a runtime, and the arithmetic of their sums and averages.
_KERNELS = (
    ("reference", _REFERENCE, "litert_reference"),
    ("ruy", _RUY, "litert_ruy"),
    ("XNNPACK", _XNNPACK, "xnnpack"),
)
PATHS = (
    *(
        Path(
            f"ADD, {kernels}",
            "`add_codes`",
            _sums,
            partial(_add, resolver=resolver),
            partial(our_sum, arithmetic=arithmetic),
        )
        for kernels, resolver, arithmetic in _KERNELS
    ),
    *(
        Path(
            f"MEAN, {kernels}",
            "`average_codes`",
            _averages,
            partial(_mean, resolver=resolver),
            partial(our_average, arithmetic=arithmetic),
        )
        for kernels, resolver, arithmetic in _KERNELS
    ),
    *_operator_paths(),
    *_paths_of_16_bits(),
    *_paths("reference", _REFERENCE, "litert_reference_connected", "litert_reference"),
    *_paths("ruy", _RUY, "litert_ruy", "litert_ruy"),
    *_paths("XNNPACK", _XNNPACK, "xnnpack", "xnnpack"),
    *_grouped_paths(),
    *(
        path
        for kernels, resolver, _ in _KERNELS
        for path in (
            layer_path(
                f"FULLY_CONNECTED 16×8, {kernels}",
                "litert_16x8_connected",
                wide_layers,
                partial(_connected, resolver=resolver),
            ),
            layer_path(
                f"CONV_2D 16×8, {kernels}",
                "litert_16x8",
                _wide_convolutions,
                partial(_convolution, resolver=resolver),
            ),
        )
    ),
)
