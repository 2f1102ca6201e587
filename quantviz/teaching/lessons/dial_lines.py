"""Numbers of a dial as lines over its stops, and pages that show the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from quantviz.figures.marks import Marks
from quantviz.figures.numbers import number
from quantviz.lab.state import opening
from quantviz.teaching.lessons.dial_series import MarksPicture, Tensor
from quantviz.tensors.views import View

MODEL_PAGE = "pages/explore/checkpoints.py"
FORMATS_PAGE = "pages/learn/formats.py"
_LAB_PAGE = "pages/lab/playground.py"


def against(
    words: str,
    places: npt.ArrayLike,
    numbers: Sequence[Mapping[str, float]],
    lines: Mapping[str, str],
    *,
    log: bool = False,
) -> MarksPicture:
    """Return a picture of some numbers over their stops, with discs at the present one.

    `words` is the caption's key, behind the dial's id; `lines` has the numbers' colours.
    """
    across = np.asarray(places, dtype=np.float64)
    values = np.array([[own[name] for own in numbers] for name in lines], dtype=np.float64)
    up = np.log10(values) if log else values
    low, high = up.min(), up.max()
    left, right = across[0], across[-1]
    room = 0.1 * (high - low)
    marks = [
        Marks(
            "words",
            np.full(2, left - 0.07 * (right - left)),
            np.array([low, high]),
            "muted",
            labels=(number(values.min(), 2), number(values.max(), 2)),
        )
    ]
    for line, color in zip(up, lines.values(), strict=True):
        marks += [Marks("line", across, line, color), Marks("dots", across[:, None], line[:, None], color, 6)]
    frame = (left - 0.14 * (right - left), right + 0.03 * (right - left), low - room, high + room)
    dial = words.partition(".")[0]
    return MarksPicture(
        words, frame, tuple(marks), tuple((f"{dial}.{name}", color) for name, color in lines.items())
    )


def in_lab(tensor: Tensor) -> Callable[[str], tuple[str, Mapping[str, str]]]:
    source, scheme = tensor
    state = opening().replace(
        source=source, scheme=scheme, view=View.of(source.shape), cell=(0,) * len(source.shape)
    )
    link = state.written()
    return lambda _: (_LAB_PAGE, link)
