"""Marks of a game in the plot of bits against SQNR: the budget, par, and the tries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quantviz.analysis.recipe_ranking import RecipeRow
from quantviz.figures.numbers import number
from quantviz.figures.small_plots import note, scatter, shape
from quantviz.figures.theme import Theme, translucent
from quantviz.text import text

#: Least bits in view below and above the budget.
ROOM = (-0.6, 0.2)
#: Below par the plot ends.
HOPELESS_DB = 40.0


@dataclass(frozen=True)
class Contest:
    """A game: the least error within a budget wins."""

    #: Bits a weight.
    budget: float
    #: To be beaten.
    par_db: float
    #: In order; those beyond the budget do not count.
    tries: tuple[RecipeRow, ...] = ()
    #: Recipes without names.
    ghosts: tuple[RecipeRow, ...] = ()


@dataclass(frozen=True)
class TryPoint:
    row: RecipeRow
    y: float
    #: From 1.
    number: int
    #: Within the budget.
    counts: bool
    #: No other that counts has less error.
    best: bool


def try_points(contest: Contest, bottom: float, top: float) -> Iterator[TryPoint]:
    # Drawn from `bottom` to `top` dB.
    counting = [row for row in contest.tries if row.bits <= contest.budget]
    best = max(counting, key=lambda row: row.sqnr_db, default=None)
    for at, row in enumerate(contest.tries, 1):
        y = max(bottom, min(row.sqnr_db, top))
        yield TryPoint(row, y, at, row.bits <= contest.budget, row is best)


def ghosts_trace(places: Sequence[tuple[float, float]], theme: Theme) -> dict[str, Any]:
    # Neither names nor hover words.
    return scatter(
        "markers",
        [bits for bits, _ in places],
        [db for _, db in places],
        marker={"color": translucent(theme.muted, 0.45), "size": 9},
        hoverinfo="skip",
        cliponaxis=False,
    )


def tries_trace(tries: Sequence[TryPoint], theme: Theme, language: str) -> dict[str, Any]:
    # Filled where it counts, crossed out where it does not.
    return scatter(
        "markers+text",
        [point.row.bits for point in tries],
        [point.y for point in tries],
        marker={
            "color": [theme.values[-1] if point.counts else theme.muted for point in tries],
            "symbol": ["circle" if point.counts else "x-thin-open" for point in tries],
            "size": [12 if point.best else 9 for point in tries],
            "line": {"width": 1.5},
            "opacity": 1,
        },
        text=[f"<b>{point.number}</b>" if point.best else str(point.number) for point in tries],
        textposition="middle left",
        textfont={"size": 12, "color": theme.text},
        hovertext=[
            text(
                "recipe_plot.hover",
                language,
                name=text("recipe_plot.try", language, number=point.number),
                db=number(point.row.sqnr_db, 4),
                bits=f"{point.row.bits:.6g}",
            )
            for point in tries
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        cliponaxis=False,
    )


def contest_lines(contest: Contest, bits_range: tuple[float, float], theme: Theme) -> list[dict[str, Any]]:
    """Return shapes: the budget's line, the area beyond it, and par's line."""
    least, most = bits_range
    below = {"layer": "below"}
    tall = {"yref": "paper", **below}
    shade = translucent(theme.muted, 0.13)
    par = {"color": theme.errors[-1], "width": 1.5, "dash": "dash"}
    budget = {"color": theme.muted, "width": 1.5}
    return [
        shape("rect", (contest.budget, most), (0, 1), {"width": 0}, fillcolor=shade, **tall),
        shape("line", (contest.budget,) * 2, (0, 1), budget, **tall),
        shape("line", (least, contest.budget), (contest.par_db,) * 2, par, **below),
    ]


def contest_names(
    contest: Contest, bits_range: tuple[float, float], theme: Theme, language: str
) -> list[dict[str, Any]]:
    par = text("recipe_plot.par", language, db=f"{contest.par_db:.2f}")
    budget = text("recipe_plot.budget", language, bits=f"{contest.budget:g}")
    both = {"xref": None, "borderpad": 2}
    return [
        note(par, bits_range[0], contest.par_db, theme.text, "bottom left", yref=None, **both),
        note(budget, contest.budget, 0, theme.text, "bottom right", **both),
    ]
