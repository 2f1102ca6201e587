"""The search for the parts of a tensor to keep apart: candidates in several orders, then sets, all tried.

Taking out the loudest part, then the next, is not enough: of four equally loud columns any one gains nothing,
Taking out the loudest part, then the next, is not enough: of four equally loud columns any one gains nothing,
and all four gain most. So whole prefixes of each order are tried, and their members exchanged, one and two at
a time. Estimates only order candidates: the gain of a set is always that of a quantization.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch

from quantviz.analysis.counterfactuals import Array, Counterfactuals, Numbers
from quantviz.streaming.regions import place_of
from quantviz.streaming.threads import runs_between
from quantviz.tensors.blocks import block_numbers, flat_indices_of

POOL = 16
#: Blocks of widest range, and as many evenly spaced.
_BLOCKS = 128
#: Elements behind a guess at the rounding for one scale.
_SAMPLE = 2**14
_ELEMENTS_PER_CHUNK = 2**19
#: All sets are tried up to this many.
_FEW_SETS = 256
#: Above so many parts only some numbers of them are tried.
_EACH = 8


def counts_to_try(most: int, magnitudes: Array) -> list[int]:
    """Return how many parts to try: each number to 8, then ever fewer, and where magnitudes drop most.

    >>> counts_to_try(20, np.array([9.0] * 11 + [1.0] * 30))
    [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 20]
    """
    tried = {*range(1, min(_EACH, most) + 1), most}
    size = _EACH
    while size < most:
        tried |= {size, min(size * 3 // 2, most)}
        size *= 2
    top = magnitudes[: most + 1]
    if len(top) > 1:
        drops = top[:-1] / np.maximum(top[1:], np.finfo(np.float64).tiny)
        tried |= {int(at) + 1 for at in np.argsort(-drops, kind="stable")[:2]}
    return sorted(count for count in tried if 1 <= count <= most)


def best_sets(
    noise: Callable[[Numbers], float],
    orders: Sequence[Sequence[int]],
    counts: Sequence[int],
    trials: int,
) -> dict[int, Numbers]:
    """Return the best set of each size, by the noise of the whole with that set kept apart.

    `orders` are candidates, the likeliest first; `counts` ascend; at most `trials` sets are tried.

    >>> gain = lambda s: 10.0 - (9.0 if {1, 3} <= set(s) else 0.0) - (0.5 if 0 in s else 0.0)
    >>> best_sets(gain, [[0, 1, 2, 3]], [1, 2], 100)
    {1: (0,), 2: (1, 3)}
    """
    search = _BestSets(noise, trials)
    for size, order in itertools.product(counts, orders):
        search.offer(order[:size], size)
    pool = in_turn(orders)[:POOL]
    for sets in (_one_more, _exchanged, _two_more, _any):
        for size in counts:
            for candidate in sets(search.best, size, pool):
                if not search.offer(candidate, size):
                    return search.best
    return search.best


class _BestSets:
    def __init__(self, noise: Callable[[Numbers], float], trials: int) -> None:
        self.best: dict[int, Numbers] = {}
        self._noise = noise
        self._left = trials
        self._known: dict[Numbers, float] = {}

    def offer(self, candidate: Iterable[int], size: int) -> bool:
        """Try a set, skipped unless of `size` parts; return whether more trials are left."""
        numbers = tuple(sorted(candidate))
        if len(numbers) != size or len(set(numbers)) != size:
            return True
        if numbers not in self._known:
            if self._left <= 0:
                return False
            self._left -= 1
            self._known[numbers] = self._noise(numbers)
        best = self.best.get(size)
        if best is None or self._known[numbers] < self._known[best]:
            self.best[size] = numbers
        return True


def _one_more(best: dict[int, Numbers], size: int, pool: Sequence[int]) -> Iterator[Numbers]:
    # The best set of one less with each candidate, and of one more without each member.
    for part in pool:
        yield (*best.get(size - 1, ()), part)
    more = best.get(size + 1, ())
    for part in more:
        yield tuple(one for one in more if one != part)


def _exchanged(best: dict[int, Numbers], size: int, pool: Sequence[int]) -> Iterator[Numbers]:
    # Members are exchanged for candidates as long as one is better.
    tried = None
    while tried != best.get(size):
        tried = best.get(size)
        for out, part in itertools.product(tried or (), pool):
            yield (*(one for one in tried or () if one != out), part)


def _two_more(best: dict[int, Numbers], size: int, pool: Sequence[int]) -> Iterator[Numbers]:
    fewer = best.get(size - 2, ())
    for pair in itertools.combinations([part for part in pool if part not in fewer], 2):
        yield (*fewer, *pair)


def _any(best: dict[int, Numbers], size: int, pool: Sequence[int]) -> Iterator[Numbers]:
    if math.comb(len(pool), size) <= _FEW_SETS:
        yield from itertools.combinations(pool, size)


def in_turn(orders: Iterable[Sequence[int]]) -> list[int]:
    """Return the first of each order, then the second, and so on, none twice.

    >>> in_turn([[5, 7], [5], [1, 2, 3]])
    [5, 1, 7, 2, 3]
    """
    turns = itertools.zip_longest(*orders, fillvalue=-1)
    return [part for part in dict.fromkeys(itertools.chain.from_iterable(turns)) if part >= 0]


# ---- candidates ---------------------------------------------------------------------------------


def by_magnitude(tried: Counterfactuals, most: int) -> tuple[list[int], Array]:
    """Return the parts of largest |x|, the largest first, and those magnitudes."""
    if tried.of_cells:
        places, sizes = _largest_cells(tried, most)
        return places.tolist(), sizes
    order = largest_first(tried.magnitudes, most)
    return order.tolist(), tried.magnitudes[order]


def by_suffering(tried: Counterfactuals, most: int) -> list[int]:
    """Return the parts of the largest error, as far as it is known without a pass."""
    if tried.suffered is not None:
        parts: list[int] = largest_first(tried.suffered, most).tolist()
        return parts
    if not tried.of_cells:
        return []
    flat = [np.ravel_multi_index(cell.index, tried.x.shape) for cell in tried.study.survey.cells]
    return [int(part) for part in flat][:most]


def by_likely_cost(tried: Counterfactuals, most: int) -> list[int]:
    """Return the parts that probably cost most: the largest of each block, by the fall of its rounding error.

    Equal magnitudes gain something only if all are taken out, and each counts with its share.
    """
    study = tried.study
    layout = tried.study.layout
    steps = max(abs(study.scheme.value_max), abs(study.scheme.value_min), 1.0)
    gains: dict[int, float] = {}
    for block in _blocks_to_look_at(tried):
        if layout.block_count == 1 and study.result is None:
            order, tops = by_magnitude(tried, POOL + 1)
            sizes = _sample(tried)
            weight = tried.x.count / len(sizes)
        else:
            sizes = np.abs(study.block_values(block).flatten().numpy().astype(np.float64))
            sizes[~np.isfinite(sizes)] = 0
            places = flat_indices_of(layout.view_shape, layout.window(block)).flatten()
            blocks = block_numbers(places, tried.layout).numpy()
            among, inverse = np.unique(blocks, return_inverse=True)
            largest = np.zeros(len(among))
            np.maximum.at(largest, inverse, sizes)
            ranked = largest_first(largest, POOL + 1)
            order = among[ranked].tolist()
            tops = largest[ranked]
            weight = 1.0
        for part, gain in zip(order, _shares_of_gain(sizes, tops, steps), strict=False):
            gains[part] = gains.get(part, 0.0) + weight * gain
    parts = sorted((part for part, gain in gains.items() if gain > 0), key=lambda part: -gains[part])
    return parts[:most]


def _shares_of_gain(sizes: Array, tops: Array, steps: float) -> list[float]:
    """Return how much a block's rounding error would fall without each of its parts.

    Cells have magnitudes `sizes`; parts have largest magnitudes `tops`, falling. The shares are the slopes of
    the least concave curve over the gains of any number of parts.

    >>> _shares_of_gain(np.array([1.0, 1.0, 8.0, 8.0]), np.array([8.0, 8.0, 1.0]), 7.0)[0] > 0
    True
    """
    steps2 = np.square(tops / steps)[:, None] / 12
    noise = np.where(sizes <= tops[:, None], np.minimum(np.square(sizes), steps2), 0.0).sum(-1)
    gains = noise[0] - noise
    runs: list[tuple[float, int]] = []
    for rise in np.diff(gains):
        runs.append((float(rise), 1))
        while len(runs) > 1 and runs[-1][0] / runs[-1][1] > runs[-2][0] / runs[-2][1]:
            total, count = runs.pop()
            runs[-1] = runs[-1][0] + total, runs[-1][1] + count
    return [total / count for total, count in runs for _ in range(count)]


def _blocks_to_look_at(tried: Counterfactuals) -> Iterator[tuple[int, ...]]:
    layout = tried.study.layout
    if layout.block_count <= 2 * _BLOCKS:
        chosen = range(layout.block_count)
    else:
        numbers: list[int] = np.linspace(0, layout.block_count - 1, _BLOCKS).astype(np.int64).tolist()
        if tried.study.range is not None:
            widths = (tried.study.range.hi - tried.study.range.lo).flatten().to(torch.float64).numpy()
            numbers += largest_first(widths, _BLOCKS).tolist()
        return (place_of(number, layout.grid_shape) for number in dict.fromkeys(numbers))
    return (place_of(number, layout.grid_shape) for number in chosen)


def _sample(tried: Counterfactuals) -> Array:
    # Evenly spaced runs of elements.
    runs = np.linspace(0, tried.x.count - _SAMPLE // 16, 16).astype(np.int64).tolist()
    values = np.concatenate([tried.x.run(start, start + _SAMPLE // 16) for start in runs])
    sizes = np.abs(values[np.isfinite(values)].astype(np.float64))
    return sizes if len(sizes) else np.zeros(1)


def _largest_cells(tried: Counterfactuals, most: int) -> tuple[Array, Array]:
    """Return flat places and magnitudes of the cells of largest finite |x|, the largest first."""
    places = np.zeros(0, np.int64)
    sizes = np.zeros(0, np.float32)
    for start, stop in runs_between(tried.x.count, _ELEMENTS_PER_CHUNK):
        magnitudes = np.abs(tried.x.run(start, stop))
        magnitudes = np.where(np.isfinite(magnitudes), magnitudes, 0)
        at = np.flatnonzero(magnitudes > sizes[-1]) if len(sizes) >= most else np.arange(len(magnitudes))
        if len(at):
            places = np.concatenate([places, at + start])
            sizes = np.concatenate([sizes, magnitudes[at]])
            ranked = largest_first(sizes, most)
            places = places[ranked]
            sizes = sizes[ranked]
    return places, sizes.astype(np.float64)


def largest_first(values: Array, most: int) -> Array:
    """Return the places of the largest values, of equal ones the first."""
    if most < len(values):
        least = np.partition(values, len(values) - most)[len(values) - most]
        among = np.flatnonzero(values >= least)
    else:
        among = np.arange(len(values))
    return np.asarray(among[np.argsort(-values[among], kind="stable")][:most])
