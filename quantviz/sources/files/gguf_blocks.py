"""GGML's tensor types: blocks of bytes taken apart into codes, scales and minima, and their values.

A quantized type packs `length` neighbours of a row into `size` bytes. Most quantized types are schemes too
(the conventions `gguf…`); Q1_0 and Q2_0 are read here only. Types of plain numbers have blocks of one.

A type is added here: one entry of `BLOCK_TYPES`. The layouts are those of ggml (`ggml-common.h`); each
product and sum is rounded to float32 in the order in which `gguf.quants` takes them, so the values are the
same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from quantviz.schemes.formats import FORMATS
from quantviz.sources.files.mapped import looked_up

#: Values that are decoded at a time: the intermediate results take some ten times their memory.
_VALUES_PER_CHUNK = 2**21

#: The values of the 16 codes of IQ4_NL and IQ4_XS, in units of the scale.
_IQ4_VALUES = FORMATS["iq4"].codebook
#: Twice the 16 values of float4_e2m1fn, which makes them whole numbers; the code of -0 has 0.
_TWICE_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
#: The byte of an unsigned float8 e4m3 that would be NaN; ggml reads it as 0.
_E4M3_NAN = 0x7F


class BlockParts(NamedTuple):
    #: int8 or uint8 of `(blocks, elements)`.
    codes: torch.Tensor
    #: float32 of `(blocks, scales)`, each for an equal share of the elements.
    scale: torch.Tensor
    #: The value of code 0 where it is not 0.
    zero: torch.Tensor | None = None


@dataclass(frozen=True)
class BlockType:
    #: Its number in a file.
    id: int
    name: str
    length: int
    size: int
    #: uint8 of (blocks, size) → the values, (blocks, length).
    decode: Callable[[torch.Tensor], torch.Tensor]
    #: The dtype of plain numbers as torch spells it, "" for a quantized type, whose values are float32.
    plain: str = ""
    #: The id of the recipe with the type's scheme; "" where no scheme has its codes, which are of vectors.
    recipe: str = ""
    #: The same bytes → their parts, for a type that has a recipe.
    parts: Callable[[torch.Tensor], BlockParts] | None = None

    @property
    def bits(self) -> float:
        """Return the bits of an element, with its share of the scales."""
        return 8 * self.size / self.length


def decode_blocks(kind: BlockType, raw: torch.Tensor) -> torch.Tensor:
    """Return `(blocks, kind.length)` of uint8 `(blocks, kind.size)`: float32, or a plain type's dtype."""
    blocks_per_chunk = max(1, _VALUES_PER_CHUNK // kind.length)
    if kind.plain or len(raw) <= blocks_per_chunk:
        return kind.decode(raw)
    values = torch.empty(len(raw), kind.length)
    for start in range(0, len(raw), blocks_per_chunk):
        values[start : start + blocks_per_chunk] = kind.decode(raw[start : start + blocks_per_chunk])
    return values


def values_of_parts(parts: BlockParts) -> torch.Tensor:
    """Return the values of whole-number codes as `decode_blocks` does."""
    values = _times(parts.scale, parts.codes)
    if parts.zero is None:
        return values
    count, scales = parts.scale.shape
    return values.view(count, scales, -1).add_(parts.zero.unsqueeze(2)).view(values.shape)


# ---- pieces of a block --------------------------------------------------------------------------


def fields(raw: torch.Tensor, bits: int, run: int) -> torch.Tensor:
    """Return unsigned fields of `bits` bits, one a column.

    The lowest fields of the first `run` bytes are `run` neighbours, their next higher fields the next `run`,
    and so on; then come the next `run` bytes.

    >>> fields(torch.tensor([[0x21, 0x43]], dtype=torch.uint8), 4, 2).tolist()
    [[1, 3, 2, 4]]
    """
    if run % 8 == 0:
        # Eight bytes at a time: what a shift brings into a byte from the next one is cut off.
        words = (
            raw.clone(memory_format=torch.contiguous_format).view(torch.int64).view(len(raw), -1, run // 8)
        )
        made = torch.empty(len(raw), words.shape[1], 8 // bits, run // 8, dtype=torch.int64)
        mask = ((1 << bits) - 1) * 0x0101010101010101
        for place in range(8 // bits):
            torch.bitwise_and(words >> (bits * place), mask, out=made[:, :, place])
        return made.view(len(raw), -1).view(torch.uint8)
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8).reshape(1, 1, -1, 1)
    parts = (raw.reshape(len(raw), -1, 1, run) >> shifts) & ((1 << bits) - 1)
    return parts.reshape(len(raw), -1)


def half(raw: torch.Tensor, at: int) -> torch.Tensor:
    return raw[:, at : at + 2].contiguous().view(torch.float16).float()


def signed(codes: torch.Tensor, offset: int) -> torch.Tensor:
    return (codes.to(torch.int16) - offset).float()


def _looked_up(table: tuple[float, ...], codes: torch.Tensor) -> torch.Tensor:
    return looked_up(torch.tensor(table, dtype=torch.float32), codes)


def _times(scales: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Return each column of `scales` times its equal share of the codes."""
    blocks, count = scales.shape
    return (codes.view(blocks, count, -1) * scales.unsqueeze(2)).view(blocks, -1)


def _int(codes: torch.Tensor, offset: int) -> torch.Tensor:
    return codes.to(torch.int8) - offset


# ---- one scale a block --------------------------------------------------------------------------


def five_bits(low: torch.Tensor, high: torch.Tensor, low_run: int, high_run: int) -> torch.Tensor:
    return fields(low, 4, low_run) | (fields(high, 1, high_run) << 4)


def _q5_0(raw: torch.Tensor) -> BlockParts:
    return BlockParts(_int(five_bits(raw[:, 6:], raw[:, 2:6], 16, 1), 16), half(raw, 0))


def _q5_1(raw: torch.Tensor) -> BlockParts:
    return BlockParts(five_bits(raw[:, 8:], raw[:, 4:8], 16, 1), half(raw, 0), half(raw, 2))


def tq1_0_digits(raw: torch.Tensor) -> torch.Tensor:
    """Return five digits of base 3 a byte, a fraction of 256, and four in each of the last four."""
    digits = [
        ternary_digits(raw[:, start:stop], count)
        for start, stop, count in ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    ]
    return torch.cat(digits, dim=1)


def ternary_digits(raw: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first digits of all bytes, then the second ones …"""
    powers = torch.tensor([3**place for place in range(count)], dtype=torch.int16).reshape(1, -1, 1)
    rests = (raw.to(torch.int16).unsqueeze(1) * powers) & 0xFF
    return ((rests * 3) >> 8).reshape(len(raw), -1)


# ---- e2m1 codes ---------------------------------------------------------------------------------


def half_mxfp4_scale(raw: torch.Tensor) -> torch.Tensor:
    """Return half of 2^(byte − 127), because the table is doubled.

    Computed from bits: the two smallest are subnormal, and ggml does not read 255 as NaN.
    """
    exponent = raw[:, :1].to(torch.int32)
    return torch.where(exponent < 2, 2**21 << exponent.clamp(max=1), (exponent - 1) << 23).view(torch.float32)


def half_nvfp4_scales(raw: torch.Tensor) -> torch.Tensor:
    """Return half of each scale, because the table is doubled."""
    byte = raw[:, :4].to(torch.int32)
    exponent = (byte >> 3) & 15
    mantissa = byte & 7
    # (8 + m) · 2^(e − 10), m · 2^-9 below the normal numbers; half of it. The sign bit is ignored.
    power = ((exponent.clamp(min=1) - 11 + 127) << 23).view(torch.float32)
    scales = (mantissa + torch.where(exponent > 0, 8, 0)).float() * power
    return torch.where(byte == _E4M3_NAN, 0.0, scales)


# ---- 256 elements: a scale of scales ------------------------------------------------------------


def _q2_k(raw: torch.Tensor) -> BlockParts:
    """16 scales and 16 minima of 4 bits, with codes of 2."""
    scale = half(raw, 80) * (raw[:, :16] & 15).float()
    minimum = half(raw, 82) * (raw[:, :16] >> 4).float()
    return BlockParts(fields(raw[:, 16:80], 2, 32), scale, -minimum)


def _q3_k(raw: torch.Tensor) -> BlockParts:
    """16 scales of 6 bits; where a code's third bit is set, nothing is subtracted."""
    scales = signed(fields(raw[:, 96:104], 4, 8) | (fields(raw[:, 104:108], 2, 4) << 4), 32)
    codes = fields(raw[:, 32:96], 2, 32) | (fields(raw[:, :32], 1, 32) << 2)
    return BlockParts(_int(codes, 4), half(raw, 108) * scales)


def _q5_k(raw: torch.Tensor) -> BlockParts:
    return BlockParts(five_bits(raw[:, 48:], raw[:, 16:48], 32, 32), *scales_and_minima(raw))


def scales_and_minima(raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 8 scales, and 8 negative minima: 6 bits each in 12 bytes, behind two factors in float16.

    The first four of each fill six bits of a byte; the other four have their lower bits side by side in the
    last bytes and their upper two on top of the first ones.
    """
    first = raw[:, 4:8]
    second = raw[:, 8:12]
    third = raw[:, 12:16]
    scales = torch.cat((first & 63, (third & 15) | ((first >> 6) << 4)), dim=1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 6) << 4)), dim=1)
    return half(raw, 0) * scales.float(), -(half(raw, 2) * minima.float())


def _q6_k(raw: torch.Tensor) -> BlockParts:
    """16 scales of 8 bits."""
    codes = fields(raw[:, :128], 4, 64) | (fields(raw[:, 128:192], 2, 32) << 4)
    return BlockParts(_int(codes, 32), half(raw, 208) * raw[:, 192:208].view(torch.int8).float())


def _iq4_nl(raw: torch.Tensor) -> BlockParts:
    return BlockParts(fields(raw[:, 2:], 4, 16), half(raw, 0))


def _iq4_xs(raw: torch.Tensor) -> BlockParts:
    """8 scales of 6 bits."""
    scales = signed(fields(raw[:, 4:8], 4, 1) | (fields(raw[:, 2:4], 2, 1) << 4), 32)
    return BlockParts(fields(raw[:, 8:], 4, 16), half(raw, 0) * scales)


# ---- codes of vectors ---------------------------------------------------------------------------
# Each code is four or eight neighbours, out of a table of vectors. A block has 256 elements. IQ2 and IQ3 have
# the vector's magnitudes in the table and signs apart, a bit each, or of eight signs seven bits and their
# parity; IQ1 has −1, 0 and 1 in the table and adds ±1/8. The tables are in `gguf_vectors.bin`, where
# `tests/engines/record_gguf_vectors.py` wrote them from the package `gguf`.

#: Vectors and elements of each table, in the file's order.
TABLES = {
    "IQ2_XXS": (256, 8),
    "IQ2_XS": (512, 8),
    "IQ2_S": (1024, 8),
    "IQ3_XXS": (256, 4),
    "IQ3_S": (512, 4),
    "IQ1_S": (2048, 8),
}
TABLES_FILE = Path(__file__).parent / "gguf_vectors.bin"
_BITS = torch.arange(8, dtype=torch.uint8)
_DELTA = 0.125


@functools.cache
def table_of(name: str) -> torch.Tensor:
    start = 0
    for other, (vectors, length) in TABLES.items():
        if other == name:
            held = np.fromfile(TABLES_FILE, dtype=np.int8, count=vectors * length, offset=start)
            return torch.from_numpy(held.astype(np.float32)).reshape(vectors, length)
        start += vectors * length
    raise KeyError(name)


def iq2_xxs(raw: torch.Tensor) -> torch.Tensor:
    words = _whole(raw[:, 2:], torch.int32).reshape(len(raw), 8, 2)
    index = words[..., :1].contiguous().view(torch.uint8)
    scales = half(raw, 0) * (0.5 + _upper_four(words[..., 1])) * 0.25
    return _with_signs("IQ2_XXS", index, scales, _signs_of_words(words[..., 1]))


def iq2_xs(raw: torch.Tensor) -> torch.Tensor:
    words = _whole(raw[:, 2:66], torch.int16).to(torch.int32) & 0xFFFF
    scales = half(raw, 0) * (0.5 + fields(raw[:, 66:], 4, 1)) * 0.25
    return _with_signs("IQ2_XS", words & 511, scales, _with_parity(words >> 9))


def iq2_s(raw: torch.Tensor) -> torch.Tensor:
    index = raw[:, 2:34].to(torch.int32) | (fields(raw[:, 66:74], 2, 1).to(torch.int32) << 8)
    scales = half(raw, 0) * (0.5 + fields(raw[:, 74:], 4, 1)) * 0.25
    return _with_signs("IQ2_S", index, scales, raw[:, 34:66])


def iq3_xxs(raw: torch.Tensor) -> torch.Tensor:
    words = _whole(raw[:, 66:], torch.int32)
    scales = half(raw, 0) * (0.5 + _upper_four(words)) * 0.5
    return _with_signs("IQ3_XXS", raw[:, 2:66], scales, _signs_of_words(words))


def iq3_s(raw: torch.Tensor) -> torch.Tensor:
    index = raw[:, 2:66].to(torch.int32) | (fields(raw[:, 66:74], 1, 1).to(torch.int32) << 8)
    scales = half(raw, 0) * (1 + 2 * fields(raw[:, 106:], 4, 1))
    return _with_signs("IQ3_S", index, scales, raw[:, 74:106])


def iq1_s(raw: torch.Tensor) -> torch.Tensor:
    high = _whole(raw[:, 34:], torch.int16).to(torch.int32) & 0xFFFF
    scales = half(raw, 0) * (2 * ((high >> 12) & 7) + 1).float()
    upper = (high.unsqueeze(2) >> torch.arange(0, 12, 3, dtype=torch.int32)) & 7
    index = raw[:, 2:34].to(torch.int32) | (upper.reshape(len(raw), -1) << 8)
    delta = torch.where(high & 0x8000 == 0, _DELTA, -_DELTA)
    return _with_delta(index, scales, delta)


def iq1_m(raw: torch.Tensor) -> torch.Tensor:
    words = _whole(raw[:, 48:], torch.int16).to(torch.int32) & 0xFFFF
    # The factor's four hexadecimal digits are on top of the four words of scales.
    factor = (words[:, 0] >> 12) | ((words[:, 1] >> 12) << 4) | ((words[:, 2] >> 12) << 8)
    factor = (factor | ((words[:, 3] >> 12) << 12)).to(torch.int16).view(torch.float16).float()
    scales = (words.unsqueeze(2) >> torch.arange(0, 12, 3, dtype=torch.int32)) & 7
    scales = factor.unsqueeze(1) * (2 * scales.reshape(len(raw), -1) + 1).float()
    high = fields(raw[:, 32:48], 4, 1).to(torch.int32)
    index = raw[:, :32].to(torch.int32) | ((high & 7) << 8)
    return _with_delta(index, scales, torch.where(high & 8 == 0, _DELTA, -_DELTA))


def _with_signs(name: str, index: torch.Tensor, scales: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """A set bit stands for minus."""
    blocks = len(scales)
    vectors = table_of(name).index_select(0, index.flatten().to(torch.int32))
    values = scales.unsqueeze(2) * vectors.reshape(blocks, scales.shape[1], -1)
    minus = ((signs.reshape(blocks, -1, 1) >> _BITS) & 1).bool()
    return torch.where(minus.reshape(values.shape), -values, values).reshape(blocks, -1)


def _with_delta(index: torch.Tensor, scales: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
    """±1/8 is added to each element of a vector."""
    blocks = len(scales)
    vectors = table_of("IQ1_S").index_select(0, index.flatten()).reshape(blocks, delta.shape[1], -1)
    shifted = (vectors + delta.unsqueeze(2)).reshape(blocks, scales.shape[1], -1)
    return (scales.unsqueeze(2) * shifted).reshape(blocks, -1)


def _whole(raw: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # Always copy: the words of a single block may begin at an address that is not aligned.
    return raw.clone(memory_format=torch.contiguous_format).view(dtype)


def _upper_four(words: torch.Tensor) -> torch.Tensor:
    return ((words >> 28) & 15).float()


def _signs_of_words(words: torch.Tensor) -> torch.Tensor:
    """Return four bytes of signs of each word, whose lowest 28 bits have seven for each."""
    sevens = (words.unsqueeze(-1) >> torch.arange(0, 28, 7, dtype=torch.int32)) & 127
    return _with_parity(sevens)


def _with_parity(sevens: torch.Tensor) -> torch.Tensor:
    """The eighth bit makes the number of set bits even."""
    parity = sevens ^ (sevens >> 4)
    parity = parity ^ (parity >> 2)
    parity = (parity ^ (parity >> 1)) & 1
    return (sevens | (parity << 7)).to(torch.uint8)


# ---- the registry -------------------------------------------------------------------------------


def _plain(number: int, name: str, dtype: torch.dtype) -> BlockType:
    plain = str(dtype).removeprefix("torch.")
    return BlockType(number, name, 1, dtype.itemsize, lambda raw: raw.contiguous().view(dtype), plain)


def _scalar(
    number: int,
    name: str,
    length: int,
    size: int,
    parts: Callable[[torch.Tensor], BlockParts],
    table: tuple[float, ...] | None = None,
) -> BlockType:
    """Return a type of whole numbers, or places in a table, whose recipe has the name in lower case."""

    def decode(raw: torch.Tensor) -> torch.Tensor:
        pieces = parts(raw)
        return _times(pieces.scale, _looked_up(table, pieces.codes)) if table else values_of_parts(pieces)

    return BlockType(number, name, length, size, decode, recipe=name.lower(), parts=parts)


def _float4(
    number: int,
    name: str,
    length: int,
    size: int,
    recipe: str,
    half_scales: Callable[[torch.Tensor], torch.Tensor],
    run: int,
) -> BlockType:
    """Return a type of e2m1 codes behind scales of a byte for each `2 * run` of them.

    The values are looked up in a doubled table, and so multiplied by halves of the scales.
    """
    first = length // (2 * run)

    def parts(raw: torch.Tensor) -> BlockParts:
        return BlockParts(fields(raw[:, first:], 4, run), 2 * half_scales(raw))

    def decode(raw: torch.Tensor) -> torch.Tensor:
        return _times(half_scales(raw), _looked_up(_TWICE_E2M1, fields(raw[:, first:], 4, run)))

    return BlockType(number, name, length, size, decode, recipe=recipe, parts=parts)


#: Every type that is read, by its number in a file.
BLOCK_TYPES: Mapping[int, BlockType] = MappingProxyType(
    {
        each.id: each
        for each in (
            _plain(0, "F32", torch.float32),
            _plain(1, "F16", torch.float16),
            _scalar(
                2, "Q4_0", 32, 18, lambda raw: BlockParts(_int(fields(raw[:, 2:], 4, 16), 8), half(raw, 0))
            ),
            _scalar(
                3,
                "Q4_1",
                32,
                20,
                lambda raw: BlockParts(fields(raw[:, 4:], 4, 16), half(raw, 0), half(raw, 2)),
            ),
            _scalar(6, "Q5_0", 32, 22, _q5_0),
            _scalar(7, "Q5_1", 32, 24, _q5_1),
            _scalar(8, "Q8_0", 32, 34, lambda raw: BlockParts(raw[:, 2:].view(torch.int8), half(raw, 0))),
            _scalar(10, "Q2_K", 256, 84, _q2_k),
            _scalar(11, "Q3_K", 256, 110, _q3_k),
            _scalar(
                12,
                "Q4_K",
                256,
                144,
                lambda raw: BlockParts(fields(raw[:, 16:], 4, 32), *scales_and_minima(raw)),
            ),
            _scalar(13, "Q5_K", 256, 176, _q5_k),
            _scalar(14, "Q6_K", 256, 210, _q6_k),
            BlockType(16, "IQ2_XXS", 256, 66, iq2_xxs),
            BlockType(17, "IQ2_XS", 256, 74, iq2_xs),
            BlockType(18, "IQ3_XXS", 256, 98, iq3_xxs),
            BlockType(19, "IQ1_S", 256, 50, iq1_s),
            _scalar(20, "IQ4_NL", 32, 18, _iq4_nl, _IQ4_VALUES),
            BlockType(21, "IQ3_S", 256, 110, iq3_s),
            BlockType(22, "IQ2_S", 256, 82, iq2_s),
            _scalar(23, "IQ4_XS", 256, 136, _iq4_xs, _IQ4_VALUES),
            _plain(24, "I8", torch.int8),
            _plain(25, "I16", torch.int16),
            _plain(26, "I32", torch.int32),
            _plain(27, "I64", torch.int64),
            _plain(28, "F64", torch.float64),
            BlockType(29, "IQ1_M", 256, 56, iq1_m),
            _plain(30, "BF16", torch.bfloat16),
            _scalar(34, "TQ1_0", 256, 54, lambda raw: BlockParts(_int(tq1_0_digits(raw), 1), half(raw, 52))),
            _scalar(
                35,
                "TQ2_0",
                256,
                66,
                lambda raw: BlockParts(_int(fields(raw[:, :64], 2, 32), 1), half(raw, 64)),
            ),
            _float4(39, "MXFP4", 32, 17, "gguf_mxfp4", half_mxfp4_scale, 16),
            _float4(40, "NVFP4", 64, 36, "nvfp4_one_level", half_nvfp4_scales, 8),
            # A bit is the sign of the scale; two bits are -1, 0, 1 or 2 times the scale.
            BlockType(
                41, "Q1_0", 128, 18, lambda raw: _times(half(raw, 0), _int(2 * fields(raw[:, 2:], 1, 1), 1))
            ),
            BlockType(
                42, "Q2_0", 64, 18, lambda raw: _times(half(raw, 0), _int(fields(raw[:, 2:], 2, 1), 1))
            ),
        )
    }
)

#: Types that are not read: of intermediate products, old ones that files may still have, and bitnet.cpp's,
#: under numbers that ggml gave to forms it never put into files.
OTHER_TYPES: Mapping[int, str] = MappingProxyType(
    {
        **{4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8"},
        **{36: "I2_S", 37: "I8_S", 38: "TL1"},
    }
)
