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
from quantviz.quantization.integer_operators import OPERATORS
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QParams
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.views import MOST_WHOLE

#: Formats of an output's codes.
OUTPUT_FORMATS = ("int8", "uint8")
#: The arithmetic of the outputs' scale: 0 is in its range, so that the zero point is a code.
_ARITHMETIC = "onnxruntime"
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

    Args:
        layer: The layer, its weight with one scale or one for each output, its inputs with one or one for
            each token.
        engine: Id of the engine, one of `INTEGER_ENGINES`.
        number_format: Id of the outputs' format, one of `OUTPUT_FORMATS`.
        activation: One of `ACTIVATIONS`.

    Raises:
        QuantVizError: The layer's schemes have other scales or no integer codes, or an argument is unknown.

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


class AddedInput(NamedTuple):
    """An output's code added to one of the layer's inputs, as at the end of a residual block."""

    #: Scale and zero point of the sum, and the lines that lead to its code.
    params: QParams
    steps: tuple[Step, ...]

    @property
    def q(self) -> int:
        """Return the code of the sum."""
        return int(self.steps[-1].output)


def added_input(layer: LayerResult, integers: IntegerResult, token: int, output: int) -> AddedInput | None:
    """Return the sum of an output's code and that of the input channel of the same number, as the engine adds
    codes of two scales. Those of the sum are chosen on the tokens that are not held back.

    None where the engine's sums are not known, the layer has fewer inputs than outputs, or its inputs have
    several scales or another format.
    """
    inputs, outputs = integers.inputs, integers.shape[2]
    known = integers.engine in OPERATORS["add"] and inputs.number_format == integers.number_format
    if not known or inputs.scale.dim() or inputs.shape[1] < outputs:
        return None
    values = integers.y + inputs.scale * (inputs.codes - inputs.zero_point)[:, :outputs]
    params = quantize(values[~layer.held_back], outputs_scheme(integers.number_format)).qparams
    codes = [[int(integers.q[token, output])], [int(inputs.codes[token, output])]]
    of_terms = (integers.outputs, QParams(inputs.scale, inputs.zero_point))
    return AddedInput(
        params,
        explain_operator(
            "add",
            codes,
            of_terms,
            params,
            number_format=integers.number_format,
            arithmetic=integers.engine,
        ),
    )


def outputs_scheme(number_format: str) -> Scheme:
    """Return the scheme that chooses scale and zero point of the outputs."""
    return Scheme(number_format, mode="asymmetric", convention=_ARITHMETIC)


def activated(y: torch.Tensor, activation: str) -> torch.Tensor:
    """Return outputs after an activation, one of `ACTIVATIONS`.

    >>> activated(torch.tensor([-1.0, 2.0, 7.0]), "relu6").tolist()
    [0.0, 2.0, 6.0]
    """
    if activation == "none":
        return y
    return y.clamp(0, 6) if activation == "relu6" else y.clamp(min=0)


def _codes(operand: Operand) -> Codes:
    """Return an operand's codes; raise where there are none with a scale for each line at most."""
    if operand.study is None:
        raise QuantVizError("integer.schemes")
    if operand.study.result is None:
        raise QuantVizError("integer.large", shape=operand.shape, most=MOST_WHOLE)
    try:
        return Codes.of(operand.study.result)
    except QuantVizError:
        raise QuantVizError("integer.schemes") from None


def _unsigned(codes: Codes) -> Codes:
    """Return the uint8 codes of the same values."""
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
