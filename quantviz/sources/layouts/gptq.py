"""GPTQ's layout, as AutoGPTQ and GPTQModel write it.

`qweight` int32 (columns · bits / 32, rows), packed down the columns; `scales` (groups, rows); `qzeros` int32
(groups, rows · bits / 32), packed along the rows; `g_idx` (columns), each column's group. A value is
scale · (code − zero point). Version 1 stores the zero point less one, version 2 as it is.

Sources: AutoGPTQ, `nn_modules/qlinear/qlinear_cuda_old.py` (9f7d370); GPTQModel, `nn_modules/qlinear` and
`utils/model_dequant.py` (f4c327a), whose planar layout `gptq_p` is another one; AutoRound 0.16.1,
`inference/backend.py` and `utils/model_free_utils.py`, whose `packing_format` names the version.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from quantviz.errors import QuantVizError
from quantviz.sources.layouts.awq import is_gemv_of
from quantviz.sources.layouts.bit_fields import unpacked, unpacked_bytes, words_of
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    along_rows,
    coded_in_groups,
    columns_by_group,
    plain_scheme,
    values_in_groups,
)

BITS = (2, 3, 4, 8)
#: The values of `checkpoint_format`, or AutoRound's `packing_format`, for this layout, each with the amount
#: by which stored zero points are too small.
_VERSIONS = {"gptq": 1, "gptq_v2": 0, "auto_round:auto_gptq": 1, "auto_round": 0, "auto_round:gptqmodel": 0}


def _is_gptq(claim: Claim) -> bool:
    """AWQ's tensors have the same names: shapes and settings decide."""
    words = claim.shape("qweight")
    scales = claim.shape("scales")
    return len(words) == len(scales) == 2 and words[1] == scales[1] and not is_gemv_of(claim.config)


def _weight(claim: Claim) -> QuantizedWeight:
    words = claim.shape("qweight")
    groups, rows = claim.shape("scales")
    bits = _bits(claim, rows, groups)
    version = _version(claim.config)
    if not bits or version not in _VERSIONS or words[0] * 32 % bits or not rows or not groups:
        got = claim.shape("qzeros")
        raise QuantVizError(
            "layouts.gptq", name=claim.module, got=got, version=version, scales=(groups, rows)
        )
    columns = words[0] * 32 // bits
    group = -(-columns // groups)
    order = columns_by_group(claim.cut("g_idx"), columns, group, claim.module) if "g_idx" in claim else None
    less = _zero_offset(claim, bits, rows, version if claim.config else "")

    def parts_of(start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        words = claim.cut("qweight", slice(None), slice(start, stop))
        window = slice(start * bits // 32, words_of(stop, bits))
        zeros = unpacked(claim.cut("qzeros", slice(None), window), bits, stop - start).T
        zeros = ((zeros + less) & ((1 << bits) - 1)).contiguous()
        return words, zeros, claim.load("scales", slice(None), slice(start, stop)).T.contiguous()

    def coded_of(words: torch.Tensor, zeros: torch.Tensor, scale: torch.Tensor) -> Coded:
        @functools.cache
        def codes() -> torch.Tensor:
            unpack = unpacked_bytes if 8 % bits == 0 else unpacked
            q = unpack(words.T, bits, columns)
            return q if order is None else q[:, order]

        if bits != 4 or order is not None:
            return coded_in_groups(codes(), scale, zeros, group)
        return Coded(codes, lambda: values_in_groups(codes(), scale, zeros, group), scale, zeros, words)

    def read() -> Callable[[int, int], Coded]:
        words, *of_groups = parts_of(0, rows)
        return lambda start, stop: coded_of(words[:, start:stop], *(each[start:stop] for each in of_groups))

    shape = (rows, columns)
    scheme = plain_scheme(f"uint{bits}", "asymmetric", along_rows(group, columns), shape)
    # Zero points of 32 rows begin with a word.
    return claim.weight(
        shape,
        scheme,
        claim.dtype("scales"),
        lambda start, stop: coded_of(*parts_of(start, stop)),
        row_step=32,
        columns=order,
        read=read,
    )


def _version(config: Config) -> str:
    if str(config.get("quant_method")).endswith("auto-round"):
        return str(config.get("packing_format") or config.get("backend") or "auto_round:auto_gptq")
    return str(config.get("checkpoint_format") or config.get("format") or "gptq")


def _bits(claim: Claim, rows: int, groups: int) -> int:
    """Return the bits of a code; 0 where the shapes fit none. Few rows or columns may fit several."""
    words = claim.shape("qweight")
    listed = math.prod(claim.shape("g_idx")) if "g_idx" in claim else 0
    fitting = [
        bits
        for bits in BITS
        if claim.shape("qzeros") == (groups, words_of(rows, bits))
        and words[0] == words_of(listed or words[0] * 32 // bits, bits)
    ]
    configured = claim.config.get("bits")
    return next((bits for bits in fitting if bits == configured), next(iter(fitting), 0))


def _zero_offset(claim: Claim, bits: int, rows: int, version: str) -> int:
    """Return the number, in codes, to add to stored zero points.

    The configuration names the version. Without one, the offset is 0 if the stored zero points are all the
    middle code, as version 2 has them for a symmetric weight; else that of version 1, the older one.
    """
    if version:
        return _VERSIONS[version]
    stored = unpacked(claim.cut("qzeros"), bits, rows)
    return 0 if bool((stored == 1 << (bits - 1)).all()) else 1


_TENSORS = {"qweight": ("int32",), "scales": FLOATS, "qzeros": ("int32",)}
FORMS = (Form(_TENSORS, _weight, {"g_idx": ("int32", "int64")}, when=_is_gptq),)
