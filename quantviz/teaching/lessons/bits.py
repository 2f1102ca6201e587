"""The SQNR gain of each further bit on a step's tensor."""

from __future__ import annotations

from quantviz.lab.moves import hand_choices
from quantviz.lab.state import LabState


def sqnr_of_bits(state: LabState) -> tuple[tuple[int, float], ...]:
    """Return bits and SQNR in dB under the state's scheme with each format of its family, fewest bits first.

    >>> from quantviz.lab.state import opening
    >>> found = sqnr_of_bits(opening())
    >>> [bits for bits, _ in found], found[-1][1] > found[0][1]
    ([2, 3, 4, 5, 6, 7, 8], True)
    """
    from quantviz.evaluation.metric_formulas import METRICS
    from quantviz.quantization.quantizer import quantize

    x = state.source.tensor()
    found = {
        scheme.number_format.bits: float(METRICS["sqnr_db"](quantize(x, scheme)))
        for scheme in reversed(hand_choices(state).formats.schemes)
    }
    return tuple(found.items())
