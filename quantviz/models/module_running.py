"""A user's own torch model under schemes, beside itself without: its loss, its outputs and its layers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, overload

import torch
from torch import nn

from quantviz.errors import Note, QuantVizError
from quantviz.layers.captures import Captured
from quantviz.layers.collecting import (
    collected,
    iterated,
    modules_by_name,
    note_on_names,
    rows_of,
    run_batch,
    shaped_as_output,
)
from quantviz.layers.methods.applied import ChainWork, done_together
from quantviz.layers.methods.chain import NEAREST, as_chain
from quantviz.layers.operands import input_operand, weight_operand
from quantviz.models.capturing import tensors_in
from quantviz.models.character_model import CHARACTER, SEED_TEXT
from quantviz.models.logit_rows import LogitDifference, LogitRows, WithLogits
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, as_schemes, check_names
from quantviz.models.quantizing import QuantizedLinear, mean_bits, products, rounded_by
from quantviz.models.running import LayerNumbers, RunResult, relative_error, run_built_in
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.schemes.scheme import Scheme
from quantviz.text import table

#: Computes the loss of a batch from the model's output and the batch's target.
Loss = Callable[[Any, Any], Any]


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class ModuleRun(WithLogits):
    """A torch model under schemes beside itself without, on the same batches."""

    schemes: ModelSchemes
    #: The errors of each layer by itself, by name, in the order in which they ran.
    layers: Mapping[str, LayerNumbers]
    #: Mean loss of a batch, after and before; None where no loss was given.
    loss: float | None
    original_loss: float | None
    #: ‖error‖² / ‖output‖² of the model's outputs, over all batches.
    rel_out: float
    #: The outputs taken for logits, by rows of the last axis; NaN where that has one value.
    logits: LogitDifference
    #: Mean bits of a weight of the layers, with scales.
    bits: float
    #: Remarks for the user, such as the names of the layers that stayed as they are.
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f"loss {self.original_loss:.4g} → {self.loss:.4g}, "
        size = f"{len(self.layers)} layers, {self.bits:.3g} bits a weight"
        return f"ModuleRun({size}: {loss}output error {self.rel_out:.3g}, KL {self.kl:.3g})"

    def _repr_html_(self) -> str:
        return table(
            [
                ("schemes", self.schemes),
                ("loss", self.loss),
                ("loss of the original", self.original_loss),
                ("output error", self.rel_out),
                ("KL divergence, bits a row", self.kl),
                ("its median", self.logits.kl_median),
                ("its 99th percentile", self.logits.kl_99),
                ("its maximum", self.logits.kl_max),
                ("same first choice", self.same_top),
                ("bits a weight", self.bits),
                *(("note", note) for note in self.notes),
            ]
        )

    @property
    def worst(self) -> tuple[str, ...]:
        """Return the names of the layers, largest output error first."""
        return tuple(sorted(self.layers, key=lambda name: -self.layers[name].rel_out))


@public
def run_module(
    model: nn.Module,
    batches: Any,
    loss: Loss | None = None,
    schemes: ModelSchemes | LayerSchemes | Scheme | str | None = None,
    *,
    calibration: Any = None,
    rows: int = 512,
) -> ModuleRun:
    """Return a torch model under schemes, beside itself without: its loss, its outputs and its layers.

    The layers are those of `collect`; no method works on a convolution with groups, which is one of them.
    All others stay as they are, and a note names them. The model itself is not changed.

    Args:
        model: A `torch.nn.Module` in evaluation mode.
        batches: An iterable of pairs (inputs, target) where there is a loss, else of inputs: a tensor or a
            text each, a tuple of positional or a dict of named arguments.
        loss: Called with the model's output and the target; returns a number, or a tensor with one.
        schemes: Schemes by layer, or one scheme or recipe for the weights of all layers but "lm_head", which
            is rounded only where it is named.
        calibration: Batches of inputs on which scales that tokens share are chosen, and methods work; None
            takes those of `batches`.
        rows: The most tokens of a layer on which these are chosen, and its own error is measured.

    Returns:
        The result; a note says where the error was measured on the batches that the scales were chosen on.

    Raises:
        QuantVizError: The model is in training mode, fails, or has no such layer; a scheme does not fit; or
            the loss is no finite number.

    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    >>> batches = [(torch.ones(5, 8), torch.zeros(5, 4))]
    >>> found = run_module(model, batches, nn.functional.mse_loss, "int8_per_row")
    >>> found.rel_out < 1e-3, list(found.layers), found.bits > 8
    (True, ['0', '2'], True)
    """
    chosen = as_schemes(schemes)
    for name in ("embedding", "keys", "values"):
        if getattr(chosen, name) is not None:
            raise QuantVizError("model.only_layers", got=name)
    pairs = _pairs(batches, loss)
    inputs = [batch_inputs for batch_inputs, _ in pairs]
    seen = collected(model, inputs if calibration is None else calibration, rows=rows)
    check_names(chosen, seen.names)
    rounded = {layer.name: _rounded(layer, chosen.of(layer.name)) for layer in seen}
    sums = _compared(model, pairs, rounded, loss)
    notes = [Note.of("run_calibrated_on_itself")] if calibration is None and _calibrated(chosen) else []
    grouped = [each.name for each in seen if each.groups > 1 and as_chain(chosen.of(each.name).method)]
    return ModuleRun(
        chosen,
        MappingProxyType({layer.name: _numbers(layer, rounded[layer.name]) for layer in seen}),
        sums.mean_loss(1),
        sums.mean_loss(0),
        sums.rel_out,
        sums.logits.difference(),
        mean_bits(rounded.values()),
        (*seen.notes, *note_on_names("run_groups_nearest", grouped), *notes),
    )


@overload
def run(
    model: str = CHARACTER,
    schemes: ModelSchemes | LayerSchemes | Scheme | str | None = None,
    text: str | None = None,
    *,
    seed_text: str = SEED_TEXT,
    draw: int = 0,
) -> RunResult: ...


@overload
def run(
    model: nn.Module,
    batches: Any,
    loss: Loss | None = None,
    schemes: ModelSchemes | LayerSchemes | Scheme | str | None = None,
    *,
    calibration: Any = None,
    rows: int = 512,
) -> ModuleRun: ...


# Its signature and its words are those of a run of a built-in model.
@functools.wraps(run_built_in)
def run(model: Any = CHARACTER, *given: Any, **named: Any) -> Any:
    if isinstance(model, nn.Module):
        return run_module(model, *given, **named)
    return run_built_in(model, *given, **named)


def _pairs(batches: Any, loss: Loss | None) -> list[tuple[Any, Any]]:
    """Return batches as pairs of inputs and target; the target is None where there is no loss."""
    listed = list(iterated(batches))
    if loss is None:
        return [(batch, None) for batch in listed]
    for number, batch in enumerate(listed):
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise QuantVizError("model.no_pair", batch=number, got=type(batch).__name__)
    return [(batch_inputs, target) for batch_inputs, target in listed]


def _rounded(layer: Captured, schemes: LayerSchemes) -> QuantizedLinear:
    """Return a layer under its schemes; a chain of methods sees the tokens that were collected, and no
    convolution with groups, which is several matrices.
    """
    weight, seen = layer.whole()
    sides = (weight_operand(weight, None), input_operand(seen, None, seen.shape[1], 0, static=True))
    of_sides = [
        scheme if isinstance(scheme, Scheme) else None for scheme in (schemes.weights, schemes.inputs)
    ]
    none_held_back = torch.zeros(len(seen), dtype=torch.bool)
    chain = as_chain(schemes.method if layer.groups == 1 else NEAREST)
    work = ChainWork(chain, sides, (of_sides[0], of_sides[1]), none_held_back, True, 0, traced=False)
    ((rounded, _, applied),) = done_together([work])
    return rounded_by(work, layer.name, layer.bias, schemes, (rounded, applied))


def _numbers(layer: Captured, rounded: QuantizedLinear) -> LayerNumbers:
    weight, seen = layer.whole()
    rel_out = relative_error(rounded.outputs(seen), products(seen, weight))
    return LayerNumbers(rounded.sqnr_db, rel_out, rounded.bits)


def _compared(
    model: nn.Module, pairs: list[tuple[Any, Any]], rounded: Mapping[str, QuantizedLinear], loss: Loss | None
) -> _OutputSums:
    sums = _OutputSums()
    with torch.no_grad():
        for number, (batch_inputs, target) in enumerate(pairs):
            before = run_batch(model, batch_inputs, number)
            with _Under(model, rounded):
                after = run_batch(model, batch_inputs, number)
            sums.add(before, after, number)
            if loss is not None:
                sums.add_losses(*(_loss(loss, output, target, number) for output in (before, after)))
    return sums


class _Under(ExitStack):
    """Let layers of a model compute by their rounded weights and inputs while the block lasts."""

    def __init__(self, model: nn.Module, rounded: Mapping[str, QuantizedLinear]) -> None:
        super().__init__()
        modules = modules_by_name(model)
        for name, layer in rounded.items():
            if layer.schemes.weights is None and layer.schemes.inputs is None:
                continue
            handle = modules[name].register_forward_hook(_hook_of(layer), with_kwargs=True)
            self.callback(handle.remove)


def _hook_of(rounded: QuantizedLinear) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor) -> Any:
        inputs = args[0] if args else next(iter(kwargs.values()), None)
        if not isinstance(inputs, torch.Tensor) or not inputs.numel():
            return None
        rows = rows_of(module, inputs)
        tokens = rows.read(torch.arange(rows.count)).to(torch.float32)
        values = rounded.outputs(tokens)
        if rounded.bias is not None:
            values = values + rounded.bias
        return shaped_as_output(module, values, output)

    return hook


class _OutputSums:
    """Sums over batches of a model's outputs before and after."""

    def __init__(self) -> None:
        self._squares = [0.0, 0.0]
        self.logits = LogitRows()
        self._losses: list[tuple[float, float]] = []

    def add(self, before: Any, after: Any, number: int) -> None:
        x, y = (_first(output, number).double() for output in (before, after))
        if not bool(torch.isfinite(x).all() & torch.isfinite(y).all()):
            raise QuantVizError("model.nonfinite_output", batch=number)
        self._squares[0] += float((y - x).square().sum())
        self._squares[1] += float(x.square().sum())
        if x.shape[-1] > 1:
            self.logits.add(x, y)

    def add_losses(self, before: float, after: float) -> None:
        self._losses.append((before, after))

    def mean_loss(self, side: int) -> float | None:
        """Return the mean loss of a batch before (0) or after (1); None where there are no losses."""
        if not self._losses:
            return None
        return sum(losses[side] for losses in self._losses) / len(self._losses)

    @property
    def rel_out(self) -> float:
        error, signal = self._squares
        if error == 0:
            return 0.0
        return error / signal if signal else math.inf


def _first(output: Any, number: int) -> torch.Tensor:
    """Return the first tensor of numbers in an output that has an axis: a loss beside it has none."""
    for _, tensor in tensors_in(output):
        if (
            isinstance(tensor, torch.Tensor)
            and tensor.is_floating_point()
            and tensor.dim()
            and tensor.numel()
        ):
            return tensor.detach()
    raise QuantVizError("model.no_output", batch=number, got=type(output).__name__)


def _loss(loss: Loss, output: Any, target: Any, number: int) -> float:
    """Return the loss of one batch; its own failure becomes a sentence."""
    try:
        value = float(loss(output, target))
    except QuantVizError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise QuantVizError("model.loss_failed", batch=number, reason=reason) from error
    if not math.isfinite(value):
        raise QuantVizError("model.nonfinite_loss", batch=number, got=value)
    return value


def _calibrated(schemes: ModelSchemes) -> bool:
    """Return whether something is chosen by the inputs: a scheme of theirs, or a method."""
    all_schemes = (schemes.layers, *schemes.by_name.values())
    return any(
        layer_schemes.inputs is not None or as_chain(layer_schemes.method) for layer_schemes in all_schemes
    )
