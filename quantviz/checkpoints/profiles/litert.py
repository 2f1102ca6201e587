"""LiteRT's AI Edge Quantizer.

Source: ai-edge-quantizer 0.10, default_policy.py: the operations of weights that its recipes take are
FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D and EMBEDDING_LOOKUP, so all tables, of any size
(`min_weight_elements` is 0).
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.files import Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

LITERT = Profile(
    id="litert",
    name="litert",
    kinds=frozenset(("linear", "head", "router", "convolution", "embedding", "position", "token_type")),
    recipes=("litert_int8_per_row", "litert_int4_per_row", "litert_int4_g32", "litert_int4_g128"),
    # Zero points of rows, which are 0, have 64 bits; scales of groups are a tensor of their own.
    files=Files(
        ".tflite",
        described=44,
        parts=MappingProxyType(
            {
                **dict.fromkeys(("litert_int8_per_row", "litert_int4_per_row"), Parts(of_row=8)),
                **dict.fromkeys(("litert_int4_g32", "litert_int4_g128"), Parts(of_tensor=120)),
            }
        ),
    ),
)
