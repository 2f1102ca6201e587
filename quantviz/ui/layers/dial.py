"""The pictures of a method's parameter under the hand, at each of its values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from quantviz.figures.numbers import number
from quantviz.ui.components.dial import Plot
from quantviz.ui.layers.words import percent
from quantviz.ui.shell.words import say, unbroken

if TYPE_CHECKING:
    import torch

#: How many times as far as in the middle of the values bars may reach inside of the picture.
_BEYOND = 3
#: Root mean squares that are named below a histogram.
_TICKS = (-6, -3, 0, 3, 6)
#: The least share of the energy that is drawn.
_LEAST_ENERGY = 1e-3


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
    return Plot(header)


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
    return Plot(header, {name: values.numpy() for name, values in arrays.items()})


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
    return Plot(header, {"before": before.numpy(), "after": after.numpy()})


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
    return Plot(header, {f"line{at}": values.numpy() for at, values in enumerate(lines.values())})
