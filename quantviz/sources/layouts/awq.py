"""AWQ's layouts "gemm" and "gemv", as AutoAWQ writes them. A value is scale · (code − zero point).

gemm: `qweight` int32 (columns, rows / 8) and `qzeros` int32 (groups, rows / 8), eight codes a word in the
order 0 2 4 6 1 3 5 7; `scales` (groups, rows).

gemv: `qweight` int32 (rows, columns / 8) and `qzeros` int32 (rows, words), eight codes a word in order;
`scales` (rows, 8 · words), of which there are more than groups. The layout and the size of a group are in the
configuration: the tensors alone do not determine them.

Source: AutoAWQ, `awq/utils/packing_utils.py` and `awq/modules/linear/gemm.py`, `gemv.py` (88e4c76). Its
layout gemv_fast is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Granularity, PerChannel, PerGroup
from quantviz.sources.layouts.bit_fields import unpacked
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    bits_stored,
    plain_scheme,
    values_in_groups,
)

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog

ID = "awq"
#: Codes of a word.
_A_WORD = 8
#: The place in its word of each of eight neighbours.
_PLACES = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])


def _read(claim: Claim) -> QuantizedWeight:
    base = claim.module
    parts = tuple(claim.tensors[part] for part in ("qweight", "scales", "qzeros"))
    if is_gemv_of(claim.config):
        return _gemv(claim.catalog, base, parts, claim.config)
    words, scales, zeros = (claim.shape(part) for part in ("qweight", "scales", "qzeros"))
    whole = scales[0] > 0 and words[0] % scales[0] == 0
    if not whole or scales[1] != words[1] * _A_WORD or zeros != (scales[0], words[1]):
        raise QuantVizError("layouts.awq", name=base, words=words, scales=scales)
    return _weight(claim.catalog, base, parts)


def _is_awq(claim: Claim) -> bool:
    """Return whether the tensors are AWQ's and not GPTQ's, which have the same names."""
    words, scales, zeros = (claim.shape(part) for part in ("qweight", "scales", "qzeros"))
    two_axes = len(words) == len(scales) == len(zeros) == 2
    return is_gemv_of(claim.config) or (two_axes and words[1] != scales[1])


FORMS = (Form({"qweight": ("int32",), "scales": FLOATS, "qzeros": ("int32",)}, _read, when=_is_awq),)


def _weight(catalog: Catalog, base: str, parts: tuple[str, ...]) -> QuantizedWeight:
    columns = catalog.info(parts[0]).shape[0]
    groups, rows = catalog.info(parts[1]).shape
    group = columns // groups

    def coded(start: int, stop: int) -> Coded:
        window = (slice(None), slice(start // _A_WORD, stop // _A_WORD))
        q, zeros = (_in_order(catalog.cut(part, window)) for part in (parts[0], parts[2]))
        scale = catalog.read(parts[1], (slice(None), slice(start, stop))).tensor.T.contiguous()
        return Coded(q.to(torch.uint8), partial(values_in_groups, q, scale, zeros, group), scale, zeros)

    return _described(catalog, base, parts, (rows, columns), groups, coded, row_step=_A_WORD)


def is_gemv_of(config: Config) -> bool:
    """Return whether the configuration names the layout gemv."""
    return config.get("quant_method") == ID and str(config.get("version")).lower() == "gemv"


def _gemv(catalog: Catalog, base: str, parts: tuple[str, ...], config: Config) -> QuantizedWeight:
    words, scales, zeros = (catalog.info(part).shape for part in parts)
    if not len(words) == len(scales) == len(zeros) == 2:
        raise QuantVizError("layouts.awq", name=base, words=words, scales=scales)
    (rows, columns), said = (words[0], words[1] * _A_WORD), config.get("group_size")
    group = columns if said == -1 else said
    fits = scales == (rows, zeros[1] * _A_WORD) and zeros[0] == rows
    if not fits or type(group) is not int or group < 1 or columns % group or columns // group > scales[1]:
        raise QuantVizError("layouts.awq", name=base, words=words, scales=scales)
    groups = columns // group

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(catalog.cut(parts[0], (slice(start, stop),)), 4, columns)
        zero = unpacked(catalog.cut(parts[2], (slice(start, stop),)), 4, groups)
        scale = catalog.read(parts[1], (slice(start, stop), slice(0, groups))).tensor
        return Coded(q.to(torch.uint8), partial(values_in_groups, q, scale, zero, group), scale, zero)

    return _described(catalog, base, parts, (rows, columns), groups, coded)


def _described(
    catalog: Catalog,
    base: str,
    parts: tuple[str, ...],
    shape: tuple[int, int],
    groups: int,
    coded: Callable[[int, int], Coded],
    row_step: int = 1,
) -> QuantizedWeight:
    granularity: Granularity = PerChannel(0) if groups == 1 else PerGroup(shape[1] // groups)
    return QuantizedWeight(
        ID,
        f"{base}.weight",
        shape,
        parts,
        plain_scheme("uint4", "asymmetric", granularity, shape),
        catalog.info(parts[1]).dtype,
        coded,
        bits_stored(catalog, parts, shape),
        row_step=row_step,
    )


def _in_order(words: torch.Tensor) -> torch.Tensor:
    """Return the codes of words of `(columns, rows / 8)` as int32 `(rows, columns)`."""
    count = words.shape[1] * _A_WORD
    places = (torch.arange(count) // _A_WORD) * _A_WORD + _PLACES[torch.arange(count) % _A_WORD]
    return unpacked(words, 4, count)[:, places].T.contiguous()
