"""A network under schemes: its weights after rounding, and the rounding of its activations.

Whatever tokens share is chosen ahead, on the text for calibration, so that a text that is written character
by character and one that is read at once are rounded alike: scales of the matrix and of channels, and the
scale over all blocks. All other scales are those of each token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.layers.methods.applied import Applied, ChainWork, done_together
from quantviz.layers.methods.chain import NEAREST, Chain, as_chain
from quantviz.layers.methods.contract import AfterReLU, Basis, MethodTask, as_quantized
from quantviz.layers.methods.gptq import GPTQ
from quantviz.layers.methods.learned_rounding import BRECQ
from quantviz.layers.methods.llm_int8 import LLMInt8, in_half
from quantviz.layers.methods.rotation import Rotation, Turned
from quantviz.layers.operands import Operand, input_operand, shares_scales, token_groups, weight_operand
from quantviz.models.character_model import CALIBRATED_ON, network_of, tokens_of
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, check_names
from quantviz.models.network import EMBEDDING, OUTPUTS, Network, Rounder, fed_by, inputs_name, logits
from quantviz.quantization.cells import cell_index, quantize_with
from quantviz.quantization.qparams import largest_magnitude
from quantviz.quantization.quantizer import found_by_reference, quantize, quantize_in_ranges
from quantviz.quantization.result import block_values
from quantviz.schemes.granularity import PerChannel, PerTensor
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.result_metrics import metrics
from quantviz.tensors import blocks

#: One of so many tokens of the text is kept for calibration.
_EVERY = 4
#: Rounded layers that are kept for all sessions: those of about eight schemes of the model.
_MOST_LAYERS = 200
#: Groups of layers that a chain has rounded together, and that are kept.
_MOST_TOGETHER = 8
#: Bits of a weight that is not quantized.
STORED_BITS = 16.0


@dataclass(frozen=True, eq=False)
class QuantizedLinear:
    name: str
    schemes: LayerSchemes
    #: Ŵ, float32 (outputs, inputs).
    weight: torch.Tensor
    bias: torch.Tensor | None
    #: Rounds its inputs, if they are rounded.
    inputs: Rounder | None
    #: SQNR of the weight in dB, inf without an error, and bits a weight with its scales.
    sqnr_db: float
    bits: float

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's outputs of some inputs, without its bias, float32 (tokens, outputs)."""
        return products(x if self.inputs is None else self.inputs(x), self.weight)


def products(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return XWᵀ, (tokens, outputs), or that of each group of a convolution, whose inputs are side by side.

    >>> products(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.ones(2, 2)).tolist()
    [[3.0, 7.0]]
    """
    groups = x.shape[1] // weight.shape[1]
    if groups == 1:
        return x @ weight.T
    sides = (blocks.viewed(x, (len(x), groups, -1)), blocks.viewed(weight, (groups, -1, weight.shape[1])))
    return torch.einsum("tgi,goi->tgo", *sides).flatten(1)


@dataclass(frozen=True, eq=False)
class Quantized:
    network: Network
    layers: Mapping[str, QuantizedLinear]

    @property
    def bits(self) -> float:
        return mean_bits(self.layers.values())


def mean_bits(layers: Iterable[QuantizedLinear]) -> float:
    counts = [(layer.weight.numel(), layer.bits) for layer in layers]
    return sum(bits * count for count, bits in counts) / sum(count for count, _ in counts)


@lru_cache(maxsize=2)
def watched_on_calibration(model: str) -> Mapping[str, torch.Tensor]:
    """Return the inputs of a built-in model's linear layers, and its keys and values, (tokens, channels) by
    name.

    They are those of the text for calibration.
    """
    watched: dict[str, torch.Tensor] = {}

    def watch(name: str, value: torch.Tensor) -> None:
        if value.dim() == 3 and not name.endswith(OUTPUTS):
            watched[name] = value.flatten(0, 1)[::_EVERY][:CALIBRATED_ON].clone()

    with torch.inference_mode():
        logits(network_of(model), tokens_of("calibration", model)[:, :-1], watch=watch)
    return MappingProxyType(watched)


@lru_cache(maxsize=2)
def fisher_on_calibration(model: str) -> Mapping[str, torch.Tensor]:
    """Return the squared slopes of a built-in model's loss, in nats a character, by its linear layers'
    outputs.

    They are of the tokens of `watched_on_calibration`, float64 (tokens, outputs) by name.
    """
    network = network_of(model)
    tokens = tokens_of("calibration", model).clone()
    # A tensor that was made in inference mode takes no part in slopes.
    tensors = {name: each.clone() for name, each in network.tensors.items()}
    network = dataclasses.replace(network, tensors=tensors)
    outputs: dict[str, torch.Tensor] = {}

    def watch(name: str, value: torch.Tensor) -> None:
        layer, _, part = name.rpartition(".")
        if part == OUTPUTS:
            outputs[layer] = value

    stream = network.tensors[f"{EMBEDDING}.weight"][tokens[:, :-1]].requires_grad_()
    scores = logits(network, tokens[:, :-1], watch=watch, done=(0, stream))
    given = network.sizes.given
    of_targets = scores[:, given - 1 :].flatten(0, 1), tokens[:, given:].flatten()
    loss = torch.nn.functional.cross_entropy(*of_targets, reduction="sum")
    slopes = torch.autograd.grad(loss, list(outputs.values()))
    kept = (each.flatten(0, 1)[::_EVERY][:CALIBRATED_ON].to(torch.float64).square() for each in slopes)
    return MappingProxyType(dict(zip(outputs, kept, strict=True)))


def quantized_network(model: str, schemes: ModelSchemes) -> Quantized:
    """Raise `QuantVizError` for a scheme that does not fit, or is that of no layer."""
    network = network_of(model)
    names = network.sizes.linear_layers()
    check_names(schemes, names)
    rounded = {layer.name: layer for layer in rounded_layers(model, schemes)}
    layers = {name: rounded[name] for name in names}
    changed = with_layers(network, layers.values())
    tensors = dict(changed.tensors)
    if isinstance(schemes.embedding, Scheme):
        table = f"{EMBEDDING}.weight"
        tensors[table] = quantize(tensors[table], schemes.embedding).x_hat
    cached = _cached(model, schemes, network.sizes.layers)
    return Quantized(dataclasses.replace(changed, tensors=tensors, cached=cached), MappingProxyType(layers))


def with_layers(network: Network, layers: Iterable[QuantizedLinear]) -> Network:
    tensors = dict(network.tensors)
    inputs = dict(network.inputs)
    for layer in layers:
        tensors[f"{layer.name}.weight"] = layer.weight
        if layer.bias is not None:
            tensors[f"{layer.name}.bias"] = layer.bias
        if layer.inputs is not None:
            inputs[layer.name] = layer.inputs
    return dataclasses.replace(network, tensors=tensors, inputs=inputs)


def rounded_layers(model: str, schemes: ModelSchemes) -> Iterator[QuantizedLinear]:
    """Yield the linear layers of a built-in model under their schemes, as each is ready."""
    groups: dict[tuple[LayerSchemes, str], list[str]] = {}
    for name in network_of(model).sizes.linear_layers():
        layer_schemes = schemes.of(name)
        rounding = as_chain(layer_schemes.method).rounding
        # GPTQ sweeps all layers at once, and BRECQ learns those of a block together.
        first = "" if isinstance(rounding, GPTQ) else (isinstance(rounding, BRECQ) and fed_by(name)) or name
        groups.setdefault((layer_schemes, first), []).append(name)
    for (layer_schemes, first), together in groups.items():
        if first and len(together) == 1:
            yield rounded_layer(model, together[0], layer_schemes)
        else:
            yield from _kept_together(model, tuple(together), layer_schemes)


@lru_cache(maxsize=_MOST_LAYERS)
def rounded_layer(model: str, name: str, schemes: LayerSchemes) -> QuantizedLinear:
    """Raise `QuantVizError` for a scheme that does not fit the layer."""
    tensors = network_of(model).tensors
    weight = tensors[f"{name}.weight"]
    bias = tensors.get(f"{name}.bias")
    if schemes.method != NEAREST:
        return _by_methods(model, (name,), schemes)[0]
    inputs = None
    if isinstance(schemes.inputs, Scheme):
        inputs = _shared_rounder(model, inputs_name(name), schemes.inputs)
    if not isinstance(schemes.weights, Scheme):
        return QuantizedLinear(name, schemes, weight, bias, inputs, torch.inf, STORED_BITS)
    weight_result = quantize(weight, schemes.weights)
    return QuantizedLinear(
        name,
        schemes,
        weight_result.x_hat,
        bias,
        inputs,
        metrics(weight_result)["sqnr_db"],
        bits_per_element(schemes.weights, weight_result.shape),
    )


def _by_methods(model: str, names: tuple[str, ...], schemes: LayerSchemes) -> tuple[QuantizedLinear, ...]:
    """Return linear layers under a chain of methods, which sees the text for calibration alone."""
    tensors = network_of(model).tensors
    weights, inputs = (
        scheme if isinstance(scheme, Scheme) else None for scheme in (schemes.weights, schemes.inputs)
    )
    works = []
    for name in names:
        seen = watched_on_calibration(model)[name]
        sides = (
            weight_operand(tensors[f"{name}.weight"], None),
            input_operand(seen, None, seen.shape[1], 0, static=True),
        )
        used = torch.zeros(len(seen), dtype=torch.bool)
        chain = as_chain(schemes.method)
        work = ChainWork(chain, sides, (weights, inputs), used, static=True, seed=0, traced=False)
        if isinstance(chain.rounding, BRECQ):
            work.task = dataclasses.replace(
                work.task, fisher=fisher_on_calibration(model)[name], feed=_feed(model, fed_by(name))
            )
        works.append(work)
    done = zip(names, works, done_together(works), strict=True)
    return tuple(
        rounded_by(work, name, tensors.get(f"{name}.bias"), schemes, (rounded, applied), model=model)
        for name, work, (rounded, _, applied) in done
    )


def _feed(model: str, before: str | None) -> AfterReLU | None:
    """Return the way from a layer of the same block, on the text for calibration."""
    if before is None:
        return None
    tensors, x = network_of(model).tensors, watched_on_calibration(model)[before]
    outputs = torch.nn.functional.linear(x, tensors[f"{before}.weight"], tensors.get(f"{before}.bias"))
    return AfterReLU(outputs.to(torch.float64))


_kept_together = lru_cache(maxsize=_MOST_TOGETHER)(_by_methods)


def rounded_by(
    work: ChainWork,
    name: str,
    bias: torch.Tensor | None,
    schemes: LayerSchemes,
    done: tuple[Operand, Applied],
    *,
    model: str | None = None,
) -> QuantizedLinear:
    """Return a linear layer that a chain is done with: its weight, and the chain's other effects.

    The layers of a built-in model, which is named, share the rounding of their common inputs.
    """
    rounded, applied = done
    inputs = schemes.inputs
    built_in = None if model is None else (model, name)
    if applied.bias_change is not None:
        bias = applied.bias_change.to(torch.float32) + (0 if bias is None else bias)
    # A method may round to a codebook of its own.
    bits = STORED_BITS if rounded.scheme is None else bits_per_element(rounded.scheme, rounded.shape)
    return QuantizedLinear(
        name,
        schemes,
        rounded.quantized(slice(None)),
        bias,
        _input_rounder(work, inputs, built_in) if isinstance(inputs, Scheme) else None,
        torch.inf if rounded.sqnr_db is None else rounded.sqnr_db,
        bits + applied.extra_bits,
    )


def _input_rounder(work: ChainWork, inputs: Scheme, built_in: tuple[str, str] | None) -> Rounder:
    """Return the rounding of a layer's inputs in the basis of a chain, taken back to their own.

    `built_in` are the names of a built-in model and of its layer.
    """
    loud = _without_loud(work.chain, work.task)
    rotations = tuple(rotation for rotation in work.chain.bases if isinstance(rotation, Rotation))
    if built_in is not None and loud is None and len(rotations) == len(work.bases):
        model, name = built_in
        return _shared_rounder(model, inputs_name(name), inputs, rotations)
    # The work itself is not kept: it holds the layer's inputs.
    return _in_bases(tuple(work.bases), loud or rounder(inputs, work.task.x.to(torch.float32)))


@lru_cache(maxsize=_MOST_LAYERS)
def _shared_rounder(model: str, name: str, scheme: Scheme, rotations: tuple[Rotation, ...] = ()) -> Rounder:
    """Return the rounding of inputs that several layers may share, after rotations."""
    seen = watched_on_calibration(model)[name]
    if not rotations:
        return rounder(scheme, seen)
    bases = tuple(Turned(rotation, seen.shape[1]) for rotation in rotations)
    changed = seen.to(torch.float64)
    for basis in bases:
        changed = basis.of_inputs(changed)
    return _in_bases(bases, rounder(scheme, changed.to(torch.float32)))


def _in_bases(bases: tuple[Basis, ...], nearest: Rounder) -> Rounder:
    """Return a rounding in some bases, taken back to the inputs' own."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        changed = x.to(torch.float64)
        for basis in bases:
            changed = basis.of_inputs(changed)
        back = nearest(changed.to(torch.float32)).to(torch.float64)
        for basis in reversed(bases):
            back = basis.inputs_back(back)
        return back.to(torch.float32)

    return rounded


def _without_loud(chain: Chain, task: MethodTask) -> Rounder | None:
    """Return the rounding of inputs by LLM.int8(), loud channels in half precision; None without it."""
    method = chain.rounding
    if not isinstance(method, LLMInt8) or task.inputs is None:
        return None
    kept = method.round(task).trace.kept
    coded = rounder(task.inputs, method.coded(task.x, kept).to(torch.float32))
    return lambda x: torch.where(kept, in_half(x).to(torch.float32), coded(method.coded(x, kept)))


def rounder(scheme: Scheme, seen: torch.Tensor) -> Rounder:
    """Return the rounding of matrices (tokens, channels); `seen` is one on the text for calibration.

    Raises:
        QuantVizError: Groups of tokens share a scale: a model rounds each token before the next one is known.
    """
    shape = (len(seen), seen.shape[1])
    for problem in scheme.problems(shape):
        raise problem
    if not shares_scales(scheme, shape):
        return lambda x: quantize(x, scheme).x_hat
    if not token_groups(scheme, shape):
        return _of_own_scales(scheme, seen)
    if not isinstance(scheme.granularity, PerTensor | PerChannel):
        raise QuantVizError("model.token_groups", scheme=str(scheme))
    # The values of blocks follow from the chosen scales alone: they are made once for every text.
    one = (1, shape[1])
    params = block_values(quantize(seen, scheme).qparams)
    cells = {name: blocks.expand(grid, scheme.layout(one), one) for name, grid in params.items()}

    def rounded(x: torch.Tensor) -> torch.Tensor:
        values = as_quantized(x, scheme)
        return quantize_with(values, scheme, cells | cell_index(scheme, tuple(x.shape)))[1]

    return rounded


def _of_own_scales(scheme: Scheme, seen: torch.Tensor) -> Rounder:
    """Return the rounding of each token by its own scales; `seen` gives the whole tensor's numbers."""
    absmax = largest_magnitude(as_quantized(seen, scheme))

    def rounded(x: torch.Tensor) -> torch.Tensor:
        block_ranges = found_by_reference(x, scheme, absmax)
        return quantize_in_ranges(x, scheme, block_ranges, absmax).x_hat

    if not scheme.calibration.together:
        return rounded
    # A search over all blocks ends when their sum no longer falls: each token's is its own.
    return lambda x: torch.cat([rounded(token) for token in torch.split(x, 1)])


def _cached(model: str, schemes: ModelSchemes, layers: int) -> dict[str, Rounder]:
    rounders = {}
    for part in ("keys", "values"):
        scheme = getattr(schemes, part)
        if scheme is not None:
            for layer in range(layers):
                name = f"model.layers.{layer}.{part}"
                rounders[name] = rounder(scheme, watched_on_calibration(model)[name])
    return rounders
