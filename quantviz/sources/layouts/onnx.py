"""Quantized weights of ONNX models: the nodes of the graph show which tensors belong together.

- DequantizeLinear: x codes, x_scale, x_zero_point; one scale for all, for each index of `axis`, or for each
  `block_size` along it. A value is (code − zero point) · scale. Codes of int32 and one axis are a bias.
- QuantizeLinear before it: x is the weight in float, whose codes follow from it; TensorRT's models have it.
- QLinearMatMul, QLinearConv, QGemm, DynamicQuantizeMatMul, MatMulIntegerToFloat: scales are inputs beside the
  codes. MatMulInteger and ConvInteger, whose results are scaled later: the scales of `X_quantized` are
  `X_scale`.
- MatMulNBits: B uint8 (outputs, blocks, bytes), the first code in the lowest bits, `scales` of
  outputs · blocks, zero points packed likewise or in float, 2^(bits − 1) where there are none; `g_idx` the
  block of each input. Bits are 2, 4 or 8. With `weight_prepacked` B lies as a kernel wants it.
- GatherBlockQuantized, an embedding: codes of 4 bits or floats as they are, or in uint8 packed likewise along
  the last axis; scales of each `block_size` along `quantize_axis`. Zero points are 0 where there are none, in
  uint8 2^(bits − 1).

Source: onnx 1.23, the operators' specification; onnxruntime 1.31, docs/ContribOperators.md and
python/tools/quantization.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerGroup
from quantviz.sources.files.catalog import Catalog, bits_of
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.onnx_graph import Node
from quantviz.sources.files.onnx_schema import DTYPES
from quantviz.sources.layouts.affine import AffineCodes, bias
from quantviz.sources.layouts.bit_fields import unpacked_bytes
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    attempted,
    columns_by_group,
    plain_scheme,
    unreadable,
)

ID = "onnx"
#: The places of codes, scales and zero points among the inputs of nodes that have the scales beside.
_INPUTS = {
    "DequantizeLinear": (0, 1, 2),
    "QLinearMatMul": (3, 4, 5),
    "QLinearConv": (3, 4, 5),
    "QGemm": (3, 4, 5),
    "DynamicQuantizeMatMul": (1, 2, 3),
    "MatMulIntegerToFloat": (1, 3, 5),
}
#: The places of a bias of int32, and of the scales of inputs and weights, whose product is its scale.
_BIASES = {"QLinearConv": (8, 1, 4), "QGemm": (6, 1, 4)}
#: The places of codes and zero points among the inputs of nodes whose result is scaled later.
_SCALED_LATER = {"MatMulInteger": (1, 3), "ConvInteger": (1, 3)}
#: Nodes whose codes are a convolution's: outputs first.
_OUTPUTS_FIRST = frozenset(("QLinearConv", "ConvInteger"))
#: Nodes that only their own kernels decode, and the place of their codes.
_KERNELS = {"MatMulBnb4": 1, "QMoE": 2}
_FORMATS = frozenset(
    {
        *("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "float4_e2m1fn"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    }
)
_FLOATS = frozenset(("float32", "float16", "bfloat16"))
#: Suffixes that tools add to a weight's name for its codes, and for the output of the node.
_OF_CODES = re.compile(r"(_quantized|_quant|_Q\d+(G\d+)?|_int8|_weight_q)$")
_OF_VALUES = re.compile(r"(_DequantizeLinear_Output|_dequantized|_DequantizeLinear|_dq)(_\d+)?$")
#: Sizes of codes that MatMulNBits packs without crossing a byte.
_PACKED = (2, 4, 8)


#: A name, tensors, codes first, and a function that makes the weight or raises.
_Candidate = tuple[str, tuple[str, ...], Callable[[], QuantizedWeight]]


def find(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    if not isinstance(catalog, OnnxCatalog):
        return
    seen = set[str]()
    for node in catalog.graph.nodes:
        for name, parts, make in _FINDERS.get(node.operator, _beside_scales)(catalog, node):
            if parts[0] not in seen:
                seen.add(parts[0])
                yield attempted(ID, name, parts, make)


def _refused(name: str, parts: tuple[str, ...], problem: QuantVizError) -> _Candidate:
    return name, parts, lambda: unreadable(ID, name, parts, problem)


# ---- codes beside their scales ------------------------------------------------------------------


@dataclass(frozen=True)
class _Affine:
    codes: str
    scale: str
    zero: str | None
    #: Of one scale for all it does not count.
    axis: int
    #: Indices of the axis that share a scale; 0 for one.
    block: int
    name: str
    #: The dtype that QuantizeLinear rounds to, where the codes are the weight itself in float; else "".
    rounds_to: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.codes, self.scale) if self.zero is None else (self.codes, self.scale, self.zero)


def _beside_scales(catalog: OnnxCatalog, node: Node) -> Iterator[_Candidate]:
    affine = _affine(catalog, node)
    if affine:
        make = _bias if len(catalog.info(affine.codes).shape) == 1 else _weight
        yield affine.name, affine.parts, functools.partial(make, catalog, affine)
    if node.operator in _BIASES:
        codes, first, second = (catalog.graph.tensor(node, place) for place in _BIASES[node.operator])
        if codes is None or first is None or second is None:  # the scales of its products are not constants
            return
        info = catalog.info(codes)
        if len(info.shape) == 1 and info.dtype == "int32":
            name = _OF_CODES.sub("", codes)
            parts = (codes, first, second)
            dtype = catalog.info(second).dtype
            scale = functools.partial(_product, catalog, first, second)
            yield name, parts, functools.partial(bias, ID, catalog, name, parts, scale, None, dtype)


def _product(catalog: OnnxCatalog, first: str, second: str) -> torch.Tensor:
    return catalog.load(first).flatten() * catalog.load(second).flatten()


def _affine(catalog: OnnxCatalog, node: Node) -> _Affine | None:
    tensor = catalog.graph.tensor
    if node.operator in _SCALED_LATER:
        at_codes, at_zero = _SCALED_LATER[node.operator]
        codes = tensor(node, at_codes)
        scale = f"{_OF_CODES.sub('', codes)}_scale" if codes else ""
        if codes is None or scale not in catalog.graph.listed:
            return None
        return _described(catalog, node, codes, scale, tensor(node, at_zero))
    if node.operator not in _INPUTS:
        return None
    at_codes, at_scale, at_zero = _INPUTS[node.operator]
    codes = tensor(node, at_codes)
    scale_or_none = tensor(node, at_scale)
    if scale_or_none is None:
        return None
    if codes is not None:
        return _described(catalog, node, codes, scale_or_none, tensor(node, at_zero))
    before = catalog.graph.maker(node, at_codes) if node.operator == "DequantizeLinear" else None
    weight = tensor(before, 0) if before and before.operator == "QuantizeLinear" else None
    if before is None or weight is None or catalog.info(weight).dtype not in _FLOATS:
        return None
    zero = tensor(before, 2)
    # The default of QuantizeLinear is uint8.
    number = before.number("output_dtype", 0)
    rounds_to = DTYPES[number].name if number in DTYPES else "uint8"
    rounds_to = catalog.info(zero).dtype if zero else rounds_to
    affine = _described(catalog, node, weight, tensor(before, 1) or scale_or_none, zero, rounds_to)
    return affine and replace(affine, name=weight)


def _described(
    catalog: OnnxCatalog, node: Node, codes: str, scale: str, zero: str | None, rounds_to: str = ""
) -> _Affine | None:
    """Return None where the tensors are an input's scale."""
    info = catalog.info(codes)
    is_bias = node.operator == "DequantizeLinear" and len(info.shape) == 1 and info.dtype == "int32"
    if not is_bias and (len(info.shape) < 2 or (not rounds_to and info.dtype not in _FORMATS)):
        return None
    axis = 0 if node.operator in _OUTPUTS_FIRST else len(info.shape) - 1
    block = 0
    name = _OF_CODES.sub("", codes)
    if node.operator == "DequantizeLinear":
        axis = node.number("axis", 1)
        block = node.number("block_size", 0)
        # Name a weight by the node's output, unless the codes have a tool's suffix behind the weight's name.
        output = node.outputs[0] if node.outputs else codes
        if name == codes:
            name = _OF_VALUES.sub("", output) or codes
        name = name if name != codes else output
    elif node.operator == "QGemm" and node.number("transB", 0):
        axis = 0
    return _Affine(codes, scale, zero, axis, block, name, rounds_to)


def _bias(catalog: OnnxCatalog, affine: _Affine) -> QuantizedWeight:
    zeros = catalog.cut(affine.zero).to(torch.int64) if affine.zero else None
    scale = functools.partial(catalog.load, affine.scale)
    dtype = catalog.info(affine.scale).dtype
    return bias(ID, catalog, affine.name, affine.parts, scale, zeros, dtype)


def _weight(catalog: OnnxCatalog, affine: _Affine) -> QuantizedWeight:
    info = catalog.info(affine.codes)
    scales = catalog.info(affine.scale)
    axes = len(info.shape)
    fmt = affine.rounds_to or info.dtype
    if fmt not in FORMATS:
        raise _unknown_dtype(affine.codes, fmt)
    zeros = catalog.cut(affine.zero).to(torch.int32) if affine.zero else None
    axis = affine.axis % axes if -axes <= affine.axis < axes else axes
    scale = functools.partial(catalog.load, affine.scale)
    rounded = bool(affine.rounds_to)
    codes = AffineCodes(
        catalog, affine.codes, affine.name, fmt, scale, scales.shape, zeros, axis, affine.block, rounded
    )
    single = zeros is not None and zeros.numel() == 1 == math.prod(scales.shape)
    if zeros is not None and tuple(zeros.shape) != scales.shape and not single:
        raise codes.misfit()
    notes = (Note.of("layouts.onnx_rounded"),) if affine.rounds_to else ()
    return codes.weight(
        ID, affine.parts, scales.dtype, _bits_stored(catalog, affine.parts, info.count), notes
    )


def _unknown_dtype(name: str, dtype: str) -> QuantVizError:
    return QuantVizError("layouts.dtype", name=name, dtype=dtype, known=", ".join(sorted(_FORMATS)))


def _bits_stored(catalog: OnnxCatalog, parts: tuple[str, ...], count: int) -> float:
    infos = map(catalog.info, parts)
    return sum(info.count * bits_of(info.dtype) for info in infos) / count


# ---- MatMulNBits --------------------------------------------------------------------------------


def _n_bits(catalog: OnnxCatalog, node: Node) -> Iterator[_Candidate]:
    codes, scale, zero, order = (catalog.graph.tensor(node, place) for place in range(1, 5))
    if codes is None:
        return
    parts = tuple(each for each in (codes, scale, zero, order) if each)
    name = _name_of_codes(codes)
    if scale is None:
        yield _refused(name, parts, QuantVizError("layouts.damaged", name=name))
    elif node.number("weight_prepacked", 0):
        yield _of_kernels(node, name, parts)
    else:
        shape = (node.number("N", 0), node.number("K", 0))
        bits = node.number("bits", 4)
        size = node.number("block_size", 0)
        packed = _Packed(catalog, name, parts, scale, zero, order, shape, bits, size)
        yield name, parts, packed.weight


def _name_of_codes(codes: str) -> str:
    """>>> _name_of_codes("model.layers.0.attn.q_proj.MatMul.weight_Q4"), _name_of_codes("a.MatMul.qweight")
    ('model.layers.0.attn.q_proj.weight', 'a.weight')
    """
    name = re.sub(r"\.MatMul(?=[._]|$)", "", _OF_CODES.sub("", codes))
    if name.endswith("qweight"):
        name = f"{name.removesuffix('qweight')}weight"
    return name if name != codes else f"{codes}:weight"


@dataclass(frozen=True)
class _Packed:
    """Codes in bytes, the first in the lowest bits, with a scale for each block of a row."""

    catalog: OnnxCatalog
    name: str
    #: Codes first.
    parts: tuple[str, ...]
    scale: str
    #: The zero points, and the block of each column.
    zero: str | None
    order: str | None
    shape: tuple[int, int]
    bits: int
    size: int
    #: Whether the last block of a row is as long as all others.
    is_filled: bool = True

    def weight(self) -> QuantizedWeight:
        """Raise `QuantVizError` where the tensors do not fit together, or the bits are none of ONNX's."""
        size = self.size
        bits = self.bits
        rows, columns = self.shape
        catalog = self.catalog
        codes = self.parts[0]
        scale = self.scale
        zero = self.zero
        if bits not in _PACKED or size < 16 or min(rows, columns) < 1:
            raise QuantVizError("layouts.onnx_n_bits", name=self.name, bits=bits, size=size)
        blocks = -(-columns // size)
        a_line = blocks * (size * bits // 8) if self.is_filled else -(-columns * bits // 8)
        a_row = -(-blocks * bits // 8)
        of_zeros = catalog.info(zero) if zero else None
        packed = of_zeros is not None and of_zeros.dtype == "uint8"
        sound = (
            catalog.info(codes).dtype == "uint8"
            and catalog.info(codes).count == rows * a_line
            and catalog.info(scale).count == rows * blocks
            and (of_zeros is None or of_zeros.count == rows * (a_row if packed else blocks))
            and (self.order is None or catalog.info(self.order).count == columns)
        )
        if not sound:
            raise QuantVizError("layouts.damaged", name=self.name)
        place, group = _order_of(catalog, self.order, columns, size, self.name)

        def coded(start: int, stop: int) -> Coded:
            raw = _flat(catalog, codes, start * a_line, stop * a_line)
            q = unpacked_bytes(raw.reshape(stop - start, -1), bits, columns)
            scales = _flat(catalog, scale, start * blocks, stop * blocks).float().reshape(-1, blocks)
            if of_zeros is None or zero is None:
                middle = torch.full_like(scales, 1 << (bits - 1))
            elif packed:
                raw = _flat(catalog, zero, start * a_row, stop * a_row).reshape(-1, a_row)
                middle = unpacked_bytes(raw, bits, blocks).float()
            else:
                middle = _flat(catalog, zero, start * blocks, stop * blocks).float().reshape(-1, blocks)
            x_hat = (q.float() - middle[:, group]) * scales[:, group]
            if place is not None:
                q = q[:, place]
                x_hat = x_hat[:, place]
            return Coded(q.to(torch.uint8), x_hat, scales, middle.to(torch.int32) if whole else middle)

        # Zero points in float are no codes.
        whole = of_zeros is None or packed
        scheme = plain_scheme(f"uint{bits}", "asymmetric", PerGroup(size), (rows, columns)) if whole else None
        stored = _bits_stored(catalog, self.parts, rows * columns)
        dtype = catalog.info(scale).dtype
        return QuantizedWeight(
            ID, self.name, (rows, columns), self.parts, scheme, dtype, coded, stored, columns=place
        )


def _order_of(
    catalog: OnnxCatalog, order: str | None, columns: int, size: int, name: str
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return the columns group by group where groups are no neighbours, and the group of each column."""
    if order is None:
        return None, torch.arange(columns) // size
    group = catalog.cut(order).flatten().to(torch.int64)
    return columns_by_group(group, columns, size, name), group


def _flat(catalog: OnnxCatalog, name: str, start: int, stop: int) -> torch.Tensor:
    shape = catalog.info(name).shape
    width = math.prod(shape[1:])
    first = start // width
    last = -(-stop // width)
    part = catalog.cut(name, (slice(first, last),)).flatten()
    return part[start - first * width : stop - first * width]


# ---- embeddings ---------------------------------------------------------------------------------


def _gathered(catalog: OnnxCatalog, node: Node) -> Iterator[_Candidate]:
    codes, scale, zero = (catalog.graph.tensor(node, place) for place in (0, 2, 3))
    if codes is None:
        return
    parts = tuple(each for each in (codes, scale, zero) if each)
    name = _name_of_codes(codes)
    if scale is None:
        yield _refused(name, parts, QuantVizError("layouts.damaged", name=name))
    else:
        yield name, parts, functools.partial(_of_gathered, catalog, node, name, parts, scale, zero)


def _of_gathered(
    catalog: OnnxCatalog, node: Node, name: str, parts: tuple[str, ...], scale: str, zero: str | None
) -> QuantizedWeight:
    info = catalog.info(parts[0])
    bits = node.number("bits", 4)
    size = node.number("block_size", 128)
    axis = node.number("quantize_axis", 1)
    axes = len(info.shape)
    if axes < 2 or not -axes <= axis < axes:
        raise QuantVizError("layouts.axes", name=name, shape=info.shape)
    axis %= axes
    if info.dtype == "uint8" and bits != 8:
        if axes != 2 or axis != 1:
            raise QuantVizError("layouts.axes", name=name, shape=info.shape)
        if bits not in _PACKED:
            raise QuantVizError("layouts.onnx_n_bits", name=name, bits=bits, size=size)
        shape = (info.shape[0], info.shape[1] * 8 // bits)
        return _Packed(catalog, name, parts, scale, zero, None, shape, bits, size, is_filled=False).weight()
    if info.dtype not in _FORMATS:
        raise _unknown_dtype(parts[0], info.dtype)
    scales = catalog.info(scale).shape
    zeros = catalog.cut(zero).to(torch.int32) if zero else None
    if zero is None and info.dtype == "uint8":
        zeros = torch.full(scales, 128, dtype=torch.int32)
    if zeros is not None and tuple(zeros.shape) != scales:
        raise QuantVizError("layouts.scales", name=name, shape=info.shape, scales=scales)
    block = 0 if math.prod(scales) == 1 else size or info.shape[axis]
    load = functools.partial(catalog.load, scale)
    codes = AffineCodes(catalog, parts[0], name, info.dtype, load, scales, zeros, axis, block)
    return codes.weight(ID, parts, catalog.info(scale).dtype, _bits_stored(catalog, parts, info.count))


# ---- weights that only kernels decode -----------------------------------------------------------


def _by_kernels(catalog: OnnxCatalog, node: Node) -> Iterator[_Candidate]:
    codes = catalog.graph.tensor(node, _KERNELS[node.operator])
    if codes is not None:
        yield _of_kernels(node, _name_of_codes(codes), (codes,))


def _of_kernels(node: Node, name: str, parts: tuple[str, ...]) -> _Candidate:
    layout = Note.of("layouts.names.onnx_kernel", operator=node.operator)
    return _refused(name, parts, QuantVizError("layouts.kernels", name=name, layout=layout))


#: For operators that have no scales beside their codes as all others have them.
_FINDERS: Mapping[str, Callable[[OnnxCatalog, Node], Iterator[_Candidate]]] = {
    "MatMulNBits": _n_bits,
    "GatherBlockQuantized": _gathered,
    **dict.fromkeys(_KERNELS, _by_kernels),
}
