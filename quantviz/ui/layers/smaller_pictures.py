"""The pictures of the smaller methods: bias, equalization, outlier channels, scales, grids, clips."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.schemes.formats import FORMATS
from quantviz.ui.components.controls import hold_choice
from quantviz.ui.components.dial import show_dial
from quantviz.ui.layers.scaling_pictures import (
    MOST_CHANNELS,
    chain_field,
    numbers_of,
    peak_of,
    show_series,
    slide_field,
    traded_plot,
)
from quantviz.ui.layers.state import SeenLayer, seen_layer
from quantviz.ui.layers.words import percent, share_of, show_sentence, show_terms
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    import torch

#: The output and the block that are looked at, by their places among those that gain most; and how many of
#: these are offered.
_OUTPUT = "layers_bias_output"
_BLOCK = "layers_ends_block"
_MOST_OFFERED = 24
#: Bins of a histogram that are drawn as one: one output has few errors.
_JOINED = 3
#: Thresholds of outlier channels, and sizes of blocks of scales, that are offered.
_THRESHOLDS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 40.0)
_SCALES = (64, 128, 256, 512, 1024)
#: The values of a block of NVFP4, and its largest code.
_NVFP4 = 16


def _say(key: str, **words: object) -> None:
    """Show the sentence of a picture."""
    show_sentence(say(f"layers.pictures.{key}", **words))


def _choose(key: str, session: str, offered: Iterable[int]) -> int:
    """Show a slider over numbers that only this picture looks at, and return the one chosen."""
    names = {value: str(value) for value in offered}
    first = next(iter(names))
    if len(names) < 2:
        return first
    return int(hold_choice(session, "range", say(f"layers.pictures.{key}"), names, first))


# ---- bias and equalization -------------------------------------------------------------------------------


def show_bias(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show each output's error before and after its mean is taken off, and the errors of one output."""
    from quantviz.figures.method_plots import ErrorBars, Histogram
    from quantviz.layers.methods.rotation import REACH, shares_of_bins

    trace = seen.result.trace["bias_correction"]
    order = trace.removed.argsort(descending=True, stable=True)[:MOST_CHANNELS]
    _say("bias.found", share=share_of(trace.share))
    chosen = _choose("bias.output", _OUTPUT, order[:_MOST_OFFERED].tolist())
    _say(
        "bias.chosen",
        output=chosen,
        mean=short_number(float(trace.mean[chosen])),
        before=short_number(float(trace.squares[chosen])),
        after=short_number(float(trace.left[chosen])),
    )
    left, right = st.columns(2, gap="small")
    with left:
        names = tuple(say("method_plots.output", output=output) for output in order.tolist())
        lit = frozenset({order.tolist().index(chosen)})
        bars = ErrorBars(names, numbers_of(trace.left[order]), numbers_of(trace.squares[order]), lit, "mse")
        show_series(bars, "bias", say("layers.pictures.bias.alt"))
    if seen.cells is None:
        return
    after = seen.cells.error[:, chosen]
    before = after + trace.mean[chosen]
    unit = before.square().mean().sqrt()
    bins = [shares_of_bins(each, unit).reshape(-1, _JOINED).sum(1) for each in (before, after)]
    shown = Histogram(numbers_of(bins[0]), numbers_of(bins[1]), REACH, axis="error_in_rms")
    with right:
        show_series(shown, "bias_errors", say("layers.pictures.bias.errors_alt", output=chosen))


def show_equalization(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the channels' maxima trading height until both sides are equal."""
    trace = seen.result.trace["equalization"]
    _say(
        "equalization.found",
        inputs=short_number(peak_of(trace.x_max)),
        inputs_now=short_number(peak_of(trace.x_max / trace.scales)),
        weights=short_number(peak_of(trace.w_max)),
        weights_now=short_number(peak_of(trace.w_max * trace.scales)),
    )
    plot = traded_plot(trace, trace.scales[None], "equalization_channels_alt")
    show_dial("layers_equalization", "", {0: ""}, 0, (plot,), lambda _: None)


# ---- channels in half precision --------------------------------------------------------------------------


def show_outliers(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the threshold as a slider, and the channels' maxima with those lit that stay in half precision."""
    from quantviz.figures.method_plots import ErrorBars

    trace = seen.result.trace["llm_int8"]
    order = trace.x_max.argsort(descending=True, stable=True)[:MOST_CHANNELS]
    kept = int(trace.kept.sum())
    rest = trace.x_max[~trace.kept]
    _say(
        "llm_int8.found" if kept else "llm_int8.none",
        kept=kept,
        channels=len(trace.kept),
        threshold=short_number(trace.threshold),
        loudest=short_number(float(trace.x_max.max())),
        rest=short_number(float(rest.max())) if len(rest) else "0",
        bits=short_number(seen.result.effective_bits),
    )
    reached = [each for each in _THRESHOLDS if each < 2 * float(trace.x_max.max())]
    slide_field(state, "llm_int8", "threshold", reached, chain_field(state, "llm_int8", "threshold"))
    bars = ErrorBars(
        tuple(say("method_plots.channel", channel=channel) for channel in order.tolist()),
        numbers_of(trace.x_max[order]),
        lit=frozenset(trace.kept[order].nonzero().flatten().tolist()),
        axis="largest_input",
        level=(trace.threshold, "threshold"),
    )
    show_series(bars, "llm_int8", say("layers.pictures.llm_int8.alt"))


# ---- scales of blocks ------------------------------------------------------------------------------------


def show_double(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the scales that share one as a slider, and how far each scale moves when it is stored."""
    from quantviz.figures.method_plots import ErrorBars

    trace = seen.result.trace["double_quantization"]
    before, after = trace.before.abs().double(), trace.after.abs().double()
    change = (after - before).abs() / before.where(before > 0, math.inf)
    plain_bits = seen_layer(state, method=NEAREST).result.effective_bits
    _say(
        "double_quantization.found",
        count=len(before),
        mean=short_number(trace.mean),
        worst=share_of(float(change.max())),
        bits=short_number(seen.result.effective_bits),
        plain=short_number(plain_bits),
    )
    sizes = [each for each in _SCALES if each <= max(len(before), _SCALES[0])]
    slide_field(
        state, "double_quantization", "block", sizes, chain_field(state, "double_quantization", "block")
    )
    shown = slice(0, MOST_CHANNELS)
    names = tuple(say("method_plots.block", block=block) for block in range(len(before[shown])))
    left, right = st.columns(2, gap="small")
    with left:
        bars = ErrorBars(names, numbers_of(after[shown]), numbers_of(before[shown]), axis="scales")
        show_series(bars, "double", say("layers.pictures.double_quantization.alt"))
    with right:
        bars = ErrorBars(names, numbers_of(change[shown]), axis="change", percent=True)
        show_series(bars, "double_change", say("layers.pictures.double_quantization.change_alt"))


def show_ends(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show a block whose largest value becomes 4, beside NVFP4's own, where it becomes 6."""
    from quantviz.figures.method_plots import GridEnds

    four = seen.result.trace["four_over_six"].four
    studies = (seen_layer(state, method=NEAREST).result.weights.study, seen.result.weights.study)
    results = [study.result for study in studies if study is not None and study.result is not None]
    if len(results) < 2:
        return
    errors = [each.error.double().square().reshape(len(four), -1, _NVFP4).sum(2) for each in results]
    gains = ((errors[0] - errors[1]) * four).flatten()
    offered = gains.argsort(descending=True, stable=True)[: min(_MOST_OFFERED, int(four.sum()))]
    _say(
        "four_over_six.found" if len(offered) else "four_over_six.none",
        share=share_of(float(four.double().mean())),
        before=short_number(float(errors[0].sum())),
        after=short_number(float(errors[1].sum())),
    )
    if not len(offered):
        return
    block = _choose("four_over_six.block", _BLOCK, offered.tolist())

    def of_block(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(-1, _NVFP4)[block].double()

    units = [float(each.qparams.scale.flatten()[block]) for each in results]
    grid = FORMATS["float4_e2m1fn"]
    shown = GridEnds(
        (6.0, 4.0),
        tuple(numbers_of(of_block(each.x) / unit) for each, unit in zip(results, units, strict=True)),
        tuple(numbers_of(of_block(each.x_hat) / unit) for each, unit in zip(results, units, strict=True)),
        tuple(float(each.flatten()[block]) for each in errors),
        tuple(grid.value(code) for code in range(grid.levels // 2)),
    )
    show_series(shown, "ends", say("layers.pictures.four_over_six.alt"))


# ---- grids and clips -------------------------------------------------------------------------------------


def show_grid(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the weights over their scale, a Gaussian, and the values of the grid."""
    from quantviz.figures.method_plots import Histogram
    from quantviz.layers.methods.rotation import REACH

    trace = seen.result.trace["higgs"]
    reason = "near" if trace.weights < 1.2 * trace.gaussian else "far"
    if "rotation" in seen.result.trace and seen.result.trace["rotation"].block > 1:
        reason = "turned" if reason == "near" else "turned_far"
    _say(
        f"higgs.{reason}",
        values=len(trace.values),
        gaussian=percent(trace.gaussian),
        weights=percent(trace.weights),
    )
    shown = Histogram((), numbers_of(trace.bins), REACH, grid=trace.values, axis="over_scale")
    show_series(shown, "higgs", say("layers.pictures.higgs.alt"))


def show_codebook(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the weights over their scales, and the values of the codebook that fits them."""
    from quantviz.figures.method_plots import Histogram
    from quantviz.layers.methods.rotation import REACH

    trace = seen.result.trace["kmeans"]
    _say(
        "kmeans.found",
        values=len(trace.values),
        nearest=percent(trace.nearest),
        fitted=percent(trace.fitted),
    )
    grid = tuple(value for value in trace.values if abs(value) <= REACH)
    shown = Histogram((), numbers_of(trace.bins), REACH, grid=grid, axis="over_rms")
    show_series(shown, "kmeans", say("layers.pictures.kmeans.alt"))
    show_terms("rms")


def show_clips(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show how many blocks are clipped at each share of their largest weight, and the error of all at it."""
    from quantviz.figures.method_plots import ErrorBars

    trace = seen.result.trace["awq_clip"]
    blocks = trace.chosen.numel()
    counts = [int((trace.chosen == share).sum()) for share in trace.shares]
    clipped = blocks - counts[0]
    _say(
        "awq_clip.found" if clipped else "awq_clip.none",
        clipped=clipped,
        blocks=blocks,
        least=short_number(float(trace.chosen.min())),
        one=share_of(min(trace.losses)),
    )
    names = tuple(f"{share:g}" for share in trace.shares)
    left, right = st.columns(2, gap="small")
    with left:
        bars = ErrorBars(
            names, tuple(count / blocks for count in counts), axis="clips", percent=True, numbers=True
        )
        show_series(bars, "awq_clip", say("layers.pictures.awq_clip.alt"))
    with right:
        bars = ErrorBars(names, trace.losses, axis="clip_loss", percent=True, numbers=True)
        show_series(bars, "awq_clip_loss", say("layers.pictures.awq_clip.loss_alt"))
