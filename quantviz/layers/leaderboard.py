"""Methods ranked on a layer: the error that each leaves under each scheme, its bits, and its seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quantviz.budget import StepCounter
from quantviz.errors import QuantVizError
from quantviz.evaluation.with_pandas import data_frame
from quantviz.layers.captures import Captured
from quantviz.layers.layer_result import LayerResult
from quantviz.layers.methods.chain import NEAREST, Chain, as_chain
from quantviz.public_calls import public
from quantviz.schemes.scheme import Scheme

if TYPE_CHECKING:
    import pandas

#: The chains that are compared where none are named.
USUAL = (NEAREST, "gptq", "gptq(order=activation)")


@public
def leaderboard(
    layer: Captured | LayerResult,
    schemes: Iterable[str | Scheme] = ("int4_g128",),
    methods: Iterable[str | Chain] = USUAL,
    inputs: str | Scheme | None = None,
    *,
    seed: int = 0,
) -> pandas.DataFrame:
    """Return methods under schemes of a layer's weight, those with the least error held back first.

    Args:
        layer: A captured layer, such as `BuiltInLayer("minilm_4_value").open()` or one of `Layers`; or a
            result of `layer`, of which W, X and the bias are taken.
        schemes: Schemes of the weight.
        methods: Chains of methods, such as "gptq" or "rotation+gptq"; "nearest" is rounding to nearest.
        inputs: The scheme of the inputs; None leaves them as they are.
        seed: Draws the tokens that are held back.

    Returns:
        A row for each pair: scheme, method, `rel_out_used`, `rel_out_held_back`, `weight_sqnr_db`,
        `effective_bits` of a weight, `seconds`, and the reason where a method cannot work here.

    Raises:
        QuantVizError: A scheme or a method is unknown, or pandas is not installed.

    >>> from quantviz.layers.built_in import BuiltInLayer
    >>> found = leaderboard(BuiltInLayer("loud_weight").open(), ["int4_per_tensor"], ["nearest", "gptq"])
    >>> sorted(found.method), found.rel_out_held_back.is_monotonic_increasing
    (['gptq', 'nearest'], True)
    """
    chains = [as_chain(method) for method in methods]
    if isinstance(layer, LayerResult):
        layer = Captured("", "linear", layer.weights.stored, layer.inputs.stored, layer.bias)
    rows = list(rows_of(layer, list(schemes), chains, inputs, seed=seed))
    rows.sort(key=lambda row: (row["rel_out_held_back"] is None, row["rel_out_held_back"] or 0.0))
    return data_frame({name: [row[name] for row in rows] for name in rows[0]} if rows else {})


def rows_of(
    layer: Captured,
    schemes: list[str | Scheme],
    chains: list[Chain],
    inputs: str | Scheme | None,
    *,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    progress = StepCounter(len(schemes) * len(chains))
    for scheme in schemes:
        for chain in chains:
            progress.step()
            began = time.perf_counter()
            numbers: dict[str, Any]
            try:
                result = layer.result(scheme, inputs, method=chain, seed=seed)
                values = (*result.rel_out, result.weights.sqnr_db, result.effective_bits)
                numbers = {**dict(zip(_NUMBERS, values, strict=True)), "reason": None}
            except QuantVizError as problem:
                numbers = {**dict.fromkeys(_NUMBERS), "reason": str(problem)}
            seconds = time.perf_counter() - began
            yield {"scheme": str(scheme), "method": str(chain), **numbers, "seconds": seconds}


_NUMBERS = ("rel_out_used", "rel_out_held_back", "weight_sqnr_db", "effective_bits")
