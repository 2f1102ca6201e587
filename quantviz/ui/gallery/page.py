"""The bug gallery page: one tensor through a correct and a broken program, and "spot the bug"."""

from __future__ import annotations

import dataclasses
import html
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES
from quantviz.live.cells import color_scale
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import Control, show_controls, undo_controls
from quantviz.ui.components.page_header import show_header, write_title
from quantviz.ui.components.small_parts import (
    error_beside,
    show_button,
    show_error_beside,
    show_page_errors,
    table_html,
)
from quantviz.ui.gallery.state import DRAG, OWNER, GalleryState, bug_of, case_of, own_seed
from quantviz.ui.shell.classroom import classroom, enlarge
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.shared_cache import shared_fact
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, plain, say

if TYPE_CHECKING:
    import torch

    from quantviz.figures.panels_data import PanelsData
    from quantviz.figures.printing import Style
    from quantviz.teaching.bug_handles import HandleFrame
    from quantviz.teaching.gallery import Bug, ProgramCase, ProgramLine, ProgramResult


@dataclass(frozen=True, eq=False)
class BugComparison:
    """A bug on a tensor, both ways."""

    #: The bug at each value of its handle; a single one where it is shown on a case.
    frames: tuple[HandleFrame, ...]
    #: Number of the one that is looked at.
    at: int
    #: The cell looked at, as row and column.
    cell: tuple[int, int]
    #: The seed of a random tensor; none for the case's own.
    seed: int | None

    @property
    def key(self) -> Hashable:
        """Return the cache key: all values that the results depend on."""
        return self.bug.id, self.case.id, self.seed, len(self.frames), self.at, self.cell

    @property
    def now(self) -> HandleFrame:
        """Return the bug as it is looked at."""
        return self.frames[self.at]

    @property
    def bug(self) -> Bug:
        return self.now.bug

    @property
    def case(self) -> ProgramCase:
        return self.now.case

    @property
    def correct(self) -> ProgramResult:
        return self.now.correct

    @property
    def broken(self) -> ProgramResult:
        return self.now.broken

    @property
    def lit(self) -> torch.Tensor:
        """Return the cells that differ, as (rows, columns)."""
        return as_matrix(self.now.hit)

    @property
    def place(self) -> tuple[int, ...]:
        """Return the cell's place in the tensor."""
        return self.cell if self.correct.x.dim() > 1 else self.cell[1:]


def run_both_ways(state: GalleryState) -> BugComparison:
    from quantviz.teaching.bug_handles import HANDLES, first_shown, frames

    bug = bug_of(state)
    if state.at is not None and not state.spotting:
        runs = frames(bug.id)
        at = HANDLES[bug.id].values.index(state.at)
        # The cell stays while a hand drags: the one that is hit worst where the bug first shows.
        cell = farthest(first_shown(bug.id))
        if runs[at].shows and not bool(as_matrix(runs[at].hit)[cell]):
            cell = farthest(runs[at])
    else:
        runs = (_on_case(state, bug),)
        at = 0
        cell = farthest(runs[0])
    rows, cols = as_matrix(runs[at].hit).shape
    if state.cell is not None and state.cell[0] < rows and state.cell[1] < cols:
        cell = state.cell
    return BugComparison(runs, at, cell, None if state.spotting else state.seed)


def _on_case(state: GalleryState, bug: Bug) -> HandleFrame:
    from quantviz.teaching.bug_handles import HandleFrame
    from quantviz.teaching.gallery import differing, run_bug

    case = case_of(state, bug)
    source = case.source
    if own_seed(case) is not None and state.seed is not None and not state.spotting:
        source = dataclasses.replace(cast(Any, source), seed=state.seed)
    x = source.tensor()
    correct, broken = (run_bug(bug, x, broken, case) for broken in (False, True))
    return HandleFrame(0.0, bug, case, correct, broken, differing(correct, broken))


def as_matrix(cells: torch.Tensor) -> torch.Tensor:
    return cells if cells.dim() > 1 else cells[None]


def farthest(frame: HandleFrame) -> tuple[int, int]:
    """Return the cell where the two values lie farthest apart; NaN is farther than any number."""
    hit = as_matrix(frame.hit)
    apart = as_matrix((frame.broken.x_hat - frame.correct.x_hat).abs()).nan_to_num(nan=float("inf"))
    place = int(apart.where(hit, -1.0).argmax() if frame.shows else as_matrix(frame.correct.x).abs().argmax())
    return divmod(place, hit.shape[1])


def show_program(shown: BugComparison) -> None:
    """Show all lines of both programs, with the result of each at the cell."""
    st.markdown(
        f"## {plain(say('bugs.page.program', place=place_words(shown)))}\n\n"
        f"{plain(say('bugs.page.program_help'))}"
    )
    heads = ("", say("bugs.page.line"), say("bugs.page.given_correct"), say("bugs.page.given_broken"))
    rows = []
    for at, (good, bad) in enumerate(zip(shown.correct.lines, shown.broken.lines, strict=True)):
        codes = f"<code>{html.escape(good.code)}</code>"
        if good is not bad:
            codes = f'<b class="qv-correct">✓</b> {codes}<br>'
            codes += f'<b class="qv-broken">✗</b> <code>{html.escape(bad.code)}</code>'
        gives = [given_words(outcome, at, shown.place) for outcome in (shown.correct, shown.broken)]
        other = ' class="qv-broken"' if gives[0] != gives[1] else ""
        rows.append(
            f"<tr><td>{at + 1}</td><td>{codes}</td><td>{html.escape(gives[0])}</td>"
            f"<td{other}>{html.escape(gives[1])}</td></tr>"
        )
    st.html(f'<div class="qv-steps qv-program">{table_html(heads, rows)}</div>')


def place_words(shown: BugComparison) -> str:
    return ", ".join(map(str, shown.place))


def given_words(outcome: ProgramResult, at: int, place: tuple[int, ...]) -> str:
    """Return the result of a line in words, at the cell where it is a tensor."""
    return "; ".join(
        f"{name} = {_at_cell(value, outcome.x, place)}" for name, value in outcome.steps[at].items()
    )


def _at_cell(value: Any, x: torch.Tensor, place: tuple[int, ...]) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return _said(value.expand(x.shape)[place].item())
    return _said(value) if isinstance(value, int | float) else str(value)


def mse_words(value: float) -> str:
    # Two of them are compared: 186,443 against 1.573 is seen at once, 1.864e5 is not.
    return f"{value:,.0f}" if 1e4 <= value < 1e7 else _said(float(f"{value:.4g}"))


def _said(value: float) -> str:
    return "NaN" if value != value else number(value, 5)


#: The rows, as they are called in the page.
ROWS = ("correct", "broken")
SIGNS: Mapping[str, str] = {"correct": "✓", "broken": "✗"}
_BOARD = "gallery_board"
_SCRIPT = "gallery_component"
_DIGITS = 4
#: Keys of the panels' titles that have another name.
_TITLES: Mapping[str, str] = {"error": "error_signed", "q": "q_plain"}
#: Of a teaching tensor's values.
_DECIMALS = 2


def row_name(row: str) -> str:
    return say(f"bugs.page.row_{row}")


def show_board(shown: BugComparison, *, telling: bool = True) -> None:
    """Show the two rows, and the handle where the bug is dragged into view.

    A puzzle that is not solved shows the broken row alone, without the correct one (`telling` is False).
    """
    rows = ROWS if telling else ROWS[1:]
    # A class opens the same bugs, and the message with all places of a handle takes longer than the rest.
    key = ("gallery board", shown.key, rows, language(), classroom().projector, enlarge())
    down, across = as_matrix(shown.correct.x).shape
    component("quantviz_gallery", _SCRIPT)(
        key=_BOARD,
        data=shared_fact(key, lambda: _packed(shown, rows)),
        on_at_change=(
            lambda at: OWNER.change(at=shown.frames[at].value),
            lambda at: at < len(shown.frames),
        ),
        on_cell_change=(
            lambda cell: OWNER.change(cell=(cell["row"], cell["col"])),
            lambda cell: cell["row"] < down and cell["col"] < across,
        ),
    )


# ---- data for the browser -------------------------------------------------------------------------


def _packed(shown: BugComparison, rows: Sequence[str]) -> bytes:
    outcomes = [[getattr(frame, row) for frame in shown.frames] for row in rows]
    every = _all_frames(shown, [outcome for each in outcomes for outcome in each])
    # A page may turn dark before the server hears of it: the browser has the colours of both.
    suffix = "_projected" if classroom().projector else ""
    both = [THEMES[f"{brightness}{suffix}"] for brightness in ("light", "dark")]
    named = [
        {
            **colours.named("text", "muted", "line", "surface", "mark", "lit"),
            "halo": colours.mark_halo,
            "handle": colours.accent,
        }
        for colours in both
    ]
    alone = len(rows) == 1
    names = ("x", "q", "x_hat", "error")
    arrays = {"x": _stacked([frame.correct.x for frame in shown.frames])}
    handle = _handle(shown) if len(shown.frames) > 1 else None
    legend = "bugs.page.colours_drag" if handle else "bugs.page.colours"
    header = {
        "shape": as_matrix(shown.correct.x).shape,
        "cell": shown.cell,
        "at": shown.at,
        # The script starts afresh where this differs. A puzzle's key does not contain its bug.
        "board": [
            zlib.crc32(arrays["x"].tobytes()),
            *(() if alone else (shown.bug.id, shown.case.id)),
            language(),
        ],
        "handle": handle,
        "rows": [
            {
                "name": row,
                "title": "" if alone else f"{SIGNS[row]} {row_name(row)}",
                "told": [] if alone else [_told_of_row(row, frame, shown) for frame in shown.frames],
            }
            for row in rows
        ],
        "titles": {name: say(f"panels.title.{_TITLES.get(name, name)}") for name in names},
        "scales": {name: [color_scale(name, every, colours) for colours in both] for name in names},
        "styles": {name: [asdict(style) for style in _styles(shown, every, name)] for name in names},
        "legend": "" if alone else say(legend),
        "writing": asdict(WRITING),
        "enlarge": enlarge(),
        "colors": {name: f"light-dark({light}, {named[1][name]})" for name, light in named[0].items()},
    }
    for i, each in enumerate(outcomes):
        arrays[f"rows.{i}.q"] = _stacked([outcome.q for outcome in each])
        arrays[f"rows.{i}.x_hat"] = _stacked([outcome.x_hat for outcome in each])
    if not alone:
        arrays["lit"] = _stacked([frame.hit for frame in shown.frames]).astype("u1")
    return pack(header, arrays)


def _stacked(tensors: Sequence[torch.Tensor]) -> Any:
    import torch

    return torch.stack(tuple(tensors)).numpy().ravel()


def _all_frames(shown: BugComparison, outcomes: Sequence[ProgramResult]) -> PanelsData:
    """Return both rows at every value, one below the other: colours and decimals are the same for all."""
    import torch

    from quantviz.figures.panels_data import panels_data

    x, q, x_hat = (
        torch.cat([as_matrix(getattr(outcome, name)) for outcome in outcomes]) for name in ("x", "q", "x_hat")
    )
    return panels_data(x, q, x_hat, code_range=_code_range(shown))


def _styles(shown: BugComparison, every: PanelsData, name: str) -> list[Style]:
    """Return the possible number styles of a column, the one with most decimals first.

    Along a handle it is as teaching tensors are, with one decimal more for errors, however many decimals the
    values on the way have.
    """
    from quantviz.figures.printing import Style

    if len(shown.frames) == 1 or name == "q":
        return list(every.styles(name))
    plain = [Style(decimals) for decimals in range(_DECIMALS + (name == "error"), -1, -1)]
    return [*plain, *(Style(style.decimals, zero=False) for style in plain)]


def _code_range(shown: BugComparison) -> tuple[float, float]:
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


# ---- words ------------------------------------------------------------------------------------------


def _told_of_row(row: str, frame: HandleFrame, shown: BugComparison) -> list[str]:
    """Return a row's line number, line, result at the cell, and error after the program."""
    outcome = getattr(frame, row)
    line = frame.bug.fixed if row == "correct" else frame.bug.broken
    at = outcome.lines.index(line)
    ends = [say("bugs.page.mse", mse=mse_words(_mse(outcome)))]
    if row == "broken":
        words = "bugs.page.hit" if len(shown.frames) > 1 else "bugs.page.differ"
        count = int(frame.hit.sum())
        ends.append(say(words, count=count, all=frame.hit.numel()) if count else say(f"{words}_none"))
    return [
        say("bugs.page.line_number", line=at + 1),
        line.code,
        given_words(outcome, at, shown.place),
        " · ".join(ends),
    ]


def _mse(outcome: ProgramResult) -> float:
    """Return the mean squared error. Errors as small as float32's own rounding are 0, as in the cells."""
    from quantviz.figures.panels_data import ROUNDING

    error = (outcome.x_hat - outcome.x).double()
    rounding = error.abs() <= ROUNDING * outcome.x.double().abs()
    return error.masked_fill(rounding, 0.0).square().mean().item()


def _handle(shown: BugComparison) -> dict[str, Any]:
    from quantviz.teaching.bug_handles import HANDLES

    bug = shown.bug.id
    return {
        "name": say(f"bugs.{bug}.drag.name"),
        "ask": say(f"bugs.{bug}.drag.ask"),
        "values": [number(HANDLES[bug].shown(frame.value), _DIGITS) for frame in shown.frames],
        "shows": [int(frame.shows) for frame in shown.frames],
        "said": [_said_of(frame, shown) for frame in shown.frames],
    }


def _said_of(frame: HandleFrame, shown: BugComparison) -> str:
    """Say why the bug shows at a value of its handle, or why it does not."""
    from quantviz.teaching.bug_handles import HANDLES

    row, col = shown.cell if bool(as_matrix(frame.hit)[shown.cell]) else farthest(frame)
    place = (row, col) if frame.correct.x.dim() > 1 else (col,)
    facts = {
        "value": frame.value,
        "shift": HANDLES[shown.bug.id].shown(frame.value),
        "x": frame.correct.x[place].item(),
        "q": frame.broken.q[place].item(),
        "correct": frame.correct.x_hat[place].item(),
        "broken": frame.broken.x_hat[place].item(),
        **HANDLES[shown.bug.id].facts(frame.correct, frame.broken, place),
    }
    return say(
        f"bugs.{shown.bug.id}.drag.{'shows' if frame.shows else 'hides'}",
        place=", ".join(map(str, place)),
        **{name: number(value, _DIGITS) for name, value in facts.items()},
    )


_SEED = "bugs_seed"


def show_page() -> None:
    """Show the chosen bug both ways, or a puzzle, and write the address."""
    state = show_head()
    if state.spotting:
        show_puzzle(state)
    else:
        show_comparison(state)
    OWNER.show_link()


def show_head() -> GalleryState:
    """Show the title and its controls."""
    title, actions = show_header(say("pages.bugs"))
    show_page_errors(*OWNER.problems)
    warm_up()
    from quantviz.teaching.gallery import BUGS

    state = OWNER.state
    # A puzzle's title does not reveal its bug.
    name_tab(
        say("pages.bugs"), say("bugs.page.spot") if state.spotting else say(f"bugs.{bug_of(state).id}.name")
    )
    words = say("bugs.page.hint_spot", all=len(BUGS)) if state.spotting else say("bugs.page.hint")
    write_title(title, say("pages.bugs"), words)
    with actions:
        modes = {"compare": say("bugs.page.compare"), "spot": say("bugs.page.spot")}
        now = "spot" if state.spotting else "compare"
        mode = Control("mode", "row", say("bugs.page.mode"), value=now, choices=modes)
        show_controls("gallery_mode", OWNER, mode, *undo_controls(OWNER), look="qv-unnamed")
        show_copy_link()
    return state


def _choices(state: GalleryState, bug: Bug) -> None:
    """Show the choice of the bug, of the tensor or the handle, and of a random tensor's seed."""
    from quantviz.teaching.bug_handles import HANDLES
    from quantviz.teaching.gallery import BUGS

    case = case_of(state, bug)
    chosen = DRAG if state.at is not None else case.id
    names = {name: f"{at} · {say(f'bugs.{name}.name')}" for at, name in enumerate(BUGS, 1)}
    offered = ([DRAG] if bug.id in HANDLES else []) + [each.id for each in bug.cases]
    cases = {name: _case_name(bug, name) for name in offered}
    controls = [
        Control("bug", "list", say("bugs.page.bug"), value=bug.id, choices=names),
        Control("case", "row", say("bugs.page.tensor"), value=chosen, choices=cases),
    ]
    seed = own_seed(case) if state.seed is None else state.seed
    if own_seed(case) is not None and chosen != DRAG:
        wrong = error_beside(_SEED) is not None
        controls.append(Control("seed", "text", say("bugs.page.seed"), value=str(seed), wrong=wrong))
    show_controls("gallery_choices", OWNER, *controls, look="qv-inside")
    show_error_beside(_SEED)


def _case_name(bug: Bug, name: str) -> str:
    if name == DRAG:
        return say("bugs.page.drag")
    return say("bugs.page.random") if name == "random" else say(f"bugs.{bug.id}.cases.{name}")


def show_comparison(state: GalleryState) -> None:
    """Show the chosen bug: the common belief, the two lines, the two rows, the whole program."""
    shown = run_both_ways(state)
    _choices(state, shown.bug)
    belief, happens = (bug_words(what, shown.bug.id) for what in ("belief", "happens"))
    with st.container(key="gallery_words"):
        # A learner who drags sees the effect before the sentence.
        st.markdown(belief if state.at is not None else f"{belief} &nbsp; {happens} {plain(_note(shown))}")
    show_board(shown)
    with st.container(key="gallery_after"):
        if state.at is not None:
            st.markdown(happens)
        st.markdown(bug_words("practice", shown.bug.id))
        show_program(shown)


def _note(shown: BugComparison) -> str:
    if shown.case.id == "random":
        return say("bugs.page.random_bites") if bool(shown.lit.any()) else say("bugs.page.random_hides")
    return say(f"bugs.{shown.bug.id}.notes.{shown.case.id}")


def bug_words(what: str, bug: str) -> str:
    return f"**{say(f'bugs.page.{what}')}** {plain(say(f'bugs.{bug}.{what}'))}"


def show_puzzle(state: GalleryState) -> None:
    """Show the broken result and its program; once its line was found, both ways side by side."""
    shown = run_both_ways(state)
    tried = state.tries.get(state.puzzle, ())
    _puzzle_head(state)
    goal = f"**{say('bugs.spot.goal')}:** {plain(say(f'bugs.{shown.bug.id}.goal'))}"
    if shown.bug.broken.key in tried:
        _solved(shown, goal)
        return
    with st.container(key="gallery_words"):
        st.markdown(goal)
    with st.container(key="gallery_alone"):
        show_board(shown, telling=False)
    st.markdown(plain(say("bugs.spot.ask", place=place_words(shown))))
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
        show_controls("gallery_another", OWNER, Control("another", "button", say("bugs.spot.another")))


def _line_button(shown: BugComparison, at: int, line: ProgramLine, tried: tuple[str, ...]) -> None:
    """Show a line to point at; under one that was pointed at, why it is not the cause."""
    mark = f"{SIGNS['broken']} " if line.key in tried else ""
    label = (
        f"{mark}{at + 1} &nbsp; `{line.code}` &nbsp; → {plain(given_words(shown.broken, at, shown.place))}"
    )
    show_button(label, f"gallery_line_{at}", _point, line.key, disabled=bool(mark), width="stretch")
    if mark:
        st.markdown(
            f"**{say('bugs.spot.wrong', line=at + 1)}** {plain(say(f'bugs.{shown.bug.id}.why.{line.key}'))}"
        )


def _point(key: str) -> None:
    state = OWNER.state
    tried = state.tries.get(state.puzzle, ())
    if key not in tried:
        OWNER.change(tries=MappingProxyType({**state.tries, state.puzzle: (*tried, key)}))


def _solved(shown: BugComparison, goal: str) -> None:
    at = shown.broken.lines.index(shown.bug.broken)
    name = say(f"bugs.{shown.bug.id}.name")
    st.success(
        f"**{plain(say('bugs.spot.right', line=at + 1, name=name))}** "
        f"{plain(say(f'bugs.{shown.bug.id}.happens'))}"
    )
    show_board(shown)
    st.markdown(bug_words("practice", shown.bug.id))
    st.markdown(goal)
    show_program(shown)
