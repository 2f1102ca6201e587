"""The frame around the lit cells of a window, as a path."""

from __future__ import annotations

import numpy as np

from quantviz.figures.colour_ranges import Array


def outline(lit: Array, top: int = 0, left: int = 0) -> str:
    """Return a path around the lit cells of a window, a little inside them: neighbours share one frame, or
    all lit would be a cage.

    In absolute places, for plotly reads no relative ones.

    >>> outline(np.array([[False, True]]))
    'M0.54,-0.46H1.46V0.46H0.54Z'
    """
    dark = ~np.pad(lit, 1)
    path = []
    # Among lit cells there is nothing to draw.
    edge = lit & (dark[:-2, 1:-1] | dark[2:, 1:-1] | dark[1:-1, :-2] | dark[1:-1, 2:])
    for row, col in np.argwhere(edge).tolist():
        open_up, open_down, open_left, open_right = (
            bool(dark[row + i, col + j]) for i, j in ((0, 1), (2, 1), (1, 0), (1, 2))
        )
        x = left + col
        y = top + row
        # A side reaches the neighbour's where that is lit too.
        x0 = x - (0.46 if open_left else 0.5)
        x1 = x + (0.46 if open_right else 0.5)
        y0 = y - (0.46 if open_up else 0.5)
        y1 = y + (0.46 if open_down else 0.5)
        if open_up and open_down and open_left and open_right:
            path.append(f"M{x0},{y0}H{x1}V{y1}H{x0}Z")
            continue
        path += [f"M{x0},{end}H{x1}" for end, open_side in ((y0, open_up), (y1, open_down)) if open_side]
        path += [f"M{end},{y0}V{y1}" for end, open_side in ((x0, open_left), (x1, open_right)) if open_side]
    return "".join(path)
