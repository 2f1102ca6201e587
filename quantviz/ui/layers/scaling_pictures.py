"""The pictures of rotation, SmoothQuant, AWQ and low rank: each with the parameter that its chain has now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st
import torch

from quantviz.figures.marks import Marks
from quantviz.figures.method_plots import ErrorBars, Shown, method_figure
from quantviz.figures.numbers import number, short_number
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.layers.methods.awq import awq_scales
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.channel_scales import SmoothTrace
from quantviz.layers.methods.rotation import (
    REACH,
    RotationSpread,
    RotationTrace,
    can_turn_by_angle,
    hadamard_blocks,
)
from quantviz.layers.work import channels_kept_apart, errors_of_channels, traces_of_turns
from quantviz.ui.components.controls import choose_among, switch
from quantviz.ui.components.dial import Plot, show_dial
from quantviz.ui.components.small_parts import show_button, show_figure
from quantviz.ui.layers.state import OWNER, SeenLayer, errors_of_chains, seen_layer
from quantviz.ui.layers.words import compared, percent, show_sentence, show_terms
from quantviz.ui.shell.words import say

#: How many times as far as in the middle of the values bars may reach inside of the picture.
_BEYOND = 3
#: Root mean squares that are named below a histogram.
_TICKS = (-6, -3, 0, 3, 6)
#: The least share of the energy that is drawn.
_LEAST_ENERGY = 1e-3


def curve_plot(words: str, errors: tuple[float, ...], without: float, stops: list[float], alt: str) -> Plot:
    """Return the line of errors over the values; nan has no point.

    Args:
        words: The key of the error's words under `[method_plots]`.
        errors: The error at each value.
        without: That without the method.
        stops: The values.
        alt: Describes the picture.
    """
    heights = np.log([error if 0 < error < math.inf else math.nan for error in errors])
    level = math.log(without) if 0 < without < math.inf else math.nan
    places = np.arange(len(errors), dtype=float)
    last = places[-1]
    known = ~np.isnan(heights)
    drawn = [each for each in (*heights, level) if not math.isnan(each)] or [0.0]
    low, high = min(drawn), max(drawn)
    now = heights[:, None]

    def at_now(where: npt.NDArray[np.bool_], align: str) -> Marks:
        """Return the words of the present value where it is one of these."""
        x = np.where(where & known, places, math.nan)[:, None]
        written = tuple(map(percent, errors))
        return Marks("words", x, now, "text", labels=written, align=align, nudge=(0, 17))

    middle = (places > 0) & (places < last)
    marks = (
        *_level_marks(heights, level, percent(without)),
        Marks("line", places[known], heights[known]),
        Marks("dots", places[known], heights[known], size=2.5),
        _words(0, low, f"{stops[0]:g}", "left", (-8, 37)),
        _words(last, low, f"{stops[-1]:g}", "right", (8, 37)),
        Marks("dots", places[:, None], now, "surface", 8),
        Marks("dots", places[:, None], now, "accent", 6),
        at_now(places == 0, "left"),
        at_now(middle, "center"),
        at_now((places == last) & (places > 0), "right"),
    )
    frame = (0, max(last, 1), low, high if high > low else low + 1)
    return Plot(say(f"method_plots.{words}"), alt, frame, marks, edges=(8, 8, 16, 44))


def _words(x: float, y: float, words: str, align: str, nudge: tuple[float, float]) -> Marks:
    return Marks("words", np.array([x]), np.array([y]), "muted", labels=(words,), align=align, nudge=nudge)


def _level_marks(heights: npt.NDArray[np.float64], level: float, written: str) -> tuple[Marks, ...]:
    """Return the dashed line of the error without the method, and its words where the curve leaves room."""
    if math.isnan(level):
        return ()
    count = len(heights)
    half = -(-count // 2)
    halves = {"right": heights[-half:], "left": heights[:half]}

    def is_free(side: str, above: bool) -> bool:
        shown = halves[side][~np.isnan(halves[side])]
        return bool(((shown <= level) == above).all())

    above = is_free("right", True) or is_free("left", True)
    is_left = not is_free("right", above) and is_free("left", above)
    x, align, right = (0, "left", -6) if is_left else (count - 1, "right", 6)
    words = f"{say('method_plots.without')} {written}"
    return (
        Marks("line", np.array([-count, 2 * count]), np.array([level, level]), "muted", 1, dashed=True),
        _words(x, level, words, align, (right, -8 if above else 9)),
    )


def mirrored_plot(
    sides: tuple[torch.Tensor, torch.Tensor],
    before: tuple[torch.Tensor, torch.Tensor] | None,
    words: tuple[str, str, str],
    alt: str,
    lit: int = 0,
) -> Plot:
    """Return bars upwards and downwards of each channel at each value, (values, channels) a side.

    Args:
        sides: The numbers of both sides.
        before: Those before, (channels,) each, drawn as lines.
        words: The keys of the sides' words and of the axis' under `[method_plots]`.
        alt: Describes the picture.
        lit: The first so many channels are lit.
    """
    count = sides[0].shape[1]
    places = np.arange(count) + 0.4
    marks = []
    for at, (sign, color) in enumerate(((1, "second"), (-1, "first"))):
        usual = [float(sides[at][len(sides[at]) // 2].max())]
        if before is not None:
            usual.append(float(before[at].max()))
        # At the ends of the values bars may leave the picture: else there would be nothing to see between.
        most = max([*usual, min(_BEYOND * max(usual), float(sides[at].max()))]) or 1.0
        shares = sign * sides[at].numpy() / most
        marks.append(Marks("bars", places[lit:], shares[:, lit:], color, 0.8))
        if lit:
            marks.append(Marks("bars", places[:lit], shares[:, :lit], "lit", 0.8))
        if before is not None:
            marks.append(_outline(np.arange(count + 1), sign * before[at].numpy() / most, "text", 1))
    marks.append(Marks("line", np.array([0, count]), np.zeros(2), "muted", 1))
    names = ((say(f"method_plots.{words[0]}"), "second"), (say(f"method_plots.{words[1]}"), "first"))
    caption = say(f"method_plots.{words[2]}")
    return Plot(caption, alt, (0, count, -1, 1), tuple(marks), names, edges=(0, 0, 2, 2))


def _outline(edges: npt.NDArray[Any], heights: npt.NDArray[Any], color: str, size: float) -> Marks:
    """Return the line over bars between these edges."""
    return Marks("line", np.repeat(edges, 2)[1:-1], np.repeat(heights, 2), color, size)


def spread_plot(bins: tuple[torch.Tensor, torch.Tensor], captions: tuple[str, ...], alt: str) -> Plot:
    """Return the histogram before and at each value, beside a Gaussian.

    Args:
        bins: The share of values in each bin before, (bins,), and at each value, (values, bins).
        captions: The words below the picture at each value.
        alt: Describes the picture.
    """
    before, after = (each.double().numpy() for each in bins)
    known = np.concatenate([before, after.flatten()])
    least = known[known > 0].min() / 2
    edges = np.linspace(-REACH, REACH, len(before) + 1)
    size = edges[1] - edges[0]
    middles = edges[:-1] + size / 2
    bell = np.log(size * np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi))
    low, high = math.log(least), math.log(known.max())
    ticks = tuple(map(number, _TICKS))
    marks = (
        Marks("bars", middles, np.log(after.clip(least)), "first", 0.88 * size, base=low),
        _outline(edges, np.log(before.clip(least)), "second", 2),
        Marks("line", middles[bell > low], bell[bell > low], "text", 1, dashed=True),
        Marks("words", np.array(_TICKS), np.full(len(_TICKS), low), "muted", labels=ticks, nudge=(0, 11)),
    )
    names = tuple(
        (say(f"method_plots.{name}"), color)
        for name, color in (("before", "second"), ("after", "first"), ("gaussian", "text"))
    )
    return Plot("", alt, (-REACH, REACH, low, high), marks, names, edges=(0, 0, 10, 18), captions=captions)


def decay_plot(lines: Mapping[str, torch.Tensor], ranks: list[int], foot: tuple[str, str], alt: str) -> Plot:
    """Return the energy that each rank leaves of some matrices, with a line at the rank of each value.

    Args:
        lines: The shares from rank 0 on by their words' keys under `[method_plots]`, at most three.
        ranks: The rank of each value.
        foot: The words at both ends of the axis of ranks.
        alt: Describes the picture.
    """
    low = math.log(_LEAST_ENERGY)
    last = len(next(iter(lines.values()))) - 1
    now = np.array(ranks, dtype=float)
    powers = [10.0**-power for power in range(round(-math.log10(_LEAST_ENERGY)) + 1)]
    marks = [
        *(_words(0, math.log(each), f"{100 * each:g} %", "right", (-5, 0)) for each in powers),
        *(Marks("line", np.array([0, last]), np.log([each, each]), "line", 1) for each in powers),
        _words(0, low, foot[0], "left", (0, 11)),
        _words(last, low, foot[1], "right", (6, 11)),
        Marks("line", np.stack([now, now], 1), np.array([low, 0]), "accent"),
    ]
    names = []
    for (name, values), color in zip(lines.items(), ("first", "second", "third"), strict=False):
        shares = values.double().numpy()
        seen = np.flatnonzero(shares >= _LEAST_ENERGY)
        height = np.log(np.where(shares >= _LEAST_ENERGY, shares, math.nan))
        names.append((say(f"method_plots.{name}"), color))
        marks.append(Marks("line", seen, height[seen], color))
        marks.append(Marks("dots", now[:, None], height[ranks][:, None], color, 4))
    frame = (0, last, low, 0)
    return Plot(say("method_plots.left"), alt, frame, tuple(marks), tuple(names), edges=(44, 6, 10, 18))


#: CSS pixels of a plot.
HEIGHT = 190
#: The loudest channels, of which maxima are drawn.
MOST_CHANNELS = 48
#: Values of α and of the angle that are offered.
_TENTHS = tuple(step / 10 for step in range(11))
_ANGLES = tuple(float(angle) for angle in range(0, 46, 5))
#: Values of weights and inputs up to which every turn is computed, and about how many turns.
_MOST_TURNED = 2**20
_MOST_TURNS = 8
#: A scale of fewer weights keeps a loud one apart already.
_SMALL_BLOCKS = 33
#: Ranks that are offered.
_RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
#: The share of input channels that AWQ calls salient.
_SALIENT = 0.01
#: The layer that SmoothQuant makes worse, with schemes that show it.
WORSE = {"l": "builtin(name=minilm_0_output)", "w": "int8_per_row", "a": "int8_per_tensor"}


def chain_field(state: LayerState, method: str, field: str) -> Any:
    """Return the value of a field of a method of the state's chain."""
    return next(getattr(each, field) for each in as_chain(state.method).methods if each.id == method)


def set_field(method: str, field: str, value: Any) -> None:
    """Take a value of a method's field: a chain of its own, and so in the link."""
    OWNER.change(method=str(as_chain(OWNER.state.method).with_field(method, **{field: value})))


def slide_field(method: str, field: str, values: Iterable[Any], now: Any) -> None:
    """Show a slider over the values of a method's field."""
    offered = sorted({*values, now})
    choose_among(
        f"layers_{method}_{field}",
        "range",
        say(f"layers.pictures.{method}.{field}"),
        {value: f"{value:g}" for value in offered},
        now,
        partial(set_field, method, field),
    )


# ---- SmoothQuant ---------------------------------------------------------------------------------------


def show_smoothquant(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show α under the hand, with the channels' maxima trading height and the error of the layer by α."""
    trace = seen.result.trace["smoothquant"]
    chain = as_chain(state.method)
    alphas = sorted({*_TENTHS, trace.alpha})
    forms = tuple(str(chain.with_field("smoothquant", alpha=alpha)) for alpha in alphas)
    errors = errors_of_chains(state, forms)
    scales = torch.stack(
        [
            torch.ones_like(trace.scales)
            if math.isnan(error)
            else seen_layer(state, method=form).result.trace["smoothquant"].scales
            for form, error in zip(forms, errors, strict=True)
        ]
    )
    without = seen_layer(state, method=NEAREST).result.rel_out.held_back
    best = min(range(len(errors)), key=lambda at: (math.isnan(errors[at]), errors[at]))

    def words(at: int) -> str:
        return say(
            f"layers.pictures.smoothquant.{compared(errors[best], without)}",
            best=f"{alphas[best]:g}",
            error=percent(errors[best]),
            now=percent(errors[at]),
            inputs=short_number(peak_of(trace.x_max)),
            inputs_now=short_number(peak_of(trace.x_max / scales[at])),
            weights=short_number(peak_of(trace.w_max)),
            weights_now=short_number(peak_of(trace.w_max * scales[at])),
        )

    show_dial(
        "layers_smoothquant",
        say("layers.pictures.smoothquant.alpha"),
        {alpha: words(at) for at, alpha in enumerate(alphas)},
        trace.alpha,
        (
            traded_plot(trace, scales, "smoothquant_channels_alt"),
            curve_plot("error", errors, without, alphas, say("layers.pictures.smoothquant.curve_alt")),
        ),
        partial(set_field, "smoothquant", "alpha"),
    )
    if WORSE["l"] not in state.source.key:
        worse, _ = LayerState.read({**WORSE, "m": "smoothquant"})
        label = say("layers.pictures.smoothquant.show_worse")
        show_button(label, "layers_smoothquant_worse", OWNER.put, worse)


def traded_plot(trace: SmoothTrace, scales: torch.Tensor, alt: str) -> Plot:
    """Return the maxima of the loudest channels before scales and after each, (values, channels), over their
    means, so that one side is seen to flatten as the other rises.
    """
    order = trace.x_max.argsort(descending=True, stable=True)[:MOST_CHANNELS]

    def over_mean(values: torch.Tensor) -> torch.Tensor:
        return values[..., order] / values.mean(-1, keepdim=True).clamp(min=1e-30)

    before = over_mean(trace.x_max), over_mean(trace.w_max)
    after = over_mean(trace.x_max / scales), over_mean(trace.w_max * scales)
    return mirrored_plot(after, before, ("x_max", "w_max", "loudest"), say(f"layers.pictures.{alt}"))


def peak_of(values: torch.Tensor) -> float:
    """Return how many times the median the largest is; inf where that is 0."""
    median = float(values.median())
    return float(values.max()) / median if median else math.inf


# ---- rotation ------------------------------------------------------------------------------------------


def show_rotation(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show block and angle under the hand, with the histogram of weights and inputs before and after."""
    trace = seen.result.trace["rotation"]
    tokens, inputs, outputs = seen.result.shape
    offered: dict[str, tuple[Iterable[Any], Any]] = {}
    blocks = hadamard_blocks(inputs)
    if len({*blocks, trace.block}) > 1:
        offered["block"] = (blocks, trace.block)
    if chain_field(state, "rotation", "kind") == "hadamard" and can_turn_by_angle(trace.block):
        offered["angle"] = (_ANGLES, chain_field(state, "rotation", "angle"))
    show_sentence(_turned_words(seen, state))
    # Both move the same histograms: one of them is under the hand at a time.
    fields = {name: say(f"layers.pictures.rotation.knobs.{name}") for name in offered}
    field = ""
    if len(fields) > 1:
        field = switch("layers_rotation_knob", say("layers.pictures.rotation.knob"), fields)
    elif fields:
        [field] = fields
    values, now = offered.get(field, ((), 0))
    # Of a large layer only the present state is computed.
    if inputs * (tokens + outputs) > _MOST_TURNED and field:
        slide_field("rotation", field, values, now)
        field = ""
    traces = {0: trace}
    if field:
        every = sorted(values, reverse=True)
        step = math.ceil(len(every) / _MOST_TURNS)
        stops = sorted({*every[::step], every[-1], now})
        # A value that does not fit has no trace.
        work = partial(traces_of_turns, chain=as_chain(state.method), field=field, values=stops)
        traces = seen.found(f"turns {field} {stops}", work)
    _show_turning(field, now if field else 0, traces)
    show_terms("kurtosis", "rms")


def _turned_words(seen: SeenLayer, state: LayerState) -> str:
    """Return the sentence on what the rotation does to this layer."""
    trace = seen.result.trace["rotation"]
    without = seen_layer(state, method=NEAREST).result.rel_out.held_back
    small = seen.result.weights.study.layout.block_size if seen.result.weights.study is not None else 0
    weights, activations = trace.weights, trace.inputs
    reason = "helps"
    if trace.block == 1:
        reason = "none"
    elif compared(seen.result.rel_out.held_back, without) != "less":
        reason = "small_blocks" if 0 < small < min(trace.block, _SMALL_BLOCKS) else "hurts"
    return say(
        f"layers.pictures.rotation.{reason}",
        inputs=seen.result.shape[1],
        block=trace.block,
        size=small,
        peak=short_number(weights[0].peak),
        peak_now=short_number(weights[1].peak),
        x_peak=short_number(activations[0].peak),
        x_peak_now=short_number(activations[1].peak),
        x_kurtosis=short_number(activations[0].kurtosis),
        x_kurtosis_now=short_number(activations[1].kurtosis),
    )


def _show_turning(field: str, now: Any, traces: Mapping[Any, RotationTrace]) -> None:
    """Show the histograms at each value of a field, under its slider if there are several."""
    plots = []
    for name, bins, spreads in (("weights", "weight_bins", "weights"), ("inputs", "input_bins", "inputs")):
        shares = [getattr(each, bins) for each in traces.values()]
        captions = tuple(_spread_words(name, *getattr(each, spreads)) for each in traces.values())
        after = torch.stack([each[1] for each in shares])
        alt = say(f"layers.pictures.rotation.{name}_alt")
        plots.append(spread_plot((shares[0][0], after), captions, alt))

    take = partial(set_field, "rotation", field)
    title = say(f"layers.pictures.rotation.{field}") if field else ""
    show_dial(f"layers_rotation_{field}", title, dict.fromkeys(traces, ""), now, tuple(plots), take)


def _spread_words(name: str, before: RotationSpread, after: RotationSpread) -> str:
    """Return the numbers of weights or inputs before and after a rotation."""
    return say(
        f"layers.pictures.rotation.{name}_numbers",
        kurtosis=short_number(before.kurtosis),
        kurtosis_now=short_number(after.kurtosis),
        peak=short_number(before.peak),
        peak_now=short_number(after.peak),
    )


# ---- AWQ -----------------------------------------------------------------------------------------------


def show_awq(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show r under the hand, with its curve and the salient channels, and the bargain of one group."""
    trace = seen.result.trace["awq"]
    given = chain_field(state, "awq", "ratio")
    found = trace.ratios[trace.best]
    ratio = found if given is None else given
    losses = dict(zip(trace.ratios, trace.losses, strict=True))
    ratios = sorted({*losses, ratio})
    losses.setdefault(ratio, seen.result.rel_out.used)
    words = {"best": f"{found:g}", "loss": percent(losses[found]), "unscaled": percent(trace.unscaled)}

    def said(each: float) -> str:
        key = "given"
        if given is None and each == ratio:
            key = "found" if trace.scaled else "kept_whole"
            if bool((trace.scales == 1).all()) and trace.scaled:
                key = "none"
        return say(f"layers.pictures.awq.{key}", ratio=f"{each:g}", error=percent(losses[each]), **words)

    order = trace.x_mean.argsort(descending=True, stable=True)
    variant = chain_field(state, "awq", "variant")
    scales = torch.stack([awq_scales(trace.x_mean, trace.w_mean, each, variant) for each in ratios])
    show_dial(
        "layers_awq",
        say("layers.pictures.awq.ratio"),
        {each: said(each) for each in ratios},
        ratio,
        (
            curve_plot(
                "used",
                tuple(losses[each] for each in ratios),
                trace.unscaled,
                ratios,
                say("layers.pictures.awq.curve_alt"),
            ),
            mirrored_plot(
                (trace.x_mean[order].expand(len(ratios), -1), scales[:, order]),
                None,
                ("x_mean", "scale", "channels"),
                say("layers.pictures.awq_channels_alt"),
                lit=math.ceil(_SALIENT * len(order)),
            ),
        ),
        partial(set_field, "awq", "ratio"),
    )
    _show_bargain(seen, seen_layer(state, method=NEAREST))


def _show_bargain(seen: SeenLayer, nearest: SeenLayer) -> None:
    """Show the loudest channel's group before and after scaling, beside channels kept in float16 instead."""
    group, here = _loudest_group(seen, nearest)
    work = partial(errors_of_channels, group=group)
    before, after = (each.found(f"errors of channels {group}", work) for each in (nearest, seen))
    show_sentence(_bargain(seen, group, here, before, after))
    kept = nearest.found("channels kept apart", partial(channels_kept_apart, share=_SALIENT))
    errors = {name: getattr(kept, name) for name in ("none", "at_random", "by_weights", "by_inputs")}
    left, right = st.columns(2, gap="small")
    with left:
        names = tuple(
            say("method_plots.channel", channel=channel) for channel in range(group.start, group.stop)
        )
        bars = ErrorBars(names, numbers_of(after), numbers_of(before), frozenset({here}), "group")
        show_series(bars, "awq_bargain", say("layers.pictures.awq.bargain_alt"))
    with right:
        names = tuple(say(f"layers.pictures.awq.keep.{name}") for name in errors)
        bars = ErrorBars(names, tuple(errors.values()), axis="kept", percent=True)
        said = {name: percent(error) for name, error in errors.items()}
        show_series(bars, "awq_kept", say("layers.pictures.awq.kept", count=kept.count, **said))


def show_series(shown: Shown, key: str, alt: str, height: int = HEIGHT) -> None:
    """Show a series of a method, described by `alt`."""
    show_figure(method_figure, f"layers_{key}", alt, shown, height=height)


def _loudest_group(seen: SeenLayer, nearest: SeenLayer) -> tuple[slice, int]:
    """Return the channels that share a scale with the one of the loudest inputs, and its place in them."""
    trace = seen.result.trace["awq"]
    channel = int(trace.x_mean.argmax())
    study = nearest.result.weights.study
    width = len(trace.x_mean)
    size = study.layout.block_shape[-1] if study is not None and len(study.layout.block_shape) == 2 else width
    first = channel // size * size
    return slice(first, min(first + size, width)), channel - first


def _bargain(seen: SeenLayer, group: slice, here: int, before: torch.Tensor, after: torch.Tensor) -> str:
    """Return the sentence on the group of the loudest channel: its error falls, its neighbours' rises."""
    trace = seen.result.trace["awq"]
    if bool((trace.scales == 1).all()):
        return say("layers.pictures.awq.unscaled")
    channel = group.start + here
    others = [at for at in range(len(before)) if at != here]
    return say(
        "layers.pictures.awq.bargain",
        channel=channel,
        times=short_number(float(trace.x_mean[channel] / trace.x_mean.median())),
        scale=short_number(float(trace.scales[channel])),
        before=short_number(float(before[here])),
        after=short_number(float(after[here])),
        first=group.start,
        last=group.stop - 1,
        others_before=short_number(float(before[others].square().mean().sqrt())),
        others_after=short_number(float(after[others].square().mean().sqrt())),
    )


# ---- low rank ------------------------------------------------------------------------------------------


def show_low_rank(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the rank under the hand, on the energy that each rank leaves of W, E and ES, with its bits."""
    trace = seen.result.trace["low_rank"]
    chain = as_chain(state.method)
    most = len(trace.of_error)
    outputs, inputs = seen.result.shape[2], seen.result.shape[1]
    of_rank = 16 * (outputs + inputs) / (outputs * inputs)
    before = errors_of_chains(state, (str(chain.without("low_rank")),))[0]
    lines = {name: _left(getattr(trace, name)) for name in ("of_weight", "of_error", "of_weighted")}
    ranks = sorted({*(each for each in _RANKS if each <= most), trace.rank})
    bits = {rank: short_number(of_rank * rank) for rank in ranks}

    def words(rank: int) -> str:
        return say(
            f"layers.pictures.low_rank.{'found' if rank == trace.rank else 'other'}",
            rank=rank,
            bits=bits[rank],
            error=percent(seen.result.rel_out.held_back),
            before=percent(before),
            left=percent(float(lines["of_error"][min(rank, most)])),
            weighted=percent(float(lines["of_weighted"][min(rank, most)])),
        )

    def with_bits(rank: int) -> str:
        return say("layers.pictures.low_rank.stop", rank=rank, bits=short_number(of_rank * rank))

    show_dial(
        "layers_low_rank",
        say("layers.pictures.low_rank.rank"),
        {rank: words(rank) for rank in ranks},
        trace.rank,
        (
            decay_plot(
                lines,
                [min(rank, most) for rank in ranks],
                ("0", with_bits(most)),
                say("layers.pictures.low_rank.alt"),
            ),
        ),
        partial(set_field, "low_rank", "rank"),
        {rank: with_bits(rank) for rank in ranks},
    )
    show_terms("energy", "rank", "weighted")


def _left(values: torch.Tensor) -> torch.Tensor:
    """Return the share of the energy beyond each rank, from rank 0 on."""
    squares = values.square()
    beyond = squares.flip(0).cumsum(0).flip(0) / (float(squares.sum()) or 1.0)
    return torch.cat([beyond, beyond.new_zeros(1)])


def numbers_of(values: torch.Tensor) -> tuple[float, ...]:
    """Return the numbers of a tensor of one axis."""
    return tuple(values.tolist())
