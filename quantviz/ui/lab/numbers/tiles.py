"""The five numbers: the scheme's costs. A lesson shows them as tiles, the Lab in one line with their help."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from quantviz.export.files import scope_of
from quantviz.figures.numbers import WRITING, short_number
from quantviz.lab.state import LabState
from quantviz.live.hand_words import usual_bits
from quantviz.ui.components.small_parts import term
from quantviz.ui.components.tensor_cache import gaussian_db, study_of
from quantviz.ui.lab.learning import learn_address, terms_of
from quantviz.ui.shell.classroom import visible
from quantviz.ui.shell.words import count_text, number, say, say_axis, share

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.streaming.measuring import Measured

#: Metrics with sentences in `metric_texts`.
WORDED_METRICS = ("mse", "sqnr_db", "zeroed_share", "clipped_share")


@dataclass(frozen=True)
class Tile:
    """Contents of one tile."""

    key: str
    value: str
    #: The smaller line under the value.
    line: str
    #: Numbers for the hover text.
    facts: dict[str, str]
    #: The number itself, to compare with the baseline's.
    raw: float


def measured(study: Study, state: LabState) -> Measured:
    """Return the measurements behind the tiles, of the whole tensor or of the part in view."""
    if scope_of(state) == "tensor":
        return study.measured
    return study.measured_part(state.view.index_of(study.shape))


def metric_texts(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return the values of the tiles that a range changes, as they are written, by the tiles' keys.

    `browser/hand/figures_line.js` writes the same while a hand moves.
    """
    return {
        "mse": _figure(metrics["mse"]),
        "sqnr": f"{_figure(metrics['sqnr_db'], 3)} dB",
        "zeroed": share(metrics["zeroed_share"]),
        "clipped": share(metrics["clipped_share"]),
    }


def _figure(value: float, digits: int = 4) -> str:
    return WRITING.none if math.isnan(value) else short_number(value, digits)


def tiles(study: Study, state: LabState) -> tuple[Tile, ...]:
    """Return the five tiles of a study."""
    from quantviz.evaluation.metric_formulas import bits_per_element

    own = measured(study, state)
    m = own.metrics
    count = own.counted
    values = metric_texts(own.metrics)
    cells = math.prod(study.shape if scope_of(state) == "tensor" else state.view.size(study.shape))
    mse = m["mse"]
    zeroed = m["zeroed_share"]
    clipped = m["clipped_share"]
    bits = bits_per_element(study.scheme, study.shape)
    nonzero = round(m["nonzero_share"] * count) if count else 0
    # Pure rounding is 0.289 steps where all steps are alike.
    integers = study.scheme.number_format.kind == "integer"
    if integers:
        line = say("tiles.mse.line", steps=number(m["rmse_steps"], 3))
        in_steps = say("tiles.mse.in_steps", rounding=number(m["unclipped_rmse_steps"], 3))
    else:
        line = say("tiles.mse.line_uneven", rmse=number(m["rmse"], 3))
        in_steps = say("tiles.mse.uneven")
    if cells > count:
        line = say("tiles.left_out", line=line, count=cells - count)
    zeros = say("tiles.zeroed.line", count=count_text(round(zeroed * nonzero)), all=count_text(nonzero))
    clipping = say("tiles.clipped.line", share=share(m["clipping_mse"] / mse if mse else 0.0))
    clipped_count = {"count": str(round(clipped * count) if count else 0)}
    usual = say("tiles.bits.line", bits=usual_bits(study.scheme, bits))
    return (
        Tile("mse", values["mse"], line, {"steps": in_steps, "rmse": number(m["rmse"])}, mse),
        _sqnr(own, values["sqnr"], state),
        Tile("zeroed", values["zeroed"], zeros, {}, zeroed),
        Tile("clipped", values["clipped"], clipping, clipped_count, clipped),
        Tile("bits", f"{bits:.4g}", usual, _storage(study), bits),
    )


def _sqnr(own: Measured, value: str, state: LabState) -> Tile:
    """Return the tile of the SQNR, with the lower median of the axes in view, and that of normal values."""
    from quantviz.evaluation.metric_formulas import sqnr_db_of_lines

    whole = own.metrics["sqnr_db"]
    view = state.view
    medians = dict[int, float]()
    axes = () if view.rows is None else (view.rows, view.cols)
    for axis in axes:
        # A slice keeps the tensor's order of axes, whichever of them is seen as rows.
        place = axis if scope_of(state) == "tensor" else sorted(axes).index(axis)
        each = sqnr_db_of_lines(own.axes[place])
        each = each[~each.isnan()]
        if len(each):
            medians[axis] = float(np.median(each.numpy()))
    line = ""
    if medians:
        worst = min(medians, key=medians.__getitem__)
        one = say_axis(state.source, worst, "one")
        line = say("tiles.sqnr.line", one=one, median=number(medians[worst], 3))
    return Tile("sqnr", value, line, {"gaussian": _gaussian_words(state, whole)}, whole)


def _gaussian_words(state: LabState, sqnr_db: float) -> str:
    """Show the SQNR of normally distributed values, where it is computed."""
    gaussian = gaussian_db(state.scheme, state.source.shape)
    if not math.isfinite(gaussian) or math.isinf(sqnr_db):
        return ""
    lost = gaussian - sqnr_db
    key = "tiles.sqnr.more" if lost > 0 else "tiles.sqnr.less"
    return say(key, gaussian=number(gaussian, 2), lost=number(abs(lost), 2))


def _storage(study: Study) -> dict[str, str]:
    from quantviz.evaluation.metric_formulas import stored_bits

    stored = stored_bits(study.scheme)
    codes = study.layout.padded_size
    cells = math.prod(study.shape)
    parts = [say("tiles.bits.scale", bits=stored.scale)]
    parts += [say("tiles.bits.zero", bits=stored.zero_point)] if stored.zero_point else []
    levels = {"tensor": stored.tensor, "row": stored.row}
    padding = ""
    if stored.whole and codes > cells:
        padding = say("tiles.bits.padding", codes=f"{codes:,}", cells=f"{cells:,}")
    return {
        "code": f"{stored.code:g}",
        "blocks": str(study.layout.block_count),
        "block": say("tiles.bits.and").join(parts),
        "tensor": "".join(say(f"tiles.bits.{name}", bits=bits) for name, bits in levels.items() if bits),
        "padding": padding,
    }


def cover_tile(key: str) -> None:
    """Show the tile's place, while its value is hidden."""
    st.metric(say(f"tiles.{key}.name"), "?")


def show_live_tile(tile: Tile, *, line: bool = True, whose: str = "", short: bool = False) -> None:
    """Show one tile, whose number follows a hand; `whose` is a caption, `short` a shorter name."""
    explained = say(f"tiles.{tile.key}.help", **tile.facts)
    called = say(f"tiles.{tile.key}.{'short' if short else 'name'}")
    name = term(called, explained, key=f"tile_{tile.key}")
    below = _second_line(tile) if line else ""
    below += f'<small class="qv-whose">{html.escape(whose)}</small>' if whose else ""
    value = f'<b data-qv-metric="{tile.key}">{html.escape(tile.value)}</b>'
    st.html(f'<div class="qv-tile">{name}{value}{below}</div>')


def change_against(tile: Tile, before: Tile) -> tuple[str, bool | None]:
    """Return the change against the baseline in words, a factor for the error and a difference for the rest,
    and whether it is for the better; None where nothing has changed.
    """
    if tile.raw == before.raw:
        return say("tiles.same"), None
    better = tile.raw > before.raw if tile.key == "sqnr" else tile.raw < before.raw
    if tile.key == "mse":
        return say("tiles.times", factor=number(tile.raw / before.raw, 3) if before.raw else "∞"), better
    change = tile.raw - before.raw
    unit = {"sqnr": " dB", "zeroed": " pp", "clipped": " pp", "bits": " bit"}[tile.key]
    return number(100 * change if unit == " pp" else change, 3, signed=True) + unit, better


# ---- in one line ------------------------------------------------------------------------------------


def show_numbers(found: tuple[Tile, ...], state: LabState) -> None:
    """Show the state's numbers, against the baseline's where there is one.

    The element with a number has its metric's name as `data-qv-metric`: the browser writes there while a hand
    drags.
    """
    before = {tile.key: tile for tile in baseline_tiles(state)}
    visible_tiles = (tile for tile in found if visible(f"tiles.{tile.key}"))
    shown = "".join(_number(tile, before.get(tile.key), state) for tile in visible_tiles)
    if shown:
        st.html(f'<div class="qv-numbers">{shown}</div>')


def baseline_tiles(state: LabState) -> tuple[Tile, ...]:
    """Return the tiles under the baseline; None without one, or where it does not fit the tensor."""
    if state.baseline is None or state.baseline.problems(state.source.shape):
        return ()
    # One that refuses NaN and Inf could not be held against a scheme that does not.
    choice = state.baseline.nonfinite if state.baseline.nonfinite != "refuse" else state.scheme.nonfinite
    baseline = state.baseline.replace(nonfinite=choice)
    return tiles(study_of(state, baseline), state.replace(scheme=baseline))


def _number(tile: Tile, before: Tile | None, state: LabState) -> str:
    learned = terms_of(f"number_{tile.key}")[0]
    called = say(f"tiles.{tile.key}.short")
    if state.sliced and tile.key != "bits":  # storage is of the whole tensor
        called += f" · {say(f'tiles.scope_{scope_of(state)}')}"
    name = term(
        called,
        say(f"tiles.{tile.key}.help", **tile.facts),
        key=f"number_{tile.key}",
        short=say(f"tiles.{tile.key}.shortest"),
        more=(say("glossary.to_step", term=say(f"glossary.{learned}.name")), learn_address(learned)),
    )
    change = ""
    if before:
        words, better = change_against(tile, before)
        look = {True: "qv-better", False: "qv-worse", None: ""}[better]
        change = f'<em class="{look}" data-qv-change="{tile.key}">{html.escape(words)}</em>'
    return (
        f'<div class="qv-number qv-number-{tile.key}">{name} '
        f'<b data-qv-metric="{tile.key}">{html.escape(tile.value)}</b>{change}{_second_line(tile)}</div>'
    )


def _second_line(tile: Tile) -> str:
    """Return the line under a number; the browser writes there while a hand drags."""
    return f'<small data-qv-line="{tile.key}">{html.escape(tile.line)}</small>' if tile.line else ""
