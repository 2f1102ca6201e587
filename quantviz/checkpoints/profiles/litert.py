"""LiteRT's AI Edge Quantizer.

Source: ai-edge-quantizer 0.10, default_policy.py: the operations of weights that its recipes take are
FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D and EMBEDDING_LOOKUP, of any size (`min_weight_elements` is 0).
"""

from __future__ import annotations

from quantviz.checkpoints.profiles.profile import Profile

LITERT = Profile(
    id="litert",
    name="litert",
    kinds=frozenset(("linear", "head", "router", "convolution", "embedding")),
    recipes=("litert_int8_per_row", "litert_int4_per_row", "litert_int4_g32", "litert_int4_g128"),
)
