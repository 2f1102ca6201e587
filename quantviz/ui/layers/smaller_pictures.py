"""The pictures of the smaller methods: bias, equalization, outlier channels, scales, grids, clips.

And those of searches: learned rounding, the course of a search, the columns of GPTQ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
import torch

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.figures.line_plots import every_figure, learning_figure
from quantviz.figures.method_plots import ErrorBars, GridEnds, Histogram, Likeness
from quantviz.figures.numbers import WRITING, short_number
from quantviz.figures.theme import THEMES
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.layers.methods.column_sweep import SweepTrace
from quantviz.layers.methods.contract import CourseTrace
from quantviz.layers.methods.every_rounding import WEIGHTS, every_rounding, most_telling
from quantviz.layers.methods.learned_rounding import LearningTrace
from quantviz.layers.methods.rotation import REACH, shares_of_bins
from quantviz.schemes.formats import FORMATS
from quantviz.text import templates
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import choose_among, hold_choice
from quantviz.ui.components.dial import show_dial
from quantviz.ui.components.small_parts import show_figure
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
from quantviz.ui.shell.words import language, plain, say, say_error, theme

_SCRIPT = "sweep_component"
#: Outputs whose weights are shown: more would be lines of less than three pixels.
_MOST_OUTPUTS = 28
#: Channels of the square of cosines, and its height in CSS pixels.
_MOST_CHANNELS = 48
_LIKENESS_HEIGHT = 260
#: The largest whole number that stands for a share of a row's largest push.
_WHOLE = 32767


def show_sweep(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the sweep, with the selected output's weights first."""
    trace = seen.result.trace["gptq"]
    study = seen.result.weights.study
    assert study is not None
    assert study.result is not None
    step = max(1, len(trace.w) // _MOST_OUTPUTS)
    others = (each for each in range(0, len(trace.w), step) if each != cell[1])
    outputs = [cell[1], *others][:_MOST_OUTPUTS]
    weights = trace.w[outputs]
    factor = trace.factor
    largest = factor.abs().amax(1)
    rows, columns = torch.triu_indices(*factor.shape)
    shares = (factor[rows, columns] / largest[rows] * _WHOLE).round().to(torch.int16)
    colours = THEMES[theme()]
    header: dict[str, Any] = {
        "key": f"{seen.key} {cell[1]}",
        "rows": len(outputs),
        "columns": len(factor),
        "reach": float(weights.abs().quantile(0.995)) or 1.0,
        "words": dict(templates("layers.method.sweep", language())),
        "writing": asdict(WRITING),
        "colors": {
            **colours.named("text", "muted", "line", "accent", "font"),
            "positive": colours.values[-1],
            "negative": colours.values[0],
            "output": colours.schemes[0],
            "weight": colours.schemes[1],
        },
    }
    arrays = {
        "weights": _single(weights),
        "pushed": _single(trace.pushed[outputs]),
        "factor": shares.numpy(),
        "largest": _single(largest),
        "diagonal": _single(factor.diagonal()),
        "rounded": _single(study.result.x_hat[cell[1]][trace.order]),
        "loud": _single(trace.hessian.diagonal().sqrt()),
        "order": trace.order.to(torch.int32).numpy(),
        "outputs": np.asarray(outputs, dtype=np.int32),
        "output": _single(trace.output_errors),
        "weight": _single(trace.weight_errors),
        "nearestOutput": _single(trace.nearest_output_errors),
        "nearestWeight": _single(trace.nearest_weight_errors),
    }
    component("quantviz_sweep", _SCRIPT)(key="layers_sweep", data=pack(header, arrays))
    _show_likeness(trace)


def _show_likeness(trace: SweepTrace) -> None:
    """Show the cosines of the loudest input channels, by which one makes up for the error of another."""
    loud = trace.hessian.diagonal()
    order = loud.argsort(descending=True, stable=True)[:_MOST_CHANNELS]
    order = order[loud[order] > 0]
    if len(order) < 2:
        return
    roots = loud[order].sqrt().unsqueeze(1)
    cosines = trace.hessian[order][:, order] / (roots * roots.T)
    one, other = divmod(int(cosines.abs().fill_diagonal_(0).argmax()), len(order))
    channels = tuple(trace.order[order].tolist())
    words = {"one": channels[one], "other": channels[other]}
    cosine = short_number(float(cosines[one, other]))
    show_sentence(say("layers.pictures.likeness.found", cosine=cosine, **words))
    shown = Likeness(tuple(map(tuple, cosines.tolist())), channels)
    show_series(shown, "likeness", say("layers.pictures.likeness.alt"), _LIKENESS_HEIGHT)
    show_terms("hessian", "cosine")


def _single(values: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return numbers as float32, row by row."""
    return values.flatten().numpy().astype(np.float32)


_FIRST = "layers_every_first"
#: The looks of a search by its method, where they are no steps: words under `[rounding_plots]`.
_AXES = {"svdquant": "alpha", "loftq": "round"}
_HEIGHT = 150
_TALL = 190


def show_rounding(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show what a learned rounding did, and every rounding of eight weights of the selected output."""
    trace = next(trace for trace in seen.result.trace.values() if isinstance(trace, LearningTrace))
    show_sentence(_words(trace))
    _show_every(seen, cell[1])
    alt = say("layers.pictures.rounding.alt")
    show_figure(learning_figure, "layers_learning", alt, trace, height=_HEIGHT)


def show_course(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the output error at each look of a search, and the look that was kept."""
    traces = seen.result.trace.items()
    method, trace = next((name, trace) for name, trace in traces if isinstance(trace, CourseTrace))
    axis = _AXES.get(method, "step")
    show_sentence(
        say(
            "layers.pictures.course.found",
            look=say(f"rounding_plots.{axis}"),
            at=short_number(float(trace.steps[trace.best])),
            before=percent(float(trace.errors[0])),
            after=percent(float(trace.errors[trace.best])),
        )
    )
    alt = say("layers.pictures.course.alt")
    show_figure(learning_figure, "layers_course", alt, trace, height=_HEIGHT, axis=axis)


def _words(trace: LearningTrace) -> str:
    """Return the sentence on the weights whose code is another than the nearest."""
    step = int(trace.steps[trace.best])
    return say(
        f"layers.pictures.rounding.{'found' if step else 'none'}",
        flipped=share_of(float(trace.flipped.double().mean())),
        before=percent(float(trace.errors[0])),
        after=percent(float(trace.errors[trace.best])),
        step=step,
    )


def _show_every(seen: SeenLayer, output: int) -> None:
    """Show the roundings of eight weights, and the slider that takes others."""
    inputs = seen.result.shape[1]
    if inputs < WEIGHTS or seen.result.method.bases:
        return
    starts = list(range(0, inputs - WEIGHTS + 1, WEIGHTS))
    held = st.session_state.get(_FIRST)
    try:
        telling = partial(most_telling, output=output)
        first = held if held in starts else seen.found(f"most telling weights of {output}", telling)
        work = partial(every_rounding, output=output, first=first)
        every = seen.found(f"every rounding of {output} {first}", work)
    except QuantVizError as problem:
        st.caption(say_error(problem))
        return
    choose_among(
        "layers_every_choice",
        "range",
        say("layers.pictures.rounding.first"),
        {start: str(start) for start in starts},
        first,
        lambda start: st.session_state.update({_FIRST: start}),
    )
    st.markdown(
        plain(
            say(
                f"layers.pictures.rounding.{'every' if every.better else 'best'}",
                output=output,
                first=first,
                last=first + WEIGHTS - 1,
                better=every.better,
                count=len(every.errors),
                times=short_number(every.times),
            )
        )
    )
    show_figure(every_figure, "layers_every", say("layers.pictures.rounding.every_alt"), every, height=_TALL)


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


def show_stored(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the errors of the stored weight, of rounding it again, and of rounding the weight as it was."""
    errors = {name: error for name, error in asdict(seen.result.trace["stored"]).items() if error is not None}
    names = tuple(say(f"layers.pictures.stored.{name}") for name in errors)
    bars = ErrorBars(names, tuple(errors.values()), axis="stored", percent=True)
    show_series(bars, "stored", say("layers.pictures.stored.alt"))


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
    slide_field("llm_int8", "threshold", reached, chain_field(state, "llm_int8", "threshold"))
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
    slide_field("double_quantization", "block", sizes, chain_field(state, "double_quantization", "block"))
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
