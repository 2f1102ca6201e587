"""The page of quantization golf: a tensor, a scheme, and the bits and SQNR of each try, and the scorecard."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number
from quantviz.lab.page_state import History
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import (
    BUDGET,
    DECIMALS,
    HOLES,
    TEE,
    GolfRound,
    Hole,
    HoleResults,
    counts,
    price,
    problems,
    recipes_within,
    total,
)
from quantviz.tensors.views import View
from quantviz.ui.components import in_room
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import Control, show_controls, show_undo
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.components.small_parts import show_button, show_page_errors, show_plot, table_html
from quantviz.ui.components.tensor_cache import facts_of, heavy_fact, kept, score_of, tensor_of
from quantviz.ui.lab.bars.scheme_bar import show_convention, show_scheme
from quantviz.ui.lab.sidebar.sidebar import show_range
from quantviz.ui.shell import address, session
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.tab import name_tab, show_sheets
from quantviz.ui.shell.words import language, plain, recipe_names, say, say_error, theme

#: In the session: the outcome of the last press of *Try it*, and the holes whose par was requested.
_OUTCOME = "golf_outcome"
_ASKED = "golf_asked"


@dataclass(frozen=True)
class TryOutcome:
    """The outcome of the last press of *Try it*."""

    #: The number of the try, from 1; None where there is none.
    number: int | None = None
    #: Whether the same try was made before.
    again: bool = False
    #: Reason why it could not be tried.
    refused: QuantVizError | None = None
    #: Whether there is a try because the button was pressed, and not from a link.
    pressed: bool = False


class _GolfOwner(PageOwner[GolfRound]):
    """The owner of the round: another round lays out its last try."""

    def read(self, params: Mapping[str, str]) -> History[GolfRound]:
        """Return the history of a link, laid out."""
        return _laid_out(super().read(params))

    def follow(self, history: History[GolfRound], params: Mapping[str, str]) -> History[GolfRound]:
        """Return the history of the browser's Back or Forward, laid out."""
        return _laid_out(super().follow(history, params))

    @property
    def can_undo(self) -> bool:
        """Return whether there is a choice since the last try to undo, or a try."""
        return session.OWNER.can_undo or super().can_undo

    @property
    def can_redo(self) -> bool:
        """Return whether there is a step that was undone, and nothing was chosen since."""
        return session.OWNER.can_redo or (super().can_redo and not session.OWNER.can_undo)

    def undo(self) -> None:
        """Undo the last choice since the last try; else the last step of the round, and lay out what was
        before it.
        """
        if session.OWNER.can_undo:
            session.OWNER.undo()
        elif self.can_undo:
            self.take(_laid_out(self.history().undo()))

    def redo(self) -> None:
        """Do the step again that was undone last, and lay it out."""
        if session.OWNER.can_redo:
            session.OWNER.redo()
        elif self.can_redo:
            self.take(_laid_out(self.history().redo()))


OWNER = _GolfOwner(GolfRound)


def settle() -> bool:
    """Compute new tries, leave out refused ones, and return whether the controls were set anew."""
    played = OWNER.state
    wrong = []
    result = outcome()
    for hole, schemes in played.tries.items():
        for at, scheme in enumerate(schemes, 1):
            try:
                score_of(HOLES[hole].source, scheme)
            except QuantVizError as problem:
                played = played.without_try(hole, scheme)
                if result.pressed:
                    result = TryOutcome(refused=problem.again())
                else:
                    wrong.append(QuantVizError("golf.link_try", number=at, hole=hole, reason=problem.again()))
    OWNER.amend(played, *wrong)
    st.session_state[_OUTCOME] = result
    if wrong:
        _laid_out(OWNER.history())
    return bool(wrong)


def outcome() -> TryOutcome:
    """Return the outcome of the last press of *Try it*."""
    return cast(TryOutcome, st.session_state.get(_OUTCOME, TryOutcome()))


# ---- results --------------------------------------------------------------------------------------


def standing(hole: str) -> HoleResults:
    """Return the standing of a hole of the round."""
    played_hole = HOLES[hole]
    recipes = heavy_fact(played_hole.source, "golf recipes", recipes_within)
    tries = OWNER.state.tries.get(hole, ())
    return HoleResults(played_hole, recipes, tuple(score_of(played_hole.source, each) for each in tries))


# ---- changes ----------------------------------------------------------------------------------------


def _laid_out(history: History[GolfRound]) -> History[GolfRound]:
    """Return a round's history, with the controls set to the last try on its hole, or to the hole's start."""
    played = history.now
    st.session_state[_OUTCOME] = TryOutcome(len(played.here) or None)
    lay_out(played.hole, played.here[-1] if played.here else TEE)
    return history


def lay_out(hole: str, scheme: Scheme) -> None:
    """Set the controls to a scheme, on the tensor of a hole."""
    source = HOLES[hole].source
    session.lay_out(LabState(source, scheme, View.of(source.shape), (0,) * len(source.shape)))


def turn_to(hole: str) -> None:
    """Play another hole."""
    if hole not in HOLES:
        return
    OWNER.put(OWNER.state.at(hole))
    _laid_out(OWNER.history())


def try_scheme() -> None:
    """Try the scheme in the controls; `settle` computes it."""
    played = OWNER.state
    scheme = session.state().scheme
    refused = next(problems(HOLES[played.hole], scheme), None)
    if refused:
        st.session_state[_OUTCOME] = TryOutcome(refused=refused)
        return
    best = {each.scheme for name in played.tries if (each := standing(name).best)}
    new = played.with_try(scheme, best)
    OWNER.put(new)
    if new != played:
        session.lay_out(session.state())  # an undo now takes the try back
    st.session_state[_OUTCOME] = TryOutcome(new.here.index(scheme) + 1, scheme in played.here, pressed=True)


def clear_tries() -> None:
    """Clear the tries on the present hole."""
    OWNER.put(OWNER.state.without_tries())
    st.session_state[_OUTCOME] = TryOutcome()


def ask_for_par() -> None:
    """Have the recipe of par shown."""
    st.session_state[_ASKED] = {*st.session_state.get(_ASKED, ()), OWNER.state.hole}


def par_is_shown(now: HoleResults) -> bool:
    """Return whether the recipe of par is shown: the player wanted to see it, or has beaten it."""
    requested = now.hole.id in st.session_state.get(_ASKED, ())
    return requested or (now.score is not None and now.score > 0)


def remember_facts(hole: Hole) -> None:
    """Remember the start of a range set by hand."""
    facts = facts_of(hole.source)
    st.session_state[session.FACTS] = {
        "lo": facts.lo,
        "hi": facts.hi,
        "scale": (facts.hi - facts.lo) / 15,
        "zero_point": 0,
    }


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
    address.turn_to("pages/lab/playground.py")


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


#: Pixels of the plot's height.
_HEIGHT = 320
#: Bars of the small histogram.
_BARS = 96


def keep_board() -> tuple[Any, Any, Any]:
    """Return the places of the tensor, the plot and the scorecard: the first two have their room before they
    are filled.
    """
    with st.container(key="golf_board"):
        tensor, plot = (st.container(key=f"golf_{part}").empty() for part in ("tensor", "plot"))
        return tensor, plot, st.container(key="golf_card")


def show_board(now: HoleResults, tensor: Any, plot: Any) -> None:
    """Show the tensor with its special features, and the plot."""
    tensor.html(_tensor(now.hole))
    with plot.container(gap=None):
        _plot(now)
        if par_is_shown(now):
            name = plain(recipe_names(now.hole.source.axes)[now.par.id])
            words = say("golf.par_is", name=name, db=db_words(now.par.sqnr_db), bits=bits_words(now.par.bits))
            st.markdown(words)
        else:
            show_button(say("golf.show_par"), "golf_show_par", ask_for_par, type="tertiary")


def _plot(now: HoleResults) -> None:
    from quantviz.figures.contest_marks import Contest
    from quantviz.figures.recipe_plot import RecipePlotStyle, recipe_plot_figure

    # Those far below the budget would leave no room for those near it.
    near = tuple(row for row in now.recipes if row.fits and row.bits > BUDGET - 1)
    named = par_is_shown(now)
    figure = recipe_plot_figure(
        near if named else (),
        style=RecipePlotStyle(language(), theme(), _HEIGHT, now.hole.source.axes),
        contest=Contest(BUDGET, now.par.sqnr_db, now.tries, () if named else near),
    )
    show_plot(figure, "golf_chart", say("golf.plot_alt"))


def _tensor(hole: Hole) -> str:
    """Return picture, values and words of a hole as HTML."""
    facts = facts_of(hole.source)
    rows, cols = hole.source.shape
    name = say(f"golf.holes.{hole.id}.name")
    picture, bars = kept(hole.source, f"golf picture {theme()}", lambda: _pictures(hole, theme()))
    ends = say("golf.values", lo=number(facts.lo, 3), hi=number(facts.hi, 3))
    alt = say("golf.picture_alt", name=name, rows=rows, cols=cols)
    return (
        f'<div class="qv-hole"><img src="{picture}" alt="{html.escape(alt)}">'
        f"<div><p>{html.escape(say(f'golf.holes.{hole.id}.about'))}</p>"
        f'<img src="{bars}" alt="">'
        f"<small>{html.escape(ends)}</small></div></div>"
    )


def _pictures(hole: Hole, theme_name: str) -> tuple[str, str]:
    """Return the tensor as the address of a picture, a pixel a value, and that of its histogram."""
    from quantviz.figures.colour_ranges import symlog, values_range
    from quantviz.figures.raster import data_uri
    from quantviz.figures.theme import THEMES, one_sided

    x = tensor_of(hole.source).numpy()
    # A few values far larger than the rest would leave the rest without colour.
    spread = symlog(x, float(np.median(np.abs(x))))
    lo, hi = values_range(spread)
    ramp = THEMES[theme_name].values
    counts, _ = np.histogram(x, bins=_BARS)
    heights = 32 * counts / counts.max()
    path = "".join(f"M{i} 32v{-height:.2f}h1v{height:.2f}z" for i, height in enumerate(heights) if height)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_BARS} 32" preserveAspectRatio="none">'
        f'<path fill="{THEMES[theme_name].accent}" d="{path}"/></svg>'
    )
    picture = data_uri(spread, lo, hi, ramp if lo < 0 < hi else one_sided(ramp))
    return picture, f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


_LAB = Path(__file__).parents[1] / "lab" / "lab.css"


def show_page() -> None:
    """Show the hole that is played, and write the address."""
    show_sheets(_LAB, Path(__file__).with_name("golf.css"))  # the scheme's controls are the Lab's
    played = OWNER.state
    hole = HOLES[played.hole]
    name_tab(say("pages.golf"), say(f"golf.holes.{hole.id}.name"))
    score = _title(played)
    wrong = st.container(key="golf_wrong")
    cost = _controls()
    # It has its room before there is something to say.
    said = st.container(key="golf_said").empty()
    tensor, plot, card = keep_board()
    warm_up()
    with cost:
        bits = price(hole, session.state().scheme)
        st.markdown(say("golf.price" if bits <= BUDGET else "golf.price_over", bits=bits_words(bits)))
    remember_facts(hole)
    with said, st.spinner(say("golf.working"), show_time=True):
        if settle():
            OWNER.show_link()
            st.rerun()
        now = standing(hole.id)
    with wrong:
        show_page_errors(*OWNER.problems)
    with said:
        st.markdown(_said(now))
    if in_room.golf_hole() == hole.id and now.tries:
        in_room.offer(round=0, vote={"answer": str((now.best or now.tries[-1]).scheme), "sure": True})
    show_board(now, tensor, plot)
    st.html("<style>.st-key-golf_more.st-key-golf_more { visibility: visible; }</style>")
    with card:
        standings = show_scorecard(played)
    with st.container(key="golf_lower"):
        show_tries(now)
    with score:
        show_round(standings)
    OWNER.show_link()


def _title(played: GolfRound) -> Any:
    """Show the round and its holes, and return the place of the round's score."""
    _, actions = show_header(say("pages.golf"), say("golf.rules", budget=f"{BUDGET:g}"))
    with actions:
        score = st.container(key="golf_round", width="content")
        if not classroom().projector:
            show_undo(OWNER)
            show_copy_link()
    names = {name: say(f"golf.holes.{name}.name") for name in HOLES}
    holes = Control("hole", "row", say("golf.tensor"), value=played.hole, choices=names, take=turn_to)
    show_controls("golf_holes", OWNER, holes, look="qv-unnamed")
    return score


def _controls() -> Any:
    """Show the controls of the scheme and the button to try it, and return the place of its cost."""
    state = session.state()
    show_scheme(state)
    with st.container(key="golf_more", horizontal=True, gap="small"):
        show_convention(state, look="qv-inside")
        show_range(state)
        with st.container(
            key="golf_try", horizontal=True, gap="small", width="content", vertical_alignment="center"
        ):
            price_place = st.container(key="golf_price", width="content")
            button = Control("try", "button", say("golf.try"), take=lambda _: try_scheme())
            show_controls("golf_try_it", OWNER, button, look="qv-primary")
    return price_place


def _said(now: HoleResults) -> str:
    result = outcome()
    if result.refused:
        return say_error(result.refused)
    if result.number is None or result.number > len(now.tries):
        return say("golf.first", par=db_words(now.par.sqnr_db), count=len(now.recipes), budget=f"{BUDGET:g}")
    row = now.tries[result.number - 1]
    gain = now.gain(row)
    if row.bits > BUDGET:
        key = "over"
    elif gain > 0:
        key = "better"
    elif gain < 0:
        key = "worse"
    else:
        key = "level"
    words = say(
        f"golf.{key}",
        number=result.number,
        db=db_words(row.sqnr_db),
        bits=bits_words(row.bits),
        gain=db_words(abs(gain)),
        budget=f"{BUDGET:g}",
    )
    return f"{say('golf.again')} {words}" if result.again else words
