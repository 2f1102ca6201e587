"""The results: the scorecard of the round, the tries on the hole, and their numbers in words."""

from __future__ import annotations

import html

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import DECIMALS, HOLES, GolfRound, HoleResults, counts, total
from quantviz.tensors.views import View
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.components.small_parts import show_button, table_html
from quantviz.ui.golf.state import clear_tries, lay_out, standing
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.words import plain, say


def show_round(standings: tuple[HoleResults, ...]) -> None:
    """Show the round's score in a line."""
    played = sum(each.score is not None for each in standings)
    words = say("golf.round_none")
    if played:
        words = say("golf.round", total=score_words(total(standings)), played=played, all=len(standings))
    st.markdown(f"**{plain(words)}**")


def show_scorecard(played: GolfRound) -> tuple[HoleResults, ...]:
    """Show a line for each tensor, and return how they stand."""
    standings = tuple(standing(hole) for hole in HOLES)
    st.markdown(f"## {say('golf.card')}")
    head = (say("golf.tensor"), say("golf.par"), say("golf.yours"), say("golf.against"))
    lines = [_line(each) for each in standings]
    scored = any(each.score is not None for each in standings)
    lines.append((say("golf.total"), "", "", score_words(total(standings)) if scored else "–"))
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in lines]
    here = list(HOLES).index(played.hole)
    rows = (f"<tr{' class=qv-here' if at == here else ''}>{line}</tr>" for at, line in enumerate(cells))
    st.html(f'<div class="qv-steps qv-table qv-golf">{table_html(head, rows)}</div>')
    st.caption(say("golf.share"))
    return standings


def _line(each: HoleResults) -> tuple[str, ...]:
    best = each.best
    score = each.score
    return (
        say(f"golf.holes.{each.hole.id}.name"),
        db_words(each.par.sqnr_db),
        db_words(best.sqnr_db) if best else "–",
        score_words(score) if score is not None else "–",
    )


def show_tries(now: HoleResults) -> None:
    """Show each try with its numbers, and the ways to set it again and to open it in the Lab."""
    st.markdown(f"## {say('golf.tries')}")
    if not now.tries:
        st.caption(say("golf.no_tries"))
        return
    with st.container(key="golf_tries", gap=None):
        for at in reversed(range(len(now.tries))):
            _try(now, at)
    show_button(say("golf.clear"), "golf_clear", clear_tries, type="tertiary", help=say("golf.clear_help"))


def _try(now: HoleResults, at: int) -> None:
    row = now.tries[at]
    against = score_words(now.gain(row)) if counts(row) else say("golf.over_short")
    numbers = plain(f"{bits_words(row.bits)} · {db_words(row.sqnr_db)} dB · {against}")
    mark = " ★" if row is now.best else ""
    with st.container(
        key=f"golf_row_{at}", horizontal=True, gap="small", vertical_alignment="center", wrap=False
    ):
        st.markdown(
            f"**{at + 1}{mark}** · **{numbers}** · {plain(scheme_words(row.scheme, now.hole.source))}",
            width="stretch",
        )
        show_button(
            say("golf.use"), f"golf_use_{at}", lay_out, now.hole.id, row.scheme, help=say("golf.use_help")
        )
        show_button(say("golf.open_in_lab"), f"golf_lab_{at}", _open_in_lab, now, row.scheme)


def _open_in_lab(now: HoleResults, scheme: Scheme) -> None:
    shape = now.hole.source.shape
    session.put_in_lab(LabState(now.hole.source, scheme, View.of(shape), (0,) * len(shape)))
    turn_to("pages/lab/playground.py")


def bits_words(bits: float) -> str:
    """Return the bits a weight as text, with enough digits to show an excess over the budget.

    >>> bits_words(4.5), bits_words(4.50048828125)
    ('4.5', '4.5005')
    """
    return f"{bits:.4f}".rstrip("0").rstrip(".")


def db_words(db: float) -> str:
    """Return an SQNR in dB.

    >>> db_words(21.3)
    '21.30'
    """
    return f"{db:.{DECIMALS}f}"


def score_words(gain: float) -> str:
    """Return the score of a try that is better than par by `gain` dB: as in golf, less is better.

    >>> score_words(0.5), score_words(-1.25), score_words(0.0)
    ('−0.50', '+1.25', '0.00')
    """
    return f"{-gain:+.{DECIMALS}f}".replace("-", "−") if gain else f"{0:.{DECIMALS}f}"
