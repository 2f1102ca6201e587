"""A chain of methods applied to a layer: its two operands with their effective values, in their own basis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import torch

from quantviz.analysis.study import Study
from quantviz.errors import Note, QuantVizError
from quantviz.layers.methods.chain import Chain
from quantviz.layers.methods.contract import Basis, MethodTask, RoundedWeight
from quantviz.layers.operands import Operand, study_of_tokens
from quantviz.pickling import Picklable
from quantviz.quantization.input_dtype import on_stored
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.regions import read_whole
from quantviz.tensors.lazy import InMemory


@dataclass(frozen=True, eq=False)
class Applied(Picklable):
    """The effects of a chain on a layer, besides those on its operands."""

    chain: Chain = field(default_factory=Chain)
    #: The numbers that a method's picture shows, by the method's id.
    trace: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    extra_bits: float = 0.0
    #: The change of the bias, float64 (outputs,); its error is a part of the weight's.
    bias_change: torch.Tensor | None = None
    notes: tuple[Note, ...] = ()


def apply_chain(
    chain: Chain,
    sides: tuple[Operand, Operand],
    schemes: tuple[Scheme | None, Scheme | None],
    held_back: torch.Tensor,
    *,
    static: bool,
    seed: int,
) -> tuple[Operand, Operand, Applied]:
    """Return weight and inputs as a chain rounds them, and the chain's other effects.

    `sides` are W and X, not rounded. No method sees a token that is held back; with `static`, they set no
    scale that tokens share.

    Raises:
        QuantVizError: A scheme does not fit, or a method cannot work on this layer.
    """
    return ChainWork(chain, sides, schemes, held_back, static, seed).done()


class ChainWork:
    def __init__(
        self,
        chain: Chain,
        sides: tuple[Operand, Operand],
        schemes: tuple[Scheme | None, Scheme | None],
        held_back: torch.Tensor,
        static: bool,
        seed: int,
        traced: bool = True,
    ) -> None:
        """Apply a chain; without `traced` the inputs are not quantized and no trace is kept."""
        weight, inputs = sides
        for side, scheme in zip(sides, schemes, strict=True):
            for problem in () if scheme is None else scheme.problems(side.shape):
                raise problem
        for problem in chain.problems_with(*schemes):
            raise problem
        self.chain = chain
        self._sides = sides
        self._held_back = held_back
        self._static = static
        values = weight.stored
        self._said: tuple[Note, ...] = ()
        weights, activations = schemes
        if weights is not None:
            values, weights, self._said = on_stored(values, weights)
        w = read_whole(values).to(torch.float64)
        self._x = inputs.values(slice(None)).to(torch.float64)
        #: The layer in the basis of `bases`.
        self.task = MethodTask(w, self._x[~held_back], weights, activations, seed, traced, dtype=values.dtype)
        self.bases: list[Basis] = []
        #: W before each of them.
        self._before: list[torch.Tensor] = []
        self._traces: dict[str, Any] = {}
        self._bits = 0.0
        self._notes: list[Note] = []

    def done(self) -> tuple[Operand, Operand, Applied]:
        return done_together([self])[0]

    def begin(self) -> None:
        """Take the layer into the basis in which it is rounded."""
        for method in self.chain.bases:
            self._before.append(self.task.w)
            with _blamed(method.id):
                basis = method.basis(self.task)
            self.bases.append(basis)
            self.task = self.task.in_basis(basis)
            self._x = basis.of_inputs(self._x)
            refuse_nonfinite(method.id, W=self.task.w, X=self._x)
            self._keep(method.id, basis)

    def end(self, rounded: RoundedWeight | None) -> tuple[Operand, Operand, Applied]:
        """Return the operands and the other effects of a layer that is rounded, or stays as it is."""
        w_hat = self.task.w if rounded is None else rounded.w_hat
        study, x_hat = self._inputs(rounded)
        if rounded is not None and self.chain.rounding is not None:
            self._keep(self.chain.rounding.id, rounded)
            refuse_nonfinite(self.chain.rounding.id, W=w_hat, X=x_hat)
        w_hat, bias = self._corrected(w_hat, x_hat[~self._held_back])
        return self._operands(rounded, w_hat, study, x_hat, bias)

    def _keep(self, method: str, found: Any) -> None:
        if found.trace is not None:
            self._traces[method] = found.trace
        self._bits += found.extra_bits
        self._notes += [note for note in found.notes if note not in self._notes]

    def _inputs(self, rounded: RoundedWeight | None) -> tuple[Study | None, torch.Tensor]:
        scheme = self.task.inputs
        if scheme is not None and rounded is not None and rounded.inputs is not None:
            return None, rounded.inputs(self._x, lambda x: self._nearest(x, scheme)[1])
        # Without a picture only a correction asks for the inputs after rounding.
        if scheme is None or not (self.task.traced or self.chain.corrections):
            return None, self._x
        return self._nearest(self._x, scheme)

    def _nearest(self, x: torch.Tensor, scheme: Scheme) -> tuple[Study, torch.Tensor]:
        own = self._sides[1].stored
        stored = InMemory(x.to(torch.float32), dtype="float32" if self.bases else own.dtype)
        study = study_of_tokens(stored, scheme, self._held_back, static=self._static)
        return study, Operand(stored, study).quantized(slice(None)).to(torch.float64)

    def _corrected(
        self, w_hat: torch.Tensor, x_hat: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        bias = None
        for method in self.chain.corrections:
            correction = method.correct(self.task, w_hat, x_hat)
            self._keep(method.id, correction)
            if correction.weight is not None:
                w_hat = w_hat + correction.weight
                refuse_nonfinite(method.id, W=w_hat)
            if correction.bias is not None:
                bias = correction.bias if bias is None else bias + correction.bias
                refuse_nonfinite(method.id, b=bias[None])
        return w_hat, bias

    def _operands(
        self,
        rounded: RoundedWeight | None,
        w_hat: torch.Tensor,
        study: Study | None,
        x_hat: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[Operand, Operand, Applied]:
        weight, inputs = self._sides
        for basis, w in zip(reversed(self.bases), reversed(self._before), strict=True):
            w_hat = basis.weights_back(w_hat)
            x_hat = basis.inputs_back(x_hat)
            if basis.shift is not None:
                # The inputs' shift meets the weights as they are, in the bias.
                change = (w - w_hat) @ basis.shift
                bias = change if bias is None else bias + change
        of_weight = None if rounded is None else Study.of_result(rounded.result)
        own_weight = of_weight is not None and not (
            self.bases or self.chain.corrections or (rounded is not None and rounded.values is not None)
        )
        own_inputs = not self.bases and (study is not None or rounded is None or rounded.inputs is None)
        notes = (*weight.notes, *self._said, *(of_weight.notes if of_weight is not None else ()))
        unrounded = self.task.inputs is None and own_inputs
        return (
            Operand(weight.stored, of_weight, notes, None if own_weight else w_hat.to(torch.float32)),
            Operand(
                inputs.stored,
                study,
                (*inputs.notes, *(study.notes if study is not None else ())),
                None if own_inputs or unrounded else x_hat.to(torch.float32),
            ),
            Applied(
                self.chain,
                MappingProxyType(self._traces),
                self._bits,
                bias,
                (*self._notes, *self._remarks(rounded)),
            ),
        )

    def _remarks(self, rounded: RoundedWeight | None) -> tuple[Note, ...]:
        notes = []
        if rounded is not None and self.chain.rounding is not None:
            key = "method_own_codes" if rounded.values is None else "method_own_values"
            notes.append(Note.of(key, method=self.chain.rounding.id))
        undone = [
            method.id for method, basis in zip(self.chain.bases, self.bases, strict=True) if basis.is_undone
        ]
        if undone:
            notes.append(Note.of("method_in_basis", methods=" + ".join(undone)))
        return tuple(notes)


def done_together(works: Sequence[ChainWork]) -> list[tuple[Operand, Operand, Applied]]:
    for work in works:
        work.begin()
    method = works[0].chain.rounding
    rounded: list[RoundedWeight | None] = []
    if method is None:
        rounded += [None if work.task.weights is None else RoundedWeight(work.task.nearest) for work in works]
    else:
        with _blamed(method.id):
            rounded += method.round_together([work.task for work in works])
    return [work.end(each) for work, each in zip(works, rounded, strict=True)]


@contextmanager
def _blamed(method: str) -> Iterator[None]:
    """Name the method in errors on NaN or Inf that it computed from finite values."""
    try:
        yield
    except QuantVizError as problem:
        if problem.key != "input_nonfinite":
            raise
        *_, channel = cast("Shape", problem.params["index"])
        about = {"method": method, "name": "W", "channel": channel, "count": problem.params["count"]}
        raise QuantVizError("method.nonfinite", **about) from None


def refuse_nonfinite(method: str, **sides: torch.Tensor) -> None:
    """Raise `QuantVizError` for values that a method made NaN or too large for float32."""
    for name, values in sides.items():
        wrong = ~torch.isfinite(values.to(torch.float32))
        if bool(wrong.any()):
            channel, count = int(wrong.any(0).nonzero()[0]), int(wrong.sum())
            raise QuantVizError("method.nonfinite", method=method, name=name, channel=channel, count=count)


def refuse_applied(applied: Applied) -> None:
    """Raise `QuantVizError` for a chain whose layer is no product of two matrices of codes."""
    if applied.chain.bases or applied.chain.corrections:
        raise QuantVizError("integer.method", method=str(applied.chain))
