"""Scales of two levels of integers: of each row a float16 for the codes of a first level, of each block whole
numbers for the codes of the second.

These are the steps of QServe's quantizer (deepcompressor, round to nearest), arXiv 2405.04532. The first
level's codes are not rounded; their largest magnitude leaves room for the rounding of the second level.
"""

from __future__ import annotations

from types import MappingProxyType

import torch

from quantviz.quantization.result import QParams
from quantviz.schemes.calibration import BlockValues, Context
from quantviz.schemes.scale_search import SEARCHES


def integer_levels(blocks: BlockValues, context: Context) -> QParams:
    convention = context.convention
    fmt = context.format
    assert convention.search is not None
    search = SEARCHES[convention.search][fmt.id]
    is_value = convention.zero_domain == "value"
    reach = search.reach(convention.zero_domain)
    x = blocks.runs(search.run)
    run = (x.abs().amax((0, 1)) / reach).to(torch.float16).to(torch.float32)
    run = torch.where(run == 0, 1, run)
    first = (x / run).clamp(-reach, reach)
    low = first.amin(0)
    high = first.amax(0)
    if not is_value:
        low = low.clamp(max=0)
        high = high.clamp(min=0)
    code = torch.round((high - low) / fmt.code_max).clamp(max=search.code_max)
    code = torch.where(code == 0, 1, code)
    # The zero point is a code of the second level, or one of the first.
    zero = (
        torch.round(-low).clamp(-search.code_max - 1, search.code_max)
        if is_value
        else torch.round(-low / code)
    )
    runs = run.expand(code.shape)
    scale_code, global_scale, own_zero = (blocks.of_runs(each) for each in (code, runs, zero))
    levels = {"global_scale": global_scale, "scale_code": scale_code}
    if is_value:
        levels["zero_point_code"] = own_zero
    return QParams(
        global_scale * scale_code,
        -global_scale * own_zero if is_value else own_zero.clamp(0, fmt.code_max).to(torch.int32),
        scale_codes=scale_code.to(torch.int8),
        global_scale=global_scale,
        zero_domain=convention.zero_domain,
        others=MappingProxyType(levels),
        stored=True,
        zero_point_codes=own_zero.to(torch.int16) if is_value else None,
        global_zero_point=-global_scale if is_value else None,
    )
