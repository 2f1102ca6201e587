"""The remedy to try on a layer: what its error comes from says which ones, and the best one as measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import INPUTS, NEAREST, WEIGHTS, SchemePair
from quantviz.layers.layer_numbers import some_outputs
from quantviz.layers.layer_result import LayerResult, layer
from quantviz.schemes.granularity import PerChannel, Shape
from quantviz.schemes.recipes import as_scheme

#: A remedy leaves at most this share of the error: 0.5 dB less.
_MOST_LEFT = 10**-0.05
#: Values of X beyond which none is measured, and of W and of Y beyond which only some outputs are.
_INPUTS_AT_ONCE = 2**22
_WEIGHTS_AT_ONCE = 2**18
_OUTPUTS_AT_ONCE = 2**22


@dataclass(frozen=True)
class LayerRemedy:
    """Schemes and a chain of methods that leave a layer less output error."""

    #: The source of most of the error: a "channel" of the inputs, the "inputs", or the "weights".
    cause: str
    #: The loudest input channel, and how many times as loud it is as the median one.
    channel: int
    times: float
    pair: SchemePair
    method: str
    #: The output error held back without it and with it, and the number of outputs that were measured.
    before: float
    after: float
    outputs: int


def best_remedy(result: LayerResult, pair: SchemePair) -> LayerRemedy | None:
    """Return the remedy that leaves a layer under a pair of schemes the least error, of those for its cause;
    None where the error has no such cause, where no remedy fits, or where X is too large to measure at once.

    The error must be less on the tokens that scales and methods saw, and on those held back.

    >>> from quantviz.layers.built_in import BuiltInLayer
    >>> pair = SchemePair("int8_per_row", "int8_per_tensor")
    >>> found = best_remedy(BuiltInLayer("loud_input").open().result(pair.weights, pair.inputs), pair)
    >>> found.cause, found.method, found.after < found.before
    ('channel', 'smoothquant', True)
    """
    tokens, width, _ = result.shape
    if tokens * width > _INPUTS_AT_ONCE or not result.rel_out.held_back:
        return None
    shares = {side: result.parts[side].share.held_back for side in ("inputs", "weights")}
    loud = result.channels.loud_inputs
    cause = max(shares, key=lambda side: shares[side])
    if cause == "inputs" and loud:
        cause = "channel"
    schemes = pair.schemes()
    most = min(_WEIGHTS_AT_ONCE, width * (_OUTPUTS_AT_ONCE // tokens))
    some = some_outputs(result.weights.stored, schemes[0] or as_scheme("int8_per_row"), most)
    if some is None:
        return None
    measured = partial(layer, some, result.inputs.stored, static=result.static, seed=result.seed)
    before = result.rel_out
    if some.shape[0] < result.shape[2]:
        before = measured(*schemes).rel_out
    channel = loud[0] if loud else 0
    x_max = result.channels.x_max
    times = float(x_max[channel] / x_max.median())
    found = []
    for better, method in _offers(cause, pair, result.shape):
        try:
            with_it = measured(*better.schemes(), method=method).rel_out
        except QuantVizError:  # it does not fit the layer, but the next one may
            continue
        if all(b <= _MOST_LEFT * a for a, b in zip(before, with_it, strict=True)):
            errors = before.held_back, with_it.held_back
            found.append(LayerRemedy(cause, channel, times, better, method, *errors, some.shape[0]))
    return min(found, key=lambda remedy: remedy.after, default=None)


def _offers(cause: str, pair: SchemePair, shape: Shape) -> Iterator[tuple[SchemePair, str]]:
    """Yield the remedies for a cause, each a pair and a chain of methods."""
    tokens, width, outputs = shape
    if cause == "channel" and None not in pair.schemes():
        yield pair, "smoothquant"
    side, sizes = ("weights", (outputs, width)) if cause == "weights" else ("inputs", (tokens, width))
    finer = _finer(getattr(pair, side), WEIGHTS if side == "weights" else INPUTS, sizes)
    if finer is not None:
        yield pair.with_side(side, finer), NEAREST


def _finer(form: str, offered: tuple[str, ...], shape: tuple[int, int]) -> str | None:
    """Return the recipe of the same format whose scales are next finer, if there is one. One scale for each
    column is none: it cannot be taken out of the sum.
    """
    now = as_scheme(form)
    sizes = {}
    for name in offered:
        scheme = as_scheme(name)
        by_column = isinstance(scheme.granularity, PerChannel) and scheme.granularity.axis != 0
        same = (scheme.format, scheme.mode) == (now.format, now.mode)
        if same and not by_column and not list(scheme.problems(shape)):
            sizes[name] = scheme.layout(shape).block_size
    smaller = [name for name, size in sizes.items() if size < now.layout(shape).block_size]
    return max(smaller, key=sizes.__getitem__, default=None)
