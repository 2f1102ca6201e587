"""compressed-tensors' packed layouts: integers in words, and FP4 with two codes a byte.

Integers: `X.weight_packed` int32 (rows, columns · bits / 32) of code + 2^(bits − 1), `X.weight_scale`,
`X.weight_shape`; asymmetric ones have `X.weight_zero_point`, packed likewise down the rows. NVFP4:
`X.weight_packed` uint8 (rows, columns / 2), the first code in the low bits, `X.weight_scale` FP8 of each 16,
and `X.weight_global_scale`, by which scales are divided. MXFP4: the same with scales that are exponents.

Integers of three axes are experts, one after the other in each tensor; FP4 of three axes is not read, for the
library itself does not read it.

Source: compressed-tensors 0.20, `compressors/pack_quantized`, `compressors/nvfp4`, `compressors/mxfp4`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerGroup
from quantviz.sources.layouts.bit_fields import unpacked, words_of
from quantviz.sources.layouts.scaled import over_cells, rows_of_scales
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    attempted,
    bits_stored,
    experts_of,
    granularity_of,
    plain_scheme,
)

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog

ID = "compressed_tensors"
_FP4 = "float4_e2m1fn"


def find(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    """Yield the weights that lie in these layouts."""
    names = set(catalog.names)
    for name in catalog.names:
        base, _, last = name.rpartition(".")
        if last != "weight_packed" or f"{base}.weight_scale" not in names:
            continue
        others = ("weight_shape", "weight_zero_point", "weight_global_scale")
        parts = (
            name,
            f"{base}.weight_scale",
            *(f"{base}.{each}" for each in others if f"{base}.{each}" in names),
        )
        info = catalog.info(name)
        if info.dtype == "uint8":
            make = functools.partial(_four_bit_float, catalog, base, parts)
            yield attempted(ID, f"{base}.weight", parts, make)
            continue
        for which, at in experts_of(info.shape):
            expert = functools.partial(_integer, catalog, base, parts, which, at)
            yield attempted(ID, f"{base}.weight{which}", parts, expert)


def _integer(
    catalog: Catalog, base: str, parts: tuple[str, ...], which: str, at: tuple[int, ...]
) -> QuantizedWeight:
    words, scales = catalog.info(parts[0]), catalog.info(parts[1])
    whole = _declared_shape(catalog, f"{base}.weight_shape") if f"{base}.weight_shape" in parts else ()
    fits = len(whole) == len(words.shape) == 2 + len(at) and whole[:-1] == words.shape[:-1] and min(whole) > 0
    shape, of_words, of_scales = (each[len(at) :] for each in (whole, words.shape, scales.shape))
    # No two numbers of bits make as many words unless a row is shorter than a word.
    bits = next((n for n in range(1, 9) if fits and words_of(shape[1], n) == of_words[1]), 0)
    # Each expert has scales of its own.
    own = scales.shape[: len(at)] == whole[: len(at)] and len(of_scales) == 2 if at else True
    granularity = granularity_of(of_scales, shape) if bits and own else None
    if granularity is None or f"int{bits}" not in FORMATS or words.dtype != "int32":
        raise QuantVizError("layouts.scales", name=base, shape=shape, scales=scales.shape)
    zero_point, middle, columns = f"{base}.weight_zero_point", 1 << (bits - 1), shape[1]
    shifted = zero_point in parts

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(catalog.cut(parts[0], (*at, slice(start, stop))), bits, columns) - middle
        scale = catalog.read(parts[1], (*at, *rows_of_scales(granularity, start, stop))).tensor
        lines = over_cells(scale, granularity, stop - start, columns)
        if not shifted:
            return Coded(q.to(torch.int8), q.float() * lines, scale)
        packed = catalog.cut(zero_point, (*at, slice(start * bits // 32, words_of(stop, bits))))
        zeros = (unpacked(packed.T, bits, stop - start) - middle).T.contiguous()
        shift = over_cells(zeros, granularity, stop - start, columns)
        return Coded(q.to(torch.int8), (q - shift).float() * lines, scale, zeros)

    return QuantizedWeight(
        ID,
        f"{base}.weight{which}",
        shape,
        parts,
        plain_scheme(f"int{bits}", "asymmetric" if shifted else "symmetric", granularity, shape),
        scales.dtype,
        coded,
        bits_stored(catalog, parts, whole),
        row_step=32 if shifted else 1,
    )


def _four_bit_float(catalog: Catalog, base: str, parts: tuple[str, ...]) -> QuantizedWeight:
    packed, scales = catalog.info(parts[0]), catalog.info(parts[1])
    shape = (*packed.shape[:-1], 2 * packed.shape[-1]) if packed.shape else ()
    granularity = granularity_of(scales.shape, shape) if len(shape) == 2 else None
    if not isinstance(granularity, PerGroup):
        raise QuantVizError("layouts.scales", name=base, shape=shape, scales=scales.shape)
    values = torch.tensor([FORMATS[_FP4].value(code) for code in range(16)])
    divisor = f"{base}.weight_global_scale"

    def coded(start: int, stop: int) -> Coded:
        raw = catalog.cut(parts[0], (slice(start, stop),))
        q = torch.stack((raw & 15, raw >> 4), dim=-1).flatten(1)
        if scales.dtype == "uint8":
            scale = catalog.cut(parts[1], (slice(start, stop),)).view(torch.float8_e8m0fnu).float()
        else:
            scale = catalog.read(parts[1], (slice(start, stop),)).tensor
        if divisor in parts:
            scale = scale / catalog.read(divisor).tensor.reshape(())
        return Coded(q, values[q.int()] * over_cells(scale, granularity, stop - start, shape[-1]), scale)

    return QuantizedWeight(
        ID,
        f"{base}.weight",
        shape,
        parts,
        plain_scheme(_FP4, "symmetric", granularity, shape),
        scales.dtype if scales.dtype != "uint8" else "float8_e8m0fnu",
        coded,
        bits_stored(catalog, parts, shape),
    )


def _declared_shape(catalog: Catalog, name: str) -> tuple[int, ...]:
    """Return the two or three lengths that a tensor says; () where it has others."""
    return tuple(catalog.cut(name).tolist()) if catalog.info(name).shape in ((2,), (3,)) else ()
