"""Recipes: schemes with a name, to set everything at once.

A recipe is added here: one entry in `RECIPES` and its words in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quantviz.granularity import PerChannel, PerGroup, PerTensor
from quantviz.scheme import Scheme

#: Every recipe by id: weights as they are usually quantized, symmetric, by the source notebooks' arithmetic.
RECIPES: Mapping[str, Scheme] = MappingProxyType(
    {
        f"{format_id}_{name}": Scheme(format_id, "symmetric", granularity)
        for format_id in ("int8", "int4")
        for name, granularity in (
            ("per_tensor", PerTensor()),
            ("per_row", PerChannel(axis=0)),
            ("g32", PerGroup(32)),
            ("g128", PerGroup(128)),
        )
    }
)
