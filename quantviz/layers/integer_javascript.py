"""An integer layer as JavaScript: the operations of the reference, for a browser to run.

The browser sums products of codes by itself; all lines from the sums to the output's code are written here.
Its runtime is `quantviz/browser/arithmetic/integers.js`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch

from quantviz.compiled.javascript import JavaScriptProgram, layout_spec, write_operations, write_program
from quantviz.layers.integer_engines import INTEGER_ENGINES
from quantviz.layers.integer_operations import layer_operations
from quantviz.layers.integer_result import IntegerResult, values_of
from quantviz.layers.integers_of_layer import TO_UNSIGNED, outputs_scheme
from quantviz.layers.layer_result import LayerResult
from quantviz.quantization.operations import NamedTensors
from quantviz.tensors.conversion import dtype_name

#: The sums of codes, which the browser computes: the first `acc`, `sum_x` and `sum_w`.
_SUMS = ("integer_products", "integer_pairs", "integer_sum_x", "integer_sum_w")
#: The numbers that each output has one of, beside its bias.
_OF_OUTPUT: Mapping[str, torch.dtype] = MappingProxyType(
    {
        **dict.fromkeys(("z_x", "z_w", "z_y", "n", "low", "high", "sum_w"), torch.int32),
        **dict.fromkeys(("s_x", "s_w", "s_y"), torch.float32),
    }
)
_OF_CELL: Mapping[str, torch.dtype] = MappingProxyType(dict.fromkeys(("acc", "sum_x"), torch.int32))


def write_integers(result: IntegerResult) -> JavaScriptProgram:
    """Return the lines from sums of codes to an output's code, for all cells, or step by step for one."""
    by_output = result.weights.scale.dim() == 1
    return _written_integers(result.engine, by_output, result.bias is not None, result.activation)


def write_steps(
    layer: LayerResult, result: IntegerResult
) -> tuple[dict[str, Any], dict[str, JavaScriptProgram]]:
    """Return the facts and programs by which a browser follows a hand on a small layer under two schemes.

    `result` is the layer by `integers_of`. "program" goes from sums to codes; "of_outputs" chooses the scale
    and zero point of the outputs.
    """
    scheme = outputs_scheme(result.number_format)
    used = (int((~layer.held_back).sum()), layer.shape[2])
    fmt = scheme.number_format
    inputs = layer.inputs.scheme
    moved = inputs is not None and inputs.format != result.inputs.number_format
    facts = {
        "layout": layout_spec(scheme.layout(used), used),
        "activation": result.activation,
        "ends": (fmt.code_min, fmt.code_max),
        "moved": TO_UNSIGNED if moved else 0,
        "bias": None if result.bias is None else dtype_name(result.bias.dtype),
    }
    return facts, {"program": write_integers(result), "of_outputs": write_program(scheme)}


def numbers_of(result: IntegerResult) -> dict[str, Any]:
    """Return the numbers that the lines read, by name: one, or a list of one for each output."""
    values = values_of(result, slice(None), slice(None))
    return {name: each.tolist() for name, each in values.items() if name not in ("q_x", "q_w")}


@lru_cache(maxsize=128)
def _written_integers(engine: str, by_output: bool, has_bias: bool, activation: str) -> JavaScriptProgram:
    rules = INTEGER_ENGINES[engine]
    operations = layer_operations(rules, by_output=by_output, has_bias=has_bias, activation=activation)
    bias = {}
    if has_bias:
        bias["bias"] = torch.float32 if rules.bias == "real" else torch.int32
    program = write_operations(
        tuple(
            dataclasses.replace(each, function=_given(each.name)) if each.key in _SUMS else each
            for each in operations
        ),
        {**_OF_OUTPUT, **bias},
        _OF_CELL,
        "q",
    )
    facts = {**program.facts, "pairs": rules.pairs}
    return dataclasses.replace(program, facts=MappingProxyType(facts))


def _given(name: str) -> Callable[[NamedTensors], torch.Tensor]:
    def run(values: NamedTensors) -> torch.Tensor:
        return values[name]

    return run
