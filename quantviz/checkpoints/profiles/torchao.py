"""torchao's quantize_.

Source: torchao 0.18, quantization/quant_api.py: `_is_linear`, the filter that it has unless another is
given, takes every nn.Linear, the head and routers of experts among them.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.files import SAFETENSORS_ENTRY, Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

#: `to_blocked` in prototype/mx_formats/utils.py: scales in the order in which a GPU reads them.
_TILE = (128, 4)

TORCHAO = Profile(
    id="torchao",
    name="torchao",
    kinds=frozenset(("linear", "head", "router")),
    recipes=(
        *("torchao_int8_per_row", "torchao_int4_g128", "torchao_int4_g32", "torchao_fp8_per_tensor"),
        *("torchao_fp8_per_row", "torchao_mxfp8", "torchao_mxfp4", "nvfp4"),
    ),
    files=Files(
        ".safetensors",
        entry=SAFETENSORS_ENTRY,
        # Class and fields of each tensor are in the header, as JSON.
        described=400,
        # Int8Tensor stores zero points too, which are 0; MXTensor has more fields.
        parts=MappingProxyType(
            {
                "torchao_int8_per_row": Parts(3, of_row=1),
                "nvfp4": Parts(3, scale_tile=_TILE, rows_in=16),
                **dict.fromkeys(("torchao_mxfp8", "torchao_mxfp4"), Parts(of_tensor=470, scale_tile=_TILE)),
            }
        ),
    ),
    # It skips weights whose rows do not divide into groups.
    fallbacks=MappingProxyType({"torchao_int4_g128": "", "torchao_int4_g32": ""}),
)
