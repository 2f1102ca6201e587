"""The answers of a class on the wall: bars, dots on an axis, cells as heat, and a board."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.raster import data_uri
from quantviz.figures.theme import THEMES
from quantviz.lab.state import LabState
from quantviz.rooms.room import FEWEST, Answer
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import HOLES, counts, problems
from quantviz.teaching.lessons.drags import dragged
from quantviz.teaching.lessons.formulas import Scene, quantities
from quantviz.ui.components.class_wall import Running, put_on_ruler, ruler_votes
from quantviz.ui.components.hand import show_ruler
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.components.tensor_cache import score_of
from quantviz.ui.shell.classroom import LEAST_DIGIT, enlarge_ruler
from quantviz.ui.shell.words import say, theme

#: The rows of a board, and the tries of a hole that are scored: those that most have made.
_BOARD = 5
_MOST_SCORED = 40
#: Shares of the answers, by their size, between which they are usual: all of fewer than 40.
_USUAL = (0.025, 0.975)


def show_strip(now: Running) -> None:
    """Show the answers to a question of the lecturer's own, or the tries of a hole, along the bottom."""
    with st.container(key="class_votes"):
        kind = now.room.asked[now.room.stop].kind
        st.html(Path(__file__).with_name("class_votes.css"))
        if kind == "choice" or (kind == "number" and now.rows):
            st.html(Path(__file__).with_name("class_strip.css"))
        match kind:
            case "choice":
                options = enumerate(now.stop.options)
                show_bars([(f"{chr(65 + at)} · {text}", False) for at, text in options], now)
            case "number":
                show_places(now, {row[0]: float(cast(float, row[0])) for row in now.rows + now.before})
            case "scheme":
                st.html(Path(__file__).with_name("class_board.css"))
                show_board(now, _scored(now))
            case "drag":
                # Where everybody dragged the upper end of the range of the Lab's tensor.
                start, _ = LabState.read(now.stop.address[1])
                put_on_ruler(dragged_places(now, start, quantities()["range_hi"]), "axis")
                show_few(now)


def dragged_places(now: Running, start: LabState, place: Callable[[Scene], float]) -> dict[Answer, float]:
    """Return the place of each answer that was dragged from a state, by a quantity of the state reached."""
    found = {}
    for answer in {row[0] for row in now.rows + now.before}:
        # A forged text that is none, or a state without the quantity, has no place.
        with contextlib.suppress(QuantVizError, ValueError):
            found[answer] = float(place(Scene(dragged(start, str(answer)).replace(cell=start.cell))))
    return found


def _scored(now: Running) -> Mapping[Answer, str]:
    """Return the tries of a hole that count in words, the best first."""
    hole = HOLES[now.stop.at]
    tries = []
    most = sorted(now.rows, key=lambda row: -row[1] - row[2])[:_MOST_SCORED]
    for answer, _, _ in most:
        with contextlib.suppress(QuantVizError):
            scheme = Scheme.parse(str(answer))
            if not list(problems(hole, scheme)) and counts(row := score_of(hole.source, scheme)):
                tries.append((row.sqnr_db, row.bits, answer, scheme_words(scheme, hole.source)))
    ranked = sorted(tries, reverse=True, key=lambda each: each[:2])
    return {answer: f"{sqnr:.2f} dB · {bits:.2f} bit · {words}" for sqnr, bits, answer, words in ranked}


def show_few(now: Running) -> None:
    """Say that there are too few answers for counts, where that is so."""
    if now.few:
        words = say("teacher.desk.few", answered=now.rounds[-1].answered, fewest=FEWEST)
        st.html(f'<p class="qv-mistake">{html.escape(words)}</p>')


def show_bars(names: Iterable[tuple[str, bool]], now: Running) -> None:
    """Show each option as a bar: full for those who were sure, hatched for guesses, the first round as an
    outline; the right ones are marked.
    """
    bars = list(names)
    rows, before = ({answer: each for answer, *each in part} for part in (now.rows, now.before))
    total = max(sum(map(sum, rows.values())), 1)
    first = max(sum(map(sum, before.values())), 1)
    parts = []
    for at, (name, right) in enumerate(bars):
        sure, guessed = rows.get(at, (0, 0))
        widths = f"--sure: {100 * sure / total:.1f}%; --guessed: {100 * guessed / total:.1f}%"
        outline = f'<em style="width: {100 * sum(before[at]) / first:.1f}%"></em>' if at in before else ""
        count = f"<strong>{sure + guessed}</strong>" if rows else ""
        mark = " ✓" if right else ""
        words = f"<p><b>{html.escape(name[0])}</b>{html.escape(name[1:])}{mark} {count}</p>"
        looks = f'class="qv-bar{" qv-right" if right else ""}" style="{widths}"'
        parts.append(f"<div {looks}><span></span><i></i>{outline}{words}</div>")
    st.html(f'<div class="qv-votes" style="--bars: {len(bars)}">{"".join(parts)}</div>')
    show_few(now)


def show_board(now: Running, names: Mapping[Any, str]) -> None:
    """Show the first of some answers by their words, with how many gave each."""
    given = {answer: sure + guessed for answer, sure, guessed in now.rows}
    lines = (f"<li><b>{given[each]} ×</b> {html.escape(words)}</li>" for each, words in names.items())
    if names:
        st.html(f'<ol class="qv-board">{"".join(islice(lines, _BOARD))}</ol>')
    show_few(now)


def show_places(
    now: Running,
    at: Mapping[Answer, float],
    truth: float | None = None,
    mistakes: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Show answers as dots on an axis by their places there, with the true one and those of `mistakes`."""
    from quantviz.figures.ruler_data import bare_axis

    votes = ruler_votes(now, at, "axis", truth, mistakes)
    if votes:
        places = np.repeat([dot[0] for dot in votes["dots"]], [dot[1] + dot[2] for dot in votes["dots"]])
        # In a large class one far answer, typed for fun, stands at the axis' end and leaves the others apart.
        usual = np.quantile(places, _USUAL, method="inverted_cdf")
        shown = [*usual, *(place for _, place in votes["lines"])]
        show_ruler(
            bare_axis(min(shown), max(shown)),
            key="class_ruler",
            label=say("teacher.votes_alt"),
            larger=enlarge_ruler(LEAST_DIGIT),
            votes=votes,
        )
    show_few(now)


def show_cells(now: Running, shape: tuple[int, int], right: Sequence[tuple[int, int]]) -> None:
    """Show the cells of a matrix that were clicked as heat, with the right ones framed."""
    counts = np.zeros(shape, np.int64)
    for answer, sure, guessed in now.rows:
        cell = cast("tuple[int, ...]", answer)
        if len(cell) == 2 and cell[0] < shape[0] and cell[1] < shape[1]:
            counts[cell] += sure + guessed
    if counts.any():
        colours = THEMES[theme()]
        heat = data_uri(counts, 0, int(counts.max()), (colours.surface, colours.accent))
        frames = "".join(f'<i style="--row: {row}; --col: {col}"></i>' for row, col in right)
        alt = html.escape(say("teacher.votes_alt"))
        size = f"--rows: {shape[0]}; --cols: {shape[1]}"
        st.html(f'<div class="qv-clicked" style="{size}"><img alt="{alt}" src="{heat}">{frames}</div>')
    show_few(now)
