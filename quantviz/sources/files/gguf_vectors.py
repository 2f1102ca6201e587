"""GGML's types with codes of vectors: each code is four or eight neighbours, out of a table of vectors.

A block has 256 elements. IQ2 and IQ3 have the vector's magnitudes in the table and signs apart, a bit each,
or of eight signs seven bits and their parity; IQ1 has −1, 0 and 1 in the table and adds ±1/8. The tables are
in `gguf_vectors.bin`, where `tests/engines/record_gguf_vectors.py` wrote them from the package `gguf`.

Products are rounded in the order in which `gguf.quants` takes them.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import torch

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
    """Return a table of vectors, float32 of `TABLES[name]`."""
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
    scales = _half(raw[:, :2]) * (0.5 + _upper_four(words[..., 1])) * 0.25
    return _with_signs("IQ2_XXS", index, scales, _signs_of_words(words[..., 1]))


def iq2_xs(raw: torch.Tensor) -> torch.Tensor:
    words = _whole(raw[:, 2:66], torch.int16).to(torch.int32) & 0xFFFF
    scales = _half(raw[:, :2]) * (0.5 + _nibbles(raw[:, 66:])) * 0.25
    return _with_signs("IQ2_XS", words & 511, scales, _with_parity(words >> 9))


def iq2_s(raw: torch.Tensor) -> torch.Tensor:
    index = raw[:, 2:34].to(torch.int32) | (_fields(raw[:, 66:74], 2) << 8)
    scales = _half(raw[:, :2]) * (0.5 + _nibbles(raw[:, 74:])) * 0.25
    return _with_signs("IQ2_S", index, scales, raw[:, 34:66])


def iq3_xxs(raw: torch.Tensor) -> torch.Tensor:
    words = _whole(raw[:, 66:], torch.int32)
    scales = _half(raw[:, :2]) * (0.5 + _upper_four(words)) * 0.5
    return _with_signs("IQ3_XXS", raw[:, 2:66], scales, _signs_of_words(words))


def iq3_s(raw: torch.Tensor) -> torch.Tensor:
    index = raw[:, 2:66].to(torch.int32) | (_fields(raw[:, 66:74], 1) << 8)
    scales = _half(raw[:, :2]) * (1 + 2 * _nibbles(raw[:, 106:]))
    return _with_signs("IQ3_S", index, scales, raw[:, 74:106])


def iq1_s(raw: torch.Tensor) -> torch.Tensor:
    high = _whole(raw[:, 34:], torch.int16).to(torch.int32) & 0xFFFF
    scales = _half(raw[:, :2]) * (2 * ((high >> 12) & 7) + 1).float()
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
    high = _nibbles(raw[:, 32:48]).to(torch.int32)
    index = raw[:, :32].to(torch.int32) | ((high & 7) << 8)
    return _with_delta(index, scales, torch.where(high & 8 == 0, _DELTA, -_DELTA))


def _with_signs(name: str, index: torch.Tensor, scales: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Return scales times vectors, each element with the sign whose bit is set for minus."""
    blocks = len(scales)
    vectors = table_of(name).index_select(0, index.flatten().to(torch.int32))
    values = scales.unsqueeze(2) * vectors.reshape(blocks, scales.shape[1], -1)
    minus = ((signs.reshape(blocks, -1, 1) >> _BITS) & 1).bool()
    return torch.where(minus.reshape(values.shape), -values, values).reshape(blocks, -1)


def _with_delta(index: torch.Tensor, scales: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
    """Return scales times vectors to whose elements ±1/8 was added."""
    blocks = len(scales)
    vectors = table_of("IQ1_S").index_select(0, index.flatten()).reshape(blocks, delta.shape[1], -1)
    shifted = (vectors + delta.unsqueeze(2)).reshape(blocks, scales.shape[1], -1)
    return (scales.unsqueeze(2) * shifted).reshape(blocks, -1)


def _whole(raw: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # Always copy: the words of a single block may begin at an address that is not aligned.
    return raw.clone(memory_format=torch.contiguous_format).view(dtype)


def _half(raw: torch.Tensor) -> torch.Tensor:
    return raw.contiguous().view(torch.float16).float()


def _upper_four(words: torch.Tensor) -> torch.Tensor:
    """Return the four highest bits of int32 as float32."""
    return ((words >> 28) & 15).float()


def _fields(raw: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the fields of bytes from the lowest on, neighbours, int32."""
    shifts = torch.arange(0, 8, bits, dtype=torch.int32)
    parts = (raw.to(torch.int32).unsqueeze(2) >> shifts) & ((1 << bits) - 1)
    return parts.reshape(len(raw), -1)


def _nibbles(raw: torch.Tensor) -> torch.Tensor:
    return _fields(raw, 4).float()


def _signs_of_words(words: torch.Tensor) -> torch.Tensor:
    """Return four bytes of signs of each word, whose lowest 28 bits have seven for each."""
    sevens = (words.unsqueeze(-1) >> torch.arange(0, 28, 7, dtype=torch.int32)) & 127
    return _with_parity(sevens)


def _with_parity(sevens: torch.Tensor) -> torch.Tensor:
    """Return bytes with an even number of bits out of their lowest seven."""
    parity = sevens ^ (sevens >> 4)
    parity = parity ^ (parity >> 2)
    parity = (parity ^ (parity >> 1)) & 1
    return (sevens | (parity << 7)).to(torch.uint8)
