"""GGUF's quantized tensors: each type is a recipe's scheme, and `files/gguf_blocks.py` takes blocks apart.

A tensor of three axes holds experts, and each is a weight of its own, `name[0]`, `name[1]` …
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.recipes import RECIPES
from quantviz.sources.files.catalog import Catalog
from quantviz.sources.files.gguf import GgufCatalog, scale_name
from quantviz.sources.files.gguf_blocks import BlockParts, BlockType, decode_blocks, values_of_parts
from quantviz.sources.layouts.weight import Coded, Config, QuantizedWeight, unreadable, values_only

ID = "gguf"


def find(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    if not isinstance(catalog, GgufCatalog):
        return
    for name in catalog.names:
        info = catalog.info(name)
        if info.problem:
            if not info.dtype.startswith(("float", "bfloat", "int")):
                yield unreadable(ID, name, (name,), info.problem)
        elif kind := catalog.block_type(name):
            if info.count == 0:
                yield unreadable(ID, name, (name,), QuantVizError("layouts.damaged", name=name))
            elif len(info.shape) == 2:
                yield _weight(catalog, name, name, kind, 0)
            elif len(info.shape) == 3:
                for expert in range(info.shape[0]):
                    yield _weight(catalog, name, f"{name}[{expert}]", kind, expert)
            else:
                problem = QuantVizError("layouts.axes", name=name, shape=info.shape)
                yield unreadable(ID, name, (name,), problem)


def _weight(catalog: GgufCatalog, tensor: str, name: str, kind: BlockType, expert: int) -> QuantizedWeight:
    shape = catalog.info(tensor).shape[-2:]
    a_row = shape[1] // kind.length
    before = expert * shape[0] * a_row
    apart = scale_name(tensor)
    second = apart if apart in catalog else None

    # No scheme has codes of vectors.
    scheme = RECIPES[kind.recipe] if kind.recipe else None

    def coded(start: int, stop: int) -> Coded:
        raw = catalog.blocks(tensor, before + start * a_row, before + stop * a_row)
        factor = _second_level(catalog, second, expert)
        if kind.parts is None or scheme is None:
            return values_only(decode_blocks(kind, raw).reshape(-1, shape[1]) * factor)
        parts = kind.parts(raw)
        values: torch.Tensor | Callable[[], torch.Tensor]
        if scheme.number_format.kind != "integer":
            values = decode_blocks(kind, raw).reshape(-1, shape[1])
            values = values * factor if second else values
        elif second:
            values = values_of_parts(parts).reshape(-1, shape[1]) * factor
        else:
            # They come from the codes, with the same products and sums.
            values = functools.partial(_matrix_of_parts, parts, shape[1])
        scale = parts.scale.reshape(stop - start, -1) * factor
        q = parts.codes.reshape(-1, shape[1])
        if int(q.max()) > scheme.number_format.code_max:  # ternary codes have two bits
            raise QuantVizError(
                "layouts.codes", name=name, got=int(q.max()), most=scheme.number_format.code_max
            )
        if parts.zero is None:
            return Coded(q, values, scale)
        return Coded(q, values, scale, parts.zero.reshape(stop - start, -1) * factor)

    parts_of_file = (tensor,) if second is None else (tensor, second)
    dtype = _SCALES.get(kind.name, "float16")
    return QuantizedWeight(ID, name, shape, parts_of_file, scheme, dtype, coded, kind.bits)


def _matrix_of_parts(parts: BlockParts, columns: int) -> torch.Tensor:
    return values_of_parts(parts).reshape(-1, columns)


def _second_level(catalog: GgufCatalog, name: str | None, expert: int) -> torch.Tensor:
    if name is None:
        return torch.ones(())
    found = catalog.read(name).tensor.flatten()
    return found[expert if len(found) > 1 else 0]


#: The dtype of a block's scales where it is not float16; those of 256 elements have codes and a factor.
_SCALES = {
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"), "int × float16"),
    "MXFP4": "float8_e8m0fnu",
    "NVFP4": "float8_e4m3fn",
}
