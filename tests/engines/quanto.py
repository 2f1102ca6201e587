"""optimum-quanto: weights (`AbsmaxOptimizer`, `MaxOptimizer`, `quantize_weight`) and activations
(`absmax_scale`, `quantize_activation`).

qint2 and qint4 keep unsigned codes and a float shift, so they stand here as uint2 and uint4.
"""

from __future__ import annotations

import warnings

import torch

from tests.engines import Answer, GivenCase, Path, Refused, refuse_half_nan

with warnings.catch_warnings():
    # The package's own warnings, and those of what it imports.
    warnings.simplefilter("ignore")
    from optimum.quanto import (
        AbsmaxOptimizer,
        MaxOptimizer,
        absmax_scale,
        qtypes,
        quantize_activation,
        quantize_weight,
    )

PRODUCER = "optimum-quanto"

_BYTES = {
    "int8": "qint8",
    "float8_e4m3fn": "qfloat8_e4m3fn",
    "float8_e4m3fnuz": "qfloat8_e4m3fnuz",
    "float8_e5m2": "qfloat8_e5m2",
}
_BITS = {"uint2": "qint2", "uint4": "qint4"}
_GROUP_SIZES = (4, 16, 32, 64, 96, 128)


def _codes_of_bytes(data: torch.Tensor) -> torch.Tensor:
    return (data.view(torch.uint8) if data.is_floating_point() else data).to(torch.int32)


def _activation(name: str) -> GivenCase:
    qtype = qtypes[name]

    def case(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        q = quantize_activation(x, qtype=qtype, scale=absmax_scale(seen, qtype))
        x_hat = q.dequantize()
        refuse_half_nan(x, x_hat)
        return Answer(x_hat, _codes_of_bytes(q._data), q._scale.reshape(-1))

    return case


def _weight_in_bytes(name: str, axis: int) -> GivenCase:
    qtype = qtypes[name]

    def case(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        try:
            scale = AbsmaxOptimizer()(seen, qtype=qtype, axis=axis)
            q = quantize_weight(x, qtype=qtype, axis=axis, scale=scale)
        except ValueError as error:  # a 1-D tensor has no axis to keep
            raise Refused(str(error)) from error
        x_hat = q.dequantize()
        refuse_half_nan(x, x_hat)
        return Answer(x_hat, _codes_of_bytes(q._data), q._scale.reshape(-1))

    return case


def _weight_in_bits(
    name: str, axis: int, size: int | None, zeropoint: bool, along_last: bool = False
) -> GivenCase:
    qtype = qtypes[name]

    def case(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        if along_last and x.shape[-1] % size:
            raise Refused("the groups are flat: they would run over the end of the last axis")
        if size is not None and axis == -1 and x.dim() != 2:
            raise Refused("the groups run over the flattened leading axes: axis 0 of a matrix only")
        try:
            scale, shift = MaxOptimizer()(seen, qtype=qtype, axis=axis, group_size=size, zeropoint=zeropoint)
            q = quantize_weight(
                x, qtype=qtype, axis=axis, scale=scale, shift=shift, group_size=size, optimized=False
            )
        except ValueError as error:
            raise Refused(str(error)) from error
        blocks = x.numel() // size if size else x.shape[axis]
        if scale.numel() != blocks:
            # A single block along axis 0 is reduced over the wrong axes, a vector over all of it: not the
            # granularity asked for.
            raise Refused(f"{scale.numel()} scales for {blocks} blocks")
        # The codes before packing: unpacking them would have the package compile its C++ on first use.
        data = torch.ops.quanto.quantize_affine(
            x, bits=qtype.bits, axis=axis, group_size=size, scale=scale, shift=shift
        )
        q._data = data
        # The shift is added before codes are made: the value of code 0 is minus it.
        codes, scales, shifts = data, scale.reshape(-1), (shift if zeropoint else -shift).reshape(-1)
        if size and axis == -1:  # its order of groups is column by column
            columns, groups = x.shape[-1], x.shape[0] // size
            codes = data.reshape(size, columns, groups).permute(2, 0, 1)
            scales, shifts = (t.reshape(columns, groups).T.reshape(-1) for t in (scales, shifts))
        return Answer(q.dequantize(), codes.reshape(x.shape).to(torch.int32), scales, shifts)

    return case


def _byte_cases(axis: int | None) -> dict[str, GivenCase]:
    granularity = "per_tensor" if axis is None else f"per_channel(axis={axis})"
    return {
        f"{fmt},symmetric,{granularity},min_max,quanto": (
            _activation(name) if axis is None else _weight_in_bytes(name, axis)
        )
        for fmt, name in _BYTES.items()
    }


def _bit_cases() -> dict[str, GivenCase]:
    cases: dict[str, GivenCase] = {}
    for fmt, name in _BITS.items():
        for zeropoint, convention in ((False, "quanto_qbits"), (True, "quanto_qbits(zero_domain=code_int)")):
            for axis in (0, -1):
                cases[f"{fmt},asymmetric,per_channel(axis={axis}),min_max,{convention}"] = _weight_in_bits(
                    name, axis, None, zeropoint
                )
            for size in _GROUP_SIZES:
                cases[f"{fmt},asymmetric,flat(size={size}),min_max,{convention}"] = _weight_in_bits(
                    name, 0, size, zeropoint
                )
                cases[f"{fmt},asymmetric,per_group(size={size}),min_max,{convention}"] = _weight_in_bits(
                    name, 0, size, zeropoint, along_last=True
                )
                cases[f"{fmt},asymmetric,per_group(size={size},axis=0),min_max,{convention}"] = (
                    _weight_in_bits(name, -1, size, zeropoint)
                )
    return cases


PATHS = (
    Path.of_given("quantize_activation", _byte_cases(None), open={}),
    Path.of_given("quantize_weight, bytes", _byte_cases(0) | _byte_cases(-1), open={}),
    Path.of_given("quantize_weight, bits", _bit_cases(), open={}),
)
