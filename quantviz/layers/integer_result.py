"""A layer as an engine computes it in integers: its accumulators, its codes, and one cell step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.integer_codes import Codes
from quantviz.layers.integer_engines import ACTIVATIONS, INTEGER_ENGINES, PAIRED, WIDE, IntegerEngine
from quantviz.layers.integer_explanation import IntegerExplanation, steps_of_cell
from quantviz.layers.integer_operations import accumulated, layer_operations, lost_in_pairs
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.quantization.integer_operators import single_params
from quantviz.quantization.operations import NamedTensors, Operations, run_operations
from quantviz.quantization.requantizing import check_multiplier
from quantviz.quantization.result import QParams, QuantResult
from quantviz.schemes.formats import find_format
from quantviz.schemes.granularity import Shape
from quantviz.tensors.conversion import as_accumulators, as_real
from quantviz.text import number, table

_INT32 = (-(2**31), 2**31 - 1)
#: Bits of a code at most whose products are added in int32.
_CODE_BITS = 8
#: Sums in int64 lie below it: LiteRT's MultiplyByQuantizedMultiplier assumes so of what it multiplies.
_WIDEST = 2**47


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class IntegerResult(Picklable):
    """The codes of a layer's outputs, as one engine computes them from codes alone."""

    #: The weight's codes (outputs, inputs) and those of the inputs (tokens, inputs).
    weights: Codes
    inputs: Codes
    #: One scale and zero point, and the format of the outputs' codes.
    outputs: QParams
    number_format: str
    #: Codes (outputs,) of scale S_x · S_w and zero point 0, in the type of the sums, (tokens, outputs) where
    #: each token has its own S_x, or float32 numbers where the engine adds these; none without a bias.
    bias: torch.Tensor | None
    #: Id of the engine, one of `INTEGER_ENGINES`.
    engine: str
    #: One of `ACTIVATIONS`.
    activation: str
    #: The number of outputs whose bias was beyond int32.
    clipped_biases: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        _check_layer(self)

    def __repr__(self) -> str:
        tokens, inputs, outputs = self.shape
        return (
            f"IntegerResult({self.engine}, {self.number_format}; "
            f"{tokens} tokens × {inputs} inputs × {outputs} outputs)"
        )

    def _repr_html_(self) -> str:
        return table(
            [
                ("engine", self.engine),
                ("tokens × inputs × outputs", self.shape),
                ("codes", f"{self.inputs.number_format} × {self.weights.number_format}"),
                ("q", f"{number(self.q.min().item(), 9)} … {number(self.q.max().item(), 9)}"),
                *(("note", note) for note in self.notes),
            ]
        )

    @property
    def shape(self) -> Shape:
        """Return the numbers of tokens, of input channels and of outputs."""
        return (*self.inputs.shape, self.weights.shape[0])

    @property
    def operations(self) -> Operations:
        """Return the list of operations that the engine runs, each one line of arithmetic."""
        return layer_operations(
            self._engine,
            by_output=self.weights.scale.dim() == 1,
            has_bias=self.bias is not None,
            activation=self.activation,
        )

    @cached_property
    def q(self) -> torch.Tensor:
        """Return the codes of the outputs, int32 (tokens, outputs)."""
        values = run_operations(self.operations, values_of(self, slice(None), slice(None)))
        return values["q"].to(torch.int32)

    @property
    def y(self) -> torch.Tensor:
        """Return the values of the codes, S_y · (q − Z_y), float32 (tokens, outputs)."""
        scale, zero = single_params(self.outputs)
        return scale * (self.q - zero).to(torch.float32)

    @cached_property
    def products(self) -> torch.Tensor:
        """Return the engine's sums Σ(q_x − z_x)(q_w − z_w) without a bias, int32 (tokens, outputs)."""
        values = values_of(self, slice(None), slice(None))
        keys = ("integer_products", "integer_pairs", "integer_sum", "integer_correct")
        operations = tuple(operation for operation in self.operations if operation.key.startswith(keys))
        return run_operations(operations, values)["acc"]

    @property
    def exact_products(self) -> torch.Tensor:
        """Return the same sums without any limit of 16 or 32 bits, int64 (tokens, outputs)."""
        return _exact(values_of(self, slice(None), slice(None)))

    @property
    def saturated_pairs(self) -> torch.Tensor:
        """Return how far 16-bit pairs of products saturate: the change of each sum, int64 (tokens, outputs).

        It is 0 where the engine's pairs are exact. Codes of 7 bits (`reduce_range`) never saturate.
        """
        saturates = self._engine.pairs == "saturated"
        return self._lost_in_pairs if saturates else torch.zeros_like(self._lost_in_pairs)

    @cached_property
    def _lost_in_pairs(self) -> torch.Tensor:
        """Return the change of each sum on a processor without VNNI, for any engine: 0 for other formats."""
        if (self.inputs.number_format, self.weights.number_format) != PAIRED:
            return torch.zeros(self.shape[0], self.shape[2], dtype=torch.int64)
        return lost_in_pairs(self.inputs.codes, self.weights.codes)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the remarks for the user: on sums that are not exact, here or on a processor without VNNI,
        and on biases beyond int32.
        """
        notes = []
        count = self.q.numel()
        pairs = int((self._lost_in_pairs != 0).sum())
        if pairs:
            key = "integer_pairs" if self._engine.pairs == "saturated" else "integer_pairs_elsewhere"
            notes.append(Note.of(key, count=pairs, of=count))
        sums = self.exact_products
        if self.bias is not None and self.bias.dtype == torch.int32:
            sums = sums + self.bias
        wrapped = int(((sums < _INT32[0]) | (sums > _INT32[1])).sum())
        if wrapped and self._engine.sums == "int32":
            notes.append(Note.of("integer_wraps", count=wrapped, of=count))
        if self.clipped_biases:
            notes.append(Note.of("integer_bias_clipped", count=self.clipped_biases))
        return tuple(notes)

    def explain(self, token: int, output: int) -> IntegerExplanation:
        """Return the steps from the codes of one token and one output to the code of the cell.

        They are the operations of `q`, run once more on this cell alone.

        Raises:
            QuantVizError: There is no such cell.
        """
        shape = (self.inputs.shape[0], self.weights.shape[0])
        if any(not 0 <= i < n for i, n in zip((token, output), shape, strict=True)):
            raise QuantVizError("index_out_of_range", index=(token, output), shape=shape)
        values = values_of(self, slice(token, token + 1), slice(output, output + 1))
        steps, values_found = steps_of_cell(self.operations, values)
        exact = _exact(values).item()
        q_x, q_w = values["q_x"][0], values["q_w"][0]
        sums = [step for step in steps if step.name == "acc" or step.key.startswith("integer_bias")]
        if "bias" in values:
            exact = exact + (0 if self._engine.bias == "real" else values["bias"].item())
        scale, zero = single_params(self.outputs)
        q = int(values_found["q"])
        return IntegerExplanation(
            token=token,
            output=output,
            q_x=q_x,
            q_w=q_w,
            products=q_x * q_w,
            given=MappingProxyType({name: value.item() for name, value in values.items() if name[0] != "q"}),
            steps=steps,
            accumulator=sums[-1].output,
            exact_accumulator=exact,
            q=q,
            y=(scale * torch.tensor(q - int(zero), dtype=torch.float32)).item(),
        )

    @property
    def _engine(self) -> IntegerEngine:
        return INTEGER_ENGINES[self.engine]


@public
def integer_layer(
    W: QuantResult | Codes,
    X: QuantResult | Codes,
    outputs: QParams,
    bias: Any = None,
    *,
    bias_codes: Any = None,
    engine: str = "onnxruntime",
    number_format: str = "int8",
    activation: str = "none",
) -> IntegerResult:
    """Return the codes of a linear layer's outputs, as an inference engine computes them in integers.

    Σ(q_x − z_x)(q_w − z_w) + bias is an int32 accumulator, which engines expand into Σ q_x q_w and three
    corrections. It is multiplied by S_x · S_w / S_y, rounded, moved by the output's zero point and clamped;
    how exactly is data of the engine. A convolution is the same product of the matrix that `patches` makes.

    Args:
        W: The weight's codes, (outputs, inputs), with one scale or one for each output: a result of
            `quantize`, or `Codes`.
        X: The codes of the inputs, (tokens, inputs), with one scale or one for each token, which then has a
            multiplier and codes of the bias of its own: an engine is asked for one token at a time.
        outputs: Scale and zero point of the outputs, one of each.
        bias: Real numbers, (outputs,). Most engines get them as int32 codes of scale S_x · S_w: rounded half
            to even, and clipped to int32, with a note.
        bias_codes: These codes themselves, instead of `bias`; (tokens, outputs) if those of tokens differ.
        engine: Id of the engine, one of `INTEGER_ENGINES`.
        number_format: Id of the outputs' integer format, of at most 8 bits; int16 where sums are int64.
        activation: "relu" and "relu6" raise the lower limit of the clamp to the code of 0; "relu6" lowers the
            upper one to that of 6.

    Raises:
        QuantVizError: The matrices do not fit each other, or an argument is unknown.

    >>> W, X = Codes([[6, -1], [2, 9]], 0.25), Codes([[3, 1]], 0.5, zero_point=1)
    >>> found = integer_layer(W, X, QParams(0.75, -3))
    >>> found.products.tolist(), found.q.tolist(), found.y.tolist()
    ([[12, 4]], [[-1, -2]], [[1.5, 0.75]])

    12 · 0.5 · 0.25 / 0.75 is 2, and 4 is 0.667 there, which is rounded:

    >>> for step in found.explain(0, 1).steps[:5]:
    ...     print(f"{step.code_line} → {step.output:.4g}")
    acc = int32(dot(q_x, q_w)) → 15
    sum_w = sum(q_w) → 11
    acc = acc - z_x * sum_w → 4
    m = s_x * s_w → 0.125
    m = m / s_y → 0.1667
    """
    weights, inputs = (operand if isinstance(operand, Codes) else Codes.of(operand) for operand in (W, X))
    if engine not in INTEGER_ENGINES:
        raise QuantVizError("integer.engine", got=engine, known=", ".join(INTEGER_ENGINES))
    if bias is not None and bias_codes is not None:
        raise QuantVizError("integer.two_biases")
    added, clipped = None, 0
    if bias is not None:
        added, clipped = _of_numbers(bias, weights, inputs, INTEGER_ENGINES[engine])
    elif bias_codes is not None:
        added = _of_codes(bias_codes, weights, inputs, INTEGER_ENGINES[engine])
    return IntegerResult(weights, inputs, outputs, number_format, added, engine, activation, clipped)


def values_of(result: IntegerResult, tokens: slice, outputs: slice) -> NamedTensors:
    scale, zero = single_params(result.outputs)
    fmt = find_format(result.number_format)
    whole = {
        "z_x": _of_tokens(result.inputs.zero_point, tokens),
        "z_y": zero,
        "n": result.inputs.shape[1],
        "low": fmt.code_min,
        "high": fmt.code_max,
    }
    values = {
        "q_x": result.inputs.codes[tokens],
        "q_w": result.weights.codes[outputs],
        "s_x": _of_tokens(result.inputs.scale, tokens),
        "s_w": _of_outputs(result.weights.scale, outputs),
        "z_w": _of_outputs(result.weights.zero_point, outputs),
        "s_y": scale,
        **{name: torch.as_tensor(value, dtype=torch.int32) for name, value in whole.items()},
    }
    if result.bias is not None:
        values["bias"] = result.bias[outputs] if result.bias.dim() == 1 else result.bias[tokens, outputs]
    return values


def _of_numbers(bias: Any, weights: Codes, inputs: Codes, engine: IntegerEngine) -> tuple[torch.Tensor, int]:
    """Return a real bias as the engine adds it, and the number of outputs where it was beyond int32."""
    real = _of_each_output(as_real(bias).values.to(torch.float64), weights, inputs)
    if not bool(torch.isfinite(real).all()):
        raise QuantVizError("layer.nonfinite_bias")
    if engine.bias == "real":
        return real.to(torch.float32), 0
    rounded = torch.round(real / _sum_scale(weights, inputs))
    if engine.sums == "int64":
        return rounded.clamp(-_WIDEST, _WIDEST).to(torch.int64), 0
    clipped = rounded.clamp(*_INT32)
    beyond = clipped != rounded
    # An output counts once, however many tokens have codes of their own.
    return clipped.to(torch.int64).to(torch.int32), int((beyond.any(0) if beyond.dim() > 1 else beyond).sum())


def _of_codes(bias: Any, weights: Codes, inputs: Codes, engine: IntegerEngine) -> torch.Tensor:
    codes = _of_each_output(as_accumulators(bias), weights, inputs)
    if engine.bias == "real":
        return (codes * _sum_scale(weights, inputs)).to(torch.float32)
    return codes.to(torch.int64 if engine.sums == "int64" else torch.int32)


def _of_each_output(bias: torch.Tensor, weights: Codes, inputs: Codes) -> torch.Tensor:
    shape = tuple(bias.shape)
    if shape not in ((weights.shape[0],), (inputs.shape[0], weights.shape[0])):
        raise QuantVizError("layer.bias", shape=shape, outputs=weights.shape[0])
    return bias


def _sum_scale(weights: Codes, inputs: Codes) -> torch.Tensor:
    """Return S_x · S_w, the scale of the accumulator, float64: one, or (outputs,), or (tokens, …)."""
    s_x = _of_tokens(inputs.scale, slice(None))
    scale: torch.Tensor = s_x.to(torch.float64) * weights.scale.to(torch.float64)
    return scale


def _check_layer(result: IntegerResult) -> None:
    weights, inputs = result.weights, result.inputs
    fmt = find_format(result.number_format)
    if fmt.kind != "integer":
        raise QuantVizError("operator_needs_integers", got=result.number_format)
    if result.engine not in INTEGER_ENGINES:
        raise QuantVizError("integer.engine", got=result.engine, known=", ".join(INTEGER_ENGINES))
    if result.activation not in ACTIVATIONS:
        raise QuantVizError("integer.activation", got=result.activation, known=", ".join(ACTIVATIONS))
    if inputs.shape[1] != weights.shape[1]:
        raise QuantVizError("layer.width", got=inputs.shape[1], wanted=weights.shape[1], shape=inputs.shape)
    if result.bias is not None:
        _of_each_output(result.bias, weights, inputs)
        if INTEGER_ENGINES[result.engine].sums == "int64" and bool((result.bias.abs() >= _WIDEST).any()):
            raise QuantVizError("integer.wide_bias", engine=result.engine)
    scale, zero = single_params(result.outputs)
    _check_formats(result, moved=bool((inputs.zero_point != 0).any()) or bool(zero))
    if not fmt.code_min <= int(zero) <= fmt.code_max:
        raise QuantVizError(
            "zero_point_beyond_codes", smallest=fmt.code_min, largest=fmt.code_max, got=int(zero)
        )
    products = _sum_scale(weights, inputs)
    for extreme in (products.min().item(), products.max().item()):
        multiplier = extreme / scale.item()
        in_float32 = torch.tensor(multiplier, dtype=torch.float32).item()
        if not 0 < in_float32 < math.inf:
            raise QuantVizError("multiplier_not_positive", got=multiplier)
        check_multiplier(INTEGER_ENGINES[result.engine].requantization, multiplier)


def _check_formats(result: IntegerResult, *, moved: bool) -> None:
    """Raise a `QuantVizError` for formats that an engine does not multiply; `moved`: some zero point is not
    0.
    """
    engine = INTEGER_ENGINES[result.engine]
    formats = (result.inputs.number_format, result.weights.number_format, result.number_format)
    if engine.pairs == "saturated" and formats[:2] != PAIRED:
        raise QuantVizError("integer.pairs", inputs=formats[0], weights=formats[1])
    if engine.sums == "int64":
        if formats != WIDE or moved:
            raise QuantVizError("integer.wide", engine=engine.id, got=" · ".join(formats))
        return
    for name in formats[:2]:
        if find_format(name).bits > _CODE_BITS:
            raise QuantVizError("integer.too_many_bits", got=name, most=_CODE_BITS)


def _of_tokens(values: torch.Tensor, tokens: slice) -> torch.Tensor:
    return values[tokens].unsqueeze(1) if values.dim() else values


def _of_outputs(values: torch.Tensor, outputs: slice) -> torch.Tensor:
    return values[outputs] if values.dim() else values


def _exact(values: NamedTensors) -> torch.Tensor:
    """Return Σ(q_x − z_x)(q_w − z_w) in int64."""
    z_w = values["z_w"]
    centred = values["q_w"].to(torch.int64) - (z_w.unsqueeze(1) if z_w.dim() else z_w)
    return accumulated(values["q_x"].to(torch.int64) - values["z_x"], centred)
