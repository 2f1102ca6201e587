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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerGroup, Shape
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.layouts.affine import AffineCodes, bias
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    attempted,
    columns_by_group,
    plain_scheme,
    unreadable,
)

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog
    from quantviz.sources.files.onnx_graph import Node

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
#: The formats that codes may have, by the name of their dtype.
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


@dataclass(frozen=True)
class _Found:
    """The tensors of a weight, and how they belong together."""

    codes: str
    scale: str
    zero: str | None
    #: The axis that scales are along; of one scale for all it does not count.
    axis: int
    #: Indices of the axis that share a scale; 0 for one.
    block: int
    name: str
    #: Whether the codes are the weight itself in float, which QuantizeLinear rounds.
    rounded: bool = False
    #: The dtype that it rounds to, where no zero point has it.
    rounds_to: str = "uint8"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the tensors, codes first."""
        return (self.codes, self.scale) if self.zero is None else (self.codes, self.scale, self.zero)


def find(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    """Yield the quantized weights of a model."""
    if not isinstance(catalog, OnnxCatalog):
        return
    seen = set[str]()
    for node in catalog.graph.nodes:
        if node.operator == "MatMulNBits":
            yield from _n_bits(catalog, node, seen)
        elif node.operator == "GatherBlockQuantized":
            yield from _gathered(catalog, node, seen)
        elif node.operator in _KERNELS:
            yield from _by_kernels(catalog, node, seen)
        else:
            found = _found(catalog, node)
            if found and found.codes not in seen:
                seen.add(found.codes)
                make = _bias if len(catalog.info(found.codes).shape) == 1 else _weight
                yield attempted(ID, found.name, found.parts, functools.partial(make, catalog, found))
            yield from _bias_of(catalog, node, seen)


# ---- codes beside their scales ------------------------------------------------------------------


def _found(catalog: OnnxCatalog, node: Node) -> _Found | None:
    """Return the tensors of the weight that a node takes; none if it takes no quantized weight."""
    if node.operator in _SCALED_LATER:
        later, at_zero = _SCALED_LATER[node.operator]
        integers = _listed(catalog, node, later)
        by_name = f"{_OF_CODES.sub('', integers)}_scale" if integers else ""
        if integers is None or by_name not in catalog.graph.listed:
            return None
        return _described(catalog, node, integers, by_name, _listed(catalog, node, at_zero))
    if node.operator not in _INPUTS:
        return None
    at_codes, at_scale, at_zero = _INPUTS[node.operator]
    codes = _listed(catalog, node, at_codes)
    scale = _listed(catalog, node, at_scale)
    if scale is None:
        return None
    if codes is not None:
        return _described(catalog, node, codes, scale, _listed(catalog, node, at_zero))
    before = catalog.graph.maker(node, at_codes) if node.operator == "DequantizeLinear" else None
    weight = _listed(catalog, before, 0) if before and before.operator == "QuantizeLinear" else None
    if before is None or weight is None or catalog.info(weight).dtype not in _FLOATS:
        return None
    zero = _listed(catalog, before, 2)
    made = _described(catalog, node, weight, _listed(catalog, before, 1) or scale, zero, rounded=True)
    number = before.number("output_dtype", 0)
    to = _rounds_to(number) if zero is None else catalog.info(zero).dtype
    return made and _Found(made.codes, made.scale, zero, made.axis, made.block, weight, True, to)


def _listed(catalog: OnnxCatalog, node: Node, place: int) -> str | None:
    return catalog.graph.tensor(node, place)


def _rounds_to(number: int) -> str:
    """Return the dtype of a number in ONNX; by default that of QuantizeLinear."""
    from quantviz.sources.files.onnx_schema import DTYPES

    return DTYPES[number].name if number in DTYPES else "uint8"


def _described(
    catalog: OnnxCatalog, node: Node, codes: str, scale: str, zero: str | None, *, rounded: bool = False
) -> _Found | None:
    """Return the tensors of a weight or of a bias; none where they are an input's scale."""
    info = catalog.info(codes)
    is_bias = node.operator == "DequantizeLinear" and len(info.shape) == 1 and info.dtype == "int32"
    if not is_bias and (len(info.shape) < 2 or (not rounded and info.dtype not in _FORMATS)):
        return None
    axis = 0 if node.operator in _OUTPUTS_FIRST else len(info.shape) - 1
    block = 0
    if node.operator == "DequantizeLinear":
        axis = node.number("axis", 1)
        block = node.number("block_size", 0)
    elif node.operator == "QGemm" and node.number("transB", 0):
        axis = 0
    # Name a weight by the node's output, unless the codes have a tool's suffix behind the weight's name.
    output = node.outputs[0] if node.operator == "DequantizeLinear" and node.outputs else codes
    name = _OF_CODES.sub("", codes)
    if node.operator == "DequantizeLinear" and name == codes:
        name = _OF_VALUES.sub("", output) or codes
    return _Found(codes, scale, zero, axis, block, name if name != codes else output)


def _bias_of(catalog: OnnxCatalog, node: Node, seen: set[str]) -> Iterator[QuantizedWeight]:
    """Yield the bias of a node that multiplies codes, where both scales of its products are constants."""
    if node.operator not in _BIASES:
        return
    codes, *scales = (_listed(catalog, node, place) for place in _BIASES[node.operator])
    if codes is None or codes in seen or len(catalog.info(codes).shape) != 1:
        return
    known = [each for each in scales if each is not None]
    if len(known) < 2 or catalog.info(codes).dtype != "int32":
        return
    seen.add(codes)
    first, second = known
    name = _OF_CODES.sub("", codes)
    parts = (codes, first, second)
    make = functools.partial(
        bias,
        ID,
        catalog,
        name,
        parts,
        lambda: catalog.load(first).flatten() * catalog.load(second).flatten(),
        None,
        catalog.info(second).dtype,
    )
    yield attempted(ID, name, parts, make)


def _bias(catalog: OnnxCatalog, found: _Found) -> QuantizedWeight:
    zeros = catalog.cut(found.zero).to(torch.int64) if found.zero else None
    return bias(
        ID,
        catalog,
        found.name,
        found.parts,
        lambda: catalog.load(found.scale),
        zeros,
        catalog.info(found.scale).dtype,
    )


def _weight(catalog: OnnxCatalog, found: _Found) -> QuantizedWeight:
    info = catalog.info(found.codes)
    scales = catalog.info(found.scale)
    axes = len(info.shape)
    fmt = found.rounds_to if found.rounded else info.dtype
    if fmt not in FORMATS:
        raise QuantVizError("layouts.dtype", name=found.codes, dtype=fmt, known=", ".join(sorted(_FORMATS)))
    zeros = catalog.cut(found.zero).to(torch.int32) if found.zero else None
    codes = AffineCodes(
        catalog,
        found.codes,
        found.name,
        fmt,
        lambda: catalog.load(found.scale),
        scales.shape,
        zeros if zeros is not None and bool(zeros.any()) else None,
        found.axis % axes if -axes <= found.axis < axes else axes,
        found.block,
        found.rounded,
    )
    if zeros is not None and not _one_of(tuple(zeros.shape), scales.shape):
        raise codes.misfit()
    scheme, step, coded = codes.described()
    note = (Note.of("layouts.onnx_rounded"),) if found.rounded else ()
    bits = _bits_stored(catalog, found.parts, info.count)
    return QuantizedWeight(
        ID, found.name, codes.shape, found.parts, scheme, scales.dtype, coded, bits, row_step=step, notes=note
    )


def _bits_stored(catalog: OnnxCatalog, parts: tuple[str, ...], count: int) -> float:
    """Return the bits that a file spends on one element, however it writes the numbers."""
    infos = [catalog.info(part) for part in parts]
    return sum(info.count * int(re.sub(r"\D*(\d+).*", r"\1", info.dtype)) for info in infos) / count


def _one_of(zeros: Shape, scales: Shape) -> bool:
    return zeros == scales or (math.prod(zeros) == 1 and math.prod(scales) == 1)


# ---- MatMulNBits --------------------------------------------------------------------------------


def _n_bits(catalog: OnnxCatalog, node: Node, seen: set[str]) -> Iterator[QuantizedWeight]:
    codes = _listed(catalog, node, 1)
    scale = _listed(catalog, node, 2)
    if codes is None or codes in seen:
        return
    seen.add(codes)
    zero = _listed(catalog, node, 3)
    order = _listed(catalog, node, 4)
    parts = tuple(each for each in (codes, scale, zero, order) if each)
    name = _name_of_codes(codes)
    if scale is None:
        yield unreadable(ID, name, parts, QuantVizError("layouts.damaged", name=name))
        return
    if node.number("weight_prepacked", 0):
        yield _of_kernels(node, name, parts)
        return
    packed = _Packed(
        catalog,
        name,
        parts,
        scale,
        zero,
        order,
        (node.number("N", 0), node.number("K", 0)),
        node.number("bits", 4),
        node.number("block_size", 0),
    )
    yield attempted(ID, name, parts, packed.weight)


def _name_of_codes(codes: str) -> str:
    """Return the name of the weight whose codes have a name.

    >>> _name_of_codes("model.layers.0.attn.q_proj.MatMul.weight_Q4"), _name_of_codes("a.MatMul.qweight")
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
    #: The tensors of the file, codes first.
    parts: tuple[str, ...]
    scale: str
    #: The tensors of the zero points, and of the block of each column; none if there are none.
    zero: str | None
    order: str | None
    #: Outputs and inputs.
    shape: tuple[int, int]
    bits: int
    #: Columns of a block.
    size: int
    #: Whether the last block of a row is as long as all others.
    is_filled: bool = True

    def weight(self) -> QuantizedWeight:
        """Return the weight.

        Raises:
            QuantVizError: The tensors do not fit together, or no reader of ONNX has so many bits.
        """
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
        a_byte = 8 // bits

        def coded(start: int, stop: int) -> Coded:
            raw = _flat(catalog, codes, start * a_line, stop * a_line)
            q = _unpacked(raw, bits).reshape(stop - start, -1)[:, :columns]
            scales = _flat(catalog, scale, start * blocks, stop * blocks).float().reshape(-1, blocks)
            if of_zeros is None or zero is None:
                middle = torch.full_like(scales, 1 << (bits - 1))
            elif packed:
                raw = _flat(catalog, zero, start * a_row, stop * a_row).reshape(-1, a_row)
                middle = _unpacked(raw, bits).reshape(-1, a_row * a_byte)[:, :blocks].float()
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
    """Return some elements of a tensor in row-major order."""
    shape = catalog.info(name).shape
    width = math.prod(shape[1:])
    first = start // width
    last = -(-stop // width)
    part = catalog.cut(name, (slice(first, last),)).flatten()
    return part[start - first * width : stop - first * width]


def _unpacked(raw: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the codes in bytes, the first in the lowest bits.

    >>> _unpacked(torch.tensor([0x21, 0x43], dtype=torch.uint8), 4).tolist()
    [1, 2, 3, 4]
    """
    shifts = torch.arange(0, 8, bits)
    return ((raw.flatten().to(torch.int32)[:, None] >> shifts) & ((1 << bits) - 1)).flatten()


# ---- embeddings ---------------------------------------------------------------------------------


def _gathered(catalog: OnnxCatalog, node: Node, seen: set[str]) -> Iterator[QuantizedWeight]:
    codes, scale, zero = (_listed(catalog, node, place) for place in (0, 2, 3))
    if codes is None or codes in seen:
        return
    seen.add(codes)
    parts = tuple(each for each in (codes, scale, zero) if each)
    name = _name_of_codes(codes)
    if scale is None:
        yield unreadable(ID, name, parts, QuantVizError("layouts.damaged", name=name))
        return
    make = functools.partial(_of_gathered, catalog, node, name, parts, scale, zero)
    yield attempted(ID, name, parts, make)


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
        raise QuantVizError(
            "layouts.dtype", name=parts[0], dtype=info.dtype, known=", ".join(sorted(_FORMATS))
        )
    scales = catalog.info(scale).shape
    zeros = catalog.cut(zero).to(torch.int32) if zero else None
    if zero is None and info.dtype == "uint8":
        zeros = torch.full(scales, 128, dtype=torch.int32)
    if zeros is not None and tuple(zeros.shape) != scales:
        raise QuantVizError("layouts.scales", name=name, shape=info.shape, scales=scales)
    block = size if size else info.shape[axis]
    codes = AffineCodes(
        catalog,
        parts[0],
        name,
        info.dtype,
        lambda: catalog.load(scale),
        scales,
        zeros if zeros is not None and bool(zeros.any()) else None,
        axis,
        0 if math.prod(scales) == 1 else block,
    )
    scheme, step, coded = codes.described()
    bits_stored = _bits_stored(catalog, parts, info.count)
    dtype = catalog.info(scale).dtype
    return QuantizedWeight(ID, name, codes.shape, parts, scheme, dtype, coded, bits_stored, row_step=step)


# ---- weights that only kernels decode -----------------------------------------------------------


def _by_kernels(catalog: OnnxCatalog, node: Node, seen: set[str]) -> Iterator[QuantizedWeight]:
    codes = _listed(catalog, node, _KERNELS[node.operator])
    if codes is None or codes in seen:
        return
    seen.add(codes)
    yield _of_kernels(node, _name_of_codes(codes), (codes,))


def _of_kernels(node: Node, name: str, parts: tuple[str, ...]) -> QuantizedWeight:
    layout = Note.of("layouts.names.onnx_kernel", operator=node.operator)
    return unreadable(ID, name, parts, QuantVizError("layouts.kernels", name=name, layout=layout))
