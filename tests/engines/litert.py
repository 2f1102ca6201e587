"""LiteRT's ai-edge-quantizer: min/max weights and activations of its naive algorithm.

Only arithmetic of the package is asked: whether an interpreter agrees is another question.
"""

from __future__ import annotations

import warnings
from functools import partial

import ml_dtypes
import numpy as np
import torch

from tests.engines import Answer, GivenCase, Path, Refused, Undefined

with warnings.catch_warnings():
    # The package's own warnings, and those of what it imports.
    warnings.simplefilter("ignore")
    from ai_edge_quantizer import qtyping
    from ai_edge_quantizer.algorithms.uniform_quantize import common_quantize
    from ai_edge_quantizer.algorithms.uniform_quantize import naive_min_max_quantize as naive
    from ai_edge_quantizer.algorithms.uniform_quantize import uniform_quantize_tensor as uniform

PRODUCER = "ai-edge-quantizer"


def _array(x: torch.Tensor) -> np.ndarray:
    """A tensor as the package reads it from a model; NumPy has bfloat16 by ml_dtypes alone."""
    return x.float().numpy().astype(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()


def _run(seen: torch.Tensor, x: torch.Tensor, bits: int, symmetric: bool, granularity: str) -> Answer:
    kind = qtyping.QuantGranularity[granularity]
    if uniform.is_blockwise(kind) and x.ndim != 2:
        # Its blocks lie along axis 1, of fully connected and embedding weights: only of a matrix is that the
        # last axis.
        raise Refused("blocks are of a matrix")
    config = qtyping.TensorQuantizationConfig(
        num_bits=bits, symmetric=symmetric, granularity=kind, dtype=qtyping.TensorDataType.INT
    )
    # A fully connected weight has its channels on axis 0; per tensor is the same for weights and activations.
    op = qtyping.OpInfo(
        None,
        qtyping.TFLOperationName.FULLY_CONNECTED,
        0,
        qtyping.OpQuantizationConfig(weight_tensor_config=config),
    )
    with np.errstate(all="ignore"):
        try:
            ends = common_quantize.init_tensor_min_max(_array(seen), op)
            params = naive.get_tensor_quant_params(op, config, _array(x), ends)
        except ValueError as error:
            raise Refused(str(error)) from error
        # A model file gives zero points back as wide integers; in the codes' own dtype `q - z` would wrap.
        wide = qtyping.UniformQuantParams(
            num_bits=bits,
            quantized_dimension=params.quantized_dimension,
            scale=params.scale,
            zero_point=params.zero_point.astype(np.int32),
            symmetric=symmetric,
            block_size=params.block_size,
        )
        x_hat = uniform.uniform_dequantize(params.quantized_data, wide)
    if not bool(np.all(params.scale)):
        raise Undefined("0 / 0, of a range that float16 has no scale for, is cast to an integer")
    if x.dtype == torch.float16 and bits == 16:
        raise Undefined("the largest int16 is no number of float16, and what it becomes is cast to int16")
    # Of the largest numbers it computes in float64.
    with np.errstate(over="ignore"):
        scale = np.asarray(params.scale, dtype=np.float32).ravel()
        values = np.asarray(x_hat, dtype=np.float32).reshape(x.shape)
    return Answer(
        torch.from_numpy(values),
        torch.from_numpy(params.quantized_data.astype(np.int32)),
        torch.from_numpy(scale),
        torch.from_numpy(np.asarray(params.zero_point, dtype=np.int32).ravel()),
    )


_CASES: dict[str, GivenCase] = {
    f"int{bits},{mode},{granularity},min_max,litert": partial(
        _run, bits=bits, symmetric=mode == "symmetric", granularity=name
    )
    for bits in (2, 4, 8, 16)
    for mode in ("symmetric", "asymmetric")
    for granularity, name in (("per_tensor", "TENSORWISE"), ("per_channel(axis=0)", "CHANNELWISE"))
}
_BLOCKWISE: dict[str, GivenCase] = {
    f"int{bits},symmetric,per_group(size={size}),min_max,litert_blockwise": partial(
        _run, bits=bits, symmetric=True, granularity=f"BLOCKWISE_{size}"
    )
    for bits in (2, 4, 8)
    for size in (32, 64, 128, 256)
}
PATHS = (
    Path.of_given("uniform_quantize", _CASES, open={}),
    Path.of_given("uniform_quantize, blocks", _BLOCKWISE, open={}),
)
