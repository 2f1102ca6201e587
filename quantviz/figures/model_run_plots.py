"""The plots of a model that runs: its layers as a map, numbers against the KL divergence, errors in depth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quantviz.checkpoints.model.tensor_names import place_of_name, short_names
from quantviz.figures.layer_map import LayerSquare, layer_map
from quantviz.figures.numbers import decibels, short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, heatmap, scatter, shape
from quantviz.figures.theme import THEMES, one_sided
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.models.layer_effects import LayerEffect
    from quantviz.models.predicting import SchemeNumbers

#: Of a logarithmic scale, in powers of ten.
_LEAST_POWERS = 1.0
#: Least KL divergence and error on a logarithmic axis.
_LEAST = 1e-9
#: Of schemes, whose errors are larger, and their largest SQNR in dB.
_LEAST_SHOWN, _MOST_DB = 1e-6, 60.0
#: Without colour, and of the strongest.
_FEWEST, _MOST = 1, 8
#: Least ticks of an axis, where so many have one digit.
_TICKS = 3


def effects_figure(
    effects: Sequence[LayerEffect], colour: str, *, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> UncheckedFigure:
    """Return the map of linear layers by kinds; a square's data is its place in `effects`.

    `colour` is the field that is written and coloured: worse ones are stronger.
    """
    strengths = _strengths([float(getattr(effect, colour)) for effect in effects], colour)
    squares = [
        LayerSquare(effect.name, strength, written(getattr(effect, colour), colour), _card(effect, language))
        for effect, strength in zip(effects, strengths, strict=True)
    ]
    return layer_map(squares, language=language, theme=theme)


def bits_figure(
    bits: Mapping[str, int], *, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> UncheckedFigure:
    # More bits are stronger.
    squares = [
        LayerSquare(name, (each - _FEWEST) / (_MOST - _FEWEST), str(each), f"<b>{name}</b><br>{each}")
        for name, each in bits.items()
    ]
    return layer_map(squares, language=language, theme=theme)


def predictions_figure(
    effects: Sequence[LayerEffect],
    cheap: str,
    *,
    height: int,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return a dot a layer: its field `cheap` against the KL divergence with it alone rounded.

    A dot's data is its place in `effects`.
    """
    dots = [
        _Dot(
            place_of_name(effect.name).kind,
            max(getattr(effect, cheap), _LEAST),
            max(effect.kl_alone, _LEAST),
            _card(effect, language),
        )
        for effect in effects
    ]
    axis = _logarithmic([effect.kl_alone for effect in effects])
    return _dots_figure(dots, kinds_of(effects), (cheap, "kl_alone"), axis, height, language, theme)


def schemes_figure(
    rows: Sequence[SchemeNumbers],
    number: str,
    words: Sequence[str],
    kinds: Mapping[str, str],
    *,
    height: int,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return a dot a scheme: its field `number` against the sums that an adder has right under it.

    A dot's data is its place in `rows`; `words` are the schemes' names, `kinds` those of their kinds.
    """
    dots = []
    for row, name in zip(rows, words, strict=True):
        value = getattr(row, number)
        card = text("model_plots.card.scheme", language, value=written(value, number), right=row.right)
        # Without an error the SQNR is infinite: it stands at the end.
        dots.append(_Dot(row.kind, _placed(value, number), row.right, f"<b>{name}</b><br>{card}"))
    axis = {"range": [-30, 1030]}
    return _dots_figure(dots, kinds, (number, "right"), axis, height, language, theme)


class _Dot(NamedTuple):
    kind: str
    x: float
    y: float
    card: str


def _dots_figure(
    dots: Sequence[_Dot],
    kinds: Mapping[str, str],
    names: tuple[str, str],
    upwards: dict[str, Any],
    height: int,
    language: str,
    theme: str,
) -> UncheckedFigure:
    # `names` are keys under `[model_plots]`; `upwards` are properties of y.
    traces = []
    for kind, (name, colour) in zip(kinds, coloured(kinds.values(), theme), strict=True):
        of_kind = [(k, dot) for k, dot in enumerate(dots) if dot.kind == kind]
        traces.append(
            scatter(
                "markers",
                [dot.x for _, dot in of_kind],
                [dot.y for _, dot in of_kind],
                name=name,
                customdata=[[k] for k, _ in of_kind],
                hovertext=[dot.card for _, dot in of_kind],
                hoverinfo="text",
                marker={"size": 10, "color": colour},
            )
        )
    layout = bare_layout(THEMES[theme], height, (52, 12, 8, 42))
    layout |= {"hovermode": "closest", "clickmode": "event+select"}
    across, up = ({"title": axis_title(text(f"model_plots.{name}", language))} for name in names)
    is_db = names[0] == "weight_db"
    layout["xaxis"] |= across | (
        {"autorange": "reversed"} if is_db else _logarithmic([dot.x for dot in dots])
    )
    layout["yaxis"] |= up | upwards
    return UncheckedFigure({"data": traces, "layout": layout})


def _placed(value: float, number: str) -> float:
    # Without an error, at the axis's end.
    return min(value, _MOST_DB) if number == "weight_db" else max(value, _LEAST_SHOWN)


def kinds_of(effects: Sequence[LayerEffect]) -> dict[str, str]:
    kinds = list(dict.fromkeys(place_of_name(effect.name).kind for effect in effects))
    return dict(zip(kinds, short_names(kinds), strict=True))


def coloured(names: Iterable[str], theme: str) -> list[tuple[str, str]]:
    # For a legend beside the plot.
    return list(zip(names, itertools.cycle(THEMES[theme].schemes), strict=False))


def depth_figure(
    runs: Mapping[str, Mapping[str, float]],
    *,
    height: int,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return each run's error of the residual stream, by place in the network, as a line."""
    colours = THEMES[theme]
    traces = []
    names: list[str] = []
    for (name, colour), errors in zip(coloured(runs, theme), runs.values(), strict=True):
        names = [place_words(each, language) for each in errors]
        traces.append(
            scatter(
                "lines+markers",
                list(range(len(errors))),
                [max(error, _LEAST) for error in errors.values()],
                name=name,
                hovertext=[
                    f"{name}<br>{place}: {short_number(error)}"
                    for place, error in zip(names, errors.values(), strict=True)
                ],
                hoverinfo="text",
                line={"color": colour, "width": 2},
                marker={"size": 7},
            )
        )
    layout = bare_layout(colours, height, (52, 12, 8, 60))
    layout["hovermode"] = "closest"
    layout["xaxis"] |= {"tickvals": list(range(len(names))), "ticktext": names, "showgrid": False}
    stream = {"title": axis_title(text("model_plots.stream", language))}
    layout["yaxis"] |= stream | _logarithmic([error for each in runs.values() for error in each.values()])
    return UncheckedFigure({"data": traces, "layout": layout})


def matrix_figure(
    values: npt.NDArray[np.float32],
    axes: tuple[str, str],
    *,
    height: int,
    parts: int = 1,
    most: float | None = None,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return a matrix of values from 0 on as colours.

    `axes` name columns and rows, below `[model_plots.axes]`. Lines divide the columns into equal `parts`.
    `most` is the value of the strongest colour, by default the largest.
    """
    colours = THEMES[theme]
    rows, columns = values.shape
    across, down = (text(f"model_plots.axes.{axis}", language) for axis in axes)
    ramp = one_sided(colours.values)
    said = f"{across} %{{x}}<br>{down} %{{y}}<br>%{{z:.3g}}<extra></extra>"
    heat = heatmap(values, ramp, (0, most or float(values.max()) or 1.0), hovertemplate=said)
    layout = bare_layout(colours, height, (44, 8, 6, 40))
    for axis, title, ends in (("x", across, [-0.5, columns - 0.5]), ("y", down, [rows - 0.5, -0.5])):
        layout[f"{axis}axis"] |= {"title": axis_title(title), "showgrid": False, "range": ends}
    line = {"color": colours.muted, "width": 1}
    borders = [columns * part / parts - 0.5 for part in range(1, parts)]
    layout["shapes"] = [shape("line", (at, at), (-0.5, rows - 0.5), line) for at in borders]
    return UncheckedFigure({"data": [heat], "layout": layout})


def place_words(name: str, language: str) -> str:
    """Return the words for a place in the residual stream, such as "model.layers.0.attention".

    >>> place_words("model.layers.2.feed_forward", "en")
    '2, feed-forward'
    """
    place = place_of_name(name)
    return text(f"model_plots.after.{place.kind}", language, layer=place.layer)


def _logarithmic(values: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic axis with ticks in full: plotly writes 0.05 as 5 where no power of ten is near.

    >>> _logarithmic([0.03, 0.08])["ticktext"], _logarithmic([3e-7, 2e-3])["ticktext"]
    (['0.03', '0.04', '0.05', '0.06', '0.07', '0.08'], ['0.000001', '0.00001', '0.0001', '0.001'])
    >>> _logarithmic([0.0168, 0.0232])["ticktext"]
    ['0.018', '0.02', '0.022']
    """
    shown = [max(value, _LEAST) for value in values if math.isfinite(value)] or [1.0]
    low = min(shown)
    high = max(shown)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    # Down to the second digit where all values are close.
    for digits in ((1,), (1, 2, 5), range(1, 10), *(range(10, 100, step) for step in (5, 2, 1))):
        ticks = [float(f"{digit}e{power - (digit > 9)}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if 0.99 * low <= tick <= 1.01 * high]
        if len(ticks) >= _TICKS:
            break
    return {"type": "log", "tickvals": ticks, "ticktext": [short_number(tick) for tick in ticks]}


def _strengths(values: Sequence[float], number: str) -> list[float]:
    """Return each colour's strength, 0 to 1: the worst is 1. Errors go by their logarithm."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return [0.0] * len(values)
    if number == "weight_db":
        scaled = [-min(value, max(finite)) for value in values]
        least = 3.0
    elif number == "sums_lost":
        scaled = list(values)
        least = 1.0
    else:
        scaled = [math.log10(max(value, _LEAST)) for value in values]
        least = _LEAST_POWERS
    low = min(scaled)
    span = max(max(scaled) - low, least)
    return [(value - low) / span for value in scaled]


def written(value: float, number: str) -> str:
    return decibels(value) if number == "weight_db" else short_number(value)


def _card(effect: LayerEffect, language: str) -> str:
    lines = [
        text(f"model_plots.card.{name}", language, value=written(getattr(effect, name), name))
        for name in ("weight_db", "rel_out", "kl_alone", "kl_others", "sums_lost")
        if getattr(effect, name) is not None
    ]
    return "<br>".join((f"<b>{effect.name}</b>", *lines))
