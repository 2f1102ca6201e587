"""The codes, scales and minima in blocks of a .gguf: the factors of `decode_blocks`, each by itself.

A type is added here: one entry of `SPLITS`, once it is in `BLOCK_TYPES`.

>>> from quantviz.sources.files.gguf_blocks import BLOCK_TYPES
>>> raw = torch.tensor([[0x00, 0x38, *[0x9A] * 16]], dtype=torch.uint8)  # 0.5 as float16, then 32 codes
>>> parts = SPLITS["Q4_0"].parts(raw)
>>> parts.codes[0, 15:17].tolist(), parts.scale.tolist(), SPLITS["Q4_0"].recipe
([2, 1], [[0.5]], 'q4_0')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch

from quantviz.sources.files.gguf_blocks import (
    fields,
    five_bits,
    half,
    half_mxfp4_scale,
    half_nvfp4_scales,
    scales_and_minima,
    signed,
    tq1_0_digits,
)


class Parts(NamedTuple):
    """The codes, scales and minima of blocks, one line a block."""

    #: The codes of the recipe's format: int8 or uint8 of `(blocks, elements)`.
    codes: torch.Tensor
    #: The scales, float32 of `(blocks, scales)`, each for an equal share of the elements.
    scale: torch.Tensor
    #: The value of code 0, of the same shape; none where it is 0.
    zero: torch.Tensor | None = None


def values_of_parts(parts: Parts) -> torch.Tensor:
    """Return the values of whole-number codes, as `decode_blocks` does: float32 of `(blocks, elements)`."""
    codes = parts.codes
    count, scales = parts.scale.shape
    values = codes.view(count, scales, -1) * parts.scale.unsqueeze(2)
    values = values if parts.zero is None else values.add_(parts.zero.unsqueeze(2))
    return values.view(codes.shape)


@dataclass(frozen=True)
class Split:
    """The split of a type's blocks into codes, scales and minima."""

    #: The id of the recipe with the type's scheme.
    recipe: str
    parts: Callable[[torch.Tensor], Parts]


def _int(codes: torch.Tensor, offset: int) -> torch.Tensor:
    return codes.to(torch.int8) - offset


def _q2_k(raw: torch.Tensor) -> Parts:
    scale = half(raw, 80) * (raw[:, :16] & 15).float()
    minimum = half(raw, 82) * (raw[:, :16] >> 4).float()
    return Parts(fields(raw[:, 16:80], 2, 32), scale, -minimum)


def _q3_k(raw: torch.Tensor) -> Parts:
    scales = signed(fields(raw[:, 96:104], 4, 8) | (fields(raw[:, 104:108], 2, 4) << 4), 32)
    codes = fields(raw[:, 32:96], 2, 32) | (fields(raw[:, :32], 1, 32) << 2)
    return Parts(_int(codes, 4), half(raw, 108) * scales)


def _q4_k(raw: torch.Tensor) -> Parts:
    scale, minimum = scales_and_minima(raw[:, :16])
    return Parts(fields(raw[:, 16:], 4, 32), scale, -minimum)


def _q5_k(raw: torch.Tensor) -> Parts:
    scale, minimum = scales_and_minima(raw[:, :16])
    return Parts(five_bits(raw[:, 48:], raw[:, 16:48], 32, 32), scale, -minimum)


def _q6_k(raw: torch.Tensor) -> Parts:
    codes = fields(raw[:, :128], 4, 64) | (fields(raw[:, 128:192], 2, 32) << 4)
    return Parts(_int(codes, 32), half(raw, 208) * raw[:, 192:208].view(torch.int8).float())


def _iq4_xs(raw: torch.Tensor) -> Parts:
    scales = signed(fields(raw[:, 4:8], 4, 1) | (fields(raw[:, 2:4], 2, 1) << 4), 32)
    return Parts(fields(raw[:, 8:], 4, 16), half(raw, 0) * scales)


#: The split of blocks, by the name of their type in GGML.
SPLITS: Mapping[str, Split] = MappingProxyType(
    {
        "Q4_0": Split("q4_0", lambda raw: Parts(_int(fields(raw[:, 2:], 4, 16), 8), half(raw, 0))),
        "Q4_1": Split("q4_1", lambda raw: Parts(fields(raw[:, 4:], 4, 16), half(raw, 0), half(raw, 2))),
        "Q5_0": Split(
            "q5_0",
            lambda raw: Parts(_int(five_bits(raw[:, 6:], raw[:, 2:6], 16, 1), 16), half(raw, 0)),
        ),
        "Q5_1": Split(
            "q5_1", lambda raw: Parts(five_bits(raw[:, 8:], raw[:, 4:8], 16, 1), half(raw, 0), half(raw, 2))
        ),
        "Q8_0": Split("q8_0", lambda raw: Parts(raw[:, 2:].view(torch.int8), half(raw, 0))),
        "Q2_K": Split("q2_k", _q2_k),
        "Q3_K": Split("q3_k", _q3_k),
        "Q4_K": Split("q4_k", _q4_k),
        "Q5_K": Split("q5_k", _q5_k),
        "Q6_K": Split("q6_k", _q6_k),
        "IQ4_NL": Split("iq4_nl", lambda raw: Parts(fields(raw[:, 2:], 4, 16), half(raw, 0))),
        "IQ4_XS": Split("iq4_xs", _iq4_xs),
        "TQ1_0": Split("tq1_0", lambda raw: Parts(_int(tq1_0_digits(raw), 1), half(raw, 52))),
        "TQ2_0": Split("tq2_0", lambda raw: Parts(_int(fields(raw[:, :64], 2, 32), 1), half(raw, 64))),
        "MXFP4": Split("gguf_mxfp4", lambda raw: Parts(fields(raw[:, 1:], 4, 16), 2 * half_mxfp4_scale(raw))),
        "NVFP4": Split(
            "nvfp4_one_level", lambda raw: Parts(fields(raw[:, 4:], 4, 8), 2 * half_nvfp4_scales(raw))
        ),
    }
)
