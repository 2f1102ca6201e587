"""The contract of methods: their input, their results at each of three stages, and their base classes.

A method is a frozen dataclass whose fields are its parameters. Its stage is one of three, in this order:

1. A *basis* changes the axis of inputs and keeps the product: x → xT, W → WT⁻ᵀ; or takes the values of a
   stored format for W.
2. A *rounding* chooses codes, at most one in a chain. Without one, each weight is rounded to nearest.
3. A *correction* changes the weight after rounding, or the bias.

Each asks the reference for every rounding to the grid: `quantize`, `choose_qparams`, `quantize_with`.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.quantization.input_dtype import rounded_to
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.schemes.calibration_protocol import as_plain
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import as_input

Stage = Literal["basis", "rounding", "correction"]
STAGES: tuple[Stage, ...] = ("basis", "rounding", "correction")
#: Rounds inputs of all tokens to nearest, float64 (tokens, inputs), by their scheme and by scales that are
#: chosen on tokens that are not held back.
Nearest: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
#: Multiplications that take as long as a step that asks torch for some ten operations, besides its work.
STEP = 4e6
_PLAIN: dict[Any, type] = {int: int, "int": int, float: float, "float": float}


@dataclass(frozen=True, eq=False)
class AfterReLU:
    """Inputs of a layer that are the ReLU of what the layer before puts out, in some bases."""

    #: The outputs of the layer before with its bias, float64 (tokens, channels).
    before: torch.Tensor
    bases: tuple[Basis, ...] = ()

    def in_basis(self, basis: Basis) -> AfterReLU:
        return dataclasses.replace(self, bases=(*self.bases, basis))

    def inputs(self, moved: torch.Tensor) -> torch.Tensor:
        """Return the inputs where those outputs change, in the dtype of the change."""
        x = (self.before + moved).clamp(min=0)
        for basis in self.bases:
            x = basis.of_inputs(x)
        return x.to(moved.dtype)

    def slopes(self, of_inputs: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        """Return slopes by those outputs of slopes by the inputs."""
        found = of_inputs
        for basis in reversed(self.bases):
            found = basis.weights_back(found.to(torch.float64))
        return found.to(moved.dtype) * (self.before + moved > 0)


@dataclass(frozen=True, eq=False)
class MethodTask:
    """The input of a method: a layer in the present basis, without the tokens that are held back."""

    #: W, float64 (outputs, inputs).
    w: torch.Tensor
    #: X of the tokens that may be used, float64 (tokens, inputs).
    x: torch.Tensor
    #: The schemes of both sides; None for a side that is not rounded.
    weights: Scheme | None
    inputs: Scheme | None
    seed: int = 0
    #: Whether the numbers for a method's picture are wanted, besides its result.
    traced: bool = True
    #: The squared slopes of a model's loss by the layer's outputs, the diagonal of the Fisher matrix, float64
    #: (tokens, outputs); None where there is no model.
    fisher: torch.Tensor | None = None
    dtype: str = "float32"
    #: The way from the layer before in its block; None for the first one, and where no block is known.
    feed: AfterReLU | None = None

    @property
    def shape(self) -> Shape:
        """Return the numbers of tokens that may be used, of inputs and of outputs."""
        return (*self.x.shape, self.w.shape[0])

    @cached_property
    def hessian(self) -> torch.Tensor:
        """Return H = XᵀX / N, float64 (inputs, inputs)."""
        return self.x.T @ self.x / len(self.x)

    @property
    def scheme(self) -> Scheme:
        if self.weights is None:
            raise QuantVizError("method.no_weight_scheme")
        return self.weights

    @property
    def few_tokens(self) -> tuple[Note, ...]:
        """Return the note that the tokens are fewer than the inputs, so that a fit generalizes little."""
        tokens, inputs, _ = self.shape
        return (Note.of("method_few_tokens", tokens=tokens, inputs=inputs),) if tokens < inputs else ()

    @cached_property
    def values(self) -> torch.Tensor:
        return as_quantized(self.w, self.scheme)

    @cached_property
    def nearest(self) -> QuantResult:
        return quantize(self.values, self.scheme)

    def in_basis(self, basis: Basis) -> MethodTask:
        feed = None if self.feed is None else self.feed.in_basis(basis)
        return dataclasses.replace(self, w=basis.of_weights(self.w), x=basis.of_inputs(self.x), feed=feed)

    def output_error(self, w_hat: torch.Tensor) -> float:
        """Return ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖² on the tokens that may be used, as `relative` does."""
        return relative(self._squares(w_hat.to(torch.float64) - self.w), self.signal)

    @cached_property
    def signal(self) -> float:
        return self._squares(self.w)

    def _squares(self, w: torch.Tensor) -> float:
        tokens, inputs, _ = self.shape
        if tokens < inputs:
            # Their outputs are cheaper than H.
            return float((self.x @ w.T).square().sum()) / tokens
        return float(squared_outputs(w, self.hessian).sum())


def products_of_errors(shape: Shape, count: int) -> float:
    """Return the multiplications of `count` output errors, see `MethodTask.output_error`."""
    tokens, inputs, outputs = shape
    if tokens < inputs:
        return float(count * tokens * inputs * outputs)
    return float((tokens + count * outputs) * inputs**2)


def products_of_decomposition(rows: int, columns: int) -> float:
    """Return the multiplications that take as long as the singular value decomposition of a matrix."""
    return 10.0 * rows * columns * min(rows, columns)


def relative(error: float, signal: float) -> float:
    """Return a squared error over a squared signal: 0 without an error, inf where only the signal is 0."""
    if not error:
        return 0.0
    return error / signal if signal else math.inf


def squared_outputs(w: torch.Tensor, hessian: torch.Tensor) -> torch.Tensor:
    """Return the mean squared output of each row of weights, w H wᵀ, float64 (outputs,)."""
    return ((w @ hessian) * w).sum(1)


def as_quantized(w: torch.Tensor, scheme: Scheme, *, known: bool = False) -> torch.Tensor:
    """Return weights as the reference quantizes them: float32, rounded to half precision if the scheme does.

    `known` weights were made of finite ones: looking for NaN takes longer than to round them.
    """
    half = rounded_to(scheme)
    if known and half is None:
        return w.to(torch.float32)
    return as_input(w.to(torch.float32), scheme.nonfinite, half)[0]


@dataclass(frozen=True, eq=False)
class CourseTrace:
    """The course of a search: the output errors ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖² on the tokens that may be used."""

    #: The steps, rounds or values of a parameter that were looked at, and the error at each, (looks,).
    steps: torch.Tensor
    errors: torch.Tensor
    #: The look that was kept, if it is not that of least error.
    kept: int | None = None

    @property
    def best(self) -> int:
        return int(self.errors.argmin()) if self.kept is None else self.kept % len(self.errors)


# ---- what each stage returns --------------------------------------------------------------------------


class Basis(ABC):
    """Change the axis of inputs, x → (x − δ)T and W → WT⁻ᵀ, which keeps XWᵀ with δWᵀ in the bias; all
    float64.
    """

    #: Bits that it adds to each weight at its stored size.
    extra_bits: float = 0.0
    #: Whether the layer before takes the change of inputs, so that it costs nothing when the model runs.
    merges: bool = True
    #: Whether the change of the weights is undone after the rounding.
    is_undone: bool = True
    #: δ, (inputs,), which is taken off the inputs; None for 0.
    shift: torch.Tensor | None = None
    #: The numbers that a picture shows of it.
    trace: Any = None
    notes: tuple[Note, ...] = ()

    @abstractmethod
    def of_inputs(self, x: torch.Tensor) -> torch.Tensor:
        """Return inputs in this basis, (x − δ)T."""

    @abstractmethod
    def of_weights(self, w: torch.Tensor) -> torch.Tensor:
        """Return weights in this basis, WT⁻ᵀ."""

    @abstractmethod
    def inputs_back(self, x: torch.Tensor) -> torch.Tensor:
        """Return inputs of this basis in the one before, xT⁻¹."""

    @abstractmethod
    def weights_back(self, w: torch.Tensor) -> torch.Tensor:
        """Return weights of this basis in the one before, WTᵀ."""


class ScaledBasis(Basis):
    """Divide each input channel, less its shift, by its own scale, and multiply its weights by it."""

    def __init__(
        self,
        scales: torch.Tensor,
        trace: Any = None,
        notes: tuple[Note, ...] = (),
        shift: torch.Tensor | None = None,
    ) -> None:
        #: Above 0, float64 (inputs,).
        self.scales = scales
        self.shift = shift
        self.trace = trace
        self.notes = notes

    def of_inputs(self, x: torch.Tensor) -> torch.Tensor:
        return (x if self.shift is None else x - self.shift) / self.scales

    def of_weights(self, w: torch.Tensor) -> torch.Tensor:
        return w * self.scales

    def inputs_back(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scales if self.shift is None else x * self.scales + self.shift

    def weights_back(self, w: torch.Tensor) -> torch.Tensor:
        return w / self.scales


@dataclass(frozen=True, eq=False)
class RoundedWeight:
    """The weight after rounding, in the basis of the task."""

    #: Codes, scales and values of W; `own_codes` where codes do not follow from W alone.
    result: QuantResult
    trace: Any = None
    #: Bits that the method adds to each weight beyond the result's scheme, such as for an order of columns
    #: that is stored.
    extra_bits: float = 0.0
    notes: tuple[Note, ...] = ()
    #: The values that the layer multiplies by, float64, if they are not those of the codes, as where some
    #: channels stay in half precision.
    values: torch.Tensor | None = None
    #: From inputs, float64 (tokens, inputs) in the basis of the task, to their rounded values, if the method
    #: decides on these too; its second argument rounds to nearest.
    inputs: Callable[[torch.Tensor, Nearest], torch.Tensor] | None = None

    @property
    def w_hat(self) -> torch.Tensor:
        return self.result.x_hat.to(torch.float64) if self.values is None else self.values


@dataclass(frozen=True, eq=False)
class Correction:
    #: The change of the weight in the basis of the task, float64 (outputs, inputs), or None.
    weight: torch.Tensor | None = None
    #: The change of the bias, float64 (outputs,), or None.
    bias: torch.Tensor | None = None
    extra_bits: float = 0.0
    trace: Any = None
    notes: tuple[Note, ...] = ()


# ---- the methods themselves ---------------------------------------------------------------------------


class Method(ABC):
    """The base of every method: a frozen dataclass, whose fields are its parameters, all with defaults."""

    id: ClassVar[str]
    stage: ClassVar[Stage]
    #: Its cost in multiplications: m outputs, n inputs, N tokens.
    cost: ClassVar[str]
    #: Its work on each weight besides products of matrices, in multiplications that take as long: rounding to
    #: the grid and back takes 350.
    work: ClassVar[float] = 250.0
    #: Chains with it that pages offer besides the method alone with its defaults.
    variants: ClassVar[tuple[str, ...]] = ()
    #: Ids of methods that may not stand in one chain with it, each with the key of the reason under
    #: `[errors.method]`.
    excludes: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        """Convert numbers to the kind that their field declares."""
        kinds = {name: _PLAIN.get(kind) for name, kind in type(self).__annotations__.items()}
        as_plain(self, **{name: kind for name, kind in kinds.items() if kind})

    def products(self, shape: Shape) -> float:
        """Return about how many multiplications of float64 matrices take as long on a layer of such a
        shape.
        """
        _, inputs, outputs = shape
        return self.work * inputs * outputs

    @property
    def roundings(self) -> int:
        """Return how often it chooses the ranges of all weights, by the scheme's search if it has one."""
        return 0

    def problems(self) -> Iterator[QuantVizError]:
        return iter(())

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        """Yield an error if it means nothing under such schemes."""
        return iter(())


class BasisMethod(Method):
    stage: ClassVar[Stage] = "basis"

    @abstractmethod
    def basis(self, task: MethodTask) -> Basis: ...


class RoundingMethod(Method):
    stage: ClassVar[Stage] = "rounding"

    @abstractmethod
    def round(self, task: MethodTask) -> RoundedWeight: ...

    def round_together(self, tasks: Sequence[MethodTask]) -> list[RoundedWeight]:
        """Return the rounded weights of layers under the same schemes; by default each for itself."""
        return [self.round(task) for task in tasks]

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        if weights is None:
            yield QuantVizError("method.no_weight_scheme")


class CorrectionMethod(Method):
    stage: ClassVar[Stage] = "correction"

    @abstractmethod
    def correct(self, task: MethodTask, w_hat: torch.Tensor, x_hat: torch.Tensor) -> Correction:
        """`w_hat` are the weights so far, `x_hat` the rounded inputs that may be used; both float64."""


def one_of(owner: Method, field: str, known: tuple[str, ...]) -> Iterator[QuantVizError]:
    got = getattr(owner, field)
    if got not in known:
        yield QuantVizError("method.word", method=owner.id, field=field, got=got, known=", ".join(known))


def between(owner: Method, field: str, low: float, high: float) -> Iterator[QuantVizError]:
    got = getattr(owner, field)
    if isinstance(got, bool) or not isinstance(got, int | float) or not low <= got <= high:
        yield QuantVizError("method.number", method=owner.id, field=field, got=got, low=low, high=high)
