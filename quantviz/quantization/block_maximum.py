"""The search of "four over six": whether a block's largest magnitude becomes the format's largest value, or
two thirds of it.

The steps of the two candidates, and their errors, are those of the authors' reference in torch (float32; a
block's sixteen elements are summed as torch sums them), arXiv 2512.02010.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from quantviz.quantization.grids import nearest
from quantviz.quantization.operations import NamedTensors, run_operations
from quantviz.quantization.result import QParams
from quantviz.quantization.stored_scale import levels_of_absmax, round_to_format, scale_reach
from quantviz.schemes.calibration import BlockValues, Context
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.scale_search import SEARCHES

#: Factors on a block's scale, in the order of trying: with 1.0 its largest magnitude becomes the format's
#: largest value, with 1.5 two thirds of that. The first one wins if both have the same error.
FACTORS = (1.0, 1.5)
_ERRORS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = MappingProxyType(
    {
        "squares": lambda error: (error**2).sum(-1),
        "magnitudes": lambda error: error.abs().sum(-1),
        "largest": lambda error: error.abs().amax(-1),
    }
)


def block_maximum(blocks: BlockValues, context: Context) -> QParams:
    """Return scale and zero point of each block: of the two candidate scales the one with the smaller
    error.
    """
    convention = context.convention
    fmt = context.format
    assert convention.search is not None
    assert convention.scale.format is not None
    search = SEARCHES[convention.search][fmt.id]
    scale_format = FORMATS[convention.scale.format]
    x = blocks.runs(1)[:, 0].T.contiguous()
    absmax = context.absmax()
    reach = scale_reach(convention, fmt)
    unit = x.abs().amax(-1) / fmt.value_max * (torch.full_like(absmax, reach) / absmax)
    unit = torch.where(absmax == 0, 0, unit)
    levels = levels_of_absmax(reach)
    tried: list[tuple[torch.Tensor, NamedTensors]] = []
    for factor in FACTORS:
        code = round_to_format(unit * factor, scale_format)
        values = run_operations(levels, {"scale_code": code, "global_absmax": absmax.expand(code.shape)})
        y = torch.where(code[:, None] == 0, 0, x * values["inverse"][:, None])
        x_hat = nearest(y, fmt, "even") * code[:, None] * absmax / reach
        tried.append((_ERRORS[search.weight](x_hat - x), values))
    (narrow_error, narrow), (wide_error, wide) = tried
    better = wide_error < narrow_error

    def chosen(name: str) -> torch.Tensor:
        return blocks.of_runs(torch.where(better, wide[name], narrow[name])[None])

    scale = chosen("scale")
    return QParams(
        scale,
        torch.zeros(scale.shape, dtype=torch.int32),
        scale_codes=chosen("scale_code"),
        global_scale=chosen("global_scale"),
        zero_domain="none",
        others=MappingProxyType({name: chosen(name) for name in ("global_absmax", "inverse", "scale_code")}),
        stored=True,
    )
