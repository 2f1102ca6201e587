"""The bug gallery page: one tensor through a correct and a broken program, and "spot the bug".

Its state is one frozen value in the session under `gallery_state`, as the Lab's is under its own.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import arrange, arrangement_name
from quantviz.sources.random import LARGEST_SEED
from quantviz.ui.components.choice import choose
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.language_switch import show_language
from quantviz.ui.components.panels import show_panels
from quantviz.ui.components.panels_bridge import bridge_width, clicked_cell
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import enlarge, parameters
from quantviz.ui.shell.startup import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, plain, say, say_error

if TYPE_CHECKING:
    import torch

    from quantviz.figures.panels_data import PanelsData
    from quantviz.teaching.gallery import Bug, Case, Line, Outcome

_STATE, _PROBLEMS = "gallery_state", "gallery_problems"
_MODES = ("compare", "spot")
#: The two rows, as their charts and bridges are called.
_ROWS = ("correct", "broken")
#: A row's height for a laptop, of which two are to be seen at once; a wider page is also higher.
_LEAST_HEIGHT, _MOST_HEIGHT, _HEIGHT_OF_WIDTH = 184.0, 330.0, 0.172
_SIGNS: Mapping[str, str] = MappingProxyType({"correct": "✓", "broken": "✗"})


@dataclass(frozen=True)
class GalleryState:
    """What is shown; an empty id is the first one there is."""

    bug: str = ""
    case: str = ""
    #: The seed of a random tensor; none for the case's own.
    seed: int | None = None
    #: Row and column of the cell looked at; none for the one where the results lie farthest apart.
    cell: tuple[int, int] | None = None
    spotting: bool = False
    #: The puzzle's number, from 1.
    puzzle: int = 1
    #: The lines pointed at in each puzzle, by number, the last one last.
    tries: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class Shown:
    """A bug on a tensor, both ways."""

    bug: Bug
    case: Case
    correct: Outcome
    broken: Outcome
    #: The cells that differ, as (rows, columns).
    lit: torch.Tensor
    #: The cell looked at.
    cell: tuple[int, int]

    @property
    def place(self) -> tuple[int, ...]:
        """Return the cell's place in the tensor."""
        return self.cell if self.correct.x.dim() > 1 else self.cell[1:]


# ---- state and address --------------------------------------------------------------------------


def _state() -> GalleryState:
    if _STATE not in st.session_state:
        st.session_state[_STATE], st.session_state[_PROBLEMS] = _opening()
    return cast(GalleryState, st.session_state[_STATE])


def _opening() -> tuple[GalleryState, tuple[QuantVizError, ...]]:
    """What the address asks for, and what of it could not be had."""
    from quantviz.teaching.gallery import find_bug, puzzle

    asked, problems = st.query_params, []
    state = GalleryState()
    try:
        if "spot" in asked:
            known = asked["spot"].isascii() and asked["spot"].isdigit() and len(asked["spot"]) < 6
            state = GalleryState(spotting=True)
            puzzle(int(asked["spot"]) if known else 0)
            return GalleryState(spotting=True, puzzle=int(asked["spot"])), ()
        if "bug" in asked:
            state = GalleryState(find_bug(asked["bug"]).id)
            if "case" in asked:
                state = dataclasses.replace(state, case=find_bug(state.bug).case(asked["case"]).id)
            if "seed" in asked:
                state = dataclasses.replace(state, seed=_seed(asked["seed"]))
    except QuantVizError as problem:
        problems.append(problem)
    return state, tuple(problems)


def _seed(asked: str) -> int:
    if not (asked.isascii() and asked.isdigit() and len(asked) < 12 and int(asked) <= LARGEST_SEED):
        raise QuantVizError("bugs.bad_seed", got=asked, most=LARGEST_SEED)
    return int(asked)


def _change(**changes: Any) -> None:
    st.session_state[_STATE] = dataclasses.replace(_state(), **changes)
    st.session_state[_PROBLEMS] = ()


def show_link() -> None:
    """Write the address: the bug and its tensor, or a puzzle's number, which does not tell the bug."""
    state, wanted = _state(), {"lang": language(), **parameters()}
    if state.spotting:
        wanted = {"spot": str(state.puzzle), **wanted}
    else:
        bug = _bug(state)
        case = _case(state, bug)
        named = {"case": case.id} if case is not bug.cases[0] else {}
        seeded = (
            {} if state.seed is None or _own_seed(case) in (None, state.seed) else {"seed": str(state.seed)}
        )
        wanted = {"bug": bug.id, **named, **seeded, **wanted}
    session.put_address(wanted)


def _bug(state: GalleryState) -> Bug:
    from quantviz.teaching.gallery import BUGS, puzzle

    if state.spotting:
        return puzzle(state.puzzle)
    return BUGS[state.bug] if state.bug else next(iter(BUGS.values()))


def _case(state: GalleryState, bug: Bug) -> Case:
    return bug.case(state.case) if state.case and not state.spotting else bug.cases[0]


def _own_seed(case: Case) -> int | None:
    return getattr(case.source, "seed", None)


# ---- controls -----------------------------------------------------------------------------------


def show_controls() -> GalleryState:
    """Title and choices."""
    with st.sidebar:
        show_language()
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        # Torch comes in only after this is painted.
        hint = st.markdown(f"# {say('bugs.page.title')}", width="stretch")
        actions = st.container(
            key="actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        )
    warm_up()
    from quantviz.teaching.gallery import BUGS

    state = _state()
    # A puzzle does not tell which bug it is.
    name_tab(
        say("pages.bugs"), say("bugs.page.spot") if state.spotting else say(f"bugs.{_bug(state).id}.name")
    )
    words = say("bugs.page.hint_spot", all=len(BUGS)) if state.spotting else say("bugs.page.hint")
    hint.markdown(f"# {say('bugs.page.title')}\n\n{plain(words)}", width="stretch")
    with actions:
        choose(
            st.segmented_control,
            say("bugs.page.mode"),
            _MODES,
            key=_showing("gallery_mode", _MODES[state.spotting]),
            required=True,
            on_change=session.safely(
                lambda: _change(spotting=st.session_state["gallery_mode"] == "spot", cell=None)
            ),
            format_func=lambda name: say("bugs.page.spot") if name == "spot" else say("bugs.page.compare"),
            label_visibility="collapsed",
        )
        copy_button(
            "copy_link", say("lab.copy_link"), say("lab.copied"), explanation=say("lab.copy_link_help")
        )
    for problem in cast(tuple[QuantVizError, ...], st.session_state.get(_PROBLEMS, ())):
        st.warning(say_error(problem))
    return state


def _showing(key: str, value: object) -> str:
    """Let the widget `key` show `value`: told at each run, for it would keep a label of another language."""
    st.session_state[key] = value
    return key


def _choices(state: GalleryState, bug: Bug, case: Case) -> None:
    """The bug, the tensor, its seed."""
    from quantviz.teaching.gallery import BUGS

    with st.container(key="gallery_choices", horizontal=True, gap="small", vertical_alignment="center"):
        choose(
            st.selectbox,
            say("bugs.page.bug"),
            tuple(BUGS),
            key=_showing("gallery_bug", bug.id),
            on_change=session.safely(
                lambda: _change(bug=st.session_state["gallery_bug"], case="", seed=None, cell=None)
            ),
            format_func=lambda name: f"{tuple(BUGS).index(name) + 1} · {say(f'bugs.{name}.name')}",
            label_visibility="collapsed",
        )
        cases = tuple(each.id for each in bug.cases)
        choose(
            st.segmented_control,
            say("bugs.page.tensor"),
            cases,
            # Its own key for each bug: the cases have other names.
            key=_showing(f"gallery_case_{bug.id}", case.id),
            required=True,
            on_change=session.safely(
                lambda: _change(case=st.session_state[f"gallery_case_{bug.id}"], seed=None, cell=None)
            ),
            format_func=lambda name: _case_name(bug, name),
            label_visibility="collapsed",
            width="content",
        )
        own = _own_seed(case)
        if own is not None:
            st.markdown(say("bugs.page.seed"), width="content")
            st.number_input(
                say("bugs.page.seed"),
                0,
                LARGEST_SEED,
                key=_showing("gallery_seed", own if state.seed is None else state.seed),
                step=1,
                on_change=session.safely(
                    lambda: _change(seed=int(st.session_state["gallery_seed"]), cell=None)
                ),
                label_visibility="collapsed",
                width=130,
            )


def _case_name(bug: Bug, name: str) -> str:
    return say("bugs.page.random") if name == "random" else say(f"bugs.{bug.id}.cases.{name}")


# ---- computing ----------------------------------------------------------------------------------


def _run(state: GalleryState) -> Shown:
    from quantviz.teaching.gallery import differing, run_bug

    bug = _bug(state)
    case = _case(state, bug)
    source = case.source
    if _own_seed(case) is not None and state.seed is not None and not state.spotting:
        source = dataclasses.replace(cast(Any, source), seed=state.seed)
    x = source.tensor()
    correct, broken = (run_bug(bug, x, broken, case) for broken in (False, True))
    lit = _matrix(differing(correct, broken))
    cell = state.cell
    if cell is None or not (cell[0] < lit.shape[0] and cell[1] < lit.shape[1]):
        cell = _farthest(correct, broken, lit)
    return Shown(bug, case, correct, broken, lit, cell)


def _matrix(cells: torch.Tensor) -> torch.Tensor:
    return cells if cells.dim() > 1 else cells[None]


def _farthest(correct: Outcome, broken: Outcome, lit: torch.Tensor) -> tuple[int, int]:
    """Return the cell where the two values lie farthest apart; NaN is farther than any number."""
    apart = _matrix((broken.x_hat - correct.x_hat).abs()).nan_to_num(nan=float("inf"))
    place = int(apart.where(lit, -1.0).argmax() if bool(lit.any()) else _matrix(correct.x).abs().argmax())
    return divmod(place, lit.shape[1])


def _panels(shown: Shown) -> tuple[PanelsData, PanelsData]:
    """What both rows show, in the same colours."""
    from quantviz.figures.panels_data import panels_data

    codes = _code_range(shown)
    rows = [
        panels_data(outcome.x, outcome.q, outcome.x_hat, code_range=codes)
        for outcome in (shown.correct, shown.broken)
    ]
    # An error that is all NaN or 0 has made-up ends, which must not set those of the other.
    ends = [data.error_range[1] for data in rows if bool((abs(data.error) > 0).any())]
    end = max(ends, default=1.0)
    lit = shown.lit.numpy()
    correct, broken = (dataclasses.replace(data, error_range=(-end, end), lit=lit) for data in rows)
    return correct, broken


def _code_range(shown: Shown) -> tuple[float, float]:
    """Return all codes that the two programs' dtypes have; of int4 held in int8 only those of int4."""
    import torch

    if shown.bug.bits < 8:
        half = float(1 << (shown.bug.bits - 1))
        return -half, half - 1
    dtypes = [
        torch.int8 if outcome.q.is_floating_point() else outcome.q.dtype
        for outcome in (shown.correct, shown.broken)
    ]
    return float(min(torch.iinfo(dtype).min for dtype in dtypes)), float(
        max(torch.iinfo(dtype).max for dtype in dtypes)
    )


# ---- comparing ----------------------------------------------------------------------------------


def show_comparison(state: GalleryState) -> None:
    """The chosen bug: what people expect, the two lines, the two rows, the whole program."""
    shown = _run(state)
    _choices(state, shown.bug, shown.case)
    name = shown.bug.id
    note = _note(shown)
    with st.container(key="gallery_words"):
        st.markdown(f"{_told('belief', name)} &nbsp; {_told('happens', name)} {plain(note)}")
    _both(shown)
    st.markdown(_told("practice", shown.bug.id))
    _program(shown)


def _note(shown: Shown) -> str:
    if shown.case.id == "random":
        return say("bugs.page.random_bites") if bool(shown.lit.any()) else say("bugs.page.random_hides")
    return say(f"bugs.{shown.bug.id}.notes.{shown.case.id}")


def _both(shown: Shown) -> None:
    """The two lines and the two rows of panels."""
    _two_lines(shown)
    for row, data in zip(_ROWS, _panels(shown), strict=True):
        _chart(row, data, shown.cell, group=_chart_key("correct"))
    st.caption(plain(say("bugs.page.colours")))


def _row_name(row: str) -> str:
    return say("bugs.page.row_correct") if row == "correct" else say("bugs.page.row_broken")


def _two_lines(shown: Shown) -> None:
    """The line that differs, both ways: what each gives at the cell, and what becomes of the tensor."""
    count, cells = int(shown.lit.sum()), shown.lit.numel()
    differ = say("bugs.page.differ", count=count, all=cells) if count else say("bugs.page.differ_none")
    rows = []
    for row, outcome, line in (
        ("correct", shown.correct, shown.bug.fixed),
        ("broken", shown.broken, shown.bug.broken),
    ):
        at = outcome.lines.index(line)
        mark = f'<b class="qv-{row}">{_SIGNS[row]} {html.escape(_row_name(row))}</b>'
        mse = html.escape(say("bugs.page.mse", mse=_mse(outcome.mse))) + (
            f" · <b>{html.escape(differ)}</b>" if row == "broken" else ""
        )
        code = f"<code>{html.escape(line.code)}</code> → {html.escape(_gives(outcome, at, shown.place))}"
        rows.append(
            f"<tr><td>{mark}</td><td>{html.escape(say('bugs.page.line_number', line=at + 1))}</td>"
            f"<td>{code}</td><td>{mse}</td></tr>"
        )
    st.html(f'<div class="qv-steps qv-two"><table>{"".join(rows)}</table></div>')


def _chart_key(row: str) -> str:
    return f"gallery_{row}_panels"


def _chart(row: str, data: PanelsData, cell: tuple[int, int], group: str, named: bool = True) -> None:
    """One row of panels; charts of one `group` are switched and zoomed together."""
    from quantviz.figures.panel_captions import panel_title, panels_alt

    key, words = _chart_key(row), language()
    width = bridge_width(f"{key}_bridge")
    larger = enlarge(width)
    # A short tensor needs no more than its own height.
    usual = arrange(width / larger, data.shape).height * larger
    wanted = min(max(_HEIGHT_OF_WIDTH * width, _LEAST_HEIGHT * larger), _MOST_HEIGHT * larger)
    height = min(
        usual, {"row": wanted, "grid": 2 * wanted, "single": usual}[arrangement_name(width / larger)]
    )
    titles = [panel_title(name, data, words) for name in data.panels]
    show_panels(
        data,
        key=key,
        bridge_area=st.container(),
        area=st.container(key=key),
        tensor_key="gallery",
        selected=cell,
        on_cell=session.safely(lambda: _clicked(f"{key}_bridge")),
        group=group,
        height=height,
        titles=[f"{_SIGNS[row]} {_row_name(row)} · {title}" for title in titles] if named else titles,
        alt=say("bugs.page.alt", row=_row_name(row), panels=panels_alt(data, words)),
        modebar=False,
    )


def _clicked(bridge: str) -> None:
    cell = clicked_cell(bridge)
    if cell:
        _change(cell=cell)


def _told(what: str, bug: str) -> str:
    head = {
        "belief": say("bugs.page.belief"),
        "happens": say("bugs.page.happens"),
        "practice": say("bugs.page.practice"),
    }[what]
    return f"**{head}** {plain(say(f'bugs.{bug}.{what}'))}"


# ---- the program --------------------------------------------------------------------------------


def _program(shown: Shown) -> None:
    """All lines, and what each gives at the cell, both ways."""
    st.markdown(
        f"## {plain(say('bugs.page.program', place=_place(shown)))}\n\n{plain(say('bugs.page.program_help'))}"
    )
    heads = ("", say("bugs.page.line"), say("bugs.page.given_correct"), say("bugs.page.given_broken"))
    rows = []
    for at, (good, bad) in enumerate(zip(shown.correct.lines, shown.broken.lines, strict=True)):
        codes = f"<code>{html.escape(good.code)}</code>"
        if good is not bad:
            codes = f'<b class="qv-correct">✓</b> {codes}<br>'
            codes += f'<b class="qv-broken">✗</b> <code>{html.escape(bad.code)}</code>'
        gives = [_gives(outcome, at, shown.place) for outcome in (shown.correct, shown.broken)]
        other = ' class="qv-broken"' if gives[0] != gives[1] else ""
        rows.append(
            f"<tr><td>{at + 1}</td><td>{codes}</td><td>{html.escape(gives[0])}</td>"
            f"<td{other}>{html.escape(gives[1])}</td></tr>"
        )
    head = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
    st.html(
        f'<div class="qv-steps qv-program"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _place(shown: Shown) -> str:
    return ", ".join(map(str, shown.place))


def _gives(outcome: Outcome, at: int, place: tuple[int, ...]) -> str:
    """What a line gave, at the cell where it gave a tensor."""
    return "; ".join(
        f"{name} = {_at_cell(value, outcome.x, place)}" for name, value in outcome.steps[at].items()
    )


def _at_cell(value: Any, x: torch.Tensor, place: tuple[int, ...]) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return _said(value.expand(x.shape)[place].item())
    return _said(value) if isinstance(value, int | float) else str(value)


def _mse(value: float) -> str:
    # Two of them are compared: 186,443 against 1.573 is seen at once, 1.864e5 is not.
    return f"{value:,.0f}" if 1e4 <= value < 1e7 else _said(float(f"{value:.4g}"))


def _said(value: float) -> str:
    return "NaN" if value != value else number(value, 5)


# ---- spot the bug -------------------------------------------------------------------------------


def show_puzzle(state: GalleryState) -> None:
    """The broken result and its program; once its line was found, both ways side by side."""
    shown = _run(state)
    tried = state.tries.get(state.puzzle, ())
    _puzzle_head(state)
    goal = f"**{say('bugs.spot.goal')}:** {plain(say(f'bugs.{shown.bug.id}.goal'))}"
    if shown.bug.broken.key in tried:
        _solved(shown, goal)
        return
    with st.container(key="gallery_words"):
        st.markdown(goal)
    _, broken = _panels(shown)
    _chart(
        "broken", dataclasses.replace(broken, lit=None), shown.cell, group=_chart_key("broken"), named=False
    )
    st.markdown(plain(say("bugs.spot.ask", place=_place(shown))))
    with st.container(key="gallery_lines", gap="xsmall"):
        for at, line in enumerate(shown.broken.lines):
            _line_button(shown, at, line, tried)


def _puzzle_head(state: GalleryState) -> None:
    from quantviz.teaching.gallery import BUGS, puzzle

    count = len(BUGS)
    solved = [lines for each, lines in state.tries.items() if puzzle(each).broken.key in lines]
    first = sum(len(lines) == 1 for lines in solved)
    with st.container(key="gallery_choices", horizontal=True, gap="small", vertical_alignment="center"):
        words = say("bugs.spot.score", solved=len(solved), all=count, first=first)
        st.markdown(f"**{plain(say('bugs.spot.number', number=state.puzzle, all=count))}** · {plain(words)}")
        st.button(
            say("bugs.spot.another"),
            key="gallery_another",
            on_click=session.safely(lambda: _change(puzzle=state.puzzle % count + 1, cell=None)),
        )


def _line_button(shown: Shown, at: int, line: Line, tried: tuple[str, ...]) -> None:
    """A line to be pointed at; under one that was, why it is not the cause."""
    mark = f"{_SIGNS['broken']} " if line.key in tried else ""
    label = f"{mark}{at + 1} &nbsp; `{line.code}` &nbsp; → {plain(_gives(shown.broken, at, shown.place))}"
    st.button(
        label,
        key=f"gallery_line_{at}",
        on_click=session.safely(_point),
        args=(line.key,),
        disabled=bool(mark),
        width="stretch",
    )
    if mark:
        st.markdown(
            f"**{say('bugs.spot.wrong', line=at + 1)}** {plain(say(f'bugs.{shown.bug.id}.why.{line.key}'))}"
        )


def _point(key: str) -> None:
    """The learner points at a line."""
    state = _state()
    tried = state.tries.get(state.puzzle, ())
    if key not in tried:
        _change(tries=MappingProxyType({**state.tries, state.puzzle: (*tried, key)}))


def _solved(shown: Shown, goal: str) -> None:
    at = shown.broken.lines.index(shown.bug.broken)
    name = say(f"bugs.{shown.bug.id}.name")
    st.success(
        f"**{plain(say('bugs.spot.right', line=at + 1, name=name))}** "
        f"{plain(say(f'bugs.{shown.bug.id}.happens'))}"
    )
    _both(shown)
    st.markdown(_told("practice", shown.bug.id))
    st.markdown(goal)
    _program(shown)
