"""Quantized weights of TFLite models: a tensor of codes has its scales and zero points in its description.

There is one for all, or one for each index of `quantized_dimension`; those of blocks are in other tensors.

Source: TensorFlow's `schema.fbs`, as ai-edge-litert 2.3 has it, and ai-edge-quantizer 0.10, which writes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.sources.files.catalog import Catalog
from quantviz.sources.files.tflite import TensorQuantization, TfliteCatalog
from quantviz.sources.layouts.affine import AffineCodes, bias
from quantviz.sources.layouts.weight import Config, QuantizedWeight, attempted, bits_stored

ID = "tflite"
#: The dtypes of codes, and of biases.
_CODES = frozenset(("int2", "int4", "uint4", "int8", "uint8", "int16"))
_OF_BIASES = ("int32", "int64")


def find(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    if not isinstance(catalog, TfliteCatalog):
        return
    for name, quantized in catalog.quantized.items():
        info = catalog.info(name)
        if info.dtype in _CODES and len(info.shape) > 1:
            parts = (name, *(part for part in (quantized.scale_tensor, quantized.zero_tensor) if part))
            yield attempted(ID, name, parts, functools.partial(_weight, catalog, name, quantized, parts))
        elif info.dtype in _OF_BIASES and len(info.shape) == 1 and quantized.scales and not info.problem:
            yield attempted(ID, name, (name,), functools.partial(_bias, catalog, name, quantized))


def _bias(catalog: TfliteCatalog, name: str, quantized: TensorQuantization) -> QuantizedWeight:
    scales = torch.tensor(quantized.scales)
    zeros = torch.tensor(quantized.zeros, dtype=torch.int64)
    return bias(ID, catalog, name, (name,), lambda: scales, zeros if len(zeros) else None, "float32")


def _weight(
    catalog: TfliteCatalog, name: str, quantized: TensorQuantization, parts: tuple[str, ...]
) -> QuantizedWeight:
    info = catalog.info(name)
    if info.problem:
        raise info.problem.again()
    if quantized.unknown or info.dtype not in FORMATS:
        raise QuantVizError("layouts.damaged", name=name)
    axes = len(info.shape)
    axis = quantized.axis if 0 <= quantized.axis < axes else axes
    block = 0
    zeros = torch.tensor(quantized.zeros, dtype=torch.int32)
    if quantized.block:
        # Blocks lie along the last axis for any declared dimension: a row of scales for each row.
        axis = axes - 1
        block = quantized.block
        of_scale = catalog.info(quantized.scale_tensor).shape
        dtype = catalog.info(quantized.scale_tensor).dtype
        if quantized.zero_tensor:
            zeros = catalog.cut(quantized.zero_tensor).to(torch.int32)
        scale = functools.partial(catalog.load, quantized.scale_tensor)
    else:
        of_scale = (len(quantized.scales),)
        dtype = "float32"
        scale = functools.partial(torch.tensor, quantized.scales)

    codes = AffineCodes(catalog, name, name, info.dtype, scale, of_scale, zeros, axis, block)
    if bool(zeros.any()) and tuple(zeros.shape) not in (of_scale, (1,)):
        raise codes.misfit()
    # Its scales lie in the description, 4 bytes each.
    bits = bits_stored(catalog, parts, info.shape) + 32 * len(quantized.scales) / info.count
    return codes.weight(ID, parts, dtype, bits)
