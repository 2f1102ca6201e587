"""A knob under the hand: the browser has the sentence and the pictures of each of its stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.figures.marks import Marks
from quantviz.figures.theme import THEMES
from quantviz.ui.components.component import component, counted
from quantviz.ui.shell.words import language, theme, unbroken

#: CSS pixels free beside a picture's frame: on its left and right, above and below.
_EDGES = (8, 8, 8, 8)


@dataclass(frozen=True, eq=False)
class Plot:
    """A picture below the knob, made of marks in a frame."""

    caption: str
    #: Describes the picture.
    alt: str
    #: The ends of both axes: left, right, bottom, top.
    frame: tuple[float, float, float, float]
    #: From back to front.
    marks: tuple[Marks, ...]
    #: The names of its parts, each with its colour.
    names: tuple[tuple[str, str], ...] = ()
    #: Whether both axes have one unit.
    equal: bool = False
    #: How many times larger its marks and words are.
    larger: float = 1.0
    #: CSS pixels.
    height: float = 150
    edges: tuple[float, float, float, float] = _EDGES
    #: The caption at each stop, where it changes.
    captions: tuple[str, ...] = ()

    def header(self) -> dict[str, Any]:
        """Return the words, sizes and kinds that the script reads; places of marks are arrays beside them."""
        marks = [
            {
                "draw": each.draw,
                "color": each.color,
                "size": self.larger * each.size if each.draw == "dots" else each.size,
                "dashed": each.dashed,
                "hollow": each.hollow,
                "labels": each.labels,
                "align": each.align,
                "nudge": each.nudge,
                "base": each.base,
                "count": each.x.shape[-1],
            }
            for each in self.marks
        ]
        captions = list(map(unbroken, self.captions)) or None
        height = self.larger * self.height
        return {**vars(self), "marks": marks, "captions": captions, "height": height}


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
    count, let_go = counted(key, lambda it: take(values[it["stop"]]))
    header = {
        "key": key,
        "count": count,
        "title": title,
        "stops": [f"{value:g}" if labels is None else labels[value] for value in values],
        "words": list(map(unbroken, stops.values())),
        "now": values.index(now),
        "presses": presses,
        "plots": {str(at): plot.header() for at, plot in enumerate(plots)},
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
        f"plots.{at}.{axis}{layer}": getattr(marks, axis).flatten().astype(np.float32)
        for at, plot in enumerate(plots)
        for layer, marks in enumerate(plot.marks)
        for axis in "xy"
    }

    component("quantviz_dial", "dial_component")(
        key=key, data=pack(header, arrays), on_stop_change=(let_go, lambda it: it["stop"] < len(values))
    )
