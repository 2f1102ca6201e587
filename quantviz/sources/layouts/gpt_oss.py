"""gpt-oss' layout of MXFP4: experts in one tensor, codes by groups.

`X_blocks` uint8 (experts, rows, groups, 16), two codes a byte with the first in the low bits, and `X_scales`
uint8 (experts, rows, groups), exponents plus 127. OpenAI's own files write `X.blocks` and `X.scales`.
transformers calls the decoded tensor X and turns its last two axes.

Source: transformers 5.24, `integrations/mxfp4.py` (`_convert_moe_packed_tensors`).
"""

from __future__ import annotations

import functools

from quantviz.sources.layouts.forms import ANY, Form
from quantviz.sources.layouts.four_bit_floats import four_bit_floats


def _form(codes: str, scales: str, weight: str) -> Form:
    read = functools.partial(four_bit_floats, codes=codes, scales=scales)
    return Form({codes: ("uint8",), scales: ("uint8",)}, read, axes=3, weight=weight)


FORMS = (_form(f"{ANY}_blocks", f"{ANY}_scales", ANY), _form("blocks", "scales", ""))
