"""Weights whose codes are a tensor of their own dtype beside their scales: int8 and FP8 as compressed-tensors
writes them, and FP8 by blocks as DeepSeek does.

`X.weight` int8 or FP8 (rows, columns), and `X.weight_scale` or `X.weight_scale_inv`, of a block, a group, a
row or all; asymmetric int8 has `X.weight_zero_point` int8. A value is scale · (code − zero point);
`weight_scale_inv` is multiplied too, whatever its name says. Three axes are experts, one after the other.

Sources: compressed-tensors 0.20, `compressors/naive_quantized/base.py`; DeepSeek-V3, `inference/kernel.py`
(0623163).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Granularity, PerBlock, PerChannel, PerGroup
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

#: The layout of each name that scales can have.
IDS = {"weight_scale": "compressed_tensors", "weight_scale_inv": "fp8_blocks"}
#: The format of each dtype that codes can have.
FORMATS = {"int8": "int8", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
#: Rows and columns of a block where the configuration does not say.
_BLOCK = (128, 128)


def find_scaled(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    """Yield the weights of int8 and FP8 that compressed-tensors wrote."""
    return _find(catalog, config, "weight_scale")


def find_fp8_blocks(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    """Yield the weights of FP8 by blocks."""
    return _find(catalog, config, "weight_scale_inv")


def _find(catalog: Catalog, config: Config, scales: str) -> Iterator[QuantizedWeight]:
    names = set(catalog.names)
    for name in catalog.names:
        base, _, last = name.rpartition(".")
        if last != scales or f"{base}.weight" not in names:
            continue
        info = catalog.info(f"{base}.weight")
        if info.dtype in FORMATS and not info.problem:
            zeros = (f"{base}.weight_zero_point",) if f"{base}.weight_zero_point" in names else ()
            layout, parts = IDS[scales], (f"{base}.weight", name, *zeros)
            for which, at in experts_of(info.shape):
                make = functools.partial(_weight, catalog, parts, layout, config, which, at)
                yield attempted(layout, f"{parts[0]}{which}", parts, make)


def block_of(config: Config) -> tuple[int, int]:
    """Return rows and columns of a block, as the configuration says or as is usual."""
    groups = config.get("config_groups") or {}
    found = [
        config.get("weight_block_size"),
        *((each.get("weights") or {}).get("block_structure") for each in groups.values()),
    ]
    for block in found:
        if isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block):
            return block[0], block[1]
    return _BLOCK


def _weight(
    catalog: Catalog,
    parts: tuple[str, ...],
    layout: str,
    config: Config,
    which: str,
    at: tuple[int, ...],
) -> QuantizedWeight:
    info, scales = catalog.info(parts[0]), catalog.info(parts[1])
    shape, of_scales = info.shape[len(at) :], scales.shape[len(at) :]
    # Each expert has scales of its own.
    own = scales.shape[: len(at)] == info.shape[: len(at)] and len(of_scales) == 2 if at else len(shape) == 2
    granularity = granularity_of(of_scales, shape, block_of(config)) if own else None
    if granularity is None:
        raise QuantVizError("layouts.scales", name=parts[0], shape=info.shape, scales=scales.shape)
    fmt = FORMATS[info.dtype]

    def coded(start: int, stop: int) -> Coded:
        codes = catalog.cut(parts[0], (*at, slice(start, stop)))
        rows = (*at, *rows_of_scales(granularity, start, stop))
        scale = catalog.read(parts[1], rows).tensor
        lines = over_cells(scale, granularity, stop - start, shape[1])
        if fmt != "int8":
            bits = codes.to(getattr(torch, fmt)).view(torch.uint8)
            return Coded(bits, codes * lines, scale)
        if len(parts) < 3:
            return Coded(codes, codes.float() * lines, scale)
        zeros = catalog.cut(parts[2], rows).to(torch.int32)
        shift = over_cells(zeros, granularity, stop - start, shape[1])
        return Coded(codes, (codes.to(torch.int32) - shift).float() * lines, scale, zeros)

    return QuantizedWeight(
        layout,
        f"{parts[0]}{which}",
        shape,
        parts,
        plain_scheme(fmt, "asymmetric" if len(parts) > 2 else "symmetric", granularity, shape),
        scales.dtype,
        coded,
        bits_stored(catalog, parts, info.shape),
        row_step=granularity.rows if isinstance(granularity, PerBlock) else 1,
    )


def rows_of_scales(granularity: Granularity, start: int, stop: int) -> tuple[int | slice, ...]:
    """Return the window of the scales of some rows of a weight."""
    if isinstance(granularity, PerBlock):
        return (slice(start // granularity.rows, -(-stop // granularity.rows)),)
    return (slice(start, stop),) if isinstance(granularity, PerChannel | PerGroup) else ()


def over_cells(values: torch.Tensor, granularity: Granularity, rows: int, columns: int) -> torch.Tensor:
    """Return one number a block as numbers that stand over the cells of `(rows, columns)`."""
    if isinstance(granularity, PerChannel):
        return values.reshape(rows, 1)
    if isinstance(granularity, PerGroup):
        return values.repeat_interleave(granularity.size, dim=1)
    if isinstance(granularity, PerBlock):
        of_rows = values.repeat_interleave(granularity.rows, dim=0)[:rows]
        return of_rows.repeat_interleave(granularity.cols, dim=1)[:, :columns]
    return values.reshape(())
