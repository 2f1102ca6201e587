"""MLX, as mlx-lm converts models.

Source: mlx 0.32, nn/layers/quantized.py, `quantize`: every module that has `to_quantized`, which are
Linear, Embedding and the experts' SwitchLinear; mlx_lm/utils.py leaves those whose rows do not divide into
groups.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.files import SAFETENSORS_ENTRY, Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

_RECIPES = ("mlx_q4_g64", "mlx_q8_g64", "mlx_q6_g64", "mlx_q3_g64", "mlx_mxfp4", "mlx_nvfp4")

MLX = Profile(
    id="mlx",
    name="mlx",
    kinds=frozenset(("linear", "experts", "embedding", "head", "router")),
    recipes=_RECIPES,
    files=Files(
        ".safetensors",
        scales_as_weights=True,
        entry=SAFETENSORS_ENTRY,
        parts=MappingProxyType({name: Parts(3) for name in _RECIPES if "_g64" in name}),
    ),
    fallbacks=MappingProxyType(dict.fromkeys(_RECIPES, "")),
)
