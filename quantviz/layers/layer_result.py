"""A quantized layer: its outputs before and after, the error between them, and its causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.layers.causes import Channels, Products, channels_of, note_on_culprit, products_of
from quantviz.layers.methods.applied import Applied, apply_chain
from quantviz.layers.methods.chain import Chain, as_chain
from quantviz.layers.methods.contract import Method
from quantviz.layers.operands import (
    Operand,
    held_back_tokens,
    input_operand,
    notes_on_groups,
    scheme_of,
    study_of_tokens,
    weight_operand,
)
from quantviz.layers.output_errors import (
    EXACT,
    OutputErrors,
    PartErrors,
    UsedAndHeldBack,
    exact_errors,
    quick_errors,
    quick_outputs,
)
from quantviz.layers.parts import PARTS, Cells, Layer
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.quantization.explanation import Explanation
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import as_real
from quantviz.tensors.lazy import InMemory
from quantviz.text import table


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class LayerResult(Picklable):
    """A layer before and after quantization: Y = XWᵀ + b and Ŷ = X̂Ŵᵀ + b.

    Its axes are called token, input channel and output. Each number comes twice: over the tokens on which
    scales may be chosen, and over those held back.
    """

    _computed = ("_exact", "_errors", "channels")

    #: W (outputs, inputs) and X (tokens, inputs), each with its scheme and quantized values. Both may be the
    #: caller's own memory: a later change there shows in all that is computed afterwards.
    weights: Operand
    inputs: Operand
    #: float64 (outputs,); 0 where the layer has none.
    bias: torch.Tensor
    #: The scheme of Ŷ itself, if it is quantized.
    outputs: Scheme | None
    #: Whether scales that tokens share were chosen on the tokens that are not held back.
    static: bool
    #: Draws the tokens that are held back.
    seed: int
    #: The chain of methods by which both sides were rounded, and its other effects.
    applied: Applied = field(default_factory=Applied)

    def __post_init__(self) -> None:
        check_fields(self)
        outputs, width = self.weights.shape
        if self.inputs.shape[1] != width:
            raise QuantVizError(
                "layer.width", got=self.inputs.shape[1], wanted=width, shape=self.inputs.shape
            )
        if tuple(self.bias.shape) != (outputs,):
            raise QuantVizError("layer.bias", shape=tuple(self.bias.shape), outputs=outputs)

    def __repr__(self) -> str:
        tokens, inputs, outputs = self.shape
        schemes = ", ".join(
            f"{name}={scheme}"
            for name, scheme in (
                ("weights", self.weights.scheme),
                ("inputs", self.inputs.scheme),
                ("outputs", self.outputs),
                ("method", self.method or None),
            )
            if scheme is not None
        )
        size = f"{tokens} tokens × {inputs} inputs × {outputs} outputs"
        return f"LayerResult({schemes or 'not quantized'}; {size})"

    def _repr_html_(self) -> str:
        used, held_back = self.rel_out
        return table(
            [
                ("weights", self.weights.scheme),
                ("inputs", self.inputs.scheme),
                ("outputs", self.outputs),
                ("method", self.method),
                ("tokens × inputs × outputs", self.shape),
                ("rel_out, used tokens", used),
                ("rel_out, held back", held_back),
                *(("note", note) for note in self.notes),
            ]
        )

    @property
    def shape(self) -> Shape:
        """Return the numbers of tokens, of input channels and of outputs."""
        return (*self.inputs.shape, self.weights.shape[0])

    @property
    def method(self) -> Chain:
        """Return the chain of methods by which both sides were rounded; `nearest` is the empty one."""
        return self.applied.chain

    @property
    def trace(self) -> Mapping[str, Any]:
        """Return the numbers of each method on its way, by the method's id."""
        return self.applied.trace

    @property
    def effective_bits(self) -> float:
        """Return the bits of a weight with its scales and what the methods add, at stored size; 32 where it
        is not rounded.
        """
        scheme = self.weights.scheme
        bits = 32.0 if scheme is None else bits_per_element(scheme, self.weights.shape)
        return bits + self.applied.extra_bits

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the remarks for the user."""
        of_weight, of_inputs = self.weights.notes, self.inputs.notes
        shared = [note for note in of_weight if note in of_inputs]
        named = {
            "W, X": shared,
            "W": [note for note in of_weight if note not in shared],
            "X": [note for note in of_inputs if note not in shared],
        }
        of_sides = tuple(
            note if "name" in note.params else Note.of("of_operand", name=name, note=note)
            for name, notes in named.items()
            for note in notes
        )
        tokens, _, outputs = self.shape
        groups = ("X", self.inputs.scheme, self.inputs.shape), ("Y", self.outputs, (tokens, outputs))
        dynamic = (
            note
            for name, scheme, shape in groups
            if self.static
            for note in notes_on_groups(scheme, shape, self.held_back, name)
        )
        return (*of_sides, *dynamic, *self.applied.notes)

    @cached_property
    def held_back(self) -> torch.Tensor:
        """Return whether each token is held back, bool (tokens,): no scale is chosen on these.

        The exceptions are scales of a token's own values, those of groups of tokens that are all held back,
        and those of `static=False`.
        """
        return held_back_tokens(self.inputs.shape[0], self.seed)

    @property
    def rel_out(self) -> UsedAndHeldBack[float]:
        """Return ‖error‖² / ‖XWᵀ‖² over the used tokens and over those held back.

        Up to `EXACT` multiplications it is computed in float64, beyond by two products in float32. These have
        a noise of about 1e-6 of the outputs: where both operands are quantized, that adds some 1e-12.
        """
        return self._errors.rel_out

    @property
    def is_silent(self) -> bool:
        """Return whether XWᵀ is 0 over the tokens held back though W is not: `rel_out` measures nothing."""
        return not bool(self._errors.signal.total.held_back) and bool(self.channels.w_max.any())

    @property
    def by_token(self) -> torch.Tensor:
        """Return the same number for each token, float64 (tokens,); `held_back` has their sides."""
        return self._errors.by_token

    @property
    def by_output(self) -> UsedAndHeldBack[torch.Tensor]:
        """Return the same number for each output, float64 (outputs,)."""
        return self._errors.by_output

    @property
    def parts(self) -> Mapping[str, PartErrors]:
        """Return the same numbers for each part of the error, and its share, by `PARTS`, in float64.

        The parts are the weight's, XΔWᵀ; the inputs', ΔXWᵀ; ΔXΔWᵀ across; and the rounding of the outputs.
        Of a large layer this takes four products in float64.
        """
        exact = self._exact
        return MappingProxyType({name: part for name in PARTS if isinstance(part := exact[name], PartErrors)})

    @cached_property
    def channels(self) -> Channels:
        """Return the largest input and weight of each input channel, H_jj, and the weight error there."""
        return channels_of(self._layer, self.held_back)

    def cells(self, tokens: slice = slice(None), outputs: slice = slice(None)) -> Cells:
        """Return Y, Ŷ, the error and its parts for some outputs of some tokens, float64 (tokens, outputs).

        The error is defined as the sum of its parts, so these add up to the last bit.

        Args:
            tokens: A slice of step 1; by default all.
            outputs: Likewise.

        Raises:
            QuantVizError: A slice is not of whole numbers, or of another step.
        """
        return self._layer.cells(
            _window(tokens, self.inputs.shape[0]), _window(outputs, self.weights.shape[0])
        )

    def products(self, token: int, output: int) -> Products:
        """Return the products of one output cell, those that contribute most to its error first.

        Raises:
            QuantVizError: There is no such cell.
        """
        return products_of(self._layer, *self._cell(token, output))

    def culprit(self, token: int, output: int) -> Note:
        """Return the sentence on the input channel that contributes most to the error of a cell.

        Raises:
            QuantVizError: There is no such cell.
        """
        return note_on_culprit(self.products(token, output), self.channels)

    def explain_weight(self, output: int, channel: int) -> Explanation:
        """Return the derivation of one quantized weight, as `explain` does.

        Under a method that chooses codes by itself, the last steps take its code; under one that rounds in
        another basis, the weight is the one in that basis.

        Raises:
            QuantVizError: The weight is not quantized, or has no such place.
        """
        return self.weights.explain((output, channel))

    def explain_input(self, token: int, channel: int) -> Explanation:
        """Return the derivation of one quantized input, as `explain` does.

        Raises:
            QuantVizError: The inputs are not quantized, or have no such place.
        """
        return self.inputs.explain((token, channel))

    @cached_property
    def _layer(self) -> Layer:
        change = self.applied.bias_change
        layer = Layer(self.weights, self.inputs, self.bias, bias_change=change)
        if self.outputs is None:
            return layer
        if layer.size <= EXACT:
            cells = layer.cells(slice(None), slice(None))
            y, y_hat = cells.y, cells.y_hat
        else:
            y, y_hat = (quick_outputs(layer, rounded=rounded) for rounded in (False, True))
        stored, seen = (InMemory(values.to(torch.float32)) for values in (y_hat, y))
        study = study_of_tokens(stored, self.outputs, self.held_back, static=self.static, seen=seen)
        return Layer(self.weights, self.inputs, self.bias, Operand(stored, study), change)

    @cached_property
    def _exact(self) -> Mapping[str, OutputErrors]:
        return exact_errors(self._layer, self.held_back)

    @cached_property
    def _errors(self) -> OutputErrors:
        if self._layer.size <= EXACT:
            return self._exact["error"]
        quick = quick_errors(self._layer, self.held_back)
        return self._exact["error"] if quick is None else quick

    def _cell(self, token: int, output: int) -> Shape:
        shape = (self.inputs.shape[0], self.weights.shape[0])
        if any(not 0 <= i < n for i, n in zip((token, output), shape, strict=True)):
            raise QuantVizError("index_out_of_range", index=(token, output), shape=shape)
        return token, output


@public
def layer(
    W: Any,
    X: Any,
    weights: Scheme | str | None = "int4_g128",
    inputs: Scheme | str | None = "int8_per_token",
    bias: Any = None,
    outputs: Scheme | str | None = None,
    *,
    method: Chain | Method | str | None = None,
    static: bool = True,
    seed: int = 0,
) -> LayerResult:
    """Return the output error of a linear layer whose weight and inputs are quantized, split by its causes.

    Y = XWᵀ + b becomes Ŷ = X̂Ŵᵀ + b. Ŷ − Y is split into the weight's part X(Ŵ−W)ᵀ, the inputs' part
    (X̂−X)Wᵀ and the cross term (X̂−X)(Ŵ−W)ᵀ. A quarter of the tokens is held back: no scale that tokens share
    is chosen on them, and every number is given for both sides.

    Args:
        W: The weight, (outputs, inputs): a tensor, nested list, array or `Stored`; `as_matrix` turns others.
        X: The inputs, (tokens, inputs), with at least two tokens.
        weights: The weight's scheme, a recipe or a text form; None leaves it as it is. A recipe may be named
            by the weight's axes: "int8_per_output".
        inputs: The inputs' scheme, likewise: "int8_per_token" has a scale for each token, "int8_per_channel"
            one for each input channel.
        bias: The bias, (outputs,); it has no error.
        outputs: The scheme of Ŷ itself, as where the next layer reads codes; its rounding is a fourth part.
            Static scales of it are chosen on Y, as calibration does by a run in floating point.
        method: A chain of methods such as "rotation+gptq"; by default each value is rounded to nearest. No
            method sees a token that is held back.
        static: Whether a scale of inputs or outputs that tokens share is chosen on the tokens that are not
            held back: that of the matrix, of a channel, of a group of tokens, or the second scale of NVFP4
            over all blocks. Else on all tokens, as an engine does that scales each batch when it runs.
        seed: Draws the tokens that are held back.

    Returns:
        The result; its sums are computed on first use, of a large layer with a copy of X and little besides.

    Raises:
        QuantVizError: W or X is not a matrix of finite numbers, their numbers of inputs differ, there are
            fewer than two tokens, a scheme does not fit, or a method is unknown or cannot work on this layer.

    Source notebook 003, cell 58, an 8-bit weight and 32-bit activations:

    >>> W = [[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]]
    >>> found = layer(W, [[1.0, 2.0, 3.0], [3.0, -1.0, 0.5]], "int8_per_tensor", None)
    >>> [round(each, 4) for each in found.cells().y_hat[0].tolist()]
    [-2.9965, 3.8768, 9.3957]
    >>> found.cells().error.shape, found.rel_out.held_back < 1e-4, found.products(0, 1).channels.tolist()
    (torch.Size([2, 3]), True, [2, 1, 0])
    """
    schemes = (scheme_of(weights, "weights"), scheme_of(inputs, "inputs"))
    sides = _sides(W, X, schemes, as_chain(method), static=static, seed=seed)
    rounding = scheme_of(outputs, "outputs")
    count = sides[0].shape[0]
    if rounding is not None:
        for problem in rounding.problems((sides[1].shape[0], count)):
            raise problem
    return LayerResult(*sides[:2], _bias(bias, count), rounding, static, seed, sides[2])


def _sides(
    W: Any, X: Any, schemes: tuple[Scheme | None, Scheme | None], chain: Chain, *, static: bool, seed: int
) -> tuple[Operand, Operand, Applied]:
    first, second = (None, None) if chain else schemes
    weight = weight_operand(W, first)
    inputs = input_operand(X, second, weight.shape[1], seed, static=static)
    if not chain:
        return weight, inputs, Applied()
    held_back = held_back_tokens(inputs.shape[0], seed)
    return apply_chain(chain, (weight, inputs), schemes, held_back, static=static, seed=seed)


def _bias(given: Any, outputs: int) -> torch.Tensor:
    if given is None:
        return torch.zeros(outputs, dtype=torch.float64)
    bias = as_real(given).values.to(torch.float64)
    if not bool(torch.isfinite(bias).all()):
        raise QuantVizError("layer.nonfinite_bias")
    return bias


def _window(lines: slice, count: int) -> slice:
    """Return a slice with both of its ends, within `count` lines."""
    try:
        first, last, step = lines.indices(count)
    except (TypeError, ValueError):
        raise QuantVizError("layer.window", got=lines) from None
    if step != 1:
        raise QuantVizError("layer.window", got=lines)
    return slice(first, max(first, last))
