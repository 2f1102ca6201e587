"""What the engines' integer kernels compute, asked of their own packages, to hold integer layers to them.

One module an engine: `PRODUCER`, the distribution that is asked, and `PATHS`, each a kernel with the layers
that it is asked of. The layers are in `layers.py`. `python -m tests.engines.integer` runs all of it and
writes the table of `README.md`.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

import quantviz as qv
from tests.engines.integer.layers import Grouped, Layer, one_by_one

#: The modules, in the order of the table.
MODULES = ("onnxruntime", "litert", "torch_linear", "ibert", "cmsis_nn")


@dataclass(frozen=True)
class Path:
    """One kernel, the layers that it is asked of, and what is held to it."""

    #: In the engine's words.
    name: str
    #: The arithmetic that is held to it, in this package's words.
    arithmetic: str
    cases: Callable[[], Sequence[Any]]
    theirs: Callable[[Any], np.ndarray]
    ours: Callable[[Any], torch.Tensor]


def module_of(name: str) -> ModuleType:
    """Return the module that asks an engine."""
    return importlib.import_module(f"tests.engines.integer.{name}")


def layer_path(
    name: str, engine: str, cases: Callable[[], Sequence[Layer]], theirs: Callable[[Layer], np.ndarray]
) -> Path:
    """Return the path of a kernel that gives codes of a layer's outputs."""
    return Path(name, f"`{engine}`", cases, theirs, lambda layer: result(layer, engine).q)


def grouped_path(
    name: str, engine: str, cases: Callable[[], Sequence[Grouped]], theirs: Callable[[Layer, int], np.ndarray]
) -> Path:
    """Return the path of a convolution in groups: each group is a matrix of its own.

    `theirs` is given all of it and the number of groups.
    """
    return Path(
        name,
        f"`{engine}`",
        cases,
        lambda grouped: theirs(grouped.whole, len(grouped.parts)),
        lambda grouped: torch.cat([result(part, engine).q for part in grouped.parts], 1),
    )


def by_token_path(
    name: str, engine: str, cases: Callable[[], Sequence[Layer]], theirs: Callable[[Layer], np.ndarray]
) -> Path:
    """Return the path of a kernel that is asked for one token at a time, each with a scale of its own."""
    return Path(
        f"{name}, each token with its own scale",
        f"`{engine}`",
        cases,
        lambda layer: np.concatenate([theirs(each) for each in one_by_one(layer)]),
        lambda layer: _of_tokens(layer, engine),
    )


def _of_tokens(layer: Layer, engine: str) -> torch.Tensor:
    """Return our codes of all tokens at once."""
    alone = one_by_one(layer)
    inputs = qv.Codes(
        layer.q_x, [float(each.s_x) for each in alone], [each.z_x for each in alone], layer.x_format
    )
    bias = None if layer.bias is None else np.stack([each.bias for each in alone if each.bias is not None])
    return qv.integer_layer(
        qv.Codes(layer.q_w, layer.s_w, layer.z_w, layer.w_format),
        inputs,
        qv.QParams(float(layer.s_y), layer.z_y),
        bias_codes=bias,
        engine=engine,
        number_format=layer.x_format,
        activation=layer.activation,
    ).q


def result(layer: Layer, engine: str) -> qv.IntegerResult:
    """Return our answer for a layer."""
    return qv.integer_layer(
        qv.Codes(layer.q_w, layer.s_w, layer.z_w, layer.w_format),
        qv.Codes(layer.q_x, float(layer.s_x), layer.z_x, layer.x_format),
        qv.QParams(float(layer.s_y), layer.z_y),
        layer.real_bias,
        bias_codes=layer.bias,
        engine=engine,
        number_format=layer.x_format,
        activation=layer.activation,
    )


@functools.cache
def recorded(record: pathlib.Path, name: str, cases: tuple[Layer, ...]) -> dict[int, np.ndarray]:
    """Return the kept answers of a kernel to layers, one after the other, by the identity of each layer."""
    with np.load(record) as stored:
        codes = stored[name]
    start, found = 0, {}
    for layer in cases:
        shape = (len(layer.q_x), len(layer.q_w))
        found[id(layer)] = codes[start : start + shape[0] * shape[1]].reshape(shape)
        start += shape[0] * shape[1]
    assert start == len(codes), f"record {record.name} anew: it is of other layers"
    return found
