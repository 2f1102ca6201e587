"""The tab Range: the gain of another range, or of finer scales, on this very tensor, the curve of the error
against the range, and a table of the results of each calibration.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.analysis.better_schemes import best_of, gain_db, is_by_inputs, worth_db
from quantviz.analysis.recipe_ranking import RecipeRow, priced_bits
from quantviz.lab.moves import range_counts
from quantviz.lab.state import LabState
from quantviz.live.hand_payload import HandCurve, fits_hand
from quantviz.schemes.calibration import MSE, Calibration, MinMax, Percentile
from quantviz.schemes.engine_calibrations import EntropyONNXRuntime, EntropyTensorRT, MSETorch
from quantviz.schemes.formats import MOST_OWN_VALUES
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.controls import switch
from quantviz.ui.components.hand import CurveMark, complete_curve
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.components.phone_tables import TableColumn, is_phone, room_beside_ruler, show_table
from quantviz.ui.components.scheme_words import calibration_words, part_words
from quantviz.ui.components.small_parts import offer, show_refused
from quantviz.ui.components.tensor_cache import ask_study_of, heavy_fact, kept
from quantviz.ui.lab.bars.scheme_bar import other_granularities
from quantviz.ui.lab.picture.tensor_panels import BRIDGE_KEY, PANELS_KEY, block_words
from quantviz.ui.shell import session
from quantviz.ui.shell.bounds import HEAVY_ELEMENTS
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.words import capital, number, plain, say, sentences

if TYPE_CHECKING:
    from quantviz.analysis.calibration_comparison import CalibrationComparison, CalibrationRow
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.analysis.study import Study

_TABLE = "calibrations_table"
_OF = "calibrations_of"
_ALL = "calibrations_all"
#: Whether all values of a large tensor are measured, and about how many cells are where they are not.
_EXACT = "calibrations_exact"
_CELLS = 2**20
_MARK_ALL = "calibrations_marked"
#: Scopes of the table.
_WHOLE = "tensor"
_BLOCK = "block"
#: Calibrations that are marked on the curve beside the present one.
_MARKED: tuple[Calibration, ...] = (MinMax(), Percentile(99.9), MSE())
#: Calibrations that read a histogram of each block, and the most blocks of a large tensor for them.
_BY_HISTOGRAM = (EntropyTensorRT, EntropyONNXRuntime, MSETorch)
_MOST_HISTOGRAMS = 2**15
#: Calibrations that are tried on a large tensor at once; the rest on request.
_AT_FIRST: tuple[Calibration, ...] = (MinMax(), Percentile(99.9), Percentile(99.0), MSE())


@dataclass(frozen=True)
class RangeAnswer:
    """The tab's sentence, and what its button applies."""

    words: str
    #: The label of the button, the scheme that it takes, and the lock that hides it; no scheme, no button.
    label: str = ""
    scheme: Scheme | None = None
    lock: str = "range"


def show_range(state: LabState, sentence: Any, action: Any, known: RangeAnswer | None) -> None:
    """Show the tab's sentence and button; `known` is what `answer_at_once` gave."""
    with sentence:
        answer = known or _answer(state)
        st.markdown(plain(answer.words))
    if answer.scheme is not None:
        with action:
            offer(answer.label, "range_use", partial(session.change, scheme=answer.scheme), lock=answer.lock)


def answer_at_once(study: Study, why: Any, state: LabState) -> RangeAnswer | None:
    """Return the answer about a small tensor, with the curve's marks at hand: ruler, marks and sentence then
    reach the browser together. None of a tensor that takes a while.
    """
    if not _is_small(state):
        return None
    curve_marks(state, block_asked_for(study, why))
    return _answer(state)


def _answer(state: LabState) -> RangeAnswer:
    """Return the gains of another range and of finer scales in dB, and the one that gains most beyond its
    bits. Finer scales that gain less than their bits would in the format are neither told nor offered;
    those that no kernel runs are told as such, where they gain more, and not offered.
    """
    ranges = _compared(state, None)
    now = ranges.current.sqnr_db
    finer = _finer_scales(state, ranges)
    by_range = gain_db(ranges.best.sqnr_db if ranges.best else None, now)
    worth = _worth(finer, now, state)
    clauses = []
    if ranges.best and by_range:
        clauses.append(_range_gain(ranges.best, by_range))
    if finer and worth > 0:
        what = _scales(finer.scheme, state)
        gain = _gain(gain_db(finer.sqnr_db, now))
        clauses.append(say("stage.range.by_scales", what=what, gain=gain, bits=f"{finer.bits:.4g}"))
    words = capital(say("stage.range.and").join(clauses) + say("stage.range.end"))
    not_run = _not_run(state, ranges, finer)
    without = ""
    if not_run is not None:
        what = _scales(not_run.scheme, state)
        gain = _gain(gain_db(not_run.sqnr_db, now))
        without = capital(say("stage.range.no_kernel", what=what, gain=gain))
    of_a_part = say("recipes.of_a_part", share=f"{100 * ranges.share:.2g}") if ranges.share < 1 else ""
    answer = sentences(words if clauses else say("stage.range.none"), without, of_a_part)
    if not clauses:
        return RangeAnswer(answer)
    if finer and worth > by_range:
        return RangeAnswer(answer, plain(capital(_scales(finer.scheme, state))), finer.scheme, "scheme")
    assert ranges.best is not None
    return RangeAnswer(answer, say("stage.range.use_range"), ranges.best.scheme)


def _is_small(state: LabState) -> bool:
    return math.prod(state.source.shape) < HEAVY_ELEMENTS


def _trying(state: LabState) -> AbstractContextManager[None]:
    """Show what takes a while; of a small tensor nothing does."""
    if _is_small(state):
        return nullcontext()
    return st.spinner(say("stage.range.trying"), show_time=True)


def _worth(finer: RecipeRow | None, now_db: float, state: LabState) -> float:
    """Return the gain of finer scales beyond their bits, in dB; 0 where there is none."""
    gained = gain_db(finer.sqnr_db if finer else None, now_db)
    if finer is None or not gained:
        return 0.0
    return worth_db(gained, finer.bits - priced_bits(state.scheme, state.source.shape))


def _finer_scales(state: LabState, ranges: CalibrationComparison, *, run: bool = True) -> RecipeRow | None:
    """Return the best scales that kernels do or do not `run`, measured on the cells tried for ranges."""
    source = state.source
    scheme = state.scheme
    cells = _CELLS if ranges.share < 1 else None
    finer = (scheme.replace(granularity=each) for each in other_granularities(state))
    those = tuple(each for each in finer if is_by_inputs(each, source.shape) != run)
    work = partial(best_of, schemes=those, now_db=ranges.current.sqnr_db, cells=cells)
    with _trying(state):
        return heavy_fact(source, f"scales {run} {cells} {scheme}", work)


def _not_run(state: LabState, ranges: CalibrationComparison, finer: RecipeRow | None) -> RecipeRow | None:
    """Return scales that no kernel runs where they gain more than the offered ones, else None."""
    found = _finer_scales(state, ranges, run=False)
    now = ranges.current.sqnr_db
    by_range = gain_db(ranges.best.sqnr_db if ranges.best else None, now)
    return found if _worth(found, now, state) > max(by_range, _worth(finer, now, state)) else None


def _range_gain(row: CalibrationRow, gain: float) -> str:
    """Return the sentence on a range's gain; where each block has its own ends, with the share they clip."""
    words = {"what": _range_words(row), "gain": _gain(gain)}
    if not math.isnan(row.lo) or math.isnan(row.width_share) or isinstance(row.calibration, MinMax):
        return say("stage.range.by_range", **words)
    shares = {"clipped": row.clipped_share, "width": row.width_share}
    return say("stage.range.by_own", **words, **{name: number(100 * x, 3) for name, x in shares.items()})


def _gain(gain: float) -> str:
    return number(gain, 2, signed=True)


def _range_words(row: CalibrationRow) -> str:
    """Return a range as a phrase, such as "clipping at ±3": with its ends where there is a single range."""
    calibration = row.calibration
    if isinstance(calibration, MinMax):
        return say("stage.range.all_values")
    if not math.isnan(row.lo):
        return say("stage.range.clip_at", at=_ends(row))
    if isinstance(calibration, Percentile):
        return say("stage.range.clip_outermost", share=f"{100 - calibration.p:.3g}")
    return say("stage.range.by_rule", rule=calibration_words(calibration))


def _scales(scheme: Scheme, state: LabState) -> str:
    """Return the granularity in words, such as "one scale for each column"."""
    return part_words(scheme, "granularity", state.source)


# ---- the curve of the error against the range -----------------------------------------------------------


def curve_at_once(study: Study, why: Any, state: LabState) -> HandCurve | None:
    """Return the curve as far as it takes no time, of the tensor or of the selected cell's block; None where
    a range has no effect, or a pass for each point would take too long.
    """
    from quantviz.analysis.clipping_curve import estimated_curves
    from quantviz.analysis.range_error import ranges_to_try

    block = block_asked_for(study, why)
    if not has_curve(study, state):
        return None
    own = study if block is None else study.alone(block)
    ends = ranges_to_try(own, 1)
    if ends is None:
        return None
    name = _curve_name(state, block)
    estimates = kept(state.source, f"estimates {name}", lambda: estimated_curves(own))
    key = hashlib.blake2b(f"{state.source.key} {name}".encode(), digest_size=8).hexdigest()
    return HandCurve(key, block is not None, estimates, float(ends[1][0]))


def complete_marks(curve: HandCurve, study: Study, why: Any, state: LabState) -> None:
    """Add the slower parts to the curve: the calibrations' marks, and the exact points of a large tensor."""
    block = block_asked_for(study, why)
    complete_curve(
        curve.key,
        PANELS_KEY,
        curve_marks(state, block),
        _exact(state, block) if is_far(study, state) else None,
        locked=locked("scheme") or locked("range"),
    )


def _exact(state: LabState, block: tuple[int, ...] | None) -> RangeCurve | None:
    from quantviz.analysis.clipping_curve import BEYOND, STEPS
    from quantviz.analysis.range_error import range_curve

    return ask_study_of(
        state, f"curve {_curve_name(state, block)}", partial(range_curve, steps=STEPS, beyond=BEYOND), block
    )


def _curve_name(state: LabState, block: tuple[int, ...] | None) -> str:
    return f"{state.scheme.replace(calibration=MinMax())} {block}"


# ---- the marks on the curve --------------------------------------------------------------------------


def curve_marks(state: LabState, block: tuple[int, ...] | None) -> tuple[CurveMark, ...]:
    """Return the marks on the curve: `_MARKED` and the best, or all on request; none without one range."""
    found = _compared(state, block)
    rows = [
        row for row in found.rows if not math.isnan(row.lo) and row.calibration != state.scheme.calibration
    ]
    # Those that are always marked come first: where there is no room for all names, they have theirs.
    first = [row for row in rows if row is found.best or row.calibration in _MARKED]
    others = [row for row in rows if row not in first] if st.session_state.get(_MARK_ALL) else []
    return tuple(
        CurveMark(
            row.hi,
            row.mse,
            _mark_words(row),
            say("stage.range.best") if row is found.best else _mark_words(row),
            str(state.scheme.replace(calibration=row.calibration)),
            row is found.best,
        )
        for row in (*first, *others)
    )


def _mark_words(row: CalibrationRow) -> str:
    if isinstance(row.calibration, Percentile):
        return f"{row.calibration.p:g} %"
    return calibration_words(row.calibration)


# ---- the results of each calibration ----------------------------------------------------------------


def show_calibrations(study: Study, why: Any, state: LabState) -> None:
    """Show each calibration's result on the tensor, or on the cell's block; a click on a line takes it."""
    with st.container(key="calibrations"):
        _show_choice(study, why, state)
        block = block_asked_for(study, why)
        if block is None and study.layout.block_count > 1 and has_curve(study, state):
            st.caption(say("stage.range.whose_curve", block=_block_words(study, why, state)))
        found = _compared(state, block)
        rows = sorted((row for row in found.rows if row.problem is None), key=lambda row: row.mse)
        _show_table(rows, state)
        marked = any(not math.isnan(row.lo) for row in rows)
        with st.container(horizontal=True, gap="medium"):
            if _is_far(state, block):
                st.toggle(say("stage.range.all_calibrations"), key=_ALL, help=say("stage.range.all_help"))
                if found.share < 1 or st.session_state.get(_EXACT):
                    st.toggle(say("recipes.exact"), key=_EXACT, help=say("stage.range.exact_help"))
            if marked:
                st.toggle(say("stage.range.mark_all"), key=_MARK_ALL)
            _offer_codebook(study, state)
        if not locked("range"):
            st.caption(say("stage.range.how_marked" if marked else "stage.range.how"))
        if state.scheme.number_format.kind == "integer":
            st.caption(say("stage.range.ghosts"))
        refused = ((capital(calibration_words(row.calibration)), row.problem) for row in found.rows)
        show_refused(refused, "stage.range.not_possible")
        place = "" if block is None else f", block={block}"
        cells = f", cells={_CELLS}" if found.share < 1 else ""
        for call, asked in (("compare_calibrations", place + cells), ("clipping_curve", place)):
            st.caption(f'`qv.{call}(x, "{state.scheme}"{asked}).table()`')
        ranges = _compared(state, None)
        finer = _finer_scales(state, ranges)
        worth = _worth(finer, ranges.current.sqnr_db, state)
        for each in (finer if worth > 0 else None, _not_run(state, ranges, finer)):
            if each is not None:
                gained = " - ".join(map(_sqnr_call, (each.scheme, state.scheme)))
                st.caption(f"`{gained}`")


def _offer_codebook(study: Study, state: LabState) -> None:
    """Show the button that fits a codebook with as many values as there are codes to a small tensor."""
    levels = state.scheme.number_format.levels
    if study.result is None or levels > MOST_OWN_VALUES:
        return
    x = study.result.x

    def take() -> None:
        from quantviz.analysis.fitted_codebook import fit_codebook

        session.change(scheme=fit_codebook(x, session.state().scheme))

    offer(say("stage.range.fit_codebook", levels=levels), "range_codebook", take)


def _sqnr_call(scheme: Scheme) -> str:
    return f'qv.measure(x, "{scheme}").metrics["sqnr_db"]'


def block_asked_for(study: Study, why: Any) -> tuple[int, ...] | None:
    """Return the block that curve and table are about: at first the selected cell's, whose values the ruler
    shows; None for the whole tensor.
    """
    if study.layout.block_count == 1 or st.session_state.get(_OF) == _WHOLE:
        return None
    return tuple(why.block)


def has_curve(study: Study, state: LabState) -> bool:
    """Return whether the error against the range is drawn: a range counts, and its points are soon there."""
    if study.of_file or not visible("number_line") or not range_counts(state.scheme):
        return False
    return not is_far(study, state) or state.scheme.number_format.kind == "integer"


def is_far(study: Study, state: LabState) -> bool:
    """Return whether the browser does not have all values."""
    return study.result is None or not fits_hand(state)


def _block_words(study: Study, why: Any, state: LabState) -> str:
    return block_words(study.layout, study.shape, state.view, why.block)


def _show_choice(study: Study, why: Any, state: LabState) -> None:
    """Show the scopes of curve and table, where there is more than one block."""
    if study.layout.block_count == 1:
        return
    words = {_WHOLE: say("stage.range.of_tensor"), _BLOCK: _block_words(study, why, state)}
    switch(_OF, say("stage.range.of"), words, _BLOCK, look="")


def _compared(state: LabState, block: tuple[int, ...] | None) -> CalibrationComparison:
    """Return the comparison: computed once for a tensor, scheme and block."""
    from quantviz.analysis.calibration_comparison import compare_calibrations

    scheme = state.scheme
    tried = cells = None
    if _is_far(state, block):
        tried = _quick(state) if st.session_state.get(_ALL, False) else _AT_FIRST
        cells = None if st.session_state.get(_EXACT) else _CELLS
    work = partial(compare_calibrations, scheme=scheme, calibrations=tried, block=block, cells=cells)
    with _trying(state):
        return heavy_fact(state.source, f"calibrations {tried} {block} {cells} {scheme}", work)


def _quick(state: LabState) -> tuple[Calibration, ...]:
    """Return the calibrations, without those that would take minutes: a histogram of each of many blocks."""
    from quantviz.analysis.calibration_comparison import all_calibrations

    many = state.scheme.layout(state.source.shape).block_count > _MOST_HISTOGRAMS
    return tuple(each for each in all_calibrations() if not (many and isinstance(each, _BY_HISTOGRAM)))


def _is_far(state: LabState, block: tuple[int, ...] | None) -> bool:
    """Return whether trying all calibrations takes long."""
    return state.large and block is None


def _show_table(rows: list[CalibrationRow], state: LabState) -> None:
    now = state.scheme.calibration
    width = bridge_width(BRIDGE_KEY)
    names = [
        _name(row, is_now=row.calibration == now, is_best=row is rows[0], short=is_phone(width))
        for row in rows
    ]
    columns = (
        TableColumn("name", names, 250, width_on_phone=204, names_lines=True),
        TableColumn("gain", [row.gain_db for row in rows], 76, "%+.2f", on_phone=True),
        TableColumn(
            "range", [_ends(row) for row in rows], 110, on_phone=True, width_on_phone=84, align_right=True
        ),
        TableColumn("sqnr_db", [row.sqnr_db for row in rows], 76, "%.2f"),
        TableColumn("clipped", [100 * row.clipped_share for row in rows], 76, "%.2f %%"),
        TableColumn("mse", [row.mse for row in rows], 76, "%.4g"),
        TableColumn("ms", [1000 * row.seconds for row in rows], 76, "%.0f"),
    )

    def take(line: int) -> None:
        session.change(scheme=session.state().scheme.replace(calibration=rows[line].calibration))

    show_table(
        _TABLE,
        columns,
        width,
        words="stage.range.columns",
        alt=say("stage.range.table_alt"),
        lines=12,
        room=room_beside_ruler(width),
        take=None if locked("range") else take,
    )


def _name(row: CalibrationRow, *, is_now: bool, is_best: bool, short: bool) -> str:
    """Return the calibration's name with its marks, "now" and "best", and without default settings. A
    `short` name, for a phone, is without a word for the best, which stands first.
    """
    from quantviz.analysis.calibration_comparison import all_calibrations

    marks = [say("stage.range.now")] if is_now else []
    marks += [say("stage.range.best")] if is_best and not short else []
    words = capital(calibration_words(row.calibration))
    if row.calibration in all_calibrations(percentiles=()):
        words = say(f"calibrations.{row.calibration.id}.name")
    return f"{words} ({', '.join(marks)})" if marks else words


def _ends(row: CalibrationRow) -> str:
    if math.isnan(row.lo):
        return say("stage.range.each_own")
    if row.lo == -row.hi:
        return f"±{number(row.hi, 4)}"
    return say("stage.range.ends", lo=number(row.lo, 4), hi=number(row.hi, 4))
