"""Nested lists of numbers, flattened without torch."""

from __future__ import annotations

import itertools
import math
from array import array
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape

MOST_TYPED_AXES = 4
#: The smallest number that float32 rounds to infinity.
BEYOND_FLOAT32 = 2.0**128 - 2.0**103


def flattened(nested: Any, most: int) -> tuple[array[float], Shape]:
    """Return the numbers in nested lists or anything that has `tolist()`, last axis fastest, and their shape.

    Errors are those of `Typed.of`.
    """
    shape: Shape = ()
    items = [nested.tolist() if hasattr(nested, "tolist") else nested]
    while items and isinstance(items[0], list | tuple):
        length = len(items[0])
        _check_growth(shape, length, most)
        for number, item in enumerate(items, start=1):
            if not isinstance(item, list | tuple):
                raise QuantVizError("typed.not_number", index=_index_of(number - 1, shape), got=_shown(item))
            if len(item) != length:
                raise QuantVizError("typed.ragged_rows", row=number, got=len(item), expected=length)
        shape = (*shape, length)
        items = list(itertools.chain.from_iterable(items))
    if not shape:
        raise QuantVizError("input_not_tensor", got=type(nested).__name__)
    return array("d", (_as_float(item, position, shape) for position, item in enumerate(items))), shape


def _shown(item: Any) -> Any:
    """Return a wrong item, shortened for a message; of a list only its type."""
    if isinstance(item, str):
        return clipped_word(item)
    if item is None or isinstance(item, bool | int | float):
        return item
    return type(item).__name__


def _check_growth(shape: Shape, length: int, most: int) -> None:
    if length == 0:
        raise QuantVizError("input_empty", shape=(*shape, 0))
    if len(shape) == MOST_TYPED_AXES:
        raise QuantVizError("typed.axes", got=MOST_TYPED_AXES + 1, most=MOST_TYPED_AXES)
    if math.prod(shape) * length > most:
        raise QuantVizError("typed.too_many", most=most)


def _index_of(position: int, shape: Shape) -> Shape:
    index: list[int] = []
    for length in reversed(shape):
        position, here = divmod(position, length)
        index.append(here)
    return tuple(reversed(index))


def _as_float(item: Any, position: int, shape: Shape) -> float:
    if isinstance(item, bool) or not isinstance(item, int | float):
        raise QuantVizError("typed.not_number", index=_index_of(position, shape), got=_shown(item))
    try:
        value = float(item)
    except OverflowError:
        value = math.inf
    if abs(value) >= BEYOND_FLOAT32 and not (type(item) is float and math.isinf(item)):
        raise QuantVizError(
            "typed.not_number_beyond", index=_index_of(position, shape), got=clipped_word(str(item)[:50])
        )
    return value


def clipped_word(word: str) -> str:
    return word if len(word) <= 24 else word[:23] + "…"
