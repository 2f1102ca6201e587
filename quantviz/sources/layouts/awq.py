"""AWQ's layout "gemm", as AutoAWQ writes it.

`qweight` int32 (columns, rows / 8) and `qzeros` int32 (groups, rows / 8), eight codes a word in the order
0 2 4 6 1 3 5 7; `scales` (groups, rows). A value is scale · (code − zero point).

Source: AutoAWQ, `awq/utils/packing_utils.py` and `awq/modules/linear/gemm.py` (88e4c76). Its other layouts
(gemv, gemv_fast) are not read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Granularity, PerChannel, PerGroup
from quantviz.sources.layouts.bit_fields import unpacked
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    attempted,
    bits_stored,
    plain_scheme,
    unreadable,
)

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog

ID = "awq"
#: Codes of a word.
_A_WORD = 8
#: The place in its word of each of eight neighbours.
_PLACES = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])


def find(catalog: Catalog, config: Config) -> Iterator[QuantizedWeight]:
    """Yield the weights that lie in this layout.

    Those of GPTQ, whose tensors have the same names, are told by their shapes.
    """
    names = set(catalog.names)
    for name in catalog.names:
        base, _, last = name.rpartition(".")
        parts = tuple(f"{base}.{part}" for part in ("qweight", "scales", "qzeros"))
        if last != "qweight" or not names.issuperset(parts):
            continue
        words, scales, zeros = (catalog.info(part).shape for part in parts)
        if not len(words) == len(scales) == len(zeros) == 2 or words[1] == scales[1]:
            continue
        whole = scales[0] > 0 and words[0] % scales[0] == 0
        if whole and scales[1] == words[1] * _A_WORD and zeros == (scales[0], words[1]):
            yield attempted(ID, f"{base}.weight", parts, functools.partial(_weight, catalog, base, parts))
        else:
            problem = QuantVizError("layouts.awq", name=base, words=words, scales=scales)
            yield unreadable(ID, f"{base}.weight", parts, problem)


def _weight(catalog: Catalog, base: str, parts: tuple[str, ...]) -> QuantizedWeight:
    columns = catalog.info(parts[0]).shape[0]
    groups, rows = catalog.info(parts[1]).shape
    group = columns // groups
    of_columns = torch.arange(columns) // group

    def coded(start: int, stop: int) -> Coded:
        window = (slice(None), slice(start // _A_WORD, stop // _A_WORD))
        q, zeros = (_in_order(catalog.cut(part, window)) for part in (parts[0], parts[2]))
        scale = catalog.load(parts[1], (slice(None), slice(start, stop))).T.contiguous()
        x_hat = scale[:, of_columns] * (q - zeros[:, of_columns]).float()
        return Coded(q.to(torch.uint8), x_hat, scale, zeros)

    granularity: Granularity = PerChannel(0) if groups == 1 else PerGroup(group)
    return QuantizedWeight(
        ID,
        f"{base}.weight",
        (rows, columns),
        parts,
        plain_scheme("uint4", "asymmetric", granularity, (rows, columns)),
        catalog.info(parts[1]).dtype,
        coded,
        bits_stored(catalog, parts, (rows, columns)),
        row_step=_A_WORD,
    )


def _in_order(words: torch.Tensor) -> torch.Tensor:
    """Return the codes of words of `(columns, rows / 8)` as int32 `(rows, columns)`."""
    count = words.shape[1] * _A_WORD
    places = (torch.arange(count) // _A_WORD) * _A_WORD + _PLACES[torch.arange(count) % _A_WORD]
    return unpacked(words, 4, count)[:, places].T.contiguous()
