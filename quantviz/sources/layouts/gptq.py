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
from typing import TYPE_CHECKING

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Granularity, PerChannel, PerGroup
from quantviz.sources.layouts.awq import is_gemv_of
from quantviz.sources.layouts.bit_fields import unpacked, unpacked_bytes, words_of
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

#: Bits whose layout is the one above.
BITS = (2, 3, 4, 8)
#: The values of `checkpoint_format`, or AutoRound's `packing_format`, for this layout, each with the amount
#: by which stored zero points are too small.
_VERSIONS = {"gptq": 1, "gptq_v2": 0, "auto_round:auto_gptq": 1, "auto_round": 0, "auto_round:gptqmodel": 0}


def _read(claim: Claim) -> QuantizedWeight:
    parts = tuple(claim.tensors.values())
    return _weight(claim.catalog, claim.module, parts, claim.config)


def _is_gptq(claim: Claim) -> bool:
    """Return whether the tensors are GPTQ's and not AWQ's, which have the same names, by their shapes and the
    configuration.
    """
    words = claim.shape("qweight")
    scales = claim.shape("scales")
    return len(words) == len(scales) == 2 and words[1] == scales[1] and not is_gemv_of(claim.config)


FORMS = (
    Form(
        {"qweight": ("int32",), "scales": FLOATS, "qzeros": ("int32",)},
        _read,
        {"g_idx": ("int32", "int64")},
        when=_is_gptq,
    ),
)


def _weight(catalog: Catalog, base: str, parts: tuple[str, ...], config: Config) -> QuantizedWeight:
    words, (groups, rows) = (catalog.info(f"{base}.{part}").shape for part in ("qweight", "scales"))
    zero_words = catalog.info(f"{base}.qzeros").shape
    bits = _bits(catalog, base, rows, groups, config)
    version = _version(config)
    if not bits or version not in _VERSIONS or words[0] * 32 % bits or not rows or not groups:
        raise QuantVizError("layouts.gptq", name=base, got=zero_words, version=version, scales=(groups, rows))
    columns = words[0] * 32 // bits
    order, group = _order(catalog, base, columns, groups)
    less = _zero_offset(catalog, base, bits, rows, version if config else "")

    def coded(start: int, stop: int) -> Coded:
        words = catalog.cut(f"{base}.qweight", (slice(None), slice(start, stop))).T
        q = unpacked_bytes(words, bits, columns) if 8 % bits == 0 else unpacked(words, bits, columns)
        window = slice(start * bits // 32, words_of(stop, bits))
        zeros = unpacked(catalog.cut(f"{base}.qzeros", (slice(None), window)), bits, stop - start).T
        zeros = (zeros + less) & ((1 << bits) - 1)
        scale = catalog.read(f"{base}.scales", (slice(None), slice(start, stop))).tensor.T.contiguous()
        q = q if order is None else q[:, order]
        zeros = zeros.contiguous()
        values = functools.partial(values_in_groups, q, scale, zeros, group)
        return Coded(q.to(torch.uint8), values, scale, zeros)

    granularity: Granularity = PerChannel(0) if groups == 1 else PerGroup(group)
    return QuantizedWeight(
        "gptq",
        f"{base}.weight",
        (rows, columns),
        parts,
        plain_scheme(f"uint{bits}", "asymmetric", granularity, (rows, columns)),
        catalog.info(f"{base}.scales").dtype,
        coded,
        bits_stored(catalog, parts, (rows, columns)),
        # Zero points of so many rows begin with a word.
        row_step=32,
        columns=order,
        notes=() if order is None else (Note.of("layouts.act_order"),),
    )


def _version(config: Config) -> str:
    """Return the name of the format that the configuration gives."""
    if str(config.get("quant_method")).endswith("auto-round"):
        return str(config.get("packing_format") or config.get("backend") or "auto_round:auto_gptq")
    return str(config.get("checkpoint_format") or config.get("format") or "gptq")


def _bits(catalog: Catalog, base: str, rows: int, groups: int, config: Config) -> int:
    """Return the bits of a code; 0 where the shapes fit none. Few rows or columns may fit several."""
    words, zeros = (catalog.info(f"{base}.{part}").shape for part in ("qweight", "qzeros"))
    listed = catalog.info(f"{base}.g_idx").count if f"{base}.g_idx" in catalog else 0
    fitting = [
        bits
        for bits in BITS
        if zeros == (groups, words_of(rows, bits))
        and words[0] == words_of(listed or words[0] * 32 // bits, bits)
    ]
    return next((bits for bits in fitting if bits == config.get("bits")), fitting[0] if fitting else 0)


def _order(catalog: Catalog, base: str, columns: int, groups: int) -> tuple[torch.Tensor | None, int]:
    """Return the columns group by group, none where they are so already, and the columns of a group."""
    group = -(-columns // groups)
    in_place = torch.arange(columns) // group
    if f"{base}.g_idx" not in catalog:
        return None, group
    found = catalog.cut(f"{base}.g_idx").to(torch.int64)
    if torch.equal(found, in_place):
        return None, group
    order = torch.argsort(found, stable=True) if found.shape == (columns,) else found
    if order.shape != (columns,) or not torch.equal(found[order], in_place):
        raise QuantVizError("layouts.groups", name=base, columns=columns, groups=groups)
    return order, group


def _zero_offset(catalog: Catalog, base: str, bits: int, rows: int, version: str) -> int:
    """Return the zero-point offset of a GPTQ version, which is added to stored zero points, in codes.

    The configuration names the version. Without one, the offset is 0 if the stored zero points are all the
    middle code, as version 2 has them for a symmetric weight; else that of version 1, the older one.
    """
    if version:
        return _VERSIONS[version]
    stored = unpacked(catalog.cut(f"{base}.qzeros"), bits, rows)
    return 0 if bool((stored == 1 << (bits - 1)).all()) else 1
