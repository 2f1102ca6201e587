"""The pictures of rotation, SmoothQuant, AWQ and low rank: each with the parameter that its chain has now."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.ui.components.choice import choose_among, show_button
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.layers.state import SeenLayer, change_state, errors_of_chains, seen_layer
from quantviz.ui.layers.words import percent
from quantviz.ui.shell.words import language, plain, say, theme

if TYPE_CHECKING:
    import torch

    from quantviz.figures.method_plots import Bars, Curve, Mirrored
    from quantviz.layers.methods.channel_scales import SmoothTrace

#: CSS pixels of a plot, and of the wider one of ranks.
HEIGHT = 190
_TALL = 220
#: The loudest channels, of which maxima are drawn.
MOST_CHANNELS = 48
#: Values of α, of r and of the angle that are offered and that the curve has.
_TENTHS = tuple(step / 10 for step in range(11))
_TWENTIETHS = tuple(step / 20 for step in range(21))
_ANGLES = tuple(float(angle) for angle in range(0, 46, 5))
#: Ranks that are offered.
_RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
#: The share of input channels that AWQ calls salient.
_SALIENT = 0.01
#: The layer that SmoothQuant makes worse, with schemes that show it.
WORSE = {"l": "builtin(name=minilm_0_output)", "w": "int8_per_row", "a": "int8_per_tensor"}


def chain_field(state: LayerState, method: str, field: str) -> Any:
    """Return the value of a field of a method of the state's chain."""
    from quantviz.layers.methods.chain import as_chain

    return next(getattr(each, field) for each in as_chain(state.method).methods if each.id == method)


def slide_field(state: LayerState, method: str, field: str, values: Iterable[Any], now: Any) -> None:
    """Show a slider over the values of a method's field; each is a chain of its own, and so in the link."""
    from quantviz.layers.methods.chain import as_chain

    offered = sorted({*values, now})
    choose_among(
        st.select_slider,
        f"layers_{method}_{field}",
        say(f"layers.pictures.{method}.{field}"),
        {value: f"{value:g}" for value in offered},
        now,
        lambda value: change_state(method=str(as_chain(state.method).with_field(method, **{field: value}))),
    )


def _show_curve(curve: Curve, key: str) -> None:
    from quantviz.figures.method_plots import curve_figure

    figure = curve_figure(curve, height=HEIGHT, language=language(), theme=theme())
    show_plot(figure, f"layers_{key}_curve", say(f"layers.pictures.{key}.curve_alt"))


def show_mirrored(shown: Mirrored, key: str) -> None:
    """Show two numbers of each channel; the words of the picture are under its key."""
    from quantviz.figures.method_plots import mirrored_figure

    figure = mirrored_figure(shown, height=HEIGHT, language=language(), theme=theme())
    show_plot(figure, f"layers_{key}", say(f"layers.pictures.{key}_alt"))


# ---- SmoothQuant ---------------------------------------------------------------------------------------


def show_smoothquant(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show α as a slider, the channels' maxima trading height, and the error of the layer by α."""
    from quantviz.figures.method_plots import Curve
    from quantviz.layers.methods.chain import as_chain

    trace = seen.result.trace["smoothquant"]
    alpha = chain_field(state, "smoothquant", "alpha")
    chain = as_chain(state.method)
    errors = errors_of_chains(
        state, tuple(str(chain.with_field("smoothquant", alpha=each)) for each in _TENTHS)
    )
    without = seen_layer(state, method=NEAREST).result.rel_out.held_back
    best = min(range(len(errors)), key=lambda at: (math.isnan(errors[at]), errors[at]))
    key = "best" if errors[best] < without else "worse"
    st.markdown(
        plain(
            say(
                f"layers.pictures.smoothquant.{key}",
                best=f"{_TENTHS[best]:g}",
                error=percent(errors[best]),
                inputs=short_number(peak_of(trace.x_max)),
                inputs_now=short_number(peak_of(trace.x_max / trace.scales)),
                weights=short_number(peak_of(trace.w_max)),
                weights_now=short_number(peak_of(trace.w_max * trace.scales)),
            )
        )
    )
    slide_field(state, "smoothquant", "alpha", _TENTHS, alpha)
    left, right = st.columns(2, gap="small")
    with left:
        show_traded(trace, "smoothquant_channels")
    with right:
        point = (alpha, seen.result.rel_out.held_back)
        _show_curve(Curve(_TENTHS, errors, point, without, "alpha", "error"), "smoothquant")
    source = state.source.key
    if WORSE["l"] not in source:
        show_button(say("layers.pictures.smoothquant.show_worse"), "layers_smoothquant_worse", _go_worse)


def show_traded(trace: SmoothTrace, key: str) -> None:
    """Show the maxima of the loudest channels before and after they are scaled, over their means, so that one
    side is seen to flatten as the other rises.
    """
    from quantviz.figures.method_plots import Mirrored

    order = trace.x_max.argsort(descending=True, stable=True)[:MOST_CHANNELS]

    def over_mean(values: torch.Tensor) -> tuple[float, ...]:
        return numbers_of(values[order] / (float(values.mean()) or 1.0))

    bars = Mirrored(
        over_mean(trace.x_max / trace.scales),
        over_mean(trace.w_max * trace.scales),
        over_mean(trace.x_max),
        over_mean(trace.w_max),
        upper_words="x_max",
        lower_words="w_max",
        axis="loudest",
        channels=tuple(order.tolist()),
    )
    show_mirrored(bars, key)


def _go_worse() -> None:
    from quantviz.lab.layer_state import read_link
    from quantviz.ui.layers.state import put_state

    put_state(read_link({**WORSE, "m": "smoothquant"})[0])


def peak_of(values: torch.Tensor) -> float:
    """Return how many times the median the largest is; inf where that is 0."""
    median = float(values.median())
    return float(values.max()) / median if median else math.inf


# ---- rotation ------------------------------------------------------------------------------------------


def show_rotation(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show block and angle as sliders, and the histogram of weights and inputs before and after."""
    from quantviz.figures.method_plots import Histogram, spread_figure
    from quantviz.layers.methods.rotation import REACH, can_turn_by_angle, hadamard_blocks

    trace = seen.result.trace["rotation"]
    inputs = seen.result.shape[1]
    without = seen_layer(state, method=NEAREST).result.rel_out.held_back
    now = seen.result.rel_out.held_back
    weights, activations = trace.weights, trace.inputs
    small = seen.result.weights.study.layout.block_size if seen.result.weights.study is not None else 0
    reason = "helps"
    if now >= without:
        reason = "small_blocks" if 0 < small <= 32 else "hurts"
    st.markdown(
        plain(
            say(
                f"layers.pictures.rotation.{reason}",
                block=trace.block,
                size=small,
                peak=short_number(weights[0].peak),
                peak_now=short_number(weights[1].peak),
                x_peak=short_number(activations[0].peak),
                x_peak_now=short_number(activations[1].peak),
                x_kurtosis=short_number(activations[0].kurtosis),
                x_kurtosis_now=short_number(activations[1].kurtosis),
            )
        )
    )
    left, right = st.columns(2, gap="small")
    blocks = hadamard_blocks(inputs)
    if len({*blocks, trace.block}) > 1:
        with left:
            slide_field(state, "rotation", "block", blocks, trace.block)
    if chain_field(state, "rotation", "kind") == "hadamard" and can_turn_by_angle(trace.block):
        with right:
            slide_field(state, "rotation", "angle", _ANGLES, chain_field(state, "rotation", "angle"))
    sides = (("weights", trace.weight_bins, weights), ("inputs", trace.input_bins, activations))
    for column, (name, bins, spreads) in zip((left, right), sides, strict=True):
        with column:
            figure = spread_figure(
                Histogram(numbers_of(bins[0]), numbers_of(bins[1]), REACH),
                height=HEIGHT,
                language=language(),
                theme=theme(),
            )
            show_plot(figure, f"layers_rotation_{name}", say(f"layers.pictures.rotation.{name}_alt"))
            st.caption(
                say(
                    f"layers.pictures.rotation.{name}_numbers",
                    kurtosis=short_number(spreads[0].kurtosis),
                    kurtosis_now=short_number(spreads[1].kurtosis),
                    peak=short_number(spreads[0].peak),
                    peak_now=short_number(spreads[1].peak),
                )
            )


# ---- AWQ -----------------------------------------------------------------------------------------------


def show_awq(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show r as a slider, its curve, the salient channels, and the bargain of one group."""
    from quantviz.figures.method_plots import Curve, Mirrored

    trace = seen.result.trace["awq"]
    given = chain_field(state, "awq", "ratio")
    ratio = trace.ratios[trace.best] if given is None else given
    st.markdown(
        plain(
            say(
                "layers.pictures.awq.found" if given is None else "layers.pictures.awq.given",
                ratio=f"{ratio:g}",
                best=f"{trace.ratios[trace.best]:g}",
                loss=percent(trace.losses[trace.best]),
                unscaled=percent(trace.unscaled),
            )
        )
    )
    slide_field(state, "awq", "ratio", _TWENTIETHS, ratio)
    nearest = seen_layer(state, method=NEAREST)
    now = trace.losses[trace.ratios.index(ratio)] if ratio in trace.ratios else seen.result.rel_out.used
    salient = math.ceil(_SALIENT * len(trace.x_mean))
    order = trace.x_mean.argsort(descending=True, stable=True)
    left, right = st.columns(2, gap="small")
    with left:
        _show_curve(Curve(trace.ratios, trace.losses, (ratio, now), trace.unscaled, "ratio", "used"), "awq")
    with right:
        bars = Mirrored(
            numbers_of(trace.x_mean[order]),
            numbers_of(trace.scales[order]),
            lit=frozenset(range(salient)),
            upper_words="x_mean",
            lower_words="scale",
            channels=tuple(order.tolist()),
        )
        show_mirrored(bars, "awq_channels")
    _show_bargain(seen, nearest)


def _show_bargain(seen: SeenLayer, nearest: SeenLayer) -> None:
    """Show the loudest channel's group before and after scaling, beside channels kept in float16 instead."""
    from quantviz.figures.method_plots import Bars
    from quantviz.layers.methods.awq import kept_apart

    group, here = _loudest_group(seen, nearest)
    before, after = (_errors_of_channels(each, group) for each in (nearest, seen))
    st.markdown(plain(_bargain(seen, group, here, before, after)))
    every = slice(None)
    kept = kept_apart(
        nearest.result.weights.values(every),
        nearest.result.weights.quantized(every),
        nearest.result.inputs.values(every),
        nearest.result.held_back,
        _SALIENT,
    )
    errors = {name: getattr(kept, name) for name in ("none", "at_random", "by_weights", "by_inputs")}
    left, right = st.columns(2, gap="small")
    with left:
        names = tuple(
            say("method_plots.channel", channel=channel) for channel in range(group.start, group.stop)
        )
        bars = Bars(names, numbers_of(after), numbers_of(before), frozenset({here}), "group")
        show_bars(bars, "awq_bargain", say("layers.pictures.awq.bargain_alt"))
    with right:
        names = tuple(say(f"layers.pictures.awq.keep.{name}") for name in errors)
        bars = Bars(names, tuple(errors.values()), axis="kept", percent=True)
        said = {name: percent(error) for name, error in errors.items()}
        show_bars(bars, "awq_kept", say("layers.pictures.awq.kept", count=kept.count, **said))


def show_bars(bars: Bars, key: str, alt: str) -> None:
    """Show bars of errors or channels, described by `alt`."""
    from quantviz.figures.method_plots import bars_figure

    show_plot(bars_figure(bars, height=HEIGHT, language=language(), theme=theme()), f"layers_{key}", alt)


def _loudest_group(seen: SeenLayer, nearest: SeenLayer) -> tuple[slice, int]:
    """Return the channels that share a scale with the one of the loudest inputs, and its place in them."""
    trace = seen.result.trace["awq"]
    channel = int(trace.x_mean.argmax())
    study = nearest.result.weights.study
    width = len(trace.x_mean)
    size = study.layout.block_shape[-1] if study is not None and len(study.layout.block_shape) == 2 else width
    first = channel // size * size
    return slice(first, min(first + size, width)), channel - first


def _errors_of_channels(seen: SeenLayer, group: slice) -> torch.Tensor:
    """Return the root mean square of the weight's error in each channel of a group."""
    return seen.result.weights.changes(slice(None))[:, group].square().mean(0).sqrt()


def _bargain(seen: SeenLayer, group: slice, here: int, before: torch.Tensor, after: torch.Tensor) -> str:
    """Return the sentence on the group of the loudest channel: its error falls, its neighbours' rises."""
    trace = seen.result.trace["awq"]
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
    """Show the rank as a slider, and the energy that each rank leaves of W, E and ES."""
    from quantviz.figures.method_plots import Singular, singular_figure
    from quantviz.layers.methods.chain import as_chain

    trace = seen.result.trace["low_rank"]
    most = len(trace.of_error)
    rank = min(trace.rank, most)
    outputs, inputs = seen.result.shape[2], seen.result.shape[1]
    of_rank = 16 * (outputs + inputs) / (outputs * inputs)
    without = str(as_chain(state.method).without("low_rank"))
    before = errors_of_chains(state, (without,))[0]
    left = _left(trace.of_error)[rank]
    weighted = _left(trace.of_weighted)[rank]
    st.markdown(
        plain(
            say(
                "layers.pictures.low_rank.found",
                rank=rank,
                bits=short_number(of_rank * rank),
                error=percent(seen.result.rel_out.held_back),
                before=percent(before),
                left=percent(left),
                weighted=percent(weighted),
            )
        )
    )
    slide_field(state, "low_rank", "rank", [each for each in _RANKS if each <= most], trace.rank)
    lines = (
        ("of_weight", _left(trace.of_weight)),
        ("of_error", _left(trace.of_error)),
        ("of_weighted", _left(trace.of_weighted)),
    )
    figure = singular_figure(Singular(lines, rank, of_rank), height=_TALL, language=language(), theme=theme())
    show_plot(figure, "layers_low_rank", say("layers.pictures.low_rank.alt"))


def _left(values: torch.Tensor) -> tuple[float, ...]:
    """Return the share of the energy beyond each rank, from rank 0 on."""
    squares = values.square()
    whole = float(squares.sum()) or 1.0
    beyond = squares.flip(0).cumsum(0).flip(0) / whole
    return (*beyond.tolist(), 0.0)


def numbers_of(values: torch.Tensor) -> tuple[float, ...]:
    """Return the numbers of a tensor of one axis."""
    return tuple(values.tolist())
