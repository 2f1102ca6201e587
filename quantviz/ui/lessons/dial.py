"""The dial of a lesson's step: its sentence, its knob and its pictures, of which hidden ones are not sent."""

from __future__ import annotations

from collections.abc import Callable

from quantviz.figures.numbers import short_number
from quantviz.teaching.lessons.dial_series import MarksPicture
from quantviz.teaching.lessons.dials import DIALS, DialState
from quantviz.ui.components.dial import Plot, show_dial
from quantviz.ui.lessons.now import Now
from quantviz.ui.shell import errors
from quantviz.ui.shell.classroom import enlarge_lesson
from quantviz.ui.shell.words import say

#: The parts of a step that show a dial's pictures, in their order.
_PICTURES = ("dial.picture", "dial.beside")


def show_lesson_dial(now: Now, state: DialState, take: Callable[[str], None]) -> None:
    """Show the dial of a step at the stop in hand; `take` gets the stop at which the hand lets go."""
    series = state.series
    shown = now.step.show - now.covered
    words = dict.fromkeys(series.stops, "")
    if "dial.numbers" in shown:
        for stop, numbers in zip(series.stops, series.numbers, strict=True):
            told = {name: short_number(value, 4 if value >= 1000 else 3) for name, value in numbers.items()}
            words[stop] = say(f"lessons.dials.{state.dial}.said", **told)
    plots = tuple(
        _plot(picture) for part, picture in zip(_PICTURES, series.pictures, strict=False) if part in shown
    )
    title = say(f"lessons.dials.{state.dial}.title")
    show_dial(
        "lesson_dial",
        title,
        words,
        state.at,
        plots,
        errors.safely(take),
        dict(zip(series.stops, series.labels or series.stops, strict=True)),
        presses=DIALS[state.dial].presses,
    )


def _plot(picture: MarksPicture) -> Plot:
    """Return a picture of marks with the words of the session's language."""
    words = say(f"lessons.dials.{picture.words}")
    names = tuple((say(f"lessons.dials.{name}"), color) for name, color in picture.names)
    larger = enlarge_lesson() or 1.0
    return Plot(words, words, picture.frame, picture.marks, names, picture.equal, larger, picture.height)
