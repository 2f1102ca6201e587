"""onnxruntime: the quantization tool's parameters with the QuantizeLinear operators, MatMulNBits' weights,
DynamicQuantizeLinear.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper
from onnxruntime.capi import _pybind_state
from onnxruntime.quantization import quant_utils

from tests.engines import SPOILS_THE_RANGE, Answer, Case, GivenCase, Path, Refused, Undefined

PRODUCER = "onnxruntime"

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4")
#: Only the operators have these, since opset 25; the tool has no QuantType for them.
_OPERATOR_ONLY = {"int2": (-2, 1), "uint2": (0, 3)}
_BLOCK_SIZES = (16, 32, 64, 128, 256)


def _run(
    nodes: list[Any],
    inputs: dict[str, int],
    outputs: dict[str, int],
    feeds: dict[str, np.ndarray],
    opset: int = 21,
) -> list[np.ndarray]:
    key = (
        tuple(node.SerializeToString() for node in nodes),
        tuple(inputs.items()),
        tuple(outputs.items()),
        opset,
    )
    return _session(key).run(None, feeds)


# Building a session costs more than all the data: one a configuration.
@functools.cache
def _session(key: tuple[Any, ...]) -> ort.InferenceSession:
    nodes, inputs, outputs, opset = key
    values = [
        [helper.make_tensor_value_info(name, kind, None) for name, kind in group]
        for group in (inputs, outputs)
    ]
    graph = helper.make_graph([onnx.NodeProto.FromString(node) for node in nodes], "graph", *values)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10 if opset < 23 else 13)
    options = ort.SessionOptions()
    # Or a QuantizeLinear and its DequantizeLinear may be folded into nothing.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _carrier(fmt: str) -> int:
    """Numpy has no integers below 8 bits: they are cast on both sides."""
    if fmt in ("int8", "uint8", "int16", "uint16"):
        return int(getattr(TensorProto, fmt.upper()))
    return TensorProto.UINT8 if fmt[0] == "u" else TensorProto.INT8


def _operators(
    fmt: str, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int = 0, block_size: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Codes and values by QuantizeLinear and DequantizeLinear."""
    kind = getattr(TensorProto, fmt.upper())
    carrier = _carrier(fmt)
    how = {"axis": axis, **({"block_size": block_size} if block_size else {})}
    nodes = [
        helper.make_node("Cast", ["z"], ["zero"], to=kind),
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["codes"], **how),
        helper.make_node("DequantizeLinear", ["codes", "s", "zero"], ["y"], **how),
        helper.make_node("Cast", ["codes"], ["q"], to=carrier),
    ]
    real = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs, outputs = {"x": real, "s": real, "z": carrier}, {"q": carrier, "y": real}
    feeds = {"x": x, "s": scale, "z": zero_point.astype(helper.tensor_dtype_to_np_dtype(carrier))}
    codes, values = _run(nodes, inputs, outputs, feeds, opset=25 if fmt in _OPERATOR_ONLY else 21)
    return codes, values


def _array(x: torch.Tensor) -> np.ndarray:
    """A tensor for the tool, which reads initializers by NumPy."""
    if x.dtype == torch.bfloat16:
        raise Undefined("the tool and the CPU's operators take no bfloat16")
    return x.numpy()


def _answer(
    x: torch.Tensor, codes: np.ndarray, values: np.ndarray, scale: np.ndarray, zero_point: np.ndarray
) -> Answer:
    return Answer(
        torch.from_numpy(np.array(values, np.float32)).reshape(x.shape),
        torch.from_numpy(np.array(codes).astype(np.int32)).reshape(x.shape),
        torch.from_numpy(np.array(scale)).flatten(),
        torch.from_numpy(np.array(zero_point).astype(np.int32)).flatten(),
    )


def _parameters(
    fmt: str, mode: str, values: np.ndarray, reduced: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Zero point and scale of one block by the tool."""
    if fmt in _OPERATOR_ONLY:
        low, high = (np.array(bound, np.uint8 if fmt[0] == "u" else np.int8) for bound in _OPERATOR_ONLY[fmt])
        zero_point, scale = quant_utils.compute_scale_zp(
            np.array(values.min()), np.array(values.max()), low, high, mode == "symmetric"
        )
    else:
        zero_point, scale = quant_utils.compute_data_quant_params(
            values, getattr(TensorProto, fmt.upper()), mode == "symmetric", reduce_range=reduced
        )
    return np.asarray(zero_point), np.asarray(scale)


def _quantized(
    fmt: str, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int = 0, block_size: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Codes by the tool's own function, `quantize_nparray`, and their values by DequantizeLinear."""
    kind = getattr(TensorProto, fmt.upper())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = onnx.numpy_helper.from_array(x, "x")
        along = axis if np.ndim(scale) else None
        made = quant_utils.quantize_onnx_initializer(
            weight, kind, zero_point, scale, along, block_size=block_size
        )
    codes = onnx.numpy_helper.to_array(made).reshape(x.shape)
    return codes.astype(np.int32), _dequantized(fmt, codes, scale, zero_point, axis, block_size)


def _dequantized(
    fmt: str, codes: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int, block_size: int
) -> np.ndarray:
    kind, carrier = getattr(TensorProto, fmt.upper()), _carrier(fmt)
    how = {"axis": axis, **({"block_size": block_size} if block_size else {})}
    nodes = [
        helper.make_node("Cast", ["z"], ["zero"], to=kind),
        helper.make_node("Cast", ["q"], ["codes"], to=kind),
        helper.make_node("DequantizeLinear", ["codes", "s", "zero"], ["y"], **how),
    ]
    stored = helper.tensor_dtype_to_np_dtype(carrier)
    feeds = {"q": codes.astype(stored), "s": scale, "z": zero_point.astype(stored)}
    kind_of_scale = helper.np_dtype_to_tensor_dtype(scale.dtype)
    inputs = {"q": carrier, "s": kind_of_scale, "z": carrier}
    return _run(nodes, inputs, {"y": kind_of_scale}, feeds)[0]


#: Makes codes and values of a format, data, scale, zero point, axis and block size.
Quantizer = Callable[..., tuple[np.ndarray, np.ndarray]]


def _refuse_beyond_int32(fmt: str, x: torch.Tensor, scale: np.ndarray, quantizer: Quantizer) -> None:
    """The operators of less than 8 bits clamp whole bytes, but cast single codes, at the ends of odd rows, to
    int32 first.
    """
    if fmt[-1] in "24" and quantizer is _operators:
        with np.errstate(all="ignore"):
            largest = np.abs(x.float().numpy()).max() / scale.astype(np.float32).min()
        if not largest < 2.0**31:
            raise Undefined("of 2 and 4 bits, what is beyond int32 is cast to it where a code is half a byte")


def _tool(fmt: str, mode: str, axis: int | None, quantizer: Quantizer, reduced: bool = False) -> GivenCase:
    def case(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        data = _array(seen)
        if axis is not None and axis >= data.ndim:
            raise Refused(f"no axis {axis} in {data.shape}")
        blocks = (
            [data.ravel()] if axis is None else [data.take(i, axis).ravel() for i in range(data.shape[axis])]
        )
        pairs = [_parameters(fmt, mode, block, reduced) for block in blocks]
        zero_point, scale = (
            np.stack(part) if axis is not None else part[0] for part in zip(*pairs, strict=True)
        )
        _refuse_beyond_int32(fmt, x, scale, quantizer)
        codes, values = quantizer(fmt, _array(x), scale, zero_point, axis or 0)
        return _answer(x, codes, values, scale, zero_point)

    return case


def _blocked(fmt: str, mode: str, size: int, quantizer: Quantizer) -> GivenCase:
    def case(seen: torch.Tensor, x: torch.Tensor) -> Answer:
        data = _array(seen)
        try:
            with np.errstate(all="ignore"):
                zero_point, scale = quant_utils.compute_scale_zp_blocked(
                    data, getattr(TensorProto, fmt.upper()), data.ndim - 1, size, mode == "symmetric"
                )
        except NotImplementedError as problem:
            raise Refused(str(problem)) from problem
        if not np.isfinite(scale).all() and x.dtype == torch.float16:
            raise Undefined("float16 has no number for the width of a block")
        _refuse_beyond_int32(fmt, x, scale, quantizer)
        codes, values = quantizer(fmt, _array(x), scale, zero_point, data.ndim - 1, size)
        return _answer(x, codes, values, scale, zero_point)

    return case


def _unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    """Low bits first, along the last axis."""
    return np.stack([(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], -1).reshape(
        *packed.shape[:-1], -1
    )


def _refuse_two_zeros(x: torch.Tensor, size: int) -> None:
    """Of 0 and -0 in a block of zeros either is the smallest, and gives the scale its sign."""
    for block in x.split(size, dim=1):
        signs = torch.signbit(block)
        if bool(((block == 0).all(1) & signs.any(1) & ~signs.all(1)).any()):
            raise Undefined("of 0 and -0 either is the smallest, and gives a scale of 0 its sign")


def _matmul_nbits(bits: int, mode: str, size: int) -> Case:
    """MatMulNBits: a matrix of K × N with blocks along K, here x transposed, by the kernel that the tool
    calls.
    """
    kernel, per_byte = getattr(_pybind_state, f"quantize_matmul_{bits}bits"), 8 // bits

    def case(x: torch.Tensor) -> Answer:
        if x.ndim != 2:
            raise Refused("only matrices are quantized")
        weight, symmetric = np.ascontiguousarray(_array(x).T), mode == "symmetric"
        k, n = weight.shape
        blocks = -(-k // size)
        _refuse_two_zeros(x, size)
        packed = np.zeros((n, blocks, size // per_byte), np.uint8)
        scales, zeros = np.zeros((n, blocks), weight.dtype), np.zeros((n, -(-blocks // per_byte)), np.uint8)
        kernel(packed, np.pad(weight, ((0, blocks * size - k), (0, 0))), scales, zeros, size, n, k, symmetric)
        # A symmetric weight comes without zero points: the operator takes the middle code.
        zero_point = np.full(scales.shape, 1 << (bits - 1)) if symmetric else _unpack(zeros, bits)[:, :blocks]
        # The values as the operator sees them: identity × matrix.
        feeds = {
            "a": np.eye(k, dtype=weight.dtype),
            "q": packed,
            "s": scales,
            **({} if symmetric else {"z": zeros}),
        }
        node = helper.make_node(
            "MatMulNBits", list(feeds), ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=size
        )
        kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
        values = _run([node], kinds, {"y": kinds["a"]}, feeds)[0].T
        if not np.isfinite(values).all():
            raise Undefined("its values are sums of products, which one infinite value makes NaN")
        return _answer(x, _unpack(packed, bits).reshape(n, -1)[:, :k], values, scales, zero_point)

    return case


def _dynamic(x: torch.Tensor) -> Answer:
    if x.dtype != torch.float32:
        raise Undefined("DynamicQuantizeLinear takes float32 only")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    outputs = {"q": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8, "y": TensorProto.FLOAT}
    codes, scale, zero_point, values = _run(nodes, {"x": TensorProto.FLOAT}, outputs, {"x": x.numpy()})
    return _answer(x, codes, values, scale, zero_point)


def _tool_cases(quantizer: Quantizer, formats: tuple[str, ...]) -> Iterator[tuple[str, GivenCase]]:
    for fmt, mode in itertools.product(formats, ("symmetric", "asymmetric")):
        for granularity, axis in (
            ("per_tensor", None),
            ("per_channel(axis=0)", 0),
            ("per_channel(axis=1)", 1),
        ):
            yield (
                f"{fmt},{mode},{granularity},min_max,onnxruntime",
                _tool(fmt, mode, axis, quantizer),
            )
            if fmt not in _OPERATOR_ONLY:
                yield (
                    f"{fmt},{mode},{granularity},min_max,onnxruntime(reduce_range=half_and_one)",
                    _tool(fmt, mode, axis, quantizer, reduced=True),
                )


def _blocked_cases(quantizer: Quantizer, sizes: tuple[int, ...]) -> Iterator[tuple[str, GivenCase]]:
    for fmt, mode, size in itertools.product(_INTEGERS, ("symmetric", "asymmetric"), sizes):
        yield (
            f"{fmt},{mode},per_group(size={size}),min_max,onnxruntime_blocked",
            _blocked(fmt, mode, size, quantizer),
        )


_NBITS = {
    f"uint{bits},{mode},per_group(size={size}),min_max,onnxruntime_nbits": _matmul_nbits(bits, mode, size)
    for mode in ("symmetric", "asymmetric")
    for size in _BLOCK_SIZES
    for bits in (2, 4, 8)
}
_OWN_RANGE = {"given range": "its range is that of the data", "infinity": SPOILS_THE_RANGE}
_NUMPY = {"NaN": "NaN is cast to an integer by numpy, which C leaves open"}

PATHS = (
    Path(
        "DynamicQuantizeLinear",
        {"uint8,asymmetric,per_tensor,min_max,onnxruntime_dynamic": _dynamic},
        open={
            "NaN": "its ends depend on where NaN is among its vectors",
            "half and bfloat16 input": "the operator takes float32 alone",
            **_OWN_RANGE,
        },
    ),
    Path.of_given("QuantizeLinear", dict(_tool_cases(_operators, (*_INTEGERS, *_OPERATOR_ONLY))), open={}),
    Path.of_given("quantize_onnx_initializer", dict(_tool_cases(_quantized, _INTEGERS)), open=_NUMPY),
    Path.of_given("QuantizeLinear, block_size", dict(_blocked_cases(_operators, _BLOCK_SIZES)), open={}),
    Path.of_given(
        "quantize_onnx_initializer, block_size", dict(_blocked_cases(_quantized, (16, 128))), open=_NUMPY
    ),
    Path("MatMulNBits", _NBITS, half=_NBITS, open=_OWN_RANGE),
)
