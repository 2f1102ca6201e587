"""The picture of a step: tiles, panels, the explained cell and the table of states."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.figures.arrangement import GAP
from quantviz.figures.numbers import short_number
from quantviz.figures.raster import data_uri
from quantviz.figures.theme import THEMES, translucent
from quantviz.lab.picture_parts import PANEL_PARTS, TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.teaching.lessons import known_by
from quantviz.teaching.lessons.dial_series import MarksPicture
from quantviz.teaching.lessons.dials import DIALS, DialState
from quantviz.teaching.lessons.drags import sqnr_of_bits
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Scene
from quantviz.teaching.lessons.model import CellQuestion, ComparedNumber, DragQuestion, Question
from quantviz.teaching.lessons.plan import legend_home
from quantviz.ui.components.cell import show_cell_ruler, show_sentence, show_steps
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.dial import Plot, show_dial
from quantviz.ui.components.lesson_place import LOOK
from quantviz.ui.components.panels_bridge import (
    PanelsPlace,
    bridge_width,
    clicked_cell,
    page_style,
    show_panels,
)
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.components.small_parts import show_plot, table_html
from quantviz.ui.lab.numbers.tiles import Tile, cover_tile, show_live_tile, tiles
from quantviz.ui.lessons.answering import answer_key
from quantviz.ui.lessons.moving import (
    ruler_detail,
    scene_in_hand,
    show_bits_in_hand,
    show_hand_ruler,
    turn_dial,
)
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.wall import (
    has_room_for_plot,
    height_on_wall,
    panels_width,
    part_places,
    ruler_larger,
)
from quantviz.ui.shell import errors
from quantviz.ui.shell.classroom import LEAST_DIGIT, LESSON_WIDTH, classroom, enlarge, enlarge_lesson
from quantviz.ui.shell.words import count_text, language, number, plain, say, theme

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData
    from quantviz.quantization.explanation import Explanation
    from quantviz.quantization.result import QuantResult


#: From so many times the least on a number has words for it, and from so many these are whole.
_TIMES = 1.5
_WHOLE = 10


def asked_last(now: Now) -> Question | None:
    """Return the step's last question, which the wall shows once the answers are revealed."""
    return now.step.questions[-1] if now.step.questions else None


def compared_now(now: Now) -> tuple[ComparedNumber, ...]:
    """Return the numbers that the revealed question compares; none before that, and for another question."""
    question = asked_last(now)
    return question.compared(now.scenes) if question and now.revealed else ()


def show_compared(now: Now, compared: tuple[ComparedNumber, ...]) -> None:
    """Show each number with its name, how many times the least it is, and the errors behind it."""
    values = [each.number.value(now.scenes) for each in compared]
    least = min(values)
    # A difference in dB is a factor already, and codes have none.
    measured = least > 0 and not any("sqnr_db" in each.number.text for each in compared)
    scenes = [now.scenes[each.state] for each in compared]
    pictures, most = _errors(scenes) if "error" in now.step.show else ([""] * len(scenes), 0.0)
    parts = []
    for name, value, picture in zip(_names(now, compared), values, pictures, strict=True):
        more = f"<small>{html.escape(_times(value, least) if measured else '')}</small>"
        shown = f"<span>{html.escape(name)}</span><b>{number(value, 3)}</b>"
        parts.append(f"<figure>{shown}{more}{picture}</figure>")
    line = f"<p>{html.escape(say('lessons.one_scale', most=number(most, 3)))}</p>" if most else ""
    st.html(f'<div class="qv-compared">{"".join(parts)}</div>{line}')


def _times(value: float, least: float) -> str:
    """Return how many times the least a number is in words, from twice on."""
    times = value / least
    if times < _TIMES:
        return ""
    return say("lessons.times_least", times=count_text(round(times)) if times >= _WHOLE else number(times, 2))


def _errors(scenes: list[Scene]) -> tuple[list[str], float]:
    """Return the errors of each state as images in one colour scale, and its end; none of unlike tensors."""
    if len({(scene.state.source.shape, scene.state.view) for scene in scenes}) > 1 or scenes[0] is scenes[-1]:
        return [""] * len(scenes), 0.0
    shape = scenes[0].state.view.matrix(scenes[0].state.source.shape)
    errors = [scene.result.error.reshape(shape).numpy() for scene in scenes]
    most = max(float(abs(error).max()) for error in errors)
    if not most:
        return [""] * len(scenes), 0.0
    ramp = THEMES[theme()].errors
    return [f'<img alt="" src="{data_uri(error, -most, most, ramp)}">' for error in errors], most


def _names(now: Now, compared: tuple[ComparedNumber, ...]) -> list[str]:
    """Return the name of each: its own, else that of its state in the table, else what differs between the
    schemes.
    """
    if all(each.text for each in compared):
        return [each.text.say(now.scenes) for each in compared if each.text]
    if len({each.state for each in compared}) < len(compared):
        return [say("lessons.rows.before"), say("lessons.rows.after")]
    rows = {state: words for words, state in now.step.table.rows} if now.step.table else {}
    if all(each.state in rows for each in compared):
        return [rows[each.state].say(now.scenes) for each in compared]
    states = [now.scenes[each.state].state for each in compared]
    parts = [scheme_words(state.scheme, state.source).split(" · ") for state in states]
    common = set(parts[0]).intersection(*parts)
    names = [" · ".join(part for part in of_one if part not in common) for of_one in parts]
    return names if all(names) else [say("lessons.rows.before"), say("lessons.rows.after")]


#: The parts of a step that show a dial's pictures, in their order.
_PICTURES = ("dial.picture", "dial.beside")


def show_lesson_dial(now: Now, state: DialState, take: Callable[[str], None]) -> None:
    """Show the dial of a step at the stop in hand; `take` gets the stop at which the hand lets go."""
    series = state.series
    shown = now.step.show - now.covered
    words = dict.fromkeys(series.stops, "")
    if "dial.numbers" in shown:
        for stop, numbers in zip(series.stops, series.numbers, strict=True):
            told = {name: short_number(value, 4 if value >= 1000 else 3) for name, value in numbers.items()}
            words[stop] = say(f"lessons.dials.{state.dial}.said", **told)
    plots = tuple(
        _plot(picture) for part, picture in zip(_PICTURES, series.pictures, strict=False) if part in shown
    )
    title = say(f"lessons.dials.{state.dial}.title")
    show_dial(
        "lesson_dial",
        title,
        words,
        state.at,
        plots,
        errors.safely(take),
        dict(zip(series.stops, series.labels or series.stops, strict=True)),
        presses=DIALS[state.dial].presses,
    )


def _plot(picture: MarksPicture) -> Plot:
    """Return a picture of marks with the words of the session's language."""
    words = say(f"lessons.dials.{picture.words}")
    names = tuple((say(f"lessons.dials.{name}"), color) for name, color in picture.names)
    larger = enlarge_lesson() or 1.0
    return Plot(words, words, picture.frame, picture.marks, names, picture.equal, larger, picture.height)


#: Parts that explain one cell.
_EXPLAINED = frozenset({"sentence", "number_line", "steps"})
#: The term with which x, q and x̂ are known.
_SYMBOLS = "dequantize"
_CELLS = "lesson_cells"
_PANELS = "lesson_panels"
#: In place of a state's name: the step's own after the learner's drags.
IN_HAND = "in_hand"
#: Least pixels of the panels' height above a ruler, and above one with a curve below its comb.
_ABOVE_RULER = 212
_ABOVE_CURVE = 150
#: Pixels of the ruler that a slider over it takes.
_SLIDER = 10
#: Pixels below the title for a step's picture on a laptop, and on a screen whose picture is at least so wide;
#: one narrower than a picture beside words is a phone's.
_ROOM = 545
_ROOM_OF_WIDE = 900
_WIDE = 860
_NARROW = 560
#: Most pixels of the panels' height on either: on a laptop the same for each width that a browser reports.
_HIGHEST = 330
_HIGHEST_OF_WIDE = 640
#: Pixels that the other parts of a picture take of it; a table has a heading and a choice besides its rows.
_TAKEN = {"scheme": 32, "sentence": 32, "number_line": 190, "curve": 140, "bits_plot": 190, "steps": 180}
_TILES = 74
_TABLE_ROW = 32
_TABLE_AROUND = 110
#: Pixels of titles, numbers and colour bars above and below the cells.
_AROUND_CELLS = 67


def show_picture(now: Now) -> None:
    scene = _scene_shown(now)
    state = scene.state.replace(cell=selected_cell(now, scene.state))
    r = scene.result
    show = now.step.show
    covered = now.covered
    panels = [name for name in PANEL_PARTS if name in show]
    places = part_places(now, len(panels))
    with places["scheme"]:
        if "scheme" in show - covered:
            with st.container(key="lesson_scheme" if now.step.move else None):
                st.caption(plain(scheme_words(state.scheme, state.source)))
    compared = compared_now(now) if _tells(now) else ()
    stamp = 0
    if compared:
        # The numbers of the tiles stand with the others, and the error that x has under each state.
        with places["panels" if panels else "tiles"]:
            show_compared(now, compared)
    else:
        with places["tiles"]:
            _tiles(now, r, state)
    with places["panels"]:
        if not compared:
            stamp = _panels(now, r, state, panels) if panels else 0
        if _pointing(now) and _pointed(now):
            _chosen_cell(now, r, cast("tuple[int, ...]", _pointed(now)))
    with places["ruler"]:
        if isinstance(state, DialState):
            show_lesson_dial(now, state, partial(turn_dial, now))
        if _EXPLAINED & (show - covered):
            _why(now, _explained(scene, state), r, state, stamp)
    with places["plot"]:
        if "bits_plot" in show and has_room_for_plot(now):
            _bits_plot(now, scene)
    if "table" in show and now.step.table:
        # The numbers compared are the table's own, in larger digits.
        if not (compared and panels):
            with places["table"]:
                _table(now)
        # On the wall it stands with the buttons.
        if not classroom().projector:
            show_looks(now)


def state_looked_at(now: Now) -> str:
    """Return the name of the table's state in the panels, or `IN_HAND`."""
    look = st.session_state.get(LOOK)
    question = asked_last(now)
    if question and not isinstance(question, DragQuestion) and _tells(now):
        told = question.state_told(now.scenes)
        return IN_HAND if told == HERE and not _is_moved(now) else told
    if not isinstance(look, str) or look not in now.scenes or not _can_look(now):
        return IN_HAND
    return IN_HAND if look == HERE and not _is_moved(now) else look


def _tells(now: Now) -> bool:
    """Return whether the picture is that of the revealed answer: on the wall, until another is chosen."""
    return classroom().projector and now.revealed and LOOK not in st.session_state


def _can_look(now: Now) -> bool:
    """Return whether other states can be looked at: they have no handles for an open question."""
    return "table" not in now.covered and (now.revealed or not now.step.move)


def state_shown(now: Now) -> LabState:
    """Return the state in the picture: one of the table's, or the step's after the learner's drags."""
    return _scene_shown(now).state


def _scene_shown(now: Now) -> Scene:
    look = state_looked_at(now)
    if look != IN_HAND:
        return now.scenes[look]
    question = asked_last(now)
    if isinstance(question, DragQuestion) and _shows_the_goal(now):
        return question.named_scenes(now.scenes)[SOLUTION]
    return scene_in_hand(now)


def _shows_the_goal(now: Now) -> bool:
    """Return whether the wall shows a drag's goal, which has been revealed and not been moved by hand."""
    return isinstance(asked_last(now), DragQuestion) and _tells(now) and not _is_moved(now)


def _is_moved(now: Now) -> bool:
    return scene_in_hand(now) is not now.scenes[HERE]


def selected_cell(now: Now, state: LabState) -> tuple[int, ...]:
    """Return the cell selected in this step."""
    cell = st.session_state.setdefault(_CELLS, {}).get((now.id, now.attempt))
    fits = (
        cell is not None
        and len(cell) == len(state.source.shape)
        and all(i < n for i, n in zip(cell, state.source.shape, strict=True))
    )
    return cell if fits and cell is not None else state.cell


def _tiles(now: Now, r: QuantResult, state: LabState) -> None:
    wanted = [part for part in TILE_PARTS if part in now.step.show]
    if not wanted:
        return
    from quantviz.analysis.study import Study

    computed = {f"tiles.{tile.key}": tile for tile in tiles(Study.of_result(r), state)}
    right = _right_tiles(now)
    with st.container(key="lesson_tiles", horizontal=True, gap="small"):
        for part in wanted:
            if part in now.covered:
                cover_tile(part.removeprefix("tiles."))
            else:
                of = "yours" if _is_moved(now) else "before"
                says = right and not _shows_the_goal(now)
                whose = say(f"lessons.whose.{of}", value=right[part].value) if says else ""
                # On the wall it stands on one line with whose it is.
                show_live_tile(
                    computed[part],
                    line="tile_lines" in now.step.show,
                    whose=whose,
                    short=bool(whose) and classroom().projector,
                )


def _right_tiles(now: Now) -> Mapping[str, Tile]:
    """Return the tiles of a drag's right answer, once revealed, beside the state in hand; else none."""
    from quantviz.analysis.study import Study

    question = next((each for each in now.step.questions if isinstance(each, DragQuestion)), None)
    if question is None or not now.revealed or state_looked_at(now) != IN_HAND:
        return {}
    scene = question.named_scenes(now.scenes)[SOLUTION]
    if (
        scene_in_hand(now).state.scheme == scene.state.scheme
        and scene.state.source == scene_in_hand(now).state.source
    ):
        return {}
    return {f"tiles.{tile.key}": tile for tile in tiles(Study.of_result(scene.result), scene.state)}


def _panels(now: Now, r: QuantResult, state: LabState, panels: list[str]) -> int:
    """Show the panels, and return their stamp."""
    from quantviz.figures.panels_data import result_panels

    data = panels_of_step(now, state, panels, now.covered)(result_panels(r, view=state.view))
    pointing = _pointing(now)
    selected = _pointed(now) if pointing else _framed(now, state)
    all_four = len(panels) == len(PANEL_PARTS) and not classroom().projector
    with st.container(key="lesson_four" if all_four else None):
        place = PanelsPlace(
            _PANELS,
            st.container(key="lesson_bridge"),
            st.container(key=_PANELS),
            on_cell=lambda _: _clicked(now, state, pointing),
        )
    if larger := _larger(now):
        usual = panels_width(now)
        lower, bars = height_on_wall(now, _width(usual) / larger, data.shape, len(panels))
        style = replace(
            page_style(place.bridge, usual),
            height=larger * lower,
            enlarge=larger,
            least_digit=LEAST_DIGIT,
            bars=bars,
        )
    else:
        # A laptop has room for both, the panels and the ruler below them.
        rows, cols = data.shape
        style = page_style(place.bridge, LESSON_WIDTH)
        if "number_line" in now.step.show and 2 * rows >= cols:
            style = replace(style, height=_height_above_ruler(now, style.width, rows / cols, len(panels)))
    show_panels(
        data,
        place,
        style,
        tensor_key=f"{now.id} {now.attempt}",
        selected=state.view.seen(selected, state.source.shape) if selected else None,
        first="x" if pointing else None,
    )
    return data.stamp


def panels_of_step(
    now: Now, state: LabState, panels: Collection[str], covered: Collection[str]
) -> Callable[[PanelsData], PanelsData]:
    """Return the function that leaves the step's `panels` of all, in words that are known by then."""
    from quantviz.figures.panels_data import as_picture

    hidden = {*covered, *({"scale"} - now.step.show)}
    plain = _SYMBOLS not in known_by(cast(str, now.place.lesson), now.place.step)

    def left(data: PanelsData) -> PanelsData:
        data = replace(data.only(panels, hidden), plain=plain)
        return as_picture(data, symmetric=state.scheme.mode == "symmetric") if state.source.picture else data

    return left


def _height_above_ruler(now: Now, width: float, ratio: float, panels: int) -> float:
    """Return the panels' height in pixels: what a screen has left beside the picture's other parts, and no
    more than square cells need.

    Args:
        now: The step.
        width: The panels' width in pixels.
        ratio: Rows of the tensor to its columns.
        panels: How many panels stand beside each other.
    """
    show = now.step.show
    least = _ABOVE_CURVE if "curve" in show else _ABOVE_RULER
    least -= _SLIDER * bool({"bits", "group"} & set(now.step.move))
    if width < _NARROW:
        return least
    taken = sum(height for part, height in _TAKEN.items() if part in show)
    taken += _TILES * bool(show & set(TILE_PARTS))
    if "table" in show and now.step.table:
        taken += _TABLE_AROUND + _TABLE_ROW * len(now.step.table.rows)
    room, most = (_ROOM_OF_WIDE, _HIGHEST_OF_WIDE) if width >= _WIDE else (_ROOM, _HIGHEST)
    square = (width - GAP * panels) / panels * ratio + _AROUND_CELLS
    return max(min(room - taken, square, most), least)


def _larger(now: Now) -> float | None:
    """Return the factor of enlargement of the picture on a wall; None elsewhere."""
    usual = panels_width(now)
    return enlarge_lesson(_width(usual) / usual)


def _width(usual: float) -> float:
    """Return the width of the panels in pixels, from the browser's last report, on a projector."""
    return bridge_width(f"{_PANELS}_bridge", usual)


def _framed(now: Now, state: LabState) -> tuple[int, ...] | None:
    """Return the cell to frame: the explained one, else the learner's answer or the right one."""
    clicked = (now.id, now.attempt) in st.session_state.get(_CELLS, {})
    explained = _EXPLAINED & (now.step.show - now.covered)
    if now.lesson.format > 1:
        explained = explained if now.step.speaks_of_cell else frozenset()
    if clicked or explained:
        return state.cell
    for question, answer in zip(reversed(now.step.questions), reversed(now.answers), strict=True):
        if isinstance(question, CellQuestion) and answer is not None:
            given = cast("tuple[int, ...]", tuple(answer.given))
            right = question.truth(now.scenes)
            return given if given in right or not now.revealed else min(right)
    return state.cell if now.lesson.format == 1 or now.step.speaks_of_cell else None


def _pointing(now: Now) -> bool:
    asks = next(
        (
            question
            for question, answer in zip(now.step.questions, now.answers, strict=True)
            if answer is None
        ),
        None,
    )
    return isinstance(asks, CellQuestion) and not now.revealed


def _chosen_cell(now: Now, r: QuantResult, place: tuple[int, ...]) -> None:
    """Show the visible numbers of the cell pointed at, with more digits than in the picture."""
    visible = [name for name in PANEL_PARTS if name in now.step.show - now.covered]
    numbers = ", ".join(
        f"{say(f'panels.field.{name}')} = {number(float(getattr(r, name)[place]), 6)}" for name in visible
    )
    st.caption(
        plain(say("app.labelled", name=say("lessons.cell", row=place[0], col=place[1]), value=numbers))
    )


def _clicked(now: Now, state: LabState, pointing: bool) -> None:
    """Take the clicked cell as the answer where the question is for one, else as the one to explain."""
    cell = clicked_cell(f"{_PANELS}_bridge", state.view.matrix(state.source.shape))
    if not cell:
        return
    if pointing:
        key = answer_key(now, now.answers.index(None))
        for axis, place in zip(("row", "col"), cell, strict=True):
            st.session_state[f"{key}_{axis}"] = place
        errors.clear()
    else:
        st.session_state.setdefault(_CELLS, {})[(now.id, now.attempt)] = state.view.index(*cell)


def _pointed(now: Now) -> tuple[int, ...] | None:
    key = answer_key(now, now.answers.index(None))
    place = tuple(st.session_state.get(f"{key}_{axis}") for axis in ("row", "col"))
    return None if None in place else cast("tuple[int, ...]", place)


def _explained(scene: Scene, state: LabState) -> Explanation:
    from quantviz.quantization.explanation import explain

    return scene.why if state.cell == scene.state.cell else explain(scene.result, state.cell)


def _why(now: Now, why: Explanation, r: QuantResult, state: LabState, stamp: int) -> None:
    """Explain a cell, and show the ruler of its block."""
    from quantviz.analysis.range_error import range_curve
    from quantviz.analysis.study import Study

    show = now.step.show - now.covered
    study = Study.of_result(r)
    larger = ruler_larger(now)
    if "sentence" in show:
        show_sentence(why, state.source)
    if "number_line" in show and now.step.move and state_looked_at(now) == IN_HAND:
        show_hand_ruler(now, study, state, why, chart=_PANELS, stamp=stamp, panels=bool(stamp), larger=larger)
        if "flip" in now.step.move:
            show_bits_in_hand(now, state, why)
    elif "number_line" in show:
        detail = ruler_detail(now, show)
        if state.source != now.scenes[HERE].state.source:
            # The other grids are those of the step's own tensor.
            detail = replace(detail, rows=())
        # Where a panel is covered, not all codes may be shown.
        show_cell_ruler(
            why,
            study,
            key="lesson_ruler",
            larger=larger,
            alone=bool(now.covered & set(PANEL_PARTS)),
            detail=detail,
            curve=range_curve(study) if "curve" in show else None,
        )
    if "number_line" in show and (now.place.lesson, now.place.step) == legend_home():
        _legend()
    if "steps" in show:
        show_steps(why)


def _legend() -> None:
    colours = THEMES[theme()]
    signs = (
        ("over", colours.errors[-1]),
        ("under", colours.errors[0]),
        ("bars", translucent(colours.muted, 0.3)),
    )
    parts = "".join(
        f'<span><i style="background: {colour}"></i>{html.escape(say(f"lessons.legend.{name}"))}</span>'
        for name, colour in signs
    )
    st.html(f'<p class="qv-legend">{parts}</p>')


def _bits_plot(now: Now, scene: Scene) -> None:
    """Show SQNR against bits of the state that the picture shows."""
    if "bits_plot" in now.covered:
        st.caption(say("lessons.plot_later"))
        return
    from quantviz.figures.line_plots import marked_line_figure

    if "bits" not in scene.kept:
        scene.kept["bits"] = sqnr_of_bits(scene.state)
    figure = marked_line_figure(
        scene.kept["bits"],
        scene.state.scheme.number_format.bits,
        counted="lessons.plot_bits",
        theme=theme(),
        language=language(),
        enlarge=_larger(now) or enlarge(),
    )
    show_plot(figure, "lesson_bits_plot", laid_out=True)


def _written(value: float) -> str:
    """Return a number of the table: a code or a count with all its digits, anything else with four."""
    return number(value, 7 if value % 1 == 0 else 4)


def _table(now: Now) -> None:
    """Show the states one below the other; each can be looked at in the panels."""
    table = now.step.table
    assert table
    if "table" in now.covered:
        st.caption(say("lessons.table_later"))
        return
    rows = []
    for words, state in table.rows:
        own = {**now.scenes, HERE: now.scenes[state]}
        cells = "".join(f"<td>{_written(float(formula.value(own)))}</td>" for _, formula in table.columns)
        rows.append(f"<tr><td>{html.escape(words.say(now.scenes))}</td>{cells}</tr>")
    st.html(
        # It scrolls where a screen is narrow, or on the wall its part of it low: keys must reach it.
        '<div class="qv-steps qv-table" tabindex=0>'
        f"{table_html(('', *(heading for heading, _ in table.columns)), rows)}</div>"
    )


def show_looks(now: Now) -> None:
    """Show the choice of the state of the table in the panels: on the wall as a list in one line."""
    table = now.step.table
    states = {state: words.say(now.scenes) for words, state in table.rows} if table else {}
    if len(states) > 1 and now.step.show & set(PANEL_PARTS) and _can_look(now):
        if now.step.move:
            # Also before anything was moved: a choice that comes later would move the parts below it.
            states = {IN_HAND: say("lessons.in_hand"), **states}
        look = state_looked_at(now)
        if look not in states:
            look = HERE
        on_wall = classroom().projector
        choose_among(
            "lesson_looks",
            "list" if on_wall else "row",
            say("lessons.look"),
            states,
            look if look in states else None,
            partial(_look, now),
            look="qv-unnamed" if on_wall else "",
        )


def _look(now: Now, chosen: str) -> None:
    """Look at the chosen state; the step's own state is the one in hand as long as nothing was moved."""
    st.session_state[LOOK] = IN_HAND if chosen == HERE and not _is_moved(now) else chosen
