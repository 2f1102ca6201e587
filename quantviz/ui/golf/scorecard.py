"""The scorecard: how each tensor of the round stands, and all of them together."""

from __future__ import annotations

import html

import streamlit as st

from quantviz.teaching.golf import HOLES, GolfRound, HoleResults, total
from quantviz.ui.golf.state import standing
from quantviz.ui.golf.words import db_words, score_words
from quantviz.ui.shell.words import plain, say


def show_round(standings: tuple[HoleResults, ...]) -> None:
    """Show the round's score in a line."""
    played = sum(each.score is not None for each in standings)
    words = (
        say("golf.round", total=score_words(total(standings)), played=played, all=len(standings))
        if played
        else say("golf.round_none")
    )
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
    rows = "".join(
        f"<tr{' class=qv-here' if at == here else ''}>{line}</tr>" for at, line in enumerate(cells)
    )
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    st.html(f'<div class="qv-steps qv-table qv-golf"><table><tr>{names}</tr>{rows}</table></div>')
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
