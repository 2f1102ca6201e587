"""A quantized layer as an engine computes it in integers, with scales of its outputs from the used tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.changes import SMALL
from quantviz.layers.integer_codes import Codes
from quantviz.layers.integer_engines import INTEGER_ENGINES
from quantviz.layers.integer_explanation import explain_operator
from quantviz.layers.integer_result import IntegerResult, integer_layer
from quantviz.layers.layer_result import LayerResult
from quantviz.layers.methods.applied import refuse_applied
from quantviz.layers.operands import Operand
from quantviz.layers.parts import summed_in_any_order, summed_in_order
from quantviz.quantization.explanation import Step
from quantviz.quantization.integer_operators import NORM, OPERATORS
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QParams
from quantviz.schemes.formats import find_format
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.views import MOST_WHOLE

OUTPUT_FORMATS = ("int8", "uint8")
#: The arithmetic of the outputs' scale: 0 is in its range, so that the zero point is a code.
_ARITHMETIC = "onnxruntime"
#: Operators whose second term is an input of the layer, or whose scale is that of both.
_WITH_INPUTS = ("add", "mul", "concat")
#: Moves an int8 code to the uint8 code of the same value.
TO_UNSIGNED = 128


def integers_of(
    layer: LayerResult,
    *,
    engine: str = "onnxruntime",
    number_format: str = "int8",
    activation: str = "none",
) -> IntegerResult:
    """Return a quantized layer as an engine computes it in integers.

    Scale and zero point of the outputs are chosen on the layer's own outputs, after the activation, of the
    tokens that are not held back. Engines whose pairs of products saturate multiply uint8 inputs: int8 codes
    and their zero point are moved up by 128.

    Raises:
        QuantVizError: The weight's scales are not one or one for each output, or those of the inputs one or
            one for each token; codes are no integers; or an argument is unknown.

    >>> from quantviz.layers.layer_result import layer
    >>> sides = ([[1.0, -0.5], [0.2, 0.4]], [[1.0, 2.0], [0.5, -1.0]])
    >>> quantized = layer(*sides, "int8_per_row", "int8_per_tensor")
    >>> integers_of(quantized, engine="fbgemm_avx2").inputs.number_format
    'uint8'
    """
    refuse_applied(layer.applied)
    weights, inputs = _codes(layer.weights), _codes(layer.inputs)
    if engine in INTEGER_ENGINES and INTEGER_ENGINES[engine].pairs == "saturated":
        inputs = _unsigned(inputs)
    bias = layer.bias if bool(layer.bias.any()) else None
    return integer_layer(
        weights,
        inputs,
        _output_params(layer, number_format, activation),
        bias,
        engine=engine,
        number_format=number_format,
        activation=activation,
    )


class OperatedOutput(NamedTuple):
    #: Scale and zero point of the result, and the lines that lead to its code.
    params: QParams
    steps: tuple[Step, ...]

    @property
    def q(self) -> int:
        return int(self.steps[-1].output)


def arithmetic_of(operator: str, engine: str) -> str | None:
    """Return the name of an operator's arithmetic in an engine: the engine's, else its package's, else None.

    >>> arithmetic_of("add", "litert_ruy"), arithmetic_of("mul", "litert_ruy"), arithmetic_of("add", "fbgemm")
    ('litert_ruy', 'litert', None)
    """
    known = OPERATORS[operator]
    package = engine.partition("_")[0]
    others = (
        name for name in known if name.startswith(f"{package}_") and not engine.startswith(package + "_")
    )
    return next(
        (name for name in (engine, engine.rpartition("_")[0], package, *others) if name in known), None
    )


def operators_after(integers: IntegerResult) -> tuple[str, ...]:
    """Return the operators that can follow a layer in its engine.

    Their arithmetic must be known, and all codes of one format. A second term is an input for each output.
    """
    inputs = integers.inputs
    if inputs.number_format != integers.number_format:
        return ()
    joined = not inputs.scale.dim() and inputs.shape[1] >= integers.shape[2]
    return tuple(
        name
        for name in OPERATORS
        if arithmetic_of(name, integers.engine) and (joined or name not in _WITH_INPUTS)
    )


def operated_output(
    layer: LayerResult, integers: IntegerResult, operator: str, token: int, output: int
) -> OperatedOutput:
    """Return an output's code after one of the `operators_after` the layer.

    A second term is the code of the input channel of the same number, as at the end of a residual block.
    Others take the token's outputs.

    Scale and zero point of the result are chosen on the tokens that are not held back, but for those that
    engines fix: of an average the outputs' own, of sigmoid and softmax 1 / 2^b from the lowest code on, of
    tanh twice as much around the middle one.

    Raises:
        QuantVizError: The engine leaves such scales to another operator, as LiteRT's concat does.
    """
    inputs, of_outputs = integers.inputs, integers.outputs
    row = integers.q[token]
    codes, of_terms, at = [row.tolist()], [of_outputs], output
    fmt = find_format(integers.number_format)
    if operator in _WITH_INPUTS:
        x = inputs.scale * (inputs.codes - inputs.zero_point)[:, : integers.shape[2]]
        y = integers.y
        results = {"add": y + x, "mul": y * x, "concat": torch.cat((y, x), 1)}
        values = results[operator][~layer.held_back]
        params = quantize(values, outputs_scheme(integers.number_format)).qparams
        if operator != "concat":
            codes = [[int(row[output])], [int(inputs.codes[token, output])]]
            of_terms, at = [of_outputs, QParams(inputs.scale, inputs.zero_point)], 0
    elif operator == NORM:
        values = torch.nn.functional.layer_norm(integers.y, integers.y.shape[1:])[~layer.held_back]
        params = quantize(values, outputs_scheme(integers.number_format)).qparams
    elif operator == "average":
        params = of_outputs
    else:
        steps = 2.0**fmt.bits
        of_tanh = operator == "tanh"
        params = QParams(2 / steps, fmt.code_min + steps / 2) if of_tanh else QParams(1 / steps, fmt.code_min)
    arithmetic = arithmetic_of(operator, integers.engine)
    assert arithmetic
    steps_to = explain_operator(
        operator, codes, of_terms, params, at=at, number_format=fmt.id, arithmetic=arithmetic
    )
    return OperatedOutput(params, steps_to)


def outputs_scheme(number_format: str) -> Scheme:
    return Scheme(number_format, mode="asymmetric", convention=_ARITHMETIC)


def activated(y: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "none":
        return y
    return y.clamp(0, 6) if activation == "relu6" else y.clamp(min=0)


def _codes(operand: Operand) -> Codes:
    if operand.study is None:
        raise QuantVizError("integer.schemes")
    if operand.study.result is None:
        raise QuantVizError("integer.large", shape=operand.shape, most=MOST_WHOLE)
    try:
        return Codes.of(operand.study.result)
    except QuantVizError:
        raise QuantVizError("integer.schemes") from None


def _unsigned(codes: Codes) -> Codes:
    if codes.number_format != "int8":
        return codes
    zero_point = (codes.zero_point + TO_UNSIGNED).flatten()
    return Codes(codes.codes + TO_UNSIGNED, codes.scale, zero_point, "uint8")


def _output_params(layer: LayerResult, number_format: str, activation: str) -> QParams:
    used = (~layer.held_back).nonzero().flatten()
    x = layer.inputs.values(slice(None))[used].to(torch.float64)
    w = layer.weights.values(slice(None)).to(torch.float64)
    # In order where a browser does the same.
    multiplied = summed_in_order if max(layer.shape) <= SMALL else summed_in_any_order
    y = activated(multiplied(x, w) + layer.bias, activation)
    return quantize(y.to(torch.float32), outputs_scheme(number_format)).qparams
