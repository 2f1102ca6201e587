"""Operators on codes: a runtime's integer arithmetic, without a detour through real numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.public_calls import public
from quantviz.quantization.code_functions import CONVERSIONS, PRODUCTS, SIGMOIDS, SOFTMAXES, TANHS
from quantviz.quantization.code_norms import NORMS, NormOptions
from quantviz.quantization.code_sums import AVERAGES as AVERAGES
from quantviz.quantization.code_sums import SUMS, SUMS_B_FIRST
from quantviz.quantization.code_tables import SIGMOID_16, SOFTMAX_16, TANH_16
from quantviz.quantization.operations import NamedTensors, Operations, run_operations
from quantviz.quantization.requantizing import (
    REQUANTIZATIONS as REQUANTIZATIONS,
)
from quantviz.quantization.requantizing import (
    check_multiplier,
    multiply_operations,
    round_operations,
)
from quantviz.quantization.result import QParams
from quantviz.schemes.formats import NumberFormat, find_format
from quantviz.tensors.conversion import as_accumulators, as_codes, as_real, torch_dtype

#: The operator that has a weight and a bias, and its arithmetic without zero points.
NORM, _IBERT = "layer_norm", "ibert"
#: The arithmetic of tables for int16, and the least scale of inputs with which its products leave int32.
_OF_16_BITS, _BEYOND_16_BITS = "litert_16", 4.0
#: Every operator on codes by name, and its operations by the name of the arithmetic.
OPERATORS: Mapping[str, Mapping[str, Operations]] = MappingProxyType(
    {
        "add": SUMS,
        "mul": PRODUCTS,
        "concat": CONVERSIONS,
        "average": AVERAGES,
        "sigmoid": {**SIGMOIDS, _OF_16_BITS: SIGMOID_16},
        "tanh": {**TANHS, _OF_16_BITS: TANH_16},
        "softmax": {**SOFTMAXES, _OF_16_BITS: SOFTMAX_16},
        NORM: NORMS,
    }
)
_OF_TWO = ("add", "mul")
#: Arithmetic that keeps codes as they are but for rounding: scales and zero points must be the same.
_SAME_SCALE = (("average", "litert_pool"),)
#: Whole numbers of float32 end here.
_LARGEST_ZERO = 2**24
#: The scales of terms that XNNPACK adds, over the sum's: from the first to below the last.
_XNNPACK_RATIOS = (2.0**-10, 2.0**8)
#: Codes of a vector of LiteRT's kernels on ruy.
_VECTOR = 16


@public
def requantize(
    accumulators: Any,
    multiplier: float,
    *,
    zero_point: int = 0,
    number_format: str = "int8",
    arithmetic: str = "float32",
) -> torch.Tensor:
    """Return the codes of sums of products, in an integer format.

    Args:
        accumulators: int32 sums of products of codes less their zero points: a tensor, nested list or array.
        multiplier: scale of a · scale of b / scale of the output.
        zero_point: Zero point of the output.
        number_format: Id of the output's integer format.
        arithmetic: One of `REQUANTIZATIONS`: "float32" multiplies in float32 and rounds once, half to even,
            as XNNPACK and ONNX Runtime do; "float64" does so in float64, half away from 0, as LiteRT's
            reference kernel of fully connected layers does; "fixed_point" multiplies by a whole number of
            31 bits and rounds twice, half up and then half away from 0, as LiteRT's other reference kernels
            and CMSIS-NN do; "fixed_point_up" rounds half up both times, as LiteRT's kernels on ruy do;
            "fixed_point_once" rounds once, half up, as kernels built with TFLITE_SINGLE_ROUNDING do;
            "fixed_point_16" too, with 15 bits of that number, as convolutions of 16-bit inputs do.

    Raises:
        QuantVizError: An argument is not as described.

    0.011111 · 585 is 6.4999 and is rounded to 6; in fixed point it is 104.0 / 16 first:

    >>> [requantize([585], 0.011111, arithmetic=each).item() for each in REQUANTIZATIONS]
    [6, 6, 7, 7, 6, 6]
    """
    fmt = _integer_format(number_format)
    sums = as_accumulators(accumulators)
    if not 0 < multiplier < math.inf:
        raise QuantVizError("multiplier_not_positive", got=multiplier)
    if arithmetic not in REQUANTIZATIONS:
        raise QuantVizError("requantization_unknown", got=arithmetic, known=", ".join(REQUANTIZATIONS))
    as_codes([zero_point], fmt)
    way = REQUANTIZATIONS[arithmetic]
    check_multiplier(way, multiplier)
    values = {"acc": sums.to(torch.int32), "m": torch.tensor(multiplier, dtype=torch.float64)}
    rounded = run_operations((*multiply_operations(way), *round_operations(way)), values)["y"]
    return (rounded + zero_point).clamp(fmt.code_min, fmt.code_max).to(torch_dtype(fmt.code_dtype))


@public
def add_codes(
    a: Any,
    a_params: QParams,
    b: Any,
    b_params: QParams,
    params: QParams,
    *,
    number_format: str = "int8",
    arithmetic: str = "onnxruntime",
) -> torch.Tensor:
    """Return the codes of a sum, as a runtime makes them from codes.

    Args:
        a: Codes of one term: a tensor, nested list or array.
        a_params: Its scale and zero point, one of each.
        b: Codes of the other term, of the same shape, or one that an axis of size 1 broadcasts to it.
        b_params: Its scale and zero point.
        params: Scale and zero point of the sum.
        number_format: Id of the integer format of all three.
        arithmetic: "onnxruntime" is its QLinearAdd on x86 with AVX2, in fused multiply-adds of float32;
            "litert_reference" is ADD of LiteRT's reference kernels, in int32 with a shift of 20 bits;
            "litert_ruy" that of its kernels on ruy, whose vectors of 16 codes round each term once: both
            terms have one shape; "xnnpack" that of XNNPACK, where both multipliers share a shift and the sum
            is rounded once.

    Raises:
        QuantVizError: Codes or scales are not as described.

    >>> nearly = QParams(0.02534690499305725, -106), QParams(0.035809919238090515, -120)
    >>> add_codes([-114], nearly[0], [-122], nearly[1], QParams(0.0365859717130661, -105)).tolist()
    [-112]
    """
    return integer_operator(
        "add", [a, b], [a_params, b_params], params, number_format=number_format, arithmetic=arithmetic
    )


@public
def average_codes(
    codes: Any,
    params: QParams,
    outputs: QParams,
    *,
    number_format: str = "int8",
    arithmetic: str = "onnxruntime_global",
) -> torch.Tensor:
    """Return the codes of averages along the last axis, as a runtime makes them from codes.

    Args:
        codes: Codes, (…, n): a tensor, nested list or array.
        params: Their scale and zero point, one of each.
        outputs: Scale and zero point of the averages.
        number_format: Id of the integer format of both.
        arithmetic: "onnxruntime_global" is its QLinearGlobalAveragePool, which multiplies an int32 sum by one
            number; "onnxruntime_pool" its QLinearAveragePool, which adds up real numbers in float32 and
            rounds after the zero point; "litert_reference" is MEAN of LiteRT's reference kernels, in fixed
            point; "litert_ruy" that of its kernels on ruy, whose vectors of 16 averages along the axis before
            the last round half up; "xnnpack" that of XNNPACK, in float32, rounded after the zero point;
            "litert_pool" is AVERAGE_POOL_2D of LiteRT and CMSIS-NN, which divides the sum of the codes as
            they are, half away from 0, and has one scale and zero point for both.

    Raises:
        QuantVizError: Codes or scales are not as described.

    A half is rounded to even with the zero point, or without it:

    >>> half = [[0, 1]], QParams(1.0), QParams(1.0, 1)
    >>> [average_codes(*half, arithmetic=each).item() for each in AVERAGES if each != "litert_pool"]
    [1, 2, 2, 2, 2]
    """
    return integer_operator(
        "average", [codes], [params], outputs, number_format=number_format, arithmetic=arithmetic
    )


@public
def integer_operator(
    operator: str,
    codes: Sequence[Any],
    params: Sequence[QParams],
    outputs: QParams,
    *,
    number_format: str = "int8",
    arithmetic: str = "onnxruntime",
    norm: NormOptions | None = None,
) -> torch.Tensor:
    """Return the codes that an operator of a runtime makes from codes.

    Args:
        operator: One of `OPERATORS`. "add" and "mul" have two terms, of one shape or of shapes that
            broadcast. "concat" joins them along their last axis, each brought to the scale of the outputs.
            "average", "softmax" and "layer_norm" are along the last axis; "sigmoid" and "tanh" of each code
            by itself.
        codes: The codes of each term: tensors, nested lists or arrays.
        params: The scale and zero point of each term.
        outputs: Scale and zero point of the outputs. LiteRT has fixed ones: 1/256 and the lowest code of
            sigmoid and softmax, 1/128 and the middle code of tanh.
        number_format: Id of the integer format of all.
        arithmetic: The engine, one of `OPERATORS[operator]`: "onnxruntime" is its QLinear operator of that
            name; "litert" the kernels of LiteRT, which join int8 codes only where all scales are one;
            "litert_16" those for int16, which CMSIS-NN has too: tables of sigmoid, tanh and softmax.
            LayerNorm has others: torch's kernel is that of "fbgemm", "onednn" and "qnnpack"; "litert_16" that
            inside LiteRT's integer LSTM, with outputs of the scale 2⁻¹²; "ibert" that of I-BERT, without zero
            points. ONNX Runtime computes it in float32, from values.
        norm: Weight, bias and eps of LayerNorm; None for ones, zeros and 10⁻⁵.

    Raises:
        QuantVizError: An argument is not as described, or the engine has no such operator.

    A product of 2.5 steps is rounded half to even by ONNX Runtime, and away from 0 by LiteRT:

    >>> terms = [[5], [1]], [QParams(0.125), QParams(0.125)], QParams(0.03125)
    >>> [integer_operator("mul", *terms, arithmetic=each).item() for each in ("onnxruntime", "litert")]
    [2, 3]
    """
    fmt = _integer_format(number_format)

    def operated(codes: Sequence[Any], params: Sequence[QParams]) -> torch.Tensor:
        operations, values = prepared(operator, codes, params, outputs, fmt, arithmetic, norm)
        return run_operations(operations, values)["q"].to(torch_dtype(fmt.code_dtype))

    if operator == "concat" and len(codes) == len(params) > 1:
        terms = zip(codes, params, strict=True)
        return torch.cat([operated([term], [of_term]) for term, of_term in terms], -1)
    return operated(codes, params)


def prepared(
    operator: str,
    codes: Sequence[Any],
    params: Sequence[QParams],
    outputs: QParams,
    fmt: NumberFormat,
    arithmetic: str,
    norm: NormOptions | None = None,
) -> tuple[Operations, NamedTensors]:
    if operator not in OPERATORS:
        raise QuantVizError("operator_unknown", got=operator, known=", ".join(OPERATORS))
    arithmetics = OPERATORS[operator]
    if arithmetic not in arithmetics:
        raise QuantVizError("requantization_unknown", got=arithmetic, known=", ".join(arithmetics))
    names = "ab" if operator in _OF_TWO else "x"
    if not len(codes) == len(params) == len(names):
        raise QuantVizError("operator_terms", operator=operator, codes=len(codes), params=len(params))
    values = {
        f"q_{name}": as_codes(term, fmt).to(torch.int32) for name, term in zip(names, codes, strict=True)
    }
    for name, of_name in zip((*names, "y"), (*params, outputs), strict=True):
        values[f"s_{name}"], values[f"z_{name}"] = single_params(of_name)
    for name, end in (("low", fmt.code_min), ("high", fmt.code_max)):
        values[name] = torch.tensor(end, dtype=torch.int32)
    if operator in _OF_TWO:
        alone = _single_in_rows(values["q_a"].shape, values["q_b"].shape)
        _check_terms(operator, values, arithmetic)
        values["vector"] = _in_vectors(values["q_a"].shape)
        if operator == "add" and alone != "a":
            arithmetics = SUMS_B_FIRST
        return arithmetics[arithmetic], values
    shape = values["q_x"].shape
    values |= {"q_row": values["q_x"], "n": torch.tensor(shape[-1], dtype=torch.int32)}
    values["vector"] = _in_vectors(shape[:-1][-1:])
    same = all(bool(values[f"{part}_x"] == values[f"{part}_y"]) for part in "sz")
    copies = operator == "concat" and arithmetic == "litert" and fmt.code_min < 0
    if operator == NORM:
        values |= _affine(norm or NormOptions(), shape)
    elif norm is not None:
        raise QuantVizError("norm_weight", operator=operator)
    has_zero = bool(values["z_x"]) or bool(values["z_y"])
    if arithmetic == _OF_16_BITS:
        bits = 12 if operator == NORM else 15
        fits = fmt.id == "int16" and values["s_y"] == 2.0**-bits and values["s_x"] < _BEYOND_16_BITS
        if not fits or has_zero:
            raise QuantVizError("operator_of_16_bits", operator=operator, arithmetic=arithmetic, bits=bits)
    if arithmetic == _IBERT and (has_zero or not fmt.code_min):
        raise QuantVizError("operator_symmetric", operator=operator, arithmetic=arithmetic)
    if operator == NORM:
        _check_divisors(values, arithmetic)
    if (copies or (operator, arithmetic) in _SAME_SCALE) and not same:
        raise QuantVizError("scales_differ", operator=operator, arithmetic=arithmetic)
    return arithmetics[arithmetic], values


def _check_divisors(values: NamedTensors, arithmetic: str) -> None:
    """Raise where a LayerNorm would divide by 0."""
    count = len(values["weight"])
    zeros = int((values["weight"] == 0).sum())
    # One divides by each weight, the other by the largest.
    if zeros and (arithmetic == _IBERT or (arithmetic == _OF_16_BITS and zeros == count)):
        raise QuantVizError("norm_weight_zero", arithmetic=arithmetic, zeros=zeros, count=count)
    low, high = values["q_x"].aminmax(dim=-1)
    alike = int((low == high).sum())
    if alike and arithmetic == _IBERT:
        raise QuantVizError("norm_row_alike", arithmetic=arithmetic, rows=alike)


def _affine(norm: NormOptions, shape: torch.Size) -> NamedTensors:
    found = {"eps": torch.tensor(norm.eps, dtype=torch.float64)}
    for name, given, default in (("weight", norm.weight, 1.0), ("bias", norm.bias, 0.0)):
        found[name] = torch.full(shape[-1:], default) if given is None else as_real(given).values
        if found[name].shape != shape[-1:] or not bool(found[name].isfinite().all()):
            raise QuantVizError("norm_numbers", name=name, count=shape[-1], shape=tuple(found[name].shape))
    return {**found, "weight_row": found["weight"]}


def _check_terms(operator: str, values: NamedTensors, arithmetic: str) -> None:
    """Raise a `QuantVizError` for terms that an engine leaves to another kernel."""
    a, b = values["q_a"], values["q_b"]
    if arithmetic == "litert_ruy" and a.shape != b.shape:
        raise QuantVizError("terms_differ", a=tuple(a.shape), b=tuple(b.shape))
    if arithmetic == "xnnpack" and operator == "add":
        for name in ("s_a", "s_b"):
            ratio = (values[name] / values["s_y"]).item()
            if not _XNNPACK_RATIOS[0] <= ratio < _XNNPACK_RATIOS[1]:
                raise QuantVizError("terms_beyond_xnnpack", got=ratio)


def _in_vectors(shape: torch.Size) -> torch.Tensor:
    """Return which codes of a contiguous tensor vector instructions compute: whole vectors from the first."""
    in_vectors = torch.zeros(shape, dtype=torch.bool)
    in_vectors.flatten()[: in_vectors.numel() // _VECTOR * _VECTOR] = True
    return in_vectors


def _single_in_rows(a: torch.Size, b: torch.Size) -> str | None:
    """Return which term, "a" or "b", has one code for each row of the other's; none where both have rows.

    Rows are along the last axis that the sum has more than one code on.
    """
    try:
        shape = torch.broadcast_shapes(a, b)  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise QuantVizError("terms_differ", a=tuple(a), b=tuple(b)) from None
    axis = next((axis for axis in range(-1, -len(shape) - 1, -1) if shape[axis] != 1), None)
    if axis is None:
        return "a"
    return next((name for name, dims in (("a", a), ("b", b)) if len(dims) < -axis or dims[axis] == 1), None)


def single_params(params: QParams) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scale, float32, and zero point, int32."""
    scale, zero = (
        torch.as_tensor(numbers, dtype=torch.float32).flatten()
        for numbers in (params.scale, params.zero_point)
    )
    if scale.numel() != 1 or zero.numel() != 1:
        raise QuantVizError("operator_needs_one_scale", got=scale.numel())
    if not 0 < scale.item() < math.inf:
        raise QuantVizError("scale_not_positive", got=scale.item())
    if abs(zero.item()) > _LARGEST_ZERO or zero.item() != round(zero.item()):
        raise QuantVizError("zero_point_not_integer", got=zero.item(), largest=_LARGEST_ZERO)
    return scale[0], zero[0].to(torch.int32)


def _integer_format(number_format: str) -> NumberFormat:
    fmt = find_format(number_format)
    if fmt.kind != "integer":
        raise QuantVizError("operator_needs_integers", got=number_format)
    return fmt
