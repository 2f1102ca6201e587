"""Windows of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from quantviz.schemes.granularity import Shape, Window


def indices(part: int | slice) -> range:
    """>>> indices(3), indices(slice(0, 4, 2))
    (range(3, 4), range(0, 4, 2))
    """
    return range(part, part + 1) if isinstance(part, int) else range(part.start, part.stop, part.step)


def window_shape(window: Window) -> Shape:
    """>>> window_shape((slice(0, 4, 2), 3, slice(1, 2, 1)))
    (2, 1)
    """
    return tuple(len(indices(part)) for part in window if isinstance(part, slice))


def pieces(window: Window, most: int) -> Iterator[Window]:
    """Yield parts of at most `most` elements, in the order of the elements.

    >>> list(pieces((slice(0, 3, 1), 5, slice(0, 4, 1)), 8))
    [(slice(0, 2, 1), 5, slice(0, 4, 1)), (slice(2, 3, 1), 5, slice(0, 4, 1))]
    """
    lengths = [len(indices(part)) for part in window]
    count = math.prod(lengths)
    if count <= most:
        yield window
        return
    axis = next(axis for axis, length in enumerate(lengths) if length > 1)
    whole = indices(window[axis])
    indices_per_piece = max(1, most * lengths[axis] // count)
    # A file may declare any length: parts are made as they are asked for.
    for at in range(0, len(whole), indices_per_piece):
        run = whole[at : at + indices_per_piece]
        yield from pieces((*window[:axis], slice(run.start, run.stop, run.step), *window[axis + 1 :]), most)
