"""TensorRT's explicit quantization, by an implementation of its own: there is no package for a CPU.

It is written from the documentation of TensorRT 10, "Quantization Schemes" and IQuantizeLayer, in exact
fractions that are rounded once where the documentation has one float32 operation.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np
import torch

from tests.engines import Answer, GivenCase, Path, Refused, Undefined

PRODUCER = "TensorRT"
#: Nothing of NVIDIA's has answered.
VERSION = "10 (documentation)"

_LARGEST = {"int8": 127, "int4": 7, "float8_e4m3fn": 448}


def _nearest_single(exact: Fraction) -> np.float32:
    """Return the float32 nearest to a fraction, half to even."""
    if exact == 0:
        return np.float32(0)
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, -126)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (exponent - 23)
    # A fraction is rounded half to even by Python.
    return np.float32(float(round(exact / step) * step))


def _quantized(seen: torch.Tensor, x: torch.Tensor, fmt: str, granularity: str) -> Answer:
    rows, cells = (_blocks(each, granularity).numpy() for each in (seen, x))
    scales, codes, values = [], [], []
    for row, own in zip(rows, cells, strict=True):
        largest = max(Fraction(float(v)) for v in np.abs(row))
        scale = _nearest_single(largest / _LARGEST[fmt])
        if not 0 < scale < np.inf:
            raise Undefined("all scale coefficients must be positive, and the documentation makes none")
        # Division of float32 by float32, rounded once.
        quotients = own / scale
        if fmt == "float8_e4m3fn":
            made = np.clip(quotients, -448, 448).astype(ml_dtypes.float8_e4m3fn)
            codes.append(made.view(np.uint8).astype(np.int32))
            numbers = made.astype(np.float32)
        else:
            high = _LARGEST[fmt]
            numbers = np.rint(np.clip(quotients, -high - 1, high)).astype(np.float32)
            codes.append(numbers.astype(np.int32))
        scales.append(scale)
        values.append(numbers * scale)
    return Answer(
        torch.from_numpy(np.stack(values)).reshape(x.shape),
        torch.from_numpy(np.stack(codes)).reshape(x.shape),
        torch.from_numpy(np.array(scales)),
    )


def _blocks(x: torch.Tensor, granularity: str) -> torch.Tensor:
    if granularity == "per_tensor":
        return x.reshape(1, -1)
    if granularity == "per_channel(axis=0)":
        return x.reshape(x.shape[0], -1)
    size = int(granularity.removeprefix("per_group(size=").removesuffix(")"))
    if x.shape[-1] % size:
        raise Refused("blocks must divide the last axis")
    return x.reshape(-1, size)


_CASES: dict[str, GivenCase] = {
    f"{fmt},symmetric,{granularity},min_max,tensorrt": partial(_quantized, fmt=fmt, granularity=granularity)
    for fmt, granularities in (
        ("int8", ("per_tensor", "per_channel(axis=0)")),
        ("float8_e4m3fn", ("per_tensor", "per_channel(axis=0)")),
        ("int4", ("per_group(size=64)", "per_group(size=128)")),
    )
    for granularity in granularities
}

PATHS = (
    Path.of_given(
        "IQuantizeLayer, as documented",
        _CASES,
        open={
            "infinity": "the documentation does not mention it",
            "NaN": "the documentation does not mention it",
            "half and bfloat16 input": "the documentation does not give the precision of the division",
        },
    ),
)
