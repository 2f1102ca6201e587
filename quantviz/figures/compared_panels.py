"""One panel a scheme side by side, of x̂, its codes or the error on held colours, and the winner map."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from quantviz.figures.arrangement import SIDE_BY_SIDE
from quantviz.figures.colour_ranges import Array, Span
from quantviz.figures.panels_data import BlockMap, PanelsData, content_stamp
from quantviz.figures.printing import Style
from quantviz.figures.theme import Ramp, Theme, mixed

COMPARED_VIEWS = ("error", "x_hat", "q")
#: Schemes side by side at most.
MOST_BESIDE = 4
_WINNER = "winner"
#: Of each scheme, the faintest first. The first and the last stand twice, so that no colour between two
#: schemes' is taken; odd, as a ramp's length is.
_SHADES = 15
#: Its colour's share in a winner by nothing, and grey's in a tie.
_FAINTEST = 0.3
_GREY = 0.35
#: Leads that differ in colour: a few large ones would leave the others none.
_SPREAD = 0.95


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedPanels(PanelsData):
    """The panels of two to four schemes, called by their letters in lower case, and the winner map.

    Their common fields are the first scheme's: x, the place in the matrix, and the spread of colours.
    """

    #: One of `COMPARED_VIEWS`.
    what: str
    #: By the panel's name.
    of_schemes: Mapping[str, PanelsData]
    #: The scheme of least error, −1 at a tie, −2 where nothing is; and its lead over the next.
    winner: Array
    lead: Array
    schemes: int

    @property
    def told(self) -> dict[str, Array]:
        """Return the hover card's arrays: each scheme's values, winner and lead."""
        # Of the cells of a pixel each scheme has its largest error in another: there is no x to them.
        arrays = {} if self.pixels is not None and self.what == "error" else {"x": self.x}
        arrays |= {name: panels.panel(self.what)[0] for name, panels in self.of_schemes.items()}
        signs = np.where(self.winner < 0, self.schemes - 1 - self.winner, self.winner)
        return arrays | {_WINNER: signs.astype(np.uint8), "lead": self.lead.astype(np.float32)}

    @property
    def printed_together(self) -> tuple[tuple[str, ...], ...]:
        # Values are printed all or not at all.
        return (tuple(self.of_schemes),)

    @property
    def breakpoints(self) -> Mapping[str, int]:
        return SIDE_BY_SIDE[len(self.panels)]

    def kind(self, name: str) -> str:
        """Return one of `COMPARED_VIEWS`, or "winner"."""
        return _WINNER if name == _WINNER else self.what

    def blocks_of(self, name: str) -> BlockMap | None:
        # Each scheme's own.
        return None if name == _WINNER else self.of_schemes[name].blocks

    def panel(self, name: str) -> tuple[Array, Span]:
        if name == _WINNER:
            return winner_values(self.winner, self.lead, self.schemes)
        values, span = self.of_schemes[name].panel(self.what)
        # Codes of different formats have no common unit.
        return values, span if self.what == "q" else self._held

    @property
    def _held(self) -> Span:
        spans = [panels.panel(self.what)[1] for panels in self.of_schemes.values()]
        return min(lo for lo, _ in spans), max(hi for _, hi in spans)

    def middle(self, name: str) -> float:
        return 0.5 if name == _WINNER else super().middle(name)

    def printed(self, name: str) -> Array:
        return self.of_schemes[name].printed(self.what)

    def styles(self, name: str) -> tuple[Style, ...]:
        # All schemes' alike, as their colours.
        if name == _WINNER:
            return ()
        if self.what == "q":
            return self.of_schemes[name].styles("q")
        return self.of_schemes[min(self.of_schemes)].styles(self.what)


def compared_panels(
    of_schemes: Mapping[int, PanelsData], what: str, winner: Array, lead: Array, schemes: int
) -> ComparedPanels:
    """Return the panels of some of `schemes` compared ones, by their numbers (0 is A), and the winner map.

    `winner` and `lead` are those of `judged`, of each cell or pixel.
    """
    named = {string.ascii_lowercase[k]: panels for k, panels in of_schemes.items()}
    first = next(iter(named.values()))
    pixels = first.pixels
    if pixels is not None:
        largest_errors = pixels.how == "largest" and what == "error"
        pixels = dataclasses.replace(
            pixels,
            how="largest_error" if largest_errors else pixels.how,
            x_at=None if what == "error" else pixels.x_at,
            error_at=None,
        )
    stamps = [panels.stamp for panels in named.values()]
    common = {field.name: getattr(first, field.name) for field in dataclasses.fields(PanelsData)}
    return ComparedPanels(
        **{
            **common,
            "pixels": pixels,
            "panels": (*named, _WINNER),
            "cause": None,
            "blocks": None,
            "unscaled": None,
            "lit": None,
            "lit_share": None,
            "stamp": content_stamp((*stamps, *what.encode("ascii")), winner, lead),
        },
        what=what,
        of_schemes=MappingProxyType(named),
        winner=winner,
        lead=lead,
        schemes=schemes,
    )


def strongest_in_pixels(
    winner: Array, lead: Array, schemes: int, edges: Sequence[Array]
) -> tuple[Array, Array]:
    """Return the winner with the largest lead in each pixel, and that lead.

    A tie where none has any, nothing where no cell counts. `winner` and `lead` are of cells, (rows, columns);
    one of either stands for all. `edges` are the pixels' first rows and columns, and the end.

    >>> winner, lead = np.array([[0, 1, -1, -2]]), np.array([[0.5, 2.0, 0.0, np.nan]])
    >>> found = strongest_in_pixels(winner, lead, 2, (np.array([0, 1]), np.array([0, 2, 3, 4])))
    >>> found[0].tolist(), found[1].tolist()
    ([[1, -1, -2]], [[2.0, 0.0, nan]])
    """

    def largest(values: Array) -> Array:
        for axis, starts in enumerate(edges):
            if values.shape[axis] > 1:
                values = np.maximum.reduceat(values, starts[:-1], axis=axis)
        return values

    counted = largest((winner != -2).astype(np.int8))
    leads = np.stack([largest(np.where(winner == k, lead, 0.0)) for k in range(schemes)])
    ahead = leads.max(0)
    who = leads.argmax(0)
    of_pixels = np.where(counted == 0, -2, np.where(ahead > 0, who, -1)).astype(np.int8)
    size = tuple(len(starts) - 1 for starts in edges)
    return (
        np.broadcast_to(of_pixels, size).copy(),
        np.broadcast_to(np.where(counted == 0, np.nan, ahead), size).copy(),
    )


def winner_values(winner: Array, lead: Array, schemes: int) -> tuple[Array, Span]:
    """Return each winner's place along `winner_ramp`, float32, and the ramp's ends; nan where nothing is.

    `winner` has numbers of `schemes` schemes, −1 for a tie, −2 for nothing; `lead` has its shape.

    >>> values, span = winner_values(np.array([0, 1, -1, -2]), np.array([1.0, 0.0, 0.0, np.nan]), 2)
    >>> values.tolist(), span
    ([13.0, 16.0, 37.0, nan], (0.0, 44.0))
    """
    leads = lead[np.isfinite(lead) & (winner >= 0)]
    strongest = (float(np.quantile(leads, _SPREAD)) if leads.size else 0.0) or 1.0
    strength = np.clip(np.nan_to_num(lead, posinf=strongest) / strongest, 0, 1)
    values = winner * _SHADES + 1 + strength * (_SHADES - 3)
    values = np.where(winner == -1, schemes * _SHADES + _SHADES // 2, values)
    shades = (schemes + 1) * _SHADES
    # The last value of the ramp: the number of its colours, which is odd, less one.
    last = float(shades - shades % 2)
    return np.where(winner == -2, np.nan, values).astype(np.float32), (0.0, last)


def winner_ramp(span: Span, theme: Theme) -> Ramp:
    """Return the colours up to `span`: A's from faint to strong, B's, …, and a tie's grey."""
    schemes = int(span[1] + 1) // _SHADES - 1
    ramp: list[str] = []
    for colour in theme.schemes[:schemes]:
        for k in range(_SHADES):
            strength = (min(max(k, 1), _SHADES - 2) - 1) / (_SHADES - 3)
            ramp.append(mixed(theme.surface, colour, _FAINTEST + (1 - _FAINTEST) * strength))
    grey = mixed(theme.surface, theme.muted, _GREY)
    return tuple(ramp + [grey] * (int(span[1]) + 1 - len(ramp)))


def winner_ticks(span: Span) -> dict[float, str]:
    """Return the places of each scheme's letter along the ramp, and of a tie's sign.

    >>> winner_ticks((0.0, 44.0))
    {7.0: 'A', 22.0: 'B', 37.0: '='}
    """
    schemes = int(span[1] + 1) // _SHADES - 1
    signs = (*string.ascii_uppercase[:schemes], "=")
    return {float(k * _SHADES + _SHADES // 2): sign for k, sign in enumerate(signs)}
