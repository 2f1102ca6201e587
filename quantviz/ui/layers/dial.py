"""A method's parameter under the hand: the browser has the sentence and the pictures of each value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.figures.numbers import number
from quantviz.figures.theme import THEMES
from quantviz.ui.components.component import component, last_message
from quantviz.ui.layers.words import percent, unbroken
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    import torch

_SCRIPT = "dial_component"
#: How many times as far as in the middle of the values bars may reach inside of the picture.
_BEYOND = 3
#: Root mean squares that are named below a histogram.
_TICKS = (-6, -3, 0, 3, 6)
#: The least share of the energy that is drawn.
_LEAST_ENERGY = 1e-3


@dataclass(frozen=True)
class Plot:
    """A picture below the slider: its header, and its arrays by their names in it."""

    header: Mapping[str, Any]
    arrays: Mapping[str, torch.Tensor]


def curve_plot(words: str, errors: tuple[float, ...], without: float, alt: str) -> Plot:
    """Return the line of errors over the values; nan has no point.

    Args:
        words: The key of the error's words under `[method_plots]`.
        errors: The error at each value.
        without: That without the method.
        alt: Describes the picture.
    """
    header = {
        "kind": "curve",
        "caption": say(f"method_plots.{words}"),
        "alt": alt,
        "errors": [error if math.isfinite(error) else 0 for error in errors],
        "without": without,
        "withoutWords": say("method_plots.without"),
        "written": [percent(error) for error in (*errors, without)],
    }
    return Plot(header, {})


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
    arrays = {}
    for at, name in enumerate(("up", "down")):
        usual = [float(sides[at][len(sides[at]) // 2].max())]
        if before is not None:
            usual.append(float(before[at].max()))
        # At the ends of the values bars may leave the picture: else there would be nothing to see between.
        most = max([*usual, min(_BEYOND * max(usual), float(sides[at].max()))])
        arrays[name] = sides[at] / (most or 1.0)
        arrays[f"{name}Before"] = sides[at][:0, 0] if before is None else before[at] / (most or 1.0)
    header = {
        "kind": "mirrored",
        "caption": say(f"method_plots.{words[2]}"),
        "alt": alt,
        "count": sides[0].shape[1],
        "lit": lit,
        "names": [[say(f"method_plots.{words[0]}"), "second"], [say(f"method_plots.{words[1]}"), "first"]],
    }
    return Plot(header, arrays)


def spread_plot(
    bins: tuple[torch.Tensor, torch.Tensor], reach: float, captions: tuple[str, ...], alt: str
) -> Plot:
    """Return the histogram before and at each value, beside a Gaussian.

    Args:
        bins: The share of values in each bin before, (bins,), and at each value, (values, bins).
        reach: The end of the outermost bins in root mean squares.
        captions: The words below the picture at each value.
        alt: Describes the picture.
    """
    import torch

    before, after = bins
    known = torch.cat([before, after.flatten()])
    header = {
        "kind": "spread",
        "caption": "",
        "captions": list(map(unbroken, captions)),
        "alt": alt,
        "reach": reach,
        "ticks": [(value, number(value)) for value in _TICKS],
        "least": float(known[known > 0].min()) / 2,
        "most": float(known.max()),
        "names": [
            [say("method_plots.before"), "second"],
            [say("method_plots.after"), "first"],
            [say("method_plots.gaussian"), "text"],
        ],
    }
    return Plot(header, {"before": before, "after": after})


def decay_plot(lines: Mapping[str, torch.Tensor], ranks: list[int], foot: tuple[str, str], alt: str) -> Plot:
    """Return the energy that each rank leaves of some matrices, with a line at the rank of each value.

    Args:
        lines: The shares from rank 0 on by their words' keys under `[method_plots]`, at most three.
        ranks: The rank of each value.
        foot: The words at both ends of the axis of ranks.
        alt: Describes the picture.
    """
    header = {
        "kind": "decay",
        "caption": say("method_plots.left"),
        "alt": alt,
        "count": len(next(iter(lines.values()))),
        "least": _LEAST_ENERGY,
        "ranks": ranks,
        "foot": list(foot),
        "names": [
            [say(f"method_plots.{name}"), color]
            for name, color in zip(lines, ("first", "second", "third"), strict=False)
        ],
    }
    return Plot(header, {f"line{at}": values for at, values in enumerate(lines.values())})


def show_dial(
    key: str,
    title: str,
    stops: Mapping[Any, str],
    now: Any,
    plots: tuple[Plot, ...],
    take: Callable[[Any], None],
    labels: Mapping[Any, str] | None = None,
) -> None:
    """Show the slider with its pictures.

    Args:
        key: Its place on the page.
        title: The words of the slider.
        stops: The sentence of each value, in order.
        now: The present value, one of these.
        plots: The pictures.
        take: Gets the value at which the slider is let go.
        labels: The words of each value beside the title; by default its digits.
    """
    values = list(stops)
    colours = THEMES[theme()]
    header = {
        "key": key,
        "title": title,
        "stops": [f"{value:g}" if labels is None else labels[value] for value in values],
        "words": list(map(unbroken, stops.values())),
        "now": values.index(now),
        "plots": {str(at): dict(plot.header) for at, plot in enumerate(plots)},
        "language": language(),
        "colors": {
            **colours.named("text", "muted", "line", "accent", "font", "lit", "surface"),
            "first": colours.schemes[0],
            "second": colours.schemes[1],
            "third": colours.schemes[2],
        },
    }
    arrays = {
        f"plots.{at}.{name}": values.flatten().numpy().astype(np.float32)
        for at, plot in enumerate(plots)
        for name, values in plot.arrays.items()
    }

    def let_go() -> None:
        stop = last_message(key, _SCRIPT, "stop", lambda stop: stop < len(values))
        if stop is not None and values[stop] != now:
            take(values[stop])

    component("quantviz_dial", _SCRIPT)(key=key, data=pack(header, arrays), on_stop_change=let_go)
