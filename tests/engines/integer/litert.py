"""LiteRT's integer kernels on CPU: the reference ones, the optimized ones on ruy, and XNNPACK."""

from __future__ import annotations

import functools
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
    #: Whether it keeps its values from one step to the next.
    variable: bool = False


def run(
    operator: tuple[int, int, int],
    options: Any,
    tensors: Sequence[Tensor],
    given: Sequence[np.ndarray],
    resolver: Any,
    *,
    inputs: Sequence[int] | None = None,
    intermediates: Sequence[int] = (),
    read: int | None = None,
) -> np.ndarray:
    """Return the output of one operator: the last of the tensors; the first ones are given.

    `operator` is its code, its version and the type of its options. `inputs` and `intermediates` have the
    places of its tensors where not all but the last are inputs; `read` that of the tensor to return.
    """
    made = interpreter.Interpreter(
        model_content=_model(operator, options, tensors, inputs, intermediates),
        experimental_op_resolver_type=resolver,
        num_threads=1,
    )
    made.allocate_tensors()
    for details, values in zip(made.get_input_details(), given, strict=True):
        made.set_tensor(details["index"], values)
    made.invoke()
    answer: np.ndarray = made.get_tensor(len(tensors) - 1 if read is None else read)
    return answer


def _model(
    operator: tuple[int, int, int],
    options: Any,
    tensors: Sequence[Tensor],
    inputs: Sequence[int] | None,
    intermediates: Sequence[int],
) -> bytes:
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
    read = range(last) if inputs is None else inputs
    node.opcodeIndex, node.inputs, node.outputs = 0, list(read), [last]
    node.intermediates = list(intermediates)
    node.builtinOptionsType, node.builtinOptions = operator[2], options
    graph.operators, graph.outputs = [node], [last]
    given = (number for number in read if number >= 0)
    graph.inputs = [each for each in given if tensors[each].values is None and not tensors[each].variable]
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
    made.isVariable = each.variable
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


#: The step of LayerNorm's outputs; and codes of which the gate, a tanh, shows most.
_NORM_STEP, _SHOWN = 2.0**-12, 7168
#: An LSTM's inputs by name; those that it has not are None.
_LSTM = (
    "x",
    *(f"{part}_{gate}" for part in ("weight", "state_weight") for gate in range(4)),
    *[None] * 3,
    *(f"bias_{gate}" for gate in range(4)),
    *[None] * 2,
    "state",
    "cell",
    *(f"norm_{gate}" for gate in range(4)),
)


def _gate(codes: np.ndarray, weight: np.ndarray, bias: np.ndarray, scale: float) -> np.ndarray:
    """Return the cell of an integer LSTM after its first step, the tanh of a LayerNorm.

    The gate's products are the codes: 127 · high + low. The gate beside it is open, by its bias.
    """
    size = len(codes)
    high = np.round(codes / 127).astype(int)
    halves = np.stack([high, codes - 127 * high], 1).astype(np.int8)
    zeros = np.zeros((size, 2), np.int8)
    tensors = {"x": Tensor((1, 1, 2), "int8", 1.0)}
    for gate in range(4):
        own = gate == 2
        given = {
            "weight": (halves if own else zeros, 1.0),
            "state_weight": (np.zeros((size, size), np.int8), 1.0),
            "bias": ((bias if own else np.full(size, 2**25)).astype(np.int32), 1.0),
            "norm": ((weight if own else 0 * weight).astype(np.int16), scale if own else _NORM_STEP),
        }
        for name, (values, step) in given.items():
            tensors[f"{name}_{gate}"] = Tensor(values.shape, values.dtype.name, step, 0, values)
    tensors["state"] = Tensor((1, size), "int8", 2.0**-7, variable=True)
    tensors["cell"] = Tensor((1, size), "int16", 2.0**-15, variable=True)
    between = {f"between_{gate}": Tensor((1,), "int16", 1.0) for gate in range(4)}
    between["hidden"] = Tensor((1,), "int8", 2.0**-7)
    tensors |= {**between, "y": Tensor((1, 1, size), "int8", 2.0**-7)}
    places = {name: place for place, name in enumerate(tensors)}
    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction, options.timeMajor = schema.ActivationFunctionType.TANH, True
    of_options = schema.BuiltinOptions.UnidirectionalSequenceLSTMOptions
    cell = run(
        (schema.BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM, 3, of_options),
        options,
        list(tensors.values()),
        [np.array([[[127, 1]]], np.int8)],
        _REFERENCE,
        inputs=[-1 if name is None else places[name] for name in _LSTM],
        intermediates=[places[name] for name in between],
        read=places["cell"],
    )
    return cell[0]


@functools.cache
def _gates() -> np.ndarray:
    """Return the cells of all codes from −`_SHOWN` on, which biases give where weights are 0."""
    found = []
    for start in range(-_SHOWN, _SHOWN, 1024):
        codes = np.arange(start, start + 1024)
        found.append(_gate(0 * codes, 0 * codes, codes * 1024, _NORM_STEP))
    return np.concatenate(found)


def _norms() -> Iterator[operators.Case]:
    """Yield rows of int16 codes, from those of a whole range to those of few steps, and some alike."""
    draw = np.random.default_rng(23)
    for number in range(60):
        size = (1, 2, 3, 4, 8, 16, 33, 64, 384)[number % 9]
        codes = draw.integers(-16000, 16000, size) * (1, 0.1, 0.01, 0.001, 0.0001)[number % 5]
        codes = np.full(size, int(codes[0])) if number % 11 == 10 else codes.astype(int)
        scale = 2.0 ** -draw.integers(16, 20) if number % 3 else float(np.float32(draw.uniform(2e-6, 1e-5)))
        whole = draw.integers(-32767, 32768, size)
        whole[0] = 32767
        bias = (draw.normal(0, 0.1, size) / scale * 1024).astype(int)
        how = {"weight": (whole * scale).astype(np.float32), "bias": bias * (scale / 1024)}
        yield operators.Case((codes[None],), ((0.1, 0),), (_NORM_STEP, 0), "int16", how)


def _normed(case: operators.Case) -> np.ndarray:
    weight = case.how["weight"]
    scale = np.abs(weight).max() / np.float32(32767)
    whole = [
        np.round(case.how[name] / step).astype(int)
        for name, step in (("weight", scale), ("bias", scale / 1024))
    ]
    return _gate(case.codes[0][0], *whole, float(scale))


def _our_gates(case: operators.Case) -> torch.Tensor:
    codes = operators.ours(case, "layer_norm", "litert_16")[0].to(torch.int64)
    return torch.from_numpy(_gates())[codes + _SHOWN]


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
    Path(
        "UNIDIRECTIONAL_SEQUENCE_LSTM, the LayerNorm of a gate, after its tanh",
        '`integer_operator("layer_norm")`',
        lambda: [*_norms()],
        _normed,
        _our_gates,
    ),
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
