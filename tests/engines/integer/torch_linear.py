"""torch's quantized linear layer on CPU, FBGEMM, QNNPACK and oneDNN, and its LayerNorm."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from tests.engines.integer import Path, layer_path, operators, recorded
from tests.engines.integer.layers import (
    Layer,
    layers,
    near_ties,
    saturating_layers,
    tensor,
    with_real_biases,
)

PRODUCER = "torch"
#: What kernels of AVX2 answered, made by `record_saturation`.
RECORD = pathlib.Path(__file__).with_name("saturation.npz")


def linear(layer: Layer, backend: str) -> np.ndarray:
    """Return the codes of a backend."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = backend
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _answer(layer)
    finally:
        torch.backends.quantized.engine = before


def _answer(layer: Layer) -> np.ndarray:
    weight = tensor(layer.q_w, "int8")
    if len(layer.s_w) == 1:
        packed = torch._make_per_tensor_quantized_tensor(weight, float(layer.s_w[0]), 0)
    else:
        scales = torch.from_numpy(layer.s_w.astype(np.float64))
        packed = torch._make_per_channel_quantized_tensor(weight, scales, torch.zeros(len(scales)).long(), 0)
    bias = None if layer.real_bias is None else torch.from_numpy(layer.real_bias)
    x = torch._make_per_tensor_quantized_tensor(tensor(layer.q_x, "uint8"), float(layer.s_x), layer.z_x)
    run = torch.ops.quantized.linear_relu if layer.activation == "relu" else torch.ops.quantized.linear
    answer = run(x, torch.ops.quantized.linear_prepack(packed, bias), float(layer.s_y), layer.z_y)
    codes: np.ndarray = answer.int_repr().numpy()
    return codes


def _layers() -> Sequence[Layer]:
    drawn = layers("uint8", "int8", activations=("none", "relu"))
    return [*with_real_biases(drawn), *with_real_biases(_small_ties())]


def _small_ties(bits: int = 22) -> Sequence[Layer]:
    """Return those whose biases are exact in float32, and multipliers that lead to the ends of int32."""
    tied = [*near_ties("uint8"), *near_ties("uint8", by_output=True)]
    tied += [replace(tied[-1], s_y=np.float32(0.125 / each)) for each in (511.99997, 2000.0)]
    return [replace(layer, bias=np.clip(layer.bias, -(2**bits), 2**bits)) for layer in tied]


def _whole_biases() -> Sequence[Layer]:
    """Return layers whose biases are whole numbers of steps: QNNPACK rounds others to them."""
    made = []
    for layer in (*layers("uint8", "int8", activations=("none", "relu")), *_small_ties(bits=18)):
        if layer.bias is None:
            made.append(layer)
            continue
        scale = layer.s_x.astype(np.float64) * layer.s_w
        made.append(replace(layer, bias=None, real_bias=(layer.bias * scale).astype(np.float32)))
    return made


def _powers_of_two() -> Sequence[Layer]:
    """Return layers whose scales are powers of two, of which each product is exact in whatever order."""
    made = []
    for layer in (*layers("uint8", "int8", activations=("none", "relu")), *_small_ties()):
        powers = {
            name: np.exp2(np.round(np.log2(getattr(layer, name)))).astype(np.float32)
            for name in ("s_x", "s_w", "s_y")
        }
        exact = replace(layer, **powers)
        if layer.bias is not None:
            exact = replace(
                exact, bias=None, real_bias=(layer.bias * exact.s_x * exact.s_w).astype(np.float32)
            )
        made.append(exact)
    return made


def _answer_without_vnni(layer: Layer, backend: str) -> np.ndarray:
    return recorded(RECORD, backend, saturating_layers())[id(layer)]


def _normed(case: operators.Case) -> np.ndarray:
    """Return the codes of quantized::layer_norm, which is the same for all backends."""
    (codes,), ((scale, zero),) = case.codes, case.params
    count = codes.shape[1]
    weight, bias = (
        torch.from_numpy(case.how.get(name, np.full(count, default, np.float32)))
        for name, default in (("weight", 1.0), ("bias", 0.0))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch._make_per_tensor_quantized_tensor(tensor(codes, case.kind), scale, zero)
        eps = case.how.get("eps", 1e-5)
        answer = torch.ops.quantized.layer_norm(x, [count], weight, bias, eps, *case.outputs)
        found: np.ndarray = answer.int_repr().numpy()
    return found


PATHS = (
    Path(
        "quantized.layer_norm",
        '`integer_operator("layer_norm")`',
        lambda: [*operators.norms(("int8", "uint8"))],
        _normed,
        partial(operators.ours, operator="layer_norm", arithmetic="fbgemm"),
    ),
    layer_path("quantized.linear, fbgemm", "fbgemm", _layers, partial(linear, backend="fbgemm")),
    layer_path("quantized.linear, x86", "fbgemm", _layers, partial(linear, backend="x86")),
    layer_path("quantized.linear, qnnpack", "qnnpack", _whole_biases, partial(linear, backend="qnnpack")),
    layer_path("quantized.linear, onednn", "onednn", _powers_of_two, partial(linear, backend="onednn")),
    layer_path(
        "quantized.linear, fbgemm, AVX2 (recorded)",
        "fbgemm_avx2",
        saturating_layers,
        partial(_answer_without_vnni, backend="fbgemm"),
    ),
    layer_path(
        "quantized.linear, onednn, AVX2 (recorded)",
        "onednn_avx2",
        saturating_layers,
        partial(_answer_without_vnni, backend="onednn"),
    ),
    layer_path(
        "quantized.linear, fbgemm, the same layers with VNNI",
        "fbgemm",
        saturating_layers,
        partial(linear, backend="fbgemm"),
    ),
)
