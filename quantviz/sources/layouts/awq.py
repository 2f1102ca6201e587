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

import torch

from quantviz.errors import QuantVizError
from quantviz.sources.layouts.bit_fields import unpacked
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    along_rows,
    coded_in_groups,
    plain_scheme,
)

ID = "awq"
_A_WORD = 8
#: The place in its word of each of eight neighbours.
_PLACES = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
_PARTS = ("qweight", "scales", "qzeros")


def is_gemv_of(config: Config) -> bool:
    return config.get("quant_method") == ID and str(config.get("version")).lower() == "gemv"


def _is_awq(claim: Claim) -> bool:
    """GPTQ's tensors have the same names."""
    words, scales, zeros = (claim.shape(part) for part in _PARTS)
    return len(words) == len(scales) == len(zeros) == 2 and words[1] != scales[1]


def _gemm(claim: Claim) -> QuantizedWeight:
    words, scales, zeros = (claim.shape(part) for part in _PARTS)
    whole = scales[0] > 0 and words[0] % scales[0] == 0
    if not whole or scales[1] != words[1] * _A_WORD or zeros != (scales[0], words[1]):
        raise QuantVizError("layouts.awq", name=claim.module, words=words, scales=scales)
    group = words[0] // scales[0]

    def coded(start: int, stop: int) -> Coded:
        window = (slice(None), slice(start // _A_WORD, stop // _A_WORD))
        q, zeros = (_in_order(claim.cut(part, *window)) for part in ("qweight", "qzeros"))
        scale = claim.load("scales", slice(None), slice(start, stop)).T.contiguous()
        return coded_in_groups(q, scale, zeros, group)

    return _described(claim, (scales[1], words[0]), group, coded, row_step=_A_WORD)


def _gemv(claim: Claim) -> QuantizedWeight:
    words, scales, zeros = (claim.shape(part) for part in _PARTS)
    if not len(words) == len(scales) == len(zeros) == 2:
        raise QuantVizError("layouts.awq", name=claim.module, words=words, scales=scales)
    rows = words[0]
    columns = words[1] * _A_WORD
    group = claim.config.get("group_size")
    group = columns if group == -1 else group
    fits = scales == (rows, zeros[1] * _A_WORD) and zeros[0] == rows
    if not fits or type(group) is not int or group < 1 or columns % group or columns // group > scales[1]:
        raise QuantVizError("layouts.awq", name=claim.module, words=words, scales=scales)
    groups = columns // group

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(claim.cut("qweight", slice(start, stop)), 4, columns)
        zero = unpacked(claim.cut("qzeros", slice(start, stop)), 4, groups)
        scale = claim.load("scales", slice(start, stop), slice(0, groups))
        return coded_in_groups(q, scale, zero, group)

    return _described(claim, (rows, columns), group, coded)


def _described(
    claim: Claim, shape: tuple[int, int], group: int, coded: Callable[[int, int], Coded], row_step: int = 1
) -> QuantizedWeight:
    scheme = plain_scheme("uint4", "asymmetric", along_rows(group, shape[1]), shape)
    return claim.weight(shape, scheme, claim.dtype("scales"), coded, row_step=row_step)


def _in_order(words: torch.Tensor) -> torch.Tensor:
    """Return the codes as int32 `(rows, columns)`."""
    count = words.shape[1] * _A_WORD
    places = (torch.arange(count) // _A_WORD) * _A_WORD + _PLACES[torch.arange(count) % _A_WORD]
    return unpacked(words, 4, count)[:, places].T.contiguous()


_TENSORS = {"qweight": ("int32",), "scales": FLOATS, "qzeros": ("int32",)}
FORMS = (
    Form(_TENSORS, _gemv, when=lambda claim: is_gemv_of(claim.config)),
    Form(_TENSORS, _gemm, when=_is_awq),
)
