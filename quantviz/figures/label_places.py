"""Where names beside points stand, so that none touches another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: Points at most so far apart, as a share of the plot's width, are labelled on the same side.
_CLUSTER = 0.15
#: Between a cluster and its labels, as a share of the plot's width.
_ASIDE = 0.07


def label_sides(bits: Sequence[float], bits_range: tuple[float, float]) -> list[tuple[float, str]]:
    """Return for each point where its label begins, in bits, and on which side: beside its cluster, toward
    the middle of the plot.
    """
    width = bits_range[1] - bits_range[0]
    middle = sum(bits_range) / 2
    places: dict[int, tuple[float, str]] = {}
    for cluster in _clusters(bits, _CLUSTER * width):
        low = bits[cluster[0]]
        high = bits[cluster[-1]]
        right = (low + high) / 2 <= middle
        for i in cluster:
            places[i] = (high + _ASIDE * width, "right") if right else (low - _ASIDE * width, "left")
    return [places[i] for i in range(len(bits))]


def _clusters(bits: Sequence[float], near: float) -> Iterator[list[int]]:
    """Split the places in `bits`, ascending, into runs whose neighbours are at most `near` apart."""
    cluster: list[int] = []
    for i in sorted(range(len(bits)), key=lambda i: bits[i]):
        if cluster and bits[i] - bits[cluster[-1]] > near:
            yield cluster
            cluster = []
        cluster.append(i)
    if cluster:
        yield cluster


def spread(wanted: Sequence[float], gap: float, limits: tuple[float, float]) -> list[float]:
    """Return places at least `gap` apart, as near to the wanted ones as that allows, inside the limits.

    >>> spread([5.0, 5.0, 9.0], 2.0, (0.0, 10.0))
    [4.0, 6.0, 9.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    low = limits[0] + gap / 2
    high = limits[1] - gap / 2
    # Neighbours that touch are joined, and a joined group stands around the mean of its wanted places.
    groups: list[list[float]] = []
    for rank, i in enumerate(order):
        groups.append([max(low + rank * gap, min(wanted[i], high - (len(order) - 1 - rank) * gap))])
        while len(groups) > 1 and _start(groups[-1], gap) < _start(groups[-2], gap) + len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    placed = [_start(group, gap) + i * gap for group in groups for i in range(len(group))]
    return [placed[order.index(i)] for i in range(len(wanted))]


def _start(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2
