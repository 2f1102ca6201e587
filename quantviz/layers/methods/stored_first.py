"""One format into another: the weight of a stored checkpoint is quantized again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.methods.contract import (
    Basis,
    BasisMethod,
    MethodTask,
    as_quantized,
    one_of,
    products_of_errors,
)
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import RECIPES, as_scheme


@dataclass(frozen=True)
class StoredTrace:
    """The output errors of the weight ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖², on the tokens that may be used."""

    #: As it is stored.
    once: float
    #: Rounded to nearest from there, and straight from the weight as it was; None where it is not rounded.
    again: float | None = None
    direct: float | None = None


class StoredBasis(Basis):
    """The inputs as they are, and the stored values in place of the weights."""

    is_undone = False

    def __init__(
        self, stored: torch.Tensor, trace: StoredTrace | None = None, notes: tuple[Note, ...] = ()
    ) -> None:
        #: Float64 (outputs, inputs).
        self.stored = stored
        self.trace = trace
        self.notes = notes

    def of_inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def of_weights(self, w: torch.Tensor) -> torch.Tensor:
        return self.stored

    def inputs_back(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def weights_back(self, w: torch.Tensor) -> torch.Tensor:
        return w


@dataclass(frozen=True)
class Stored(BasisMethod):
    """Round the weight to the format of a stored checkpoint, and have the rest of the chain round its values.

    Engines do so: vLLM rounds FP8 again at the largest scale of fused layers, llama.cpp rounds Q8_0 to four
    bits (`--allow-requantize`). The errors are those of both roundings, from the weight as it was.
    """

    #: The recipe of the stored format.
    recipe: str = "fp8_e4m3_per_tensor"
    id: ClassVar[str] = "stored"
    cost: ClassVar[str] = "m n (m + n)"
    work: ClassVar[float] = 700.0
    variants: ClassVar[tuple[str, ...]] = ("stored(recipe=q8_0)", "stored+gptq")

    def products(self, shape: Shape) -> float:
        return super().products(shape) + products_of_errors(shape, 3)

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "recipe", tuple(RECIPES))

    def basis(self, task: MethodTask) -> StoredBasis:
        scheme = as_scheme(self.recipe).on_input(task.dtype)
        for problem in scheme.problems(tuple(task.w.shape)):
            raise problem
        stored = quantize(as_quantized(task.w, scheme), scheme).x_hat.to(torch.float64)
        if not task.traced:
            return StoredBasis(stored)
        once = task.output_error(stored)
        if task.weights is None:
            return StoredBasis(stored, StoredTrace(once))
        again = task.output_error(quantize(as_quantized(stored, task.weights), task.weights).x_hat)
        direct = task.output_error(task.nearest.x_hat)
        shares = {"once": 100 * once, "again": 100 * again, "direct": 100 * direct}
        note = Note.of("method_stored_again", recipe=self.recipe, **shares)
        return StoredBasis(stored, StoredTrace(once, again, direct), (note,))
