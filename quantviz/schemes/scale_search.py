"""Engines' searches of the scale and smallest value of each block, and the bits of their stored form.

A search is added here: one entry in `SEARCHES`. Its steps are in `quantviz/quantization/scale_search.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.schemes.choices import ErrorWeight, SearchMethod, ZeroDomain


@dataclass(frozen=True)
class Tries:
    """The scales to try: range / (first + step · i + largest code), for i from 0 to `count` - 1."""

    first: float
    step: float
    count: int


@dataclass(frozen=True)
class ScaleSearch:
    #: "minimum": scale and smallest value, by weighted least squares; "signed": a scale that may be negative;
    #: "descent": the same, code by code; "codebook": the same for a list of values; "block_maximum": which
    #: value of the format the largest magnitude becomes; "integer_levels": whole scales for the codes of a
    #: first level.
    method: SearchMethod
    #: Neighbouring blocks whose scales are codes of one float16 scale, or are weighed together; 0 for a row.
    run: int = 1
    #: Codes of a scale, and of a smallest value.
    code_min: int = 0
    code_max: int = 0
    code_bits: int = 0
    #: Of "minimum": the scales to try, without weights of columns and with them.
    tries: Tries = Tries(0.0, 0.0, 0)
    tries_weighted: Tries = Tries(-0.9, 0.05, 37)
    #: Of "minimum", an error's weight: |x| ("magnitude"), or the block's root mean square + |x| ("level").
    #: Of "block_maximum", the measure: the sum of "squares" or "magnitudes", or the "largest".
    weight: ErrorWeight = "level"
    #: Of "minimum": whether errors are added up as they are, or squared.
    absolute: bool = False
    #: Weighted, an error counts w · √(`level` · mean x² of the run + x²); 0 for w alone.
    level: float = 2.0
    #: Bits of the scale that the blocks of a run share.
    run_bits: int = 16
    #: Of "integer_levels": the largest code of the first level, by the meaning of the zero point.
    reaches: tuple[tuple[ZeroDomain, int], ...] = ()

    def reach(self, zero_domain: str) -> int:
        """Return the largest code of the first level.

        >>> SEARCHES["qserve"]["uint4"].reach("code_int")
        119
        """
        reaches: Mapping[str, int] = dict(self.reaches)
        return reaches[zero_domain]

    @property
    def weighs_columns(self) -> bool:
        return self.method not in ("block_maximum", "integer_levels")

    @property
    def has_minimum(self) -> bool:
        return self.method in ("minimum", "weighted_minimum", "integer_levels")

    @property
    def scale_bits(self) -> float:
        """Return the bits of one block's scale and its share of the run's, but not of a row's."""
        return self.code_bits + (self.run_bits / self.run if self.run else 0)


def _four_over_six(weight: ErrorWeight) -> Mapping[str, ScaleSearch]:
    search = ScaleSearch("block_maximum", code_bits=8, weight=weight, run_bits=0)
    return MappingProxyType({"float4_e2m1fn": search})


#: Every search by its name in a convention, one of `choices.Search`, and the id of the number format. The
#: numbers are those of `ggml-quants.c`.
SEARCHES: Mapping[str, Mapping[str, ScaleSearch]] = MappingProxyType(
    {
        # Q2_K to Q6_K: runs of 256.
        "k_quants": MappingProxyType(
            {
                "uint2": ScaleSearch(
                    "minimum",
                    16,
                    0,
                    15,
                    4,
                    Tries(-0.5, 0.1, 16),
                    weight="magnitude",
                    absolute=True,
                    level=1.0,
                ),
                "int3": ScaleSearch("descent", 16, -32, 31, 6),
                "uint4": ScaleSearch("minimum", 8, 0, 63, 6, Tries(-1.0, 0.1, 21)),
                "uint5": ScaleSearch("minimum", 8, 0, 63, 6, Tries(-0.5, 0.1, 16)),
                "int6": ScaleSearch("signed", 16, -128, 127, 8, level=0.0),
            }
        ),
        "iq4_nl": MappingProxyType({"iq4": ScaleSearch("codebook")}),
        # Four over six (arXiv 2512.02010), by each of its three errors.
        "four_over_six": _four_over_six("squares"),
        "four_over_six_mae": _four_over_six("magnitudes"),
        "four_over_six_abs_max": _four_over_six("largest"),
        # QServe (arXiv 2405.04532): the most that stays within 8 bits, as its quantizer counts it. A zero
        # point that is a value is a code of the first level.
        "qserve": MappingProxyType(
            {
                "uint4": ScaleSearch(
                    "integer_levels",
                    0,
                    1,
                    127,
                    8,
                    reaches=(("code_int", 119), ("value", 120)),
                )
            }
        ),
        # Runs of 256 again.
        "iq4_xs": MappingProxyType({"iq4": ScaleSearch("codebook", 8, -32, 31, 6)}),
    }
)

#: The searches that are made where columns have weights alone: Q4_0, Q4_1, Q5_0 and Q5_1.
WEIGHTED: Mapping[str, Mapping[str, ScaleSearch]] = MappingProxyType(
    {
        "weighted_signed": MappingProxyType(
            {fmt: ScaleSearch("weighted_signed", 0, level=1.0) for fmt in ("int4", "int5")}
        ),
        "weighted_minimum": MappingProxyType(
            {fmt: ScaleSearch("weighted_minimum", 0, level=1.0) for fmt in ("uint4", "uint5")}
        ),
    }
)
