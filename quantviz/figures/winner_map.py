"""Which of several schemes has the smaller error where, as the values and colours of one panel."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.figures.colour_ranges import Span
from quantviz.figures.theme import Ramp, Theme, mixed

Array = npt.NDArray[Any]

#: Colours that each scheme has, the faintest for a lead of nothing. The first and the last stand twice, so
#: that a colour between two schemes' is never taken; odd, as a ramp's length is.
_SHADES = 15
#: How much of its colour a winner by nothing has, and how much grey a tie.
_FAINTEST = 0.3
_GREY = 0.35
#: The share of the leads that differ in colour: a few large ones would leave the others none.
_SPREAD = 0.95


def winner_values(winner: Array, lead: Array, schemes: int) -> tuple[Array, Span]:
    """Return where each winner stands along the ramp of `winner_ramp`, float32, and the ramp's ends; nan
    where nothing is.

    Args:
        winner: The number of the scheme of least error, −1 where several are equally good, −2 where nothing
            is.
        lead: By how much it is ahead of the next, of the same shape.
        schemes: How many there are.

    >>> values, span = winner_values(np.array([0, 1, -1, -2]), np.array([1.0, 0.0, 0.0, np.nan]), 2)
    >>> values.tolist(), span
    ([13.0, 16.0, 37.0, nan], (0.0, 44.0))
    """
    leads = lead[np.isfinite(lead) & (winner >= 0)]
    strongest = (float(np.quantile(leads, _SPREAD)) if leads.size else 0.0) or 1.0
    strength = np.clip(np.nan_to_num(lead, posinf=strongest) / strongest, 0, 1)
    values = winner * _SHADES + 1 + strength * (_SHADES - 3)
    values = np.where(winner == -1, schemes * _SHADES + _SHADES // 2, values)
    return np.where(winner == -2, np.nan, values).astype(np.float32), (0.0, float(_ends(schemes)))


def _ends(schemes: int) -> int:
    """Return the last value of the ramp: the number of its colours, which is odd, less one."""
    shades = (schemes + 1) * _SHADES
    return shades - shades % 2


def winner_ramp(span: Span, theme: Theme) -> Ramp:
    """Return the colours of a map that ends at `span`: A's from faint to strong, B's, …, and a tie's grey."""
    schemes = int(span[1] + 1) // _SHADES - 1
    ramp: list[str] = []
    for colour in theme.schemes[:schemes]:
        for k in range(_SHADES):
            strength = (min(max(k, 1), _SHADES - 2) - 1) / (_SHADES - 3)
            ramp.append(mixed(theme.surface, colour, _FAINTEST + (1 - _FAINTEST) * strength))
    grey = mixed(theme.surface, theme.muted, _GREY)
    return tuple(ramp + [grey] * (int(span[1]) + 1 - len(ramp)))


def winner_ticks(span: Span) -> dict[float, str]:
    """Return where along the ramp each scheme's letter stands, and the sign of a tie.

    >>> winner_ticks((0.0, 44.0))
    {7.0: 'A', 22.0: 'B', 37.0: '='}
    """
    schemes = int(span[1] + 1) // _SHADES - 1
    signs = (*string.ascii_uppercase[:schemes], "=")
    return {float(k * _SHADES + _SHADES // 2): sign for k, sign in enumerate(signs)}
