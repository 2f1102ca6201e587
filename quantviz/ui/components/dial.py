"""A knob under the hand: the browser has the sentence and the pictures of each of its stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.browser.packing import pack
from quantviz.figures.theme import THEMES
from quantviz.ui.components.component import component
from quantviz.ui.shell.words import language, theme, unbroken


@dataclass(frozen=True)
class Plot:
    """A picture below the knob: its header, and its arrays by their names in it."""

    header: Mapping[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


def show_dial(
    key: str,
    title: str,
    stops: Mapping[Any, str],
    now: Any,
    plots: tuple[Plot, ...],
    take: Callable[[Any], None],
    labels: Mapping[Any, str] | None = None,
    *,
    presses: bool = False,
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
        presses: Whether there is a button for each value in place of a slider.
    """
    values = list(stops)
    colours = THEMES[theme()]
    header = {
        "key": key,
        "title": title,
        "stops": [f"{value:g}" if labels is None else labels[value] for value in values],
        "words": list(map(unbroken, stops.values())),
        "now": values.index(now),
        "presses": presses,
        "plots": {str(at): dict(plot.header) for at, plot in enumerate(plots)},
        "language": language(),
        "colors": {
            **colours.named("text", "muted", "line", "accent", "font", "lit", "surface"),
            "first": colours.schemes[0],
            "second": colours.schemes[1],
            "third": colours.schemes[2],
            "red": colours.errors[-1],
        },
    }
    arrays = {
        f"plots.{at}.{name}": numbers.flatten().astype(np.float32)
        for at, plot in enumerate(plots)
        for name, numbers in plot.arrays.items()
    }

    def let_go(stop: int) -> None:
        if values[stop] != now:
            take(values[stop])

    component("quantviz_dial", "dial_component")(
        key=key, data=pack(header, arrays), on_stop_change=(let_go, lambda stop: stop < len(values))
    )
