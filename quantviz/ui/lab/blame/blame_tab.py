"""The tab Blame: the cells, rows or columns that cost the others their accuracy, and the remedies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from quantviz.analysis.recipe_ranking import priced_at, priced_bits
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import ManualRange
from quantviz.schemes.granularity import Flat, Granularity, PerChannel, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.views import View
from quantviz.ui.components.controls import switch
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.components.phone_tables import TableColumn, room_beside_ruler, show_table
from quantviz.ui.components.scheme_words import part_words
from quantviz.ui.components.small_parts import offer, show_plot
from quantviz.ui.components.tensor_cache import ask_study_of, heavy_fact, inputs_of, searches
from quantviz.ui.lab.picture.tensor_panels import BRIDGE_KEY, block_words
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import enlarge, locked
from quantviz.ui.shell.words import capital, language, number, plain, say, sentences, shape_text, theme

if TYPE_CHECKING:
    from quantviz.analysis.blame import Blame, Kept, Remedy, Suspect
    from quantviz.analysis.study import Study

_PARTS = "blame_parts"
#: Parts that are named one by one.
_MOST_NAMED = 4
#: The same of parts that a sentence finds guilty together: all of them, as far as it stays one sentence.
_MOST_TOGETHER = 8
#: Least gain of a remedy to be offered.
_LEAST_GAIN_DB = 0.05
#: Most weights, inputs and products of both in a search for scales of a captured weight's columns, and most
#: weights where each block's range is a search too: some seconds' work of the process beside the server.
_MOST_WEIGHTS = 2**18
_MOST_INPUTS = 2**21
_MOST_PRODUCTS = 2**29
_MOST_SEARCHED = 2**16
#: Columns that a phone shows at first, and a tablet, beside the one that names the lines.
_ON_PHONE = ("caused", "suffered", "gain", "runs")
#: Most channels that are named as the place of the cells, where they hold half of them.
_MOST_CHANNELS = 3
#: The scheme's own blocks, among the kinds of parts; and lines of their table that are seen at once.
_BLOCKS = "blocks"
_MOST_LINES = 12


def show_blame(study: Study, state: LabState, sentence: Any, action: Any, body: Any) -> None:
    """Show the parts of largest cost in a sentence, offer remedies, and rank the analysed parts."""
    with sentence:
        found = _found(state)
        st.markdown(plain(_answer(found[0], state)))
    with action:
        for remedy in _helping(found[0], state):
            if remedy.scheme is not None:
                label = plain(capital(_scheme_words(remedy.scheme, remedy.id, state)))
                offer(label, "blame_use", partial(session.change, scheme=remedy.scheme))
    with body, st.container(key="blame"):
        shown = _chosen_parts(found, study, state)
        if shown is None:
            _show_blocks(study, state)
            return
        _show_suspects(shown, state)
        if shown.remedies:
            _show_remedies(shown, state)
        _show_curve(shown)
        # Last, as nothing else waits for it.
        _show_by_activations(state)
        st.caption(f"`{_call(shown, state)}.table()`")


def blamed(state: LabState) -> npt.NDArray[np.bool_] | None:
    """Return the mask of the cells in view that cost most, bool of rows and columns; None without any."""
    best = _found(state)[0]
    return None if best.choice is None else parts_in_view(best, state.source.shape, state.view)


def parts_in_view(blame: Blame, shape: Shape, view: View) -> npt.NDArray[np.bool_]:
    """Return the mask of the cells in view that belong to the chosen parts: cells, or channels of an axis."""
    rows, cols = view.size(shape)
    seen = np.zeros((rows, cols), bool)
    assert blame.choice is not None
    numbers = np.array(blame.choice.numbers)
    if not isinstance(blame.parts, PerChannel):
        places = np.stack(np.unravel_index(numbers, shape), 1)
        shown = (view.rows, view.cols)
        held = [axis for axis in range(len(shape)) if axis not in shown]
        places = places[(places[:, held] == np.array(view.at)[held]).all(1)]
        row = np.zeros(len(places), int) if view.rows is None else places[:, view.rows] - view.top
        col = places[:, view.cols] - view.left
        inside = (row >= 0) & (row < rows) & (col >= 0) & (col < cols)
        seen[row[inside], col[inside]] = True
        return seen
    axis = blame.parts.axis % len(shape)
    if axis == view.cols:
        seen[:, np.isin(np.arange(view.left, view.left + cols), numbers)] = True
    elif axis == view.rows:
        seen[np.isin(np.arange(view.top, view.top + rows), numbers)] = True
    else:
        seen[:] = view.at[axis] in numbers
    return seen


def _found(state: LabState) -> tuple[Blame, ...]:
    """Return the blame of each kind of parts, by its cost to the others, largest first: computed once for a
    tensor and scheme. Of a large tensor only one kind of parts is analysed, at first its columns.
    """
    from quantviz.analysis.blame import blame, culprits

    source = state.source
    scheme = state.scheme
    parts = _asked_for(state) if state.large else None
    with st.spinner(say("blame.looking"), show_time=True):
        if parts is None:
            return heavy_fact(source, f"blame {scheme}", partial(culprits, scheme=scheme))
        look = partial(blame, scheme=scheme, parts=parts)
        return (heavy_fact(source, f"blame {parts} {scheme}", look),)


def _kinds(state: LabState) -> dict[str, Granularity]:
    """Return the kinds of parts that can be taken out of a tensor, by their text form."""
    axes = (axis for axis, length in enumerate(state.source.shape) if length > 1)
    parts: list[Granularity] = [Flat(1)]
    if len(state.source.shape) > 1:
        parts += (PerChannel(axis) for axis in axes)
    return {str(each): each for each in reversed(parts)}


def _asked_for(state: LabState) -> Granularity:
    kinds = _kinds(state)
    return kinds.get(str(st.session_state.get(_PARTS)), next(iter(kinds.values())))


# ---- the answer, and the remedies ---------------------------------------------------------------------


def _answer(blame: Blame, state: LabState) -> str:
    choice = blame.choice
    if choice is None:
        return _costliest(blame, state)
    what = _names(blame.parts, _costliest_first(blame, choice.numbers), state)
    before = _db(choice.rest_before_db)
    finding = say("blame.found", what=what, before=before, after=_db(choice.rest_after_db))
    brings = (_brings(each, state) for each in _helping(blame, state))
    return sentences(finding, _gathered(blame, choice.numbers, state), *brings)


def _costliest(blame: Blame, state: LabState) -> str:
    """Return the sentence on the part of largest cost, where no remedy is worth its bits."""
    most = blame.costliest
    if most is None:
        return say("blame.none")
    share = number(100 * most.caused_share, 2)
    finding = say("blame.costliest", what=_names(blame.parts, (most.number,), state), share=share)
    return sentences(finding, *(_brings(each, state) for each in _helping(blame, state)))


def _brings(remedy: Remedy, state: LabState) -> str:
    more = round(_bits(remedy, state), 6)
    words = capital(_words_of(remedy, state))
    gain = number(round(remedy.whole_after_db - remedy.whole_before_db, 6), 2, signed=True)
    key = "blame.brings" if more else "blame.brings_for_nothing"
    return say(key, remedy=words, gain=gain, bits=number(more, 2, signed=True))


def _bits(remedy: Remedy, state: LabState) -> float:
    """Return the bits an element that a remedy adds: a scheme is priced as it is everywhere in the Lab."""
    if remedy.scheme is None:
        return remedy.bits_added
    shape = state.source.shape
    return priced_bits(remedy.scheme, shape) - priced_bits(state.scheme, shape)


def _costliest_first(blame: Blame, numbers: Sequence[int]) -> list[int]:
    """Return parts in their order, or, where only some are named, those that cost most before the others."""
    if len(numbers) <= _MOST_NAMED:
        return list(numbers)
    # Those that are chosen are the first suspects, by the error that they cause.
    known = [each.number for each in blame.suspects if each.number in numbers]
    return known + [each for each in numbers if each not in known]


def _gathered(blame: Blame, numbers: Sequence[int], state: LabState) -> str:
    """Return the few channels that hold half of many cells or more; nothing where no few do."""
    if blame.parts != Flat(1) or len(numbers) <= _MOST_NAMED:
        return ""
    found = []
    for axis, at in enumerate(np.unravel_index(np.array(numbers), state.source.shape)):
        channels, counts = np.unique(at, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:_MOST_CHANNELS]
        held = np.cumsum(counts[order])
        enough = int(np.searchsorted(held, len(numbers) / 2))
        if enough < len(order) and len(channels) > 1:
            chosen = tuple(sorted(channels[order[: enough + 1]].tolist()))
            found.append((len(chosen), axis, chosen, int(held[enough])))
    if not found:
        return ""
    _, axis, chosen, count = min(found)
    return say("blame.gathered", count=count, what=_names(PerChannel(axis), chosen, state))


def _call(blame: Blame, state: LabState) -> str:
    """Return the Python code that gives it."""
    parts = "Flat(1)" if blame.parts == Flat(1) else repr(blame.parts)
    return f'qv.blame(x, "{state.scheme}", qv.{parts})'


def _helping(blame: Blame, state: LabState) -> tuple[Remedy, ...]:
    """Return the remedies that help and run on kernels: the scheme of largest net gain, and AWQ's scaling."""
    from quantviz.analysis.blame import DB_PER_BIT

    deployable = (each for each in blame.remedies if each.is_deployable)
    helping = [each for each in deployable if each.whole_after_db - each.whole_before_db >= _LEAST_GAIN_DB]
    schemes = [each for each in helping if each.scheme]
    schemes.sort(key=lambda each: DB_PER_BIT * _bits(each, state) - each.whole_after_db)
    return (*schemes[:1], *(each for each in helping if each.id == "fold"))


def _scheme_words(scheme: Scheme, remedy: str, state: LabState) -> str:
    if remedy in ("finer", "groups"):
        return part_words(scheme, "granularity", state.source)
    assert isinstance(scheme.calibration, ManualRange)
    lo, hi = (number(end, 3) for end in (scheme.calibration.lo, scheme.calibration.hi))
    at = f"±{hi}" if scheme.mode == "symmetric" else say("stage.range.ends", lo=lo, hi=hi)
    return say("stage.range.clip_at", at=at)


def _words_of(remedy: Remedy, state: LabState) -> str:
    if remedy.scheme is None:
        return say(f"blame.remedies.{remedy.id}")
    return _scheme_words(remedy.scheme, remedy.id, state)


def _remedy_words(remedy: Remedy, blame: Blame, state: LabState) -> str:
    if remedy.id in ("finer", "groups") and remedy.scheme:
        return part_words(remedy.scheme, "granularity", state.source)
    if remedy.id == "fold":  # a line of a table has no room for how it is found
        return say("blame.fold_in_table")
    return say(f"blame.remedies.{remedy.id}", format=blame.kept_as)


# ---- the analysed parts -------------------------------------------------------------------------------


def _chosen_parts(found: Sequence[Blame], study: Study, state: LabState) -> Blame | None:
    """Return the blame in the tables: at first of the parts of largest cost; None for a scheme's blocks."""
    kinds = _kinds(state) if state.large else {str(blame.parts): blame.parts for blame in found}
    words = {name: _kind(parts, state) for name, parts in kinds.items()}
    if study.layout.block_count > 1:
        words[_BLOCKS] = say("places.ranked.blocks")
    chosen = switch(_PARTS, say("blame.parts"), words, first=str(found[0].parts))
    if chosen == _BLOCKS:
        return None
    return next((blame for blame in found if str(blame.parts) == chosen), found[0])


def _show_suspects(blame: Blame, state: LabState) -> None:
    lines: list[Suspect | Kept] = [*blame.suspects]
    names = [_names(blame.parts, (each.number,), state) for each in blame.suspects]
    if blame.choice is not None and blame.choice.k > 1:
        # Of equally loud parts none costs anything by itself.
        lines.insert(0, blame.choice)
        names.insert(0, say("blame.together", count=blame.choice.k))
    columns = (
        TableColumn("part", names, 112, width_on_phone=172, names_lines=True),
        _column("caused", [_percent(each.caused_share) for each in lines], "%.1f %%"),
        _column("suffered", [_percent(each.suffered_share) for each in lines], "%.1f %%"),
        _column("before", [each.rest_before_db for each in lines], "%.1f"),
        _column("after", [each.rest_after_db for each in lines], "%.1f"),
        _column("absmax", [each.absmax for each in lines], "%.4g"),
    )
    _table("blame_suspects", columns)
    named = _all_chosen(blame, state)
    if named:
        with st.expander(say("blame.each")):
            st.text(named)


def _all_chosen(blame: Blame, state: LabState) -> str:
    """Return the names of all chosen parts where a sentence names only some; nothing where it names all."""
    if blame.choice is None or blame.choice.k <= _MOST_TOGETHER:
        return ""
    return _names(blame.parts, blame.choice.numbers, state, blame.choice.k)


def _show_blocks(study: Study, state: LabState) -> None:
    """Show the scheme's blocks, by the cost of the loudest cell of each to the others in it."""
    from quantviz.analysis.block_costs import block_costs

    rows = ask_study_of(state, f"block costs {state.scheme}", block_costs).rows
    blocks = [block_words(study.layout, study.shape, state.view, each.block) for each in rows]
    columns = (
        TableColumn("block", blocks, 180, width_on_phone=172, names_lines=True),
        _column("loudest", [f"({', '.join(map(str, each.loudest))})" for each in rows]),
        _column("caused", [_percent(each.caused_share) for each in rows], "%.1f %%"),
        _column("suffered", [_percent(each.suffered_share) for each in rows], "%.1f %%"),
        _column("before", [each.others_before_db for each in rows], "%.1f"),
        _column("after", [each.others_after_db for each in rows], "%.1f"),
    )
    _table("blame_blocks", columns, lines=_MOST_LINES)
    st.caption(f'`qv.block_costs(x, "{state.scheme}").table()`')


def _show_remedies(blame: Blame, state: LabState) -> None:
    remedies = blame.remedies
    rest_db = [each.rest_after_db for each in remedies]
    words = [_remedy_words(each, blame, state) for each in remedies]
    columns = (
        TableColumn("remedy", words, 230, width_on_phone=204, names_lines=True),
        _column("gain", [each.whole_after_db - each.whole_before_db for each in remedies], "%+.1f"),
        _column("runs", ["✓" if each.is_deployable else say("blame.no_kernel") for each in remedies]),
        _column("whole", [each.whole_after_db for each in remedies], "%.1f"),
        _column("bits", [_bits(each, state) for each in remedies], "%+.3f"),
        TableColumn("others", ["–" if math.isnan(db) else _db(db) for db in rest_db], 84, align_right=True),
    )
    what = _names(blame.parts, _costliest_first(blame, remedies[0].numbers), state)
    st.caption(say("blame.what_helps", what=what))
    takes = any(each.scheme for each in remedies) and not locked("scheme")
    _table("blame_remedies", columns, take=partial(_take_line, remedies) if takes else None)
    named = [_remedy_words(each, blame, state) for each in remedies if each.scheme is not None]
    how = say("blame.how", remedies=say("blame.between").join(named)) if takes else ""
    beyond = say("blame.beyond", what=what, format=blame.kept_as)
    st.caption(f"{sentences(plain(how), plain(beyond))} `{_call(blame, state)}.keep(x)`")
    layer = priced_at(blame.shape)
    if layer != blame.shape:
        st.caption(say("blame.small", shape=shape_text(blame.shape), layer=shape_text(layer)))


def _show_by_activations(state: LabState) -> None:
    """Show the sentence on AWQ's scaling of columns by the inputs of a captured weight, if that helps."""
    from quantviz.layers.layer_numbers import column_scaling, output_sqnr_db

    source = state.source
    most = _MOST_SEARCHED if searches(state.scheme) else _MOST_WEIGHTS
    outputs = -(-min(math.prod(source.shape), most) // source.shape[-1])
    inputs = inputs_of(source, most=min(_MOST_INPUTS, _MOST_PRODUCTS // outputs))
    if inputs is None:
        return
    work = partial(column_scaling, inputs=inputs, scheme=state.scheme, most=most)
    found = heavy_fact(source, f"column scaling {state.scheme}", work)
    if found is None:
        return
    before, after = output_sqnr_db(found.nearest), output_sqnr_db(found.scaled)
    if after - before >= _LEAST_GAIN_DB:
        tokens = {"used": found.used, "held": found.held_back}
        answer = say("blame.by_activations", before=_db(before), after=_db(after), **tokens)
        rows = source.shape[0]
        of_some = say("blame.of_outputs", outputs=found.outputs, all=rows) if found.outputs < rows else ""
        st.markdown(plain(sentences(answer, of_some)))


def _take_line(remedies: Sequence[Remedy], line: int) -> None:
    scheme = remedies[line].scheme
    if scheme is not None:
        session.change(scheme=scheme)


def _column(name: str, values: Sequence[Any], form: str = "") -> TableColumn:
    return TableColumn(name, values, 84, form, on_phone=name in _ON_PHONE)


def _table(key: str, columns: Sequence[TableColumn], **look: Any) -> None:
    width = bridge_width(BRIDGE_KEY)
    alt = say(f"blame.{key}_alt")
    show_table(key, columns, width, words="blame.columns", alt=alt, room=room_beside_ruler(width), **look)


def _show_curve(blame: Blame) -> None:
    from quantviz.figures.line_plots import marked_line_figure

    points = [(each.k, each.whole_db) for each in blame.curve]
    chosen = blame.choice.k if blame.choice else None
    figure = marked_line_figure(
        points,
        chosen,
        counted="blame.plot_kept",
        theme=theme(),
        language=language(),
        enlarge=enlarge(),
    )
    show_plot(figure, "blame_curve", say("blame.plot_alt"), laid_out=True)


# ---- words --------------------------------------------------------------------------------------------


def _percent(share: float) -> float:
    """Return a share in percent, as it is shown: sums that differ by their last digits are no error."""
    return round(100 * share, 1) + 0.0


def _db(value: float) -> str:
    # Sums that differ by their last digits are no decibels.
    return number(round(value, 6) + 0.0, 3)


def _form(parts: Granularity, state: LabState) -> tuple[str, int]:
    """Return under which words parts are named, and their axis."""
    if not isinstance(parts, PerChannel):
        return "cell", -1
    axis = parts.axis % len(state.source.shape)
    return {state.view.rows: "row", state.view.cols: "column"}.get(axis, "index"), axis


def _kind(parts: Granularity, state: LabState) -> str:
    form, axis = _form(parts, state)
    return say(f"blame.kinds.{form}", axis=axis)


def _names(parts: Granularity, numbers: Sequence[int], state: LabState, most: int = _MOST_TOGETHER) -> str:
    """Return parts by name, at most so many of them: "column 5", "columns 5, 9 and 3 more"."""
    form, axis = _form(parts, state)
    listed = [str(each) for each in numbers[:most]]
    if form == "cell":
        places = (np.unravel_index(each, state.source.shape) for each in numbers[:most])
        listed = [f"({', '.join(str(int(at)) for at in place)})" for place in places]
    what = ", ".join(listed)
    if len(numbers) > most:
        what = say("blame.and_more", what=what, count=len(numbers) - most)
    return say(f"blame.{'one' if len(numbers) == 1 else 'many'}.{form}", what=what, axis=axis)
