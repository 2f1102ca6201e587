"""The five tiles: what the scheme cost, each with its meaning on hover."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import streamlit as st

from quantviz.export import slice_index
from quantviz.link import LabState
from quantviz.scheme import Scheme
from quantviz.ui.data import gaussian_sqnr_db, tensor_of
from quantviz.ui.words import number, plain, say, share

if TYPE_CHECKING:
    from quantviz.quantizer import QuantResult

#: The layer size that "bits per weight" is also told for.
_USUAL_LAYER = (4096, 4096)


@dataclass(frozen=True)
class Tile:
    """What one tile says."""

    key: str
    value: str
    #: The smaller line under the value.
    line: str
    #: Numbers for the hover text.
    facts: dict[str, str]
    #: The number itself, to compare with the baseline's.
    raw: float


def seen(r: QuantResult, state: LabState) -> QuantResult:
    """What the tiles count: the whole tensor, or the slice in view."""
    from quantviz.quantizer import part

    return r if state.scope == "tensor" else part(r, slice_index(state.view, r.shape))


def tiles(r: QuantResult, state: LabState) -> tuple[Tile, ...]:
    """The five tiles of a result."""
    from quantviz import measures

    own = seen(r, state)
    m = {name: metric(own) for name, metric in measures.METRICS.items() if name != "effective_bits"}
    bits = measures.effective_bits(r)
    unclipped = measures.steps_of_error(own)[~own.clipped]
    rounding = math.sqrt(float(unclipped.square().mean())) if unclipped.numel() else math.nan
    clipping = m["clipping_mse"] / m["mse"] if m["mse"] else 0.0
    nonzero = int((own.x != 0).sum())
    return (
        Tile(
            "mse",
            number(m["mse"]),
            say("tiles.mse.line", steps=number(m["rmse_steps"], 3)),
            {"rounding": number(rounding, 3), "rmse": number(m["rmse"])},
            m["mse"],
        ),
        Tile("sqnr", f"{number(m['sqnr_db'], 3)} dB", *_sqnr_words(own, state, m["sqnr_db"])),
        Tile("zeroed", share(m["zeroed_share"]), say("tiles.zeroed.line", count=round(m["zeroed_share"] * nonzero), all=nonzero), {}, m["zeroed_share"]),
        Tile(
            "clipped", share(m["clipped_share"]), say("tiles.clipped.line", share=share(clipping)), {"count": str(int(own.clipped.sum()))}, m["clipped_share"]
        ),
        Tile("bits", f"{bits:.4g}", say("tiles.bits.line", bits=_usual_bits(state.scheme)), _storage(r), bits),
    )


def _sqnr_words(r: QuantResult, state: LabState, sqnr_db: float) -> tuple[str, dict[str, str], float]:
    """The median row or column, whichever fares worse, and what a Gaussian would get."""
    from quantviz.measures import sqnr_db_by_axis

    medians = {}
    for name, axis in (("row", 0), ("column", 1)) if r.x.dim() == 2 else ():
        found = sqnr_db_by_axis(r, axis)
        found = found[~found.isnan()]
        medians[name] = float(found.median()) if found.numel() else math.nan
    gaussian = gaussian_sqnr_db(state.scheme, state.source.shape)
    facts = {"gaussian": number(gaussian, 3), "lost": number(gaussian - sqnr_db, 3)}
    if not medians:
        return "", facts, sqnr_db
    worst = min(medians, key=lambda name: medians[name])
    return say(f"tiles.sqnr.{worst}", median=number(medians[worst], 3)), facts, sqnr_db


def _usual_bits(scheme: Scheme) -> str:
    from quantviz.measures import bits_per_element

    return f"{bits_per_element(scheme.fitted(_USUAL_LAYER), _USUAL_LAYER):.4g}"


def _storage(r: QuantResult) -> dict[str, str]:
    scheme = r.scheme
    zero = scheme.number_format.bits if scheme.mode == "asymmetric" else 0
    return {"code": str(scheme.number_format.bits), "blocks": str(r.layout.block_count), "scale": str(scheme.arithmetic.scale_bits), "zero": str(zero)}


def show_tiles(r: QuantResult, state: LabState) -> None:
    """The tiles, against the baseline's where there is one."""
    now = tiles(r, state)
    before: dict[str, Tile] = {}
    if state.baseline and not state.baseline.problems(state.source.shape):
        before = {tile.key: tile for tile in tiles(_under(state.baseline, state), state.replace(scheme=state.baseline))}
    for tile in now:
        _show(tile, before.get(tile.key))
    # A phone shows two tiles and this switch; elsewhere the style hides it.
    st.toggle(say("tiles.more"), key="more_tiles_shown")


def _under(scheme: Scheme, state: LabState) -> QuantResult:
    from quantviz.quantizer import quantize

    return quantize(tensor_of(state.source), scheme)


def _show(tile: Tile, before: Tile | None) -> None:
    facts = {name: plain(value) for name, value in tile.facts.items()}
    delta = before and _delta(tile, before)
    st.metric(
        say(f"tiles.{tile.key}.name"),
        tile.value,
        delta=delta or tile.line or None,
        delta_color=_colour(tile, before) if before and delta else "off",
        delta_arrow="off",
        delta_description=tile.line if delta else None,
        help=say(f"tiles.{tile.key}.help", **facts),
    )


def _delta(tile: Tile, before: Tile) -> str:
    """The change against the baseline: a factor for the error, a difference for the rest."""
    if tile.raw == before.raw:
        return say("tiles.same")
    if tile.key == "mse":
        return say("tiles.times", factor=number(tile.raw / before.raw, 3) if before.raw else "∞")
    change = tile.raw - before.raw
    unit = {"sqnr": " dB", "zeroed": " pp", "clipped": " pp", "bits": " bit"}[tile.key]
    return number(100 * change if unit == " pp" else change, 3, signed=True) + unit


def _colour(tile: Tile, before: Tile) -> Literal["off", "green", "red"]:
    """Green where the change is for the better."""
    if tile.raw == before.raw:
        return "off"
    better = tile.raw > before.raw if tile.key == "sqnr" else tile.raw < before.raw
    return "green" if better else "red"
